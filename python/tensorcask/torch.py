"""Models and optimizers of PyTorch in files without pickles.

    import tensorcask.torch as tct

    tct.save_state_dict("model.safetensors", model)
    tct.load_state_dict(model, "model.safetensors")                    # into the memory of the parameters

    with tct.AsyncCheckpointer("run", keep_last=3) as checkpointer:
        for step, batch in enumerate(batches):
            train(batch)
            checkpointer.save(step, model, optimizer)                  # returns when the tensors are copied
    step = tct.load_latest("run", model, optimizer)

Tensors of a model have their names of ``state_dict()``. The tensors in the state of an optimizer are stored under
``optimizer/``, and the rest of it as JSON in the bytes of the tensor ``optimizer.json``: loading executes nothing.

An ``optimizer`` is any object with ``state_dict`` and ``load_state_dict`` (a schedule of learning rates, a
``GradScaler``), or a dict of several: ``{"adam": optimizer, "schedule": schedule}``.
"""

import itertools
import os
import typing
from collections.abc import Iterable, Mapping

from tensorcask import _native, _plain
from tensorcask._errors import DataLossError
from tensorcask._gpu import can_reach
from tensorcask._load import import_framework, to_torch
from tensorcask._steps import Step, StepSaver, latest_step

import_framework("torch")  # raises MissingFrameworkError

import torch  # noqa: E402

from tensorcask._torch_jobs import load_sharded, save_sharded  # noqa: E402
from tensorcask._torch_state import (  # noqa: E402
    TREE,
    Keys,
    Stateful,
    StateMismatchError,
    check_has_memory,
    difference,
    flatten,
    is_reserved,
    listed,
    read_tree,
    states_of,
)

__all__ = [
    "AsyncCheckpointer",
    "Keys",
    "StateMismatchError",
    "Stateful",
    "Step",
    "StorageReader",
    "StorageWriter",
    "flatten",
    "load_latest",
    "load_sharded",
    "load_state_dict",
    "save_sharded",
    "save_state_dict",
]

if typing.TYPE_CHECKING:
    from tensorcask._dcp import StorageReader, StorageWriter


def save_state_dict(
    path: "str | os.PathLike[str]",
    model: "torch.nn.Module | Mapping[str, torch.Tensor]",
    optimizer: "Stateful | Mapping[str, Stateful] | None" = None,
    **options: typing.Any,
) -> int:
    """Saves the state of a model, and of its optimizer, as ``tensorcask.save`` does; `options` are those of it.

    Returns the bytes on the disk. Raises InvalidArgumentError for state that is neither tensors nor numbers, text,
    None, lists, tuples and dicts.

    >>> import torch, tensorcask as tc, tensorcask.torch as tct
    >>> _ = tct.save_state_dict("linear.safetensors", torch.nn.Linear(3, 2))
    >>> tc.load("linear.safetensors")["weight"].shape
    (2, 3)
    """
    return int(_native.save(path, flatten(model, optimizer), **options))


def load_state_dict(
    model: torch.nn.Module,
    path: "str | os.PathLike[str]",
    optimizer: "Stateful | Mapping[str, Stateful] | None" = None,
    *,
    strict: bool = True,
    base: "str | os.PathLike[str] | None" = None,
    verify: "bool | None" = None,
) -> Keys:
    """Reads a file into the memory of the parameters and buffers of a model, and the state into an optimizer.

    Dtypes and shapes must be those of the model, and with `strict` the names, too: StateMismatchError lists all that
    differ, before anything is changed. Without `strict` the result names the tensors that are missing in the file and
    those that were not used. Of tied parameters the file may have one alone.

    A file that turns out to be damaged while it is read (DataLossError) may have changed a part of the model. With
    ``verify=True`` all bytes of the file are checked first, and then read a second time; with ``verify=False`` elements
    are read though they may not match their checksum, as in ``tensorcask.open``. `base` is that of
    ``tensorcask.open``.

    >>> import torch, tensorcask.torch as tct
    >>> model = torch.nn.Linear(3, 2)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> _ = tct.save_state_dict("adam.safetensors", model, optimizer)
    >>> tct.load_state_dict(model, "adam.safetensors", optimizer)
    Keys(missing_keys=[], unexpected_keys=[])
    """
    if verify:
        _check_bytes(path, base)
    with _native.open(path, base=base, verify=verify is not False) as reader:
        state = _state_of(model)
        keys, wanted = _match(state, reader, strict)
        values = [] if optimizer is None else _read_optimizers(optimizer, reader)
        for stateful, value in values:
            stateful.load_state_dict(value)
        _read_model(model, {name: state[name] for name in wanted}, reader)
    return keys


class AsyncCheckpointer(StepSaver):
    """Saves a model and its optimizer at numbered steps, in the background.

    ``save`` returns when the tensors are copied. With ``full_every=10`` each tenth step is a full checkpoint, and the
    steps between are deltas to it, which store what changed. The options are ``full_every`` and those of
    ``tensorcask.CheckpointManager``; ``keep_last`` and ``keep_every`` count full steps.

    >>> import torch, tensorcask.torch as tct
    >>> model = torch.nn.Linear(3, 2)
    >>> with tct.AsyncCheckpointer("run_of_torch", keep_last=2, full_every=2) as checkpointer:
    ...     for step in range(4):
    ...         _ = checkpointer.save(step, model)
    >>> tct.load_latest("run_of_torch", model)
    3
    """

    def save(
        self,
        step: int,
        model: "torch.nn.Module | Mapping[str, torch.Tensor]",
        optimizer: "Stateful | Mapping[str, Stateful] | None" = None,
    ) -> _native.BackgroundSave:
        """Raises the error of the save before, if that failed; then copies the tensors and saves them."""
        return self._save(step, flatten(model, optimizer))


def load_latest(
    folder: "str | os.PathLike[str]",
    model: torch.nn.Module,
    optimizer: "Stateful | Mapping[str, Stateful] | None" = None,
    *,
    name: str = "ckpt",
    strict: bool = True,
    verify: bool = True,
) -> "int | None":
    """Loads the newest whole step of a folder, and returns its number; None if there is none.

    Without `verify` only the structure of the step is checked, and its elements are read though they may not match
    their checksum. Errors as ``load_state_dict``.

    >>> import torch, tensorcask.torch as tct
    >>> model = torch.nn.Linear(3, 2)
    >>> print(tct.load_latest("no_run", model))
    None
    >>> with tct.AsyncCheckpointer("short_run") as checkpointer:
    ...     _ = checkpointer.save(7, model)
    >>> tct.load_latest("short_run", model)
    7
    """
    found = latest_step(folder, name, verify)
    if found is None:
        return None
    load_state_dict(model, found.path, optimizer, strict=strict, base=found.base, verify=None if verify else False)
    return found.number


def __getattr__(name: str) -> typing.Any:
    if name in ("StorageReader", "StorageWriter"):  # imports torch.distributed.checkpoint, which takes a second
        from tensorcask import _dcp

        return getattr(_dcp, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _check_bytes(path: "str | os.PathLike[str]", base: "str | os.PathLike[str] | None") -> None:
    report = _native.verify(path, base=base)
    if not report:
        raise DataLossError("; ".join(one.message for one in report.damage))


# ---- Models ---------------------------------------------------------------------------------------------------------


def _state_of(model: torch.nn.Module) -> "dict[str, torch.Tensor]":
    """The tensors to read into. Errors: InvalidArgumentError if one has no memory for elements."""
    state = model.state_dict()
    for name, tensor in state.items():
        check_has_memory(name, tensor)
    return dict(state)


def _match(state: "dict[str, torch.Tensor]", reader: _native.Reader, strict: bool) -> "tuple[Keys, list[str]]":
    """The names that do not match, and those to read. Errors: StateMismatchError."""
    wanted = [name for name in state if name in reader]
    filled = {_memory(state[name]) for name in wanted if state[name].numel() > 0}
    missing = [name for name in state if name not in reader and _memory(state[name]) not in filled]
    unexpected = [name for name in reader if name not in state and not is_reserved(name)]
    mismatched = {}
    for name in wanted:
        entry = reader.entry(name)
        if text := difference(name, entry.dtype, entry.shape, state[name]):
            mismatched[name] = text
    problems = list(mismatched.values())
    if strict and unexpected:
        problems.insert(0, "the model has no " + listed(unexpected))
    if strict and missing:
        problems.insert(0, "the file has no " + listed(missing))
    if problems:
        error = StateMismatchError(f"{reader.path}: does not fit the model: {'; '.join(problems)}")
        error.missing_keys, error.unexpected_keys = missing, unexpected
        error.mismatched_keys = list(mismatched)
        raise error
    return Keys(missing, unexpected), wanted


def _memory(tensor: torch.Tensor) -> "tuple[object, ...]":
    """Equal for tied parameters."""
    return tensor.device, tensor.dtype, tensor.data_ptr(), tensor.shape, tensor.stride()


def _read_model(model: torch.nn.Module, state: "dict[str, torch.Tensor]", reader: _native.Reader) -> None:
    own = {tensor.untyped_storage().data_ptr() for tensor in _parameters_and_buffers(model)}
    copies: "dict[str, torch.Tensor]" = {}
    in_place: "dict[str, object]" = {}
    for name, tensor in state.items():
        if tensor.untyped_storage().data_ptr() not in own:
            copies[name] = to_torch(reader.read(name, tensor=True))
        elif not _is_plain_memory(tensor):
            with torch.no_grad():
                tensor.copy_(to_torch(reader.read(name, tensor=True)))
        else:
            in_place[name] = tensor
    reader.read_many_into(in_place)
    if copies:  # of a model whose state_dict() makes new tensors
        model.load_state_dict(copies, strict=False)


def _is_plain_memory(tensor: torch.Tensor) -> bool:
    """True if a file can be read into it."""
    if tensor.is_conj() or tensor.is_neg():
        return False
    device = tensor.device
    return device.type == "cpu" or (device.type == "cuda" and can_reach(device.index))


def _parameters_and_buffers(model: torch.nn.Module) -> "Iterable[torch.Tensor]":
    return itertools.chain(model.parameters(), model.buffers())


# ---- Optimizers -----------------------------------------------------------------------------------------------------


def _read_optimizers(
    optimizer: "Stateful | Mapping[str, Stateful]", reader: _native.Reader
) -> "list[tuple[Stateful, typing.Any]]":
    """The state to load into each."""
    where = f"{reader.path}: {TREE}"

    def read(name: str) -> object:
        if name not in reader:
            raise DataLossError(f"{where} names the tensor {name!r}, which the file does not have")
        return to_torch(reader.read(name, tensor=True))

    return states_of(optimizer, _plain.decode(_plain.from_json(read_tree(reader), where), read, where), where)
