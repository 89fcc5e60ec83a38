#!/usr/bin/env python3
"""Reads the includes of each target's files, and fails where no dependency of the target has a header of another project.

Such a target may build where the system has the header, with another version of the library than the one that Bazel
links. A dependency counts if the target reaches it through others. Runs as a Bazel test and by hand:

    tests/dependencies_test.py [--verbose]
"""

import os
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, folder) for folder in ("docs", "support", os.path.join("..", "scripts"))]
import build_files  # noqa: E402
import case_report  # noqa: E402
import source_tree  # noqa: E402

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
RULES = ("cask_room", "cask_cc_library", "cask_cc_test", "cask_cc_binary", "cask_fuzz_target")

# Start of a header -> the repository that has it.
REPOSITORIES = {
    "ATen/": "libtorch",
    "CLI/": "cli11",
    "Eigen/": "eigen",
    "benchmark/": "com_github_google_benchmark",
    "blosc": "blosc",
    "curl/": "curl",
    "dnnl": "dnnl",
    "expat.h": "libexpat",
    "event2/": "libevent",
    "gmock/": "com_google_googletest",
    "google/protobuf/": "com_google_protobuf",
    "grpcpp/": "grpc",
    "gtest/": "com_google_googletest",
    "hdf5/": "hdf5",
    "leveldb/": "leveldb",
    "mpi.h": "mpi",
    "nlohmann/": "nlohmann_json",
    "re2/": "re2",
    "snappy": "snappy",
    "unsupported/Eigen/": "eigen",
    "xxhash": "xxhash",
    "zlib.h": "zlib",
    "zstd": "zstd",
}
# Headers of Abseil whose target has neither the header's name nor that of its folder.
ABSEIL = {
    "base/attributes": "base:core_headers",
    "base/macros": "base:core_headers",
    "base/optimization": "base:core_headers",
    "base/thread_annotations": "base:core_headers",
}
# Included under a version of protobuf that brings Abseil's log, and only there.
CONDITIONAL = {"absl/base/log_severity.h", "absl/log/globals.h"}


def abseil_targets(root):
    """The targets that a WORKSPACE gives, "strings:str_format"; modules have them, too."""
    text = source_tree.read(root, "third_party/repositories.bzl")
    return set(re.findall(r'^    "([\w/]+:\w+)": "absl_', text, re.MULTILINE))


def needed_for(header, abseil):
    """The label of the target that has `header`, or its repository, "@zlib"; None for headers of ours and of the system."""
    if header.startswith("absl/") and header not in CONDITIONAL:
        path = header[len("absl/") : -len(".h")]
        folder, _, name = path.rpartition("/")
        own = f"{folder}:{name}"
        target = ABSEIL.get(path) or (own if own in abseil else f"{folder}:{folder.rpartition('/')[2]}")
        return f"@com_google_absl//absl/{target}"
    return next(("@" + name for start, name in REPOSITORIES.items() if header.startswith(start)), None)


class Targets:
    """All targets of the tree, and what each reaches."""

    def __init__(self, root):
        self.rules = {}  # label -> (package, rule, arguments)
        self.deps = {}
        self.reached = {}
        for file in build_files.build_files(root):
            for rule, arguments in file.rules:
                label = f"//{file.package}:{arguments['name']}"
                names = arguments.get("deps", []) + [name for name in [arguments.get("actual")] if name]
                self.rules[label] = (file.package, rule, arguments)
                names += ["@grpc//:grpc++"] if rule == "cask_grpc_library" else []
                self.deps[label] = [file.label(name) or self.elsewhere(name) for name in names]
                if rule == "cask_proto_library":
                    self.deps[label[: -len("_proto")] + "_cc_proto"] = ["@com_google_protobuf//:protobuf"]

    @staticmethod
    def elsewhere(label):
        """The full label of a target of another repository: "@zlib" is "@zlib//:zlib"."""
        repository, slashes, target = label.partition("//")
        if not slashes:
            return f"{repository}//:{repository[1:]}"
        return label if ":" in target else f"{label}:{target.rpartition('/')[2]}"

    def reaches(self, label):
        """The labels and the repositories that `label` depends on."""
        if label not in self.reached:
            found = set()
            for dep in self.deps.get(label, []):
                found |= {dep, *self.reaches(dep)}
                if dep.startswith("@"):
                    found.add(dep.partition("//")[0])
            self.reached[label] = found
        return self.reached[label]


def files_of(package, rule, arguments):
    if rule == "cask_fuzz_target":  # tests/fuzz/fuzz.bzl
        return [f"{package}/replay.cc", f"{package}/{arguments['name']}_fuzz.cc"]
    names = arguments.get("srcs", []) + arguments.get("hdrs", [])
    return [os.path.join(package, name) for name in names if name.endswith((".h", ".cc", ".inc")) and ":" not in name]


def check(root):
    """(number of targets, list of problems)."""
    abseil = abseil_targets(root)
    targets = Targets(root)
    count, problems = 0, []
    for label, (package, rule, arguments) in sorted(targets.rules.items()):
        if rule not in RULES:
            continue
        count += 1
        for path in files_of(package, rule, arguments):
            for header in INCLUDE.findall(source_tree.read(root, path)):
                needed = needed_for(header, abseil)
                if needed and needed not in targets.reaches(label):
                    problems.append(f"{label}: {path} includes {header}, and no dependency is {needed}")
    return count, problems


class TheTree(unittest.TestCase):
    def test_each_header_of_others_is_of_a_dependency(self):
        count, problems = check(source_tree.root())
        self.assertGreater(count, 200)
        self.assertEqual(problems, [], "\n" + "\n".join(problems))


    def test_only_the_service_needs_grpc(self):
        targets = Targets(source_tree.root())
        needing = {label for label in targets.rules if "@grpc" in targets.reaches(label)}
        self.assertIn("//serialize/rpc:rpc", needing)
        others = {label for label in needing if not label.startswith(("//serialize/rpc:", "//tests/"))}
        examples = {"//examples:follow_run", "//examples:parameter_server"}
        self.assertEqual(others, examples | {"//:rpc", "//proto:exchange_service_cc_grpc", "//tools:tensorcask-grpc"})


class MadeUpTree(unittest.TestCase):
    """Shows that the check can fail."""

    ABSEIL = '    "strings:str_format": "absl_str_format",\n    "types:span": "absl_span",\n'

    def problems(self, build, **files):
        with tempfile.TemporaryDirectory() as root:
            files = {"third_party/repositories.bzl": self.ABSEIL, **files}
            files["a/BUILD.bazel"] = build
            for path, text in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return check(root)[1]

    def test_a_header_that_is_named(self):
        build = 'cask_room(name = "a", srcs = ["a.cc"], hdrs = [], deps = ["@zlib", "@com_google_absl//absl/strings"])\n'
        source = '#include <zlib.h>\n#include "absl/strings/str_cat.h"\n#include <vector>\n#include "tensorcask/a/a.h"\n'
        self.assertEqual(self.problems(build, **{"a/a.cc": source}), [])

    def test_a_header_that_another_target_brings(self):
        build = (
            'cask_cc_library(name = "b", hdrs = ["b.h"], deps = ["@zlib//:zlib"])\n'
            'cc_library(name = "door", deps = [":b"])\n'
            'cask_cc_test(name = "a", srcs = ["a.cc"], deps = [":door"])\n'
        )
        self.assertEqual(self.problems(build, **{"a/a.cc": "#include <zlib.h>\n", "a/b.h": ""}), [])

    def test_headers_that_nothing_brings(self):
        build = 'cask_cc_test(name = "a", srcs = ["a.cc"], deps = ["@com_google_absl//absl/strings"])\n'
        source = '#include "absl/strings/str_format.h"\n#include "absl/types/span.h"\n#include "gtest/gtest.h"\n'
        says = "//a:a: a/a.cc includes {}, and no dependency is {}"
        self.assertEqual(
            self.problems(build, **{"a/a.cc": source}),
            [
                says.format("absl/strings/str_format.h", "@com_google_absl//absl/strings:str_format"),
                says.format("absl/types/span.h", "@com_google_absl//absl/types:span"),
                says.format("gtest/gtest.h", "@com_google_googletest"),
            ],
        )


if __name__ == "__main__":
    case_report.main("dependencies")
