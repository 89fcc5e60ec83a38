#!/usr/bin/env python3
"""Commands for damaged files: verify and salvage."""

import json
import os
import shutil
import sys

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import TENSORFLOW, Scratch, checkpoints, read, run, with_data  # noqa: E402


class Verify(Scratch):
    @with_data
    def test_every_checkpoint_of_tensorflow(self):
        prefixes = [prefix for prefix, _ in checkpoints()]
        done = run("verify", *prefixes)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 22)
        self.assertNotIn("damaged", done.stdout)

    def test_names_the_damaged_tensor_its_file_and_offset(self):
        prefix = self.checkpoint()
        path = prefix + ".data-00000-of-00001"
        damaged = bytearray(read(path))
        damaged[5] ^= 1
        with open(path, "wb") as file:
            file.write(damaged)
        done = run("verify", prefix)
        self.assertEqual(done.returncode, 1)
        line = done.stdout.splitlines()[0]
        for piece in ("damaged", '"w"', "model.ckpt.data-00000-of-00001", "offset 0"):
            self.assertIn(piece, line)
        # And reading it is refused.
        self.assert_one_line(run("show", prefix, "w"), 1, '"w"', ".data-00000-of-00001")

    def test_mentions_bytes_behind_the_last_tensor(self):
        prefix = self.checkpoint()
        with open(prefix + ".data-00000-of-00001", "ab") as file:
            file.write(b"behind")
        done = run("verify", prefix)
        self.assertEqual(done.returncode, 0)
        note, total = done.stdout.splitlines()
        self.assertRegex(note, r"^note: .*model.ckpt.data-00000-of-00001: \d+ bytes behind the last tensor")
        self.assertEqual(total, prefix + ": 1 tensor whole")

    def test_looks_at_all_paths(self):
        prefix = self.checkpoint()
        done = run("verify", self.path("no"), prefix)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no.index", done.stderr)
        self.assertIn("1 tensor whole", done.stdout)

    def test_a_message(self):
        good = self.write("good.pbtxt", "dtype: DT_INT8 int_val: 1")
        bad = self.write("bad.pbtxt", "dtype: DT_INT8 tensor_shape { dim { size: -3 } }")
        self.assertEqual(run("verify", "--format", "tensorproto-text", good).returncode, 0)
        done = run("verify", "--format", "tensorproto-text", bad)
        self.assertEqual(done.returncode, 1)
        self.assertIn("-3", done.stderr)


class Salvage(Scratch):
    def damage(self, path, position):
        damaged = bytearray(read(path))
        damaged[position] ^= 0xFF
        with open(path, "wb") as file:
            file.write(damaged)

    def test_all_of_an_undamaged_checkpoint(self):
        prefix = self.checkpoint()
        done = run("salvage", prefix + ".index", self.path("saved"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, self.path("saved") + ": 1 tensor saved\n")
        self.assertEqual(read(self.path("saved.index")), read(prefix + ".index"))

    @with_data
    def test_what_is_whole_and_a_line_for_what_is_lost(self):
        source = os.path.join(TENSORFLOW, "tf-mnist-ckpt", "model.ckpt-46900")
        for suffix in (".index", ".data-00000-of-00001"):
            shutil.copy(source + suffix, self.path("m" + suffix))
        tensors = {t["name"]: t for t in json.loads(run("ls", "--json", "--checksum", source).stdout)["tensors"]}
        self.damage(self.path("m.data-00000-of-00001"), tensors["dense/kernel"]["offset"] + 7)
        done = run("salvage", self.path("m"), self.path("saved"))
        self.assertEqual(done.returncode, 1)
        lost, total = done.stdout.splitlines()
        offset = tensors["dense/kernel"]["offset"]
        for piece in ("lost: ", "m.data-00000-of-00001", '"dense/kernel"', f"offset {offset}"):
            self.assertIn(piece, lost)
        self.assertEqual(total, f"{self.path('saved')}: {len(tensors) - 1} tensors saved")
        document = json.loads(run("ls", "--json", "--checksum", self.path("saved")).stdout)
        saved = {t["name"]: t for t in document["tensors"]}
        self.assertEqual(set(tensors) - set(saved), {"dense/kernel"})
        for name, tensor in saved.items():
            self.assertEqual([tensor[k] for k in ("dtype", "shape", "crc32")],
                             [tensors[name][k] for k in ("dtype", "shape", "crc32")])
        # The index cut in the middle of its footer is no loss: the blocks are there.
        index = read(source + ".index")
        shutil.copy(source + ".data-00000-of-00001", self.path("m.data-00000-of-00001"))
        with open(self.path("m.index"), "wb") as file:
            file.write(index[:-20])
        self.assertEqual(run("ls", self.path("m")).returncode, 1)
        done = run("salvage", "--overwrite", self.path("m"), self.path("saved"))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(run("verify", self.path("saved")).returncode, 0)

    @with_data
    def test_of_a_cut_index_what_its_front_shows(self):
        source = os.path.join(TENSORFLOW, "tf-mnist-ckpt", "model.ckpt-46900")
        for suffix in (".index", ".data-00000-of-00001"):
            shutil.copy(source + suffix, self.path("m" + suffix))
        index = read(source + ".index")
        with open(self.path("m.index"), "wb") as file:
            file.write(index[: len(index) * 3 // 5])
        done = run("salvage", self.path("m"), self.path("saved"))
        self.assertEqual(done.returncode, 1)
        *lines, total = done.stdout.splitlines()
        unverified = [line for line in lines if line.startswith("unverified: ")]
        self.assertGreater(len(unverified), 1)
        self.assertEqual(total, f"{self.path('saved')}: {len(unverified)} tensors saved")
        good, saved = ({t["name"]: t["crc32"] for t in self.listed(prefix)} for prefix in (source, self.path("saved")))
        self.assertEqual(saved, {name: good[name] for name in saved})

    def listed(self, prefix):
        return json.loads(run("ls", "--json", "--checksum", prefix).stdout)["tensors"]

    def test_v1_is_refused(self):
        done = run("salvage", self.write("v1.ckpt", "x"), self.path("saved"))
        self.assert_one_line(done, 1, "v1.ckpt", "V1 checkpoints cannot be salvaged")

    def test_json(self):
        prefix = self.checkpoint(tensors={"a\x1b": "dtype: DT_INT8 int_val: 1"})
        self.damage(prefix + ".data-00000-of-00001", 0)
        done = run("salvage", "--json", prefix, self.path("saved"))
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("\x1b", done.stdout)
        document = json.loads(done.stdout)
        self.assertEqual((document["source"], document["saved"]), (prefix, 0))
        (lost,) = document["lost"]
        self.assertEqual((lost["name"], lost["file"], lost["offset"]), ("a\x1b", prefix + ".data-00000-of-00001", 0))
        self.assertIn("checksum", lost["message"])
        self.assertFalse(os.path.exists(self.path("saved.index")))
        self.damage(prefix + ".index", 10)
        document = json.loads(run("salvage", "--json", prefix, self.path("saved")).stdout)
        self.assertIsNone(document["lost"][-1]["name"])

    def test_a_sliced_tensor(self):
        prefix = self.sliced()
        self.assertEqual(run("salvage", prefix, self.path("saved")).returncode, 0)
        self.assertEqual(run("show", self.path("saved"), "s").stdout, "float32 [4]\n[1 2 3 4]\n")
        self.damage(prefix + ".data-00000-of-00001", 9)
        done = run("salvage", prefix, self.path("none"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertIn('"s"', done.stdout)

    def test_refusals(self):
        prefix = self.checkpoint()
        before = read(prefix + ".index")
        self.assert_one_line(run("salvage", self.path("no"), self.path("x")), 1, "no.index")
        self.assert_one_line(run("salvage", prefix, prefix), 1, "model.ckpt")
        self.assert_one_line(run("salvage", "--overwrite", prefix, prefix + ".index"), 1, "model.ckpt")
        other = self.checkpoint("other.ckpt")
        self.assert_one_line(run("salvage", other, prefix), 1, "model.ckpt", "; --overwrite replaces it")
        self.assertEqual(read(prefix + ".index"), before)
        for arguments in ([], ["a"], ["--nonsense", "a", "b"]):
            self.assert_one_line(run("salvage", *arguments), 2, "--help")


if __name__ == "__main__":
    case_report.main("damage")
