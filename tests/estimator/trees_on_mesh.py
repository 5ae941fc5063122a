"""One process of a fit of trees, alone or with others: writes log densities of new rows.

Arguments: a case, where to write, and for several processes the number of this one, how many there
are, and the address where they meet.
"""

import contextlib
import os
import signal
import socket
import sys

import numpy as np

from ngem import MixtureBoostingRegressor
from ngem.boosting import team
from ngem.distributed import Place, data_parallel, initialize

case, out, *place = sys.argv[1:]
number = int(place[0]) if place else 0
if place:
    initialize(Place(number, int(place[1]), place[2]))

settings: dict = {"n_components": 2, "weight_rate": 1.0, "max_rounds": 40, "random_state": 0}
if case == "same":
    # Each round sees all rows and columns, as one process does. LightGBM guesses the rows of a leaf
    # from its curvature, and processes do so otherwise than one, unless all rows have the same.
    settings |= {"row_fraction": 1.0, "column_fraction": 1.0, "curvature": "none"}
    settings |= {"n_members": 2, "guard": False, "learning_rate": 0.03}
if case == "die":
    kill = [lambda progress: progress.epoch < 5 or os.kill(os.getpid(), signal.SIGKILL)]
    settings["callbacks"] = kill if number == 1 else ()
if case == "port" and number == 1:
    taken = socket.create_server(("127.0.0.1", 0))
    team._free_port = lambda address: taken.getsockname()[1]

rng = np.random.default_rng(number if case == "differ" else 0)
x = rng.uniform(-1, 1, (2401, 3))
kind = rng.integers(0, 4, 2401).astype(float)
y = rng.choice([-1, 1], 2401) * (1 + x[:, 0]) + (kind == 2) + 0.1 * rng.standard_normal(2401)
weights = None if case == "same" else rng.integers(1, 3, 1501).astype(float)
x, test = np.column_stack([x, kind]), slice(1501, None)
model = MixtureBoostingRegressor(categorical_features=[3], **settings)
with data_parallel() if place else contextlib.nullcontext():
    model.fit(x[:1501], y[:1501], sample_weight=weights)
np.savez(
    out,
    log_prob=model.log_prob(x[test], y[test]),
    curve=model.history_["validation_nll"],
    oof=model.oof_log_prob_,
)
