"""Methods beside other methods: what is chosen, and by what."""

import numpy as np
import pytest

from ngem.repro import strength
from ngem.repro.boosting_study import Problem


@pytest.mark.trains
def test_held_out_rows_choose_among_networks():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (200, 1))
    y = 3 * x[:, 0] + 0.1 * rng.standard_normal(200)
    choices = [{"max_epochs": 1}, {"max_epochs": 60}]
    parameters = {"n_members": 2, "hidden_sizes": (16,), "random_state": 0, "guard": False}
    model = strength._network({**parameters, "choices": choices}, Problem(x, y, x, y))
    assert model.max_epochs == 60
    plain = strength._network({**parameters, "max_epochs": 1}, Problem(x, y, x, y))
    assert plain.max_epochs == 1
