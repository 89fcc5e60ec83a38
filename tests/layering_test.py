#!/usr/bin/env python3
"""Reads every #include and every proto import, and fails where one climbs a floor or goes beside.

The floors are those of the table below: a room includes only rooms on floors below it. Runs as a Bazel test and by hand:

    tests/layering_test.py [--verbose]

The Bazel test reads the source tree itself, which it finds by following the link to WORKSPACE among its data; so it sees
files that no BUILD file names.
"""

import collections
import os
import re
import sys
import tempfile
import unittest
from xml.sax.saxutils import quoteattr

# Room -> floor. A file belongs to the room of its own folder, and so does what the room keeps in internal/. The rooms of
# the top floor hold all folders below them.
FLOORS = {
    "tensor/base": 0,
    "tensor": 1,
    "tensor/strided": 2,
    "serialize/io": 2,
    "tensor/compat": 3,
    "tensor/interop": 3,
    "tensor/memory": 3,
    "serialize/object_store": 3,
    "serialize/payload": 3,
    "serialize/protowire": 3,
    "serialize/values": 3,
    "serialize/zip": 3,
    "tensor/inspect": 4,
    "serialize/stored": 4,
    "serialize/wire": 4,
    "serialize/checkpoint": 5,
    "serialize/exchange": 5,
    "serialize/npy": 5,
    "serialize/safetensors": 5,
    "serialize/torch": 5,
    "serialize/onnx": 5,
    "serialize/gguf": 5,
    "serialize/hdf5": 5,
    "serialize/serve": 5,
    "serialize/archive": 6,
    "serialize/sharded": 6,
    "serialize/archive/formats": 7,
    "serialize/rpc": 7,
    "serialize/mpi": 7,
    "serialize/report": 8,
    "examples": 9,
    "packaging": 9,
    "python": 9,
    "tests": 9,
    "tools": 9,
}
DEEP_ROOMS = ("examples", "packaging", "python", "tests", "tools")
PROTO_FLOORS = (4, 5, 7, 9)  # who may name the messages of proto/

# Room -> the rooms inside it, from the lowest up; rooms in one tuple are strangers. An inner room may use what its room
# may use, and the inner rooms below it. Only its own room and tests use it.
INNER_ROOMS = {
    "serialize/payload": [("codec",)],
    "serialize/checkpoint": [("table",), ("format",), ("read", "write")],
    "python": [("src/base",)],
    "tools": [("output",), ("formats", "help", "siblings")],
}
INNER_FLOORS = {
    f"{room}/{inner}": (room, height)
    for room, floors in INNER_ROOMS.items()
    for height, inners in enumerate(floors)
    for inner in inners
}

# Folders whose files belong to the room around them, as those of internal/ do, but which the rooms above may use, too.
SHARED_FOLDERS = ("serialize/wire/message",)

# Start of an include of another project's header -> the rooms that may use it. Others may be used everywhere.
ELSEWHERE = {
    "CLI/": {"tools", "tests"},
    "Eigen/": {"tensor/interop", "tests"},
    "benchmark/": {"tests"},
    "blosc": {"tests"},
    "curl/": {"serialize/object_store"},
    "expat.h": {"serialize/object_store"},
    "event2/": {"tools", "tests"},
    "gmock/": {"tests"},
    "google/protobuf/": {room for room, floor in FLOORS.items() if floor in PROTO_FLOORS},
    "grpcpp/": {"serialize/rpc", "tests"},
    "gtest/": {"tests"},
    "hdf5/": {"tests"},
    "leveldb/": {"tests"},
    "mpi.h": {"serialize/mpi", "tests"},
    "nlohmann/": {"serialize/object_store", "serialize/safetensors", "tools", "tests"},
    "re2/": {"serialize/archive", "tests"},
    "snappy": {"serialize/checkpoint", "tests"},
    "unsupported/Eigen/": {"tensor/interop", "tests"},
    "xxhash": {"serialize/payload", "tests"},
    "zlib.h": {"serialize/hdf5", "serialize/report", "serialize/zip", "tests", "tools"},
    "zstd": {"serialize/payload", "serialize/torch", "tests"},
}
# In quotes an include without our prefix is a mistake, unless it is one of these.
QUOTED_ELSEWHERE = ("absl/",) + tuple(ELSEWHERE)

MOST_HEADERS = 20  # of a folder, so that a room fits in a head
FULL_ROOMS = ("tensor", "tensor/base")

SOURCES = (".h", ".cc", ".inc", ".proto")
SKIPPED = {"tests/consumer"}  # a project of its own
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
IMPORT = re.compile(r'^\s*import\s+(?:public\s+|weak\s+)?(")([^"]+)"\s*;')


def source_files(root):
    """Paths of all sources, relative to the root; neither what Bazel makes nor hidden folders."""
    for folder, subfolders, files in os.walk(root):
        relative = os.path.relpath(folder, root).replace(os.sep, "/")
        relative = "" if relative == "." else relative + "/"
        subfolders[:] = sorted(
            name
            for name in subfolders
            if not name.startswith(".")
            and relative + name not in SKIPPED
            and not (relative == "" and name.startswith("bazel-"))
        )
        for name in sorted(files):
            if name.endswith(SOURCES):
                yield relative + name


def room_of(path):
    """The room of a file, "proto", or None where no room is."""
    folder = path.rpartition("/")[0]
    if folder.endswith("/internal"):
        folder = folder[: -len("/internal")]
    if folder in SHARED_FOLDERS:
        folder = folder.rpartition("/")[0]
    if folder in FLOORS or folder in INNER_FLOORS or folder == "proto":
        return folder
    top = folder.partition("/")[0]
    return top if top in DEEP_ROOMS else None


def outer_room(room):
    """The room that stands on a floor: the one around an inner room, else the room itself."""
    return INNER_FLOORS[room][0] if room in INNER_FLOORS else room


def may_include(room, other):
    """Whether files of `room` may include files of `other`, both of which exist."""
    if room == other or room == "tests":
        return True
    outer, other_outer = outer_room(room), outer_room(other)
    if outer != other_outer:
        return other not in INNER_FLOORS and FLOORS[other_outer] < FLOORS[outer]
    if room == outer:
        return True  # a room uses its inner rooms
    return other in INNER_FLOORS and INNER_FLOORS[other][1] < INNER_FLOORS[room][1]


def problem_with(root, path, room, quote, target):
    """What is wrong when `path` includes `target`, or None."""
    if not target.startswith("tensorcask/"):
        for start, rooms in ELSEWHERE.items():
            if target.startswith(start) and outer_room(room) not in rooms:
                return f"{target} is not for {room}, but for {', '.join(sorted(rooms))}"
        if quote == '"' and not target.startswith(QUOTED_ELSEWHERE):
            return f'"{target}" lacks the prefix tensorcask/'
        return None
    if quote == "<":
        return f"<{target}> is ours: it belongs in quotes"
    ours = target[len("tensorcask/") :]
    wanted = re.sub(r"(?:\.grpc)?\.pb\.h$", ".proto", ours)
    if not os.path.isfile(os.path.join(root, wanted)):
        return f"{wanted} does not exist"
    other = room_of(ours)
    if other is None:
        return f"{ours} is in no room"
    owner = ours.rpartition("/internal/")[0]
    if owner and room != "tests" and path.rpartition("/")[0] not in (owner, f"{owner}/internal"):
        return f"{ours} is internal to {owner}"
    if room == "proto":
        return None if other == room else f"proto/ uses nothing but itself, not {ours}"
    if other == "proto":
        floor = FLOORS[outer_room(room)]
        return None if floor in PROTO_FLOORS else f"{room} (floor {floor}) may not use proto/"
    if may_include(room, other):
        return None
    if other in INNER_FLOORS:
        return f"{room} may not include {ours} (a room inside {outer_room(other)})"
    return f"{room} (floor {FLOORS[outer_room(room)]}) may not include {ours} ({other}, floor {FLOORS[other]})"


def check(root):
    """(number of files read, list of "path:line: problem")."""
    count = 0
    problems = []
    for path in source_files(root):
        count += 1
        room = room_of(path)
        if room is None:
            problems.append(f"{path}:1: this folder is no room; the rooms are listed in tests/layering_test.py")
            continue
        pattern = IMPORT if path.endswith(".proto") else INCLUDE
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                match = pattern.match(line)
                if match:
                    # Protos of protobuf itself (google/protobuf/any.proto) are judged like headers.
                    problem = problem_with(root, path, room, match.group(1), match.group(2))
                    if problem:
                        problems.append(f"{path}:{number}: {problem}")
    return count, problems


def crowded_rooms(root, most):
    """{folder: number of headers} of the folders with more than `most`, but for FULL_ROOMS and what only tests use."""
    counts = collections.Counter(os.path.dirname(path) for path in headers(root, "tensor", "serialize", "tools", "python"))
    return {folder: count for folder, count in counts.items() if count > most and folder not in FULL_ROOMS}


def names_used_twice(root):
    """The paths of headers that have a name in common with another one."""
    named = collections.defaultdict(list)
    for path in headers(root, "tensor", "serialize", "tools", "python", "tests"):
        named[os.path.basename(path)].append(path)
    return [path for paths in named.values() if len(paths) > 1 for path in paths]


def headers(root, *folders):
    return [path for path in source_files(root) if path.partition("/")[0] in folders and path.endswith(".h")]


def linked_with(root, path):
    """All files of this library that `path` is linked with: what it includes, with the .cc file beside each header."""
    reached = set()
    waiting = [path]
    while waiting:
        path = waiting.pop()
        if path in reached or not os.path.isfile(os.path.join(root, path)):
            continue
        reached.add(path)
        waiting.append(os.path.splitext(path)[0] + ".cc")
        with open(os.path.join(root, path), encoding="utf-8") as file:
            includes = [match.group(2) for match in map(INCLUDE.match, file) if match]
        waiting += [name[len("tensorcask/") :] for name in includes if name.startswith("tensorcask/")]
    return reached


def real_root():
    """The root of the source tree: of a Bazel test by its link to WORKSPACE, else above this file."""
    if "TEST_SRCDIR" in os.environ:
        workspace = os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"], "WORKSPACE")
        return os.path.dirname(os.path.realpath(workspace))
    return os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class TheTree(unittest.TestCase):
    def test_includes_only_floors_below(self):
        root = real_root()
        count, problems = check(root)
        self.assertGreater(count, 20, f"hardly any source below {root}: is this the source tree?")
        self.assertEqual(problems, [], "\n" + "\n".join(problems))

    def test_no_room_is_crowded(self):
        self.assertEqual(crowded_rooms(real_root(), MOST_HEADERS), {})

    def test_a_header_has_a_name_of_its_own(self):
        self.assertEqual(names_used_twice(real_root()), [])

    def test_writing_checkpoints_does_not_link_reading(self):
        linked = linked_with(real_root(), "serialize/checkpoint/checkpoint_writer.h")
        self.assertIn("serialize/checkpoint/write/write_queue.cc", linked)
        self.assertEqual([path for path in sorted(linked) if path.startswith("serialize/checkpoint/read/")], [])


class MadeUpTree(unittest.TestCase):
    """Shows that the check can fail: each kind of mistake, in a tree of its own."""

    def problems(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return check(root)[1]

    def assert_one_problem(self, files, where, says):
        problems = self.problems(files)
        self.assertEqual(len(problems), 1, problems)
        self.assertTrue(problems[0].startswith(where + ":"), problems[0])
        self.assertIn(says, problems[0])

    def test_a_good_tree_has_no_problem(self):
        files = {
            "proto/types.proto": 'syntax = "proto3";\n',
            "proto/tensor.proto": 'import "tensorcask/proto/types.proto";\n',
            "tensor/base/check.h": '#include <string>\n#include "absl/status/status.h"\n',
            "tensor/shape.h": '#include "tensorcask/tensor/base/check.h"\n',
            "tensor/tensor.h": '#include "tensorcask/tensor/shape.h"\n',
            "serialize/wire/codec.cc": '#include "tensorcask/proto/tensor.pb.h"\n#include "tensorcask/tensor/tensor.h"\n',
            "serialize/checkpoint/checkpoint_reader.h": '#include "google/protobuf/message.h"\n#include <snappy.h>\n',
            "serialize/checkpoint/checkpoint_reader.cc": '#include "tensorcask/proto/tensor.pb.h"\n',
            "serialize/payload/payload.cc": '#include "tensorcask/serialize/payload/codec/chunk.h"\n',
            "serialize/payload/codec/chunk.h": "#include <zstd.h>\n",
            "serialize/checkpoint/table/block.h": "#include <snappy.h>\n",
            "serialize/checkpoint/read/bundle.h": '#include "tensorcask/serialize/checkpoint/table/block.h"\n',
            "serialize/checkpoint/internal/walk.h": '#include "tensorcask/serialize/checkpoint/read/bundle.h"\n',
            "serialize/wire/message/fields.h": "",
            "serialize/exchange/frame.cc": '#include "tensorcask/serialize/wire/message/fields.h"\n',
            "tests/serialize/chunk_test.cc": '#include "tensorcask/serialize/payload/codec/chunk.h"\n',
            "tools/ls.h": "",
            "tools/ls.cc": '#include "tensorcask/tools/ls.h"\n#include "CLI/CLI.hpp"\n',
            "tests/tools/ls_test.cc": '#include "tensorcask/tools/ls.h"\n#include "gtest/gtest.h"\n',
            "tests/consumer/tensor/shape.h": '#include "somebody/elses.h"\n',
            "bazel-bin/tensor/shape.h": '#include "tensorcask/tools/ls.h"\n',
        }
        self.assertEqual(self.problems(files), [])

    def test_an_include_that_climbs(self):
        files = {"tensor/strided/view.h": "", "tensor/shape.h": '// x\n#include "tensorcask/tensor/strided/view.h"\n'}
        self.assert_one_problem(files, "tensor/shape.h:2", "tensor (floor 1) may not include tensor/strided/view.h")

    def test_an_include_that_goes_beside(self):
        files = {"serialize/npy/npy.h": "", "serialize/torch/zip.cc": '#include "tensorcask/serialize/npy/npy.h"\n'}
        self.assert_one_problem(files, "serialize/torch/zip.cc:1", "(serialize/npy, floor 5)")

    def test_strangers_inside_a_room(self):
        files = {
            "serialize/checkpoint/read/a.h": "",
            "serialize/checkpoint/write/b.cc": '#include "tensorcask/serialize/checkpoint/read/a.h"\n',
        }
        self.assert_one_problem(files, "serialize/checkpoint/write/b.cc:1", "checkpoint/write may not include")

    def test_an_inner_room_that_uses_a_door(self):
        files = {
            "serialize/checkpoint/checkpoint_reader.h": "",
            "serialize/checkpoint/format/a.cc": '#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"\n',
        }
        self.assert_one_problem(files, "serialize/checkpoint/format/a.cc:1", "may not include")

    def test_an_inner_room_used_from_outside(self):
        files = {
            "serialize/payload/codec/chunk.h": "",
            "serialize/wire/a.cc": '#include "tensorcask/serialize/payload/codec/chunk.h"\n',
        }
        self.assert_one_problem(files, "serialize/wire/a.cc:1", "a room inside serialize/payload")

    def test_a_header_that_is_internal_to_another_room(self):
        files = {
            "serialize/io/internal/retry.h": "",
            "serialize/zip/a.cc": '#include "tensorcask/serialize/io/internal/retry.h"\n',
        }
        self.assert_one_problem(files, "serialize/zip/a.cc:1", "retry.h is internal to serialize/io")

    def test_a_header_that_is_internal_to_the_room_around(self):
        files = {
            "serialize/checkpoint/internal/walk.h": "",
            "serialize/checkpoint/read/a.cc": '#include "tensorcask/serialize/checkpoint/internal/walk.h"\n',
        }
        self.assert_one_problem(files, "serialize/checkpoint/read/a.cc:1", "is internal to serialize/checkpoint")

    def test_a_quoted_include_without_prefix(self):
        files = {"tensor/shape.h": "", "tensor/tensor.h": '#  include "tensor/shape.h"\n'}
        self.assert_one_problem(files, "tensor/tensor.h:1", "lacks the prefix tensorcask/")

    def test_a_prefixed_include_in_angle_brackets(self):
        files = {"tensor/shape.h": "", "tensor/tensor.h": "#include <tensorcask/tensor/shape.h>\n"}
        self.assert_one_problem(files, "tensor/tensor.h:1", "belongs in quotes")

    def test_an_include_of_nothing(self):
        files = {"tensor/tensor.h": '#include "tensorcask/tensor/shape.h"\n'}
        self.assert_one_problem(files, "tensor/tensor.h:1", "tensor/shape.h does not exist")

    def test_messages_below_the_wire(self):
        files = {"proto/a.proto": "", "serialize/payload/p.cc": '#include "tensorcask/proto/a.pb.h"\n'}
        self.assert_one_problem(files, "serialize/payload/p.cc:1", "may not use proto/")

    def test_messages_in_the_archive(self):
        files = {"proto/a.proto": "", "serialize/archive/a.h": '#include "tensorcask/proto/a.pb.h"\n'}
        self.assert_one_problem(files, "serialize/archive/a.h:1", "may not use proto/")

    def test_protobuf_below_the_wire(self):
        files = {"tensor/tensor.cc": '#include "google/protobuf/message.h"\n'}
        self.assert_one_problem(files, "tensor/tensor.cc:1", "google/protobuf/message.h is not for tensor")

    def test_another_reader_of_tables_outside_tests(self):
        files = {"serialize/checkpoint/checkpoint_reader.cc": "#include <leveldb/table.h>\n"}
        self.assert_one_problem(files, "serialize/checkpoint/checkpoint_reader.cc:1", "leveldb/table.h is not for")

    def test_a_tool_that_includes_a_test(self):
        files = {"tests/support/a.h": "", "tools/ls.cc": '#include "tensorcask/tests/support/a.h"\n'}
        self.assert_one_problem(files, "tools/ls.cc:1", "tools (floor 9) may not include tests/support/a.h")

    def test_an_import_without_prefix(self):
        files = {"proto/types.proto": "", "proto/tensor.proto": 'import public "proto/types.proto";\n'}
        self.assert_one_problem(files, "proto/tensor.proto:1", "lacks the prefix tensorcask/")

    def test_crowded_rooms_and_names_that_are_used_twice(self):
        with tempfile.TemporaryDirectory() as root:
            for path in ("serialize/npy/a.h", "serialize/npy/b.h", "serialize/zip/a.h", "tensor/a.h", "tensor/c.h",
                         "tests/zip/a.h", "tensor/a.cc"):  # fmt: skip
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                open(os.path.join(root, path), "w", encoding="utf-8").close()
            self.assertEqual(crowded_rooms(root, 1), {"serialize/npy": 2})
            self.assertEqual(
                names_used_twice(root), ["serialize/npy/a.h", "serialize/zip/a.h", "tensor/a.h", "tests/zip/a.h"]
            )

    def test_a_folder_that_is_no_room(self):
        self.assert_one_problem({"serialize/zarr/zarr.h": ""}, "serialize/zarr/zarr.h:1", "this folder is no room")


class Recorder(unittest.TextTestResult):
    """Keeps each case for the XML report that Bazel asks for."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cases = []

    def stopTest(self, test):
        super().stopTest(test)
        broken = [text for case, text in self.failures + self.errors if case is test]
        self.cases.append((type(test).__name__, test._testMethodName, broken[0] if broken else None))


def write_xml(path, cases):
    with open(path, "w", encoding="utf-8") as file:
        failures = sum(1 for case in cases if case[2])
        file.write(f'<testsuites>\n<testsuite name="layering" tests="{len(cases)}" failures="{failures}">\n')
        for suite, name, broken in cases:
            file.write(f"<testcase classname={quoteattr(suite)} name={quoteattr(name)}>")
            if broken:
                file.write(f"<failure message={quoteattr(broken)}/>")
            file.write("</testcase>\n")
        file.write("</testsuite>\n</testsuites>\n")


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    verbosity = 2 if "--verbose" in sys.argv[1:] else 1
    result = unittest.TextTestRunner(resultclass=Recorder, verbosity=verbosity).run(suite)
    if "XML_OUTPUT_FILE" in os.environ:
        write_xml(os.environ["XML_OUTPUT_FILE"], result.cases)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
