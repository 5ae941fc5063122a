"""Our side of the measurements: training, losses, bare matrix products, growth."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import training
from ..mixture import gaussian_mixture
from ..nn import MixtureNetwork, mixture_mlp
from ..objectives import ANNEALED, get_objective
from .timing import Turn, in_turns, seconds

#: Largest number of means in a batch of losses; larger shapes get fewer rows.
_NUMBERS = 2**22


def noise(
    rows: int, features: int, dim: int, labels: int = 0, *, distinct: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of noise: the cost of a step does not depend on the data.

    With labels, the features are one-hot codes of that many classes. Distinct ones get a little
    noise, so that no row repeats.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, features), np.float32)
    if labels:
        x = np.eye(labels, dtype=np.float32)[rng.integers(labels, size=rows)]
    if distinct:
        x = x + 1e-4 * np.random.default_rng(1).standard_normal(x.shape, np.float32)
    return x, rng.standard_normal((rows, dim), np.float32)


def steps_of(rows: int, batch: int, updates: int) -> tuple[int, int]:
    """Return the number of whole epochs with at least these updates, and their updates."""
    each = math.ceil(rows / batch)
    epochs = math.ceil(updates / each)
    return epochs, epochs * each


def train(
    *,
    objective: str = "ngem",
    rows: int,
    features: int,
    dim: int,
    components: int,
    hidden: Sequence[int],
    batch: int,
    updates: int,
    separate: bool = False,
    labels: int = 0,
    distinct: bool = False,
    seeds: int = 1,
    together: bool = False,
) -> Turn:
    """Return a turn that trains from scratch; it gives seconds per update.

    Args:
        objective: Name of the objective.
        rows: Training rows.
        features: Feature columns.
        dim: Target columns.
        components: Components of the mixture.
        hidden: Sizes of hidden layers.
        batch: Rows of a step.
        updates: Updates of a turn, rounded up to whole epochs.
        separate: Whether weights and Gaussians have separate networks.
        labels: Number of distinct conditions, 0 if every row has its own.
        distinct: Whether to add a little noise to conditions, so that none repeats.
        seeds: Number of runs.
        together: Whether runs are parallel.
    """
    x, y = noise(rows, features, dim, labels, distinct=distinct)
    data = training.Data(jnp.asarray(x), jnp.asarray(y))
    keys = [jax.random.key(seed) for seed in range(seeds)]
    networks = [
        _network(x.shape[1], dim, components, hidden, separate=separate, seed=seed)
        for seed in range(seeds)
    ]
    plan = training.Plan(
        objective=get_objective(objective), batch_size=batch, learning_rate_schedule="constant"
    )
    epochs, done = steps_of(rows, batch, updates)

    def work(epochs: int) -> None:
        if together:
            training.fit_many(networks, data, plan, keys=keys, max_epochs=epochs)
            return
        for network, key in zip(networks, keys, strict=True):
            training.fit(network, data, plan, key=key, max_epochs=epochs)

    work(1)  # compile
    return lambda: seconds(lambda: work(epochs)) / (done * seeds)


def loss(
    *,
    objective: str,
    components: int,
    dim: int,
    calls: int,
    power: float | None = None,
    batch: int = 256,
) -> Turn:
    """Return a turn that computes loss and gradient in logits, means and scales many times.

    Each gradient moves the arrays by a tiny step, so that the compiler cannot leave a call out.

    Args:
        objective: Name of the objective.
        components: Components of the mixture.
        dim: Target columns.
        calls: Calls of a turn, fewer for large arrays.
        power: Strength of the default objective as an argument of the program, as in training;
            None for its constant strength.
        batch: Rows, fewer for large arrays.
    """
    batch = max(8, min(batch, _NUMBERS // (components * dim)))
    calls = max(2, min(calls, 2**26 // (batch * components * dim)))
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.standard_normal(shape, np.float32))  # noqa: E731
    start = (
        draw(batch, components),
        draw(batch, components, dim),
        0.5 + jnp.abs(draw(batch, components, dim)),
    )
    y = draw(batch, dim)
    chosen = get_objective(objective)
    if power is not None and objective == "ngem":
        chosen = ANNEALED

    def mean_loss(arrays: Any, power: Any) -> Any:
        mixture = gaussian_mixture(*arrays)
        return jnp.mean(chosen.losses(mixture, y, power))

    @jax.jit
    def run(arrays: Any, power: Any) -> Any:
        def body(_: Any, carry: Any) -> Any:
            arrays, total = carry
            value, grads = jax.value_and_grad(mean_loss)(arrays, power)
            return jax.tree.map(lambda a, g: a - 1e-6 * g, arrays, grads), total + value

        return jax.lax.fori_loop(0, calls, body, (arrays, jnp.zeros(())))

    strength = None if power is None else jnp.asarray(power)
    work = lambda: jax.block_until_ready(run(start, strength))  # noqa: E731
    work()
    return lambda: seconds(work) / calls


def products(
    *,
    features: int,
    dim: int,
    components: int,
    hidden: Sequence[int],
    batch: int,
    updates: int,
    labels: int = 0,
    conditions: bool = False,
    **_: Any,
) -> Turn:
    """Return a turn that computes the matrix products of one step and nothing else.

    These are the forward pass, the gradient of each weight matrix, and the gradient of each layer's
    input except the first, with XLA or NumPy's BLAS, whichever is faster here. With conditions the
    network runs once per label, and the product that sums gradients by condition is included.
    """
    rows = labels if conditions else batch
    raw = components * (1 + 2 * dim)
    sizes = [labels or features, *hidden, raw]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, sizes[0]), np.float32)
    shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
    weights = [rng.standard_normal(shape, np.float32) / np.sqrt(shape[1]) for shape in shapes]
    extra = None
    if conditions:
        extra = (
            np.eye(labels, dtype=np.float32)[:, rng.integers(labels, size=batch)],
            rng.standard_normal((batch, raw), np.float32),
        )
    runs = [_xla_products(x, weights, extra, updates), _blas_products(x, weights, extra, updates)]
    for run in runs:
        run()
    turns = [lambda run=run: seconds(run) / updates for run in runs]
    best = int(np.median(in_turns(turns, 5), axis=0).argmin())
    return turns[best]


def step_growth(*, vary: str, size: int, updates: int, **shape: Any) -> Turn:
    """Return a turn of training with one size of the shape changed."""
    return train(**_varied(shape, vary, size), updates=updates)


def step_memory(*, vary: str, size: int, **shape: Any) -> Turn:
    """Return a turn that gives the bytes that XLA plans for the program beyond the data."""
    planned = _planned_bytes(**_varied(shape, vary, size))
    return lambda: float(planned)


def memory_ratio(**shape: Any) -> Turn:
    """Return a turn that gives planned bytes over the bytes that a step cannot avoid.

    Unavoidable are parameters and gradients, the state (optimizer, best parameters), and one
    batch's activations: every layer's output and the mixture's arrays, once.
    """
    network = _network_of(shape)
    params = eqx.filter(network, eqx.is_inexact_array)
    state = training.initial_state(network, training.Plan(), jax.random.key(0))
    held = _bytes(params) + _bytes(state._replace(key=None))
    # Each hidden layer before and after its activation, and one array of the mixture.
    units = 2 * sum(shape["hidden"]) + network.num_raw + shape["components"] * shape["dim"]
    needed = held + 4 * shape["batch"] * (units + shape["features"] + shape["dim"])
    planned = _planned_bytes(**shape)
    return lambda: planned / needed


def _xla_products(
    x: np.ndarray,
    weights: Sequence[np.ndarray],
    extra: tuple[np.ndarray, np.ndarray] | None,
    updates: int,
) -> Callable[[], Any]:
    first = jnp.asarray(x)
    table, grads = (None, None) if extra is None else map(jnp.asarray, extra)

    @jax.jit
    def run(weights: list[Any], summed: Any) -> Any:
        def body(_: Any, carry: Any) -> Any:
            weights, summed = carry
            if table is not None and grads is not None:
                # Depends on the last result by one number, or XLA would compute it only once.
                summed = (table + summed[0, 0]) @ grads
            # The products of one step are the matrices of the next, so none can be left out.
            return _chain(jnp.matmul, first, weights), summed

        return jax.lax.fori_loop(0, updates, body, (weights, summed))

    start = [jnp.asarray(weight) for weight in weights]
    summed = None if table is None or grads is None else jnp.zeros((len(table), grads.shape[1]))
    return lambda: jax.block_until_ready(run(start, summed))


def _blas_products(
    x: np.ndarray,
    weights: Sequence[np.ndarray],
    extra: tuple[np.ndarray, np.ndarray] | None,
    updates: int,
) -> Callable[[], Any]:
    def run() -> None:
        for _ in range(updates):
            _chain(np.matmul, x, weights)
            if extra is not None:
                np.matmul(*extra)

    return run


def _chain(matmul: Callable[..., Any], x: Any, weights: Sequence[Any]) -> list[Any]:
    """Return the products that make up the gradients of the weights, by back-propagation."""
    inputs = [x]
    for weight in weights:
        inputs.append(matmul(inputs[-1], weight.T))
    grad, products = inputs.pop(), []
    for number in reversed(range(len(weights))):
        products.append(matmul(grad.T, inputs[number]))
        if number:
            grad = matmul(grad, weights[number])
    return products[::-1]


def _network(
    features: int,
    dim: int,
    components: int,
    hidden: Sequence[int],
    *,
    separate: bool = False,
    seed: int = 0,
) -> MixtureNetwork:
    return mixture_mlp(
        features,
        dim,
        key=jax.random.key(seed),
        n_components=components,
        hidden_sizes=tuple(hidden),
        separate=separate,
    )


def _network_of(shape: dict[str, Any]) -> MixtureNetwork:
    return _network(shape["features"], shape["dim"], shape["components"], shape["hidden"])


def _varied(shape: dict[str, Any], vary: str, size: int) -> dict[str, Any]:
    value = [size] * len(shape["hidden"]) if vary == "hidden" else size
    return {**shape, vary: value}


def _planned_bytes(**shape: Any) -> int:
    """Return bytes of arguments, results and scratch of the compiled epochs, without the data."""
    network = _network_of(shape)
    x, y = noise(shape["rows"], shape["features"], shape["dim"])
    data = training.Data(jnp.asarray(x), jnp.asarray(y))
    plan = training.Plan(batch_size=shape["batch"])
    memory = training.compiled(network, data, plan).memory_analysis()
    total = memory.argument_size_in_bytes + memory.output_size_in_bytes
    total += memory.temp_size_in_bytes - memory.alias_size_in_bytes
    return total - x.nbytes - y.nbytes


def _bytes(tree: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))
