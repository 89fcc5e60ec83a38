#!/usr/bin/env python3
"""Counts the test cases of Bazel runs: test_summary.py EVENTS.json:STATUS...

Each EVENTS.json is what `bazel test --build_event_json_file` wrote, STATUS is Bazel's exit status. The events say which
targets were to be built and tested in that very run and where their test.xml lies, so reports left by earlier runs do
not count. Prints each failure on a line, and last, alone on its line:

    N passed, N failed             or
    N passed, N failed, N skipped

A target that did not build, or whose report is missing or unreadable, is one failure; so is a test that failed although
no case of its report did (a leak found at exit, a time-out). Exit status: 0 if nothing failed.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree


class Count:
    def __init__(self):
        self.passed = 0
        self.skipped = 0
        self.failures = []  # (suite, what)


def read_report(path):
    """(passed, skipped, names of failed cases) of a test.xml."""
    passed, skipped, failed = 0, 0, []
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(".".join(filter(None, [case.get("classname"), case.get("name")])))
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, skipped, failed


def report_path(result):
    for output in result.get("testActionOutput", []):
        if output["name"] == "test.xml" and output.get("uri", "").startswith("file://"):
            return urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
    return None


def read_events(path):
    """The events of one run; a run that broke off may leave half a line or no file at all."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
    except OSError:
        return
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            return


def count_run(path, status, count):
    tests = set()  # labels of tests that were asked for
    summaries = {}  # label -> overall status
    results = {}  # (label, run, shard) -> the last attempt
    broken = []  # labels of other targets that did not build
    left_out = set()  # labels of targets that need a library which this machine lacks
    finished = False
    for event in read_events(path):
        key = event["id"]
        if "targetConfigured" in key and event.get("configured", {}).get("targetKind", "").endswith("_test rule"):
            tests.add(key["targetConfigured"]["label"])
        elif "targetCompleted" in key and event.get("aborted", {}).get("reason") == "SKIPPED":
            left_out.add(key["targetCompleted"]["label"])
        elif "targetCompleted" in key and not event.get("completed", {}).get("success", False):
            broken.append(key["targetCompleted"]["label"])
        elif "testSummary" in key:
            summaries[key["testSummary"]["label"]] = event.get("testSummary", {}).get("overallStatus", "NO_STATUS")
        elif "testResult" in key and "testResult" in event:
            place = key["testResult"]
            run = (place["label"], place.get("run", 1), place.get("shard", 1))
            attempt = place.get("attempt", 1)
            if run not in results or attempt >= results[run][0]:
                results[run] = (attempt, event["testResult"])
        elif "buildFinished" in key:
            finished = True

    before = len(count.failures)
    ran = set()
    failed_in_report = set()
    for (label, _, _), (_, result) in sorted(results.items(), key=lambda item: item[0]):
        ran.add(label)
        report = report_path(result)
        try:
            if report is None:
                raise OSError("no test.xml")
            passed, skipped, failed = read_report(report)
        except (OSError, xml.etree.ElementTree.ParseError) as error:
            count.failures.append((label, f"{result.get('status', 'no status')}: {error}"))
            failed_in_report.add(label)
            continue
        count.passed += passed
        count.skipped += skipped
        if failed:
            failed_in_report.add(label)
        count.failures += [(label, name) for name in failed]
    for label, overall in sorted(summaries.items()):
        if label in ran and label not in failed_in_report and overall not in ("PASSED", "FLAKY"):
            count.failures.append((label, f"{overall}, though no case failed"))
    count.skipped += len(left_out & tests)
    for label in sorted(tests - ran - left_out):
        count.failures.append((label, "was not built or did not run"))
    for label in sorted(set(broken) - tests):
        count.failures.append((label, "was not built"))
    if len(count.failures) == before and (status != 0 or not finished):
        count.failures.append(("bazel", f"ended with status {status}; see above"))


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    count = Count()
    for argument in arguments:
        path, _, status = argument.rpartition(":")
        count_run(path, int(status), count)
    suite = None
    for label, what in count.failures:
        if label != suite:
            print(f"FAILED {label}")
            suite = label
        print(f"    {what}")
    line = f"{count.passed} passed, {len(count.failures)} failed"
    print(line + (f", {count.skipped} skipped" if count.skipped else ""), flush=True)
    return 1 if count.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
