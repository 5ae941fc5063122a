"""Strict settings for every test: float64, no silent promotion, shapes checked at run time."""

from pathlib import Path

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Thousands of small programs are compiled: once for all workers, and not again the next time.
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / ".pytest_cache/jax"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

# The hook must be in place before the package's modules are first imported.
install_import_hook("ngem", "beartype.beartype")


@pytest.fixture(autouse=True)
def _promotion(request):
    """Optax promotes dtypes silently: tests marked `trains` allow what all others refuse."""
    if request.node.get_closest_marker("trains") is None:
        yield
        return
    jax.config.update("jax_numpy_dtype_promotion", "standard")  # not a context: threads see it too
    yield
    jax.config.update("jax_numpy_dtype_promotion", "strict")
