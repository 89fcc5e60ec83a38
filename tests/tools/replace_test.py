#!/usr/bin/env python3
"""Which files `convert` replaces and removes, what a dry run says of it, and what both refuse."""

import json
import os
import shutil
import subprocess
import sys
import unittest
import zipfile

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import TOOL, Archives, floats, read, run, with_strace  # noqa: E402

SIX = {f"t{i}": floats(i, i + 0.5) for i in range(6)}  # 8 bytes each


class Models(Archives):
    def shards(self, name="m", size=16, tensors=None, folder="model"):
        """The path of the index of a model in several files, in a folder of its own."""
        os.makedirs(self.path(folder), exist_ok=True)
        index = self.path(f"{folder}/{name}.safetensors.index.json")
        self.good("convert", "--shard-size", size, self.model("source.ckpt", tensors or SIX), index)
        return index

    def files(self, folder="model"):
        return {name: read(os.path.join(self.path(folder), name)) for name in os.listdir(self.path(folder))}

    def listed(self, index):
        with open(index, encoding="utf-8") as file:
            return sorted(set(json.load(file)["weight_map"].values()))

    def convert(self, *arguments):
        """Converts; the dry run must say the same files before, and change nothing. Returns the names removed."""
        folder = os.path.dirname(arguments[-1])
        before = self.files(folder)
        dry = self.good("convert", "--dry-run", "--overwrite", *arguments)
        self.assertEqual(self.files(folder), before)
        done = self.good("convert", "--overwrite", *arguments)
        names = [line[len("removed: "):] for line in done.splitlines() if line.startswith("removed: ")]
        would = [line[len("would remove: "):] for line in dry.splitlines() if line.startswith("would remove: ")]
        self.assertEqual(names, would)
        gone = {os.path.join(folder, name) for name in set(before) - set(self.files(folder))}
        self.assertEqual(set(names), gone)
        return {os.path.basename(name) for name in names}


class OnlyWhatTheIndexListsIsRemoved(Models):
    def test_a_shard_is_not_converted_over_its_model(self):
        index = self.shards()
        before = self.files()
        for target in (index, self.path("model/m.safetensors"), self.path("model/../model/m.safetensors")):
            for flags in ((), ("--dry-run",)):
                done = run("convert", "--overwrite", *flags, self.path("model/m-00001-of-00003.safetensors"), target)
                self.assert_note_and_one_line(done, "is file 1 of 3", 1,
                                              "m-00001-of-00003.safetensors: this call reads it", "another folder")
                self.assertEqual(self.files(), before)
        os.symlink(self.path("model"), self.path("way"))
        os.link(self.path("model/m-00002-of-00003.safetensors"), self.path("two.safetensors"))
        done = run("convert", "--overwrite", self.path("way/m-00001-of-00003.safetensors"), index)
        self.assert_note_and_one_line(done, "is file 1 of 3", 1, "this call reads it")
        done = run("convert", "--overwrite", self.path("two.safetensors"), index)
        self.assert_one_line(done, 1, "this call reads it")
        self.assertEqual(self.files(), before)

    def test_without_an_index_nothing_is_removed(self):
        index = self.shards()
        os.unlink(index)
        before = self.files()
        self.assertEqual(self.convert("--dtype", "*=bfloat16", self.path("model/m-00001-of-00003.safetensors"), index),
                         set())
        after = self.files()
        self.assertEqual({name: after[name] for name in before}, before)
        self.assertEqual(len(self.tensors(index)), 2)

    def test_files_that_no_index_lists_stay(self):
        index = self.shards(size=24)
        for name in ("m-00001-of-00007.safetensors", "m-00003-of-00007-r4.safetensors", "notes.txt", "m.safetensors"):
            shutil.copy(self.path("model/m-00001-of-00002.safetensors"), self.path("model/" + name))
        removed = self.convert("--shard-size", "16", self.model("other.ckpt", {"x": floats(1, 2), "y": floats(3, 4), "z": floats(5)}), index)
        self.assertEqual(removed, {"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"} - set(self.listed(index)))
        self.assertTrue({"m-00001-of-00007.safetensors", "m-00003-of-00007-r4.safetensors", "notes.txt",
                         "m.safetensors"} <= set(self.files()))

    def test_an_index_cannot_name_a_file_of_another_kind_to_be_removed(self):
        os.mkdir(self.path("model"))
        index = self.write("model/m.safetensors.index.json", json.dumps(
            {"weight_map": {"a": "notes.txt", "b": "shared.safetensors"}}))
        self.write("model/n.safetensors.index.json", json.dumps({"weight_map": {"b": "shared.safetensors"}}))
        self.write("model/notes.txt", "precious")
        self.write("model/shared.safetensors", "of n")
        self.assertEqual(self.convert(self.model(), index), set())
        self.assertEqual(self.convert(self.model(), self.path("model/m.safetensors")),
                         {"m.safetensors.index.json", "m-00001-of-00001.safetensors"})
        self.assertEqual(read(self.path("model/notes.txt")), b"precious")
        self.assertEqual(read(self.path("model/shared.safetensors")), b"of n")

    def test_a_damaged_index(self):
        index = self.shards()
        self.write("model/m.safetensors.index.json", "{")
        before = self.files()
        done = run("convert", "--overwrite", self.model(), self.path("model/m.safetensors"))
        self.assert_one_line(done, 1, "is not an index of a model", "remove it first")
        self.assertEqual(self.files(), before)
        self.assertEqual(self.convert(self.model(), index), set())
        self.assertEqual(set(before) - set(self.files()), set())

    def test_data_files_that_the_checkpoint_does_not_count_stay(self):
        os.mkdir(self.path("model"))
        prefix = self.path("model/m")
        self.good("convert", self.model(), prefix)
        stray = self.write("model/m.data-00001-of-00005", "mine")
        removed = self.convert(self.model(), prefix)
        self.assertEqual(removed, {"m.data-00000-of-00001"})
        self.assertEqual(read(stray), b"mine")
        self.write("model/m.index", "no index")
        self.assertEqual(self.convert(self.model(), prefix), set())
        self.assertEqual(read(stray), b"mine")

    def test_a_data_file_that_no_index_counts_is_not_replaced_without_a_word(self):
        os.mkdir(self.path("model"))
        prefix = self.path("model/m")
        self.good("convert", self.model(), prefix)
        strays = [self.write(f"model/m.data-0000{i}-of-00002", "mine") for i in (0, 1)]
        for flags in (("--dry-run",), ()):
            done = run("convert", "--overwrite", *flags, self.model(), prefix)
            self.assertEqual(done.returncode, 0, done.stderr)
            for stray in strays:
                self.assertIn(f"{stray}: no index counts this data file, and the new one replaces it\n", done.stderr)
        self.assertEqual(run("convert", "--overwrite", self.model(), prefix).stderr, "")

    def test_a_part_of_a_source_is_not_replaced(self):
        index = self.shards()
        before = self.files()
        done = run("convert", "--overwrite", index, self.path("model/m-00002-of-00003.safetensors"))
        self.assert_one_line(done, 1, "this call reads it")
        prefix = self.path("model/c")
        self.good("convert", self.model("one.ckpt", {"w": floats(1)}), prefix)
        done = run("convert", "--overwrite", "--to", "npy", prefix, prefix + ".data-00000-of-00001")
        self.assert_one_line(done, 1, "this call reads it")
        after = self.files()
        self.assertEqual({name: after[name] for name in before}, before)
        self.good("verify", prefix, index)


class EveryCommandSaysWhatItRemoved(Models):
    NAMES = [f"m-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]

    def test_save_and_salvage(self):
        source = self.model("new.ckpt", {"x": floats(1)})
        with open(self.path("new.tfrecord"), "wb") as out:
            subprocess.run([TOOL, "cat", source], stdout=out, check=True)
        for command in ("save", "salvage"):
            index = self.shards()
            expected = "".join(f"removed: {self.path('model/' + name)}\n" for name in self.NAMES)
            if command == "save":
                with open(self.path("new.tfrecord"), "rb") as stream:
                    done = subprocess.run([TOOL, "save", "--overwrite", index], stdin=stream, capture_output=True,
                                          text=True, check=True)
                out = done.stdout
            else:
                out = self.good("salvage", "--overwrite", source, index)
            self.assertTrue(out.startswith(expected), out)
            self.assertEqual(set(self.files()), {"m-00001-of-00001.safetensors", "m.safetensors.index.json"})
            shutil.rmtree(self.path("model"))

    def test_salvage_in_json_and_to_a_checkpoint(self):
        index = self.shards()
        source = self.model("new.ckpt", {"x": floats(1)})
        document = json.loads(self.good("salvage", "--json", "--overwrite", source, index))
        self.assertEqual(document["removed"], [self.path("model/" + name) for name in self.NAMES])
        prefix = self.path("model/c")
        self.good("convert", source, prefix)
        self.assertEqual(self.good("salvage", "--overwrite", source, prefix),
                         f"removed: {prefix}.data-00000-of-00001\n{prefix}: 1 tensor saved\n")

    def test_a_dry_edit_says_what_stays(self):
        index = self.shards()
        self.write("model/n.safetensors.index.json",
                   json.dumps({"weight_map": {"t0": "m-00001-of-00003.safetensors"}}))
        notes = []
        for flags in (("--dry-run",), ()):
            out = self.good("edit", *flags, "--rename", "t0=u0", index)
            notes.append([line for line in out.splitlines() if line.startswith("note: ")])
        self.assertEqual(*notes)
        self.assertIn("m-00001-of-00003.safetensors stays: ", notes[0][0])


class EveryDirection(Models):
    def test_one_and_several_more_and_fewer(self):
        os.mkdir(self.path("model"))
        source = self.model("source.ckpt", SIX)
        single, index = self.path("model/m.safetensors"), self.path("model/m.safetensors.index.json")
        expected = self.tensors(source)
        for target, size in ((single, 0), (single, 16), (single, 24), (single, 24), (single, 8), (index, 16), (index, 16),
                             (single, 0), (single, 0), (single, 16)):
            self.convert(*(("--shard-size", size) if size else ()), source, target)
            whole = index if size else single
            self.assertEqual(self.tensors(whole), expected)
            self.assertEqual(sorted(self.files()),
                             sorted([*self.listed(index), os.path.basename(index)]) if size else ["m.safetensors"])
            self.assertEqual(self.tensors(self.path("model")), expected)

    def test_in_place(self):
        index = self.shards()
        expected = self.tensors(index)
        self.assertEqual(self.convert(index, index), {f"m-0000{i}-of-00003.safetensors" for i in (1, 2, 3)})
        self.assertEqual(self.tensors(index), expected)
        self.good("verify", index)

    def test_a_reader_that_has_opened_the_old_model_keeps_it(self):
        index = self.shards(tensors={"a": floats(*range(1000)), "b": floats(*range(1000))}, size=4000)
        old = self.good("convert", index, self.path("old.npz"))
        self.assertTrue(old)
        code = f"""
import subprocess, sys
process = subprocess.Popen([{TOOL!r}, "cat", {index!r}], stdout=subprocess.PIPE)
process.stdout.read(1)
subprocess.run([{TOOL!r}, "convert", "--overwrite", {self.model("new.ckpt")!r}, {index!r}], check=True, stdout=subprocess.DEVNULL)
process.stdout.read()
sys.exit(process.wait())
"""
        self.assertEqual(subprocess.run([sys.executable, "-c", code], check=False).returncode, 0)


class Kills(Models):
    @with_strace
    def test_a_kill_at_each_call_leaves_the_old_model_or_the_new_one(self):
        old, new = self.model("old.ckpt", SIX), self.model("new.ckpt", {name: floats(9, i) for i, name in enumerate(SIX)})
        versions = [self.tensors(old), self.tensors(new)]
        single, index = self.path("model/m.safetensors"), self.path("model/m.safetensors.index.json")
        calls = "inject=rename,renameat,renameat2,unlink,unlinkat,fsync,fdatasync:signal=KILL:when="
        for before, after, target in ((16, 16, index), (16, 8, single), (24, 16, single), (0, 16, single), (16, 0, single)):
            seen = set()
            for number in range(1, 100):
                shutil.rmtree(self.path("model"), ignore_errors=True)
                os.mkdir(self.path("model"))
                start = index if target == index else single
                self.good("convert", *(("--shard-size", before) if before else ()), old, start)
                done = subprocess.run(
                    ["strace", "-f", "-o", "/dev/null", "-e", calls + str(number), TOOL, "convert", "--overwrite",
                     *(("--shard-size", str(after)) if after else ()), new, target], capture_output=True, check=False)
                found = self.tensors(target)
                self.assertIn(found, versions)
                seen.add(versions.index(found))
                if os.path.exists(index):  # a reader of the index finds a whole model, too
                    self.assertIn(self.tensors(index), versions)
                if done.returncode == 0:
                    break
            self.assertEqual((found, seen), (versions[1], {0, 1}))
            self.assertGreater(number, 3)


class Destinations(Models):
    def test_a_link_to_a_stream_is_not_replaced(self):
        for target in ("/proc/self/fd/1", "/dev/stdout", "link.npz"):
            path = self.path("out.npz" if target.startswith("/") else "chain.npz")
            if os.path.lexists(path):
                os.unlink(path)
            os.symlink(target, path)
            if target == "link.npz":
                os.symlink("/dev/stdout", self.path("link.npz"))
            for flags in ((), ("--dry-run",)):
                with open(self.path("stdout"), "wb") as out:
                    done = subprocess.run([TOOL, "convert", "--overwrite", *flags, self.model(), path], stdout=out,
                                          stderr=subprocess.PIPE, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"is a link to an open file of a process", done.stderr)
                self.assertEqual(os.readlink(path), target)
        os.symlink("/dev/null", self.path("null.npz"))
        self.assert_one_line(run("convert", "--overwrite", self.model(), self.path("null.npz")), 1,
                             "is not a regular file")

    def test_a_dangling_link_is_a_taken_name(self):
        for name in ("x.npz", "x.npy", "x.safetensors", "x.tfrecord", "x.pb"):
            os.symlink("nowhere", self.path(name))
            for flags in ((), ("--dry-run",)):
                done = run("convert", *flags, "--include", "dense/bias", self.model(), self.path(name))
                self.assert_one_line(done, 1, "exists already; --overwrite replaces it")
            self.good("convert", "--overwrite", "--include", "dense/bias", self.model(), self.path(name))
        os.symlink("nowhere", self.path("c.index"))
        self.assert_one_line(run("convert", self.model(), self.path("c")), 1, "exists already; --overwrite replaces it")

    def test_a_dry_run_makes_the_checks_of_the_real_one(self):
        npz = self.path("names.npz")
        self.good("convert", "--rename", "w=__metadata__", self.model("one.ckpt", {"w": floats(1)}), npz)
        empty = self.path("empty.npz")
        self.good("convert", "--rename", "w=", self.model("one.ckpt", {"w": floats(1)}), empty)
        os.mkdir(self.path("closed"))
        os.chmod(self.path("closed"), 0o500)
        cases = [((npz,), "m.safetensors", '"__metadata__"'), ((empty,), "m", "its name is empty"),
                 ((self.model(),), "missing/m.safetensors", "there is no folder"),
                 ((self.model(),), "missing/deep/m", "there is no folder"),
                 ((self.model(),), "missing/m.npz", "there is no folder"),
                 (("--shard-size", "8", self.model()), "missing/m.safetensors", "there is no folder"),
                 ((self.model(),), "one.ckpt.index/m.npz", "one.ckpt.index")]
        if os.geteuid() != 0:
            cases.append(((self.model(),), "closed/m.npz", "Permission denied"))
        for arguments, target, says in cases:
            messages = []
            for flags in ((), ("--dry-run",)):
                done = run("convert", *flags, *arguments, self.path(target))
                self.assert_one_line(done, 1, says)
                messages.append(done.stderr)
            if ".tmp-" not in messages[0]:
                self.assertEqual(*messages)
        nothing = self.path("nothing.npz")
        with zipfile.ZipFile(nothing, "w"):
            pass
        for flags in ((), ("--dry-run",)):
            self.assert_one_line(run("convert", *flags, nothing, self.path("n.tfrecord")), 1, "no tensor was added")
        dry = self.good("convert", "--dry-run", nothing, self.path("n.safetensors"))
        self.assertEqual(dry, self.path("n.safetensors") + ": would have 0 tensors, 0 B to read, safetensors\n")
        self.good("convert", "--dry-run", self.model(), self.path("newfolder/m"))
        self.assertFalse(os.path.exists(self.path("newfolder")))


if __name__ == "__main__":
    case_report.main("replace")
