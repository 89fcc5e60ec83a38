"""Arrays of a framework in memory of a GPU of NVIDIA, into which the library reads.

    target = target_on_gpu("torch", "cuda:0")              # None: the library cannot reach this device
    out = target.make(reader.entry("w"))
    reader.read_many_into({"w": out})
    array = target.finish(out)
"""

import typing
from collections.abc import Callable

from tensorcask import _native
from tensorcask._errors import InvalidArgumentError, UnimplementedError

_NUMBERS = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
)


class Target(typing.NamedTuple):
    make: "Callable[[_native.Entry], typing.Any]"  # uninitialised memory for a tensor; TypeError for its dtype
    finish: "Callable[[typing.Any], typing.Any]"  # the array, once the memory is filled


def target_on_gpu(framework: str, device: object) -> "Target | None":
    """Where arrays of a framework are made; None if that is not on a GPU that the library can reach."""
    if framework not in _TARGETS or (device is None and framework != "cupy"):
        return None
    return _TARGETS[framework](device)


def can_reach(number: int) -> bool:
    return _native.why_no_gpu(number) is None


def _number_in(device: object, platforms: "tuple[str, ...]") -> "int | None":
    """The number in "cuda:1", -1 for "cuda"; None for the text of another device. InvalidArgumentError otherwise."""
    platform, colon, number = str(device).partition(":")
    if platform not in platforms:
        return None
    if not colon:
        return -1
    if not number.isdecimal():
        raise InvalidArgumentError(f"device is {device!r}; wanted a number behind {platform}:")
    return int(number)


def _check_number(number: int, count: int, framework: str) -> None:
    if number >= count:
        raise InvalidArgumentError(f"device 'cuda:{number}': {framework} finds {count} GPU{'s' if count != 1 else ''}")


def _check_dtype(entry: "_native.Entry", framework: str, known: "typing.Container[str]") -> None:
    if entry.dtype == "string":
        raise TypeError(f"{framework} has no strings; load them with framework='numpy'")
    if entry.dtype not in known:
        raise TypeError(f"{entry.name!r}: {framework} has no dtype {entry.dtype}; load it with framework='numpy'")


def _on_torch(device: typing.Any) -> "Target | None":
    import torch

    place = torch.device(device)
    if place.type != "cuda" or not torch.cuda.is_available():
        return None
    number = torch.cuda.current_device() if place.index is None else place.index
    _check_number(number, torch.cuda.device_count(), "PyTorch")
    if not can_reach(number):
        return None
    known = {name for name in dir(torch) if name in (*_NUMBERS, "bfloat16") or name.startswith("float8")}

    def make(entry: "_native.Entry") -> typing.Any:
        _check_dtype(entry, "PyTorch", known)
        return torch.empty(entry.shape, dtype=getattr(torch, entry.dtype), device=torch.device("cuda", number))

    return Target(make, lambda tensor: tensor)


def _on_cupy(device: typing.Any) -> Target:
    import cupy

    if isinstance(device, (int, cupy.cuda.Device)):
        number: "int | None" = int(device)
        if isinstance(device, bool) or int(device) < 0:
            raise InvalidArgumentError(f"device is {device!r}; wanted the number of a GPU, or 'cuda:0'")
    else:
        number = -1 if device is None else _number_in(device, ("cuda",))
    if number is None:
        raise InvalidArgumentError(f"device is {device!r}; arrays of CuPy are on a GPU, such as 'cuda:0'")
    number = cupy.cuda.Device().id if number == -1 else number
    _check_number(number, cupy.cuda.runtime.getDeviceCount(), "CuPy")
    why_not = _native.why_no_gpu(number)
    if why_not is not None:
        raise UnimplementedError(why_not)

    def make(entry: "_native.Entry") -> typing.Any:
        _check_dtype(entry, "CuPy", _NUMBERS)
        with cupy.cuda.Device(number):
            return cupy.empty(entry.shape, dtype=entry.dtype)

    return Target(make, lambda array: array)


def _on_jax(device: typing.Any) -> "Target | None":
    import jax

    if isinstance(device, str):
        device = device_of_jax(jax, device)
    if getattr(device, "platform", None) not in ("cuda", "gpu"):  # a sharding, or another device
        return None
    hardware = getattr(device, "local_hardware_id", None)
    number = device.id if hardware is None else hardware
    if not can_reach(number):
        return None

    def finish(tensor: "_native.Tensor") -> typing.Any:
        array = jax.numpy.from_dlpack(tensor)
        return array if array.devices() == {device} else jax.device_put(array, device)

    return Target(lambda entry: _native_memory(entry, "JAX", number), finish)


def device_of_jax(jax: typing.Any, text: str) -> typing.Any:
    """The device that "cpu", "gpu:1" or "cuda:0" names. Errors: InvalidArgumentError; JAX's for an unknown platform."""
    platform = text.partition(":")[0]
    number = max(_number_in(text, (platform,)) or 0, 0)
    devices = jax.local_devices(backend="gpu" if platform == "cuda" else platform)
    if number >= len(devices):
        raise InvalidArgumentError(f"device {text!r}: JAX finds {len(devices)} of this platform")
    return devices[number]


def _on_tensorcask(device: typing.Any) -> "Target | None":
    if str(device) == "cpu":
        return None
    number = _number_in(device, ("cuda",))
    if number is None:
        raise InvalidArgumentError(f"device is {device!r}; wanted 'cpu' or a GPU such as 'cuda:0'")
    return Target(lambda entry: _native_memory(entry, "a GPU", max(number, 0)), lambda tensor: tensor)


def _native_memory(entry: "_native.Entry", framework: str, number: int) -> "_native.Tensor":
    if entry.dtype == "string":
        raise TypeError(f"{framework} has no strings; load them with framework='numpy'")
    return _native.empty_on_gpu(entry.dtype, entry.shape, number)


_TARGETS: "dict[str, Callable[[typing.Any], Target | None]]" = {
    "cupy": _on_cupy,
    "jax": _on_jax,
    "tensorcask": _on_tensorcask,
    "torch": _on_torch,
}
