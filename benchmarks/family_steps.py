"""What a step of training costs with each family, relative to Gaussians with as many targets.

    python benchmarks/family_steps.py

Time of one core for a step of NGEM and Adam, networks of two hidden layers of 128 units, 5
components, 7 targets and batches of 128 rows; and of the loss with its gradient alone. Families
take turns, and the smallest of several times counts, so that other work on the machine hardly
matters.
The result is docs/results/family_steps.json.
"""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ["XLA_FLAGS"] = (
    "--xla_cpu_multi_thread_eigen=false " + os.environ.get("XLA_FLAGS", "")
).strip()

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from ngem.families import get_family
from ngem.nn import MixtureNetwork, mixture_mlp
from ngem.objectives import NGEM

_RESULT = Path(__file__).parents[1] / "docs/results/family_steps.json"
_FAMILIES = (
    *("gaussian", "lognormal", "student(5)", "logistic", "laplace", "gamma", "weibull"),
    *("poisson", "negative-binomial", "von-mises(360)", "ordinal(3)"),
)
_DIM, _COMPONENTS, _ROWS, _STEPS, _TURNS = 7, 5, 128, 50, 9


def _targets(name: str) -> np.ndarray:
    """Return targets as networks learn them, which the family can have."""
    y = np.random.default_rng(1).normal(size=(_ROWS, _DIM))
    family = get_family(name).base
    return np.clip(np.abs(np.round(y)), *family.ends) if family.is_discrete else y


def _of_network(name: str) -> Callable[[], object]:
    """Return a function that takes some steps of a network."""
    family = get_family(name).base
    network = mixture_mlp(10, _DIM, key=jax.random.key(0), n_components=_COMPONENTS, family=family)
    params, static = eqx.partition(network, eqx.is_inexact_array)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(10, _ROWS)), jnp.float32)
    y, optimizer = jnp.asarray(_targets(name).T, jnp.float32), optax.adam(1e-4)

    def loss(params: MixtureNetwork) -> jax.Array:
        made = eqx.combine(params, static)
        return jnp.mean(NGEM().loss(family, *made.outputs(x), y, 0.5))

    def step(state: tuple, _: None) -> tuple:
        params, memory = state
        updates, memory = optimizer.update(jax.grad(loss)(params), memory)
        return (optax.apply_updates(params, updates), memory), None

    run = jax.jit(lambda state: jax.lax.scan(step, state, None, length=_STEPS)[0])
    return partial(_finish, run, (params, optimizer.init(params)))


def _of_loss(name: str) -> Callable[[], object]:
    """Return a function that computes some gradients in raw outputs."""
    family = get_family(name).base
    head = MixtureNetwork(lambda raw: raw, _COMPONENTS, _DIM, family)
    rng = np.random.default_rng(0)
    raw = jnp.asarray(0.3 * rng.normal(size=(head.num_raw, _ROWS)), jnp.float32)
    y = jnp.asarray(_targets(name).T, jnp.float32)

    def step(raw: jax.Array, _: None) -> tuple:
        grad = jax.grad(lambda raw: jnp.sum(NGEM().loss(family, *head.outputs(raw), y, 0.5)))(raw)
        return raw - 1e-6 * grad, None

    return partial(
        _finish, jax.jit(lambda raw: jax.lax.scan(step, raw, None, length=_STEPS)[0]), raw
    )


def _finish(run: Callable, start: object) -> object:
    return jax.block_until_ready(run(start))


def _relative(make: Callable[[str], Callable[[], object]]) -> dict[str, float]:
    """Return the time of each family in units of the first one's."""
    runs = {name: make(name) for name in _FAMILIES}
    times: dict[str, list[float]] = {name: [] for name in _FAMILIES}
    for _ in range(_TURNS + 1):  # the first turn compiles
        for name, run in runs.items():
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    least = {name: min(own[1:]) for name, own in times.items()}
    return {name: round(own / least[_FAMILIES[0]], 2) for name, own in least.items()}


def main() -> None:
    """Measure and write."""
    result = {"network step": _relative(_of_network), "loss and gradient": _relative(_of_loss)}
    _RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
