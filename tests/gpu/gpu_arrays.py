"""What the tests of the Python module on a GPU share: the frameworks behind one interface, delayed work, capsules.

Import it before the frameworks: it sets what JAX reads when it is imported.
"""

import ctypes
import functools
import importlib
import math
import os
import subprocess
import sys
import textwrap
import threading
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the memory of the GPU is shared with PyTorch
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")  # for arrays sharded on the host

import numpy as np  # noqa: E402

DEVICE = "cuda:0"
MIB = 1 << 20
NAMES = ("torch", "cupy", "jax")
NUMPY_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
OTHER_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
SHAPES = ((), (0,), (1,), (3, 5))


@functools.cache
def why_no_gpu():
    """Why nothing can run on a GPU here; None if there is one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"no driver of NVIDIA: {error}"
    count = ctypes.c_int()
    result = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if result != 0:
        return f"the driver of NVIDIA reports error {result}"
    return None if count.value > 0 else "the driver of NVIDIA finds no GPU"


@functools.cache
def _imported(name):
    """(module, None), or (None, why it cannot be used)."""
    try:
        module = importlib.import_module(name)
        if name == "torch" and not module.cuda.is_available():
            return None, "PyTorch finds no GPU"
        if name == "cupy":
            module.zeros(1).sum().get()
        if name == "jax":
            module.config.update("jax_enable_x64", True)
            module.devices("gpu")
        return module, None
    except Exception as error:  # a framework that is broken says so in its own way
        return None, f"{name}: {type(error).__name__}: {error}"


def need(name):
    """The framework; skips the test where it cannot be used."""
    module, reason = _imported(name)
    if module is None:
        import pytest

        pytest.skip(reason)
    return module


# ---- Values ---------------------------------------------------------------------------------------------------------


def numpy_dtype(name):
    if name in OTHER_DTYPES:
        return np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    return np.dtype(name)


def random_bits(dtype, shape, seed=0):
    """An array of any bits that the dtype may have, NaN among them."""
    rng = np.random.default_rng(seed)
    count = math.prod(shape)
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool).reshape(shape)
    dtype = numpy_dtype(dtype)
    return rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype).reshape(shape)


def summary(array):
    """Dtype, shape and bits of an array of NumPy."""
    return array.dtype.name, array.shape, array.tobytes()


# ---- Frameworks -----------------------------------------------------------------------------------------------------


class Torch:
    name = "torch"

    def __init__(self):
        self.torch = need("torch")

    def has(self, dtype):
        return hasattr(self.torch, dtype)

    def on_gpu(self, tensor):
        return isinstance(tensor, self.torch.Tensor) and tensor.device.type == "cuda"

    def pointer(self, tensor):
        return tensor.data_ptr()

    def to_gpu(self, array):
        array = np.ascontiguousarray(array).reshape(array.shape)
        if array.dtype.name not in OTHER_DTYPES:
            return self.torch.from_numpy(array.copy()).to(DEVICE)
        carried = self.torch.from_numpy(array.view(f"int{8 * array.itemsize}").copy())
        return carried.view(getattr(self.torch, array.dtype.name)).to(DEVICE)

    def summary(self, tensor):
        """As ``summary`` of NumPy's arrays, of which PyTorch cannot make one for each of its dtypes."""
        tensor = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
        bits = tensor.reshape(-1).view(self.torch.uint8).numpy().tobytes() if tensor.numel() > 0 else b""
        return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), bits

    def from_dlpack(self, array):
        return self.torch.from_dlpack(array)

    def synchronize(self):
        self.torch.cuda.synchronize()


class Cupy:
    name = "cupy"

    def __init__(self):
        self.cupy = need("cupy")

    def has(self, dtype):
        return dtype in NUMPY_DTYPES

    def on_gpu(self, array):
        return isinstance(array, self.cupy.ndarray)

    def pointer(self, array):
        return array.data.ptr

    def to_gpu(self, array):
        return self.cupy.asarray(array)

    def summary(self, array):
        return summary(array.get())

    def from_dlpack(self, array):
        return self.cupy.from_dlpack(array)

    def synchronize(self):
        self.cupy.cuda.Device(0).synchronize()


class Jax:
    name = "jax"

    def __init__(self):
        self.jax = need("jax")

    def has(self, dtype):
        return True

    def on_gpu(self, array):
        return isinstance(array, self.jax.Array) and all(one.platform in ("gpu", "cuda") for one in array.devices())

    def pointer(self, array):
        return array.unsafe_buffer_pointer()

    def to_gpu(self, array):
        return self.jax.device_put(array, self.jax.devices("gpu")[0])

    def summary(self, array):
        return summary(np.asarray(array))

    def from_dlpack(self, array):
        return self.jax.numpy.from_dlpack(array)

    def synchronize(self):
        self.jax.effects_barrier()


FRAMEWORKS = {"torch": Torch, "cupy": Cupy, "jax": Jax}


# ---- Work that takes a while ----------------------------------------------------------------------------------------


def delay(torch, seconds=0.1):
    """Keeps the current stream of PyTorch busy."""
    torch.cuda._sleep(int(seconds * 2e9))  # cycles; a GPU has up to 2 GHz


def assert_is_busy(stream):
    """The work on the stream has not finished: without that the test would prove nothing."""
    assert not stream.query(), "the delay was too short for this test"


# ---- DLPack ---------------------------------------------------------------------------------------------------------


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def look_into(capsule):
    """(name, address of the data, (device type, number)) of a DLPack capsule, which stays as it is."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = api.PyCapsule_GetName(capsule)
    pointer = api.PyCapsule_GetPointer(capsule, name)
    # Before the tensor, the versioned form has its version, two pointers and flags of 8 bytes each.
    tensor = _DLTensor.from_address(pointer + (32 if name == b"dltensor_versioned" else 0))
    return name.decode(), (tensor.data or 0) + tensor.byte_offset, (tensor.device_type, tensor.device_id)


def address(tensor):
    """Of the first element of a tensorcask.Tensor."""
    return look_into(tensor.__dlpack__(max_version=(1, 0)))[1]


# ---- Memory of the host ---------------------------------------------------------------------------------------------


def _own_bytes():
    """Memory of this process that is not mapped from files."""
    with open("/proc/self/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    mapped = fields.get("RssFile", "0 kB")
    return (int(fields["VmRSS"].split()[0]) - int(mapped.split()[0])) << 10


class PeakMemory:
    """Measures how much memory of the host a block takes beyond what the process had: its peak, in bytes.

    A thread looks each millisecond, which needs the GIL: `looks` counts.
    """

    def __enter__(self):
        self.looks, self.grown_bytes, self._stop = 0, 0, threading.Event()
        self._start_bytes = _own_bytes()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self):
        while not self._stop.is_set():
            self.grown_bytes = max(self.grown_bytes, _own_bytes() - self._start_bytes)
            self.looks += 1
            time.sleep(0.001)

    def __exit__(self, *exception):
        self._stop.set()
        self._thread.join()


# ---- Other processes ------------------------------------------------------------------------------------------------


def run(program, seconds=20):
    """Runs a program of its own in the folder of the test. Returns its output."""
    path = os.pathsep.join([os.path.dirname(os.path.realpath(__file__)), *filter(None, sys.path)])
    try:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True,
            text=True,
            timeout=seconds,
            env={**os.environ, "PYTHONPATH": path},
        )
    except subprocess.TimeoutExpired as expired:
        raise AssertionError(f"the program hangs after it has printed {expired.stdout!r}") from None
    assert done.returncode == 0, f"status {done.returncode} after {done.stdout!r}: {done.stderr}"
    return done.stdout
