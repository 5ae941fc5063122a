"""Workers take turns and report errors."""

import pytest

from ngem.bench import workers


@pytest.mark.slow
def test_a_worker_takes_turns_and_tells_what_went_wrong():
    pool = workers.Processes()
    try:
        turn = pool.build(workers.Side("import", "start:bare_import"), {})
        assert 0 < turn() < 120
        with pytest.raises(RuntimeError, match="no_such_function"):
            pool.build(workers.Side("bad", "start:no_such_function"), {})
        pool.clear()
        with pytest.raises(RuntimeError, match="IndexError"):
            turn()
        # A worker that the system ended does not end the others' rows.
        (worker,) = pool._workers.values()
        worker._process.kill()
        worker._process.wait()
        pool.clear()
        assert not pool._workers
    finally:
        pool.close()
