"""Runs of experiments: in parallel, saved one by one, continued after an interruption."""

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
#: `run(settings, unit)`. One that measures time has `ALONE = True`: its runs are not parallel. One
#: whose claims are also about the best of several runs has `derived(runs)`.
EXPERIMENTS = (
    "boosting_peers",
    "boosting_study",
    "family_tables",
    "inverse_mnist",
    "low_rank",
    "objective_study",
    "one_gaussian",
    "regression",
    "standard_splits",
    "strength",
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
    """Return the results of a spec, after making the runs that are missing.

    Args:
        spec: What to run.
        out: Directory of all results; those of a spec are in `out/<id>`.
        workers: Runs at a time, unless the experiment measures time.
        report: Called with the numbers of finished runs and of all runs.
    """
    module = experiment(spec.experiment)
    settings = make_settings(module.Settings, f"{spec.runs}.toml [settings]", spec.settings)
    results = saved_results(spec, out)
    units = module.units(settings)
    missing = [unit for unit in units if not results.has(unit)]
    report(len(units) - len(missing), len(units))
    # Starting processes takes longer than all runs of a smoke test.
    alone = getattr(module, "ALONE", False) or len(missing) < 2 or spec.budget == "smoke"
    with _pool(1 if alone else workers) as pool:
        futures = {pool.submit(_timed, spec.experiment, settings, unit): unit for unit in missing}
        for future in as_completed(futures):
            # An error in a run ends the experiment; runs in progress still finish.
            results.add(futures[future], *future.result())
            report(len(results.runs), len(units))
    results.is_complete = True
    return _with_derived(spec, results)


def saved_results(spec: Spec, out: Path) -> Results:
    """Return the results of a spec as far as they are saved, with what follows from them."""
    path = out / spec.runs / "results.json"
    results = Results(path, settings=spec.settings, budget=spec.budget)
    results.is_complete = all(map(results.has, _units(spec)))
    return _with_derived(spec, results)


def _units(spec: Spec) -> list[Unit]:
    module = experiment(spec.experiment)
    return module.units(
        make_settings(module.Settings, f"{spec.runs}.toml [settings]", spec.settings)
    )


def _with_derived(spec: Spec, results: Results) -> Results:
    module = experiment(spec.experiment)
    if hasattr(module, "derived"):
        results.derive(module.derived, results.unit_keys())
    return results


def _timed(name: str, settings: Any, unit: Unit) -> tuple[dict[str, Any], float]:
    started = time.perf_counter()
    return experiment(name).run(settings, unit), time.perf_counter() - started


@contextmanager
def _pool(workers: int) -> Iterator[Executor]:
    """Yield a pool of processes with one thread each: XLA's threads do not help small networks."""
    if workers == 1:
        pool = ThreadPoolExecutor(1)
    else:
        # JAX starts threads, and a forked process with threads can deadlock: spawn.
        spawn = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_one_thread)
    with pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _one_thread() -> None:
    """Limit this process to one thread; XLA reads the variable when it first runs something."""
    os.environ["NPROC"] = "1"
