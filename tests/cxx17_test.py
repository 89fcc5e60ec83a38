#!/usr/bin/env python3
"""A compiler that was not asked for C++17 says one sentence, whichever door is included first.

    tests/cxx17_test.py [--verbose]
"""

import os
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

OURS = "Tensorcask needs C++17 or newer: compile with -std=c++17"
# Newer versions of Abseil have one of their own, but go on after it.
OF_ABSEIL = "C++ versions less than C++17 are not supported"
# These begin with headers of other projects, which have their own demands.
OTHERS_FIRST = {"eigen", "fixture", "mpi", "tensor_codec"}


def errors(header, standard):
    """The errors of g++ for a file that includes `header` of the tree."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(source_tree.root(), os.path.join(folder, "tensorcask"))
        command = ["c++", f"-std={standard}", "-fsyntax-only", "-I", folder, "-x", "c++", "-"]
        done = subprocess.run(command, input=f'#include "tensorcask/{header}"\n', capture_output=True, text=True)
        return [line for line in done.stderr.splitlines() if "error: " in line]


class TheDoors(unittest.TestCase):
    def test_name_the_standard_that_they_need(self):
        for door, (header, _) in doors.PROGRAMS.items():
            if door in OTHERS_FIRST:
                continue
            with self.subTest(door):
                found = errors(header, "c++14")
                if found and OF_ABSEIL not in found[0]:  # some headers are of C++14
                    self.assertIn(OURS, found[0])
                    self.assertEqual(len(found), 2, "\n".join(found))

    def test_most_of_them_need_it(self):
        self.assertTrue(errors("tensor/tensor.h", "c++14"))
        self.assertEqual(errors("tensor/tensor.h", "c++17"), [])


if __name__ == "__main__":
    case_report.main("cxx17")
