"""Callbacks when several members train at a time; `test_loop` has those of one run."""

import pytest

from ngem.training import Progress, callbacks
from ngem.training.callbacks import CSVLogger, ProgressBar, TensorBoardLogger


@pytest.fixture
def interleaved():
    """Progress of three members, of which the second starts last."""
    order = [(0, 1), (2, 1), (0, 2), (1, 1), (2, 2), (1, 2), (2, 3), (0, 3), (1, 3)]
    return [
        Progress(epoch, 3, member + 0.5, member + 0.25, 0.0, 0, 0.0, member)
        for member, epoch in order
    ]


def test_each_member_has_a_line_of_its_own(interleaved, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    bar = ProgressBar(force=True)
    for _ in range(2):  # a closed bar can be used again
        for progress in interleaved:
            bar(progress)
        bar.close()
        lines = [line for line in capsys.readouterr().err.splitlines() if "3/3" in line][-3:]
        for line, member in zip(lines, (0, 2, 1), strict=True):  # in the order of their start
            assert f"network {member + 1}, epoch" in line
            assert f"train {member}.500 validation {member}.250 nat" in line


def test_without_a_terminal_lines_are_written_now_and_then(interleaved, capsys, monkeypatch):
    now = iter([0.0, 1.0, 9.0, 10.5, 11.0, 20.6, *(21.0,) * 9])
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: next(now))
    bar = ProgressBar()
    for progress in interleaved:
        bar(progress)
    bar.close()
    assert capsys.readouterr().err.splitlines() == [
        "network 1, epoch 2 of at most 3, 0 s: train 0.500, validation 0.250 nat",
        "network 3, epoch 2 of at most 3, 0 s: train 2.500, validation 2.250 nat",
    ]


def test_files_tell_members_apart(interleaved, tmp_path):
    log, board = CSVLogger(tmp_path / "log.csv"), TensorBoardLogger(tmp_path / "board")
    for progress in interleaved:
        log(progress)
        board(progress)
    board.close()
    header, *lines = (line.split(",") for line in (tmp_path / "log.csv").read_text().splitlines())
    members = [int(line[header.index("member")]) for line in lines]
    assert members == [progress.member for progress in interleaved]
    for directory in ("board", "board/network_2", "board/network_3"):
        (events,) = (tmp_path / directory).glob("events*")
        assert events.read_bytes().count(b"_nll") == 9  # three likelihoods an epoch
