"""The negative log-likelihood, equation (3)."""

from dataclasses import dataclass

from .base import AbstractObjective


@dataclass(frozen=True)
class NLL(AbstractObjective):
    """-log sum_k weight_k f_k(y), with its own gradient."""
