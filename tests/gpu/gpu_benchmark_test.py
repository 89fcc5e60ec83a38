#!/usr/bin/env python3
"""gpu_benchmark on the simulated device, with small sizes: it prints every figure, and all groups work."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import case_report  # noqa: E402

PROGRAM = os.path.abspath("tests/gpu/gpu_benchmark")  # where Bazel lays it for the test
if not os.path.exists(PROGRAM):
    PROGRAM = os.path.join(HERE, "..", "..", "bazel-bin/tests/gpu/gpu_benchmark")


def run(*arguments, **environment):
    return subprocess.run([PROGRAM, *arguments], env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=200, check=False)  # fmt: skip


class Benchmark(unittest.TestCase):
    def test_all_figures_on_the_simulated_device(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("--simulated", "--small", "--folder", folder)
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.assertEqual(
            [(line["case"], line["outcome"]) for line in lines if "case" in line],
            [("allocations", "passed"), ("copies", "passed"), ("files", "passed")],
        )
        figures = {line["name"]: line for line in lines if "name" in line}
        for name in (
            "allocate and free 512 B",
            "limit: a pinned copy from the device, 4 MiB",
            "CopyAcross, pageable memory to the device, 4 MiB, of a pinned copy",
            "limit: read(), 8 MiB, 8 threads",
            "checkpoint: save, of the slower of write() and a pinned copy, 8 MiB, 8 threads",
            "checkpoint: load, verified, of the slower of read() and a pinned copy, 2 MiB, 1 thread",
            "safetensors: save, of the slower of write() and a pinned copy, 2 MiB, 1 thread",
            "safetensors: load, verified, of the slower of read() and a pinned copy, 8 MiB, 8 threads",
            "background save, the second one: stall, of its whole time, 8 MiB, 8 threads",
        ):
            self.assertIn(name, figures)
            self.assertGreater(figures[name]["value"], 0)
        self.assertTrue(all(line["ratio"] > 0 for line in figures.values() if "ratio" in line))

    def test_without_a_driver_it_says_so(self):
        done = run(TENSORCASK_CUDA_LIBRARY="libno_such_driver.so.1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("libno_such_driver.so.1", done.stderr)

    def test_arguments_are_checked(self):
        self.assertEqual(run("--simulate").returncode, 2)


if __name__ == "__main__":
    case_report.main("gpu_benchmark")
