#!/usr/bin/env python3
"""convert from checkpoints and messages: bytes, metadata, strides, refusals."""

import json
import os
import signal
import struct
import subprocess
import sys
import zlib

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import (  # noqa: E402
    EXTENSION_ONLY,
    TENSORFLOW,
    TOOL,
    TRACED,
    Scratch,
    checkpoints,
    data_files,
    formats,
    leb128,
    masked_crc32c,
    read,
    run,
    with_data,
    with_strace,
)


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

    @with_data
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

    def test_a_record_holds_one_name(self):
        source = self.write("w.pbtxt", "dtype: DT_INT8 int_val: 1 extension { name: 'own' device: 'cuda:0' }")
        for dry in ([], ["--dry-run"]):
            done = run("convert", *dry, source, self.path("copy.tfrecord"))
            self.assert_one_line(done, 1, 'tensor "w"', '"own"', "a records file holds one name", "--allow-loss")
        done = run("convert", "--allow-loss", source, self.path("copy.tfrecord"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('lost: ', done.stdout)
        self.assertIn('"own"', done.stdout)
        (tensor,) = json.loads(run("ls", "--json", self.path("copy.tfrecord")).stdout)["tensors"]
        self.assertEqual((tensor["name"], tensor["device"]), ("w", "cuda:0"))

    def test_text_keeps_every_bit_of_a_nan(self):
        content = b"\x01\x00\xc0\x7f\x00\x00\xc0\xff\x00\x00\xc0\x7f\x00\x00\x80\x3f"  # a payload, a sign, neither; 1
        for dtype, shape in (("DT_FLOAT", 4), ("DT_COMPLEX64", 2), ("DT_DOUBLE", 2)):
            data = content if dtype != "DT_DOUBLE" else b"\1" + bytes(5) + b"\xf8\x7f" + bytes(6) + b"\xf0\x3f"
            escaped = "".join(f"\\{byte:03o}" for byte in data)
            source = self.write("w.pbtxt", f"dtype: {dtype} tensor_shape {{ dim {{ size: {shape} }} }} tensor_content: '{escaped}'")
            for name in (f"{dtype}.pbtxt", dtype):
                done = run("convert", source, self.path(name))
                self.assertEqual(done.returncode, 0, done.stderr)
                source = self.path(name)
            self.assertEqual(read(self.path(dtype + ".data-00000-of-00001"))[: len(data)], data)
        self.assertEqual(run("convert", self.write("v.pbtxt", "dtype: DT_FLOAT float_val: nan"), self.path("n.pbtxt")).returncode, 0)
        self.assertIn("float_val: nan", read(self.path("n.pbtxt")).decode())

    @with_data
    def test_choosing_and_renaming(self):
        prefix = os.path.join(TENSORFLOW, "tf-mnist-ckpt", "model.ckpt-46900")
        done = run("convert", "--include", "conv2d/*", "--exclude", "*Adam*", "--rename", "conv2d/bias=b", prefix,
                   self.path("few"))
        self.assertEqual(done.returncode, 0, done.stderr)
        names = [t["name"] for t in json.loads(run("ls", "--json", self.path("few")).stdout)["tensors"]]
        self.assertEqual(names, ["b", "conv2d/kernel"])

    def test_slots_of_an_optimizer_are_left_out(self):
        row = "dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: 1"
        old = self.checkpoint("old", {"w": row, "w/Adam": row, "w/Adam_1": row, "Adam": row, "step": "dtype: DT_INT64 int64_val: 3"})
        done = run("convert", "--exclude-slots", old, self.path("slim.npz"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = [t["name"] for t in json.loads(run("ls", "--json", self.path("slim.npz")).stdout)["tensors"]]
        self.assertEqual(names, ["Adam", "step", "w"])
        # One tensor is left for a format that holds one.
        done = run("convert", "--exclude-slots", "--include", "w*", old, self.path("w.npy"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = run("convert", "--exclude-slots", "--include", "w/*", old, self.path("none"))
        self.assert_one_line(done, 2, "no tensor is left to write: --exclude-slots leaves out all tensors")
        done = run("convert", "--exclude-slots", self.path("slim.npz"), self.path("x.npz"))
        self.assert_one_line(done, 1, "slim.npz: the format npz does not say which tensors are slots of an optimizer")

    def test_a_file_that_exists_is_kept_in_every_format(self):
        old = self.checkpoint()
        names = [("copy" if "" in extensions else "x" + extensions[0], ())
                 for _, extensions, written, _, _ in formats() if written == "yes"]  # fmt: skip
        self.assertGreater(len(names), 8)
        for name, to in [*names, ("x.onnx.pb", ("--to", "onnx"))]:
            done = run("convert", *to, old, self.path(name))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            done = run("convert", *to, old, self.path(name))
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "exists already; --overwrite replaces it\n$")
            done = run("convert", "--overwrite", *to, old, self.path(name))
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    @with_data
    def test_slots_of_an_object_graph_are_left_out(self):
        prefix = os.path.join(TENSORFLOW, "tf-optimizer-slot", "variables")
        done = run("convert", "--exclude-slots", prefix, self.path("slim"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = [t["name"] for t in json.loads(run("ls", "--json", self.path("slim")).stdout)["tensors"]]
        self.assertEqual(len(names), 7)
        self.assertFalse([name for name in names if ".OPTIMIZER_SLOT" in name])
        self.assertNotIn(" of v", run("ls", "--tree", self.path("slim")).stdout)

    @with_data
    def test_a_message_holds_one_tensor(self):
        prefix = os.path.join(TENSORFLOW, "tf-mnist-ckpt", "model.ckpt-46900")
        self.assert_one_line(run("convert", prefix, self.path("x.pb")), 2, "exactly one tensor")
        done = run("convert", "--include", "none", prefix, self.path("x.pb"))
        self.assert_one_line(done, 2, "--include none matches no tensor")
        self.assert_one_line(run("convert", "--exclude", "*", prefix, self.path("x.pb")), 2, "0 remain")
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

    def test_attributes_whose_keys_are_the_same_in_json(self):
        extension = b""
        for key, value in ((b"a", b"1"), (b"\xfe", b"2"), (b"\xff", b"3")):
            attribute = b"\x0a" + leb128(len(key)) + key + b"\x12" + leb128(len(value)) + value
            extension += b"\x4a" + leb128(len(attribute)) + attribute
        (tensor,) = json.loads(run("ls", "--json", self.tagged(extension)).stdout)["tensors"]
        self.assertEqual(tensor["attributes"], {"a": "1", "\ufffd": "3"})

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
        path = self.write("g.pbtxt", EXTENSION_ONLY)
        values = run("show", "--format", "tensorproto-text", path, "g").stdout
        self.assertEqual(values, "int8 [2,3]\n[[1 3 5]\n [2 4 6]]\n")
        for name in ("c", "g.pb", "again.pbtxt"):
            done = run("convert", "--format", "tensorproto-text", path, self.path(name))
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read(self.path("c.data-00000-of-00001"))[:6], b"\1\2\3\4\5\6")
        self.assertEqual(run("show", self.path("c"), "g").stdout, values)
        (tensor,) = json.loads(run("ls", "--json", "--checksum", self.path("c")).stdout)["tensors"]
        self.assertEqual((tensor["encoding"], tensor["strides"]), ("extension-only", [1, 2]))
        self.assertEqual(tensor["crc32"], f"{zlib.crc32(bytes([1, 3, 5, 2, 4, 6])):08x}")
        self.assertIn("extension-only, strides [1,2]", run("ls", self.path("c")).stdout)
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
        prefix = os.path.join(TENSORFLOW, "tf-mnist-ckpt", "model.ckpt-46900")
        done = run("convert", "--rename", "conv2d/bias=conv2d/kernel", prefix, self.path("copy"))
        self.assert_one_line(done, 1, '"conv2d/kernel": two tensors would have this name')
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
        interrupted = 0
        # strace counts each system call by itself, and a second signal ends the program at once: so one call in each run.
        calls = [(syscall, call) for syscall, most in (("openat", 18), ("read", 5), ("pread64", 10), ("write", 6),
                                                       ("fsync", 4)) for call in range(1, most + 1)]  # fmt: skip
        for syscall, call in calls:
            name, number = (("INT", signal.SIGINT), ("TERM", signal.SIGTERM))[call % 2]
            command = ["strace", "-f", "-o", "/dev/null", "-e", f"inject={syscall}:signal={name}:when={call}", TOOL,
                       "convert", prefix, self.path("copy")]
            done = subprocess.run(command, capture_output=True, timeout=60, check=False, env=TRACED)
            names = sorted(os.listdir(self.folder))
            if names == before:
                self.assertIn(done.returncode, (128 + number, -number), done.stderr)
                interrupted += 1
            else:  # too late: whole
                self.assertEqual(run("verify", self.path("copy")).returncode, 0, names)
                for name in set(names) - set(before):
                    os.remove(self.path(name))
        self.assertGreater(interrupted, 3)

    def test_options_that_do_not_parse_are_misuse(self):
        for arguments in (["--alignment", "0"], ["--alignment", "x"], ["--to", "zip"], ["--nonsense"], ["--rename"]):
            done = run("convert", *arguments, "a", "b")
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(done.stdout, "")
            self.assertNotEqual(done.stderr, "")


if __name__ == "__main__":
    case_report.main("convert")
