#!/usr/bin/python3
"""Files of the real NumPy, copied by our reader and writer (npy_copy.cc), and read by NumPy again.

Runs under the system's Python, whose package python3-numpy it wants.
"""

import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import case_report  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None

COPY = os.path.abspath(os.environ.get("NPY_COPY", "tests/serialize/npy/npy_copy"))
DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 "
    ">i2 >u4 >f8 >c16 S1 S5 U3 >U2 M8[ns] m8[D]"
).split()
SHAPES = [(), (1,), (7,), (0,), (3, 4), (2, 0, 3), (2, 3, 4), (1, 5), (2, 1, 3, 2), (2, 2, 2, 2, 2), (1, 2, 1, 2, 1, 2)]


def random_array(dtype, shape, seed):
    random = np.random.RandomState(seed)
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    if dtype.kind == "b":
        flat = random.randint(0, 2, count).astype(dtype)
    elif dtype.kind == "S":
        flat = np.array([bytes(random.randint(1, 256, random.randint(0, dtype.itemsize + 1)).astype("u1")) for _ in range(count)], dtype)
    elif dtype.kind == "U":
        flat = np.array(["".join(chr(random.choice([65, 228, 0x20AC, 0x1F642])) for _ in range(random.randint(0, dtype.itemsize // 4 + 1))) for _ in range(count)], dtype)
    else:
        flat = np.frombuffer(random.bytes(count * dtype.itemsize), dtype).copy()
    return flat.reshape(shape)


def same(a, b):
    """Equal shape, kind and bits, in whatever byte order. Widths of strings are those of the longest."""
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return False
    if a.dtype.kind in "SU":
        return a.tolist() == b.tolist()
    a, b = (x.astype(x.dtype.newbyteorder("<")) for x in (a, b))
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


@unittest.skipIf(np is None, "SKIPPED: no NumPy (python3-numpy)")
class NumpyTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def copy(self, source, *words):
        target = self.path("copy" + os.path.splitext(source)[1])
        if os.path.exists(target):
            os.remove(target)
        done = subprocess.run([COPY, source, target, *words], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return target

    def arrays(self):
        for d, dtype in enumerate(DTYPES):
            for s, shape in enumerate(SHAPES):
                yield dtype, random_array(dtype, shape, 100 * d + s)

    def test_npy_both_ways_and_the_same_bytes(self):
        for number, (dtype, array) in enumerate(self.arrays()):
            if number % 3 != 0:
                continue
            with self.subTest(dtype=dtype, shape=array.shape):
                if number % 2 and array.ndim > 1:
                    array = np.asfortranarray(array)
                source = self.path("a.npy")
                np.save(source, array)
                words = ["big"] if dtype.startswith(">") else []
                words += ["unicode"] if array.dtype.kind == "U" else []
                target = self.copy(source, *words)
                self.assertTrue(same(np.load(target), array))
                if array.dtype.kind not in "SU":
                    with open(source, "rb") as a, open(target, "rb") as b:
                        self.assertEqual(a.read(), b.read())

    def test_npz_both_ways(self):
        everything = {f"{i}/{dtype}\u00e4": array for i, (dtype, array) in enumerate(self.arrays())}
        for save, words, left_out in (
            (np.savez, ["unicode"], "S"),
            (np.savez, ["deflate"], "U"),
            (np.savez_compressed, ["unicode", "deflate"], "S"),
            (np.savez_compressed, ["column", "big"], "U"),
        ):
            with self.subTest(save=save.__name__, words=words):
                arrays = {name: array for name, array in everything.items() if array.dtype.kind != left_out}
                source = self.path("a.npz")
                save(source, **arrays)
                target = self.copy(source, *words)
                with zipfile.ZipFile(target) as archive:
                    self.assertIsNone(archive.testzip())
                with np.load(target) as loaded:
                    self.assertEqual(list(loaded), list(arrays))
                    for name, array in arrays.items():
                        self.assertTrue(same(loaded[name], array), name)

    def test_a_large_member_has_a_data_descriptor_that_numpy_reads(self):
        array = np.arange(500_000, dtype="f8")
        source = self.path("a.npz")
        np.savez(source, large=array, small=np.arange(3))
        for words in ([], ["deflate"]):
            target = self.copy(source, *words)
            with zipfile.ZipFile(target) as archive:
                self.assertEqual([info.flag_bits & 8 for info in archive.infolist()], [8, 0])
            with np.load(target) as loaded:
                self.assertTrue(same(loaded["large"], array))

    def test_objects_are_refused(self):
        source = self.path("a.npy")
        np.save(source, np.array([{}, []], dtype=object), allow_pickle=True)
        done = subprocess.run([COPY, source, self.path("b.npy")], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Python objects", done.stderr)


if __name__ == "__main__":
    case_report.main("numpy")
