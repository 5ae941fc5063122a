"""Changes of boosting that were tried and left out, as patches of the engine.

`benchmarks/boosting_choices.py` measures them. Each is a context: inside it, every boosted mixture
of Gaussians with one target is trained and read in the changed way.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

from ngem.boosting import Curvature, Forest, Newton, Outputs, TreeSettings, engine, row_newton
from ngem.estimator import boosting_members

_start, _raw, _single = boosting_members.marginal_start, Forest.raw, engine._single
_of_tables, _to_lightgbm = TreeSettings._of_tables, TreeSettings.to_lightgbm

Step = Callable[..., Newton]


@contextmanager
def linear_leaves(penalty: float) -> Iterator[None]:
    """LightGBM fits a line in each leaf, in the columns of the splits above it."""
    more = {"linear_tree": True, "linear_lambda": penalty}
    with patch.object(TreeSettings, "_of_tables", lambda self: {**_of_tables(self), **more}):
        yield


@contextmanager
def bounded_scale_steps() -> Iterator[None]:
    """Log scales have r (1 + z^2) as curvature, with which a leaf's step is the M-step's tanh."""

    def rows(outputs: Outputs, curvature: Curvature, *args: Any) -> tuple:
        losses, grad, positive = row_newton(outputs, curvature, *args)
        return losses, grad, jnp.where(_of(outputs, "scale"), positive - grad, positive)

    with _step(_mapped(rows)):
        yield


@contextmanager
def falling_flattening(rounds: int) -> Iterator[None]:
    """Weights count as equal in responsibilities at first, and as they are after some rounds."""

    def rows(outputs: Outputs, curvature: Curvature, raw: Any, y: Any, fallen: Any) -> tuple:
        k = outputs.n_components
        logits = jax.nn.log_softmax(raw[:k], axis=0)
        flat = jnp.concatenate([logits * fallen, raw[k:]])
        _, grad, positive = row_newton(outputs, curvature, flat, y)
        weights, resp = jnp.exp(logits), jax.nn.softmax(flat[:k], axis=0) - grad[:k]
        grad = jnp.concatenate([weights - resp, grad[k:]])
        positive = jnp.concatenate([weights * (1 - weights) + curvature.damping, positive[k:]])
        return outputs.losses(raw, y), grad, positive

    with _step(_falling(rows, rounds)):
        yield


@contextmanager
def falling_strength(rounds: int, last: float) -> Iterator[None]:
    """The curvature's power falls from one, each output's mean kept."""

    def rows(outputs: Outputs, curvature: Curvature, raw: Any, y: Any, fallen: Any) -> tuple:
        losses, grad, positive = row_newton(outputs, curvature, raw, y)
        mean = jnp.mean(positive, axis=1, keepdims=True)
        return losses, grad, mean * (positive / mean) ** (1 - (1 - last) * fallen)

    with _step(_falling(rows, rounds)):
        yield


@contextmanager
def scale_ceiling(largest: float, n_components: int) -> Iterator[None]:
    """Scales are at most so many standard deviations of the targets."""
    places = np.arange(n_components + 1, 3 * n_components, 2)

    def clip(raw: np.ndarray) -> np.ndarray:
        raw = np.array(raw)
        raw[..., places] = np.minimum(raw[..., places], np.log(largest))
        return raw

    with _reading(clip), _starting(clip):
        yield


@contextmanager
def narrow_start(fraction: float, n_components: int) -> Iterator[None]:
    """Components start near the mean of all targets, as wide as keeps the variance."""
    k = n_components

    def change(raw: np.ndarray) -> np.ndarray:
        weights = np.exp(raw[:k] - raw[:k].max()) / np.exp(raw[:k] - raw[:k].max()).sum()
        offsets = raw[k::2] - weights @ raw[k::2]
        lost = (1 - fraction**2) * (weights @ offsets**2)
        scales = 0.5 * np.log(np.exp(2 * raw[k + 1 :: 2]) + lost)
        means = weights @ raw[k::2] + fraction * offsets
        return np.concatenate([raw[:k], np.column_stack([means, scales]).ravel()])

    with _starting(change):
        yield


@contextmanager
def common_trees(n_components: int) -> Iterator[None]:
    """Two more trees a round: one moves all means, the other all log scales."""
    k = n_components
    shifts = np.zeros((3 * k, 2), np.float32)
    shifts[k::2, 0] = shifts[k + 1 :: 2, 1] = 1
    to_raw = np.concatenate([np.eye(3 * k, dtype=np.float32), shifts], axis=1)

    def step(outputs: Outputs, curvature: Curvature, raw: Any, y: Any, weights: Any) -> Newton:
        losses, grad, positive = row_newton(outputs, curvature, raw, y)
        rates = np.append(curvature.rates(outputs.kinds), [1.0, curvature.scale_rate])
        each = (jnp.concatenate([one, shifts.T @ one]) for one in (grad, positive))
        return _finish(rates, losses, *each, weights)

    def wider(self: TreeSettings, num_raw: int, *args: Any) -> dict[str, Any]:
        return _to_lightgbm(self, num_raw + 2, *args)

    with (
        _step(jax.jit(step, static_argnums=(0, 1))),
        _reading(lambda raw: raw @ to_raw.T),
        _starting(lambda raw: np.append(raw, [0.0, 0.0])),
        patch.object(TreeSettings, "to_lightgbm", wider),
    ):
        yield


def _of(outputs: Outputs, kind: str) -> np.ndarray:
    return np.array([one == kind for one in outputs.kinds])[:, None]


def _finish(rates: np.ndarray, losses: Any, grad: Any, positive: Any, weights: Any) -> Newton:
    """Return gradient and curvature in units of the mean curvature, as `boosting.newton` does."""
    grad, positive, total = grad * weights, positive * weights, jnp.sum(weights)
    unit = jnp.sum(positive, axis=1, keepdims=True) / total
    unit = jnp.where(unit > 0, unit, 1.0)
    scaled = grad * (jnp.asarray(rates, grad.dtype)[:, None] / unit)
    return Newton(scaled, positive / unit, jnp.sum(losses * weights) / total)


def _mapped(rows: Callable[..., tuple]) -> Step:
    """Return a step from what gives loss, gradient and curvature of each row."""

    @partial(jax.jit, static_argnums=(0, 1))
    def step(
        outputs: Outputs, curvature: Curvature, raw: Any, y: Any, weights: Any, *more: Any
    ) -> Newton:
        each = rows(outputs, curvature, raw, y, *more)
        return _finish(curvature.rates(outputs.kinds), *each, weights)

    return step


def _falling(rows: Callable[..., tuple], rounds: int) -> Step:
    """Return a step that knows how far its member has come, from zero to one over some rounds.

    Members are trained one after the other, each with targets of its own.
    """
    step, state = _mapped(rows), {"y": None, "round": 0}

    def count(outputs: Outputs, curvature: Curvature, raw: Any, y: Any, weights: Any) -> Newton:
        state.update(y=y, round=state["round"] + 1 if state["y"] is y else 0)
        fallen = jnp.float32(min(1.0, state["round"] / rounds))
        return step(outputs, curvature, raw, y, weights, fallen)

    return count


def _step(step: Step) -> Any:
    return patch.object(engine, "newton", step)


@contextmanager
def _reading(change: Callable[[np.ndarray], np.ndarray]) -> Iterator[None]:
    """Change what the trees' outputs stand for, in training and in prediction."""
    with ExitStack() as stack:
        stack.enter_context(
            patch.object(engine, "_single", lambda raw: _single(np.asarray(change(raw))))
        )
        read = lambda self, x: change(_raw(self, x)).astype(np.float32)  # noqa: E731
        stack.enter_context(patch.object(Forest, "raw", read))
        yield


def _starting(change: Callable[[np.ndarray], np.ndarray]) -> Any:
    return patch.object(boosting_members, "marginal_start", lambda *args: change(_start(*args)))
