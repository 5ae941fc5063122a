"""What scripts share that compare variants of an estimator over several tables."""

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

Run = dict[str, Any]


def read_arguments(text: str | None, variants: Iterable[str], tables: Iterable[str]) -> Any:
    """Return the options of such a script: where results go, and what to run."""
    parser = ArgumentParser(description=text)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--variants", nargs="+", default=list(variants), choices=list(variants))
    parser.add_argument("--tables", nargs="+", default=list(tables), choices=list(tables))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=5000, help="rows of a table at most")
    return parser.parse_args()


def run_missing(arguments: Any, run: Callable[[str, str, int], Run]) -> list[Run]:
    """Return all runs: those in the file, and the missing ones, written one at a time.

    Args:
        arguments: What `read_arguments` returned.
        run: From table, variant and seed to the result.
    """
    out: Path = arguments.out
    runs = json.loads(out.read_text()) if out.exists() else []
    done = {(one["table"], one["variant"], one["seed"]) for one in runs}
    for table in arguments.tables:
        for variant in arguments.variants:
            if (table, variant, arguments.seed) not in done:
                result = run(table, variant, arguments.seed)
                runs.append({"table": table, "variant": variant, "seed": arguments.seed, **result})
                out.write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n")
    return runs


def differences(runs: Iterable[Run], variants: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the NLL of each variant minus that of the first, for each table and seed."""
    nll = {(run["variant"], run["table"], run["seed"]): run["nll"] for run in runs}
    default, *others = variants
    gains = {
        variant: np.array(
            [
                nll[key] - nll[default, *key[1:]]
                for key in nll
                if key[0] == variant and (default, *key[1:]) in nll
            ]
        )
        for variant in others
    }
    return {variant: gain for variant, gain in gains.items() if len(gain)}


def summary(title: str, gains: dict[str, np.ndarray], level: float) -> str:
    """Return a table in Markdown: in how many runs each variant is better, level and worse.

    Args:
        title: What the variants are compared with.
        gains: The differences in NLL of each variant.
        level: Differences up to this many nats count as level.
    """
    lines = [f"| against {title} | better | level | worse | median, nat |", "|---|---|---|---|---|"]
    for name, gain in gains.items():
        counts = (gain < -level).sum(), (abs(gain) <= level).sum(), (gain > level).sum()
        lines.append(f"| {name} | {' | '.join(map(str, counts))} | {np.median(gain):+.3f} |")
    return "\n".join(lines)
