"""The program `tensorcask` comes with the package."""

import importlib.metadata
import os
import subprocess
import sysconfig

import numpy as np
import pytest

import tensorcask as tc


@pytest.fixture
def program():
    try:
        importlib.metadata.distribution("tensorcask")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the module was not installed as a package")
    return os.path.join(sysconfig.get_path("scripts"), "tensorcask")


def run(*arguments):
    return subprocess.run(arguments, capture_output=True, text=True)


def test_the_program_has_the_version_of_the_module(program):
    done = run(program, "--version")
    assert done.returncode == 0 and tc.__version__ in done.stdout


def test_the_program_reads_what_the_module_writes(program, tmp_path):
    tc.save(tmp_path / "model", {"dense/kernel": np.ones((4, 3), np.float32)})
    done = run(program, "ls", str(tmp_path / "model"))
    assert done.returncode == 0 and "dense/kernel" in done.stdout and "float32" in done.stdout
    assert run(program, "ls", str(tmp_path / "none")).returncode == 1
