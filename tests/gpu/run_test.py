#!/usr/bin/env python3
"""run.py with parts that pass, fail, hang, crash and say nothing: the table, result.json and the logs."""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), HERE]
import case_report  # noqa: E402
import gpu_parts  # noqa: E402
import part_results  # noqa: E402

# A program in the place of GoogleTest: writes the report that it is asked for.
GTEST = r"""
import json, sys
path = [a for a in sys.argv if a.startswith("--gtest_output=json:")][0].partition("json:")[2]
failures = [{"failure": "gpu_test.cc:7\nExpected equality of these values:\n  1\n  2"}]
print("[ RUN      ] Suite.Skipped\ngpu_test.cc:9: Skipped\nno second GPU\n\n[  SKIPPED ] Suite.Skipped (0 ms)")
json.dump({"testsuites": [{"name": "Suite", "testsuite": [
    {"name": "Good", "status": "RUN", "result": "COMPLETED"},
    {"name": "Disabled", "status": "NOTRUN", "result": "SUPPRESSED"},
    {"name": "Skipped", "status": "RUN", "result": "SKIPPED"},
    *([{"name": "Bad", "status": "RUN", "result": "COMPLETED", "failures": failures}] if "bad" in sys.argv else []),
]}]}, open(path, "w"))
sys.exit(1 if "bad" in sys.argv else 0)
"""
PYTEST = r"""
import sys
path = [a for a in sys.argv if a.startswith("--junitxml=")][0].partition("=")[2]
open(path, "w").write('''<testsuites><testsuite name="pytest">
<testcase classname="tests.frameworks_test" name="test_good"/>
<testcase classname="tests.frameworks_test" name="test_bad"><failure message="AssertionError: 1 == 2">def f():
&gt;   assert 1 == 2
E   AssertionError</failure></testcase>
<testcase classname="tests.frameworks_test" name="test_skipped"><skipped message="no cupy"/></testcase>
</testsuite></testsuites>''')
sys.exit(1)
"""
FIGURES = r"""
print("some text {")
print('{"name": "save", "value": 5.25, "unit": "GiB/s", "ratio": 0.91}')
print('{"name": "time of allocate", "value": 83, "unit": "ns"}')
print('{"case": "transformer", "outcome": "passed"}')
"""
HANGS = r"""
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("[ RUN      ] Suite.First\n[       OK ] Suite.First (2 ms)\n[ RUN      ] Suite.Hangs", flush=True)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(600)
"""
CRASHES = "import os, signal; print('about to crash', flush=True); os.kill(os.getpid(), signal.SIGSEGV)"


def is_alive(pid):
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = os.path.join(self.folder, "out")

    def part(self, name, program, *arguments, **fields):
        return dict(name=name, command=[sys.executable, "-c", program, *arguments], folder=None, **fields)

    def run_parts(self, parts, *arguments):
        """(exit status, output, result.json or None)."""
        path = os.path.join(self.folder, "parts.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(parts, file)
        command = [sys.executable, os.path.join(HERE, "run.py"), "--parts", path, "--out", self.out, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        result = None
        if os.path.exists(os.path.join(self.out, "result.json")):
            with open(os.path.join(self.out, "result.json"), encoding="utf-8") as file:
                result = json.load(file)
        return done.returncode, done.stdout, result

    def test_each_way_in_which_a_part_can_end(self):
        pid_file = os.path.join(self.folder, "pid")
        parts = [
            self.part("good", GTEST, kind="gtest"),
            self.part("bad", GTEST, "bad", kind="gtest"),
            self.part("pythons", PYTEST, kind="pytest"),
            self.part("hangs", HANGS, pid_file, kind="gtest", limit=5),
            self.part("crashes", CRASHES, kind="gtest", group=1),
            self.part("mute", "pass", kind="figures", group=1),
            self.part("no report", "pass", kind="gtest", group=1),
            self.part("sanitized", "print('===== Invalid read'); exit(99)", finding_status=99, group=1),
            self.part("exits", "print('Traceback'); exit(3)", group=1),
            dict(self.part("absent", ""), command=["/nonexistent/program"], group=1),
            self.part("left out", "pass", skip="no compiler here", group=1),
            self.part("speeds", FIGURES, kind="figures", group=2),
            self.part("idle", "print('SKIPPED: no GPU')", kind="figures", group=2),
        ]
        status, output, result = self.run_parts(parts)
        self.assertEqual(status, 1)
        counts = {part["name"]: (part["passed"], part["failed"], part["skipped"]) for part in result["parts"]}
        self.assertEqual(
            counts,
            {
                "good": (1, 0, 1),
                "bad": (1, 1, 1),
                "pythons": (1, 1, 1),
                "hangs": (1, 1, 0),
                "crashes": (0, 1, 0),
                "mute": (0, 1, 0),
                "no report": (0, 1, 0),
                "sanitized": (0, 1, 0),
                "exits": (0, 1, 0),
                "absent": (0, 1, 0),
                "left out": (0, 0, 1),
                "speeds": (1, 0, 0),
                "idle": (0, 0, 1),
            },
        )
        remarks = {part["name"]: part["remark"] for part in result["parts"]}
        self.assertEqual(remarks["good"], "SKIPPED: no second GPU")
        self.assertEqual(remarks["bad"], "Suite.Bad")
        self.assertEqual(remarks["pythons"], "frameworks_test::test_bad")
        self.assertEqual(remarks["hangs"], "ended after 5 s, in Suite.Hangs")
        self.assertEqual(remarks["crashes"], "ended by SIGSEGV")
        self.assertEqual(remarks["mute"], "no result was printed")
        self.assertEqual(remarks["sanitized"], "the sanitizer has findings")
        self.assertEqual(remarks["exits"], "exit status 3")
        self.assertIn("could not be started", remarks["absent"])
        self.assertEqual(remarks["left out"], "SKIPPED: no compiler here")
        self.assertEqual([figure["name"] for figure in result["figures"]], ["save", "time of allocate"])

        lines = output.splitlines()
        self.assertEqual(lines[-1], "GPU: 5 passed, 9 failed, 5 skipped")
        self.assertIn(["bad", "1", "1", "1"], [line.split()[:4] for line in lines])
        self.assertIn(["save", "5.25", "GiB/s", "0.910"], [line.split() for line in lines])
        self.assertIn("    gpu_test.cc:7", lines)  # what failed
        self.assertIn("    E   AssertionError", lines)
        self.assertIn("about to crash", output)
        with open(pid_file, encoding="utf-8") as file:
            self.assertFalse(is_alive(int(file.read())))  # the child of the part that hangs
        with tarfile.open(os.path.join(self.out, "logs.tar.gz")) as archive:
            self.assertIn("crashes.log", archive.getnames())
        self.assertEqual(sorted(os.listdir(self.out)), ["logs.tar.gz", "result.json", "summary.txt"])

    def test_nothing_begins_after_the_limit(self):
        parts = [
            self.part("slow", "import sys, time; print(sys.argv[1], flush=True); time.sleep(600)", "{seconds}"),
            self.part("next", "pass", group=1),
        ]
        begun = time.monotonic()
        status, _, result = self.run_parts(parts, "--limit", "6")
        self.assertLess(time.monotonic() - begun, 60)
        self.assertEqual(status, 1)
        self.assertEqual([part["failed"] for part in result["parts"]], [1, 0])
        self.assertIn(result["parts"][0]["tail"], (["2"], ["3"]))  # what was left of 6, without the time to end
        self.assertEqual(result["parts"][1]["remark"], "SKIPPED: no time was left")

    def test_parts_of_a_row_are_added_and_chosen_by_name(self):
        parts = [
            self.part("first", GTEST, kind="gtest", row="others"),
            self.part("second", GTEST, "bad", kind="gtest", row="others"),
            self.part("third", GTEST, "bad", kind="gtest"),
        ]
        status, output, result = self.run_parts(parts, "others")
        self.assertEqual(status, 1)
        self.assertEqual([row["name"] for row in result["rows"]], ["others"])
        row = result["rows"][0]
        self.assertEqual((row["passed"], row["failed"], row["skipped"]), (2, 1, 2))
        self.assertEqual(row["remark"], "second: Suite.Bad")
        self.assertEqual(self.run_parts(parts, "first")[0], 0)
        self.assertNotEqual(self.run_parts(parts, "fourth")[0], 0)

    def test_the_output_stays_short_when_much_fails(self):
        program = "print('Error at', 'x' * 90)\n" * 400 + "exit(1)"
        status, output, _ = self.run_parts([self.part(f"part {i}", program) for i in range(12)])
        self.assertEqual(status, 1)
        self.assertLess(len(output), 12000)
        for i in range(12):
            self.assertIn(f"--- part {i}: exit status 1", output)

    def test_without_a_gpu_each_part_says_why_it_is_skipped(self):
        environment = dict(os.environ, TENSORCASK_CUDA_LIBRARY="libno_such_driver.so.1")
        command = [sys.executable, os.path.join(HERE, "run.py"), "--out", self.out]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(self.out, "result.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertGreater(len(result["parts"]), 12)
        for part in result["parts"]:
            self.assertEqual((part["passed"], part["failed"], part["skipped"]), (0, 0, 1), part["name"])
            self.assertIn("SKIPPED: no GPU: no driver: libno_such_driver.so.1", part["remark"])
        self.assertIn("processor", result["machine"])


class Results(unittest.TestCase):
    def test_the_log_of_pytest_tells_which_test_hangs(self):
        log = "frameworks_test.py::test_a PASSED  [ 50%]\nframeworks_test.py::test_b \nFatal Python error"
        self.assertEqual(part_results.test_in_progress(log), "frameworks_test.py::test_b")
        self.assertEqual(part_results.read_log_of_tests(log).counts, {"passed": 1, "failed": 0, "skipped": 0})

    def test_each_program_of_the_parts_is_in_the_bundle(self):
        script = os.path.join(gpu_parts.ROOT, "scripts", "gpu_bundle.sh")
        with open(script, encoding="utf-8") as file:
            text = file.read()
        for path in [gpu_parts.GPU_TEST, gpu_parts.CUDA_BACKEND_TEST, *gpu_parts.OTHER_TESTS]:
            folder, _, name = path.rpartition("/")
            self.assertIn(f"  {folder}:{name}\n", text)


if __name__ == "__main__":
    case_report.main("run")
