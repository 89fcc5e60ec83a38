#!/usr/bin/env python3
"""tensorcask edit --remove: the named tensors are gone, the others stay bit by bit, or the command says why not."""

import json
import os
import struct
import sys
import zipfile

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
import edits  # noqa: E402
from tool_testing import read  # noqa: E402


class AllFormats(edits.Edits):
    def test_the_others_stay(self):
        for name in ("m.safetensors", "m.npz", "m.ckpt"):
            for glob, removed in (("dense/*", {"dense/kernel", "dense/bias"}), ("step", {"step"}),
                                  ("dense/bias", {"dense/bias"})):
                path = self.model(name)
                before = self.values(path)
                plan = self.good("edit", "--dry-run", "--remove", glob, path)
                self.assertIn(f"{len(removed)} tensor{'s' if len(removed) > 1 else ''} removed; would write", plan)
                self.assertEqual(self.values(path), before)
                out = self.good("edit", "--remove", glob, path)
                for one in removed:
                    self.assertIn(f"removed {one}\n", out)
                self.assertEqual(self.values(path), {key: value for key, value in before.items() if key not in removed})
                self.good("verify", path)

    def test_with_a_rename_and_an_output(self):
        for name, output in (("m.safetensors", "n.safetensors"), ("m.npz", "n.npz"), ("m.ckpt", "n.ckpt")):
            path = self.model(name)
            before = self.values(path)
            self.good("edit", "--remove", "step", "--rename", "dense/bias=step", "-o", self.path(output), path)
            self.assertEqual(self.values(path), before)
            self.assertEqual(self.values(self.path(output)),
                             {"dense/kernel": before["dense/kernel"], "step": before["dense/bias"]})
            self.good("verify", self.path(output))


class Safetensors(edits.Edits):
    def test_the_file_has_no_gap(self):
        path = self.put("m.safetensors", edits.safetensors({"a": [1], "b": [2, 3], "c": [4]}, {"format": "pt"}))
        out = self.good("edit", "--remove", "b", path)
        self.assertIn("copied 8 B of elements", out)
        header, data = edits.parse_safetensors(path)
        self.assertEqual(data, struct.pack("<2f", 1, 4))
        self.assertEqual((header["a"]["data_offsets"], header["c"]["data_offsets"]), ([0, 4], [4, 8]))
        self.assertEqual(header["__metadata__"], {"format": "pt"})
        self.good("edit", "--remove", "*", path)
        self.assertEqual(edits.parse_safetensors(path), ({"__metadata__": {"format": "pt"}}, b""))
        self.assertEqual(self.values(path), {})

    def test_other_names_of_a_tensor(self):
        def tied():
            return self.put("m.safetensors", edits.safetensors({"embed": [1, 2], "z": [3]},
                                                               {"format": "pt", "head": "embed", "top": "embed"}))
        path = tied()
        before = self.values(path)
        for globs in (["embed"], ["embed", "head"]):
            arguments = [part for glob in globs for part in ("--remove", glob)]
            self.refused([*arguments, path], 1, '"embed" cannot be removed alone', "is another name of it; remove both")
        self.good("edit", "--remove", "head", path)
        self.assertEqual(self.values(path), {name: before[name] for name in ("embed", "top", "z")})
        self.assertEqual(edits.parse_safetensors(path)[0]["__metadata__"], {"format": "pt", "top": "embed"})
        path = tied()
        self.good("edit", "--remove", "embed", "--remove", "head", "--remove", "t*", path)
        self.assertEqual(self.values(path), {"z": before["z"]})
        self.assertEqual(edits.parse_safetensors(path)[0]["__metadata__"], {"format": "pt"})

    def test_metadata_does_not_become_a_name(self):
        path = self.put("m.safetensors", edits.safetensors({"a": [1], "b": [2]}, {"format": "pt", "a": "b"}))
        self.assertEqual(set(self.values(path)), {"a", "b"})
        self.refused(["--remove", "a", path], 1, 'readers would take "a" for another name of it')
        path = self.put("m.safetensors", edits.safetensors({"a": [1], "b": [2]}, {"a": "b"}))
        self.good("edit", "--remove", "a", path)
        self.assertEqual(set(self.values(path)), {"b"})
        self.assertEqual(edits.parse_safetensors(path)[0]["__metadata__"], {"a": "b"})


class Models(edits.Edits):
    def test_a_file_without_tensors_is_removed(self):
        path = self.sharded()
        before = self.values(path)
        out = self.good("edit", "--remove", "b", path)
        self.assertEqual([line for line in out.splitlines() if line.startswith("removed: ")],
                         ["removed: " + self.path("m-00002-of-00002.safetensors")])
        self.assertEqual(self.values(path), {"a": before["a"], "tied": before["tied"]})
        self.assertEqual(sorted(os.listdir(self.folder)), ["m-00001-of-00002.safetensors", "m.safetensors.index.json"])
        self.assertEqual(json.loads(read(path)), {
            "metadata": {"total_size": 8, "total_parameters": 3.5}, "other": [{"weight_map": 1}],
            "weight_map": {"a": "m-00001-of-00002.safetensors"}})
        self.assertNotIn("total_size", self.good("verify", path))
        self.refused(["--remove", "*", path], 1, "no tensor would be left")

    def test_each_file_that_is_removed_has_a_line(self):
        for arguments, count in ((["--rename", "b=c"], 1), (["--rename", "s/^[ab]$/x_&/"], 2), (["--remove", "b"], 1)):
            with self.subTest(arguments=arguments):
                for file in os.listdir(self.folder):
                    os.remove(self.path(file))
                path = self.sharded()
                before = set(os.listdir(self.folder))
                dry = self.good("edit", "--dry-run", *arguments, path)
                self.assertEqual(set(os.listdir(self.folder)), before)
                out = self.good("edit", *arguments, path)
                gone = sorted(self.path(file) for file in before - set(os.listdir(self.folder)))
                self.assertEqual(len(gone), count)
                for text, word in ((dry, "would remove: "), (out, "removed: ")):
                    lines = [line[len(word):] for line in text.splitlines() if line.startswith(word)]
                    self.assertEqual(sorted(lines), gone)

    def test_a_file_that_another_index_needs_is_not_said_to_be_removed(self):
        path = self.sharded()
        self.put("other.safetensors.index.json", read(path))
        for dry in (["--dry-run"], []):
            out = self.good("edit", *dry, "--remove", "b", path)
            self.assertIn("m-00002-of-00002.safetensors stays: ", out)
            self.assertNotIn("remove: ", out)
            self.assertNotIn("removed: ", out)
        self.assertIn("m-00002-of-00002.safetensors", os.listdir(self.folder))

    def test_a_tied_name_is_removed_alone(self):
        path = self.sharded()
        before = self.values(path)
        self.good("edit", "--remove", "tied", path)
        self.assertEqual(self.values(path), {"a": before["a"], "b": before["b"]})
        self.assertEqual(sorted(os.listdir(self.folder)), ["m-00001-of-00002-r1.safetensors",
                                                           "m-00002-of-00002.safetensors", "m.safetensors.index.json"])
        path = self.sharded(extra=', "m": {"total_size": 1}')  # of no meaning
        self.good("edit", "--remove", "a", "--remove", "tied", path)
        self.assertEqual(self.values(path), {"b": before["b"]})
        self.assertEqual(json.loads(read(path))["metadata"]["total_size"], 4)

    def test_a_name_that_the_index_ties_stays(self):
        path = self.sharded()
        index = json.loads(read(path))
        index["metadata"]["tied2"] = "b"
        self.put("m.safetensors.index.json", json.dumps(index).encode())
        self.refused(["--remove", "tied2", path], 1, 'the index says that "tied2" is another name of "b"')
        self.good("edit", "--remove", "b", "--remove", "tied2", path)
        self.assertEqual(set(self.values(path)), {"a", "tied"})


class Npz(edits.Edits):
    def test_other_members_stay_as_they_are_stored(self):
        for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            path = self.archive(compression=compression)
            before = self.values(path)
            with zipfile.ZipFile(path) as file:
                old = {info.filename: (info.CRC, info.compress_size, info.compress_type) for info in file.infolist()}
            self.good("edit", "--remove", "stream", path)
            self.assertEqual(self.values(path), {"a": before["a"]})
            with zipfile.ZipFile(path) as file:
                self.assertIsNone(file.testzip())
                new = {info.filename: (info.CRC, info.compress_size, info.compress_type) for info in file.infolist()}
            del old["stream.npy"]
            self.assertEqual(new, old)

    def test_what_is_refused(self):
        path = self.archive()
        self.refused(["--remove", "*", path], 1, "no array would be left")
        self.refused(["--remove", "a", path], 1, 'would begin with the member "notes.txt"',
                     "use tensorcask convert --exclude")

    def test_fields_of_structures(self):
        header = b"{'descr': [('x', '<f4'), ('y', '<f4')], 'fortran_order': False, 'shape': (1,), }"
        header += b" " * (-(len(header) + 11) % 64) + b"\n"
        with zipfile.ZipFile(self.path("fields.npz"), "w") as file:
            file.writestr("p.npy", b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + bytes(8))
            file.writestr("q.npy", edits.npy(1))
        path = self.path("fields.npz")
        self.refused(["--remove", "p.x", path], 1, '"p.y" would stay', "removed together or not at all")
        self.good("edit", "--remove", "p.*", path)
        self.assertEqual(set(self.values(path)), {"q"})


if __name__ == "__main__":
    case_report.main("edit_remove")
