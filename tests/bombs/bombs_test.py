#!/usr/bin/env python3
"""Inputs that cost their reader much: holds memory to the promise of SECURITY.md, and time to n log n.

As a test: small sizes. By hand, with large ones, and the figures of each:

    MAKE_BOMB=bazel-bin/tests/bombs/make_bomb BOMB_PROBE=bazel-bin/tests/bombs/bomb_probe \\
    MEASURE_PEAK=bazel-bin/tests/bombs/measure_peak TENSORCASK=bazel-bin/tools/tensorcask \\
    tests/bombs/bombs_test.py --factor 20
"""

import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder)
                for folder in (".", "../support", "../tools"))
import case_report  # noqa: E402
import npy_bombs  # noqa: E402
import safetensors_bombs  # noqa: E402
from tool_testing import TOOL, sanitized  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
MAKE = os.environ.get("MAKE_BOMB", os.path.join(HERE, "make_bomb"))
PROBE = os.environ.get("BOMB_PROBE", os.path.join(HERE, "bomb_probe"))
MEASURE = os.environ.get("MEASURE_PEAK", os.path.join(HERE, "measure_peak"))
MIB = 1 << 20
FREE_BYTES = 64 * MIB  # SECURITY.md, Limits
KINDS = {**npy_bombs.KINDS, **safetensors_bombs.KINDS}
LIMIT = re.compile(r"the limit max_\w+ is|the limit is")

# Of an entry: what a list in the tool, and the writer of a copy, may take besides the promise (SECURITY.md, Limits).
LIST_BYTES = 400
COPY_BYTES = 700
RANK_BYTES = 800  # 16 times the bytes of its index
FREE = 0
STREAM_BYTES = 700  # of a record on standard input
DIFF_BYTES = 2 * 48  # of a tensor in both files
MODEL_FILE_TENSORS = 40  # of a file of safetensors_bombs.st_model
META_BYTES = 130  # of an entry of the metadata of a safetensors file, for each time that a command has it
LONG_NAME_BYTES = 65_005
DIMS_BYTES = 254 * 8
# Of a member of an npz file, and of a field of an array.
MEMBER_BYTES = 600
FIELD_BYTES = 1600

# Kind, size, command, what an entry may take besides, what is wanted: "ok", or a limit by name.
CASES = (
    ("names", 400_000, "verify", FREE, "ok"),
    ("names", 400_000, "ls", FREE, "ok"),
    ("names", 400_000, "convert", COPY_BYTES, "ok"),
    ("names", 400_000, "probe list", FREE, "ok"),
    ("names", 400_000, "probe entries", LIST_BYTES, "ok"),
    ("names", 400_000, "probe lookup", FREE, "ok"),
    ("snappy_names", 400_000, "verify", FREE, "ok"),
    ("snappy_names", 400_000, "ls", FREE, "ok"),
    ("snappy_names", 400_000, "convert", COPY_BYTES, "ok"),
    ("empty_tensors", 400_000, "verify", FREE, "ok"),
    ("empty_tensors", 400_000, "ls", FREE, "ok"),
    ("ranks", 60_000, "verify", FREE, "ok"),
    ("ranks", 60_000, "ls", FREE, "ok"),
    ("ranks", 60_000, "probe entries", RANK_BYTES, "max_memory_beyond_input"),
    ("long_names", 32_000, "verify", FREE, "ok"),
    ("long_names", 32_000, "ls", FREE, "ok"),
    ("long_names", 32_000, "convert", FREE, "max_memory_beyond_input"),
    ("long_names", 32_000, "salvage", FREE, "max_memory_beyond_input"),
    ("large_entry", 200 * MIB, "ls", FREE, "max_memory_beyond_input"),
    ("large_entry", 200 * MIB, "verify", FREE, "max_memory_beyond_input"),
    ("large_entry", 100_000, "verify", FREE, "ok"),
    ("large_entry", 100_000, "salvage", FREE, "ok"),
    ("slices", 100_000, "verify", FREE, "ok"),
    ("slices", 500_000, "verify", FREE, "max_memory_beyond_input"),
    ("slices", 500_000, "ls", FREE, "ok"),
    ("scattered", 60_000, "verify", FREE, "the limit is"),
    ("text", 2_000_000, "ls", FREE, "max_memory_beyond_input"),
    ("nested_text", 1_000_000, "ls", FREE, "max_memory_beyond_input"),
    ("records", 100_000, "cat", LIST_BYTES, "ok"),
    ("records", 100_000, "convert", COPY_BYTES, "ok"),
    ("tiny_records", 30_000, "stdin verify", STREAM_BYTES, "ok"),
    ("tiny_records", 60_000, "stdin ls", STREAM_BYTES, "ok"),
    ("tiny_records", 400_000, "stdin verify", STREAM_BYTES, "max_memory_beyond_input"),
    ("tiny_records", 60_000, "verify", STREAM_BYTES, "ok"),
    ("v1", 50_000, "verify", FREE, "ok"),
    ("v1", 400_000, "verify", FREE, "max_memory_beyond_input"),
    ("v1_snappy", 400_000, "ls", FREE, "max_memory_beyond_input"),
    ("graph", 100_000, "tree", LIST_BYTES, "ok"),
    ("graph", 1_000_000, "tree", FREE, "max_memory_beyond_input"),
    ("forged_bases", 50, "verify --base", FREE, "not readable"),
    ("file_metadata", 400_000, "ls --json", LIST_BYTES, "ok"),
    ("zeros_default", 20_000_000, "verify", FREE, "ok"),
    ("zeros_high", 20_000_000, "verify", FREE, "ok"),
    ("unknown_fields", 32 * MIB, "ls", FREE, "ok"),
    ("long_outer_names", 2, "verify", FREE, "ok"),
    ("long_outer_names", 50, "verify", FREE, "max_memory_beyond_input"),
    ("long_outer_names", 100, "verify", FREE, "max_memory_beyond_input"),
    ("members_of_fields", 10, "ls", FREE, "max_memory_beyond_input"),
    ("members_of_fields", 20, "ls", FREE, "max_memory_beyond_input"),
    ("ranks_of_fields", 25_000, "diff", FREE, "max_memory_beyond_input"),
    ("ranks_of_fields", 50_000, "diff", FREE, "max_memory_beyond_input"),
    ("small_members", 20_000, "verify", MEMBER_BYTES, "ok"),
    ("small_members", 40_000, "ls", MEMBER_BYTES, "ok"),
    ("deflated_fields", 8_000, "stats", FIELD_BYTES, "ok"),
    ("deflated_fields", 16_000, "stats", FIELD_BYTES, "ok"),
    ("deflated_fields", 16_000, "ls --checksum", FIELD_BYTES, "ok"),
    ("deflated_array", 100, "show", FREE, "ok"),
    ("deflated_array", 200, "show", FREE, "ok"),
    ("deflated_array", 200, "stats", FREE, "ok"),
    ("deflated_array", 200, "diff", FREE, "ok"),
    ("st_names", 100_000, "stats", FREE, "ok"),
    ("st_names", 100_000, "diff", DIFF_BYTES, "ok"),
    ("st_names", 100_000, "rewrite", LIST_BYTES, "ok"),
    ("st_names", 100_000, "edit", FREE, "ok"),
    ("st_names", 100_000, "edit --rename", LIST_BYTES, "ok"),
    ("st_names", 200_000, "verify", FREE, "ok"),
    ("st_names", 200_000, "diff", LIST_BYTES, "ok"),
    ("st_names", 200_000, "rewrite", LIST_BYTES, "ok"),
    ("st_ranks", 20_000, "diff", FREE, "ok"),
    ("st_ranks", 20_000, "rewrite", FREE, "ok"),
    ("st_ranks", 20_000, "edit", DIMS_BYTES, "ok"),
    ("st_ranks", 40_000, "verify", FREE, "ok"),
    ("st_ranks", 40_000, "rewrite", DIMS_BYTES, "ok"),
    ("st_metadata", 400_000, "ls --json", FREE, "ok"),
    ("st_metadata", 400_000, "rewrite", 2 * META_BYTES, "ok"),
    ("st_metadata", 400_000, "edit", META_BYTES, "ok"),
    ("st_metadata", 800_000, "verify", FREE, "max_memory_beyond_input"),
    ("st_long_names", 700, "diff", FREE, "ok"),
    ("st_long_names", 700, "rewrite", FREE, "ok"),
    ("st_long_names", 700, "edit", FREE, "ok"),
    ("st_long_names", 1400, "rewrite", LONG_NAME_BYTES, "ok"),
    ("st_model", 2_000, "verify", FREE, "ok"),
    ("st_model", 2_000, "diff", MODEL_FILE_TENSORS * DIFF_BYTES, "ok"),
    ("st_model", 4_000, "verify", FREE, "ok"),
    ("st_model_metadata", 50, "verify", FREE, "ok"),
    ("st_model_metadata", 100, "verify", FREE, "max_memory_beyond_input"),
    ("st_model_metadata", 200, "diff", FREE, "max_memory_beyond_input"),
    ("names", 400_000, "diff", 2 * LIST_BYTES, "ok"),
)

# Kind, smaller size, command. The larger size is twice that.
SLOPES = (
    ("names", 4_000, "verify"),
    ("slices", 2_000, "verify"),
    ("graph", 4_000, "tree"),
    ("records", 4_000, "cat"),
    ("snappy_names", 4_000, "verify"),
    ("v1", 2_000, "verify"),
    ("text", 20_000, "ls"),
    ("zeros_high", 2_000_000, "verify"),
    ("file_metadata", 4_000, "ls --json"),
    ("deflated_fields", 2_000, "verify"),
    ("deflated_fields", 2_000, "stats"),
    ("st_names", 4_000, "rewrite"),
    ("st_model", 100, "verify"),
)


class Bombs:
    def __init__(self, folder):
        self.folder = folder

    def make(self, kind, size):
        """The folder of a bomb, its path for the tool, and the bytes of its files."""
        bomb = os.path.join(self.folder, f"{kind}-{size}")
        if not os.path.isdir(bomb):
            os.mkdir(bomb)
            if kind in KINDS:
                KINDS[kind](size, bomb)
            else:
                subprocess.run([MAKE, kind, str(size), bomb], check=True, timeout=600)
        names = os.listdir(bomb)
        path = next(os.path.join(bomb, name) for name in ("m", "v1", "m.pb", "m.pbtxt", "m.tfrecord", "m.safetensors",
                                                             "m.npy", "m.npz", safetensors_bombs.MODEL)
                    if name in names or name + ".index" in names)
        # Of a data file the bytes count that are in memory at a time, which the promise does not need.
        is_model = os.path.basename(path) == safetensors_bombs.MODEL
        read = names if is_model else [name for name in names if name.startswith(os.path.basename(path))]
        return bomb, path, sum(os.path.getsize(os.path.join(bomb, name)) for name in read)

    def command(self, command, bomb, path):
        copy = os.path.join(self.folder, "copy")
        shutil.rmtree(copy, ignore_errors=True)
        os.mkdir(copy)
        form = {".pb": "tensorproto", ".pbtxt": "tensorproto-text"}.get(os.path.splitext(path)[1])
        if command.startswith("probe "):
            return [PROBE, command.split()[1], path]
        words = {"ls --json": ["ls", "--json", path],
                 "ls --checksum": ["ls", "--checksum", path],
                 "diff": ["diff", path, path],
                 "stdin verify": ["verify", "-", path],
                 "stdin ls": ["ls", "-", path],
                 "tree": ["ls", "--tree", path],
                 "verify --base": ["verify", "--base", os.path.join(bomb, "base"), path],
                 "convert": ["convert", path, os.path.join(copy, "m")],
                 "rewrite": ["convert", path, os.path.join(copy, "m" + os.path.splitext(path)[1])],
                 "edit": ["edit", "--set", "a=b", "-o", os.path.join(copy, "m.safetensors"), path],
                 "edit --rename": ["edit", "--rename", "s/^t/x/", "-o", os.path.join(copy, "m.safetensors"), path],
                 "salvage": ["salvage", path, os.path.join(copy, "m")]}.get(command, [command, path])
        return [TOOL, *words, *(["--format", form] if form else [])]

    def run(self, arguments, prefix=()):
        """Its peak in bytes, the bytes that it wrote, its exit status and the first and last words that it printed."""
        out = os.path.join(self.folder, "stdout")
        # The path behind "-" is read from standard input.
        source = os.devnull
        if "-" in arguments:
            *arguments, source = arguments
        with open(source, "rb") as stdin, open(out, "wb") as stdout, open(out + ".err", "wb") as stderr:
            # With a limit on memory of its own, so that an error here harms no other program.
            subprocess.run([MEASURE, out + ".peak", *prefix, *arguments], stdin=stdin, stdout=stdout, stderr=stderr,
                           check=True, preexec_fn=lambda: sanitized() or
                           resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30)))  # fmt: skip
        with open(out + ".peak", encoding="ascii") as file:
            status, peak = map(int, file.read().split())
        written = os.path.getsize(out)
        copy = os.path.join(self.folder, "copy")
        if os.path.isdir(copy):
            written += sum(os.path.getsize(os.path.join(copy, name)) for name in os.listdir(copy))
        with open(out, "rb") as file:
            said = file.read(4096) + file.read()[-4096:]
        with open(out + ".err", "rb") as file:
            said += file.read(65536)
        return peak, written, status, said.decode(errors="replace")


def check_memory(bombs, baseline, case, factor):
    kind, size, command, entry_bytes, wanted = case
    if kind != "forged_bases":
        size *= factor
    bomb, path, input_bytes = bombs.make(kind, size)
    if command == "diff":
        input_bytes *= 2  # it reads the file twice
    peak, written, status, said = bombs.run(bombs.command(command, bomb, path))
    count = size if entry_bytes else 0
    promise = FREE_BYTES + 2 * input_bytes + written + count * entry_bytes
    found = peak - baseline
    print(f"{kind} {size} {command}: {input_bytes / MIB:.1f} MiB in, {written / MIB:.1f} out, "
          f"{found / MIB:.0f} of {promise / MIB:.0f} MiB, exit {status}", flush=True)
    if status < 0:
        raise AssertionError(f"ended by signal {-status}")
    if found > promise:
        raise AssertionError(f"took {found / MIB:.0f} MiB; the promise is {promise / MIB:.0f} MiB")
    limits = LIMIT.search(said)
    if factor == 1 and wanted == "ok" and status != 0:
        raise AssertionError(f"exit {status}: {said[-500:]}")
    if factor == 1 and wanted != "ok" and (status == 0 or wanted not in said):
        raise AssertionError(f"exit {status}; wanted {wanted}: {said[-500:]}")
    if limits and "damaged: " in said:
        raise AssertionError(f"a limit is called damage: {said[-500:]}")


def instructions(bombs, kind, size, command):
    bomb, path, _ = bombs.make(kind, size)
    valgrind = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    said = bombs.run(bombs.command(command, bomb, path), valgrind)[3]
    found = re.search(r"Collected : (\d+)", said)
    if not found:
        raise AssertionError(f"callgrind printed no count: {said[-500:]}")
    return int(found.group(1))


def check_slope(bombs, kind, size, command):
    start = instructions(bombs, kind, 1, command)
    once = instructions(bombs, kind, size, command) - start
    twice = instructions(bombs, kind, 2 * size, command) - start
    wanted = 2 * math.log(2 * size) / math.log(size) * 1.15  # with a sixth for growing tables
    print(f"{kind} {size} {command}: {once / size:.0f} instructions for each, {twice / once:.2f} times for twice as "
          f"many; at most {wanted:.2f}", flush=True)
    if twice > wanted * once:
        raise AssertionError(f"twice the input takes {twice / once:.2f} times the instructions")


def argument(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


FACTOR = int(argument("--factor", "1"))
ONLY = [kind for kind in argument("--only", "").split(",") if kind]


@unittest.skipIf(sanitized(), "a program with a sanitizer takes several times the memory")
class Bomb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # pylint: disable=consider-using-with
        cls.folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        cls.bombs = Bombs(cls.folder.name)
        bomb, path, _ = cls.bombs.make("names", 1)
        cls.baseline = min(cls.bombs.run(cls.bombs.command("verify", bomb, path))[0] for _ in range(3))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()


def add_tests():
    """One method for each case."""
    for case in CASES:
        if ONLY and case[0] not in ONLY:
            continue
        name = f"test_memory_{case[0]}_{case[2].replace(' ', '_').replace('-', '')}_{case[1]}"
        setattr(Bomb, name, lambda self, case=case: check_memory(self.bombs, self.baseline, case, FACTOR))
    for case in SLOPES:
        if ONLY and case[0] not in ONLY:
            continue
        test = unittest.skipUnless(shutil.which("valgrind"), "needs valgrind, which counts instructions")(
            lambda self, case=case: check_slope(self.bombs, *case))
        setattr(Bomb, f"test_slope_{case[0]}_{case[2]}", test)


add_tests()

if __name__ == "__main__":
    case_report.main("bombs")
