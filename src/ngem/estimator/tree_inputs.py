"""From features to what a boosted model reads: the guard's inputs and the trees' raw outputs."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from .._machine import available_cores
from ..boosting import Forest
from .preprocessing import Inputs


@dataclass(frozen=True)
class TreeInputs:
    """Features of the guard, then the raw outputs of each member.

    Attributes:
        forests: The trees of each member.
        plain: How the columns of numbers become the guard's features.
        columns: These columns.
        fill: What replaces a missing value of each column; NaN where the trees have seen some.
    """

    forests: tuple[Forest, ...]
    plain: Inputs
    columns: Int[np.ndarray, " number"]
    fill: Float[np.ndarray, " column"]

    @property
    def n_features(self) -> int:
        """Number of columns, codes of categories among them."""
        return len(self.fill)

    def forward(self, x: np.ndarray) -> Float[np.ndarray, "batch inputs"]:
        """Return the inputs of the predictor, in single precision."""
        read = self.complete(x)

        with ThreadPoolExecutor(available_cores()) as pool:
            raw = list(pool.map(lambda forest: forest.raw(read), self.forests))
        return np.concatenate([self.plain.forward(x[:, self.columns]), *raw], axis=1)

    def complete(self, x: np.ndarray) -> np.ndarray:
        """Return features as the trees read them.

        LightGBM would read a gap as zero in a column that had none.
        """
        gaps = np.isnan(x)
        return np.where(gaps, self.fill.astype(x.dtype), x) if gaps.any() else x
