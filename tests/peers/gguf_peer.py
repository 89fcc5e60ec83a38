"""GGUF files with the package gguf: it writes tensors of every type and metadata, and we read the same bits; it reads
what we write and edit."""

import json
import os
import unittest
import zlib

import gguf
import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

import ours
import peer

GGUF = f"gguf {gguf.__version__ if hasattr(gguf, '__version__') else '0.19'}"
PLAIN = {"F32": np.float32, "F16": np.float16, "F64": np.float64, "I8": np.int8, "I16": np.int16, "I32": np.int32,
         "I64": np.int64}  # fmt: skip
ROWS = 16
BLOCKS = 256  # in a row: 4096 of each type


def block_types():
    """(type, elements, bytes) of all types of blocks that the package decodes."""
    found = []
    for kind, (elements, size) in GGML_QUANT_SIZES.items():
        if elements == 1:
            continue
        try:
            quants.dequantize(np.zeros((1, size), np.uint8), kind)
        except NotImplementedError:
            continue
        found.append((kind, elements, size))
    return found


class Gguf(peer.Scratch):
    def write(self, name, tensors, values=(), **options):
        """tensors: {name: (array of numbers, None) or (bytes as uint8 [rows, bytes of a row], type)}."""
        writer = gguf.GGUFWriter(self.path(name), "test", **options)
        for add, *arguments in values:
            getattr(writer, add)(*arguments)
        for tensor, (array, kind) in tensors.items():
            writer.add_tensor(tensor, array, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return self.path(name)

    def test_blocks(self):
        """Random bytes of each type: our elements have the bits of gguf.quants (a NaN is a NaN)."""
        rng = np.random.default_rng(500)
        kinds = block_types()
        self.assertGreaterEqual(len(kinds), 23)
        tensors = {
            kind.name: (rng.integers(0, 256, (ROWS, BLOCKS * size), np.uint8), kind) for kind, _, size in kinds
        }
        path = self.write("blocks.gguf", tensors)
        listed = ours.listing(path)
        ours.convert(path, self.path("blocks.npz"), "--allow-loss")
        with np.load(self.path("blocks.npz")) as read:
            for kind, elements, _ in kinds:
                with self.subTest(kind.name), np.errstate(all="ignore"):
                    self.assertEqual(listed[kind.name]["encoding"], kind.name.lower())
                    mine = read[kind.name]
                    theirs = quants.dequantize(tensors[kind.name][0], kind).astype(np.float32)
                    self.assertEqual((mine.dtype, mine.shape), (np.float32, (ROWS, BLOCKS * elements)))
                    differs = (mine.view(np.uint32) != theirs.view(np.uint32)) & ~(np.isnan(mine) & np.isnan(theirs))
                    self.assertEqual(int(differs.sum()), 0)
                    peer.carried(GGUF, "it decodes blocks, we decode the same bits", BLOCKS * ROWS)

    def test_quantized_numbers(self):
        """Numbers that the package quantizes, which are blocks as programs write them."""
        rng = np.random.default_rng(501)
        numbers = rng.standard_normal((8, 512)).astype(np.float32)
        tensors = {}
        for kind, _, _ in block_types():
            try:
                tensors[kind.name] = (quants.quantize(numbers, kind), kind)
            except NotImplementedError:
                pass
        self.assertGreaterEqual(len(tensors), 6)
        path = self.write("quantized.gguf", tensors)
        ours.convert(path, self.path("quantized.npz"), "--allow-loss")
        with np.load(self.path("quantized.npz")) as read:
            for name, (data, kind) in tensors.items():
                self.assertEqual(read[name].tobytes(), quants.dequantize(data, kind).tobytes(), name)
                self.assertLess(np.abs(read[name] - numbers).mean(), 1, name)
                peer.carried(GGUF, "it quantizes, we read", 1)

    def test_plain(self):
        rng = np.random.default_rng(502)
        for order, endian in (("<", gguf.GGUFEndian.LITTLE), (">", gguf.GGUFEndian.BIG)):
            tensors = {}
            for name, dtype in PLAIN.items():
                for rank in range(1, 5):
                    shape = tuple(rng.integers(1, 6, rank))
                    array = rng.integers(-100, 100, shape).astype(dtype)
                    tensors[f"{name}.{rank}"] = (array, None)
            path = self.write(f"plain{endian.value}.gguf", dict(tensors), endianess=endian)
            listed = ours.listing(path)
            for name, (array, _) in tensors.items():
                item = listed[name]
                self.assertEqual((item["dtype"], tuple(item["shape"])), (array.dtype.name, array.shape), name)
            ours.convert(path, self.path("plain.npz"), "--overwrite", "--allow-loss")
            with np.load(self.path("plain.npz")) as read:
                for name, (array, _) in tensors.items():
                    np.testing.assert_array_equal(read[name], array.astype(array.dtype.newbyteorder("=")), name)
                    peer.carried(GGUF, f"it writes plain tensors ({order}), we read", 1)

    def test_values(self):
        values = [
            ("add_uint8", "k.u8", 255),
            ("add_int8", "k.i8", -1),
            ("add_uint16", "k.u16", 65535),
            ("add_int16", "k.i16", -2),
            ("add_uint32", "k.u32", 2**32 - 1),
            ("add_int32", "k.i32", -3),
            ("add_float32", "k.f32", 0.5),
            ("add_bool", "k.bool", True),
            ("add_string", "k.text", "größe\n"),
            ("add_uint64", "k.u64", 2**64 - 1),
            ("add_int64", "k.i64", -(2**63)),
            ("add_float64", "k.f64", 0.1),
            ("add_array", "k.numbers", [1, -2, 3]),
            ("add_array", "k.texts", ["a", "bc"]),
            ("add_array", "k.many", [f"token {i}" for i in range(5000)]),
        ]
        path = self.write("values.gguf", {"w": (np.zeros(3, np.float32), None)}, values)
        document = json.loads(ours.tool("ls", "--values", "--json", path))["values"]
        for _, key, value in values[:-1]:
            self.assertEqual(document[key], value, key)
        self.assertEqual(document["k.many"]["count"], 5000)
        whole = json.loads(ours.tool("ls", "--values", "--json", path, "k.many"))["values"]
        self.assertEqual(whole["k.many"], values[-1][2])
        peer.carried(GGUF, "it writes values, we read", len(values))

    def read(self, path):
        """What the package reads: {name: (type, shape as NumPy has it, bytes)}, {key: (types, value)}."""
        reader = gguf.GGUFReader(path)
        tensors = {
            tensor.name: (tensor.tensor_type, tuple(int(size) for size in reversed(tensor.shape)), tensor.data.tobytes())
            for tensor in reader.tensors
        }
        fields = {
            name: ([kind.name for kind in field.types], field.contents())
            for name, field in reader.fields.items()
            if not name.startswith("GGUF.")
        }
        return tensors, fields

    def test_it_reads_plain_tensors_and_values(self):
        rng = np.random.default_rng(503)
        arrays = {}
        for name, dtype in PLAIN.items():
            for rank in range(5):
                shape = tuple(rng.integers(1, 6, rank))
                arrays[f"{name}.{rank}"] = rng.integers(-100, 100, shape).astype(dtype)
        np.savez(self.path("plain.npz"), **arrays)
        sets = {"general.architecture": ("text", "llama"), "k.u8": ("uint8", 255), "k.i8": ("int8", -128),
                "k.u16": ("uint16", 65535), "k.i16": ("int16", -32768), "k.u32": ("uint32", 2**32 - 1),
                "k.i32": ("int32", -(2**31)), "k.f32": ("float32", 0.5), "k.bool": ("bool", True),
                "k.u64": ("uint64", 2**64 - 1), "k.i64": ("int64", -(2**63)), "k.f64": ("float64", 0.1),
                "k.text": ("text", "größe")}  # fmt: skip
        flags = [flag for name, (kind, value) in sets.items()
                 for flag in ("--set", f"{name}={kind}:{str(value).lower() if kind == 'bool' else value}")]  # fmt: skip
        ours.convert(self.path("plain.npz"), self.path("plain.gguf"), *flags)
        tensors, fields = self.read(self.path("plain.gguf"))
        self.assertEqual(set(tensors), set(arrays))
        for name, array in arrays.items():
            kind, shape, data = tensors[name]
            self.assertEqual(kind.name, name.split(".")[0])
            self.assertEqual((shape, data), (array.shape, array.tobytes()), name)
        peer.carried(GGUF, "we write plain tensors, it reads", len(arrays))
        names = {"text": "STRING"}
        for name, (kind, value) in sets.items():
            self.assertEqual(fields[name], ([names.get(kind, kind.upper())], value), name)
        peer.carried(GGUF, "we write values, it reads", len(sets))

    def test_it_reads_what_is_copied_and_edited(self):
        """Blocks of each type and arrays: the same before and after."""
        rng = np.random.default_rng(504)
        tensors = {
            kind.name: (rng.integers(0, 256, (4, 3 * size), np.uint8), kind) for kind, _, size in block_types()
        }
        values = [("add_array", "k.numbers", [1, -2, 3]), ("add_array", "k.many", [f"token {i}" for i in range(5000)]),
                  ("add_uint16", "k.number", 5)]  # fmt: skip
        source = self.write("source.gguf", tensors, values)
        before = self.read(source)
        ours.convert(source, self.path("copy.gguf"))
        self.assertEqual(self.read(self.path("copy.gguf")), before)
        ours.tool("edit", self.path("copy.gguf"), "--set", "k.number=7", "--set", "k.new=x", "--rename", "Q4_K=renamed")
        after, fields = self.read(self.path("copy.gguf"))
        wanted = {"renamed" if name == "Q4_K" else name: tensor for name, tensor in before[0].items()}
        self.assertEqual(after, wanted)
        self.assertEqual(fields["k.number"], (["UINT16"], 7))
        self.assertEqual(fields["k.new"], (["STRING"], "x"))
        self.assertEqual(fields["k.many"], before[1]["k.many"])
        peer.carried(GGUF, "we copy and edit blocks, it reads the same", len(tensors))

    def test_split(self):
        tensors = {f"t{i}": (np.full((4,), i, np.float32), None) for i in range(5)}
        self.write("m.gguf", tensors, split_max_tensors=2)
        parts = sorted(name for name in os.listdir(self.folder) if "-of-" in name)
        self.assertEqual(len(parts), 3)
        for part in parts:
            listed = ours.listing(self.path(part))
            self.assertEqual(
                {name: item["crc32"] for name, item in listed.items()},
                {name: f"{zlib.crc32(array.tobytes()):08x}" for name, (array, _) in tensors.items()},
            )
            peer.carried(GGUF, "it writes split models, we read", len(tensors))


if __name__ == "__main__":
    unittest.main()
