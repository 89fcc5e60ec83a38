#!/usr/bin/env python3
"""The recipes of packaging/ and .bcr/ agree with the tree: versions, dependencies, and the files that they name.

Reads the source tree, as tests/layering_test.py does. By hand:

    tests/packaging_test.py [--verbose]
"""

import ast
import json
import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.join(HERE, "..")
sys.path.insert(0, os.path.join(HERE, "support"))
import case_report  # noqa: E402


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


VERSION = re.search(r'CASK_VERSION_STRING "([0-9.]+)"', read("tensor/version.h"))[1]
MINOR = VERSION.rpartition(".")[0]  # the SOVERSION, and what a library package is called after
# What CMake looks for -> a package of Debian, vcpkg and Conan. Eigen and GoogleTest are features there.
LIBRARIES = {
    "absl": ("libabsl-dev", "abseil", "abseil"),
    "Protobuf": ("libprotobuf-dev", "protobuf", "protobuf"),
    "ZLIB": ("zlib1g-dev", "zlib", "zlib"),
    "zstd": ("libzstd-dev", "zstd", "zstd"),
    "xxhash": ("libxxhash-dev", "xxhash", "xxhash"),
    "re2": ("libre2-dev", "re2", "re2"),
    "curl": ("libcurl4-openssl-dev", "curl", "libcurl"),
    "expat": ("libexpat1-dev", "expat", "expat"),
    "snappy": ("libsnappy-dev", "snappy", "snappy"),
    "nlohmann_json": ("nlohmann-json3-dev", "nlohmann-json", "nlohmann_json"),
    "CLI11": ("libcli11-dev", "cli11", "cli11"),
    "libevent": ("libevent-dev", "libevent", "libevent"),
    "Eigen3": ("libeigen3-dev", "eigen3", None),
    "GTest": ("libgmock-dev", "gtest", None),
}
OF_TESTS = {"benchmark", "leveldb"}
LEFT_OUT = {"MPI"}  # packages are built without: TENSORCASK_MPI


def paragraphs(text):
    """The fields of each paragraph of a file of Debian's."""
    found = []
    for paragraph in re.split(r"\n\n+", text.strip()):
        fields = re.findall(r"^([\w-]+): *((?:.*)(?:\n[ \t].*)*)", paragraph, re.MULTILINE)
        found.append({name: value.strip() for name, value in fields})
    return found


def package_names(field):
    return {re.match(r"[\w.+${}:-]+", entry.strip())[0] for entry in re.split(r"[,|]", field) if entry.strip()}


class Packaging(unittest.TestCase):
    def test_the_table_has_what_cmake_looks_for(self):
        text = read("cmake/dependencies.cmake") + read("cmake/functions.cmake")
        sought = set(re.findall(r"tensorcask_find(?:_c_library)?\(([A-Za-z]\w*)", text))
        sought |= set(re.findall(r"find_package\(([A-Z]\w*)", text))
        self.assertEqual(sought - OF_TESTS - LEFT_OUT - {"PkgConfig", "Threads"}, set(LIBRARIES))

    def test_debian(self):
        source, *packages = paragraphs(read("packaging/debian/control"))
        needed = package_names(source["Build-Depends"])
        self.assertLessEqual({names[0] for names in LIBRARIES.values()} | {"protobuf-compiler"}, needed)
        self.assertEqual([one["Package"] for one in packages],
                         ["tensorcask", f"libtensorcask{MINOR}", "libtensorcask-dev"])  # fmt: skip
        self.assertIn(f"libtensorcask{MINOR} (= ${{binary:Version}})", packages[2]["Depends"])
        for one in packages:
            read(f"packaging/debian/{one['Package']}.install")
            for line in one["Description"].splitlines()[1:]:
                self.assertLessEqual(len(line), 80, line)
        self.assertTrue(read("packaging/debian/changelog").startswith(f"tensorcask ({VERSION}-1) "))
        for name in ("rules", "tests/consumers"):
            self.assertTrue(os.access(os.path.join(ROOT, "packaging/debian", name), os.X_OK), name)
        notice = " ".join(read("NOTICE").split())
        licenses = {one["License"].split("\n")[0]: one["License"] for one in paragraphs(read("packaging/debian/copyright"))
                    if "License" in one and "Files" not in one}  # fmt: skip
        for name in ("Expat", "ISC"):
            text = " ".join(word for word in licenses[name].partition("\n")[2].split() if word != ".")
            self.assertIn(text, notice)
        # The files that NOTICE names have parts of others.
        files = set(re.findall(r"^Files: (.*)", read("packaging/debian/copyright"), re.MULTILINE))
        named = set(re.findall(r"\b[a-z]+/[\w/]+[.]\w+", notice))
        self.assertEqual(files, {"*"} | {file for file in named if os.path.exists(os.path.join(ROOT, file))})

    def test_what_debian_installs_is_what_cmake_installs(self):
        installed = set()
        for name in ("tensorcask", f"libtensorcask{MINOR}", "libtensorcask-dev"):
            for line in read(f"packaging/debian/{name}.install").splitlines():
                installed.add(line.split()[0])
        script = read("cmake/install.cmake") + read("cmake/package.cmake")
        for suffix in re.findall(r"DESTINATION \$\{CMAKE_INSTALL_DATADIR\}/(\S+?)\)?\n", script):
            if suffix == "doc/tensorcask":
                continue
            self.assertTrue([one for one in installed if one.startswith("usr/share/" + suffix)], suffix)

    def test_vcpkg(self):
        port = json.loads(read("packaging/vcpkg/tensorcask/vcpkg.json"))
        self.assertEqual((port["name"], port["version-semver"]), ("tensorcask", VERSION))
        names = [one if isinstance(one, str) else one["name"] for one in port["dependencies"]]
        features = {name: feature["dependencies"] for name, feature in port["features"].items()}
        self.assertEqual(features, {"eigen": ["eigen3"], "fixture": ["gtest"], "tool": ["cli11", "libevent"]})
        ours = {one[1] for one in LIBRARIES.values()} - {name for used in features.values() for name in used}
        self.assertEqual(set(names) - {"vcpkg-cmake", "vcpkg-cmake-config"}, ours)
        self.assertEqual(names, sorted(names))  # as `vcpkg format-manifest` writes them
        for feature in port["features"]:
            self.assertIn(feature, read("packaging/vcpkg/tensorcask/portfile.cmake"))

    def test_conan(self):
        recipe = read("packaging/conan/conanfile.py")
        ast.parse(recipe)
        wanted = set(re.findall(r'"([a-z0-9_]+)/[^"<]*[0-9][^"]*"', recipe))
        self.assertEqual(wanted - {"tensorcask"}, {one[2] for one in LIBRARIES.values() if one[2]})
        for names in LIBRARIES.values():
            if names[2]:
                self.assertIn(f'"{names[0]}"', recipe)
        exported = re.search(r"for name in \((\"cmake\".*?)\):", recipe)[1]
        folders = set(re.findall(r'"([\w/]+)"', exported))
        sources = set(re.findall(r"^    ([\w/]+)/[\w.]+\.(?:cc|h|proto)$", read("cmake/targets.cmake"), re.MULTILINE))
        of_tests = {one for one in sources if one.startswith(("tests", "examples"))} - {"tests/fixture"}
        self.assertEqual({one for one in sources - of_tests if not one.startswith(tuple(folders))}, set())

    def test_bazel(self):
        module = re.search(r'module\(\s*name = "(\w+)",\s*version = "([^"]+)"', read("MODULE.bazel"))
        self.assertEqual(module.groups(), ("tensorcask", VERSION))
        metadata = json.loads(read(".bcr/metadata.template.json"))
        self.assertEqual(set(metadata), {"homepage", "maintainers", "repository", "versions", "yanked_versions"})
        self.assertEqual((metadata["versions"], metadata["yanked_versions"]), ([], {}))
        self.assertGreaterEqual(len(metadata["maintainers"]), 1)
        for one in metadata["maintainers"]:
            self.assertLessEqual(set(one), {"email", "github", "github_user_id", "name", "do_not_notify"})
        owner = re.fullmatch(r"github:([^/]+/[^/]+)", metadata["repository"][0])[1]
        self.assertEqual(metadata["homepage"], f"https://github.com/{owner}")
        source = json.loads(read(".bcr/source.template.json"))
        # The registry refuses the archives that GitHub makes: their checksums may change.
        self.assertRegex(source["url"], r"^https://github\.com/\{OWNER\}/\{REPO\}/releases/download/\{TAG\}/")
        presubmit = read(".bcr/presubmit.yml")
        folder = re.search(r"module_path: (\S+)", presubmit)[1]
        self.assertTrue(os.path.exists(os.path.join(ROOT, folder, "MODULE.bazel")))
        for target in re.findall(r'"@tensorcask(//[^"]*)"', presubmit):
            package = target.partition(":")[0].lstrip("/")
            self.assertTrue(os.path.exists(os.path.join(ROOT, package, "BUILD.bazel")), target)
        lowest = re.search(r'bazel_compatibility = \[">=(\d+)', read("MODULE.bazel"))[1]
        for versions in re.findall(r"bazel: \[(.*?)\]", presubmit):
            for version in versions.split(","):
                self.assertGreaterEqual(int(version.strip().partition(".")[0]), int(lowest))


if __name__ == "__main__":
    case_report.main("packaging")
