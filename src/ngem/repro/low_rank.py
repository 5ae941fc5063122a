"""Inverse MNIST with components that have factors, the paper's future work, and without."""

import time
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .. import training
from ..families import get_family
from ..nn import apply, mixture_mlp
from ..objectives import OBJECTIVES
from .inverse_mnist import LABELS, load
from .store import Unit, rounded


@dataclass(frozen=True)
class Settings:
    """The settings of Table 9 of the paper, and models of several sizes.

    Attributes:
        models: By name, the covariance of a component, the number of components and of passes.
        objective: Name of an objective.
        seeds: Seeds of networks and batches.
        batch_size: Images per step.
        learning_rate: Learning rate of Adam at the start; it falls to zero as a cosine.
        ema: Decay of the average of parameters that is kept.
        hidden_sizes: Hidden layers of the network.
        scale_floor: Smallest standard deviation of a pixel in [0, 1] beside its factors.
        rows: Number of training images, 0 for all.
    """

    models: dict[str, dict[str, Any]]
    objective: str
    seeds: list[int]
    batch_size: int
    learning_rate: float
    ema: float
    hidden_sizes: list[int]
    scale_floor: float
    rows: int


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each model and seed."""
    return [{"model": name, "seed": seed} for seed in settings.seeds for name in settings.models]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return likelihoods, the number of parameters, and the processor time of training."""
    model, key = settings.models[unit["model"]], jax.random.key(unit["seed"])
    network = mixture_mlp(
        LABELS,
        28 * 28,
        key=key,
        n_components=model["components"],
        hidden_sizes=settings.hidden_sizes,
        family=get_family("gaussian", model["covariance"], scale_floor=settings.scale_floor),
    )
    plan = training.Plan(
        objective=OBJECTIVES[settings.objective],
        batch_size=settings.batch_size,
        learning_rate_schedule="cosine",
        ema=settings.ema,
    )
    train, test = load("train", settings.rows), load("test", settings.rows)
    started = time.process_time()
    fitted = training.fit(
        network,
        train,
        plan,
        key=key,
        max_epochs=model["epochs"],
        learning_rate=settings.learning_rate,
    )
    seconds = time.process_time() - started
    entropy = apply(fitted.network, train.x).weight_entropy()
    return {
        "train_nll": rounded(training.mean_nll(fitted.network, train), 7),
        "test_nll": rounded(training.mean_nll(fitted.network, test), 7),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_array))),
        "cpu_seconds": rounded(seconds, 4),
        "entropy": float(np.mean(entropy)),
        "skipped": fitted.skipped,
        "curve": rounded(fitted.history.train, 6),
    }
