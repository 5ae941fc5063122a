"""How many small mutations of the mathematics the tests notice.

    python benchmarks/mutate.py [--count 300] [--seed 0] [--jobs 2] [--modules torch,metrics]
        [--minutes 60] [--out docs/results/mutations.json]

Works in copies of the tree. A first run of the tests records which test runs which lines and how
long each takes. Each mutation then meets the tests that run its line, quickest first, and if it
survives these, all other tests of its module. Each result is saved at once: as long as sources and
tests are the same, a run with the same --work goes on where the last one was. Mutations in
`EQUIVALENT` change nothing that a test could notice, with the reason.
"""

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mutations import Mutation, mutations

TREE = Path(__file__).parents[1]

# One thread of XLA and of BLAS per process, as in `make test`.
os.environ.update(NPROC="1", OPENBLAS_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")

#: Source files, and the tests that mirror them.
MODULES = {
    "geometry": (["geometry.py"], ["test_geometry.py", "objectives"]),
    "families": (["families/*.py"], ["families", "test_geometry.py"]),
    "objectives": (["objectives/*.py"], ["objectives", "test_geometry.py"]),
    "mixture": (["mixture/*.py"], ["mixture"]),
    "metrics": (["metrics.py"], ["test_metrics.py"]),
    "training": (["training/*.py"], ["training"]),
    "boosting": (["boosting/*.py"], ["boosting", "estimator/test_boosting_regressor.py"]),
    "torch": (["torch/*.py"], ["torch"]),
    "preprocessing": (["estimator/preprocessing.py"], ["estimator/test_preprocessing.py"]),
    "conformal": (["estimator/conformal.py"], ["estimator/test_conformal.py"]),
}

#: What every test imports. A process that has them forks for each mutation.
IMPORTS = (
    *("jax", "optax", "equinox", "jaxtyping", "beartype", "numpy", "pandas"),
    *("scipy.stats", "scipy.integrate", "sklearn.utils.estimator_checks", "sklearn.mixture"),
    *("torch", "torch.onnx", "polars", "rich.progress", "scoringrules", "safetensors.numpy"),
)

#: What is imported already brings plugins of pytest with it, which it would warn of.
QUIET = ("-q", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning")

#: Seconds after which tests have noticed a mutation by not coming to an end.
LIMIT = 900.0

EQUIVALENT = Path(__file__).with_name("equivalent_mutations.json")


class Recorder:
    """Records the lines of the package that each test runs, and its seconds."""

    def __init__(self, source: Path) -> None:
        self.source, self.tests = str(source), {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        lines: set[tuple[str, int]] = set()

        def trace(frame: Any, event: str, _: Any) -> Any:
            if not frame.f_code.co_filename.startswith(self.source):
                return None
            if event == "line":
                lines.add((frame.f_code.co_filename[len(self.source) + 1 :], frame.f_lineno))
            return trace

        start = time.process_time()
        sys.settrace(trace)
        threading.settrace(trace)
        yield
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        seconds = time.process_time() - start
        self.tests[item.nodeid] = {"seconds": seconds, "lines": sorted(lines)}


class Chosen:
    """Runs some tests of those collected, in the given order."""

    def __init__(self, names: list[str]) -> None:
        self.places = {name: place for place, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        chosen = [item for item in items if item.nodeid in self.places]
        items[:] = sorted(chosen, key=lambda item: self.places[item.nodeid])


def in_child(tree: Path, arguments: list[str], plugin: Any, after: Any = None) -> int:
    """Start pytest in a fork of this process and return its number."""
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        os.setsid()
        os.chdir(tree)
        log = os.open(tree / "log.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        sys.path[:0] = [str(tree / "src"), str(tree)]
        os.environ["PYTHONPATH"] = str(tree / "src")
        code = int(pytest.main([*QUIET, *arguments], plugins=[plugin]))
        if after is not None:
            after()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait(child: int, limit: float) -> int | None:
    """Return the exit code of a child, None after the limit."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def test_paths(module: str) -> list[str]:
    return [f"tests/{name}" for name in MODULES[module][1]]


def baseline(tree: Path, module: str) -> dict[str, Any]:
    """Return the tests of a module with the lines that they run; all must pass."""
    recorder, path = Recorder(tree / "src" / "ngem"), tree / f"{module}.json"
    save = lambda: path.write_text(json.dumps(recorder.tests))  # noqa: E731
    code = wait(in_child(tree, test_paths(module), recorder, save), 10 * LIMIT)
    if code != 0:
        raise SystemExit(
            f"the tests of {module} must pass first:\n{(tree / 'log.txt').read_text()}"
        )
    return json.loads(path.read_text())


def order(tests: dict[str, Any], mutation: Mutation) -> tuple[list[str], list[str]]:
    """Return the tests that run the mutated line, and all others, quickest first."""
    name = mutation.file.removeprefix("src/ngem/")
    quickest = sorted(tests, key=lambda test: tests[test]["seconds"])
    hits = [test for test in quickest if [name, mutation.line] in tests[test]["lines"]]
    return hits, [test for test in quickest if test not in set(hits)]


def outcome(tree: Path, module: str, tests: dict[str, Any], mutation: Mutation) -> str:
    """Return whether tests notice a mutation: "killed", "timeout" or "survived"."""
    path = tree / mutation.file
    text = path.read_text(encoding="utf-8")
    path.write_text(mutation.apply(text), encoding="utf-8")
    try:
        for names in order(tests, mutation):
            if not names:
                continue
            files = sorted({name.split("::")[0] for name in names})
            code = wait(in_child(tree, ["-x", *files], Chosen(names)), LIMIT)
            if code != 0:
                return "timeout" if code is None else "killed"
        return "survived"
    finally:
        path.write_text(text, encoding="utf-8")


def choose(tree: Path, modules: list[str], count: int, seed: int) -> list[tuple[str, Mutation]]:
    """Return mutations in random order, the same number of each module as far as it has them."""
    rng, pools = random.Random(seed), {}
    for module in modules:
        files = [file for glob in MODULES[module][0] for file in (tree / "src/ngem").glob(glob)]
        names = sorted(str(file.relative_to(tree)) for file in files)
        pools[module] = [(module, change) for name in names for change in mutations(tree, name)]
        rng.shuffle(pools[module])
    found = [pool[place] for place in range(count) for pool in pools.values() if place < len(pool)]
    return found[:count]


def copy_tree(to: Path) -> Path:
    skipped = shutil.ignore_patterns(
        ".git", ".venv", "out", "images", "__pycache__", ".pytest_cache"
    )
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(TREE, to, ignore=skipped)
    # All copies share compiled programs.
    cache = to.parent / "cache"
    cache.mkdir(exist_ok=True)
    shutil.rmtree(to / ".pytest_cache", ignore_errors=True)
    (to / ".pytest_cache").symlink_to(cache)
    return to


def summary(done: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts, in all and by module, and the survivors with reasons where known."""
    reasons = json.loads(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
    counts = {"all": Counter(one["outcome"] for one in done)}
    for module in sorted({one["module"] for one in done}):
        counts[module] = Counter(one["outcome"] for one in done if one["module"] == module)
    survivors = [
        {**one, "equivalent": reasons.get(key(one))} for one in done if one["outcome"] == "survived"
    ]
    return {"counts": counts, "survivors": survivors}


def key(one: dict[str, Any]) -> str:
    """Return what names a mutation in the list of equivalent ones, whatever its line is."""
    return f"{one['file'].removeprefix('src/ngem/')}: {one['before']} -> {one['after']}"


def share(work: Any, items: list[Any], jobs: int) -> None:
    """Run `work(job, items)` in several processes, each with a part of the items."""
    children = []
    for job in range(jobs):
        child = os.fork()
        if not child:
            code = 1
            try:
                work(job, items[job::jobs])
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(codes):
        raise SystemExit(f"a process ended with {max(codes)}")


def digest() -> str:
    """Return what names the sources and the tests as they are."""
    files = sorted([*TREE.glob("src/**/*.py"), *TREE.glob("tests/**/*.py")])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def campaign(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what became of each mutation."""
    work = options.work / digest()
    work.mkdir(parents=True, exist_ok=True)
    trees = [copy_tree(work / f"tree{job}") for job in range(options.jobs)]
    modules, log = options.modules.split(","), work / "done.jsonl"

    def record(job: int, names: list[str]) -> None:
        for name in names:
            path = work / f"{name}.json"
            if not path.exists():
                path.write_text(json.dumps(baseline(trees[job], name)))

    share(record, modules, options.jobs)
    tests = {name: json.loads((work / f"{name}.json").read_text()) for name in modules}
    chosen, end = (
        choose(TREE, modules, options.count, options.seed),
        time.time() + options.minutes * 60,
    )
    known = {key(one) + str(one["line"]) for one in read(log)}

    def run(job: int, cases: list[tuple[str, Mutation]]) -> None:
        for module, mutation in cases:
            one = {"module": module, **mutation._asdict()}
            if key(one) + str(one["line"]) in known or time.time() > end:
                continue
            one["outcome"] = outcome(trees[job], module, tests[module], mutation)
            with log.open("a") as file:
                file.write(json.dumps(one) + "\n")

    share(run, chosen, options.jobs)
    return read(log)


def read(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--modules", default=",".join(MODULES))
    parser.add_argument("--minutes", type=float, default=1e9, help="start none after this time")
    parser.add_argument("--work", type=Path, default=TREE / "out/mutate", help="copies and records")
    parser.add_argument("--out", type=Path, default=TREE / "docs/results/mutations.json")
    options = parser.parse_args()
    for name in IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    done = campaign(options)
    about = {"seed": options.seed, "asked": options.count, "tried": len(done)}
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({**about, **summary(done)}, indent=1) + "\n")
    print(json.dumps(summary(done)["counts"]))


if __name__ == "__main__":
    main()
