"""``tensorcask.load``: the tensors of a file as arrays of a framework."""

import importlib
import os
import typing
from collections.abc import Iterable, Mapping

from tensorcask import _native
from tensorcask._errors import InvalidArgumentError, MissingFrameworkError, UnimplementedError
from tensorcask._gpu import device_of_jax, target_on_gpu

if typing.TYPE_CHECKING:
    from tensorcask._remote import Credentials


def load(
    path: "str | os.PathLike[str] | bytes | bytearray | memoryview | typing.BinaryIO",
    names: "str | Iterable[str] | None" = None,
    *,
    framework: str = "numpy",
    device: object = None,
    mmap: bool = False,
    format: "str | None" = None,
    base: "str | os.PathLike[str] | None" = None,
    verify: bool = True,
    lenient: bool = False,
    constants: bool = False,
    links: bool = True,
    stored: bool = False,
    opaque_objects: bool = False,
    limits: "Mapping[str, int] | None" = None,
    threads: "int | None" = None,
    filesystem: object = None,
    credentials: "Credentials | None" = None,
    nested: bool = False,
) -> "dict[str, typing.Any]":
    """Loads tensors of a file into a dict, in the order of the file.

    ``names`` is a name, a shell pattern, or several of them; None loads all. A name that is not in the file, and a
    pattern that matches nothing, is a KeyError. ``framework`` is 'numpy', 'torch', 'jax', 'cupy' or 'tensorcask' (which
    gives ``tensorcask.Tensor``). 'torch', 'jax' and 'cupy' import that framework (MissingFrameworkError, which is an
    ImportError, if that fails) and hand it the memory through DLPack, without a copy.

    With a ``device`` such as 'cuda:0' each tensor is read and verified piece by piece, while the GPU copies the last
    piece: nothing is whole on the host. The memory is of PyTorch's or CuPy's own allocator; JAX gets memory of the
    library. Other devices, and those of 'torch' and 'jax' without NVIDIA's driver, get a copy that the framework makes.

    With ``mmap`` arrays on the host are read-only memory of the file where the format allows that; the file must not
    change. ``threads`` read; None is as many as the machine has cores, at most 4, and to a GPU at most 16. ``path``
    (which may be bytes or a file object), ``format``, ``base``, ``verify``, ``lenient``, ``constants``, ``links``,
    ``stored``, ``opaque_objects``, ``limits``, ``filesystem`` and ``credentials`` are those of ``open``.

    With ``nested`` the result is what was saved, tensors and other values, as ``Reader.nested`` has it: the nested dict
    of a file of PyTorch, for example. ``names`` must be None then, and tensors are read one after the other.

    bfloat16, float8 and integers below 8 bits come as dtypes of ml_dtypes if the program has imported that, else as
    integers of the same width; ``Reader.entry`` tells the name of the dtype. Strings come as arrays of bytes objects.

    >>> import numpy as np, tensorcask as tc
    >>> _ = tc.save("model.npz", {"a/kernel": np.eye(2), "a/bias": np.zeros(2)}, overwrite=True)
    >>> sorted(tc.load("model.npz", names="*kernel"))
    ['a/kernel']
    """
    if framework in _FRAMEWORKS:
        import_framework(framework)
    rules: dict[str, typing.Any] = {
        "lenient": lenient,
        "constants": constants,
        "links": links,
        "stored": stored,
        "opaque_objects": opaque_objects,
        "limits": limits,
    }
    reading = {
        "format": format,
        "base": base,
        "verify": verify,
        "filesystem": filesystem,
        "credentials": credentials,
        **rules,
    }
    if nested:
        if names is not None:
            raise InvalidArgumentError("nested=True loads all of a file; names chooses tensors of a flat dict")
        with _native.open(path, **reading) as reader:
            values: "dict[str, typing.Any]" = reader.nested(
                lambda name: read_to(reader, name, framework, device, mmap=mmap)
            )
            return values
    target = target_on_gpu(framework, device)
    if target is not None:
        with _native.open(path, **reading) as reader:
            outs = {name: target.make(reader.entry(name)) for name in reader.select(names)}
            reader.read_many_into(outs, threads=threads)
        return {name: target.finish(out) for name, out in outs.items()}
    convert = to_framework(framework, device)
    tensors = _native.load_tensors(path, names, mmap, framework != "numpy", threads, **reading)
    return {name: convert(tensor) for name, tensor in tensors.items()}


def to_framework(framework: str, device: object) -> "typing.Callable[[typing.Any], typing.Any]":
    """Converts tensors to those of a framework, which it imports; arrays of NumPy stay what they are."""
    if framework in ("numpy", "tensorcask"):
        if device is not None and (framework == "numpy" or str(device) != "cpu"):
            kind = "arrays of NumPy" if framework == "numpy" else "tensors of tensorcask"
            raise InvalidArgumentError(f"device is {device!r}: {kind} are on the host here")
        return lambda tensor: tensor
    if framework not in _CONVERTERS:
        raise ValueError(f"framework is {framework!r}; wanted 'numpy', 'torch', 'jax', 'cupy' or 'tensorcask'")
    module = import_framework(framework)
    if framework == "jax" and isinstance(device, str):
        device = device_of_jax(module, device)
    convert = _CONVERTERS[framework]
    return lambda tensor: convert(tensor, device)


def read_to(
    reader: "_native.Reader", name: str, framework: str, device: object, *, mmap: bool = False
) -> typing.Any:
    """One tensor of a file as an array of a framework, on a device."""
    target = target_on_gpu(framework, device)
    if target is None:
        return to_framework(framework, device)(reader.read(name, mmap=mmap, tensor=framework != "numpy"))
    out = target.make(reader.entry(name))
    reader.read_into(name, out)
    return target.finish(out)


_FRAMEWORKS = {"cupy": "CuPy", "jax": "JAX", "torch": "PyTorch"}


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
    try:
        array = jax.numpy.from_dlpack(tensor)
    except UnimplementedError:  # elements below a byte, which JAX has as dtypes of ml_dtypes
        array = jax.numpy.asarray(tensor.numpy())
    return array if device is None else jax.device_put(array, device)


def _to_cupy(tensor: "_native.Tensor", device: object) -> typing.Any:
    cupy = import_framework("cupy")
    if tensor.dtype == "string":
        raise TypeError("CuPy has no strings; load them with framework='numpy'")
    array = tensor.numpy()
    with cupy.cuda.Device():
        return cupy.asarray(array)


_CONVERTERS: "dict[str, typing.Callable[[_native.Tensor, object], typing.Any]]" = {
    "cupy": _to_cupy,
    "jax": _to_jax,
    "torch": to_torch,
}
