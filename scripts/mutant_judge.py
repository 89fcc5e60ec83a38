"""Builds a mutated copy of the tree with Bazel and runs its test programs. Used by mutate.py.

    workspace = Workspace(home, jobs=2)
    workspace.write(tree, root)                         # {path: content}
    built, said = workspace.build(["//..."], quiet=["tensor/shape.cc"], limit=None)
    programs = workspace.programs(["//..."])
    runner = Runner(workspace, jobs=2)
    broken = runner.record(programs)                    # fills seconds and reached; the programs that fail
    result, by = judge(runner, programs, number=17, room="^tests/tensor$", room_only=False)

Test programs run without Bazel, in their runfiles, with the variables that Bazel sets.
"""

import concurrent.futures
import dataclasses
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import xml.etree.ElementTree

import mutant_schemata

# A mutation may make a test take all memory of the machine: the tests get 16 GiB each, and are the first processes that
# the system ends when memory is short.
# The last: some tests send SIGHUP, which nohup would have their programs ignore.
RUN_UNDER = ["prlimit", "--data=17179869184", "--core=0", "choom", "-n", "1000", "--", "env", "--default-signal=HUP"]

BAZEL = ["bazel", "--max_idle_secs=900"]


class TooLong(Exception):
    pass


# ---- The copy of the tree ---------------------------------------------------------------------------------------------


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


# ---- Building ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Program:
    """A test program."""

    label: str
    executable: str  # its path in the copy
    arguments: tuple = ()
    environment: tuple = ()  # pairs
    seconds: float = 0  # of a run without a mutation
    reached: frozenset = frozenset()  # the mutations it reaches; None: not known

    @property
    def package(self):
        return self.label[2:].split(":")[0]


def programs_of(text, folder):
    """The test programs that `bazel query --output=xml` lists in `text`, without those tagged `manual`."""
    found = []
    for rule in xml.etree.ElementTree.fromstring(text).iter("rule"):
        lists = {of.get("name"): [item.get("value") for item in of.iter("string")] for of in rule.findall("list")}
        pairs = rule.findall("dict[@name='env']/pair")
        if "manual" in lists.get("tags", []) or rule.get("class") == "test_suite":
            continue
        label = rule.get("name")
        package = label[2:].split(":")[0]
        arguments = [re.sub(r"\$\((?:rootpath|location) (.*?)\)", lambda match: path_of(match.group(1), package), each)
                     for each in lists.get("args", [])]  # fmt: skip
        environment = [tuple(item.get("value") for item in pair.findall("string")) for pair in pairs]
        executable = os.path.join(folder, "bazel-bin", *label[2:].split(":"))
        found.append(Program(label, executable, tuple(arguments), tuple(environment)))
    return found


def path_of(label, package):
    """The path of the file that a label names in a package."""
    if label.startswith("//"):
        package, label = label[2:].split(":")
    return f"{package}/{label.lstrip(':')}"


class Workspace:
    """The copy of the tree, and what Bazel builds from it."""

    def __init__(self, home, jobs):
        self.home, self.jobs = home, jobs
        self.folder = os.path.join(home, "tree")
        self.digests = {}  # {path: (size and time of the last change, digest)}

    def write(self, tree, root):
        os.makedirs(self.folder, exist_ok=True)
        write_tree(tree, root, self.folder)

    def run(self, *command, limit=None):
        """(exit status, what it said). Raises TooLong."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            try:
                status = process.wait(limit)
            except (subprocess.TimeoutExpired, KeyboardInterrupt) as error:
                process.terminate()  # Bazel's client then cancels the build
                process.wait()
                if isinstance(error, KeyboardInterrupt):
                    raise
                raise TooLong() from error
            output.seek(0)
            return status, output.read()

    def build(self, targets, quiet=(), limit=None, options=("--keep_going", "--build_tests_only")):
        """(True if all were built, what Bazel said). Files in `quiet` are compiled without warnings."""
        names = "|".join(re.escape(path) for path in sorted(quiet))
        flags = [f"--per_file_copt=^({names})$@-w"] if quiet else []
        status, said = self.run(*BAZEL, "build", "--noshow_progress", "--color=no", f"--jobs={self.jobs}", *options, *flags,
                                "--", *targets, limit=limit)  # fmt: skip
        return status == 0, said

    def programs(self, targets):
        tests = f"tests({' + '.join(targets)})"
        status, said = self.run(*BAZEL, "query", "--noshow_progress", "--color=no", "--output=xml", tests)
        if status != 0:
            raise ValueError(said)
        return programs_of(said[said.index("<?xml") : said.rindex("</query>") + len("</query>")], self.folder)

    def signature(self, program):
        """A digest of the program and of all that it may run or read."""
        real = {os.path.realpath(program.executable)}
        for at, _, files in os.walk(program.executable + ".runfiles"):
            real.update(os.path.realpath(os.path.join(at, name)) for name in files)
        return hashlib.sha256("".join(self.digest(path) for path in sorted(real)).encode()).hexdigest()

    def digest(self, path):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return path
        state = (status.st_size, status.st_mtime_ns)
        if self.digests.get(path, (None,))[0] != state:
            with open(path, "rb") as file:
                self.digests[path] = (state, hashlib.sha256(file.read()).hexdigest())
        return self.digests[path][1]


# ---- Running ----------------------------------------------------------------------------------------------------------


class Runner:
    """Runs test programs, several at a time."""

    def __init__(self, home, jobs, least_limit=10):
        self.home, self.jobs, self.least_limit = home, jobs, least_limit
        self.running, self.lock, self.is_stopped = set(), threading.Lock(), False
        self.scratch = os.path.join(home, "tmp")
        shutil.rmtree(self.scratch, ignore_errors=True)
        os.makedirs(self.scratch)

    def run(self, program, limit, **variables):
        """(exit status, seconds); the status is None if the limit was passed, or if the runner was stopped."""
        runfiles = program.executable + ".runfiles"
        inside = os.path.join(runfiles, "tensorcask", *program.label[2:].split(":"))
        folder = tempfile.mkdtemp(dir=self.scratch, prefix="")
        environment = {name: os.environ[name] for name in ("PATH", "TENSORCASK_TEST_DATA", "USER") if name in os.environ}
        environment.update(TEST_SRCDIR=runfiles, RUNFILES_DIR=runfiles, TEST_WORKSPACE="tensorcask", TEST_TMPDIR=folder,
                           TMPDIR=folder, TEST_TARGET=program.label, TZ="UTC", **dict(program.environment), **variables)  # fmt: skip
        began = time.monotonic()
        try:
            with self.lock:
                if self.is_stopped:
                    return None, 0
                process = subprocess.Popen([*RUN_UNDER, inside, *program.arguments], env=environment,
                                           cwd=os.path.join(runfiles, "tensorcask"), start_new_session=True,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)  # fmt: skip
                self.running.add(process.pid)
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = None
            with self.lock:
                self.running.remove(process.pid)
                kill_group(process.pid)  # with what the program has left behind
            process.wait()
            return status, time.monotonic() - began
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def stop(self):
        with self.lock:
            self.is_stopped = True
            for pid in self.running:
                kill_group(pid)

    def record(self, programs, on_done=lambda _: None):
        """Runs each without a mutation, and fills its time and what it reaches. Returns those that fail."""

        def one(program):
            with tempfile.NamedTemporaryFile(dir=self.home) as file:
                file.truncate(mutant_schemata.MUTANTS)
                status, program.seconds = self.run(program, 3600, TENSORCASK_MUTANTS_REACHED=file.name)
                program.reached = frozenset(i for i, byte in enumerate(file.read()) if byte)
            if status != 0:  # some count what recording does: such a program may reach all
                program.reached = None
                status, program.seconds = self.run(program, 3600)
            on_done(program)
            return status == 0

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            return [program for program, passes in zip(programs, pool.map(one, programs)) if not passes]

    def notices(self, program, number=None):
        """True if the program fails, or does not end in its time, twice."""
        limit = self.least_limit + 5 * program.seconds
        variables = {} if number is None else {"TENSORCASK_MUTANT": str(number)}
        return all(self.run(program, limit, **variables)[0] != 0 for _ in range(2))


def kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def judge(runner, programs, number, room, room_only=False):
    """(result, by whom) of a mutation that is in the programs behind its switch, or without one (number: None)."""
    reaching = [p for p in programs if number is None or p.reached is None or number in p.reached]
    in_room = lambda program: re.search(room, program.package) is not None  # noqa: E731
    reaching.sort(key=lambda program: (not in_room(program), program.seconds))
    for program in reaching:
        if room_only and not in_room(program):
            break
        if runner.notices(program, number):
            return "noticed", program.label
    return "survived", "not reached" if not reaching else ""
