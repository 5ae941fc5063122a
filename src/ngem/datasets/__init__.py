"""Data sets, as numpy arrays: generated, UCI regression and MNIST."""

from .catalogue import DATA_NAMES
from .files import DataError, local_path
from .generated import (
    InverseSine,
    TwoGaussians,
    TwoSinusoids,
    inverse_sine,
    two_gaussians,
    two_sinusoids,
)
from .mnist import load_mnist
from .splits import RandomSplit, random_split
from .uci import Split, Table, load_uci, uci_splits

__all__ = [
    "DATA_NAMES",
    "DataError",
    "InverseSine",
    "RandomSplit",
    "Split",
    "Table",
    "TwoGaussians",
    "TwoSinusoids",
    "inverse_sine",
    "load_mnist",
    "load_uci",
    "local_path",
    "random_split",
    "two_gaussians",
    "two_sinusoids",
    "uci_splits",
]
