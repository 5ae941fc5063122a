"""Times until breast cancer returns, most of them censored: what the study's end hides.

python examples/survival.py --out out/examples

The table (rotterdam of the R package survival) is read from the directory `more` of NGEM_DATA_DIR.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from ngem import MixtureBoostingRegressor
from ngem.datasets import DataError, random_split, table_path
from ngem.plotting import caption, styled_figure

#: Patients by the number of lymph nodes with cancer.
GROUPS = {"no nodes": (0, 0), "1 to 3 nodes": (1, 3), "4 nodes or more": (4, 99)}
COLORS = ("#4477aa", "#228833", "#cc3311")


def kaplan_meier(years: np.ndarray, returned: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the estimate of P(time > t) of Kaplan and Meier at some times."""
    events = np.unique(years[returned])
    at_risk = (years[:, None] >= events).sum(axis=0)
    happened = (years[returned][:, None] == events).sum(axis=0)
    survival = np.r_[1.0, np.cumprod(1 - happened / at_risk)]
    return survival[np.searchsorted(events, at, side="right")]


def members(nodes: np.ndarray) -> dict[str, np.ndarray]:
    """Return the rows of each group."""
    return {
        name: np.flatnonzero((nodes >= low) & (nodes <= high))
        for name, (low, high) in GROUPS.items()
    }


def main() -> None:
    """Fit with and without what is known of censored times, and compare on test rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=300, help="rounds of trees")
    parser.add_argument("--rows", type=int, default=None, help="fewer for a quick run")
    parser.add_argument("--out", type=Path, default=Path("out/examples"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    try:
        table = pl.read_csv(table_path("rotterdam.csv"), infer_schema_length=None)
    except DataError as error:
        raise SystemExit(str(error)) from None
    if arguments.rows is not None:
        table = table.sample(arguments.rows, seed=arguments.seed)
    years, returned = table["rtime"].to_numpy() / 365.25, table["recur"].to_numpy() == 1
    x = table.drop("rownames", "pid", "rtime", "recur", "dtime", "death")
    split = random_split(len(x), arguments.seed, test=0.3)
    new, truth, seen = x[split.test], years[split.test], returned[split.test]
    print(f"{np.mean(~seen):.0%} of {len(seen)} test rows are censored")

    models = {}
    upper = np.where(returned, years, np.inf)[split.train]
    for name, ends in (("with their intervals", {"upper": upper}), ("as if exact", {})):
        model = MixtureBoostingRegressor(
            2,
            family="weibull",
            max_rounds=arguments.epochs,
            n_members=2,
            random_state=arguments.seed,
        )
        models[name] = model.fit(x[split.train], years[split.train], **ends)

    times = np.linspace(0.1, 12, 40)
    groups = members(new["nodes"].to_numpy())
    with styled_figure(1, 2, (8, 3.4), top=0.93, sharey=True) as (figure, (axes,)):
        for ax, (name, model) in zip(axes, models.items(), strict=True):
            survival = 1 - np.column_stack([model.cdf(new, time) for time in times])
            for (label, rows), color in zip(groups.items(), COLORS, strict=True):
                ax.plot(times, survival[rows].mean(axis=0), color=color, label=label)
                estimate = kaplan_meier(truth[rows], seen[rows], times)
                ax.step(times, estimate, color=color, ls=":", where="post")
            ax.set(xlabel="years", ylim=(0, 1))
            caption(ax, f"censored times {name}")
            five = 1 - model.cdf(new, 5.0).mean()
            print(f"censored times {name}: {five:.0%} without a return in 5 years")
        axes[0].set(ylabel="P(no return)")
        axes[0].legend(title="lines: predicted; dots: Kaplan-Meier", fontsize=7)
        arguments.out.mkdir(parents=True, exist_ok=True)
        figure.savefig(arguments.out / "survival.png", dpi=120)
    (five,) = kaplan_meier(truth, seen, np.array([5.0]))
    print(f"Kaplan and Meier's estimate on the test rows: {five:.0%}")


if __name__ == "__main__":
    main()
