"""Two crossing sine waves: a region of two intervals is more informative than one interval.

python examples/two_sinusoids.py --objective ngem
python examples/two_sinusoids.py --objective nll
"""

import argparse
from pathlib import Path

import numpy as np

from ngem import MDNRegressor
from ngem.datasets import two_sinusoids
from ngem.metrics import coverage
from ngem.plotting import caption, component_bands, styled_figure


def length(regions: np.ndarray) -> float:
    """Return the mean length of the regions, the sum of their intervals."""
    return float(np.nansum(regions[..., 1] - regions[..., 0], axis=-1).mean())


def draw(model: MDNRegressor, x: np.ndarray, y: np.ndarray, path: Path) -> None:
    """Draw the components and the two kinds of region."""
    grid = np.linspace(0, 4 * np.pi, 300)
    with styled_figure(1, 2, (9, 3.6), top=0.93, sharey=True) as (figure, axes):
        left, right = axes[0]
        for ax in axes[0]:
            ax.plot(x, y, ".", color="0.75", ms=2, zorder=0)
            ax.set(xlabel="x")
        component_bands(left, grid, model.predict_distribution(grid[:, None]))
        left.set(ylabel="y", ylim=(-4.2, 5.8))
        caption(left, "components, mean ± standard deviation")
        for kind, color in (("equal-tailed", "#bbbbbb"), ("hdr", "#cc3311")):
            regions = model.predict_interval(grid[:, None], 0.9, kind=kind)[:, 0]
            for piece in range(regions.shape[1]):
                low, high = regions[:, piece].T
                label = f"90%, {kind}" if piece == 0 else None
                right.fill_between(grid, low, high, color=color, alpha=0.5, lw=0, label=label)
        right.legend(loc="upper right")
        caption(right, "regions that hold y with probability 0.9")
        figure.savefig(path, dpi=120)


def main() -> None:
    """Train with one objective, and compare the two kinds of region on new rows.

    With "ngem" the strength of the natural gradient falls from one half to zero.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objective", choices=["nll", "ngem"], default="ngem")
    parser.add_argument("--epochs", type=int, default=None, help="fewer for a quick run")
    parser.add_argument("--out", type=Path, default=Path("out/examples"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    train = two_sinusoids(2000, seed=arguments.seed)
    test = two_sinusoids(1000, seed=arguments.seed + 1)
    model = MDNRegressor(
        n_components=2,
        objective=arguments.objective,
        max_epochs=arguments.epochs,
        random_state=arguments.seed,
    ).fit(train.x, train.y)

    print(f"negative log-likelihood on new rows {-model.log_prob(test.x, test.y).mean():.3f}")
    print(f"effective components {model.diagnostics_['effective_components']:.2f} of 2")
    for kind in ("equal-tailed", "hdr"):
        regions = model.predict_interval(test.x, 0.9, kind=kind)[:, 0]
        fraction = coverage(regions, test.y[:, 0])
        print(f"{kind}: length {length(regions):.2f}, contains {fraction:.1%} of new rows")

    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"two_sinusoids_{arguments.objective}.png"
    draw(model, train.x, train.y, path)


if __name__ == "__main__":
    main()
