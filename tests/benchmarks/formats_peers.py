#!/usr/bin/env python3
"""Safetensors, npy, npz, GGUF, ONNX and PyTorch files by this library and by the programs of others, in turns, in one
run.

    tests/benchmarks/formats_peers.py    # by a Python with tests/peers/requirements-light.txt, from the root, after
                                         # `bazel build //tests/benchmarks:formats //tools:tensorcask`

Prints rows as tests/benchmarks/bars.cc does. safetensors' Python package is its Rust library with a thin layer above:
safe_open maps the file and parses the header, as the reader of this library does. What Python itself costs is in its
figures. Rows with ONNX and with PyTorch are there if these are installed.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import gguf
import gguf.quants
import numpy
import safetensors
import safetensors.numpy

try:
    import onnx
    import onnx.numpy_helper
except ImportError:
    onnx = None
try:
    import torch
except ImportError:
    torch = None

PROGRAM = "bazel-bin/tests/benchmarks/formats"
TOOL = os.environ.get("TENSORCASK", "bazel-bin/tools/tensorcask")
ROUNDS = 5
MISSED = []


def row(name, figure, bar, unit, compared_to):
    met = figure <= bar
    if not met:
        MISSED.append(name)
    print(f"{name:<54} {figure:9.2f} {unit:<9} <= {bar:7.2f}  {'met' if met else 'missed':<6}  {compared_to}", flush=True)


def ours(what, path, rounds):
    """Seconds of each of `rounds` repetitions in a program of this library."""
    output = subprocess.run([PROGRAM, what, path, str(rounds)], check=True, capture_output=True, text=True).stdout
    return [float(line) for line in output.split()]


def theirs(run, rounds):
    run()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return seconds


def ratio(what, path, run, repetitions):
    """The median over rounds of this library's median time over theirs, and both in milliseconds."""
    ratios, mine, other = [], [], []
    for _ in range(ROUNDS):
        mine.append(statistics.median(ours(what, path, repetitions)))
        other.append(statistics.median(theirs(run, repetitions)))
        ratios.append(mine[-1] / other[-1])
    return statistics.median(ratios), statistics.median(mine) * 1e3, statistics.median(other) * 1e3


def compare(name, what, path, run, repetitions, peer, bar=1.0):
    figure, mine, other = ratio(what, path, run, repetitions)
    row(name, figure, bar, "x", f"{peer}: {mine:.2f} ms beside {other:.2f} ms")


def opened(path):
    with safetensors.safe_open(path, "np") as file:
        return len(file.keys())


def load_archive(path):
    with numpy.load(path) as archive:
        return [archive[name] for name in archive.files]


def gguf_file(path, tensors, texts=0, raw_dtype=None):
    writer = gguf.GGUFWriter(path, "test")
    if texts:
        writer.add_array("tokens", [f"token {i}" for i in range(texts)])
        writer.add_array("merges", [f"a{i} b{i}" for i in range(texts)])
    for name, array in tensors.items():
        writer.add_tensor(name, array, raw_dtype=raw_dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_rows(folder):
    path = os.path.join(folder, "m.gguf")
    small = numpy.zeros(8, numpy.float32)
    for name, tensors, texts in (("128,000 tokens and merges", 0, 128_000), ("10,000 tensors", 10_000, 0),
                                 ("30,000 tensors", 30_000, 0)):  # fmt: skip
        gguf_file(path, {f"blk.{i}.weight": small for i in range(tensors)}, texts)
        compare(f"gguf: open {name}", "open-gguf", path, lambda: gguf.GGUFReader(path), 3, "gguf.GGUFReader")
    for kind, (elements, size) in gguf.constants.GGML_QUANT_SIZES.items():
        blocks = numpy.random.default_rng(2).integers(0, 256, (64, (1 << 14) // elements * size), numpy.uint8)
        if elements == 1 or kind.name in ("Q8_1", "Q8_K", "Q1_0"):  # which gguf.quants does not decode
            continue
        gguf_file(path, {"w": blocks}, raw_dtype=kind)
        mine = statistics.median(ours("read-gguf", path, 21))
        with numpy.errstate(all="ignore"):
            other = statistics.median(theirs(lambda: gguf.quants.dequantize(blocks, kind), 3))  # noqa: B023
        row(f"gguf: decode {kind.name.lower()}", mine / other, 1 / 40, "x",
            f"gguf.quants: {blocks.shape[0] * (1 << 14) / mine / 1e6:.0f} million elements/s")


def torch_rows(folder):
    peer = f"torch {torch.__version__}"
    large = os.path.join(folder, "large.pt")
    torch.save({f"model.layers.{i}.weight": torch.rand(5 << 18) for i in range(200)}, large)
    compare("torch: load 1000 MiB in 200 tensors, verified", "load-torch", large,
            lambda: torch.load(large, weights_only=True), 3, peer)  # fmt: skip
    compare("torch: map 1000 MiB in 200 tensors, with open", "map-torch", large,
            lambda: torch.load(large, weights_only=True, mmap=True), 5, peer)  # fmt: skip
    os.remove(large)
    many = os.path.join(folder, "many.pt")
    tensors = {f"model.layers.{i}.weight": torch.rand(16) for i in range(10_000)}
    torch.save(tensors, many)
    compare("torch: open 10,000 tensors", "open-torch", many, lambda: torch.load(many, weights_only=True), 3, peer)
    compare("torch: open and read 10,000 tensors", "load-torch", many,
            lambda: torch.load(many, weights_only=True), 3, peer, 0.1)  # fmt: skip
    compare("torch: write 10,000 tensors", "save-torch", many, lambda: torch.save(tensors, many), 3, peer, 0.1)
    os.remove(many)


def seconds_of(run, target):
    """The median over rounds; `run` makes `target`."""
    found = []
    for _ in range(ROUNDS):
        if os.path.exists(target):
            os.remove(target)
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def dcp_rows(folder):
    """A checkpoint of eight processes, 72 MiB each, becomes one file. Processes start and end, which is in the figures."""
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save  # noqa: PLC0415

    step, one, copy = (os.path.join(folder, name) for name in ("step", "one", "copy"))
    subprocess.run([sys.executable, "tests/peers/dcp_peer.py", "8", "large", step], check=True)
    files = [os.path.join(step, name) for name in sorted(os.listdir(step)) if name.endswith(".distcp")]
    mine = seconds_of(lambda: subprocess.run([TOOL, "convert", step, one + ".safetensors"], check=True,
                                             capture_output=True), one + ".safetensors")  # fmt: skip
    other = seconds_of(lambda: dcp_to_torch_save(step, one), one)
    with_cp = seconds_of(lambda: subprocess.run(f"cat {' '.join(files)} > {copy}", shell=True, check=True), copy)
    row("dcp: convert 8 x 72 MiB to one safetensors", mine / other, 1.0, "x",
        f"dcp_to_torch_save: {mine * 1e3:.0f} ms beside {other * 1e3:.0f} ms")  # fmt: skip
    row("dcp: the same, beside a copy of the files", mine / with_cp, 1 / 0.6, "x", f"cat: {with_cp * 1e3:.0f} ms")
    shutil.rmtree(step)
    for path in (one, one + ".safetensors", copy):
        os.remove(path)


def load_onnx(path):
    model = onnx.load(path)
    folder = os.path.dirname(path)
    return [onnx.numpy_helper.to_array(tensor, folder).shape for tensor in model.graph.initializer]


def onnx_rows(folder):
    peer = f"onnx {onnx.__version__}"
    many = os.path.join(folder, "many.onnx")

    def save(arrays, path, **options):
        initializers = [onnx.numpy_helper.from_array(array, f"w{i}") for i, array in enumerate(arrays)]
        onnx.save(onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], initializers)), path, **options)

    save([numpy.zeros(16, numpy.float32)] * 10_000, many)
    compare("onnx: open 10,000 initializers", "open-onnx", many, lambda: onnx.load(many), 5, peer)
    large = os.path.join(folder, "large.onnx")
    save([numpy.full(5 << 18, i, numpy.float32) for i in range(200)], large, save_as_external_data=True,
         location="large.data")  # fmt: skip
    compare("onnx: load 1000 MiB of external data", "load-onnx", large, lambda: load_onnx(large), 3, peer)
    os.remove(large)
    os.remove(os.path.join(folder, "large.data"))


def main():
    if not os.path.exists(PROGRAM):
        sys.exit(f"formats_peers: {PROGRAM} is not built")
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    try:
        gguf_rows(folder)
        if onnx is not None:
            onnx_rows(folder)
        if torch is not None:
            torch_rows(folder)
            if os.path.exists(TOOL):
                dcp_rows(folder)
            else:
                print(f"SKIPPED: distributed checkpoints: {TOOL} is not built")
        many = os.path.join(folder, "many.safetensors")
        small = numpy.zeros((2, 3), numpy.float32)
        safetensors.numpy.save_file(
            {f"model.layers.{i}.self_attn.q_proj.weight": small for i in range(10_000)}, many)
        rust = f"safetensors {safetensors.__version__} (Rust, from Python)"
        compare("safetensors: open 10,000 tensors", "open", many, lambda: opened(many), 21, rust)

        numbers = numpy.random.default_rng(1).standard_normal((64, 4 << 20), numpy.float32)
        model = os.path.join(folder, "model.safetensors")
        safetensors.numpy.save_file({f"layer{i}": numbers[i] for i in range(64)}, model)
        compare("safetensors: load 1 GiB, fresh memory", "load-safetensors", model,
                lambda: safetensors.numpy.load_file(model), 3, "safetensors.numpy.load_file")
        os.remove(model)

        array = numbers[:16].reshape(4, -1).copy()
        del numbers
        npy, npz = os.path.join(folder, "w.npy"), os.path.join(folder, "w.npz")
        version = f"NumPy {numpy.__version__}"
        compare("npy: save 256 MiB", "save-npy", npy, lambda: numpy.save(npy, array), 3, f"np.save, {version}")
        compare("npy: load 256 MiB, fresh memory", "load-npy", npy, lambda: numpy.load(npy), 3, f"np.load, {version}")
        compare("npz: save 256 MiB, stored", "save-npz", npz, lambda: numpy.savez(npz, w=array), 3,
                f"np.savez, {version}")
        compare("npz: load 256 MiB, verified, fresh memory", "load-npz", npz, lambda: load_archive(npz), 3,
                f"np.load, {version}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if MISSED:
        print(f"{len(MISSED)} missed")


if __name__ == "__main__":
    main()
