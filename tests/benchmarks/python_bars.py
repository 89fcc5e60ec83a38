#!/usr/bin/env python3
"""The Python module beside NumPy, safetensors, PyTorch and TensorFlow, in turns, in one run.

    tests/benchmarks/python_bars.py [--mib N] [--small N] [--rounds N] [--folder PATH] [import|one|few|many...]

`tools/dev bench python` runs it with the Python that has the module. Prints rows as tests/benchmarks/bars.cc does: the
median over the rounds of this library's time over the peer's, and whether it is at most the bar. Files are in memory
(/dev/shm), so the disk is not measured, unless --folder names one on a disk. Rows compare equal guarantees: "verified"
loads check every byte against a checksum, "not verified" ones check none; saves are not synchronized to the disk. A peer
that is not installed is skipped. "write()" is the least that a save can take: one call each for the same bytes. Saves
"with checksums" give more than their peer does.
"""

import argparse
import functools
import importlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import tensorcask as tc

MISSED = []


def row(name, figure, bar, unit, compared_to):
    met = figure <= bar
    if not met:
        MISSED.append(name)
    print(
        f"{name:<54} {figure:9.2f} {unit:<9} <= {bar:7.2f}  {'met' if met else 'missed':<6}  {compared_to}", flush=True
    )


def skip(what, why):
    print(f"SKIPPED: {what}: {why}", flush=True)


@functools.cache
def peer(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        skip(f"the rows beside {name}", error)
        return None


def seconds(run):
    start = time.perf_counter()
    result = run()
    elapsed = time.perf_counter() - start
    del result  # its memory goes back outside of the measured time
    return elapsed


class Bench:
    def __init__(self, folder, rounds):
        self.folder, self.rounds = folder, rounds

    def path(self, name):
        return os.path.join(self.folder, name)

    def compare(self, name, ours, theirs, beside, bar=1.0):
        """One row: the median over the rounds of our time over theirs."""
        ours(), theirs()  # pages, caches, imports
        pairs = [(seconds(ours), seconds(theirs)) for _ in range(self.rounds)]
        mine, other = (statistics.median(times) * 1e3 for times in zip(*pairs))
        row(
            name,
            statistics.median(one / two for one, two in pairs),
            bar,
            "x",
            f"{beside}: {mine:.2f} ms beside {other:.2f} ms",
        )

    def remove(self, *names):
        for name in names:
            for file in os.listdir(self.folder):
                if file == name or file.startswith(name + ".data") or file == name + ".index":
                    os.remove(self.path(file))


def write_only(path, arrays):
    with open(path, "wb", buffering=0) as file:
        for array in arrays.values():
            file.write(array)


def saves(bench, what, arrays):
    rust = peer("safetensors.numpy")
    torch = peer("torch")
    save = functools.partial(tc.save, sync=False, overwrite=True)
    bench.compare(f"save {what}: safetensors, its limit",
                  lambda: save(bench.path("a.safetensors"), arrays, checksums=False),
                  lambda: write_only(bench.path("b"), arrays),
                  "write()", bar=1.05)  # fmt: skip
    bench.remove("a.safetensors", "b")
    if rust:
        for checksums in (False, True):
            bench.compare(f"save {what}: safetensors{', with checksums' if checksums else ''}",
                          lambda: save(bench.path("a.safetensors"), arrays, checksums=checksums),
                          lambda: rust.save_file(arrays, bench.path("b.safetensors")),
                          "safetensors.numpy.save_file, which has none" if checksums else "safetensors.numpy.save_file",
                          bar=1.15 if checksums else 1.0)  # fmt: skip
        bench.remove("a.safetensors", "b.safetensors")
    bench.compare(f"save {what}: npz", lambda: save(bench.path("a.npz"), arrays),
                  lambda: np.savez(bench.path("b.npz"), **arrays), "np.savez")  # fmt: skip
    bench.remove("a.npz", "b.npz")
    if torch:
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        bench.compare(f"save {what}: checkpoint, with checksums", lambda: save(bench.path("a"), tensors),
                      lambda: torch.save(tensors, bench.path("b.pt")), "torch.save")  # fmt: skip
        bench.remove("a", "b.pt")


def load_npz(path):
    with np.load(path) as archive:
        return [archive[name] for name in archive.files]


def loads(bench, what, arrays):
    rust, torch, tensorflow = peer("safetensors.numpy"), peer("torch"), peer("tensorflow")
    model, safe, archive = bench.path("model"), bench.path("model.safetensors"), bench.path("model.npz")
    tc.save(model, arrays, sync=False)
    if tensorflow:

        def load_tensorflow():
            reader = tensorflow.train.load_checkpoint(model)
            return [reader.get_tensor(name) for name in reader.get_variable_to_shape_map()]

        bench.compare(
            f"load {what}, verified: checkpoint", lambda: tc.load(model), load_tensorflow, "tf.train.load_checkpoint"
        )
    tc.save(archive, arrays, sync=False)
    bench.compare(f"load {what}, verified: npz", lambda: tc.load(archive), lambda: load_npz(archive), "np.load")
    bench.remove("model.npz")
    if torch:
        torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, bench.path("model.pt"))
        bench.compare(f"load {what}: checkpoint, verified", lambda: tc.load(model, framework="torch"),
                      lambda: torch.load(bench.path("model.pt"), weights_only=True),
                      "torch.load, not verified")  # fmt: skip
    bench.remove("model")
    if not rust and not torch:
        return
    tc.save(safe, arrays, sync=False)
    if torch:
        bench.compare(f"load {what}, not verified: safetensors", lambda: tc.load(safe, framework="torch"),
                      lambda: torch.load(bench.path("model.pt"), weights_only=True), "torch.load")  # fmt: skip
        bench.remove("model.pt")
    if rust:
        bench.compare(f"load {what}, not verified: safetensors", lambda: tc.load(safe), lambda: rust.load_file(safe),
                      "safetensors.numpy.load_file")  # fmt: skip
    bench.remove("model.safetensors")


def one_array(bench, array):
    path = bench.path("one.npy")
    np.save(path, array)
    bench.compare(
        f"load one array of {array.nbytes >> 20} MiB: npy", lambda: tc.load(path), lambda: np.load(path), "np.load"
    )
    bench.compare(f"save one array of {array.nbytes >> 20} MiB: npy",
                  lambda: tc.save(bench.path("two.npy"), {"two": array}, sync=False, overwrite=True),
                  lambda: np.save(path, array), "np.save")  # fmt: skip
    bench.remove("one.npy", "two.npy")


def stall(bench, what, arrays):
    """How long a training loop stands still for a save."""
    torch = peer("torch")
    if not torch:
        return
    import tensorcask.torch as tct

    state = {name: torch.from_numpy(array) for name, array in arrays.items()}
    stalls, saves_of_torch = [], []
    with tct.AsyncCheckpointer(bench.path("run"), keep_last=1, sync=False) as checkpointer:
        for step in range(bench.rounds + 1):
            checkpointer.wait()
            stalls.append(seconds(lambda: checkpointer.save(step, state)))
            checkpointer.wait()
            saves_of_torch.append(seconds(lambda: torch.save(state, bench.path("b.pt"))))
    mine, other = statistics.median(stalls[1:]), statistics.median(saves_of_torch[1:])
    row(f"stall of a save in the background, {what}", mine / other, 1.0, "x",
        f"torch.save: {mine * 1e3:.2f} ms beside {other * 1e3:.2f} ms")  # fmt: skip
    shutil.rmtree(bench.path("run"))
    bench.remove("b.pt")


def import_time(rounds):
    def started(program):
        return seconds(lambda: subprocess.run([sys.executable, "-c", program], check=True))

    pairs = [(started("import numpy, tensorcask"), started("import numpy")) for _ in range(rounds)]
    row("import beside the import of NumPy", statistics.median(one - two for one, two in pairs) * 1e3, 60, "ms",
        f"NumPy and Python alone: {statistics.median(two for _, two in pairs) * 1e3:.0f} ms")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=1024, help="of all tensors together (default: 1024)")
    parser.add_argument("--small", type=int, default=10_000, help="tensors of the second set (default: 10000)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="the files are in a new folder in this one (default: /dev/shm, or $TMPDIR)")
    parser.add_argument(
        "rows", nargs="*", choices=["import", "one", "few", "many"],
        help="those of one array, of 64 tensors, of many small ones, and the time of the import (default: all)",
    )  # fmt: skip
    arguments = parser.parse_args()
    wanted = arguments.rows or ["import", "one", "few", "many"]
    if "import" in wanted:
        import_time(max(arguments.rounds, 3))
    numbers = np.random.default_rng(1).standard_normal(arguments.mib << 18, np.float32)
    few = {f"layers.{i}.weight": part for i, part in enumerate(np.split(numbers, 64))}
    size = max(1, numbers.size // arguments.small)
    many = {f"layers.{i}.attention.weight": numbers[i * size : (i + 1) * size] for i in range(arguments.small)}
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(dir=arguments.folder or memory)
    bench = Bench(folder, arguments.rounds)
    try:
        if "one" in wanted:
            one_array(bench, numbers[: numbers.size // 4])
        for rows, what, arrays in [
            ("few", f"{arguments.mib} MiB as 64 tensors", few),
            ("many", f"{arguments.mib} MiB as {arguments.small}", many),
        ]:
            if rows not in wanted:
                continue
            saves(bench, what, arrays)
            loads(bench, what, arrays)
            stall(bench, what, arrays)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if MISSED:
        print(f"{len(MISSED)} missed")


if __name__ == "__main__":
    main()
