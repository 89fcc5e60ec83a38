"""safetensors, npy and npz files, both ways. Tests of a format that `tensorcask convert` does not know are skipped."""

import importlib
import unittest

import numpy as np
import safetensors
import safetensors.numpy

import ours
import peer
import random_tensors

NUMPY = f"NumPy {np.__version__}"
SAFETENSORS = f"safetensors {safetensors.__version__}"
NUMPY_DTYPES = [name for name in random_tensors.DTYPES if random_tensors.DTYPES[name].isbuiltin == 1]

# The dtypes that safetensors.numpy and this library both store.
SAFETENSORS_DTYPES = NUMPY_DTYPES[:-2] + ["complex64", "bfloat16", "float8_e4m3fn", "float8_e5m2"]

# Names that are no members of test archives: unpacked, they would be files outside the folder.
NAMES_OUT = ("../up", ".", "..", "")


def needs(file_format):
    def skip_or_run(test):
        return unittest.skipUnless(ours.writes(file_format), f"the tool does not write {file_format}")(test)

    return skip_or_run


def module(name):
    """The module, or None: PyTorch and JAX are not part of requirements-light.txt."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def large(seed):
    """Tensors of 80 MiB, which are copied in blocks: one random, one that is easy to deflate."""
    rng = np.random.default_rng(seed)
    return {
        "random": rng.integers(0, 2**32, (1280, 16 << 10), np.uint32),
        "regular": np.arange(20 << 20, dtype=np.int32).reshape(20, 1 << 20) & 255,
    }


class Archives(peer.Scratch):
    def read_by_us(self, path, *options):
        """{name: (dtype, shape, data)} that we read. Compares the listing with it, too."""
        ours.convert(path, self.path("read"), "--to", "checkpoint", "--overwrite", *options)
        items = ours.read(self.path("read"))
        listed = ours.listing(path)
        for item in items.values():
            facts = listed[item.name.decode()]
            self.assertEqual(
                (facts["dtype"], tuple(facts["shape"]), facts["crc32"]), (item.dtype, item.shape, ours.crc32(item.data))
            )
        return {name: item.value for name, item in items.items()}

    def written_by_us(self, named, name, *options):
        ours.write(self.path("written"), random_tensors.stored(named), "--overwrite")
        ours.convert(self.path("written"), self.path(name), "--overwrite", *options)
        return self.path(name)

    def assert_arrays(self, read, named):
        expected = {item.name: item.value for item in random_tensors.stored(named)}
        self.assert_same(
            {
                name.encode(): (random_tensors.OUR_NAMES[array.dtype], array.shape, random_tensors.data_of(array))
                for name, array in read.items()
            },
            expected,
        )

    def named(self, seed, dtypes, per_rank=2):
        return {
            name: array
            for name, array in random_tensors.arrays(seed, dtypes, per_rank).items()
            if name not in NAMES_OUT
        }


class Safetensors(Archives):
    def supported(self):
        """The dtypes that this release of safetensors.numpy writes, and those that it reads, too (0.8.0: no float8)."""
        writes, reads = [], []
        for name in SAFETENSORS_DTYPES:
            path = self.path("one.safetensors")
            try:
                safetensors.numpy.save_file({"x": np.zeros(1, random_tensors.DTYPES[name])}, path)
                writes.append(name)
                safetensors.numpy.load_file(path)
                reads.append(name)
            except Exception:  # its own type, KeyError or AttributeError, by release and dtype
                continue
        self.assertGreaterEqual(len(reads), 12)
        return writes, reads

    @needs("safetensors")
    def test_both_ways(self):
        writes, reads = self.supported()
        for seed in range(3):
            named = self.named(200 + seed, writes)
            safetensors.numpy.save_file(named, self.path("theirs.safetensors"), metadata={"é": "值"})
            expected = {item.name: item.value for item in random_tensors.stored(named)}
            with self.assertRaisesRegex(ours.Refused, "the file has metadata"):  # a checkpoint has none of the file
                self.read_by_us(self.path("theirs.safetensors"))
            self.assert_same(self.read_by_us(self.path("theirs.safetensors"), "--allow-loss"), expected)
            peer.carried(SAFETENSORS, "it writes, we read", len(named))
            named = self.named(203 + seed, reads)
            path = self.written_by_us(named, "ours.safetensors")
            self.assert_arrays(safetensors.numpy.load_file(path), named)
            peer.carried(SAFETENSORS, "we write, it reads", len(named))

    @needs("safetensors")
    def test_many(self):
        rng = np.random.default_rng(210)
        named = {
            f"blk.{number}.weight": random_tensors.random_array(rng, "float32", (3, 2)) for number in range(10_000)
        }
        safetensors.numpy.save_file(named, self.path("theirs.safetensors"))
        self.assertEqual(len(self.read_by_us(self.path("theirs.safetensors"))), len(named))
        self.assert_arrays(safetensors.numpy.load_file(self.written_by_us(named, "ours.safetensors")), named)
        peer.carried(SAFETENSORS, "it writes, we read", len(named))
        peer.carried(SAFETENSORS, "we write, it reads", len(named))

    @needs("safetensors")
    def test_large(self):
        named = large(240)
        safetensors.numpy.save_file(named, self.path("theirs.safetensors"))
        self.assert_same(
            self.read_by_us(self.path("theirs.safetensors")),
            {item.name: item.value for item in random_tensors.stored(named)},
        )
        loaded = safetensors.numpy.load_file(self.written_by_us(named, "ours.safetensors"))
        self.assertTrue(all(np.array_equal(loaded[name], named[name]) for name in named))
        peer.carried(SAFETENSORS, "it writes, we read", len(named))
        peer.carried(SAFETENSORS, "we write, it reads", len(named))

    @needs("safetensors")
    def test_edited(self):
        _, reads = self.supported()
        named = self.named(206, reads)
        path = self.path("edited.safetensors")
        safetensors.numpy.save_file(named, path, metadata={"é": "值"})
        ours.tool("edit", "--rename", "s/^/edited\\//", "--set", "license=MIT", path)
        self.assert_arrays(safetensors.numpy.load_file(path), {f"edited/{name}": named[name] for name in named})
        with safetensors.safe_open(path, framework="numpy") as file:
            self.assertEqual(file.metadata(), {"é": "值", "license": "MIT"})
        peer.carried(SAFETENSORS, "it writes, we rename, it reads", len(named))

    @needs("safetensors")
    def test_saved_again(self):
        """Their writer carries our checksums along, in any place, with headers of any length."""
        path_of_ours = self.written_by_us({"w": np.arange(3, dtype=np.float32), "v": np.zeros(2, np.int8)}, "ours.safetensors")
        with safetensors.safe_open(path_of_ours, framework="numpy") as file:
            metadata = file.metadata()
            arrays = {name: file.get_tensor(name) for name in file.keys()}
        self.assertIn("tensorcask.crc32c", metadata)
        path = self.path("again.safetensors")
        for length in range(96):
            safetensors.numpy.save_file(arrays, path, metadata={**metadata, "note": "x" * length})
            self.assertIn(b"are of another version of this file", ours.tool("verify", path))
            self.assert_arrays({name: array for name, array in safetensors.numpy.load_file(path).items()}, arrays)
        peer.carried(SAFETENSORS, "it saves our files again, we read", 96)

    @needs("safetensors")
    def test_slices(self):
        named = {"x": np.arange(60, dtype=np.int32).reshape(3, 4, 5)}
        path = self.written_by_us(named, "ours.safetensors")
        with safetensors.safe_open(path, framework="numpy") as file:
            part = file.get_slice("x")[1:3, :, 2:4]
        self.assertEqual(part.tolist(), named["x"][1:3, :, 2:4].tolist())
        peer.carried(SAFETENSORS, "we write, it reads a slice", 1)

    @needs("safetensors")
    def test_torch(self):
        torch = module("torch")
        if torch is None:
            self.skipTest("PyTorch is not installed")
        theirs = module("safetensors.torch")
        names = [
            "float32",
            "float64",
            "float16",
            "bfloat16",
            "int8",
            "uint8",
            "int16",
            "int32",
            "int64",
            "bool",
            "float8_e4m3fn",
            "float8_e5m2",
            "complex64",
        ]
        named = {name: random_tensors.random_array(np.random.default_rng(220), name, (3, 4)) for name in names}
        tensors = {
            name: torch.from_numpy(array.view(np.uint8).copy()).view(getattr(torch, name))
            for name, array in named.items()
        }
        theirs.save_file(tensors, self.path("theirs.safetensors"))
        expected = {item.name: item.value for item in random_tensors.stored(named)}
        self.assert_same(self.read_by_us(self.path("theirs.safetensors")), expected)
        loaded = theirs.load_file(self.written_by_us(named, "ours.safetensors"))
        for name, tensor in tensors.items():
            self.assertEqual(loaded[name].dtype, tensor.dtype)
            self.assertTrue(torch.equal(loaded[name].view(torch.uint8), tensor.view(torch.uint8)), name)
        peer.carried(f"PyTorch {torch.__version__}", "it writes safetensors, we read", len(names))
        peer.carried(f"PyTorch {torch.__version__}", "we write safetensors, it reads", len(names))

    @needs("safetensors")
    def test_jax(self):
        jax = module("jax")
        if jax is None:
            self.skipTest("JAX is not installed")
        theirs = module("safetensors.flax")
        names = ["float32", "float16", "bfloat16", "int8", "uint8", "int32", "bool", "float8_e4m3fn", "float8_e5m2"]
        named = {name: random_tensors.random_array(np.random.default_rng(230), name, (3, 4)) for name in names}
        theirs.save_file(
            {name: jax.numpy.asarray(array) for name, array in named.items()}, self.path("theirs.safetensors")
        )
        expected = {item.name: item.value for item in random_tensors.stored(named)}
        self.assert_same(self.read_by_us(self.path("theirs.safetensors")), expected)
        reads = set(self.supported()[1])  # safetensors.flax reads by way of NumPy
        named = {name: array for name, array in named.items() if name in reads}
        loaded = theirs.load_file(self.written_by_us(named, "ours.safetensors"))
        self.assert_arrays({name: np.asarray(array) for name, array in loaded.items()}, named)
        peer.carried(f"JAX {jax.__version__}", "it writes safetensors, we read", len(names))
        peer.carried(f"JAX {jax.__version__}", "we write safetensors, it reads", len(named))


class Npz(Archives):
    @needs("npz")
    def test_large(self):
        named = large(320)
        for save in (np.savez, np.savez_compressed):
            save(self.path("theirs.npz"), **named)
            self.assert_same(
                self.read_by_us(self.path("theirs.npz")),
                {item.name: item.value for item in random_tensors.stored(named)},
            )
            peer.carried(NUMPY, f"it writes npz ({save.__name__}), we read", len(named))
        for level in ("stored", "default"):
            with np.load(self.written_by_us(named, "ours.npz", "--level", level)) as read:
                self.assertTrue(all(np.array_equal(read[name], named[name]) for name in named))
            peer.carried(NUMPY, "we write npz, it reads", len(named))

    @needs("npz")
    def test_both_ways(self):
        for seed in range(3):
            named = self.named(300 + seed, NUMPY_DTYPES)
            expected = {item.name: item.value for item in random_tensors.stored(named)}
            for save in (np.savez, np.savez_compressed):
                save(self.path("theirs.npz"), **named)
                self.assert_same(self.read_by_us(self.path("theirs.npz")), expected)
                peer.carried(NUMPY, f"it writes npz ({save.__name__}), we read", len(named))
            with np.load(self.written_by_us(named, "ours.npz")) as read:
                self.assert_arrays({name: read[name] for name in read.files}, named)
            peer.carried(NUMPY, "we write npz, it reads", len(named))

    @needs("npz")
    def test_edited(self):
        for save in (np.savez, np.savez_compressed):
            named = self.named(306, NUMPY_DTYPES)
            save(self.path("edited.npz"), **named)
            ours.tool("edit", "--rename", "s/^/edited\\//", self.path("edited.npz"))
            with np.load(self.path("edited.npz")) as file:
                self.assert_arrays(dict(file), {f"edited/{name}": named[name] for name in named})
            peer.carried(NUMPY, "it writes, we rename, it reads", len(named))

    @needs("npz")
    def test_many(self):
        named = {f"blk.{number}": np.full((2,), number, np.int64) for number in range(10_000)}
        np.savez(self.path("theirs.npz"), **named)
        self.assertEqual(len(self.read_by_us(self.path("theirs.npz"))), len(named))
        with np.load(self.written_by_us(named, "ours.npz")) as read:
            self.assert_arrays({name: read[name] for name in read.files}, named)
        peer.carried(NUMPY, "it writes npz (savez), we read", len(named))
        peer.carried(NUMPY, "we write npz, it reads", len(named))


class Npy(Archives):
    def one(self, path):
        (value,) = self.read_by_us(path).values()
        return value

    def read_by_us(self, path):
        """An npy file has one array without a name, which a checkpoint cannot hold: the tool names it by the file."""
        listed = list(ours.listing(path).values())
        self.assertEqual(len(listed), 1)
        ours.convert(path, self.path("read"), "--to", "checkpoint", "--overwrite")
        return {name: item.value for name, item in ours.read(self.path("read")).items()}

    @needs("npy")
    def test_both_ways(self):
        rng = np.random.default_rng(310)
        for dtype in NUMPY_DTYPES:
            for rank in range(7):
                array = random_tensors.random_array(rng, dtype, random_tensors.random_shape(rng, rank))
                value = (dtype, array.shape, random_tensors.data_of(array))
                swapped = array.astype(array.dtype.newbyteorder(">")) if dtype != "bool" else array
                for form in (array, np.array(array, order="F"), swapped):
                    np.save(self.path("theirs.npy"), form)
                    self.assertEqual(self.one(self.path("theirs.npy")), value)
                    peer.carried(NUMPY, "it writes npy, we read", 1)
                read = np.load(self.written_by_us({"x": array}, "ours.npy"))
                self.assertEqual((read.dtype, read.shape, random_tensors.data_of(read)), (array.dtype, *value[1:]))
                mapped = np.load(self.path("ours.npy"), mmap_mode="r")
                self.assertEqual(random_tensors.data_of(mapped), value[2])
                peer.carried(NUMPY, "we write npy, it reads", 1)

    @needs("npy")
    def test_objects_are_refused(self):
        np.save(self.path("theirs.npy"), np.array([{}, None], object), allow_pickle=True)
        with self.assertRaises(ours.Refused):
            ours.listing(self.path("theirs.npy"))


if __name__ == "__main__":
    unittest.main()
