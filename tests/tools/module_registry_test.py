#!/usr/bin/env python3
"""scripts/module_registry.py makes a registry of Bazel's modules from repositories of git. By hand:

    tests/tools/module_registry_test.py [--verbose]
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("docs", "support", os.path.join("..", "scripts"))]
import case_report  # noqa: E402
import module_registry  # noqa: E402

PATCH = """--- BUILD.bazel
+++ BUILD.bazel
@@ -1,1 +1,1 @@
-old
+new
"""


def repository(folder, files, tag=None):
    """A repository of git with one commit."""
    for path, text in files.items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    commands = [["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]] + ([["tag", tag]] if tag else [])
    for command in commands:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], cwd=folder, check=True)


def module(name, version, *needs):
    lines = [f'bazel_dep(name = "{needed}", version = "{version}")' for needed, version in needs]
    return "\n".join([f'module(name = "{name}", version = "{version}")', *lines, 'register_toolchains("//:all")'])


def source(name, tag, **more):
    return json.dumps({"url": f"https://github.com/owner/{name}/archive/refs/tags/{tag}.tar.gz", **more})


class TheVersions(unittest.TestCase):
    def test_are_ordered_as_bazel_orders_them(self):
        versions = ["0.9", "0.10", "0.10.bcr.1", "1.0-rc1", "1.0-rc2", "1.0", "1.0.bcr.2", "1.0.bcr.10", "1.a", "2025-11-05"]
        ordered = sorted(reversed(versions), key=module_registry.version_key)
        self.assertEqual(ordered, versions)


class TheRegistry(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        repository(self.path("central"), {
            "modules/a/1.0/MODULE.bazel": module("a", "1.0", ("b", "1.9")),
            "modules/a/1.0/source.json": source("a", "v1.0", strip_prefix="a-1.0"),
            "modules/b/1.9/MODULE.bazel": module("b", "1.9", ("c", "1")),
            "modules/b/1.10/MODULE.bazel": module("b", "1.10"),
            "modules/b/1.10/source.json": source("b", "1.10", strip_prefix="b-1.10/below", overlay={"more/BUILD": "sha"},
                                                 patches={"it.patch": "sha"}, patch_strip=0),
            "modules/b/1.10/overlay/more/BUILD": "more",
            "modules/b/1.10/patches/it.patch": PATCH,
            "modules/c/1/MODULE.bazel": module("c", "1"),
            "modules/c/1/source.json": source("c", "1"),
        })
        repository(self.path("a"), {"a.bzl": "x = native.bazel_version"}, "v1.0")
        repository(self.path("b"), {"below/BUILD.bazel": "old\n", "above": ""}, "1.10")
        os.makedirs(self.path("sources", "owner+a"))
        os.makedirs(self.path("sources", "owner"))
        os.rename(self.path("a", ".git"), self.path("sources", "owner+a", "repo"))
        os.rename(self.path("b", ".git"), self.path("sources", "owner", "b.git"))
        os.makedirs(self.path("ours"))
        with open(self.path("ours", "MODULE.bazel"), "w", encoding="utf-8") as file:
            file.write(module("ours", "0", ("a", "1.0")) + '\nbazel_dep(name = "b", version = "1.10", dev_dependency = True)')

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def read(self, *names):
        with open(self.path("out", *names), encoding="utf-8") as file:
            return file.read()

    def make(self, *options):
        script = os.path.join(HERE, "..", "..", "scripts", "module_registry.py")
        done = subprocess.run(
            [sys.executable, script, "--registry", self.path("central", ".git"), "--sources", self.path("sources"),
             "--out", self.path("out"), *options, self.path("ours", "MODULE.bazel")],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(line.split(": ", 1) for line in done.stdout.splitlines())

    def test_has_the_highest_version_of_each_module_and_the_files_of_all(self):
        said = self.make()
        self.assertEqual(sorted(said), ["a 1.0", "b 1.10", "c 1"])
        self.assertEqual(self.read("modules", "b", "1.9", "MODULE.bazel"), module("b", "1.9", ("c", "1")))
        place = json.loads(self.read("modules", "b", "1.10", "source.json"))
        self.assertEqual(place, {"type": "local_path", "path": "b/1.10"})
        self.assertEqual(json.loads(self.read("bazel_registry.json"))["module_base_path"], "sources")

    def test_adds_the_patches_and_files_of_the_central_registry(self):
        said = self.make()
        self.assertRegex(said["b 1.10"], r"^owner/b 1[.]10, [0-9a-f]{12}$")
        self.assertEqual(self.read("sources", "b", "1.10", "BUILD.bazel"), "new\n")
        self.assertEqual(self.read("sources", "b", "1.10", "more", "BUILD"), "more")
        self.assertFalse(os.path.exists(self.path("out", "sources", "b", "1.10", "above")))
        self.assertEqual(self.read("sources", "b", "1.10", "MODULE.bazel"), module("b", "1.10"))

    def test_says_which_sources_are_missing(self):
        self.assertEqual(self.make()["c 1"], "no sources: there is no repository owner/c")

    def test_takes_a_folder_or_a_stub_instead(self):
        os.makedirs(self.path("of_c"))
        with open(self.path("of_c", "c.h"), "w", encoding="utf-8") as file:
            file.write("of c")
        self.assertEqual(self.make("--instead", f"c={self.path('of_c')}")["c 1"], self.path("of_c"))
        self.assertEqual(self.read("sources", "c", "1", "c.h"), "of c")
        self.assertEqual(self.make("--instead", "c=")["c 1"], "a stub")
        self.assertNotIn("register_toolchains", self.read("modules", "c", "1", "MODULE.bazel"))
        self.assertFalse(os.path.exists(self.path("out", "sources", "c", "1", "c.h")))

    def test_tells_modules_the_version_of_a_bazel_that_does_not_say_it(self):
        self.make("--bazel", "7.7.1")
        self.assertEqual(self.read("sources", "a", "1.0", "a.bzl"), "x = '7.7.1'")


if __name__ == "__main__":
    case_report.main("module_registry")
