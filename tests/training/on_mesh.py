"""One process of a run on a mesh: prints how far it is from the same run on one device.

Arguments: what to compare (a key of CASES), and for several processes their number, the own number
and the address where they meet. The number of devices is that of XLA_FLAGS.
"""

import re
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ngem import training
from ngem.distributed import Place, data_parallel, initialize
from ngem.distributed.mesh import replicated
from ngem.nn import mixture_mlp
from ngem.training import loop

# Rows, rows of a batch, epochs: 200 steps at least.
CASES = {
    # Nothing divides anything: the last batch, the parts of a batch and the held-out rows.
    "uneven": (999, 50, 10),
    "even": (1000, 100, 20),
    "weights": (999, 64, 13),
    "conditions": (1000, 100, 20),
    "differ": (999, 50, 10),  # each process has other rows
    "endless": (1000, 100, 10**9),
}


def make_data(case: str, count: int) -> training.Data:
    rng = np.random.default_rng(jax.process_index() if case == "differ" else 0)
    x = rng.uniform(-1, 1, (count, 2))
    x = np.round(2 * x) if case == "conditions" else x
    y = rng.choice([-1, 1], (count, 1)) * x[:, :1] + 0.1 * rng.standard_normal((count, 1))
    weights = jnp.asarray(rng.integers(0, 3, count), jnp.float32) if case == "weights" else None
    return training.Data(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), weights)


case, *place = sys.argv[1:]
if place:
    n_processes, number, address = place
    initialize(Place(int(number), int(n_processes), address))
count, size, epochs = CASES[case]
data, watched = make_data(case, count), make_data(case, 101)
start = mixture_mlp(2, 1, key=jax.random.key(0), n_components=3, hidden_sizes=(16,))
start = jax.tree.map(lambda a: a.astype(jnp.float32) if eqx.is_inexact_array(a) else a, start)
plan = training.Plan(batch_size=size, ema=0.99, patience=None if case == "endless" else 50)
settings = {"key": jax.random.key(1), "max_epochs": epochs, "validation": watched}
if case == "endless":
    settings["callbacks"] = [lambda progress: progress.epoch > 1 or print("began", flush=True)]
    with data_parallel() as mesh:
        training.fit(start, data, plan, **settings, mesh=mesh)
alone = training.fit(start, data, plan, **settings)
with data_parallel() as mesh:
    spread = training.fit(start, data, plan, **settings, mesh=mesh)
    run = loop.spread(loop.make_run(start, data, plan, watched, None, None, epochs), mesh)
    state = replicated(mesh, training.initial_state(start, run.plan, jax.random.key(0)))
    program = loop._run_epochs.lower((run, np.ones((), np.int32)), state).compile()
pairs = zip(jax.tree.leaves(alone.state.params), jax.tree.leaves(spread.state.params), strict=True)
distance = max(float(jnp.max(jnp.abs(a - b))) for a, b in pairs)
curves = float(np.max(np.abs(alone.history.validation - spread.history.validation)))
text = program.as_text()
messages = len(re.findall(r"all-reduce(?:-start)?\(", text))
moved = len(re.findall(r"(?:all-gather|all-to-all|collective-permute)\(", text))
print(mesh.size, int(spread.state.step), distance, curves, messages, moved)
