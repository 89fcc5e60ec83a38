#!/usr/bin/env python3
"""Runs the tests of the Python module: run.py [ARGUMENT OF PYTEST...]

`tools/dev python` calls it with the Python of the virtual environment that has the module. Prints last: N passed, N
failed, N skipped.
"""

import os
import sys

import pytest

HERE = os.path.dirname(os.path.realpath(__file__))


class Count:
    def __init__(self):
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.counts[report.outcome] += 1

    def pytest_collectreport(self, report):
        if report.failed:
            self.counts["failed"] += 1


def main():
    count = Count()
    arguments = sys.argv[1:] or [HERE]
    status = pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", HERE, *arguments], plugins=[count])
    print("Python: " + ", ".join(f"{number} {what}" for what, number in count.counts.items()))
    return 0 if status == 0 and count.counts["failed"] == 0 else 1


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
