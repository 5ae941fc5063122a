"""Strict settings for every test: float64, no silent promotion, shapes checked at run time."""

import os
from pathlib import Path

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Thousands of small programs are compiled: once for all workers and for the processes that tests
# start, and not again the next time.
CACHE = {
    "jax_compilation_cache_dir": str(Path(__file__).parents[1] / ".pytest_cache/jax"),
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
for name, value in CACHE.items():
    jax.config.update(name, value)
    os.environ[name.upper()] = str(value)

# The hook must be in place before the package's modules are first imported.
install_import_hook("ngem", "beartype.beartype")


# Where a developer's machine may keep the data files.
BESIDE = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def data_dir(monkeypatch):
    """Set NGEM_DATA_DIR to a directory with the published files, or skip."""
    place = Path(os.environ.get("NGEM_DATA_DIR") or BESIDE)
    if not place.is_dir():
        pytest.skip("the published data files are not here: set NGEM_DATA_DIR to their directory")
    monkeypatch.setenv("NGEM_DATA_DIR", str(place))
    return place


@pytest.fixture
def hasty_compiler(monkeypatch):
    """Let XLA take little care in processes that a test starts: they compile much, do little."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")


@pytest.fixture(autouse=True)
def _promotion(request):
    """Optax promotes dtypes silently: tests marked `trains` allow what all others refuse."""
    if request.node.get_closest_marker("trains") is None:
        yield
        return
    jax.config.update("jax_numpy_dtype_promotion", "standard")  # not a context: threads see it too
    yield
    jax.config.update("jax_numpy_dtype_promotion", "strict")
