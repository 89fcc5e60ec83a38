#!/usr/bin/env python3
"""replay_trace.py, with a PyTorch that is a model of its allocator in Python, and ours on the simulated device."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.join(HERE, "..", "..")
TRACES = os.path.join(ROOT, "tests/tensor/memory/traces")
PROGRAM = os.path.abspath("tests/gpu/replay_trace")  # where Bazel lays it for the test
if not os.path.exists(PROGRAM):
    PROGRAM = os.path.join(ROOT, "bazel-bin/tests/gpu/replay_trace")
sys.path[:0] = [os.path.join(HERE, "..", "support"), HERE]
import case_report  # noqa: E402
import replay_trace  # noqa: E402

# A module torch with the calls that replay_trace.py makes, by the rules of PyTorch's caching allocator. MISTAKE changes
# one of them; DOWNWARD gives later segments lower addresses.
TORCH = r'''
import os
import types

MiB = 1 << 20
OPTIONS = dict(pair.split(":") for pair in os.environ.get("PYTORCH_ALLOC_CONF", "").split(",") if pair)
MAX_SPLIT = int(OPTIONS["max_split_size_mb"]) * MiB if "max_split_size_mb" in OPTIONS else 1 << 60
DIVISIONS = int(OPTIONS.get("roundup_power2_divisions", 0))
EXPANDABLE = OPTIONS.get("expandable_segments") == "True"
MISTAKE = os.environ.get("MISTAKE")
OWN_SEGMENT = 8 * MiB if MISTAKE == "own segment" else 10 * MiB
STEP = -1 if os.environ.get("DOWNWARD") else 1

segments = {}  # address -> [is small, bytes, [[address, bytes, in use], ...]]
first_address = 1 << 44


def rounded(size):
    if size < 512:
        return 512
    power = 1 << (size.bit_length() - 1)
    if DIVISIONS > 1 and size > 512 * DIVISIONS and size != power:
        step = power // DIVISIONS
        return (size + step - 1) // step * step
    return (size + 511) // 512 * 512


def best(size, small):
    fitting = []
    for segment in segments.values():
        for block in segment[2]:
            if segment[0] == small and not block[2] and block[1] >= size:
                fitting.append((block[1], block[0], segment, block))
    if not fitting:
        return None
    fitting.sort(key=lambda entry: entry[:2])
    if EXPANDABLE:  # the last block of a segment is as large as the segment may become
        sizes = [entry[0] + (1 << 40 if entry[3] is entry[2][2][-1] else 0) for entry in fitting]
        i = 0
        while i + 1 < len(fitting) and sizes[i + 1] < sizes[i]:
            i += 1
        fitting = fitting[i:]
    found = fitting[0]
    if size < MAX_SPLIT <= found[0] or (size >= MAX_SPLIT and found[0] >= size + 20 * MiB):
        return None
    return found[2:]


def grow(size, small):
    step = 2 * MiB if small else 20 * MiB
    segment = next((segment for segment in segments.values() if segment[0] == small), None)
    if segment is None:
        address = first_address + (0 if small else 1 << 40)
        segment = segments[address] = [small, 0, []]
    last = segment[2][-1] if segment[2] else None
    tail = last[1] if last and not last[2] else 0
    more = (size - tail + step - 1) // step * step
    if tail:
        last[1] += more
    else:
        start = segment[2][-1] if segment[2] else [min(a for a in segments if segments[a] is segment), 0]
        last = [start[0] + start[1], more, False]
        segment[2].append(last)
    segment[1] += more
    return segment, last


def alloc(size, stream):
    assert stream == 0
    size = rounded(size)
    small = size <= MiB
    found = best(size, small)
    if found is None and EXPANDABLE:
        found = grow(size, small)
    if found is None:
        length = 2 * MiB if small else 20 * MiB if size < OWN_SEGMENT else (size + 2 * MiB - 1) // (2 * MiB) * (2 * MiB)
        address = first_address + STEP * len(segments) * (1 << 34)
        segments[address] = [small, length, [[address, length, False]]]
        found = segments[address], segments[address][2][0]
    segment, block = found
    rest = block[1] - size
    if rest >= 512 if small or EXPANDABLE else size < MAX_SPLIT and rest > MiB:
        segment[2].insert(segment[2].index(block) + 1, [block[0] + size, rest, False])
        block[1] = size
    block[2] = True
    return block[0]


def delete(address):
    for segment in segments.values():
        for i, block in enumerate(segment[2]):
            if block[0] == address and block[2]:
                block[2] = False
                for first in (i, i - 1):
                    if MISTAKE == "merge" or not 0 <= first < len(segment[2]) - 1:
                        continue
                    a, b = segment[2][first : first + 2]
                    if not a[2] and not b[2]:
                        a[1] += b[1]
                        del segment[2][first + 1]
                return
    raise AssertionError(address)


def snapshot():
    return [
        {
            "address": address,
            "total_size": bytes_,
            "segment_type": "small" if small else "large",
            "is_expandable": EXPANDABLE,
            "blocks": [
                {"address": start, "size": size, "state": "active_allocated" if used else "inactive"}
                for start, size, used in blocks
            ],
        }
        for address, (small, bytes_, blocks) in segments.items()
    ]


def statistics():
    used = sum(block[1] for segment in segments.values() for block in segment[2] if block[2])
    return {"allocated_bytes": {"all": {"current": used}}, "reserved_bytes": {"all": {"current": reserved()}}}


def reserved():
    return sum(segment[1] for segment in segments.values())


def empty_cache():
    assert not any(block[2] for segment in segments.values() for block in segment[2])
    segments.clear()


cuda = types.SimpleNamespace(
    is_available=lambda: not os.environ.get("NO_GPU"), init=lambda: None, synchronize=lambda: None, empty_cache=empty_cache, memory_reserved=reserved,
    memory_stats_as_nested_dict=statistics, memory_snapshot=snapshot,
)
_C = types.SimpleNamespace(_cuda_cudaCachingAllocator_raw_alloc=alloc, _cuda_cudaCachingAllocator_raw_delete=delete)
'''


class Replay(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(self.folder, "torch.py"), "w", encoding="utf-8") as file:
            file.write(TORCH)
        # The beginnings of the traces.
        self.short = os.path.join(self.folder, "traces")
        os.mkdir(self.short)
        for name in os.listdir(TRACES):
            if name.endswith(".txt"):
                with open(os.path.join(TRACES, name), encoding="utf-8") as file:
                    numbers = file.read().split()[:700]
                with open(os.path.join(self.short, name), "w", encoding="utf-8") as short:
                    short.write(" ".join(numbers))

    def run_script(self, *arguments, traces=None, **environment):
        """(exit status, {case: (outcome, message)}, all lines of JSON)."""
        command = [sys.executable, os.path.join(HERE, "replay_trace.py"), "--program", PROGRAM,
                   "--traces", traces or self.short, *arguments]  # fmt: skip
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": self.folder, **environment},
                              capture_output=True, text=True, timeout=280, check=False)  # fmt: skip
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        cases = {line["case"]: (line["outcome"], line["message"]) for line in lines if "case" in line}
        return done.returncode, cases, lines

    def test_all_traces_agree_with_the_rules_of_pytorch(self):
        status, cases, _ = self.run_script("--simulated", "--seconds", "600", traces=TRACES)
        self.assertEqual(status, 0)
        self.assertEqual(len(cases), 3 * (4 + 3))
        self.assertEqual({outcome for outcome, _ in cases.values()}, {"passed"}, cases)
        self.assertEqual({message for _, message in cases.values()}, {"each step"})

    def test_where_there_is_no_time_for_each_step_the_others_are_counted(self):
        _, cases, _ = self.run_script("--simulated", "--seconds", "0.01")
        self.assertEqual({outcome for outcome, _ in cases.values()}, {"passed"}, cases)
        self.assertIn("of 700 steps, and the bytes at all", cases["transformer, default options"][1])

    def test_another_size_of_segments_is_found(self):
        _, cases, _ = self.run_script("--simulated", "--seconds", "1", MISTAKE="own segment")
        outcome, message = cases["generation, default options"]
        self.assertEqual(outcome, "failed")  # 10240000 bytes are less than 10 MiB
        self.assertIn("step", message)

    def test_blocks_that_are_not_merged_are_found(self):
        _, cases, _ = self.run_script("--simulated", "--seconds", "1", MISTAKE="merge")
        for name in ("generation, default options", "convolutions, default options, at PyTorch's addresses"):
            outcome, message = cases[name]
            self.assertEqual(outcome, "failed", name)
            self.assertRegex(message, r"segment \d of ours: ")
            self.assertIn("free of allocation", message)

    def test_other_addresses_of_the_driver_are_told_apart(self):
        _, cases, _ = self.run_script("--simulated", "--seconds", "1", DOWNWARD="1")
        outcome, message = cases["transformer, default options"]
        self.assertEqual(outcome, "skipped")
        self.assertIn("the driver gave the segments other addresses", message)
        self.assertEqual(cases["transformer, default options, at PyTorch's addresses"][0], "passed")

    def test_times(self):
        status, _, lines = self.run_script("--simulated", "--times")
        self.assertEqual(status, 0)
        names = [line["name"] for line in lines]
        self.assertEqual(len(names), 9)
        self.assertIn("transformer: a step, ours", names)
        self.assertTrue(all(line["value"] > 0 for line in lines))

    def test_a_helper_that_cannot_be_loaded_takes_no_figure_away(self):
        status, cases, lines = self.run_script("--simulated", "--times", "--helper", "/nonexistent/helper.so")
        self.assertEqual(status, 0)
        self.assertEqual(cases["times of PyTorch in C++"][0], "skipped")
        self.assertEqual(len(lines), 10)

    def test_without_a_gpu_ours_is_skipped(self):
        status, cases, _ = self.run_script("--seconds", "0.01", TENSORCASK_CUDA_LIBRARY="libno_such_driver.so.1")
        self.assertEqual(status, 0)
        self.assertEqual(cases["transformer, default options"][0], "skipped")
        self.assertEqual(cases["transformer, default options, at PyTorch's addresses"][0], "passed")

    def test_without_pytorch_all_is_skipped(self):
        for arguments in ((), ("--times",)):
            status, cases, _ = self.run_script("--simulated", *arguments, NO_GPU="1")
            self.assertEqual(status, 0)
            self.assertEqual(cases["default options"], ("skipped", "PyTorch finds no GPU"))

    def test_a_difference_names_the_segments(self):
        text = replay_trace.difference("512 2048 s2048:a512,f1536;l9:f9", "512 2048 s2048:a512,f1536;l8:f8")
        self.assertEqual(text, "segment 1 of ours: l9:f9; segment 1 of PyTorch's: l8:f8")


if __name__ == "__main__":
    case_report.main("replay_trace")
