"""Heating and cooling load of buildings: one model for both targets, and its intervals.

python examples/energy.py --out out/examples

The data are downloaded once (`pip install "ngem[data]"`) or read from NGEM_DATA_DIR.
"""

import argparse
from pathlib import Path

import numpy as np

from ngem import MDNRegressor
from ngem.datasets import DataError, load_uci, random_split
from ngem.plotting import caption, styled_figure


def draw(names: list[str], y: np.ndarray, quantiles: np.ndarray, path: Path) -> None:
    """Draw the median and the 90% interval of each test row, ordered by the median."""
    with styled_figure(1, len(names), (8, 3.4), top=0.93) as (figure, axes):
        for column, (ax, name) in enumerate(zip(axes[0], names, strict=True)):
            low, median, high = quantiles[..., column].T
            order = np.argsort(median)
            position = np.arange(len(order))
            ax.vlines(
                position, low[order], high[order], color="#cc3311", alpha=0.35, lw=2, label="90%"
            )
            ax.plot(position, median[order], ".", color="#cc3311", ms=3, label="median")
            ax.plot(position, y[order, column], ".", color="black", ms=3, label="truth")
            ax.set(xlabel="test rows, by median", ylabel=f"{name} load")
            caption(ax, name)
        axes[0, 0].legend()
        figure.savefig(path, dpi=120)


def main() -> None:
    """Train on four fifths of the rows, and report on the rest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=None, help="fewer for a quick run")
    parser.add_argument("--out", type=Path, default=Path("out/examples"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    try:
        table = load_uci("energy")
    except DataError as error:
        raise SystemExit(str(error)) from None
    split = random_split(len(table.x), arguments.seed, test=0.2)
    x, y = table.x[split.test], table.y[split.test]
    model = MDNRegressor(max_epochs=arguments.epochs, random_state=arguments.seed)
    model.fit(table.x[split.train], table.y[split.train])

    quantiles = model.predict_quantiles(x, [0.05, 0.5, 0.95])
    inside = (quantiles[:, 0] <= y) & (y <= quantiles[:, 2])
    regions = model.predict_interval(x, 0.9)  # two or more intervals where that is shorter
    lengths = {
        "intervals": (quantiles[:, 2] - quantiles[:, 0]).mean(axis=0),
        "smallest regions": np.nansum(regions[..., 1] - regions[..., 0], axis=-1).mean(axis=0),
    }
    error = np.sqrt(np.mean((model.predict(x) - y) ** 2, axis=0))
    print(f"negative log-likelihood on test rows {-model.log_prob(x, y).mean():.3f}")
    print(f"gain over one Gaussian {model.diagnostics_['gain_over_gaussian']:.2f} nats per row")
    for column, name in enumerate(("heating", "cooling")):
        covered = f"90% intervals contain {inside[:, column].mean():.0%} of test rows"
        print(f"{name}: RMSE {error[column]:.3f}, {covered}")
        for kind, length in lengths.items():
            print(f"{name}: mean length of 90% {kind} {length[column]:.2f}")

    arguments.out.mkdir(parents=True, exist_ok=True)
    draw(["heating", "cooling"], y, quantiles, arguments.out / "energy.png")


if __name__ == "__main__":
    main()
