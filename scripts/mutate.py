#!/usr/bin/env python3
"""Makes small mistakes in the library and counts how many of them the tests notice: mutate.py [N] [SEED]

Draws N lines (default 50) of tensor/, serialize/ and tools/*.cc by SEED (default: today, as 20261122), and a mutation in
each (mutations.py names the kinds). Each has one of these results:

    noticed           a test failed, or did not end in its time, twice
    survived          all tests passed that reach the mutation: a test is missing, or it changes nothing they could see
    does not compile
    equivalent        tests/mutation_equivalents.txt has it, with the reason
    same program      no program changed (known only of mutations that are built alone)
    too slow          built alone, it took longer than --limit

One build serves many mutations: in a copy of the tree, each is behind a switch (mutant_schemata.py), which a variable of
the environment turns on. The mutations of .cc files make one build, those of headers a second one, which compiles nearly
all files. All test programs run once with no mutation on, which records the mutations that each program reaches. Then,
for each mutation, those run that reach it: first those of its room (tests/ROOM), then the others, the fastest first,
until one fails. Mutations that fit no switch (the value of a `case`, constants that the compiler needs) are built alone,
at the end.

The copy is in $TENSORCASK_MUTATE or ~/.cache/tensorcask-mutate; the tree itself is only read. A log in .cache/mutate, one
for each seed and state of the mutated files, has a line for each mutation: the same command continues where an earlier
one stopped, and judges survivors again when the tests or the list of equivalents have changed. To see a survivor by hand,
with the number that the last lines give:

    cd ~/.cache/tensorcask-mutate/tree && TENSORCASK_MUTANT=17 bazel-bin/tests/tensor/shape_test

Prints a line for each mutation as it is decided, then the counts, and each survivor with its place and its difference.
Ends with 1 if any survived.
"""

import argparse
import concurrent.futures
import datetime
import fcntl
import fnmatch
import hashlib
import itertools
import json
import os
import random
import re
import signal
import sys
import time

import mutant_judge
import mutant_schemata
import mutations

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
EQUIVALENTS = "tests/mutation_equivalents.txt"
PRODUCTION = ("tensor/*.cc", "tensor/*.h", "tensor/*.inc", "serialize/*.cc", "serialize/*.h", "tools/*.cc")
DECIDED = ("noticed", "survived")
OTHERS = ("does not compile", "same program", "equivalent", "too slow")


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
        lines += ["", f"{record['path']}:{record['line']}: {record['kind']} (number {record['number']}{by_of(record)})"]
        lines += ["    " + line for line in record["difference"]]
    return lines


def by_of(record):
    return f", {record['by']}" if record["by"] else ""


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
    parser.add_argument("n", nargs="?", type=int, default=50, help="mutations to draw (default: 50)")
    parser.add_argument("seed", nargs="?", default=datetime.date.today().strftime("%Y%m%d"))
    parser.add_argument("--files", action="append", help="only files whose path fits this pattern, or another --files")
    parser.add_argument("--room-only", action="store_true", help="only the tests of the room, not all others")
    parser.add_argument("--tests", action="append", metavar="TARGETS", help="only these tests, or another --tests")
    parser.add_argument("--limit", type=int, default=1800, metavar="SECONDS", help="for what is built alone")
    parser.add_argument("--minutes", type=float, default=None, help="judge no further mutation after so many")
    parser.add_argument("--list", action="store_true", help="print the mutations that are drawn, and build nothing")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers and tests at a time")
    return parser.parse_args(arguments)


def say(text):
    print(f"mutate: {text}", file=sys.stderr, flush=True)


def show(record):
    by = f" by {record['by']}" if record["result"] == "noticed" else by_of(record)
    print(f"{record['result']:16}  {record['path']}:{record['line']}  {record['kind']}{by}  ({record['seconds']} s)",
          flush=True)  # fmt: skip


# ---- The run --------------------------------------------------------------------------------------------------------


class Run:
    """Judges the drawn mutations {number: (path, Mutation)} and logs the results."""

    def __init__(self, options, tree, drawn, log, home):
        self.options, self.tree, self.drawn, self.log = options, tree, drawn, log
        self.workspace = mutant_judge.Workspace(home, options.jobs)
        self.runner = mutant_judge.Runner(home, options.jobs)
        self.equivalents = parse_equivalents(tree.get(EQUIVALENTS, b"").decode())
        judging = {path: text for path, text in tree.items() if not is_production(path, cpu_flags()) and path != EQUIVALENTS}
        self.targets = options.tests or ["//..."]
        self.tests = digest(sorted(judging.items()), options.room_only, options.tests)
        self.end = time.monotonic() + 60 * options.minutes if options.minutes is not None else None
        self.alone = {number for number, record in log.records.items() if record.get("alone")}

    def is_over(self):
        return self.runner.is_stopped or (self.end is not None and time.monotonic() > self.end)

    def record(self, number, result, by, began, alone=False):
        path, mutation = self.drawn[number]
        record = {"number": number, "path": path, "line": mutation.line, "kind": mutation.kind,
                  "difference": self.difference(number), "result": result, "by": by, "tests": self.tests,
                  "seconds": round(time.monotonic() - began), "alone": alone}  # fmt: skip
        self.log.add(record)
        show(record)

    def difference(self, number):
        path, mutation = self.drawn[number]
        text = self.tree[path].decode()
        return mutations.difference(text, mutation.apply(text))

    def is_equivalent(self, number):
        return (self.drawn[number][0], tuple(self.difference(number))) in self.equivalents

    def open(self):
        """The numbers that have no result that holds."""
        return [number for number in self.drawn if number not in self.log.records
                or not is_settled(self.log.records[number], self.tests, self.equivalents)]  # fmt: skip

    def run(self):
        for number, record in sorted(self.log.records.items()):
            if number in self.drawn and is_settled(record, self.tests, self.equivalents):
                show(record)
        for number in self.open():
            if self.is_equivalent(number):
                self.record(number, "equivalent", "", time.monotonic())
        for is_header in (False, True):
            group = {number: drawn for number, drawn in self.drawn.items()
                     if drawn[0].endswith(".cc") != is_header and not self.is_equivalent(number)}  # fmt: skip
            if any(number in group and number not in self.alone for number in self.open()) and not self.is_over():
                self.judge_together(group)
        alone = [number for number in self.open() if number in self.alone]
        if alone and not self.is_over():
            self.judge_alone(alone)

    # Many in one build.

    def judge_together(self, group):
        placed = self.build_together(group)
        programs = self.recorded()
        inside = {number for each in placed.values() for number in each.around}
        numbers = [number for number in self.open() if number in inside]
        say(f"judging {len(numbers)} mutations")

        def one(number):
            if self.is_over():
                return None
            began = time.monotonic()
            room = tests_of(self.drawn[number][0])
            return number, *mutant_judge.judge(self.runner, programs, number, room, self.options.room_only), began

        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            try:
                for done in concurrent.futures.as_completed([pool.submit(one, number) for number in numbers]):
                    if done.result() is not None:
                        self.record(*done.result())
            except BaseException:
                self.runner.stop()
                raise

    def build_together(self, group):
        """Builds the copy with all of the group that fits a switch. Returns {path: Placed}."""
        while True:
            wanted = {}
            for number, (path, mutation) in group.items():
                if number not in self.alone:
                    wanted.setdefault(path, {})[number] = mutation
            placed = {path: mutant_schemata.place(self.tree[path].decode(), each, path.endswith(".h"))
                      for path, each in wanted.items() if not path.endswith(".inc")}  # fmt: skip
            self.alone |= {number for path in wanted for number in wanted[path]
                           if path not in placed or number in placed[path].left}  # fmt: skip
            say(f"building {sum(len(each.around) for each in placed.values())} mutations")
            self.workspace.write({**self.tree, **{path: each.text.encode() for path, each in placed.items()}}, ROOT)
            built, said = self.workspace.build(self.targets, [path for path in placed if path.endswith(".cc")])
            if built:
                return placed
            bad = mutant_schemata.culprits(said, placed)
            if not bad:
                sys.exit(f"{said}\nmutate: the build fails, and no mutation is known to be the cause")
            say(f"{len(bad)} of them do not compile behind a switch")
            self.alone |= bad

    def recorded(self):
        """The test programs, with what each reaches, without those that fail without a mutation."""
        programs = self.workspace.programs(self.targets)
        say(f"running {len(programs)} test programs without a mutation")
        began = time.monotonic()
        broken = self.runner.record(programs)
        for program in broken:
            say(f"{program.label} fails without a mutation and judges none")
        say(f"{round(time.monotonic() - began)} s")
        return [program for program in programs if program not in broken]

    # One in one build.

    def judge_alone(self, numbers):
        say("building the tree without a mutation")
        self.workspace.write(self.tree, ROOT)
        built, said = self.workspace.build(self.targets)
        if not built:
            sys.exit(f"{said}\nmutate: without a mutation the build fails")
        programs = self.recorded()
        unchanged = {program.label: self.workspace.signature(program) for program in programs}
        for number in numbers:
            if self.is_over():
                return
            began = time.monotonic()
            try:
                result, by = self.judge_one(number, programs, unchanged)
            except mutant_judge.TooLong:
                result, by = "too slow", ""
            self.record(number, result, by, began, alone=True)

    def judge_one(self, number, programs, unchanged):
        path, mutation = self.drawn[number]
        text = ("#pragma GCC system_header\n" if path.endswith(".h") else "") + mutation.apply(self.tree[path].decode())
        self.workspace.write({**self.tree, path: text.encode()}, ROOT)
        quiet, limit = [path] if path.endswith(".cc") else [], self.options.limit
        if quiet and not self.workspace.build([path], quiet, limit, ["--compile_one_dependency"])[0]:
            return "does not compile", ""
        in_room = [program for program in programs if re.search(tests_of(path), program.package)]
        result = "same program", ""
        for tried in [in_room] if self.options.room_only else [in_room, programs]:  # to link all programs takes minutes
            targets = self.targets if tried is programs else [program.label for program in tried]
            if targets and not self.workspace.build(targets, quiet, limit)[0]:
                return "does not compile", ""
            changed = [program for program in tried if self.workspace.signature(program) != unchanged[program.label]]
            if changed:
                result = mutant_judge.judge(self.runner, changed, None, tests_of(path))
            if result[0] == "noticed":
                break
        return result


def interrupt(_number, _frame):
    raise KeyboardInterrupt


def main(arguments):
    options = parse_arguments(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    tree = mutant_judge.read_tree(ROOT)
    sources = {path: tree[path].decode() for path in tree if is_production(path, cpu_flags())}
    patterns = options.files or ["*"]
    sources = {path: text for path, text in sources.items() if any(fnmatch.fnmatchcase(path, each) for each in patterns)}
    if not sources:
        sys.exit(f"mutate: no file fits {' or '.join(patterns)}")
    drawn = dict(enumerate(itertools.islice(draw(sources, options.seed), options.n)))
    if options.list:
        for path, mutation in drawn.values():
            print(f"{path}:{mutation.line}: {mutation.kind}")
            for line in mutations.difference(sources[path], mutation.apply(sources[path])):
                print("    " + line)
        return 0

    os.makedirs(os.path.join(ROOT, ".cache", "mutate"), exist_ok=True)
    log = Log(os.path.join(ROOT, ".cache", "mutate", f"{options.seed}-{digest(sorted(sources.items()))}.jsonl"))
    home = os.environ.get("TENSORCASK_MUTATE") or os.path.expanduser("~/.cache/tensorcask-mutate")
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, "lock"), "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"mutate: another run uses {home}; set TENSORCASK_MUTATE to another folder")
        run = Run(options, tree, drawn, log, home)
        try:
            run.run()
        except KeyboardInterrupt:
            run.runner.stop()
    records = [record for number, record in log.records.items() if number in drawn]
    print("\n".join(summary(records)))
    if len(records) < len(drawn):
        print(f"not judged: {len(drawn) - len(records)}")
    print(f"\nlog: {os.path.relpath(log.path, ROOT)}")
    return 1 if any(record["result"] == "survived" for record in records) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
