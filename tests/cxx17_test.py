#!/usr/bin/env python3
"""A compiler that was not asked for C++17 says one sentence, whichever public header is included first.

    tests/cxx17_test.py [--verbose]
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, folder) for folder in ("consumer_doors", "docs", "support")]
import case_report  # noqa: E402
import doors  # noqa: E402
import source_tree  # noqa: E402

FIRST = "tensorcask/tensor/base/cxx17.h"
OURS = "Tensorcask needs C++17 or newer: compile with -std=c++17"
NEEDS_NOTHING = {"tensor/interop/dlpack_abi.h", "tensor/version.h"}  # include no header of another project or of ours


def errors(header, standard):
    """The errors of g++ for a file that includes `header` of the tree."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(source_tree.root(), os.path.join(folder, "tensorcask"))
        command = ["c++", f"-std={standard}", "-fsyntax-only", "-I", folder, "-x", "c++", "-"]
        done = subprocess.run(command, input=f'#include "tensorcask/{header}"\n', capture_output=True, text=True)
        return [line for line in done.stderr.splitlines() if "error: " in line]


def public_headers(root):
    names = set(re.findall(r"`([a-z0-9_/]+\.h)`", source_tree.read(root, "docs/api.md")))
    return sorted(name for name in names - NEEDS_NOTHING if os.path.exists(os.path.join(root, name)))


class ThePublicHeaders(unittest.TestCase):
    def test_include_the_sentence_before_all_else(self):
        # Newer versions of Abseil have a sentence of their own, and go on after it with a thousand errors.
        root = source_tree.root()
        headers = public_headers(root)
        self.assertGreater(len(headers), 150)
        for header in headers:
            with self.subTest(header):
                text = source_tree.read(root, header)
                self.assertEqual(re.findall(r'^#include [<"](.*)[>"]', text, re.MULTILINE)[:1], [FIRST])

    def test_of_doors_name_the_standard_that_they_need(self):
        for door, (header, _) in doors.PROGRAMS.items():
            with self.subTest(door):
                found = errors(header, "c++14")
                self.assertIn(OURS, found[0])
                self.assertEqual(len(found), 2, "\n".join(found))

    def test_compile_with_that_standard(self):
        self.assertEqual(errors("tensor/tensor.h", "c++17"), [])


if __name__ == "__main__":
    case_report.main("cxx17")
