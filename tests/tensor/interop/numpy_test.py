#!/usr/bin/python3
"""DLPack against NumPy, both ways: the same memory, every dtype and geometry, and memory that goes back once.

Our side is a shared library with a C interface (dlpack_module.cc), loaded by ctypes; capsules are made and taken by
Python's C interface, so no header of Python's is needed. Runs under the system's Python, whose package python3-numpy it
wants. Capsules are of the legacy kind, the only one that NumPy 1 knows; it exports no bools.
"""

import ctypes
import gc
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import case_report  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None

MODULE = os.path.abspath(os.environ.get("DLPACK_MODULE", "tests/tensor/interop/libdlpack_module.so"))
NEVER, IF_NEEDED, ALWAYS = range(3)
DTYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()


def why_skip():
    """Why nothing here can run; None if it can."""
    if np is None:
        return "SKIPPED: no NumPy (python3-numpy)"
    with open(MODULE, "rb") as file:
        content = file.read()
    if any(symbol in content for symbol in (b"__asan_init", b"__tsan_init")):
        return "SKIPPED: sanitizers must be there when the program starts"
    return None


WHY_SKIP = why_skip()


def load():
    """Our library, with the types of its functions."""
    pointer, integer, text = ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p
    number, size, boolean = ctypes.c_int, ctypes.c_size_t, ctypes.c_bool
    functions = {
        "cask_error": (text,),
        "cask_make": (pointer, text, number, ctypes.POINTER(integer), text, size),
        "cask_transpose": (pointer, pointer),
        "cask_flip": (pointer, pointer, integer),
        "cask_expand": (pointer, pointer, number, ctypes.POINTER(integer)),
        "cask_step": (pointer, pointer, integer, integer),
        "cask_delete": (None, pointer),
        "cask_text": (text, pointer),
        "cask_owners": (integer, pointer),
        "cask_data": (pointer, pointer),
        "cask_writable_data": (pointer, pointer),
        "cask_bytes": (boolean, pointer, pointer, size),
        "cask_to_legacy": (pointer, pointer, number),
        "cask_from_legacy": (pointer, pointer, number, boolean),
        "cask_release_legacy": (None, pointer),
    }
    library = ctypes.CDLL(MODULE)
    for name, (result, *arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


if WHY_SKIP is None:
    CASK = load()

PYTHON = ctypes.pythonapi
DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
PYTHON.PyCapsule_New.restype = ctypes.py_object
PYTHON.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, DESTRUCTOR)
PYTHON.PyCapsule_GetName.restype = ctypes.c_char_p
PYTHON.PyCapsule_GetName.argtypes = (ctypes.py_object,)
PYTHON.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)
PYTHON.PyCapsule_GetPointer.restype = ctypes.c_void_p
PYTHON.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
# The same for a capsule that is being destroyed, to which no new reference may be made.
BARE_IS_VALID = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", PYTHON))
BARE_GET_POINTER = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", PYTHON)
)

# Names are kept by address, so the objects live here.
LEGACY, USED_LEGACY = b"dltensor", b"used_dltensor"


def _destructor(name, release):
    def destroy(capsule):
        if BARE_IS_VALID(capsule, name):  # no consumer took it
            release(BARE_GET_POINTER(capsule, name))

    return DESTRUCTOR(destroy)


if WHY_SKIP is None:
    DESTROY_LEGACY = _destructor(LEGACY, CASK.cask_release_legacy)


class View:
    """A TensorView of ours."""

    def __init__(self, pointer):
        if not pointer:
            raise ValueError(CASK.cask_error().decode())
        self.pointer = pointer

    def __del__(self):
        if hasattr(self, "pointer"):
            CASK.cask_delete(self.pointer)

    @classmethod
    def of(cls, array):
        """The elements of `array` in memory of our own."""
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        data = array.tobytes()
        return cls(CASK.cask_make(array.dtype.name.encode(), array.ndim, dims, data, len(data)))

    @classmethod
    def take(cls, array, copy=IF_NEEDED, writable=False):
        """The memory of `array`, by way of a capsule."""
        capsule = array.__dlpack__()
        managed = PYTHON.PyCapsule_GetPointer(capsule, LEGACY)
        PYTHON.PyCapsule_SetName(capsule, USED_LEGACY)
        return cls(CASK.cask_from_legacy(managed, copy, writable))

    def transpose(self):
        return View(CASK.cask_transpose(self.pointer))

    def flip(self, axis):
        return View(CASK.cask_flip(self.pointer, axis))

    def expand(self, *dims):
        return View(CASK.cask_expand(self.pointer, len(dims), (ctypes.c_int64 * len(dims))(*dims)))

    def step(self, axis, step):
        return View(CASK.cask_step(self.pointer, axis, step))

    def text(self):
        return CASK.cask_text(self.pointer).decode()

    def owners(self):
        return CASK.cask_owners(self.pointer)

    def data(self):
        return CASK.cask_data(self.pointer)

    def tobytes(self, size):
        out = ctypes.create_string_buffer(size)
        if not CASK.cask_bytes(self.pointer, out, size):
            raise ValueError(CASK.cask_error().decode())
        return out.raw[:size]

    def write(self, offset, data):
        """Writes bytes at `offset` from the first element."""
        ctypes.memmove(CASK.cask_writable_data(self.pointer) + offset, data, len(data))

    def capsule(self, copy=IF_NEEDED):
        managed = CASK.cask_to_legacy(self.pointer, copy)
        if not managed:
            raise BufferError(CASK.cask_error().decode())
        return PYTHON.PyCapsule_New(managed, LEGACY, DESTROY_LEGACY)

    def exporter(self, copy=IF_NEEDED):
        return Exporter(self, copy)


class Exporter:
    """What numpy.from_dlpack asks for a capsule."""

    def __init__(self, view, copy):
        self.view = view
        self.copy = copy
        self.handed_out = None

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        self.handed_out = self.view.capsule(self.copy)
        return self.handed_out


def array_of(dtype, *shape):
    """Numbers that differ, in memory aligned as NumPy gives it."""
    values = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float64)
    if np.dtype(dtype).kind == "c":
        return (values - 1j * values).astype(dtype).reshape(shape)
    return values.astype(dtype).reshape(shape)


def address(array):
    return array.__array_interface__["data"][0]


# Name -> the same geometry, made by NumPy and by us, of an array of shape (3, 4).
GEOMETRIES = {
    "dense": (lambda array: array, lambda view: view),
    "transposed": (lambda array: array.T, lambda view: view.transpose()),
    "rows flipped": (lambda array: array[::-1], lambda view: view.flip(0)),
    "all flipped": (lambda array: array[::-1, ::-1], lambda view: view.flip(0).flip(1)),
    "every second": (lambda array: array[:, ::2], lambda view: view.step(1, 2)),
    "every second back": (lambda array: array[:, ::-2], lambda view: view.step(1, -2)),
    "broadcast": (lambda array: np.broadcast_to(array, (5, 3, 4)), lambda view: view.expand(5, 3, 4)),
}


@unittest.skipIf(WHY_SKIP, WHY_SKIP)
class OursToNumPy(unittest.TestCase):
    def test_every_dtype_shares_its_memory(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                expected = array_of(dtype, 2, 3)
                view = View.of(expected)
                array = np.from_dlpack(view.exporter())
                self.assertEqual(array.dtype, expected.dtype)
                np.testing.assert_array_equal(array, expected)
                self.assertEqual(address(array), view.data())
                view.write(0, expected[1, 2].tobytes())
                self.assertEqual(array[0, 0], expected[1, 2])

    def test_every_geometry(self):
        for name, (numpys, ours) in GEOMETRIES.items():
            with self.subTest(name):
                base = array_of("float32", 3, 4)
                expected = numpys(base)
                view = ours(View.of(base))
                array = np.from_dlpack(view.exporter(copy=NEVER))
                self.assertEqual(array.strides, expected.strides)
                self.assertEqual(address(array), view.data())
                np.testing.assert_array_equal(array, expected)

    def test_a_scalar_and_no_elements(self):
        scalar = View.of(np.array(7, "int64"))
        array = np.from_dlpack(scalar.exporter())
        self.assertEqual((array.shape, int(array)), ((), 7))
        none = View.of(np.zeros((2, 0, 3), "int16"))
        self.assertEqual(np.from_dlpack(none.exporter()).shape, (2, 0, 3))

    def test_the_memory_is_held_until_the_array_goes(self):
        view = View.of(array_of("float64", 4))
        self.assertEqual(view.owners(), 1)
        exporter = view.exporter()
        array = np.from_dlpack(exporter)
        self.assertEqual(PYTHON.PyCapsule_GetName(exporter.handed_out), USED_LEGACY)
        exporter.handed_out = None
        self.assertGreater(view.owners(), 1)
        part = array[1:3]
        del array
        gc.collect()
        self.assertGreater(view.owners(), 1)
        del part
        gc.collect()
        self.assertEqual(view.owners(), 1)

    def test_the_array_outlives_our_view(self):
        view = View.of(array_of("float64", 1000))
        array = np.from_dlpack(view.exporter())
        del view
        gc.collect()
        np.testing.assert_array_equal(array, array_of("float64", 1000))

    def test_a_capsule_that_nobody_takes_is_released(self):
        view = View.of(array_of("float64", 4))
        capsule = view.capsule()
        self.assertGreater(view.owners(), 1)
        del capsule
        gc.collect()
        self.assertEqual(view.owners(), 1)

    def test_a_copy_is_numpys_own(self):
        view = View.of(array_of("int32", 4))
        array = np.from_dlpack(view.exporter(copy=ALWAYS))
        self.assertNotEqual(address(array), view.data())
        self.assertEqual(view.owners(), 1)
        view.write(0, b"\xff" * 4)
        self.assertEqual(array[0], 1)

    def test_read_only_memory_is_copied_in_the_legacy_form(self):
        array = array_of("float32", 3)
        view = View.take(array)
        with self.assertRaisesRegex(BufferError, "is read-only"):
            view.capsule(copy=NEVER)
        self.assertNotEqual(address(np.from_dlpack(view.exporter())), address(array))


@unittest.skipIf(WHY_SKIP, WHY_SKIP)
class NumPyToOurs(unittest.TestCase):
    def test_every_dtype_shares_its_memory(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                array = array_of(dtype, 2, 3)
                view = View.take(array, copy=NEVER)
                self.assertEqual(view.text(), f"{dtype} [2,3] strides [3,1] offset 0")
                self.assertEqual(view.data(), address(array))
                self.assertEqual(view.tobytes(array.nbytes), array.tobytes())
                array[1, 2] = array[0, 0]
                self.assertEqual(view.tobytes(array.nbytes), array.tobytes())

    def test_every_geometry(self):
        for name, (numpys, ours) in GEOMETRIES.items():
            with self.subTest(name):
                base = array_of("int16", 3, 4)
                array = numpys(base)
                if not array.flags.writeable:  # NumPy refuses to export what it calls read-only
                    array = np.lib.stride_tricks.as_strided(base, array.shape, array.strides)
                view = View.take(array, copy=NEVER)
                self.assertEqual(view.data(), address(array))
                # Our offset counts from the lowest element, as no more of the memory is known.
                expected = ours(View.of(base)).text()
                self.assertEqual(view.text().partition(" offset ")[0], expected.partition(" offset ")[0])
                self.assertEqual(view.tobytes(array.nbytes), array.tobytes())

    def test_a_scalar_and_no_elements(self):
        self.assertEqual(View.take(np.array(2.5)).text(), "float64 [] strides [] offset 0")
        none = View.take(np.zeros((0, 3), "uint8"))
        self.assertTrue(none.text().startswith("uint8 [0,3]"), none.text())

    def test_the_array_is_held_until_our_view_goes(self):
        array = array_of("float32", 8)
        before = sys.getrefcount(array)
        view = View.take(array)
        self.assertEqual(sys.getrefcount(array), before + 1)
        part = view.step(0, 2)
        del view
        self.assertEqual(sys.getrefcount(array), before + 1)
        del part
        self.assertEqual(sys.getrefcount(array), before)

    def test_our_view_outlives_the_array(self):
        array = array_of("float32", 1000)
        data = array.tobytes()
        view = View.take(array)
        del array
        gc.collect()
        self.assertEqual(view.tobytes(len(data)), data)

    def test_nothing_is_held_of_what_is_refused_or_copied_or_empty(self):
        misaligned = np.frombuffer(bytearray(17), np.float64, 2, 1)
        before = sys.getrefcount(misaligned)
        with self.assertRaisesRegex(ValueError, "not a multiple of 8, and a copy is not allowed"):
            View.take(misaligned, copy=NEVER)
        self.assertEqual(sys.getrefcount(misaligned), before)
        array = array_of("float32", 8)
        before = sys.getrefcount(array)
        copied = View.take(array, copy=ALWAYS)
        self.assertEqual(sys.getrefcount(array), before)
        self.assertEqual(copied.tobytes(32), array.tobytes())
        none = np.zeros(0)
        before = sys.getrefcount(none)
        taken = View.take(none)
        self.assertEqual(sys.getrefcount(none), before)
        self.assertEqual(taken.tobytes(0), b"")

    def test_a_legacy_array_is_copied_when_we_write(self):
        array = array_of("int32", 4)
        view = View.take(array)
        view.write(0, b"\xff" * 4)
        self.assertEqual(array[0], 1)
        self.assertEqual(view.tobytes(4 * 4)[:8], b"\xff" * 4 + np.int32(2).tobytes())

    def test_a_legacy_array_is_written_when_the_caller_says_so(self):
        array = array_of("int32", 4)
        View.take(array, writable=True).write(4, b"\xff" * 4)
        self.assertEqual(array.tolist(), [1, -1, 3, 4])

    def test_misaligned_arrays_are_copied(self):
        array = np.frombuffer(bytearray(b"x" + array_of("float64", 5).tobytes()), np.float64, 5, 1)
        self.assertFalse(array.flags.aligned)
        view = View.take(array)
        self.assertNotEqual(view.data(), address(array))
        self.assertEqual(view.tobytes(40), array.tobytes())


@unittest.skipIf(WHY_SKIP, WHY_SKIP)
class ThereAndBack(unittest.TestCase):
    def test_the_same_memory_returns(self):
        array = array_of("float64", 3, 4)
        again = np.from_dlpack(View.take(array, writable=True).exporter(copy=NEVER))
        self.assertEqual(address(again), address(array))
        array[2, 3] = 77
        self.assertEqual(again[2, 3], 77)


if __name__ == "__main__":
    case_report.main("numpy")
