#!/usr/bin/env python3
"""Whatever a command writes with exit 0, `verify` accepts: commands times awkward inputs."""

import functools
import itertools
import os
import resource
import struct
import subprocess
import sys
import unittest

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import TOOL, Scratch, masked_crc32c, run, sanitized  # noqa: E402


def varint(number):
    encoded = b""
    while number >= 128:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])


def field(number, content):
    """A field of a message: bytes with a length, or a number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def message(dtype, dims, content, name=b"", extension=b""):
    """A TensorProto."""
    shape = b"".join(field(2, field(1, dim)) for dim in dims)
    extension = (field(1, name) if name else b"") + extension
    return field(1, dtype) + field(2, shape) + content + (field(4096, extension) if extension else b"")


def floats(name=b"", dims=(2,), extension=b""):
    count = 1
    for dim in dims:
        count *= dim
    return message(1, dims, field(4, struct.pack(f"<{count}f", *range(count))), name, extension)


@functools.lru_cache(maxsize=None)  # the checksum takes a second for some
def record(data):
    header = struct.pack("<Q", len(data))
    return header + struct.pack("<I", masked_crc32c(header)) + data + struct.pack("<I", masked_crc32c(data))


ATTRIBUTE = field(9, field(1, b"unit") + field(2, b"\xff\0m"))

# What an input holds: messages of tensors.
INPUTS = {
    "one": [floats(b"w")],
    "two of one name": [floats(b"w"), floats(b"v"), floats(b"w")],
    "no names": [floats(), floats()],
    "a name that is a number": [floats(), floats(b"0")],
    "a number that is a name": [floats(b"1"), floats()],
    "a name that is not UTF-8": [floats(b"\xff\xfe")],
    "a name with controls": [floats(b"a\n\x1b[2J")],
    "a name that starts with NUL": [floats(b"\0w")],
    "a name with NUL": [floats(b"w\0")],
    "a long name": [floats(b"n" * 65536)],
    "a name that is too long": [floats(b"n" * 65537)],
    "a name like a path": [floats(b"../../w")],
    "nothing in it": [message(1, (0, 3), b"", b"w")],
    "a scalar": [floats(b"w", ())],
    "rank 254": [floats(b"w", (1,) * 254)],
    "strings": [message(7, (2,), field(8, b"") + field(8, b"\xff" * 300), b"w")],
    "many strings": [message(7, (5000,), field(8, b"again") * 5000, b"w")],
    "bools": [message(10, (3,), field(4, b"\0\1\0"), b"w")],
    "bools that are no bools": [message(10, (3,), field(4, b"\0\2\xff"), b"w")],
    "a variant": [message(21, (), field(15, field(1, b"T") + field(2, b"\xff") + field(3, floats())), b"w")],
    "a resource": [message(20, (), field(14, field(3, b"r")), b"w")],
    "one value for all": [message(1, (100_000,), varint(5 << 3 | 2) + b"\4" + struct.pack("<f", 7), b"w")],
    "metadata": [floats(b"w", (2,), field(2, b"cuda:0") + ATTRIBUTE)],
    "attributes twice": [floats(b"w", (2,), ATTRIBUTE + ATTRIBUTE)],
    "column by column": [message(0, (2, 3), field(4, bytes(range(24))), b"w", field(3, 1) + field(4, b"\1\2"))[2:]],
    "large": [floats(b"a", (20_000,)), message(1, (20_000,), field(4, bytes(80_000)), b"b")],
    "equal ones": [message(1, (20_000,), field(4, bytes(80_000)), name) for name in (b"a", b"b", b"c")],
}

# How the output is named, and what verify needs to know of it.
OUTPUTS = {"out.ckpt": [], "out.tfrecord": [], "out.pb": ["--format", "tensorproto"],
           "out.pbtxt": ["--format", "tensorproto-text"]}
LEVELS = ([], ["--level", "default"])


class WrittenVerifies(Scratch):
    def assert_verifies(self, output):
        done = run("verify", *OUTPUTS[output], self.path(output))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = run("ls", "--json", *OUTPUTS[output], self.path(output))
        self.assertEqual(done.returncode, 0, done.stderr)

    def command(self, *arguments, stream=b""):
        done = subprocess.run([TOOL, *arguments], input=stream, capture_output=True, timeout=60, check=False)
        self.assertIn(done.returncode, (0, 1, 2), done.stderr)
        self.assertEqual(done.stderr.count(b"\n"), 0 if done.returncode == 0 else 1, done.stderr)
        return done

    def clear(self):
        for name in os.listdir(self.folder):
            os.remove(self.path(name))

    def test_save(self):
        written = 0
        for (name, messages), output, level in itertools.product(INPUTS.items(), OUTPUTS, LEVELS):
            with self.subTest(input=name, output=output, level=level):
                self.clear()
                if self.command("save", *level, self.path(output), stream=b"".join(map(record, messages))).returncode == 0:
                    written += 1
                    self.assert_verifies(output)
                else:
                    self.assertEqual(os.listdir(self.folder), [])
        self.assertGreater(written, 100)

    def test_convert(self):
        written = 0
        renames = ([], ["--rename", "w=v"], ["--rename", "a=b"], ["--rename", "w=0"], ["--rename", "w="])
        for (name, messages), source, output, rename in itertools.product(
                INPUTS.items(), ("in.tfrecord", "in.ckpt"), ("out.ckpt", "out.tfrecord"), renames):
            renamed = rename[1].split("=")[0].encode() if rename else None
            if renamed and not any(field(1, renamed) in data for data in messages):
                continue
            with self.subTest(input=name, source=source, output=output, rename=rename):
                self.clear()
                stream = b"".join(map(record, messages))
                if source == "in.tfrecord":
                    with open(self.path(source), "wb") as file:
                        file.write(stream)
                elif self.command("save", self.path(source), stream=stream).returncode != 0:
                    continue
                if self.command("convert", "--level", "default", *rename, self.path(source), self.path(output)).returncode == 0:
                    written += 1
                    self.assert_verifies(output)
        self.assertGreater(written, 60)

    def test_cat(self):
        for name, messages in INPUTS.items():
            with self.subTest(input=name):
                self.clear()
                with open(self.path("in.tfrecord"), "wb") as file:
                    file.write(b"".join(map(record, messages)))
                done = self.command("cat", self.path("in.tfrecord"))
                if done.returncode != 0:
                    continue
                with open(self.path("out.tfrecord"), "wb") as file:
                    file.write(done.stdout)
                self.assert_verifies("out.tfrecord")

    def test_two_tensors_of_one_name_are_refused(self):
        stream = b"".join(map(record, INPUTS["two of one name"]))
        for output in ("out.tfrecord", "out.ckpt"):
            done = self.command("save", self.path(output), stream=stream)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b'tensor "w" was added before', done.stderr)
            self.assertEqual(os.listdir(self.folder), [])


class Limits(Scratch):
    """Claims of records in a stream that does not end are refused before their bytes are read."""

    def save_endless(self, claim, *arguments):
        """Feeds a record that claims `claim` bytes until the tool ends, at most 256 MiB: exit status, stderr, bytes."""
        header = struct.pack("<Q", claim)
        process = subprocess.Popen([TOOL, "save", *arguments, self.path("copy")], stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        fed = 0
        try:
            process.stdin.write(header + struct.pack("<I", masked_crc32c(header)))
            while fed < 256 << 20:
                process.stdin.write(bytes(1 << 20))
                fed += 1 << 20
        except BrokenPipeError:
            pass
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        stderr = process.stderr.read().decode()
        process.stderr.close()
        return process.wait(60), stderr, fed

    def test_more_than_the_machine_holds_is_refused_at_once(self):
        for claim in (1 << 62, (1 << 64) - 1, 1 << 50):
            status, stderr, fed = self.save_endless(claim)
            self.assertEqual(status, 1)
            self.assertIn(f"{claim} bytes; the limit is", stderr)
            self.assertLess(fed, 2 << 20)

    def test_limit_is_refused_at_once(self):
        status, stderr, fed = self.save_endless(200 << 20, "--limit", str(100 << 20))
        self.assertEqual(status, 1)
        self.assertIn(f"{200 << 20} bytes; the limit is {100 << 20}", stderr)
        self.assertLess(fed, 2 << 20)

    @unittest.skipIf(sanitized(), "SKIPPED: sanitizers need more memory")
    def test_memory_is_bounded(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.save_endless(1 << 62, "--limit", str(8 << 20))
        self.assertLess(max(0, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - before), 100 << 10)

    def test_limit_counts_all_records(self):
        one = record(floats(b"a", (1000,)))
        two = one + record(floats(b"b", (1000,)))
        data = len(one) - 16
        for limit, code in ((2 * data, 0), (2 * data - 1, 1), (data, 1), (1, 1)):
            done = subprocess.run([TOOL, "save", "--overwrite", "--limit", str(limit), self.path("out.ckpt")], input=two,
                                  capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            if limit > data and code:
                self.assertIn(b"the limit for all is", done.stderr)

    def test_limit_is_that_of_every_command_that_reads_stdin(self):
        one = record(floats(b"a", (1000,)))
        two = one + record(floats(b"b", (1000,)))
        data = len(one) - 16
        self.assertEqual(subprocess.run([TOOL, "save", self.path("two.ckpt")], input=two, check=False,
                                        capture_output=True, timeout=60).returncode, 0)
        for command in (["ls"], ["verify"], ["stats"], ["show"], ["cat"], ["diff", self.path("two.ckpt")],
                        ["convert", "--overwrite"]):
            behind = {"convert": [self.path("out.ckpt")], "show": ["a"]}.get(command[0], [])
            for limit, is_enough in ((2 * data, True), (2 * data - 1, False), (1, False)):
                with self.subTest(command=command, limit=limit):
                    done = subprocess.run([TOOL, *command, "--limit", str(limit), "-", *behind], input=two,
                                          capture_output=True, timeout=60, check=False)
                    self.assertEqual(done.returncode, 0 if is_enough else 1, done.stderr + done.stdout)
                    self.assertEqual(is_enough, b"the limit" not in done.stderr, done.stderr)

    def test_a_limit_that_does_not_parse_is_misuse(self):
        for limit in ("0", "-1", "x", "1.5", "99999999999999999999"):
            self.assertEqual(run("save", "--limit", limit, self.path("x")).returncode, 2)


if __name__ == "__main__":
    case_report.main("written_verifies")
