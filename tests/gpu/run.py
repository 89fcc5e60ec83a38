#!/usr/bin/env python3
"""Runs the tests and benchmarks of a GPU, part by part, and prints one table.

    run.py [--limit SECONDS] [--out FOLDER] [--anyway] [--parts FILE] [--list] [PART...]

Belongs to the bundle of `tools/dev gpu`; in the source tree it runs what Bazel has built. PART is a name of the first
column of the table, or the start of one (default: all). Each part has its own limit and its own log; a part that fails,
crashes or hangs stops no other. Tests run beside each other, benchmarks alone. Without a GPU each part is SKIPPED;
--anyway runs the parts all the same, and those that can use the simulated device.

Prints the last lines of what failed, then the figures, the machine and the table. FOLDER gets result.json (all of it),
summary.txt (what was printed) and logs.tar.gz (the whole logs), after each group of parts and at the end. --parts takes
the parts from a JSON file: a list of objects with the fields of Part. Exit status: 0 if no test failed.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
import gpu_parts as bundle_parts  # noqa: E402
import part_results  # noqa: E402
from gpu_parts import Part  # noqa: E402

OUTPUT_LIMIT = 11500  # characters of the last output that somebody may see
GRACE_SECONDS = 3
LEAST_SECONDS = 5  # a part is not begun with less


class Runner:
    def __init__(self, limit, work):
        self.started = time.monotonic()
        self.deadline = self.started + limit
        self.work = work  # a folder for logs and reports
        self.lock = threading.Lock()
        self.running = set()
        self.stopped = False

    def run(self, part):
        """The result of one part, as a dict."""
        base = os.path.join(self.work, part.name.replace(" ", "_").replace("/", "_"))
        result = dict(name=part.name, row=part.row or part.name, passed=0, failed=0, skipped=0, seconds=0.0, remark="",
                      figures=[], tail=[], skips=[], log=os.path.basename(base) + ".log")  # fmt: skip
        if part.skip:
            return dict(result, skipped=1, remark="SKIPPED: " + part.skip)
        seconds = min(part.limit, self.deadline - time.monotonic())
        if seconds < LEAST_SECONDS or self.stopped:
            return dict(result, skipped=1, remark="SKIPPED: no time was left")
        command = [argument.replace("{seconds}", str(int(seconds - GRACE_SECONDS))) for argument in part.command]
        report_path = None
        if part.kind == "gtest":
            report_path = base + ".json"
            command.append(f"--gtest_output=json:{report_path}")
        elif part.kind == "pytest":
            report_path = base + ".xml"
            command.append(f"--junitxml={report_path}")
        begun = time.monotonic()
        try:
            status = self.execute(part, command, base + ".log", seconds)
        except OSError as error:
            return dict(result, failed=1, remark=f"could not be started: {error}"[:160])
        result["seconds"] = round(time.monotonic() - begun, 1)
        with open(base + ".log", encoding="utf-8", errors="replace") as file:
            log = file.read()
        self.judge(part, result, status, seconds, report_path, log)
        return result

    def execute(self, part, command, log, seconds):
        """The exit status; None if the part was ended at its limit."""
        environment = {**os.environ, **part.environment}
        environment["TEST_TMPDIR"] = tempfile.mkdtemp(dir=self.work)
        with open(log, "wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       env=environment, cwd=part.folder or None, start_new_session=True)  # fmt: skip
            with self.lock:
                self.running.add(process)
            try:
                return process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                return None
            finally:
                end_group(process)
                with self.lock:
                    self.running.discard(process)

    def judge(self, part, result, status, seconds, report_path, log):
        report, remark = part_results.Report(), ""
        try:
            if part.kind == "gtest":
                report = part_results.read_gtest(report_path)
            elif part.kind == "pytest":
                report = part_results.read_pytest(report_path)
            else:
                report = part_results.read_cases(log)
        except (OSError, ValueError, KeyError) as error:
            report, remark = part_results.read_log_of_tests(log), "no report"
            if status == 0:
                report.add("report", "failed", f"no report was written: {error}")
        figures = part_results.figures_of(log)
        counts = report.counts
        report.skips = [(name, why or part_results.why_skipped(log)) for name, why in report.skips]
        if status is None:
            during = part_results.test_in_progress(log)
            remark = f"ended after {seconds:.0f} s" + (f", in {during}" if during else "")
        elif status < 0:
            during = part_results.test_in_progress(log)
            remark = f"ended by {signal_name(-status)}" + (f", in {during}" if during else "")
        elif status == part.finding_status:
            remark = "the sanitizer has findings"
        elif status != 0 and counts["failed"] == 0:
            remark = f"exit status {status}"
        elif part.kind == "figures" and not figures and sum(counts.values()) == 0:
            remark = "no result was printed"
        is_bad = remark != "" and remark != "no report"
        if counts["failed"] == 0 and is_bad:
            counts["failed"] = 1
        elif sum(counts.values()) == 0:
            counts["passed"] = 1  # it counts nothing itself
        if not remark and report.failures:
            remark = report.failures[0][0]
        if not remark and report.skips:
            remark = "SKIPPED: " + " ".join(report.skips[0][1].split())[:100]
        result.update(counts, remark=remark, figures=figures, skips=report.skips)
        if counts["failed"]:
            result["tail"] = part_results.tail_of(report, log)

    def stop(self, *_):
        """Ends what runs; what has not begun is skipped."""
        self.stopped = True
        for process in list(self.running):
            end_group(process, wait=False)


def end_group(process, wait=True):
    """Ends what is left of the process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            break
        until = time.monotonic() + GRACE_SECONDS
        while wait and number == signal.SIGTERM and time.monotonic() < until:
            process.poll()
            try:
                os.killpg(process.pid, 0)
            except (ProcessLookupError, PermissionError):
                break
            time.sleep(0.05)
    if wait:
        process.wait()


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def rows_of(results):
    """A row of the table for each `row` of the results, with sums."""
    rows = {}
    for result in results:
        empty = dict(name=result["row"], passed=0, failed=0, skipped=0, seconds=0, remark="")
        row = rows.setdefault(result["row"], empty)
        for key in ("passed", "failed", "skipped"):
            row[key] += result[key]
        row["seconds"] = round(max(row["seconds"], result["seconds"]), 1)
        if result["failed"] and result["row"] != result["name"]:
            row["remark"] = f"{result['name']}: {result['remark']}"
        elif not row["remark"] or (result["failed"] and result["remark"]):
            row["remark"] = result["remark"]
    return list(rows.values())


def text_of(results, machine, bundle, seconds):
    """What is printed at the end."""
    figures = [figure for result in results for figure in result["figures"]]
    rows = rows_of(results)
    lines = [""]
    if figures:
        lines += part_results.table(part_results.figure_rows(figures)) + [""]
    lines += [f"{name}: {value}" for name, value in machine.items()] + bundle + [""]
    titles = ("part", "passed", "failed", "skipped", "seconds", "remark")
    keys = ("name", "passed", "failed", "skipped", "seconds", "remark")
    cells = [tuple(str(row[key])[:100] for key in keys) for row in rows]
    lines += part_results.table([titles, *cells])
    total = {key: sum(row[key] for row in rows) for key in part_results.OUTCOMES}
    counts = ", ".join(f"{number} {what}" for what, number in total.items())
    lines += ["", f"in {seconds:.0f} s", f"GPU: {counts}"]
    room = OUTPUT_LIMIT - sum(len(line) + 1 for line in lines)
    return "\n".join(part_results.fit_tails(results, room) + lines)


def write_results(out, work, results, machine, bundle, text):
    """Whole files at any moment: each is written beside and renamed."""
    if out is None:
        return
    document = {
        "machine": machine,
        "bundle": bundle,
        "rows": rows_of(results),
        "parts": results,
        "figures": [figure for result in results for figure in result["figures"]],
    }
    with open(os.path.join(out, "result.json.new"), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    with open(os.path.join(out, "summary.txt.new"), "w", encoding="utf-8") as file:
        file.write(text + "\n")
    with tarfile.open(os.path.join(out, "logs.tar.gz.new"), "w:gz") as archive:
        for name in sorted(os.listdir(work)):
            if name.endswith((".log", ".json", ".xml")):
                archive.add(os.path.join(work, name), arcname=name)
    for name in ("result.json", "summary.txt", "logs.tar.gz"):
        os.replace(os.path.join(out, name + ".new"), os.path.join(out, name))


def choose(parts, wanted):
    """The parts whose names or rows begin with a text in `wanted`. Exits if no part begins with one of the texts."""
    for name in wanted:
        if not any((part.row or part.name).startswith(name) or part.name.startswith(name) for part in parts):
            sys.exit(f"run.py: no part {name!r}; --list names all")
    return [
        part
        for part in parts
        if not wanted
        or part.always
        or any((part.row or part.name).startswith(name) or part.name.startswith(name) for name in wanted)
    ]


def run_all(runner, parts, workers, done):
    """Runs the parts, those of one group beside each other; calls done(results so far, parts) after each group."""
    results = []
    for group in sorted({part.group for part in parts}):
        members = [part for part in parts if part.group == group]
        with concurrent.futures.ThreadPoolExecutor(max_workers=workers) as pool:
            futures = [pool.submit(runner.run, part) for part in members]
            results += [future.result() for future in futures]
        done(results, members)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=480, help="seconds for all parts (default: 480)")
    parser.add_argument("--out", help="a folder for the results")
    parser.add_argument("--anyway", action="store_true", help="run the parts without a GPU, too")
    parser.add_argument("--parts", help="a JSON file with the parts")
    parser.add_argument("--list", action="store_true", help="print the names of the parts")
    parser.add_argument("part", nargs="*")
    arguments = parser.parse_args()

    work = tempfile.mkdtemp(prefix="tensorcask_gpu_")
    if arguments.parts:
        with open(arguments.parts, encoding="utf-8") as file:
            parts = [Part(**{**fields, "command": tuple(fields["command"])}) for fields in json.load(file)]
        machine, bundle = {}, []
    else:
        missing_gpu = bundle_parts.why_no_gpu()
        parts = bundle_parts.all_parts(work, simulated=arguments.anyway and bool(missing_gpu))
        if missing_gpu and not arguments.anyway:
            parts = [dataclasses.replace(part, skip=missing_gpu) for part in parts]
        machine, bundle = bundle_parts.describe_machine(), bundle_parts.bundle_lines()
    parts = choose(parts, arguments.part)
    if arguments.list:
        print("\n".join(dict.fromkeys(part.row or part.name for part in parts)))
        return 0
    if arguments.out:
        os.makedirs(arguments.out, exist_ok=True)

    runner = Runner(arguments.limit, work)
    signal.signal(signal.SIGTERM, runner.stop)
    signal.signal(signal.SIGINT, runner.stop)

    def done(results, members):
        seconds = time.monotonic() - runner.started
        text = text_of(results, machine, bundle, seconds)
        write_results(arguments.out, work, results, machine, bundle, text)
        names = ", ".join(dict.fromkeys(part.row or part.name for part in members))
        failed = sum(result["failed"] for result in results)
        print(f"run.py: {seconds:.0f} s, {failed} failed so far; done: {names}", file=sys.stderr, flush=True)

    results = run_all(runner, parts, 12, done)
    print(text_of(results, machine, bundle, time.monotonic() - runner.started), flush=True)
    return 1 if any(result["failed"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
