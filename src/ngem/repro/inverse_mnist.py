"""Inverse MNIST (Sec. 4.3, Table 9): the density of images given their label.

There are ten conditions, so `training` runs the network on ten rows, whatever the batch size.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .. import training
from ..datasets import load_mnist
from ..families import DiagonalGaussian
from ..nn import apply, mixture_mlp
from ..objectives import OBJECTIVES
from .store import Unit, rounded

LABELS = 10


@dataclass(frozen=True)
class Settings:
    """Table 9, and settings that it leaves open.

    Attributes:
        components: Numbers of components.
        objectives: Names of objectives.
        seeds: Seeds of networks and batches.
        epochs: Passes over the training images.
        batch_size: Images per step.
        learning_rate: Learning rate of Adam, constant.
        hidden_sizes: Hidden layers of the network.
        scale_floor: Smallest standard deviation of a pixel in [0, 1]. Without it the density of
            border pixels, which never vary, has no bound.
        rows: Number of training images, 0 for all.
    """

    components: list[int]
    objectives: list[str]
    seeds: list[int]
    epochs: int
    batch_size: int
    learning_rate: float
    hidden_sizes: list[int]
    scale_floor: float
    rows: int


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each objective, number of components and seed."""
    return [
        {"objective": objective, "components": components, "seed": seed}
        for components in settings.components
        for seed in settings.seeds
        for objective in settings.objectives
    ]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return likelihoods, entropy and, for the first seed, images of the components."""
    key = jax.random.key(unit["seed"])
    network = mixture_mlp(
        LABELS,
        28 * 28,
        key=key,
        n_components=unit["components"],
        hidden_sizes=settings.hidden_sizes,
        family=DiagonalGaussian(scale_floor=settings.scale_floor),
    )
    plan = training.Plan(
        objective=OBJECTIVES[unit["objective"]],
        batch_size=settings.batch_size,
        learning_rate_schedule="constant",
    )
    train, test = load("train", settings.rows), load("test", settings.rows)
    fitted = training.fit(
        network,
        train,
        plan,
        key=key,
        max_epochs=settings.epochs,
        learning_rate=settings.learning_rate,
    )
    mixture = apply(fitted.network, train.x)
    weights = np.asarray(mixture.weights)
    result = {
        "train_nll": rounded(training.mean_nll(fitted.network, train), 7),
        "test_nll": rounded(training.mean_nll(fitted.network, test), 7),
        "entropy": float(np.mean(mixture.weight_entropy())),
        "weights": rounded(weights, 4),
        "skipped": fitted.skipped,
        "curve": rounded(fitted.history.train, 6),
    }
    if unit["seed"] == settings.seeds[0] and unit["components"] <= 3:
        images = np.clip(np.asarray(mixture.components.mean), 0, 1)
        result["images"] = np.round(255 * images).astype(int).tolist()
    return result


@cache
def load(part: Literal["train", "test"], rows: int) -> training.Data:
    """Return images as targets and labels as conditions; only the first rows, or 0 for all."""
    images, labels = load_mnist(part)
    images, labels = images[: rows or None], labels[: rows or None]
    return training.Data(
        jnp.eye(LABELS, dtype=jnp.float32),
        jnp.asarray(images / np.float32(255)),
        condition=jnp.asarray(labels, jnp.int32),
    )
