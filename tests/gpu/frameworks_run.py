#!/usr/bin/env python3
"""Runs frameworks_test.py so that a test that ends the process fails alone: frameworks_run.py [ARGUMENT OF PYTEST...]

A test may follow a pointer to the GPU on the host, or hang in the driver. This program notes each test as it begins and
ends, and starts pytest again without those that are done. Prints a line of JSON for each test, as part_results.py reads
them, and last: N passed, N failed, N skipped.
"""

import collections
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
RESTARTS = 6


def run(log, folder, done, arguments):
    command = [sys.executable, "-B", "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb=short", "--durations=12"]
    command += ["--rootdir", HERE, "--basetemp", os.path.join(folder, "tests")]
    command += [os.path.join(HERE, "frameworks_test.py")]
    command += [f"--deselect={test}" for test in done]
    environment = {**os.environ, "TENSORCASK_GPU_TEST_LOG": log}
    return subprocess.run([*command, *arguments], env=environment, cwd=HERE).returncode


def results(log):
    """test -> (outcome, message). The outcome is 'started' if the process ended in the test."""
    outcomes = {}
    with open(log, encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            if outcomes.get(entry["case"], ("",))[0] != "failed":  # an error of its end, after it has passed
                outcomes[entry["case"]] = entry["outcome"], entry["message"]
    return outcomes


def main():
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a disk would be measured, too
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        log = os.path.join(folder, "log")
        open(log, "w", encoding="utf-8").close()
        outcomes = {}
        for _ in range(RESTARTS):
            status = run(log, folder, outcomes, sys.argv[1:])
            outcomes = results(log)
            crashed = [test for test, (outcome, _) in outcomes.items() if outcome == "started"]
            if not crashed:
                break
            with open(log, "a", encoding="utf-8") as file:
                for test in crashed:
                    message = f"the process ended in this test, with the status {status}"
                    file.write(json.dumps({"case": test, "outcome": "failed", "message": message}) + "\n")
            outcomes = results(log)
    for test, (outcome, message) in outcomes.items():
        print(json.dumps({"case": test.partition("::")[2], "outcome": outcome, "message": message}))
    counts = collections.Counter(outcome for outcome, _ in outcomes.values())
    print("Frameworks: " + ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped")))
    if status not in (0, 1, 5) and not crashed:
        print(f"pytest ended with the status {status}")  # it could not collect the tests
        return 1
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
