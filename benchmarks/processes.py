"""What several processes and devices cost and save: counts of a step, and times in turns.

    python benchmarks/processes.py --out docs/results/processes.json
    python benchmarks/processes.py --smoke

Each group of processes (or of devices in one process) measures, one after the other and in turns:
`alone`, steps of one device with the whole batch; `part`, steps of one device in each process with
its part of the batch, all processes at the same time; `sum`, a sum over devices of as many numbers
as the gradient has; `mesh`, steps of all devices together. The model says that mesh = part + sum.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Name, widths of the hidden layers, rows of a batch, steps in a turn.
SHAPES = (
    ("128 x 128, batch 128", (128, 128), 128, 50),
    ("128 x 128, batch 4,096", (128, 128), 4096, 5),
    ("512 x 512, batch 1,024", (512, 512), 1024, 3),
)

SMOKE = (("8, batch 16", (8,), 16, 2),)

#: Processes, and devices of each.
GROUPS = ((1, 1), (2, 1), (4, 1), (1, 8))

FEATURES, COMPONENTS = 10, 5

#: Assumptions of the model for hosts that are not here: operations and bytes a second, and seconds
#: of a message. A sum in a ring takes 2 (hosts - 1) messages one after the other.
OPERATIONS, BYTES, MESSAGE = 5e11, 1.25e9, 50e-6

#: Operations per row and parameter, forward and back; the measured shapes have 6.1 to 6.5.
PER_PARAMETER = 6.4


def model(hosts: int, parameters: float, busy: float = 0.8) -> dict[str, float]:
    """Return the time of a sum over hosts, and the batch that keeps each busy most of the time."""
    seconds = 2 * (hosts - 1) * MESSAGE + 2 * (hosts - 1) / hosts * 4 * parameters / BYTES
    rows = seconds * busy / (1 - busy) * OPERATIONS / (PER_PARAMETER * parameters)
    return {
        "milliseconds of a sum": round(1e3 * seconds, 2),
        "rows of a batch on each host": float(f"{rows:.2g}"),
        "rows of a batch": float(f"{rows * hosts:.2g}"),
    }


def model_table() -> dict[str, Any]:
    """Return the model for networks from small to large on 8 and 64 hosts."""
    sizes = (2e4, 3e5, 1e7, 1e8)
    return {
        "assumed": {"operations/s": OPERATIONS, "bytes/s": BYTES, "seconds of a message": MESSAGE},
        "at 80% busy": {
            f"{hosts} hosts, {size:.0e} parameters": model(hosts, size)
            for hosts in (8, 64)
            for size in sizes
        },
    }


def measure_shape(
    widths: tuple[int, ...], batch: int, steps: int, turns: int, mesh: Any
) -> dict[str, Any]:
    """Return counts of one step and median seconds of each kind of step."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import multihost_utils

    from ngem import training
    from ngem.distributed.mesh import added_up, replicated
    from ngem.nn import mixture_mlp
    from ngem.training import loop

    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((batch * steps, FEATURES)), jnp.float32)
    y = jnp.asarray(rng.standard_normal((batch * steps, 1)), jnp.float32)
    network = mixture_mlp(
        FEATURES, 1, key=jax.random.key(0), n_components=COMPONENTS, hidden_sizes=widths
    )
    size = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)))

    def stepper(count: int, on: Any) -> tuple[Callable[[], Any], Any]:
        plan = training.Plan(batch_size=count, ema=0.99)
        data = training.Data(x[: count * steps], y[: count * steps])
        run = loop.make_run(network, data, plan, None, None, None, 10**9)
        state = training.initial_state(network, run.plan, jax.random.key(0))
        if on is not None:
            run, state = loop.spread(run, on), replicated(on, state)
        limit = np.ones((), np.int32)
        program = loop._run_epochs.lower((run, limit), state).compile()
        kept = [state]

        def turn() -> None:
            kept[0], logs = loop._run_epochs((run, limit), kept[0])
            jax.block_until_ready(logs)

        return turn, program

    vector = replicated(mesh, jnp.zeros(size + 1, jnp.float32))

    @jax.jit
    def sums(start: Any) -> Any:
        def add(value: Any, _: Any) -> tuple[Any, None]:
            return added_up(mesh, lambda device, given, part: 0.5 * given, value), None

        return jax.lax.scan(add, start, length=steps)[0]

    is_first, several = jax.process_index() == 0, jax.process_count() > 1
    alone, program = stepper(batch, None)
    part, _ = stepper(max(1, batch // mesh.size), None)
    spread, together = stepper(batch, mesh)
    turns_of = {
        "alone": alone if is_first else (lambda: None),
        "part": part,
        "sum": lambda: jax.block_until_ready(sums(vector)),
        "mesh": spread,
    }
    seconds: dict[str, list[float]] = {name: [] for name in turns_of}
    for number in range(turns + 1):
        for name, turn in turns_of.items():
            if several:
                multihost_utils.sync_global_devices(name)
            before = time.perf_counter()
            turn()
            if number:  # the first one compiles
                seconds[name].append((time.perf_counter() - before) / steps)
    text = together.as_text()
    cost = program.cost_analysis()
    each = {name: float(np.median(values)) for name, values in seconds.items()}
    return {
        "parameters": size,
        "flops of a step": cost["flops"] if isinstance(cost, dict) else cost[0]["flops"],
        "bytes of a sum": 4 * (size + 1),
        "sums of a step": text.count(" all-reduce("),
        "milliseconds": {name: round(1e3 * value, 3) for name, value in each.items()},
        "alone / mesh": round(each["alone"] / each["mesh"], 3),
        "alone / (part + sum)": round(each["alone"] / (each["part"] + each["sum"]), 3),
    }


def work(shapes: tuple, turns: int) -> None:
    """Measure in one process of a group; the first prints the result."""
    import jax

    from ngem.distributed import data_parallel, initialize

    place = initialize()
    with data_parallel() as mesh:
        found = {
            name: measure_shape(widths, batch, steps, turns, mesh)
            for name, widths, batch, steps in shapes
        }
    if place.is_first:
        print(json.dumps({"jax": jax.__version__, "shapes": found}))


def measure_group(processes: int, devices: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what a group of processes measures."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = [sys.executable, __file__, "--worker", "--turns", str(arguments.turns)]
    words += ["--smoke"] if arguments.smoke else []
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    workers = [
        subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "NPROC": "1",
                "XLA_FLAGS": flags.strip(),
                "JAX_COORDINATOR_ADDRESS": address,
                "JAX_NUM_PROCESSES": str(processes),
                "JAX_PROCESS_ID": str(number),
            },
        )
        for number in range(processes)
    ]
    outputs = [worker.communicate()[0] for worker in workers]
    if any(worker.returncode for worker in workers):
        raise SystemExit(f"a process of {processes} failed")
    return json.loads(outputs[0].splitlines()[-1])


def main() -> None:
    """Measure all groups, print the result, write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--smoke", action="store_true", help="tiny shapes and one group")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--model", action="store_true", help="only the model's part of --out again")
    arguments = parser.parse_args()
    if arguments.model:
        result = {**json.loads(arguments.out.read_text()), "model": model_table()}
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
        return
    if arguments.worker:
        work(SMOKE if arguments.smoke else SHAPES, arguments.turns)
        return
    groups: dict[str, Any] = {}
    version = ""
    for processes, devices in ((1, 2),) if arguments.smoke else GROUPS:
        found = measure_group(processes, devices, arguments)
        groups[f"{processes} processes of {devices} devices"] = found["shapes"]
        version = found["jax"]
        print(json.dumps(found["shapes"], indent=1), flush=True)
    result = {
        "jax": version,
        "cores": os.cpu_count(),
        "load when it ended": round(os.getloadavg()[0], 1),
        "turns": arguments.turns,
        "groups": groups,
        "model": model_table(),
    }
    if arguments.out is not None:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
