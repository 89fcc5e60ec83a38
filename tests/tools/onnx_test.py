#!/usr/bin/env python3
"""The commands on ONNX models, their side files, and tensors in files of their own. The bytes are written here."""

import hashlib
import json
import os
import re
import struct
import sys

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import Archives, floats, read, run  # noqa: E402


def varint(value):
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def sub(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def tensor(data_type, dims, name, rest):
    return b"".join(number(1, dim) for dim in dims) + number(2, data_type) + sub(8, name) + rest


def raw(data_type, dims, name, content):
    return tensor(data_type, dims, name, sub(9, content))


def entry(key, value):
    return sub(13, sub(1, key) + sub(2, value))


def model(*tensors, graph=b"", more=b""):
    graph += b"".join(sub(5, one) for one in tensors)
    return number(1, 13) + sub(2, b"tests") + sub(7, graph) + sub(8, sub(1, b"") + number(2, 21)) + more


KERNEL = struct.pack("<6f", 1, 2, 3, 4, 5, 6.5)


class Onnx(Archives):
    def file(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def small(self):
        return self.file(
            "m.onnx",
            model(
                raw(1, (2, 3), b"dense/kernel", KERNEL),
                tensor(7, (3,), b"ids", sub(7, b"\x05\x06\x07")),
                raw(22, (3,), b"packed", b"\xf1\x02"),
                tensor(8, (2,), b"words", sub(6, b"a") + sub(6, b"bc")),
                more=sub(14, sub(1, b"author") + sub(2, b"me")),
            ),
        )

    def test_every_command_reads_a_model(self):
        path = self.small()
        listed = self.good("ls", path)
        self.assertIn("dense/kernel  float32  [2,3]", listed)
        self.assertIn("packed        int4     [3]", listed)
        document = json.loads(self.good("ls", "--json", "--checksum", path))
        self.assertEqual(document["format"], "onnx")
        self.assertEqual([one["name"] for one in document["tensors"]], ["dense/kernel", "ids", "packed", "words"])
        self.assertIn("[5 6 7]", self.good("show", path, "ids"))
        self.assertIn("[1 -1 2]", self.good("show", path, "packed"))
        self.assertIn('"bc"', self.good("show", path, "words"))
        self.assertIn("6.5", self.good("stats", path))
        self.assertIn("4 tensors", self.good("verify", path))
        self.assertEqual(run("diff", path, path).returncode, 0)

    def test_a_model_is_converted(self):
        path = self.small()
        self.good("convert", "--include", "dense/kernel", "--include", "ids", path, self.path("m.safetensors"))
        for name in ("dense/kernel", "ids"):
            self.assertEqual(self.good("show", self.path("m.safetensors"), name), self.good("show", path, name))
        metadata = json.loads(self.good("ls", "--json", self.path("m.safetensors")))["metadata"]
        self.assertEqual((metadata["author"], metadata["onnx.producer_name"]), ("me", "tests"))
        self.good("convert", "--allow-loss", path, self.path("m.ckpt"))
        self.assertEqual(self.good("show", self.path("m.ckpt"), "words"), self.good("show", path, "words"))

    def test_initializers_are_replaced_in_a_model(self):
        base, more = self.small(), sub(14, sub(1, b"author") + sub(2, b"me"))
        new = struct.pack("<6f", *range(10, 16))
        content = lambda kernel: model(  # noqa: E731
            raw(1, (2, 3), b"dense/kernel", kernel),
            tensor(7, (3,), b"ids", sub(7, b"\x05\x06\x07")),
            raw(22, (3,), b"packed", b"\xf1\x02"),
            tensor(8, (2,), b"words", sub(6, b"a") + sub(6, b"bc")),
            more=more,
        )
        self.assertEqual(read(base), content(KERNEL))
        self.file("other.onnx", model(raw(1, (2, 3), b"dense/kernel", new)))
        self.good("convert", self.path("other.onnx"), self.path("k.safetensors"))
        self.good("convert", "--replace-in", base, self.path("k.safetensors"), self.path("n.onnx"))
        self.assertEqual(read(self.path("n.onnx")), content(new))
        done = run("convert", self.path("k.safetensors"), self.path("o.onnx"))
        self.assert_one_line(done, 1, "made of another model", "--replace-in")
        self.good("convert", self.path("k.safetensors"), self.path("bad.safetensors"), "--rename", "dense/kernel=none")
        done = run("convert", "--replace-in", base, self.path("bad.safetensors"), self.path("o.onnx"))
        self.assert_one_line(done, 1, '"none" is not an initializer')
        done = run("convert", "--replace-in", base, self.path("k.safetensors"), self.path("o.npz"))
        self.assert_one_line(done, 2, "is for onnx files, not for ")
        self.assertFalse(os.path.exists(self.path("o.onnx")))
        self.good("convert", "--overwrite", "--replace-in", base, self.path("k.safetensors"), base)
        self.assertEqual(read(base), content(new))

    def test_tensors_that_stay_as_they_were_are_named(self):
        names = [b"t%d" % i for i in range(7)]
        base = self.file("base.onnx", model(*(raw(2, (2,), name, b"ab") for name in names)))
        done = run("convert", base, self.path("all.onnx"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = run("convert", "--exclude", "t3", base, self.path("n.onnx"))
        self.assertEqual(done.returncode, 0)
        self.assertIn(f'{self.path("n.onnx")}: 1 of 7 tensors is as in {base}: "t3"\n', done.stdout + done.stderr)
        self.good("convert", "--include", "t3", base, self.path("one.safetensors"))
        for dry in (["--dry-run"], []):
            done = run("convert", "--replace-in", base, self.path("one.safetensors"), self.path("m.onnx"), *dry)
            self.assertEqual(done.returncode, 0)
            self.assertIn('6 of 7 tensors are as in', done.stdout + done.stderr)
            self.assertIn('"t0", "t1", "t2", "t4", "t5", ...\n', done.stdout + done.stderr)
        self.assertEqual(read(self.path("m.onnx")), read(base))

    def test_metadata_that_a_model_cannot_get_is_named(self):
        base = self.small()
        source, target = self.path("k.safetensors"), self.path("n.onnx")
        self.good("convert", "--include", "dense/kernel", base, source)
        replace = ["convert", "--replace-in", base, source, target]
        for option, says in (
            ("onnx.model_version=7", 'cannot set the metadata "onnx.model_version": is a field of models of ONNX, and the model'),
            ("onnx.ir_version=9", '"onnx.ir_version": the model that the new one is made of has the value "13", which stays'),
            ("author=you", 'cannot set the metadata "author": the model that the new one is made of has the value "me"'),
        ):
            for dry in ([], ["--dry-run"]):
                self.assert_one_line(run(*replace, "--set", option, *dry), 1, says)
        self.assert_one_line(run(*replace, "--unset", "author"), 1, 'cannot unset the metadata "author": the model', "it stays")
        self.assertEqual(self.good(*replace, "--set", "onnx.ir_version=13", "--set", "more=text").count("lost"), 0)
        self.assertEqual(read(target), read(base) + sub(14, sub(1, b"more") + sub(2, b"text")))
        # Of a source: what differs is a loss.
        self.good("edit", "--set", "onnx.ir_version=9", "--set", "author=you", "--set", "new=n", source)
        done = run(*replace, "--overwrite")
        self.assert_one_line(done, 1, 'k.safetensors: the metadata "author": the model', '"onnx.ir_version"',
                             "--allow-loss")  # fmt: skip
        out = self.good(*replace, "--overwrite", "--allow-loss")
        self.assertEqual(len(re.findall(r"^lost: ", out, re.MULTILINE)), 2)
        self.assertEqual(read(target), read(base) + sub(14, sub(1, b"new") + sub(2, b"n")))
        # A file with one tensor has none; the fields of a model are no loss there.
        done = run("convert", "--to", "onnx", "--set", "k=v", source, self.path("kernel.pb"))
        self.assert_one_line(done, 1, 'cannot set the metadata "k": a file with one tensor of ONNX has no metadata')
        done = run("convert", "--to", "onnx", source, self.path("kernel.pb"))
        self.assert_one_line(done, 1, '"author": a file with one tensor', '"new"')
        self.assertFalse(os.path.exists(self.path("kernel.pb")))
        self.assertEqual(self.good("convert", "--allow-loss", "--to", "onnx", source, self.path("kernel.pb")).count("lost"), 2)

    def test_constants_are_replaced_too(self):
        constant = lambda content: sub(1, sub(2, b"c") + sub(4, b"Constant") + sub(  # noqa: E731
            5, sub(1, b"value") + sub(5, raw(1, (2, 3), b"", content)) + number(20, 4)))  # fmt: skip
        base = self.file("m.onnx", model(raw(2, (2,), b"w", b"ab"), graph=constant(KERNEL)))
        self.good("convert", "--constants", base, self.path("same.onnx"))
        self.assertEqual(read(self.path("same.onnx")), read(base))
        new = struct.pack("<6f", *range(10, 16))
        self.file("other.onnx", model(graph=constant(new)))
        self.good("convert", "--constants", self.path("other.onnx"), self.path("c.safetensors"))
        done = run("convert", "--replace-in", base, self.path("c.safetensors"), self.path("n.onnx"))
        self.assert_one_line(done, 1, '"c" is not an initializer')
        self.good("convert", "--constants", "--replace-in", base, self.path("c.safetensors"), self.path("n.onnx"))
        self.assertEqual(read(self.path("n.onnx")), model(raw(2, (2,), b"w", b"ab"), graph=constant(new)))
        done = run("convert", "--constants", "--rename", "c=x", "--replace-in", base, self.path("c.safetensors"),
                   self.path("o.onnx"))  # fmt: skip
        self.assert_one_line(done, 1, '"x" is not an initializer or constant')

    def test_edit(self):
        node = lambda name: sub(1, sub(1, name) + sub(2, b"y") + sub(4, b"Relu"))  # noqa: E731
        content = lambda name, *props: model(  # noqa: E731
            raw(1, (2, 3), name, KERNEL), graph=node(name), more=b"".join(sub(14, sub(1, k) + sub(2, v)) for k, v in props)
        )
        path = self.file("m.onnx", content(b"w", (b"author", b"me")))
        out = self.good("edit", "--dry-run", "--rename", "w=kernel", path)
        self.assertIn("w -> kernel\n", out)
        self.assertEqual(read(path), content(b"w", (b"author", b"me")))
        out = self.good("edit", "--rename", "w=kernel", "--set", "author=you", "--set", "k=v", path)
        self.assertIn("1 tensor renamed, 2 entries of metadata changed; wrote ", out)
        self.assertEqual(read(path), content(b"kernel", (b"author", b"you"), (b"k", b"v")))
        self.good("edit", "--unset", "k", "-o", self.path("n.onnx"), path)
        self.assertEqual(read(self.path("n.onnx")), content(b"kernel", (b"author", b"you")))
        for arguments, says in (
            (["--rename", "kernel=y"], 'another value of the model is called "y", at byte '),
            (["--remove", "kernel"], '"kernel" is not removed: a node at byte '),
            (["--set", "onnx.ir_version=3"], '"onnx.ir_version" is a field of the model'),
            (["--unset", "none"], 'there is no metadata "none"'),
        ):
            before = read(path)
            self.assert_one_line(run("edit", *arguments, path), 1, path, says)
            self.assertEqual(read(path), before)
        tensor_file = self.file("t.pb", raw(1, (2, 3), b"w", KERNEL))
        self.assert_one_line(run("edit", "--rename", "w=v", tensor_file), 1, "is not an ONNX model", "is not edited")

    def test_elements_move_to_a_side_file_and_back(self):
        big = bytes(range(256)) * 8
        path = self.file("m.onnx", model(raw(2, (2048,), b"big", big), raw(2, (1,), b"small", b"x")))
        self.good("convert", "--external", path, self.path("s.onnx"))
        self.assertEqual(read(self.path("s.onnx.data")), big)
        self.assertLess(os.path.getsize(self.path("s.onnx")), 300)
        self.good("convert", "--external=named.bin", self.path("s.onnx"), self.path("t.onnx"))
        self.assertEqual(read(self.path("named.bin")), big)
        self.good("verify", self.path("t.onnx"))
        self.good("convert", self.path("t.onnx"), self.path("u.onnx"))
        self.assertEqual(read(self.path("u.onnx")), read(path))
        done = run("convert", "--external=../out.bin", path, self.path("v.onnx"))
        self.assert_one_line(done, 1, "side file")
        self.assertEqual(sorted(os.listdir(self.folder)), ["m.onnx", "named.bin", "s.onnx", "s.onnx.data", "t.onnx", "u.onnx"])

    def test_a_tensor_in_a_file_of_its_own_is_written(self):
        path = self.file("m.onnx", model(raw(1, (2, 3), b"w", KERNEL), raw(2, (1,), b"small", b"x")))
        self.good("convert", "--to", "onnx", "--include", "w", path, self.path("w.pb"))
        self.assertEqual(read(self.path("w.pb")), raw(1, (2, 3), b"w", KERNEL))
        done = run("convert", "--to", "onnx", path, self.path("two.pb"))
        self.assert_one_line(done, 1, "exactly one tensor, 2")

    def test_the_extension_pb_is_of_two_messages(self):
        ours = self.file("ours.pb", raw(1, (2, 3), b"x", KERNEL))
        self.assertIn("x  float32  [2,3]", self.good("ls", ours))
        theirs = self.path("theirs.pb")
        self.good("convert", self.write("t.pbtxt", floats(1, 2, 3)), theirs)
        self.assertEqual(json.loads(self.good("ls", "--json", theirs))["format"], "tensorproto")
        self.assertEqual(json.loads(self.good("ls", "--json", ours))["format"], "onnx")

    def test_side_files(self):
        external = tensor(1, (2, 3), b"w", entry(b"location", b"m.bin") + entry(b"offset", b"8") + number(14, 1))
        path = self.file("m.onnx", model(external, raw(2, (1,), b"b", b"x")))
        done = run("verify", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn(self.path("m.bin"), done.stdout + done.stderr)
        self.assertIn("w  float32  [2,3]", self.good("ls", path))
        self.assert_one_line(run("show", path, "w"), 1, 'tensor "w"', self.path("m.bin"))
        self.assertIn("120", self.good("show", path, "b"))
        self.file("m.bin", bytes(8) + KERNEL)
        self.assertIn("6.5", self.good("show", path, "w"))
        self.good("verify", path)
        again = tensor(1, (2, 3), b"tied", entry(b"location", b"m.bin") + entry(b"offset", b"8") + number(14, 1))
        tied = self.file("tied.onnx", model(external, raw(2, (1,), b"b", b"x"), again))
        ids = {one["name"]: one["storage_id"] for one in json.loads(self.good("ls", "--json", tied))["tensors"]}
        self.assertEqual(ids["w"], ids["tied"])
        self.assertNotEqual(ids["w"], ids["b"])
        self.good("convert", "--allow-loss", path, self.path("m.npz"))
        self.assertIn("6.5", self.good("show", self.path("m.npz"), "w"))
        # The file itself is never a target.
        self.assertEqual(run("convert", "--overwrite", "--include", "b", "--to", "npy", path, self.path("m.bin")).returncode, 1)
        self.assertEqual(os.path.getsize(self.path("m.bin")), 32)

    def test_the_checksum_of_a_side_file(self):
        content = bytes(8) + KERNEL
        self.file("m.bin", content)

        def of(digits):
            entries = entry(b"location", b"m.bin") + entry(b"offset", b"8") + entry(b"checksum", digits.encode())
            return self.file("m.onnx", model(tensor(1, (2, 3), b"w", entries + number(14, 1))))

        self.good("verify", of(hashlib.sha1(content).hexdigest()))
        done = run("verify", of("0" * 40))
        self.assertEqual(done.returncode, 1)
        self.assertIn("SHA-1", done.stdout + done.stderr)

    def test_constants_and_links(self):
        node = sub(2, b"shape") + sub(4, b"Constant") + sub(5, sub(1, b"value") + sub(5, raw(2, (1,), b"", b"x")))
        external = tensor(1, (2, 3), b"w", entry(b"location", b"m.bin") + number(14, 1))
        path = self.file("m.onnx", model(external, graph=sub(1, node)))
        self.assertNotIn("shape", self.good("ls", path))
        self.assertIn("shape  uint8", self.good("ls", "--constants", path))
        self.assertIn("120", self.good("show", "--constants", path, "shape"))
        self.file("data", KERNEL)
        os.symlink("data", self.path("m.bin"))
        self.assertIn("6.5", self.good("show", path, "w"))
        self.assert_one_line(run("show", "--no-links", path, "w"), 1, "m.bin: is a link")

    def test_no_name_leaves_the_folder(self):
        secret = self.file("secret", KERNEL)
        for location in (b"../secret", secret.encode(), b"x/../../secret", b"secret\0.bin", b"link"):
            path = self.file(
                "in/m.onnx", model(tensor(1, (2, 3), b"w", entry(b"location", location) + number(14, 1)))
            )
            if not os.path.lexists(self.path("in/link")):
                os.symlink("../secret", self.path("in/link"))
            for command in (["show", path, "w"], ["convert", path, self.path("out.npz")], ["stats", path]):
                done = run(*command)
                self.assertEqual(done.returncode, 1, (location, done.stdout))
                self.assertNotIn("6.5", done.stdout)
            self.assertIn("w  float32  [2,3]", self.good("ls", path))


if __name__ == "__main__":
    case_report.main("tool_onnx")
