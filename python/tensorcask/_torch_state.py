"""What the files of tensorcask.torch hold: the tensors of a model, and the state of its optimizers, by name.

The tensors in the state of an optimizer are named ``optimizer/...``; the rest of the state is JSON in the bytes of the
tensor ``optimizer.json``.
"""

import typing
from collections.abc import Mapping

from tensorcask import _native, _plain
from tensorcask._errors import DataLossError, InvalidArgumentError, MissingTensorError
from tensorcask._load import import_framework

import_framework("torch")

import torch  # noqa: E402

_OPTIMIZER = "optimizer"
TREE = "optimizer.json"


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


for _class in (Keys, StateMismatchError, Stateful):
    _class.__module__ = "tensorcask.torch"  # where programs import it from; tracebacks and pickles show that


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
        check_has_memory(name, value)
        if is_reserved(name):
            raise InvalidArgumentError(f"{name}: names like this are those of the state of an optimizer")
        tensors[name] = value
    if optimizer is not None:
        if isinstance(optimizer, Mapping):
            states: typing.Any = {key: one.state_dict() for key, one in optimizer.items()}
        else:
            states = optimizer.state_dict()
        tree = _plain.encode(states, _OPTIMIZER, tensors, _is_tensor)
        tensors[TREE] = torch.frombuffer(bytearray(_plain.to_json(tree)), dtype=torch.uint8)
    return tensors


def is_reserved(name: str) -> bool:
    return name == TREE or name.startswith(_OPTIMIZER + "/")


def _is_tensor(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        check_has_memory("a tensor of the optimizer", value)
        return True
    return False


def check_has_memory(name: str, tensor: object) -> None:
    """Errors: InvalidArgumentError if elements cannot be read from it or written to it."""
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgumentError(f"{name}: the state of the model has {type(tensor).__name__}; wanted a tensor")
    if tensor.device.type == "meta":
        raise InvalidArgumentError(f"{name} is on the meta device; call model.to_empty(device='cpu') first")
    if tensor.layout != torch.strided or tensor.is_quantized:
        form = "quantized elements" if tensor.is_quantized else f"the layout {tensor.layout}"
        raise InvalidArgumentError(f"{name} has {form}; wanted a plain strided tensor")


def read_tree(reader: _native.Reader) -> bytes:
    if TREE not in reader:
        raise MissingTensorError(f"{reader.path}: has no {TREE!r}: it was saved without an optimizer")
    tree = reader.read(TREE, tensor=True)
    if tree.dtype != "uint8" or len(tree.shape) != 1:
        raise DataLossError(f"{reader.path}: {TREE} is {tree.dtype} {list(tree.shape)}; wanted one axis of uint8")
    return bytes(tree.numpy().tobytes())


def states_of(
    optimizer: "Stateful | Mapping[str, Stateful]", state: typing.Any, where: str
) -> "list[tuple[Stateful, typing.Any]]":
    if not isinstance(optimizer, Mapping):
        return [(optimizer, state)]
    if not isinstance(state, dict) or state.keys() != optimizer.keys():
        stored = list(state) if isinstance(state, dict) else type(state).__name__
        raise InvalidArgumentError(f"{where} has the state of {stored}; wanted that of {list(optimizer)}")
    return [(one, state[key]) for key, one in optimizer.items()]


def difference(name: str, stored_dtype: str, stored_shape: "tuple[int, ...]", tensor: torch.Tensor) -> str:
    """What differs, or ''."""
    dtype = _dtype_name(tensor)
    if stored_dtype == dtype and stored_shape == tuple(tensor.shape):
        return ""
    return (
        f"{name!r} is {stored_dtype} {list(stored_shape)} in the file and {dtype} {list(tensor.shape)} in the model"
    )


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def listed(names: "list[str]") -> str:
    return ", ".join(map(repr, names))
