"""The Gaussian with a full covariance that all components of a row share."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Float

from .base import multiply_leading
from .full import AbstractCholeskyGaussian, MeanCholesky


@dataclass(frozen=True)
class TiedGaussian(AbstractCholeskyGaussian):
    """N(mean, L L^T) with one L for all components of a row; it depends on x all the same.

    The raw outputs of L are there once for a row, and its gradient is the sum over components. The
    complete-data Fisher information of L is sum_k weight_k F(L) = F(L), without a weight.
    """

    names: ClassVar[tuple[str, str]] = ("gaussian", "tied")

    def num_shared_raw(self, dim: int) -> int:
        return dim * (dim + 1) // 2

    def multiply_components(
        self, grad: MeanCholesky, factor: Float[Array, "comp *rows"]
    ) -> MeanCholesky:
        return grad._replace(mean=multiply_leading(grad.mean, factor))
