#!/usr/bin/env python3
"""tensorcask clean: lists what killed writers left, removes it when asked, and never anything else."""

import json
import os
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import TOOL, Scratch, read, run  # noqa: E402

SUFFIX = ".tmp-0123456789abcdef"


class Cleaning(Scratch):
    def good(self, *arguments):
        done = run("clean", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def names(self):
        return sorted(os.listdir(self.folder))

    def writer(self, name="copy"):
        """A `save` that has both of its temporary files, data and index, and waits for input."""
        process = subprocess.Popen([TOOL, "save", self.path(name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.wait, 60)
        self.addCleanup(process.kill)
        for stream in (process.stdin, process.stdout, process.stderr):
            self.addCleanup(stream.close)
        deadline = time.monotonic() + 60
        while not all(any(file.startswith(f"{name}.{part}") and ".tmp-" in file for file in self.names())
                      for part in ("data", "index")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return process


class Clean(Cleaning):
    def test_what_a_killed_writer_left(self):
        process = self.writer()
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        left = self.names()
        self.assertTrue(left)
        listed = self.good(self.folder)
        self.assertEqual(self.names(), left)  # listing removes nothing
        self.assertIn("stale: its writer is gone", listed)
        self.assertIn("can be removed", listed)
        self.assertIn("--delete", listed)
        out = self.good("--delete", self.folder)
        self.assertIn("removed", out)
        self.assertEqual(self.names(), [])
        self.assertEqual(self.good(self.folder), "no temporary files\n")
        self.assertEqual(self.good("--delete", self.folder), "0 files removed, 0 B\n")

    def test_a_living_writer_keeps_its_files(self):
        message = self.write("one.pbtxt", "dtype: DT_INT8 int_val: 1")
        self.assertEqual(run("convert", message, self.path("one.tfrecord")).returncode, 0)
        process = self.writer()
        before = self.names()
        self.write("dead" + SUFFIX, "x" * 2048)
        listed = self.good(self.folder)
        self.assertIn("in use: a process writes it", listed)
        self.assertIn("1 file can be removed, 2.0 KiB; --delete removes it", listed)
        self.assertIn("1 file removed, 2.0 KiB", self.good("--delete", self.folder))
        self.assertEqual(self.names(), before)
        self.assertIn("nothing to remove", self.good(self.folder))
        out, err = process.communicate(read(self.path("one.tfrecord")), timeout=60)  # and it can still finish
        self.assertEqual(process.returncode, 0, err)
        self.assertFalse([name for name in self.names() if ".tmp-" in name])

    def test_nothing_else_is_removed(self):
        self.write("target", "x")
        os.symlink("target", self.path("link" + SUFFIX))
        os.mkdir(self.path("folder" + SUFFIX))
        os.mkfifo(self.path("pipe" + SUFFIX))
        for name in ("m.index", "m.tmp-", "m.tmp-0123456789abcde", "m.tmp-0123456789ABCDEF", "m" + SUFFIX + "0",
                     "m.tmp", "tmp-0123456789abcdef"):
            self.write(name, "x")
        before = self.names()
        listed = self.good("--delete", self.folder)
        self.assertEqual(listed.count("not a regular file: no writer made it"), 3)
        self.assertIn("0 files removed", listed)
        states = [file["state"] for file in json.loads(self.good("--json", self.folder))["files"]]
        self.assertEqual(states, ["not a regular file"] * 3)
        self.assertEqual(self.names(), before)

    def test_sizes_ages_and_json(self):
        path = self.write("m.data" + SUFFIX, "x" * 3000)
        for age, text in ((5, " s "), (600, "10 min"), (5 * 3600, "5 h"), (40 * 86400, "40 days")):
            then = time.time() - age - 2
            os.utime(path, (then, then))
            listed = self.good(self.folder)
            self.assertIn("2.9 KiB", listed)
            self.assertIn(text, listed)
        (file,) = json.loads(self.good("--json", self.folder))["files"]
        self.assertEqual((file["path"], file["size_bytes"]), (path, 3000))
        self.assertEqual((file["state"], file["removed"]), ("stale", False))
        self.assertAlmostEqual(file["age_seconds"], 40 * 86400, delta=600)
        (file,) = json.loads(self.good("--json", "--delete", self.folder))["files"]
        self.assertTrue(file["removed"])
        self.assertEqual(json.loads(self.good("--json", self.folder)), {"files": []})
        then = time.time() + 10000  # a clock that went back
        path = self.write("m.data" + SUFFIX, "")
        os.utime(path, (then, then))
        self.assertIn("0 s", self.good(self.folder))

    def test_hostile_names(self):
        for name in (b"\xff\xfe", "größe".encode(), b"\x1b[31m", b"a b\n", b"-rf", b"--delete"):
            with open(os.path.join(os.fsencode(self.folder), name + SUFFIX.encode()), "wb"):
                pass
        listed = self.good(self.folder)
        self.assertNotIn("\x1b", listed)
        self.assertIn("größe", listed)
        self.assertIn("6 files can be removed", listed)
        self.assertEqual(len(json.loads(self.good("--json", self.folder))["files"]), 6)
        self.good("--delete", self.folder)
        self.assertEqual(self.names(), [])

    def test_many_files_and_several_folders(self):
        os.mkdir(self.path("a"))
        os.mkdir(self.path("b"))
        for number in range(5000):
            self.write(f"a/{number}.index", "")
            if number % 5 == 0:
                self.write(f"a/m.tmp-{number:016x}", "12")
        self.write("b/m" + SUFFIX, "x")
        self.write("m" + SUFFIX, "x")
        self.assertIn("1001 files removed, 2.0 KiB", self.good("--delete", self.path("a"), self.path("b/")))
        self.assertEqual(len(os.listdir(self.path("a"))), 5000)
        self.assertTrue(os.path.exists(self.path("m" + SUFFIX)))  # folders above and inside are not searched

    def test_folders_that_cannot_be_listed(self):
        self.write("file", "x")
        self.write("m" + SUFFIX, "x")
        for path, piece in ((self.path("none"), "No such file"), (self.path("file"), "Not a directory")):
            done = run("clean", path)
            self.assert_one_line(done, 1, path, "cannot list the folder", piece)
        done = run("clean", "--delete", self.path("none"), self.folder)
        self.assertEqual(done.returncode, 1)  # the other folder is cleaned
        self.assertIn("1 file removed", done.stdout)
        done = run("clean")
        self.assertEqual(done.returncode, 2)

    @unittest.skipIf(os.getuid() == 0, "root may do anything")
    def test_without_permission(self):
        os.mkdir(self.path("sub"))
        self.write("sub/m" + SUFFIX, "x")
        self.addCleanup(os.chmod, self.path("sub"), 0o700)
        os.chmod(self.path("sub"), 0o500)
        done = run("clean", "--delete", self.path("sub"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("Permission denied", done.stderr)
        os.chmod(self.path("sub"), 0)
        self.assert_one_line(run("clean", self.path("sub")), 1, "Permission denied")


class Signals(Cleaning):
    """A signal that ends a command removes what it had written."""

    def test_each_signal_leaves_no_file(self):
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            process = self.writer()
            process.send_signal(number)
            self.assertEqual(process.wait(60), 128 + number)
            self.assertEqual(self.names(), [])

    def conversion(self, **options):
        """A conversion of 400 MiB that has begun to write."""
        count = 25
        size = 16 << 20
        header = {f"t{i}": {"dtype": "U8", "shape": [size], "data_offsets": [i * size, (i + 1) * size]}
                  for i in range(count)}
        text = json.dumps(header).encode()
        with open(self.path("large.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + count * size)
        process = subprocess.Popen([TOOL, "convert", self.path("large.safetensors"), self.path("copy.ckpt")],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.addCleanup(process.wait, 60)
        for stream in (process.stdout, process.stderr):
            self.addCleanup(stream.close)
        while not any(".tmp-" in name for name in self.names()) and process.poll() is None:
            time.sleep(0.002)
        return process

    def test_a_hangup_ends_a_conversion(self):
        process = self.conversion()
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(60), 128 + signal.SIGHUP)
        self.assertEqual(self.names(), ["large.safetensors"])

    def test_nohup_goes_on(self):
        process = self.conversion(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(60), 0)
        self.assertIn("copy.ckpt.index", self.names())


if __name__ == "__main__":
    case_report.main("clean")
