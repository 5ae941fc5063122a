"""The negative log-likelihood, equation (3)."""

from dataclasses import dataclass

from .base import AbstractLikelihood


@dataclass(frozen=True)
class NLL(AbstractLikelihood):
    """-log sum_k weight_k f_k(y), with its own gradient."""
