#!/usr/bin/env python3
"""docs/figures.md is made of the data in docs/figures, and a run of a benchmark becomes such data.

Reads the source tree, as tests/layering_test.py does. By hand:

    tests/docs/figures_test.py [--verbose]
"""

import json
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "..", "scripts")]
import case_report  # noqa: E402
import figures  # noqa: E402
import source_tree  # noqa: E402

ROOT = source_tree.root()

# As PrintRow and Note of tests/benchmarks/bars.h print rows.
OUTPUT = "".join(
    [
        "machine: 2 processors\n",
        f"{'transpose of float32, 64 MiB':<70} {1.02:9.2f} {'x limit':<9} <= {1.15:7.2f}  {'met':<6}  five loops\n",
        f"{'stats of 1 GiB':<70} {0.5:9.2f} {'x limit':<9} >= {0.8:7.2f}  {'missed':<6}  one pass"
        "  (noisy: rounds differ by 12 %)\n",
        f"{'the same':<70} {139.25:9.2f} {'ms':<9} {'':>20}\n",
    ]
)


class Recorded(unittest.TestCase):
    def test_rows_keep_names_figures_bars_and_noise(self):
        first, second, third = figures.parse_rows(OUTPUT)
        self.assertEqual(
            first,
            {"name": "transpose of float32, 64 MiB", "value": 1.02, "unit": "x limit", "relation": "<=", "bar": 1.15,
             "met": True, "beside": "five loops"},
        )
        self.assertEqual((second["met"], second["relation"], second["spread"]), (False, ">=", 0.12))
        self.assertEqual(second["beside"], "one pass")
        self.assertEqual((third["name"], third["value"], third["unit"]), ("the same", 139.25, "ms"))
        self.assertNotIn("bar", third)

    def test_a_run_is_a_file_with_its_date_commit_and_processor(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.json")
            figures.record(path, OUTPUT, now="2026-01-31", name="Some CPU", commit="abc1234")
            with open(path, encoding="utf-8") as file:
                run = json.load(file)
        self.assertEqual((run["date"], run["commit"], run["processor"]), ("2026-01-31", "abc1234", "Some CPU"))
        self.assertEqual(len(run["rows"]), 3)

    def test_text_without_rows_is_refused(self):
        with self.assertRaises(SystemExit):
            figures.record(os.devnull, "bars: out of memory\n")


class Page(unittest.TestCase):
    def test_the_page_and_the_plot_are_those_of_the_data(self):
        page, plot = figures.page()
        self.assertEqual(source_tree.read(ROOT, "docs/figures.md"), page, "scripts/figures.py page")
        self.assertEqual(source_tree.read(ROOT, "docs/figures/bars.svg"), plot, "scripts/figures.py page")

    def test_each_row_of_a_table_has_a_cell_for_each_column(self):
        for name in figures.TABLES:
            table = figures.load(f"{name}.json")
            for row in table["rows"]:
                self.assertEqual(len(row), len(table["columns"]), f"{name}: {row[0]}")

    def test_the_plot_has_the_figures_of_its_table(self):
        processors = figures.load("processors.json")
        self.assertGreater(figures.plot(processors).count("<circle"), 60)


if __name__ == "__main__":
    case_report.main("figures")
