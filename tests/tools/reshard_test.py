#!/usr/bin/env python3
"""tensorcask merge and tensorcask reshard: output, exit status, and the tensors that they write."""

import os
import shutil
import subprocess
import sys

sys.path[:0] = (
    os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support")
)
import case_report  # noqa: E402
from tool_testing import TOOL, Archives, floats, read, run  # noqa: E402


class Merge(Archives):
    def workers(self):
        self.model("w0", {"a": floats(1, 2)})
        self.model("w1", {"b": floats(3, 4), "c": floats(5)})
        return self.path("w0"), self.path("w1")

    def test_joins_checkpoints(self):
        w0, w1 = self.workers()
        out = self.good("merge", w0, w1 + ".index", self.path("m"))
        self.assertEqual(out, f"{self.path('m')}: 3 tensors in 2 data files\n")
        self.assertEqual(self.tensors(self.path("m")), {**self.tensors(w0), **self.tensors(w1)})
        self.assertEqual(read(self.path("m.data-00000-of-00002")), read(w0 + ".data-00000-of-00001"))

    def test_replaces_only_if_asked(self):
        w0, w1 = self.workers()
        self.good("merge", w0, self.path("m"))
        done = run("merge", w1, self.path("m"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("--overwrite replaces it", done.stderr)
        self.good("merge", "--overwrite", w1, self.path("m"))
        self.assertEqual(self.tensors(self.path("m")), self.tensors(w1))

    def test_sources_that_are_missing_or_go(self):
        w0, w1 = self.workers()
        done = run("merge", self.path("none"), w0, self.path("m"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.index", done.stderr)
        self.good("merge", "--allow-missing", "--remove-sources", self.path("none"), w0, w1, self.path("m"))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("w")], [])

    def test_what_is_replaced_and_removed_is_said(self):
        w0, w1 = self.workers()
        target = self.path("m")
        self.good("merge", w0, target)
        out = self.good("merge", "--overwrite", "--remove-sources", w0, w1, target)
        self.assertEqual(out, "".join(f"removed: {path}\n" for path in (
            target + ".data-00000-of-00001", w0 + ".index", w0 + ".data-00000-of-00001",
            w1 + ".index", w1 + ".data-00000-of-00001")) + f"{target}: 3 tensors in 2 data files\n")
        self.write("n.data-00000-of-00002", "precious")
        for command in (["merge", target], ["reshard", "--mesh", "m=2", target]):
            done = run(command[0], "--overwrite", *command[1:], self.path("n"))
            self.assertEqual(done.returncode, 0)
            self.assertEqual(done.stderr, f"tensorcask {command[0]}: {self.path('n')}.data-00000-of-00002: "
                             "no index counts this data file, and the new one replaces it\n")
            os.unlink(self.path("n.index"))
            os.unlink(self.path("n.data-00001-of-00002"))

    def test_a_data_file_that_nobody_read_stays(self):
        source = self.path("two")
        self.good("merge", *self.workers(), source)
        files = {name for name in os.listdir(self.folder) if name.startswith("two.data")}
        self.assertEqual(len(files), 2)
        self.good("edit", "--remove", "a", source)
        done = run("merge", "--remove-sources", source, self.path("m"))
        self.assertEqual(done.returncode, 0)
        left = files & set(os.listdir(self.folder))
        self.assertEqual(len(left), 1)
        self.assertEqual(done.stderr, f"tensorcask merge: {self.path(left.pop())} stays: no tensor is in it\n")

    def test_refuses_one_name_twice_and_misuse(self):
        w0, _ = self.workers()
        self.good("convert", w0, self.path("again"))
        done = run("merge", w0, self.path("again"), self.path("m"))
        self.assertEqual(done.returncode, 1)
        self.assertIn('tensor "a" is in', done.stderr)
        self.assertNotIn("--overwrite", done.stderr)
        self.assertEqual(run("merge", w0).returncode, 2)
        done = run("merge", "--overwrite", w0, self.path("w0"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("is one of the checkpoints to merge", done.stderr + done.stdout)


class Reshard(Archives):
    def source(self):
        return self.model("s", {"dense/kernel": floats(*range(40), shape=[10, 4]), "dense/bias": floats(7, 8)})

    def test_divides_and_joins(self):
        source = self.source()
        out = self.good("reshard", source, self.path("four"), "--mesh", "model=4", "--spec", "dense/*=model,-")
        self.assertIn("2 tensors in 6 pieces\n", out)
        self.assertIn("rank 0: 52 B\nrank 1: 52 B\nrank 2: 48 B\nrank 3: 16 B\n", out)
        self.assertIn("equal, 0 different", self.good("diff", source, self.path("four")))
        self.assertIn("sliced in 4", self.good("ls", self.path("four")))
        self.good("reshard", self.path("four"), self.path("one"), "--mesh", "all=1")
        self.assertEqual(self.tensors(self.path("one")), self.tensors(source))

    def test_the_first_spec_counts_and_one_that_matches_nothing_is_told(self):
        source = self.source()
        done = run("reshard", source, self.path("r"), "--mesh", "data=2,model=2", "--spec", "*bias=-", "--spec",
                   "dense/*=data,model", "--spec", "none*=data")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("none* matches no tensor", done.stderr)
        self.assertIn("2 tensors in 5 pieces\n", done.stdout)

    def test_refuses_what_does_not_fit(self):
        source = self.source()
        for arguments, status, says in (
            (("--mesh", "model"), 2, "wanted NAME=SIZE"),
            (("--mesh", "model=0"), 2, "has size 0"),
            (("--mesh", "model=2000000000"), 1, "2000000000 data files; wanted 1 to 99999"),
            (("--mesh", "model=2", "--spec", "dense"), 2, "wanted GLOB=AXIS"),
            (("--mesh", "model=2", "--spec", "*=data"), 2, 'divided over "data"; the mesh is model=2'),
            (("--mesh", "model=2", "--spec", "*=-,model"), 1, 'tensor "dense/bias": the spec divides axis 1'),
            (("--mesh", "model=3", "--spec", "*=model", "--exact"), 1, "3 ranks of"),
            (("--mesh", "model=2", "--share", "all"), 2, "--share"),
            ((), 2, "--mesh is required"),
        ):
            with self.subTest(arguments):
                done = run("reshard", source, self.path("r"), *arguments)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(says, done.stderr)
                self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("r.")])
        self.assertEqual(run("reshard", source, source, "--mesh", "a=1").returncode, 1)
        done = run("reshard", "--overwrite", source, source, "--mesh", "a=1")
        self.assertIn("is the checkpoint that is read", done.stderr)

    def test_a_job_needs_the_program_of_jobs(self):
        source = self.source()
        lonely = os.path.join(self.folder, "bin")
        os.mkdir(lonely)
        shutil.copy(TOOL, os.path.join(lonely, "tensorcask"))
        for variable in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"):
            environment = {**os.environ, "PATH": lonely, variable: "2"}
            for command, status in (
                (("reshard", source, self.path("r"), "--mesh", "model=2"), 1),
                (("reshard", "--help"), 0),
                (("ls", source), 0),
            ):
                done = subprocess.run([os.path.join(lonely, "tensorcask"), *command], env=environment,
                                      capture_output=True, encoding="utf-8", timeout=60, check=False)  # fmt: skip
                self.assertEqual(done.returncode, status, done.stderr)
                if status == 1:
                    self.assertIn("jobs of mpirun need the program tensorcask-mpi", done.stderr)
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("r.")])


if __name__ == "__main__":
    case_report.main("reshard")
