"""``tensorcask.save``, ``Writer`` and ``CheckpointManager`` with arrays on a GPU. frameworks_test.py runs them."""

import threading
import time
import weakref

import gpu_arrays
import ml_dtypes  # noqa: F401  arrays of bfloat16 and float8 come with its dtypes
import numpy as np
import pytest
from gpu_arrays import DEVICE, MIB, NUMPY_DTYPES, OTHER_DTYPES, SHAPES, assert_is_busy, delay, random_bits, summary

import tensorcask as tc

PATHS = ("model.safetensors", "model.npz", "model", "model.tfrecord")


def lacks(path, dtype):
    return dtype == "complex128" if path.endswith("safetensors") else path.endswith("npz") and dtype in OTHER_DTYPES


class TestSaveValues:
    @pytest.mark.parametrize("path", PATHS)
    def test_every_dtype_and_shape(self, framework, path):
        problems = []
        for dtype in NUMPY_DTYPES + OTHER_DTYPES:
            if lacks(path, dtype) or not framework.has(dtype):
                continue
            arrays = {str(i): random_bits(dtype, shape, seed=i) for i, shape in enumerate(SHAPES)}
            try:
                tensors = {name: framework.to_gpu(array) for name, array in arrays.items()}
                assert all(framework.on_gpu(tensor) for tensor in tensors.values())
                tc.save(path, tensors, overwrite=True, sync=False)
                saved = tc.load(path)
            except Exception as error:
                problems.append(f"{dtype}: {type(error).__name__}: {error}")
                continue
            problems += [f"{dtype}: {name}" for name in arrays if summary(saved[name]) != summary(arrays[name])]
        assert not problems, "\n".join(problems)

    @pytest.mark.parametrize("level", ["stored", "default", "high"])
    def test_levels_of_a_checkpoint(self, framework, level):
        array = np.arange(3 * MIB + 5, dtype=np.int32)
        tc.save("model", {"w": framework.to_gpu(array), "b": framework.to_gpu(array[:7])}, level=level, sync=False)
        assert tc.verify("model")
        assert summary(tc.load("model")["w"]) == summary(array) and tc.load("model")["b"].tolist() == list(range(7))

    @pytest.mark.parametrize("path", PATHS)
    def test_a_large_tensor(self, framework, path):
        array = np.arange(10 * MIB + 3, dtype=np.int32)
        tc.save(path, {"w": framework.to_gpu(array)}, sync=False)
        assert tc.verify(path) and summary(tc.load(path)["w"]) == summary(array)

    @pytest.mark.parametrize("path", PATHS)
    def test_views_of_torch(self, torch, path):
        whole = torch.arange(24 * 1000, device=DEVICE, dtype=torch.float32).reshape(40, 600)
        leaf = torch.nn.Parameter(whole.clone())
        views = {
            "whole": whole,
            "transposed": whole.t(),
            "strided": whole[::2, 1::3],
            "row": whole[3],
            "expanded": whole[:1].expand(40, 600),
            "scalar expanded": torch.tensor(2.5, device=DEVICE).expand(3, 4),
            "permuted": whole.view(4, 10, 600).permute(2, 0, 1),
            "channels last": whole.view(2, 4, 50, 60).contiguous(memory_format=torch.channels_last),
            "empty": whole[:, :0],
            "leaf": leaf,
            "result": leaf * 2,
        }
        tc.save(path, views)
        saved = tc.load(path)
        for name, view in views.items():
            assert summary(saved[name]) == summary(view.detach().cpu().contiguous().numpy()), name

    def test_lazy_bits_of_torch(self, torch):
        numbers = torch.tensor([1 + 2j, 3 - 4j], device=DEVICE)
        conjugated, negative = numbers.conj(), numbers.conj().imag
        assert conjugated.is_conj() and negative.is_neg()
        tc.save("model", {"conjugated": conjugated, "negative": negative})
        saved = tc.load("model")
        assert saved["conjugated"].tolist() == [1 - 2j, 3 + 4j] and saved["negative"].tolist() == [-2, 4]

    def test_views_of_cupy(self, cupy):
        whole = cupy.arange(24 * 1000, dtype=cupy.float32).reshape(40, 600)
        views = {
            "transposed": whole.T,
            "strided": whole[::2, 1::3],
            "reversed": whole[::-1, ::-2],
            "column-major": cupy.asfortranarray(whole),
            "broadcast": cupy.broadcast_to(whole[0], (5, 600)),
            "empty": whole[:0],
        }
        tc.save("model.npz", views)
        with np.load("model.npz") as saved:
            for name, view in views.items():
                assert np.array_equal(saved[name], view.get()), name

    def test_safetensors_reads_it(self, torch):
        safetensors = pytest.importorskip("safetensors.torch")
        tensors = {
            "w": torch.randn(300, 200, device=DEVICE).t(),
            "b": torch.arange(7, device=DEVICE).to(torch.bfloat16),
        }
        tc.save("model.safetensors", tensors)
        read = safetensors.load_file("model.safetensors")
        assert all(torch.equal(read[name], tensor.cpu()) for name, tensor in tensors.items())
        on_gpu = safetensors.load_file("model.safetensors", device=DEVICE)
        assert all(torch.equal(on_gpu[name], tensor) for name, tensor in tensors.items())

    def test_we_read_what_safetensors_writes(self, torch):
        safetensors = pytest.importorskip("safetensors.torch")
        tensors = {"w": torch.randn(300, 200, device=DEVICE), "b": torch.arange(7, device=DEVICE).to(torch.bfloat16)}
        safetensors.save_file(tensors, "model.safetensors")
        loaded = tc.load("model.safetensors", framework="torch", device=DEVICE)
        assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())

    def test_host_and_gpu_in_one_file(self, torch):
        mixed = {
            "gpu": torch.ones(3, device=DEVICE),
            "host": torch.full((3,), 2.0),
            "numpy": np.full(3, 3.0),
            "list": [4.0],
        }
        for name in ("cupy", "jax"):
            if gpu_arrays._imported(name)[0] is not None:
                mixed[name] = gpu_arrays.FRAMEWORKS[name]().to_gpu(np.full(3, 5.0))
        tc.save("model.npz", mixed)
        with np.load("model.npz") as saved:
            found = {name: float(saved[name][0]) for name in saved.files}
        assert found == {
            name: {"gpu": 1.0, "host": 2.0, "numpy": 3.0, "list": 4.0}.get(name, 5.0) for name in mixed
        }

    def test_our_own_tensors(self):
        array = random_bits("float32", (300, 200))
        tc.save("model", {"w": array})
        tensor = tc.load("model", framework="tensorcask", device=DEVICE)["w"]
        tc.save("again.safetensors", {"w": tensor, "transposed": tensor.T})
        saved = tc.load("again.safetensors")
        assert summary(saved["w"]) == summary(array) and summary(saved["transposed"]) == summary(array.T)

    def test_a_writer(self, torch):
        rows = torch.arange(4000, device=DEVICE, dtype=torch.float32).reshape(1000, 4)
        with tc.Writer("model.safetensors") as writer:
            writer.declare("rows", "float32", (1000, 4))
            writer.declare("b", "float32", (4,))
            for start in range(0, 1000, 250):
                writer.add_slice("rows", rows[start : start + 250], start=(start, 0))
            writer.add("b", rows[7])
        saved = tc.load("model.safetensors")
        assert summary(saved["rows"]) == summary(rows.cpu().numpy()) and saved["b"].tolist() == rows[7].tolist()


class TestSaveJax:
    def test_arrays_of_the_host(self, jax):
        array = jax.device_put(np.arange(12.0).reshape(3, 4), jax.devices("cpu")[0])
        tc.save("model.npz", {"w": array})
        assert tc.load("model.npz")["w"].tolist() == np.arange(12.0).reshape(3, 4).tolist()

    @pytest.mark.parametrize("platform", ["cpu", "gpu"])
    def test_sharded_arrays(self, jax, platform):
        devices = jax.devices(platform)
        mesh = jax.sharding.Mesh(np.array(devices), ("x",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
        numbers = np.arange(12.0 * len(devices)).reshape(-1, 4)
        tc.save("model.npz", {"w": jax.device_put(numbers, sharding)})
        assert tc.load("model.npz")["w"].tolist() == numbers.tolist()

    def test_a_result_that_is_still_computed(self, jax):
        @jax.jit
        def count(x):
            return jax.lax.fori_loop(0, 3000, lambda i, v: v + 1, x)

        start = jax.device_put(np.zeros(16 * MIB, np.float32), jax.devices("gpu")[0])
        count(start).block_until_ready()  # compiled
        result = count(start)
        tc.save("model", {"w": result}, sync=False)
        saved = tc.load("model")["w"]
        assert saved.min() == 3000 and saved.max() == 3000


class TestSaveOrder:
    """What is saved is the result of the work that was added to the current stream before the call."""

    @pytest.mark.parametrize("path", ["model.safetensors", "model.npz", "model"])
    def test_on_a_side_stream(self, torch, path):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            tensor = torch.zeros(4 * MIB, device=DEVICE)
            small = torch.zeros(3, device=DEVICE)
            delay(torch)
            tensor.fill_(7)
            small.fill_(8)
            assert_is_busy(side)
            tc.save(path, {"w": tensor, "b": small}, sync=False)
        saved = tc.load(path)
        assert saved["w"].min() == saved["w"].max() == 7 and saved["b"].tolist() == [8, 8, 8]

    def test_on_the_default_stream(self, torch):
        tensor = torch.zeros(4 * MIB, device=DEVICE)
        delay(torch)
        tensor.fill_(7)
        assert_is_busy(torch.cuda.current_stream())
        tc.save("model", {"w": tensor}, sync=False)
        assert tc.load("model")["w"].min() == 7

    def test_a_view_that_has_to_be_gathered(self, torch):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            tensor = torch.zeros(1000, 4000, device=DEVICE)
            delay(torch)
            tensor.copy_(torch.arange(4000, device=DEVICE))
            assert_is_busy(side)
            tc.save("model", {"w": tensor.t()[::2]}, sync=False)
        assert (tc.load("model")["w"] == np.arange(0, 4000, 2)[:, None]).all()

    def test_cupy(self, torch, cupy):
        side = cupy.cuda.Stream(non_blocking=True)
        with side:
            array = cupy.zeros(4 * MIB, cupy.float32)
            with torch.cuda.stream(torch.cuda.ExternalStream(side.ptr)):
                delay(torch)
            array.fill(7)
            assert not side.done, "the delay was too short for this test"
            tc.save("model", {"w": array}, sync=False)
        assert tc.load("model")["w"].min() == 7

    def test_bools(self, torch):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            flags = torch.zeros(4 * MIB, device=DEVICE, dtype=torch.bool)
            delay(torch)
            flags.fill_(True)
            assert_is_busy(side)
            tc.save("model", {"w": flags}, sync=False)
        assert tc.load("model")["w"].all()


    def test_a_writer_that_has_threads(self, torch):
        tensor = torch.full((32 * MIB,), 7, dtype=torch.uint8, device=DEVICE)
        with tc.Writer("model", level="default") as writer:
            writer.add("w", tensor)
            tensor.fill_(9)
        saved = tc.load("model")["w"]
        assert saved.min() == saved.max() == 7

    def test_work_that_needs_the_interpreter(self, cupy):
        done = []
        for dtype in ("bool", "float32"):
            flags = cupy.zeros(1000, dtype)
            stream = cupy.cuda.get_current_stream()
            stream.launch_host_func(lambda _: done.append(time.sleep(0.05)), None)
            flags.fill(1)
            tc.save(f"{dtype}.npz", {"flags": flags})
            assert tc.load(f"{dtype}.npz")["flags"].all()
        assert len(done) == 2


class TestSaveInBackground:
    def test_arrays_of_jax_may_be_donated(self, jax):
        step = jax.jit(lambda w: w + 1, donate_argnums=0)
        w = jax.device_put(jax.numpy.zeros(4 * MIB, "float32"), jax.devices("gpu")[0])
        with tc.CheckpointManager("run") as manager:
            for i in range(3):
                save = manager.save_in_background(i, {"w": w})
                w = step(w)
            save.wait()
            for i in range(3):
                saved = tc.load(manager.path_of(i))["w"]
                assert saved.min() == saved.max() == i

    def test_cupy_changes_its_arrays_at_once(self, cupy):
        arrays = {"w": cupy.zeros(16 * MIB, cupy.float32), "b": cupy.zeros(3), "strided": cupy.zeros((300, 400)).T}
        with tc.CheckpointManager("run", keep_last=9) as manager:
            for step in range(3):
                for array in arrays.values():
                    array.fill(step)
                manager.save_in_background(step, arrays)
                for array in arrays.values():
                    array.fill(-1)
        for step in range(3):
            saved = tc.load(f"run/ckpt-{step}")
            assert all(saved[name].shape == array.shape for name, array in arrays.items())
            assert all((one == step).all() for one in saved.values())

    def test_arrays_of_jax(self, jax):
        value = jax.device_put(np.zeros(4 * MIB, np.float32), jax.devices("gpu")[0])
        with tc.CheckpointManager("run", keep_last=9) as manager:
            for step in range(3):
                save = manager.save_in_background(step, {"w": value})
                value = value + 1  # the old array is gone
            save.wait()
        assert [float(tc.load(f"run/ckpt-{step}")["w"].max()) for step in range(3)] == [0, 1, 2]

    def test_our_own_tensors(self):
        tc.save("model", {"w": np.full(4 * MIB, 3, np.float32)}, sync=False)
        tensor = tc.load("model", framework="tensorcask", device=DEVICE)["w"]
        with tc.CheckpointManager("run") as manager:
            save = manager.save_in_background(0, {"w": tensor})
            del tensor
            save.wait()
        assert tc.load("run/ckpt-0")["w"].min() == 3

    def test_a_step_in_the_foreground(self, framework):
        with tc.CheckpointManager("run") as manager:
            manager.save(0, {"w": framework.to_gpu(np.arange(1000))})
            assert tc.load(manager.path_of(0))["w"].tolist() == list(range(1000))


class TestSaveMemory:
    def test_saving_a_gib_takes_little_memory_of_the_host(self, torch):
        tensor = torch.zeros(1024 * MIB, dtype=torch.uint8, device=DEVICE)
        tc.save("small", {"w": tensor[:3]})  # what is made once
        with gpu_arrays.PeakMemory() as memory:
            tc.save("model.safetensors", {"w": tensor}, sync=False)
        assert memory.looks >= 5, "nothing was measured: the save was too fast, or kept the GIL"
        assert memory.grown_bytes < 256 * MIB

    def test_saving_keeps_no_memory_of_the_gpu(self, torch):
        tensor = torch.zeros(64 * MIB, dtype=torch.uint8, device=DEVICE)
        before = torch.cuda.memory_allocated()
        tc.save("model.safetensors", {"w": tensor, "t": tensor.view(8192, 8192).t()}, sync=False)
        assert torch.cuda.memory_allocated() == before
        reference = weakref.ref(tensor)
        del tensor
        assert reference() is None and torch.cuda.memory_allocated() == before - 64 * MIB

    def test_several_threads_save_at_once(self, torch):
        problems = []

        def work(i):
            try:
                with torch.cuda.stream(torch.cuda.Stream()):
                    tensor = torch.full((2 * MIB + i,), i, dtype=torch.int32, device=DEVICE)
                    for round in range(3):
                        tensor.fill_(i + round)
                        tc.save(f"model{i}", {"w": tensor}, overwrite=True, sync=False)
                        if not (tc.load(f"model{i}")["w"] == i + round).all():
                            problems.append(f"model{i} has other values")
            except Exception as error:
                problems.append(f"model{i}: {type(error).__name__}: {error}")

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems
