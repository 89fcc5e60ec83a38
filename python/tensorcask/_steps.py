"""Numbered steps of a training run, saved in the background, as full checkpoints and deltas to the last full one.

All steps are in the folder of the run. The index of a delta names its full step.
"""

import os
import types
import typing
from collections.abc import Mapping

from tensorcask import _native
from tensorcask._errors import ClosedError, Error, MissingFileError


class Step(typing.NamedTuple):
    """A saved step: ``tensorcask.open(step.path, base=step.base)`` reads it.

    >>> import numpy as np, tensorcask as tc
    >>> from tensorcask import trees
    >>> with trees.AsyncCheckpointer("steps") as checkpointer:
    ...     _ = checkpointer.save(7, {"w": np.ones(3)})
    ...     checkpointer.wait()
    ...     step = checkpointer.latest()
    >>> step.number, tc.load(step.path, base=step.base)["w"].tolist()
    (7, [1.0, 1.0, 1.0])
    """

    number: int
    path: str
    base: "str | None"  # the full checkpoint that a delta needs


class StepSaver:
    """Saves mappings of tensors at numbered steps in the background: the base of each ``AsyncCheckpointer``.

    The options are those of ``tensorcask.CheckpointManager``.
    """

    def __init__(self, folder: "str | os.PathLike[str]", *, name: str = "ckpt", **options: typing.Any) -> None:
        self._folder = os.fspath(folder)
        self._name = name
        self._manager = _native.CheckpointManager(folder, name=name, **options)
        self._running: "_native.BackgroundSave | None" = None

    def _save(self, step: int, tensors: "Mapping[str, object]") -> _native.BackgroundSave:
        """Raises the error of the save before, if that failed. Then copies the tensors and saves them."""
        self.wait()
        self._running = self._manager.save_in_background(step, tensors)
        return self._running

    def wait(self) -> None:
        """Waits for the save that runs, and raises its error."""
        if self._running is not None:
            last, self._running = self._running, None
            last.wait()

    def steps(self) -> "list[int]":
        """The steps that exist, ascending."""
        return self._manager.steps()

    def latest(self, *, verify: bool = True) -> "Step | None":
        """The newest step that is whole: its number, its path, and the base of a delta. None if there is none."""
        if self._manager.closed:
            raise ClosedError("the checkpointer is closed")
        return latest_step(self._folder, self._name, verify)

    def close(self) -> None:
        """Waits for the save that runs, raises its error, and releases the folder."""
        try:
            self.wait()
        finally:
            self._manager.close()

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(
        self,
        type: "type[BaseException] | None",
        exception: "BaseException | None",
        traceback: "types.TracebackType | None",
    ) -> None:
        """Closes. Keeps the exception of the ``with`` block if the save failed, too."""
        try:
            self.close()
        except Error as error:
            if exception is None:
                raise
            exception.add_note(f"The save in the background failed, too: {error}")


def open_latest(
    folder: "str | os.PathLike[str]", *, name: str = "ckpt", verify: bool = True, ignore_checksums: bool = False
) -> "_native.Reader":
    """Opens the newest step of a folder that is whole, with the base of a delta. MissingFileError if there is none.

    Without `verify` only the structure of the step is checked, and each tensor when it is read. With `ignore_checksums`
    tensors are not verified at all: those are read, too, that do not match their checksum.

    >>> import numpy as np, tensorcask as tc
    >>> with tc.CheckpointManager("deltas", full_every=2) as manager:
    ...     for step in range(4):
    ...         manager.save(step, {"w": np.full(3, step)})
    >>> with tc.open_latest("deltas") as reader:
    ...     reader.path, reader["w"].tolist()
    ('deltas/ckpt-3', [3, 3, 3])
    """
    found = latest_step(folder, name, verify and not ignore_checksums)
    if found is None:
        raise MissingFileError(f"{os.fspath(folder)}: no whole step of {name!r}")
    return _native.open(found.path, base=found.base, verify=not ignore_checksums)


def latest_step(folder: "str | os.PathLike[str]", name: str = "ckpt", verify: bool = True) -> "Step | None":
    """The newest step of a run that is whole, or None. A delta is whole if its full step is whole, too."""
    found = _native.latest_step(folder, name, verify)
    return None if found is None else Step(*found)
