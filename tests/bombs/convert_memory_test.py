#!/usr/bin/env python3
"""Memory and speed of `tensorcask convert` for a tensor that is much larger than what the tool may hold.

As a test: 192 MiB through each format as source and as target. By hand, every pair, with the time beside those of cp and
of cp and sync:

    TENSORCASK=bazel-bin/tools/tensorcask tests/bombs/convert_memory_test.py --pairs --mib 4096 --folder /tmp/convert
"""

import filecmp
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder)
                for folder in (".", "../support", "../tools"))
import case_report  # noqa: E402
from tool_testing import TOOL, formats, sanitized  # noqa: E402

MIB = 1 << 20

# Of one conversion: blocks that were read ahead, those that wait for the disk, and the program.
MOST_BYTES = 144 * MIB
ROUNDS = 5  # of a pair that is measured


def argument(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def extensions():
    """Those of all formats that are written in blocks, .npy first; "": a checkpoint."""
    found = ["" if "" in words else words[0] for name, words, written, _, _ in formats()
             if written == "yes" and name != "tensorproto-text"]  # fmt: skip
    return sorted(found, key=lambda extension: extension != ".npy")


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
            tested = extensions()
            self.assertGreater(len(tested), 7)
            for extension in tested[1:] + tested[:1]:
                target = os.path.join(folder, "m" + extension)
                peak, _ = convert(source, target)
                print(f"{source} to {target}: {peak / MIB:.0f} MiB", flush=True)
                self.assertLess(peak, MOST_BYTES, f"{source} to {target}")
                if source != first:
                    remove(source)
                source = target
            self.assertTrue(filecmp.cmp(first, source, shallow=False))


def copy_seconds(source, folder):
    """Of cp of the data of the archive, and of cp with the sync that convert does, too."""
    target = os.path.join(folder, "copy")
    start = time.monotonic()
    subprocess.run(["cp", files(source)[-1], target], check=True)
    copied = time.monotonic()
    subprocess.run(["sync", target], check=True)
    synced = time.monotonic()
    os.remove(target)
    return copied - start, synced - start


def make_many(folder, mib):
    """A safetensors file of one tensor of a quarter of the bytes, and of others of 100 MiB and of 5 MiB."""
    sizes = [mib // 4] + [100] * (mib // 200) + [5] * (mib // 20)
    sources = []
    for number, size in enumerate(sizes):
        sources.append(os.path.join(folder, f"t{number}.npy"))
        make_npy(sources[-1], size, rows=64)
    target = os.path.join(folder, "m.safetensors")
    subprocess.run([TOOL, "convert", *sources, target], check=True, stdout=subprocess.DEVNULL)
    for source in sources:
        os.remove(source)
    return target


def measure_pairs(folder, mib, first, extensions):
    """Prints a line for each pair: peak memory, and the time of cp, and of cp and sync, in times of convert.

    The best of the rounds in which the two take turns, and medians of the rounds in parentheses: in a virtual machine
    that gives free memory back to its host, plain write() of the same 4 GiB takes 1.7 to 6.7 seconds.
    """
    for source_extension in extensions:
        source = os.path.join(folder, "m" + source_extension)
        if source != first:
            convert(first, source)
        for extension in extensions:
            target = os.path.join(folder, "to", "m" + extension)
            peaks, rounds = [], []
            for _ in range(ROUNDS):
                copied, synced = copy_seconds(source, folder)
                peak, took = convert(source, target)
                remove(target)
                peaks.append(peak)
                rounds.append((copied, synced, took))
            best = [min(times) for times in zip(*rounds)]
            of_copy, of_sync = ([one[i] / one[2] for one in rounds] for i in (0, 1))
            print(f"{mib} MiB, {source_extension or 'checkpoint'} to {extension or 'checkpoint'}: {max(peaks) / MIB:.0f} MiB, "
                  f"{best[2]:.1f} s, {best[0] / best[2]:.2f} ({statistics.median(of_copy):.2f}) of cp, "
                  f"{best[1] / best[2]:.2f} ({statistics.median(of_sync):.2f}) of cp and sync", flush=True)
        if source != first:
            remove(source)
    remove(first)


def measure(folder, mib):
    os.makedirs(os.path.join(folder, "to"))
    first = os.path.join(folder, "m.npy")
    make_npy(first, mib)
    measure_pairs(folder, mib, first, extensions())
    measure_pairs(folder, mib, make_many(folder, mib), [one for one in extensions() if one not in (".npy", ".pb")])
    shutil.rmtree(folder)


if __name__ == "__main__":
    if "--pairs" in sys.argv:
        measure(argument("--folder", "/tmp/convert_pairs"), int(argument("--mib", "4096")))
    else:
        case_report.main("convert_memory")
