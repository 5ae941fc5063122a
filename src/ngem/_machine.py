"""What this process may use of the machine."""

import hashlib
import os
import platform
from pathlib import Path

#: Bytes of compiled programs to keep; those that were not used for longest go first.
_KEPT = 2**28

#: Seconds of compiling from which on a program is worth a file.
_WORTH = 0.1


def available_cores() -> int:
    """Return how many cores this process may use, which may be fewer than the machine has."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def keep_compiled_programs() -> None:
    """Have JAX keep what it compiles in the user's cache, for later processes.

    To be called before JAX is imported. Who has named a directory by JAX_COMPILATION_CACHE_DIR is
    left alone, and so is who cannot write to the cache: commands then compile anew, as ever.
    """
    import platformdirs

    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    place = platformdirs.user_cache_path("ngem") / "compiled" / _processor()
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if not os.access(place, os.W_OK):
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(place)
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(_KEPT))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(_WORTH))


def _processor() -> str:
    """Return a name for this kind of processor.

    Programs may use instructions that another one, which shares the directory, does not have.
    """
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    abilities = {line for line in lines if line.lower().startswith(("flags", "features"))}
    words = [platform.machine(), platform.processor(), *sorted(abilities)]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
