"""Runs of experiments: side by side, kept as they come, continued where they stopped."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import ModuleType

from .spec import Spec, make_settings
from .store import Results, Unit

#: Modules of this package that make runs. Each has `Settings`, `units(settings)` and
#: `run(settings, unit)`; one that measures time has `ALONE = True` and runs by itself.
EXPERIMENTS = (
    "inverse_mnist",
    "objective_study",
    "one_gaussian",
    "regression",
    "standard_splits",
    "two_gaussians",
    "two_sinusoids",
    "unequal_weights",
    "wall_clock",
)

Report = Callable[[int, int], None]


def experiment(name: str) -> ModuleType:
    """Return the module of an experiment."""
    if name not in EXPERIMENTS:
        raise ValueError(f"experiment must be one of {', '.join(EXPERIMENTS)}; got {name!r}.")
    return import_module(f".{name}", __package__)


def run(
    spec: Spec, out: Path, *, threads: int = 2, report: Report = lambda done, total: None
) -> Results:
    """Return the results of a spec, making only the runs that are not there yet.

    Args:
        spec: What to run.
        out: Directory of all results; a spec's own lie in `out/<id>`.
        threads: Runs at a time, where the experiment does not measure time.
        report: Told how many runs of how many are done.
    """
    module = experiment(spec.experiment)
    settings = make_settings(module.Settings, f"{spec.runs}.toml [settings]", spec.settings)
    results = Results(out / spec.runs / "results.json", settings=spec.settings, budget=spec.budget)
    units = module.units(settings)
    waiting = [unit for unit in units if not results.has(unit)]
    report(len(units) - len(waiting), len(units))

    def one(unit: Unit) -> None:
        started = time.perf_counter()
        result = module.run(settings, unit)
        results.add(unit, result, time.perf_counter() - started)
        report(len(results.runs), len(units))

    alone = getattr(module, "ALONE", False)
    with ThreadPoolExecutor(1 if alone else threads) as pool:
        # Whatever goes wrong in a run ends the experiment, after the runs under way.
        for future in [pool.submit(one, unit) for unit in waiting]:
            future.result()
    return results
