#!/usr/bin/env python3
"""Writes cmake/targets.cmake, the list of libraries and of the program, from the BUILD files.

    scripts/cmake_targets.py                # writes the file
    scripts/cmake_targets.py --check        # exits with 1 if the file is not current
    scripts/cmake_targets.py --tests FILE   # writes the list of tests and examples: CMake calls it where they are built

The BUILD files are the only description of targets. A room becomes one CMake library (`serialize/checkpoint` and the
rooms inside it: Tensorcask::checkpoint), and each library of the root BUILD file becomes a target of that name. Tests
keep their targets. `tests/fixture`, for the tests of users, is Tensorcask::fixture. The functions that targets.cmake
calls are in cmake/functions.cmake.
"""

import difflib
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import build_files  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUTPUT = "cmake/targets.cmake"

# What CMake calls the libraries of others. The names in Tensorcask:: are defined by cmake/dependencies.cmake.
EXTERNAL = {
    "@cli11": "CLI11::CLI11",
    "@com_google_googletest//:gmock": "GTest::gmock",
    "@com_google_googletest//:gtest": "GTest::gmock",
    "@com_google_googletest//:gtest_main": "GTest::gmock_main",
    "@com_google_protobuf": "protobuf::libprotobuf",
    "@curl": "Tensorcask::dependency_curl",
    "@eigen": "Eigen3::Eigen",
    "@grpc//:grpc++": "gRPC::grpc++",
    "@grpc//:grpc++_reflection": "gRPC::grpc++_reflection",
    "@leveldb": "leveldb",
    "@libevent": "Tensorcask::dependency_libevent",
    "@libexpat": "Tensorcask::dependency_expat",
    "@mpi": "MPI::MPI_CXX",
    "@nlohmann_json": "nlohmann_json::nlohmann_json",
    "@re2": "Tensorcask::dependency_re2",
    "@snappy": "Tensorcask::dependency_snappy",
    "@xxhash": "Tensorcask::dependency_xxhash",
    "@zlib": "ZLIB::ZLIB",
    "@zstd": "Tensorcask::dependency_zstd",
}
# No header that is installed includes theirs.
PRIVATE = {"nlohmann_json::nlohmann_json", "Tensorcask::dependency_curl", "Tensorcask::dependency_expat",
           "Tensorcask::dependency_re2", "Tensorcask::dependency_snappy",
           "Tensorcask::dependency_xxhash", "Tensorcask::dependency_zstd", "ZLIB::ZLIB"}
# Targets that would add a dependency to the rest of their room.
OWN_LIBRARY = {
    ("tensor/interop", "eigen"): "eigen",
    ("serialize/archive", "rename_rules"): "rename_rules",
    ("serialize/archive", "sed_regex"): "rename_rules",
    ("serialize/archive", "sed_rule"): "rename_rules",
    ("serialize/archive", "archive_service"): "serve",
    ("serialize/archive", "served_format"): "serve",
    ("serialize/rpc", "sources"): "rpc_sources",
    ("proto", "exchange_service_cc_grpc"): "rpc",
}
ROOM_RULES = ("cask_room", "cask_cc_library", "cask_proto_library", "cask_grpc_library")
ROOM_NAMES = {"interop": "dlpack"}
# Tests and examples of what needs gRPC or MPI.
LEFT_OUT = (
    *("bazel", "third_party"),
    *("tests/serialize/rpc", "tools:tensorcask-grpc"),
    *("examples:follow_run", "examples:parameter_server"),
    "tests/serialize/mpi",
)
PROGRAM = "tools"
FIXTURE = "tests/fixture"  # a room for the tests of users; its own tests lie beside it
BENCHMARKS = "tests/benchmarks"  # its programs need libraries that only the workbench knows
TIMEOUTS = {"small": 60, "medium": 300, "large": 900}  # seconds, as Bazel has them


class Target:
    """A rule of a BUILD file, with its files and labels as paths and labels of the whole tree."""

    def __init__(self, file, rule, arguments):
        self.rule = rule
        self.package = file.package
        self.name = arguments["name"]
        self.label = f"//{self.package}:{self.name}"
        self.arguments = arguments
        names = arguments.get("deps", []) + [name for name in [arguments.get("actual")] if name]
        self.deps = [file.label(name) or name for name in names]
        self.data = [file.label(name if name.startswith("/") else ":" + name.lstrip(":")) for name in arguments.get("data", [])]

    def files(self, attribute, *endings):
        names = self.arguments.get(attribute, [])
        return [os.path.join(self.package, name) for name in names if name.endswith(endings or ("",)) and ":" not in name]


def library_of(package, name):
    """The CMake library with the target //package:name; None if the target is of no room."""
    if (package, name) in OWN_LIBRARY:
        return OWN_LIBRARY[package, name]
    parts = package.split("/")
    if parts[0] == "proto":
        return "proto"
    if parts[0] == "tensor":
        return "tensor" if len(parts) == 1 or parts[1] == "base" else ROOM_NAMES.get(parts[1], parts[1])
    if parts[0] == "serialize" and len(parts) > 1:
        return parts[1]
    if package == FIXTURE and not name.endswith("_test"):
        return "fixture"
    return None


def external(label):
    if label.startswith("@com_google_absl//absl/"):
        return "absl::" + label.rpartition("/")[2].rpartition(":")[2]
    for key in (label, label.partition("//")[0]):
        if key in EXTERNAL:
            return EXTERNAL[key]
    raise ValueError(f"{label}: add it to EXTERNAL in scripts/cmake_targets.py")


def test_target(package, name):
    return f"{package}/{name}".replace("/", "_")


def link(label):
    """What a target that depends on `label` names in CMake."""
    if label.startswith("@"):
        return external(label)
    package, name = label[2:].split(":")
    library = library_of(package, name)
    if library is not None:
        return f"Tensorcask::{library}"
    if name.endswith("_cc_proto"):
        name = name[: -len("_cc_proto")] + "_proto"
    return test_target(package, name)


class Room:
    """One CMake library, of all libraries of a room."""

    def __init__(self):
        self.sources = set()
        self.headers = set()
        self.protos = set()
        self.services = set()
        self.links = set()
        self.for_speed = set()  # sources
        self.for_size = set()
        self.alone = set()

    def add(self, target):
        self.links.update(link(label) for label in target.deps)
        if target.rule == "cask_proto_library":
            self.protos.update(target.files("srcs"))
            self.links.add("protobuf::libprotobuf")
            return
        if target.rule == "cask_grpc_library":
            self.services.update(target.files("srcs"))
            self.links.add("gRPC::grpc++")
            return
        self.sources.update(target.files("srcs", ".cc"))
        self.headers.update(target.files("srcs", ".h") + target.files("hdrs"))
        self.for_speed.update(target.files("for_speed"))
        self.for_size.update(target.files("for_size"))
        # Others than rooms may have the same names as their neighbours.
        self.alone.update(target.files("alone" if target.rule == "cask_room" else "srcs", ".cc"))
        if "FOR_SPEED" in target.arguments.get("copts", []):
            self.for_speed.update(target.files("srcs", ".cc"))
        if "FOR_SIZE" in target.arguments.get("copts", []):
            self.for_size.update(target.files("srcs", ".cc"))


def rooms_of(targets):
    rooms = {}
    for target in targets:
        name = library_of(target.package, target.name)
        if name is not None and target.rule in ROOM_RULES:
            rooms.setdefault(name, Room()).add(target)
    for name, room in rooms.items():
        room.links.discard(f"Tensorcask::{name}")
    return rooms


def by_dependency(rooms):
    """The names of the rooms, each after those that it needs."""
    order, visiting = [], []

    def visit(name):
        if name in order:
            return
        if name in visiting:
            raise ValueError("rooms depend on each other: " + " -> ".join(visiting + [name]))
        visiting.append(name)
        for other in sorted(rooms[name].links):
            if other.startswith("Tensorcask::") and other[len("Tensorcask::") :] in rooms:
                visit(other[len("Tensorcask::") :])
        visiting.pop()
        order.append(name)

    for name in sorted(rooms):
        visit(name)
    return order


def call(function, name, **lists):
    lines = [f"{function}({name}"]
    for key, values in lists.items():
        if values:
            lines += [f"  {key}"] + [f"    {value}" for value in values]
    return "\n".join(lines) + ")\n"


def call_of_room(name, room):
    return call(
        "tensorcask_room",
        name,
        SOURCES=sorted(room.sources),
        HEADERS=sorted(room.headers),
        PROTOS=sorted(room.protos),
        SERVICES=sorted(room.services),
        LINK=sorted(room.links - PRIVATE),
        LINK_PRIVATE=sorted(room.links & PRIVATE),
        FOR_SPEED=sorted(room.for_speed),
        FOR_SIZE=sorted(room.for_size),
        ALONE=sorted(room.alone - room.for_speed),
    )


def call_of_door(target):
    return call("tensorcask_door", target.name, LINK=sorted({link(label) for label in target.deps}))


def call_of_rest(target):
    """Of a program, a test, or a library of theirs; "" for other rules."""
    name = test_target(target.package, target.name)
    parts = {"SOURCES": sorted(target.files("srcs", ".cc")), "LINK": sorted({link(d) for d in target.deps})}
    if target.arguments.get("linkshared"):
        return call("tensorcask_module", name, **parts, FLAGS=target.arguments.get("copts"))
    if "manual" in target.arguments.get("tags", []) and target.package != PROGRAM:
        return ""
    if target.rule in ("cask_cc_library", "cask_room"):
        return call("tensorcask_inner_library", name, **parts)
    if target.rule == "cask_cc_binary":
        return call("tensorcask_program", name, **parts)
    if target.rule == "cask_proto_library":
        return call("tensorcask_test_proto", name, PROTOS=target.files("srcs"), LINK=parts["LINK"])
    if target.rule == "cask_cc_test":
        return call("tensorcask_test", name, **parts, FLAGS=target.arguments.get("copts"),
                    CPUS=target.arguments.get("cpus"), MODULES=modules_of(target), **for_ctest(target))  # fmt: skip
    if target.rule == "cask_fuzz_target":  # tests/fuzz/fuzz.bzl
        links = sorted({*parts["LINK"], test_target(target.package, "replay")})
        return call("tensorcask_test", name + "_test", SOURCES=[f"{target.package}/{target.name}_fuzz.cc"], LINK=links,
                    SEEDS=[f"{target.package}/corpus/{target.name}"], **for_ctest(target))  # fmt: skip
    if target.rule == "cask_script_test":
        return call_of_script(target, name)
    return ""


def for_ctest(target):
    return {"PACKAGE": [target.package], "TIMEOUT": [TIMEOUTS[target.arguments.get("size", "medium")]]}


def modules_of(target):
    """Of each shared library that a test opens: its target, and the path at which the test looks for it."""
    labels = [data[2:].split(":") for data in target.data if data.endswith(".so")]
    return [part for package, base in labels for part in (test_target(package, base), os.path.join(package, base))]


def call_of_script(target, name):
    """Its files are those of the tree; each of its programs is a target and the path at which the script looks for it."""
    files, programs = target.files("srcs"), []
    for data in target.data:
        package, base = data[2:].split(":")
        path = os.path.join(package, base)
        if os.path.exists(os.path.join(ROOT, path)):
            files.append(path)
        else:
            programs += [test_target(package, re.sub(r"^lib(.*)[.]so$", r"\1", base)), path]
    arguments = [re.sub(r"\$\(rootpath //(.*):(.*)\)", r"\1/\2", argument) for argument in target.arguments.get("args", [])]
    return call("tensorcask_script_test", name, FILES=files, PROGRAMS=programs, ARGUMENTS=arguments, **for_ctest(target))


def without_benchmarks(targets):
    """Of the benchmarks only the tests, and the targets beside them that they need."""
    inside = {target.label: target for target in targets if target.package == BENCHMARKS}
    needed = set()
    waiting = [label for label, target in inside.items() if target.rule.endswith("_test")]
    while waiting:
        label = waiting.pop()
        if label in inside and label not in needed:
            needed.add(label)
            waiting += inside[label].deps
    return [target for target in targets if target.package != BENCHMARKS or target.label in needed]


def all_targets(root):
    targets = [
        Target(file, rule, arguments)
        for file in build_files.build_files(root)
        if not file.package.startswith(LEFT_OUT)
        for rule, arguments in file.rules
    ]
    needing = [target for target in targets if any(label.startswith(LEFT_OUT, 2) for label in target.deps + target.data)]
    return without_benchmarks([target for target in targets if target not in needing])


def of_rest(targets):
    """The text of programs, tests, and libraries of theirs."""
    # Scripts come last: their programs must be known.
    order = sorted(targets, key=lambda target: (target.rule == "cask_script_test", target.label))
    return [text for text in map(call_of_rest, order) if text]


def is_of_no_room(target):
    return target.package != "" and library_of(target.package, target.name) is None


def generate(root):
    """The content of cmake/targets.cmake."""
    targets = all_targets(root)
    rooms = rooms_of(targets)
    doors = [t for t in targets if t.package == "" and t.rule in ("cc_library", "alias") and t.name not in rooms]
    parts = ["# Written by scripts/cmake_targets.py from the BUILD files. Do not edit.\n"]
    parts.append("# --- Rooms, each after those that it needs ---\n")
    parts += [call_of_room(name, rooms[name]) for name in by_dependency(rooms)]
    parts.append("# --- Doors that are not a room of the same name ---\n")
    parts += [call_of_door(door) for door in doors]
    parts.append("# --- The program ---\n")
    parts += of_rest(t for t in targets if is_of_no_room(t) and t.package.startswith(PROGRAM))
    return "\n".join(parts)


def generate_tests(root):
    """What CMake includes where tests and examples are built."""
    return "\n".join(of_rest(t for t in all_targets(root) if is_of_no_room(t) and not t.package.startswith(PROGRAM)))


def main(arguments):
    if arguments[:1] == ["--tests"] and len(arguments) == 2:
        with open(arguments[1], "w", encoding="utf-8") as f:
            f.write(generate_tests(ROOT))
        return 0
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    wanted = generate(ROOT)
    path = os.path.join(ROOT, OUTPUT)
    if not arguments:
        with open(path, "w", encoding="utf-8") as f:
            f.write(wanted)
        return 0
    with open(path, encoding="utf-8") as f:
        found = f.read()
    sys.stdout.writelines(difflib.unified_diff(found.splitlines(True), wanted.splitlines(True), OUTPUT, "BUILD files"))
    if found != wanted:
        print(f"{OUTPUT} is not current: run scripts/cmake_targets.py")
    return 0 if found == wanted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
