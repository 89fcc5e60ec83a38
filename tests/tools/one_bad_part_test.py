#!/usr/bin/env python3
"""One bad part of a file (member, record, shard, dtype, data file) hides nothing else, for every command."""

import json
import os
import struct
import subprocess
import sys
import zipfile

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from bad_files import DAMAGED, INCOMPLETE, UNKNOWN, Files  # noqa: E402
from tool_testing import TOOL, read, run  # noqa: E402


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
            self.assertTrue(lines[3].startswith("total: 3 tensors"), lines)
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
