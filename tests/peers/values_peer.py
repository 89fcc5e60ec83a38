"""What the elements of each dtype mean: NumPy and ml_dtypes have the same bytes and the same values."""

import re
import unittest

import ml_dtypes
import numpy as np

import ours
import peer
import random_tensors

FLOATS = [name for name in random_tensors.DTYPES if name.startswith(("float", "bfloat"))]
INTEGERS = [name for name in random_tensors.DTYPES if name.startswith(("int", "uint"))]


def patterns(name):
    """All elements of a dtype of up to 16 bits; of larger ones, random bits."""
    dtype = random_tensors.DTYPES[name]
    if dtype.itemsize > 2:
        return random_tensors.random_array(np.random.default_rng(61), name, (20_000,))
    count = 1 << random_tensors.BITS.get(name, 8 * dtype.itemsize)
    return np.arange(count, dtype=np.uint16).astype(f"u{dtype.itemsize}").view(dtype)


class Values(peer.Scratch):
    def printed(self, array):
        """The elements as `tensorcask show` prints them."""
        ours.write(self.path("one"), random_tensors.stored({"x": array}), "--overwrite")
        text = ours.tool("show", "--max", "all", self.path("one"), "x").decode()
        return re.sub(r"[\[\]]", " ", text.partition("\n")[2]).split()

    def test_floats(self):
        """The text of each element, which ml_dtypes turns into an element again, gives the same bits."""
        for name in FLOATS:
            with self.subTest(name):
                array = patterns(name)
                words = self.printed(array)
                self.assertEqual(len(words), array.size)
                with np.errstate(all="ignore"):
                    nan = np.isnan(array.astype(np.float64))
                    again = np.array([float(word) for word in words], np.float64).astype(array.dtype)
                self.assertTrue(np.isnan([float(word) for word in words])[nan].all())
                bits = f"u{array.dtype.itemsize}"
                differs = (again.view(bits) != array.view(bits)) & ~nan
                if name == "float8_e8m0fnu":
                    differs[0] = words[0] != "6e-39"  # 2^-127; ml_dtypes rounds 6e-39 up to 2^-126
                wrong = np.flatnonzero(differs)
                self.assertEqual([(words[at], float(array[at])) for at in wrong[:5]], [])
                peer.carried(
                    f"NumPy {np.__version__}, ml_dtypes {ml_dtypes.__version__}", "we print elements, it reads them", 1
                )

    def test_integers(self):
        for name in INTEGERS:
            with self.subTest(name):
                array = patterns(name)
                self.assertEqual([int(word) for word in self.printed(array)], [int(value) for value in array])
                peer.carried(
                    f"NumPy {np.__version__}, ml_dtypes {ml_dtypes.__version__}", "we print elements, it reads them", 1
                )

    def test_bytes(self):
        """NumPy's bytes go through each way of writing and reading, and our checksum is zlib's of them."""
        for seed in range(3):
            named = random_tensors.arrays(70 + seed, list(random_tensors.DTYPES), per_rank=2)
            items = random_tensors.stored(named)
            expected = {item.name: item.value for item in items}
            for options in ((), ("--level=default",), ("--level=high", "--shards=1"), ("--alignment=1",)):
                ours.write(self.path("bytes"), items, "--overwrite", *options)
                for mode in ("read", "map", "all"):
                    self.assert_same(
                        {name: item.value for name, item in ours.read(self.path("bytes"), mode).items()}, expected
                    )
                listed = ours.listing(self.path("bytes"))
                for item in items:
                    self.assertEqual(listed[item.name.decode()]["crc32"], ours.crc32(item.data))
                peer.carried(
                    f"NumPy {np.__version__}, ml_dtypes {ml_dtypes.__version__}",
                    "its bytes, written and read by us",
                    len(items),
                )


if __name__ == "__main__":
    unittest.main()
