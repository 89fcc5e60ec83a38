#!/usr/bin/env python3
"""The command line over all formats: conversions, statistics, differences, and the files of other programs."""

import json
import math
import os
import shutil
import stat
import subprocess
import sys
import time
import unittest
import zipfile

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import TOOL, DATA, Archives, floats, run  # noqa: E402


class Convert(Archives):
    def test_renaming_by_expression(self):
        prefix = self.model()
        for rules, names in ((["s/^dense\\///"], {"kernel", "bias"}), (["s/e/E/g"], {"dEnsE/kErnEl", "dEnsE/bias"}),
                             (["s/(.*)\\/(.*)/\\2.\\1/"], {"kernel.dense", "bias.dense"}),
                             (["dense/bias=b", "s/dense/d/"], {"b", "d/kernel"})):
            arguments = [word for rule in rules for word in ("--rename", rule)]
            self.good("convert", "--overwrite", *arguments, prefix, self.path("copy"))
            self.assertEqual(set(self.tensors(self.path("copy"))), names)
        done = run("convert", "--rename", "s/(/x/", prefix, self.path("no"))
        self.assert_one_line(done, 2, "not closed")
        done = run("convert", "--rename", "s/.*/same/", prefix, self.path("no"))
        self.assert_one_line(done, 1, '"same": two tensors would have this name')
        self.assertFalse(os.path.exists(self.path("no.index")))

    def test_dtypes(self):
        prefix = self.model()
        self.good("convert", "--dtype", "*kernel=bfloat16", prefix, self.path("half"))
        tensors = self.tensors(self.path("half"))
        self.assertEqual((tensors["dense/kernel"][0], tensors["dense/bias"][0]), ("bfloat16", "float32"))
        self.assertIn("[4 5 6.5]", self.good("show", self.path("half"), "dense/kernel"))
        for rule in ("nosuch", "*=nosuch", "=float32"):
            self.assert_one_line(run("convert", "--dtype", rule, prefix, self.path("x")), 2, "--dtype", "GLOB=DTYPE")

    def test_several_files_become_one(self):
        first = self.model("first", {"a": floats(1)})
        second = self.model("second.tfrecord", {"b": floats(2)})
        out = self.good("convert", first, second, self.path("both"))
        self.assertIn("2 tensors", out)
        self.assertEqual(set(self.tensors(self.path("both"))), {"a", "b"})
        self.assert_one_line(run("convert", first, first, self.path("x")), 1, '"a": two tensors would have this name')

    def test_a_dry_run_writes_nothing(self):
        prefix = self.model()
        before = sorted(os.listdir(self.folder))
        out = self.good("convert", "--dry-run", "--rename", "dense/bias=b", "--dtype", "*kernel=float16", prefix,
                        self.path("copy"))
        self.assertIn("dense/bias    float32  [2]    ->  b             float32\n", out)
        self.assertIn("dense/kernel  float32  [2,3]  ->  dense/kernel  float16\n", out)
        self.assertIn("would have 2 tensors", out)
        self.assertEqual(sorted(os.listdir(self.folder)), before)


PACKED = ("F4", "F6_E2M3", "F6_E3M2")


def with_formats(test):
    return unittest.skipUnless(os.path.isdir(os.path.join(DATA, "numpy")), "SKIPPED: no test data")(test)


def files_of(folder):
    """(name, path, what it must hold) of each file of other programs."""
    with open(os.path.join(DATA, folder, "expected.json"), encoding="utf-8") as file:
        for name, expected in json.load(file).items():
            yield name, os.path.join(DATA, folder, name), expected


# A piece of the message for each file that is refused.
REASONS = {
    "bad_gen_duplicate_key.safetensors": "listed twice",
    "bad_gen_float_dim.safetensors": "dim 0 of the shape is 2.0",
    "bad_gen_header_len_huge.safetensors": "the header's length is 9223372036854775807",
    "bad_gen_header_len_over_cap.safetensors": "the header's length is 100000001",
    "bad_gen_hole.safetensors": 'data bytes 4 to 8, before tensor "b", belong to no tensor',
    "bad_gen_metadata_not_string.safetensors": "in the metadata is 1; it must be a string",
    "bad_gen_negative_dim.safetensors": "dim 0 of the shape is -2",
    "bad_gen_not_utf8.safetensors": "not JSON at byte 2",
    "bad_gen_nul_padding.safetensors": "a NUL byte",
    "bad_gen_overlap.safetensors": "which overlap those of tensor",
    "bad_gen_shape_overflow.safetensors": "exceeds 2^63-1",
    "bad_gen_short.safetensors": "has 3 bytes",
    "bad_gen_trailing_bytes.safetensors": "1 byte behind the last tensor",
    "bad_gen_truncated_data.safetensors": "the file has 7 bytes of data",
    "bad_las7_tiny.safetensors": "5 bytes behind the last tensor",
    "bad_syoyo_abuse_attempt_1.safetensors": "the header's length is 1000",
    "odd_gen_leading_whitespace.safetensors": "begins with white space",  # COMPATIBILITY.md
    "bad_gen_header_negative_dim.npy": "a number that is not negative",
    "bad_gen_missing_key.npy": 'key "fortran_order" is missing',
    "bad_gen_truncated.npy": "needs 800",
    "bad_npyio_ragged_object.npy": "Python objects",
    "bad_npyz_pickle.npy": "Python objects",
    "bad_numpy_py2_objarr.npz": "Python objects",
    "bad_numpy_py3_objarr.npy": "Python objects",
}


# Of these the other tensors are read.
LISTED = {"bad_gen_unknown_dtype.safetensors": 'the dtype "F33" is unknown'}


class OtherPrograms(Archives):
    def check_rejections(self, folder):
        for name, path, expected in files_of(folder):
            if name in LISTED:
                with self.subTest(name):
                    self.assertIn(LISTED[name], self.good("ls", "--json", path).replace(r'\"', '"'))
                    self.assertEqual(run("ls", "--checksum", path).returncode, 1)
                continue
            self.assertTrue(expected["expect"] == "ok" or name in REASONS, name)
            if name in REASONS:
                with self.subTest(name):
                    self.assert_one_line(run("ls", "--json", "--checksum", path), 1, name, REASONS[name])

    @with_formats
    def test_safetensors(self):
        count = 0
        for name, path, expected in files_of("safetensors"):
            if name in REASONS or name in LISTED:
                continue
            with self.subTest(name):
                document = json.loads(self.good("ls", "--json", "--checksum", path))
                self.assertEqual(document["format"], "safetensors")
                listed = {tensor["name"]: tensor for tensor in document["tensors"]}
                for tensor in expected["tensors"]:
                    ours = listed[tensor["name"]]
                    self.assertEqual((ours["shape"], ours["stored_bytes"]), (tensor["shape"], tensor["nbytes"]))
                    if tensor["nbytes"] > 0:
                        self.assertEqual(ours["offset"], tensor["file_offset"])
                    if tensor["dtype"] not in PACKED:
                        self.assertEqual(ours["crc32"], tensor["crc32"])
                self.good("verify", path)
                count += 1
        self.assertGreater(count, 10)
        self.check_rejections("safetensors")

    @with_formats
    def test_numpy(self):
        count = 0
        for name, path, expected in files_of("numpy"):
            if name in REASONS or name.startswith("odd_"):
                continue
            with self.subTest(name):
                document = json.loads(self.good("ls", "--json", "--checksum", path))
                self.assertEqual(document["format"], name[-3:])
                listed = {tensor["name"]: tensor for tensor in document["tensors"]}
                for tensor in expected["tensors"]:
                    array = tensor["name"] or name[:-4]
                    if not isinstance(tensor["descr"], str):  # each field is a tensor
                        fields = [field[0] if not tensor["name"] else f"{array}.{field[0]}" for field in tensor["descr"]]
                        self.assertEqual(sorted(listed), sorted(fields))
                        for field in fields:
                            self.assertEqual(listed[field]["shape"][: len(tensor["shape"])], tensor["shape"])
                        continue
                    ours = listed[array]
                    self.assertEqual(ours["shape"], tensor["shape"])
                    if tensor["descr"][1] in "SU":
                        self.assertEqual(ours["dtype"], "string")
                        continue
                    self.assertEqual(ours["crc32"], tensor["crc32"], tensor)  # row-major, little-endian
                self.good("verify", path)
                count += 1
        self.assertGreaterEqual(count, 33)
        self.check_rejections("numpy")

    @with_formats
    def test_odd_files_of_numpy(self):
        """COMPATIBILITY.md says what is different from NumPy."""
        bools = os.path.join(DATA, "numpy", "odd_ndnpy_bool_bad_value.npy")
        self.assertEqual(self.tensors_listed(bools), ["bool"])
        self.assert_one_line(run("show", bools), 1, "only 0 and 1 are bools (--lenient accepts this)")
        self.good("verify", "--lenient", bools)
        self.assertEqual(self.tensors_listed(os.path.join(DATA, "numpy", "odd_npyz_unicode_surrogate.npy")), ["string"])

    def tensors_listed(self, path):
        return [tensor["dtype"] for tensor in json.loads(self.good("ls", "--json", path))["tensors"]]


class BetweenFormats(Archives):
    TARGETS = ("m.safetensors", "m.npz", "m.tfrecord", "m.ckpt")

    def test_there_and_back(self):
        prefix = self.model(tensors={"a/w": floats(*range(6), shape=[2, 3]), "b": "dtype: DT_BFLOAT16 half_val: 16256",
                                     "c": "dtype: DT_BOOL bool_val: true", "größe": "dtype: DT_INT64 int64_val: -9",
                                     "z": "dtype: DT_COMPLEX64 tensor_shape { dim { size: 0 } }"})
        wanted = self.tensors(prefix)
        for first in self.TARGETS:
            self.good("convert", "--overwrite", prefix, self.path(first))
            self.assertEqual(self.tensors(self.path(first)), wanted, first)
            self.assertIn("5 tensors whole", self.good("verify", self.path(first)))
            for second in self.TARGETS:
                with self.subTest(first=first, second=second):
                    copy = self.path("copy" + second)
                    self.good("convert", "--overwrite", self.path(first), copy)
                    self.assertEqual(self.tensors(copy), wanted)
                    self.assertIn("5 tensors equal, 0 different", self.good("diff", prefix, copy))

    def test_one_tensor(self):
        prefix = self.model()
        for name in ("kernel.npy", "kernel.pb", "kernel.pbtxt"):
            self.good("convert", "--include", "dense/kernel", prefix, self.path(name))
            self.assertEqual(self.good("show", self.path(name), "kernel"), self.good("show", prefix, "dense/kernel"))
        self.assert_one_line(run("convert", prefix, self.path("x.npy")), 2, "npy holds exactly one tensor, 2 remain")

    def test_a_private_file_that_is_overwritten_stays_private(self):
        prefix = self.model()
        for name in (*self.TARGETS, "m.safetensors.index.json"):
            folder = self.path("private")
            os.mkdir(folder)
            self.good("convert", prefix, os.path.join(folder, name))
            for file in os.listdir(folder):
                os.chmod(os.path.join(folder, file), 0o640)
            self.good("convert", "--overwrite", prefix, os.path.join(folder, name))
            modes = {file: stat.S_IMODE(os.stat(os.path.join(folder, file)).st_mode) for file in os.listdir(folder)}
            self.assertEqual(set(modes.values()), {0o640}, modes)
            shutil.rmtree(folder)

    def test_a_private_model_stays_private_in_another_form(self):
        prefix = self.model()
        forms = (("m.safetensors", ()), ("m.safetensors.index.json", ()), ("m.safetensors", ("--shard-size", "8")))
        for old, old_flags in forms:
            for new, new_flags in forms:
                folder = self.path("private")
                os.mkdir(folder)
                self.good("convert", *old_flags, prefix, os.path.join(folder, old))
                for file in os.listdir(folder):
                    os.chmod(os.path.join(folder, file), 0o600)
                self.good("convert", "--overwrite", *new_flags, prefix, os.path.join(folder, new))
                modes = {file: stat.S_IMODE(os.stat(os.path.join(folder, file)).st_mode) for file in os.listdir(folder)}
                self.assertEqual(set(modes.values()), {0o600}, (old, new, modes))
                shutil.rmtree(folder)

    def test_what_becomes_private_while_it_is_replaced_is_private(self):
        self.good("convert", self.model(), self.path("m.npz"))
        save = subprocess.Popen([TOOL, "save", "--overwrite", self.path("m.npz")], stdin=subprocess.PIPE,
                                stdout=subprocess.DEVNULL)
        with open(self.path("parts.tfrecord"), "rb") as records:
            save.stdin.write(records.read())
            save.stdin.flush()
        deadline = time.monotonic() + 60
        while not any(".tmp-" in name for name in os.listdir(self.folder)) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.chmod(self.path("m.npz"), 0o600)
        save.stdin.close()
        self.assertEqual(save.wait(60), 0)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("m.npz")).st_mode), 0o600)

    def test_a_large_tensor_crosses_in_blocks(self):
        text = "dtype: DT_FLOAT tensor_shape { dim { size: 5 } dim { size: 1000000 } } float_val: [1, 2, 3]"
        prefix = self.model(tensors={"w": text, "v": floats(1)})
        wanted = self.tensors(prefix)
        for name in self.TARGETS:
            self.good("convert", prefix, self.path("large" + name))
            self.assertEqual(self.tensors(self.path("large" + name)), wanted, name)
        with open(prefix + ".data-00000-of-00001", "r+b") as file:  # blocks are checked as a whole
            file.seek(19000000)
            file.write(b"\x55")
        for name in self.TARGETS:
            done = run("convert", prefix, self.path("no" + name))
            self.assert_one_line(done, 1, '"w"', "checksum")
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("no") or ".tmp-" in name], [])

    def test_what_a_format_cannot_hold(self):
        prefix = self.model(tensors={"s": 'dtype: DT_STRING string_val: "text"', "w": floats(1)})
        done = run("convert", prefix, self.path("m.safetensors"))
        self.assert_one_line(done, 1, '"s"', "string", "safetensors", "--allow-loss")
        self.assertFalse(os.path.exists(self.path("m.safetensors")))
        out = self.good("convert", "--allow-loss", prefix, self.path("m.safetensors"))
        self.assertIn('lost: ', out)
        self.assertIn("1 tensor", out)
        self.good("convert", prefix, self.path("m.npz"))
        self.assertIn("text", self.good("show", self.path("m.npz"), "s"))

    def test_members_that_are_no_arrays_are_named(self):
        npz = self.path("m.npz")
        self.good("convert", self.model(tensors={"w": floats(1)}), npz)
        with zipfile.ZipFile(npz, "a") as file:
            for number in range(10):
                file.writestr(f"notes{number}.txt", "text")
        for words in (("ls", npz), ("convert", npz, self.path("m.safetensors")), ("diff", npz, npz), ("stats", npz)):
            done = run(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn('m.npz: member "notes0.txt" is not an array, and is not read\n', done.stderr)
            self.assertIn('m.npz: 2 more members are not arrays, and are not read\n', done.stderr)
        self.assertIn('member "notes7.txt" is not an array', self.good("verify", npz))

    def test_levels_of_npz(self):
        text = "dtype: DT_FLOAT tensor_shape { dim { size: 100000 } } float_val: 1"
        prefix = self.model(tensors={"w": text})
        self.good("convert", "--level", "default", prefix, self.path("small.npz"))
        self.assertLess(os.path.getsize(self.path("small.npz")), 10000)
        self.assertEqual(self.tensors(self.path("small.npz")), self.tensors(prefix))
        self.assert_one_line(run("convert", "--level", "default", prefix, self.path("x.safetensors")), 2, "--level")

    def test_a_model_in_several_files(self):
        prefix = self.model(tensors={name: floats(*range(25)) for name in "abcd"})
        index = self.path("m.safetensors.index.json")
        out = self.good("convert", "--shard-size", "250b", prefix, index)
        names = ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors", "m.safetensors.index.json"]
        self.assertEqual(sorted(name for name in os.listdir(self.folder) if name.startswith("m-") or "index.js" in name), names)
        size = sum(os.path.getsize(self.path(name)) for name in names)
        self.assertIn(f"4 tensors, 400 B ({size / 1024:.1f} KiB on disk), safetensors", out)
        with open(index, encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual(document["metadata"]["total_size"], 400)
        self.assertEqual(set(document["weight_map"].values()), set(names[:2]))
        self.assertIn("4 tensors equal, 0 different", self.good("diff", prefix, index))
        self.assertIn("4 tensors whole", self.good("verify", self.path("m.safetensors")))
        self.assert_one_line(run("convert", prefix, index), 1, "m.safetensors.index.json: exists", "--overwrite")
        self.good("convert", "--overwrite", prefix, index)  # the default size
        names = ["m-00001-of-00001.safetensors", "m.safetensors.index.json"]
        self.assertEqual(sorted(name for name in os.listdir(self.folder) if name.startswith("m-") or "index.js" in name), names)
        self.good("convert", "--shard-size", "1KiB", prefix, self.path("one.safetensors"))
        self.assertFalse(os.path.exists(self.path("one.safetensors.index.json")))
        self.good("convert", "--shard-size", "300", prefix, self.path("two.safetensors"))
        self.assertTrue(os.path.exists(self.path("two-00002-of-00002.safetensors")))
        self.assert_one_line(run("convert", "--shard-size", "1GB", prefix, self.path("x.npz")), 2, "--shard-size", "npz")
        for size in ("0", "-1", "1XB", "many"):
            self.assertEqual(run("convert", "--shard-size", size, prefix, self.path("x.safetensors")).returncode, 2, size)

    def test_dtypes_that_numpy_lacks(self):
        prefix = self.model(tensors={"w": floats(1, 2, -3), "v": floats(1)})
        source = self.path("f.safetensors")
        self.good("convert", "--dtype", "w=float8_e4m3fn", prefix, source)
        self.assert_one_line(run("convert", source, self.path("f.npz")), 1, '"w" is float8_e4m3fn', "--allow-loss")
        out = self.good("convert", "--allow-loss", source, self.path("f.npz"))
        self.assertIn("lost: ", out)
        self.assertIn("2 tensors", out)
        unnamed = run("show", self.path("f.npz"), "w")
        self.assert_one_line(unnamed, 1, "the file does not say of which dtype: name it with --opaque-dtype")
        other = run("show", "--opaque-dtype", "float32", self.path("f.npz"), "w")
        self.assert_one_line(other, 1, "opaque elements of 1 byte", "the given one, float32, has elements of 4 bytes")
        done = run("convert", self.path("f.npz"), self.path("x.safetensors"))
        self.assert_one_line(done, 1, "the file does not say of which dtype", "--opaque-dtype")
        out = self.good("verify", self.path("f.npz"))
        self.assertIn("note: ", out)
        self.assertIn("1 tensor whole, 1 of a kind that cannot be checked yet", out)
        named = ["--opaque-dtype", "float8_e4m3fn"]
        self.assertIn("[1 2 -3]", self.good("show", *named, self.path("f.npz"), "w"))
        self.assertIn("2 tensors whole\n", self.good("verify", *named, self.path("f.npz")))
        self.good("convert", *named, self.path("f.npz"), self.path("back.safetensors"))
        self.assertEqual(self.tensors(self.path("back.safetensors")), self.tensors(source))
        for name in ("float9", "string", "bool"):
            self.assertEqual(run("ls", "--opaque-dtype", name, self.path("f.npz")).returncode, 2, name)

    @with_formats
    def test_metadata_of_a_file(self):
        source = os.path.join(DATA, "safetensors", "nutllm_tiny.safetensors")
        self.good("convert", source, self.path("copy.safetensors"))
        self.assertEqual(self.tensors(self.path("copy.safetensors")), self.tensors(source))
        metadata = json.loads(self.good("ls", "--json", self.path("copy.safetensors")))["metadata"]
        self.assertEqual(metadata["nutllm.max_seq"], "16")
        self.assert_one_line(run("convert", source, self.path("m.npz")), 1, "metadata", "nutllm.dim", "--allow-loss")
        self.good("convert", "--allow-loss", source, self.path("m.npz"))


class Stats(Archives):
    def test_figures(self):
        prefix = self.model(tensors={"w": floats(1, 2, 3, 4, 0, "nan", "inf", 1e-40), "s": 'dtype: DT_STRING string_val: "a"',
                                     "one": floats(3),
                                     "empty": "dtype: DT_FLOAT tensor_shape { dim { size: 0 } }",
                                     "i": "dtype: DT_INT64 tensor_shape { dim { size: 2 } } int64_val: [-5, 7]"})
        tensors = {t["name"]: t for t in json.loads(self.good("stats", "--json", prefix))["tensors"]}
        w = tensors["w"]
        self.assertEqual((w["zeros"], w["nan"], w["inf"], w["subnormals"], w["min"], w["max"]), (1, 1, 1, 1, 0, 4))
        self.assertAlmostEqual(w["mean"], 10 / 6, places=6)
        self.assertAlmostEqual(w["std"], math.sqrt(30 / 6 - (10 / 6) ** 2), places=6)
        self.assertEqual(sum(w["histogram"]), 6)
        self.assertEqual((tensors["i"]["min"], tensors["i"]["max"], tensors["i"]["mean"]), (-5, 7, 1))
        one = tensors["one"]
        self.assertEqual((one["min"], one["max"], one["mean"], one["std"]), (3, 3, 3, 0))
        self.assertNotIn("min", tensors["s"])
        self.assertIsNone(tensors["empty"]["min"])
        text = self.good("stats", prefix, "w")
        self.assertIn("1 NaN, 1 Inf, 1 zero, 1 subnormal", text)

    def test_integers_that_no_double_holds(self):
        prefix = self.model(tensors={
            "i": "dtype: DT_INT64 tensor_shape { dim { size: 2 } } int64_val: [-9223372036854775807, 9007199254740993]",
            "u": "dtype: DT_UINT64 tensor_shape { dim { size: 1 } } uint64_val: 18446744073709551615"})
        tensors = {t["name"]: t for t in json.loads(self.good("stats", "--json", prefix))["tensors"]}
        self.assertEqual((tensors["i"]["min"], tensors["i"]["max"]), (-9223372036854775807, 9007199254740993))
        self.assertEqual((tensors["u"]["min"], tensors["u"]["max"]), (2**64 - 1, 2**64 - 1))
        self.assertRegex(self.good("stats", prefix), r" -9223372036854775807 +9007199254740993 ")

    def test_a_sum_that_overflows_is_no_figure(self):
        large = "dtype: DT_DOUBLE tensor_shape { dim { size: 3 } } double_val: [1e308, -1e308, 1e308]"
        prefix = self.model(tensors={"w": large})
        w = json.loads(self.good("stats", "--json", prefix))["tensors"][0]
        self.assertEqual((w["min"], w["max"], w["mean"], w["std"]), (-1e308, 1e308, None, None))
        self.assertRegex(self.good("stats", prefix), r"-1e\+308 +1e\+308 +- +- ")

    def test_the_size_after_a_change_of_dtype(self):
        prefix = self.model(tensors={"w": floats(*range(500))})
        self.assertIn("1 tensor, 1000 B (", self.good("convert", "--dtype", "w=float16", prefix, self.path("h.npz")))

    def test_a_damaged_tensor_is_named(self):
        prefix = self.model()
        with open(prefix + ".data-00000-of-00001", "r+b") as file:
            file.write(b"\xff")
        done = run("stats", prefix)
        self.assertEqual(done.returncode, 1)
        self.assertIn("checksum", done.stdout)
        self.assertIn("dense/bias", done.stdout)


class Diff(Archives):
    def test_equal_files_of_two_formats(self):
        prefix = self.model()
        self.assertEqual(self.good("diff", prefix, self.path("parts.tfrecord")), "2 tensors equal, 0 different\n")

    def test_what_differs(self):
        a = self.model("a", {"same": floats(1), "moved": floats(1, 2, 3, 4, shape=[2, 2]), "more": floats(1, 10),
                             "gone": floats(1), "shape": floats(1, 2), "type": floats(1), "nan": floats("nan")})
        b = self.model("b", {"same": floats(1), "moved": floats(1, 2, 3.5, 4, shape=[2, 2]), "more": floats(2, 10),
                             "new": floats(1), "shape": floats(1), "type": "dtype: DT_INT8 int_val: 1",
                             "nan": floats("nan")})
        done = run("diff", a, b)
        self.assertEqual(done.returncode, 1)
        lines = done.stdout.splitlines()
        self.assertIn("gone: only in A: float32 [1]", lines)
        self.assertIn("new: only in B: float32 [1]", lines)
        self.assertIn("shape: shape differs: float32 [2], float32 [1]", lines)
        self.assertIn("type: dtype differs: float32 [1], int8 []", lines)
        moved = "moved: 1 of 4 elements differ, at most by 0.5 (relative 0.142857) at [1,0]: 3, 3.5"
        more = "more: 1 of 2 elements differ, at most by 1 (relative 0.5) at [0]: 1, 2"
        self.assertEqual(lines[4:], [more, moved, "2 tensors equal, 6 different"])
        done = run("diff", "--rtol", "0.2", a, b, "mo*")
        self.assertEqual(done.stdout.splitlines(), [more, "0 tensors equal, 1 within the tolerance, 1 different"])
        self.assertEqual(run("diff", "--atol", "1", a, b, "mo*").returncode, 0)
        document = json.loads(run("diff", "--json", a, b).stdout)
        kinds = {one["name"]: one["kind"] for one in document["differences"]}
        self.assertEqual(kinds, {"gone": "only in A", "new": "only in B", "shape": "shape", "type": "dtype",
                                 "more": "values", "moved": "values"})
        by_name = {one["name"]: one for one in document["differences"]}
        self.assertEqual((by_name["type"]["a"], by_name["type"]["b"]),
                         ({"dtype": "float32", "shape": [1], "encoding": "plain"},
                          {"dtype": "int8", "shape": [], "encoding": "plain"}))
        self.assertEqual((by_name["gone"]["b"], by_name["new"]["a"]), (None, None))
        moved = by_name["moved"]
        self.assertEqual((moved["different"], moved["max_absolute"], moved["where"]), (1, 0.5, [1, 0]))
        self.assertAlmostEqual(moved["max_relative"], 0.5 / 3.5)

    def test_a_damaged_tensor_is_a_difference(self):
        a, b = self.model("a"), self.model("b")
        with open(b + ".data-00000-of-00001", "r+b") as file:
            file.write(b"\xff")
        done = run("diff", a, b)
        self.assertEqual(done.returncode, 1)
        self.assertIn("dense/kernel: error: ", done.stdout)


if __name__ == "__main__":
    case_report.main("archive")
