#!/usr/bin/env python3
"""The tool and GGUF files: lists, values, elements in blocks, conversions, and the files of others."""

import json
import math
import os
import struct
import sys
import unittest
import zlib

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import DATA, Archives, read, run  # noqa: E402

FILES = os.path.join(DATA, "gguf")
FORMS = {"uint8": (0, "B"), "int8": (1, "b"), "uint16": (2, "H"), "int16": (3, "h"), "uint32": (4, "I"),
         "int32": (5, "i"), "float32": (6, "f"), "bool": (7, "?"), "uint64": (10, "Q"), "int64": (11, "q"),
         "float64": (12, "d")}  # fmt: skip
PLAIN = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "I8": "int8", "I16": "int16", "I32": "int32",
         "I64": "int64", "F64": "float64"}  # fmt: skip
# Files that the list of others refuses because its program does not know them.
READ_BY_US = {"bad_gen_big_endian.gguf"}


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def typed(kind, value):
    """A value with its type in front; a list is an array of `kind`."""
    if isinstance(value, list):
        items = b"".join(typed(kind, item)[4:] for item in value)
        return struct.pack("<IIQ", 9, FORMS[kind][0] if kind in FORMS else 8, len(value)) + items
    if kind == "text":
        return struct.pack("<I", 8) + text(value)
    number, form = FORMS[kind]
    return struct.pack("<I" + form, number, value)


def gguf(keys, tensors, alignment=32):
    """The bytes of a file. keys: {name: (kind, value)}; tensors: {name: (sizes, type, data)}, sizes innermost first."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(text(name) + typed(*value) for name, value in keys.items())
    data = b""
    for name, (sizes, kind, content) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, len(data))
        data += content + bytes(-len(content) % alignment)
    return head + bytes(-len(head) % alignment) + data


KEYS = {
    "general.architecture": ("text", "tiny"),
    "general.name": ("text", "größe \x1b[2J"),
    "tiny.layers": ("uint32", 7),
    "tiny.rate": ("float32", 0.1),
    "tiny.flag": ("bool", True),
    "tiny.sections": ("int32", [1, -2, 3]),
    "tokens": ("text", [f"t{i}" for i in range(100)]),
    "tiny.none": ("float32", []),
    "tiny.no_texts": ("text", []),
    "note": ("text", "x" * 200),
}
Q8_0 = struct.pack("<e", 0.5) + bytes(range(32)) + struct.pack("<e", -2) + bytes(range(1, 33))
DECODED = [0.5 * i for i in range(32)] + [-2.0 * i for i in range(1, 33)]


class Files(Archives):
    def put(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def setUp(self):
        super().setUp()
        tensors = {"w": ([2, 3], 0, struct.pack("<6f", *range(6))), "q": ([32, 2], 8, Q8_0)}
        self.small = self.put("m.gguf", gguf(KEYS, tensors))

    def listing(self, path, *flags):
        return json.loads(self.good("ls", "--json", *flags, path))

    def test_ls(self):
        listed = self.listing(self.small, "--checksum")
        self.assertEqual(listed["format"], "gguf")
        q, w = listed["tensors"]
        self.assertEqual((q["name"], q["dtype"], q["shape"], q["encoding"]), ("q", "float32", [2, 32], "q8_0"))
        self.assertEqual((q["bytes"], q["stored_bytes"]), (256, 68))
        self.assertEqual(q["crc32"], f"{zlib.crc32(struct.pack('<64f', *DECODED)):08x}")
        self.assertEqual((w["shape"], w["encoding"], w["stored_bytes"]), ([3, 2], "plain", 24))
        text_of = self.good("ls", self.small)
        self.assertRegex(text_of, r"q +float32 +\[2,32\] +256 +q8_0, 26\.6 %\n")
        self.assertIn("\n  float32: 1 tensor, 6 numbers in 24 B, 32 bits each\n"
                      "  q8_0: 1 tensor, 64 numbers in 68 B, 8.5 bits each\n", text_of)  # fmt: skip
        self.assertRegex(text_of.splitlines()[-1], r'^values: general\..*tiny\.layers=7.*, \d more \(ls --values\)$')
        self.assertEqual(listed["totals"]["types"]["q8_0"], {"tensors": 1, "numbers": 64, "stored_bytes": 68})

    def test_blocks_as_bytes(self):
        q = self.listing(self.small, "--checksum", "--stored")["tensors"][0]
        self.assertEqual((q["dtype"], q["shape"], q["encoding"]), ("uint8", [2, 34], "q8_0"))
        self.assertEqual(q["crc32"], f"{zlib.crc32(Q8_0):08x}")
        self.good("convert", "--stored", self.small, self.path("stored.safetensors"))
        self.assertEqual(self.listing(self.path("stored.safetensors"), "--checksum")["tensors"][0]["crc32"], q["crc32"])

    def test_show_stats_diff_verify(self):
        self.assertIn("-64", self.good("show", self.small, "q", "--slice", "1:31"))
        self.assertIn("15.5", self.good("stats", self.small, "q"))
        self.assertEqual(self.good("diff", self.small, self.small), "2 tensors equal, 0 different\n")
        done = run("verify", self.small)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 tensors have no checksum", done.stdout + done.stderr)

    def test_diff_says_what_a_quantiser_changed(self):
        before = [value + (0.25 if i % 2 else -0.25) for i, value in enumerate(DECODED)]
        tensors = {"w": ([2, 3], 0, struct.pack("<6f", *range(6))), "q": ([32, 2], 1, struct.pack("<64e", *before))}
        original = self.put("f16.gguf", gguf(KEYS, tensors))
        rms_a = math.sqrt(sum(value**2 for value in before) / 64)
        done = run("diff", original, self.small)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        share = f"root mean square 0.25, {25 / rms_a:.3g}% of A's"
        first, *totals = done.stdout.splitlines()
        self.assertTrue(first.startswith("q: float16 and q8_0: 64 of 64 elements differ, at most by 0.25 at [0,0]: "), first)
        self.assertTrue(first.endswith("; " + share), first)
        self.assertNotIn("inf", first)  # an element of b is 0
        self.assertEqual(totals, [f"1 tensor of float16 and q8_0: {share}; at most by 0.25", "1 tensor equal, 1 different"])
        document = json.loads(run("diff", "--json", original, self.small).stdout)
        (one,), (total,) = document["differences"], document["by_type"]
        self.assertEqual((one["kind"], one["rms"], one["max_relative"]), ("values", 0.25, None))
        self.assertAlmostEqual(one["relative_rms"], 0.25 / rms_a)
        self.assertEqual((one["a"]["encoding"], one["b"]["encoding"], one["b"]["dtype"]), ("plain", "q8_0", "float32"))
        self.assertEqual((total["a"], total["b"], total["tensors"], total["elements"]), ("float16", "q8_0", 1, 64))
        self.assertEqual((total["rms"], total["max_absolute"]), (0.25, 0.25))
        self.assertEqual(total["relative_rms"], one["relative_rms"])
        # Integers beside blocks are another thing.
        tensors["q"] = ([32, 2], 26, struct.pack("<64i", *range(64)))
        other = self.put("i32.gguf", gguf(KEYS, tensors))
        done = run("diff", other, self.small)
        self.assertIn("dtype differs: int32 [2,32], float32 [2,32]", done.stdout)
        self.assertIn("the values of 1 tensor with other dtypes were not compared; --cast compares", done.stderr)

    def test_convert(self):
        target = self.path("m.safetensors")
        done = run("convert", self.small, target)
        self.assertEqual(done.returncode, 0)
        self.assertIn('1 value beside the tensors is not copied: "tokens"', done.stderr)
        self.assertEqual(self.good("diff", self.small, target), "2 tensors equal, 0 different\n")
        metadata = self.listing(target)["metadata"]
        self.assertEqual(metadata["general.architecture"], "tiny")
        self.assertEqual((metadata["tiny.layers"], metadata["tiny.rate"], metadata["tiny.flag"]), ("7", "0.1", "true"))
        self.assertEqual((metadata["tiny.sections"], metadata["tiny.none"]), ("[1,-2,3]", "[]"))
        self.assertNotIn("tokens", metadata)
        self.good("convert", self.small, self.path("few.gguf"), "--unset", "tokens", "--dtype", "q=float16")
        self.good("convert", self.path("few.gguf"), self.path("few.safetensors"))
        self.good("convert", self.path("few.safetensors"), self.path("back.gguf"))
        self.assertEqual(read(self.path("back.gguf")).count(typed("uint32", 7)), 1)
        lists = [sorted(self.good("ls", "--values", self.path(name)).splitlines()) for name in ("few.gguf", "back.gguf")]
        self.assertEqual(lists[0], lists[1])  # with types
        self.good("convert", self.small, self.path("half.safetensors"), "--dtype", "*=bfloat16")
        self.assertEqual(self.listing(self.path("half.safetensors"))["tensors"][0]["dtype"], "bfloat16")

    def values(self, path, *names):
        return json.loads(self.good("ls", "--values", "--json", path, *names))["values"]

    def test_a_copy_is_the_same_file(self):
        """Every key with its type, and the blocks bit for bit."""
        for name, arguments in (("copy.gguf", []), ("copy", ["--to", "gguf"])):
            done = run("convert", self.small, self.path(name), *arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(read(self.path(name)), read(self.small))
        self.good("convert", self.small, self.path("renamed.gguf"), "--rename", "q=blocks", "--exclude", "w", "--unset",
                  "tokens", "--set", "tiny.layers=9", "--set", "tiny.new=uint16:3", "--set", "tiny.text=3")  # fmt: skip
        keys = dict(KEYS, **{"tiny.layers": ("uint32", 9)})
        del keys["tokens"]
        keys["tiny.new"] = ("uint16", 3)
        keys["tiny.text"] = ("text", "3")
        self.assertEqual(read(self.path("renamed.gguf")), gguf(keys, {"blocks": ([32, 2], 8, Q8_0)}))

    def test_a_rule_decodes_blocks(self):
        self.good("convert", self.small, self.path("half.gguf"), "--dtype", "q=float16")
        self.assertEqual(read(self.path("half.gguf")), gguf(KEYS, {
            "w": ([2, 3], 0, struct.pack("<6f", *range(6))), "q": ([32, 2], 1, struct.pack("<64e", *DECODED))}))  # fmt: skip
        for name in ("a.safetensors", "a.npz"):
            self.good("convert", self.small, self.path(name), "--allow-loss")
            self.assertEqual(self.listing(self.path(name))["tensors"][0]["dtype"], "float32")

    def test_convert_from_another_format(self):
        self.good("convert", self.small, self.path("m.safetensors"))
        self.good("convert", self.path("m.safetensors"), self.path("m.gguf2"), "--to", "gguf",
                  "--set", "general.architecture=llama", "--set", "llama.layers=uint32:2")  # fmt: skip
        self.assertEqual(self.good("diff", self.small, self.path("m.gguf2")), "2 tensors equal, 0 different\n")
        values = self.values(self.path("m.gguf2"))
        self.assertEqual((values["general.architecture"], values["llama.layers"], values["note"]), ("llama", 2, "x" * 200))
        self.assertRegex(self.good("ls", "--values", self.path("m.gguf2"), "llama.layers"), "uint32 +2")

    def test_all_that_cannot_be_held_is_named_at_once(self):
        source = self.path("odd.safetensors")
        header = {"x" * 64: ("F32", [1], 0, 4), "y" * 70: ("F32", [1], 4, 8), "fine": ("F32", [1], 8, 12),
                  "deep": ("F32", [1] * 5, 12, 16), "u": ("U8", [4], 16, 20)}  # fmt: skip
        text_of = json.dumps({name: {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
                              for name, (dtype, shape, start, end) in header.items()}).encode()  # fmt: skip
        self.put("odd.safetensors", struct.pack("<Q", len(text_of)) + text_of + bytes(20))
        done = run("convert", source, self.path("odd.gguf"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr.count("\n"), 1)
        for says in ("x" * 64, "y" * 64, "has 64 bytes; ggml has room for 63", "has 70 bytes", '"deep"', '"u" is uint8'):
            self.assertIn(says, done.stderr)
        self.assertNotIn('"fine"', done.stderr)
        self.assertFalse(os.path.exists(self.path("odd.gguf")))
        self.good("convert", "--allow-loss", source, self.path("odd.gguf"))
        self.assertEqual([tensor["name"] for tensor in self.listing(self.path("odd.gguf"))["tensors"]], ["fine"])

    def test_bad_metadata(self):
        for option, says in (
            ("tiny.layers=many", ' "tiny.layers": is a uint32, which "many" is not'),
            ("tokens=x", ' "tokens": is an array'),
            ("split.count=uint16:2", ' "split.count": is of a model in several files'),
            ("tensorcask.padding=  ", ' "tensorcask.padding": is only padding'),
            ("k" * 65536 + "=x", "the name of a key has 65536 bytes; wanted 1 to 65535"),
            ("general.alignment=uint32:3", "power of two"),
            ("k=uint8:300", '"uint8:300" is not a value of the type uint8'),
        ):
            for command in (["convert", self.small, self.path("new.gguf")], ["edit", self.small]):
                before = read(self.small)
                done = run(*command, "--set", option)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertIn(says, done.stderr)
                self.assertFalse(os.path.exists(self.path("new.gguf")))
                self.assertEqual(read(self.small), before)

    def test_metadata_of_another_format_that_cannot_be_held_is_a_loss(self):
        source, long = self.path("m.safetensors"), "k" * 65536
        self.good("convert", self.small, source)
        self.good("edit", "--set", long + "=x", "--set", "split.no=1", "--set", "text=uint8:300", source)
        for dry in ([], ["--dry-run"]):
            done = run("convert", source, self.path("new.gguf"), *dry)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertRegex(done.stderr, 'm.safetensors: the metadata "kk.*: the name of a key has 65536 bytes; wanted 1 to '
                                          '65535; a gguf file cannot hold that; --allow-loss')  # fmt: skip
        out = self.good("convert", "--allow-loss", source, self.path("new.gguf"))
        self.assertEqual(out.count("lost: "), 1)
        values = self.values(self.path("new.gguf"))
        self.assertEqual((values["text"], long in values, "split.no" in values), ("uint8:300", False, False))

    def test_a_key_with_the_name_of_the_padding_stays(self):
        tensors = {"w": ([2], 0, bytes(8))}
        other = gguf({"tensorcask.padding": ("text", "precious"), "n": ("uint32", 1)}, tensors)
        self.put("other.gguf", other)
        self.good("convert", self.path("other.gguf"), self.path("copy.gguf"))
        self.assertEqual(read(self.path("copy.gguf")), other)
        self.good("edit", "--set", "n=2", self.path("other.gguf"))
        self.assertEqual(self.values(self.path("other.gguf")), {"tensorcask.padding": "precious", "n": 2})
        self.put("padded.gguf", gguf({"tensorcask.padding": ("text", "   "), "n": ("uint32", 1)}, tensors))
        self.good("convert", self.path("padded.gguf"), self.path("plain.gguf"))
        self.assertEqual(read(self.path("plain.gguf")), gguf({"n": ("uint32", 1)}, tensors))

    def test_what_is_new_is_utf8_and_what_a_file_has_is_kept(self):
        old = gguf({b"k": ("text", b"\xff"), b"l": ("text", [b"\xfe", b"x"])}, {b"a": ([1], 24, b"a")})
        source = self.put("old.gguf", old)
        self.good("convert", source, self.path("copy.gguf"))
        self.assertEqual(read(self.path("copy.gguf")), old)
        self.put("names.gguf", gguf({b"\xff": ("uint8", 1)}, {n: ([1], 24, b"a") for n in (b"\xfda", b"b", b"\xfec")}))
        done = run("convert", self.path("names.gguf"), self.path("new.gguf"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        for says in (r'"\xfd\x61"', r'"\xfe\x63"', "its name is not UTF-8, which GGUF requires; a gguf file cannot hold"):
            self.assertIn(says, done.stderr)
        self.good("edit", "--rename", "b=c", self.path("names.gguf"))
        for arguments in (["--rename", "a=\udcff"], ["--set", "new=\udcff"], ["--set", "\udcff=new"]):
            done = run("edit", *arguments, source)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("is not UTF-8, which GGUF requires", done.stderr)
        self.assertEqual(read(source), old)

    def test_every_key_is_copied_with_its_type(self):
        tensors = {"w": ([1], 24, b"a")}
        last = {"z.n": ("uint32", 5), "z.list": ("int8", [1, -2])}
        for name, keys in (
            ("many", {f"k{i:05}": ("uint8", i % 256) for i in range(70000)}),
            ("a large text", {"k": ("text", "x" * (65 << 20))}),
            ("long names", {f"{i:03}" + "n" * 65000: ("uint8", 1) for i in range(300)}),
        ):
            with self.subTest(name):
                source = self.put("source.gguf", gguf({**keys, **last}, tensors))
                done = run("convert", "--overwrite", source, self.path("copy.gguf"))
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertTrue(read(self.path("copy.gguf")) == read(source))  # without a message of the bytes
        source = self.put("source.gguf", gguf({f"k{i:05}": ("uint8", i % 256) for i in range(70000)}, tensors))
        done = run("convert", source, self.path("m.safetensors"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.good("convert", "--overwrite", self.path("m.safetensors"), self.path("copy.gguf"))  # without a key format
        self.assertTrue(read(self.path("copy.gguf")) == read(source))

    def test_a_key_format_is_metadata_unless_it_names_a_framework(self):
        for value, lost in (("precious", True), ("pt", False)):
            source = self.put("f.gguf", gguf({"format": ("text", value)}, {"w": ([4], 0, bytes(16))}))
            for name in ("f.npz", "f.npy", "f.tfrecord"):
                done = run("convert", "--overwrite", source, self.path(name))
                self.assertEqual(done.returncode, 1 if lost else 0, done.stderr)
                self.assertEqual('the file has metadata ("format"), which' in done.stderr, lost)

    def test_a_key_with_the_name_of_the_table_of_values_is_metadata(self):
        tensors = {"w": ([4], 0, bytes(16))}
        for value in (("text", "precious text"), ("text", "value int a"), ("uint32", 5), ("uint8", [1, 2])):
            with self.subTest(value):
                source = self.put("t.gguf", gguf({"tensorcask.values": value, "a": ("text", "1")}, tensors))
                self.good("convert", "--overwrite", source, self.path("copy.gguf"))
                self.assertEqual(read(self.path("copy.gguf")), read(source))
                done = run("convert", source, self.path("t.npz"))
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn('the file has metadata ("a"', done.stderr)
                for name in ("t.safetensors",) if isinstance(value[1], list) else ("t.safetensors", "t.pt"):
                    done = run("convert", source, self.path(name))
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertIn('t.gguf: the metadata "tensorcask.values": this name is reserved for the types of the metadata; '
                                  "a ", done.stderr)  # fmt: skip
                    self.good("convert", "--unset", "tensorcask.values", source, self.path(name))
                    self.good("convert", "--overwrite", self.path(name), self.path("back.gguf"))
                    values = self.values(self.path("back.gguf"))
                    self.assertEqual((values["a"], "tensorcask.values" in values), ("1", False))
                    os.remove(self.path(name))

    def test_edit(self):
        out = self.good("edit", "--rename", "q=blocks", "--set", "tiny.layers=9", "--set", "tiny.new=bool:true",
                        "--unset", "tokens", self.small)  # fmt: skip
        self.assertIn("q -> blocks\n", out)
        self.assertIn("1 tensor renamed, 3 entries of metadata changed; wrote", out)
        keys = dict(KEYS, **{"tiny.layers": ("uint32", 9)})
        del keys["tokens"]
        keys["tiny.new"] = ("bool", True)
        tensors = {"w": ([2, 3], 0, struct.pack("<6f", *range(6))), "blocks": ([32, 2], 8, Q8_0)}
        self.assertEqual(read(self.small), gguf(keys, tensors))
        self.good("edit", "--remove", "w", self.small, "-o", self.path("q.gguf"))
        self.assertEqual(read(self.path("q.gguf")), gguf(keys, {"blocks": tensors["blocks"]}))
        self.assertEqual(read(self.small), gguf(keys, tensors))
        done = run("edit", "--unset", "none", self.small)
        self.assertEqual(done.returncode, 1)
        self.assertIn('"none"', done.stderr)
        done = run("edit", "--rename", "w=" + "n" * 64, self.small)
        self.assertEqual(done.returncode, 1)
        self.assertIn("its name has 64 bytes; ggml has room for 63", done.stderr)

    def test_a_split_model_becomes_one_file(self):
        split = {"split.count": ("uint16", 2), "split.tensors.count": ("int32", 2)}
        self.put("s-00001-of-00002.gguf", gguf(dict(KEYS, **{"split.no": ("uint16", 0)}, **split),
                                               {"w": ([2, 3], 0, struct.pack("<6f", *range(6)))}))  # fmt: skip
        self.put("s-00002-of-00002.gguf", gguf({"split.no": ("uint16", 1), **split}, {"q": ([32, 2], 8, Q8_0)}))
        done = run("convert", self.path("s-00002-of-00002.gguf"), self.path("one.gguf"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(read(self.path("one.gguf")), read(self.small))

    def split(self):
        """The two parts of a model: their names, and what makes them of keys and tensors."""
        def first(keys, tensors, count=2):
            return gguf(dict(keys, **{"split.no": ("uint16", 0), "split.count": ("uint16", 2),
                                      "split.tensors.count": ("int32", count)}), tensors)  # fmt: skip

        def second(keys, tensors, count=2):
            return gguf(dict({"split.no": ("uint16", 1), "split.count": ("uint16", 2)}, **keys,
                             **{"split.tensors.count": ("int32", count)}), tensors)  # fmt: skip

        return first, second

    def test_a_split_model_is_edited(self):
        first, second = self.split()
        w, q = ([2, 3], 0, struct.pack("<6f", *range(6))), ([32, 2], 8, Q8_0)
        keys = {"general.name": ("text", "tiny"), "n": ("uint32", 1), "both": ("uint32", 5)}
        paths = [self.path(f"s-0000{i}-of-00002.gguf") for i in (1, 2)]
        both = {"both": ("uint32", 5)}
        self.put("s-00001-of-00002.gguf", first(keys, {"w": w}))
        self.put("s-00002-of-00002.gguf", second(both, {"q": q}))
        # One file changes.
        out = self.good("edit", "--rename", "q=blocks", paths[0])
        self.assertIn("1 tensor renamed", out)
        self.assertEqual((read(paths[0]), read(paths[1])), (first(keys, {"w": w}), second(both, {"blocks": q})))
        self.good("edit", "--set", "n=2", "--set", "new=x", "--unset", "general.name", paths[1])
        new = {"n": ("uint32", 2), "both": ("uint32", 5)}
        in_order = gguf({**new, "split.no": ("uint16", 0), "split.count": ("uint16", 2), "split.tensors.count": ("int32", 2),
                         "new": ("text", "x")}, {"w": w})  # fmt: skip
        self.assertEqual((read(paths[0]), read(paths[1])), (in_order, second(both, {"blocks": q})))
        # Several would change.
        before = [read(path) for path in paths]
        for arguments in (["--rename", "w=v", "--rename", "blocks=b"], ["--remove", "w"], ["--set", "both=6"]):
            for dry in ([], ["--dry-run"]):
                done = run("edit", *arguments, *dry, paths[0])
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn("2 of the 2 files of the model would change, and they cannot be replaced at one moment; write "
                              "the model under another name (--output NAME-00001-of-00002.gguf)", done.stderr)  # fmt: skip
        done = run("edit", "--remove", "w", "-o", self.path("t.gguf"), paths[0])
        self.assertEqual(done.returncode, 1)
        self.assertIn("t.gguf: the name of the first file of a model of 2 files ends in -00001-of-00002.gguf", done.stderr)
        self.assertEqual([read(path) for path in paths], before)
        out = self.good("edit", "--remove", "w", "--set", "both=6", "-o", self.path("t-00001-of-00002.gguf"), paths[1])
        self.assertIn("wrote 2 files, ", out)
        self.assertEqual(read(self.path("t-00002-of-00002.gguf")), second({"both": ("uint32", 6)}, {"blocks": q}, 1))
        self.good("verify", self.path("t-00001-of-00002.gguf"))
        self.assertEqual([one["name"] for one in self.listing(self.path("t-00001-of-00002.gguf"))["tensors"]], ["blocks"])
        self.assertEqual([read(path) for path in paths], before)
        # Nothing is replaced with -o.
        os.remove(self.path("t-00001-of-00002.gguf"))
        done = run("edit", "--remove", "w", "-o", self.path("t-00001-of-00002.gguf"), paths[0])
        self.assertEqual(done.returncode, 1)
        self.assertIn("t-00002-of-00002.gguf", done.stderr)
        self.assertFalse(os.path.exists(self.path("t-00001-of-00002.gguf")))
        done = run("edit", "--rename", "none=x", paths[0])
        self.assertNotEqual(done.returncode, 0)

    def test_values(self):
        lines = self.good("ls", "--values", self.small).splitlines()
        self.assertEqual([line.split()[0] for line in lines], list(KEYS))
        self.assertRegex(lines[2], r"^tiny\.layers +uint32 +7$")
        self.assertRegex(lines[3], r"^tiny\.rate +float32 +0\.1$")
        self.assertRegex(lines[5], r"^tiny\.sections +list +\[1,-2,3\]$")
        self.assertRegex(lines[6], r"^tokens +array +100 elements of text$")
        self.assertNotIn("\x1b", "".join(lines))
        self.assertLess(len(lines[7]), 130)
        whole = self.good("ls", "--values", self.small, "tok*", "note").splitlines()
        self.assertEqual(json.loads(whole[0].split(maxsplit=2)[2]), [f"t{i}" for i in range(100)])
        self.assertIn("x" * 200, whole[1])
        done = run("ls", "--values", self.small, "none")
        self.assertEqual(done.returncode, 2)
        self.assertIn('"none" matches no value', done.stderr)

    def test_show_finds_values_by_the_names_that_ls_prints(self):
        for name, wanted in (("tiny.layers", 7), ("tiny.sections", [1, -2, 3]), ("tiny.sections[1]", -2),
                             ('["tiny.layers"]', 7), ("tokens", [f"t{i}" for i in range(100)]), ("tokens[99]", "t99")):
            self.assertEqual(json.loads(self.good("show", self.small, name)), wanted, name)
        done = run("show", self.small, "tokens[100]")
        self.assertEqual(done.returncode, 1)
        self.assertIn("tokens[100]", done.stderr)

    def test_values_as_json(self):
        output = self.good("ls", "--values", "--json", self.small)
        self.assertTrue(output.isascii())
        document = json.loads(output)
        self.assertEqual(document["format"], "gguf")
        values = document["values"]
        self.assertEqual(list(values), list(KEYS))
        self.assertEqual(values["general.name"], KEYS["general.name"][1])
        self.assertEqual(values["tiny.sections"], [1, -2, 3])
        self.assertEqual((values["tokens"]["array"], values["tokens"]["count"]), ("text", 100))
        chosen = json.loads(self.good("ls", "--values", "--json", self.small, "tokens"))["values"]
        self.assertEqual(chosen, {"tokens": [f"t{i}" for i in range(100)]})

    def test_values_of_other_formats_are_their_metadata(self):
        self.good("convert", self.small, self.path("m.safetensors"))
        values = json.loads(self.good("ls", "--values", "--json", self.path("m.safetensors")))["values"]
        self.assertEqual(values["tiny.layers"], 7)

    def test_folder(self):
        part = gguf({"split.no": ("uint16", 0), "split.count": ("uint16", 2)}, {})
        self.put("s-00001-of-00002.gguf", part)
        os.remove(self.small)
        self.put("s-00002-of-00002.gguf", gguf({"split.no": ("uint16", 1), "split.count": ("uint16", 2)}, {"w": ([1], 24, b"a")}))
        self.assertEqual([tensor["name"] for tensor in self.listing(self.folder)["tensors"]], ["w"])
        os.remove(self.path("s-00002-of-00002.gguf"))
        done = run("ls", self.path("s-00001-of-00002.gguf"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("s-00002-of-00002.gguf", done.stderr)

    def test_refused(self):
        for name, content, says in (
            ("fork.gguf", gguf({}, {"w": ([32], 137, bytes(34))}), 'tensor "w": has the type 137, which is of a fork'),
            ("cut.gguf", read(self.small)[:-40], "pass the end of the file"),
        ):
            done = run("ls", self.put(name, content))
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stdout, "")
            self.assertIn(name, done.stderr)
            self.assertIn(says, done.stderr)


@unittest.skipUnless(os.path.isdir(FILES), "TENSORCASK_TEST_DATA is not set")
class FilesOfOthers(Archives):
    """The files and what is expected of them: names, dtypes, shapes, checksums, metadata."""

    def test_each(self):
        with open(os.path.join(FILES, "expected.json"), encoding="utf-8") as file:
            expected = json.load(file)
        for name, wanted in expected.items():
            with self.subTest(name):
                path = os.path.join(FILES, name)
                if wanted["expect"] == "ok":
                    self.check(path, wanted)
                elif name not in READ_BY_US:
                    done = run("ls", path)
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertIn(name, done.stderr)

    def check(self, path, wanted):
        listed = json.loads(self.good("ls", "--json", "--checksum", "--stored", path))["tensors"]
        tensors = wanted["tensors"]
        if "-00001-of-00002" in path:  # the tensors are in the other part
            self.assertEqual(len(listed), 10)
        else:
            self.assertEqual(len(listed), len(tensors))
            listed = {tensor["name"]: tensor for tensor in listed}
            for tensor in tensors:
                ours = listed[tensor["name"]]
                self.assertEqual(ours["stored_bytes"], tensor["nbytes"])
                self.assertEqual(ours["offset"], wanted["data_offset"] + tensor["offset"])
                self.assertEqual(ours["crc32"], tensor["crc32"])
                if tensor["dtype"] in PLAIN:
                    self.assertEqual((ours["dtype"], ours["shape"]), (PLAIN[tensor["dtype"]], tensor["shape"]))
                else:
                    self.assertEqual((ours["dtype"], ours["encoding"]), ("uint8", tensor["dtype"].lower()))
                    self.assertEqual(ours["shape"][:-1], tensor["shape"][:-1])
        values = json.loads(self.good("ls", "--values", "--json", path))["values"]
        if "-00002-of-00002" in path:  # the keys of the model are in the first part
            values["split.no"] = 1
            values = {key: value for key, value in values.items() if key in wanted["metadata"]}
        self.assertEqual(sorted(values), sorted(wanted["metadata"]))
        for key, value in wanted["metadata"].items():
            if isinstance(value, dict):
                self.check_array(path, key, values[key], value)
            elif isinstance(value, float):
                self.assertTrue(math.isclose(values[key], value, rel_tol=1e-6), key)
            elif isinstance(value, str) and not value.isascii():
                self.assertEqual(len(values[key]), len(value))
            else:
                self.assertEqual(values[key], value, key)

    def check_array(self, path, key, ours, wanted):
        if isinstance(ours, dict):
            self.assertEqual(ours["count"], wanted["len"])
            ours = json.loads(self.good("ls", "--values", "--json", path, key))["values"][key]
        self.assertEqual(len(ours), wanted["len"])
        for mine, theirs in zip(ours, wanted["head"]):
            if isinstance(theirs, float):
                self.assertTrue(math.isclose(mine, theirs, rel_tol=1e-6), key)
            else:
                self.assertEqual(mine, theirs, key)


if __name__ == "__main__":
    case_report.main("gguf")
