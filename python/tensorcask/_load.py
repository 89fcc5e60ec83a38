"""``tensorcask.load``: the tensors of a file as arrays of a framework."""

import importlib
import os
import typing
from collections.abc import Iterable

from tensorcask import _native
from tensorcask._errors import MissingFrameworkError


def load(
    path: "str | os.PathLike[str]",
    names: "str | Iterable[str] | None" = None,
    *,
    framework: str = "numpy",
    device: object = None,
    mmap: bool = False,
    format: "str | None" = None,
    base: "str | os.PathLike[str] | None" = None,
    lenient: bool = False,
    verify: bool = True,
    threads: "int | None" = None,
) -> "dict[str, typing.Any]":
    """Loads tensors of a file into a dict, in the order of the file.

    ``names`` is a name, a shell pattern, or several of them; None loads all. A name that is not in the file, and a
    pattern that matches nothing, is a KeyError. ``framework`` is 'numpy', 'torch', 'jax' or 'tensorcask' (which gives
    ``tensorcask.Tensor``). 'torch' and 'jax' import that framework (MissingFrameworkError, which is an ImportError, if
    that fails) and hand it the memory through DLPack, without a copy; ``device`` then moves the tensors. With ``mmap``
    arrays are read-only memory of the file where the format allows that; the file must not change. ``format``,
    ``base``, ``lenient`` and ``verify`` are those of ``open``.

    bfloat16, float8 and integers below 8 bits come as dtypes of ml_dtypes if the program has imported that, else as
    integers of the same width; ``Reader.entry`` tells the name of the dtype. Strings come as arrays of bytes objects.

    >>> import numpy as np, tensorcask as tc
    >>> _ = tc.save("model.npz", {"a/kernel": np.eye(2), "a/bias": np.zeros(2)}, overwrite=True)
    >>> sorted(tc.load("model.npz", names="*kernel"))
    ['a/kernel']
    """
    convert = to_framework(framework, device)
    tensors = _native.load_tensors(path, names, mmap, framework != "numpy", format, base, lenient, verify, threads)
    return {name: convert(tensor) for name, tensor in tensors.items()}


def to_framework(framework: str, device: object) -> "typing.Callable[[typing.Any], typing.Any]":
    """Converts tensors to those of a framework, which it imports; arrays of NumPy stay what they are."""
    if framework in ("numpy", "tensorcask"):
        if device is not None:
            kind = "arrays of NumPy" if framework == "numpy" else "tensors of tensorcask"
            raise ValueError(f"device: {kind} are on the host; name another framework")
        return lambda tensor: tensor
    if framework not in _CONVERTERS:
        raise ValueError(f"framework is {framework!r}; wanted 'numpy', 'torch', 'jax' or 'tensorcask'")
    import_framework(framework)
    convert = _CONVERTERS[framework]
    return lambda tensor: convert(tensor, device)


_FRAMEWORKS = {"jax": "JAX", "torch": "PyTorch"}


def import_framework(name: str) -> typing.Any:
    """The module of a framework that the caller asked for by name; the package imports none otherwise."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingFrameworkError(
            f"{_FRAMEWORKS[name]} cannot be imported ({error}): install the package {name!r}, or load the arrays with "
            "framework='numpy'"
        ) from error


def to_torch(tensor: "_native.Tensor", device: object = None) -> typing.Any:
    """A torch.Tensor on the memory of `tensor`. Read-only memory is copied, since torch.Tensor cannot express that."""
    torch = import_framework("torch")
    if tensor.dtype == "string":
        raise TypeError("PyTorch has no strings; load them with framework='numpy'")
    if tensor.readonly:
        tensor = tensor.clone()
    dtype = getattr(torch, tensor.dtype, None)
    if tensor.dtype.startswith("float8"):
        if dtype is None:
            raise TypeError(f"PyTorch has no dtype {tensor.dtype}")
        result = torch.from_dlpack(tensor.bitcast("uint8")).view(dtype)
    else:
        result = torch.from_dlpack(tensor)
    return result if device is None else result.to(device)


def _to_jax(tensor: "_native.Tensor", device: object) -> typing.Any:
    jax = import_framework("jax")
    if tensor.dtype == "string":
        raise TypeError("JAX has no strings; load them with framework='numpy'")
    array = jax.numpy.from_dlpack(tensor)
    return array if device is None else jax.device_put(array, device)


_CONVERTERS: "dict[str, typing.Callable[[_native.Tensor, object], typing.Any]]" = {
    "jax": _to_jax,
    "torch": to_torch,
}
