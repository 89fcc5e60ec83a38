#!/usr/bin/env python3
"""MODULE.bazel, which Debian 12's version of Bazel cannot read, agrees with what there is.

    tests/docs/modules_test.py [--verbose]
"""

import os
import re
import sys
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
import case_report  # noqa: E402
import source_tree  # noqa: E402

ROOT = source_tree.root()
BUILT_IN = {"bazel_tools", "tensorcask", "platforms"}
# Only under a WORKSPACE: what a module brings with it, or what @tensorcask_rules replaces.
WORKSPACE_ONLY = {"bazel_skylib", "remote_coverage_tools", "rules_java", "rules_proto", "rules_python"}


class Note(dict):
    """Runs a file of Bazel's as Python. Every function of Bazel notes its arguments."""

    def __init__(self, path):
        super().__init__()
        self.calls = []  # (function, arguments by position, arguments by name)
        exec(compile(source_tree.read(ROOT, path), path, "exec"), self)  # the tree's own text

    def __missing__(self, function):
        def note(*positional, **named):
            self.calls.append((function, positional, named))
            return function

        return note

    def of(self, function):
        return [(positional, named) for name, positional, named in self.calls if name == function]


def repositories(note):
    """{name of the repository: it is only for this project's own tests}."""
    known = {}
    for _, named in note.of("bazel_dep"):
        known[named.get("repo_name", named["name"])] = named.get("dev_dependency", False)
    extensions = [named.get("dev_dependency", False) for _, named in note.of("use_extension")]
    for (names, _), is_development in zip(note.of("use_repo"), extensions):
        known.update({name: is_development for name in names[1:]})
    return known


def used(*folders):
    """{repository: a file that names it} of all BUILD files and macros below `folders`."""
    found = {}
    for path in source_tree.files(ROOT, "BUILD.bazel", ".bzl"):
        if path.startswith(("third_party/", "tests/consumer")) or (folders and not path.startswith(folders)):
            continue
        text = "\n".join(line for line in source_tree.read(ROOT, path).splitlines() if not line.lstrip().startswith("#"))
        text = re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
        for name in re.findall(r'"@(\w+)', text):
            found.setdefault(name, path)
    return {name: path for name, path in found.items() if name not in BUILT_IN}


class Modules(unittest.TestCase):
    module = Note("MODULE.bazel")
    known = repositories(module)

    def test_every_repository_that_is_used_is_declared(self):
        for name, path in used().items():
            self.assertIn(name, self.known, path)

    def test_every_repository_that_is_declared_is_used(self):
        for name in self.known:
            self.assertIn(name, {**used(), "rules_shell": "third_party/extensions.bzl"})

    def test_users_get_all_that_the_library_and_the_program_need(self):
        folders = ("BUILD.bazel", "bazel/", "proto/", "tensor/", "serialize/", "tests/fixture/", "tools/")
        for name, path in used(*folders).items():
            self.assertFalse(self.known[name], f"{path} needs @{name}, which MODULE.bazel has for tests only")

    def test_a_workspace_has_the_same_repositories(self):
        text = source_tree.read(ROOT, "third_party/repositories.bzl")
        defined = set(re.findall(r'(?:_maybe|define)\(\s*_\w+,\s*"(\w+)"', text))
        self.assertEqual(defined - WORKSPACE_ONLY, set(self.known) - {"rules_shell"})

    def test_versions(self):
        version = re.search(r'VERSION_STRING "(.*)"', source_tree.read(ROOT, "tensor/version.h")).group(1)
        self.assertEqual(self.module.of("module")[0][1]["version"], version)
        consumer = Note("tests/consumer_bzlmod/MODULE.bazel")
        versions = {named["name"]: named["version"] for _, named in consumer.of("bazel_dep")}
        ours = {named["name"]: named["version"] for _, named in self.module.of("bazel_dep")}
        self.assertEqual(versions, {"tensorcask": version, "rules_cc": ours["rules_cc"]})


if __name__ == "__main__":
    case_report.main("modules")
