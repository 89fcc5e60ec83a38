"""``tensorcask.load`` and ``Reader.read_into`` with memory of a GPU. frameworks_test.py runs them."""

import functools
import io
import os
import threading

import gpu_arrays
import ml_dtypes  # noqa: F401  arrays of bfloat16 and float8 come with its dtypes
import numpy as np
import pytest
from gpu_arrays import DEVICE, MIB, NUMPY_DTYPES, OTHER_DTYPES, SHAPES, random_bits, summary

import tensorcask as tc

SMALL_FORMS = ("safetensors", "checkpoint", "compressed", "records", "npz", "npz deflated", "npy")
LARGE_FORMS = ("safetensors", "checkpoint", "compressed", "sliced", "npz", "npz deflated", "npy")
LARGE = np.arange(10 * MIB + 3, dtype=np.int32)  # 40 MiB and 12 bytes: several pieces, and a piece that is not full


def dtypes_of(form):
    lacks = {"safetensors": ["complex128"], "npz": OTHER_DTYPES, "npz deflated": OTHER_DTYPES, "npy": ["float8_e5m2"]}
    return [dtype for dtype in NUMPY_DTYPES + OTHER_DTYPES if dtype not in lacks.get(form, [])]


@functools.cache
def large_deflated():
    """The bytes of a file, which take seconds to make."""
    file = io.BytesIO()
    np.savez_compressed(file, model=LARGE)
    return file.getvalue()


def write_large(form):
    if form != "npz deflated":
        return write(form, {"model": LARGE})
    with open("model.npz", "wb") as file:
        file.write(large_deflated())
    return "model.npz"


def write(form, arrays):
    """Writes a file of a form, and returns its path. Where NumPy can write the form, NumPy does."""
    if form == "npz":
        np.savez("model.npz", **arrays)
        return "model.npz"
    if form == "npz deflated":
        np.savez_compressed("model.npz", **arrays)
        return "model.npz"
    if form == "npy":
        ((_, array),) = arrays.items()
        np.save("model.npy", array)
        return "model.npy"
    if form == "sliced":
        with tc.Writer("model") as writer:
            for name, array in arrays.items():
                writer.declare(name, array.dtype, array.shape)
                middle = len(array) // 3
                for part, start in ((array[:middle], 0), (array[middle:], middle)):
                    writer.add_slice(name, part, start=(start, *[0] * (array.ndim - 1)))
        return "model"
    path = {"safetensors": "model.safetensors", "records": "model.tfrecord"}.get(form, "model")
    tc.save(path, arrays, level="high" if form == "compressed" else "stored", overwrite=True, sync=False)
    return path


def small_arrays(form):
    return {
        f"{dtype}.{len(shape)}.{i}": random_bits(dtype, shape, seed=i)
        for dtype in dtypes_of(form)
        for i, shape in enumerate(SHAPES)
    }


def check_small(framework, form, dtype):
    """What is wrong with the tensors of a dtype; None if nothing is."""
    arrays = {name: array for name, array in small_arrays(form).items() if name.split(".")[0] == dtype}
    if form == "npy":
        arrays = {"model": arrays[f"{dtype}.2.3"]}
    try:
        path = write(form, arrays)
        loaded = tc.load(path, framework=framework.name, device=DEVICE)
    except Exception as error:
        return f"{dtype}: {type(error).__name__}: {error}"
    for name, array in arrays.items():
        if not framework.on_gpu(loaded[name]):
            return f"{name} is on {getattr(loaded[name], 'device', type(loaded[name]))}"
        if framework.summary(loaded[name]) != summary(array):
            return f"{name} has other values, or another dtype or shape: {framework.summary(loaded[name])[:2]}"
    return None


def damage(path, array, change):
    """Changes the elements of a tensor in its file, so that they no longer match their checksum."""
    file = path if os.path.exists(path) else path + ".data-00000-of-00001"
    with open(file, "rb") as source:
        content = source.read()
    assert content.count(array.tobytes()) == 1
    with open(file, "wb") as target:
        target.write(content.replace(array.tobytes(), (array + change).tobytes()))
    return file


class TestLoadValues:
    @pytest.mark.parametrize("form", SMALL_FORMS)
    def test_every_dtype_and_shape(self, framework, form):
        dtypes = [dtype for dtype in dtypes_of(form) if framework.has(dtype)]
        if form == "npy":
            dtypes = [dtype for dtype in dtypes if dtype in NUMPY_DTYPES]
        problems = [problem for dtype in dtypes if (problem := check_small(framework, form, dtype))]
        assert not problems, "\n".join(problems)

    @pytest.mark.parametrize("dtype", OTHER_DTYPES)
    def test_a_dtype_that_cupy_lacks_is_right_or_named(self, cupy, dtype):
        array = random_bits(dtype, (3, 5))
        tc.save("model", {"w": array})
        try:
            loaded = tc.load("model", framework="cupy", device=DEVICE)["w"]
        except (TypeError, tc.Error) as error:
            assert dtype in str(error)
        else:
            assert summary(loaded.get())[1:] == summary(array)[1:]

    @pytest.mark.parametrize("form", LARGE_FORMS)
    def test_a_large_tensor(self, framework, form):
        loaded = tc.load(write_large(form), framework=framework.name, device=DEVICE)["model"]
        assert framework.on_gpu(loaded)
        assert framework.summary(loaded) == summary(LARGE)

    def test_many_tensors_in_the_order_of_the_file(self, framework):
        arrays = {f"layer/{i * 7 % 300}": np.full(i % 50, i, np.float32) for i in range(300)}
        tc.save("model.safetensors", arrays)
        loaded = tc.load("model.safetensors", framework=framework.name, device=DEVICE)
        assert list(loaded) == list(tc.load("model.safetensors"))
        assert all(framework.summary(loaded[name]) == summary(array) for name, array in arrays.items())

    def test_names_and_patterns(self, framework):
        tc.save("model", {"a/kernel": np.ones(3), "a/bias": np.ones(2), "b/kernel": np.ones(1)})
        load = lambda names: list(tc.load("model", names, framework=framework.name, device=DEVICE))  # noqa: E731
        assert load("*kernel") == ["a/kernel", "b/kernel"] and load("a/bias") == ["a/bias"] and load([]) == []
        for wrong in ("none", "x*"):
            with pytest.raises(KeyError, match=wrong.rstrip("*")):
                load(wrong)

    def test_tensors_have_memory_of_their_own(self, torch):
        tc.save("model.npz", {"a": np.zeros(1000, np.float32), "b": np.ones(1000, np.float32)})
        loaded = tc.load("model.npz", framework="torch", device=DEVICE)
        loaded["a"].fill_(7)
        assert loaded["b"].sum().item() == 1000 and tc.load("model.npz")["a"].sum() == 0
        assert loaded["a"].is_contiguous() and not loaded["a"].requires_grad

    def test_torch_has_the_memory_in_its_books(self, torch):
        tc.save("model.npz", {"a": np.zeros(8 * MIB, np.uint8)})
        before = torch.cuda.memory_allocated()
        loaded = tc.load("model.npz", framework="torch", device=DEVICE)
        assert torch.cuda.memory_allocated() - before == 8 * MIB
        del loaded
        assert torch.cuda.memory_allocated() == before

    def test_text_is_refused(self, framework):
        tc.save("model", {"text": np.array("text")})
        with pytest.raises(TypeError, match="no strings|no dtype string"):
            tc.load("model", framework=framework.name, device=DEVICE)


class TestLoadDamage:
    @pytest.mark.parametrize("form", ["safetensors", "checkpoint", "npz"])
    def test_damaged_elements(self, framework, form):
        array = np.arange(5000, dtype=np.float32)
        path = write(form, {"good": np.ones(3), "w": array})
        damage(path, array, 1)
        with pytest.raises(tc.DataLossError, match="w.*; tensorcask.salvage saves the undamaged tensors"):
            tc.load(path, framework=framework.name, device=DEVICE)
        loaded = tc.load(path, framework=framework.name, device=DEVICE, verify=False)
        assert framework.summary(loaded["w"]) == summary(array + 1)
        assert framework.summary(tc.load(path, "good", framework=framework.name, device=DEVICE)["good"])[1] == (3,)

    def test_a_truncated_file(self, framework):
        path = write("checkpoint", {"model": LARGE})
        os.truncate(path + ".data-00000-of-00001", 30 * MIB)
        with pytest.raises(tc.DataLossError, match="31457280 bytes"):
            tc.load(path, framework=framework.name, device=DEVICE)

    def test_an_error_leaves_no_memory_behind(self, torch):
        path = write("safetensors", {"model": LARGE})
        damage(path, LARGE, 1)
        before = torch.cuda.memory_allocated()
        for _ in range(3):
            with pytest.raises(tc.DataLossError):
                tc.load(path, framework="torch", device=DEVICE)
        assert torch.cuda.memory_allocated() == before


class TestDevices:
    @pytest.fixture(autouse=True)
    def model(self):
        tc.save("model.npz", {"w": np.arange(6, dtype=np.float32)})

    def test_a_gpu_that_does_not_exist(self, framework):
        with pytest.raises((tc.Error, ValueError, RuntimeError), match="cuda:97"):
            tc.load("model.npz", framework=framework.name, device="cuda:97")

    def test_a_gpu_that_does_not_exist_for_our_own_tensors(self):
        with pytest.raises((tc.Error, ValueError), match="cuda:97"):
            tc.load("model.npz", framework="tensorcask", device="cuda:97")

    @pytest.mark.parametrize("name", ["torch", "jax", "cupy", "tensorcask"])
    def test_nonsense(self, name):
        if name in gpu_arrays.FRAMEWORKS:
            gpu_arrays.need(name)
        with pytest.raises((tc.Error, ValueError, RuntimeError), match="nonsense"):
            tc.load("model.npz", framework=name, device="nonsense")

    @pytest.mark.parametrize("name", ["torch", "jax"])
    def test_the_host(self, name):
        gpu_arrays.need(name)
        loaded = tc.load("model.npz", framework=name, device="cpu")["w"]
        assert not gpu_arrays.FRAMEWORKS[name]().on_gpu(loaded) and np.asarray(loaded).tolist() == list(range(6))

    def test_cuda_without_a_number(self, framework):
        loaded = tc.load("model.npz", framework=framework.name, device="cuda")["w"]
        assert framework.on_gpu(loaded) and framework.summary(loaded) == summary(np.arange(6, dtype=np.float32))

    def test_objects_of_torch(self, torch):
        for device in (torch.device("cuda", 0), torch.device("cuda"), torch.device("cpu")):
            loaded = tc.load("model.npz", framework="torch", device=device)["w"]
            assert loaded.device.type == device.type and loaded.tolist() == list(range(6))

    def test_objects_of_jax(self, jax):
        for device in (jax.devices("gpu")[0], jax.devices("cpu")[0]):
            loaded = tc.load("model.npz", framework="jax", device=device)["w"]
            assert loaded.devices() == {device} and loaded.tolist() == list(range(6))

    def test_arrays_of_numpy_are_on_the_host(self):
        with pytest.raises(ValueError, match="device"):
            tc.load("model.npz", device=DEVICE)
        with pytest.raises(ValueError, match="device"):
            tc.load("model.npz", framework="numpy", device=DEVICE)


class TestMemoryOfTheHost:
    @pytest.mark.parametrize("name", ["torch", "cupy", "jax", "tensorcask"])
    def test_loading_a_gib_takes_little_of_it(self, name):
        if name in gpu_arrays.FRAMEWORKS:
            gpu_arrays.need(name)
        tc.save("small.safetensors", {"w": np.ones(3)})
        tc.save("model.safetensors", {"w": np.zeros(1024 * MIB, np.uint8)}, sync=False)
        del tc.load("small.safetensors", framework=name, device=DEVICE)["w"]  # what is made once
        with gpu_arrays.PeakMemory() as memory:
            loaded = tc.load("model.safetensors", framework=name, device=DEVICE)
        assert memory.looks >= 5, "nothing was measured: the load was too fast, or kept the GIL"
        assert loaded["w"].shape == (1024 * MIB,)
        assert memory.grown_bytes < 256 * MIB


class TestThreads:
    def test_several_threads_load_at_once(self, torch):
        arrays = [{"w": np.full(2 * MIB + i, i, np.int32), "b": np.arange(i)} for i in range(8)]
        for i, one in enumerate(arrays):
            tc.save(f"model{i}", one, level="default" if i % 3 == 0 else "stored", sync=False)
        problems = []

        def work(i):
            try:
                for _ in range(4):
                    loaded = tc.load(f"model{i}", framework="torch", device=DEVICE)
                    if not (loaded["w"].eq(i).all().item() and loaded["b"].tolist() == list(range(i))):
                        problems.append(f"model{i} has other values")
            except Exception as error:
                problems.append(f"model{i}: {type(error).__name__}: {error}")

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems

    def test_several_threads_read_into_one_reader(self, torch):
        tc.save("model", {str(i): np.full(MIB, i, np.int32) for i in range(8)}, sync=False)
        out = [torch.zeros(MIB, dtype=torch.int32, device=DEVICE) for _ in range(8)]
        with tc.open("model") as reader:
            threads = [threading.Thread(target=reader.read_into, args=(str(i), out[i])) for i in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert [one.eq(i).all().item() for i, one in enumerate(out)] == [True] * 8


class TestReadInto:
    @pytest.mark.parametrize("form", ["safetensors", "checkpoint", "compressed", "sliced", "npz", "npz deflated"])
    def test_torch(self, torch, form):
        array = np.arange(3 * MIB + 1, dtype=np.float32)
        out = torch.zeros(array.shape, device=DEVICE)
        with tc.open(write(form, {"w": array})) as reader:
            reader.read_into("w", out)
        assert out.cpu().numpy().tobytes() == array.tobytes()

    def test_cupy(self, cupy):
        array = random_bits("float32", (300, 200))
        tc.save("model", {"w": array})
        out = cupy.zeros((300, 200), cupy.float32)
        with tc.open("model") as reader:
            reader.read_into("w", out)
        assert out.get().tobytes() == array.tobytes()

    @pytest.mark.parametrize("dtype", NUMPY_DTYPES + OTHER_DTYPES)
    def test_every_dtype(self, torch, dtype):
        array = random_bits(dtype, (3, 5))
        tc.save("model", {"w": array})
        out = torch.full((3, 5), 1, device=DEVICE).to(getattr(torch, dtype))
        with tc.open("model") as reader:
            reader.read_into("w", out)
        assert gpu_arrays.Torch().summary(out) == summary(array)

    def test_strides(self, torch):
        array = random_bits("int32", (40, 30))
        tc.save("model", {"w": array})
        around = torch.zeros((80, 62), dtype=torch.int32, device=DEVICE)
        transposed = torch.zeros((30, 40), dtype=torch.int32, device=DEVICE)
        with tc.open("model") as reader:
            reader.read_into("w", around[::2, 1:61:2])
            reader.read_into("w", transposed.t())
        assert around[::2, 1:61:2].cpu().numpy().tobytes() == array.tobytes()
        around[::2, 1:61:2] = 0
        assert not around.any().item(), "elements beside the view were changed"
        assert transposed.t().cpu().numpy().tobytes() == array.tobytes()

    def test_arrays_of_jax_are_not_changed(self, jax):
        tc.save("model", {"w": np.ones(4, np.float32)})
        array = jax.device_put(jax.numpy.zeros(4, "float32"), jax.devices("gpu")[0])
        with tc.open("model") as reader, pytest.raises(tc.InvalidArgumentError, match="arrays of JAX cannot be changed"):
            reader.read_into("w", array)
        assert not np.asarray(array).any()

    def test_strides_of_cupy(self, cupy):
        array = random_bits("int32", (40, 30))
        tc.save("model", {"w": array})
        around = cupy.zeros((80, 62), cupy.int32)
        with tc.open("model") as reader:
            reader.read_into("w", around[::-2, 1:61:2])
        assert around[::-2, 1:61:2].get().tobytes() == array.tobytes()
        around[::-2, 1:61:2] = 0
        assert not around.any().item(), "elements beside the view were changed"

    def test_other_dtypes_and_shapes_are_refused(self, torch):
        tc.save("model", {"w": np.ones((3, 4), np.float32)})
        with tc.open("model") as reader:
            for out in (torch.zeros(3, 4, device=DEVICE, dtype=torch.float64), torch.zeros(4, 3, device=DEVICE),
                        torch.zeros(12, device=DEVICE), torch.zeros(1, 4, device=DEVICE).expand(3, 4)):  # fmt: skip
                with pytest.raises(tc.InvalidArgumentError):
                    reader.read_into("w", out)
                assert not out.any().item()
            for out in (torch.zeros(3, 4, device="meta"), torch.zeros(3, 4, device=DEVICE).to_sparse()):
                with pytest.raises((tc.Error, TypeError, ValueError, BufferError)):
                    reader.read_into("w", out)

    def test_a_leaf_that_requires_gradients(self, torch):
        tc.save("model", {"w": np.ones((3, 4), np.float32)})
        parameter = torch.nn.Parameter(torch.zeros(3, 4, device=DEVICE))
        with tc.open("model") as reader:
            reader.read_into("w", parameter)
        assert parameter.sum().item() == 12 and parameter.requires_grad

    def test_damage(self, torch):
        array = np.arange(5000, dtype=np.float32)
        tc.save("model", {"w": array})
        damage("model", array, 1)
        out = torch.zeros(5000, device=DEVICE)
        with tc.open("model") as reader, pytest.raises(tc.DataLossError, match="w"):
            reader.read_into("w", out)
        with tc.open("model", verify=False) as reader:
            reader.read_into("w", out)
        assert out.cpu().numpy().tobytes() == (array + 1).tobytes()
