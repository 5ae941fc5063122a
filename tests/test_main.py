"""The command without the packages that it needs."""

import subprocess
import sys


def run(missing, *arguments):
    code = (
        "import sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "from ngem.__main__ import main\n"
        f"sys.argv = ['ngem', *{list(arguments)!r}]\n"
        "main()\n"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_plain_install_is_told_what_to_install_in_one_line():
    for missing in ("typer", "rich"):
        done = run(missing, "fit", "a.csv")
        assert done.returncode == 1
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"Error: the command needs {missing}")
        assert line.endswith("pip install 'ngem[tables,boost]'.")


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "ngem", "--version"], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("ngem ")
