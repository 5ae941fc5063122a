"""Strict settings for every test: float64, no silent promotion, shapes checked at run time."""

import contextlib
import gc
import os
import threading
from importlib.metadata import version
from pathlib import Path

# Thousands of programs are compiled and most run once, so XLA compiles fast rather than well: a
# third to a quarter of its usual time. It reads this before JAX is imported.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    # XLA ends the process at a flag that it does not know, and later versions lack this one.
    + (
        " --xla_cpu_use_fusion_emitters=false"
        if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11)
        else ""
    ),
)

# Models have the date of their fit: with one date, equal fits have equal files.
os.environ.setdefault("SOURCE_DATE_EPOCH", "1700000000")

import jax
import pytest
from jax._src.interpreters import mlir
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# All workers, the processes that tests start and later runs share what is compiled.
COMPILER = {
    "jax_disable_most_optimizations": True,
    "jax_compilation_cache_dir": str(Path(__file__).parents[1] / ".pytest_cache/jax"),
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
for name, value in COMPILER.items():
    jax.config.update(name, value)
    os.environ[name.upper()] = str(value)


def once_per_thread(make):
    """Return a function that calls `make` once in each thread and then repeats its answer."""
    made = threading.local()

    def get():
        if not hasattr(made, "answer"):
            made.answer = make()
        return made.answer

    return get


# JAX sets up its compiler's front end anew for every program: a sixth of the suite's CPU time. The
# name is private, so a version of JAX without it does without this.
if hasattr(mlir, "make_ir_context"):
    mlir.make_ir_context = once_per_thread(mlir.make_ir_context)

# Traced programs are many small objects that live on: looking for garbage among them is slow.
gc.set_threshold(100_000, 20, 50)

# Packages of arrays: their annotations are checked at each call. The hook must be in place before
# the package's modules are first imported.
MATHEMATICS = "families geometry objectives mixture metrics nn"
LEARNING = "boosting ensemble estimator optimizers training"
install_import_hook(
    [f"ngem.{name}" for name in f"{MATHEMATICS} {LEARNING}".split()], "beartype.beartype"
)


def pytest_collection_finish():
    """What is imported by now lives to the end: no later search for garbage looks at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def data_dir():
    """Return the directory NGEM_DATA_DIR with the published files, or skip."""
    directory = os.environ.get("NGEM_DATA_DIR")
    if not directory or not Path(directory).is_dir():
        pytest.skip("the published data files are missing: set NGEM_DATA_DIR to their directory")
    return Path(directory)


@pytest.fixture(autouse=True, scope="module")
def _forget_programs():
    """Modules hardly share programs, and a process that keeps them all grows to 4 GB and slows."""
    yield
    jax.clear_caches()
    gc.collect()


@contextlib.contextmanager
def _standard_promotion():
    jax.config.update("jax_numpy_dtype_promotion", "standard")  # not JAX's context: for all threads
    yield
    jax.config.update("jax_numpy_dtype_promotion", "strict")


@pytest.fixture(scope="module")
def promotes():
    """Return a context in which fixtures can train, which are set up before a mark takes effect."""
    return _standard_promotion


@pytest.fixture(autouse=True)
def _promotion(request):
    """Optax promotes dtypes silently: tests marked `trains` allow what all others refuse."""
    if request.node.get_closest_marker("trains") is None:
        yield
        return
    with _standard_promotion():
        yield
