#!/usr/bin/env python3
"""cat and save: tensors through pipes."""

import itertools
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import (  # noqa: E402
    EXTENSION_ONLY,
    TOOL,
    Scratch,
    checkpoints,
    data_files,
    masked_crc32c,
    read,
    run,
    sanitized,
    with_data,
)


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
        path = self.write("g.pbtxt", EXTENSION_ONLY)
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

    def test_a_glob_that_is_a_name_chooses_this_name_alone(self):
        def stream(*names):
            return b"".join(self.cat(self.checkpoint(f"c{next(numbers)}", {name: "dtype: DT_INT8 int_val: 1"})).stdout
                            for name in names)

        numbers = itertools.count()

        for came, option, glob, names in (
            (["x[0]", "x0", "y"], "--include", "x[0]", ["x[0]"]),
            (["x[0]", "x0", "y"], "--exclude", "x[0]", ["x0", "y"]),
            (["x0", "x1", "y"], "--include", "x[01]", ["x0", "x1"]),
            (["x0", "x1", "y"], "--exclude", "x[01]", ["y"]),
            (["x0", "x[0]", "y"], "--include", "x\\[0]", ["x[0]"]),
            (["x0", "x[0]", "y"], "--include", "x[0]*", ["x0"]),
            (["x0", "x[0]", "y"], "--exclude", "x\\[0]", ["x0", "y"]),
            (["a\\b", "ab", "y"], "--include", "a\\b", ["a\\b"]),
        ):
            with self.subTest(came=came, option=option, glob=glob):
                done = self.save(stream(*came), option, glob, "--overwrite", self.path("few"))
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual([tensor["name"] for tensor in self.tensors(self.path("few"))], names)
                # As a file with the same tensors.
                with open(self.path("all.tfrecord"), "wb") as file:
                    file.write(stream(*came))
                self.assertEqual(run("convert", "--overwrite", option, glob, self.path("all.tfrecord"),
                                     self.path("file")).returncode, 0)
                self.assertEqual([tensor["name"] for tensor in self.tensors(self.path("file"))], names)
        for option in ("--include", "--exclude"):
            done = self.save(stream("x0", "x[0]", "y"), option, "x[0]", self.path("none"))
            self.assert_one_line(done, 2, option + ' x[0] is the name of a tensor, but has matched "x0" before',
                                 "x\\[0] matches this name alone")
            self.assertFalse(os.path.exists(self.path("none.index")))

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

    def test_the_header_of_a_record_is_enough_to_know_the_format(self):
        length = struct.pack("<Q", 8)
        with open(self.path("cut"), "wb") as file:
            file.write(length + struct.pack("<I", masked_crc32c(length)))
        self.assert_one_line(run("ls", self.path("cut")), 1, "record at 0: cut short")

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

    def test_an_empty_name_does_not_become_a_number(self):
        source = self.path("empty.npz")
        self.assertEqual(run("convert", "--rename", "w=", self.checkpoint(), source).returncode, 0)
        done = self.cat(source)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"name is empty", done.stderr)
        self.assertNotEqual(self.save(done.stdout, self.path("none.tfrecord")).returncode, 0)

    def test_terminals_are_refused(self):
        leader, terminal = os.openpty()
        for command, options in ((["cat", self.checkpoint()], {"stdout": terminal, "stdin": subprocess.DEVNULL}),
                                 (["save", self.path("copy")], {"stdin": terminal, "stdout": subprocess.DEVNULL})):
            done = subprocess.run([TOOL, *command], stderr=subprocess.PIPE, timeout=60, check=False, **options)
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (2, 1), done.stderr)
            self.assertIn(b"is a terminal", done.stderr)
        os.close(leader)
        os.close(terminal)

    def test_a_reader_that_goes_away_ends_cat_silently(self):
        with subprocess.Popen([TOOL, "cat", "--format", "tensorproto", self.large()], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            process.stdout.read(10)
            process.stdout.close()
            self.assertEqual(process.stderr.read(), b"")
            self.assertEqual(process.wait(60), 141)  # 128 + SIGPIPE

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


if __name__ == "__main__":
    case_report.main("streams")
