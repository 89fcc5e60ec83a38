#!/usr/bin/env python3
"""tools/dev installs the Debian packages that its commands need, and scripts/fuzz.py names files that exist.

Runs each command of tools/dev with programs in the place of Bazel and apt-get that note what they are asked for. The
packages that a command installs must cover the repositories that its targets depend on.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support"), os.path.join(HERE, "..")]
sys.path.append(os.path.join(HERE, "..", "..", "scripts"))
import api_test  # noqa: E402
import build_files  # noqa: E402
import case_report  # noqa: E402
import fuzz  # noqa: E402
import source_tree  # noqa: E402

ROOT = source_tree.root()

# Each notes its name and its arguments, one per line, in $NOTES. dpkg-query finds no package installed.
STUB = """#!/bin/sh
name=$(basename "$0")
for argument in "$@"; do printf '%s %s\\n' "$name" "$argument" >> "$NOTES"; done
case "$name" in dpkg-query) echo missing ;; bazel | cmake | python3) exit 1 ;; esac
"""
STUBBED = ("apt-get", "bazel", "clang-format", "cmake", "dpkg-query", "python3")

# What each repository of third_party/repositories.bzl is on Debian.
PACKAGES = re.findall(
    r'(?:_maybe|define)\(\s*_system_\w+,\s*"(\w+)",.*?package = "([^"]+)"',
    source_tree.read(ROOT, "third_party/repositories.bzl"),
    re.DOTALL,
)
PACKAGES = {name: packages.split() for name, packages in PACKAGES}


# What is built where its library is installed, and skipped elsewhere.
OPTIONAL = {"grpc"}


class Targets:
    """All rules of the BUILD files: which exist, which are built by a pattern, what they depend on."""

    def __init__(self):
        self.manual = {}
        for file in build_files.build_files(ROOT):
            for rule, arguments in file.rules:
                names = [arguments["name"]]
                if rule == "cask_proto_library":
                    names = [arguments["name"][: -len("_proto")] + "_cc_proto"]
                for name in names:
                    self.manual[f"//{file.package}:{name}"] = "manual" in arguments.get("tags", [])
        self.repositories_of = api_test.repositories_of(ROOT)

    def matching(self, pattern):
        if not pattern.endswith("..."):
            label = pattern if ":" in pattern else f"{pattern}:{pattern.rpartition('/')[2]}"
            return [label]
        package = pattern[: -len("...")].rstrip("/")
        start = (package + ":", package + "/") if package != "" else "//"
        return [label for label, manual in self.manual.items() if label.startswith(start) and not manual]

    def packages_for(self, patterns):
        needed = set()
        for pattern in patterns:
            labels = self.matching(pattern)
            assert labels, pattern
            for label in labels:
                for repository in set(self.repositories_of(label)) - OPTIONAL:
                    needed |= set(PACKAGES[repository])
        return needed


class Workbench(unittest.TestCase):
    def notes_of(self, *arguments):
        """name -> arguments, of the stubbed programs that `tools/dev ARGUMENTS` calls."""
        with tempfile.TemporaryDirectory() as folder:
            for name in STUBBED + ("sudo",):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write('#!/bin/sh\nexec "$@"\n' if name == "sudo" else STUB)
                os.chmod(path, 0o755)
            notes = os.path.join(folder, "notes")
            environment = dict(os.environ, NOTES=notes, PATH=f"{folder}:{os.environ['PATH']}")
            command = [os.path.join(ROOT, "tools", "dev"), *arguments]
            subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
            noted = {name: [] for name in STUBBED}
            if os.path.exists(notes):
                for line in source_tree.read(folder, "notes").splitlines():
                    name, _, argument = line.partition(" ")
                    noted[name].append(argument)
            return noted

    def assert_installs_what_it_builds(self, *arguments):
        noted = self.notes_of(*arguments)
        installed = set(noted["apt-get"]) - {"update", "install"}
        patterns = [word for word in noted["bazel"] if word.startswith("//")]
        self.assertTrue(patterns, arguments)
        self.assertEqual(Targets().packages_for(patterns) - installed, set(), arguments)
        self.assertTrue({"bazel-bootstrap", "bazel-rules-java", "g++", "pkg-config"} <= installed, arguments)

    def test_commands_that_build(self):
        for arguments in (["demo"], ["test"], ["asan"], ["ubsan"], ["tsan"], ["crash"], ["bench"], ["bench", "bars"],
                          ["gpu"], ["peers"]):
            with self.subTest(arguments):
                self.assert_installs_what_it_builds(*arguments)

    def test_mutating_installs_what_all_tests_need(self):
        installed = set(self.notes_of("mutate", "--list", "1")["apt-get"]) - {"update", "install"}
        self.assertEqual(installed, set(self.notes_of("test")["apt-get"]) - {"update", "install"})

    def test_each_benchmark(self):
        for name in ("tensor", "strided", "wire", "checkpoint", "exchange", "payload", "peers"):
            with self.subTest(name):
                self.assert_installs_what_it_builds("bench", name)

    def test_a_group_of_promises_builds_the_program_of_promises_alone(self):
        def targets(*arguments):
            return {word for word in self.notes_of("bench", *arguments)["bazel"] if word.startswith("//")}
        self.assertEqual(targets("bars", "strided", "wire"), {"//tests/benchmarks:bars"})
        self.assertIn("//tensor/...", targets("bars"))  # to see how light it is
        self.assertEqual(targets("strided", "wire"),
                         {"//tests/benchmarks:strided_benchmark", "//tests/benchmarks:wire_benchmark"})

    def test_fuzzing_installs_the_programs_that_it_runs(self):
        self.assertTrue({"clang", "libclang-rt-14-dev"} <= set(self.notes_of("fuzz", "bundle", "1")["apt-get"]))
        # llvm-cov-14 and llvm-profdata-14
        self.assertTrue({"clang", "llvm-14"} <= set(self.notes_of("fuzz", "coverage")["apt-get"]))

    def test_what_builds_with_cmake_installs_it(self):
        self.assertIn("cmake", self.notes_of("cmake")["apt-get"])
        # nm reads the exported symbols; cpack calls dpkg-shlibdeps and file.
        self.assertTrue({"binutils", "cmake"} <= set(self.notes_of("cmake", "--shared")["apt-get"]))
        self.assertTrue({"binutils", "cmake", "dpkg-dev", "file"} <= set(self.notes_of("package")["apt-get"]))
        self.assertIn("debootstrap", self.notes_of("package", "/nonexistent/system")["apt-get"])
        self.assertTrue({"abigail-tools", "cmake"} <= set(self.notes_of("abi")["apt-get"]))

    def test_options_of_commands_with_cmake(self):
        noted = self.notes_of("cmake", "--shared", "--tests")["cmake"]
        self.assertIn("-DBUILD_SHARED_LIBS=ON", noted)
        self.assertIn("-DTENSORCASK_TESTS=ON", noted)
        self.assertIn("-DBUILD_SHARED_LIBS=OFF", self.notes_of("cmake")["cmake"])
        for arguments in (["cmake", "--other"], ["package", "--other"], ["package", "a", "b"], ["abi", "--other"]):
            with self.subTest(arguments):
                self.assertEqual(self.notes_of(*arguments)["cmake"], [])

    def test_formatting_and_lint_install_the_programs_that_they_run(self):
        self.assertIn("clang-format", self.notes_of("format", "--check")["apt-get"])
        installed = set(self.notes_of("lint")["apt-get"])
        self.assertTrue({"clang", "clang-tidy", "g++"} <= installed)
        targets = Targets()
        # scripts/lint.py skips the sources that need LibTorch and oneDNN.
        checked = [label for label in targets.manual if "strided_peers" not in label]
        self.assertEqual(targets.packages_for(checked) - installed, set())


class Fuzzing(unittest.TestCase):
    def test_each_target_names_sources_that_exist(self):
        for target in fuzz.all_targets():
            for pattern in fuzz.parsers_of(target):
                found = [path for path in glob.glob(os.path.join(ROOT, pattern + "*")) if path.endswith((".h", ".cc"))]
                self.assertTrue(found, f"{target}: {pattern}")


if __name__ == "__main__":
    case_report.main("workbench")
