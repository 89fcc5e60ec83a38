"""The state of a model that the processes of a job hold together: save_sharded and load_sharded of tensorcask.torch."""

import os
import typing
from collections.abc import Iterator, Mapping

from tensorcask import _native, _plain, sharded
from tensorcask._errors import DataLossError, InvalidArgumentError
from tensorcask._load import import_framework
from tensorcask._torch_state import (
    TREE,
    Stateful,
    StateMismatchError,
    check_has_memory,
    difference,
    flatten,
    listed,
    read_tree,
    states_of,
)

import_framework("torch")

import torch  # noqa: E402


def save_sharded(
    state: "torch.nn.Module | Mapping[str, torch.Tensor]",
    path: "str | os.PathLike[str]",
    optimizer: "Stateful | Mapping[str, Stateful] | None" = None,
    *,
    comm: "sharded.Communicator | None" = None,
    **options: typing.Any,
) -> "dict[str, typing.Any]":
    """Saves the state that the processes of a job hold together as one checkpoint; every process calls it.

    Of a ``DTensor`` (FSDP2, tensor parallelism) each process gives its own part; a plain tensor is the same on all
    processes, and one of them writes it. The state of an optimizer has the form that ``save_state_dict`` gives it, so
    all processes have the same parameters. `comm` is by default that of ``torch.distributed``, or of one process. The
    options and the result are those of ``tensorcask.sharded.save``.

    >>> import torch, tensorcask as tc, tensorcask.torch as tct
    >>> _ = tct.save_sharded(torch.nn.Linear(3, 2), "linear_of_job", overwrite=True)
    >>> tc.load("linear_of_job")["weight"].shape
    (2, 3)
    """
    return sharded.save(comm or _default_communicator(), path, _pieces_of(state, optimizer), **options)


def load_sharded(
    state: "torch.nn.Module | Mapping[str, torch.Tensor]",
    path: "str | os.PathLike[str]",
    optimizer: "Stateful | Mapping[str, Stateful] | None" = None,
    *,
    comm: "sharded.Communicator | None" = None,
    verify: bool = True,
) -> None:
    """Reads a checkpoint into the tensors of a state, of a ``DTensor`` into its local part; every process calls it.

    The checkpoint may have been saved by another number of processes, with other parts, or by any other program. The
    state may lack tensors of the checkpoint. An optimizer gets the parts of its state that belong to the parts of its
    parameters. All processes raise an error if one does: StateMismatchError for tensors that the checkpoint lacks or
    has with another dtype or shape, before anything is changed, and those of ``tensorcask.sharded.load``.

    >>> import torch, tensorcask.torch as tct
    >>> model = torch.nn.Linear(3, 2)
    >>> _ = tct.save_sharded(model, "job", overwrite=True)
    >>> tct.load_sharded(model, "job")
    """
    comm = comm or _default_communicator()
    where = f"{os.fspath(path)}: {TREE}"
    tree = b"" if optimizer is None else _tree_of_job(comm, path)

    def names() -> "tuple[dict[str, torch.Tensor], typing.Any, list[str]]":
        tensors = _tensors_of(state)
        of_optimizer: "list[_Stored]" = []

        def note(name: str) -> _Stored:
            of_optimizer.append(_Stored(name))
            return of_optimizer[-1]

        states = None if optimizer is None else _plain.decode(_plain.from_json(tree, where), note, where)
        return tensors, states, [*tensors, *(each.name for each in of_optimizer)]

    tensors, states, wanted_names = sharded.together(comm, names)
    stored = sharded.stored_forms(comm, path, wanted_names)
    wanted = sharded.together(comm, lambda: _wanted_of(tensors, path, stored))
    values: "list[tuple[Stateful, typing.Any]]" = []
    if optimizer is not None:
        values, of_optimizers = sharded.together(comm, lambda: _memory_for(optimizer, states, where, stored))
        wanted += of_optimizers
    sharded.load(comm, path, wanted, verify=verify)
    for stateful, value in values:
        stateful.load_state_dict(value)


def _default_communicator() -> "sharded.Communicator":
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return sharded.TorchCommunicator()
    return sharded.LocalCommunicator()


def _tensors_of(state: "torch.nn.Module | Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
    tensors = dict(state.state_dict() if isinstance(state, torch.nn.Module) else state)
    for name, tensor in tensors.items():
        check_has_memory(name, tensor)
    return tensors


def _pieces_of(
    state: "torch.nn.Module | Mapping[str, torch.Tensor]", optimizer: "Stateful | Mapping[str, Stateful] | None"
) -> "Iterator[tuple[str, tuple[int, ...], tuple[int, ...], torch.Tensor]]":
    for name, tensor in typing.cast("dict[str, torch.Tensor]", flatten(state, optimizer)).items():
        local, shape, start = _local_part(name, tensor)
        if tensor.numel() == 0:  # in one piece, however it is divided
            yield name, shape, (0,) * len(shape), local.new_empty(shape)
        elif local.numel() > 0:
            yield name, shape, start, local


def _local_part(name: str, tensor: torch.Tensor) -> "tuple[torch.Tensor, tuple[int, ...], tuple[int, ...]]":
    """The elements of this process, the shape of the whole, and the index of the first element."""
    shape = tuple(tensor.shape)
    if not hasattr(tensor, "to_local"):
        return tensor.detach(), shape, (0,) * len(shape)
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    if any(placement.is_partial() for placement in tensor.placements):
        raise InvalidArgumentError(f"{name}: is a partial sum; call redistribute before it is saved")
    local = tensor.detach().to_local()
    extent, start = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    if tuple(extent) != tuple(local.shape):
        raise InvalidArgumentError(f"{name}: the local part has {list(local.shape)} and not {list(extent)} elements")
    return local, shape, tuple(int(each) for each in start)


def _wanted_of(
    tensors: "dict[str, torch.Tensor]",
    path: "str | os.PathLike[str]",
    stored: "dict[str, tuple[str, tuple[int, ...]]]",
) -> "list[tuple[str, tuple[int, ...], torch.Tensor]]":
    """Errors: StateMismatchError, which names all tensors that do not fit."""
    missing = [name for name in tensors if name not in stored]
    mismatched = {}
    for name, tensor in tensors.items():
        if name in stored and (text := difference(name, *stored[name], tensor)):
            mismatched[name] = text
    problems = list(mismatched.values())
    if missing:
        problems.insert(0, "the file has no " + listed(missing))
    if problems:
        error = StateMismatchError(f"{os.fspath(path)}: does not fit the model: {'; '.join(problems)}")
        error.missing_keys, error.unexpected_keys, error.mismatched_keys = missing, [], list(mismatched)
        raise error
    return [piece for name, tensor in tensors.items() for piece in _wanted_part(name, tensor)]


def _wanted_part(name: str, tensor: torch.Tensor) -> "list[tuple[str, tuple[int, ...], torch.Tensor]]":
    local, _, start = _local_part(name, tensor)
    return [(name, start, local)] if local.numel() > 0 else []


def _tree_of_job(comm: "sharded.Communicator", path: "str | os.PathLike[str]") -> bytes:
    """The JSON of the state of optimizers, which the first process reads."""

    def read() -> bytes:
        if comm.rank != 0:
            return b""
        with _native.open(path) as reader:
            return read_tree(reader)

    return comm.broadcast(sharded.together(comm, read), 0)


class _Stored(typing.NamedTuple):
    """A tensor of the state of an optimizer that has no memory yet."""

    name: str


def _memory_for(
    optimizer: "Stateful | Mapping[str, Stateful]",
    states: typing.Any,
    where: str,
    stored: "dict[str, tuple[str, tuple[int, ...]]]",
) -> "tuple[list[tuple[Stateful, typing.Any]], list[tuple[str, tuple[int, ...], torch.Tensor]]]":
    """The state to load into each, with memory for its tensors, and what is to be read into that."""
    wanted: "list[tuple[str, tuple[int, ...], torch.Tensor]]" = []

    def fill(value: typing.Any, parameter: "torch.Tensor | None") -> typing.Any:
        """`value` with memory in place of names. A tensor of the shape of its parameter is divided as that is."""
        if isinstance(value, _Stored):
            if value.name not in stored or not hasattr(torch, stored[value.name][0]):
                raise DataLossError(f"{where} names the tensor {value.name!r}, which the file does not have")
            dtype, shape = getattr(torch, stored[value.name][0]), stored[value.name][1]
            if parameter is not None and tuple(parameter.shape) == shape:
                made = torch.zeros_like(parameter.detach(), dtype=dtype, memory_format=torch.contiguous_format)
            else:
                made = torch.zeros(shape, dtype=dtype)
            wanted.extend(_wanted_part(value.name, made))
            return made
        if isinstance(value, dict):
            return {key: fill(item, parameter) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(fill(item, parameter) for item in value)
        return value

    values = []
    for stateful, value in states_of(optimizer, states, where):
        of_parameters = _parameters_by_number(stateful, value)
        if of_parameters:
            rest = {key: fill(item, None) for key, item in value.items() if key != "state"}
            each = {number: fill(item, of_parameters.get(number)) for number, item in value["state"].items()}
            values.append((stateful, {**rest, "state": each}))
        else:
            values.append((stateful, fill(value, None)))
    return values, wanted


def _parameters_by_number(stateful: Stateful, value: typing.Any) -> "dict[typing.Any, torch.Tensor]":
    """The parameters of an optimizer by their keys in the state `value`; empty if these are not those of PyTorch."""
    groups = getattr(stateful, "param_groups", None)
    stored_groups = value.get("param_groups") if isinstance(value, dict) else None
    if not isinstance(groups, list) or not isinstance(stored_groups, list) or not isinstance(value.get("state"), dict):
        return {}
    found: "dict[typing.Any, torch.Tensor]" = {}
    for own, stored in zip(groups, stored_groups):
        found.update(zip(stored["params"], own["params"]))
    return found
