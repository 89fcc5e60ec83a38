"""Fixtures of the tests of the Python module on a GPU, and an end to tests that hang."""

import faulthandler
import json
import os
import shutil
import signal
import sys

import gpu_arrays
import pytest

# Of one test; all of them take about a minute. Under compute-sanitizer all is slow.
SECONDS = 25 if not any("SANITIZER" in name or "INJECTION" in name for name in os.environ) else 100


@pytest.fixture
def torch():
    return gpu_arrays.need("torch")


@pytest.fixture
def cupy():
    return gpu_arrays.need("cupy")


@pytest.fixture
def jax():
    return gpu_arrays.need("jax")


@pytest.fixture(params=gpu_arrays.NAMES)
def framework(request):
    return gpu_arrays.FRAMEWORKS[request.param]()


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    shutil.rmtree(tmp_path, ignore_errors=True)  # some are large


def _too_slow(number, frame):
    raise TimeoutError(f"the test takes more than {SECONDS} s")


@pytest.fixture(autouse=True)
def limit_of_time():
    """Raises in a test that is slow; ends the process, with the place in the code, if it does not come back at all."""
    before = signal.signal(signal.SIGALRM, _too_slow)
    signal.alarm(SECONDS)
    faulthandler.dump_traceback_later(SECONDS + 10, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# ---- Lines for frameworks_run.py, which goes on after a test that ended the process ----------------------------------


def _note(test, outcome, message=""):
    if path := os.environ.get("TENSORCASK_GPU_TEST_LOG"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"case": test, "outcome": outcome, "message": message}) + "\n")


def pytest_runtest_logstart(nodeid, location):
    _note(nodeid, "started")


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        message = ""
        if report.outcome == "skipped":
            message = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        elif report.outcome == "failed":
            message = "\n".join(report.longreprtext.splitlines()[-14:])
        _note(report.nodeid, report.outcome, message)
