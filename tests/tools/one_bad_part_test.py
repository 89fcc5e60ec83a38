#!/usr/bin/env python3
"""One bad part of a file (member, record, shard, dtype, data file) hides nothing else, for every command."""

import json
import os
import struct
import subprocess
import sys
import time
import zipfile

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import TOOL, Scratch, index_of, is_listened_to, masked_crc32c, read, run  # noqa: E402

DAMAGED, UNKNOWN, INCOMPLETE = "damaged", "unknown", "incomplete"


class Case:
    """A file with the tensors "a" (1, 7) and "c" (3, 7), and a bad one, whose kind says what verify finds."""

    def __init__(self, path, bad, kind, extension, has_dtype=False):
        self.path = path
        self.bad = bad  # its name
        self.kind = kind
        self.extension = extension
        self.has_dtype = has_dtype  # of the bad tensor, too


class Files(Scratch):
    """Makes the files; each method of MAKERS makes one with another bad part."""

    def tensors(self, name, tensors, *options):
        """A file of float32 [2] tensors {name: first element}."""
        parts = []
        for tensor, value in tensors.items():
            text = f"dtype: DT_FLOAT tensor_shape {{ dim {{ size: 2 }} }} float_val: [{value}, 7]"
            parts.append(self.write(f"{tensor}.pbtxt", text))
        done = run("convert", "--format", "tensorproto-text", *options, *parts, self.path(name))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path(name)

    def good(self, name, *options):
        return self.tensors(name, {"a": 1, "b": 2, "c": 3}, *options)

    def put(self, path, content):
        with open(path, "wb") as file:
            file.write(content)
        return path

    def damaged_record(self):
        path = self.good("r.tfrecord")
        content = read(path)
        self.assertEqual(content.count(struct.pack("<2f", 2, 7)), 1)
        self.put(path, content.replace(struct.pack("<2f", 2, 7), struct.pack("<2f", 9, 7)))
        return Case(path, "1", DAMAGED, ".tfrecord")

    def record_that_is_no_tensor(self):
        path = self.good("r.tfrecord")
        record = b"\x08\x7f\x12\x00"  # dtype 127: a reference
        header = struct.pack("<Q", len(record))
        framed = header + struct.pack("<I", masked_crc32c(header)) + record + struct.pack("<I", masked_crc32c(record))
        content = read(path)
        size = len(content) // 3
        self.put(path, content[:size] + framed + content[2 * size:])
        return Case(path, "1", DAMAGED, ".tfrecord")

    def cut_records(self):
        path = self.tensors("r.tfrecord", {"a": 1, "c": 3, "d": 2})
        self.put(path, read(path)[:-3])
        return Case(path, "2", DAMAGED, ".tfrecord")

    def record_of_damaged_length(self):
        path = self.tensors("r.tfrecord", {"a": 1, "c": 3, "d": 2})
        content = bytearray(read(path))
        content[2 * len(content) // 3] ^= 1
        self.put(path, content)
        return Case(path, "2", DAMAGED, ".tfrecord")

    def damaged_header_of_a_member(self):
        path = self.good("z.npz")
        content = bytearray(read(path))
        content[content.index(b"\x93NUMPY", content.index(b"\x93NUMPY") + 1)] ^= 1
        self.put(path, content)
        return Case(path, "b", DAMAGED, ".npz")

    def member_of_a_later_version(self):
        path = self.good("z.npz")
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        members["b.npy"] = members["b.npy"][:6] + b"\x09\x00" + members["b.npy"][8:]
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name), content)
        return Case(path, "b", UNKNOWN, ".npz")

    def local_header_of_a_member(self):
        path = self.good("z.npz")
        content = bytearray(read(path))
        content[content.index(b"b.npy")] ^= 1
        self.put(path, content)
        return Case(path, "b", DAMAGED, ".npz")

    def member_of_another_method(self):
        path = self.good("z.npz")
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content, zipfile.ZIP_BZIP2 if name == "b.npy" else zipfile.ZIP_STORED)
        return Case(path, "b", UNKNOWN, ".npz")

    def safetensors_of_unknown_dtype(self):
        path = self.good("s.safetensors", "--no-checksums")
        content = read(path)
        at = content.index(b'"b":{"dtype":"') + len(b'"b":{"dtype":"')
        self.put(path, content[:at] + b"Q32" + content[at + 3:])
        return Case(path, "b", UNKNOWN, ".safetensors")

    def model(self):
        return self.good("m.safetensors.index.json", "--shard-size", "8")

    def missing_shard(self):
        path = self.model()
        os.unlink(self.path("m-00002-of-00003.safetensors"))
        return Case(path, "b", DAMAGED, ".safetensors")

    def damaged_shard(self):
        path = self.model()
        self.put(self.path("m-00002-of-00003.safetensors"), b"\xff" * 16)
        return Case(path, "b", DAMAGED, ".safetensors")

    def shard_without_its_tensor(self):
        path = self.model()
        self.put(self.path("m-00002-of-00003.safetensors"), struct.pack("<Q", 8) + b"{}      ")
        return Case(path, "b", DAMAGED, ".safetensors")

    def shard_that_is_a_folder(self):
        path = self.missing_shard().path
        os.mkdir(self.path("m-00002-of-00003.safetensors"))
        return Case(path, "b", DAMAGED, ".safetensors")

    def shard_that_is_a_pipe(self):
        path = self.missing_shard().path
        os.mkfifo(self.path("m-00002-of-00003.safetensors"))
        return Case(path, "b", DAMAGED, ".safetensors")

    def checkpoint(self, name, dtypes=(1, 1, 1)):
        """A checkpoint whose three tensors lie in three data files."""
        entries = [(b"", b"\x08\x03\x1a\x02\x08\x01")]
        for shard, (tensor, dtype) in enumerate(zip((b"a", b"b", b"c"), dtypes)):
            data = struct.pack("<2f", shard + 1, 7)
            self.put(self.path(f"{name}.data-0000{shard}-of-00003"), data)
            place = b"\x18" + bytes([shard]) if shard else b""
            entries.append((tensor, b"\x08" + bytes([dtype]) + b"\x12\x04\x12\x02\x08\x02" + place + b"\x28\x08\x35" +
                            struct.pack("<I", masked_crc32c(data))))
        self.put(self.path(name + ".index"), index_of(entries))
        return self.path(name)

    def missing_data_file(self):
        path = self.checkpoint("k")
        os.unlink(path + ".data-00001-of-00003")
        return Case(path, "b", DAMAGED, "", has_dtype=True)

    def data_file_that_is_a_folder(self):
        path = self.missing_data_file().path
        os.mkdir(path + ".data-00001-of-00003")
        return Case(path, "b", DAMAGED, "", has_dtype=True)

    def checkpoint_of_unknown_dtype(self):
        return Case(self.checkpoint("k", (1, 120, 1)), "b", UNKNOWN, "")

    def incomplete_slices(self):
        """As TensorFlow stores a slot of a partitioned variable: "b" lists one of its two elements."""
        data = struct.pack("<2f", 1, 7) + struct.pack("<2f", 3, 7) + struct.pack("<f", 2)

        def entry(first, last):
            return (b"\x08\x01\x12\x04\x12\x02\x08" + bytes([(last - first) // 4]) +
                    (b"\x20" + bytes([first]) if first else b"") + b"\x28" + bytes([last - first]) + b"\x35" +
                    struct.pack("<I", masked_crc32c(data[first:last])))

        whole = b"\x08\x01\x12\x04\x12\x02\x08\x02\x3a\x04\x0a\x02\x10\x01"
        path = self.bundle("i", [(b"\0b\0\1\1\1\x80\x81", entry(16, 20)), (b"a", entry(0, 8)), (b"b", whole),
                                 (b"c", entry(8, 16))], data)
        return Case(path, "b", INCOMPLETE, "", has_dtype=True)

    MAKERS = (damaged_record, record_that_is_no_tensor, cut_records, record_of_damaged_length,
              damaged_header_of_a_member, member_of_a_later_version, local_header_of_a_member, member_of_another_method,
              safetensors_of_unknown_dtype, missing_shard, damaged_shard, shard_without_its_tensor,
              shard_that_is_a_folder, shard_that_is_a_pipe, missing_data_file, data_file_that_is_a_folder,
              checkpoint_of_unknown_dtype, incomplete_slices)


class OneBadPart(Files):
    def for_each_case(self, check):
        for maker in self.MAKERS:
            with self.subTest(maker.__name__):
                self.setUp()
                check(maker(self))

    def names_in(self, path):
        done = run("ls", "--json", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [tensor["name"] for tensor in json.loads(done.stdout)["tensors"]]

    def assert_names_the_bad_one(self, text, case):
        self.assertIn(f'tensor "{case.bad}"', text)

    def test_ls_lists_all(self):
        def check(case):
            code = 1 if case.kind == DAMAGED and not case.has_dtype else 0
            done = run("ls", case.path)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            lines = done.stdout.splitlines()
            self.assertEqual([line.split()[0] for line in lines[:3]], sorted(["a", "c", case.bad]))
            self.assertTrue(lines[-1].startswith("total: 3 tensors"), lines[-1])
            for name in ("a", "c"):
                self.assertRegex(done.stdout, rf"(?m)^{name} +float32 +\[2\]")
            if code == 1:
                self.assert_names_the_bad_one(done.stderr, case)
            document = json.loads(run("ls", "--json", case.path).stdout)
            tensors = {tensor["name"]: tensor for tensor in document["tensors"]}
            self.assertEqual(sorted(tensors), sorted(["a", "c", case.bad]))
            self.assertEqual([name for name in tensors if "error" in tensors[name]],
                             [] if case.has_dtype and case.kind == DAMAGED else [case.bad])

        self.for_each_case(check)

    def test_show_reads_the_others(self):
        def check(case):
            done = run("show", case.path, "c")
            self.assertEqual((done.returncode, done.stdout), (0, "float32 [2]\n[3 7]\n"), done.stderr)
            done = run("show", case.path, case.bad)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(f'"{case.bad}"', done.stderr)
            code = 0 if case.kind == INCOMPLETE else 1  # its parts can be read
            self.assertEqual(run("show", "--slice", "0:1", case.path, case.bad).returncode, code)

        self.for_each_case(check)

    def test_stats_measures_the_others(self):
        def check(case):
            done = run("stats", case.path)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stdout, r"(?m)^c +float32 +\[2\] +3 +7")
            done = run("stats", "--json", case.path)
            self.assertEqual(done.returncode, 1)
            tensors = {tensor["name"]: tensor for tensor in json.loads(done.stdout)["tensors"]}
            self.assertEqual([name for name in tensors if "error" in tensors[name]], [case.bad])
            self.assertEqual(tensors["a"]["min"], 1)
            self.assertEqual(run("stats", case.path, "a", "c").returncode, 0)

        self.for_each_case(check)

    def test_diff_compares_the_others(self):
        def check(case):
            other = self.tensors("other.npz", {"a": 1, "c": 4, case.bad: 2})
            done = run("diff", "--json", case.path, other)
            self.assertEqual(done.returncode, 1, done.stderr)
            document = json.loads(done.stdout)
            self.assertEqual(document["equal"], 1)
            kinds = {one["name"]: one["kind"] for one in document["differences"]}
            self.assertEqual(kinds, {"c": "values", case.bad: "error"})
            self.assertEqual(run("diff", case.path, other, "a").returncode, 0)

        self.for_each_case(check)

    def test_verify_checks_the_others(self):
        def check(case):
            done = run("verify", case.path)
            self.assertEqual(done.returncode, 1 if case.kind == DAMAGED else 0, done.stdout + done.stderr)
            total = done.stdout.splitlines()[-1]
            self.assertTrue(total.startswith(f"{case.path}: 2 tensors whole"), done.stdout + done.stderr)
            says = {DAMAGED: "damage", UNKNOWN: "1 of a kind that cannot be checked yet", INCOMPLETE: "1 incomplete"}
            self.assertIn(says[case.kind], total)
            document = json.loads(run("verify", "--json", case.path).stdout)["files"][0]
            self.assertEqual(document["whole"], 2)
            self.assertEqual(document["damaged"] + document["damaged_elsewhere"] > 0, case.kind == DAMAGED)
            self.assertEqual(document["not_checked"], 1 if case.kind == UNKNOWN else 0)
            self.assertEqual(document["incomplete"], 1 if case.kind == INCOMPLETE else 0)

        self.for_each_case(check)

    def test_convert_leaves_out_only_what_was_allowed(self):
        def check(case):
            for extension in {case.extension, ".npz"}:
                out = self.path("out" + extension)
                done = run("convert", case.path, out)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assert_names_the_bad_one(done.stderr, case)
                self.assertIn("--allow-loss leaves the tensor out", done.stderr)
                self.assertEqual(run("convert", "--dry-run", case.path, out).returncode, 1)
                for choice in (["--exclude", case.bad], ["--include", "[ac]"]):
                    done = run("convert", "--overwrite", *choice, case.path, out)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertNotIn("lost", done.stdout)
                    self.assertEqual(self.names_in(out), ["a", "c"])
                done = run("convert", "--overwrite", "--allow-loss", case.path, out)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("lost: ", done.stdout)
                self.assert_names_the_bad_one(done.stdout, case)
                self.assertEqual(self.names_in(out), ["a", "c"])
                self.assertEqual(run("diff", case.path, out, "a", "c").returncode, 0)

        self.for_each_case(check)

    def test_cat_leaves_out_only_what_was_allowed(self):
        def cat(*arguments):
            return subprocess.run([TOOL, "cat", *arguments], capture_output=True, timeout=60, check=False)

        def check(case):
            done = cat(case.path)
            self.assertEqual((done.returncode, done.stdout), (1, b""))
            self.assert_names_the_bad_one(done.stderr.decode(), case)
            self.assertIn(b"--allow-loss leaves the tensor out", done.stderr)
            for arguments in ([case.path, "[ac]"], ["--exclude", case.bad, case.path], ["--allow-loss", case.path]):
                done = cat(*arguments)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(b"lost: " in done.stderr, "--allow-loss" in arguments)
                stream = self.put(self.path("stream.tfrecord"), done.stdout)
                self.assertEqual(self.names_in(stream), ["a", "c"])

        self.for_each_case(check)

    def test_salvage_saves_the_others(self):
        def check(case):
            out = self.path("saved" + case.extension)
            done = run("salvage", case.path, out)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            lines = done.stdout.splitlines()
            self.assertEqual(lines[-1], f"{out}: 2 tensors saved")
            self.assertTrue(all(line.startswith("lost: ") for line in lines[:-1]), lines)
            self.assertIn(f'"{case.bad}"', "".join(lines[:-1]))
            self.assertEqual(self.names_in(out), ["a", "c"])
            self.assertEqual(run("diff", case.path, out, "a", "c").returncode, 0)
            self.assertEqual(run("verify", out).returncode, 0)
            done = run("salvage", "--json", "--overwrite", case.path, out)
            self.assertEqual(done.returncode, 1)
            document = json.loads(done.stdout)
            self.assertEqual(document["saved"], 2)
            self.assertIn(case.bad, [lost["name"] for lost in document["lost"]])

        self.for_each_case(check)

    def test_a_stream_of_records_is_read_like_a_file(self):
        for maker in (Files.damaged_record, Files.cut_records, Files.record_that_is_no_tensor):
            self.setUp()
            case = maker(self)
            for command, code in (("ls", 1 if case.kind == DAMAGED else 0), ("stats", 1)):
                with open(case.path, "rb") as file:
                    done = subprocess.run([TOOL, command, "-"], stdin=file, capture_output=True, timeout=60, check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertRegex(done.stdout.decode(), r"(?m)^c +float32 +\[2\]")
            with open(case.path, "rb") as file:  # a part of a stream is not taken for all of it
                done = subprocess.run([TOOL, "convert", "-", self.path("out.npz")], stdin=file, capture_output=True,
                                      timeout=60, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertFalse(os.path.exists(self.path("out.npz")))


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
        self.assertEqual([one.split()[0] for one in done.stdout.splitlines()], ["a", "b", "c", "d", "total:"])
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


class Arrays(Files):
    def test_the_checksum_of_a_member_of_a_later_version_is_compared(self):
        path = self.good("z.npz")
        content = bytearray(read(path))
        content[content.index(b"\x93NUMPY", content.index(b"\x93NUMPY") + 1) + 6] ^= 8
        self.put(path, content)
        done = run("verify", path)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(f'damaged: {path}: tensor "b": has the CRC-32', done.stdout)
        self.assertIn(f"{path}: 2 tensors whole, 1 damaged", done.stdout)

    def test_an_array_of_several_in_an_npy_file(self):
        arrays = [read(self.tensors(f"{name}.npy", {name: value})) for name, value in (("a", 1), ("c", 3), ("d", 4))]
        objects = bytearray(arrays[2])
        at = objects.index(b"'<f4'")
        objects[at:at + 5] = b"'|O' "
        for content, code in ((b"".join(arrays)[:-3], 1), (b"".join([*arrays[:2], objects]), 0)):
            path = self.put(self.path("several.npy"), content)
            done = run("ls", path)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertRegex(done.stdout, r"(?m)^arr_1 +float32 +\[2\]")
            self.assertRegex(done.stdout, r"(?m)^arr_2 +invalid")
            self.assertEqual(run("show", path, "arr_1").stdout, "float32 [2]\n[3 7]\n")
            self.assertEqual(run("verify", path).returncode, code)
            done = run("salvage", "--overwrite", path, self.path("saved.npz"))
            self.assertEqual(done.returncode, 1)
            self.assertIn('tensor "arr_2"', done.stdout)
            self.assertTrue(done.stdout.endswith(": 2 tensors saved\n"), done.stdout)
            self.assertEqual(run("convert", path, self.path("new.npz")).returncode, 1)


class Advice(Files):
    """A command that fails because of damaged tensors says what helps."""

    SALVAGE = "tensorcask salvage saves the undamaged tensors"
    IGNORE = ", --ignore-checksums reads the others as they are"

    def changed(self):
        """(path, name of the tensor whose bytes do not match its checksum) in each format."""
        for maker in (lambda: self.good("e.tfrecord"), lambda: self.good("e.npz"), lambda: self.good("e.safetensors"),
                      self.model, lambda: self.checkpoint("e"), lambda: self.good("l", "--level", "default")):
            self.setUp()
            path = maker()
            changed = [self.path(name) for name in os.listdir(self.folder)
                       if not name.endswith(".pbtxt") and struct.pack("<2f", 2, 7) in read(self.path(name))]
            self.assertEqual(len(changed), 1, path)
            self.put(changed[0], read(changed[0]).replace(struct.pack("<2f", 2, 7), struct.pack("<2f", 9, 7)))
            yield path, "1" if path.endswith(".tfrecord") else "b"

    def absent(self):
        for maker in (self.missing_shard, self.damaged_shard, self.missing_data_file):
            self.setUp()
            case = maker()
            yield case.path, case.bad
        self.setUp()
        path = self.checkpoint("k")
        self.put(path + ".data-00001-of-00003", b"\1\2")
        yield path, "b"

    def check(self, path, bad, advice, *, is_checked_first):
        other = self.tensors("other.npz", {"a": 1, bad: 2, "c": 3})
        allow = "; --allow-loss leaves the tensor out; "
        for command, piece in ((["convert", path, self.path("out.npz")], allow if is_checked_first else "; "),
                               (["cat", path], allow),
                               (["show", path, bad], "; "),
                               (["stats", path], "tensorcask stats: "),
                               (["diff", path, other], "tensorcask diff: "),
                               (["ls", "--checksum", path], "tensorcask ls: ")):
            with self.subTest(command=command):
                done = run(*command)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertTrue(done.stderr.endswith(piece + advice + "\n"), done.stderr)
                self.assertEqual(done.stderr.count("salvage"), 1)

    def test_a_wrong_checksum(self):
        for path, bad in self.changed():
            self.check(path, bad, self.SALVAGE + self.IGNORE, is_checked_first=path.endswith(".tfrecord"))

    def test_a_missing_or_damaged_file(self):
        for path, bad in self.absent():
            self.check(path, bad, self.SALVAGE, is_checked_first=len(read(path + ".data-00001-of-00003")) == 0
                       if os.path.exists(path + ".data-00001-of-00003") else True)

    def test_other_errors_have_no_advice(self):
        path = self.put(self.path("m.safetensors"), b"<!DOCTYPE html><html></html>")
        for command in (["ls", path], ["show", path, "b"], ["convert", path, self.path("out.npz")]):
            self.assertNotIn("salvage", run(*command).stderr)
        self.assertNotIn("salvage", run("show", self.good("g.npz"), "d").stderr)
        done = run("salvage", path, self.path("out.npz"))
        self.assertEqual((done.returncode, done.stderr.count("salvage")), (1, 1), done.stderr)

    def test_cat_and_convert_of_what_only_the_elements_show(self):
        for path, bad in self.changed():
            with self.subTest(path=path):
                done = subprocess.run([TOOL, "cat", "--allow-loss", path], capture_output=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr.decode(), f'^tensorcask cat: lost: .*tensor "{bad}"')
                stream = self.put(self.path("stream.tfrecord"), done.stdout)
                self.assertEqual(self.good_names(stream), ["a", "c"])
                done = run("convert", "--allow-loss", path, self.path("out.npz"))
                if bad == "b":
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertTrue(done.stderr.endswith("; " + self.SALVAGE + self.IGNORE + "\n"), done.stderr)
                    self.assertFalse(os.path.exists(self.path("out.npz")))
                else:
                    self.assertEqual(done.returncode, 0, done.stderr)

    def good_names(self, path):
        done = run("ls", "--json", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [tensor["name"] for tensor in json.loads(done.stdout)["tensors"]]

    def test_what_send_says(self):
        for options, code in (([], 1), (["--allow-loss"], 0)):
            path, _ = next(pair for pair in self.changed() if pair[0].endswith(".npz"))
            socket = self.path("socket")
            with subprocess.Popen([TOOL, "recv", "--timeout", "60", "--unix", socket, self.path("got.npz")],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as recv:
                while not is_listened_to(socket):
                    time.sleep(0.01)
                done = run("send", *options, path, "--unix", socket, "--timeout", "60")
                self.assertEqual(recv.wait(60), code)
            self.assertEqual(done.returncode, code, done.stderr)
            if code == 0:
                self.assertIn('lost: ', done.stderr)
                self.assertEqual(done.stdout, f"{path}: 2 tensors sent\n")
                self.assertEqual(self.good_names(self.path("got.npz")), ["a", "c"])
            else:
                self.assertTrue(done.stderr.endswith(self.SALVAGE + self.IGNORE + "\n"), done.stderr)


class ChangedElements(Files):
    """The bytes of "b" are changed in place: the list is whole, the checksum is not."""

    def files(self):
        for name in ("e.tfrecord", "e.npz", "e.safetensors", "e"):
            self.setUp()
            path = self.good(name)
            place = path + ".data-00000-of-00001" if name == "e" else path
            content = read(place)
            self.assertEqual(content.count(struct.pack("<2f", 2, 7)), 1, name)
            self.put(place, content.replace(struct.pack("<2f", 2, 7), struct.pack("<2f", 9, 7)))
            yield path, "1" if name == "e.tfrecord" else "b"

    def test_they_are_read_without_checksums(self):
        for path, bad in self.files():
            with self.subTest(path):
                self.assertEqual(run("show", path, bad).returncode, 1)
                done = run("show", "--ignore-checksums", path, "b")
                self.assertEqual((done.returncode, done.stdout), (0, "float32 [2]\n[9 7]\n"), done.stderr)
                for command in (["ls", "--checksum"], ["stats"]):
                    self.assertEqual(run(*command, path).returncode, 1)
                    done = run(*command, "--ignore-checksums", path)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stdout.splitlines()[2 if command[0] == "stats" else 1].split()[0], "b")
                out = self.path("out.npz")
                self.assertEqual(run("convert", path, out).returncode, 1)
                self.assertEqual(run("convert", "--ignore-checksums", path, out).returncode, 0)
                self.assertEqual(run("show", out, "b").stdout, "float32 [2]\n[9 7]\n")
                self.assertEqual(run("diff", path, out).returncode, 1)
                self.assertEqual(run("diff", "--ignore-checksums", path, out).returncode, 0)
                for code, options in ((1, []), (0, ["--ignore-checksums"])):
                    done = subprocess.run([TOOL, "cat", *options, path], capture_output=True, timeout=60, check=False)
                    self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(run("verify", path).returncode, 1)
                self.assert_one_line(run("verify", "--ignore-checksums", path), 2, "--ignore-checksums")

    def test_salvage_leaves_them_out(self):
        for path, bad in self.files():
            extension = os.path.splitext(path)[1]
            done = run("salvage", path, self.path("saved" + extension))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f'"{bad}"', done.stdout.splitlines()[0])
            self.assertIn("2 tensors saved", done.stdout)

    def test_salvage_of_a_folder(self):
        for path, bad in self.files():
            for name in os.listdir(self.folder):
                if name.endswith(".pbtxt"):
                    os.unlink(self.path(name))
            done = run("salvage", self.folder, os.path.join(self.folder, "new", "saved"))
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("2 tensors saved", done.stdout)

    def test_salvage_never_replaces_its_source(self):
        for path, _ in self.files():
            before = read(path + ".index" if os.path.exists(path + ".index") else path)
            self.assert_one_line(run("salvage", "--overwrite", path, path), 1, "is what is to be salvaged")
            self.assertEqual(before, read(path + ".index" if os.path.exists(path + ".index") else path))


class ManyBadParts(Files):
    def test_verify_counts_all_damage(self):
        path = self.good("r.tfrecord")
        content = bytearray(read(path))
        for place in (1, 2):
            content[place * len(content) // 3 - 6] ^= 1  # in the data of the first and of the second record
        self.put(path, content)
        done = run("verify", path)
        self.assertEqual(done.returncode, 1)
        self.assertEqual([line.split(":")[0] for line in done.stdout.splitlines()[:2]], ["damaged"] * 2)
        self.assertEqual(done.stdout.splitlines()[2], f"{path}: 1 tensor whole, 2 damaged")

    def test_all_missing_files_are_named(self):
        path = self.model()
        for number in (1, 3):
            os.unlink(self.path(f"m-0000{number}-of-00003.safetensors"))
        done = run("ls", path)
        self.assertEqual(done.returncode, 1)
        wanted = "2 of the 3 files that it lists are missing: m-00001-of-00003.safetensors, m-00003-of-00003.safetensors"
        self.assertIn(f"{path}: {wanted}", done.stderr)
        done = run("verify", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 tensor whole, 2 damaged, damage outside of tensors in 2 places", done.stdout)

    def test_a_name_that_a_bad_record_would_share(self):
        path = self.tensors("r.tfrecord", {"1": 1, "b": 2, "c": 3})
        content = read(path)
        self.put(path, content.replace(struct.pack("<2f", 2, 7), struct.pack("<2f", 9, 7)))
        done = run("ls", path)
        self.assertEqual([line.split("  ")[0] for line in done.stdout.splitlines()[:3]], ["1", "c", "record-1"])

    def test_a_file_of_nothing_else_is_refused(self):
        path = self.tensors("r.tfrecord", {"a": 1})
        content = bytearray(read(path))
        content[-6] ^= 1
        self.put(path, content)
        for command in ("ls", "stats", "verify"):
            self.assert_one_line(run(command, path), 1, "record at 0", "checksum")

    def test_edit_accepts_what_lenient_accepts(self):
        for name in ("s.safetensors", "z.npz"):
            path = self.good(name, *(["--no-checksums"] if name.endswith("s") else []))
            if name == "s.safetensors":
                self.put(path, read(path) + b"behind")
            else:
                with zipfile.ZipFile(path) as archive:
                    members = {member: archive.read(member) for member in archive.namelist()}
                members["b.npy"] += b"behind"
                with zipfile.ZipFile(path, "w") as archive:
                    for member, content in members.items():
                        archive.writestr(zipfile.ZipInfo(member), content)
            rename = ["edit", "--rename", "a=x"]
            refused = name == "s.safetensors"  # a bad member of an npz file hides no other
            self.assertEqual(run(*rename, "--dry-run", path).returncode, 1 if refused else 0)
            done = run(*rename, "--lenient", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            listed = json.loads(run("ls", "--lenient", "--json", path).stdout)["tensors"]
            self.assertEqual([tensor["name"] for tensor in listed], ["b", "c", "x"])

    def test_members_of_macos_are_no_arrays(self):
        path = self.good("z.npz")
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("__MACOSX/._a.npy", b"\0\5\x16\7\0\2\0\0Mac OS X        " + bytes(140))
        note = 'member "__MACOSX/._a.npy" is not an array, and is not read'
        for command in ("ls", "stats", "cat"):
            done = subprocess.run([TOOL, command, path], capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(note.encode(), done.stderr)
        done = run("verify", path)
        self.assertEqual(done.returncode, 0)
        self.assertIn("note: " + path + ": " + note, done.stdout)
        self.assertIn("3 tensors whole\n", done.stdout)
        self.assertEqual(run("convert", path, self.path("out.safetensors")).returncode, 0)
        self.assertEqual(run("edit", "--remove", "b", path).returncode, 0)
        self.assertIn("total: 2 tensors", run("ls", path).stdout)
        # A byte of it changed: then it may have been an array.
        content = bytearray(read(path))
        content[content.index(b"Mac OS X")] ^= 1
        self.put(path, content)
        done = run("verify", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 tensors whole, 1 damaged", done.stdout)


if __name__ == "__main__":
    case_report.main("one bad part")
