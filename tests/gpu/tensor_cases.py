"""``tensorcask.Tensor`` in memory of a GPU. frameworks_test.py runs them."""

import threading

import ml_dtypes  # noqa: F401
import numpy as np
import pytest
from gpu_arrays import DEVICE, MIB, NUMPY_DTYPES, OTHER_DTYPES, SHAPES, address, random_bits, run, summary

import tensorcask as tc

ARRAY = np.arange(600, dtype=np.float32).reshape(20, 30)


@pytest.fixture
def tensor():
    tc.save("model", {"w": ARRAY})
    return tc.load("model", framework="tensorcask", device=DEVICE)["w"]


class TestTensor:
    def test_what_it_says(self, tensor):
        assert (tensor.device, tensor.dtype, tensor.shape, tensor.strides) == (DEVICE, "float32", (20, 30), (30, 1))
        assert (tensor.ndim, tensor.size, tensor.nbytes, len(tensor)) == (2, 600, 2400, 20)
        assert tensor.__dlpack_device__() == (2, 0)
        assert "float32" in repr(tensor) and "20" in repr(tensor)
        assert "float32" in tensor._repr_html_()

    def test_the_host_says_cpu(self):
        assert tc.Tensor(ARRAY).device == "cpu" and tc.Tensor(ARRAY).__dlpack_device__() == (1, 0)

    @pytest.mark.parametrize("dtype", NUMPY_DTYPES + OTHER_DTYPES)
    def test_every_dtype_comes_back_to_the_host(self, dtype):
        arrays = {str(i): random_bits(dtype, shape, seed=i) for i, shape in enumerate(SHAPES)}
        tc.save("model", arrays)
        loaded = tc.load("model", framework="tensorcask", device=DEVICE)
        assert {name: summary(tensor.numpy()) for name, tensor in loaded.items()} == {
            name: summary(array) for name, array in arrays.items()
        }
        assert all(tensor.dtype == dtype for tensor in loaded.values())

    def test_numpy_is_a_copy(self, tensor):
        copy = tensor.numpy()
        assert summary(copy) == summary(ARRAY) and summary(np.asarray(tensor)) == summary(ARRAY)
        copy.setflags(write=True)
        copy[:] = 0
        assert summary(tensor.numpy()) == summary(ARRAY)

    def test_a_large_one(self):
        large = np.arange(10 * MIB + 3, dtype=np.int32)
        tc.save("model", {"w": large}, sync=False)
        tensor = tc.load("model", framework="tensorcask", device=DEVICE)["w"]
        assert summary(tensor.numpy()) == summary(large)
        assert tensor[::-3].numpy().tobytes() == large[::-3].tobytes()

    def test_views_share_the_memory(self, tensor):
        base = address(tensor)
        views = {
            "row": (tensor[3], ARRAY[3], 3 * 120),
            "element": (tensor[3, 4], ARRAY[3, 4], 3 * 120 + 16),
            "part": (tensor[2:9:3, ::2], ARRAY[2:9:3, ::2], 240),
            "transposed": (tensor.T, ARRAY.T, 0),
            "permuted": (tensor.permute(1, 0), ARRAY.T, 0),
            "reshaped": (tensor.reshape(6, 100), ARRAY.reshape(6, 100), 0),
            "expanded": (tensor[:1].expand(5, 30), np.broadcast_to(ARRAY[:1], (5, 30)), 0),
            "reversed": (tensor[::-1], ARRAY[::-1], 19 * 120),
            "with an axis": (tensor.unsqueeze(0), ARRAY[None], 0),
            "other bits": (tensor.bitcast("int32"), ARRAY.view(np.int32), 0),
        }
        for name, (view, wanted, offset) in views.items():
            assert view.device == DEVICE and address(view) == base + offset, name
            assert view.numpy().tolist() == wanted.tolist(), name

    def test_operations_give_the_right_values_or_refuse(self, tensor):
        """In a process of its own: a pointer to the GPU that the host follows ends it."""
        out = run(
            """
            import numpy as np, tensorcask as tc
            array = np.arange(600, dtype=np.float32).reshape(20, 30)
            tensor = tc.load("model", framework="tensorcask", device="cuda:0")["w"]
            host = lambda result: np.asarray(result.numpy() if isinstance(result, tc.Tensor) else result)

            def assign(value):
                tensor[3] = value
                return tensor

            def into():
                with tc.open("model") as reader:
                    reader.read_into("w", tensor)
                return tensor

            for name, run, wanted in [
                ("clone", lambda: tensor.clone(), array),
                ("clone of a view", lambda: tensor.T[::2].clone(), array.T[::2]),
                ("lazy_clone", lambda: tensor.lazy_clone(), array),
                ("contiguous", lambda: tensor.T.contiguous(), array.T),
                ("astype", lambda: tensor.astype("int64"), array.astype(np.int64)),
                ("reshape", lambda: tensor.T.reshape(600), array.T.reshape(600)),
                ("equal to itself", lambda: tensor.equal(tensor), True),
                ("equal to the host", lambda: tensor.equal(array), True),
                ("equal to another", lambda: tensor.equal(array + 1), False),
                ("the host equal to it", lambda: tc.Tensor(array).equal(tensor), True),
                ("float of an element", lambda: float(np.asarray(tensor[1, 1])), 31.0),
                ("array", lambda: np.array(tensor, dtype=np.float64, copy=True), array),
                ("repr", lambda: len(repr(tensor)) > 0 and len(repr(tensor.T[::-1])) > 0, True),
                ("save", lambda: tc.save("s.npz", {"t": tensor.T}) and tc.load("s.npz")["t"], array.T),
                ("assign", lambda: assign(5.0), np.concatenate([array[:3], np.full((1, 30), 5), array[4:]])),
                ("assign from the GPU", lambda: assign(tensor[0]), np.concatenate([array[:3], array[:1], array[4:]])),
                ("read_into", into, array),
            ]:
                print(name, end=": ", flush=True)
                try:
                    result = run()
                except Exception as error:
                    print(f"refused by {type(error).__name__}: {error}", flush=True)
                    assert isinstance(error, (tc.Error, TypeError, ValueError, BufferError)), repr(error)
                    continue
                right = np.array_equal(host(result), wanted)
                print("right" if right else f"WRONG: {host(result)}", flush=True)
            """
        )
        print(out)
        assert "WRONG" not in out, out
        for name in ("the host equal to it", "save", "array", "repr"):
            assert f"\n{name}: right\n" in "\n" + out, out

    def test_deleted_in_another_thread(self):
        tc.save("model", {"w": ARRAY})
        for _ in range(5):
            tensors = [tc.load("model", framework="tensorcask", device=DEVICE)["w"]]
            thread = threading.Thread(target=tensors.clear)
            thread.start()
            thread.join()
        assert summary(tc.load("model", framework="tensorcask", device=DEVICE)["w"].numpy()) == summary(ARRAY)

    def test_used_in_several_threads(self, tensor):
        problems = []

        def work():
            for row in range(20):
                if tensor[row].numpy().tolist() != ARRAY[row].tolist():
                    problems.append(row)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems


class TestProcesses:
    @pytest.fixture(autouse=True)
    def model(self):
        tc.save("model", {"w": ARRAY})

    def test_exit_with_live_tensors(self):
        out = run(
            """
            import sys, tensorcask as tc
            tensors = tc.load("model", framework="tensorcask", device="cuda:0")
            sys.modules["kept"] = tensors["w"].T
            capsule = tensors["w"].__dlpack__(max_version=(1, 0))
            print(float(tensors["w"].numpy().sum()))
            """
        )
        assert out == "179700.0\n"

    @pytest.mark.parametrize("name", ["torch", "cupy", "jax"])
    def test_exit_with_arrays_of_a_framework(self, request, name):
        request.getfixturevalue(name)
        out = run(
            f"""
            import gpu_arrays, sys, tensorcask as tc
            loaded = tc.load("model", framework="{name}", device="cuda:0")
            sys.modules["kept"] = loaded["w"]
            shared = gpu_arrays.FRAMEWORKS["{name}"]().from_dlpack(
                tc.load("model", framework="tensorcask", device="cuda:0")["w"])
            sys.modules["shared"] = shared
            print(float(loaded["w"].sum()), float(shared.sum()))
            """
        )
        assert out == "179700.0 179700.0\n"

    def test_exit_while_a_save_runs(self, torch):
        run(
            """
            import torch, tensorcask.torch as tct
            model = torch.nn.Linear(4000, 8000, device="cuda:0")
            with torch.no_grad():
                model.weight.fill_(3)
            checkpointer = tct.AsyncCheckpointer("run")
            checkpointer.save(0, model)
            """
        )
        assert tc.load("run/ckpt-0")["weight"].min() == 3

    def test_exit_by_sys_exit_in_a_thread_pool(self):
        out = run(
            """
            import concurrent.futures, sys, tensorcask as tc
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                load = lambda _: tc.load("model", framework="tensorcask", device="cuda:0")
                kept = list(pool.map(load, range(8)))
            print(sum(float(one["w"].numpy().sum()) for one in kept), flush=True)
            sys.exit(0)
            """
        )
        assert out == "1437600.0\n"

    def test_a_child_of_fork(self):
        """CUDA does not work in a child of fork: the child must end in good order, and may use files."""
        out = run(
            """
            import os, sys, tensorcask as tc
            tensors = tc.load("model", framework="tensorcask", device="cuda:0")
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                assert tc.load("model")["w"].sum() == 179700
                try:
                    tc.load("model", framework="tensorcask", device="cuda:0")
                    print("loaded in the child")
                except tc.Error as error:
                    print("refused in the child")
                del tensors
                sys.exit(0)  # with all that Python does at its end
            _, status = os.waitpid(child, 0)
            print(status, float(tensors["w"].numpy().sum()))
            """
        )
        assert out.splitlines()[-1] == "0 179700.0" and "in the child" in out

    def test_a_child_of_fork_that_drops_a_tensor_of_torch(self, torch):
        out = run(
            """
            import multiprocessing, torch, tensorcask as tc
            loaded = tc.load("model", framework="torch", device="cuda:0")
            def work(queue):
                queue.put(float(tc.load("model")["w"].sum()))
            context = multiprocessing.get_context("fork")
            queue = context.Queue()
            process = context.Process(target=work, args=(queue,))
            process.start()
            print(queue.get(timeout=15), end=" ")
            process.join(15)
            print(process.exitcode, float(loaded["w"].sum()))
            """
        )
        assert out == "179700.0 0 179700.0\n"


class TestTensorAlone:
    """It looks at the free memory of the GPU: no other program may use it."""

    def test_memory_is_given_back(self, torch):
        tc.save("model", {"w": np.zeros(512 * MIB, np.uint8)}, sync=False)
        free = []
        for _ in range(4):
            tensor = tc.load("model", framework="tensorcask", device=DEVICE)["w"]
            assert tensor.shape == (512 * MIB,)
            del tensor
            torch.cuda.synchronize()
            free.append(torch.cuda.mem_get_info()[0])
        assert free[-1] >= free[0] - 64 * MIB, "each load takes more memory of the GPU"
