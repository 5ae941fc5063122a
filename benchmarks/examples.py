"""Run the scripts of `examples/` and record what their pages quote.

    python benchmarks/examples.py [survival.py ...]

Without names it runs all of them. The page of a new script has a line `    (output)` at first.

Writes what the scripts print to docs/results/examples.json and to the pages of docs/examples, and
the plots to docs/images. Sentences that repeat a figure are changed by hand: a test in
`tests/test_documents.py` finds them.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "docs/results/examples.json"

#: The page that quotes each run.
RUNS = {
    "energy.py": "energy.md",
    "medical_expenses.py": "medical_expenses.md",
    "survival.py": "survival.md",
    "wind_direction.py": "wind_direction.md",
    "inverse_kinematics.py": "inverse_kinematics.md",
    "two_sinusoids.py --objective ngem": "two_sinusoids.md",
    "two_sinusoids.py --objective nll": "two_sinusoids.md",
    "torch_two_sinusoids.py --loss ngem": "torch_loop.md",
}


def run(command: str, out: Path) -> list[str]:
    """Return the lines that a script prints, without those about the progress of training."""
    script, *options = command.split()
    plots = [] if script.startswith("torch") else ["--out", str(out)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / script), *options, *plots],
        capture_output=True,
        check=True,
        text=True,
    )
    return [line for line in done.stdout.splitlines() if not line.startswith("step ")]


def quote(lines: list[str]) -> str:
    """Return lines as a block of code on a page."""
    return "".join(f"    {line}\n" for line in lines)


def main() -> None:
    """Run scripts, then replace the lines that pages quote."""
    before = json.loads(RESULT.read_text())
    after = {command: lines for command, lines in before.items() if command in RUNS}
    wanted = sys.argv[1:]
    for command, name in RUNS.items():
        if wanted and command.split()[0] not in wanted:
            continue
        after[command] = run(command, ROOT / "docs/images")
        print(f"{command}\n{quote(after[command])}")
        page = ROOT / "docs/examples" / name
        old = quote(before.get(command, ["(output)"]))
        page.write_text(page.read_text().replace(old, quote(after[command])))
    # The page compares the objectives by their figures and shows one plot.
    (ROOT / "docs/images/two_sinusoids_nll.png").unlink(missing_ok=True)
    ordered = {command: after[command] for command in RUNS if command in after}
    RESULT.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    main()
