"""Data sets, as numpy arrays: generated, UCI regression and MNIST."""

from .catalogue import DATA_NAMES
from .diabetes import diabetes
from .files import DataError, local_path
from .generated import (
    InverseSine,
    Regression,
    Sample,
    TwoGaussians,
    TwoSinusoids,
    changing_noise,
    inverse_sine,
    jointed_arm,
    signed_sine,
    switching_maps,
    two_gaussians,
    two_link_arm,
    two_sinusoids,
)
from .mnist import load_mnist
from .more import table_path
from .splits import RandomSplit, random_split
from .uci import Split, Table, is_here, load_uci, uci_splits

__all__ = [
    "DATA_NAMES",
    "DataError",
    "InverseSine",
    "RandomSplit",
    "Regression",
    "Sample",
    "Split",
    "Table",
    "TwoGaussians",
    "TwoSinusoids",
    "changing_noise",
    "diabetes",
    "inverse_sine",
    "is_here",
    "jointed_arm",
    "load_mnist",
    "load_uci",
    "local_path",
    "random_split",
    "signed_sine",
    "switching_maps",
    "table_path",
    "two_gaussians",
    "two_link_arm",
    "two_sinusoids",
    "uci_splits",
]
