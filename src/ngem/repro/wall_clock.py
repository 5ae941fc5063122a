"""Wall-clock of 10^4 updates (Sec. 4.4, Table 6): objectives take turns on a machine left alone."""

import time
from dataclasses import dataclass
from typing import Any

from . import regression
from .store import Unit, rounded

#: Runs one after the other, since a neighbour would be measured, too.
ALONE = True


@dataclass(frozen=True)
class Settings:
    """Table 6.

    Attributes:
        datasets: Names of UCI sets, each with its learning rate and batch size.
        objectives: Names of objectives.
        repeats: How often each is measured.
        updates: Updates of a measurement, rounded up to whole epochs and reckoned back.
        n_components: Components of the mixture.
        separate: Whether weights and Gaussians have networks of their own.
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
    """Return seconds for the updates of each objective, programs already compiled."""
    rows = regression.scaled_rows(unit["dataset"], 1, 0.2)
    chosen = settings.datasets[unit["dataset"]]
    steps = -(-len(rows.train.y) // chosen["batch_size"])
    epochs = -(-settings.updates // steps)
    network = regression.make_network(
        rows, 1, n_components=settings.n_components, separate=settings.separate
    )
    # Whoever is first or last is another one each time.
    order = settings.objectives[unit["repeat"] % len(settings.objectives) :]
    order += settings.objectives[: unit["repeat"] % len(settings.objectives)]
    seconds = {}
    for objective in order:
        for passes in (1, epochs):
            started = time.perf_counter()
            regression.fit(network, rows, objective=objective, epochs=passes, **chosen)
            seconds[objective] = time.perf_counter() - started
    share = settings.updates / (epochs * steps)
    return {name: rounded(value * share) for name, value in seconds.items()}
