"""Runs the unittest cases of a script and reports each to Bazel, so that they are counted one by one.

    import case_report
    ...
    if __name__ == "__main__":
        case_report.main("tool")
"""

import os
import sys
import unittest
from xml.sax.saxutils import quoteattr


class _Recorder(unittest.TextTestResult):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cases = []

    def stopTest(self, test):
        super().stopTest(test)
        broken = [text for case, text in self.failures + self.errors if case is test or _parent(case) is test]
        skipped = [reason for case, reason in self.skipped if case is test]
        self.cases.append(
            (type(test).__name__, test._testMethodName, "\n".join(broken) or None, skipped[0] if skipped else None)
        )


def _parent(case):
    """The test that a subTest belongs to."""
    return getattr(case, "test_case", None)


def _write_xml(path, name, cases):
    with open(path, "w", encoding="utf-8") as file:
        failures = sum(1 for case in cases if case[2])
        skipped = sum(1 for case in cases if case[3])
        file.write(f'<testsuites>\n<testsuite name={quoteattr(name)} tests="{len(cases)}" failures="{failures}" ')
        file.write(f'skipped="{skipped}">\n')
        for suite, test, broken, skip in cases:
            file.write(f"<testcase classname={quoteattr(suite)} name={quoteattr(test)}>")
            if broken:
                file.write(f"<failure message={quoteattr(broken[:4000])}/>")
            if skip:
                file.write(f"<skipped message={quoteattr(skip)}/>")
            file.write("</testcase>\n")
        file.write("</testsuite>\n</testsuites>\n")


def main(name):
    """Runs all cases of the calling script and exits."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    verbosity = 2 if "--verbose" in sys.argv[1:] else 1
    result = unittest.TextTestRunner(resultclass=_Recorder, verbosity=verbosity).run(suite)
    if "XML_OUTPUT_FILE" in os.environ:
        _write_xml(os.environ["XML_OUTPUT_FILE"], name, result.cases)
    sys.exit(0 if result.wasSuccessful() else 1)
