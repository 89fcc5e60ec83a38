"""The program `tensorcask` comes with the package."""

import importlib.metadata
import os
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

import tensorcask as tc
import tensorcask.__main__ as main_module


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


def test_python_runs_it_as_a_module(program, tmp_path):
    tc.save(tmp_path / "model", {"w": np.ones(3)})
    done = run(sys.executable, "-m", "tensorcask", "ls", str(tmp_path / "model"))
    assert done.returncode == 0 and done.stdout == run(program, "ls", str(tmp_path / "model")).stdout
    assert run(sys.executable, "-m", "tensorcask", "ls", str(tmp_path / "none")).returncode == 1


def test_the_module_finds_the_program_on_the_path(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda *_: str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main_module.program() is None
    with pytest.raises(SystemExit, match="the program tensorcask is not installed"):
        main_module.main()
    (tmp_path / "tensorcask").write_text("#!/bin/sh\n")
    (tmp_path / "tensorcask").chmod(0o755)
    assert main_module.program() == str(tmp_path / "tensorcask")
