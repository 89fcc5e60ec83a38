#!/usr/bin/env python3
"""Makes small mistakes in the library and counts how many of them the tests notice: mutate.py [N] [SEED]

Draws lines of tensor/, serialize/ and tools/*.cc by SEED (default: today, as 20261122), makes one mutation in each
(mutations.py names the kinds), builds, and runs the tests: those of the room first (tests/ROOM), then, if these pass,
all others. Continues until N mutations (default 50) have compiled and changed a program:

    noticed           a test failed, or did not end in its time
    survived          all tests passed: a test is missing, or the mutation changes nothing that a test could see

Not counted; the tool draws another one instead:

    does not compile
    same program      neither the library nor a program changed
    equivalent        tests/mutation_equivalents.txt has it, with the reason
    too slow          the build took longer than --limit

Works in a copy of the tree (tracked files and new ones that git does not ignore), which CMake builds with a shared
library, so that a mutation costs one compilation and one link. Both are in $TENSORCASK_MUTATE or
~/.cache/tensorcask-mutate; the tree itself is only read. A log in .cache/mutate, one for
each seed and state of the mutated files, has a line for each mutation: the same command continues where an earlier one
stopped, and judges survivors again when the tests or the list of equivalents have changed.

Prints a line for each mutation as it is decided, then the counts, and each survivor with its place and its difference.
Ends with 1 if any survived.
"""

import argparse
import datetime
import fcntl
import fnmatch
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

import mutations

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
EQUIVALENTS = "tests/mutation_equivalents.txt"
PRODUCTION = ("tensor/*.cc", "tensor/*.h", "tensor/*.inc", "serialize/*.cc", "serialize/*.h", "tools/*.cc")
DECIDED = ("noticed", "survived")
OTHERS = ("does not compile", "same program", "equivalent", "too slow")

# A mutation may make a test take all memory of the machine: the tests get 8 GiB each, and are the first processes that
# the system ends when memory is short.
RUN_UNDER = ["prlimit", "--data=8589934592", "choom", "-n", "1000", "--"]


# ---- Drawing --------------------------------------------------------------------------------------------------------


def is_production(path, cpu_flags):
    """True for the files that are mutated: those of the library and the tool that this machine's processor runs."""
    if "avx512" in path and "avx512f" not in cpu_flags:
        return False
    if ("avx2" in path or "x86" in path) and "avx2" not in cpu_flags:
        return False
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in PRODUCTION)  # "*" goes into folders, too


def draw(sources, seed):
    """Yields (path, Mutation) without end and without repeating any: lines are equally likely, then the kinds there."""
    lines = []
    for path in sorted(sources):
        of_line = {}
        for mutation in mutations.find_mutations(sources[path]):
            of_line.setdefault(mutation.line, {}).setdefault(mutation.kind, []).append(mutation)
        lines += [(path, of_line[line]) for line in sorted(of_line)]
    chance = random.Random(str(seed))
    while lines:
        number = chance.randrange(len(lines))
        path, kinds = lines[number]
        kind = chance.choice(sorted(kinds))
        mutation = kinds[kind].pop(chance.randrange(len(kinds[kind])))
        if not kinds[kind]:
            del kinds[kind]
        if not kinds:
            lines.pop(number)
        yield path, mutation


def tests_of(path, is_folder=lambda folder: os.path.isdir(os.path.join(ROOT, folder))):
    """What the labels of the room's tests look like: a regular expression."""
    folder = os.path.dirname(path)
    while folder and not is_folder("tests/" + folder):
        folder = os.path.dirname(folder)
    if folder == "tensor":
        return "^tests/tensor$"  # the folders below it are rooms of their own
    return f"^tests/{folder}(/|$)" if folder else "^tests"


def parse_equivalents(text):
    """{(path, lines of the difference): reason}. Raises ValueError, naming the line."""
    known = {}
    lines = text.splitlines() + [""]
    path, differs, reason = None, [], []
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            continue
        if line.strip() and path is None:
            path = line.strip()
        elif line.startswith(("-", "+")) and not reason:
            differs.append(line[0] + line[1:].strip())
        elif line.strip():
            reason.append(line.strip())
        elif path is not None:
            if not differs or not reason:
                raise ValueError(f"{EQUIVALENTS}, line {number}: {path} has no {'reason' if differs else 'difference'}")
            known[(path, tuple(differs))] = " ".join(reason)
            path, differs, reason = None, [], []
    return known


# ---- The copy of the tree -------------------------------------------------------------------------------------------


def read_tree(root):
    """{path: content} of all files that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout.decode()
    tree = {}
    for path in sorted({*listed.split("\0")} - {""}):
        try:
            with open(os.path.join(root, path), "rb") as file:
                tree[path] = file.read()
        except (FileNotFoundError, IsADirectoryError):
            pass
    return tree


def write_tree(tree, root, folder):
    """Makes `folder` hold these files and no others; those that are as they should be are not touched."""
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(at, name))]
        for name in files:
            path = os.path.relpath(os.path.join(at, name), folder)
            if path not in tree:
                os.remove(os.path.join(folder, path))
    for path, content in tree.items():
        copy = os.path.join(folder, path)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        write_if_different(copy, content)
        shutil.copymode(os.path.join(root, path), copy)


def write_if_different(path, content):
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() == content:
                return
    with open(path, "wb") as file:
        file.write(content)


# ---- Building and testing -------------------------------------------------------------------------------------------


class TooLong(Exception):
    pass


class Build:
    """The copy of the tree and what CMake makes of it."""

    def __init__(self, home, jobs, limit):
        self.folder = os.path.join(home, "tree")
        self.build_folder = os.path.join(home, "build")
        self.output = os.path.join(home, "output.txt")  # of the last command
        self.jobs, self.limit = str(jobs), limit
        self.programs = {}  # {path: (time of its last change, digest)}, as last asked

    def run(self, *command, limit=None):
        """The command's exit status. Raises TooLong."""
        with open(self.output, "w", encoding="utf-8") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            try:
                return process.wait(limit)
            except (subprocess.TimeoutExpired, KeyboardInterrupt) as error:
                process.terminate()  # a process in the background ignores SIGINT
                process.wait()
                if isinstance(error, KeyboardInterrupt):
                    raise
                raise TooLong() from error

    def configure(self):
        # -O1 compiles fast. A program needs no new link when only the shared library has changed.
        status = self.run("cmake", "-G", "Ninja", "-S", self.folder, "-B", self.build_folder, "-DBUILD_SHARED_LIBS=ON",
                          "-DTENSORCASK_TESTS=ON", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",
                          "-DCMAKE_LINK_DEPENDS_NO_SHARED=ON")  # fmt: skip
        return status == 0 and self.run("ninja", "-C", self.build_folder, "-j", self.jobs) == 0

    def build(self):
        return self.run("ninja", "-C", self.build_folder, "-j", self.jobs, limit=self.limit) == 0

    def digests(self):
        """{path: digest} of the library and the programs."""
        before, self.programs = self.programs, {}
        for entry in os.scandir(self.build_folder):
            if entry.is_file() and (os.access(entry.path, os.X_OK) or ".so" in entry.name):
                known, changed_at = before.get(entry.path), entry.stat().st_mtime_ns
                is_known = known is not None and known[0] == changed_at
                self.programs[entry.path] = known if is_known else (changed_at, digest_of(entry.path))
        return {path: digest for path, (_, digest) in self.programs.items()}

    def failures(self, *which):
        """The tests that fail, in the order in which they do; ctest's options `which` choose them."""
        report = self.output + ".xml"
        if os.path.exists(report):
            os.remove(report)
        self.run(*RUN_UNDER, "ctest", "--test-dir", self.build_folder, "-j", self.jobs, "--repeat", "until-pass:2",
                 "--output-junit", report, *which)  # fmt: skip
        return failures_in(report)

    def said(self):
        with open(self.output, encoding="utf-8", errors="replace") as output:
            return output.read()


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def failures_in(report):
    """The names of the failed tests in a JUnit report. Raises OSError or ValueError if there is no whole report."""
    try:
        cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    except xml.etree.ElementTree.ParseError as error:
        raise ValueError(f"{report}: {error}") from error
    return [case.get("name") for case in cases if case.get("status") == "fail"]


class Judge:
    """Decides what the tests say of a mutation."""

    def __init__(self, build, tree, root, room_only):
        self.build, self.tree, self.root, self.room_only = build, tree, root, room_only
        self.unchanged = None  # digests of what the tree as it is makes
        self.prepared_seconds = 0

    def prepare(self):
        """Builds the tree as it is and runs its tests."""
        print("mutate: without a mutation ...", file=sys.stderr, flush=True)
        began = time.monotonic()
        write_tree(self.tree, self.root, self.build.folder)
        if not self.build.configure():
            sys.exit(f"{self.build.said()}\nmutate: without a mutation the build fails")
        failed = self.build.failures()
        if failed:
            sys.exit(f"{self.build.said()}\nmutate: without a mutation these fail: {' '.join(failed)}")
        self.unchanged = self.build.digests()
        self.prepared_seconds = time.monotonic() - began

    def judge(self, path, mutation):
        """(result, by whom)."""
        if self.unchanged is None:
            self.prepare()
        # Takes the last mutation back, too: one build compiles both files.
        mutated = mutation.apply(self.tree[path].decode()).encode()
        write_tree({**self.tree, path: mutated}, self.root, self.build.folder)
        try:
            if not self.build.build():
                return "does not compile", ""
        except TooLong:
            return "too slow", ""
        if self.build.digests() == self.unchanged:
            return "same program", ""
        room = tests_of(path)
        for which in [["-L", room]] + ([] if self.room_only else [["-LE", room]]):
            failed = self.build.failures("--stop-on-failure", *which)
            if failed:
                return "noticed", failed[0]
        return "survived", ""


# ---- The log and what is printed ------------------------------------------------------------------------------------


def summary(records):
    """The lines that are printed at the end."""
    count = {result: sum(record["result"] == result for record in records) for result in DECIDED + OTHERS}
    decided = count["noticed"] + count["survived"]
    lines = ["", ", ".join(f"{result} {count[result]}" for result in DECIDED + OTHERS)]
    if decided:
        lines.append(f"{100 * count['noticed'] / decided:.1f} % of {decided} noticed")
    survivors = [record for record in records if record["result"] == "survived"]
    for record in sorted(survivors, key=lambda record: (record["path"], record["line"])):
        lines += ["", f"{record['path']}:{record['line']}: {record['kind']}"]
        lines += ["    " + line for line in record["difference"]]
    return lines


class Log:
    """Records by the number of their draw. A file has a line for each; the last one of a number holds."""

    def __init__(self, path):
        self.path = path
        self.records = {}
        self.is_cut = False  # its writer was killed in the middle of a line
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as file:
            for line in file:
                self.is_cut = not line.endswith("\n")
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                self.records[record["number"]] = record

    def add(self, record):
        self.records[record["number"]] = record
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("\n" * self.is_cut + json.dumps(record) + "\n")
        self.is_cut = False

    def decided(self):
        return sum(record["result"] in DECIDED for record in self.records.values())


def digest(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]


def is_settled(record, tests, equivalents):
    """True if the record of an earlier run still holds; `tests` is the digest of all that judges mutations."""
    if record["result"] == "equivalent":
        return key_of(record) in equivalents
    return record["result"] != "survived" or (record["tests"] == tests and key_of(record) not in equivalents)


def key_of(record):
    return record["path"], tuple(record["difference"])


def cpu_flags():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return set(next((line for line in file if line.startswith("flags")), "").split())
    except OSError:
        return set()


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="tools/dev mutate", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("n", nargs="?", type=int, default=50, help="mutations that compile and change something")
    parser.add_argument("seed", nargs="?", default=datetime.date.today().strftime("%Y%m%d"))
    parser.add_argument("--files", default="*", help="only files whose path fits this pattern")
    parser.add_argument("--room-only", action="store_true", help="only the tests of the room, not all others")
    parser.add_argument("--limit", type=int, default=1800, metavar="SECONDS", help="for the build of a mutation")
    parser.add_argument("--minutes", type=float, default=None, help="start no mutation after so many")
    parser.add_argument("--list", action="store_true", help="print the first N that are drawn, and build nothing")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers and tests at a time")
    return parser.parse_args(arguments)


def show(record):
    by = f" by {record['by']}" if record["by"] else ""
    print(f"{record['result']:16}  {record['path']}:{record['line']}  {record['kind']}{by}  ({record['seconds']} s)",
          flush=True)  # fmt: skip


def interrupt(_number, _frame):
    raise KeyboardInterrupt


def main(arguments):
    options = parse_arguments(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    tree = read_tree(ROOT)
    sources = {path: tree[path].decode() for path in tree if is_production(path, cpu_flags())}
    sources = {path: text for path, text in sources.items() if fnmatch.fnmatchcase(path, options.files)}
    if not sources:
        sys.exit(f"mutate: no file fits {options.files}")
    drawn = draw(sources, options.seed)
    if options.list:
        for _, (path, mutation) in zip(range(options.n), drawn):
            print(f"{path}:{mutation.line}: {mutation.kind}")
            for line in mutations.difference(sources[path], mutation.apply(sources[path])):
                print("    " + line)
        return 0

    equivalents = parse_equivalents(tree.get(EQUIVALENTS, b"").decode())
    judging = {path: text for path, text in tree.items() if path not in sources and path != EQUIVALENTS}
    tests = digest(sorted(judging.items()), options.room_only)
    os.makedirs(os.path.join(ROOT, ".cache", "mutate"), exist_ok=True)
    log = Log(os.path.join(ROOT, ".cache", "mutate", f"{options.seed}-{digest(sorted(sources.items()))}.jsonl"))
    home = os.environ.get("TENSORCASK_MUTATE") or os.path.expanduser("~/.cache/tensorcask-mutate")
    os.makedirs(os.path.join(home, "tree"), exist_ok=True)
    with open(os.path.join(home, "lock"), "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"mutate: another run uses {home}; set TENSORCASK_MUTATE to another folder")
        judge = Judge(Build(home, options.jobs, options.limit), tree, ROOT, options.room_only)
        end = time.monotonic() + 60 * options.minutes if options.minutes is not None else None
        try:
            for number, (path, mutation) in enumerate(drawn):
                record = log.records.get(number)
                if record is None or not is_settled(record, tests, equivalents):
                    if (record is None and log.decided() >= options.n) or (end is not None and time.monotonic() > end):
                        break
                    began = time.monotonic() - judge.prepared_seconds
                    difference = mutations.difference(sources[path], mutation.apply(sources[path]))
                    known = (path, tuple(difference)) in equivalents
                    result, by = ("equivalent", "") if known else judge.judge(path, mutation)
                    record = {"number": number, "path": path, "line": mutation.line, "kind": mutation.kind,
                              "difference": difference, "result": result, "by": by, "tests": tests,
                              "seconds": round(time.monotonic() - judge.prepared_seconds - began)}  # fmt: skip
                    log.add(record)
                show(record)
        except KeyboardInterrupt:
            pass
        finally:
            write_tree(tree, ROOT, os.path.join(home, "tree"))
    records = list(log.records.values())
    print("\n".join(summary(records)))
    print(f"\nlog: {os.path.relpath(log.path, ROOT)}")
    return 1 if any(record["result"] == "survived" for record in records) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
