"""Compiled programs that outlive a process: a first fit waits mostly for the compiler.

JAX has a cache of its own, but it is one setting of the whole process, which belongs to the user.
So our costliest programs are kept here, in files of the user's cache directory. A file is found by
a hash of the program's text, of the versions, of the processor and of the compiler's flags. To get
the text JAX must trace the program, which takes longer than to read the file. So a small second
file says which program a function and the form of its arguments lead to, where all of these have a
lasting name; see `_lasting`.
Programs that JAX's own cache keeps, that run on several devices or that are part of another program
are left to JAX. `NGEM_PROGRAMS=off` leaves all of them to JAX.
"""

import hashlib
import os
import threading
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.core
import numpy as np
from jax.experimental import serialize_executable

from . import _files
from ._lasting import lasting_name, read_tree, write_tree
from ._machine import cache_directory

#: Bytes of all files together; those that were not used for longest are deleted first.
_MOST_BYTES = 2**28

#: Programs of one function that stay in memory.
_MOST_PROGRAMS = 64

#: Settings of JAX on which a program depends although its arguments do not show them.
_SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_prng_impl")

#: How the names of files end that say which program a call leads to.
_NOTE = ".note"

#: Settings of JAX that change no program: where it keeps and shows things.
_UNRELATED = {"jax_compilation_cache_dir", "jax_dump_ir_to", "jax_log_compiles"}

#: JAX's own cache.
_OWN = "jax_compilation_cache_dir"

#: Settings under which running a program is more than to run its text.
_WATCHED = ("jax_debug_nans", "jax_debug_infs", "jax_disable_jit")


class Prepared:
    """A first argument whose parts are found once, for many calls of programs.

    Finding the parts of a network takes longer than to run it for one row.

    Attributes:
        form: What a program depends on: all but the values of arrays, and whether some are traced.
        arrays: Its arrays; None for what is none.
    """

    def __init__(self, value: Any) -> None:
        """Find the parts of a pytree."""
        leaves, tree = jax.tree.flatten(value)
        known = tuple(None if _is_array(leaf) else leaf for leaf in leaves)
        self.arrays = [leaf if _is_array(leaf) else None for leaf in leaves]
        shapes = tuple(None if leaf is None else jax.typeof(leaf) for leaf in self.arrays)
        # What is compiled takes no tracers, so calls from another program have one of their own.
        is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in self.arrays)
        self.form = (tree, known, shapes, is_traced)


class _Call(NamedTuple):
    """Arguments, divided into arrays and the rest.

    Attributes:
        form: What a program depends on: the form of the first argument, that of all others, and
            settings.
        arrays: Arrays of the first argument, and those of all others; None for what is none.
    """

    form: tuple
    arrays: tuple[list, list]

    @staticmethod
    def of(args: tuple) -> "_Call":
        first = args[0] if isinstance(args[0], Prepared) else Prepared(args[0])
        rest = Prepared(args[1:])
        settings = tuple(getattr(jax.config, name) for name in _SETTINGS)
        return _Call((first.form, rest.form, settings), (first.arrays, rest.arrays))

    @property
    def is_traced(self) -> bool:
        """Whether it is part of another program."""
        return any(form[3] for form in self.form[:2])

    @property
    def on_devices(self) -> list[jax.Array]:
        """Arrays that JAX holds."""
        return [array for part in self.arrays for array in part if isinstance(array, jax.Array)]

    @property
    def device(self) -> Any:
        """The device that holds them; JAX's default one if there are none."""
        for array in self.on_devices:
            (device,) = array.devices()
            return device
        return getattr(jax.config, "jax_default_device") or jax.local_devices()[0]  # noqa: B009


class Kept:
    """A function whose compiled programs are kept; called as the function itself.

    The first argument may be `Prepared`.

    Arguments are pytrees. Arrays in them are traced, and all else is part of the program and must
    be hashable. The result is a pytree of arrays.
    """

    def __init__(self, function: Callable, *, donate_rest: bool = False) -> None:
        """Keep the programs of a function.

        Args:
            function: The function.
            donate_rest: Whether the memory of all arguments but the first may be reused.
        """
        self._function = function
        self._donated = (1,) if donate_rest else ()
        self._programs: dict[tuple, Callable] = {}
        self._locks: dict[tuple, threading.Lock] = {}
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any) -> Any:
        call = _Call.of(args)
        # One thread compiles a program, others that want it wait.
        with self._locks.setdefault(call.form, threading.Lock()):
            program = self._programs.get(call.form)
            if program is None:
                program = self._programs[call.form] = self._make(call)
                self._forget()
        return program(*call.arrays)

    @property
    def n_programs(self) -> int:
        """How many programs are in memory."""
        return len(self._programs)

    def __get__(self, instance: Any, owner: type | None = None) -> Callable:
        """Return the function as a method."""
        return self if instance is None else partial(self, instance)

    def lower(self, *args: Any) -> Any:
        """Return JAX's program for these arguments before it is compiled."""
        call = _Call.of(args)
        return self._jitted(call).lower(*call.arrays)

    def _jitted(self, call: _Call) -> Any:
        forms = call.form[:2]

        def whole(arrays: list, form: tuple) -> Any:
            tree, known, *_ = form
            pairs = zip(arrays, known, strict=True)
            return jax.tree.unflatten(tree, [v if array is None else array for array, v in pairs])

        def run(first: list, rest: list) -> Any:
            return self._function(whole(first, forms[0]), *whole(rest, forms[1]))

        run.__name__ = run.__qualname__ = self._function.__name__
        return jax.jit(run, donate_argnums=self._donated)

    def _forget(self) -> None:
        """Let the oldest programs go, so that memory stays bounded whatever shapes come."""
        for form in list(self._programs)[:-_MOST_PROGRAMS]:
            self._programs.pop(form, None)
            self._locks.pop(form, None)

    def _make(self, call: _Call) -> Callable:
        """Return the program, from its file if there is one."""
        directory = _directory() if _is_plain(call) else None
        if directory is None:
            return self._jitted(call)
        note = self._note(call, directory)
        program = None if note is None else _follow(note, call)
        if program is not None:
            return program
        lowered = self._jitted(call).lower(*call.arrays)
        file = directory / _name(lowered.as_text(), call.device)
        program = _load(file, lowered.in_tree, lowered.out_tree, call.device)
        program = program or _compile(file, lowered)
        if note is not None:
            _write_note(note, file, lowered.out_tree)
        return program

    def _note(self, call: _Call, directory: Path) -> Path | None:
        """Return the file that says which program a call leads to; None if no name would last."""
        forms, device = call.form[:2], call.device.id
        name = lasting_name(self._function, self._donated, forms, device, _surroundings())
        return None if name is None else directory / (name + _NOTE)


def kept(*, donate_rest: bool = False) -> Callable[[Callable], Kept]:
    """Return a decorator that keeps the compiled programs of a function, see `Kept`."""
    return partial(Kept, donate_rest=donate_rest)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


def _is_plain(call: _Call) -> bool:
    """Return whether a program is all there is to a call, on one device of one process.

    A program holds the numbers of its devices, which each of several processes has its own of.
    """
    if call.is_traced or jax.process_count() > 1:
        return False
    is_watched = any(getattr(jax.config, name) for name in _WATCHED)
    return not is_watched and all(len(array.devices()) == 1 for array in call.on_devices)


def _directory() -> Path | None:
    """Return where programs are kept; None if they are not.

    A program runs as the user, so nobody else may be able to write there.
    """
    is_off = os.environ.get("NGEM_PROGRAMS") == "off"
    if is_off or getattr(jax.config, _OWN) or jax.default_backend() != "cpu":
        return None
    directory = cache_directory("programs")
    if directory is None or not hasattr(os, "getuid"):
        return None
    about = directory.stat()
    return directory if about.st_uid == os.getuid() and not about.st_mode & 0o022 else None


def _name(text: str, device: Any) -> str:
    """Return the name of a program's file: the same only for the same program and device."""
    versions = version("jax"), version("jaxlib"), os.environ.get("XLA_FLAGS", "")
    return hashlib.sha256("\n".join([text, *versions, str(device.id)]).encode()).hexdigest()


def _surroundings() -> list[Any]:
    """Return what else a program's text depends on: flags, and JAX's settings in this thread."""
    of_process = jax.config.values
    names = sorted(of_process.keys() - _UNRELATED)
    settings = [(name, getattr(jax.config, name, of_process[name])) for name in names]
    return [os.environ.get("XLA_FLAGS", ""), settings]


def _follow(note: Path, call: _Call) -> Callable | None:
    """Return the program that a note names; None if there is none, or none that can be used."""
    content = _read(note)
    if content is None:
        return None
    name, out_tree = content[:64].decode(), read_tree(content[64:])
    return _load(note.parent / name, jax.tree.structure((call.arrays, {})), out_tree, call.device)


def _write_note(note: Path, file: Path, out_tree: Any) -> None:
    """Note which program a call leads to, and the form of its result, if both can be written."""
    tree = write_tree(out_tree)
    if tree is not None and file.exists():
        _keep(note, file.name.encode() + tree)


def _load(file: Path, in_tree: Any, out_tree: Any, device: Any) -> Callable | None:
    """Return the program of a file; None if there is none, or none that can be used."""
    content = _read(file)
    if content is None:
        return None
    return serialize_executable.deserialize_and_load(
        content, in_tree, out_tree, execution_devices=[device]
    )


def _compile(file: Path, lowered: Any) -> Callable:
    """Return the compiled program, and keep it in a file."""
    compiled = lowered.compile()
    _keep(file, serialize_executable.serialize(compiled)[0])
    return compiled


def _read(file: Path) -> bytes | None:
    """Return the content of a file; None if there is none, or a damaged one."""
    try:
        content = file.read_bytes()
        os.utime(file)
    except OSError:
        return None
    checksum, content = content[:32], content[32:]
    # A damaged one will be written anew.
    return content if hashlib.sha256(content).digest() == checksum else None


def _keep(file: Path, content: bytes) -> None:
    """Write a file with a checksum; then let old ones go."""
    try:
        _files.replace(file, hashlib.sha256(content).digest() + content)
        _shrink(file.parent)
    except OSError as error:
        warnings.warn(
            f"compiled programs must be written to {file.parent} to be kept, got {error}; make "
            "room there, or set NGEM_PROGRAMS=off.",
            stacklevel=2,
        )


def _shrink(directory: Path) -> None:
    """Delete the files that were not used for longest, as far as all together are too large."""
    files = [(file.stat(), file) for file in directory.iterdir() if _is_ours(file)]
    excess = sum(about.st_size for about, _ in files) - _MOST_BYTES
    for about, file in sorted(files, key=lambda pair: pair[0].st_mtime):
        if excess <= 0:
            return
        file.unlink(missing_ok=True)
        excess -= about.st_size


def _is_ours(file: Path) -> bool:
    return len(file.name.removesuffix(_NOTE)) == 64
