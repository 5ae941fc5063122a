"""A trained module as one ONNX file: means, mixtures, quantiles and probabilities of any rows."""

import contextlib
import json
import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ._families import family_of
from ._mixture import MixtureParameters
from ._network import MixtureDensityNetwork, MixtureStack

#: A search for a quantile cuts a bracket into so many pieces, so many times: 28 bits, more than
#: single precision has. A graph has no loops, so a few steps with many points each are smallest.
_PIECES, _STEPS = 16, 7

#: Names of the outputs that every file has.
_OUTPUTS = ("mean", "weights", "component_means", "component_scales")


class Predictions(nn.Module):
    """What a file computes for each row.

    Args:
        network: The trained module.
        levels: Probabilities of the quantiles.
    """

    levels: Tensor
    bounds: Tensor
    fractions: Tensor

    def __init__(
        self, network: MixtureDensityNetwork | MixtureStack, levels: Sequence[float]
    ) -> None:
        super().__init__()
        self.network = network
        probabilities = torch.tensor(levels, dtype=torch.float64)
        self.register_buffer("levels", probabilities.float())
        self.register_buffer("bounds", torch.special.ndtri(probabilities).float())
        self.register_buffer("fractions", torch.arange(1, _PIECES) / _PIECES)

    def forward(self, x: Tensor, y: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return means and mixtures; quantiles if there are levels, P(Y <= y) if there are y."""
        logits, means, scales = self.network(x)
        weights = torch.softmax(logits, -1)
        found = [(weights.unsqueeze(-1) * means).sum(-2), weights, means, scales]
        if len(self.levels):
            found.append(self._quantiles(MixtureParameters(weights, means, scales)))
        if y is not None:
            z = (y.unsqueeze(-2) - means) / family_of(means, scales).marginal_scale(scales)
            found.append((weights.unsqueeze(-1) * _normal_cdf(z.float()).to(z.dtype)).sum(-2))
        return tuple(found)

    def _quantiles(self, mixture: MixtureParameters) -> Tensor:
        """Return the quantiles of each target, (rows, levels, dim).

        A mixture's quantile lies between the smallest and the largest of its components. The
        search runs in single precision, in units in which targets have mean 0 and variance 1.
        """
        weights, means, scales = mixture
        location, unit = self.network.target_location, self.network.target_scale
        std = family_of(means, scales).marginal_scale(scales) / unit
        # Axes: rows, levels, points of the search, components, targets.
        weights = weights.float()[:, None, None, :, None]
        center = ((means - location) / unit).float()[:, None, None]
        std = std.float()[:, None, None]
        ends = center + std * self.bounds[:, None, None, None]
        low, width = ends.amin(3), ends.amax(3) - ends.amin(3)
        for _ in range(_STEPS):
            points = low + width * self.fractions[:, None]
            reached = (weights * _normal_cdf((points.unsqueeze(3) - center) / std)).sum(3)
            is_below = (reached < self.levels[:, None, None]).to(width.dtype)
            width = width / _PIECES
            low = low + width * is_below.sum(2, keepdim=True)
        standardized = (low + 0.5 * width).squeeze(2).to(unit.dtype)
        return (location + unit * standardized).to(means.dtype)


def export_onnx(
    network: MixtureDensityNetwork | MixtureStack,
    *,
    n_features: int,
    levels: Sequence[float],
    with_cdf: bool,
    dtype: str,
    notes: Mapping[str, Any],
) -> bytes:
    """Return the content of an ONNX file.

    Args:
        network: The trained module.
        n_features: Columns of its features.
        levels: Probabilities of the quantiles; none for no quantiles.
        with_cdf: Whether there is a second input, y, and the output P(Y <= y).
        dtype: Type of inputs and outputs, "float64" or "float32".
        notes: Kept as JSON in the metadata of the file, by name.
    """

    number = getattr(torch, dtype)
    dim = len(network.target_location)
    names = ["x", *(["y"] if with_cdf else [])]
    example = tuple(
        torch.zeros(2, width, dtype=number) for width in (n_features, dim)[: len(names)]
    )
    outputs = [*_OUTPUTS, *(["quantiles"] if levels else []), *(["cdf"] if with_cdf else [])]
    rows = torch.export.Dim("rows")
    with _quiet():
        program = torch.onnx.export(
            Predictions(network, levels).eval(),
            example,
            input_names=names,
            output_names=outputs,
            dynamic_shapes=tuple({0: rows} for _ in names),
            dynamo=True,
            verbose=False,
            # onnxscript's optimizer makes invalid files of clipped features; runtimes optimize too.
            optimize=False,
        )
    assert program is not None, "dynamo=True returns a program"
    model = program.model_proto
    for name, value in notes.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = name, json.dumps(value)
    return model.SerializeToString()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence what torch says of its own code and of packages that we do not need."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def _normal_cdf(z: Tensor) -> Tensor:
    # ONNX has no erfc. The error is that of single precision, 1e-7 in probability.
    return 0.5 + 0.5 * torch.erf(z / math.sqrt(2))
