"""`ngem data`: list, fetch and verify."""

from typer.testing import CliRunner

from ngem.cli import app
from ngem.datasets import files, local_path

from .server import FILE


def run(*arguments):
    return CliRunner().invoke(app, ["data", *arguments])


def test_the_command_lists_fetches_and_verifies(server):
    before = run("list")
    assert before.exit_code == 0
    assert "toy   40000 rows  360 kB  no    ours" in before.output

    fetched = run("fetch", "toy")
    assert fetched.exit_code == 0, fetched.output
    assert fetched.stdout == "toy: 2 files, 360 kB, all good\n"
    assert fetched.stderr == ""  # no bar where nobody watches

    assert "complete" in run("list").output
    assert run("verify").exit_code == run("verify", "toy").exit_code == 0
    run("fetch", "all")
    assert len(server.requests) == 2


def test_an_interrupted_fetch_goes_on(server):
    server.plan += ["good"] + ["gone"] * (1 + files.RETRIES)
    assert run("fetch", "toy").exit_code == 1
    assert "1 of 2" in run("list").output
    assert run("fetch", "toy").exit_code == 0
    assert server.requests.count(FILE) == 1


def test_errors_of_the_command_are_one_paragraph(server):
    server.plan += ["wrong"] * 10
    result = run("fetch", "toy")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: uci/toy/data.txt must have sha256")
    assert result.stderr.count("\n") == 1


def test_verify_names_what_is_damaged(server):
    run("fetch", "toy")
    path = local_path(FILE)
    path.write_bytes(b"short")
    result = run("verify")
    assert result.exit_code == 1
    assert str(path) in result.stderr
    assert "1 of 2 damaged" in run("list").output


def test_verify_fails_where_nothing_is(server):
    result = run("verify")
    assert result.exit_code == 1
    assert "run `ngem data fetch all`" in result.stderr
    assert "run `ngem data fetch toy`" in run("verify", "toy").stderr


def test_unknown_sets_are_refused(server):
    result = run("fetch", "tty")
    assert result.exit_code == 1
    assert "got tty" in result.stderr
