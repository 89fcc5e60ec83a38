"""What the parts of run.py say: counts of tests, figures, and the lines that tell why a part failed.

A part writes a report (GoogleTest's JSON or pytest's XML), or prints JSON on lines of their own:

    {"name": "save of 8 GiB", "value": 5.2, "unit": "GiB/s", "ratio": 0.93}      a figure; "ratio" may be missing
    {"case": "transformer", "outcome": "passed"}                                 a test: passed, failed or skipped;
                                                                                 "message" says more

or, with the reason, a line that begins with "SKIPPED: ". Figures are read from the logs of all parts.
"""

import json
import re
import xml.etree.ElementTree

OUTCOMES = ("passed", "failed", "skipped")
TAIL_LINES = 40
WIDTH = 220
# What a line says that matters most, where there is no report of the failures.
TELLING = re.compile(
    r"Failure$|\[  FAILED  \]|terminate called|Check failed|Segmentation|Traceback|^E  |Error\b|ERROR SUMMARY: [1-9]|"
    r"=+ (Invalid|Error|Program hit|Fatal)|error while loading|undefined symbol|not found"
)


class Report:
    """Counts of one part and the text of what failed."""

    def __init__(self):
        self.counts = dict.fromkeys(OUTCOMES, 0)
        self.failures = []  # (name, text)
        self.skips = []  # (name, reason)

    def add(self, name, outcome, text=""):
        self.counts[outcome] += 1
        if outcome == "failed":
            self.failures.append((name, text))
        if outcome == "skipped":
            self.skips.append((name, text))


def read_gtest(path):
    """The Report of what `--gtest_output=json:` wrote. OSError or ValueError if it cannot be read."""
    report = Report()
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    for suite in document["testsuites"]:
        for case in suite["testsuite"]:
            name = f"{suite['name']}.{case['name']}"
            if case.get("failures"):
                report.add(name, "failed", "\n".join(failure["failure"] for failure in case["failures"]))
            elif case.get("result") == "SKIPPED":
                skipped = case.get("skipped") or [{}]
                report.add(name, "skipped", skipped[0].get("message", ""))
            elif case.get("status") == "RUN":
                report.add(name, "passed")
    return report


def read_pytest(path):
    """The same of `--junitxml`."""
    report = Report()
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except xml.etree.ElementTree.ParseError as error:
        raise ValueError(str(error)) from error
    for case in root.iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        for tag, outcome in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
            found = case.find(tag)
            if found is not None:
                text = found.get("message") or ""
                if outcome == "failed":
                    # The end of a traceback, then the line of the test itself.
                    text = "\n".join([*text.splitlines()[:6], *_last_lines(found.text or "", 12)])
                report.add(name, outcome, text)
                break
        else:
            report.add(name, "passed")
    return report


def read_log_of_tests(text):
    """The counts in the log of GoogleTest or `pytest -v`, for a program that wrote no report."""
    report = Report()
    for line in text.splitlines():
        if match := re.match(r"\[\s+(OK|FAILED|SKIPPED)\s+\] (\S+) \(", line):
            outcome = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[match[1]]
            report.add(match[2], outcome, "see the log")
        elif match := re.match(r"(\S+::\S+) (PASSED|FAILED|SKIPPED|ERROR)\b", line):
            report.add(match[1], {"ERROR": "failed"}.get(match[2], match[2].lower()), "see the log")
    return report


def test_in_progress(text):
    """The test that a log names as begun and not as ended; empty if there is none."""
    begun = ""
    for line in text.splitlines():
        if match := re.match(r"\[ RUN\s+\] (\S+)", line):
            begun = match[1]
        elif re.match(r"\[\s+(OK|FAILED|SKIPPED)\s+\] ", line):
            begun = ""
        elif match := re.match(r"(\S+::\S+)\s?(PASSED|FAILED|SKIPPED|ERROR)?", line):
            begun = "" if match[2] else match[1]
    return begun


def why_skipped(text):
    """What the first skipped test of GoogleTest says, which older versions leave out of the report."""
    match = re.search(r": Skipped\n(.*)", text)
    return match[1] if match else ""


def json_lines(text):
    """The objects that stand on lines of their own."""
    found = []
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("{") and line.endswith("}"):
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
    return [entry for entry in found if isinstance(entry, dict)]


def read_cases(text):
    """The Report of the {"case": ...} lines of a log."""
    report = Report()
    for entry in json_lines(text):
        if "case" in entry and entry.get("outcome") in OUTCOMES:
            report.add(str(entry["case"]), entry["outcome"], str(entry.get("message", "")))
    if sum(report.counts.values()) == 0 and (match := re.search(r"^SKIPPED: (.*)", text, re.MULTILINE)):
        report.add("all", "skipped", match[1])
    return report


def figures_of(text):
    """The figures of a log."""
    return [entry for entry in json_lines(text) if isinstance(entry.get("value"), (int, float)) and "name" in entry]


def _last_lines(text, count):
    return [line for line in text.splitlines() if line.strip()][-count:]


def tail_of(report, log):
    """Up to TAIL_LINES lines that tell why a part failed: its failures, else the telling lines of its log."""
    lines = []
    for name, text in report.failures:
        lines.append(f"* {name}")
        lines += ["    " + line for line in text.splitlines()[:18] if line.strip()]
    if not lines or all(text == "see the log" for _, text in report.failures):
        all_lines = [line for line in log.splitlines() if line.strip()]
        telling = next((i for i, line in enumerate(all_lines) if TELLING.search(line)), None)
        if telling is None:
            lines += all_lines[-TAIL_LINES:]
        else:
            half = TAIL_LINES // 2
            rest = all_lines[max(0, telling - 2) + half :]
            lines += all_lines[max(0, telling - 2) : max(0, telling - 2) + half] + rest[-half:]
    return [line[:WIDTH] for line in lines[:TAIL_LINES]]


def table(rows):
    """Lines of a table; the first row has the titles. Numbers stand at the right."""
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    numeric = [all(_is_number(row[i]) for row in rows[1:]) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            str(cell).rjust(width) if right else str(cell).ljust(width)
            for cell, width, right in zip(row, widths, numeric)
        ]
        lines.append("  ".join(cells).rstrip()[:WIDTH])
    return lines


def _is_number(cell):
    return bool(re.fullmatch(r"([\d.+-]+(e[+-]?\d+)?)?", str(cell)))


def figure_rows(figures):
    rows = [("figure", "value", "unit", "ratio")]
    for figure in figures:
        ratio = figure.get("ratio")
        rows.append(
            (
                str(figure["name"])[:90],
                f"{figure['value']:.4g}",
                str(figure.get("unit", "")),
                f"{ratio:.3f}" if isinstance(ratio, (int, float)) else "",
            )
        )
    return rows


def fit_tails(parts, room):
    """Lines of the tails of failed parts, each cut so that all have at most `room` characters; the least of a part is
    600."""
    failed = [part for part in parts if part["tail"]]
    lines = []
    for i, part in enumerate(failed):
        share = max(600, room // (len(failed) - i))
        own = [f"--- {part['name']}: {part['remark']}"]
        for line in part["tail"]:
            if sum(len(each) + 1 for each in own) + len(line) > share:
                own.append("    ...")
                break
            own.append(line)
        lines += own
        room -= sum(len(line) + 1 for line in own)
    return lines
