"""Which families are proposed: counts, atoms, directions and bounds, by where targets lie."""

import numpy as np
import pytest

from ngem.families import get_family, propose_families, propose_family

RNG = np.random.default_rng(5)
AMOUNTS = RNG.lognormal(3.0, 1.0, 200)
SHARES = RNG.beta(1.0, 4.0, 200)


@pytest.mark.parametrize(
    ("y", "name", "families"),
    [
        (RNG.poisson(2.0, 200), "visits", ("negative-binomial", "poisson")),
        (10 * RNG.poisson(2.0, 200), "visits", None),  # no steps of one
        (RNG.integers(18, 90, 200), "age", ("gaussian",)),
        (np.r_[np.zeros(40), AMOUNTS], "cost", ("lognormal + 0", "gamma + 0")),
        (np.r_[np.zeros(40), SHARES], "share", ("logitnormal + 0", "beta + 0")),
        (
            np.r_[np.zeros(40), SHARES, np.ones(20)],
            "share",
            ("logitnormal + 0 + 1", "beta + 0 + 1"),
        ),
        (AMOUNTS, "cost", ("lognormal", "gamma", "gaussian")),
        (SHARES, "share", ("logitnormal", "beta", "gaussian")),
        (RNG.uniform(0, 360, 200), "wind_dir", ("von-mises(360)",)),
        (RNG.uniform(0, 360, 200), "directory size", ("lognormal", "gamma", "gaussian")),
        (RNG.standard_t(2.2, 2000), "y", ("student(4)", "gaussian")),
        (RNG.normal(size=200), "y", ("gaussian",)),
        (np.full(5, 3.0), "y", ("gaussian",)),
    ],
)
def test_families_follow_from_where_targets_lie(y, name, families):
    found = propose_families(np.asarray(y, float), name)
    if families is not None:
        assert found.families == families
    else:
        assert "poisson" not in found.families
    for family in found.families:
        get_family(family).check_targets(np.asarray(y, float)[:, None])
    proposal = propose_family(np.asarray(y, float), name)
    assert proposal is None or proposal.family == found.families[0]
