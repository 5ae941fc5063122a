"""Importing `ngem.torch` needs neither JAX nor scikit-learn."""

from .common import finish, start_script


def test_no_jax_is_needed():
    finish(start_script("without_jax.py"))
