"""Wall-clock time of 10^4 updates (Sec. 4.4, Table 6): objectives take turns, nothing else runs."""

import time
from dataclasses import dataclass
from typing import Any

from . import regression
from .store import Unit, rounded

#: Runs one after the other: a parallel run would change the times.
ALONE = True


@dataclass(frozen=True)
class Settings:
    """Table 6.

    Attributes:
        datasets: Names of UCI sets, each with its learning rate and batch size.
        objectives: Names of objectives.
        repeats: How often each is measured.
        updates: Updates of a measurement. Whole epochs are run, and their time is scaled.
        n_components: Components of the mixture.
        separate: Whether weights and Gaussians have separate networks.
    """

    datasets: dict[str, dict[str, Any]]
    objectives: list[str]
    repeats: int
    updates: int
    n_components: int
    separate: bool


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each set and repeat; the objectives take turns within."""
    return [
        {"dataset": name, "repeat": repeat}
        for repeat in range(settings.repeats)
        for name in settings.datasets
    ]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return the seconds of each objective, without compilation."""
    rows = regression.scaled_rows(unit["dataset"], 1, 0.2)
    chosen = settings.datasets[unit["dataset"]]
    steps = -(-len(rows.train.y) // chosen["batch_size"])
    epochs = -(-settings.updates // steps)
    network = regression.make_network(
        rows, 1, n_components=settings.n_components, separate=settings.separate
    )
    # Rotate the order, so that no objective is always first.
    order = settings.objectives[unit["repeat"] % len(settings.objectives) :]
    order += settings.objectives[: unit["repeat"] % len(settings.objectives)]
    seconds = {}
    for objective in order:
        for passes in (1, epochs):  # the first compiles, the second is kept
            started = time.perf_counter()
            regression.fit(network, rows, objective=objective, epochs=passes, **chosen)
            seconds[objective] = time.perf_counter() - started
    fraction = settings.updates / (epochs * steps)
    return {name: rounded(value * fraction) for name, value in seconds.items()}
