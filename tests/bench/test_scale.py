"""The benchmark of streams runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "scale.py"


@pytest.mark.slow
def test_the_smoke_run_writes_all_figures(tmp_path):
    out = tmp_path / "scale.json"
    command = [sys.executable, SCRIPT, "--smoke", "--directory", tmp_path, "--out", out]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    report = json.loads(out.read_text())
    assert report["size"]["rows"] == 20_000
    assert report["memory"]["stream"]["in_memory"] is False
    assert report["order"]["memory"]["loss_to_memory"] == 0
    assert len(report["order"]) == 5
