"""Loading to memory of a GPU, saving from it and read_into, with a driver that needs no GPU: fake_gpu.py has it.

test_device_tensors.py has the tests of Tensor. tests/gpu has those with PyTorch, JAX and CuPy on a real GPU.
"""

import os
import threading

import numpy as np
import pytest

import tensorcask as tc
from conftest import change_elements
from fake_gpu import DeviceArray, bits, driver, late, library, on_gpu, random_array, the_driver  # noqa: F401

pytestmark = pytest.mark.skipif(library()[0] is None, reason=str(library()[1]))
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64",
)  # fmt: skip


# ---- Loading --------------------------------------------------------------------------------------------------------


def test_every_format_loads_to_a_gpu(any_format, path_of, tensors):
    path = path_of(any_format)
    tc.save(path, tensors)
    loaded = on_gpu(path)
    assert list(loaded) == list(tc.load(path))
    for name, tensor in loaded.items():
        if tensor.size > 0:  # without elements there is no memory
            assert tensor.device == "cuda:0" and tensor.__dlpack_device__() == (2, 0)
        assert bits(tensor.numpy()) == bits(np.asarray(tensors[name]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype):
    arrays = {str(i): random_array(dtype, shape, i) for i, shape in enumerate([(), (0,), (1,), (3, 5), (40, 300)])}
    tc.save("model", arrays)
    loaded = on_gpu("model")
    assert {name: bits(tensor.numpy()) for name, tensor in loaded.items()} == {
        name: bits(array) for name, array in arrays.items()
    }
    assert all(tensor.dtype == dtype for tensor in loaded.values())


@pytest.mark.parametrize("form", ["stored", "default", "high", "sliced", "deflated", "npy"])
def test_other_forms_of_a_file(form):
    array = np.arange(2_000_003, dtype=np.int32)  # several pieces
    path = {"deflated": "model.npz", "npy": "model.npy"}.get(form, "model")
    if form == "sliced":
        with tc.Writer("model") as writer:
            writer.declare("model", "int32", array.shape)
            writer.add_slice("model", array[:700_000], start=(0,))
            writer.add_slice("model", array[700_000:], start=(700_000,))
    elif form == "deflated":
        np.savez_compressed("model.npz", model=array)
    elif form == "npy":
        np.save("model.npy", array)
    else:
        tc.save("model", {"model": array}, level=form)
    tensor = on_gpu(path)["model"]
    assert tensor.device == "cuda:0" and bits(tensor.numpy()) == bits(array)


def test_names_and_patterns():
    tc.save("model", {"a/kernel": np.ones(3), "a/bias": np.ones(2), "b/kernel": np.ones(1)})
    assert list(on_gpu("model", "*kernel")) == ["a/kernel", "b/kernel"]
    assert list(on_gpu("model", ["a/bias"])) == ["a/bias"]
    with pytest.raises(KeyError, match="none"):
        on_gpu("model", "none")


def test_names_of_devices():
    tc.save("model.npz", {"w": np.arange(6)})
    for device, name in [("cuda", "cuda:0"), ("cuda:0", "cuda:0"), ("cuda:1", "cuda:1"), ("cpu", "cpu"), (None, "cpu")]:
        tensor = on_gpu("model.npz", device=device)["w"]
        assert tensor.device == name and tensor.numpy().tolist() == list(range(6))
    with pytest.raises(tc.UnimplementedError, match="cuda:2|device 2|2 devices"):
        on_gpu("model.npz", device="cuda:2")
    for wrong in ("nonsense", "cuda:x", "cuda:-1", ""):
        with pytest.raises(tc.InvalidArgumentError, match="device"):
            on_gpu("model.npz", device=wrong)
    with pytest.raises(ValueError, match="arrays of NumPy are on the host"):
        tc.load("model.npz", device="cuda:0")


@pytest.mark.parametrize("format", ["checkpoint", "safetensors", "npz"])
def test_damage(path_of, format):
    path, array = path_of(format), np.arange(5000, dtype=np.float32)
    tc.save(path, {"good": np.ones(3), "w": array})
    change_elements(path, array, array + 1)
    with pytest.raises(tc.DataLossError, match="w.*verify=False reads the others"):
        on_gpu(path)
    assert on_gpu(path, "good")["good"].numpy().tolist() == [1, 1, 1]
    assert bits(on_gpu(path, "w", verify=False)["w"].numpy()) == bits(array + 1)


def test_a_truncated_file():
    tc.save("model", {"w": np.arange(500_000)})
    os.truncate("model.data-00000-of-00001", 3_000_000)
    with pytest.raises(tc.DataLossError, match="3000000 bytes"):
        on_gpu("model")


def test_text_stays_on_the_host():
    tc.save("model", {"text": np.array("text")})
    with pytest.raises(TypeError, match="no strings"):
        on_gpu("model")


def test_several_threads_load():
    arrays = [np.full(300_000 + i, i, np.int32) for i in range(6)]
    for i, array in enumerate(arrays):
        tc.save(f"model{i}", {"w": array})
    wrong = []

    def work(i):
        for _ in range(5):
            if bits(on_gpu(f"model{i}")["w"].numpy()) != bits(arrays[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- Saving ---------------------------------------------------------------------------------------------------------


def test_every_format_saves_from_a_gpu(any_format, path_of, tensors):
    arrays = {name: np.asarray(array).copy() for name, array in tensors.items()}
    path = path_of(any_format)
    tc.save(path, {name: DeviceArray(array) for name, array in arrays.items()})
    saved = tc.load(path)
    assert {name: bits(saved[name]) for name in saved} == {name: bits(array) for name, array in arrays.items()}
    assert tc.verify(path)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("versioned", [True, False])
def test_dtypes_and_both_forms_of_dlpack(dtype, versioned):
    arrays = {str(i): random_array(dtype, shape, i) for i, shape in enumerate([(), (0,), (1,), (3, 5), (40, 300)])}
    tc.save("model", {name: DeviceArray(array, versioned=versioned) for name, array in arrays.items()})
    assert {name: bits(array) for name, array in tc.load("model").items()} == {
        name: bits(array) for name, array in arrays.items()
    }


def test_views():
    array = np.arange(24_000, dtype=np.float32).reshape(40, 600)
    views = {
        "transposed": array.T,
        "strided": array[::2, 1::3],
        "reversed": array[::-1, ::-2],
        "row": array[3],
        "repeated": np.broadcast_to(array[0], (5, 600)),
        "permuted": array.reshape(4, 10, 600).transpose(2, 0, 1),
        "read-only": array[1:],
    }
    for path in ("model.safetensors", "model.npz", "model"):
        tc.save(path, {name: DeviceArray(view, read_only=name == "read-only") for name, view in views.items()})
        saved = tc.load(path)
        assert {name: saved[name].tolist() for name in views} == {name: view.tolist() for name, view in views.items()}


def test_arrays_of_the_host_and_of_two_gpus_in_one_file():
    mixed = {"gpu": DeviceArray(np.ones(3)), "other": DeviceArray(np.full(3, 2.0), device=1), "host": np.full(3, 3.0)}
    tc.save("model.npz", mixed)
    assert {name: float(array[0]) for name, array in tc.load("model.npz").items()} == {"gpu": 1, "other": 2, "host": 3}


def test_the_producer_gets_our_stream():
    array = DeviceArray(np.ones(3))
    tc.save("model", {"w": array})
    tc.save("other", {"w": array})
    assert len(set(array.streams)) == 1
    assert isinstance(array.streams[0], int) and array.streams[0] not in (-1, 0, None)


@pytest.mark.parametrize("path", ["model.safetensors", "model.npz", "model"])
def test_work_of_the_producer_comes_first(driver, path):
    array, part = np.zeros(300_000, np.float32), np.zeros((300, 200), np.float32)
    tc.save(
        path,
        {
            "w": DeviceArray(array, before=late(driver, array, 7)),
            "part": DeviceArray(part[::2].T, before=late(driver, part, 8)),
        },
    )
    saved = tc.load(path)
    assert saved["w"].min() == saved["w"].max() == 7 and saved["part"].min() == saved["part"].max() == 8


def test_bools_after_work_that_needs_the_interpreter(driver):
    flags = np.zeros(1000, np.bool_)
    tc.save("model", {"w": DeviceArray(flags, before=late(driver, flags, True))})
    assert tc.load("model")["w"].all()


def test_a_writer():
    rows = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    with tc.Writer("model.safetensors") as writer:
        writer.declare("rows", "float32", (1000, 4))
        writer.declare("row", "float32", (4,))
        for start in range(0, 1000, 250):
            writer.add_slice("rows", DeviceArray(rows[start : start + 250]), start=(start, 0))
        writer.add("row", DeviceArray(rows[7]))
    saved = tc.load("model.safetensors")
    assert bits(saved["rows"]) == bits(rows) and bits(saved["row"]) == bits(rows[7])


@pytest.mark.parametrize("ours", [True, False])
def test_a_save_in_the_background_has_the_values_of_the_call(ours):
    array = np.zeros(300_000, np.float32)
    with tc.CheckpointManager("run", keep_last=9) as manager:
        for step in range(3):
            array[:] = step
            if ours:
                tc.save("one", {"w": array}, overwrite=True)
                tensor = on_gpu("one")["w"]
                manager.save_in_background(step, {"w": tensor, "transposed": tensor.reshape(300, 1000).T})
            else:
                manager.save_in_background(step, {"w": DeviceArray(array), "part": DeviceArray(array[::2])})
            array[:] = -1
        manager.save(3, {"w": DeviceArray(np.full(3, 3, np.float32))})
    for step in range(4):
        assert {float(one.max()) for one in tc.load(f"run/ckpt-{step}").values()} == {step}


def test_tensors_of_the_library_are_saved():
    array = random_array("float32")
    tc.save("model", {"w": array})
    tensor = on_gpu("model")["w"]
    tc.save("again.npz", {"w": tensor, "transposed": tensor.T, "part": tensor[::2, 3:]})
    saved = tc.load("again.npz")
    assert bits(saved["w"]) == bits(array) and bits(saved["transposed"]) == bits(array.T)
    assert bits(saved["part"]) == bits(array[::2, 3:])


# ---- Reading into memory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("versioned", [True, False])
def test_read_into(any_format, path_of, tensors, versioned):
    path = path_of(any_format)
    tc.save(path, tensors)
    with tc.open(path) as reader:
        for name in reader:
            out = np.zeros_like(tensors[name])
            reader.read_into(name, DeviceArray(out, versioned=versioned))
            assert bits(out) == bits(np.asarray(tensors[name]))


def test_read_into_strides_leaves_what_is_beside():
    array = random_array("int32", (40, 30))
    tc.save("model", {"w": array})
    around, transposed = np.zeros((80, 62), np.int32), np.zeros((30, 40), np.int32)
    with tc.open("model") as reader:
        reader.read_into("w", DeviceArray(around[::2, 1:61:2]))
        reader.read_into("w", DeviceArray(transposed.T))
    assert bits(around[::2, 1:61:2]) == bits(array) and bits(transposed.T) == bits(array)
    around[::2, 1:61:2] = 0
    assert not around.any()


def test_read_into_bools_over_other_bytes():
    flags = random_array("bool", (1000,))
    tc.save("model", {"w": flags})
    out = np.full(1000, 0xAB, np.uint8).view(bool)
    with tc.open("model") as reader:
        reader.read_into("w", DeviceArray(out))
    assert bits(out) == bits(flags)


def test_read_into_many():
    arrays = {str(i): np.full(100_000 * (i % 4) + 3, i, np.float32) for i in range(12)}
    tc.save("model", arrays)
    outs = {name: np.zeros_like(array) for name, array in arrays.items()}
    with tc.open("model") as reader:
        reader.read_many_into({name: DeviceArray(out) for name, out in outs.items()}, threads=3)
        host = np.zeros_like(arrays["5"])
        reader.read_many_into({"5": host})
    assert all(bits(outs[name]) == bits(array) for name, array in arrays.items()) and bits(host) == bits(arrays["5"])


def test_work_of_the_owner_comes_before_a_read(driver):
    array = np.full(300_000, 5, np.float32)
    tc.save("model", {"w": array})
    out = np.zeros_like(array)
    with tc.open("model") as reader:
        reader.read_into("w", DeviceArray(out, before=late(driver, out, 1)))
    assert bits(out) == bits(array)  # when the call returns


def test_what_cannot_be_read_into():
    tc.save("model", {"w": np.ones((3, 4), np.float32)})
    with tc.open("model") as reader:
        for out in (np.zeros((3, 4)), np.zeros((4, 3), np.float32), np.zeros(12, np.float32), np.zeros((), np.float32)):
            with pytest.raises(tc.InvalidArgumentError):
                reader.read_into("w", DeviceArray(out))
            assert not out.any()
        for out in (DeviceArray(np.zeros((3, 4), np.float32), read_only=True),
                    DeviceArray(np.broadcast_to(np.zeros(4, np.float32), (3, 4)))):  # fmt: skip
            with pytest.raises(tc.InvalidArgumentError):
                reader.read_into("w", out)
            assert not out.array.any()
        with pytest.raises(tc.UnimplementedError, match="7"):
            reader.read_into("w", DeviceArray(np.zeros((3, 4), np.float32), device=7))
