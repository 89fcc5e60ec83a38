#!/usr/bin/env python3
"""Files of one tensor that is called as its file, and the two forms of a safetensors model."""

import filecmp
import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import TOOL, Archives, floats, run  # noqa: E402


def npy(*values, descr="<f4", form="f"):
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': ({len(values)},), }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}{form}", *values)


class FilesWithoutNames(Archives):
    def put(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def test_two_are_compared_whatever_they_are_called(self):
        a, b = self.put("a.npy", npy(1, 2, 3)), self.put("b.npy", npy(1, 2, 4))
        same = self.put("same.npy", npy(1, 2, 3))
        self.assertEqual(self.good("diff", a, same), "1 tensor equal, 0 different\n")
        done = run("diff", a, b)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a: 1 of 3 elements differ, at most by 1 (relative 0.25) at [2]: 3, 4\n", done.stdout)
        self.good("convert", a, self.path("m.pb"))
        self.assertEqual(self.good("diff", self.path("m.pb"), same), "1 tensor equal, 0 different\n")

    def test_one_is_compared_with_the_tensor_that_is_chosen(self):
        prefix = self.model(tensors={"w": floats(1, 2, 3), "v": floats(1, 2, 3, 4)})
        a = self.put("a.npy", npy(1, 2, 3))
        self.assertEqual(self.good("diff", a, prefix, "w"), "1 tensor equal, 0 different\n")
        done = run("diff", prefix, a, "v")
        self.assertEqual(done.returncode, 1)
        self.assertIn("v: shape differs: float32 [4], float32 [3]\n", done.stdout)
        done = run("diff", a, prefix)
        self.assertEqual(done.stdout.splitlines()[-1], "0 tensors equal, 3 different")
        v = self.put("v.npy", npy(1, 2, 3))
        self.assertEqual(self.good("diff", v, prefix, "w"), "1 tensor equal, 0 different\n")  # though it has a v

    def test_show_prints_a_large_array_as_it_prints_its_ends(self):
        # Of an array that is read in blocks, and of the same elements around a shorter middle.
        for rows, columns in ((1200, 1800), (2_200_000, 1)):
            shown = []
            for how, keep in ((zipfile.ZIP_DEFLATED, None), (zipfile.ZIP_STORED, 10)):
                def ends(size, keep=keep):
                    return list(range(size)) if keep is None or size <= keep else [*range(5), *range(size - 5, size)]
                values = [float(row * columns + column) for row in ends(rows) for column in ends(columns)]
                shape = (len(ends(rows)), len(ends(columns)))
                header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
                array = b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + \
                    struct.pack(f"<{len(values)}f", *values)
                with zipfile.ZipFile(self.path("m.npz"), "w", how, compresslevel=1) as file:
                    file.writestr("a.npy", array)
                for more in ((), ("--max", "1"), ("--max", "0")):
                    shown.append(self.good("show", *more, self.path("m.npz")).split("\n", 1))
            for large, small in zip(shown[:3], shown[3:]):
                self.assertEqual(large[0], f"float32 [{rows},{columns}]")
                self.assertEqual(large[1], small[1])

    def test_fields_are_tensors_with_names(self):
        descr = [("a", "<f4"), ("b", "<f4")]
        one, two = (self.put(name, npy(descr=descr).replace(b"(0,)", b"(1,)") + struct.pack("<2f", 1, b))
                    for name, b in (("one.npy", 2), ("two.npy", 3)))
        self.assertEqual(self.good("diff", one, two, "a"), "1 tensor equal, 0 different\n")
        self.assertEqual(run("diff", one, two).stdout.splitlines()[-1], "1 tensor equal, 1 different")
        self.assert_one_line(run("convert", "x=" + one, self.path("x.npz")), 2, "have names, which --rename changes")

    def test_names_for_two_files_of_one_name(self):
        a, b = self.put("1/w.npy", npy(1)), self.put("2/w.npy", npy(2, 3))
        self.assert_one_line(run("convert", a, b, self.path("m.npz")), 1, '"w": two tensors', a, b)
        self.good("convert", "x=" + a, b, self.path("m.npz"))
        self.assertEqual({name: shape for name, (_, shape, _) in self.tensors(self.path("m.npz")).items()},
                         {"x": [1], "w": [2]})
        done = run("convert", "x=" + self.path("m.npz"), self.path("copy.npz"))
        self.assert_one_line(done, 2, "have names, which --rename changes")
        odd = self.put("x=y.npy", npy(5))
        self.assertEqual(list(self.tensors(odd)), ["x=y"])
        self.good("convert", odd, self.path("odd.npz"))
        self.assertEqual(list(self.tensors(self.path("odd.npz"))), ["x=y"])
        done = run("convert", "--rename", "w=y", "x=" + a, self.path("never.npz"))
        self.assert_one_line(done, 2, "--rename w=y", "no tensor")

    def test_fortran_order_is_kept_by_numpys_formats_alone(self):
        rows = npy(1, 2, 3, 4, 5, 6)
        header = rows.replace(b"False, 'shape': (6,)", b"True, 'shape': (3, 2)").partition(b"}")[0] + b"}"
        columns = self.put("columns.npy", header.ljust(127) + b"\n" + rows[128:])
        wanted = self.good("show", columns)
        self.assertIn("[[1 4]\n [2 5]\n [3 6]]", wanted)
        for name in ("m.ckpt", "m.safetensors", "m.tfrecord", "m.pb", "m.pbtxt", "m.npz"):
            self.good("convert", columns, self.path(name))
            tensor = json.loads(self.good("ls", "--json", self.path(name)))["tensors"][0]
            self.assertEqual(tensor["strides"] is not None, name == "m.npz", tensor)
            self.assertEqual(self.good("diff", columns, self.path(name)), "1 tensor equal, 0 different\n")
        with open(self.path("stream"), "wb") as stream:
            self.assertEqual(subprocess.run([TOOL, "cat", columns], stdout=stream, timeout=60, check=False).returncode, 0)
        with open(self.path("stream"), "rb") as stream:
            done = subprocess.run([TOOL, "ls", "--json", "-"], stdin=stream, capture_output=True, timeout=60, check=False)
        self.assertIsNone(json.loads(done.stdout)["tensors"][0]["strides"])

    def test_verify_says_that_nothing_confirms_the_values(self):
        a = self.put("a.npy", npy(1))
        self.good("convert", a, self.path("m.pb"))
        for path in (a, self.path("m.pb")):
            self.assertEqual(self.good("verify", path), f"note: {path}: 1 tensor has no checksum; the structure of the "
                             f"file was checked\n{path}: 1 tensor whole\n")


class Names(Archives):
    def test_a_record_needs_one(self):
        header = json.dumps({"": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        with open(self.path("m.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + bytes(4))
        done = run("convert", self.path("m.safetensors"), self.path("m.tfrecord"))
        self.assert_one_line(done, 1, "its name is empty", "rename it")
        self.good("convert", "--rename", "=w", self.path("m.safetensors"), self.path("m.tfrecord"))
        self.assertEqual(list(self.tensors(self.path("m.tfrecord"))), ["w"])


class Text(Archives):
    def test_arrays_of_str_stay_so(self):
        with zipfile.ZipFile(self.path("m.npz"), "w") as file:
            for member, descr, content in (("u", "<U2", "\u20acb".encode("utf-32-le")), ("s", "|S2", b"ab")):
                file.writestr(member + ".npy", npy(descr=descr).replace(b"(0,)", b"(1,)") + content)
        self.good("convert", self.path("m.npz"), self.path("m.ckpt"))
        self.good("convert", self.path("m.ckpt"), self.path("copy.npz"))
        with zipfile.ZipFile(self.path("copy.npz")) as file:
            self.assertIn(b"'<U2'", file.read("u.npy"))
            self.assertIn(b"'|S2'", file.read("s.npy"))
        self.good("convert", "--include", "u", self.path("m.npz"), self.path("u.pbtxt"))
        with open(self.path("u.pbtxt"), encoding="utf-8") as file:
            self.assertNotIn("npy.descr", file.read())  # TensorFlow's parser would refuse it
        self.assertEqual({tensor["encoding"] for tensor in
                          json.loads(self.good("ls", "--json", self.path("m.ckpt")))["tensors"]}, {"plain"})


class ArraysOfObjects(Archives):
    """An array of Python objects, which only a pickle could restore, beside an ordinary one."""

    def setUp(self):
        super().setUp()
        pickle = npy(descr="|O").replace(b"(0,)", b"(1,)") + b"\x80\x02N."
        for name, members in (("both.npz", {"w": npy(1, 2), "o": pickle}), ("objects.npz", {"o": pickle})):
            with zipfile.ZipFile(self.path(name), "w") as file:
                for member, content in members.items():
                    file.writestr(member + ".npy", content)

    def test_the_other_arrays_are_read(self):
        both = self.path("both.npz")
        tensors = {tensor["name"]: tensor for tensor in json.loads(self.good("ls", "--json", both))["tensors"]}
        self.assertEqual((tensors["w"]["encoding"], tensors["o"]["encoding"]), ("plain", "not readable"))
        self.assertIn("[1 2]", self.good("show", both, "w"))
        self.assert_one_line(run("show", both, "o"), 1, "Python objects")
        self.assert_one_line(run("convert", both, self.path("m.ckpt")), 1, '"o"', "Python objects", "--allow-loss")
        for flags in (("--exclude", "o"), ("--include", "w"), ("--allow-loss",)):
            self.good("convert", "--overwrite", *flags, both, self.path("m.ckpt"))
            self.assertEqual(list(self.tensors(self.path("m.ckpt"))), ["w"])
        self.assertIn("1 tensor whole, 1 of a kind", self.good("verify", both))
        self.good("edit", "--remove", "o", both)
        self.assertEqual(list(self.tensors(both)), ["w"])

    def test_an_archive_of_nothing_else_is_refused(self):
        self.assert_one_line(run("ls", self.path("objects.npz")), 1, "o.npy", "Python objects")


class Differences(Archives):
    def show(self, a, b, descr, form):
        paths = []
        for name, values in (("a.npy", a), ("b.npy", b)):
            paths.append(self.path(name))
            with open(paths[-1], "wb") as file:
                content = npy(*values, descr=descr, form=form)
                file.write(content if "c" not in descr else content.replace(b"(%d,)" % len(a), b"(%d,)" % (len(a) // 2)))
        return run("diff", *paths).stdout.splitlines()[0]

    def test_values_are_whole(self):
        big = 2**53
        self.assertTrue(self.show([big + 1], [big], "<i8", "q").endswith(f"at [0]: {big + 1}, {big}"))
        self.assertTrue(self.show([1, 2], [1, 3], "<c8", "f").endswith("at [0]: 1+2j, 1+3j"))
        self.assertTrue(self.show([0.1], [0.3], "<f8", "d").endswith("at [0]: 0.1, 0.3"))

    def test_the_largest_changes_have_their_own_places(self):
        line = self.show([0, 4], [0.001, 4.002], "<f8", "d")
        self.assertRegex(line, r"at most by 0.002 at \[1\]: 4, 4.002; relatively by 1 at \[0\]; root mean square "
                               r"0.00158, 0.0559% of A's$")  # fmt: skip


class Checksums(Archives):
    def test_without_them_the_bytes_are_those_of_the_reference_writer(self):
        reference = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                 "../serialize/safetensors/golden/reference_0.8.0.safetensors")
        copy, with_checksums = self.path("copy.safetensors"), self.path("with.safetensors")
        self.good("convert", "--alignment", "8", "--no-checksums", reference, copy)
        self.assertTrue(filecmp.cmp(reference, copy, shallow=False))
        self.assertIn("have no checksum", self.good("verify", copy))
        self.good("convert", copy, with_checksums)
        self.assertNotIn("no checksum", self.good("verify", with_checksums))

    def test_other_formats_do_not_choose(self):
        model = self.model(tensors={"w": floats(1, 2)})
        for target in ("m.npz", "m.npy", "m.tfrecord", "m.pb", "copy"):
            done = run("convert", "--no-checksums", model, self.path(target))
            self.assert_one_line(done, 2, "--no-checksums is for safetensors files, not for ")


class TwoForms(Archives):
    def test_the_other_form_is_not_removed_if_it_is_the_source(self):
        single = self.path("m.safetensors")
        self.good("convert", self.model(), single)
        before = self.tensors(single)
        for flags, says in (((), "exists already; --overwrite replaces it"),
                            (("--overwrite",), "write to another folder"),
                            (("--overwrite", "--shard-size", "8"), "write to another folder")):
            for dry_run in ((), ("--dry-run",)):
                done = run("convert", *flags, *dry_run, single, single + ".index.json")
                self.assert_one_line(done, 1, single, says)
                self.assertEqual(self.tensors(single), before)
        os.mkdir(self.path("shards"))
        model = self.path("shards/m.safetensors.index.json")
        self.good("convert", "--shard-size", "8", single, model)  # as in the help
        self.assertEqual(self.tensors(model), before)
        done = run("convert", "--overwrite", model, self.path("shards/m.safetensors"))
        self.assert_one_line(done, 1, "write to another folder")
        self.assertEqual(self.tensors(model), before)
        os.symlink("m.safetensors", self.path("link.safetensors"))
        os.symlink(self.path("shards"), self.path("way"))
        for source, target in (("./m.safetensors", "m.safetensors.index.json"), (single, "m.safetensors.index.json"),
                               ("link.safetensors", "m.safetensors.index.json"), ("shards", "way/m.safetensors")):
            done = run("convert", "--overwrite", source, target, cwd=self.folder)
            self.assert_one_line(done, 1, "this call reads it", "write to another folder")
        done = run("convert", "--overwrite", "way/m-00001-of-00002.safetensors", "shards/m.safetensors", cwd=self.folder)
        self.assert_note_and_one_line(done, "is file 1 of 2", 1, "this call reads it", "write to another folder")
        self.assertEqual((self.tensors(single), self.tensors(model)), (before, before))
        self.good("convert", "--overwrite", model, model)
        self.assertEqual(list(self.tensors(model)), list(before))
        shutil.rmtree(self.path("shards"))


if __name__ == "__main__":
    case_report.main("single_files")
