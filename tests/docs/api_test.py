#!/usr/bin/env python3
"""docs/api.md lists exactly the public targets, and the BUILD files keep everything else to the library.

Reads the source tree, as tests/layering_test.py does, so it sees headers that no BUILD file names. By hand:

    tests/docs/api_test.py [--verbose]
"""

import os
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support"), os.path.join(HERE, "..")]
sys.path.append(os.path.join(HERE, "..", "..", "scripts"))
import case_report  # noqa: E402
import layering_test  # noqa: E402
import header_examples  # noqa: E402
import source_tree  # noqa: E402
from build_files import BuildFile, build_files  # noqa: E402

PAGE = "docs/api.md"
PUBLIC = "//visibility:public"
WHOLE_TREE = "//:__subpackages__"

LIBRARY = ("tensor/", "serialize/")
USERS_TESTS = "tests/fixture"  # the one package outside the library with headers for users
# Rooms whose headers are all internal.
CLOSED_ROOMS = ("serialize/protowire", "serialize/stored", "serialize/zip") + tuple(layering_test.INNER_FLOORS)

# Rooms that need what most machines lack. The page names them in a sentence, and their examples are not compiled.
OPTIONAL_ROOMS = ("serialize/mpi",)

LIBRARY_RULES = ("cask_room", "cask_cc_library", "cc_library")


def is_internal(header):
    return "/internal/" in "/" + header


def targets_of(files):
    """Label -> (is public, set of headers that are not internal, set of all headers), of all libraries."""
    found = {}
    for file in files:
        for rule, arguments in file.rules:
            visibility = arguments.get("visibility", file.default_visibility)
            name = arguments["name"]
            headers = {f"{file.package}/{header}" for header in arguments.get("hdrs", [])}
            if rule == "cask_proto_library":
                name = name[: -len("_proto")] + "_cc_proto"
                headers = {f"{file.package}/{source[: -len('.proto')]}.pb.h" for source in arguments["srcs"]}
            elif rule not in LIBRARY_RULES:
                continue
            public = {header for header in headers if not is_internal(header)}
            found[f"//{file.package}:{name}"] = (PUBLIC in visibility, public, headers)
    return found


def repositories_of(root):
    """A function: the names of the other repositories that a target depends on, directly or not."""
    depends = {}
    for file in build_files(root):
        for rule, arguments in file.rules:
            names = arguments.get("deps", []) + [name for name in [arguments.get("actual")] if name]
            label = f"//{file.package}:{arguments['name']}"
            depends[label] = [(file.label(name), name) for name in names]
            if rule == "cask_proto_library":
                depends[label[: -len("_proto")] + "_cc_proto"] = [(None, "@com_google_protobuf//:protobuf")]

    def collect(label, seen):
        found = set()
        if label in seen:
            return found
        seen.add(label)
        for ours, name in depends[label]:
            found |= collect(ours, seen) if ours else {name[1:].partition("//")[0]}
        return found

    return lambda label: collect(label, set())


def parse_page(text):
    """(rows: label -> set of headers, doors: label -> list of labels in its section, short: label -> label)."""
    rows, doors, short = {}, {}, {}
    door = label = None
    for line in text.splitlines():
        heading = re.match(r"## .*?(?:: `(//[^`]+)`)?$", line)
        if heading:
            door = heading[1]
            if door:
                doors[door] = []
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if len(cells) == 3 and cells[1].endswith(".h"):
            if cells[0]:
                label = BuildFile("", "").label(cells[0])
                doors.setdefault(door, []).append(label)
            rows.setdefault(label, set()).add(cells[1])
        elif len(cells) == 2 and cells[0].startswith("//:"):
            short[cells[0]] = cells[1]
    return rows, doors, short


def shared_headers(root):
    """Headers that sources of another room include, tests apart."""
    def room(path):
        return path.rpartition("/")[0].removesuffix("/internal")

    shared = set()
    for path in source_tree.files(root, ".h", ".cc"):
        if not path.startswith("tests/"):
            includes = re.findall(r'^#include "tensorcask/([^"]+[.]h)"', source_tree.read(root, path), re.MULTILINE)
            shared |= {header for header in includes if room(header) != room(path)}
    return shared


def closed(header, rooms):
    return header.rpartition("/")[0] in rooms


def unused(header):
    return f"{header} is used by no other room: move it to internal/, or list it in {PAGE} if programs include it"


def differences(label, headers, told):
    """What is wrong where a public target has `headers` for programs, and the page lists those of `told`."""
    lost = [f"{PAGE} lists {header}, which {label} does not have" for header in sorted(told - headers)]
    return [unused(header) for header in sorted(headers - told)] + lost


def check(root):
    """(number of public targets, list of problems)."""
    problems = []
    files = list(build_files(root))
    targets = targets_of(files)
    rows, doors, short = parse_page(source_tree.read(root, PAGE))

    shared = shared_headers(root)
    listed = set().union(*rows.values()) if rows else set()
    for label, (public, headers, all_headers) in sorted(targets.items()):
        if not label.startswith(("//tensor", "//serialize", f"//{USERS_TESTS}", "//proto")) or not all_headers:
            continue
        if label.startswith(tuple(f"//{room}:" for room in OPTIONAL_ROOMS)):
            continue
        if public and not headers:
            problems.append(f"{label} is public, and all its headers are internal")
        elif public and any(closed(header, CLOSED_ROOMS) for header in headers):
            problems.append(f"{label} is public, and its room is closed")
        elif public and label not in rows:
            problems.append(f"{label} is public, and {PAGE} does not list it")
        elif public:
            problems += differences(label, headers - (shared - listed), rows[label])
        elif not public and label in rows:
            problems.append(f"{PAGE} lists {label}, which is not public")
    problems += [f"{PAGE} lists {label}, which does not exist" for label in sorted(set(rows) - set(targets))]

    for header in source_tree.files(root, ".h"):
        if not header.startswith(LIBRARY + (USERS_TESTS,)) or is_internal(header) or header in listed:
            continue
        if closed(header, OPTIONAL_ROOMS):
            continue
        if header not in shared and not closed(header, CLOSED_ROOMS) and unused(header) not in problems:
            problems.append(unused(header))

    # The doors of the root: what a section lists is behind the section's short name.
    behind = {}
    for file in files:
        for rule, arguments in file.rules:
            if file.package == "" and rule in ("alias",) + LIBRARY_RULES:
                names = arguments.get("deps", [arguments.get("actual")])
                behind[f"//:{arguments['name']}"] = {file.label(name) for name in names}
    for door, labels in sorted(doors.items(), key=lambda item: item[0] or ""):
        if door is None or not door.startswith("//:"):
            lost = [label for label in labels if label.startswith(("//tensor", "//serialize"))]
            problems += [f"{PAGE} lists {label} in a section without a door of the root" for label in lost]
            continue
        if door not in behind:
            problems.append(f"{PAGE} has a section for {door}, which does not exist")
            continue
        problems += [f"{door} lacks {label}, which its section lists" for label in labels if label not in behind[door]]
    for name, labels in sorted(behind.items()):
        if name not in doors and {short.get(name)} != labels:
            problems.append(f"{name} has no section in {PAGE} and is not among its short names")

    for file in files:
        if (file.package + "/").startswith(LIBRARY) and {PUBLIC, WHOLE_TREE} & set(file.default_visibility):
            where = f"{file.package}/BUILD.bazel"
            problems.append(f"{where}: default_visibility must name the rooms that may use internals")
    return len(rows), problems


class TheTree(unittest.TestCase):
    def test_the_page_lists_what_is_public(self):
        root = source_tree.root()
        count, problems = check(root)
        self.assertGreater(count, 40, f"hardly any target in {root}/{PAGE}: is this the source tree?")
        self.assertEqual(problems, [], "\n" + "\n".join(problems))

    def test_the_compiled_examples_are_those_of_the_headers(self):
        root = source_tree.root()
        files = header_examples.generate(root)
        self.assertEqual(len(files), 2)
        for path, wanted in files.items():
            self.assertTrue(header_examples.is_current(root, path, wanted), f"{path}: run tests/docs/header_examples.py")


class MadeUpTree(unittest.TestCase):
    """Shows that the check can fail: each kind of mistake, in a tree of its own."""

    ROOT = 'cc_library(name = "tensor", deps = ["//tensor", "//tensor:shape"])\n'
    TENSOR = (
        'package(default_visibility = ["//tests:__subpackages__"])\n'
        'cask_cc_library(name = "tensor", hdrs = ["tensor.h", "internal/tensor_inl.h"], visibility = ["%s"])\n'
        'cask_cc_library(name = "shape", hdrs = ["shape.h"], visibility = ["%s"])\n'
        'cask_cc_library(name = "shape_rep", hdrs = ["internal/shape_rep.h"])\n' % (PUBLIC, PUBLIC)
    )
    TABLE = (
        "## Tensors: `//:tensor`\n\n| Target | Header | What |\n|---|---|---|\n"
        "| `//tensor` | `tensor/tensor.h` | tensors |\n| `//tensor:shape` | `tensor/shape.h` | shapes |\n"
    )

    def problems(self, changes):
        files = {
            "BUILD.bazel": self.ROOT,
            PAGE: self.TABLE,
            "tensor/BUILD.bazel": self.TENSOR,
            "tensor/tensor.h": "",
            "tensor/shape.h": "",
            "tensor/internal/tensor_inl.h": "",
            "tensor/internal/shape_rep.h": "",
        }
        files.update(changes)
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return check(root)[1]

    def assert_one_problem(self, changes, says):
        problems = self.problems(changes)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(says, problems[0])

    def test_a_good_tree_has_no_problem(self):
        self.assertEqual(self.problems({}), [])

    def test_a_public_target_that_is_not_listed(self):
        page = self.TABLE.replace("| `//tensor:shape` | `tensor/shape.h` | shapes |\n", "")
        problems = self.problems({PAGE: page})
        self.assertIn(f"//tensor:shape is public, and {PAGE} does not list it", problems)

    def test_a_listed_target_that_is_not_public(self):
        build = self.TENSOR.replace(f'"shape.h"], visibility = ["{PUBLIC}"]', '"shape.h"]')
        self.assert_one_problem({"tensor/BUILD.bazel": build}, "lists //tensor:shape, which is not public")

    def test_a_listed_target_that_does_not_exist(self):
        page = self.TABLE + "| `//tensor:slice` | `tensor/slice.h` | slices |\n"
        root = self.ROOT.replace('"]', '", "//tensor:slice"]')
        self.assert_one_problem({PAGE: page, "BUILD.bazel": root}, "lists //tensor:slice, which does not exist")

    def test_another_header(self):
        page = self.TABLE.replace("tensor/shape.h", "tensor/shapes.h")
        expected = [unused("tensor/shape.h"), f"{PAGE} lists tensor/shapes.h, which //tensor:shape does not have"]
        self.assertEqual(self.problems({PAGE: page}), expected)

    def test_a_header_that_only_its_own_room_uses(self):
        build = f'cask_room(name = "base", hdrs = ["check.h", "adler32.h"], visibility = ["{PUBLIC}"])\n'
        page = self.TABLE + "| `//tensor/base` | `tensor/base/check.h` | checks |\n"
        files = {"tensor/base/BUILD.bazel": build, PAGE: page, "tensor/base/check.h": "", "tensor/base/adler32.h": ""}
        files["BUILD.bazel"] = self.ROOT.replace('"]', '", "//tensor/base"]')
        files["tensor/base/checksum.cc"] = '#include "tensorcask/tensor/base/adler32.h"\n'
        self.assert_one_problem(files, "tensor/base/adler32.h is used by no other room: move it to internal/")
        files["serialize/zip/zip.cc"] = files["tensor/base/checksum.cc"]
        self.assertEqual(self.problems(files), [])

    def test_a_second_header_in_a_row_of_its_own(self):
        build = self.TENSOR.replace('"shape.h"', '"shape.h", "dims.h"')
        page = self.TABLE + "| | `tensor/dims.h` | dims |\n"
        self.assertEqual(self.problems({"tensor/BUILD.bazel": build, PAGE: page, "tensor/dims.h": ""}), [])

    def test_an_internal_header_that_is_public(self):
        build = self.TENSOR + f'cask_cc_library(name = "x", hdrs = ["internal/x.h"], visibility = ["{PUBLIC}"])\n'
        self.assert_one_problem({"tensor/BUILD.bazel": build}, "//tensor:x is public, and all its headers are internal")

    def test_a_public_target_in_a_closed_room(self):
        build = f'cask_cc_library(name = "planes", hdrs = ["planes.h"], visibility = ["{PUBLIC}"])\n'
        self.assert_one_problem({"serialize/payload/codec/BUILD.bazel": build}, "its room is closed")

    def test_headers_of_a_closed_room_need_no_row(self):
        self.assertEqual(self.problems({"serialize/payload/codec/planes.h": "", "serialize/zip/zip_format.h": ""}), [])

    def test_a_header_of_an_open_room_that_is_not_listed(self):
        self.assert_one_problem({"tensor/slice.h": ""}, unused("tensor/slice.h"))
        used = {"tensor/slice.h": "", "serialize/wire/a.cc": '#include "tensorcask/tensor/slice.h"\n'}
        self.assertEqual(self.problems(used), [])
        used = {"tensor/slice.h": "", "tensor/a.cc": '#include "tensorcask/tensor/slice.h"\n'}
        self.assert_one_problem(used, "is used by no other room")

    def test_a_door_that_lacks_a_target(self):
        root = self.ROOT.replace(', "//tensor:shape"', "")
        self.assert_one_problem({"BUILD.bazel": root}, "//:tensor lacks //tensor:shape")

    def test_a_target_without_a_door(self):
        page = self.TABLE.replace(": `//:tensor`", "")
        problems = self.problems({PAGE: page})
        self.assertIn(f"{PAGE} lists //tensor:shape in a section without a door of the root", problems)

    def test_a_door_without_a_section(self):
        root = self.ROOT + 'alias(name = "shape", actual = "//tensor:shape")\n'
        self.assert_one_problem({"BUILD.bazel": root}, "//:shape has no section")
        page = self.TABLE + "\n## Short names\n\n| Name | Is |\n|---|---|\n| `//:shape` | `//tensor:shape` |\n"
        self.assertEqual(self.problems({"BUILD.bazel": root, PAGE: page}), [])

    def test_a_package_whose_internals_anybody_may_use(self):
        build = self.TENSOR.replace("//tests:__subpackages__", WHOLE_TREE)
        self.assert_one_problem({"tensor/BUILD.bazel": build}, "default_visibility must name the rooms")


if __name__ == "__main__":
    case_report.main("api")
