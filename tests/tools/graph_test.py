#!/usr/bin/env python3
"""What is not a file of tensors, or not quite: constants of graphs, records of examples, files that break rules."""

import json
import os
import struct
import sys
import unittest

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import Scratch, leb128, read, run  # noqa: E402

DATA = os.path.join(os.environ.get("TENSORCASK_TEST_DATA", "../shared/data"), "tensorflow")


def with_data(test):
    return unittest.skipUnless(os.path.isdir(DATA), "SKIPPED: no test data")(test)


def message(*fields):
    """A protobuf message of (number, bytes or int)."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += leb128(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += leb128(number << 3 | 2) + varint(len(value)) + value
    return out


def varint(number):
    return leb128(number) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def constant(name, tensor, operation="Const"):
    value = message((8, tensor)) if tensor is not None else b""
    return message((1, name), (2, operation), (5, message((1, "dtype"), (2, message((6, 1))))),
                   (5, message((1, "value"), (2, value))))


def floats(*values):
    return message((1, 1), (2, message((2, message((1, len(values)))))), (4, struct.pack(f"<{len(values)}f", *values)))


GRAPH = message((1, constant("x", None, "Placeholder")), (1, constant("scope/c", floats(1, 2.5))),
                (1, constant("scope/c", floats(3))),
                (2, message((1, message((1, message((1, "fn"))), (3, constant("c", floats(7))))))))


class Graphs(Scratch):
    def bytes_at(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def listed(self, path):
        done = run("ls", "--json", "--checksum", path)
        document = json.loads(done.stdout)
        self.assertEqual(document["format"], "graph")
        return {tensor["name"]: tensor for tensor in document["tensors"]}

    def test_the_constants_of_a_graph(self):
        path = self.bytes_at("frozen.pb", GRAPH)
        tensors = self.listed(path)
        self.assertEqual(set(tensors), {"scope/c", "scope/c#2", "fn/c"})
        self.assertEqual((tensors["scope/c"]["dtype"], tensors["scope/c"]["shape"]), ("float32", [2]))
        self.assertEqual(run("show", path, "scope/c").stdout, "float32 [2]\n[1 2.5]\n")
        self.assertEqual(run("show", "--slice", "1,1", path, "scope/c").stdout, "float32 [1]\n[2.5]\n")
        self.assertEqual(run("show", path, "fn/c").stdout, "float32 [1]\n[7]\n")
        self.assertEqual(run("verify", path).stdout, path + ": 3 tensors whole\n")
        self.assertEqual(run("convert", path, self.path("constants")).returncode, 0)
        self.assertEqual(run("show", self.path("constants"), "scope/c").stdout, "float32 [2]\n[1 2.5]\n")

    def test_a_saved_model(self):
        path = self.bytes_at("saved_model.pb", message((1, 1), (2, message((1, b"\x12\x05serve" * 2000), (2, GRAPH)))))
        self.assertEqual(set(self.listed(path)), {"scope/c", "scope/c#2", "fn/c"})
        self.assertEqual(set(self.listed(self.folder)), {"scope/c", "scope/c#2", "fn/c"})  # a folder without variables

    def test_a_checkpoint_beside_a_graph_is_what_a_folder_holds(self):
        self.bytes_at("saved_model.pb", message((1, 1), (2, message((2, GRAPH)))))
        self.checkpoint()
        os.remove(self.path("source.pbtxt"))
        self.assertEqual(json.loads(run("ls", "--json", self.folder).stdout)["format"], "checkpoint")

    def test_a_message_is_still_a_message(self):
        path = self.bytes_at("w.pb", floats(1, 2, 3))
        self.assertEqual(json.loads(run("ls", "--json", path).stdout)["format"], "tensorproto")

    def test_one_constant_that_cannot_be_read_leaves_the_others(self):
        negative = message((1, 1), (2, message((2, message((1, 2**64 - 5))))))
        short = message((1, 1), (2, message((2, message((1, 9))))), (4, b"1234"))
        path = self.bytes_at("bad.pb", message((1, constant("good", floats(1))), (1, constant("none", None)),
                                               (1, constant("negative", negative)), (1, constant("short", short))))
        done = run("ls", "--json", "--checksum", path)
        self.assertEqual(done.returncode, 1)
        tensors = self.listed(path)
        self.assertNotIn("error", tensors["good"])
        for name, says in (("none", "has no value"), ("negative", "-5"), ("short", "4 bytes")):
            self.assertIn(says, tensors[name]["error"])
            self.assert_one_line(run("show", path, name), 1, path, f'constant "{name}"', says)
        done = run("verify", path)
        self.assertIn("1 tensor whole, 3 damaged", done.stdout)

    def test_the_listed_shape_is_that_of_the_elements(self):
        def shape(*dims):
            return 2, message(*((2, message((1, dim))) for dim in dims))

        # As protobuf has it: shapes are merged, and of several dtypes the last counts.
        merged = message((1, 1), shape(2), shape(3), (4, struct.pack("<6f", *range(6))))
        large = message((1, 1), shape(1 << 20), shape(1), (5, struct.pack("<f", 1)))
        twice = message((1, 1), (1, 2), shape(1), (4, struct.pack("<d", 7)))
        unknown = message((1, 1), (2, message((2, message((1, 1))), (3, 1))), (4, struct.pack("<f", 1)))
        path = self.bytes_at("shapes.pb", message((1, constant("merged", merged)), (1, constant("large", large)),
                                                  (1, constant("twice", twice)), (1, constant("unknown", unknown))))
        tensors = self.listed(path)
        self.assertEqual(tensors["merged"]["shape"], [2, 3])
        self.assertEqual(run("show", path, "merged").stdout, "float32 [2,3]\n[[0 1 2]\n [3 4 5]]\n")
        self.assertEqual((tensors["large"]["shape"], tensors["large"]["bytes"]), ([1 << 20, 1], 4 << 20))
        self.assertEqual((tensors["twice"]["dtype"], tensors["twice"]["shape"]), ("float64", [1]))
        self.assertEqual(tensors["unknown"]["encoding"], "not readable")
        self.assertIn("unknown_rank", tensors["unknown"]["error"])

    def test_names_that_look_like_numbered_ones(self):
        nodes = [(1, constant(name, floats(value))) for value, name in enumerate(("a", "a#2", "a", "a#2", "a", "a#4"))]
        tensors = self.listed(self.bytes_at("numbered.pb", message(*nodes)))
        self.assertEqual(set(tensors), {"a", "a#2", "a#3", "a#2#2", "a#4", "a#4#2"})
        self.assertEqual(run("show", self.path("numbered.pb"), "a#3").stdout, "float32 [1]\n[2]\n")

    def test_many_constants_of_one_name(self):
        # Each name is the one before with "#2" behind it, and then comes the first again.
        chain = [(1, constant("a" + "#2" * count, None)) for count in range(3000)] + [(1, constant("a", None))] * 2
        self.assertIn("a#3", self.listed(self.bytes_at("chain.pb", message(*chain))))
        # "x" 40,000 times, after all the names that it would get.
        taken = b"".join(message((1, constant(f"x#{number}", None))) for number in range(2, 40_000))
        path = self.bytes_at("taken.pb", taken + message((1, constant("x", None))) * 40_000)
        self.assertIn("total: 79998 tensors", run("ls", path).stdout)

    def test_the_errors_of_constants_count(self):
        graph = message((1, message((1, "c"), (2, "Const")))) * 50_000
        self.assertIn("total: 50000 tensors", run("ls", self.bytes_at("short.pb", graph)).stdout)
        deep = self.path("/".join(["d" * 200] * 15))  # each error has the path
        os.makedirs(deep)
        path = self.bytes_at(deep + "/long.pb", graph)
        self.assert_one_line(run("ls", path), 1, "max_memory_beyond_input")

    def test_every_cut_and_every_changed_byte_ends_cleanly(self):
        for size in range(len(GRAPH)):
            self.assertIn(run("ls", self.bytes_at("cut.pb", GRAPH[:size])).returncode, (0, 1), size)
        for position in range(len(GRAPH)):
            changed = bytearray(GRAPH)
            changed[position] ^= 0xFF
            self.assertIn(run("ls", "--checksum", self.bytes_at("x.pb", bytes(changed))).returncode, (0, 1), position)

    def test_a_graph_cannot_be_written(self):
        self.assert_one_line(run("convert", "--to", "graph", self.checkpoint(), self.path("g")), 2, "--to")

    @with_data
    def test_every_saved_model_of_tensorflow(self):
        count = constants = 0
        for folder in sorted(os.listdir(DATA)):
            path = os.path.join(DATA, folder, "saved_model.pb")
            if not os.path.exists(path):
                continue
            with self.subTest(folder):
                tensors = self.listed(path)
                self.assertGreater(len(tensors), 0)
                constants += sum("crc32" in tensor for tensor in tensors.values())
                count += 1
        self.assertGreater(count, 9)
        self.assertGreater(constants, 100)


class Lenient(Scratch):
    def safetensors(self, name, tail=b""):
        header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
        with open(self.path(name), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1, 2) + tail)
        return self.path(name)

    def test_says_what_it_overlooked(self):
        path = self.safetensors("w.safetensors", b"\0\0\0\0")
        for command in (["ls", path], ["show", path, "w"], ["stats", path], ["diff", path, path],
                        ["convert", path, self.path("copy")]):
            self.assert_one_line(run(*command), 1, "w.safetensors", "(--lenient accepts this)")
            done = run(*command, "--lenient")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, rf"^tensorcask {command[0]}: note: .*w\.safetensors: 4 bytes behind the last tensor")
        done = run("verify", "--lenient", path)
        self.assertEqual(done.returncode, 0)
        self.assertIn("note: 4 bytes behind the last tensor\n", done.stdout)

    def test_a_file_without_a_fault_has_no_note(self):
        path = self.safetensors("w.safetensors")
        self.assertEqual(run("ls", "--lenient", path).stderr, "")

    def test_another_file_is_not_called_a_broken_one(self):
        for header in (b'{"a": 1}', b"{a:{}}", b'{ function() }', b'{"list":[]}'):
            path = self.path("config")
            with open(path, "wb") as file:
                file.write(struct.pack("<Q", len(header)) + header)
            self.assert_one_line(run("ls", path), 1, "config: no format recognizes this file")


if __name__ == "__main__":
    case_report.main("graph")
