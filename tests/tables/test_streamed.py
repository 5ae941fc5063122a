"""`ngem fit --stream`."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from ngem import load
from ngem.cli import app
from ngem.tables import streamed
from ngem.tables.opening import TableError

TINY = ["--epochs", "2", "--hidden", "8", "-k", "2", "--batch-size", "32"]


def write(path, n_rows=600):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 2, (n_rows, 2))
    y = rng.choice([-1, 1], n_rows) * x[:, 0] + 0.1 * rng.standard_normal(n_rows)
    frame = pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "t": ["u", "v"] * (n_rows // 2), "y": y})
    frame.write_parquet(path, row_group_size=100)


def run(*arguments):
    return CliRunner().invoke(app, ["fit", *map(str, arguments)])


@pytest.mark.trains
@pytest.mark.slow
def test_a_directory_is_learned_from_and_the_model_predicts(tmp_path, monkeypatch):
    (tmp_path / "rows").mkdir()
    write(tmp_path / "rows" / "a.parquet")
    out, started = tmp_path / "m.ngem", streamed.Stream

    def small(*arguments, **settings):
        return started(*arguments, **settings, window=256 * 16)

    monkeypatch.setattr(streamed, "Stream", small)
    result = run(tmp_path / "rows", "--target", "y", "--stream", "--json", "--out", out, *TINY)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["rows"] == 600
    assert facts["training_rows"] == 540
    assert facts["validation_rows"] == 60
    assert not facts["stream"]["in_memory"]
    model = load(out)
    assert model.table_.names == ["a", "b", "t"]
    assert "--stream" in model.table_.command
    assert np.isfinite(model.held_out_pit_).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--stream", "--model", "trees"], "--model of --stream must be one of 'network'"),
        (["--stream", "--max-rows", 5], "--max-rows must not come with --stream"),
        (["--stream", "--missing", "drop"], "--missing of --stream must be"),
        (["--stream", "--memory", "much"], "--memory must be a size such as 500MB"),
        (["--memory", "1GB"], "--memory must come with --stream"),
        (["--stream", "--features", "z"], "features must name columns of the stream, got z"),
    ],
)
def test_options_that_a_stream_cannot_have_are_refused(tmp_path, options, words):
    write(tmp_path / "a.parquet")
    result = run(tmp_path / "a.parquet", "--target", "y", *options, "--out", tmp_path / "m")
    assert result.exit_code == 1
    assert words in " ".join(result.output.split())
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("text", "size"), [("1GB", 10**9), ("1.5 MiB", 3 * 2**19), ("500mb", 5 * 10**8), ("7", 7)]
)
def test_memory_has_units(text, size):
    assert streamed.read_memory(text) == size


@pytest.mark.parametrize("text", ["", "GB", "1TB", "-1MB"])
def test_other_sizes_are_refused(text):
    with pytest.raises(TableError, match="--memory must be a size"):
        streamed.read_memory(text)
