"""Trained networks with their units: predictions for any number of rows in bounded memory.

Rows go through the network in blocks of a fixed size. So one program is compiled for each kind of
prediction and each shape of model, whatever the number of rows. The network works in standardized
units and single precision; results return to the user's units in double precision on the host.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._machine import claim_process
from .._programs import Prepared, kept
from .._types import Params
from ..families import AbstractFamily
from ..mixture import Mixture
from ..mixture.blocks import over_blocks, padded
from ..nn import AbstractPredictor
from ..objectives import NLL
from .marginals import marginals, with_columns
from .preprocessing import Scaling

#: Rows in a block: the first size that holds all rows, so that a few do not wait for thousands.
_SIZES = (8, 256, 8192)

#: The same for regions, which cost a thousand times as much.
_REGIONS = (32, 1024)

#: Levels at a time for which quantiles of few rows are found.
_LEVELS = 4

#: Numbers that a program may keep at a time. A block has fewer rows where each row needs many.
_BUDGET = 2**24


#: How far rounding may move a component's mean, in its standard deviations, and the log weight,
#: relative to the largest, below which it does not matter.
_MOVED, _NEGLIGIBLE = 0.1, math.log(1e-6)

#: Draws of each row that are made at a time.
_DRAWS = (1, 4, 16, 64, 256, 1024)


@runtime_checkable
class Readable(Protocol):
    """How features become inputs of a predictor."""

    @property
    def n_features(self) -> int:
        """Number of features."""
        ...

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return the inputs of each row, in single precision."""
        ...


@dataclass(frozen=True)
class _AsTheyAre:
    """Rows that are inputs already."""

    n_features: int

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return the rows."""
        return x


Network = TypeVar("Network", bound=AbstractPredictor)
Inputs = TypeVar("Inputs", bound=Readable)


@dataclass(frozen=True)
class Model(Generic[Network, Inputs]):
    """An average of densities, and how a user's rows relate to its inputs and outputs.

    Features are (rows, columns) and targets (rows, dim); results are numpy arrays in the user's
    units and begin with the axis of rows. They are in double precision, whatever the features are:
    units such as 50000 +- 0.01 need it.

    Attributes:
        network: What predicts, in units of its own.
        inputs: From a user's features to its inputs.
        targets: From a user's targets to its units.
        resolution: The step to which targets were rounded, in the user's units; None if they are
            not rounded. A log density is then the mean over the values that round to the target.
    """

    network: Network
    inputs: Inputs
    targets: Scaling
    resolution: float | None = None

    def family_of(self, target: int) -> AbstractFamily:
        """Return the distribution of a component in one target column, in the user's units."""
        return self.network.family.rescaled(*self.targets).of_columns((target,))

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return the conditional mean, (rows, dim)."""
        return self._stream(_mean, x, finish=self.targets.backward)

    def std(self, x: np.ndarray) -> np.ndarray:
        """Return the conditional standard deviation, (rows, dim)."""

        def to_user(part: np.ndarray) -> np.ndarray:
            return self.targets.scale * np.sqrt(part.astype(np.float64))

        return self._stream(_variance, x, finish=to_user)

    def quantiles(self, x: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Return the quantiles of each target column by itself, (rows, q, dim)."""
        return self._stream(
            _quantiles,
            x,
            shared=(q,),
            finish=self.targets.backward,
            numbers=8 * self.network.dim * self.network.n_components,
        )

    def interval(self, x: np.ndarray, coverage: float, kind: str) -> np.ndarray:
        """Return regions of each target column by itself, (rows, dim, pieces, 2)."""
        if kind == "equal-tailed":
            tails = np.array([0.5 - coverage / 2, 0.5 + coverage / 2])
            return np.moveaxis(self.quantiles(x, tails), 1, -1)[:, :, None]

        def to_user(part: np.ndarray) -> np.ndarray:
            return np.moveaxis(self.targets.backward(np.moveaxis(part, 1, -1)), -1, 1)

        return self._stream(
            _highest_density,
            x,
            shared=(jnp.asarray(coverage, jnp.float32),),
            finish=to_user,
            sizes=_REGIONS,
        )

    def sample(self, x: np.ndarray, n_samples: int, key: PRNGKeyArray) -> np.ndarray:
        """Return independent draws, (rows, n_samples, dim).

        They are drawn in a few sizes only, so that another number compiles no other program.
        """
        counts = _draws(n_samples)
        parts = [
            self._stream(
                _sample,
                x,
                np.arange(len(x), dtype=np.uint32),
                shared=(jax.random.fold_in(key, index), count),
                finish=self.targets.backward,
                numbers=4 * count * self.network.dim * self.network.n_components,
            )
            for index, count in enumerate(counts)
        ]
        return np.concatenate(parts, axis=1)[:, :n_samples]

    def log_prob(
        self,
        x: np.ndarray,
        y: np.ndarray,
        ends: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the joint log density of each row's targets, (rows,).

        Of intervals, whose ends may be given instead of targets, it is the log probability.
        """
        if self.resolution is not None and ends is None:
            ends = np.concatenate([y - self.resolution / 2, y + self.resolution / 2], axis=1)
        known = self.targets.forward(y)
        if ends is not None:
            known = self.targets.forward_ends(ends, self.network.family.far)
        return self._stream(_log_likelihood, x, known) - self.log_units(y, ends)

    def log_mass(self, x: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the log probability of an interval of each target column, jointly, (rows,)."""
        known = self.targets.forward_ends(ends, self.network.family.far)
        return self._stream(_log_likelihood, x, known)

    def log_units(self, y: np.ndarray, ends: np.ndarray | None) -> Float[np.ndarray, " batch"]:
        """Return by how much log likelihoods in the user's units are lower, (rows,).

        A density has units, and a probability has none. Rounded targets have the mean density over
        their interval.
        """
        of_density = np.where(self.is_atom(y), 0.0, np.log(self.targets.scale))
        if ends is None:
            return of_density.sum(axis=1)
        lower, upper = np.split(ends, 2, axis=1)
        of_interval = 0.0 if self.resolution is None else np.log(self.resolution)
        return np.where(lower == upper, of_density, of_interval).sum(axis=1)

    def is_atom(self, y: np.ndarray) -> Bool[np.ndarray, "batch dim"]:
        """Return where a target is a value with a probability of its own."""
        return self.network.family.is_atom(y)

    def cdf(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the distribution function of each target column at its value, (rows, dim)."""
        return self._stream(_of_marginals, x, self.targets.forward(y), shared=("cdf",))

    def mass_at(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the probability of each target column's value itself, (rows, dim)."""
        return np.maximum(self.cdf(x, y) - self._cdf_before(x, y), 0.0)

    def _cdf_before(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the probability of less than each target column's value, (rows, dim)."""
        return self._stream(_of_marginals, x, self.targets.forward(y), shared=("cdf_before",))

    def pit(self, x: np.ndarray, y: np.ndarray, seed: Any = 0) -> np.ndarray:
        """Return the probability integral transform of each target column, (rows, dim).

        Where the distribution function has a step at the target, a uniform number between both
        ends of the step: only then are the values of true densities uniform.
        """
        at = self.cdf(x, y)
        if not self.network.family.has_steps:
            return at
        before = self._cdf_before(x, y)
        return before + np.random.default_rng(seed).uniform(size=at.shape) * (at - before)

    def crps(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the continuous ranked probability score of each target column, (rows, dim)."""
        return self._stream(
            _of_marginals,
            x,
            self.targets.forward(y),
            shared=("crps",),
            finish=lambda part: part.astype(float) * self.targets.scale,
            numbers=1 if self.network.family.has_crps else 2 * _BUDGET // _SIZES[1],
        )

    def region_mass(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the smallest coverage whose region, as of `interval`, holds y, (rows, dim)."""
        scaled = self.targets.forward(y)
        return self._stream(
            _region_mass,
            x,
            scaled,
            sizes=_REGIONS,
        )

    def sampled_region_mass(
        self, x: np.ndarray, y: np.ndarray, n_samples: int, key: PRNGKeyArray
    ) -> np.ndarray:
        """Return the fraction of draws whose joint density is at least that of y, (rows,)."""
        return self._stream(
            _sampled_region_mass,
            x,
            self.targets.forward(y),
            np.arange(len(x), dtype=np.uint32),
            shared=(key, n_samples),
            numbers=4 * n_samples * self.network.dim * self.network.n_components,
        )

    def mixture(self, x: np.ndarray) -> Mixture:
        """Return the mixtures of all rows at once, in JAX's precision.

        Raises:
            ValueError: If the user's units need more than that.
        """
        family = self.network.family
        location, scale = self.targets

        def to_user(part: tuple[np.ndarray, Params, np.ndarray, np.ndarray]) -> tuple:
            logits, components, means, stds = jax.tree.map(np.float64, part)
            components = family.rescale(components, location, scale)
            return logits, components, location + scale * means, scale * stds

        logits, components, means, stds = self._stream(_parameters, x, finish=to_user)
        dtype = jax.dtypes.canonicalize_dtype(np.float64)
        counts = logits - logits.max(axis=-1, keepdims=True) > _NEGLIGIBLE
        _check_precision(means[counts], stds[counts], dtype)
        logits, components = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, dtype), (logits, components)
        )
        return Mixture(logits, components, family.rescaled(location, scale))

    def own_parameters(self, x: np.ndarray) -> tuple[np.ndarray, Params]:
        """Return logits and components of all rows, in the predictor's own units."""
        return self._stream(_parameters, x)[:2]

    def weights(self, x: np.ndarray) -> np.ndarray:
        """Return the weights of all components, (rows, components)."""
        return self._stream(_weights, x)

    def usage(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each member's entropy of weights and responsibilities, (rows, members[, comp])."""
        return self._stream(_usage, x, self.targets.forward(y))

    def uncertainty(
        self, x: np.ndarray, n_samples: int, key: PRNGKeyArray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return variances of noise and of the model, (rows, dim), and both entropies, (rows, 2).

        Those of the model are what members disagree about.
        """
        with np.errstate(over="ignore", under="ignore"):
            squared = self.targets.scale**2
        if not np.all((squared > 0) & np.isfinite(squared)):
            column = int(np.argmin((squared > 0) & np.isfinite(squared)))
            raise ValueError(
                f"variances must be doubles, got targets of scale {self.targets.scale[column]:g} "
                f"in column {column}, whose square is none; choose another unit for that column."
            )

        def to_user(part: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
            noise, model, entropies = (leaf.astype(np.float64) for leaf in part)
            return (
                noise * squared,
                model * squared,
                entropies + np.array([self.targets.log_volume, 0.0]),
            )

        return self._stream(
            _uncertainty,
            x,
            np.arange(len(x), dtype=np.uint32),
            shared=(key, n_samples),
            finish=to_user,
            numbers=4 * n_samples * self.network.dim * self.network.n_components,
        )

    def distance(self, x: np.ndarray) -> np.ndarray:
        """Return how far outside the training rows each row lies, in standard deviations."""
        return self._stream(_distance, x)

    def encoded(self, x: np.ndarray) -> tuple["Model", np.ndarray]:
        """Return a model and rows as it reads them, for several predictions of the same rows.

        Thousands of trees are slow to evaluate: this way they run once, not for each prediction.
        """
        inputs = self.inputs.forward(x)
        return replace(self, inputs=_AsTheyAre(inputs.shape[1])), inputs

    def member(self, *indices: int) -> "Model":
        """Return the model of one member, or of some of them together."""
        return replace(self, network=self.network.subset(indices))

    def __getstate__(self) -> dict[str, Any]:
        # Without what is cached, of which a pickle would hold the network a second time.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _prepared(self) -> Prepared:
        return Prepared(self.network)

    @cached_property
    def _num_raw(self) -> int:
        return self.network.num_raw

    def _stream(
        self,
        program: Callable,
        x: np.ndarray,
        *per_row: np.ndarray,
        shared: tuple = (),
        finish: Callable[[Any], Any] = lambda part: part,
        numbers: int = 1,
        sizes: tuple[int, ...] | None = None,
    ) -> Any:
        """Run a program over blocks of rows and join what it returns, in the user's units."""
        claim_process()
        size = _block_size(len(x), max(numbers, 2 * self._num_raw), sizes or _SIZES)

        def one(rows: slice) -> Any:
            block = (self.inputs.forward(x[rows]), *(array[rows] for array in per_row))
            result = program(self._prepared, *(padded(array, size) for array in block), *shared)
            part = jax.tree.map(lambda leaf: np.asarray(leaf)[: len(block[0])], result)
            return jax.tree.map(lambda leaf: leaf.astype(np.float64), finish(part))

        return over_blocks(one, len(x), size)


def _check_precision(
    means: Float[np.ndarray, "comp dim"], stds: Float[np.ndarray, "comp dim"], dtype: Any
) -> None:
    """Refuse components that numbers of a dtype would move by a tenth of their width, or lose."""
    with np.errstate(over="ignore"):
        moved = np.abs(means.astype(dtype).astype(np.float64) - means)
    info = np.finfo(dtype)
    holds = (moved <= _MOVED * stds) & (stds >= info.tiny) & (stds <= info.max)
    if not np.all(holds):
        at = tuple(np.argwhere(~holds)[0])
        raise ValueError(
            f"a Mixture of these targets must be in double precision, got JAX's {dtype} for a "
            f"component with mean {means[at]:g} and standard deviation {stds[at]:g}; try "
            'jax.config.update("jax_enable_x64", True) at the start, or predict, '
            "predict_quantiles, predict_interval, sample and log_prob, which are precise."
        )


def _draws(n_samples: int) -> list[int]:
    """Return sizes of parts that add up to so many draws, or to a few more."""
    most = _DRAWS[-1]
    rest = n_samples % most
    last = [next(size for size in _DRAWS if size >= rest)] if rest else []
    return [most] * (n_samples // most) + last


def _block_size(n_rows: int, numbers: int, sizes: tuple[int, ...]) -> int:
    """Return how many rows to take at a time, one of few sizes so that programs are shared."""
    fitting = next((size for size in sizes if n_rows <= size), sizes[-1])
    affordable = max(1, _BUDGET // numbers)
    return min(fitting, 2 ** (affordable.bit_length() - 1))


# The programs are functions of the module, so that models of one structure share what is compiled.


@kept()
def _mean(network: AbstractPredictor, x: Float[Array, "batch inputs"]) -> Array:
    return jax.vmap(network)(x).mean()


@kept()
def _weights(network: AbstractPredictor, x: Float[Array, "batch inputs"]) -> Array:
    return jax.vmap(network)(x).weights


@kept()
def _variance(network: AbstractPredictor, x: Float[Array, "batch inputs"]) -> Array:
    return jax.vmap(network)(x).variance()


@kept()
def _parameters(
    network: AbstractPredictor, x: Float[Array, "batch inputs"]
) -> tuple[Float[Array, "batch comp"], Params, Array, Array]:
    """Return logits and components, and the components' means and standard deviations."""
    mixture = jax.vmap(network)(x)
    stds = jnp.sqrt(mixture.component_variance())
    return mixture.logits, mixture.components, mixture.component_mean(), stds


@kept()
def _log_likelihood(
    network: AbstractPredictor, x: Float[Array, "batch inputs"], known: Float[Array, "batch given"]
) -> Float[Array, " batch"]:
    return -NLL().losses(jax.vmap(network)(x), known)


@kept()
def _usage(
    network: AbstractPredictor, x: Float[Array, "batch inputs"], y: Float[Array, "batch dim"]
) -> tuple[Float[Array, "batch member"], Float[Array, "batch member comp"]]:
    mixtures = jax.vmap(network.each)(x)
    of_each = jnp.broadcast_to(y[:, None], (*mixtures.batch_shape, y.shape[1]))
    return mixtures.weight_entropy(), mixtures.responsibilities(of_each)


@kept()
def _uncertainty(
    network: AbstractPredictor,
    x: Float[Array, "batch inputs"],
    number: Array,
    key: PRNGKeyArray,
    n_samples: int,
) -> tuple[Float[Array, "batch dim"], Float[Array, "batch dim"], Float[Array, "batch 2"]]:
    members = jax.vmap(network.each_at_distance, out_axes=1)(x)
    means = members.mean()
    weights = network.member_weights.astype(means.dtype)
    average = partial(jnp.tensordot, weights, axes=1)
    draws = members.sample(jax.random.fold_in(key, number[0]), (n_samples,))
    own = members.log_prob(draws)
    # The density of every member at the draws of each.
    shape = (n_samples, len(means), *draws.shape[1:])
    others = jax.vmap(members.log_prob, in_axes=1, out_axes=1)(
        jnp.broadcast_to(draws[:, :, None], shape)
    )
    mean = jax.nn.logsumexp(others + jnp.log(weights)[None, None, :, None], axis=2)
    noise_entropy = -average(jnp.mean(own, axis=0))
    information = jnp.maximum(average(jnp.mean(own - mean, axis=0)), 0.0)
    return (
        average(members.variance()),
        average((means - average(means)[None]) ** 2),
        jnp.stack([noise_entropy, information], axis=1),
    )


@kept()
def _distance(
    network: AbstractPredictor, x: Float[Array, "batch inputs"]
) -> Float[Array, " batch"]:
    return jax.vmap(network.distance)(x)


def _quantiles(
    network: AbstractPredictor | Prepared, x: Float[np.ndarray, "batch inputs"], levels: np.ndarray
) -> np.ndarray:
    # The network runs once; then so many levels at a time, so that one program serves any number of
    # them. Where rows are few a call costs more than a few levels that nobody asked for.
    mixtures = _marginal_mixtures(network, x)
    at_once = _LEVELS if len(x) <= _SIZES[1] else 1
    missing = -len(levels) % at_once
    filled = np.concatenate([levels, np.repeat(levels[-1:], missing)])
    parts = filled.astype(mixtures[0].logits.dtype).reshape(-1, at_once)
    found = [np.concatenate([own.quantile(part) for own in mixtures], axis=1) for part in parts]
    return np.moveaxis(np.concatenate(found, axis=-1)[..., : len(levels)], -1, 1)


@kept()
def _marginal_mixtures(
    network: AbstractPredictor, x: Float[Array, "batch inputs"]
) -> list[Mixture]:
    return marginals(jax.vmap(network)(x))


# Regions are no part of the network's program: mixtures of numbers have quicker ones.


def _highest_density(
    network: AbstractPredictor | Prepared,
    x: Float[np.ndarray, "batch inputs"],
    coverage: Float[Array, ""],
) -> Float[np.ndarray, "batch dim pieces 2"]:
    mixtures = _marginal_mixtures(network, x)
    found = [np.asarray(mixture.interval(coverage, "hdr")) for mixture in mixtures]
    most = max(part.shape[2] for part in found)
    full = [np.full((*part.shape[:2], most, 2), np.nan, part.dtype) for part in found]
    for whole, part in zip(full, found, strict=True):
        whole[:, :, : part.shape[2]] = part
    return np.concatenate(full, axis=1)


def _region_mass(
    network: AbstractPredictor | Prepared,
    x: Float[np.ndarray, "batch inputs"],
    y: Float[np.ndarray, "batch dim"],
) -> Float[np.ndarray, "batch dim"]:
    each = with_columns(_marginal_mixtures(network, x), y)
    return np.concatenate([mixture.region_mass(own[..., None]) for mixture, own in each], axis=1)


@kept()
def _of_marginals(
    network: AbstractPredictor,
    x: Float[Array, "batch inputs"],
    y: Float[Array, "batch dim"],
    name: str,
) -> Float[Array, "batch dim"]:
    """Return what a method of one-dimensional mixtures gives for each target."""
    each = with_columns(marginals(jax.vmap(network)(x)), y)
    return jnp.concatenate(
        [getattr(mixture, name)(own[..., None]) for mixture, own in each], axis=1
    )


@kept()
def _sampled_region_mass(
    network: AbstractPredictor,
    x: Float[Array, "batch inputs"],
    y: Float[Array, "batch dim"],
    number: Array,
    key: PRNGKeyArray,
    n_samples: int,
) -> Float[Array, " batch"]:
    mixture = jax.vmap(network)(x)
    draws = mixture.sample(jax.random.fold_in(key, number[0]), (n_samples,))
    higher = mixture.log_prob(draws) >= mixture.log_prob(y)[None]
    return jnp.mean(higher, axis=0, dtype=y.dtype)


@kept()
def _sample(
    network: AbstractPredictor,
    x: Float[Array, "batch inputs"],
    number: Array,
    key: PRNGKeyArray,
    n_samples: int,
) -> Float[Array, "batch draws dim"]:
    # One key for each block, from the number of its first row: a key for each row compiles slowly.
    draws = jax.vmap(network)(x).sample(jax.random.fold_in(key, number[0]), (n_samples,))
    return jnp.moveaxis(draws, 0, 1)
