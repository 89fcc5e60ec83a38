#!/usr/bin/env python3
"""PyTorch's caching allocator beside ours on recorded allocations: the segments and blocks after each step.

    replay_trace.py --program PATH --traces FOLDER [--libraries FOLDERS] [--seconds N] [--times [--helper PATH]]
                   [--simulated]

PATH is the program replay_trace, which describes the lines that are compared. For each set of options a process of its
own replays the traces through PyTorch's allocator on the GPU. Each trace is compared twice: with ours on the GPU, and
with ours at the very addresses of PyTorch's segments, because of two free blocks of one size both take the one at the
lower address, and the driver chooses addresses.

Prints a line of JSON for each comparison; after a difference, its message names the step, the event, and the segments
that differ. PyTorch's snapshots are slow: where all of them would take longer than the seconds (default: 40, for one
set of options), only each tenth step is compared whole, and the counters of bytes at every step; the line says so.

With --times: the time of an allocation and of a free, with a full cache, of both. PyTorch's is called from Python,
where the part of Python's loop is measured with functions that do nothing, and, with --helper libtorch_allocator.so,
from C++.
--simulated: ours on the simulated device.
"""

import argparse
import ctypes
import gc
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time

OPTIONS = ("", "max_split_size_mb:21", "roundup_power2_divisions:4", "expandable_segments:True")
NO_DEVICE = 77  # the exit status of the program without a GPU
ROUNDS = 7


def say(**fields):
    print(json.dumps(fields), flush=True)


def read_trace(path):
    with open(path, encoding="utf-8") as file:
        return [int(word) for word in file.read().split()]


def traces_of(folder):
    names = sorted(name for name in os.listdir(folder) if name.endswith(".txt"))
    return [(name[: -len(".txt")], os.path.join(folder, name)) for name in names]


class NoPeer(Exception):
    """PyTorch cannot be used here."""


class Peer:
    """PyTorch's allocator, with what it says in the form of replay_trace's lines."""

    def __init__(self):
        try:
            import torch
        except ImportError as error:
            raise NoPeer(f"no PyTorch here: {error}") from error
        if not torch.cuda.is_available():
            raise NoPeer("PyTorch finds no GPU")
        self.torch = torch
        torch.cuda.init()
        self.alloc = torch._C._cuda_cudaCachingAllocator_raw_alloc
        self.delete = torch._C._cuda_cudaCachingAllocator_raw_delete
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        self.forget()

    def forget(self):
        self.created = {}  # address of a segment -> (number, bytes)
        if self.torch.cuda.memory_reserved() != 0:
            raise RuntimeError(f"{self.torch.cuda.memory_reserved()} bytes are reserved before the first step")

    def counters(self):
        statistics = self.torch.cuda.memory_stats_as_nested_dict()
        return tuple(statistics[name]["all"]["current"] for name in ("allocated_bytes", "reserved_bytes"))

    def segments(self):
        found = sorted(self.torch.cuda.memory_snapshot(), key=lambda segment: segment["address"])
        for segment in found:
            self.created.setdefault(segment["address"], (len(self.created), segment["total_size"]))
        return found

    def lines(self):
        """The line of the state, and the one with addresses."""
        segments = self.segments()
        texts = [(segment, segment_text(segment)) for segment in segments]
        allocated, reserved = self.counters()
        with_addresses = ";".join(f"{segment['address']}:{text}" for segment, text in texts)
        texts.sort(key=lambda pair: self.rank(pair[0]))
        counters = f"{allocated} {reserved} "
        return counters + ";".join(text for _, text in texts), counters + with_addresses

    def rank(self, segment):
        if segment.get("is_expandable"):
            return segment["segment_type"] == "large"
        return self.created[segment["address"]][0]

    def order(self):
        return " ".join(["order"] + [str(number) for _, (number, _) in sorted(self.created.items())])


def segment_text(segment):
    states = {"active_allocated": "a", "inactive": "f"}
    blocks = ",".join(f"{states.get(block['state'], 'p')}{block['size']}" for block in segment["blocks"])
    return f"{segment['segment_type'][0]}{segment['total_size']}:{blocks}"


def replay(peer, events, seconds):
    """Lines after each step (None where there was no time for a snapshot), with addresses, and the counters."""
    pointers, lines, placed, counters = [], [], [], []
    begun, every = time.monotonic(), 1
    for step, event in enumerate(events):
        if event > 0:
            pointers.append(peer.alloc(event, 0))
        else:
            peer.delete(pointers[-event - 1])
            pointers[-event - 1] = None
        if step % 200 == 199:  # is there time for the rest at this pace?
            spent = time.monotonic() - begun
            pace = spent / (step + 1) * (len(events) - step)
            every = 1 if pace <= seconds - spent else 10
        is_seen = step % every == 0 or step == len(events) - 1
        line, with_addresses = peer.lines() if is_seen else (None, None)
        if line is None and event > 0:
            # A new segment must be seen when it appears: their order matters.
            reserved = peer.counters()[1]
            if counters and reserved != counters[-1][1]:
                line, with_addresses = peer.lines()
        lines.append(line)
        placed.append(with_addresses)
        counters.append(tuple(map(int, line.split()[:2])) if line else peer.counters())
    for pointer in pointers:
        if pointer is not None:
            peer.delete(pointer)
    return lines, placed, counters


def first_difference(events, ours, theirs, counters):
    """(step, text) of the first step that differs, or None. `theirs` has None for a step without a snapshot."""
    for step, event in enumerate(events):
        if step >= len(ours):
            return step, f"ours ends before step {step} ({describe(event)})"
        if theirs[step] is None:
            own = tuple(map(int, ours[step].split(" ", 2)[:2]))
            if own != counters[step]:
                bytes_ = f"bytes in use and reserved {own}, PyTorch's {counters[step]}"
                return step, f"step {step}, {describe(event)}: {bytes_}"
        elif ours[step] != theirs[step]:
            return step, f"step {step}, {describe(event)}: " + difference(ours[step], theirs[step])
    return None


def describe(event):
    return f"allocation of {event} bytes" if event > 0 else f"free of allocation {-event}"


def difference(ours, theirs):
    """What differs in two lines: the counters, and the first segments that only one has at their place."""
    own, other = ours.split(" ", 2), theirs.split(" ", 2)
    parts = []
    if own[:2] != other[:2]:
        parts.append(f"bytes in use and reserved {own[:2]}, PyTorch's {other[:2]}")
    own_segments, other_segments = own[2].split(";"), other[2].split(";")
    if len(own_segments) != len(other_segments):
        parts.append(f"{len(own_segments)} segments, PyTorch has {len(other_segments)}")
    differing = [i for i in range(max(len(own_segments), len(other_segments)))
                 if own_segments[i : i + 1] != other_segments[i : i + 1]]  # fmt: skip
    for i in differing[:2]:
        pair = [segments[i] if i < len(segments) else "none" for segments in (own_segments, other_segments)]
        for name, text in zip(("ours", "PyTorch's"), around_difference(*pair)):
            parts.append(f"segment {i} of {name}: {text}")
    return "; ".join(parts)


def around_difference(a, b):
    """Two segments, without most of the blocks that both have before the first that differs, and after some more."""
    blocks = [text.split(",") for text in (a, b)]
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*blocks)))
    start, end = max(1, same - 2), same + 6
    texts = []
    for own in blocks:
        before = [own[0], f"({start - 1} blocks)"] if start > 1 else own[:1]
        after = [f"({len(own) - end} blocks)"] if len(own) > end else []
        texts.append(",".join(before + own[start:end] + after))
    return texts


def are_in_other_order(a, b):
    """Whether two lines "order ..." disagree on segments that both have."""
    numbers = [[int(word) for word in line.split()[1:]] for line in (a, b)]
    count = min(len(each) for each in numbers)
    return [n for n in numbers[0] if n < count] != [n for n in numbers[1] if n < count]


def run_program(arguments, *more):
    """(exit status, output lines, errors) of replay_trace."""
    command = [arguments.program, *(["--simulated"] if arguments.simulated else []), *more]
    environment = dict(os.environ, LD_LIBRARY_PATH=arguments.libraries or "")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr.strip()


def compare(case, events, ours, theirs, counters, orders=None):
    """Says whether ours agrees: {"case": ...}."""
    status, lines, errors = ours
    found = first_difference(events, lines, theirs, counters)
    seen = sum(line is not None for line in theirs)
    note = "each step" if seen == len(theirs) else f"{seen} of {len(theirs)} steps, and the bytes at all"
    if status == NO_DEVICE:
        return say(case=case, outcome="skipped", message=errors)
    if found is None and status == 0:
        return say(case=case, outcome="passed", message=note)
    message = f"{note}; {found[1] if found else ''} {errors}".strip()
    if status == 0 and orders and are_in_other_order(*orders):
        message = f"the driver gave the segments other addresses than PyTorch's: {orders}; {message}"
        return say(case=case, outcome="skipped", message=message)
    return say(case=case, outcome="failed", message=message)


def work(arguments, options):
    """Replays all traces with these options, in this process."""
    peer = Peer()
    name = options or "default options"
    for trace, path in traces_of(arguments.traces):
        events = read_trace(path)
        peer.forget()
        begun = time.monotonic()
        lines, placed, counters = replay(peer, events, arguments.seconds / 3)
        seconds = time.monotonic() - begun
        segments, order = sorted(peer.created.items(), key=lambda entry: entry[1][0]), peer.order()
        peer.torch.cuda.empty_cache()
        ours = run_program(arguments, "--options", options, path)
        is_expandable = "expandable" in options  # its two segments stand in the order of their pools
        orders = None if is_expandable or not ours[1] else (ours[1][-1], order)
        compare(f"{trace}, {name}", events, ours, lines, counters, orders)
        if not is_expandable:
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
                file.writelines(f"{address} {bytes_}\n" for address, (_, bytes_) in segments)
                file.flush()
                ours = run_program(arguments, "--options", options, "--addresses", file.name, path)
            compare(f"{trace}, {name}, at PyTorch's addresses", events, ours, placed, counters)
        print(f"{trace}, {name}: {len(events)} steps of PyTorch in {seconds:.1f} s, {len(segments)} segments",
              flush=True)  # fmt: skip


def settings(options):
    """PyTorch 2.9 and later read the second variable, and warn of the first one."""
    return {"PYTORCH_CUDA_ALLOC_CONF": options, "PYTORCH_ALLOC_CONF": options} if options else {}


def work_in_processes(arguments):
    """A process for each set of options, beside each other. Returns the exit status."""
    processes = []
    for options in OPTIONS:
        command = [sys.executable, "-B", os.path.realpath(__file__), *sys.argv[1:], "--options", options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTORCH_")}
        process = subprocess.Popen(command, env={**environment, **settings(options)}, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)  # fmt: skip
        processes.append((options, process))
    status = 0
    for options, process in processes:
        output = process.communicate()[0]
        print(output, end="", flush=True)
        if process.returncode != 0:
            status = 1
            last = " ".join(output.strip().splitlines()[-3:])[-600:]
            say(case=f"{options or 'default options'}", outcome="failed",
                message=f"exit status {process.returncode}: {last}")  # fmt: skip
    return status


def median(values):
    return sorted(values)[len(values) // 2]


def nanoseconds(function, count):
    """The median time of one of `count` steps that function() makes."""
    function()  # fills the cache
    rounds = []
    gc.disable()
    for _ in range(ROUNDS):
        begun = time.perf_counter_ns()
        function()
        rounds.append((time.perf_counter_ns() - begun) / count)
    gc.enable()
    return median(rounds)


def python_loop(alloc, delete, events):
    def run():
        pointers = []
        append = pointers.append
        for event in events:
            if event > 0:
                append(alloc(event, 0))
            else:
                delete(pointers[-event - 1])
                pointers[-event - 1] = None
        for pointer in pointers:
            if pointer is not None:
                delete(pointer)

    return run


def print_times(arguments):
    status, lines, errors = run_program(arguments, "--times", *(path for _, path in traces_of(arguments.traces)))
    if status != 0:
        say(case="times of ours", outcome="skipped" if status == NO_DEVICE else "failed", message=errors)
        return 0 if status == NO_DEVICE else 1
    ours = {figure["name"]: figure["value"] for figure in map(json.loads, lines)}
    peer = Peer()
    for trace, path in traces_of(arguments.traces):
        events = read_trace(path)
        steps = 2 * sum(event > 0 for event in events)  # what the trace leaves is freed, too
        theirs = nanoseconds(python_loop(peer.alloc, peer.delete, events), steps)
        python = nanoseconds(python_loop(take_the_larger, abs, events), steps)
        say(name=f"{trace}: a step, ours", value=ours[trace], unit="ns")
        say(name=f"{trace}: a step, PyTorch from Python", value=theirs, unit="ns")
        say(name=f"{trace}: of that Python's loop", value=python, unit="ns")
    if arguments.helper:
        print_times_of_helper(ours)
    return 0


def print_times_of_helper(ours):
    """PyTorch's times from C++, in a process of its own: the helper knows PyTorch's layouts, which may have changed."""
    command = [sys.executable, "-B", os.path.realpath(__file__), *sys.argv[1:], "--in-process"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    times = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for entry in times:
        what, theirs = entry["what"], entry["ns"]
        if what in ours:
            say(name=f"{what}: a step, PyTorch in C++ (ratio: ours over it)", value=theirs, unit="ns",
                ratio=ours[what] / theirs)  # fmt: skip
        else:
            say(name=f"{what}, PyTorch in C++", value=theirs, unit="ns")
    if done.returncode != 0 or not times:
        message = f"exit status {done.returncode}: " + " ".join((done.stdout + done.stderr).split())[-300:]
        say(case="times of PyTorch in C++", outcome="skipped", message=message)


def time_with_helper(arguments):
    peer = Peer()
    torch = peer.torch
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    get_allocator = ctypes.CDLL(os.path.join(folder, "libc10.so"))["_ZN3c1012GetAllocatorERKNS_10DeviceTypeE"]
    helper = ctypes.CDLL(arguments.helper)
    helper.StepSeconds.restype = ctypes.c_double
    helper.StepSeconds.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.c_size_t,
                                   ctypes.c_int)  # fmt: skip
    torch.empty(1, device="cuda")  # PyTorch has begun to use the device
    cuda = 1  # c10::DeviceType

    def step(events):
        numbers = (ctypes.c_int64 * len(events))(*events)
        return 1e9 * helper.StepSeconds(ctypes.cast(get_allocator, ctypes.c_void_p), cuda, numbers, len(events), ROUNDS)

    for trace, path in traces_of(arguments.traces):
        say(what=trace, ns=step(read_trace(path)))
    for text, size in (("512 B", 512), ("1 MiB", 1 << 20), ("20 MiB", 20 << 20)):
        pairs = [number for i in range(1, 5001) for number in (size, -i)]
        say(what=f"allocate and free {text}", ns=2 * step(pairs))


take_the_larger = max


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--traces", required=True)
    parser.add_argument("--libraries", default="")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--helper", default="")
    parser.add_argument("--options", help=argparse.SUPPRESS)  # in a process for these options
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)  # for the helper
    arguments = parser.parse_args()
    try:
        if arguments.options is not None:
            work(arguments, arguments.options)
        elif arguments.in_process:
            time_with_helper(arguments)
        else:
            return print_times(arguments) if arguments.times else work_in_processes(arguments)
    except NoPeer as reason:
        say(case=arguments.options or "default options", outcome="skipped", message=str(reason))
    return 0


if __name__ == "__main__":
    sys.exit(main())
