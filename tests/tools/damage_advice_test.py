#!/usr/bin/env python3
"""What the commands say about damaged tensors, and how they read elements that were changed in place."""

import json
import os
import struct
import subprocess
import sys
import time

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from bad_files import Files  # noqa: E402
from tool_testing import TOOL, is_listened_to, read, run  # noqa: E402


class Advice(Files):
    """A command that fails because of damaged tensors says what helps."""

    SALVAGE = "tensorcask salvage saves the undamaged tensors"
    IGNORE = ", --ignore-checksums reads the others as they are"

    def changed(self):
        """(path, name of the tensor whose bytes do not match its checksum) in each format."""
        for maker in (lambda: self.good("e.tfrecord"), lambda: self.good("e.npz"), lambda: self.good("e.safetensors"),
                      self.model, lambda: self.checkpoint("e"), lambda: self.good("l", "--level", "default")):
            self.setUp()
            path = maker()
            changed = [self.path(name) for name in os.listdir(self.folder)
                       if not name.endswith(".pbtxt") and struct.pack("<2f", 2, 7) in read(self.path(name))]
            self.assertEqual(len(changed), 1, path)
            self.put(changed[0], read(changed[0]).replace(struct.pack("<2f", 2, 7), struct.pack("<2f", 9, 7)))
            yield path, "1" if path.endswith(".tfrecord") else "b"

    def absent(self):
        for maker in (self.missing_shard, self.damaged_shard, self.missing_data_file):
            self.setUp()
            case = maker()
            yield case.path, case.bad
        self.setUp()
        path = self.checkpoint("k")
        self.put(path + ".data-00001-of-00003", b"\1\2")
        yield path, "b"

    def check(self, path, bad, advice, *, is_checked_first):
        other = self.tensors("other.npz", {"a": 1, bad: 2, "c": 3})
        allow = "; --allow-loss leaves the tensor out; "
        for command, piece in ((["convert", path, self.path("out.npz")], allow if is_checked_first else "; "),
                               (["cat", path], allow),
                               (["show", path, bad], "; "),
                               (["stats", path], "tensorcask stats: "),
                               (["diff", path, other], "tensorcask diff: "),
                               (["ls", "--checksum", path], "tensorcask ls: ")):
            with self.subTest(command=command):
                done = run(*command)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertTrue(done.stderr.endswith(piece + advice + "\n"), done.stderr)
                self.assertEqual(done.stderr.count("salvage"), 1)

    def test_a_wrong_checksum(self):
        for path, bad in self.changed():
            self.check(path, bad, self.SALVAGE + self.IGNORE, is_checked_first=path.endswith(".tfrecord"))

    def test_a_missing_or_damaged_file(self):
        for path, bad in self.absent():
            self.check(path, bad, self.SALVAGE, is_checked_first=len(read(path + ".data-00001-of-00003")) == 0
                       if os.path.exists(path + ".data-00001-of-00003") else True)

    def test_other_errors_have_no_advice(self):
        path = self.put(self.path("m.safetensors"), b"<!DOCTYPE html><html></html>")
        for command in (["ls", path], ["show", path, "b"], ["convert", path, self.path("out.npz")]):
            self.assertNotIn("salvage", run(*command).stderr)
        self.assertNotIn("salvage", run("show", self.good("g.npz"), "d").stderr)
        done = run("salvage", path, self.path("out.npz"))
        self.assertEqual((done.returncode, done.stderr.count("salvage")), (1, 1), done.stderr)

    def test_cat_and_convert_of_what_only_the_elements_show(self):
        for path, bad in self.changed():
            with self.subTest(path=path):
                done = subprocess.run([TOOL, "cat", "--allow-loss", path], capture_output=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr.decode(), f'^tensorcask cat: lost: .*tensor "{bad}"')
                stream = self.put(self.path("stream.tfrecord"), done.stdout)
                self.assertEqual(self.good_names(stream), ["a", "c"])
                done = run("convert", "--allow-loss", path, self.path("out.npz"))
                if bad == "b":
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertTrue(done.stderr.endswith("; " + self.SALVAGE + self.IGNORE + "\n"), done.stderr)
                    self.assertFalse(os.path.exists(self.path("out.npz")))
                else:
                    self.assertEqual(done.returncode, 0, done.stderr)

    def good_names(self, path):
        done = run("ls", "--json", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [tensor["name"] for tensor in json.loads(done.stdout)["tensors"]]

    def test_what_send_says(self):
        for options, code in (([], 1), (["--allow-loss"], 0)):
            path, _ = next(pair for pair in self.changed() if pair[0].endswith(".npz"))
            socket = self.path("socket")
            with subprocess.Popen([TOOL, "recv", "--timeout", "60", "--unix", socket, self.path("got.npz")],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as recv:
                while not is_listened_to(socket):
                    time.sleep(0.01)
                done = run("send", *options, path, "--unix", socket, "--timeout", "60")
                self.assertEqual(recv.wait(60), code)
            self.assertEqual(done.returncode, code, done.stderr)
            if code == 0:
                self.assertIn('lost: ', done.stderr)
                self.assertEqual(done.stdout, f"{path}: 2 tensors sent\n")
                self.assertEqual(self.good_names(self.path("got.npz")), ["a", "c"])
            else:
                self.assertTrue(done.stderr.endswith(self.SALVAGE + self.IGNORE + "\n"), done.stderr)


class ChangedElements(Files):
    """The bytes of "b" are changed in place: the list is whole, the checksum is not."""

    def files(self):
        for name in ("e.tfrecord", "e.npz", "e.safetensors", "e"):
            self.setUp()
            path = self.good(name)
            place = path + ".data-00000-of-00001" if name == "e" else path
            content = read(place)
            self.assertEqual(content.count(struct.pack("<2f", 2, 7)), 1, name)
            self.put(place, content.replace(struct.pack("<2f", 2, 7), struct.pack("<2f", 9, 7)))
            yield path, "1" if name == "e.tfrecord" else "b"

    def test_they_are_read_without_checksums(self):
        for path, bad in self.files():
            with self.subTest(path):
                self.assertEqual(run("show", path, bad).returncode, 1)
                done = run("show", "--ignore-checksums", path, "b")
                self.assertEqual((done.returncode, done.stdout), (0, "float32 [2]\n[9 7]\n"), done.stderr)
                for command in (["ls", "--checksum"], ["stats"]):
                    self.assertEqual(run(*command, path).returncode, 1)
                    done = run(*command, "--ignore-checksums", path)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stdout.splitlines()[2 if command[0] == "stats" else 1].split()[0], "b")
                out = self.path("out.npz")
                self.assertEqual(run("convert", path, out).returncode, 1)
                self.assertEqual(run("convert", "--ignore-checksums", path, out).returncode, 0)
                self.assertEqual(run("show", out, "b").stdout, "float32 [2]\n[9 7]\n")
                self.assertEqual(run("diff", path, out).returncode, 1)
                self.assertEqual(run("diff", "--ignore-checksums", path, out).returncode, 0)
                for code, options in ((1, []), (0, ["--ignore-checksums"])):
                    done = subprocess.run([TOOL, "cat", *options, path], capture_output=True, timeout=60, check=False)
                    self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(run("verify", path).returncode, 1)
                self.assert_one_line(run("verify", "--ignore-checksums", path), 2, "--ignore-checksums")

    def test_salvage_leaves_them_out(self):
        for path, bad in self.files():
            extension = os.path.splitext(path)[1]
            done = run("salvage", path, self.path("saved" + extension))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f'"{bad}"', done.stdout.splitlines()[0])
            self.assertIn("2 tensors saved", done.stdout)

    def test_salvage_of_a_folder(self):
        for path, bad in self.files():
            for name in os.listdir(self.folder):
                if name.endswith(".pbtxt"):
                    os.unlink(self.path(name))
            done = run("salvage", self.folder, os.path.join(self.folder, "new", "saved"))
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("2 tensors saved", done.stdout)

    def test_salvage_never_replaces_its_source(self):
        for path, _ in self.files():
            before = read(path + ".index" if os.path.exists(path + ".index") else path)
            self.assert_one_line(run("salvage", "--overwrite", path, path), 1, "is what is to be salvaged")
            self.assertEqual(before, read(path + ".index" if os.path.exists(path + ".index") else path))


if __name__ == "__main__":
    case_report.main("damage advice")
