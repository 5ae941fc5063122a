"""The script that compares two saved tables."""

import importlib.util
import json

import numpy as np
import pytest

from ngem.bench.results import load


@pytest.fixture(scope="module", name="script")
def _script(request):
    path = request.config.rootpath / "benchmarks/compare.py"
    spec = importlib.util.spec_from_file_location("compare", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(smoke=False, **rows):
    return {
        "smoke": smoke,
        "rows": [
            {"name": name, "value": None if values is None else np.median(values), "values": values}
            for name, values in rows.items()
        ],
        "machine": {"cores": 2, "processor": "one", "load_at_start": 0.1},
        "versions": {},
    }


def test_compare_tells_what_moved(script, tmp_path, monkeypatch, capsys):
    near = [0.9, 0.95, 1.0, 1.0, 1.05, 1.1]
    old = table(same=near, slower=near, never=[0.0] * 6, gone=[1.0])
    new = table(
        same=[value + 0.05 for value in near],
        slower=[value + 0.3 for value in near],
        never=[2.0] * 6,
        skipped=None,
    )
    for name, content in (("old", old), ("new", new)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    files = [str(tmp_path / f"{name}.json") for name in ("old", "new")]
    monkeypatch.setattr("sys.argv", ["compare.py", *files])
    script.main()
    printed = capsys.readouterr().out
    assert "slower: 1 -> 1.3 (+30%)" in printed
    assert "same:" not in printed
    assert "never: 0 -> 2\n" in printed
    assert "2 of 3 rows moved" in printed
    assert "in one table only: gone" in printed
    with pytest.raises(SystemExit, match="smoke run"):
        script.compare(old, table(smoke=True))


def test_compare_is_seldom_alarmed_by_noise(script):
    rng = np.random.default_rng(0)
    old, new = (
        table(**{str(n): list(1 + 0.1 * rng.standard_normal(5 + n % 11)) for n in range(400)})
        for _ in range(2)
    )
    changes, _ = script.compare(old, new)
    assert sum(change.moved for change in changes) < 8


def test_compare_finds_a_regression_of_every_committed_row(script, request):
    """Each row a third worse, as an edit to the code might make it, one at a time."""
    committed = load(request.config.rootpath / "docs/results/bench.json")
    rows = {row["name"]: row["values"] for row in committed["rows"] if row["value"] is not None}
    assert len(rows) > 80
    for name, values in rows.items():
        if np.median(values) == 0 or (name.startswith("growth") and abs(np.median(values)) < 0.1):
            continue  # a slope of zero: nothing to be a third of
        now = table(**{**rows, name: [value * 4 / 3 for value in values]})
        changes, _ = script.compare(table(**rows), now)
        moved = [change.name for change in changes if change.moved]
        # Where the rounds of one run differ by a third themselves, it is not beyond noise.
        is_noisy = len(values) < 6 and np.max(values) > 4 / 3 * np.min(values)
        assert moved == [name] or is_noisy, (name, values)


def test_compare_tells_few_rounds_apart(script):
    few = [1.0, 1.02, 1.05, 0.99, 1.01]
    cases = {
        "worse": ([value * 1.2 for value in few], True),
        "a little worse": ([value * 1.08 for value in few], False),
        "overlapping": ([1.3, 1.4, 1.3, 1.5, 1.04], False),
    }
    for name, (values, expected) in cases.items():
        (change,), _ = script.compare(table(**{name: few}), table(**{name: values}))
        assert change.moved == expected, name
