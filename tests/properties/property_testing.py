"""What the property tests share: rounds of random draws, a folder and what changed in it, and the tool.

    class Convert(Property):
        def test_pairs(self):
            self.each_round(200, self.one_conversion)

Round N of a test always draws the same. By hand, with many more rounds, or with some of them again:

    export TENSORCASK=bazel-bin/tools/tensorcask
    TENSORCASK_PROPERTY_ROUNDS=5000 tests/properties/convert_property_test.py
    TENSORCASK_PROPERTY_ROUNDS=417:418 tests/properties/convert_property_test.py
"""

import json
import os
import random
import re
import subprocess
import tempfile
import unittest
import zlib

from tool_testing import TOOL, read
from values import OPAQUE

ROUNDS = os.environ.get("TENSORCASK_PROPERTY_ROUNDS", "")


def rounds(default):
    first, _, end = ROUNDS.rpartition(":")
    return range(int(first or 0), int(end or default))


class Done:
    """A finished run of the tool."""

    def __init__(self, arguments, process):
        self.arguments = arguments
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    def lines(self, *beginnings):
        """The lines of both outputs that begin so."""
        lines = (self.out + b"\n" + self.err).split(b"\n")
        return [line for line in lines if line.startswith(beginnings)]

    def __str__(self):
        shown = " ".join(repr(argument)[1:] for argument in self.arguments)
        return f"tensorcask {shown[:2000]}\nexit {self.code}\n{self.out[-1500:]!r}\n{self.err[-1500:]!r}"


def run(*arguments, stdin=b""):
    arguments = [os.fsencode(str(a)) if not isinstance(a, bytes) else a for a in arguments]
    process = subprocess.run([os.fsencode(TOOL), *arguments], input=stdin, capture_output=True, timeout=120, check=False)
    return Done(arguments, process)


def snapshot(folder):
    """{path: (inode, content)} of all that lies in the folder."""
    found = {}
    for where, folders, files in os.walk(folder):
        for name in folders:
            found[os.path.relpath(os.path.join(where, name), folder)] = "folder"
        for name in files:
            path = os.path.join(where, name)
            content = os.readlink(path) if os.path.islink(path) else read(path)
            found[os.path.relpath(path, folder)] = os.lstat(path).st_ino, content
    return found


def listed_name(entry):
    """The name of an entry in JSON, as bytes."""
    return bytes.fromhex(entry["name_hex"]) if "name_hex" in entry else entry["name"].encode("utf-8", "surrogatepass")


_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})|\\([0-7]{3})|\\(.)", re.DOTALL)
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"(?:\.\.\. \((\d+) bytes\))?')


def unescaped(text):
    def one(match):
        if match[1]:
            return bytes([int(match[1], 16)])
        if match[2]:
            return bytes([int(match[2], 8)])
        return {b"n": b"\n", b"r": b"\r", b"t": b"\t"}.get(match[3], match[3])

    return _ESCAPE.sub(one, text)


def names_it(line, name):
    """True if the line has the name in quotes, whole or cut with its length."""
    for quoted, length in _QUOTED.findall(line):
        text = unescaped(quoted)
        if text == name or (length and int(length) == len(name) and name.startswith(text)):
            return True
    return False


class Property(unittest.TestCase):
    maxDiff = 2000

    def each_round(self, default, one_round):
        """Calls one_round(random) in an empty folder, self.folder, with draws of its own."""
        for number in rounds(default):
            with self.subTest(round=number), tempfile.TemporaryDirectory() as self.folder:
                one_round(random.Random(f"{self.id().split('.', 1)[1]} {number}"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def assert_clean(self, done):
        """The tool ended by itself, with an exit status of its own, and printed nothing that drives a terminal."""
        self.assertIn(done.code, (0, 1, 2), done)
        for text in (done.out, done.err):
            self.assertNotRegex(text, rb"[\x00-\x08\x0b-\x1f\x7f]", done)
            text.decode("utf-8")
        if done.code == 2 or (done.code == 1 and not done.out):
            self.assertNotEqual(done.err, b"", done)

    def assert_lists(self, path, model):
        """ls finds in a file what the model has: names, dtypes, shapes, checksums of elements, metadata."""
        done = run("ls", "--json", "--checksum", path)
        self.assert_clean(done)
        self.assertEqual(done.code, 0, done)
        document = json.loads(done.out)
        listed = {listed_name(entry): entry for entry in document["tensors"]}
        self.assertEqual(len(listed), len(document["tensors"]), done)
        self.assertEqual(set(listed), set(model.tensors), done)
        for name, item in model.tensors.items():
            entry = listed[name]
            if item.dtype == OPAQUE:
                continue
            self.assertEqual((entry["dtype"], tuple(entry["shape"])), (item.dtype, item.shape), done)
            self.assertEqual(entry["crc32"], f"{zlib.crc32(item.data):08x}", done)
            self.assertEqual((entry["device"] or "").encode(), item.device, done)
            keys = {key.decode("utf-8", "replace") for key, _ in item.attributes}
            self.assertEqual(len(entry["attributes"]), len(keys), done)
        self.assertEqual(document["totals"]["tensors"], len(model.tensors), done)
        if document["format"] == "safetensors":
            self.assertEqual(document["metadata"], model.metadata, done)

    def assert_same_files(self, before, done):
        after = snapshot(self.folder)
        self.assertEqual(sorted(after), sorted(before), done)
        for name, content in before.items():
            self.assertEqual(after[name], content, f"{name} changed\n{done}")

    def bystanders(self, names):
        for name in names:
            if not os.path.lexists(self.path(name)):
                with open(self.path(name), "wb") as file:
                    file.write(b"bystander " + os.fsencode(name))
