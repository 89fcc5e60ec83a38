"""What the tests with other programs share: a scratch folder, and counts of the tensors that went each way."""

import collections
import os
import tempfile
import unittest

_carried = collections.Counter()
_findings = []


def carried(program, way, count):
    """Notes that `count` tensors arrived bit by bit: carried("TensorFlow 2.21.0", "it writes, we read", 7)."""
    _carried[program, way] += count


def carried_counts():
    return sorted(_carried.items())


def found(line):
    """A figure to print at the end, which the test does not judge."""
    _findings.append(line)


def findings():
    return list(_findings)


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def write_file(path, data):
    with open(path, "wb") as file:
        file.write(data)


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tensorcask-peers-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def assert_same(self, ours, theirs):
        """Compares {name: (dtype, shape, data)}. Names the tensors that differ, not their bytes."""
        self.assertEqual(sorted(ours), sorted(theirs))
        for name, value in ours.items():
            other = theirs[name]
            self.assertEqual(value[:2], other[:2], name)
            self.assertTrue(value[2] == other[2], f"{name}: {value[2][:40].hex()} is not {other[2][:40].hex()}")
