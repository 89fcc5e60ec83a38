#!/usr/bin/env python3
"""cmake/targets.cmake is what scripts/cmake_targets.py makes of the BUILD files now.

Reads the source tree, as tests/layering_test.py does. By hand:

    tests/tools/cmake_targets_test.py [--verbose]
"""

import os
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
BESIDE = ("consumer_doors", "docs", "support", os.path.join("..", "scripts"))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in BESIDE]
import build_files  # noqa: E402
import case_report  # noqa: E402
import cmake_targets  # noqa: E402
import doors  # noqa: E402
import exported_symbols  # noqa: E402
import source_tree  # noqa: E402

ROOT = source_tree.root()

# Tests that CMake does not build, outside the packages that it leaves out.
NEED_GRPC = {"grpc_test", "rpc_examples_test"}


class TheTree(unittest.TestCase):
    def test_the_list_is_current(self):
        self.maxDiff = None
        self.assertEqual(
            source_tree.read(ROOT, cmake_targets.OUTPUT),
            cmake_targets.generate(ROOT),
            "run scripts/cmake_targets.py",
        )

    def test_each_door_has_a_program_that_uses_it(self):
        self.assertEqual(sorted(doors.PROGRAMS), doors.doors(ROOT))

    def test_ctest_has_each_test_of_bazel(self):
        # Every rule that makes a test, also one that scripts/cmake_targets.py does not know.
        wanted = set()
        for file in build_files.build_files(ROOT):
            for rule, arguments in file.rules:
                name = cmake_targets.test_target(file.package, arguments["name"])
                if file.package.startswith(cmake_targets.LEFT_OUT) or arguments["name"] in NEED_GRPC:
                    continue
                if rule.endswith("_test"):
                    wanted.add(name)
                elif rule == "cask_fuzz_target":
                    wanted.add(name + "_test")
        text = cmake_targets.generate_tests(ROOT)
        found = re.findall(r"^tensorcask_(?:script_)?test\((\w+)$", text, re.MULTILINE)
        self.assertEqual(sorted(found), sorted(wanted))
        self.assertGreater(len(found), 150)

    def test_what_a_target_links_is_a_target(self):
        text = source_tree.read(ROOT, cmake_targets.OUTPUT) + cmake_targets.generate_tests(ROOT)
        made = set(re.findall(r"^tensorcask_\w+\((\w+)\)?$", text, re.MULTILINE))
        linked = set()
        for items in re.findall(r"^  LINK\n((?:    .*\n)+)", text, re.MULTILINE):
            linked |= set(re.findall(r"^    ((?!Tensorcask::)\w+)\)?$", items, re.MULTILINE))
        self.assertGreater(len(linked), 30)
        self.assertEqual(sorted(linked - made), ["leveldb"])  # of the system


class ExportedSymbols(unittest.TestCase):
    OURS = [
        "_ZN10tensorcask16CheckpointReader4OpenEv",
        "_ZNKR10tensorcask6Tensor4dataEv",
        "_ZTVN10tensorcask11TensorProtoE",
        "_ZThn16_N10tensorcask6Buffer5CloseEv",
        "_ZN6google8protobuf5Arena18CreateMaybeMessageIN10tensorcask11TensorProtoEJEEEPT_PS1_DpOT0_",
        "descriptor_table_tensorcask_2fproto_2ftensor_2eproto",
    ]

    def test_symbols_of_other_libraries_are_findings(self):
        others = ["_ZN4absl6StatusC1Ev", "ZSTD_compress", "_ZNSt6vectorIN10tensorcask6TensorESaIS1_EED1Ev"]
        self.assertEqual(exported_symbols.foreign(self.OURS + others), others)

    def test_symbols_that_programs_link_must_be_there(self):
        self.assertEqual(exported_symbols.missing(self.OURS), [])
        for symbol, kind in zip((self.OURS[0], self.OURS[2], self.OURS[4], self.OURS[5]), exported_symbols.NEEDED):
            with self.subTest(kind):
                self.assertEqual(exported_symbols.missing([other for other in self.OURS if other != symbol]), [kind])


class Install(unittest.TestCase):
    def test_the_man_page_and_the_completions_are_installed(self):
        rules = source_tree.read(ROOT, "cmake/install.cmake")
        names = os.listdir(os.path.join(ROOT, "tools/manual"))
        self.assertEqual(len(names), 4)
        for name in names:
            self.assertIn(f"install(FILES tools/manual/{name} DESTINATION ", rules)


class MadeUpTree(unittest.TestCase):
    FILES = {
        "BUILD.bazel": 'cc_library(name = "codec", deps = ["//serialize/wire:codec"])\n',
        "tensor/BUILD.bazel": """cask_cc_library(
            name = "tensor", srcs = ["tensor.cc"], hdrs = ["tensor.h"], copts = FOR_SIZE)\n""",
        "serialize/wire/BUILD.bazel": """cask_cc_library(
            name = "codec", srcs = ["codec.cc"], hdrs = ["codec.h"], copts = FOR_SPEED,
            deps = ["//tensor", "@com_google_absl//absl/strings:cord", "@zstd//:zstd"])\n""",
        "tests/BUILD.bazel": """cask_cc_test(
            name = "codec_test", srcs = ["codec_test.cc"], cpus = ["avx2", "scalar"],
            deps = ["//serialize/wire:codec", "@com_google_googletest//:gtest_main"])\n""",
    }

    def generate(self, changes):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**self.FILES, **changes}.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                    f.write(text)
            return " ".join((cmake_targets.generate(root) + cmake_targets.generate_tests(root)).split())

    def test_rooms_doors_and_tests(self):
        text = self.generate({})
        self.assertIn(
            "tensorcask_room(wire SOURCES serialize/wire/codec.cc HEADERS serialize/wire/codec.h LINK"
            " Tensorcask::tensor absl::cord LINK_PRIVATE Tensorcask::dependency_zstd"
            " FOR_SPEED serialize/wire/codec.cc)",
            text,
        )
        self.assertIn(
            "tensorcask_room(tensor SOURCES tensor/tensor.cc HEADERS tensor/tensor.h FOR_SIZE tensor/tensor.cc"
            " ALONE tensor/tensor.cc)",
            text,
        )
        self.assertLess(text.index("tensorcask_room(tensor"), text.index("tensorcask_room(wire"))
        self.assertIn("tensorcask_door(codec LINK Tensorcask::wire)", text)
        self.assertIn(
            "tensorcask_test(tests_codec_test SOURCES tests/codec_test.cc LINK GTest::gmock_main Tensorcask::wire"
            " CPUS avx2 scalar PACKAGE tests TIMEOUT 300)",
            text,
        )

    def test_sources_of_a_room_with_flags_of_their_own(self):
        room = """cask_room(name = "tensor", srcs = ["a.cc", "b.cc", "c.cc"], hdrs = ["a.h"], alone = ["a.cc"],
                    for_size = ["b.cc"], for_speed = ["c.cc"], deps = [])\n"""
        self.assertIn(
            "tensorcask_room(tensor SOURCES tensor/a.cc tensor/b.cc tensor/c.cc HEADERS tensor/a.h"
            " FOR_SPEED tensor/c.cc FOR_SIZE tensor/b.cc ALONE tensor/a.cc)",
            self.generate({"tensor/BUILD.bazel": room}),
        )

    def test_scripts_modules_and_fuzz_targets(self):
        text = self.generate({"tests/scripts/BUILD.bazel": """
cask_cc_binary(name = "module", srcs = ["module.cc"], linkshared = True, tags = ["manual"], deps = ["//tensor"])
position_independent(name = "libmodule.so", library = ":module")
cask_script_test(name = "a_test", size = "small", srcs = ["a_test.py"], args = ["$(rootpath //tools:tensorcask)"],
                 data = [":libmodule.so", "//tools:tensorcask", "//:WORKSPACE"])
cask_fuzz_target(name = "parser", deps = ["//tensor"])
"""})  # fmt: skip
        self.assertIn("tensorcask_module(tests_scripts_module SOURCES tests/scripts/module.cc LINK Tensorcask::tensor)", text)
        script = (
            "tensorcask_script_test(tests_scripts_a_test FILES tests/scripts/a_test.py WORKSPACE"
            " PROGRAMS tests_scripts_module tests/scripts/libmodule.so tools_tensorcask tools/tensorcask"
            " ARGUMENTS tools/tensorcask PACKAGE tests/scripts TIMEOUT 60)"
        )
        self.assertIn(script, text)
        self.assertIn("SEEDS tests/scripts/corpus/parser PACKAGE tests/scripts TIMEOUT", text)
        self.assertGreater(text.index(script), text.index("tensorcask_test("), "programs come before the scripts")

    def test_a_changed_build_file_changes_the_list(self):
        changed = self.FILES["tensor/BUILD.bazel"].replace('"tensor.cc"', '"tensor.cc", "shape.cc"')
        self.assertIn("tensor/shape.cc", self.generate({"tensor/BUILD.bazel": changed}))

    def test_an_unknown_dependency_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "@other//:lib: add it to EXTERNAL"):
            self.generate({"tensor/BUILD.bazel": 'cask_cc_library(name = "tensor", deps = ["@other//:lib"])\n'})

    def test_rooms_that_need_each_other_are_an_error(self):
        cycle = 'cask_cc_library(name = "tensor", deps = ["//serialize/wire:codec"])\n'
        with self.assertRaisesRegex(ValueError, "rooms depend on each other: tensor -> wire -> tensor"):
            self.generate({"tensor/BUILD.bazel": cycle})


if __name__ == "__main__":
    case_report.main("cmake_targets")
