"""Joint angles of an arm for a given hand position: two solutions, and their mean is wrong.

python examples/inverse_kinematics.py --out out/examples
"""

import argparse
from pathlib import Path

import numpy as np

from ngem import MDNRegressor
from ngem.datasets import two_link_arm
from ngem.plotting import caption, styled_figure


def joints(angles: np.ndarray) -> np.ndarray:
    """Return the positions of shoulder, elbow and hand, (..., 3, 2), for links of length 1."""
    along = np.cumsum(angles, axis=-1)
    links = np.stack([np.cos(along), np.sin(along)], axis=-1)
    return np.concatenate([np.zeros_like(links[..., :1, :]), np.cumsum(links, axis=-2)], axis=-2)


def miss(angles: np.ndarray, hand: np.ndarray) -> float:
    """Return the mean distance of the hand from its target."""
    return float(np.linalg.norm(joints(angles)[..., -1, :] - hand, axis=-1).mean())


def most_likely(model: MDNRegressor, hand: np.ndarray) -> np.ndarray:
    """Return the mean of the component with the largest weight: one of the solutions."""
    mixture = model.predict_distribution(hand)
    heaviest = np.asarray(mixture.weights).argmax(axis=-1)
    return np.asarray(mixture.components.mean)[np.arange(len(hand)), heaviest]


def draw(model: MDNRegressor, hand: np.ndarray, path: Path) -> None:
    """Draw arms and angles from the predicted density for one position of the hand."""
    angles = model.sample(hand, 200, random_state=0)[:, 0]
    mean = model.predict(hand)[0]
    with styled_figure(1, 2, (8, 3.8), top=0.93) as (figure, axes):
        left, right = axes[0]
        for arm in joints(angles[:40]):
            left.plot(*arm.T, "-", color="#cc3311", alpha=0.25, lw=1)
        left.plot(*joints(mean).T, "o-", color="black", lw=2, ms=4, label="the mean of the answers")
        left.plot(*hand[0], "*", color="gold", markeredgecolor="black", ms=15, label="the target")
        left.set(aspect="equal", xlabel="across", ylabel="up", xlim=(-0.25, 1.9), ylim=(-0.5, 1.8))
        left.legend(loc="upper left")
        caption(left, "40 arms drawn from the density: elbow up or down")
        right.plot(*angles.T, ".", color="#cc3311", alpha=0.5, label="draws")
        right.plot(*mean, "o", color="black", label="their mean")
        right.set(xlabel="shoulder (radian)", ylabel="elbow (radian)")
        right.legend()
        caption(right, "the same as angles: two clusters")
        figure.savefig(path, dpi=120)


def main() -> None:
    """Train on noisy angles, and compare one solution with the mean of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=None, help="fewer for a quick run")
    parser.add_argument("--out", type=Path, default=Path("out/examples"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    train = two_link_arm(2000, seed=arguments.seed)
    test = two_link_arm(1000, seed=arguments.seed + 1)
    # The noise of the two angles is independent, so a component needs no correlation.
    settings = {"n_components": 5, "covariance": "diag"}
    model = MDNRegressor(max_epochs=arguments.epochs, random_state=arguments.seed, **settings)
    model.fit(train.x, train.y)

    learned = model.log_prob(test.x, test.y).mean()
    print(f"log density on new rows {learned:.3f}, of the true density {test.true_log_density:.3f}")
    print(f"effective components {model.diagnostics_['effective_components']:.2f}")
    mean, one = model.predict(test.x), most_likely(model, test.x)
    print(f"hand misses by {miss(mean, test.x):.3f} with the mean of the solutions")
    print(f"hand misses by {miss(one, test.x):.3f} with the most probable component")

    arguments.out.mkdir(parents=True, exist_ok=True)
    draw(model, np.array([[1.2, 0.7]]), arguments.out / "inverse_kinematics.png")


if __name__ == "__main__":
    main()
