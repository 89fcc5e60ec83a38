"""safetensors, npy and npz files, both ways. Tests of a format that `tensorcask convert` does not know are skipped."""

import importlib
import struct
import unittest
import warnings

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

# What descr of an npy file may say: names, letters and type codes, some of them wrong.
TYPE_NAMES = """
    bool bool_ bool8 byte ubyte int8 uint8 short ushort int16 uint16 intc uintc int32 uint32 int int_ uint int64 uint64
    int0 uint0 long ulong longlong ulonglong intp uintp half float16 single float32 float float_ double float64
    longdouble longfloat float96 float128 csingle complex64 singlecomplex complex complex_ cdouble cfloat complex128
    clongdouble clongfloat longcomplex complex256 bytes bytes_ string_ str str_ unicode unicode_ void object object_
    datetime64 timedelta64 datetime64[ns] timedelta64[25s] M8[D] m8[h] M8 m8 M m
    ? b B h H i I l L q Q p P n N e f d g F D G S U V c a O
    b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 f16 c8 c16 c32 S1 S5 U2 V3 a5 i04 f08 S05
    b8 B1 ?1 i3 f3 u16 l8 q8 d8 e2 h2 L8 M4 m8[] M8[] Float32 FLOAT32 Int32 float32_ int128 decimal i4,f8 f4, 2f4 f4x
""".split()
ONLY_OLD_NUMPY = set(
    "bool8 int0 uint0 float_ longfloat singlecomplex complex_ cfloat clongfloat longcomplex string_ unicode_".split()
)
MAY_BE_READ = {"a", "a5"}  # of NumPy 1, with any byte order

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

    def with_type(self, literal, data):
        text = f"{{'descr': {literal}, 'fortran_order': False, 'shape': (2,), }}".encode().ljust(117) + b"\n"
        with open(self.path("theirs.npy"), "wb") as file:
            file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + data)

    def by_numpy(self):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return np.load(self.path("theirs.npy"))
        except (ValueError, TypeError, SyntaxError):
            return None

    def by_us(self):
        try:
            return self.one(self.path("theirs.npy"))
        except ours.Refused as refused:
            return str(refused)

    @needs("npy")
    def test_every_name_of_a_type(self):
        """All names that any NumPy takes, letters and type codes, with each byte order."""
        known = 0
        for name in TYPE_NAMES:
            for order in ("", "<", ">", "=", "|"):
                for literal in (repr(order + name), f'u"{order}{name}"') if order in ("", "<") else (repr(order + name),):
                    self.with_type(literal, bytes(range(1, 65)))
                    array = self.by_numpy()
                    if array is not None:  # as many bytes as it takes
                        is_text = array.dtype.kind == "U"  # bytes of a number past U+10FFFF are refused
                        self.with_type(literal, bytes(0 if is_text else n % 2 for n in range(array.nbytes)))
                        array = self.by_numpy()
                    our = self.by_us()
                    with self.subTest(literal):
                        if array is None:
                            if name not in MAY_BE_READ and (order or name not in ONLY_OLD_NUMPY):
                                self.assertIsInstance(our, str)
                        elif array.dtype.kind in "biufc" and array.dtype.newbyteorder("=").name in NUMPY_DTYPES:
                            plain = array.astype(array.dtype.newbyteorder("<"))
                            self.assertEqual(our, (plain.dtype.name, (2,), random_tensors.data_of(plain)))
                            known += 1
                        elif array.dtype.kind in "SUMm":
                            self.assertEqual(our[:2], ("int64" if array.dtype.kind in "Mm" else "string", (2,)))
                            known += 1
                        else:  # long double, opaque elements, structures in short form
                            self.assertIsInstance(our, str)
        self.assertGreater(known, 200)
        peer.carried(NUMPY, "types that it names, we read", known)

    @needs("npy")
    def test_several_arrays_in_one_file(self):
        rng = np.random.default_rng(311)
        arrays = [random_tensors.random_array(rng, dtype, random_tensors.random_shape(rng, 2)) for dtype in NUMPY_DTYPES]
        with open(self.path("theirs.npy"), "wb") as file:
            for array in arrays:
                np.save(file, array)
        ours.convert(self.path("theirs.npy"), self.path("ours.npz"), "--overwrite")
        with np.load(self.path("ours.npz")) as read:
            self.assertEqual(len(read.files), len(arrays))
            for number, array in enumerate(arrays):
                self.assertEqual(read[f"arr_{number}"].tobytes(), array.tobytes())
        peer.carried(NUMPY, "it writes npy, we read", len(arrays))

    @needs("npy")
    def test_objects_are_refused(self):
        np.save(self.path("theirs.npy"), np.array([{}, None], object), allow_pickle=True)
        with self.assertRaises(ours.Refused):
            ours.listing(self.path("theirs.npy"))


if __name__ == "__main__":
    unittest.main()
