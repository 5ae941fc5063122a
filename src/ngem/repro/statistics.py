"""Statistics of runs, by the names that claims use for them.

Specs name what is compared; how a number follows from a curve, a path or a grid is code, here.
"""

from collections.abc import Callable, Sequence

import numpy as np

from .store import Run

Pairs = Sequence[tuple[Run, Run]]

#: A mode is lost if the test NLL exceeds that of the true density by this much for each target.
LOST_MODE = 0.5


def standard_error(values: Sequence[float] | np.ndarray) -> float:
    """Return the standard error of a mean, 0 for a single value."""
    values = np.asarray(values, float)
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0


def scores(runs: Sequence[Run], score: str) -> np.ndarray:
    """Return a score of all runs and seeds; "a.b" is b within a.

    A run that diverged has no score: it counts as infinity, worse than any run that ended. None in
    place of a score means that it does not apply, None within a list that it was never reached.
    """
    values = [_within(run, score.split(".")) for run in runs]
    return np.array(
        [
            np.inf if number is None else number
            for value in values
            if value is not None
            for number in (value if isinstance(value, list) else [value])
        ],
        float,
    )


def lost_modes(runs: Sequence[Run]) -> list[bool]:
    """Return for each run whose true density is known whether it lost a mode."""
    known = [run for run in runs if run["true_nll"] is not None and "test_nll" in run]
    return [run["test_nll"] - run["true_nll"] > LOST_MODE * run["targets"] for run in known]


def diverged_fits(runs: Sequence[Run]) -> list[bool]:
    """Return for each fit of a grid whether it diverged."""
    return ["diverged" in point for run in runs for point in run["grid"]]


def root_rule(weight: float) -> float:
    """Return what the paper's listing learns for the first of two weights: its square root's part.

    Its fixed point is pi_k proportional to sqrt(w_k).
    """
    return weight**0.5 / (weight**0.5 + (1 - weight) ** 0.5)


def fraction_of_training(pair: tuple[Run, Run]) -> float:
    """Return when a run reaches the final train NLL of its partner, infinity if never."""
    if any("curve" not in run for run in pair):
        return np.inf
    curve, goal = np.array(pair[0]["curve"]), pair[1]["curve"][-1]
    reached = np.flatnonzero(curve <= goal)
    return float((reached[0] + 1) / len(curve)) if len(reached) else np.inf


def _within(run: Run, path: Sequence[str]) -> object:
    value: object = run.get(path[0], np.inf)
    for key in path[1:]:
        assert isinstance(value, dict)
        value = value[key]
    return value


def _iterations_to_stay(runs: Sequence[Run], score: str) -> float:
    """Return when the mean curve of all seeds, as in Fig. 4, stays within 0.1 of the optimum."""
    (run,) = runs
    above = np.mean(run[score], axis=0) > run["optimum"] + 0.1
    last = len(above) - 1 - int(np.argmax(above[::-1])) if above.any() else -1
    return float(np.append(run["iterations"], np.inf)[last + 1])


def _detour(runs: Sequence[Run], score: str) -> float:
    """Return the length of the means' paths over the distance between their ends, averaged.

    A path ends where it first comes within 0.5 of its last point; beyond, it is noise of single
    points.
    """
    (run,) = runs
    ratios = []
    for path in np.moveaxis(np.array(run[score]), 1, 0):
        near_the_end = np.linalg.norm(path - path[-1], axis=-1) < 0.5
        path = path[: np.argmax(near_the_end) + 1]
        length = np.linalg.norm(np.diff(path, axis=0), axis=-1).sum()
        ratios.append(length / max(np.linalg.norm(path[-1] - path[0]), 1e-9))
    return float(np.mean(ratios))


def coverage_fault(runs: Sequence[Run], score: str) -> float:
    """Return by how much a coverage is off beyond two points, or two standard errors if larger.

    Args:
        runs: Each has its `test_rows`.
        score: "coverage" and the nominal percentage.
    """
    level = int(score.removeprefix("coverage")) / 100
    rows = sum(run["test_rows"] for run in runs)
    error = (level * (1 - level) / rows) ** 0.5
    return abs(float(np.mean(scores(runs, score))) - level) - max(0.02, 2 * error)


def _differences(pairs: Pairs, score: str) -> np.ndarray:
    """Return differences of a score, not a number where a run of the pair diverged."""
    return np.array([np.subtract(*(run.get(score, np.nan) for run in pair)) for pair in pairs])


#: Numbers that runs come to, given the name of a score.
STATISTICS: dict[str, Callable[[Sequence[Run], str], float]] = {
    "mean": lambda runs, score: float(np.mean(scores(runs, score))),
    "std": lambda runs, score: float(np.std(scores(runs, score))),
    "median": lambda runs, score: float(np.median(scores(runs, score))),
    "coverage fault": coverage_fault,
    "largest": lambda runs, score: float(np.max(scores(runs, score))),
    "absolute mean": lambda runs, score: abs(float(np.mean(scores(runs, score)))),
    "iterations to stay": _iterations_to_stay,
    "detour": _detour,
    "root rule": lambda runs, score: float(np.mean([root_rule(run[score]) for run in runs])),
    "diverged fits": lambda runs, score: sum(diverged_fits(runs)),
    "fits": lambda runs, score: len(diverged_fits(runs)),
    "lost modes": lambda runs, score: sum(lost_modes(runs)),
    "runs with known truth": lambda runs, score: len(lost_modes(runs)),
}

#: Numbers that pairs of runs come to, given the name of a score.
PAIRED: dict[str, Callable[[Pairs, str], float]] = {
    "mean difference": lambda pairs, score: float(np.mean(_differences(pairs, score))),
    "standard error": lambda pairs, score: standard_error(_differences(pairs, score)),
    "largest difference": lambda pairs, score: float(np.max(np.abs(_differences(pairs, score)))),
    "fraction of training": lambda pairs, score: float(
        np.median([fraction_of_training(pair) for pair in pairs])
    ),
}
