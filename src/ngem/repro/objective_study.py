"""Which objective wins: many tasks, the same grid for every method, chosen on validation rows."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import datasets, training
from ..estimator.preprocessing import fit_scaling, no_scaling
from ..families import DiagonalGaussian
from ..mixture import gaussian_mixture
from ..nn import MixtureNetwork, apply, initialize_head, mixture_mlp
from ..objectives import NGEM, OBJECTIVES, AbstractObjective
from .regression import mean_crps
from .store import Unit, rounded
from .two_gaussians import true_density


class TaskData(NamedTuple):
    """Features and targets of a task in its own units, with the truth as far as it is known.

    Attributes:
        x: Features.
        y: Targets.
        split: Row numbers for training, validation and test.
        true_nll: Negative log-likelihood of the true density on the test rows, if known.
        true_weight: Weight of the heavier of two components, if known.
    """

    x: np.ndarray
    y: np.ndarray
    split: datasets.RandomSplit
    true_nll: float | None = None
    true_weight: float | None = None


@dataclass(frozen=True)
class Task:
    """A problem.

    Attributes:
        rows: Function from a seed to data.
        n_components: Components of the mixture, often more than the truth has.
        hidden_sizes: Hidden layers of the network.
    """

    rows: Callable[[int], TaskData]
    n_components: int
    hidden_sizes: tuple[int, ...] = (128, 128)


def _drawn(
    make: Callable[..., Any], n_train: int, true_weight: float | None = None, **settings: Any
) -> Callable[[int], TaskData]:
    """Return a task from a generator: training, validation and test rows are separate draws."""

    def rows(seed: int) -> TaskData:
        sizes = {"train": n_train, "validation": n_train // 5, "test": 5000}
        # No two draws share a seed.
        parts = [
            make(size, seed=1000 * seed + number, **settings)
            for number, size in enumerate(sizes.values())
        ]
        ends = np.cumsum([0, *sizes.values()])
        split = datasets.RandomSplit(*(np.arange(a, b) for a, b in itertools.pairwise(ends)))
        truth = getattr(parts[2], "true_log_density", None)
        x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in "xy")
        return TaskData(x, y, split, None if truth is None else -truth, true_weight)

    return rows


def _two_gaussians(n_points: int, *, weight: float, seed: int) -> datasets.Regression:
    data = datasets.two_gaussians(n_points, weights=(weight, 1 - weight), seed=seed)
    truth = true_density(data).log_prob(jnp.asarray(data.points))
    return datasets.Regression(np.zeros((n_points, 1)), data.points, float(truth.mean()))


def _two_sinusoids(n_points: int, *, weight: float, seed: int) -> datasets.Regression:
    noise = 0.1
    x, y = datasets.two_sinusoids(n_points, weights=(weight, 1 - weight), noise=noise, seed=seed)
    waves = np.pi * np.sin(x)[..., None] * np.array([[1.0], [-1.0]])
    truth = gaussian_mixture(
        np.broadcast_to(np.log([weight, 1 - weight]), waves.shape[:2]),
        waves,
        np.full_like(waves, noise),
    )
    return datasets.Regression(x, y, float(truth.log_prob(jnp.asarray(y)).mean()))


def _table(name: str, at_most: int = 10_000) -> Callable[[int], TaskData]:
    """Return a UCI set, or a random part of a large one."""

    def rows(seed: int) -> TaskData:
        table = datasets.load_uci(name)
        kept = np.random.default_rng(seed).permutation(len(table.x))[:at_most]
        split = datasets.random_split(len(kept), seed, test=0.2, validation=0.1)
        return TaskData(table.x[kept], table.y[kept], split)

    return rows


def _images(at_most: int = 6000) -> Callable[[int], TaskData]:
    def rows(seed: int) -> TaskData:
        images, labels = datasets.load_mnist("train")
        kept = np.random.default_rng(seed).permutation(len(images))[:at_most]
        split = datasets.random_split(at_most, seed, test=0.2, validation=0.1)
        return TaskData(np.eye(10)[labels[kept]], images[kept] / 255, split)

    return rows


TASKS: dict[str, Task] = {
    **{
        f"two-gaussians {w:g}": Task(_drawn(_two_gaussians, 500, w, weight=w), 2)
        for w in (0.5, 0.8, 0.95)
    },
    **{
        f"two-sinusoids {w:g}": Task(_drawn(_two_sinusoids, 2000, w, weight=w), 2, (128,) * 4)
        for w in (0.5, 0.8, 0.95)
    },
    **{
        f"signed-sine {w:g} noise {noise:g}": Task(
            _drawn(datasets.signed_sine, 1000, weight=w, noise=noise), 5
        )
        for noise in (0.1, 0.02)
        for w in (0.5, 0.8)
    },
    "inverse-sine": Task(_drawn(datasets.inverse_sine, 1000), 5),
    "changing-noise": Task(_drawn(datasets.changing_noise, 1000), 5),
    "two-link-arm": Task(_drawn(datasets.two_link_arm, 2000), 4),
    "switching-maps": Task(_drawn(datasets.switching_maps, 2000), 5),
    **{
        name: Task(_table(name), 5)
        for name in (
            "housing",
            "concrete",
            "energy",
            "kin8nm",
            "naval",
            "power-plant",
            "protein",
            "wine-quality-red",
            "yacht",
        )
    },
    "inverse-mnist": Task(_images(), 3, (128,) * 4),
}


@dataclass(frozen=True)
class Settings:
    """The grid of the study.

    Attributes:
        tasks: Names of tasks, keys of `TASKS`.
        methods: By name: objective, and for "ngem" power ("auto", or start, end and fraction of
            training), logits_rule, damping, coordinates, flattening; init "random" or "k-means".
        learning_rates: Grid for every method.
        stress_rate: A rate that is too large, to see which methods diverge; 0 for no such run.
        weight_decays: Grid for every method, without dropout.
        dropouts: Further points of the grid, without weight decay.
        seeds: Seeds of data, networks and batches.
        steps: Updates of a run, rounded up to whole epochs.
        batch_size: Rows per step.
        scale_floor: Smallest scale of a standardized target.
    """

    tasks: list[str]
    methods: dict[str, dict[str, Any]]
    learning_rates: list[float]
    stress_rate: float
    weight_decays: list[float]
    dropouts: list[float]
    seeds: list[int]
    steps: int
    batch_size: int
    scale_floor: float


def units(settings: Settings) -> list[Unit]:
    """Return one unit for each task, seed and method; a unit runs the whole grid."""
    return [
        {"task": task, "method": method, "seed": seed}
        for task in settings.tasks
        for seed in settings.seeds
        for method in settings.methods
    ]


def run(settings: Settings, unit: Unit) -> dict[str, Any]:
    """Return every point of the grid, and test scores of the point that validation rows chose."""
    task, method = TASKS[unit["task"]], settings.methods[unit["method"]]
    rows = task.rows(unit["seed"])
    parts, log_volume = standardized(rows)
    epochs = -(-settings.steps // -(-len(parts[0].y) // settings.batch_size))

    def fit(rate: float, decay: float, dropout: float, epochs: int) -> training.FitResult | str:
        """Return a fit, or the reason for its divergence."""
        try:
            return training.fit(
                _network(settings, task, method, parts[0], unit["seed"], dropout),
                parts[0],
                _plan(settings, method),
                key=jax.random.key(unit["seed"]),
                max_epochs=epochs,
                learning_rate=rate,
                weight_decay=decay,
                validation=parts[1],
            )
        except training.FitError as error:
            return str(error)[:200]

    grid, best = [], None
    regularizers = [(decay, 0.0) for decay in settings.weight_decays]
    regularizers += [(0.0, dropout) for dropout in settings.dropouts]
    for rate, (decay, dropout) in itertools.product(settings.learning_rates, regularizers):
        point = {"learning_rate": rate, "weight_decay": decay, "dropout": dropout}
        fitted = fit(rate, decay, dropout, epochs)
        if isinstance(fitted, str):
            grid.append({**point, "diverged": fitted})
            continue
        loss = float(fitted.state.best_loss)
        final = float(fitted.history.train[-1])
        grid.append(
            {
                **point,
                "validation_nll": rounded(loss),
                "train_nll": rounded(final),
                "skipped": fitted.skipped,
            }
        )
        if best is None or loss < best[0]:
            best = (loss, point, fitted, final)
    if settings.stress_rate:
        fitted = fit(settings.stress_rate, 0.0, 0.0, -(-epochs // 4))
        stressed = {"diverged": fitted} if isinstance(fitted, str) else {"skipped": fitted.skipped}
        grid.append({"learning_rate": settings.stress_rate, **stressed})
    result: dict[str, Any] = {"grid": grid, "true_nll": rounded(rows.true_nll)}
    if best is None:
        return result
    _, point, fitted, final = best
    mixture = apply(fitted.network, parts[2].rows)
    result |= {
        **point,
        # In the task's units, like the NLL of the true density.
        "test_nll": rounded(float(training.mean_nll(fitted.network, parts[2])) + log_volume),
        "train_nll": rounded(final + log_volume),
        "crps": rounded(mean_crps(mixture, parts[2].y)) if mixture.dim <= 2 else None,
        "targets": mixture.dim,
        "entropy": rounded(float(jnp.mean(mixture.weight_entropy()))),
        "effective_components": rounded(float(_effective(mixture.weights))),
        "weight_error": None
        if rows.true_weight is None
        else rounded(float(jnp.mean(jnp.max(mixture.weights, axis=-1))) - rows.true_weight),
        "curve": rounded(fitted.history.train[:: max(1, epochs // 100)] + log_volume),
        "best_epoch": fitted.best_epoch,
        "epochs": epochs,
    }
    return result


def standardized(rows: TaskData) -> tuple[list[training.Data], float]:
    """Return data scaled to mean 0 and variance 1 on training rows, and the log volume of a unit.

    Images keep their range [0, 1].
    """
    columns = rows.y.shape[1]
    targets = no_scaling(columns) if columns > 100 else fit_scaling(rows.y[rows.split.train])
    x = fit_scaling(rows.x[rows.split.train]).forward(rows.x)
    y = targets.forward(rows.y)
    parts = [training.Data(jnp.asarray(x[part]), jnp.asarray(y[part])) for part in rows.split]
    return parts, targets.log_volume


def make_objective(method: dict[str, Any]) -> AbstractObjective:
    """Return the objective of a method; "ngem" is the default unless its settings are given."""
    name = method["objective"]
    names = ("logits_rule", "damping", "coordinates", "flattening")
    changes = {key: method[key] for key in names if key in method}
    return NGEM(**changes) if name == "ngem" and changes else OBJECTIVES[name]


def _plan(settings: Settings, method: dict[str, Any]) -> training.Plan:
    power = method.get("power")
    return training.Plan(
        objective=make_objective(method),
        batch_size=settings.batch_size,
        power=power if power is None or isinstance(power, str) else tuple(power),
        tail=0.0,  # test rows are judged without one
    )


def _network(
    settings: Settings,
    task: Task,
    method: dict[str, Any],
    data: training.Data,
    seed: int,
    dropout: float,
) -> MixtureNetwork:
    network = mixture_mlp(
        data.x.shape[1],
        data.y.shape[1],
        key=jax.random.key(seed),
        n_components=task.n_components,
        hidden_sizes=task.hidden_sizes,
        family=DiagonalGaussian(scale_floor=settings.scale_floor),
        dropout=dropout,
    )
    if method.get("init", "random") == "random":
        return network
    return initialize_head(network, np.asarray(data.y), np.random.default_rng(seed))


def _effective(weights: Any) -> Any:
    """Return exp of the entropy of the weights averaged over rows."""
    mean = jnp.mean(weights, axis=0)
    return jnp.exp(jnp.sum(jax.scipy.special.entr(mean)))
