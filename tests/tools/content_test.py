#!/usr/bin/env python3
"""Content under a wrong name: every kind of content, under every extension, in every command that opens a file."""

import gzip
import io
import itertools
import json
import os
import struct
import sys
import tarfile
import zipfile
import zlib

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import Archives, floats, run  # noqa: E402

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2\nsize 12\n"


def zip_of(member, content=b""):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(member, content)
    return file.getvalue()


def tar_of(member):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(member))
    return file.getvalue()


# Content, and what the error says of it. The same content under one of OWN's extensions may be a file of that format.
CONTENTS = (
    (POINTER, "git lfs pull"),
    (b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n", 'web page (HTML, "Sign in")'),
    (b'<?xml version="1.0"?>\n<Error><Code>NoSuchKey</Code></Error>', 'the error of a store, "NoSuchKey"'),
    (b'{"error":"Repository not found"}', "JSON text"),
    (b"Access to model is restricted.", "text: "),
    (gzip.compress(b"weights" * 9), "a gzip file"),
    (zlib.compress(b"weights" * 9), "compressed with zlib"),
    (b"\x28\xb5\x2f\xfd\x24\x07" + bytes(range(64)), "Zstandard"),
    (b"\xfd7zXZ\0\0\4" + bytes(range(64)), "xz"),
    (b"BZh91AY&SY" + bytes(range(64)), "bzip2"),
    (b"7z\xbc\xaf\x27\x1c\0\4" + bytes(range(64)), "7z archive"),
    (tar_of("model/w.npy"), "tar archive"),
    (b"\x80\x04\x95\x0b\0\0\0\0\0\0\0}\x94\x8c\x01a\x94K\x01s." + bytes(64), "pickle"),
    (b"\x08\x07\x12\x07pytorch\x1a\x052.1.0:" + bytes(range(64)), "an ONNX model"),
    (b"\x1c\0\0\0TFL3" + bytes(64), "TensorFlow Lite"),
    (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(64), "PNG"),
    (b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(64), "JPEG"),
    (bytes(5000), "a file of zeros (its first 4096 bytes)"),
    (b"", "an empty file"),
)
TEXTS = ("JSON text", "text: ")
EXTENSIONS = ("", ".bin", ".safetensors", ".safetensors.index.json", ".npy", ".npz", ".tfrecord", ".pb", ".pbtxt", ".ckpt",
              ".index", ".pt", ".gz")
COMMANDS = (["ls"], ["ls", "--json"], ["show"], ["stats"], ["verify"], ["cat"], ["convert"], ["diff"], ["edit"])


def npy(array_text, data):
    text = array_text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def npy_of(descr, shape, data):
    return npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}", data)


def safetensors(tensors):
    """{name: (dtype, shape, data)}"""
    header, data = {}, b""
    for name, (dtype, shape, stored) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(stored)]}
        data += stored
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Base(Archives):
    def file(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def names(self, path, *options):
        return [tensor["name"] for tensor in json.loads(self.good("ls", "--json", path, *options))["tensors"]]

    def floats(self, path, name):
        return self.good("show", path, name).split("\n", 1)[1].strip()


class OtherContent(Base):
    def arguments(self, command, path):
        return {
            "show": ["show", path, "w"],
            "convert": ["convert", path, self.path("copy.npz")],
            "diff": ["diff", self.good_file, path],
            "edit": ["edit", path, "--set", "a=b"],
        }.get(command[0], [*command, path])

    def check(self, command, path, extension, says):
        done = run(*self.arguments(command, path))
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), (command, path, done.stderr))
        self.assertTrue(done.stderr.startswith(f"tensorcask {command[0]}: {path}"), done.stderr)
        is_named_otherwise = says in TEXTS and extension in (".pbtxt", ".pt")
        if not is_named_otherwise:
            self.assertIn(says, done.stderr, (command, path))
        self.assertFalse(os.path.exists(self.path("copy.npz")))

    def test_each_content_is_named_under_each_extension(self):
        self.good_file = self.file("good.safetensors", safetensors({"w": ("F32", [1], bytes(4))}))
        commands = itertools.cycle(COMMANDS)
        for number, (content, says) in enumerate(CONTENTS):
            for extension in EXTENSIONS:
                if content == b"" and extension == ".tfrecord":
                    continue  # a record file without records
                with self.subTest(says=says, extension=extension):
                    self.check(next(commands), self.file(f"x{number}/m{extension}", content), extension, says)

    def test_each_content_is_named_by_each_command(self):
        self.good_file = self.file("good.safetensors", safetensors({"w": ("F32", [1], bytes(4))}))
        for number, (content, says) in enumerate(CONTENTS):
            path = self.file(f"y{number}.safetensors", content)
            for command in COMMANDS:
                with self.subTest(says=says, command=command):
                    self.check(command, path, ".safetensors", says)

    def test_files_beside_an_index_are_named(self):
        prefix = self.model(tensors={"dense/bias": floats(*range(64))})  # more bytes than a pointer has
        with open(prefix + ".data-00000-of-00001", "wb") as data:
            data.write(POINTER)
        self.assert_one_line(run("show", prefix, "dense/bias"), 1, "data-00000-of-00001: this is a pointer of Git LFS")
        self.file("a.safetensors", POINTER)
        index = self.file("m.safetensors.index.json", b'{"weight_map": {"w": "a.safetensors"}}')
        self.assert_says(run("ls", index), "a.safetensors: this is a pointer of Git LFS")
        self.file("a.bin", zip_of("archive/data.pkl"))
        index = self.file("n.safetensors.index.json", b'{"weight_map": {"w": "a.bin"}}')
        self.assert_says(run("ls", index), "a.bin: this is a PyTorch file")
        self.file("a.bin", POINTER)
        index = self.file("pytorch_model.bin.index.json", b'{"weight_map": {"w": "a.bin"}}')
        self.assert_says(run("ls", index), "a.bin: this is a pointer of Git LFS")

    def assert_says(self, listing, what):
        """The list has the tensor, and the command fails with the reason why it cannot be read."""
        self.assertEqual((listing.returncode, listing.stdout.splitlines()[0].split()[0]), (1, "w"), listing)
        self.assertIn(what, listing.stderr.splitlines()[-1])

    def test_a_format_of_ours_is_read_under_any_extension(self):
        self.good("convert", self.model(), self.path("m.npz"))
        one = self.file("one.npy", npy_of("'<f4'", "(2,)", bytes(8)))
        tensors = self.file("t.safetensors", safetensors({"w": ("F32", [2], bytes(8))}))
        self.good("convert", tensors, self.path("t.tfrecord"))
        for source, name in ((self.path("m.npz"), "npz"), (one, "npy"), (tensors, "safetensors"),
                             (self.path("t.tfrecord"), "records")):
            for extension in ("", ".bin", ".safetensors", ".npy", ".npz", ".tfrecord", ".pb", ".pt", ".ckpt", ".index"):
                path = self.path(f"as_{name}{extension}")
                os.link(source, path)
                self.assertEqual(json.loads(self.good("ls", "--json", path))["format"], name, path)

    def test_a_named_format_says_what_the_file_is(self):
        tensors = self.file("t.bin", safetensors({"w": ("F32", [2], bytes(8))}))
        array = self.file("a.bin", npy_of("'<f4'", "(2,)", bytes(8)))
        for form in ("npy", "npz", "checkpoint", "tensorproto"):
            self.assert_one_line(run("ls", "--format", form, tensors), 1, f"{tensors}: this is a safetensors file, not")
        for form in ("safetensors", "npz", "checkpoint", "tensorproto"):
            self.assert_one_line(run("ls", "--format", form, array), 1, f"{array}: this is an npy file, not")

    def test_a_cut_download_is_named(self):
        content = safetensors({"w": ("F32", [64], bytes(256))})
        header_bytes = len(content) - 8 - 256
        path = self.file("m.safetensors", content[:20])
        self.assert_one_line(run("ls", path), 1, f"the header's length is {header_bytes}; the file has 12 bytes behind it "
                             "(an incomplete download?)")
        path = self.file("m.safetensors", content[:-1])
        self.assert_one_line(run("ls", path), 1, "the file has 255 bytes of data (an incomplete download?)")
        array = npy_of("'<f4'", "(64,)", bytes(256))
        self.assert_one_line(run("ls", self.file("a.npy", array[:-1])), 1, "(an incomplete download?)")
        self.assert_one_line(run("ls", self.file("b.npy", array[:40])), 1, "(an incomplete download?)")
        self.assert_one_line(run("ls", self.file("c.npz", zip_of("w.npy", array)[:200])), 1, "is cut short")

    def test_records_compressed_with_zlib_are_named(self):
        self.good("convert", self.model(), self.path("m.tfrecord"))
        with open(self.path("m.tfrecord"), "rb") as file:
            records = file.read()
        for level in (1, 6, 9):
            path = self.file("z.tfrecord", zlib.compress(records, level))
            self.assert_one_line(run("ls", path), 1, "compressed with zlib")


class Indexes(Base):
    def variant(self, folder=""):
        for number, name in ((1, "a"), (2, "b")):
            self.file(f"{folder}diffusion_pytorch_model.fp16-0000{number}-of-00002.safetensors",
                      safetensors({name: ("F16", [2], bytes([number] * 4))}))
        text = json.dumps({"metadata": {"total_size": 8}, "weight_map": {
            "a": "diffusion_pytorch_model.fp16-00001-of-00002.safetensors",
            "b": "diffusion_pytorch_model.fp16-00002-of-00002.safetensors"}}, indent=2)
        return self.file(f"{folder}diffusion_pytorch_model.safetensors.index.fp16.json", text.encode())

    def test_an_index_is_recognized_by_its_content(self):
        index = self.variant()
        self.assertEqual(self.names(index), ["a", "b"])
        self.assertIn("2 files", self.good("ls", index) + "2 files")
        self.good("verify", index)
        self.good("convert", index, self.path("one.npz"))
        os.rename(index, self.path("weights.json"))
        self.assertEqual(self.names(self.path("weights.json")), ["a", "b"])

    def test_a_folder_with_a_variant_is_one_model(self):
        self.variant("unet/")
        self.assertEqual(self.names(self.path("unet")), ["a", "b"])

    def test_edit_keeps_a_variant_whole(self):
        index = self.variant()
        self.good("edit", index, "--rename", "a=c")
        self.assertEqual(self.names(index), ["b", "c"])
        self.good("verify", index)
        self.assertFalse(os.path.exists(index + ".index.json"))

    def test_edit_keeps_a_shard_that_a_variant_lists(self):
        index = self.variant()
        other = self.file("other.safetensors.index.json", open(index, "rb").read())
        self.good("edit", other, "--rename", "a=c")
        self.assertEqual(self.names(index), ["a", "b"])
        self.assertEqual(self.names(other), ["b", "c"])


class SeveralArrays(Base):
    def test_arrays_of_one_npy_file(self):
        one, two = struct.pack("<2f", 1, 2), struct.pack("<3i", 3, 4, 5)
        path = self.file("many.npy", npy_of("'<f4'", "(2,)", one) + npy_of("'<i4'", "(3,)", two))
        self.assertEqual(self.names(path), ["arr_0", "arr_1"])
        self.assertIn("[3 4 5]", self.good("show", path, "arr_1").replace(",", "").replace("\n", " "))
        self.good("verify", path)
        self.good("convert", path, self.path("many.npz"))
        self.assertEqual(self.names(self.path("many.npz")), ["arr_0", "arr_1"])
        self.assertIn("2 tensors equal", self.good("diff", path, self.path("many.npz")))


class Brackets(Base):
    def setUp(self):
        super().setUp()
        one = struct.pack("<f", 1)
        self.tensors = self.file("m.safetensors", safetensors({name: ("F32", [1], one) for name in ("x0", "x[0]", "y[1]")}))

    def test_a_name_with_brackets_is_taken_literally(self):
        path = self.tensors
        for glob, names in (("x[0]", ["x[0]"]), ("y[1]", ["y[1]"]), ("x[!1]", ["x0"]), ("x*", ["x0", "x[0]"])):
            self.assertEqual(self.names(path, glob), names)
            stats = json.loads(self.good("stats", "--json", path, glob))["tensors"]
            self.assertEqual([tensor["name"] for tensor in stats], names)
            self.good("convert", "--overwrite", "--include", glob, path, self.path("c.npz"))
            self.assertEqual(self.names(self.path("c.npz")), names)
            self.assertIn(f"{len(names)} tensor", self.good("diff", path, path, glob))
        self.good("convert", "--exclude", "x[0]", path, self.path("d.npz"))
        self.assertEqual(self.names(self.path("d.npz")), ["x0", "y[1]"])
        self.good("convert", "--dtype", "x[0]=float64", path, self.path("e.npz"))
        listed = json.loads(self.good("ls", "--json", self.path("e.npz")))["tensors"]
        self.assertEqual([tensor["dtype"] for tensor in listed], ["float32", "float64", "float32"])
        self.good("convert", path, self.path("model"))
        self.assertEqual(self.names(self.path("model"), "x[0]"), ["x[0]"])
        self.good("edit", path, "--remove", "x[0]")
        self.assertEqual(self.names(path), ["x0", "y[1]"])

    def test_a_glob_from_bracket_to_bracket(self):
        for number, (arguments, names) in enumerate((
                (["--include", "[xy][0-9]"], ["x0"]), (["--include=[xy][0-9]"], ["x0"]),
                (["--exclude=[xy][0-9]"], ["x[0]", "y[1]"]), (["--exclude=[xy][!,0-9]*", "--include=[x]*[,0]"], ["x0"]),
                (["--rename=s/x0/[x]/"], ["[x]", "x[0]", "y[1]"]), (["--rename=x0=[x,y]"], ["[x,y]", "x[0]", "y[1]"]))):
            path = self.path(f"{number}.npz")
            self.good("convert", *arguments, self.tensors, path)
            self.assertEqual(self.names(path), names)
        self.assertEqual(self.names(self.tensors, "[xy][0-9]"), ["x0"])

    def test_an_empty_value_is_not_the_next_argument(self):
        self.assert_one_line(run("convert", "--include=", self.tensors, self.path("c.npz")), 2, "--include  matches no")
        self.assert_one_line(run("convert", "--to=", self.tensors, self.path("c.npz")), 2, "--to:  not in {checkpoint,")

    def test_no_hint_names_what_was_typed(self):
        self.assert_one_line(run("ls", self.tensors, "z[0]"), 2, "z[0] matches no tensor; did you mean")


class Operands(Base):
    def array(self, name):
        return self.file(name, npy_of("'<f4'", "(1,)", struct.pack("<f", 1)))

    def test_a_name_may_have_a_slash(self):
        self.good("convert", "dense/kernel=" + self.array("a.npy"), "dense/bias=" + self.array("b=c/x=1.npy"),
                  self.path("m.npz"))
        self.assertEqual(self.names(self.path("m.npz")), ["dense/bias", "dense/kernel"])

    def test_what_names_a_file_is_a_path(self):
        path = self.array("lr=0.1/w.npy")
        self.good("convert", path, self.path("m.npz"))
        self.assertEqual(self.names(self.path("m.npz")), ["w"])
        missing = self.path("lr=0.1/none.npy")
        self.assert_one_line(run("convert", missing, self.path("x.npz")), 1, missing)

    def test_a_prefix_for_one_of_several(self):
        one = self.file("a.safetensors", safetensors({"w": ("F32", [1], bytes(4))}))
        self.good("convert", "base/=" + one, one, "tuned.=" + one, "arrays/=" + self.array("x.npy"), self.path("m.npz"))
        self.assertEqual(self.names(self.path("m.npz")), ["arrays/x", "base/w", "tuned.w", "w"])
        self.good("convert", "--overwrite", "--rename", "w=v", "base/=" + one, self.path("m.npz"))
        self.assertEqual(self.names(self.path("m.npz")), ["base/v"])
        self.assert_one_line(run("convert", "base=" + one, self.path("n.npz")), 2, f"base/={one} puts base/ in front")


class Diff(Base):
    def test_renamed_tensors_are_compared(self):
        one = struct.pack("<f", 1)
        a = self.file("a.safetensors", safetensors({"model.w": ("F32", [1], one), "model.b": ("F32", [1], one)}))
        b = self.file("b.safetensors", safetensors({"w": ("F32", [1], one), "bias": ("F32", [1], one)}))
        self.assertEqual(run("diff", a, b).returncode, 1)
        out = self.good("diff", "--rename", r"s/^model\.//", "--rename", "model.b=bias", a, b)
        self.assertEqual(out, "2 tensors equal, 0 different\n")
        self.assertEqual(self.good("diff", "--rename", r"s/^model\.//", a, b, "w"), "1 tensor equal, 0 different\n")
        self.assert_one_line(run("diff", "--rename", r"s/^model\.//", a, b, "model.w"), 2, "matches no tensor")
        self.assert_one_line(run("diff", "--rename", "s/.*/w/", a, b), 1, 'would both be called "w"')

    def test_values_of_two_dtypes(self):
        values = (1.0, 1.00390625, -3.0, 0.0)
        single = b"".join(struct.pack("<f", value) for value in values)
        brain = b"".join(struct.pack("<f", value)[2:] for value in values)
        whole = b"".join(struct.pack("<q", int(value)) for value in values)
        a = self.file("a.safetensors", safetensors({"w": ("F32", [2, 2], single)}))
        b = self.file("b.safetensors", safetensors({"w": ("BF16", [2, 2], brain)}))
        c = self.file("c.safetensors", safetensors({"w": ("I64", [2, 2], whole)}))
        self.assertIn("dtype differs: float32 [2,2], bfloat16 [2,2]", run("diff", a, b).stdout)
        done = run("diff", "--cast", a, b)
        self.assertEqual(done.returncode, 1)
        self.assertIn("w: float32 and bfloat16: 1 of 4 elements differ, at most by 0.00390625", done.stdout)
        out = self.good("diff", "--rtol", "4e-3", a, b)
        self.assertEqual(out, "0 tensors equal, 1 within the tolerance (1 of other dtypes), 0 different\n")
        self.good("diff", "--atol", "4e-3", a, c)
        document = json.loads(self.good("diff", "--json", "--rtol", "4e-3", a, b))
        self.assertEqual((document["within_tolerance"], document["other_dtypes"]), (1, 1))
        prefix = self.model(tensors={"w": floats(*values)})
        self.assertEqual(run("diff", "--cast", prefix, a).returncode, 1)  # another shape

    def test_large_tensors_of_two_dtypes_in_blocks(self):
        count = 300_000
        single = struct.pack("<f", 2.5) * count
        double = struct.pack("<d", 2.5) * (count - 1) + struct.pack("<d", 3)
        a = self.file("a.safetensors", safetensors({"w": ("F32", [3, count // 3], single)}))
        b = self.file("b.safetensors", safetensors({"w": ("F64", [3, count // 3], double)}))
        self.assertIn(f"1 of {count} elements differ, at most by 0.5 (relative 0.166667) at [2,{count // 3 - 1}]",
                      run("diff", "--cast", a, b).stdout)


if __name__ == "__main__":
    case_report.main("content")
