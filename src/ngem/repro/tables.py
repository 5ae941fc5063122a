"""Each table beside the paper's, and a verdict for each claim."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .spec import Spec
from .store import Results


class Claim(NamedTuple):
    """A sentence of the paper that a run can contradict.

    Attributes:
        text: What is claimed.
        paper: The paper's figures.
        ours: What we measured.
        holds: Whether ours agree.
    """

    text: str
    paper: str
    ours: str
    holds: bool


Table = list[list[str]]  # header first
Maker = Callable[[Spec, Results], Any]

#: How objectives are called beside the paper's names: its nGEM is what its listing computes.
PAPER_NAME = {"nll": "nll", "ngem-listing": "ngem"}


def mean_std(values: Sequence[float | int] | np.ndarray, digits: int = 3) -> str:
    """Return mean and standard deviation over seeds, as the paper writes them."""
    numbers = np.array(values, float)
    if not len(numbers):
        return "-"
    return f"{numbers.mean():.{digits}f} ± {numbers.std():.{digits}f}"


def _paper(pair: Sequence[float | int] | None, digits: int = 3) -> str:
    return "-" if pair is None else f"{pair[0]:.{digits}f} ± {pair[1]:.{digits}f}"


def _mean(values: Sequence[float | int]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


# Two-Gaussians ------------------------------------------------------------------------------------


def table1(spec: Spec, results: Results) -> Table:
    rates = spec.settings["learning_rates"]
    rows = [
        ["objective", *(f"{rate:g}, paper" if i else f"{rate:g}" for rate in rates for i in (0, 1))]
    ]
    for objective in spec.settings["objectives"]:
        row = [objective]
        for rate in rates:
            (found,) = results.select(objective=objective, learning_rate=rate)
            published = spec.paper.get(PAPER_NAME.get(objective, ""), {}).get(f"{rate:g}")
            row += [mean_std(found["entropy"]), _paper(published)]
        rows.append(row)
    return rows


def table1_claims(spec: Spec, results: Results) -> list[Claim]:
    def found(objective, rate):
        return results.select(objective=objective, learning_rate=rate)[0]

    def entropy(objective, rate):
        return _mean(found(objective, rate)["entropy"])

    def steps(objective):
        """Return when the curve that Fig. 4 shows, the mean of seeds, is there to stay."""
        run = found(objective, 0.01)
        above = np.mean(run["curve"], axis=0) > run["optimum"] + 0.1
        last = len(above) - 1 - int(np.argmax(above[::-1])) if above.any() else -1
        return np.append(run["iterations"], np.inf)[last + 1]

    def median(objective):
        reached = found(objective, 0.01)["iterations_to_optimum"]
        return float(np.median([np.inf if n is None else n for n in reached]))

    claims = []
    for objective in ("ngem-listing", "ngem"):
        ours = [entropy(objective, rate) for rate in (0.1, 0.01, 0.001)]
        base = [entropy("nll", rate) for rate in (0.1, 0.01, 0.001)]
        claims += [
            Claim(
                f"Table 1: at 1e-1 nll's entropy falls below 0.1, {objective}'s stays above 0.6",
                "0.010 / 0.660",
                f"{base[0]:.3f} / {ours[0]:.3f}",
                base[0] < 0.1 and ours[0] > 0.6,
            ),
            Claim(
                f"Table 1: {objective}'s entropy is at least nll's, within 0.005, at every rate",
                "0.660, 0.691, 0.692 / 0.010, 0.687, 0.669",
                ", ".join(f"{v:.3f}" for v in ours) + " / " + ", ".join(f"{v:.3f}" for v in base),
                all(a >= b - 5e-3 for a, b in zip(ours, base, strict=True)),
            ),
            Claim(
                f"Sec. 4.1: at 1e-2 {objective} needs at most a tenth of nll's iterations",
                "about 500 / over 5000",
                f"{steps(objective):.0f} / {steps('nll'):.0f} on the mean of seeds (medians "
                f"{median(objective):.0f} / {median('nll'):.0f})",
                10 * steps(objective) <= steps("nll"),
            ),
        ]
    apart = max(
        float(np.max(np.abs(np.subtract(found("nll", r)["curve"], found("sgem", r)["curve"]))))
        for r in spec.settings["learning_rates"]
    )
    claims.append(
        Claim(
            "Sec. 3.2: runs of nll and sgem under one seed are equal",
            "equal",
            f"curves differ by at most {apart:.1e} nat",
            apart < 1e-3,
        )
    )
    return claims


# Two-Sinusoids ------------------------------------------------------------------------------------


def table2(spec: Spec, results: Results) -> Table:
    rates = spec.settings["learning_rates"]
    header = ["objective"]
    for rate in rates:
        header += [f"{rate:g}: entropy", "paper", "NLL"]
    rows = [header]
    for objective in spec.settings["objectives"]:
        row = [objective]
        for rate in rates:
            found = results.select(objective=objective, learning_rate=rate)
            published = spec.paper.get(PAPER_NAME.get(objective, ""), {}).get(f"{rate:g}")
            row += [
                mean_std([run["entropy"] for run in found]),
                _paper(published),
                mean_std([run["nll"] for run in found], 2),
            ]
        rows.append(row)
    return rows


def table2_claims(spec: Spec, results: Results) -> list[Claim]:
    rates = spec.settings["learning_rates"]

    def entropies(objective, rate):
        return np.array(
            [r["entropy"] for r in results.select(objective=objective, learning_rate=rate)]
        )

    claims = []
    for objective in ("ngem-listing", "ngem"):
        means = [entropies(objective, rate).mean() for rate in rates]
        claims.append(
            Claim(
                f"Table 2: {objective}'s entropy is at least 0.68 at every learning rate",
                "0.693, 0.693, 0.693",
                ", ".join(f"{mean:.3f}" for mean in means),
                min(means) >= 0.68,
            )
        )
    worse = [
        entropies("nll", rate).mean() < entropies("ngem-listing", rate).mean()
        or entropies("nll", rate).std() > entropies("ngem-listing", rate).std()
        for rate in rates
    ]
    claims.append(
        Claim(
            "Table 2: nll's entropy is lower or more spread at every learning rate",
            "0.416 ± 0.38, 0.555 ± 0.31, 0.413 ± 0.38",
            ", ".join(mean_std(entropies("nll", rate)) for rate in rates),
            all(worse),
        )
    )
    for objective in ("ngem-listing", "ngem"):
        final = {
            name: [
                _mean([r["nll"] for r in results.select(objective=name, learning_rate=rate)])
                for rate in rates
            ]
            for name in ("nll", objective)
        }
        claims.append(
            Claim(
                f"Fig. 6: {objective} ends at a lower NLL than nll at every learning rate",
                "lower",
                " / ".join(", ".join(f"{v:.2f}" for v in final[n]) for n in (objective, "nll")),
                all(a < b for a, b in zip(final[objective], final["nll"], strict=True)),
            )
        )
    return claims


# Inverse MNIST ------------------------------------------------------------------------------------


def mnist_table(spec: Spec, results: Results) -> Table:
    rows = [["objective", "train NLL", "test NLL", "paper", "entropy", "paper", "seeds"]]
    for objective in spec.settings["objectives"]:
        found = results.select(objective=objective)
        published = spec.paper.get(PAPER_NAME.get(objective, ""))
        rows.append(
            [
                objective,
                mean_std([run["train_nll"] for run in found], 1),
                mean_std([run["test_nll"] for run in found], 1),
                _paper(published and (published["nll"], published["nll_std"]), 1),
                mean_std([run["entropy"] for run in found]),
                _paper(published and (published["entropy"], published["entropy_std"])),
                str(len(found)),
            ]
        )
    return rows


def mnist_claims(spec: Spec, results: Results) -> list[Claim]:
    claims = []
    label = {"table3": "Table 3", "table4": "Table 4", "table9": "K = 20"}[spec.runs]
    published = [spec.paper.get(name) for name in ("ngem", "nll")]

    def mean(objective, score):
        return _mean([run[score] for run in results.select(objective=objective)])

    for objective in ("ngem-listing", "ngem"):
        for score, word, sign in (
            ("test_nll", "NLL is lower", -1),
            ("entropy", "entropy is higher", 1),
        ):
            ours, base = mean(objective, score), mean("nll", score)
            key = "nll" if score == "test_nll" else "entropy"
            claims.append(
                Claim(
                    f"{label}: {objective}'s {word} than nll's",
                    " / ".join(f"{row[key]:g}" if row else "not shown" for row in published),
                    f"{ours:.4g} / {base:.4g}",
                    sign * (ours - base) > 0,
                )
            )
    return claims


# Regression ---------------------------------------------------------------------------------------

_SCORES = {
    "nll": ("NLL", 2),
    "nearest_rmse": ("RMSE of the nearest component", 4),
    "rmse": ("RMSE of the mean", 4),
    "crps": ("CRPS", 4),
    "coverage90": ("coverage of 90% intervals", 3),
}


def _methods(spec: Spec) -> list[tuple[str, str]]:
    mixtures = [(o, q) for o in spec.settings["optimizers"] for q in spec.settings["objectives"]]
    return mixtures + [("adam", objective) for objective in spec.settings["single"]]


def table5(spec: Spec, results: Results) -> Table:
    names = list(spec.settings["datasets"])
    rows = [["score", "method", *(c for name in names for c in (name, "paper"))]]
    for score, (label, digits) in _SCORES.items():
        for optimizer, objective in _methods(spec):
            row = [label, f"{optimizer} + {objective}"]
            key = f"{optimizer}-{PAPER_NAME.get(objective, objective)}"
            for name in names:
                found = results.select(dataset=name, optimizer=optimizer, objective=objective)
                published = spec.paper.get(score, {}).get(key, {}).get(name)
                known = key if objective != "ngem" else ""
                row.append(
                    "-"
                    if objective == "mse" and score not in ("nearest_rmse", "rmse")
                    else _scores(found, score, digits)
                )
                row.append(_paper(published if known else None, digits))
            rows.append(row)
    return rows


def _scores(runs: list[dict[str, Any]], score: str, digits: int) -> str:
    """Return mean and standard deviation of the runs that came to an end, and how many did not."""
    ended = [run[score] for run in runs if "diverged" not in run]
    lost = len(runs) - len(ended)
    return mean_std(ended, digits) + (f" ({lost} of {len(runs)} diverged)" if lost else "")


def table5_claims(spec: Spec, results: Results) -> list[Claim]:
    names = list(spec.settings["datasets"])
    optimizers = spec.settings["optimizers"]

    def mean(name, optimizer, objective, score):
        found = results.select(dataset=name, optimizer=optimizer, objective=objective)
        # A method that diverges is worse than any that does not.
        return _mean([run.get(score, np.inf) for run in found])

    claims = []
    singles = {
        name: min(mean(name, "adam", single, "nearest_rmse") for single in ("beta-nll", "mse"))
        for name in names
    }
    for objective in ("ngem-listing", "ngem", "nll"):
        better = [
            name
            for name in names
            if mean(name, "adam", objective, "nll") < mean(name, "adam", "beta-nll", "nll")
            and mean(name, "adam", objective, "nearest_rmse") < singles[name]
        ]
        claims.append(
            Claim(
                f"Table 5 (1): Adam + {objective} beats beta-nll and mse, in NLL and nearest RMSE",
                "on 3 of 3 sets",
                f"on {len(better)} of {len(names)} ({', '.join(better) or 'none'})",
                len(better) == len(names),
            )
        )
    for objective in ("ngem-listing", "ngem"):
        pairs = [(name, optimizer) for name in names for optimizer in optimizers]
        wins = {
            score: [
                (n, o) for n, o in pairs if mean(n, o, objective, score) < mean(n, o, "nll", score)
            ]
            for score in ("nearest_rmse", "nll", "crps", "rmse")
        }
        claims.append(
            Claim(
                f"Table 5 (2): with one optimizer {objective} has a lower nearest RMSE than nll",
                "12 of 12 but K-FAC on kin8nm",
                f"{len(wins['nearest_rmse'])} of {len(pairs)}",
                len(wins["nearest_rmse"]) >= len(pairs) - 1,
            )
        )
        others = [pair for pair in pairs if pair[0] != "housing"]
        lower = [pair for pair in wins["nll"] if pair[0] != "housing"]
        claims.append(
            Claim(
                f"Table 5 (2): and a lower NLL, except on housing ({objective})",
                "6 of 8 (not with K-FAC)",
                f"{len(lower)} of {len(others)}; CRPS lower in {len(wins['crps'])} and RMSE of "
                f"the mean in {len(wins['rmse'])} of all {len(pairs)}",
                len(lower) >= 6,
            )
        )
    if "soap" in optimizers:
        best = [
            min(_methods(spec)[:-1], key=lambda m, name=name: mean(name, *m, "nll"))
            for name in names
        ]
        claims.append(
            Claim(
                "Table 5 (3): SOAP with ngem has the best NLL in general",
                "on 2 of 3 sets (housing: SOAP + nll)",
                ", ".join(f"{n}: {o} + {q}" for n, (o, q) in zip(names, best, strict=True)),
                sum(o == "soap" and q.startswith("ngem") for o, q in best) >= 2,
            )
        )
    return claims


# Wall-clock ---------------------------------------------------------------------------------------


def table6(spec: Spec, results: Results) -> Table:
    names = list(spec.settings["datasets"])
    rows = [["objective", *(c for n in names for c in (f"{n}, s", "paper, s", "ratio to nll"))]]
    for objective in spec.settings["objectives"]:
        row = [objective]
        for name in names:
            found = results.select(dataset=name)
            published = spec.paper.get(PAPER_NAME.get(objective, ""), {}).get(name)
            ratio = float(np.median([run[objective] / run["nll"] for run in found]))
            row += [
                mean_std([run[objective] for run in found], 2),
                _paper(published, 2),
                f"{ratio:.3f}",
            ]
        rows.append(row)
    return rows


def table6_claims(spec: Spec, results: Results) -> list[Claim]:
    claims = []
    for objective in ("ngem-listing", "ngem"):
        ratios = {
            name: float(np.median([r[objective] / r["nll"] for r in results.select(dataset=name)]))
            for name in spec.settings["datasets"]
        }
        claims.append(
            Claim(
                f"Table 6: {objective} takes at most 1.02 times nll's time",
                "1.005, 1.010, 1.006",
                ", ".join(f"{ratio:.3f}" for ratio in ratios.values()),
                max(ratios.values()) <= 1.02,
            )
        )
    return claims


# Our own ------------------------------------------------------------------------------------------


def _tasks(spec: Spec) -> list[tuple[str, float, str]]:
    return [
        (task, weight, objective)
        for task in ("two_gaussians", "two_sinusoids")
        for weight in spec.settings[task]["weights"]
        for objective in spec.settings[task]["objectives"]
    ]


def _learned(results: Results, task: str, weight: float, objective: str) -> list[float]:
    found = results.select(task=task, weight=weight, objective=objective)
    return [w for run in found for w in np.atleast_1d(run["learned_weight"])]


def _root_rule(weight: float) -> float:
    """Return what the listing makes of the first of two weights: proportional to its root."""
    return weight**0.5 / (weight**0.5 + (1 - weight) ** 0.5)


def weights_table(spec: Spec, results: Results) -> Table:
    rows = [["task", "true weight", "objective", "learned weight", "mean error", "root rule"]]
    for task, weight, objective in _tasks(spec):
        learned = _learned(results, task, weight, objective)
        root = _root_rule(weight)
        rows.append(
            [
                task,
                f"{weight:g}",
                objective,
                mean_std(learned),
                f"{np.mean(np.abs(np.subtract(learned, weight))):.3f}",
                f"{root:.3f}",
            ]
        )
    return rows


def weights_claims(spec: Spec, results: Results) -> list[Claim]:
    claims = []
    for task, weight, objective in _tasks(spec):
        if objective not in ("ngem", "ngem-listing"):
            continue
        learned = _mean(_learned(results, task, weight, objective))
        root = _root_rule(weight)
        ours = objective == "ngem"
        claims.append(
            Claim(
                f"{task}, true weight {weight:g}: "
                + (
                    "ngem recovers it within 0.02"
                    if ours
                    else "the listing learns its root instead"
                ),
                "not tried" if ours else f"{root:.3f} (our derivation)",
                f"{learned:.3f}",
                abs(learned - (weight if ours else root)) < 0.02,
            )
        )
    return claims


def uci_table(spec: Spec, results: Results) -> Table:
    rows = [["set", "objective", "NLL", "RMSE", "CRPS", "coverage of 90%", "splits"]]
    for name in spec.settings["datasets"]:
        for objective in spec.settings["objectives"]:
            found = results.select(dataset=name, objective=objective)
            cells = []
            for score in ("nll", "rmse", "crps", "coverage90"):
                values = np.array([run[score] for run in found])
                error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
                cells.append(f"{values.mean():.4g} ± {error:.2g}")
            rows.append([name, objective, *cells, str(len(found))])
    return rows


def uci_claims(spec: Spec, results: Results) -> list[Claim]:
    """Return how often each of ours is ahead, paired by split: level is within a standard error."""
    counts = {"better": [], "level": [], "worse": []}
    for name in spec.settings["datasets"]:
        pair = [results.select(dataset=name, objective=o) for o in ("ngem", "nll")]
        gain = np.array([a["nll"] - b["nll"] for a, b in zip(*pair, strict=True)])
        error = gain.std(ddof=1) / len(gain) ** 0.5 if len(gain) > 1 else 0.0
        verdict = "level" if abs(gain.mean()) <= error else "better" if gain.mean() < 0 else "worse"
        counts[verdict].append(f"{name} {gain.mean():+.3f}")
    return [
        Claim(
            "Our own: ngem's test NLL is better than or level with nll's on every UCI set",
            "not tried",
            "; ".join(f"{word}: {', '.join(names) or 'none'}" for word, names in counts.items()),
            not counts["worse"],
        )
    ]


# Figures that claim something of their own --------------------------------------------------------


def fig1_table(spec: Spec, results: Results) -> Table:
    (found,) = results.select()
    at = found["density_at_mean"]
    return [
        ["density", "negative log-likelihood of its draws", "density at the shared mean"],
        ["mixture", f"{found['nll_mixture']:.3f}", f"{at['mixture']:.4f}"],
        ["one Gaussian", f"{found['nll_gaussian']:.3f}", f"{at['gaussian']:.4f}"],
    ]


def fig1_claims(spec: Spec, results: Results) -> list[Claim]:
    (found,) = results.select()
    at = found["density_at_mean"]
    return [
        Claim(
            "Fig. 1: one Gaussian puts its peak where the mixture has hardly any density",
            "shown",
            f"density at the mean {at['gaussian']:.3f} against {at['mixture']:.4f}",
            at["gaussian"] > 10 * at["mixture"],
        )
    ]


def fig5_claims(spec: Spec, results: Results) -> list[Claim]:
    """Return whether paths of means are straight: length of the way over distance travelled."""

    def detour(objective):
        path = np.array(results.select(objective=objective, learning_rate=0.01)[0]["path"])
        # The way until a mean is as near to its end as the noise of single points lets it come.
        ratios = []
        for k in range(path.shape[1]):
            way = path[:, k]
            there = np.linalg.norm(way - way[-1], axis=-1) < 0.5
            way = way[: np.argmax(there) + 1]
            steps = np.linalg.norm(np.diff(way, axis=0), axis=-1).sum()
            ratios.append(steps / max(np.linalg.norm(way[-1] - way[0]), 1e-9))
        return float(np.mean(ratios))

    ours, base = detour("ngem-listing"), detour("nll")
    return [
        Claim(
            "Fig. 5: ngem's means go straight to the targets, nll's take a curved path",
            "shown",
            f"length of the way over distance: {ours:.2f} (ngem-listing), {base:.2f} (nll)",
            ours < base,
        )
    ]


TABLES: dict[str, Maker] = {
    "fig1": fig1_table,
    "table1": table1,
    "table2": table2,
    "table3": mnist_table,
    "table4": mnist_table,
    "table5": table5,
    "table6": table6,
    "table9": mnist_table,
    "uci": uci_table,
    "weights": weights_table,
}

CLAIMS: dict[str, Maker] = {
    "fig1": fig1_claims,
    "fig5": fig5_claims,
    "table1": table1_claims,
    "table2": table2_claims,
    "table3": mnist_claims,
    "table4": mnist_claims,
    "table5": table5_claims,
    "table6": table6_claims,
    "table9": mnist_claims,
    "uci": uci_claims,
    "weights": weights_claims,
}
