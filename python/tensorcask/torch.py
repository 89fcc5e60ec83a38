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
from collections.abc import Iterable, Iterator, Mapping

from tensorcask import _native, _plain, sharded
from tensorcask._errors import DataLossError, InvalidArgumentError, MissingTensorError
from tensorcask._gpu import can_reach
from tensorcask._load import import_framework, to_torch
from tensorcask._steps import Step, StepSaver, latest_step

import_framework("torch")  # raises MissingFrameworkError

import torch  # noqa: E402

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

_OPTIMIZER = "optimizer"
_TREE = "optimizer.json"


class Stateful(typing.Protocol):
    """An optimizer, a schedule of learning rates, a ``GradScaler``.

    >>> import torch, tensorcask.torch as tct
    >>> optimizer = torch.optim.SGD(torch.nn.Linear(3, 2).parameters(), lr=0.1)
    >>> schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10)
    >>> state: dict[str, tct.Stateful] = {"sgd": optimizer, "schedule": schedule}      # several: a dict
    """

    def state_dict(self) -> typing.Any: ...

    def load_state_dict(self, state_dict: typing.Any, /) -> object: ...


class Keys(typing.NamedTuple):
    """Names that do not match, as ``torch.nn.Module.load_state_dict`` returns them.

    >>> import torch, tensorcask as tc, tensorcask.torch as tct
    >>> _ = tc.save("part.npz", {"weight": torch.ones(2, 3), "scale": torch.ones(1)})
    >>> tct.load_state_dict(torch.nn.Linear(3, 2), "part.npz", strict=False)
    Keys(missing_keys=['bias'], unexpected_keys=['scale'])
    """

    missing_keys: "list[str]"
    unexpected_keys: "list[str]"


class StateMismatchError(MissingTensorError, InvalidArgumentError, RuntimeError):
    """A file does not fit a model. The model is unchanged. Also a RuntimeError, as PyTorch's own is.

    >>> import torch, tensorcask.torch as tct
    >>> _ = tct.save_state_dict("small.safetensors", torch.nn.Linear(3, 2))
    >>> try:
    ...     tct.load_state_dict(torch.nn.Linear(3, 4), "small.safetensors")
    ... except tct.StateMismatchError as error:
    ...     error.mismatched_keys
    ['weight', 'bias']
    """

    missing_keys: "list[str]"  # of the model, absent from the file
    unexpected_keys: "list[str]"  # of the file, absent from the model
    mismatched_keys: "list[str]"  # whose dtypes or shapes differ


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


def flatten(
    model: "torch.nn.Module | Mapping[str, torch.Tensor]",
    optimizer: "Stateful | Mapping[str, Stateful] | None" = None,
) -> "dict[str, object]":
    """The tensors to save, by name: what ``save_state_dict`` gives to ``tensorcask.save``.

    >>> import torch, tensorcask.torch as tct
    >>> model = torch.nn.Linear(3, 2)
    >>> list(tct.flatten(model, torch.optim.SGD(model.parameters())))
    ['weight', 'bias', 'optimizer.json']
    """
    state = model.state_dict() if isinstance(model, torch.nn.Module) else model
    tensors: "dict[str, object]" = {}
    for name, value in state.items():
        _check_has_memory(name, value)
        if _is_reserved(name):
            raise InvalidArgumentError(f"{name}: names like this are those of the state of an optimizer")
        tensors[name] = value
    if optimizer is not None:
        if isinstance(optimizer, Mapping):
            states: typing.Any = {key: one.state_dict() for key, one in optimizer.items()}
        else:
            states = optimizer.state_dict()
        tree = _plain.encode(states, _OPTIMIZER, tensors, _is_tensor)
        tensors[_TREE] = torch.frombuffer(bytearray(_plain.to_json(tree)), dtype=torch.uint8)
    return tensors


def _is_reserved(name: str) -> bool:
    return name == _TREE or name.startswith(_OPTIMIZER + "/")


def _is_tensor(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        _check_has_memory("a tensor of the optimizer", value)
        return True
    return False


def _check_has_memory(name: str, tensor: object) -> None:
    """Errors: InvalidArgumentError if elements cannot be read from it or written to it."""
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgumentError(f"{name}: the state of the model has {type(tensor).__name__}; wanted a tensor")
    if tensor.device.type == "meta":
        raise InvalidArgumentError(f"{name} is on the meta device; call model.to_empty(device='cpu') first")
    if tensor.layout != torch.strided or tensor.is_quantized:
        form = "quantized elements" if tensor.is_quantized else f"the layout {tensor.layout}"
        raise InvalidArgumentError(f"{name} has {form}; wanted a plain strided tensor")


def _check_bytes(path: "str | os.PathLike[str]", base: "str | os.PathLike[str] | None") -> None:
    report = _native.verify(path, base=base)
    if not report:
        raise DataLossError("; ".join(one.message for one in report.damage))


# ---- Jobs of many processes -----------------------------------------------------------------------------------------


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
    where = f"{os.fspath(path)}: {_TREE}"
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


def _tensors_of(state: "torch.nn.Module | Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
    tensors = dict(state.state_dict() if isinstance(state, torch.nn.Module) else state)
    for name, tensor in tensors.items():
        _check_has_memory(name, tensor)
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


def _wanted_of(
    tensors: "dict[str, torch.Tensor]",
    path: "str | os.PathLike[str]",
    stored: "dict[str, tuple[str, tuple[int, ...]]]",
) -> "list[tuple[str, tuple[int, ...], torch.Tensor]]":
    """Errors: StateMismatchError, which names all tensors that do not fit."""
    missing = [name for name in tensors if name not in stored]
    mismatched = {}
    for name, tensor in tensors.items():
        if name in stored and (text := _difference(name, *stored[name], tensor)):
            mismatched[name] = text
    problems = list(mismatched.values())
    if missing:
        problems.insert(0, "the file has no " + _listed(missing))
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
            return _read_tree(reader)

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
    for stateful, value in _states_of(optimizer, states, where):
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


def __getattr__(name: str) -> typing.Any:
    if name in ("StorageReader", "StorageWriter"):  # imports torch.distributed.checkpoint, which takes a second
        from tensorcask import _dcp

        return getattr(_dcp, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _default_communicator() -> "sharded.Communicator":
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return sharded.TorchCommunicator()
    return sharded.LocalCommunicator()


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


# ---- Models ---------------------------------------------------------------------------------------------------------


def _state_of(model: torch.nn.Module) -> "dict[str, torch.Tensor]":
    """The tensors to read into. Errors: InvalidArgumentError if one has no memory for elements."""
    state = model.state_dict()
    for name, tensor in state.items():
        _check_has_memory(name, tensor)
    return dict(state)


def _match(state: "dict[str, torch.Tensor]", reader: _native.Reader, strict: bool) -> "tuple[Keys, list[str]]":
    """The names that do not match, and those to read. Errors: StateMismatchError."""
    wanted = [name for name in state if name in reader]
    filled = {_memory(state[name]) for name in wanted if state[name].numel() > 0}
    missing = [name for name in state if name not in reader and _memory(state[name]) not in filled]
    unexpected = [name for name in reader if name not in state and not _is_reserved(name)]
    mismatched = {}
    for name in wanted:
        entry = reader.entry(name)
        if text := _difference(name, entry.dtype, entry.shape, state[name]):
            mismatched[name] = text
    problems = list(mismatched.values())
    if strict and unexpected:
        problems.insert(0, "the model has no " + _listed(unexpected))
    if strict and missing:
        problems.insert(0, "the file has no " + _listed(missing))
    if problems:
        error = StateMismatchError(f"{reader.path}: does not fit the model: {'; '.join(problems)}")
        error.missing_keys, error.unexpected_keys = missing, unexpected
        error.mismatched_keys = list(mismatched)
        raise error
    return Keys(missing, unexpected), wanted


def _listed(names: "list[str]") -> str:
    return ", ".join(map(repr, names))


def _memory(tensor: torch.Tensor) -> "tuple[object, ...]":
    """Equal for tied parameters."""
    return tensor.device, tensor.dtype, tensor.data_ptr(), tensor.shape, tensor.stride()


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _difference(name: str, stored_dtype: str, stored_shape: "tuple[int, ...]", tensor: torch.Tensor) -> str:
    """What differs, or ''."""
    dtype = _dtype_name(tensor)
    if stored_dtype == dtype and stored_shape == tuple(tensor.shape):
        return ""
    return (
        f"{name!r} is {stored_dtype} {list(stored_shape)} in the file and {dtype} {list(tensor.shape)} in the model"
    )


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
    where = f"{reader.path}: {_TREE}"

    def read(name: str) -> object:
        if name not in reader:
            raise DataLossError(f"{where} names the tensor {name!r}, which the file does not have")
        return to_torch(reader.read(name, tensor=True))

    return _states_of(optimizer, _plain.decode(_plain.from_json(_read_tree(reader), where), read, where), where)


def _read_tree(reader: _native.Reader) -> bytes:
    if _TREE not in reader:
        raise MissingTensorError(f"{reader.path}: has no {_TREE!r}: it was saved without an optimizer")
    tree = reader.read(_TREE, tensor=True)
    if tree.dtype != "uint8" or len(tree.shape) != 1:
        raise DataLossError(f"{reader.path}: {_TREE} is {tree.dtype} {list(tree.shape)}; wanted one axis of uint8")
    return bytes(tree.numpy().tobytes())


def _states_of(
    optimizer: "Stateful | Mapping[str, Stateful]", state: typing.Any, where: str
) -> "list[tuple[Stateful, typing.Any]]":
    if not isinstance(optimizer, Mapping):
        return [(optimizer, state)]
    if not isinstance(state, dict) or state.keys() != optimizer.keys():
        stored = list(state) if isinstance(state, dict) else type(state).__name__
        raise InvalidArgumentError(f"{where} has the state of {stored}; wanted that of {list(optimizer)}")
    return [(one, state[key]) for key, one in optimizer.items()]
