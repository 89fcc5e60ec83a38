"""``tensorcask.torch`` with models on a GPU. frameworks_test.py runs them."""

import contextlib
import copy
import resource

import numpy as np
import pytest
from gpu_arrays import DEVICE, MIB, Torch, assert_is_busy, delay

import tensorcask as tc
from tensorcask import trees

PATHS = ("model", "model.safetensors", "model.npz", "model.tfrecord")


@pytest.fixture
def tct(torch):
    import tensorcask.torch

    return tensorcask.torch


def make_net(torch, seed=0):
    """A model with tied parameters, buffers of several dtypes, and a parameter that is not row-major."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(100, 32)
            self.norm = torch.nn.BatchNorm1d(32)  # counts batches in int64
            self.mix = torch.nn.Parameter(torch.randn(48, 32).t())
            self.out = torch.nn.Linear(32, 100, bias=False)
            self.out.weight = self.embedding.weight  # tied
            self.register_buffer("mask", torch.rand(7, 5) < 0.5)
            self.register_buffer("ids", torch.randint(1 << 40, (11,)))
            self.register_buffer("narrow", torch.randn(9, dtype=torch.bfloat16))
            self.register_buffer("nothing", torch.zeros(0, 3))
            self.large = torch.nn.Parameter(torch.randn(MIB + 3))  # read by a thread of its own
            self.larger = torch.nn.Parameter(torch.randn(2, MIB))

        def forward(self, tokens):
            hidden = self.norm(self.embedding(tokens)) @ self.mix @ self.mix.t()
            return self.out(hidden).square().mean() + self.large.square().mean() + self.larger.mean()

    torch.manual_seed(seed)
    return Net().to(DEVICE)


def train(torch, model, optimizer, steps=1):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.arange(64, device=DEVICE)).backward()
        optimizer.step()


def trained(torch, seed=0, steps=3):
    model = make_net(torch, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    train(torch, model, optimizer, steps)
    return model, optimizer


def assert_same(found, wanted):
    """Nested values are equal, with types, dtypes, shapes and bits."""
    if type(wanted).__name__ in ("Tensor", "Parameter"):
        assert Torch().summary(found) == Torch().summary(wanted)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            assert_same(found[key], wanted[key])
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted):
            assert_same(one, other)
    else:
        assert repr(found) == repr(wanted)


class TestStateDict:
    @pytest.mark.parametrize("path", PATHS)
    def test_a_model_comes_back_into_its_own_memory(self, torch, tct, path):
        model, _ = trained(torch)
        if path == "model.npz":
            del model.narrow  # npz has no bfloat16
        tct.save_state_dict(path, model)
        wanted = copy.deepcopy(dict(model.state_dict()))
        other, _ = trained(torch, seed=1, steps=1)
        if path == "model.npz":
            del other.narrow
        state = other.state_dict()
        before = {name: (tensor.data_ptr(), tensor.stride()) for name, tensor in state.items()}
        assert tct.load_state_dict(other, path) == ([], [])
        assert_same(dict(other.state_dict()), wanted)
        after = {name: (tensor.data_ptr(), tensor.stride()) for name, tensor in other.state_dict().items()}
        assert after == before and other.out.weight is other.embedding.weight
        assert other.mix.stride() == (1, 32)

    @pytest.mark.parametrize("path", ["model", "model.safetensors"])
    def test_an_optimizer_and_the_training_go_on(self, torch, tct, path):
        model, optimizer = trained(torch)
        tct.save_state_dict(path, model, optimizer)
        wanted = copy.deepcopy(optimizer.state_dict())
        other, other_optimizer = trained(torch, seed=1)
        tct.load_state_dict(other, path, other_optimizer)
        assert_same(other_optimizer.state_dict(), wanted)
        moments = [one for state in other_optimizer.state.values() for name, one in state.items() if name != "step"]
        assert moments and all(one.device.type == "cuda" for one in moments)
        train(torch, model, optimizer)
        train(torch, other, other_optimizer)
        for name, tensor in model.state_dict().items():
            assert torch.allclose(other.state_dict()[name].double(), tensor.double(), atol=1e-4), name

    def test_one_optimizer_that_is_fused_and_one_that_is_capturable(self, torch, tct):
        for options in ({"fused": True}, {"capturable": True}):  # "step" is on the GPU, too
            model = torch.nn.Linear(30, 20, device=DEVICE)
            optimizer = torch.optim.Adam(model.parameters(), **options)
            for _ in range(3):
                model(torch.ones(30, device=DEVICE)).sum().backward()
                optimizer.step()
            tct.save_state_dict("model", model, optimizer, overwrite=True)
            other = torch.nn.Linear(30, 20, device=DEVICE)
            other_optimizer = torch.optim.Adam(other.parameters(), **options)
            tct.load_state_dict(other, "model", other_optimizer)
            assert_same(other_optimizer.state_dict(), optimizer.state_dict())
            assert all(one.device.type == "cuda" for state in other_optimizer.state.values() for one in state.values())

    def test_from_the_host_to_the_gpu_and_back(self, torch, tct):
        model, _ = trained(torch)
        tct.save_state_dict("gpu.safetensors", model)
        host = make_net(torch, seed=1).cpu()
        tct.load_state_dict(host, "gpu.safetensors")
        assert_same(dict(host.state_dict()), dict(model.state_dict()))
        tct.save_state_dict("host.safetensors", host)
        with open("gpu.safetensors", "rb") as one, open("host.safetensors", "rb") as other:
            assert one.read() == other.read()

    def test_a_model_that_does_not_fit_is_unchanged(self, torch, tct):
        model, _ = trained(torch)
        tct.save_state_dict("model", model)
        other = make_net(torch, seed=1)
        other.larger = torch.nn.Parameter(torch.zeros(3, device=DEVICE))
        wanted = copy.deepcopy(dict(other.state_dict()))
        with pytest.raises(tct.StateMismatchError, match="larger"):
            tct.load_state_dict(other, "model")
        assert_same(dict(other.state_dict()), wanted)

    def test_verify_leaves_the_model_unchanged(self, torch, tct):
        model, optimizer = trained(torch)
        tct.save_state_dict("model", model, optimizer)
        with tc.open("model") as reader:
            offset = reader.entry("larger").offset
        with open("model.data-00000-of-00001", "r+b") as file:
            file.seek(offset + 100)
            byte = file.read(1)[0]
            file.seek(offset + 100)
            file.write(bytes([byte ^ 1]))
        other, other_optimizer = trained(torch, seed=1)
        wanted = copy.deepcopy([dict(other.state_dict()), other_optimizer.state_dict()])
        with pytest.raises(tc.DataLossError, match="larger"):
            tct.load_state_dict(other, "model", other_optimizer, verify=True)
        assert_same([dict(other.state_dict()), other_optimizer.state_dict()], wanted)
        with pytest.raises(tc.DataLossError, match="larger"):
            tct.load_state_dict(other, "model")
        tct.load_state_dict(other, "model", verify=False)
        assert (other.larger != model.larger).sum().item() <= 1
        train(torch, other, other_optimizer)

    def test_verify_of_a_whole_file(self, torch, tct):
        model, _ = trained(torch)
        tct.save_state_dict("model", model)
        other = make_net(torch, seed=1)
        tct.load_state_dict(other, "model", verify=True)
        assert_same(dict(other.state_dict()), dict(model.state_dict()))


class TestOrderOfLoading:
    @pytest.mark.parametrize("size", [1000, 4 * MIB])
    def test_work_before_and_after_the_load(self, torch, tct, size):
        """The parameters are written late by the current stream, and read by it right after the load. Several large
        ones are read by several threads, whose own current stream is another one."""
        tct.save_state_dict("model", {str(i): torch.full((size,), 5.0 + i) for i in range(3)})
        model = torch.nn.ParameterList([torch.zeros(size, device=DEVICE) for i in range(3)])
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            delay(torch)
            for parameter in model:
                parameter.fill_(1)  # must be before the load
            assert_is_busy(side)
            tct.load_state_dict(model, "model")
            after = [parameter * 2 for parameter in model]  # must be after the load
        torch.cuda.synchronize()
        for i, (parameter, twice) in enumerate(zip(model, after)):
            assert parameter.min().item() == parameter.max().item() == 5 + i
            assert twice.min().item() == twice.max().item() == 10 + 2 * i

    def test_read_into_is_ordered_too(self, torch):
        tc.save("model", {"w": np.full(4 * MIB, 5, np.float32)})
        side = torch.cuda.Stream()
        with torch.cuda.stream(side), tc.open("model") as reader:
            out = torch.zeros(4 * MIB, device=DEVICE)
            delay(torch)
            out.fill_(1)
            assert_is_busy(side)
            reader.read_into("w", out)
            after = out * 2
        torch.cuda.synchronize()
        assert out.min().item() == 5 and after.min().item() == 10

    def test_memory_that_torch_reuses_while_work_on_it_waits(self, torch):
        """The allocator of PyTorch gives out a block at once on the stream that freed it, whatever runs there."""
        tc.save("model", {"w": np.full(16 * MIB, 5, np.float32)}, sync=False)
        torch.cuda.empty_cache()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            old = torch.zeros(16 * MIB, device=DEVICE)
            pointer = old.data_ptr()
            delay(torch)
            old.fill_(1)
            del old
            assert_is_busy(side)
            loaded = tc.load("model", framework="torch", device=DEVICE)["w"]
            assert loaded.data_ptr() == pointer, "the memory was not reused: nothing was tested"
            after = loaded * 2
        torch.cuda.synchronize()
        assert loaded.min().item() == 5 and after.min().item() == 10

    def test_memory_that_cupy_reuses_while_work_on_it_waits(self, torch, cupy):
        tc.save("model", {"w": np.full(16 * MIB, 5, np.float32)}, sync=False)
        side = cupy.cuda.Stream(non_blocking=True)
        with side:
            old = cupy.zeros(16 * MIB, cupy.float32)
            pointer = old.data.ptr
            with torch.cuda.stream(torch.cuda.ExternalStream(side.ptr)):
                delay(torch)
            old.fill(1)
            del old
            assert not side.done, "the delay was too short for this test"
            loaded = tc.load("model", framework="cupy", device=DEVICE)["w"]
            assert loaded.data.ptr == pointer, "the memory was not reused: nothing was tested"
            after = loaded * 2
        side.synchronize()
        assert float(loaded.min()) == 5 and float(after.min()) == 10


@contextlib.contextmanager
def full_disk():
    """Files may have 1000 bytes in this block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def make_block(torch, mib):
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.zeros(mib * MIB // 4, device=DEVICE))
    model.register_buffer("small", torch.zeros(3, device=DEVICE))
    return model


def fill(torch, model, value):
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(value)


def found_in(path):
    saved = tc.load(path)
    return {float(number) for one in saved.values() for number in (one.min(), one.max())}


class TestTrees:
    def test_leaves_come_back_where_they_were(self, torch, jax):
        gpu = jax.devices("gpu")[0]
        tree = {
            "torch": [torch.arange(3 * MIB, device=DEVICE), torch.ones(2, 3)],
            "jax": {"w": jax.device_put(jax.numpy.arange(1000.0), gpu), "b": jax.device_put(jax.numpy.zeros(0), gpu)},
            "numpy": np.arange(4),
            "step": 7,
        }
        trees.save("tree.npz", tree)
        loaded = trees.load("tree.npz", like=tree)
        assert loaded["torch"][0].device == tree["torch"][0].device and loaded["torch"][0].equal(tree["torch"][0])
        assert loaded["torch"][1].device.type == "cpu" and loaded["torch"][1].equal(tree["torch"][1])
        for name, leaf in tree["jax"].items():
            assert loaded["jax"][name].devices() == {gpu} and (loaded["jax"][name] == leaf).all()
        assert loaded["numpy"].tolist() == [0, 1, 2, 3] and loaded["step"] == 7


class TestAsyncCheckpointer:
    def test_it_returns_while_the_file_is_written(self, torch, tct):
        model = make_block(torch, 512)
        with tct.AsyncCheckpointer("run") as checkpointer:
            save = checkpointer.save(0, model)
            assert not save.done
            save.wait()
            assert save.done
        assert found_in("run/ckpt-0") == {0}

    @pytest.mark.parametrize("mib", [1, 256])
    def test_values_are_those_of_the_call(self, torch, tct, mib):
        """Work before the call waits in the stream, and the parameters change right after the call."""
        model = make_block(torch, mib)
        side, other = torch.cuda.Stream(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with tct.AsyncCheckpointer("run", keep_last=9) as checkpointer:
            with torch.cuda.stream(side):
                for step in range(3):
                    if step == 0:
                        delay(torch)
                    fill(torch, model, step + 1)
                    if step == 0:
                        assert_is_busy(side)
                    checkpointer.save(step, model)
                    fill(torch, model, -1)
                fill(torch, model, 9)
                checkpointer.save(9, model)
                other.wait_event(side.record_event())
            with torch.cuda.stream(other):
                fill(torch, model, -2)
        torch.cuda.synchronize()
        assert {step: found_in(f"run/ckpt-{step}") for step in (0, 1, 2, 9)} == {0: {1}, 1: {2}, 2: {3}, 9: {9}}

    def test_training_goes_on_meanwhile(self, torch, tct):
        model, optimizer = trained(torch, steps=1)
        wanted = {}
        with tct.AsyncCheckpointer("run", keep_last=9, full_every=2) as checkpointer:
            for step in range(4):
                train(torch, model, optimizer)
                wanted[step] = copy.deepcopy([dict(model.state_dict()), optimizer.state_dict()])
                checkpointer.save(step, model, optimizer)
        for step in range(4):
            other, other_optimizer = trained(torch, seed=1)
            base = None if step % 2 == 0 else f"run/ckpt-{step - 1}"
            tct.load_state_dict(other, f"run/ckpt-{step}", other_optimizer, base=base)
            assert_same([dict(other.state_dict()), other_optimizer.state_dict()], wanted[step])

    def test_load_latest(self, torch, tct):
        model, optimizer = trained(torch)
        with tct.AsyncCheckpointer("run") as checkpointer:
            for step in range(2):
                train(torch, model, optimizer)
                checkpointer.save(step, model, optimizer)
        other, other_optimizer = trained(torch, seed=1, steps=0)
        assert tct.load_latest("run", other, other_optimizer) == 1
        assert_same(
            [dict(other.state_dict()), other_optimizer.state_dict()],
            [dict(model.state_dict()), optimizer.state_dict()],
        )

    def test_the_error_of_a_save(self, torch, tct):
        model = make_block(torch, 4)
        with tct.AsyncCheckpointer("run") as checkpointer:
            with full_disk():
                save = checkpointer.save(0, model)
                with contextlib.suppress(tc.Error):
                    save.wait()
            with pytest.raises(tc.Error, match="ckpt-0"):
                checkpointer.save(1, model)
            fill(torch, model, 3)
            checkpointer.save(1, model)
        assert found_in("run/ckpt-1") == {3}

    def test_a_model_that_is_dropped_at_once(self, torch, tct):
        model = make_block(torch, 256)
        with tct.AsyncCheckpointer("run") as checkpointer:
            fill(torch, model, 5)
            save = checkpointer.save(0, model)
            del model
            torch.full((64 * MIB,), -1.0, device=DEVICE)  # takes the memory of the model
            save.wait()
        assert found_in("run/ckpt-0") == {5}

    def test_models_on_two_devices(self, torch, tct):
        model = torch.nn.ModuleDict({"gpu": torch.nn.Linear(300, 200, device=DEVICE), "host": torch.nn.Linear(3, 2)})
        with tct.AsyncCheckpointer("run") as checkpointer:
            wanted = copy.deepcopy(dict(model.state_dict()))
            checkpointer.save(0, model)
            fill(torch, model, -1)
        assert tct.load_latest("run", model) == 0
        assert_same(dict(model.state_dict()), wanted)
        assert {one.device.type for one in model.state_dict().values()} == {"cuda", "cpu"}


class TestAsyncCheckpointerAlone:
    """These look at the free memory of the GPU, or take it: no other program may use it."""

    def test_when_the_memory_of_the_gpu_is_nearly_full(self, torch, tct):
        model = make_block(torch, 256)
        fill(torch, model, 3)
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        full = torch.empty(free - 96 * MIB, dtype=torch.uint8, device=DEVICE)
        try:
            with tct.AsyncCheckpointer("run", keep_last=9) as checkpointer:
                for step in range(2):
                    checkpointer.save(step, model)
                    fill(torch, model, 4)
        finally:
            del full
            torch.cuda.empty_cache()
        assert [found_in(f"run/ckpt-{step}") for step in range(2)] == [{3}, {4}]

    def test_memory_of_the_gpu_is_given_back(self, torch, tct):
        model = make_block(torch, 256)
        torch.cuda.synchronize()
        allocated = torch.cuda.memory_allocated()
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        with tct.AsyncCheckpointer("run") as checkpointer:
            checkpointer.save(0, model).wait()
            assert torch.cuda.memory_allocated() == allocated
            checkpointer.save(1, model).wait()
            assert torch.cuda.memory_allocated() == allocated
        torch.cuda.empty_cache()
        assert torch.cuda.mem_get_info()[0] >= free - 64 * MIB, "the closed checkpointer keeps memory of the GPU"
