#!/usr/bin/env python3
"""Runs the tests with other programs: run.py light|all [-v] [TEST...]

`tools/dev peers` calls it with the Python of the virtual environment that it made. `light` needs what
requirements-light.txt names, `all` what requirements-all.txt names. TEST is a name as unittest takes it:
tensorflow_peer.Checkpoints.test_slices. Prints how many tensors went each way, and last: N passed, N failed, N skipped.
"""

import importlib.metadata
import os
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


def main(arguments):
    if not arguments or arguments[0] not in MODULES:
        print("usage: run.py light|all [-v] [TEST...]", file=sys.stderr)
        return 2
    scope, *rest = arguments
    verbosity = 2 if "-v" in rest else 1
    wanted = [name for name in rest if name != "-v"]
    print(f"peers: Python {sys.version.split()[0]}, {versions(scope)}", flush=True)
    suite = unittest.defaultTestLoader.loadTestsFromNames(wanted or MODULES[scope])
    result = unittest.TextTestRunner(resultclass=Result, verbosity=verbosity).run(suite)
    for test, reason in result.skipped:
        print(f"SKIPPED {test.id()}: {reason}")
    for (program, way), count in peer.carried_counts():
        print(f"{count:9,} tensors: {program}: {way}")
    for line in peer.findings():
        print(line)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped", flush=True)
    return 1 if failed or not result.passed else 0


if __name__ == "__main__":
    # TensorFlow's threads may still run: leave without waiting for them.
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)
