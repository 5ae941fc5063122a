"""Fixtures of the tests of PyTorch."""

import pytest


@pytest.fixture(autouse=True)
def _seed():
    """Start every test from the same state of PyTorch's random numbers."""
    pytest.importorskip("torch", reason="PyTorch is not installed").manual_seed(0)
