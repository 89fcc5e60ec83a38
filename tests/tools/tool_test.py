#!/usr/bin/env python3
"""The command line, as its users run it: every subcommand, exit codes, messages, and the checkpoints of other programs."""

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest
import zlib

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import (  # noqa: E402
    GUARDED,
    TOOL,
    TRACED,
    Scratch,
    index_of,
    leb128,
    masked_crc32c,
    read,
    run,
    sanitized,
    with_strace,
)

DATA = os.path.join(os.environ.get("TENSORCASK_TEST_DATA", "../shared/data"), "tensorflow")
TENSORFLOW_NAMES = {"float": "float32", "double": "float64", "half": "float16"}


def varint(data, position):
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def checkpoints():
    """(prefix, what it must hold) of every checkpoint in the test data."""
    for folder in sorted(os.listdir(DATA)):
        path = os.path.join(DATA, folder, "expected.json")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            for name, expected in json.load(file).items():
                if expected.get("kind") == "v2_checkpoint":
                    yield os.path.join(DATA, folder, name), expected


def data_files(prefix):
    folder, name = os.path.split(prefix)
    return sorted(file for file in os.listdir(folder) if file.startswith(name + ".data-"))


def with_data(test):
    return unittest.skipUnless(os.path.isdir(DATA), "SKIPPED: no test data")(test)


class Ls(Scratch):
    @with_data
    def test_every_checkpoint_of_tensorflow(self):
        count = 0
        for prefix, expected in checkpoints():
            with self.subTest(prefix):
                done = run("ls", "--json", "--checksum", prefix)
                self.assertEqual(done.returncode, 0, done.stderr)
                document = json.loads(done.stdout)
                self.assertEqual(document["format"], "checkpoint")
                listed = {tensor["name"]: tensor for tensor in document["tensors"]}
                self.assertEqual(set(listed), set(expected["entries"]))
                self.assertEqual([t["name"] for t in document["tensors"]], sorted(expected["entries"]))
                for name, entry in expected["entries"].items():
                    tensor = listed[name]
                    dtype = entry["dtype"]
                    self.assertEqual(tensor["dtype"], TENSORFLOW_NAMES.get(dtype, dtype))
                    self.assertEqual(tensor["shape"], entry["shape"])
                    self.assertEqual((tensor["shard"], tensor["offset"]), (entry["shard"], entry["offset"]))
                    self.assertEqual(tensor["stored_bytes"], entry["size"])
                    if dtype == "string":
                        self.assertEqual(tensor["crc32"], self.crc32_of_strings(prefix, entry))
                    else:
                        self.assertEqual(tensor["crc32"], entry["crc32"])
                        self.assertEqual(tensor["bytes"], entry["size"])
                count += 1
        self.assertEqual(count, 22)

    def crc32_of_strings(self, prefix, entry):
        """Computed from the file itself, as the format's description says."""
        data = read(os.path.join(os.path.dirname(prefix), data_files(prefix)[entry["shard"]]))
        position = entry["offset"]
        lengths = []
        for _ in range(entry["n"]):
            length, position = varint(data, position)
            lengths.append(length)
        self.assertEqual(lengths, entry["lens"])
        position += 4
        crc = 0
        joined = b""
        for length in lengths:
            element = data[position : position + length]
            position += length
            joined += element
            crc = zlib.crc32(element, zlib.crc32(struct.pack("<Q", length), crc))
        self.assertEqual(hashlib.sha256(joined).hexdigest(), entry["sha256_joined"])
        return f"{crc:08x}"

    @with_strace
    @with_data
    def test_opens_no_data_file_without_checksum(self):
        prefix = os.path.join(DATA, "tf-mnist-ckpt", "model.ckpt-46900")
        for arguments, opened in (([], False), (["--checksum"], True)):
            log = self.path("log")
            command = ["strace", "-f", "-e", "trace=open,openat,openat2", "-o", log, TOOL, "ls", *arguments, prefix]
            done = subprocess.run(command, capture_output=True, timeout=60, check=False, env=TRACED)
            self.assertEqual(done.returncode, 0)
            calls = read(log).decode()
            self.assertIn(".index", calls)
            self.assertEqual(".data-" in calls, opened, calls)

    def test_the_index_file_names_the_checkpoint_too(self):
        prefix = self.checkpoint()
        self.assertEqual(run("ls", prefix).stdout, run("ls", prefix + ".index").stdout)

    def test_columns_and_total(self):
        lines = run("ls", self.checkpoint()).stdout.splitlines()
        self.assertEqual(lines[0].split(), ["w", "float32", "[2,3]", "24", "plain"])
        self.assertEqual(lines[1], "total: 1 tensor, 24 bytes (24 B)")

    def test_one_long_name_does_not_push_all_others_aside(self):
        entry = b"\x08\x01\x12\x04\x12\x02\x08\x00\x35" + struct.pack("<I", masked_crc32c(b""))
        with open(self.path("long.index"), "wb") as file:
            file.write(index_of([(b"", b"\x08\x01\x1a\x02\x08\x01"), (b"a", entry), (b"b" * 120, entry)]))
        short, long, _ = run("ls", self.path("long")).stdout.splitlines()
        self.assertEqual(short.split(), ["a", "float32", "[0]", "0", "plain"])
        self.assertLess(len(short), 110)
        self.assertTrue(long.startswith("b" * 120 + "  float32"))

    def test_globs_choose(self):
        prefix = self.checkpoint(tensors={"a/w": "dtype: DT_INT8 int_val: 1"})
        self.assertIn("a/w", run("ls", prefix, "a/*").stdout)
        self.assertIn("total: 0 tensors", run("ls", prefix, "b*").stdout)

    @with_data
    def test_sort_by_size(self):
        prefix = os.path.join(DATA, "tf-mnist-ckpt", "model.ckpt-46900")
        sizes = [t["bytes"] for t in json.loads(run("ls", "--json", "--sort", "size", prefix).stdout)["tensors"]]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        self.assertGreater(len(set(sizes)), 3)

    def test_names_cannot_drive_a_terminal(self):
        prefix = self.checkpoint(tensors={"a\x1b[2Jb\nc": "dtype: DT_INT8 int_val: 1"})
        out = run("ls", prefix).stdout
        self.assertNotIn("\x1b", out)
        self.assertEqual(out.count("\n"), 2)
        self.assertNotIn("\x1b", run("ls", "--json", prefix).stdout)
        self.assertEqual(json.loads(run("ls", "--json", prefix).stdout)["tensors"][0]["name"], "a\x1b[2Jb\nc")

    def test_a_name_that_is_no_unicode_is_exact_in_hex(self):
        # The tool's arguments are bytes to the system; \udcff is Python's name for the byte ff.
        prefix = self.checkpoint(tensors={"a\udcff": "dtype: DT_INT8 int_val: 1"})
        tensor = json.loads(run("ls", "--json", prefix).stdout)["tensors"][0]
        self.assertEqual((tensor["name"], tensor["name_hex"]), ("a\ufffd", "61ff"))

    def test_a_message_needs_its_format_named(self):
        path = self.write("x.message", "dtype: DT_INT8 int_val: 1")
        self.assert_one_line(run("ls", path), 1, "x.message", "--format")
        self.assertEqual(run("ls", "--format", "tensorproto-text", path).returncode, 0)

    def test_missing(self):
        self.assert_one_line(run("ls", self.path("no")), 1, "no.index")

    @with_data
    def test_tree_leads_to_every_tensor(self):
        trees = 0
        for prefix, expected in checkpoints():
            with self.subTest(prefix):
                done = run("ls", "--tree", prefix)
                if "_CHECKPOINTABLE_OBJECT_GRAPH" not in expected["entries"]:
                    self.assert_one_line(done, 1, "_CHECKPOINTABLE_OBJECT_GRAPH")
                    continue
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(done.stdout.startswith("(root)\n"))
                trees += 1
                for name, entry in expected["entries"].items():
                    if not name.startswith("_") and "/table-" not in name:
                        shape = ",".join(str(dim) for dim in entry["shape"])
                        dtype = TENSORFLOW_NAMES.get(entry["dtype"], entry["dtype"])
                        self.assertIn(f"  {dtype} [{shape}]  {name}\n", done.stdout)
        self.assertEqual(trees, 13)

    def test_tree_is_for_checkpoints_and_stands_alone(self):
        path = self.write("x.pbtxt", "dtype: DT_INT8 int_val: 1")
        self.assert_one_line(run("ls", "--tree", "--format", "tensorproto-text", path), 1, "objects")
        for arguments in (["--json", "a"], ["--checksum", "a"], ["a", "glob"]):
            self.assert_one_line(run("ls", "--tree", *arguments), 2, "--tree")

    def test_tree_cannot_drive_a_terminal(self):
        node = b"\x0a\x0b\x08\x01\x12\x07a\x1b[2Jb\n"
        graph = b"\x0a" + leb128(len(node)) + node + b"\x0a\x00"
        text = 'dtype: DT_STRING string_val: "' + "".join(f"\\{byte:03o}" for byte in graph) + '"'
        done = run("ls", "--tree", self.checkpoint(tensors={"_CHECKPOINTABLE_OBJECT_GRAPH": text}))
        self.assertEqual(done.stdout, '(root)\n|- "a\\x1b[2Jb\\n"\n', done.stderr)

    def test_a_full_disk_is_a_failure(self):
        prefix = self.checkpoint()
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([TOOL, "ls", prefix], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"stdout", done.stderr)

    def test_a_closed_pipe_is_a_failure(self):
        prefix = self.checkpoint()
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([TOOL, "ls", prefix], stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
        os.close(writer)
        self.assertEqual(done.returncode, 1)


class Show(Scratch):
    def test_values(self):
        done = run("show", self.checkpoint(), "w")
        self.assertEqual(done.stdout, "float32 [2,3]\n[[1 2 3]\n [4 5 6.5]]\n")

    def test_a_slice(self):
        prefix = self.checkpoint()
        self.assertEqual(run("show", "--slice", "1,1:-", prefix, "w").stdout, "float32 [1,3]\n[[4 5 6.5]]\n")
        self.assertEqual(run("show", "--slice", "-:1,2", prefix, "w").stdout, "float32 [2,2]\n[[2 3]\n [5 6.5]]\n")

    def test_a_slice_needs_only_its_bytes(self):
        prefix = self.checkpoint()
        with open(prefix + ".data-00000-of-00001", "r+b") as file:
            file.seek(3)
            file.write(b"\xff")
        self.assert_one_line(run("show", prefix, "w"), 1, "checksum")
        self.assertEqual(run("show", "--slice", "1,1:-", prefix, "w").stdout, "float32 [1,3]\n[[4 5 6.5]]\n")

    def test_slices_of_strings(self):
        text = 'dtype: DT_STRING tensor_shape { dim { size: 3 } } string_val: ["a", "b\\n", "c"]'
        prefix = self.checkpoint(tensors={"s": text})
        self.assertEqual(run("show", "--slice", "1,2", prefix, "s").stdout, 'string [2]\n["b\\n" "c"]\n')

    def test_a_slice_that_does_not_parse_is_misuse(self):
        for spec in ("0", "0,", "x", " 0,1", "0,1:", "1,0"):
            self.assert_one_line(run("show", "--slice", spec, self.checkpoint(spec), "w"), 2, "--slice")

    def test_a_slice_outside(self):
        prefix = self.checkpoint()
        self.assert_one_line(run("show", "--slice", "0,3:-", prefix, "w"), 1, "axis 0")
        self.assert_one_line(run("show", "--slice", "-", prefix, "w"), 1, "rank")

    def test_max(self):
        text = "dtype: DT_INT32 tensor_shape { dim { size: 9 } } int_val: [1, 2, 3, 4, 5, 6, 7, 8, 9]"
        prefix = self.checkpoint(tensors={"v": text})
        self.assertEqual(run("show", "--max", "1", prefix, "v").stdout, "int32 [9]\n[1 ... 9]\n")
        self.assertEqual(run("show", "--max", "-1", prefix, "v").stdout, "int32 [9]\n[1 2 3 4 5 6 7 8 9]\n")

    def test_no_such_tensor(self):
        self.assert_one_line(run("show", self.checkpoint(), "x"), 1, '"x"', "model.ckpt")


class Verify(Scratch):
    @with_data
    def test_every_checkpoint_of_tensorflow(self):
        prefixes = [prefix for prefix, _ in checkpoints()]
        done = run("verify", *prefixes)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 22)
        self.assertNotIn("damaged", done.stdout)

    def test_names_the_damaged_tensor_its_file_and_offset(self):
        prefix = self.checkpoint()
        path = prefix + ".data-00000-of-00001"
        damaged = bytearray(read(path))
        damaged[5] ^= 1
        with open(path, "wb") as file:
            file.write(damaged)
        done = run("verify", prefix)
        self.assertEqual(done.returncode, 1)
        line = done.stdout.splitlines()[0]
        for piece in ("damaged", '"w"', "model.ckpt.data-00000-of-00001", "offset 0"):
            self.assertIn(piece, line)
        # And reading it is refused.
        self.assert_one_line(run("show", prefix, "w"), 1, '"w"', ".data-00000-of-00001")

    def test_mentions_bytes_behind_the_last_tensor(self):
        prefix = self.checkpoint()
        with open(prefix + ".data-00000-of-00001", "ab") as file:
            file.write(b"behind")
        done = run("verify", prefix)
        self.assertEqual(done.returncode, 0)
        note, total = done.stdout.splitlines()
        self.assertRegex(note, r"^note: .*model.ckpt.data-00000-of-00001: \d+ bytes behind the last tensor")
        self.assertEqual(total, prefix + ": 1 tensor whole")

    def test_looks_at_all_paths(self):
        prefix = self.checkpoint()
        done = run("verify", self.path("no"), prefix)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no.index", done.stderr)
        self.assertIn("1 tensor whole", done.stdout)

    def test_a_message(self):
        good = self.write("good.pbtxt", "dtype: DT_INT8 int_val: 1")
        bad = self.write("bad.pbtxt", "dtype: DT_INT8 tensor_shape { dim { size: -3 } }")
        self.assertEqual(run("verify", "--format", "tensorproto-text", good).returncode, 0)
        done = run("verify", "--format", "tensorproto-text", bad)
        self.assertEqual(done.returncode, 1)
        self.assertIn("-3", done.stderr)


class Salvage(Scratch):
    def damage(self, path, position):
        damaged = bytearray(read(path))
        damaged[position] ^= 0xFF
        with open(path, "wb") as file:
            file.write(damaged)

    def test_all_of_an_undamaged_checkpoint(self):
        prefix = self.checkpoint()
        done = run("salvage", prefix + ".index", self.path("saved"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, self.path("saved") + ": 1 tensor saved\n")
        self.assertEqual(read(self.path("saved.index")), read(prefix + ".index"))

    @with_data
    def test_what_is_whole_and_a_line_for_what_is_lost(self):
        source = os.path.join(DATA, "tf-mnist-ckpt", "model.ckpt-46900")
        for suffix in (".index", ".data-00000-of-00001"):
            shutil.copy(source + suffix, self.path("m" + suffix))
        tensors = {t["name"]: t for t in json.loads(run("ls", "--json", "--checksum", source).stdout)["tensors"]}
        self.damage(self.path("m.data-00000-of-00001"), tensors["dense/kernel"]["offset"] + 7)
        done = run("salvage", self.path("m"), self.path("saved"))
        self.assertEqual(done.returncode, 1)
        lost, total = done.stdout.splitlines()
        offset = tensors["dense/kernel"]["offset"]
        for piece in ("lost: ", "m.data-00000-of-00001", '"dense/kernel"', f"offset {offset}"):
            self.assertIn(piece, lost)
        self.assertEqual(total, f"{self.path('saved')}: {len(tensors) - 1} tensors saved")
        document = json.loads(run("ls", "--json", "--checksum", self.path("saved")).stdout)
        saved = {t["name"]: t for t in document["tensors"]}
        self.assertEqual(set(tensors) - set(saved), {"dense/kernel"})
        for name, tensor in saved.items():
            self.assertEqual([tensor[k] for k in ("dtype", "shape", "crc32")],
                             [tensors[name][k] for k in ("dtype", "shape", "crc32")])
        # The index cut in the middle of its footer is no loss: the blocks are there.
        index = read(source + ".index")
        shutil.copy(source + ".data-00000-of-00001", self.path("m.data-00000-of-00001"))
        with open(self.path("m.index"), "wb") as file:
            file.write(index[:-20])
        self.assertEqual(run("ls", self.path("m")).returncode, 1)
        done = run("salvage", "--overwrite", self.path("m"), self.path("saved"))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(run("verify", self.path("saved")).returncode, 0)

    @with_data
    def test_of_a_cut_index_what_its_front_shows(self):
        source = os.path.join(DATA, "tf-mnist-ckpt", "model.ckpt-46900")
        for suffix in (".index", ".data-00000-of-00001"):
            shutil.copy(source + suffix, self.path("m" + suffix))
        index = read(source + ".index")
        with open(self.path("m.index"), "wb") as file:
            file.write(index[: len(index) * 3 // 5])
        done = run("salvage", self.path("m"), self.path("saved"))
        self.assertEqual(done.returncode, 1)
        *lines, total = done.stdout.splitlines()
        unverified = [line for line in lines if line.startswith("unverified: ")]
        self.assertGreater(len(unverified), 1)
        self.assertEqual(total, f"{self.path('saved')}: {len(unverified)} tensors saved")
        good, saved = ({t["name"]: t["crc32"] for t in self.listed(prefix)} for prefix in (source, self.path("saved")))
        self.assertEqual(saved, {name: good[name] for name in saved})

    def listed(self, prefix):
        return json.loads(run("ls", "--json", "--checksum", prefix).stdout)["tensors"]

    def test_v1_is_refused(self):
        done = run("salvage", self.write("v1.ckpt", "x"), self.path("saved"))
        self.assert_one_line(done, 1, "v1.ckpt", "V1 checkpoints cannot be salvaged")

    def test_json(self):
        prefix = self.checkpoint(tensors={"a\x1b": "dtype: DT_INT8 int_val: 1"})
        self.damage(prefix + ".data-00000-of-00001", 0)
        done = run("salvage", "--json", prefix, self.path("saved"))
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("\x1b", done.stdout)
        document = json.loads(done.stdout)
        self.assertEqual((document["source"], document["saved"]), (prefix, 0))
        (lost,) = document["lost"]
        self.assertEqual((lost["name"], lost["file"], lost["offset"]), ("a\x1b", prefix + ".data-00000-of-00001", 0))
        self.assertIn("checksum", lost["message"])
        self.assertFalse(os.path.exists(self.path("saved.index")))
        self.damage(prefix + ".index", 10)
        document = json.loads(run("salvage", "--json", prefix, self.path("saved")).stdout)
        self.assertIsNone(document["lost"][-1]["name"])

    def test_a_sliced_tensor(self):
        prefix = self.sliced()
        self.assertEqual(run("salvage", prefix, self.path("saved")).returncode, 0)
        self.assertEqual(run("show", self.path("saved"), "s").stdout, "float32 [4]\n[1 2 3 4]\n")
        self.damage(prefix + ".data-00000-of-00001", 9)
        done = run("salvage", prefix, self.path("none"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertIn('"s"', done.stdout)

    def test_refusals(self):
        prefix = self.checkpoint()
        before = read(prefix + ".index")
        self.assert_one_line(run("salvage", self.path("no"), self.path("x")), 1, "no.index")
        self.assert_one_line(run("salvage", prefix, prefix), 1, "model.ckpt")
        self.assert_one_line(run("salvage", "--overwrite", prefix, prefix + ".index"), 1, "model.ckpt")
        other = self.checkpoint("other.ckpt")
        self.assert_one_line(run("salvage", other, prefix), 1, "model.ckpt")
        self.assertEqual(read(prefix + ".index"), before)
        for arguments in ([], ["a"], ["--nonsense", "a", "b"]):
            self.assert_one_line(run("salvage", *arguments), 2, "--help")


class Convert(Scratch):
    @with_data
    def test_checkpoints_of_tensorflow_come_out_byte_for_byte(self):
        identical = 0
        for prefix, expected in checkpoints():
            if 1 in expected["index"]["block_types"]:
                continue  # compressed: we write plain blocks
            with self.subTest(prefix):
                copy = self.path(prefix.replace("/", "_"))
                done = run("convert", "--alignment", 1, prefix, copy)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(read(copy + ".index"), read(prefix + ".index"))
                files = data_files(prefix)
                self.assertEqual(len(files), len(data_files(copy)))
                for theirs, ours in zip(files, data_files(copy)):
                    self.assertEqual(
                        read(os.path.join(os.path.dirname(prefix), theirs)), read(os.path.join(self.folder, ours))
                    )
                identical += 1
        self.assertEqual(identical, 17)

    @with_data
    def test_an_empty_tensor_keeps_its_turn(self):
        # Both are at offset 0: "b", which has no bytes, and then "a".
        records = b""
        for name, text in (("b", "dtype: DT_INT8 tensor_shape { dim { size: 0 } }"), ("a", "dtype: DT_INT8 int_val: 1")):
            one = self.path(name + ".tfrecord")
            self.assertEqual(run("convert", self.checkpoint(name, {name: text}), one).returncode, 0)
            records += read(one)
        with open(self.path("all.tfrecord"), "wb") as file:
            file.write(records)
        for source, copy in (("all.tfrecord", "first"), ("first", "second")):
            done = run("convert", "--alignment", 1, self.path(source), self.path(copy))
            self.assertEqual(done.returncode, 0, done.stderr)
        offsets = {t["name"]: t["offset"] for t in json.loads(run("ls", "--json", self.path("first")).stdout)["tensors"]}
        self.assertEqual(offsets, {"a": 0, "b": 0})
        self.assertEqual(read(self.path("second.index")), read(self.path("first.index")))

    def test_any_alignment_keeps_the_elements(self):
        for prefix, _ in checkpoints():
            for alignment in (1, 64, 4096):
                with self.subTest(prefix=prefix, alignment=alignment):
                    copy = self.path(f"{alignment}_" + prefix.replace("/", "_"))
                    done = run("convert", "--alignment", alignment, prefix, copy)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    theirs, ours = (
                        json.loads(run("ls", "--json", "--checksum", p).stdout)["tensors"] for p in (prefix, copy)
                    )
                    keys = ("name", "dtype", "shape", "crc32", "shard")
                    self.assertEqual([[t[k] for k in keys] for t in ours], [[t[k] for k in keys] for t in theirs])
                    for tensor in ours:
                        self.assertEqual(tensor["offset"] % alignment, 0)

    def test_to_messages_and_back(self):
        prefix = self.checkpoint()
        binary, text = self.path("w.pb"), self.path("w.pbtxt")
        self.assertEqual(run("convert", prefix, binary).returncode, 0)
        self.assertEqual(run("convert", prefix, text).returncode, 0)
        self.assertIn("float_val: 6.5", read(text).decode())
        values = run("show", prefix, "w").stdout
        self.assertEqual(run("show", "--format", "tensorproto", binary, "w").stdout, values)
        self.assertEqual(run("show", "--format", "tensorproto-text", text, "w").stdout, values)
        self.assertEqual(run("convert", "--format", "tensorproto", binary, self.path("again.ckpt")).returncode, 0)
        self.assertEqual(read(self.path("again.ckpt.data-00000-of-00001")), read(prefix + ".data-00000-of-00001"))
        self.assertEqual(read(self.path("again.ckpt.index")), read(prefix + ".index"))

    @with_data
    def test_choosing_and_renaming(self):
        prefix = os.path.join(DATA, "tf-mnist-ckpt", "model.ckpt-46900")
        done = run("convert", "--include", "conv2d/*", "--exclude", "*Adam*", "--rename", "conv2d/bias=b", prefix,
                   self.path("few"))
        self.assertEqual(done.returncode, 0, done.stderr)
        names = [t["name"] for t in json.loads(run("ls", "--json", self.path("few")).stdout)["tensors"]]
        self.assertEqual(names, ["b", "conv2d/kernel"])

    @with_data
    def test_a_message_holds_one_tensor(self):
        prefix = os.path.join(DATA, "tf-mnist-ckpt", "model.ckpt-46900")
        self.assert_one_line(run("convert", prefix, self.path("x.pb")), 2, "exactly one tensor")
        self.assert_one_line(run("convert", "--include", "none", prefix, self.path("x.pb")), 2, "0 remain")
        self.assertEqual(os.listdir(self.folder), [])

    def test_renaming_what_is_not_there_is_misuse(self):
        done = run("convert", "--rename", "x=y", self.checkpoint(), self.path("copy"))
        self.assert_one_line(done, 2, "--rename x=y")

    def test_metadata_is_kept(self):
        prefix = self.tagged(b"\x12\x06cuda:0" + b"\x4a\x09\x0a\x04unit\x12\x01m")
        for name in ("x.pb", "x.pbtxt", "copy"):
            self.assertEqual(run("convert", prefix, self.path(name)).returncode, 0)
        back = self.path("back")
        done = run("convert", "--format", "tensorproto", "--rename", "x=w", self.path("x.pb"), back)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, form in (("copy", "checkpoint"), ("back", "checkpoint"), ("x.pb", "tensorproto"),
                           ("x.pbtxt", "tensorproto-text")):
            (tensor,) = json.loads(run("ls", "--json", "--format", form, self.path(name)).stdout)["tensors"]
            self.assertEqual((tensor["device"], tensor["attributes"]), ("cuda:0", {"unit": "m"}), name)
        self.assertEqual(read(back + ".index"), read(self.path("copy.index")))

    def test_metadata_is_not_lost_silently(self):
        prefix = self.tagged(b"\x12\x06cuda:x")  # no device
        self.assertEqual(run("show", prefix, "w").stdout, "float32 [2]\n[0 0]\n")
        before = sorted(os.listdir(self.folder))
        self.assert_one_line(run("convert", prefix, self.path("copy")), 1, '"w"', "device")
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.assertEqual(run("convert", "--allow-loss", prefix, self.path("copy")).returncode, 0)
        self.assertEqual(run("verify", self.path("copy")).returncode, 0)

    def test_a_device_that_cannot_be_read_is_treated_alike_in_every_format(self):
        message = ("dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: [1, 2] "
                   "extension { device: 'cuda:x' attributes { key: 'unit' value: 'm' } }")
        text = self.write("w.pbtxt", message)
        data = b"\x08\x01\x12\x04\x12\x02\x08\x02\x2a\x08" + struct.pack("<2f", 1, 2)
        extension = b"\x0a\x01w\x12\x06cuda:x\x4a\x09\x0a\x04unit\x12\x01m"
        data += b"\x82\x80\x02" + leb128(len(extension)) + extension
        with open(self.path("w.pb"), "wb") as file:
            file.write(data)
        length = struct.pack("<Q", len(data))
        with open(self.path("w.tfrecord"), "wb") as file:
            file.write(length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data)))
        before = sorted(os.listdir(self.folder))
        for path, arguments in ((text, ["--format", "tensorproto-text"]), (self.path("w.pb"), ["--format", "tensorproto"]),
                                (self.path("w.tfrecord"), [])):
            with self.subTest(path):
                self.assertEqual(run("show", *arguments, path, "w").stdout, "float32 [2]\n[1 2]\n")
                self.assertIn("float32  [2]", run("ls", *arguments, path).stdout)
                for command in (["convert", path, self.path("copy")], ["cat", path]):
                    done = run(*command, *arguments)
                    self.assert_one_line(done, 1, path, 'device "cuda:x"', "; --allow-loss leaves out")
                    self.assertNotIn("::", done.stderr)
                self.assertEqual(run("ls", "--json", *arguments, path).returncode, 1)
                self.assertEqual(run("verify", *arguments, path).returncode, 1)
                self.assertEqual(sorted(os.listdir(self.folder)), before)
                done = run("convert", "--allow-loss", *arguments, path, self.path("copy"))
                self.assertEqual(done.returncode, 0, done.stderr)
                (tensor,) = json.loads(run("ls", "--json", self.path("copy")).stdout)["tensors"]
                self.assertEqual((tensor["name"], tensor["device"], tensor["attributes"]), ("w", None, {"unit": "m"}))
                for name in set(os.listdir(self.folder)) - set(before):
                    os.remove(self.path(name))

    def test_strides_are_kept(self):
        path = self.write("g.pbtxt", GUARDED)
        values = run("show", "--format", "tensorproto-text", path, "g").stdout
        self.assertEqual(values, "int8 [2,3]\n[[1 3 5]\n [2 4 6]]\n")
        for name in ("c", "g.pb", "again.pbtxt"):
            done = run("convert", "--format", "tensorproto-text", path, self.path(name))
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read(self.path("c.data-00000-of-00001"))[:6], b"\1\2\3\4\5\6")
        self.assertEqual(run("show", self.path("c"), "g").stdout, values)
        (tensor,) = json.loads(run("ls", "--json", "--checksum", self.path("c")).stdout)["tensors"]
        self.assertEqual((tensor["encoding"], tensor["strides"]), ("guarded", [1, 2]))
        self.assertEqual(tensor["crc32"], f"{zlib.crc32(bytes([1, 3, 5, 2, 4, 6])):08x}")
        self.assertIn("guarded, strides [1,2]", run("ls", self.path("c")).stdout)
        self.assertEqual(run("convert", self.path("c"), self.path("d")).returncode, 0)
        self.assertEqual(read(self.path("d.index")), read(self.path("c.index")))

    def test_a_sliced_tensor_comes_out_in_one_piece(self):
        prefix = self.sliced()
        self.assertEqual(run("verify", prefix).returncode, 0)
        lines = run("ls", prefix).stdout.splitlines()
        self.assertEqual(lines[0].split("  "), ["s", "float32", "[4]", "16", "sliced in 2"])
        self.assertEqual(run("show", "--slice", "1,2", prefix, "s").stdout, "float32 [2]\n[2 3]\n")
        self.assertEqual(run("convert", prefix, self.path("copy")).returncode, 0)
        self.assertEqual(run("show", self.path("copy"), "s").stdout, "float32 [4]\n[1 2 3 4]\n")
        self.assertIn("plain", run("ls", self.path("copy")).stdout)

    def test_an_empty_name_is_refused(self):
        prefix = self.checkpoint()
        self.assert_one_line(run("convert", "--rename", "w=", prefix, self.path("copy")), 1, "name is empty")

    @with_data
    def test_two_tensors_of_one_name_are_refused(self):
        prefix = os.path.join(DATA, "tf-mnist-ckpt", "model.ckpt-46900")
        done = run("convert", "--rename", "conv2d/bias=conv2d/kernel", prefix, self.path("copy"))
        self.assert_one_line(done, 1, '"conv2d/kernel" is there already')
        self.assertEqual(os.listdir(self.folder), [])

    def test_an_index_that_tells_of_more_files_is_refused(self):
        prefix = self.checkpoint()
        os.rename(prefix + ".data-00000-of-00001", prefix + ".data-00000-of-00002")
        self.assert_one_line(run("convert", prefix, self.path("copy")), 1, ".data-00000-of-00001: is missing")

    def test_an_existing_destination_is_refused_unless_told(self):
        prefix = self.checkpoint()
        before = read(prefix + ".index")
        other = self.checkpoint("other.ckpt", {"v": "dtype: DT_INT8 int_val: 1"})
        self.assert_one_line(run("convert", other, prefix), 1, "model.ckpt")
        self.assertEqual(read(prefix + ".index"), before)
        self.assertEqual(run("convert", "--overwrite", other, prefix).returncode, 0)
        self.assertIn("int8", run("ls", "--checksum", prefix).stdout)

    def test_a_device_is_no_destination(self):
        prefix = self.checkpoint()
        for command in ("convert", "salvage"):
            for flags in ((), ("--overwrite",)):
                self.assert_one_line(run(command, *flags, prefix, "/dev/null"), 1, "/dev/null: is a device")
        self.assertFalse(os.path.exists("/dev/null.index"))

    def test_onto_itself_again_and_again(self):
        prefix = self.checkpoint()
        values = run("show", prefix, "w").stdout
        for _ in range(5):
            self.assertEqual(run("convert", "--overwrite", prefix, prefix).returncode, 0)
            self.assertEqual(run("show", prefix, "w").stdout, values)
            names = sorted(name for name in os.listdir(self.folder) if ".ckpt." in name)
            self.assertIn(len(names), (2, 3), names)  # index, data, and at times one empty data file

    def test_onto_itself(self):
        prefix = self.checkpoint()
        values = run("show", prefix, "w").stdout
        self.assertEqual(run("convert", prefix, prefix).returncode, 1)
        self.assertEqual(run("show", prefix, "w").stdout, values)
        self.assertEqual(run("convert", "--overwrite", "--alignment", 4096, prefix, prefix).returncode, 0)
        self.assertEqual(run("show", prefix, "w").stdout, values)
        self.assertEqual(run("verify", prefix).returncode, 0)

    def test_a_damaged_source_leaves_no_file(self):
        prefix = self.checkpoint()
        path = prefix + ".data-00000-of-00001"
        with open(path, "r+b") as file:
            file.write(b"\xff")
        before = sorted(os.listdir(self.folder))
        self.assert_one_line(run("convert", prefix, self.path("copy")), 1, '"w"', "checksum")
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    @with_strace
    def test_an_interrupt_leaves_no_file(self):
        prefix = self.checkpoint()
        before = sorted(os.listdir(self.folder))
        command = ["strace", "-f", "-o", "/dev/null", "-e", "inject=openat:signal=INT:when=", TOOL, "convert", prefix,
                   self.path("copy")]
        interrupted = 0
        for call in range(1, 40):
            name, number = (("INT", signal.SIGINT), ("TERM", signal.SIGTERM))[call % 2]
            command[5] = f"inject=openat,read,pread64,write,fsync:signal={name}:when={call}"
            done = subprocess.run(command, capture_output=True, timeout=60, check=False, env=TRACED)
            names = sorted(os.listdir(self.folder))
            if names == before:
                self.assertIn(done.returncode, (128 + number, -number), done.stderr)
                interrupted += 1
            else:  # too late: whole
                self.assertEqual(run("verify", self.path("copy")).returncode, 0)
                for name in set(names) - set(before):
                    os.remove(self.path(name))
        self.assertGreater(interrupted, 3)

    def test_options_that_do_not_parse_are_misuse(self):
        for arguments in (["--alignment", "0"], ["--alignment", "x"], ["--to", "zip"], ["--nonsense"], ["--rename"]):
            done = run("convert", *arguments, "a", "b")
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(done.stdout, "")
            self.assertNotEqual(done.stderr, "")


class Streams(Scratch):
    def tensors(self, *arguments):
        done = run("ls", "--json", "--checksum", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["tensors"]

    def cat(self, *arguments, **options):
        return subprocess.run([TOOL, "cat", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                              check=False, **options)

    def save(self, stream, *arguments):
        done = subprocess.run([TOOL, "save", *arguments], input=stream, capture_output=True, timeout=60, check=False)
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        return done

    @with_data
    def test_every_checkpoint_comes_out_of_the_pipe_as_convert_copies_it(self):
        count = 0
        for prefix, _ in checkpoints():
            with self.subTest(prefix):
                done = self.cat(prefix)
                if done.returncode != 0:
                    self.assertNotEqual(run("convert", prefix, self.path(f"no{count}")).returncode, 0, done.stderr)
                    continue
                saved, copied = self.path(f"saved{count}"), self.path(f"copied{count}")
                self.assertEqual(self.save(done.stdout, saved).returncode, 0)
                self.assertEqual(run("convert", prefix, copied).returncode, 0)
                saved_tensors, copied_tensors = self.tensors(saved), self.tensors(copied)
                if len(data_files(prefix)) > 1:  # save writes one data file
                    for tensor in saved_tensors + copied_tensors:
                        tensor["shard"] = tensor["offset"] = None
                self.assertEqual(saved_tensors, copied_tensors)
                count += 1
        self.assertGreater(count, 15)

    def test_metadata_and_strides_are_kept(self):
        tagged = self.tagged(b"\x12\x06cuda:0" + b"\x4a\x09\x0a\x04unit\x12\x01m")
        path = self.write("g.pbtxt", GUARDED)
        self.assertEqual(run("convert", "--format", "tensorproto-text", path, self.path("g")).returncode, 0)
        for prefix in (tagged, self.path("g")):
            self.assertEqual(self.save(self.cat(prefix).stdout, "--overwrite", self.path("copy")).returncode, 0)
            self.assertEqual(self.tensors(self.path("copy")), self.tensors(prefix))

    def test_metadata_is_not_lost_silently(self):
        for extension, says in ((b"\x12\x06cuda:x", b"device"), (b"\x0a\x01v", b'has another name, "v"')):
            prefix = self.tagged(extension)
            done = self.cat(prefix)
            self.assertEqual((done.returncode, done.stdout), (1, b""))
            self.assertIn(says, done.stderr)
            done = self.cat("--allow-loss", prefix)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.save(done.stdout, "--overwrite", self.path("copy")).returncode, 0)

    def test_save_leaves_out_what_cannot_be_read_if_told(self):
        stream = self.cat(self.checkpoint()).stdout
        data = stream[12:-4] + b"\x82\x80\x02\x08\x12\x06cuda:x"  # the extension comes twice: the fields are merged
        length = struct.pack("<Q", len(data))
        stream = length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))
        done = self.save(stream, self.path("copy"))
        self.assert_one_line(done, 1, "stdin: record at 0", 'device "cuda:x"')
        self.assertNotIn("::", done.stderr)
        done = self.save(stream, "--allow-loss", self.path("copy"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([tensor["name"] for tensor in self.tensors(self.path("copy"))], ["w"])

    def test_globs_choose_on_both_sides(self):
        stream = b"".join(self.cat(self.checkpoint(name, {name: "dtype: DT_INT8 int_val: 1"})).stdout for name in "abc")
        self.assertEqual(self.save(stream, self.path("all.tfrecord")).returncode, 0)
        for arguments, names in ((["a", "c"], ["a", "c"]), (["--exclude", "b"], ["a", "c"]), (["[ab]*"], ["a", "b"]), (["[ab]"], ["a", "b"]),
                                 (["[a,]", "[x,c]"], ["a", "c"]), (["--exclude", "[ab]"], ["c"])):
            self.assertEqual(self.save(self.cat(self.path("all.tfrecord"), *arguments).stdout, "--overwrite",
                                       self.path("few")).returncode, 0)
            self.assertEqual([tensor["name"] for tensor in self.tensors(self.path("few"))], names)
        done = self.save(stream, "--include", "[ab]", "--exclude", "a", "--to", "tensorproto", self.path("one"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.tensors("--format", "tensorproto", self.path("one"))), 1)
        self.assert_one_line(self.save(stream, self.path("x.pb")), 2, "exactly one tensor, more came")
        self.assert_one_line(self.save(stream, "--include", "x", self.path("x.pb")), 2, "none came")
        self.assertFalse(os.path.exists(self.path("x.pb")))

    def test_a_stream_cut_anywhere_leaves_no_file(self):
        stream = self.cat(self.checkpoint()).stdout
        before = sorted(os.listdir(self.folder))
        for size in range(len(stream)):
            done = self.save(stream[:size], self.path("copy"))
            self.assert_one_line(done, 1, "stdin: " + ("record at 0: cut short" if size else "contains no record"))
            self.assertEqual(sorted(os.listdir(self.folder)), before)
        changed = bytearray(stream)
        changed[20] ^= 1
        self.assert_one_line(self.save(bytes(changed), self.path("copy")), 1, "stdin: record at 0: the checksum")

    def test_a_writer_that_failed_leaves_a_stream_that_is_cut_short(self):
        with open(self.path("two.tfrecord"), "wb") as file:
            for name in "ab":
                prefix = self.checkpoint(name, {name: "dtype: DT_INT8 int_val: 1"})
                file.write(self.cat(prefix).stdout)
        self.assertEqual(run("convert", self.path("two.tfrecord"), self.path("two")).returncode, 0)
        with open(self.path("two.data-00000-of-00001"), "r+b") as file:
            file.seek(64)  # "b"
            file.write(b"\xff")
        done = self.cat(self.path("two"))
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"checksum", done.stderr)
        self.assertEqual(self.save(done.stdout, self.path("copy")).returncode, 1)
        self.assertFalse(os.path.exists(self.path("copy.index")))

    def test_records_are_a_format(self):
        prefix = self.checkpoint()
        done = run("convert", prefix, self.path("x.tfrecord"))
        self.assertIn("records", done.stdout)
        self.assertEqual(self.cat(prefix).stdout, read(self.path("x.tfrecord")))
        self.assertEqual(run("show", self.path("x.tfrecord"), "w").stdout, run("show", prefix, "w").stdout)
        self.assertEqual(run("show", "--slice", "1,1:0,2", self.path("x.tfrecord"), "w").stdout, "float32 [1,2]\n[[4 5]]\n")
        self.assertEqual(run("verify", self.path("x.tfrecord")).stdout, self.path("x.tfrecord") + ": 1 tensor whole\n")
        self.assertEqual(run("convert", self.path("x.tfrecord"), self.path("back")).returncode, 0)
        self.assertEqual(read(self.path("back.index")), read(prefix + ".index"))
        self.assert_one_line(run("show", self.path("x.tfrecord"), "v"), 1, 'no tensor "v"')
        self.assert_one_line(run("ls", "--tree", self.path("x.tfrecord")), 1, "objects")
        with open(self.path("x.tfrecord"), "ab") as file:
            file.write(read(self.path("x.tfrecord")))
        self.assert_one_line(run("ls", self.path("x.tfrecord")), 1, 'both called "w"')
        self.assert_one_line(run("ls", "--format", "records", prefix + ".index"), 1, "record at 0")

    def test_a_named_format_is_not_guessed_anew(self):
        self.assertEqual(run("convert", self.checkpoint(), self.path("x.tfrecord")).returncode, 0)
        self.assertEqual(run("ls", self.path("x.tfrecord")).returncode, 0)
        self.assert_one_line(run("ls", "--format", "checkpoint", self.path("x.tfrecord")), 1, "x.tfrecord")

    def test_records_without_names_have_numbers(self):
        message = b"\x08\x06\x12\x00\x22\x01\x07"  # int8, a scalar, 7
        header = struct.pack("<Q", len(message))
        record = header + struct.pack("<I", masked_crc32c(header)) + message + struct.pack("<I", masked_crc32c(message))
        self.assertEqual(self.save(record * 2, self.path("copy")).returncode, 0)
        self.assertEqual(run("show", self.path("copy"), "1").stdout, "int8 []\n7\n")

    def test_terminals_are_refused(self):
        leader, terminal = os.openpty()
        for command, options in ((["cat", self.checkpoint()], {"stdout": terminal, "stdin": subprocess.DEVNULL}),
                                 (["save", self.path("copy")], {"stdin": terminal, "stdout": subprocess.DEVNULL})):
            done = subprocess.run([TOOL, *command], stderr=subprocess.PIPE, timeout=60, check=False, **options)
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (2, 1), done.stderr)
            self.assertIn(b"is a terminal", done.stderr)
        os.close(leader)
        os.close(terminal)

    def test_a_reader_that_goes_away_is_an_error(self):
        with subprocess.Popen([TOOL, "cat", "--format", "tensorproto", self.large()], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            process.stdout.read(10)
            process.stdout.close()
            self.assertIn(b"Broken pipe", process.stderr.read())
            self.assertEqual(process.wait(60), 1)

    def test_an_interrupt_leaves_no_file(self):
        stream = self.cat(self.checkpoint()).stdout
        before = sorted(os.listdir(self.folder))
        for number in (signal.SIGINT, signal.SIGTERM):
            for sent in (b"", stream[:30], stream):  # and then nothing more
                with subprocess.Popen([TOOL, "save", self.path("copy")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE) as process:
                    process.stdin.write(sent)
                    process.stdin.flush()
                    while sorted(os.listdir(self.folder)) == before:  # the signal comes while it waits
                        time.sleep(0.01)
                    process.send_signal(number)
                    self.assertEqual(process.wait(60), 128 + number, process.stderr.read())
                    self.assertEqual(sorted(os.listdir(self.folder)), before)
        with subprocess.Popen([TOOL, "cat", "--format", "tensorproto", self.large()], stdout=subprocess.PIPE) as process:
            process.stdout.read(10)  # then it waits for room in the pipe
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(60), 130)

    @unittest.skipIf(sanitized(), "SKIPPED: sanitizers take the address space")
    def test_a_claim_takes_no_memory(self):
        header = struct.pack("<Q", 1 << 30)  # more than the limit below, less than the machine has
        stream = header + struct.pack("<I", masked_crc32c(header)) + bytes(20)
        limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))}
        done = subprocess.run([TOOL, "save", self.path("copy")], input=stream, capture_output=True, timeout=60, check=False,
                              **limits)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"20 are left", done.stderr)


class Refusals(Scratch):
    def test_files_that_are_no_checkpoints(self):
        for name, content in (("empty", b""), ("short", b"x" * 47), ("text", b"hello " * 100), ("zeros", bytes(4096))):
            with open(self.path(name + ".index"), "wb") as file:
                file.write(content)
            for command in (["ls"], ["show"], ["convert"]):
                operands = {"ls": [], "show": ["w"], "convert": [self.path("copy")]}[command[0]]
                with self.subTest(name=name, command=command[0]):
                    self.assert_one_line(run(*command, self.path(name), *operands), 1, name + ".index")
            self.assertEqual(run("verify", self.path(name)).returncode, 1)

    def test_what_is_no_file_does_not_block(self):
        os.mkfifo(self.path("pipe.index"))
        os.mkdir(self.path("folder.index"))
        os.symlink("loop.index", self.path("loop.index"))
        for name in ("pipe", "folder", "loop"):
            self.assert_one_line(run("ls", self.path(name)), 1, name + ".index")

    def test_a_message_that_is_none(self):
        path = self.path("x.pb")
        for content in (b"\xff\xff", b"\x08", b"\x22\xff\xff\xff\xff\x0f", bytes(range(64))):
            with open(path, "wb") as file:
                file.write(content)
            self.assert_one_line(run("ls", "--format", "tensorproto", path), 1, "x.pb")
        text = self.write("x.pbtxt", "dtype: DT_FLOAT {{{")
        self.assert_one_line(run("ls", "--format", "tensorproto-text", text), 1, "x.pbtxt", "line 1")
        long_word = self.write("long.pbtxt", "dtype: " + "x" * 1000000)
        done = run("ls", "--format", "tensorproto-text", long_word)
        self.assert_one_line(done, 1, "long.pbtxt")
        self.assertLess(len(done.stderr), 1000)
        self.assert_one_line(run("show", "--format", "tensorproto-text", text, "\x1b"), 1, "x.pbtxt")


class CommandLine(Scratch):
    def test_help_teaches(self):
        top = run("--help")
        self.assertEqual(top.returncode, 0)
        for name in ("ls", "show", "verify", "salvage", "convert", "cat", "save", "send", "recv", "serve", "demo"):
            self.assertRegex(top.stdout, rf"\n +{name} ")
            page = run(name, "--help")
            self.assertEqual(page.returncode, 0)
            self.assertRegex(page.stdout, rf"Examples?.*:\n +tensorcask {name}")

    def test_version(self):
        self.assertRegex(run("--version").stdout, r"^tensorcask \d+\.\d+\.\d+\n$")

    def test_misuse(self):
        for arguments in ([], ["nonsense"], ["ls"], ["show", "a"], ["ls", "--format", "zip", "a"], ["ls", "--sort", "x", "a"]):
            self.assert_one_line(run(*arguments), 2, "--help")

    def test_misuse_is_told_without_driving_the_terminal(self):
        for arguments in (["show", "a", "b", "\x1b[31mX"], ["ls", "--\x1b[2J"], ["ls", "--format", "\x1b", "a"]):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertNotIn("\x1b", done.stdout + done.stderr)

    @unittest.skipIf(sanitized(), "SKIPPED: sanitizers take the address space")
    def test_memory_that_cannot_be_had_is_an_error(self):
        path = self.path("large.pb")
        with open(path, "wb") as file:
            file.truncate(1 << 30)
        limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))}
        done = run("ls", "--format", "tensorproto", path, **limits)
        self.assert_one_line(done, 1, "large.pb", "no memory for 1073741824 bytes")

    def test_names_that_look_like_options(self):
        os.chdir(self.folder)
        self.addCleanup(os.chdir, "/")
        self.checkpoint("-x")
        self.assertEqual(run("ls", "--", "-x").returncode, 0)
        self.assertEqual(run("ls", "./-x").returncode, 0)

    def test_demo(self):
        scratch = self.path("tmp")
        os.mkdir(scratch)
        done = run("demo", env={"TMPDIR": scratch})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall(r"identical\n", done.stdout)), 6)
        for word in ("saved", "opened", "verified", "read", "slice 0,2:0,3"):
            self.assertIn(word, done.stdout)
        self.assertEqual(os.listdir(scratch), [])


if __name__ == "__main__":
    case_report.main("tool")
