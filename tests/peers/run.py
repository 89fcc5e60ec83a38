#!/usr/bin/env python3
"""Runs the tests with other programs: run.py light|all [-v] [TEST...]

`tools/dev peers` calls it with the Python of the virtual environment that it made. `light` needs what
requirements-light.txt names, `all` what requirements-all.txt names. TEST is a name as unittest takes it:
tensorflow_peer.Checkpoints.test_slices. Prints how many tensors went each way, and last: N passed, N failed, N skipped.
Each module has a process of its own: TensorFlow and the compiler of PyTorch bring two copies of LLVM, which end a
process that loads both.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import peer  # noqa: E402

MODULES = {
    "light": ["values_peer", "archives_peer", "gguf_peer", "onnx_peer", "object_store_peer"],
    "all": [
        "values_peer",
        "archives_peer",
        "gguf_peer",
        "onnx_peer",
        "object_store_peer",
        "torch_peer",
        "dcp_peer",
        "messages_peer",
        "tensorflow_peer",
        "tensorflow_forms_peer",
        "tensorflow_damage_peer",
    ],
}


class Result(unittest.TextTestResult):
    passed = 0

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1
        if time.monotonic() - self.started > 20:
            self.stream.writeln(f"({test.id()}: {time.monotonic() - self.started:.0f} s)")


def versions(scope):
    names = {"light": ["numpy", "ml_dtypes", "safetensors", "gguf", "onnx", "moto", "boto3"]}
    names["all"] = names["light"] + ["tensorflow_cpu", "keras", "protobuf", "jax", "torch"]
    names["all"] += ["s3fs", "obstore", "tensorstore"]
    found = []
    for name in names[scope]:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} is not installed")
    return ", ".join(found)


def run_tests(names, verbosity):
    """Runs the tests in this process, and prints what went each way. Returns the counts of the last line."""
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(resultclass=Result, verbosity=verbosity).run(suite)
    for test, reason in result.skipped:
        print(f"SKIPPED {test.id()}: {reason}")
    for (program, way), count in peer.carried_counts():
        print(f"{count:9,} tensors: {program}: {way}")
    for line in peer.findings():
        print(line)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    return result.passed, failed, len(result.skipped)


def run_module(scope, module, options):
    """Runs the tests of a module in a process of its own. One that ends without its counts is one failed test."""
    command = [sys.executable, os.path.realpath(__file__), scope, *options, module]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    counts = None
    for line in process.stdout:
        counts = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped\n", line)
        if not counts:
            print(line, end="", flush=True)
    status = process.wait()
    if counts:
        return tuple(map(int, counts.groups()))
    print(f"{module}: its process ended with {status}", flush=True)
    return 0, 1, 0


def main(arguments):
    if not arguments or arguments[0] not in MODULES:
        print("usage: run.py light|all [-v] [TEST...]", file=sys.stderr)
        return 2
    scope, *rest = arguments
    options = ["-v"] if "-v" in rest else []
    wanted = [name for name in rest if name != "-v"]
    if wanted:
        counts = run_tests(wanted, 2 if options else 1)
    else:
        print(f"peers: Python {sys.version.split()[0]}, {versions(scope)}", flush=True)
        counts = [sum(column) for column in zip(*(run_module(scope, module, options) for module in MODULES[scope]))]
    passed, failed, skipped = counts
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    # TensorFlow's threads may still run: leave without waiting for them.
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)
