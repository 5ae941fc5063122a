"""Work that processes share: each piece is done once, and none is lost with its process."""

import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest

import ngem
from ngem.distributed import active_work, shared_work
from ngem.distributed.work import Work
from ngem.training import run_shared


def hold(directory, has_it):
    with Work(directory).claim("piece", wait=True):
        has_it.set()
        time.sleep(60)


@pytest.mark.slow
def test_the_claim_of_a_process_that_dies_ends_with_it(tmp_path):
    context = multiprocessing.get_context("spawn")
    has_it = context.Event()
    other = context.Process(target=hold, args=(tmp_path, has_it))
    other.start()
    try:
        assert has_it.wait(200)
        with Work(tmp_path).claim("piece", wait=False) as is_ours:
            assert not is_ours
        with Work(tmp_path, is_claimed=False).claim("piece", wait=False) as is_ours:
            assert is_ours
        assert other.pid is not None
        os.kill(other.pid, signal.SIGKILL)
        with Work(tmp_path).claim("piece", wait=True) as is_ours:
            assert is_ours
    finally:
        other.kill()
        other.join()


@pytest.mark.parametrize("threads", [1, 3])
def test_pieces_of_others_come_last_and_all_have_results(tmp_path, threads):
    done, began = [], threading.Event()

    def piece(name, path, watch):
        done.append(name)
        assert path == tmp_path / f"{name}.ngem"
        return name.upper()

    def other():
        with Work(tmp_path).claim("a", wait=True):
            began.set()
            while "b" not in done or "c" not in done:
                time.sleep(0.01)

    thread = threading.Thread(target=other)
    thread.start()
    began.wait()
    with shared_work(tmp_path):
        pieces = {name: lambda *given, name=name: piece(name, *given) for name in "abc"}
        assert run_shared(pieces, threads) == ["A", "B", "C"]
    thread.join()
    assert done[-1] == "a"
    assert active_work() is None


def sine(n_rows=300):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n_rows, 2))
    return x, rng.choice([-1, 1], n_rows) * x[:, 0] + 0.1 * rng.standard_normal(n_rows)


TREES = ngem.MixtureBoostingRegressor(max_rounds=5, n_members=2, random_state=0)
NETWORK = ngem.MDNRegressor(hidden_sizes=(8,), max_epochs=5, n_members=3, random_state=0)
STACK = ngem.DensityStack([("network", NETWORK), ("trees", TREES)], n_members=2, random_state=0)


@pytest.mark.slow
@pytest.mark.trains
@pytest.mark.parametrize("model", [TREES, NETWORK, STACK], ids=lambda model: type(model).__name__)
def test_a_finished_member_is_read_and_not_trained_again(model, tmp_path, monkeypatch):
    """The fit is that of one process, bit for bit, and the second one only reads."""
    x, y = sine()
    alone = model.fit(x, y).log_prob(x, y)
    with shared_work(tmp_path):
        shared = model.fit(x, y).log_prob(x, y)
    np.testing.assert_array_equal(shared, alone)

    def refuse(*_, **__):
        raise AssertionError("trained again")

    monkeypatch.setattr("ngem.estimator.boosting_members.boost", refuse)
    monkeypatch.setattr("ngem.training.loop._run_epochs", refuse)
    with shared_work(tmp_path, turn=1):
        again = model.fit(x, y).log_prob(x, y)
    np.testing.assert_array_equal(again, alone)
    with pytest.raises(AssertionError, match="trained again"), shared_work(tmp_path):
        model.fit(x, y + x[:, 1])  # other rows have other files
