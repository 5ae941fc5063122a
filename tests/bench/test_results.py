"""Saved tables: what they hold and how they are shown."""

import json
import re

import pytest

from ngem.bench import results
from ngem.bench.measure import Figure
from ngem.bench.rows import ROWS


def figure(name, **more):
    return Figure(name, "how", "at most 1", "ratio", "s", **more)


def test_a_saved_table_loads_and_keeps_the_order_of_rows(tmp_path):
    path = tmp_path / "new" / "bench.json"
    names = [ROWS[4].name, ROWS[1].name]
    first, second = (figure(name, value=1 / 3, low=0.25, high=0.5, met=True) for name in names)
    results.save(path, [first], {"cores": 2}, earlier=[second.as_dict()])
    saved = results.load(path)
    assert [row["name"] for row in saved["rows"]] == names[::-1]
    assert saved["rows"][0]["value"] == 0.333333
    assert saved["machine"] == {"cores": 2}
    assert saved["versions"]["ngem"]


def test_versions_of_peers_that_are_not_installed_are_kept(tmp_path, monkeypatch):
    """Their rows are kept too."""
    path, facts = tmp_path / "bench.json", {"cores": 2}
    results.save(path, [figure(ROWS[0].name, value=1.0)], facts)
    saved = json.loads(path.read_text())
    path.write_text(json.dumps({**saved, "versions": {**saved["versions"], "zuko": "0.0.1"}}))
    installed = {name: one for name, one in results._versions().items() if name != "zuko"}
    monkeypatch.setattr(results, "_versions", lambda: installed)
    rows, versions = results.earlier_run(path, facts, smoke=False)
    results.save(path, [figure(ROWS[1].name, value=2.0)], facts, earlier=rows, versions=versions)
    after = results.load(path)
    assert after["versions"] == {**installed, "zuko": "0.0.1"}
    assert [row["name"] for row in after["rows"]] == [ROWS[0].name, ROWS[1].name]
    monkeypatch.setattr(results, "_versions", lambda: {**installed, "zuko": "9.9"})
    with pytest.raises(ValueError, match="got another zuko"):
        results.earlier_run(path, facts, smoke=False)


@pytest.mark.parametrize("content", ["[]", "{}", "not JSON"])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "other.json").write_text(content)
    with pytest.raises(ValueError, match="expected a table that ngem bench --out wrote"):
        results.load(tmp_path / "other.json")


def test_cells_show_times_in_readable_units():
    times = {"a": 2.0, "b": 0.02, "c": 2e-5, "d": 2e-8}
    row = figure("r", value=1.0, low=0.9, high=1.1, met=False, parts=times, note="n").as_dict()
    cells = results._cells(row)
    assert cells == [
        "r",
        "at most 1",
        "1.00",
        "0.90 to 1.10",
        "no",
        "a 2 s; b 20 ms; c 20 µs; d 20 ns. n",
    ]
    skipped = results._cells(figure("r", note="skipped").as_dict())
    assert skipped == ["r", "at most 1", "", "", "", "skipped"]


def test_a_table_without_growth_has_no_picture(tmp_path):
    table = {"rows": [figure("r", value=1.0).as_dict()]}
    assert not results.draw_growth(table, tmp_path / "growth.png")
    assert not list(tmp_path.iterdir())


def test_saved_tables_hold_plain_json(tmp_path):
    results.save(tmp_path / "bench.json", [figure("r", value=1.0)], results.machine())
    assert json.loads((tmp_path / "bench.json").read_text())["smoke"] is False


def test_the_page_shows_the_committed_run(request):
    """The table of the page is made anew from the saved run, and its rows are explained."""
    root = request.config.rootpath
    page = (root / "docs/performance.md").read_text()
    shown = re.search(r"<!-- bench -->\n(.*)<!-- /bench -->", page, re.S).group(1)
    saved = results.load(root / "docs/results/bench.json")
    assert shown.strip() == results.as_markdown(saved).strip()
    assert {row["name"] for row in saved["rows"]} <= {row.name for row in ROWS}
    for row in ROWS:
        assert f"| `{row.group}` |" in page
