#!/usr/bin/env python3
"""Models in several files whose index and files disagree, or of which a file cannot be read."""

import json
import os
import sys

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from bad_files import Files  # noqa: E402
from tool_testing import read, run  # noqa: E402


class EditOfAModel(Files):
    """Of three files, one of which cannot be read."""

    def cases(self):
        for maker in (Files.missing_shard, Files.damaged_shard, Files.shard_that_is_a_folder,
                      Files.shard_that_is_a_pipe):
            with self.subTest(maker.__name__):
                self.setUp()
                yield maker(self).path

    def test_goes_on_beside_the_file(self):
        for path in self.cases():
            bad = self.path("m-00002-of-00003.safetensors")
            before = read(bad) if os.path.isfile(bad) else None
            done = run("edit", "--rename", "a=x", "--remove", "c", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("m-00002-of-00003.safetensors", done.stdout + done.stderr)
            with open(path, encoding="utf-8") as file:
                index = json.load(file)
            self.assertEqual(index["weight_map"]["b"], "m-00002-of-00003.safetensors")
            self.assertEqual(sorted(index["weight_map"]), ["b", "x"])
            self.assertEqual(index["metadata"]["total_size"], 16)
            self.assertEqual(run("show", path, "x").stdout, "float32 [2]\n[1 7]\n")
            self.assertEqual(before, read(bad) if os.path.isfile(bad) else None)

    def test_its_own_tensors_are_not_edited(self):
        for path in self.cases():
            before = read(path)
            for edit in (["--rename", "b=x"], ["--remove", "b"]):
                self.assert_one_line(run("edit", *edit, path), 1, 'tensor "b"', "m-00002-of-00003.safetensors")
            self.assertEqual(before, read(path))


class UnlistedTensors(Files):
    """A model in whose files are tensors that the index does not list there: its loaders read them all the same."""

    def unlisted(self, places):
        """The model of "a", "b", "c" with another weight_map: {tensor: number of the file}."""
        path = self.model()
        index = json.loads(read(path))
        index["weight_map"] = {name: f"m-0000{number}-of-00003.safetensors" for name, number in places.items()}
        self.put(path, json.dumps(index).encode())
        return path

    def rename_in(self, number, old, new):
        path = self.path(f"m-0000{number}-of-00003.safetensors")
        self.assertEqual(run("edit", "--rename", f"{old}={new}", path).returncode, 0)

    def one_more(self):
        """The second file has a tensor "d" (5, 7), too."""
        path = self.model()
        self.tensors("m-00002-of-00003.safetensors", {"b": 2, "d": 5}, "--overwrite")
        line = f'{self.path("m-00002-of-00003.safetensors")}: has 1 tensor that {path} does not list there: "d"'
        return path, line

    def test_every_command_reads_them_and_says_so(self):
        path, line = self.one_more()
        done = run("ls", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(line, done.stderr)
        lines = [one.split()[0] for one in done.stdout.splitlines()]
        self.assertEqual(lines, ["a", "b", "c", "d", "total:", "values:"])
        self.assertEqual(self.names_of(path), ["a", "b", "c", "d"])
        self.assertEqual(run("show", path, "d").stdout, "float32 [2]\n[5 7]\n")
        self.assertEqual(run("stats", path).returncode, 0)
        for options in ([], ["--lenient"]):
            done = run("verify", *options, path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"damaged: {line}", done.stdout)
            self.assertIn(f"{path}: 4 tensors whole, damage outside of tensors in 1 place", done.stdout)
        document = json.loads(run("verify", "--json", path).stdout)["files"][0]
        self.assertEqual((document["whole"], document["damaged"], document["damaged_elsewhere"]), (4, 0, 1))

    def names_of(self, path):
        return [tensor["name"] for tensor in json.loads(run("ls", "--json", path).stdout)["tensors"]]

    def test_no_command_leaves_them_out(self):
        path, line = self.one_more()
        for name in ("out.npz", "out.safetensors", "new.safetensors.index.json"):
            done = run("convert", path, self.path(name))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(line, done.stderr)
            self.assertEqual(self.names_of(self.path(name)), ["a", "b", "c", "d"])
            self.assertEqual(run("diff", path, self.path(name)).returncode, 0)
        done = run("salvage", path, self.path("saved.safetensors"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, f"lost: {line}\n{self.path('saved.safetensors')}: 4 tensors saved\n")
        document = json.loads(run("salvage", "--json", "--overwrite", path, self.path("saved.safetensors")).stdout)
        self.assertEqual((document["saved"], [lost["name"] for lost in document["lost"]]), (4, [None]))

    def test_edit_lists_them(self):
        path, line = self.one_more()
        done = run("edit", "--rename", "a=x", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(line, done.stderr + done.stdout)
        self.assertEqual(self.names_of(path), ["b", "c", "d", "x"])
        self.assertEqual(run("verify", path).returncode, 0)
        self.setUp()
        path, _ = self.one_more()
        self.assertEqual(run("edit", "--rename", "d=y", "--remove", "b", path).returncode, 0)
        self.assertEqual(self.names_of(path), ["a", "c", "y"])
        self.assertEqual(run("show", path, "y").stdout, "float32 [2]\n[5 7]\n")
        self.assertEqual(run("verify", path).returncode, 0)

    def test_a_tensor_in_another_file_than_the_listed_one(self):
        path = self.unlisted({"a": 2, "b": 1, "c": 3})
        self.assertEqual(self.names_of(path), ["a", "b", "c"])
        self.assertEqual(run("show", path, "a").stdout, "float32 [2]\n[1 7]\n")
        done = run("verify", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("3 tensors whole, damage outside of tensors in 2 places", done.stdout)

    def test_of_two_tensors_the_listed_one_counts(self):
        for number in (1, 3):  # before it and behind it
            self.setUp()
            path = self.model()
            self.rename_in(number, "ac"[number // 2], "b")
            done = run("show", path, "b")
            self.assertEqual(done.stdout, "float32 [2]\n[2 7]\n", done.stderr)
            done = run("verify", path)
            self.assertEqual(done.returncode, 1)
            self.assertIn('does not list there: "b"; the tensor of this name is that of another file', done.stdout)
            self.assertIn("2 tensors whole, 1 damaged, damage outside of tensors in 1 place", done.stdout)
            self.assertEqual(run("convert", path, self.path("out.npz")).returncode, 1)  # one is in no file

    def test_of_two_unlisted_tensors_the_first_counts(self):
        path = self.model()
        self.tensors("m-00001-of-00003.safetensors", {"a": 1, "d": 5, "e": 8}, "--overwrite")
        self.tensors("m-00002-of-00003.safetensors", {"b": 2, "d": 6, "f": 9}, "--overwrite")
        self.assertEqual(self.names_of(path), ["a", "b", "c", "d", "e", "f"])
        self.assertEqual(run("show", path, "d").stdout, "float32 [2]\n[5 7]\n")
        done = run("verify", path)
        self.assertIn('has 2 tensors that', done.stdout)
        self.assertIn('the first is "d"; of 1 of them, the first is "d", the tensors of these names are those of other'
                      ' files', done.stdout)
        self.assertIn("6 tensors whole, damage outside of tensors in 2 places", done.stdout)

    def test_a_missing_file_is_not_replaced_by_another_one(self):
        path = self.model()
        self.tensors("m-00001-of-00003.safetensors", {"a": 1, "b": 9}, "--overwrite")
        os.unlink(self.path("m-00002-of-00003.safetensors"))
        self.assertEqual(run("show", path, "b").returncode, 1)
        self.assertEqual(run("show", path, "a").returncode, 0)


if __name__ == "__main__":
    case_report.main("unlisted tensors")
