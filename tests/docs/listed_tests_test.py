#!/usr/bin/env python3
"""Every file of tests is among the sources of a test, so that none is forgotten in silence.

Reads the source tree, as tests/layering_test.py does. By hand:

    tests/docs/listed_tests_test.py [--verbose]
"""

import os
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
sys.path.append(os.path.join(HERE, "..", "..", "scripts"))
import case_report  # noqa: E402
import source_tree  # noqa: E402
from build_files import BuildFile  # noqa: E402

TEST = re.compile(r"_test\.(cc|py|sh)$|_fuzz\.cc$")
BUILD = "BUILD.bazel"
# Tests that Bazel does not run -> the file that says what runs them.
RUN_OTHERWISE = {"tests/gpu/frameworks_test.py": "scripts/gpu_bundle.sh"}


def sources_of_tests(root, package):
    """The files that the tests of a package are made of, relative to it."""
    found = set()
    for rule, arguments in BuildFile(package, source_tree.read(root, f"{package}/{BUILD}")).rules:
        if rule == "cask_fuzz_target":
            found.add(arguments["name"] + "_fuzz.cc")
        elif rule.endswith("_test"):
            found.update(arguments.get("srcs", []))
    return found


def check(root, run_otherwise):
    """(number of files of tests, list of problems)."""
    count, problems, known = 0, [], {}
    for path in source_tree.files(root, ".cc", ".py", ".sh"):
        if not path.startswith("tests/") or not TEST.search(path):
            continue
        count += 1
        if path in run_otherwise:
            if os.path.basename(path) not in source_tree.read(root, run_otherwise[path]):
                problems.append(f"{path}: {run_otherwise[path]} does not name it")
            continue
        package = os.path.dirname(path)
        while package and not os.path.exists(os.path.join(root, package, BUILD)):
            package = os.path.dirname(package)
        if not package:
            problems.append(f"{path}: neither its folder nor one above has a {BUILD}")
            continue
        if package not in known:
            known[package] = sources_of_tests(root, package)
        if os.path.relpath(path, package) not in known[package]:
            problems.append(f"{path}: no test in {package}/{BUILD} has it in `srcs`, so it never runs")
    return count, problems


class TheTree(unittest.TestCase):
    def test_every_file_of_tests_belongs_to_a_test(self):
        root = source_tree.root()
        count, problems = check(root, RUN_OTHERWISE)
        self.assertGreater(count, 300, f"hardly any test below {root}: is this the source tree?")
        self.assertEqual(problems, [], "\n" + "\n".join(problems))


class MadeUpTree(unittest.TestCase):
    """Shows that the check can fail: each kind of mistake, in a tree of its own."""

    GOOD = {
        "tests/zip/BUILD.bazel": 'cask_cc_test(name = "zip_test", srcs = ["a_test.cc", "inner/b_test.cc"])\n'
        'cask_script_test(name = "c_test", srcs = ["c_test.py"])\n'
        'cask_cc_library(name = "helper", srcs = ["helper.cc"])\n',
        "tests/zip/a_test.cc": "",
        "tests/zip/inner/b_test.cc": "",
        "tests/zip/c_test.py": "",
        "tests/zip/helper.cc": "",
        "tests/fuzz/BUILD.bazel": 'cask_fuzz_target(name = "zip", deps = [])\n',
        "tests/fuzz/zip_fuzz.cc": "",
        "tools/d_test.cc": "",
    }

    def problems(self, changes, run_otherwise=None):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**self.GOOD, **changes}.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return check(root, run_otherwise or {})[1]

    def test_a_good_tree_has_no_problem(self):
        self.assertEqual(self.problems({}), [])

    def test_a_test_that_no_build_file_names(self):
        for path in ("tests/zip/d_test.cc", "tests/zip/d_test.py", "tests/zip/inner/a_test.cc"):
            expected = [f"{path}: no test in tests/zip/BUILD.bazel has it in `srcs`, so it never runs"]
            self.assertEqual(self.problems({path: ""}), expected)

    def test_a_test_that_only_a_library_has(self):
        build = 'cask_cc_library(name = "d", srcs = ["d_test.cc"])\n'
        changes = {"tests/npy/BUILD.bazel": build, "tests/npy/d_test.cc": ""}
        self.assertIn("tests/npy/d_test.cc: no test in", self.problems(changes)[0])

    def test_a_fuzz_target_that_is_not_built(self):
        self.assertIn("tests/fuzz/npy_fuzz.cc: no test in", self.problems({"tests/fuzz/npy_fuzz.cc": ""})[0])

    def test_a_folder_without_a_build_file(self):
        expected = ["tests/npy/a_test.cc: neither its folder nor one above has a BUILD.bazel"]
        self.assertEqual(self.problems({"tests/npy/a_test.cc": ""}), expected)

    def test_a_test_that_something_else_should_run(self):
        changes = {"tests/gpu/a_test.py": "", "scripts/run.sh": "python3 b_test.py\n"}
        otherwise = {"tests/gpu/a_test.py": "scripts/run.sh"}
        self.assertEqual(self.problems(changes, otherwise), ["tests/gpu/a_test.py: scripts/run.sh does not name it"])
        changes["scripts/run.sh"] = "python3 a_test.py\n"
        self.assertEqual(self.problems(changes, otherwise), [])


if __name__ == "__main__":
    case_report.main("listed_tests")
