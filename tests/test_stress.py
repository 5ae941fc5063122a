"""The campaign of `make stress`, at its smallest: it runs, counts, and finds nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("parts", ["disks,commands", ""], ids=["quick", "all"])
def test_the_smallest_campaign_finds_nothing(parts, tmp_path):
    out = tmp_path / "results.json"
    command = [sys.executable, "benchmarks/stress", "--size", "smoke", "--parts", parts]
    environment = {**os.environ, "PYTHONPATH": str(TREE / "src")}
    done = subprocess.run(
        [*command, "--out", str(out)], cwd=TREE, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())["parts"]
    assert sum(part["tried"] for part in found.values()) > 15
    assert all(part["failed"] == 0 and not part["failures"] for part in found.values())
