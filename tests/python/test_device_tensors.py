"""Tensors in memory of a GPU, errors of devices, and processes, with a driver that needs no GPU: fake_gpu.py has it."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import tensorcask as tc
from fake_gpu import DeviceArray, bits, driver, library, look_into, on_gpu, settled, the_driver  # noqa: F401

pytestmark = pytest.mark.skipif(library()[0] is None, reason=str(library()[1]))
ARRAY = np.arange(600, dtype=np.float32).reshape(20, 30)


@pytest.fixture
def tensor():
    tc.save("tensor", {"w": ARRAY})
    return on_gpu("tensor")["w"]


def test_what_a_tensor_says(tensor):
    assert (tensor.device, tensor.dtype, tensor.shape, tensor.nbytes) == ("cuda:0", "float32", (20, 30), 2400)
    assert "cuda:0" in repr(tensor) and "float32" in repr(tensor) and "float32" in tensor._repr_html_()
    assert tc.Tensor(ARRAY).device == "cpu" and tc.Tensor(ARRAY).__dlpack_device__() == (1, 0)


def test_capsules(tensor, driver):
    pointers = set()
    for stream in (None, -1, 1, driver.stream()):
        for arguments in ({"max_version": (1, 0)}, {"max_version": (1, 3), "dl_device": (2, 0)}):
            found = look_into(tensor.__dlpack__(stream=stream, **arguments))
            assert (found.device_type, found.device_id, found.ndim) == (2, 0, 2)
            pointers.add(found.data)
    assert len(pointers) == 1
    copied = look_into(tensor.__dlpack__(copy=True))
    assert (copied.device_type, copied.device_id) == (2, 0) and copied.data not in pointers
    for wrong in (0, -2):
        with pytest.raises(ValueError, match="stream"):
            tensor.__dlpack__(stream=wrong)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(1, 0), copy=False)
    assert bits(np.from_dlpack(tensor, device="cpu")) == bits(ARRAY)


def test_both_forms_of_capsules_share_the_memory(tensor):
    pointer = look_into(tensor.__dlpack__(max_version=(1, 0), copy=False)).data
    for arguments in ({}, {"stream": 1}, {"max_version": (0, 8)}, {"copy": False}):
        assert look_into(tensor.__dlpack__(**arguments)).data == pointer


@pytest.mark.parametrize("stream", ["x", 1.5, [1]])
def test_a_stream_that_is_no_number(tensor, stream):
    with pytest.raises(TypeError):
        tensor.__dlpack__(stream=stream)


def test_views_of_a_tensor(tensor):
    base = look_into(tensor.__dlpack__(max_version=(1, 0))).data
    for view, wanted, offset in [(tensor[3], ARRAY[3], 360), (tensor.T, ARRAY.T, 0), (tensor[2:9:3, ::2],
                                 ARRAY[2:9:3, ::2], 240), (tensor[::-1], ARRAY[::-1], 2280)]:  # fmt: skip
        assert view.device == "cuda:0" and look_into(view.__dlpack__(max_version=(1, 0))).data == base + offset
        assert bits(view.numpy()) == bits(np.ascontiguousarray(wanted))


def test_operations_copy_to_the_host_or_refuse(tensor):
    assert tc.Tensor(ARRAY).equal(tensor) and tc.Tensor(ARRAY).equal(DeviceArray(ARRAY))
    assert not tc.Tensor(ARRAY).equal(DeviceArray(ARRAY + 1))
    assert bits(np.asarray(tensor)) == bits(ARRAY)
    copy = tensor.numpy()
    copy.setflags(write=True)
    copy[:] = 0
    assert bits(tensor.numpy()) == bits(ARRAY)
    for operation, wanted in [
        (lambda: tensor.clone(), ARRAY),
        (lambda: tensor.T.contiguous(), ARRAY.T),
        (lambda: tensor.T.reshape(600), ARRAY.T.reshape(600)),
        (lambda: tensor.astype("int64"), ARRAY.astype(np.int64)),
        (lambda: tensor.lazy_clone(), ARRAY),
        (lambda: tensor.equal(tensor), np.True_),
        (lambda: tensor.equal(ARRAY + 1), np.False_),
    ]:
        try:
            result = operation()
        except tc.Error as error:
            assert "cuda:0" in str(error)
        else:
            assert np.asarray(result).tolist() == wanted.tolist()


def test_a_tensor_on_the_memory_of_an_array():
    array = np.arange(12, dtype=np.float32)
    tensor = tc.Tensor(DeviceArray(array))
    assert tensor.device == "cuda:0" and look_into(tensor.__dlpack__(max_version=(1, 0))).data == array.ctypes.data
    assert bits(tensor.numpy()) == bits(array)
    before = settled()
    del tensor
    assert settled() < before


def test_assignment_from_a_gpu():
    tensor = tc.Tensor(np.zeros(10, np.float32)).clone()
    tensor[2:5] = DeviceArray(np.full(3, 7, np.float32))
    assert tensor.numpy().sum() == 21


def run(program, **environment):
    """Runs a program of its own. Returns its output."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, f"status {done.returncode} after {done.stdout!r}: {done.stderr}"
    return done.stdout


# ---- Errors ---------------------------------------------------------------------------------------------------------


def test_without_a_driver():
    tc.save("model", {"w": np.ones(3)})
    out = run(
        """
        import numpy as np, tensorcask as tc
        from fake_gpu import DeviceArray
        calls = {
            "load": lambda: tc.load("model", framework="tensorcask", device="cuda:0"),
            "save": lambda: tc.save("other", {"w": DeviceArray(np.ones(3))}),
            "read_into": lambda: tc.open("model").read_into("w", DeviceArray(np.ones(3))),
        }
        for name, call in calls.items():
            try:
                call()
            except tc.UnimplementedError as error:
                assert "none.so" in str(error), error
                print(name)
        assert tc.load("model")["w"].sum() == 3
        """,
        TENSORCASK_CUDA_LIBRARY="/nowhere/none.so",
        PYTHONPATH=os.path.dirname(os.path.realpath(__file__)),
    )
    assert out.split() == ["load", "save", "read_into"]


def test_a_gpu_that_is_full():
    tc.save("model.safetensors", {"w": np.zeros(80 << 20, np.uint8)}, sync=False)  # the device has 64 MiB
    with pytest.raises(MemoryError, match="cuda:0"):
        on_gpu("model.safetensors")
    tc.save("small", {"w": np.ones(3)})
    assert on_gpu("small")["w"].numpy().sum() == 3


def test_errors_of_the_driver(driver):
    tc.save("model", {"w": ARRAY})
    with driver.failing("copy"):
        with pytest.raises(tc.Error, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
            on_gpu("model")
        with pytest.raises(tc.Error, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
            tc.save("other", {"w": DeviceArray(ARRAY)})
    assert not os.path.exists("other.index")
    assert bits(on_gpu("model")["w"].numpy()) == bits(ARRAY)


def test_an_array_that_refuses():
    class Refusing(DeviceArray):
        def __dlpack__(self, **arguments):
            raise BufferError("not now")

    with pytest.raises((BufferError, TypeError)):
        tc.save("model", {"w": Refusing(ARRAY)})


# ---- Processes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "os.fork() or sys.exit(0); os.wait()"])
def test_exit_with_live_tensors(end):
    tc.save("model", {"w": ARRAY})
    assert (
        run(
            f"""
            import os, sys, tensorcask as tc
            tensors = tc.load("model", framework="tensorcask", device="cuda:0")
            sys.modules["kept"] = tensors["w"].T
            capsule = tensors["w"].__dlpack__(max_version=(1, 0))
            print(float(tensors["w"].numpy().sum()), flush=True)
            {end}
            """
        )
        == "179700.0\n"
    )


def test_deleted_in_another_thread():
    tc.save("model", {"w": ARRAY})
    for _ in range(5):
        tensors = [on_gpu("model")["w"]]
        thread = threading.Thread(target=tensors.clear)
        thread.start()
        thread.join()
    assert bits(on_gpu("model")["w"].numpy()) == bits(ARRAY)


def test_loads_do_not_take_more_and_more(driver):
    tc.save("model", {"w": np.zeros(1 << 20, np.uint8)})
    live = []
    for _ in range(20):
        tensor = on_gpu("model")["w"]
        assert tensor.numpy().sum() == 0
        del tensor
        live.append(driver.functions.FakeCudaLive())
    assert live[-1] <= live[2] + 2, live
