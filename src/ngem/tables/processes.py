"""How several processes of `ngem fit` divide the work, and which of them writes the model."""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from jax.errors import JaxRuntimeError

from .._errors import check_choice
from ..distributed import Place, data_parallel, find_place, initialize, shared_work
from ..distributed.exchange import LostError
from ..distributed.launch import is_worker, launch, own_command
from ..distributed.start import HEARTBEAT, mark_failed
from .opening import TableError

#: What --processes says where a scheduler starts them.
SCHEDULER = "scheduler"

_SPLITS = ("members", "rows")


class Team(NamedTuple):
    """The processes of a fit.

    Attributes:
        place: Which of them this one is.
        split: "members", each trains some of them; or "rows", all train one at a time, and each
            has a part of the rows of each batch, or of the rows of trees.
        directory: Where they keep what has finished, and from where a fit goes on after a crash.
    """

    place: Place
    split: str
    directory: Path

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Divide the fits of the block among the processes."""
        with contextlib.ExitStack() as stack:
            if self.split == "rows":
                _keep_standard_output()
                initialize(self.place)
                stack.enter_context(data_parallel())
            shares = self.split == "members"
            stack.enter_context(
                shared_work(self.directory, turn=self.place.number, is_claimed=shares)
            )
            try:
                yield
            except BaseException as error:
                mark_failed()
                is_lost = isinstance(error, JaxRuntimeError) and "Gloo" in str(error)
                if self.split == "rows" and (is_lost or isinstance(error, LostError)):
                    self._await_verdict(error)
                raise

    def _await_verdict(self, error: BaseException) -> NoReturn:
        """Wait to be ended, with a message that names the process that is gone.

        Who has started the processes does that at once, and JAX after its heartbeat.
        """
        text = f"Process {self.place.number} has lost the connection to another one: {error}"
        print(text, file=sys.stderr, flush=True)
        time.sleep(3 * HEARTBEAT)
        os._exit(1)  # an orderly end would wait for the process that is gone


def _keep_standard_output() -> None:
    """Send what libraries write to standard output to standard error: gloo reports there.

    Python's own output stays where it was, so that --json prints nothing but JSON.
    """
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(own, "w", encoding=sys.stdout.encoding)


def work_directory(out: Path) -> Path:
    """Return where the processes of a fit keep what has finished."""
    return out.with_name(f"{out.name}.work")


def count_processes(text: str) -> int | None:
    """Return the number of processes to start here, or None if a scheduler starts them."""
    if text == SCHEDULER:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise TableError(
            f"--processes must be a number of at least 1, or {SCHEDULER} where one starts each "
            f"process, got {text!r}; for example --processes 2."
        )
    return int(text)


def start_processes(text: str | None) -> int | None:
    """Start the processes of a command on this machine, wait for them and return their exit code.

    None means that this process does the work itself: alone, or as one of several.
    """
    count = None if text is None else count_processes(text)
    if count is None or count == 1 or is_worker():
        return None
    return launch(own_command(), count)


def start_fit(text: str | None, out: Path) -> int | None:
    """Start the processes of a fit, and delete what they kept for a crash when all went well."""
    code = start_processes(text)
    if code == 0:
        shutil.rmtree(work_directory(out), ignore_errors=True)
    return code


def make_team(
    text: str | None,
    split: str | None,
    model: str,
    settings: Mapping[str, Any],
    out: Path,
) -> Team | None:
    """Return the processes that this one belongs to, or None if it is alone.

    Args:
        text: What --processes says.
        split: What --split says; by default several members are divided, and the rows of a single
            network.
        model: Kind of the model.
        settings: Parameters of the estimator that were given.
        out: The model file.
    """
    if text is None or count_processes(text) == 1:
        return None
    is_single = model == "network" and settings.get("n_members") == 1
    split = check_choice("--split", split or ("rows" if is_single else "members"), _SPLITS)
    if split == "rows" and model == "stack":
        raise TableError(
            "--split rows must come with --model network or trees, got --model stack; leave "
            "--split out, and processes train its members and kinds."
        )
    return Team(find_place(), split, work_directory(out))
