"""Processes of one command: the first that fails ends the others, and the message names it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ngem.distributed.launch import ProcessError, is_worker, launch

WHO = "import os, sys, time, signal; number = int(os.environ['JAX_PROCESS_ID']); "


def command(code):
    return [sys.executable, "-S", "-c", WHO + code]


def test_every_process_knows_its_place(tmp_path):
    code = (
        f"open(f'{tmp_path}/{{number}}', 'w').write("
        "os.environ['JAX_NUM_PROCESSES'] + ' ' + os.environ['JAX_COORDINATOR_ADDRESS'])"
    )
    assert launch(command(code), 3) == 0
    told = [(tmp_path / str(number)).read_text().split() for number in range(3)]
    assert {count for count, _ in told} == {"3"}
    assert len({address for _, address in told}) == 1
    assert not is_worker()


def test_a_process_that_is_killed_ends_the_others_and_is_named(tmp_path):
    code = (
        f"open(f'{tmp_path}/{{number}}', 'w').write(str(os.getpid())); "
        "time.sleep(0.2 if number == 1 else 60); os.kill(os.getpid(), signal.SIGKILL)"
    )
    started = time.monotonic()
    with pytest.raises(ProcessError, match=r"process 1 \(pid \d+\) ended with signal SIGKILL"):
        launch(command(code), 3)
    assert time.monotonic() - started < 10
    for number in range(3):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / str(number)).read_text()), 0)


def test_the_messages_of_a_process_that_fails_are_shown():
    code = "number and sys.exit('the shard is broken'); time.sleep(60)"
    with pytest.raises(ProcessError, match=r"exit code 1 .*\nprocess 1: the shard is broken"):
        launch(command(code), 2)


def test_an_error_that_all_have_is_told_by_the_first(capfd):
    assert launch(command("sys.exit('a bad option')"), 2) == 1
    assert capfd.readouterr().err.strip() == "a bad option"


def test_others_print_nothing(capfd):
    assert launch(command("print('hello', number)"), 2) == 0
    assert capfd.readouterr().out == "hello 0\n"


@pytest.mark.slow
def test_terminate_leaves_no_process_behind(tmp_path):
    source = str(Path(__file__).parents[2] / "src")
    inner = command(f"open(f'{tmp_path}/{{number}}', 'w').write(str(os.getpid())); time.sleep(60)")
    code = f"from ngem.distributed.launch import launch; launch({inner!r}, 2)"
    outer = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": source})
    files = [tmp_path / "0", tmp_path / "1"]
    deadline = time.monotonic() + 60
    while not all(file.exists() and file.read_text() for file in files):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    outer.send_signal(signal.SIGTERM)
    assert outer.wait(20) == 128 + signal.SIGTERM
    for file in files:
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)
