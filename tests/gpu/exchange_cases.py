"""Memory of a GPU that passes between the module and a framework through DLPack. frameworks_test.py runs them."""

import gc
import threading

import gpu_arrays
import ml_dtypes  # noqa: F401  arrays of bfloat16 and float8 come with its dtypes
import numpy as np
import pytest
from gpu_arrays import DEVICE, MIB, NUMPY_DTYPES, address, assert_is_busy, delay, look_into, random_bits, run, summary

import tensorcask as tc


def load_ours(value, count=16 * MIB):
    """A tensorcask.Tensor on the GPU: float32, all elements `value`."""
    tc.save("ours", {"w": np.full(count, value, np.float32)}, overwrite=True, sync=False)
    return tc.load("ours", framework="tensorcask", device=DEVICE)["w"]


class TestDLPackExport:
    """From the module to a framework."""

    def test_no_copy(self, framework):
        array = random_bits("float32", (300, 200))
        tc.save("model", {"w": array})
        tensor = tc.load("model", framework="tensorcask", device=DEVICE)["w"]
        theirs = framework.from_dlpack(tensor)
        assert framework.on_gpu(theirs) and framework.pointer(theirs) == address(tensor)
        assert framework.summary(theirs) == summary(array)

    @pytest.mark.parametrize("dtype", NUMPY_DTYPES + ("bfloat16",))
    def test_every_dtype(self, framework, dtype):
        if not framework.has(dtype):
            pytest.skip(f"{framework.name} has no {dtype}")
        array = random_bits(dtype, (7, 9))
        tc.save("model", {"w": array})
        tensor = tc.load("model", framework="tensorcask", device=DEVICE)["w"]
        theirs = framework.from_dlpack(tensor)
        assert framework.summary(theirs) == summary(array) and framework.pointer(theirs) == address(tensor)

    @pytest.mark.parametrize("name", ["torch", "cupy"])
    def test_views(self, name):
        framework = gpu_arrays.FRAMEWORKS[name]()
        array = random_bits("int32", (30, 20))
        tc.save("model", {"w": array})
        tensor = tc.load("model", framework="tensorcask", device=DEVICE)["w"]
        base = address(tensor)
        for ours, wanted, offset in [(tensor.T, array.T, 0), (tensor[3:, ::2], array[3:, ::2], 3 * 80),
                                     (tensor[7], array[7], 7 * 80), (tensor[2, 3], array[2, 3], 172)]:  # fmt: skip
            theirs = framework.from_dlpack(ours)
            assert framework.pointer(theirs) == base + offset
            assert framework.summary(theirs)[1:] == summary(np.ascontiguousarray(wanted).reshape(wanted.shape))[1:]

    def test_writes_are_seen_on_both_sides(self, torch):
        tensor = load_ours(1, 1000)
        theirs = torch.from_dlpack(tensor)
        theirs.fill_(5)
        torch.cuda.synchronize()
        assert tensor.numpy().tolist() == [5] * 1000

    def test_frameworks_share_one_tensor(self, torch, cupy, jax):
        tensor = load_ours(3, 1000)
        arrays = [torch.from_dlpack(tensor), cupy.from_dlpack(tensor), jax.numpy.from_dlpack(tensor)]
        pointers = {arrays[0].data_ptr(), arrays[1].data.ptr, arrays[2].unsafe_buffer_pointer()}
        assert pointers == {address(tensor)}
        del tensor
        gc.collect()
        load_ours(4, 1000)  # new memory, not that of the arrays
        assert [float(array.sum()) for array in arrays] == [3000.0] * 3

    def test_the_memory_outlives_the_tensor(self, framework):
        theirs = framework.from_dlpack(load_ours(3))
        gc.collect()
        for value in range(5, 8):
            load_ours(value)
        assert np.frombuffer(framework.summary(theirs)[2], np.float32).min() == 3

    def test_memory_is_not_reused_before_the_work_of_a_consumer(self, torch):
        """A delayed kernel of the consumer still reads the memory when its owner is gone and a new tensor is loaded."""
        side = torch.cuda.Stream()
        tensor = load_ours(3)
        with torch.cuda.stream(side):
            theirs = torch.from_dlpack(tensor)
            result = torch.zeros_like(theirs)
            delay(torch)
            result.copy_(theirs)
            assert_is_busy(side)
            del theirs, tensor
        gc.collect()
        others = [load_ours(value) for value in (5, 6)]
        torch.cuda.synchronize()
        assert result.min().item() == result.max().item() == 3
        assert [other.numpy().min() for other in others] == [5, 6]

    def test_memory_is_not_reused_before_the_work_of_cupy(self, torch, cupy):
        side = cupy.cuda.Stream(non_blocking=True)
        tensor = load_ours(3)
        with side:
            theirs = cupy.from_dlpack(tensor)
            result = cupy.zeros_like(theirs)
            with torch.cuda.stream(torch.cuda.ExternalStream(side.ptr)):
                delay(torch)
            result[:] = theirs
            assert not side.done, "the delay was too short for this test"
            del theirs, tensor
        gc.collect()
        others = [load_ours(value) for value in (5, 6)]
        side.synchronize()
        assert float(result.min()) == float(result.max()) == 3
        assert [other.numpy().min() for other in others] == [5, 6]

    def test_a_stream_of_a_consumer_that_is_gone(self, cupy):
        """In a process of its own: the driver may end it."""
        load_ours(3, 1000)
        out = run(
            """
            import cupy, gc, tensorcask as tc
            load = lambda: tc.load("ours", framework="tensorcask", device="cuda:0")["w"]
            for _ in range(3):
                tensor = load()
                side = cupy.cuda.Stream(non_blocking=True)
                with side:
                    theirs = cupy.from_dlpack(tensor)
                    total = float(theirs.sum())
                side.synchronize()
                del side
                gc.collect()
                del theirs, tensor
                gc.collect()
                print(total, load().numpy().sum())
            """
        )
        assert out == "3000.0 3000.0\n" * 3

    def test_a_consumer_that_drops_it_in_another_thread(self, torch):
        theirs = [torch.from_dlpack(load_ours(3, 1000))]
        assert theirs[0].sum().item() == 3000
        thread = threading.Thread(target=theirs.clear)
        thread.start()
        thread.join()
        assert load_ours(4, 1000).numpy().sum() == 4000


class TestDLPackCapsules:
    @pytest.fixture
    def tensor(self):
        return load_ours(3, 1000)

    def test_streams(self, torch, tensor):
        side = torch.cuda.Stream()
        for stream in (None, -1, 1, 2, side.cuda_stream):
            capsule = tensor.__dlpack__(stream=stream, max_version=(1, 0))
            assert look_into(capsule) == ("dltensor_versioned", address(tensor), (2, 0)), stream
            assert torch.from_dlpack(capsule).sum().item() == 3000

    def test_a_stream_that_is_none(self, tensor):
        for stream in ("x", 1.5, [1], -7):
            with pytest.raises((tc.Error, TypeError, ValueError, BufferError)):
                tensor.__dlpack__(stream=stream)

    def test_the_legacy_form(self, torch, tensor):
        capsule = tensor.__dlpack__()
        assert look_into(capsule) == ("dltensor", address(tensor), (2, 0))
        assert torch.from_dlpack(capsule).sum().item() == 3000
        assert look_into(tensor.__dlpack__(max_version=(0, 8)))[0] == "dltensor"

    def test_a_capsule_that_nobody_takes(self, torch, tensor):
        for _ in range(3):
            tensor.__dlpack__(max_version=(1, 0))
            tensor.__dlpack__()
        assert torch.from_dlpack(tensor).sum().item() == 3000

    def test_a_copy(self, torch, tensor):
        copied = torch.from_dlpack(tensor, copy=True)
        assert copied.data_ptr() != address(tensor) and copied.sum().item() == 3000
        shared = torch.from_dlpack(tensor, copy=False)
        assert shared.data_ptr() == address(tensor)

    def test_the_host_is_asked_for(self, tensor):
        """The memory is copied, or the call is refused as the array API wants it."""
        try:
            array = np.from_dlpack(tensor, device="cpu")
        except (tc.Error, BufferError, ValueError, RuntimeError):
            pass
        else:
            assert array.tolist() == [3] * 1000
        with pytest.raises((tc.Error, BufferError, ValueError, RuntimeError)):
            tensor.__dlpack__(dl_device=(1, 0), copy=False)


class TestDLPackImport:
    """From a framework to the module."""

    def test_values(self, framework):
        array = random_bits("float32", (300, 200))
        theirs = framework.to_gpu(array)
        tensor = tc.Tensor(theirs)
        assert summary(tensor.numpy()) == summary(array) and tensor.shape == (300, 200)
        if tensor.device != "cpu":
            assert tensor.device == DEVICE and address(tensor) == framework.pointer(theirs)

    def test_values_of_views(self, torch):
        theirs = torch.arange(600, device=DEVICE).reshape(20, 30)
        assert tc.Tensor(theirs.t()[::3]).numpy().tolist() == theirs.t()[::3].tolist()

    def test_work_that_waits(self, torch):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            theirs = torch.zeros(4 * MIB, device=DEVICE)
            delay(torch)
            theirs.fill_(7)
            assert_is_busy(side)
            tensor = tc.Tensor(theirs)
            found = tensor.numpy()
        assert found.min() == found.max() == 7

    def test_memory_that_torch_has_dropped(self, torch):
        """What the module holds stays as it was, though PyTorch drops it and allocates again."""
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            theirs = torch.full((16 * MIB,), 3.0, device=DEVICE)
            tensor = tc.Tensor(theirs)
            del theirs
            gc.collect()
            others = [torch.full((16 * MIB,), value, device=DEVICE) for value in (5.0, 6.0)]
            torch.cuda.synchronize()
        assert tensor.numpy().min() == tensor.numpy().max() == 3
        assert [other[0].item() for other in others] == [5, 6]

    def test_memory_goes_back_to_torch(self, torch):
        before = torch.cuda.memory_allocated()
        theirs = torch.full((16 * MIB,), 3.0, device=DEVICE)
        tensor = tc.Tensor(theirs)
        assert tensor.numpy().max() == 3
        del theirs, tensor
        gc.collect()
        torch.cuda.synchronize()
        tc.Tensor(torch.zeros(3, device=DEVICE))  # looks for what has finished
        assert torch.cuda.memory_allocated() == before

    def test_comparisons_take_arrays_of_a_gpu(self, framework):
        array = np.arange(1000, dtype=np.float32)
        assert tc.Tensor(array).equal(framework.to_gpu(array))
        assert not tc.Tensor(array).equal(framework.to_gpu(array + 1))

    def test_assignment_takes_arrays_of_a_gpu(self, framework):
        tensor = tc.Tensor(np.zeros(1000, np.float32)).clone()
        tensor[10:20] = framework.to_gpu(np.full(10, 2, np.float32))
        assert tensor.numpy().sum() == 20
