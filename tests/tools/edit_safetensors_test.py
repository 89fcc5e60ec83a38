#!/usr/bin/env python3
"""tensorcask edit on files of safetensors, alone and as the files of a sharded model."""

import fcntl
import json
import math
import os
import stat
import sys

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from edits import Edits, parse_safetensors, safetensors  # noqa: E402
from tool_testing import read, run  # noqa: E402


class Safetensors(Edits):
    def test_a_header_with_room_keeps_its_size(self):
        path = self.put("m.safetensors", safetensors({"a": [1, 2], "b": [3]}, {"format": "pt"}, padding=64))
        size = os.path.getsize(path)
        _, data = parse_safetensors(path)
        self.good("edit", "--rename", "a=longer/name", path)
        header, new_data = parse_safetensors(path)
        self.assertEqual(os.path.getsize(path), size)
        self.assertEqual(new_data, data)
        self.assertEqual(header, {"__metadata__": {"format": "pt"},
                                  "longer/name": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                                  "b": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}})

    def test_a_header_without_room_grows_by_64_or_4096(self):
        for count, step in ((2, 64), (300_000, 4096)):
            path = self.put("m.safetensors", safetensors({"a": range(count)}))
            size = os.path.getsize(path)
            before = self.values(path)
            self.good("edit", "--rename", "a=a/longer/name", path)
            self.assertEqual(os.path.getsize(path), size + step)
            self.assertEqual(self.values(path)["a/longer/name"], before["a"])

    def test_checksums_follow_their_tensors(self):
        path = self.model("m.safetensors")
        header, _ = parse_safetensors(path)
        old = header["__metadata__"]["tensorcask.crc32c"]
        self.good("edit", "--rename", "dense/bias=z", "--set", "a=b", path)
        header, _ = parse_safetensors(path)
        new = header["__metadata__"]["tensorcask.crc32c"]
        self.assertEqual(new[16:], old[16:])
        self.assertNotEqual(new[:16], old[:16])
        self.good("verify", path)
        content = bytearray(read(path))
        content[-1] ^= 1  # of "step" or what comes last: the checksum is still verified
        self.put("m.safetensors", content)
        done = run("verify", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("checksum", done.stdout)

    def test_checksums_of_another_header_are_left_out(self):
        path = self.put("m.safetensors", safetensors({"a": [1]}, {"tensorcask.crc32c": "00", "format": "pt"}))
        out = self.good("edit", "--rename", "a=b", path)
        self.assertIn("note: the checksums", out)
        self.assertIn("note: m.safetensors: the new header leaves out", out)
        header, _ = parse_safetensors(path)
        self.assertEqual(header["__metadata__"], {"format": "pt"})
        self.good("verify", path)

    def test_metadata(self):
        path = self.put("m.safetensors", safetensors({"a": [1]}, {"format": "pt", "author": "x"}))
        self.good("edit", "--set", "license=MIT", "--set", "eq=a=b", "--set", "e=", "--unset", "author", path)
        header, _ = parse_safetensors(path)
        self.assertEqual(header["__metadata__"], {"format": "pt", "license": "MIT", "eq": "a=b", "e": ""})
        self.assertIn("Hugging Face", self.good("edit", "--unset", "format", path))
        self.good("edit", "--unset", "license", "--unset", "eq", "--unset", "e", path)
        header, _ = parse_safetensors(path)
        self.assertNotIn("__metadata__", header)
        for arguments, piece in ((["--unset", "format"], "there is no metadata"),
                                 (["--set", "tensorcask.crc32c=00"], "is made by the writer"),
                                 (["--set", b"k=\xff"], "is not UTF-8")):
            before = read(path)
            done = run("edit", *(os.fsdecode(argument) for argument in arguments), path)
            self.assert_one_line(done, 1, piece)
            self.assertEqual(read(path), before)
        self.put("m.safetensors", safetensors({"a": [1]}, {"author": "x"}))
        self.refused(["--unset", "autor", path], 1, 'there is no metadata "autor"; did you mean "author"? (keys: "author")')

    def test_tied_tensors_stay_tied(self):
        path = self.put("m.safetensors", safetensors({"embed": [1, 2]}, {"format": "pt", "head": "embed"}))
        before = self.values(path)
        self.good("edit", "--rename", "embed=model/embed", path)
        self.assertEqual(parse_safetensors(path)[0]["__metadata__"], {"format": "pt", "head": "model/embed"})
        self.assertEqual(self.values(path), {"model/embed": before["embed"], "head": before["head"]})
        self.good("edit", "--rename", "s/.*d$/x_&/", path)  # both at once
        self.assertEqual(parse_safetensors(path)[0]["__metadata__"], {"format": "pt", "x_head": "x_model/embed"})
        self.refused(["--rename", "x_head=format", path], 1, "cannot be called")
        self.refused(["--set", "x_head=1", path], 1, "unset it first")
        self.good("edit", "--unset", "x_head", path)
        self.assertEqual(set(self.values(path)), {"x_model/embed"})

    def test_tied_tensors_do_not_need_the_format(self):
        path = self.put("m.safetensors", safetensors({"embed": [1, 2]}, {"format": "pt", "head": "embed"}))
        self.good("edit", "--unset", "format", path)
        self.assertEqual(set(self.values(path)), {"embed", "head"})
        self.good("edit", "--rename", "head=tied", "--set", "target=embed", path)
        self.assertEqual(set(self.values(path)), {"embed", "tied"})
        metadata = parse_safetensors(path)[0]["__metadata__"]
        self.assertEqual(metadata, {"target": "embed", "tied": "embed", "tensorcask.aliases": '["tied"]'})

    def test_a_rename_ties_nothing_by_accident(self):
        path = self.put("m.safetensors", safetensors({"a": [1]}, {"format": "pt", "author": "jo"}))
        self.refused(["--rename", "a=jo", path], 1, 'metadata "author" is "jo"')
        out = self.good("edit", "--set", "b=a", path)  # on purpose
        self.assertIn('another name of "a"', out)
        self.assertEqual(set(self.values(path)), {"a", "b"})
        self.refused(["--rename", "b=author", path], 1, "the metadata has an entry of that name")

    def test_names_that_the_format_refuses(self):
        path = self.model("m.safetensors")
        self.refused(["--rename", "step=__metadata__", path], 1, "is reserved")
        self.refused(["--rename", "step=" + "x" * 70000, path], 1, "is longer than 65536 bytes")
        self.refused(["--rename", os.fsdecode(b"step=\xff"), path], 1, "is not UTF-8")

    def test_damaged_and_odd_files_stay(self):
        whole = safetensors({"a": [1, 2]})
        for content, piece in ((whole[:-1], "data"), (whole + b"1234", "4 bytes behind the last tensor")):
            path = self.put("m.safetensors", content)
            self.refused(["--rename", "a=b", path], 1, piece)


class ShardedSafetensors(Edits):
    def test_a_file_that_another_index_may_list_stays(self):
        for other, why in ((None, "lists it"), (b"{", "is not an index")):
            path = self.sharded()
            self.put("m.fp16.safetensors.index.json", read(path) if other is None else other)
            out = self.good("edit", "--rename", "a=x", path)
            self.assertIn("m-00001-of-00002.safetensors stays: ", out)
            self.assertIn(why, out)
            self.assertTrue(os.path.exists(self.path("m-00001-of-00002.safetensors")))
            self.good("verify", path)

    def without(self, number, content=None, total_size=20):
        """The index of a model of three files with the tensors a, b and c, d; file `number` is missing or damaged."""
        for name in os.listdir(self.folder):
            os.unlink(self.path(name))
        tensors = ({"a": [1, 2]}, {"b": [3]}, {"c": [4], "d": [5]})
        files = [f"m-{i + 1:05}-of-00003.safetensors" for i in range(3)]
        for file, values in zip(files, tensors):
            self.put(file, safetensors(values, {"format": "pt"}))
        os.unlink(self.path(files[number]))
        if content is not None:
            self.put(files[number], content)
        index = {"metadata": {"total_size": total_size} if total_size is not None else {},
                 "weight_map": {name: file for file, values in zip(files, tensors) for name in values}}
        return self.put("m.safetensors.index.json", json.dumps(index).encode())

    def test_a_missing_file_that_the_edit_does_not_touch_stays_listed(self):
        for content, piece in ((None, "note: 1 of the 3 files that it lists is missing: m-00002-of-00003.safetensors\n"),
                               (b"\xff" * 16, "note: a file is damaged: ")):
            for options in (["--dry-run"], []):
                path = self.without(1, content)
                out = self.good("edit", *options, "--rename", "a=x", path)
                self.assertIn(piece, out)
                self.assertIn(self.path("m-00002-of-00003.safetensors") if content else "m-00002", out)
            with open(path, encoding="utf-8") as file:
                index = json.load(file)
            self.assertEqual(index, {"metadata": {"total_size": 20}, "weight_map": {
                "b": "m-00002-of-00003.safetensors", "c": "m-00003-of-00003.safetensors",
                "d": "m-00003-of-00003.safetensors", "x": "m-00001-of-00003-r1.safetensors"}})
            self.assertEqual(os.path.exists(self.path("m-00002-of-00003.safetensors")), content is not None)
            self.put("m-00002-of-00003.safetensors", safetensors({"b": [3]}, {"format": "pt"}))  # it is found again
            self.good("verify", path)
            self.assertEqual(set(self.values(path)), {"x", "b", "c", "d"})

    def test_the_size_of_a_model_with_a_missing_file_is_that_of_the_index_without_what_is_removed(self):
        for total_size, after in ((20, 16), (None, None), (3, 0)):
            path = self.without(1, total_size=total_size)
            self.good("edit", "--remove", "c", path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["metadata"].get("total_size"), after)
        path = self.without(1)
        self.good("edit", "--remove", "[acd]", path)  # what is missing is left
        with open(path, encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"metadata": {"total_size": 4},
                                               "weight_map": {"b": "m-00002-of-00003.safetensors"}})

    def test_an_edit_that_needs_the_missing_file_is_refused(self):
        for content, piece in ((None, "is missing"), (b"\xff" * 16, "header"),
                               (safetensors({}), "which does not have it")):
            for options in (["--rename", "b=x"], ["--rename", "s/^/x/"], ["--remove", "b"]):
                path = self.without(1, content)
                if options[0] == "--remove" and content == safetensors({}):  # the index alone has it
                    self.good("edit", *options, path)
                    self.assertEqual(set(self.values(path)), {"a", "c", "d"})
                    continue
                self.refused([*options, path], 1, 'tensor "b" must stay', "m-00002-of-00003.safetensors", piece,
                             "; tensorcask salvage saves the undamaged tensors\n")

    def test_a_tensor_of_unknown_dtype_in_another_file_does_not_matter(self):
        odd = safetensors({"b": [3]}, {"format": "pt"}).replace(b'"F32"', b'"Q32"')
        path = self.without(1, odd)
        self.good("edit", "--rename", "a=x", path)
        self.assertEqual(read(self.path("m-00002-of-00003.safetensors")), odd)
        self.refused(["--rename", "b=y", path], 1, 'tensor "b"', "Q32")

    def test_a_linked_file_is_not_replaced(self):
        path = self.sharded()
        link = self.path("m-00001-of-00002.safetensors")
        os.rename(link, self.path("blob"))
        os.symlink("blob", link)
        self.refused(["--rename", "a=x", path], 1, "is a symbolic link to blob")
        self.assertTrue(os.path.islink(link))

    def test_one_edit_at_a_time(self):
        path = self.sharded()
        with open(path, "rb") as index:
            fcntl.flock(index, fcntl.LOCK_EX)
            self.refused(["--rename", "a=x", path], 1, "another process edits it")
        self.good("edit", "--rename", "a=x", path)

    def test_new_files_have_the_permissions_that_all_old_ones_have(self):
        path = self.sharded()
        os.chmod(self.path("m-00001-of-00002.safetensors"), 0o600)
        os.chmod(self.path("m-00002-of-00002.safetensors"), 0o640)
        os.chmod(path, 0o644)
        self.good("edit", "--rename", "a=x", "--rename", "b=y", path)
        for name in ("m-00001-of-00002-r1.safetensors", "m-00002-of-00002-r1.safetensors", "m.safetensors.index.json"):
            self.assertEqual(stat.S_IMODE(os.stat(self.path(name)).st_mode), 0o600, name)

    def test_changed_files_get_new_names(self):
        path = self.sharded()
        before = self.values(path)
        untouched = read(self.path("m-00002-of-00002.safetensors"))
        self.good("edit", "--rename", "a=x/a", path)
        self.assertEqual(self.values(path), {"x/a": before["a"], "b": before["b"], "tied": before["tied"]})
        self.assertEqual(sorted(os.listdir(self.folder)), ["m-00001-of-00002-r1.safetensors",
                                                           "m-00002-of-00002.safetensors", "m.safetensors.index.json"])
        self.assertEqual(read(self.path("m-00002-of-00002.safetensors")), untouched)
        index = json.loads(read(path))
        self.assertEqual(index, {
            "metadata": {"total_size": 12, "total_parameters": 3.5}, "other": [{"weight_map": 1}],
            "weight_map": {"b": "m-00002-of-00002.safetensors", "x/a": "m-00001-of-00002-r1.safetensors"}})
        self.assertIn(b"3.5e0", read(path))  # what is not the list of tensors stays as it was written
        self.good("edit", "--rename", "s/$/2/", self.path("m.safetensors"))  # by the name of the model
        self.assertEqual(self.values(path), {"x/a2": before["a"], "b2": before["b"], "tied2": before["tied"]})
        self.assertEqual(sorted(os.listdir(self.folder)),
                         ["m-00001-of-00002-r2.safetensors", "m-00002-of-00002-r1.safetensors",
                          "m.safetensors.index.json"])
        self.good("verify", path)

    def test_an_output_beside_the_index_of_that_name(self):
        self.sharded()
        other = self.model("other.safetensors")
        for dry in ([], ["--dry-run"]):
            self.refused([*dry, "--set", "a=b", "-o", self.path("m.safetensors"), other], 1,
                         "m.safetensors.index.json: exists already")

    def test_the_number_of_parameters_follows(self):
        for value, after in (("1000", None), ('"many"', '"many"'), ("1.5e3", "1.5e3")):
            path = self.sharded()
            text = read(path).replace(b"3.5e0", value.encode())
            with open(path, "wb") as file:
                file.write(text)
            shapes = {tensor["name"]: tensor["shape"] for tensor in json.loads(self.good("ls", "--json", path))["tensors"]}
            self.good("edit", "--remove", "b", path)
            self.assertIn(f'"total_parameters": {after or 1000 - math.prod(shapes["b"])}'.encode(), read(path))
            for name in os.listdir(self.folder):
                os.remove(self.path(name))

    def test_what_is_refused(self):
        path = self.sharded()
        self.refused(["--rename", "a=b", path], 1, 'would be called "b"')
        self.refused(["--set", "k=v", path], 1, "each with its own metadata")
        self.refused(["--rename", "a=c", "-o", self.path("n.safetensors"), path], 1, "only one file can be written")
        path = self.sharded(extra=', "weight\\u005fmap2": 1')
        self.good("edit", "--rename", "a=c", path)

    def test_metadata_of_one_file(self):
        path = self.sharded()
        self.good("edit", "--set", "license=MIT", self.path("m-00002-of-00002.safetensors"))
        self.assertEqual(set(self.values(path)), {"a", "b", "tied"})


if __name__ == "__main__":
    case_report.main("edit_safetensors")
