"""Numbered steps of a training run, saved in the background, as full checkpoints and deltas to the last full one.

Full steps are in the folder of the run, where ``tensorcask.latest`` finds them. Deltas are in its folder ``deltas``;
each stores the number of the full step that it was made against.
"""

import os
import re
import types
import typing
from collections.abc import Mapping

import numpy as np

from tensorcask import _native
from tensorcask._errors import (
    ClosedError,
    DataLossError,
    Error,
    FailedPreconditionError,
    InvalidArgumentError,
    MissingFileError,
    MissingTensorError,
)

BASE_STEP = "tensorcask/base_step"  # the tensor of a delta that has the number of its full step
_DELTAS = "deltas"


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

    Of `full_every` steps the first is a full checkpoint, and the others are deltas to it. `keep_last` and `keep_every`
    count full steps; of deltas as many are kept as two full steps have. The other options are those of
    ``tensorcask.CheckpointManager``.
    """

    def __init__(
        self,
        folder: "str | os.PathLike[str]",
        *,
        name: str = "ckpt",
        full_every: int = 1,
        keep_last: int = 5,
        keep_every: int = 0,
        level: str = "stored",
        sync: bool = True,
        shards: int = 1,
        threads: "int | None" = None,
        reuse_memory: bool = True,
    ) -> None:
        if full_every < 1:
            raise InvalidArgumentError(f"full_every is {full_every}; wanted 1 or more")
        if full_every > 1 and keep_last < 2:
            raise InvalidArgumentError(
                f"keep_last is {keep_last}; wanted 2 or more, because deltas need the last full step while the next "
                "one is saved"
            )
        self._folder = os.fspath(folder)
        self._name = name
        self._full_every = full_every
        self._options: "dict[str, typing.Any]" = {
            "sync": sync, "shards": shards, "threads": threads, "reuse_memory": reuse_memory
        }  # fmt: skip
        self._level = level
        self._full = _native.CheckpointManager(
            folder, name=name, keep_last=keep_last, keep_every=keep_every, level=level, **self._options
        )
        self._deltas: "_native.CheckpointManager | None" = None
        self._base: "int | None" = None  # the last full step, once a save of it was started
        self._since_full = 0  # deltas that were saved since
        self._running: "_native.BackgroundSave | None" = None

    def _save(self, step: int, tensors: "Mapping[str, object]") -> _native.BackgroundSave:
        """Raises the error of the save before, if that failed. Then copies the tensors and saves them."""
        self.wait()
        if self._base is not None and self._since_full + 1 < self._full_every:
            if BASE_STEP in tensors:
                raise InvalidArgumentError(f"{BASE_STEP}: deltas store the number of their full step under this name")
            manager = self._deltas if self._deltas is not None else self._open_deltas(self._base)
            self._running = manager.save_in_background(step, {**tensors, BASE_STEP: np.int64(self._base)})
            self._since_full += 1
        else:
            running = self._full.save_in_background(step, tensors)
            self._close_deltas()
            self._running, self._base, self._since_full = running, step, 0
        return self._running

    def wait(self) -> None:
        """Waits for the save that runs, and raises its error."""
        if self._running is None:
            return
        last, self._running = self._running, None
        try:
            last.wait()
        except BaseException:
            if self._since_full == 0:
                self._base = None  # the full step may be missing: the next step is a full one, too
            raise

    def steps(self) -> "list[int]":
        """The steps that exist, ascending."""
        full = set(self._full.steps())
        deltas = delta_steps(self._folder, self._name)
        return sorted(full.union(step for step in deltas if base_step(self._folder, self._name, step) in full))

    def latest(self, *, verify: bool = True) -> "Step | None":
        """The newest step that is whole: its number, its path, and the base of a delta. None if there is none."""
        if self._full.closed:
            raise ClosedError("the checkpointer is closed")
        return latest_step(self._folder, self._name, verify)

    def close(self) -> None:
        """Waits for the save that runs, raises its error, and releases the folder."""
        try:
            self.wait()
        finally:
            self._close_deltas()
            self._full.close()

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

    def _open_deltas(self, base: int) -> _native.CheckpointManager:
        # After the loss of a full step the run goes on from an older one, and saves the steps of its deltas again.
        for number in delta_steps(self._folder, self._name):
            if number > base and _whole_delta(self._folder, self._name, number, True) is None:
                _remove_delta(self._folder, self._name, number)
        self._deltas = _native.CheckpointManager(
            os.path.join(self._folder, _DELTAS),
            name=self._name,
            keep_last=2 * (self._full_every - 1),
            level="default" if self._level == "stored" else self._level,
            base=self._full.path_of(base),
            **self._options,
        )
        return self._deltas

    def _close_deltas(self) -> None:
        if self._deltas is not None:
            self._deltas.close()
            self._deltas = None


def delta_steps(folder: str, name: str) -> "list[int]":
    """The numbers of the deltas in the folder of a run."""
    pattern = re.compile(re.escape(name) + r"-([0-9]{1,18})\.index")
    try:
        found = map(pattern.fullmatch, os.listdir(os.path.join(folder, _DELTAS)))
    except FileNotFoundError:
        return []
    return sorted(int(match[1]) for match in found if match)


def latest_step(folder: "str | os.PathLike[str]", name: str = "ckpt", verify: bool = True) -> "Step | None":
    """The newest step of a run that is whole, or None. A delta is whole if its full step is whole, too."""
    found = _native.latest(folder, name=name, verify=verify)
    full = None if found is None else Step(found[0], found[1], None)
    for number in reversed(delta_steps(os.fspath(folder), name)):
        if full is not None and number <= full.number:
            break
        step = _whole_delta(os.fspath(folder), name, number, verify)
        if step is not None:
            return step
    return full


def base_step(folder: str, name: str, number: int) -> "int | None":
    """The full step that a delta was made against. None for a delta that is damaged, or was removed meanwhile."""
    try:
        with _native.open(os.path.join(folder, _DELTAS, f"{name}-{number}")) as reader:
            return int(reader[BASE_STEP])
    except (DataLossError, FailedPreconditionError, MissingFileError, MissingTensorError, TypeError, ValueError):
        return None


def _whole_delta(folder: str, name: str, number: int, verify: bool) -> "Step | None":
    base_number = base_step(folder, name, number)
    if base_number is None:
        return None
    path = os.path.join(folder, _DELTAS, f"{name}-{number}")
    base = os.path.join(folder, f"{name}-{base_number}")
    try:
        if not verify:
            _native.open(base).close()
            return Step(number, path, base)
        report = _native.verify(path, base=base)
        return Step(number, path, base) if report and report.not_checked == 0 else None
    except (DataLossError, FailedPreconditionError, MissingFileError):
        return None


def _remove_delta(folder: str, name: str, number: int) -> None:
    """The index first: without it no reader finds the step."""
    folder = os.path.join(folder, _DELTAS)
    os.remove(os.path.join(folder, f"{name}-{number}.index"))
    data = re.compile(re.escape(f"{name}-{number}") + r"\.data-[0-9]{5}-of-[0-9]{5}")
    for file in os.listdir(folder):
        if data.fullmatch(file):
            os.remove(os.path.join(folder, file))
