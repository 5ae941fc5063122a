"""Turns of boosted mixtures."""

import numpy as np
import pytest

from ngem.bench import trees

pytest.importorskip("lightgbm")


def test_time_to_a_likelihood_ends_at_the_first_round_that_has_it():
    turn = trees.reach(data="toy", rows=200, epochs=20)
    seconds, lowest = turn(np.inf)
    assert seconds is not None
    assert seconds > 0
    never, best = turn(-np.inf)
    assert never is None
    assert best < lowest
