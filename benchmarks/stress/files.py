"""Damaged files of each kind: refused by an error of ours, or read as the very same thing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from common import Tally

import ngem
from ngem.tables.opening import opened
from ngem.tables.source import Source


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """Return bytes that are cut off, overwritten, repeated or mixed up."""
    changed, kind = bytearray(content), rng.integers(5)
    place = int(rng.integers(len(content)))
    length = int(rng.integers(1, 1 + min(64, len(content) - place)))
    if kind == 0:
        return bytes(changed[:place])
    if kind == 1:
        for _ in range(rng.integers(1, 5)):
            changed[rng.integers(len(changed))] = rng.integers(256)
    elif kind == 2:
        changed[place : place + length] = bytes(length)
    elif kind == 3:
        changed[place:place] = changed[place : place + length]
    else:
        del changed[place : place + length]
    return bytes(changed)


def read_table(path: Path) -> Any:
    with opened(path) as table:
        rows = Source(path, "y").load(table)[1]
    return rows.x, rows.y


def frame(rng: np.random.Generator) -> pl.DataFrame:
    columns = {name: rng.normal(size=60) for name in "aby"}
    return pl.DataFrame({**columns, "kind": rng.choice(["u", "v"], 60)})


def kinds(rng: np.random.Generator, work: Path) -> dict[str, tuple[Path, Callable[[Path], Any]]]:
    """Return an intact file of each kind, and how it is read."""
    x, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    quick = {"n_members": 1, "n_components": 2, "random_state": 0}
    network = ngem.MDNRegressor(hidden_sizes=(4,), max_epochs=2, guard=False, **quick)
    network.set_params(checkpoint=str(work / "fit.ckpt")).fit(x, y)
    network.save(work / "network.ngem")
    trees = ngem.MixtureBoostingRegressor(max_rounds=2, guard=False, **quick).fit(x, y)
    trees.save(work / "trees.ngem")
    frame(rng).write_csv(work / "table.csv")
    frame(rng).write_parquet(work / "table.parquet")
    load = lambda path: ngem.load(path).predict(x)  # noqa: E731

    def resume(path: Path) -> Any:
        return network.set_params(checkpoint=str(path)).fit(x, y).predict(x)

    return {
        "network": (work / "network.ngem", load),
        "trees": (work / "trees.ngem", load),
        "checkpoint": (work / "fit.ckpt", resume),
        "csv": (work / "table.csv", read_table),
        "parquet": (work / "table.parquet", read_table),
    }


def same(left: Any, right: Any) -> bool:
    left, right = ((part,) if isinstance(part, np.ndarray) else part for part in (left, right))
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(left, right, strict=True))


def run(rng: np.random.Generator, count: int, work: Path) -> dict[str, Tally]:
    tallies = {}
    for name, (path, load) in kinds(rng, work).items():
        tally = tallies[f"damaged {name} files"] = Tally()
        content, expected = path.read_bytes(), load(path)
        other = work / f"damaged{path.suffix}"
        for number in range(count):
            other.write_bytes(damaged(rng, content))

            def one(
                load: Any = load, name: str = name, right: Any = expected, other: Path = other
            ) -> str | None:
                found = load(other)
                # A table has no checksum: a number that is still a number is read.
                if name in ("csv", "parquet") or same(found, right):
                    return None
                return "a damaged file was read as something else"

            tally.attempt(f"damaged {name} {number}", one, ValueError)
    return tallies
