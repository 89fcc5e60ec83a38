"""A driver of NVIDIA's without a GPU, and arrays in its memory, for test_devices.py and test_device_tensors.py.

The driver is tests/tensor/memory/fake_cuda.cc: memory of the device is memory of the C library, so that an array of
NumPy can play one on a GPU, and values are real. TENSORCASK_FAKE_CUDA names the library; without it a compiler of C++
makes it.
"""

import contextlib
import ctypes
import functools
import gc
import os
import shutil
import subprocess
import tempfile
import time

import ml_dtypes
import numpy as np
import pytest

import tensorcask as tc

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # of DLDataType


@functools.cache
def library():
    """(path, None) of the driver, or (None, why there is none)."""
    if path := os.environ.get("TENSORCASK_FAKE_CUDA"):
        return (path, None) if os.path.exists(path) else (None, f"{path} does not exist")
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcuda.so.1")
        return None, "the tests in tests/gpu use the driver that is here"
    compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++") or shutil.which("clang++")
    source = os.path.join(ROOT, "tests/tensor/memory/fake_cuda.cc")
    if compiler is None or not os.path.exists(source):
        return None, "no compiler of C++ to make the driver" if compiler is None else f"no {source}"
    folder = tempfile.mkdtemp(prefix="tensorcask_fake_cuda_")
    os.symlink(ROOT, os.path.join(folder, "tensorcask"))  # includes begin with it
    path = os.path.join(folder, "libfake_cuda.so")
    command = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", "-I", folder, "-o", path, source]
    done = subprocess.run(command, capture_output=True, text=True)
    return (path, None) if done.returncode == 0 else (None, f"the driver does not compile: {done.stderr[:500]}")


class Driver:
    """What tests set and see of the driver."""

    def __init__(self, path):
        self.functions = ctypes.CDLL(path)
        self.set("asynchronous", 1)  # work waits in its stream, as on a GPU
        self._work = []  # functions of Python that wait in streams

    def set(self, name, value):
        self.functions.FakeCudaSet(name.encode(), value)

    @contextlib.contextmanager
    def failing(self, call, result=700):
        """Calls of this name fail in the block."""
        self.set(call, result)
        try:
            yield
        finally:
            self.set(call, 0)

    def stream(self):
        """The number of a new stream."""
        stream = ctypes.c_void_p()
        self.functions.cuCtxPushCurrent_v2(None)
        assert self.functions.cuStreamCreate(ctypes.byref(stream), 1) == 0
        self.functions.cuCtxPopCurrent_v2(None)
        return stream.value

    def add(self, stream, work):
        """Adds a call of work() to a stream."""
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: work())
        self._work.append(function)
        self.functions.cuCtxPushCurrent_v2(None)
        result = self.functions.cuLaunchHostFunc(ctypes.c_void_p(stream), function, None)
        self.functions.cuCtxPopCurrent_v2(None)
        assert result == 0


# ---- DLPack ---------------------------------------------------------------------------------------------------------


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Legacy(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_lent = {}  # address of a managed tensor -> what must live as long


@_Deleter
def _give_back(address):
    del _lent[address]


def lent():
    """The number of managed tensors whose deleter was not called."""
    return len(_lent)


def look_into(capsule):
    """A copy of the DLTensor of a capsule of the library."""
    for name, form in ((b"dltensor_versioned", _Versioned), (b"dltensor", _Legacy)):
        with contextlib.suppress(ValueError):
            return DLTensor.from_buffer_copy(form.from_address(_pointer(capsule, name)).tensor)
    raise AssertionError(f"not a capsule of DLPack: {capsule!r}")


class DeviceArray:
    """An array of NumPy that says it is in memory of a GPU: what CuPy and others look like through DLPack.

    `streams` lists the streams that consumers named. `before` is called with each, and may add work to it.
    """

    def __init__(self, array, *, device=0, versioned=True, read_only=False, before=None):
        self.array, self.device, self.versioned, self.read_only = array, device, versioned, read_only
        self.before, self.streams = before, []

    def __dlpack_device__(self):
        return 2, self.device

    def __dlpack__(self, **arguments):
        if not self.versioned and "max_version" in arguments:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        stream = arguments.get("stream")
        self.streams.append(stream)
        if self.before is not None:
            self.before(stream)
        array = self.array
        numbers = ctypes.c_int64 * max(array.ndim, 1)
        shape = numbers(*array.shape)
        strides = numbers(*[stride // array.itemsize for stride in array.strides])
        is_bfloat16 = array.dtype.name == "bfloat16"
        managed = (_Versioned if self.versioned else _Legacy)()
        managed.tensor = DLTensor(
            array.ctypes.data, 2, self.device, array.ndim, 4 if is_bfloat16 else KINDS[array.dtype.kind],
            8 * array.itemsize, 1, ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
            ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)), 0,
        )  # fmt: skip
        managed.deleter = _give_back
        if self.versioned:
            managed.major, managed.minor, managed.flags = 1, 0, 1 if self.read_only else 0
        address = ctypes.addressof(managed)
        _lent[address] = managed, shape, strides, array
        return _new_capsule(address, b"dltensor_versioned" if self.versioned else b"dltensor", None)


def late(driver, array, value, seconds=0.1):
    """For `before`: work of the consumer's stream that waits, and then fills the array."""

    def fill():
        time.sleep(seconds)
        np.copyto(array, value)

    return lambda stream: driver.add(stream, fill)


# ---- What the tests share -------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def the_driver():
    # The module keeps the driver that it opens first.
    os.environ["TENSORCASK_CUDA_LIBRARY"] = library()[0]
    yield Driver(library()[0])
    os.environ.pop("TENSORCASK_CUDA_LIBRARY", None)


@pytest.fixture(autouse=True)
def driver(the_driver):
    """Also checks that no memory of a caller stays with the library."""
    before = lent()
    yield the_driver
    assert settled() <= before + 1


def settled():
    """The number of arrays that the library holds. One that was used last stays until the next call."""
    gc.collect()
    tc.save("settled.npz", {"x": DeviceArray(np.ones(1))}, overwrite=True)
    return lent()


def bits(array):
    return array.dtype.name, array.shape, array.tobytes()


def random_array(dtype, shape=(30, 20), seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    dtype = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return rng.integers(0, 256, int(np.prod(shape)) * dtype.itemsize, np.uint8).view(dtype).reshape(shape)


def on_gpu(path, names=None, device="cuda:0", **options):
    return tc.load(path, names, framework="tensorcask", device=device, **options)
