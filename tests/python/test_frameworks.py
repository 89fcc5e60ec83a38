"""PyTorch and JAX: imported only when the caller asks for them, and a clear error where they are absent."""

import importlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tensorcask as tc

FRAMEWORKS = {"torch": "PyTorch", "jax": "JAX"}


@pytest.fixture
def absent(monkeypatch, request):
    """The framework cannot be imported."""
    monkeypatch.setitem(sys.modules, request.param, None)
    monkeypatch.delitem(sys.modules, "tensorcask.torch", raising=False)
    return request.param


@pytest.mark.parametrize("absent", FRAMEWORKS, indirect=True)
def test_an_absent_framework_is_an_import_error(absent):
    tc.save("model.npz", {"w": np.ones(3, np.float32)})
    with pytest.raises(
        tc.MissingFrameworkError, match=f"{FRAMEWORKS[absent]} cannot be imported .*install the package"
    ) as caught:
        tc.load("model.npz", framework=absent)
    assert isinstance(caught.value, ImportError) and isinstance(caught.value, tc.Error)
    with pytest.raises(tc.MissingFrameworkError):  # before the file is opened
        tc.load("no such file", framework=absent)
    assert tc.load("model.npz")["w"].sum() == 3


@pytest.mark.parametrize("absent", ["torch"], indirect=True)
def test_the_module_for_pytorch_needs_it(absent):
    with pytest.raises(tc.MissingFrameworkError, match="PyTorch cannot be imported"):
        importlib.import_module("tensorcask.torch")


def run(program):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_is_imported_when_it_is_asked_for(name):
    pytest.importorskip(name)
    run(
        f"""
        import sys, numpy as np, tensorcask as tc
        tc.save("model.npz", {{"w": np.arange(6, dtype=np.float32).reshape(2, 3)}})
        tc.load("model.npz", framework="tensorcask")
        assert {name!r} not in sys.modules
        w = tc.load("model.npz", framework={name!r})["w"]
        assert {name!r} in sys.modules and type(w).__module__.startswith({name!r}), type(w)
        assert w.shape == (2, 3) and float(w.sum()) == 15
        """
    )


def test_torch_gets_the_memory_of_the_library():
    torch = pytest.importorskip("torch")
    tc.save("model.npz", {"w": np.arange(4, dtype=np.float32)})
    tensor = tc.load("model.npz", framework="tensorcask")["w"]
    assert torch.from_dlpack(tensor).data_ptr() == tensor.numpy().ctypes.data
    mapped = tc.load("model.npz", framework="torch", mmap=True)["w"]
    mapped += 1  # read-only memory was copied
    assert tc.load("model.npz")["w"].tolist() == [0, 1, 2, 3] and mapped.tolist() == [1, 2, 3, 4]
    assert tc.load("model.npz", framework="torch", device="meta")["w"].device.type == "meta"


def test_text_is_not_for_frameworks():
    tc.save("text", {"s": np.array("text")})
    for name in FRAMEWORKS:
        pytest.importorskip(name)
        with pytest.raises(TypeError, match="has no strings; load them with framework='numpy'"):
            tc.load("text", framework=name)


def test_other_names_and_devices():
    with pytest.raises(ValueError, match="framework is 'tf'; wanted 'numpy', 'torch', 'jax', 'cupy' or 'tensorcask'"):
        tc.load("model.npz", framework="tf")
    with pytest.raises(ValueError, match="arrays of NumPy are on the host"):
        tc.load("model.npz", device="cpu")
