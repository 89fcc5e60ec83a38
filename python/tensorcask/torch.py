"""Models and optimizers of PyTorch in files without pickles.

    import tensorcask.torch as tct

    tct.save_state_dict("model.safetensors", model)
    tct.load_state_dict(model, "model.safetensors")                    # into the memory of the parameters

    with tct.AsyncCheckpointer("run", keep_last=3) as checkpointer:
        for step, batch in enumerate(batches):
            train(batch)
            checkpointer.save(step, model, optimizer)                  # returns when the tensors are copied
    step = tct.load_latest("run", model, optimizer)

Tensors of a model have their names of ``state_dict()``. The state of an optimizer is stored under ``optimizer/``, what
is no tensor of it as JSON: loading executes nothing.
"""

import json
import os
import typing
from collections.abc import Mapping

import torch

from tensorcask import _native
from tensorcask._errors import DataLossError, InvalidArgumentError, MissingTensorError
from tensorcask._load import to_torch

_PREFIX = "optimizer/"
_TREE = "optimizer.json"


class Keys(typing.NamedTuple):
    """Names that do not match, as ``torch.nn.Module.load_state_dict`` returns them."""

    missing_keys: "list[str]"
    unexpected_keys: "list[str]"


def save_state_dict(
    path: "str | os.PathLike[str]",
    model: "torch.nn.Module | Mapping[str, torch.Tensor]",
    optimizer: "torch.optim.Optimizer | None" = None,
    **options: typing.Any,
) -> int:
    """Saves the state of a model, and of its optimizer, as ``tensorcask.save`` does; `options` are those of it.

    An optimizer needs a format with strings (a checkpoint, records). Raises InvalidArgumentError for state that is
    neither tensors nor numbers, text, lists and dicts.
    """
    return int(_native.save(path, flatten(model, optimizer), **options))


def load_state_dict(
    model: torch.nn.Module,
    path: "str | os.PathLike[str]",
    optimizer: "torch.optim.Optimizer | None" = None,
    *,
    strict: bool = True,
) -> Keys:
    """Reads a file into the memory of the parameters and buffers of a model, and the state into an optimizer.

    Dtypes and shapes must be those of the model. With `strict` the names must be the same (MissingTensorError, before
    anything is changed). Without, the result names those that are missing and those that were not used.
    """
    with _native.open(path) as reader:
        state = model.state_dict()
        stored = {name for name in reader if not _is_optimizer(name)}
        keys = Keys([name for name in state if name not in stored], sorted(stored - state.keys()))
        if strict and (keys.missing_keys or keys.unexpected_keys):
            raise MissingTensorError(
                f"{os.fspath(path)!s}: the model lacks {keys.unexpected_keys}, the file lacks {keys.missing_keys}"
            )
        wanted = [name for name in state if name in stored]
        for name in wanted:
            _check_like(reader.entry(name), state[name])
        tree = _read_tree(reader) if optimizer is not None else None
        for name in wanted:
            _read_into(reader, name, state[name])
        if optimizer is not None:
            optimizer.load_state_dict(_decode(tree, reader))
    return keys


class AsyncCheckpointer:
    """Saves a model and its optimizer at numbered steps, in the background.

    ``save`` returns when the tensors are copied. `options` are those of ``tensorcask.CheckpointManager``.
    """

    def __init__(self, folder: "str | os.PathLike[str]", **options: typing.Any) -> None:
        self._manager = _native.CheckpointManager(folder, **options)
        self._last: "_native.BackgroundSave | None" = None

    def save(
        self,
        step: int,
        model: "torch.nn.Module | Mapping[str, torch.Tensor]",
        optimizer: "torch.optim.Optimizer | None" = None,
    ) -> _native.BackgroundSave:
        """Raises the error of the save before, if that failed; then copies the tensors and saves them."""
        self.wait()
        self._last = self._manager.save_in_background(step, flatten(model, optimizer))
        return self._last

    def wait(self) -> None:
        """Waits for the save that runs, and raises its error."""
        if self._last is not None:
            last, self._last = self._last, None
            last.wait()

    def steps(self) -> "list[int]":
        return list(self._manager.steps())

    def latest(self) -> "tuple[int, str] | None":
        return self._manager.latest()

    def close(self) -> None:
        try:
            self.wait()
        finally:
            self._manager.close()

    def __enter__(self) -> "AsyncCheckpointer":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def load_latest(
    folder: "str | os.PathLike[str]",
    model: torch.nn.Module,
    optimizer: "torch.optim.Optimizer | None" = None,
    *,
    name: str = "ckpt",
) -> "int | None":
    """Loads the newest whole step of a folder. Returns its number, or None if there is none."""
    found = _native.latest(folder, name=name)
    if found is None:
        return None
    load_state_dict(model, found[1], optimizer)
    return found[0]


def flatten(
    model: "torch.nn.Module | Mapping[str, torch.Tensor]", optimizer: "torch.optim.Optimizer | None" = None
) -> "dict[str, object]":
    """The tensors to save, by name: what ``save_state_dict`` gives to ``tensorcask.save``."""
    state = model.state_dict() if isinstance(model, torch.nn.Module) else model
    tensors: "dict[str, object]" = {}
    for name, value in state.items():
        if not isinstance(value, torch.Tensor):
            raise InvalidArgumentError(f"{name}: the state is {type(value).__name__}, not a tensor")
        if _is_optimizer(name):
            raise InvalidArgumentError(f"{name}: names that start with {_PREFIX} are those of optimizers")
        tensors[name] = value
    if optimizer is not None:
        tree = _encode(optimizer.state_dict(), _PREFIX, tensors)
        tensors[_TREE] = json.dumps(tree)
    return tensors


def _is_optimizer(name: str) -> bool:
    return name == _TREE or name.startswith(_PREFIX)


# Each value is a list of its kind and its content, so that nothing is mistaken for anything else.
def _encode(value: object, path: str, tensors: "dict[str, object]") -> "list[typing.Any]":
    if isinstance(value, torch.Tensor):
        tensors[path.rstrip("/")] = value
        return ["tensor", path.rstrip("/")]
    if isinstance(value, dict):
        items = []
        for key, item in value.items():
            if not isinstance(key, (str, int)):
                raise InvalidArgumentError(f"{path}: the key {key!r} is neither text nor a number")
            items.append([key, _encode(item, f"{path}{key}/", tensors)])
        return ["dict", items]
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, [_encode(item, f"{path}{i}/", tensors) for i, item in enumerate(value)]]
    if value is None or isinstance(value, (bool, int, float, str)):
        return ["value", value]
    raise InvalidArgumentError(f"{path.rstrip('/')}: {type(value).__name__} is neither a tensor nor a plain value")


def _read_tree(reader: _native.Reader) -> typing.Any:
    try:
        return json.loads(bytes(reader[_TREE][()]))
    except (ValueError, TypeError, RecursionError) as error:
        raise DataLossError(f"{reader.path}: {_TREE} is not JSON: {error}") from None


def _decode(tree: typing.Any, reader: _native.Reader) -> typing.Any:
    """Trusts nothing in the tree: it comes from a file."""
    try:
        kind, content = tree
        if kind == "tensor":
            return to_torch(reader.read(content, tensor=True))
        if kind == "dict":
            return {key: _decode(item, reader) for key, item in content}
        if kind in ("list", "tuple"):
            items = [_decode(item, reader) for item in content]
            return items if kind == "list" else tuple(items)
        if kind == "value" and (content is None or isinstance(content, (bool, int, float, str))):
            return content
    except (ValueError, TypeError, RecursionError) as error:
        raise DataLossError(f"{reader.path}: {_TREE} is not the state of an optimizer: {error}") from None
    raise DataLossError(f"{reader.path}: {_TREE} is not the state of an optimizer: {kind!r}")


def _check_like(entry: _native.Entry, tensor: torch.Tensor) -> None:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if entry.dtype != dtype or entry.shape != tuple(tensor.shape):
        raise InvalidArgumentError(
            f"tensor {entry.name!r} is {entry.dtype} {list(entry.shape)} in the file, and {dtype} "
            f"{list(tensor.shape)} in the model"
        )


def _read_into(reader: _native.Reader, name: str, tensor: torch.Tensor) -> None:
    if tensor.device.type == "cpu" and not tensor.is_conj() and not tensor.is_neg():
        reader.read_into(name, tensor)
    else:
        with torch.no_grad():
            tensor.copy_(to_torch(reader.read(name, tensor=True)))
