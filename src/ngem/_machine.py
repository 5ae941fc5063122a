"""What a process uses of the machine: cores, JAX's threads, and a directory of its own."""

import hashlib
import os
import platform
import sys
from pathlib import Path


def available_cores() -> int:
    """Return how many cores this process may use, which may be fewer than the machine has."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


#: The process in which JAX computes; None before it has started.
_computing: int | None = None


def claim_process() -> None:
    """Note that JAX computes in this process, and refuse a fork of a process in which it did.

    A fork copies the memory of JAX's threads, but not the threads. A computation would wait for
    them forever.
    """
    global _computing
    if _computing is None:
        _computing = os.getpid()
    if _computing != os.getpid():
        raise RuntimeError(
            "ngem must compute in a process that was not forked after JAX had started, got a fork "
            f"of process {_computing}, where it would wait forever; start workers with "
            'multiprocessing.get_context("spawn"), use threads, or load the model in each worker '
            "and nothing before the fork (gunicorn without --preload)."
        )


def _after_fork() -> None:
    """Note in a forked child whether JAX had started in its parent without our help."""
    global _computing
    bridge = sys.modules.get("jax._src.xla_bridge")
    # Not public, and there is nothing public that tells. Without it our own note must do.
    has_started = getattr(bridge, "backends_are_initialized", None)
    if _computing is None and has_started is not None and has_started():
        _computing = os.getppid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def cache_directory(kind: str) -> Path | None:
    """Return a directory of the user's for files that fit this kind of processor.

    None if it cannot be written to.
    """
    import platformdirs

    directory = platformdirs.user_cache_path("ngem") / kind / _processor()
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return None
    return directory if os.access(directory, os.W_OK) else None


def _processor() -> str:
    """Return a name for this kind of processor.

    Machines may share the directory, and a program may use instructions that others lack.
    """
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    features = {line for line in lines if line.lower().startswith(("flags", "features"))}
    words = [platform.machine(), platform.processor(), *sorted(features)]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
