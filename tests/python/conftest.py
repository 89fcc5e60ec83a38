"""What the tests of the Python package share. `tools/dev python` runs them."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import tensorcask as tc

FORMATS = {"checkpoint": "", "safetensors": ".safetensors", "npz": ".npz", "records": ".tfrecord"}


@pytest.fixture(params=sorted(FORMATS))
def any_format(request):
    return request.param


@pytest.fixture
def path_of(tmp_path):
    """Gives the path of a file of a format in the folder of the test."""
    return lambda format, name="model": str(tmp_path / (name + FORMATS[format]))


@pytest.fixture
def tensors():
    rng = np.random.default_rng(7)
    return {
        "z/kernel": rng.standard_normal((30, 7)).astype(np.float32),
        "a/bias": np.arange(5, dtype=np.int64),
        "scalar": np.float64(2.5),
        "empty": np.zeros((0, 3), np.float16),
        "flags": np.array([True, False, True]),
    }


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def doctest_namespace_module():
    return tc


def change_elements(path, old, new):
    """Changes the elements of one tensor in place, as another program may: they no longer match their checksum."""
    file = path if os.path.exists(path) else path + ".data-00000-of-00001"
    with open(file, "rb") as source:
        content = source.read()
    assert content.count(old.tobytes()) == 1 and old.nbytes == new.nbytes
    with open(file, "wb") as target:
        target.write(content.replace(old.tobytes(), new.tobytes()))


def interrupt_when(program, folder):
    """Runs a program that prints a line before it works, and interrupts it then. Returns its status and its output."""
    # Programs that a shell starts in the background, and all that they start, ignore Ctrl-C.
    program = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + textwrap.dedent(program)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    )
    try:
        assert process.stdout.readline() == "begin\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err
