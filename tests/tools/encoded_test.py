#!/usr/bin/env python3
"""Compressed tensors in the command line: writing, listing, reading and checking them."""

import array
import json
import os
import random
import sys

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import Scratch, leb128, read, run  # noqa: E402


class Encoded(Scratch):
    """Tensors that are stored compressed, chunk by chunk of 1 MiB, or as differences from those of a base."""

    COUNT = 600000  # int32: three chunks

    @classmethod
    def setUpClass(cls):
        numbers = random.Random(1)
        cls.before = array.array("i", (numbers.randrange(1000) for _ in range(cls.COUNT)))
        cls.after = array.array("i", cls.before)
        for _ in range(1000):
            cls.after[numbers.randrange(cls.COUNT)] += 1

    def step(self, name, values):
        """The prefix of a plain checkpoint of "bias", int8 [1], and "w" with these values."""
        dims = b"\x12\x06\x12\x04\x08" + leb128(self.COUNT)
        content = values.tobytes()
        messages = {"bias": b"\x08\x06\x12\x04\x12\x02\x08\x01\x22\x01\x07",
                    "w": b"\x08\x03" + dims + b"\x22" + leb128(len(content)) + content}
        stream = b""
        for tensor, message in messages.items():
            with open(self.path(tensor + ".pb"), "wb") as file:
                file.write(message)
            stream += read(self.convert(self.path(tensor + ".pb"), tensor + ".tfrecord", "--format", "tensorproto",
                                        "--overwrite"))
        with open(self.path("x.tfrecord"), "wb") as file:
            file.write(stream)
        return self.convert(self.path("x.tfrecord"), name)

    def convert(self, source, name, *arguments):
        done = run("convert", *arguments, source, self.path(name))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path(name)

    def list(self, *arguments):
        done = run("ls", "--json", "--checksum", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        return {tensor["name"]: tensor for tensor in document["tensors"]}, document["totals"]

    def assert_same_files(self, prefix, other):
        for suffix in (".index", ".data-00000-of-00001"):
            self.assertEqual(read(prefix + suffix), read(other + suffix), suffix)

    def test_there_and_back(self):
        plain = self.step("plain", self.before)
        tensors, totals = self.list(plain)
        values = run("show", plain, "w").stdout
        sizes = {}
        for level in ("default", "high"):
            with self.subTest(level):
                encoded = self.convert(plain, level, "--level", level)
                listed, all_of_it = self.list(encoded)
                self.assertEqual(listed["bias"]["encoding"], "plain")
                self.assertEqual(listed["w"]["encoding"], "encoded " + level)
                for key in ("dtype", "shape", "bytes", "crc32"):
                    self.assertEqual(listed["w"][key], tensors["w"][key], key)
                sizes[level] = listed["w"]["stored_bytes"]
                self.assertLess(sizes[level], 0.5 * tensors["w"]["stored_bytes"])
                self.assertEqual(all_of_it["bytes"], totals["bytes"])
                self.assertEqual(all_of_it["stored_bytes"], sizes[level] + 1)
                text = run("ls", encoded).stdout
                ratio = f"{100 * sizes[level] / (4 * self.COUNT):.1f} %"
                self.assertIn(f"encoded {level}, {ratio}\n", text)
                self.assertIn(f", stored in {sizes[level] + 1} ({ratio})\n", text)
                done = run("verify", encoded)
                self.assertEqual((done.returncode, done.stdout), (0, f"{encoded}: 2 tensors whole\n"))
                self.assertEqual(run("show", encoded, "w").stdout, values)
                self.assert_same_files(self.convert(encoded, "back" + level), plain)
                self.assert_same_files(self.convert(encoded, "stored" + level, "--level", "stored"), plain)
        self.assertLessEqual(sizes["high"], sizes["default"])

    def test_equal_tensors_count_once_in_what_is_stored(self):
        prefix = self.step("plain", self.before)
        twice = self.convert(prefix, "one.tfrecord", "--include", "w", "--rename", "w=v")
        with open(twice, "ab") as file:
            file.write(read(self.convert(prefix, "other.tfrecord", "--include", "w")))
        tensors, totals = self.list(self.convert(twice, "twice", "--level", "default"))
        self.assertEqual(tensors["v"]["offset"], tensors["w"]["offset"])
        self.assertEqual(totals["bytes"], 8 * self.COUNT)
        self.assertEqual(totals["stored_bytes"], tensors["w"]["stored_bytes"])

    def test_messages_are_encoded_too(self):
        plain = self.step("plain", self.before)
        values = run("show", plain, "w").stdout
        for name, tensor, arguments in (("m.tfrecord", "w", []), ("m.pb", "m", ["--format", "tensorproto"])):
            message = self.convert(plain, name, "--include", "w", "--level", "default")
            self.assertLess(os.path.getsize(message), 2 * self.COUNT)
            self.assertRegex(run("ls", *arguments, message).stdout, r"encoded default, \d+\.\d %")
            self.assertEqual(run("show", *arguments, message, tensor).stdout, values)

    def moved(self, prefix, folder):
        """The prefix of the checkpoint after it has moved to another folder."""
        os.makedirs(self.path(folder), exist_ok=True)
        target = os.path.join(self.path(folder), os.path.basename(prefix))
        for suffix in (".index", ".data-00000-of-00001"):
            os.rename(prefix + suffix, target + suffix)
        return target

    def test_a_delta_is_small_and_wants_its_base(self):
        base = self.moved(self.step("base", self.before), "elsewhere")
        step = self.step("step", self.after)
        whole = self.convert(step, "whole", "--level", "high")
        delta = self.convert(step, "delta", "--level", "high", "--base", base)
        tensors, totals = self.list("--base", base, delta)
        self.assertEqual(tensors["w"]["encoding"], "encoded high delta")
        self.assertLess(totals["stored_bytes"], 0.2 * self.list(whole)[1]["stored_bytes"])
        self.assertEqual(tensors["w"]["crc32"], self.list(step)[0]["w"]["crc32"])
        part = ("--slice", "300000,5")
        self.assertEqual(run("show", "--base", base, *part, delta, "w").stdout, run("show", *part, step, "w").stdout)
        done = run("verify", "--base", base, delta)
        self.assertEqual((done.returncode, done.stdout), (0, f"{delta}: 2 tensors whole\n"))
        done = run("verify", delta)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, f"{delta}: 1 tensor whole, 1 delta not checked without the base (--base PATH)\n")
        done = run("verify", "--base", step, delta)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r'^not readable: .*"w".*\n.*: 1 tensor whole, 1 not readable\n$')
        self.assert_same_files(self.convert(delta, "back", "--base", base), step)
        self.assertEqual(run("salvage", "--base", base, delta, self.path("saved")).returncode, 0)

        # Listing, and the tensors that are no deltas, need no base; the others tell what they want.
        self.assertIn("encoded high delta, ", run("ls", delta).stdout)
        self.assertEqual(run("show", delta, "bias").stdout, "int8 [1]\n[7]\n")
        for command in (["show", delta, "w"], ["ls", "--checksum", delta], ["convert", delta, self.path("no")],
                        ["cat", delta]):
            self.assert_refused(run(*command), '"w"', "delta", "no base is given", "--base PATH")
        self.assert_refused(run("show", "--base", step, delta, "w"), '"w"', "base")
        self.assert_refused(run("show", "--base", self.path("none"), delta, "w"), "none.index")
        self.assertEqual(run("salvage", delta, self.path("less")).returncode, 1)
        # What deltas are to is not overwritten, neither by them nor by what is read of them.
        before = read(base + ".index")
        for command in (["--level", "high", "--base", base, step, base], ["--base", base, delta, base]):
            self.assert_refused(run("convert", "--overwrite", *command), "base")
            self.assertEqual(read(base + ".index"), before)

    def test_a_base_in_the_same_folder_needs_no_option(self):
        base, step = self.step("ckpt-1", self.before), self.step("ckpt-2", self.after)
        delta = self.convert(step, "ckpt-3", "--level", "high", "--base", base)
        listed = self.list(delta)[0]
        self.assertEqual(listed["w"]["encoding"], "encoded high delta")
        self.assertEqual(listed["w"]["crc32"], self.list(step)[0]["w"]["crc32"])
        self.assertEqual(run("show", delta, "w").stdout, run("show", step, "w").stdout)
        done = run("verify", delta, delta + ".index")
        self.assertEqual((done.returncode, done.stdout),
                         (0, f"{delta}: 2 tensors whole\n{delta}.index: 2 tensors whole\n"))
        self.assert_same_files(self.convert(delta, "back"), step)
        self.assertEqual(run("diff", delta, step).returncode, 0)
        self.assertEqual(read(self.convert(delta, "a.tfrecord")), read(self.convert(step, "b.tfrecord")))
        self.assertEqual(run("stats", "--json", delta).returncode, 0)
        self.assertEqual(run("salvage", delta, self.path("saved")).returncode, 0)
        self.assertEqual(run("diff", self.path("saved"), step).returncode, 0)
        before = read(base + ".index")
        self.assert_refused(run("convert", "--overwrite", delta, base), base, "this call reads it")
        self.assertEqual(read(base + ".index"), before)

    def test_a_folder_of_a_run(self):
        base, step = self.step("run-ckpt-1", self.before), self.step("ckpt-3", self.after)
        folder = self.path("run")
        base = self.moved(base, "run")
        delta = self.moved(self.convert(step, "ckpt-2", "--level", "high", "--base", base), "run")
        self.assert_one_line(run("show", delta, "w"), 1, '"w"', "no base is given", "--base PATH")
        for suffix in (".index", ".data-00000-of-00001"):
            os.remove(delta + suffix)
        delta = self.convert(step, "run/ckpt-2", "--level", "high", "--base", base)
        with open(os.path.join(folder, "checkpoint"), "w") as file:
            file.write('model_checkpoint_path: "ckpt-2"\n')
        self.assertIn("encoded high delta, ", run("ls", folder).stdout)
        self.assertEqual(run("show", folder, "w").stdout, run("show", step, "w").stdout)
        done = run("verify", folder)
        self.assertEqual((done.returncode, done.stdout), (0, f"{folder}: 2 tensors whole\n"))
        done = run("convert", folder, self.path("out.npz"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(run("diff", self.path("out.npz"), step).returncode, 0)

        # A base of another content, and none.
        self.assertEqual(run("convert", "--overwrite", step, base).returncode, 0)
        for command in (["show", folder, "w"], ["convert", folder, self.path("no.npz")], ["cat", folder]):
            done = run(*command)
            self.assert_one_line(done, 1, '"w"', "its base, " + base, "hash")
        done = run("verify", folder)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r'^not readable: .*"w".*hash.*\n.*: 1 tensor whole, 1 not readable\n$')
        self.assertEqual(run("show", folder, "bias").returncode, 0)
        os.remove(base + ".index")
        for command in (["show", folder, "w"], ["convert", folder, self.path("no.npz")]):
            self.assert_one_line(run(*command), 1, '"w"', "a delta to " + base, "missing", "(--base PATH)")
        self.assertIn("encoded high delta, ", run("ls", folder).stdout)
        done = run("verify", folder)
        self.assertRegex(done.stdout, r'^not readable: .*"w".*missing.*\n.*: 1 tensor whole, 1 not readable\n$')
        self.assertFalse(os.path.exists(self.path("no.npz")))

    def test_records_can_be_deltas(self):
        base, step = self.step("base", self.before), self.step("step", self.after)
        whole = self.convert(step, "whole.tfrecord", "--level", "high")
        delta = self.convert(step, "delta.tfrecord", "--level", "high", "--base", base)
        self.assertLess(os.path.getsize(delta), 0.2 * os.path.getsize(whole))
        self.assertIn("encoded high delta", run("ls", "--base", base, delta).stdout)
        self.assertEqual(run("show", "--base", base, delta, "w").stdout, run("show", step, "w").stdout)
        self.assert_same_files(self.convert(delta, "back", "--base", base), step)
        self.assert_refused(run("show", delta, "w"), "delta", "no base is given")
        self.assert_refused(run("show", "--base", step, delta, "w"), "the hash")
        before = read(base + ".index")
        self.assert_refused(run("convert", "--overwrite", "--base", base, delta, base), base, "base")
        self.assertEqual(read(base + ".index"), before)
        for command in (["show", delta, "w"], ["show", "--base", step, delta, "w"]):
            self.assertNotIn("::", run(*command).stderr)

    def test_a_bare_message_holds_no_delta(self):
        base, step = self.step("base", self.before), self.step("step", self.after)
        for name in ("out.pb", "out.pbtxt"):
            done = run("convert", "--include", "w", "--level", "high", "--base", base, step, self.path(name))
            self.assert_one_line(done, 2, "--base with --level makes deltas", "write a checkpoint")
            self.assertFalse(os.path.exists(self.path(name)))

    def assert_refused(self, process, *pieces):
        self.assertEqual(process.returncode, 1, process.stdout)
        for piece in pieces:
            self.assertIn(piece, process.stderr)

    def test_damage_is_of_a_chunk(self):
        encoded = self.convert(self.step("plain", self.before), "encoded", "--level", "default")
        entry = self.list(encoded)[0]["w"]
        path = encoded + ".data-00000-of-00001"
        with open(path, "r+b") as file:  # the second of three chunks
            file.seek(entry["offset"] + entry["stored_bytes"] // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        done = run("verify", encoded)
        self.assertEqual(done.returncode, 1)
        damaged, total = done.stdout.splitlines()
        for piece in ("damaged: ", "encoded.data-00000-of-00001", '"w"', f"offset {entry['offset']}", "chunk 1"):
            self.assertIn(piece, damaged)
        self.assertEqual(total, f"{encoded}: 1 tensor whole, 1 damaged")
        self.assert_one_line(run("show", encoded, "w"), 1, '"w"', "chunk 1")
        self.assert_one_line(run("show", "--slice", "300000,1", encoded, "w"), 1, '"w"', "chunk 1")
        self.assertEqual(run("show", encoded, "bias").stdout, "int8 [1]\n[7]\n")
        for start in (0, self.COUNT - 2):
            values = " ".join(str(value) for value in self.before[start : start + 2])
            self.assertEqual(run("show", "--slice", f"{start},2", encoded, "w").stdout, f"int32 [2]\n[{values}]\n")

    def test_misuse(self):
        for arguments in (["--level", "best"], ["--level", "1"], ["--level"], ["--base"]):
            done = run("convert", *arguments, self.path("a"), self.path("b"))
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
        self.assert_one_line(run("convert", "--level", "best", "a", "b"), 2, "--level", "best", "default")


if __name__ == "__main__":
    case_report.main("encoded")
