"""Run the core of the test suite with other interpreters and with the lowest allowed versions.

    python .ci/versions.py [3.11 3.12 ...] [--lowest] [--tests tests/families ...]

Each interpreter gets an environment of its own below `out/versions`, with the newest versions that
`pyproject.toml` allows, or with --lowest the lowest of every requirement that has one.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from shutil import which

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

#: What the core needs beside the package itself. PyTorch is large and has tests of its own.
EXTRAS = ("boost", "data", "plot", "tables")
TOOLS = ("beartype", "hypothesis", "pandas", "pytest", "pytest-timeout", "pytest-xdist")
CORE = ("families", "mixture", "objectives", "nn", "training", "optimizers")

INTERPRETERS = ("3.11", "3.12", "3.13", "3.14")


def lowest_versions() -> list[str]:
    """Return every requirement with a lower bound as one of exactly that version."""
    required = [*PROJECT["dependencies"]]
    for extra in EXTRAS:
        required += PROJECT["optional-dependencies"][extra]
    pinned = (re.match(r"([\w.-]+)>=([\d.]+)", one) for one in required)
    return sorted({f"{found[1]}=={found[2]}" for found in pinned if found})


def run(*command: str | Path, **more: str) -> None:
    """Run a command in the repository; a failure ends the script."""
    print("$", *command, flush=True)
    subprocess.run(list(map(str, command)), check=True, cwd=ROOT, env=os.environ | more)


def prepare(interpreter: str, name: str, constraints: list[str]) -> Path:
    """Return the Python of a fresh environment that holds the package."""
    place = ROOT / "out" / "versions" / name
    python = place / "bin" / "python"
    if not python.exists():
        run(interpreter, "-m", "venv", place)
    pins = place / "constraints.txt"
    pins.write_text("\n".join(constraints) + "\n")
    what = f".[{','.join(EXTRAS)}]"
    run(python, "-m", "pip", "install", "-q", "-c", pins, what, *TOOLS, "scoringrules")
    return python


def main() -> None:
    """Test each interpreter that is installed, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("interpreters", nargs="*", default=INTERPRETERS)
    parser.add_argument("--lowest", action="store_true")
    parser.add_argument("--tests", nargs="+", default=[f"tests/{name}" for name in CORE])
    arguments = parser.parse_args()
    tested = []
    for number in arguments.interpreters:
        interpreter = which(f"python{number}")
        if interpreter is None:
            print(f"python{number} is not installed: left out")
            continue
        name = f"{number}-lowest" if arguments.lowest else number
        python = prepare(interpreter, name, lowest_versions() if arguments.lowest else [])
        options = ("-n", "auto", "--dist", "worksteal", "-p", "no:cacheprovider")
        run(python, "-m", "pytest", *options, *arguments.tests, NPROC="1")
        tested.append(name)
    print("passed:", ", ".join(tested) or "nothing was tested")
    sys.exit(not tested)


if __name__ == "__main__":
    main()
