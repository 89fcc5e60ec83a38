#!/usr/bin/env python3
"""The tool and distributed checkpoints of PyTorch: folders of the files of several processes."""

import json
import os
import sys

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from dcp_files import Checkpoint, two_ranks  # noqa: E402
from tool_testing import Archives, run  # noqa: E402
from torch_test import number  # noqa: E402


class Dcp(Archives):
    def setUp(self):
        super().setUp()
        self.step = two_ranks().write(self.path("step"))

    def test_ls(self):
        for path in (self.step, self.step + "/", os.path.join(self.step, ".metadata")):
            listing = json.loads(self.good("ls", "--json", path))
            self.assertEqual(listing["format"], "dcp")
            self.assertEqual([(one["name"], one["dtype"], one["shape"]) for one in listing["tensors"]],
                             [("model.columns", "float32", [2, 3]), ("model.rows", "float32", [3, 2]),
                              ("scale", "float32", [])])  # fmt: skip
        self.assertIn("model.rows", self.good("ls", self.step))
        values = json.loads(self.good("ls", "--json", "--values", self.step))["values"]
        self.assertEqual((values["epoch"], values["optim"]), (3, {"lr": 0.5}))

    def test_show_stats_verify_diff(self):
        for name, shape in (("model.rows", "[3,2]"), ("model.columns", "[2,3]")):
            shown = self.good("show", self.step, name)
            self.assertIn(f"float32 {shape}", shown)
            self.assertEqual([float(word) for word in shown.replace("[", " ").replace("]", " ").split()
                              if word.replace(".", "").isdigit()], [0, 1, 2, 3, 4, 5], shown)  # fmt: skip
        self.assertEqual(self.good("show", "--slice", "1,1:1,2", self.step, "model.columns"), "float32 [1,2]\n[[4 5]]\n")
        self.assertEqual(self.good("show", self.step, "optim.lr"), "0.5\n")
        self.good("stats", self.step)
        self.good("verify", self.step)
        self.assertIn("3 tensors equal", self.good("diff", self.step, self.step))

    def test_convert_joins_the_parts(self):
        self.good("convert", self.step, self.path("m.safetensors"))
        self.good("diff", self.step, self.path("m.safetensors"))
        metadata = json.loads(self.good("ls", "--json", self.path("m.safetensors")))["metadata"]
        self.assertEqual((metadata["epoch"], metadata["optim.lr"]), ("3", "0.5"))
        self.good("convert", self.step, self.path("m.pt"))
        self.good("diff", self.step, self.path("m.pt"))
        nested = json.loads(self.good("show", self.path("m.pt"), "."))
        self.assertEqual((nested["epoch"], nested["optim"]["lr"]), (3, 0.5))
        self.good("convert", self.step, self.path("few.npz"), "--include", "model.*")
        self.assertEqual(len(json.loads(self.good("ls", "--json", self.path("few.npz")))["tensors"]), 2)
        self.assert_one_line(run("convert", self.path("m.pt"), self.path("d"), "--to", "dcp"), 2, "dcp not in")

    def test_a_missing_file_hides_its_tensors_alone(self):
        os.remove(os.path.join(self.step, "__1_0.distcp"))
        listing = {one["name"]: one for one in json.loads(self.good("ls", "--json", self.step))["tensors"]}
        self.assertIn("__1_0.distcp", listing["model.rows"]["error"])
        self.assertNotIn("error", listing["scale"])
        self.assertEqual(self.good("show", self.step, "scale"), "float32 []\n7\n")
        done = run("verify", self.step)
        self.assertEqual(done.returncode, 1)
        self.assertIn('tensor "model.columns"', done.stdout + done.stderr)
        self.assertEqual(run("convert", self.step, self.path("m.npz")).returncode, 1)
        self.assertFalse(os.path.exists(self.path("m.npz")))
        self.good("convert", "--allow-loss", self.step, self.path("m.npz"))

    def test_damage_is_found(self):
        path = os.path.join(self.step, "__0_0.distcp")
        with open(path, "r+b") as file:
            content = file.read()
            file.seek(content.index(b"\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40"))
            file.write(b"\1")
        done = run("verify", self.step)
        self.assertEqual(done.returncode, 1)
        self.assertIn('tensor "model.rows"', done.stdout + done.stderr)
        self.assertNotIn('tensor "model.columns"', done.stdout + done.stderr)

    def test_boxes_that_do_not_fit(self):
        for boxes, what in (([("__0_0.distcp", (0,), (2,), [0, 1])], "w"),
                            ([("__0_0.distcp", (0,), (2,), [0, 1]), ("__0_0.distcp", (1,), (2,), [1, 2])], "w"),
                            ([("__0_0.distcp", (0,), (2,), [0, 1]), ("__0_0.distcp", (2,), (2,), [2, 3])], "w")):  # fmt: skip
            checkpoint = Checkpoint()
            checkpoint.tensor("w", (3,), boxes)
            checkpoint.tensor("good", (1,), [("__0_0.distcp", (0,), (1,), [9])])
            folder = checkpoint.write(self.path("bad"))
            self.assertEqual(self.good("show", folder, "good"), "float32 [1]\n[9]\n")
            done = run("show", folder, what)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn('tensor "w"', done.stderr)

    def test_what_is_no_checkpoint_is_named(self):
        os.remove(os.path.join(self.step, ".metadata"))
        done = run("ls", self.step)
        self.assertEqual(done.returncode, 1)
        self.assertIn(".metadata", done.stderr)
        outside = Checkpoint()
        outside.item("../secret", b"x", "w")
        outside.value("epoch", number(1))
        os.makedirs(self.path("step2"))
        folder = outside.write(self.path("step2"))
        self.assertNotIn("Traceback", run("ls", folder).stderr)
        os.remove(self.path("secret"))


if __name__ == "__main__":
    case_report.main("dcp")
