"""What this process may use of the machine."""

import os


def available_cores() -> int:
    """Return how many cores this process may use, which may be fewer than the machine has."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
