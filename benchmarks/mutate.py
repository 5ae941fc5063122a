"""How many small mutations of the mathematics the tests notice.

    python benchmarks/mutate.py [--count 300] [--seed 0] [--jobs 2] [--modules torch,metrics]
        [--minutes 60] [--work out/mutate] [--out docs/results/mutations.json] [--again]

Works in copies of the tree. A first run of the tests records which test enters which functions, and
its seconds. Each mutation then meets the tests that enter its function, quickest first. Each
process is a fork of one that has imported everything but the library.

Each result is saved at once under a name that edits elsewhere do not change: a run with the same
--work goes on where the last one was. `--again` tries the survivors again, with today's sources and
tests, and also with the other tests of these files: they may use programs that were compiled when
the first ones entered the function. Mutations in `EQUIVALENT` change nothing that a test could
notice, with the reason.
"""

import argparse
import contextlib
import hashlib
import importlib
import itertools
import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
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
    "objectives": (
        ["objectives/*.py"],
        ["objectives", "test_geometry.py", "families/test_intervals.py"],
    ),
    "mixture": (
        ["mixture/*.py"],
        [
            "mixture",
            *(f"families/test_{name}.py" for name in ("counts", "intervals", "directions")),
        ],
    ),
    "metrics": (["metrics.py"], ["test_metrics.py"]),
    "training": (["training/*.py"], ["training", "estimator/test_streams.py"]),
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

#: Seconds, and times the slowest test's seconds, without the end of a test: it will have none.
SILENCE = (60.0, 10.0)

EQUIVALENT = Path(__file__).with_name("equivalent_mutations.json")

Tests = dict[str, dict[str, Any]]


class Recorder:
    """Records the functions of the package that each test enters, and its seconds."""

    def __init__(self, source: Path) -> None:
        self.source, self.tests = f"{source}/", {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        entered: set[tuple[str, str]] = set()

        def trace(frame: Any, *_: Any) -> None:
            code = frame.f_code
            if code.co_filename.startswith(self.source):
                entered.add((code.co_filename.removeprefix(self.source), code.co_qualname))

        start = time.process_time()
        sys.settrace(trace)
        threading.settrace(trace)
        yield
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        seconds = time.process_time() - start
        scopes = sorted({f"{file}::{scope_of(name)}" for file, name in entered})
        self.tests[item.nodeid] = {"seconds": seconds, "scopes": scopes}


def scope_of(name: str) -> str:
    """Return the functions and classes around a piece of code, without those that have no name."""
    return ".".join(part for part in name.split(".") if not part.startswith("<"))


class Chosen:
    """Runs some tests of those collected in a good order, and tells when each has ended."""

    def __init__(self, tests: Tests, scope: str, *, is_first: bool, signs: Path) -> None:
        self.tests, self.scope, self.is_first, self.signs = tests, scope, is_first, signs

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        chosen = [item for item in items if self.is_hit(item) == self.is_first]
        seconds = {item: self.tests.get(item.nodeid, {}).get("seconds", 0.0) for item in chosen}
        files: dict[Path, float] = defaultdict(float)
        for item in chosen:
            files[item.path] += seconds[item]
        items[:] = sorted(chosen, key=lambda item: (files[item.path], item.path, seconds[item]))

    def is_hit(self, item: Any) -> bool:
        """Return whether a test enters the scope; of a new test nothing is known."""
        test = self.tests.get(item.nodeid)
        return test is None or enters(test, self.scope)

    def pytest_runtest_logfinish(self) -> None:
        os.utime(self.signs)


def enters(test: dict[str, Any], scope: str) -> bool:
    """Return whether a test enters a scope; what stands outside functions meets its whole file."""
    file, _, name = scope.partition("::")
    return scope in test["scopes"] if name else any(one.startswith(file) for one in test["scopes"])


def in_child(tree: Path, arguments: list[str], plugin: Any, after: Any = None) -> int:
    """Start pytest in a fork of this process and return its number."""
    (tree / "signs").touch()
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


def wait(child: int, signs: Path, limit: float) -> int | None:
    """Return the exit code of a child, None if for so many seconds no test has ended."""
    while time.time() - signs.stat().st_mtime < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def test_files(tree: Path, module: str) -> list[str]:
    paths = [tree / "tests" / name for name in MODULES[module][1]]
    files = [file for path in paths for file in ([path] if path.is_file() else path.glob("test*"))]
    return sorted(str(file.relative_to(tree)) for file in files)


def baseline(tree: Path, file: str, known: Path) -> Tests:
    """Return the tests of a file with the functions that they enter; all must pass."""
    digest = hashlib.sha256((tree / file).read_bytes()).hexdigest()[:12]
    path = known / f"{file.replace('/', '-')}-{digest}.json"
    if not path.exists():
        recorder = Recorder(tree / "src" / "ngem")
        save = lambda: path.write_text(json.dumps(recorder.tests))  # noqa: E731
        code = wait(in_child(tree, [file], recorder, save), tree / "signs", 3600)
        if code not in (0, 5):
            path.unlink(missing_ok=True)
            raise SystemExit(f"{file} must pass first:\n{(tree / 'log.txt').read_text()}")
    return json.loads(path.read_text())


def outcome(
    tree: Path, files: dict[str, Tests], mutation: Mutation, rounds: tuple[bool, ...]
) -> str:
    """Return whether tests notice a mutation: "killed", "timeout" or "survived".

    Args:
        tree: A copy of the tree.
        files: Test files of the module, with what is known of their tests.
        mutation: What to change.
        rounds: Which tests to run in turn: those that enter the function, the others.
    """
    scope = f"{mutation.file.removeprefix('src/ngem/')}::{mutation.scope}"
    is_hit = {
        file: any(enters(test, scope) for test in tests.values()) for file, tests in files.items()
    }
    arguments = ["-x", *(file for file in files if is_hit[file] or not any(is_hit.values()))]
    tests = {name: test for file in files.values() for name, test in file.items()}
    limit = SILENCE[0] + SILENCE[1] * max(test["seconds"] for test in tests.values())
    path, signs = tree / mutation.file, tree / "signs"
    text = path.read_text(encoding="utf-8")
    path.write_text(mutation.apply(text), encoding="utf-8")
    try:
        for is_first in rounds:
            plugin = Chosen(tests, scope, is_first=is_first, signs=signs)
            code = wait(in_child(tree, arguments, plugin), signs, limit)
            if code not in (0, 5):  # 5: there was none to run
                return "timeout" if code is None else "killed"
        return "survived"
    finally:
        path.write_text(text, encoding="utf-8")


def pool(module: str) -> list[Mutation]:
    """Return all mutations of a module."""
    files = [file for glob in MODULES[module][0] for file in (TREE / "src/ngem").glob(glob)]
    names = sorted(str(file.relative_to(TREE)) for file in files)
    return [change for name in names for change in mutations(TREE, name)]


def choose(
    modules: list[str], count: int, seed: int, tried: dict[str, Any]
) -> list[tuple[str, Mutation]]:
    """Return mutations not yet tried, so that each module has the same number as far as it can.

    Their order is that of hashes of their names, which is the same after edits elsewhere.
    """

    def place(change: Mutation) -> tuple[bool, str]:
        return change.name not in tried, hashlib.sha256(
            f"{seed} {change.name}".encode()
        ).hexdigest()

    chosen = {name: sorted(pool(name), key=place) for name in modules}
    rounds = itertools.zip_longest(*([(name, one) for one in chosen[name]] for name in modules))
    found = [each for each in itertools.chain.from_iterable(rounds) if each is not None]
    return [each for each in found[:count] if each[1].name not in tried]


def survivors(log: Path) -> list[tuple[str, Mutation]]:
    """Return the survivors of earlier runs as today's sources have them."""
    reasons = json.loads(EQUIVALENT.read_text())
    done = {name: one for name, one in read(log).items() if one["outcome"] == "survived"}
    modules = sorted({one["module"] for one in done.values()})
    return [
        (module, change)
        for module in modules
        for change in pool(module)
        if change.name in done and change.name not in reasons
    ]


def copy_tree(to: Path) -> Path:
    skipped = shutil.ignore_patterns(
        ".git", ".venv", "out", "images", "__pycache__", ".pytest_cache"
    )
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(TREE, to, ignore=skipped)
    # All copies share compiled programs.
    cache = to.parent / "cache"
    cache.mkdir(exist_ok=True)
    (to / ".pytest_cache").symlink_to(cache)
    return to


def summary(done: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the counts, in all and by module, and the survivors with reasons where known."""
    reasons = json.loads(EQUIVALENT.read_text())
    counts = {"all": Counter(one["outcome"] for one in done.values())}
    for module in sorted({one["module"] for one in done.values()}):
        counts[module] = Counter(one["outcome"] for one in done.values() if one["module"] == module)
    left = [
        {"module": one["module"], "name": name, "equivalent": reasons.get(name)}
        for name, one in sorted(done.items())
        if one["outcome"] == "survived"
    ]
    killed = counts["all"].total() - len(left)
    unequal = killed + sum(one["equivalent"] is None for one in left)
    return {"killed_of_unequal": killed / max(1, unequal), "counts": counts, "survivors": left}


def spread(work: Any, items: list[Any], jobs: int) -> None:
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


def campaign(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return what became of each mutation."""
    known, log = options.work / "tests", options.work / "done.jsonl"
    known.mkdir(parents=True, exist_ok=True)
    trees = [copy_tree(options.work / f"tree{job}") for job in range(options.jobs)]
    if options.again:
        chosen = survivors(log)
    else:
        tried = read(log)
        chosen = choose(options.modules.split(","), options.count, options.seed, tried)
    files = {module: test_files(TREE, module) for module, _ in chosen}
    each = sorted({file for names in files.values() for file in names})
    spread(
        lambda job, some: [baseline(trees[job], file, known) for file in some], each, options.jobs
    )
    end = time.time() + options.minutes * 60

    rounds = (True, False) if options.again else (True,)

    def run(job: int, cases: list[tuple[str, Mutation]]) -> None:
        tests = {file: baseline(trees[job], file, known) for file in each}
        for module, mutation in cases:
            if time.time() > end:
                break
            mirrors = {file: tests[file] for file in files[module]}
            began, result = time.time(), outcome(trees[job], mirrors, mutation, rounds)
            one = {"name": mutation.name, "module": module, "outcome": result}
            print(f"{result} in {time.time() - began:.0f} s: {mutation.name}", flush=True)
            with log.open("a") as file:
                file.write(json.dumps(one) + "\n")

    spread(run, chosen, options.jobs)
    return read(log)


def read(log: Path) -> dict[str, dict[str, Any]]:
    """Return the last result of each mutation."""
    lines = log.read_text().splitlines() if log.exists() else []
    return {one["name"]: one for one in map(json.loads, lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--modules", default=",".join(MODULES))
    parser.add_argument("--minutes", type=float, default=1e9, help="start none after this time")
    parser.add_argument("--work", type=Path, default=TREE / "out/mutate", help="copies and records")
    parser.add_argument("--out", type=Path, default=TREE / "docs/results/mutations.json")
    parser.add_argument("--again", action="store_true", help="try the survivors again")
    options = parser.parse_args()
    for name in IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    done = campaign(options)
    options.out.parent.mkdir(exist_ok=True)
    about = {"seed": options.seed, "tried": len(done)}
    options.out.write_text(json.dumps({**about, **summary(done)}, indent=1) + "\n")
    print(json.dumps(summary(done)["counts"]))


if __name__ == "__main__":
    main()
