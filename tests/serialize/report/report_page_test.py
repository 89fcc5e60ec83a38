#!/usr/bin/env python3
"""serialize/report/internal/page_text.inc is what scripts/report_page.py makes of the files of the page.

Reads the source tree, as tests/layering_test.py does. By hand:

    tests/serialize/report/report_page_test.py [--verbose]
"""

import os
import re
import sys
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", folder) for folder in ("docs", "support", os.path.join("..", "scripts"))]
import case_report  # noqa: E402
import report_page  # noqa: E402
import source_tree  # noqa: E402

ROOT = source_tree.root()
FOLDER = "serialize/report/page"


class ThePage(unittest.TestCase):
    def test_the_text_is_current(self):
        text = source_tree.read(ROOT, "serialize/report/internal/page_text.inc")
        self.assertTrue(text == report_page.generate(), "run scripts/report_page.py")

    def test_each_script_is_in_the_page(self):
        scripts = {name for name in os.listdir(os.path.join(ROOT, FOLDER)) if name.endswith(".js")}
        self.assertEqual(scripts - {"vendor.js", "vendor.entry.js"}, set(report_page.SCRIPTS))

    def test_no_script_makes_markup_of_text(self):
        for name in report_page.SCRIPTS:
            text = source_tree.read(ROOT, f"{FOLDER}/{name}")
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
                self.assertNotIn(word, text, name)

    def test_only_live_pages_ask_for_something(self):
        for name in report_page.SCRIPTS:
            if name != "live.js":
                text = source_tree.read(ROOT, f"{FOLDER}/{name}")
                self.assertIsNone(re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import\(", text), name)


if __name__ == "__main__":
    case_report.main("report_page")
