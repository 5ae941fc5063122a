"""Several devices and processes: how they share the rows of a batch, or whole networks."""

from .mesh import active_mesh, data_parallel
from .start import Place, find_place, initialize
from .work import active_work, shared_work

__all__ = [
    "Place",
    "active_mesh",
    "active_work",
    "data_parallel",
    "find_place",
    "initialize",
    "shared_work",
]
