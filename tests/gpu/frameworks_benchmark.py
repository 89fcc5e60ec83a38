#!/usr/bin/env python3
"""Saves and loads of PyTorch's tensors on a GPU beside their limits, PyTorch and safetensors, in turns, in one run.

    frameworks_benchmark.py [--gib N] [--limit SECONDS] [--folder PATH]

Prints lines of JSON as part_results.py reads them: the median of each measure, in GB/s (10^9 bytes) or milliseconds.
Files are in memory (/dev/shm), so no disk is measured. A "ratio" of this library is its speed over that of its limit,
which is the slower of a copy from or to pinned memory and of read() or write() in one thread; a second line compares
with them in several threads. A "ratio" of a peer is the speed of this library over that of the peer.

Each round measures everything once, in turns, after a round with little data. It ends when the time is up, after five
rounds, or at SIGTERM, and prints what it has.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time

import gpu_arrays

DEVICE = gpu_arrays.DEVICE
MIB = 1 << 20
PIECE = 16 * MIB
THREADS = min(16, os.cpu_count() or 1)  # as many as load() takes for a GPU
ROUNDS = 5
SMALL = 1000  # tensors
SMALL_BYTES = 16 << 10


class Measure:
    def __init__(self, name, run, num_bytes=0, before=None, after=None):
        """`run` is timed, or returns a dict of seconds by name itself. Without bytes the result is in milliseconds."""
        self.name, self.run, self.num_bytes = name, run, num_bytes
        self.before, self.after = before, after
        self.seconds = {}  # name -> list
        self.cost = 0.0  # of one round, with what is not timed
        self.error = None

    def once(self, torch, keep):
        """Runs it once; `keep` keeps the time."""
        begin = time.perf_counter()
        try:
            state = self.before() if self.before else None
            torch.cuda.synchronize()
            start = time.perf_counter()
            result = self.run(state) if self.before else self.run()
            torch.cuda.synchronize()
            elapsed = time.perf_counter() - start
            times = result if isinstance(result, dict) and result.get("are seconds") else {self.name: elapsed}
            del result, state
            if self.after:
                self.after()
            if keep:
                for name, seconds in times.items():
                    if name != "are seconds":
                        self.seconds.setdefault(name, []).append(seconds)
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
            print(f"{self.name}: {self.error}", file=sys.stderr, flush=True)
        self.cost = time.perf_counter() - begin


# ---- The limits -----------------------------------------------------------------------------------------------------


def in_threads(threads, total, work):
    """Calls work(begin, end) for equal parts of the bytes."""
    share = -(-total // threads)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda i: work(i * share, min(total, (i + 1) * share)), range(threads)))


def reads(path, threads):
    def work(begin, end):
        buffer = memoryview(bytearray(PIECE))
        while begin < end:
            begin += os.preadv(file, [buffer[: min(PIECE, end - begin)]], begin)

    file = os.open(path, os.O_RDONLY)
    try:
        in_threads(threads, os.fstat(file).st_size, work)
    finally:
        os.close(file)


def writes(path, total, threads):
    def work(begin, end):
        buffer = memoryview(bytes(PIECE))
        while begin < end:
            begin += os.pwritev(file, [buffer[: min(PIECE, end - begin)]], begin)

    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        in_threads(threads, total, work)
    finally:
        os.close(file)


def limit_measures(torch, total, files):
    pinned = torch.empty(min(total, 1024 * MIB), dtype=torch.uint8, pin_memory=True)
    pinned.fill_(1)
    there = torch.empty(pinned.shape, dtype=torch.uint8, device=DEVICE)
    copies = -(-total // pinned.numel())
    num_bytes = copies * pinned.numel()

    def copy(to, source):
        for _ in range(copies):
            to.copy_(source, non_blocking=True)

    return [
        Measure("limit: memcpy, pinned to GPU", lambda: copy(there, pinned), num_bytes),
        Measure("limit: memcpy, GPU to pinned", lambda: copy(pinned, there), num_bytes),
        Measure("limit: read(), 1 thread", lambda: reads(files.model, 1), total),
        Measure(f"limit: read(), {THREADS} threads", lambda: reads(files.model, THREADS), total),
        Measure("limit: write(), 1 thread", lambda: writes(files.out, total, 1), total, after=files.drop),
        Measure(f"limit: write(), {THREADS} threads", lambda: writes(files.out, total, THREADS), total,
                after=files.drop),
    ]  # fmt: skip


# ---- This library and its peers -------------------------------------------------------------------------------------


class Files:
    """The files of one set of tensors."""

    def __init__(self, folder, name):
        self.folder = os.path.join(folder, name)
        os.makedirs(self.folder)
        self.model = os.path.join(self.folder, "model.safetensors")  # what is loaded
        self.pickle = os.path.join(self.folder, "model.pt")
        self.out = os.path.join(self.folder, "out.safetensors")  # what is saved
        self.run = os.path.join(self.folder, "run")

    def drop(self):
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.out)

    def drop_run(self):
        shutil.rmtree(self.run, ignore_errors=True)


def as_module(torch, tensors):
    module = torch.nn.Module()
    for name, tensor in tensors.items():
        module.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=False))
    return module


def save_and_load_measures(torch, what, tensors, files):
    import safetensors.torch

    import tensorcask as tc
    import tensorcask.torch as tct

    total = sum(tensor.nbytes for tensor in tensors.values())
    module = as_module(torch, tensors)
    load = dict(framework="torch", device=DEVICE)
    measures = [
        Measure(f"save {what}: tensorcask", lambda: tc.save(files.out, tensors, sync=False), total, after=files.drop),
        Measure(f"save {what}: safetensors.torch.save_file", lambda: safetensors.torch.save_file(tensors, files.out),
                total, after=files.drop),
        Measure(f"save {what}: torch.save", lambda: torch.save(tensors, files.out), total, after=files.drop),
        Measure(f"load {what}: tensorcask, verified", lambda: tc.load(files.model, **load), total),
        Measure(f"load {what}: tensorcask, not verified", lambda: tc.load(files.model, verify=False, **load), total),
        Measure(f"load {what}: tensorcask, load_state_dict", lambda: tct.load_state_dict(module, files.model), total),
        Measure(f"load {what}: safetensors.torch.load_file",
                lambda: safetensors.torch.load_file(files.model, device=DEVICE), total),
        Measure(f"load {what}: torch.load, mmap",
                lambda: torch.load(files.pickle, mmap=True, map_location=DEVICE, weights_only=True), total),
    ]  # fmt: skip
    if fast := fastsafetensors_load(torch, files.model):
        measures.append(Measure(f"load {what}: fastsafetensors", fast, total))
    return measures


def fastsafetensors_load(torch, path):
    try:
        from fastsafetensors import __version__, fastsafe_open
    except Exception as error:  # its extension may not load
        print(f"fastsafetensors is not measured: {error}", file=sys.stderr, flush=True)
        return None

    major, minor = (int(number) for number in __version__.split(".")[:2])
    outlives = (major, minor) >= (0, 5)  # tensors of earlier versions end with the file

    def load():
        with fastsafe_open(filenames=[path], nogds=True, device=DEVICE) as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            return tensors if outlives else {name: tensor.clone() for name, tensor in tensors.items()}

    return load


def stall_measures(torch, what, tensors, files):
    """How long a save in the background holds up the program, and the stream of the GPU."""
    import tensorcask.torch as tct

    pinned = {}

    def stalls():
        times = {"are seconds": True}
        with tct.AsyncCheckpointer(files.run, keep_last=1, sync=False) as checkpointer:
            for step, which in enumerate(("first", "second", "third")):
                torch.cuda.synchronize()
                start = time.perf_counter()
                save = checkpointer.save(step, tensors)
                times[f"stall {what}: tensorcask, {which} save"] = time.perf_counter() - start
                torch.cuda.synchronize()
                times[f"stall {what}: tensorcask, {which} save and the GPU's work"] = time.perf_counter() - start
                save.wait()
                times[f"stall {what}: tensorcask, {which} save until its end"] = time.perf_counter() - start
        return times

    def buffers():
        if not pinned:
            for name, tensor in tensors.items():
                pinned[name] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
                pinned[name].zero_()

    def copy_to_pinned(_):
        for name, tensor in tensors.items():
            pinned[name].copy_(tensor, non_blocking=True)

    return [
        Measure(f"stall {what}: tensorcask", stalls, after=files.drop_run),
        Measure(f"stall {what}: {{k: v.cpu()}}", lambda: {name: tensor.cpu() for name, tensor in tensors.items()}),
        Measure(f"stall {what}: copy to pinned memory that is there", copy_to_pinned, before=buffers),
    ]


# ---- Results --------------------------------------------------------------------------------------------------------


def medians(measures):
    """name -> (seconds, bytes)."""
    return {
        name: (statistics.median(seconds), measure.num_bytes)
        for measure in measures
        for name, seconds in measure.seconds.items()
    }


def speed(found, name):
    """Bytes in a second, or calls; None if it was not measured."""
    if name not in found:
        return None
    seconds, num_bytes = found[name]
    return (num_bytes or 1) / seconds


def limit_of(found, kind, threads):
    """The slower of the copy and of read() or write()."""
    call = "write()" if kind == "save" else "read()"
    copy = "limit: memcpy, GPU to pinned" if kind == "save" else "limit: memcpy, pinned to GPU"
    count = "1 thread" if threads == 1 else f"{threads} threads"
    both = [speed(found, copy), speed(found, f"limit: {call}, {count}")]
    return min(both) if all(both) else None


def figures(measures):
    """The lines to print."""
    found = medians(measures)
    lines = []

    def add(name, ratio=None, as_name=None):
        seconds, num_bytes = found[name]
        value, unit = (num_bytes / seconds / 1e9, "GB/s") if num_bytes >= 64 * MIB else (seconds * 1e3, "ms")
        lines.append({"name": as_name or name, "value": round(value, 3), "unit": unit})
        if ratio:
            lines[-1]["ratio"] = round(ratio, 3)

    for name in found:
        kind, what = name.partition(":")[0].partition(" ")[::2]
        ours = {"save": "tensorcask", "load": "tensorcask, verified", "stall": "tensorcask, second save"}.get(kind)
        own = speed(found, f"{kind} {what}: {ours}")
        if kind == "limit":
            add(name)
        elif ": tensorcask" in name:
            is_large = found[name][1] >= 64 * MIB
            for threads in (1, THREADS) if is_large else ():
                limit = limit_of(found, kind, threads)
                if limit:
                    beside = "" if threads == 1 else f", beside {threads} threads"
                    add(name, speed(found, name) / limit, name + beside)
            if not is_large:
                add(name)
        else:
            add(name, own / speed(found, name) if own else None)
    for measure in measures:
        if measure.error is not None:
            lines.append({"case": measure.name, "outcome": "failed", "message": measure.error[:500]})
    return lines


class Printer:
    """Prints the results once: at the end, when the time is up, or at SIGTERM."""

    def __init__(self):
        self.measures, self._lock, self._done = [], threading.Lock(), False

    def print(self):
        with self._lock:
            if self._done:
                return
            self._done = True
            for line in figures(self.measures):
                print(json.dumps(line), flush=True)

    def end(self, *_):
        """Prints and ends the process, whatever it does."""
        self.print()
        sys.stdout.flush()
        os._exit(1 if any(measure.error for measure in self.measures) else 0)


def random_tensors(torch, count, num_bytes):
    return {
        f"w{i}": torch.empty(num_bytes // 2, dtype=torch.bfloat16, device=DEVICE).uniform_() for i in range(count)
    }


def check_values(torch, tensors, files):
    """What is measured gives the right values: a figure of a wrong result would mean nothing."""
    import tensorcask as tc

    tc.save(files.out, tensors, sync=False)
    for verify in (True, False):
        loaded = tc.load(files.out, framework="torch", device=DEVICE, verify=verify)
        assert loaded.keys() == tensors.keys()
        assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items()), "other values"


def all_measures(torch, tensors, folder, name):
    """Measures of the tensors, and the files that they need."""
    import safetensors.torch

    total = sum(tensor.nbytes for tensor in tensors.values())
    what = f"{total / 2**30:.3g} GiB" if total >= 64 * MIB else f"{len(tensors)} small tensors"
    files = Files(folder, name)
    checked = Measure(f"values of {what}", lambda: check_values(torch, tensors, files))
    checked.once(torch, keep=False)
    if checked.error is None:
        os.rename(files.out, files.model)
    else:
        safetensors.torch.save_file(tensors, files.model)
    torch.save(tensors, files.pickle)
    measures = [checked] if checked.error else []
    if total >= 64 * MIB:
        measures += limit_measures(torch, total, files)
    measures += save_and_load_measures(torch, what, tensors, files)
    measures += stall_measures(torch, what, tensors, files)
    return measures


def fitting_gib(wanted, folder):
    """Files of four times this size must fit."""
    free = shutil.disk_usage(folder).free / 2**30
    fitting = wanted
    while fitting > 0.25 and 4 * fitting + 1 > free:
        fitting /= 2
    if fitting != wanted:
        print(f"{folder} has {free:.1f} GiB free: {fitting} GiB are saved, not {wanted}", file=sys.stderr, flush=True)
    return fitting


def warm_up(torch, measures):
    for measure in measures:
        if measure.error is None:
            measure.once(torch, keep=False)


def run(torch, arguments, folder, printer):
    end = time.monotonic() + arguments.limit - 5
    gib = fitting_gib(arguments.gib, folder)
    warm = all_measures(torch, random_tensors(torch, 8, 32 * MIB), folder, "warm")
    warm_up(torch, warm)
    shutil.rmtree(os.path.join(folder, "warm"))
    warm.clear()
    small = all_measures(torch, random_tensors(torch, SMALL, SMALL_BYTES), folder, "small")
    warm_up(torch, small)
    count = max(1, round(gib * 8))
    measures = all_measures(torch, random_tensors(torch, count, 128 * MIB), folder, "large") + small
    printer.measures = measures
    for round_number in range(ROUNDS):
        has_measured = False
        for measure in measures:
            if measure.error is not None or time.monotonic() + 1.3 * measure.cost > end:
                continue
            measure.once(torch, keep=True)
            has_measured = True
        if not has_measured:
            break
        print(f"round {round_number + 1}: {end - time.monotonic():.0f} s are left", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--limit", type=float, default=120, help="seconds (default: 120)")
    parser.add_argument("--folder", default="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    arguments = parser.parse_args()
    if reason := gpu_arrays.why_no_gpu():
        print(f"SKIPPED: {reason}")
        return 0
    import torch

    printer = Printer()
    folder = tempfile.mkdtemp(dir=arguments.folder)

    def end(*_):
        shutil.rmtree(folder, ignore_errors=True)
        printer.end()

    signal.signal(signal.SIGTERM, end)
    watchdog = threading.Timer(max(arguments.limit - 8, 1), end)  # the end takes some seconds, too
    watchdog.daemon = True
    watchdog.start()
    try:
        run(torch, arguments, folder, printer)
    finally:
        printer.print()
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if any(measure.error for measure in printer.measures) else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
