#!/usr/bin/env python3
"""What a conversion changes or leaves out is said: numbers of another kind, metadata, shapes, names, strings."""

import json
import os
import struct
import subprocess
import sys
import zipfile

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from edits import parse_safetensors, safetensors  # noqa: E402
from tool_testing import TOOL, Archives, floats, run  # noqa: E402

STEP = "dtype: DT_INT64 tensor_shape {} int64_val: 46900"
FLAG = "dtype: DT_BOOL tensor_shape {} bool_val: true"
COMPLEX = "dtype: DT_COMPLEX64 tensor_shape { dim { size: 1 } } scomplex_val: [1.5, 2.5]"
STRINGS = "dtype: DT_STRING tensor_shape {{ dim {{ size: 2 }} }} string_val: ['first', '{}']"


class Kinds(Archives):
    def dtypes(self, source, *rules):
        arguments = [word for rule in rules for word in ("--dtype", rule)]
        out = self.good("convert", "--overwrite", *arguments, source, self.path("out.ckpt"))
        return {name: tensor[0] for name, tensor in self.tensors(self.path("out.ckpt")).items()}, out

    def test_a_rule_for_a_floating_dtype_takes_floating_tensors(self):
        source = self.model(tensors={"w": floats(1, 2), "step": STEP, "flag": FLAG})
        for dtype in ("bfloat16", "float64", "float8_e4m3fn", "complex64"):
            dtypes, out = self.dtypes(source, f"*={dtype}")
            self.assertEqual(dtypes, {"w": dtype, "step": "int64", "flag": "bool"})
            self.assertEqual("converted: " in out, dtype == "complex64")
        self.assertEqual(self.good("show", self.path("out.ckpt"), "step"), "int64 []\n46900\n")

    def test_a_rule_may_name_a_kind(self):
        source = self.model(tensors={"w": floats(1, 2), "step": STEP, "flag": FLAG})
        dtypes, out = self.dtypes(source, "int:*=float64")
        self.assertEqual(dtypes, {"w": "float32", "step": "float64", "flag": "bool"})
        self.assertIn('converted: ' + source + ': tensor "step" is int64 and becomes float64: its values may change\n', out)
        self.assertEqual(self.dtypes(source, "any:*=float16")[0], {"w": "float16", "step": "float16", "flag": "float16"})
        self.assertEqual(self.dtypes(source, "float:*=int8")[0], {"w": "int8", "step": "int64", "flag": "bool"})
        # The first rule that takes a tensor counts.
        dtypes, out = self.dtypes(source, "bool:*=uint8", "*=bfloat16", "*=int32")
        self.assertEqual(dtypes, {"w": "bfloat16", "step": "int32", "flag": "uint8"})
        self.assertEqual(out.count("converted: "), 2)

    def test_each_conversion_to_another_kind_is_listed(self):
        source = self.model(tensors={"w": floats(1, 2), "step": STEP, "flag": FLAG})
        for dtype, count in (("int32", 3), ("int64", 2), ("bool", 2), ("qint8", 3)):
            dtypes, out = self.dtypes(source, f"*={dtype}")
            self.assertEqual(set(dtypes.values()), {dtype})
            self.assertEqual(out.count("converted: "), count, out)
            dry = self.good("convert", "--dry-run", "--dtype", f"*={dtype}", source, self.path("none.ckpt"))
            self.assertEqual(dry.count("converted: "), count)

    def test_a_smaller_range_of_integers_is_listed(self):
        source = self.model(tensors={"step": STEP})
        out = self.dtypes(source, "*=int8")[1]
        self.assertIn('converted: ' + source + ': tensor "step" is int64 and becomes int8: its values may change\n', out)
        self.assertEqual(self.good("show", self.path("out.ckpt"), "step"), "int8 []\n127\n")

    def test_a_rule_that_takes_no_tensor_is_noted(self):
        done = run("convert", "--dtype", "step=bfloat16", self.model(tensors={"step": STEP}), self.path("out.ckpt"))
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "tensorcask convert: --dtype step=bfloat16 takes no tensor: none that it matches "
                                      "has numbers of that kind; 'any:GLOB=DTYPE' takes all\n")

    def test_imaginary_parts_are_not_dropped_without_a_word(self):
        source = self.model(tensors={"c": COMPLEX, "w": floats(1)})
        for rule in ("*=float32", "c=int8", "complex:*=bool"):
            done = run("convert", "--dtype", rule, source, self.path("out.ckpt"))
            self.assert_one_line(done, 1, '"c" is complex64; as ', "it has no imaginary parts; --allow-loss")
            out = self.good("convert", "--overwrite", "--allow-loss", "--dtype", rule, source, self.path("out.ckpt"))
            self.assertIn('lost: ' + source + ': tensor "c" is complex64', out)
        self.assertEqual(self.dtypes(source, "float:*=float16")[0], {"c": "complex64", "w": "float16"})
        self.assertEqual(self.dtypes(source, "*=complex128")[0], {"c": "complex128", "w": "complex128"})


class Metadata(Archives):
    def put(self, name, *arguments):
        with open(self.path(name), "wb") as file:
            file.write(safetensors(*arguments))
        return self.path(name)

    def metadata(self, name):
        metadata = dict(parse_safetensors(self.path(name))[0]["__metadata__"])
        metadata.pop("tensorcask.crc32c", None)
        return metadata

    def test_sources_that_disagree(self):
        first = self.put("a.safetensors", {"a": [1]}, {"step": "1", "same": "x", "format": "pt"})
        second = self.put("b.safetensors", {"b": [2]}, {"step": "2", "same": "x", "other": "y"})
        for dry in ((), ("--dry-run",)):
            done = run("convert", *dry, first, second, self.path("both.safetensors"))
            self.assert_one_line(done, 1, second + ': the metadata "step" is "2"; that of ' + first +
                                 ', "1", comes first; --allow-loss keeps the first, --set KEY=VALUE sets the value')
        self.assertFalse(os.path.exists(self.path("both.safetensors")))
        out = self.good("convert", "--allow-loss", first, second, self.path("both.safetensors"))
        self.assertIn('lost: ' + second + ': the metadata "step" is "2"', out)
        self.assertEqual(self.metadata("both.safetensors"), {"step": "1", "same": "x", "other": "y", "format": "pt"})
        out = self.good("convert", "--set", "step=2", first, second, self.path("set.safetensors"))
        self.assertNotIn("lost", out)
        self.assertEqual(self.metadata("set.safetensors"), {"step": "2", "same": "x", "other": "y", "format": "pt"})
        self.good("convert", "--unset", "step", first, second, self.path("unset.safetensors"))
        self.assertEqual(self.metadata("unset.safetensors"), {"same": "x", "other": "y", "format": "pt"})

    def test_a_key_to_remove_is_there(self):
        first = self.put("a.safetensors", {"a": [1]}, {"step": "1", "author": "x"})
        second = self.put("b.safetensors", {"b": [2]}, {"other": "y"})
        bare = self.put("c.safetensors", {"c": [3]})
        for dry in ((), ("--dry-run",)):
            for target in ("both.safetensors", "both.npz"):
                allow = () if target == "both.safetensors" else ("--allow-loss",)
                done = run("convert", *dry, *allow, "--unset", "autor", first, second, self.path(target))
                self.assert_one_line(done, 1, f'{first}, {second}: there is no metadata "autor"; did you mean "author"? '
                                              '(keys: "author", "other", "step")')
            done = run("convert", *dry, "--unset", "k", bare, self.path("both.safetensors"))
            self.assert_one_line(done, 1, f'{bare}: there is no metadata "k"; it has none')
            done = run("convert", *dry, "--set", "step=2", "--unset", "step", first, self.path("both.safetensors"))
            self.assert_one_line(done, 1, 'metadata "step" is to be both set and unset')
        self.assertFalse(os.path.exists(self.path("both.safetensors")))
        self.good("convert", "--unset", "author", "--unset", "other", bare, second, first, self.path("both.safetensors"))
        self.assertEqual(self.metadata("both.safetensors"), {"step": "1", "format": "pt"})  # which the writer adds

    def test_what_no_file_can_hold(self):
        source = self.put("a.safetensors", {"a": [1]}, {"step": "1"})
        for option, says in ((b"k=\xff", '"k": is not UTF-8'), ("tensorcask.crc32c=00", "the writer makes it")):
            for dry in ((), ("--dry-run",)):
                done = run("convert", *dry, "--set", os.fsdecode(option) if isinstance(option, bytes) else option, source,
                           self.path("b.safetensors"))
                self.assert_one_line(done, 1, "cannot set the metadata", says)
        done = run("convert", "--set", os.fsdecode(b"k=\xff"), source, self.path("b.pt"))
        self.assert_one_line(done, 1, 'cannot set the metadata "k": is not UTF-8')
        self.assertEqual(os.listdir(self.folder), ["a.safetensors"])

    def test_to_a_format_without_metadata(self):
        source = self.put("a.safetensors", {"a": [1]}, {"step": "1"})
        self.assert_one_line(run("convert", "--set", "k=v", source, self.path("a.npz")), 1, '"k" is to be set', "npz")
        self.assertNotIn("lost", self.good("convert", "--unset", "step", source, self.path("a.npz")))


class Ties(Archives):
    """Names that share their elements."""

    def tied(self):
        with open(self.path("m.safetensors"), "wb") as file:
            file.write(safetensors({"embed": [1.5, 2.5], "w": [3]}, {"format": "pt", "head": "embed", "top": "embed"}))
        return self.path("m.safetensors")

    def converted(self, target, *arguments):
        """The (name, alias_of) of the new file, and the names that the output says are copies."""
        path = self.path(target)
        dry = self.good("convert", "--dry-run", "--overwrite", *arguments, self.tied(), path)
        out = self.good("convert", "--overwrite", *arguments, self.tied(), path)
        copies = [[line for line in text.splitlines() if line.startswith("copied: ")] for text in (dry, out)]
        self.assertEqual(*copies)
        for name in ("embed", "head", "top"):
            if any(f'"{name}" shares' in line for line in copies[1]):
                self.assertEqual(self.good("show", path, name).split("\n")[1], "[1.5 2.5]")
        tensors = json.loads(self.good("ls", "--json", path))["tensors"]
        ties = {tensor["name"]: tensor["alias_of"] for tensor in tensors if tensor.get("alias_of")}
        ids = {tensor["name"]: (tensor["shard"], tensor["storage_id"]) for tensor in tensors}
        if target.endswith(".safetensors"):
            self.assertEqual(len(set(ids.values())), len(tensors) - len(ties))
        for name, stored in ties.items():
            self.assertEqual(ids[name], ids[stored])
        return ties, [line.split('"')[1] for line in copies[1]]

    def test_they_stay_tied_in_one_dtype(self):
        ties = {"head": "embed", "top": "embed"}
        for rules in ((), ("--dtype", "*=bfloat16"), ("--dtype", "w=float64"), ("--dtype", "*[dp]=float16")):
            self.assertEqual(self.converted("out.safetensors", *rules), (ties, []), rules)
        self.assertEqual(self.good("show", self.path("out.safetensors"), "top"), "float16 [2]\n[1.5 2.5]\n")
        self.assertEqual(self.converted("out.safetensors", "--exclude", "embed"), ({"top": "head"}, []))
        self.assertEqual(self.converted("out.safetensors", "--exclude", "[et]*"), ({}, []))

    def test_copies_have_a_line(self):
        self.assertEqual(self.converted("out.safetensors", "--dtype", "head=bfloat16"), ({"top": "embed"}, ["head"]))
        self.assertEqual(self.converted("out.safetensors", "--dtype", "embed=bfloat16"), ({}, ["head", "top"]))
        for target in ("out.npz", "out.ckpt", "out.tfrecord"):
            self.assertEqual(self.converted(target, "--dtype", "*=float16"), ({}, ["head", "top"]))
            self.assertEqual(self.converted(target, "--exclude", "embed"), ({}, ["top"]))
            self.assertEqual(self.converted(target, "--exclude", "[et]*"), ({}, []))


class Targets(Archives):
    """What a target refuses is refused before anything is written, or left out with a line."""

    def left_out(self, source, target, name, reason):
        path = self.path(target)
        for dry in ((), ("--dry-run",)):
            self.assert_one_line(run("convert", *dry, source, path), 1, json.dumps(name), reason, "--allow-loss leaves")
        for dry in (("--dry-run",), ()):
            out = self.good("convert", "--allow-loss", *dry, source, path)
            lost = [line for line in out.splitlines() if line.startswith("lost: ")]
            self.assertEqual(len(lost), 1, out)
            self.assertIn(reason, lost[0])
        self.assertEqual(set(self.tensors(path)), {"w"})
        os.remove(path)

    def test_more_axes_than_numpy_reads(self):
        deep = floats(3, shape=[1] * 65)
        source = self.model(tensors={"deep": deep, "w": floats(1)})
        self.left_out(source, "m.npz", "deep", "has 65 axes; NumPy reads arrays of at most 64")
        one = self.model("one.ckpt", tensors={"deep": deep})
        self.assert_one_line(run("convert", one, self.path("one.npy")), 1, "has 65 axes")
        self.good("convert", one, self.path("one.tfrecord"))
        with open(self.path("one.tfrecord"), "rb") as file:
            done = subprocess.run([TOOL, "save", self.path("s.npz")], stdin=file, capture_output=True, check=False,
                                  timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"has 65 axes", done.stderr)
        self.good("convert", self.model("most.ckpt", tensors={"most": floats(3, shape=[1] * 64)}), self.path("most.npz"))

    def test_names_of_members_of_others(self):
        for tensors in ({"a": floats(1), "a.npy": floats(2)}, {"a.npy": floats(2), "a.npy.npy": floats(1)}):
            source = self.model(tensors=tensors)
            longer, shorter = sorted(tensors, key=len, reverse=True)
            for dry in ([], ["--dry-run"]):
                done = run("convert", "--overwrite", source, self.path("m.npz"), *dry)
                self.assert_one_line(done, 1, f'NumPy takes the name "{longer}" for that of the member of tensor "{shorter}"')
            self.assertFalse(os.path.exists(self.path("m.npz")))

    def test_sizes_beside_a_zero(self):
        header = json.dumps({name: {"dtype": "F32", "shape": [size, 0], "data_offsets": [0, 0]}
                             for name, size in (("x", 2**61), ("w", 2**50))}).encode()
        with open(self.path("wide.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
        self.left_out(self.path("wide.safetensors"), "m.npz", "x", "too large for NumPy")

    def test_a_checkpoint_that_tensorflow_refuses(self):
        source = self.model(tensors={"w": floats(1, 2), "v": floats(3)})
        done = run("convert", "--dtype", "w=float8_e8m0fnu", source, self.path("m.ckpt"))
        self.assertEqual(done.returncode, 0)
        self.assertIn('m.ckpt: TensorFlow refuses this checkpoint, also its other tensors: "w" is float8_e8m0fnu, '
                      "which it lacks\n", done.stderr)

    def test_strings_that_end_in_nul(self):
        source = self.model(tensors={"s": STRINGS.format("second\\000"), "w": floats(1)})
        self.left_out(source, "m.npz", "s", "string 1 ends in a NUL byte")
        inside = self.model("inside.ckpt", tensors={"s": STRINGS.format("se\\000cond")})
        self.good("convert", inside, self.path("inside.npz"))
        with zipfile.ZipFile(self.path("inside.npz")) as file:
            self.assertIn(b"se\0cond", file.read("s.npy"))

    def test_names(self):
        # A checkpoint takes names of any bytes.
        for name, reason in (("__metadata__", "is reserved"), ("tensorcask.crc32c", "is reserved")):
            source = self.model(tensors={name: floats(2), "w": floats(1)})
            self.left_out(source, "m.safetensors", name, reason)
            os.remove(self.path("model.ckpt.index"))
            os.remove(self.path("model.ckpt.data-00000-of-00001"))

    def test_elements_that_fill_no_bytes(self):
        source = self.model(tensors={"x": floats(1, 2, 3), "w": floats(1, 2)})
        self.good("convert", "--dtype", "*=float4_e2m1", source, self.path("packed.ckpt"))
        self.left_out(self.path("packed.ckpt"), "m.safetensors", "x", "which do not fill whole bytes")


class Records(Archives):
    def test_a_file_without_records_is_refused_everywhere(self):
        empty = self.path("empty.tfrecord")
        with open(empty, "wb"):
            pass
        for arguments in (["ls", empty], ["convert", empty, self.path("m.npz")], ["convert", empty, self.path("m.ckpt")]):
            self.assert_one_line(run(*arguments), 1, "empty.tfrecord: contains no record")
        done = subprocess.run([TOOL, "save", self.path("m.npz")], input=b"", capture_output=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (1, b"tensorcask save: stdin: contains no record\n"))
        with open(self.path("none.safetensors"), "wb") as file:
            file.write(safetensors({}))
        done = run("convert", self.path("none.safetensors"), self.path("none.tfrecord"))
        self.assert_one_line(done, 1, "none.tfrecord: no tensor was added")
        self.assertFalse(os.path.exists(self.path("none.tfrecord")))


class Listed(Archives):
    def test_text_of_numpy_has_one_size(self):
        header = b"{'descr': '<U5', 'fortran_order': False, 'shape': (1000,), }"
        header += b" " * (-(len(header) + 11) % 64) + b"\n"
        array = b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + "abcde".encode("utf-32-le") * 1000
        sizes = []
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            with zipfile.ZipFile(self.path(f"{method}.npz"), "w", method) as file:
                file.writestr("s.npy", array)
            document = json.loads(self.good("ls", "--json", self.path(f"{method}.npz")))
            sizes.append((document["tensors"][0]["bytes"], document["totals"]["bytes"]))
        self.assertEqual(sizes, [(20000, 20000)] * 2)


if __name__ == "__main__":
    case_report.main("losses")
