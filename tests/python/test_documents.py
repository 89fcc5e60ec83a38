"""The examples of the docstrings and of docs/python.md run, and the types are those that mypy finds."""

import doctest
import importlib
import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tensorcask as tc
from tensorcask import _native, keras, trees

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FRAMEWORKS = ("torch", "keras", "jax")


def modules():
    yield from (keras, trees)
    for framework in ("jax", "torch"):
        if importlib.util.find_spec(framework) is not None:
            yield importlib.import_module(f"tensorcask.{framework}")


def documented():
    """(name, object) of everything public, and of its members."""
    yield "tensorcask", tc
    for module in modules():
        yield module.__name__, module
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)
    for name in tc.__all__:
        thing = getattr(tc, name)
        yield name, thing
        if inspect.isclass(thing) and thing.__module__.startswith("tensorcask._native"):
            for member, value in vars(thing).items():
                if not member.startswith("_"):
                    yield f"{name}.{member}", value


@pytest.mark.parametrize("name, thing", [pair for pair in documented() if ">>>" in (pair[1].__doc__ or "")])
def test_examples(name, thing, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", os.environ.get("KERAS_BACKEND", "torch"))
    for framework in FRAMEWORKS:
        if f"import {framework}" in thing.__doc__:
            pytest.importorskip(framework)
    if "# needs grpc" in thing.__doc__ and importlib.util.find_spec("tensorcask._grpc") is None:
        pytest.skip("the package was built without gRPC: it has no tensorcask._grpc")
    examples = doctest.DocTestParser().get_doctest(thing.__doc__, {}, name, None, 0)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples).failed == 0


def test_the_page():
    page = ROOT / "docs" / "python.md"
    results = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert results.attempted > 10 and results.failed == 0


def test_the_page_about_other_hosts():
    if importlib.util.find_spec("tensorcask._grpc") is None:
        pytest.skip("the package was built without gRPC: it has no tensorcask._grpc")
    page = ROOT / "docs" / "guide" / "exchange.md"
    results = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert results.attempted > 10 and results.failed == 0


def test_everything_public_has_a_docstring():
    for name, thing in documented():
        if inspect.isclass(thing) or inspect.isfunction(thing) or inspect.ismodule(thing):
            assert thing.__doc__, name


# What another user, another process or an absent package causes.
WITHOUT_EXAMPLE = {"CancelledError", "MissingFrameworkError", "NoPermissionError", "UnavailableError",
                   "UnimplementedError"}  # fmt: skip


def test_everything_public_has_an_example():
    public = [(name, thing) for name, thing in documented() if inspect.isclass(thing) or inspect.isroutine(thing)]
    lacking = {name for name, thing in public if "." not in name and ">>>" not in thing.__doc__}
    assert lacking == WITHOUT_EXAMPLE
    assert not {name for name, thing in public if name.startswith("tensorcask.") and ">>>" not in thing.__doc__}


def mypy(*arguments, cwd):
    pytest.importorskip("mypy")
    return subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", os.devnull, *arguments], capture_output=True,
                          text=True, cwd=cwd)  # fmt: skip


def test_mypy_finds_the_types(tmp_path):
    stub = pathlib.Path(_native.__file__).with_name("_native.pyi")
    if not stub.exists():
        pytest.skip("the module was built without its stub")
    (tmp_path / "program.py").write_text(
        textwrap.dedent(
            """
            import tensorcask as tc
            with tc.open("model") as reader:
                reveal_type(reader["w"])
                reveal_type(reader.entry("w").shape)
                reveal_type(reader.slice("w")[0, 1:])
            reveal_type(tc.load("model"))
            reveal_type(tc.save("model", {}))
            reveal_type(tc.latest("run"))
            tc.save(3, {})
            reader.entry(b"w", 3)
            """
        )
    )
    done = mypy("--strict", "program.py", cwd=tmp_path)
    for wanted in ["numpy.ndarray", "tuple[int, ...]", "dict[str, Any]", "int", "tuple[int, str] | None",
                   'incompatible type "int"', "Too many arguments"]:  # fmt: skip
        assert wanted in done.stdout, done.stdout
    assert "Found 3 errors" in done.stdout, done.stdout


def test_mypy_accepts_the_package(tmp_path):
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("numpy.ndarray of NumPy 1 needs type arguments")
    if not pathlib.Path(_native.__file__).with_name("_native.pyi").exists():
        pytest.skip("the module was built without its stub")
    done = mypy("--strict", "--ignore-missing-imports", "-p", "tensorcask", cwd=tmp_path)
    of_torch = ("/torch.py", "/_torch_state.py", "/_torch_jobs.py", "/_dcp.py")  # PyTorch, which mypy may not find
    problems = [line for line in done.stdout.splitlines() if "error" in line and not any(map(line.count, of_torch))]
    assert not [line for line in problems if not line.startswith("Found")], done.stdout


def test_the_import_is_light():
    program = """
        import sys, numpy, time
        start = time.perf_counter()
        import tensorcask
        print(time.perf_counter() - start)
        assert not {"torch", "jax", "ml_dtypes", "tensorflow"} & sys.modules.keys()
        """
    times = [
        float(subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]  # fmt: skip
    assert min(times) < 0.06, times
