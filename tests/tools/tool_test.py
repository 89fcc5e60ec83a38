#!/usr/bin/env python3
"""The command line, as its users run it: listing, printing, refusals, the help, and the checkpoints of other programs."""

import hashlib
import json
import os
import re
import resource
import struct
import subprocess
import sys
import unittest
import zlib

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import (  # noqa: E402
    TENSORFLOW,
    TOOL,
    TRACED,
    Scratch,
    checkpoints,
    data_files,
    index_of,
    leb128,
    masked_crc32c,
    read,
    run,
    sanitized,
    with_data,
    with_strace,
)


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
        prefix = os.path.join(TENSORFLOW, "tf-mnist-ckpt", "model.ckpt-46900")
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
        self.assert_one_line(run("ls", prefix, "b*"), 2, "tensorcask ls: b* matches no tensor\n")

    @with_data
    def test_sort_by_size(self):
        prefix = os.path.join(TENSORFLOW, "tf-mnist-ckpt", "model.ckpt-46900")
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

    def test_a_path_that_is_no_unicode_is_exact_in_hex(self):
        prefix = self.checkpoint("m\udcfe")
        for arguments, key in ((["ls"], "path"), (["stats"], "path"), (["diff", prefix], "a"), (["diff", prefix], "b")):
            document = json.loads(run(arguments[0], "--json", *arguments[1:], prefix).stdout)
            self.assertTrue(document[key].endswith("m\ufffd"))
            self.assertEqual(bytes.fromhex(document[key + "_hex"]), os.fsencode(prefix))
        with open(prefix + ".data-00000-of-00001", "r+b") as file:
            file.write(b"x")
        (verified,) = json.loads(run("verify", "--json", prefix).stdout)["files"]
        self.assertEqual(bytes.fromhex(verified["path_hex"]), os.fsencode(prefix))
        (damage,) = verified["damage"]
        self.assertEqual(bytes.fromhex(damage["file_hex"]), os.fsencode(prefix + ".data-00000-of-00001"))

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
                    self.assert_one_line(done, 1, "has no objects: its tensors were saved by name")
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

    def test_a_closed_pipe_ends_the_tool_as_sigpipe_does(self):
        prefix = self.checkpoint()
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([TOOL, "ls", prefix], stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (141, b""))  # 128 + SIGPIPE


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

    def test_the_name_may_be_left_out_if_there_is_one_tensor(self):
        prefix = self.checkpoint()
        self.assertEqual(run("show", prefix).stdout, run("show", prefix, "w").stdout)
        self.assertEqual(run("show", "--slice", "1,1:-", prefix).stdout, "float32 [1,3]\n[[4 5 6.5]]\n")
        self.assert_one_line(run("show", prefix, ""), 1, 'no tensor ""')
        with open(self.path("two.tfrecord"), "wb") as file:
            for name in "ab":
                run("convert", "--overwrite", "--rename", "w=" + name, prefix, self.path("one.tfrecord"))
                file.write(read(self.path("one.tfrecord")))
        self.assert_one_line(run("show", self.path("two.tfrecord")), 2, "NAME is required", "2 tensors")

    def test_max(self):
        text = "dtype: DT_INT32 tensor_shape { dim { size: 9 } } int_val: [1, 2, 3, 4, 5, 6, 7, 8, 9]"
        prefix = self.checkpoint(tensors={"v": text})
        self.assertEqual(run("show", "--max", "1", prefix, "v").stdout, "int32 [9]\n[1 ... 9]\n")
        self.assertEqual(run("show", "--max", "all", prefix, "v").stdout, "int32 [9]\n[1 2 3 4 5 6 7 8 9]\n")

    def test_no_such_tensor(self):
        self.assert_one_line(run("show", self.checkpoint(), "x"), 1, '"x"', "model.ckpt")


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
        for arguments in ([], ["nonsense"], ["ls"], ["show"], ["ls", "--format", "zip", "a"], ["ls", "--sort", "x", "a"]):
            self.assert_one_line(run(*arguments), 2, "--help")

    def test_misuse_is_told_without_driving_the_terminal(self):
        # Newer versions of CLI11 take what cannot be the name of an option for an argument.
        for arguments, codes in ((["show", "a", "b", "\x1b[31mX"], (2,)), (["ls", "--\x1b[2J"], (1, 2)),
                                 (["ls", "--format", "\x1b", "a"], (2,))):
            done = run(*arguments)
            self.assertIn(done.returncode, codes, arguments)
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
