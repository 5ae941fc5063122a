"""Runs of experiments: side by side, kept as they come, continued where they stopped."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

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
    spec: Spec, out: Path, *, workers: int = 2, report: Report = lambda done, total: None
) -> Results:
    """Return the results of a spec, making only the runs that are not there yet.

    Args:
        spec: What to run.
        out: Directory of all results; a spec's own lie in `out/<id>`.
        workers: Runs at a time, where the experiment does not measure time.
        report: Told how many runs of how many are done.
    """
    module = experiment(spec.experiment)
    settings = make_settings(module.Settings, f"{spec.runs}.toml [settings]", spec.settings)
    results = Results(out / spec.runs / "results.json", settings=spec.settings, budget=spec.budget)
    units = module.units(settings)
    waiting = [unit for unit in units if not results.has(unit)]
    report(len(units) - len(waiting), len(units))
    # To start processes takes longer than all runs of a smoke test.
    alone = getattr(module, "ALONE", False) or len(waiting) < 2 or spec.budget == "smoke"
    with _pool(1 if alone else workers) as pool:
        futures = {pool.submit(_timed, spec.experiment, settings, unit): unit for unit in waiting}
        for future in as_completed(futures):
            # Whatever goes wrong in a run ends the experiment, after the runs under way.
            results.add(futures[future], *future.result())
            report(len(results.runs), len(units))
    return results


def _timed(name: str, settings: Any, unit: Unit) -> tuple[dict[str, Any], float]:
    started = time.perf_counter()
    return experiment(name).run(settings, unit), time.perf_counter() - started


@contextmanager
def _pool(workers: int) -> Iterator[Executor]:
    """Give processes of one thread each: XLA's own threads gain nothing on small networks."""
    if workers == 1:
        pool = ThreadPoolExecutor(1)
    else:
        # JAX has threads of its own, so its processes are started afresh, never forked.
        fresh = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, mp_context=fresh, initializer=_one_thread)
    with pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _one_thread() -> None:
    """Leave this process one thread: read when XLA first runs something, not when imported."""
    os.environ["NPROC"] = "1"
