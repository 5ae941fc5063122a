"""Medical expenses, a quarter of which are zero: one model of whether and how much.

python examples/medical_expenses.py --out out/examples

The table (MedExp of the R package Ecdat) is read from the directory `more` of NGEM_DATA_DIR.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from ngem import MixtureBoostingRegressor
from ngem.datasets import DataError, random_split, table_path
from ngem.plotting import caption, styled_figure

FAMILIES = ("zero-inflated lognormal", "gaussian")


def draw(model: MixtureBoostingRegressor, x: pl.DataFrame, y: np.ndarray, path: Path) -> None:
    """Draw how often zero was predicted and seen, and the distribution for three persons."""
    zero = model.cdf(x, 0.0)
    groups = np.array_split(np.argsort(zero), 10)
    order = np.argsort(model.predict(x))
    amounts = np.geomspace(1, 5000, 120)
    with styled_figure(1, 2, (8, 3.4), top=0.93) as (figure, (axes,)):
        axes[0].plot([0, 0.8], [0, 0.8], color="0.6", lw=1)
        seen = [np.mean(y[group] == 0) for group in groups]
        axes[0].plot([zero[group].mean() for group in groups], seen, "o", color="#cc3311")
        axes[0].set(xlabel="predicted probability of no expenses", ylabel="fraction seen")
        caption(axes[0], "ten groups of test rows")
        for fraction, color in ((0.05, "#4477aa"), (0.5, "#228833"), (0.95, "#cc3311")):
            row = order[int(fraction * len(order))]
            person = x[[int(row)]]
            below = [float(model.cdf(person, amount)[0]) for amount in (0.0, *amounts)]
            axes[1].plot([0.5, *amounts], below, color=color, label=f"{fraction:.0%}")
        axes[1].set(xscale="log", xlabel="expenses in dollars", ylabel="P(expenses ≤ x)")
        axes[1].set(ylim=(0, 1), xticks=[0.5, 10, 100, 1000])
        axes[1].set_xticklabels(["0", "10", "100", "1000"])
        axes[1].legend(title="rank of expected expenses")
        caption(axes[1], "three persons; each curve begins at P(0)")
        figure.savefig(path, dpi=120)


def main() -> None:
    """Fit both families to the same rows, and compare what they say of the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=300, help="rounds of trees")
    parser.add_argument("--rows", type=int, default=None, help="fewer for a quick run")
    parser.add_argument("--out", type=Path, default=Path("out/examples"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    try:
        table = pl.read_csv(table_path("medexp.csv"), infer_schema_length=None)
    except DataError as error:
        raise SystemExit(str(error)) from None
    if arguments.rows is not None:
        table = table.sample(arguments.rows, seed=arguments.seed)
    y = table["med"].to_numpy()
    x = table.drop("rownames", "med")
    split = random_split(len(x), arguments.seed, test=0.2)
    new, truth = x[split.test], y[split.test]
    print(f"{np.mean(truth == 0):.0%} of {len(truth)} test rows have no expenses")

    arguments.out.mkdir(parents=True, exist_ok=True)
    for family in FAMILIES:
        model = MixtureBoostingRegressor(
            2,
            family=family,
            max_rounds=arguments.epochs,
            n_members=2,
            resolution=None if "zero" in family else 1.0,
            random_state=arguments.seed,
        )
        model.fit(x[split.train], y[split.train])
        low, high = model.predict_quantiles(new, [0.05, 0.95]).T
        covered = np.mean((low <= truth) & (truth <= high))
        print(f"{family}: P(no more than 0) is {model.cdf(new, 0.0).mean():.2f} on average")
        print(f"{family}: 5% quantiles below zero: {np.mean(low < 0):.0%}")
        print(f"{family}: 90% intervals contain {covered:.0%} of test rows")
        print(f"{family}: mean CRPS {model.crps(new, truth).mean():.1f}")
        if family == FAMILIES[0]:
            draw(model, new, truth, arguments.out / "medical_expenses.png")


if __name__ == "__main__":
    main()
