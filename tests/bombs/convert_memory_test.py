#!/usr/bin/env python3
"""Memory and speed of `tensorcask convert` for a tensor that is much larger than what the tool may hold.

As a test: 192 MiB through each format as source and as target. By hand, every pair, with the time beside that of cp:

    TENSORCASK=bazel-bin/tools/tensorcask tests/bombs/convert_memory_test.py --pairs --mib 4096 --folder /tmp/convert
"""

import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder)
                for folder in (".", "../support", "../tools"))
import case_report  # noqa: E402
from tool_testing import TOOL, sanitized  # noqa: E402

MIB = 1 << 20
EXTENSIONS = (".npy", ".safetensors", ".npz", "", ".tfrecord", ".pb")  # "": a checkpoint
# Of one conversion: blocks that were read ahead, those that wait for the disk, and the program.
MOST_BYTES = 144 * MIB


def argument(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def files(path):
    """Those of the archive at `path`, the largest one last."""
    if os.path.splitext(path)[1]:
        return [path]
    return [path + ".index", path + ".data-00000-of-00001"]


def remove(path):
    for file in files(path):
        if os.path.exists(file):
            os.remove(file)


def make_npy(path, mib, rows=4096):
    """A float32 array of bytes that do not repeat in a block, without zeros to leave out."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {mib * MIB // 4 // rows}), }}".encode()
    header = header.ljust(117) + b"\n"
    some = os.urandom(MIB)
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        for i in range(mib):
            file.write(i.to_bytes(4, "little") + some[4:])


def convert(source, target):
    """The peak of resident memory in bytes (ru_maxrss: pages of mapped files count, too) and the seconds."""
    remove(target)
    start = time.monotonic()
    with subprocess.Popen([TOOL, "convert", source, target], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise AssertionError(f"convert {source} {target}: exit {process.returncode}")
    return usage.ru_maxrss * 1024, time.monotonic() - start


@unittest.skipIf(sanitized(), "a program with a sanitizer takes several times the memory")
class ConvertMemory(unittest.TestCase):
    def test_each_format_as_source_and_as_target(self):
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
            first = os.path.join(folder, "first", "m.npy")
            os.mkdir(os.path.dirname(first))
            make_npy(first, 192)
            source = first
            for extension in EXTENSIONS[1:] + EXTENSIONS[:1]:
                target = os.path.join(folder, "m" + extension)
                peak, _ = convert(source, target)
                print(f"{source} to {target}: {peak / MIB:.0f} MiB", flush=True)
                self.assertLess(peak, MOST_BYTES, f"{source} to {target}")
                if source != first:
                    remove(source)
                source = target
            self.assertTrue(filecmp.cmp(first, source, shallow=False))


def copy_seconds(source, folder):
    """Of cp, of the data of the archive."""
    target = os.path.join(folder, "copy")
    start = time.monotonic()
    subprocess.run(["cp", files(source)[-1], target], check=True)
    seconds = time.monotonic() - start
    os.remove(target)
    return seconds


def measure_pairs(folder, mib):
    """Prints a line for each pair: peak memory, and the time of cp divided by that of convert."""
    os.makedirs(folder, exist_ok=True)
    first = os.path.join(folder, "m.npy")
    make_npy(first, mib)
    for source_extension in EXTENSIONS:
        source = os.path.join(folder, "m" + source_extension)
        if source != first:
            convert(first, source)
        for extension in EXTENSIONS:
            target = os.path.join(folder, "to", "m" + extension)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            copy = copy_seconds(source, folder)
            peak, seconds = convert(source, target)
            remove(target)
            print(f"{source_extension or 'checkpoint'} to {extension or 'checkpoint'}: {peak / MIB:.0f} MiB, "
                  f"{seconds:.1f} s, {copy / seconds:.2f} of cp", flush=True)
        if source != first:
            remove(source)
    shutil.rmtree(folder)


if __name__ == "__main__":
    if "--pairs" in sys.argv:
        measure_pairs(argument("--folder", "/tmp/convert_pairs"), int(argument("--mib", "4096")))
    else:
        case_report.main("convert_memory")
