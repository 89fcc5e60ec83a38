#!/usr/bin/env python3
"""ShardedSave and ShardedLoad in jobs of MPI: 4 ranks save, 3, 2 and 1 load; ranks are killed at random moments.

    bazel test //tests/serialize/mpi:mpi_test

TENSORCASK_MPI_KILLS is the number of kills. SKIPPED without mpirun.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support")]
import case_report  # noqa: E402

JOB = os.path.abspath(os.environ.get("TENSORCASK_MPI_JOB", "tests/serialize/mpi/mpi_job"))
KILLS = int(os.environ.get("TENSORCASK_MPI_KILLS", "12"))


@unittest.skipUnless(shutil.which("mpirun"), "SKIPPED: there is no mpirun")
class Mpi(unittest.TestCase):
    def setUp(self):
        # A short path: sockets of Open MPI lie below it.
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.prefix = os.path.join(self.folder, "step")
        self.pids = os.path.join(self.folder, "pids")

    def start(self, ranks, *arguments):
        shutil.rmtree(self.pids, ignore_errors=True)
        os.mkdir(self.pids)
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=self.folder)
        command = ["mpirun", "--oversubscribe", "-n", str(ranks), "--mca", "btl", "self,vader", JOB, *arguments]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                encoding="utf-8")  # fmt: skip

    def good(self, ranks, *arguments):
        job = self.start(ranks, *arguments)
        out, _ = job.communicate(timeout=240)
        self.assertEqual(job.returncode, 0, out)

    def version(self):
        done = subprocess.run([JOB, "version", self.prefix], capture_output=True, encoding="utf-8", timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)  # a mixture is an error
        return done.stdout.strip()

    def test_other_numbers_of_ranks_load(self):
        self.good(4, "save", self.prefix, "1", self.pids)
        self.assertEqual(self.version(), "1")
        self.assertTrue(os.path.exists(self.prefix + ".data-00003-of-00004"))
        for ranks in (3, 1):
            self.good(ranks, "load", self.prefix, "1")

    def test_a_killed_rank_leaves_the_old_or_the_new(self):
        self.good(4, "save", self.prefix, "1", self.pids)
        seen = set()
        chance = random.Random(os.environ.get("TEST_RANDOM_SEED", "7"))
        old = 1
        for number in range(KILLS):
            new = old + 1
            job = self.start(4, "save", self.prefix, str(new), self.pids)
            rank = os.path.join(self.pids, str(chance.randrange(4)))
            while job.poll() is None and not (os.path.exists(rank) and os.path.getsize(rank) > 0):
                time.sleep(0.001)
            time.sleep(chance.random() * 0.12)
            try:
                with open(rank, encoding="utf-8") as file:
                    os.kill(int(file.read()), signal.SIGKILL)
                killed = True
            except ProcessLookupError:
                killed = False  # it had ended
            out, _ = job.communicate(timeout=240)
            found = self.version()
            seen.add("old" if found == str(old) else "new")
            self.assertIn(found, (str(old), str(new)), f"kill {number}: {out}")
            if not killed:
                self.assertEqual(found, str(new), out)
            # The next save of that name removes what was left.
            self.good(4, "save", self.prefix, str(new + 1), self.pids)
            self.assertEqual(self.version(), str(new + 1))
            left = sorted(name for name in os.listdir(self.folder) if name.startswith("step"))
            self.assertFalse([name for name in left if ".tmp-" in name], left)
            old = new + 1
        if KILLS >= 10:
            self.assertIn("old", seen)


if __name__ == "__main__":
    case_report.main("mpi")
