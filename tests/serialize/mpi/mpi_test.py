#!/usr/bin/env python3
"""ShardedSave and ShardedLoad in jobs of MPI, and `tensorcask reshard` as one: 4 ranks save, 3, 2 and 1 load; ranks are
killed at random moments, on disk and in an object store.

    bazel test //tests/serialize/mpi:mpi_test

TENSORCASK_MPI_KILLS and TENSORCASK_MPI_STORE_KILLS are the numbers of kills; AWS_ENDPOINT_URL with its keys and
TENSORCASK_MPI_BUCKET name another store than the one in this process. SKIPPED without mpirun.
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
from store_server import StoreServer  # noqa: E402

JOB = os.path.abspath(os.environ.get("TENSORCASK_MPI_JOB", "tests/serialize/mpi/mpi_job"))
TOOL = os.path.abspath(os.environ.get("TENSORCASK_TOOL", "tools/tensorcask"))
KILLS = int(os.environ.get("TENSORCASK_MPI_KILLS", "12"))
STORE_KILLS = int(os.environ.get("TENSORCASK_MPI_STORE_KILLS", "6"))
BUCKET = os.environ.get("TENSORCASK_MPI_BUCKET", "")


@unittest.skipUnless(shutil.which("mpirun"), "SKIPPED: there is no mpirun")
class Mpi(unittest.TestCase):
    def setUp(self):
        # A short path: sockets of Open MPI lie below it.
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.prefix = os.path.join(self.folder, "step")
        self.pids = os.path.join(self.folder, "pids")
        self.environment = dict(
            os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=self.folder
        )

    def start(self, ranks, *arguments, program=JOB):
        shutil.rmtree(self.pids, ignore_errors=True)
        os.mkdir(self.pids)
        command = ["mpirun", "--oversubscribe", "-n", str(ranks), "--mca", "btl", "self,vader", program, *arguments]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                encoding="utf-8")  # fmt: skip

    def run_job(self, ranks, *arguments, program=JOB):
        job = self.start(ranks, *arguments, program=program)
        out, _ = job.communicate(timeout=240)
        return job.returncode, out

    def good(self, ranks, *arguments, program=JOB):
        status, out = self.run_job(ranks, *arguments, program=program)
        self.assertEqual(status, 0, out)
        return out

    def version(self, prefix=None):
        done = subprocess.run([JOB, "version", prefix or self.prefix], capture_output=True, encoding="utf-8",
                              timeout=120, env=self.environment)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)  # a mixture is an error
        return done.stdout.strip()

    def test_other_numbers_of_ranks_load(self):
        self.good(4, "save", self.prefix, "1", self.pids)
        self.assertEqual(self.version(), "1")
        self.assertTrue(os.path.exists(self.prefix + ".data-00003-of-00004"))
        for ranks in (3, 1):
            self.good(ranks, "load", self.prefix, "1")

    def test_ranks_of_a_host_read_once_what_they_share(self):
        self.good(4, "save", self.prefix, "1", self.pids)
        self.assertEqual(self.good(4, "share", self.prefix, "1"), "1.000\n")

    def reshard(self, ranks, target, *arguments):
        return self.run_job(ranks, "reshard", self.prefix, target, *arguments, program=TOOL)

    def test_reshard_is_one_job(self):
        self.good(3, "save", self.prefix, "1", self.pids)
        division = ("--mesh", "model=4", "--spec", "layer/*=-,model")
        alone = self.prefix + "-alone"
        done = subprocess.run([TOOL, "reshard", self.prefix, alone, *division], capture_output=True, encoding="utf-8")
        self.assertEqual(done.returncode, 0, done.stderr)
        for share in ("none", "host"):
            with self.subTest(share=share):
                target = f"{self.prefix}-{share}"
                status, out = self.reshard(4, target, *division, "--share", share)
                self.assertEqual(status, 0, out)
                self.assertEqual(out, done.stdout.replace(alone, target))  # said once
                self.assertEqual(self.version(target), "1")
                if share == "none":
                    for ending in [".index"] + [f".data-0000{rank}-of-00004" for rank in range(4)]:
                        with open(alone + ending, "rb") as one, open(target + ending, "rb") as other:
                            self.assertEqual(one.read(), other.read(), ending)
        status, out = self.reshard(1, self.prefix + "-one", *division)  # a job of one rank is none
        self.assertEqual(status, 0, out)
        self.assertEqual(self.version(self.prefix + "-one"), "1")

    def test_reshard_refuses_as_one(self):
        self.good(2, "save", self.prefix, "1", self.pids)
        status, out = self.reshard(2, self.prefix + "-new", "--mesh", "model=3")
        self.assertEqual(status, 1, out)
        self.assertEqual(out.count("mesh model=3 has 3 ranks; the job has 2"), 1, out)
        status, out = self.reshard(2, self.prefix, "--mesh", "model=2")
        self.assertEqual(status, 1, out)
        self.assertEqual(out.count("--overwrite replaces it"), 1, out)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("step-new")], [])

    def test_reshard_without_the_program_of_jobs(self):
        self.good(2, "save", self.prefix, "1", self.pids)
        lonely = os.path.join(self.folder, "tensorcask")
        shutil.copy(TOOL, lonely)
        status, out = self.run_job(2, "reshard", self.prefix, self.prefix + "-new", "--mesh", "model=2", program=lonely)
        self.assertEqual(status, 1, out)
        self.assertIn("jobs of mpirun need the program tensorcask-mpi", out)

    def wait_for_rank(self, job, rank):
        """Waits until the rank is about to save. Gives the file with its process id."""
        path = os.path.join(self.pids, str(rank))
        while job.poll() is None and not (os.path.exists(path) and os.path.getsize(path) > 0):
            time.sleep(0.001)
        return path

    def kill_saves(self, kills, prefix, names):
        """Kills a rank in each of many saves. names() are the files that are there."""
        job = self.start(4, "save", prefix, "1", self.pids)
        self.wait_for_rank(job, 0)
        begin = time.monotonic()
        out, _ = job.communicate(timeout=240)
        self.assertEqual(job.returncode, 0, out)
        longest = time.monotonic() - begin
        seen = {"old": 0, "new": 0}
        chance = random.Random(os.environ.get("TEST_RANDOM_SEED", "7"))
        old = 1
        for number in range(kills):
            new = old + 1
            job = self.start(4, "save", prefix, str(new), self.pids)
            path = self.wait_for_rank(job, chance.randrange(4))
            time.sleep(chance.random() * longest)
            try:
                with open(path, encoding="utf-8") as file:
                    os.kill(int(file.read()), signal.SIGKILL)
                killed = True
            except ProcessLookupError:
                killed = False  # it had ended
            out, _ = job.communicate(timeout=240)
            found = self.version(prefix)
            seen["old" if found == str(old) else "new"] += 1
            self.assertIn(found, (str(old), str(new)), f"kill {number}: {out}")
            if not killed:
                self.assertEqual(found, str(new), out)
            # The next save of that name removes what was left.
            self.good(4, "save", prefix, str(new + 1), self.pids)
            self.assertEqual(self.version(prefix), str(new + 1))
            self.assertFalse([name for name in names() if ".tmp-" in name])
            old = new + 1
        print(f"{kills} kills: {seen['old']} left the old checkpoint, {seen['new']} the new one", file=sys.stderr)
        if kills >= 10:
            self.assertGreater(seen["old"], 0)

    def test_a_killed_rank_leaves_the_old_or_the_new(self):
        self.kill_saves(KILLS, self.prefix, lambda: os.listdir(self.folder))

    def test_a_killed_rank_leaves_the_old_or_the_new_in_a_store(self):
        if BUCKET:
            self.kill_saves(STORE_KILLS, f"s3://{BUCKET}/run/step", lambda: [])
            return
        server = StoreServer()
        self.addCleanup(server.close)
        self.environment.update(server.environment())
        # What a killed rank was sending is no object, and the next save removes it.
        self.kill_saves(STORE_KILLS, "s3://bucket/run/step",
                        lambda: [*server.objects, *(f"{one.path}.tmp-upload" for one in server.uploads.values())])  # fmt: skip


if __name__ == "__main__":
    case_report.main("mpi")
