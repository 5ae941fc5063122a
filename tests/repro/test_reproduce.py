"""The command at its smoke budget, and the committed reports."""

import dataclasses
import io
import json
import re
import subprocess
import sys

import pytest
from rich.console import Console

from ngem.repro import reproduce, runner, spec
from ngem.repro.claims import judge
from ngem.repro.comparison import TABLES
from ngem.repro.figures import FIGURES

from ..documents import as_user


@pytest.mark.parametrize("name", spec.ids())
def test_committed_reports_follow_from_the_committed_runs(name, request):
    """Tables and verdicts are computed anew, from runs that have the settings of the spec."""
    root = request.config.rootpath / reproduce.COMMITTED
    loaded = spec.load(name)
    path = root / loaded.runs / "results.json"
    saved = json.loads(path.read_text())
    assert saved["budget"] == "full"
    assert saved["settings"] == json.loads(json.dumps(loaded.settings))
    results = runner.saved_results(loaded, root)
    table = TABLES[name](loaded, results) if name in TABLES else None
    report = reproduce.as_markdown(loaded, results, table, judge(loaded, results))
    assert (root / name / "report.md").read_text() == report


#: What shares runs or programs goes together.
GROUPS = {
    "examples": "table1 table2 weights fig1 fig2 fig4 fig5 fig6 fig7",
    "images": "table3 table4 table9 fig8 fig9 fig10 low_rank objectives pruning",
    "splits": "table6 uci",
    "regression": "table5",
    "trees": "boosting boosting_peers families families_more strength",
}


def test_the_groups_hold_every_spec():
    assert sorted(" ".join(GROUPS.values()).split()) == sorted(spec.ids())


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_smoke_budget(group, tmp_path, data_dir):
    """`ngem reproduce ... --budget smoke`, as a user runs it."""
    names = GROUPS[group].split()
    program = "from ngem.cli import main; main()"
    arguments = ["reproduce", *names, "--budget", "smoke", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for name in names:
        text = (tmp_path / name / "report.md").read_text()
        assert re.search(r"Budget smoke: \d+ runs", text)
        assert "| verdict |" not in text  # runs this short decide nothing
        if name in FIGURES:
            assert (tmp_path / name / f"{name}.png").stat().st_size > 5000


@pytest.mark.slow
def test_a_run_of_a_smoke_budget_ends_in_a_report(tmp_path, data_dir, monkeypatch):
    """One run of `ngem reproduce table5 --budget smoke`, which has three, in this process."""
    one = {"objectives": [], "single": ["mse"]}
    loaded = spec.load("table5", "smoke")
    loaded = dataclasses.replace(loaded, settings={**loaded.settings, **one})
    monkeypatch.setattr(reproduce, "load", lambda *_: loaded)
    with as_user(monkeypatch, tmp_path):
        console = Console(file=io.StringIO())
        reproduce.reproduce(["table5"], budget="smoke", out=tmp_path, workers=1, console=console)
    text = (tmp_path / "table5" / "report.md").read_text()
    assert "Budget smoke: 1 runs" in text
    assert "| verdict |" not in text  # a run this short decides nothing


def test_the_summary_shows_every_committed_claim(request):
    rows = reproduce.summary(request.config.rootpath / reproduce.COMMITTED)
    assert ["fig1", "Fig. 1", "holds"] in [[row[0], row[1][:6], row[4]] for row in rows]
    assert {row[0] for row in rows} == {name for name in spec.ids() if spec.load(name).claims}


def test_summary_without_results_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="run ngem reproduce all first"):
        reproduce.summary(tmp_path)
