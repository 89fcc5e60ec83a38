"""One rank of the jobs of test_sharded.py: sharded_ranks.py STEP,... RANK SIZE FOLDER [STORE]."""

import os
import sys
import threading

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import tensorcask as tc
import tensorcask.sharded as tcs
import tensorcask.torch as tct


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first = torch.nn.Linear(7, 5)
        self.second = torch.nn.Linear(5, 3, dtype=torch.float64)
        self.register_buffer("count", torch.arange(3))

    def forward(self, numbers):
        return self.second(self.first(numbers).double()).sum()


def model_of(mesh):
    """The same values on any number of ranks, each with its part."""
    net = Net()
    if mesh is not None:
        fully_shard(net.second, mesh=mesh)
        fully_shard(net, mesh=mesh)
    return net


def expected():
    return Net().state_dict()


def cleared(state):
    for tensor in state.values():
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        with torch.no_grad():
            local.zero_()
    return state


def check(state):
    for name, value in expected().items():
        found = state[name].full_tensor() if isinstance(state[name], DTensor) else state[name]
        assert torch.equal(found, value), name


def step_communicator(mesh, folder, store):
    comm = tcs.TorchCommunicator()
    for root in range(comm.size):
        for size in (0, 1, 1000):
            mine = bytes([comm.rank]) * size
            all_of_them = comm.gather(mine, root)
            if comm.rank == root:
                assert all_of_them == [bytes([rank]) * size for rank in range(comm.size)]
            else:
                assert all_of_them is None
            assert comm.broadcast(mine if comm.rank == root else b"", root) == bytes([root]) * size
    comm.barrier()


def step_save(mesh, folder, store):
    report = tct.save_sharded(model_of(mesh), os.path.join(folder, "model"))
    assert report["data_files"] == dist.get_world_size()
    size = dist.get_world_size()
    grid = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("data", "model")) if size % 2 == 0 else None
    if grid is not None:
        whole = torch.arange(35.0).reshape(5, 7)
        state = {"t": distribute_tensor(whole, grid, [Replicate(), Shard(1)])}
        tct.save_sharded(state, os.path.join(folder, "grid"))


def step_load(mesh, folder, store):
    state = cleared(model_of(mesh).state_dict())
    tct.load_sharded(state, os.path.join(folder, "model"))
    check(state)
    whole = torch.arange(35.0).reshape(5, 7)
    again = {"t": distribute_tensor(torch.zeros(5, 7), mesh, [Shard(0)])}
    tct.load_sharded(again, os.path.join(folder, "grid"))
    assert torch.equal(again["t"].full_tensor(), whole)


def trained(mesh, steps):
    """A model and its optimizer after some steps, the same on any number of ranks."""
    model = model_of(mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.125)
    for _ in range(steps):
        model(torch.ones(4, 7)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def whole(value):
    """`value` with whole tensors in place of parts."""
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [whole(item) for item in value]
    return value.full_tensor() if isinstance(value, DTensor) else value


def check_trained(model, optimizer, folder):
    """Model and optimizer are those that step_train kept, and the next step is one of them."""
    state = whole({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    wanted = torch.load(os.path.join(folder, "wanted.pt"))
    torch.testing.assert_close(state, wanted, rtol=0, atol=0)
    assert wanted["optimizer"]["state"][0]["exp_avg"].abs().sum() > 0 and wanted["optimizer"]["state"][0]["step"] == 2
    placements = [getattr(item, "placements", None) for item in model.parameters()]
    assert [getattr(optimizer.state[item]["exp_avg"], "placements", None) for item in model.parameters()] == placements
    model(torch.ones(4, 7)).backward()
    optimizer.step()


def step_two_axes(mesh, folder, store):
    """FSDP2 over tensor parallelism, which divides an axis twice; and a save in the background of other exchanges."""
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    net = parallelize_module(Net(), grid["model"], {"first": ColwiseParallel(), "second": RowwiseParallel()})
    fully_shard(net, mesh=grid["data"])
    path = os.path.join(folder, "two_axes")
    tct.save_sharded(net, path)
    stored = tc.load(path)
    for name, value in expected().items():
        assert torch.equal(torch.from_numpy(stored[name]), value), name
    cleared(net.state_dict())
    tct.load_sharded(net, path)
    check(net.state_dict())
    writer = tct.StorageWriter(path + "_async", process_group=dist.new_group())
    saving = dcp.async_save({"net": net.state_dict()}, storage_writer=writer, process_group=dist.new_group())
    for _ in range(100):
        dist.all_reduce(torch.ones(100))
    saving.result()
    assert len(tc.load(path + "_async")) == len(stored)


def places(folder, store):
    return [os.path.join(folder, "trained")] + ([store + "/trained"] if store else [])


def step_train(mesh, folder, store):
    model, optimizer = trained(mesh, 2)
    state = whole({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    if dist.get_rank() == 0:
        torch.save(state, os.path.join(folder, "wanted.pt"))
    for path in places(folder, store):
        tct.save_sharded(model, path, optimizer)
        of_model, of_optimizer = get_state_dict(model, optimizer)
        saved = {"model": of_model, "optimizer": of_optimizer, "epoch": 7, "lr": [0.5, "text"]}
        writer = tct.StorageWriter(path + "_dcp", overwrite=True)
        for _ in range(2):  # the second with the plan of the first
            dcp.save(saved, storage_writer=writer)


def step_go_on(mesh, folder, store):
    for path in places(folder, store):
        model, optimizer = trained(mesh, 0)
        tct.load_sharded(model, path, optimizer)
        check_trained(model, optimizer, folder)
        model, optimizer = trained(mesh, 1)
        of_model, of_optimizer = get_state_dict(model, optimizer)
        loaded = {"model": of_model, "optimizer": of_optimizer, "epoch": 0, "lr": [0.0, ""]}
        dcp.load(loaded, storage_reader=tct.StorageReader(path + "_dcp"))
        set_state_dict(model, optimizer, model_state_dict=of_model, optim_state_dict=of_optimizer)
        check_trained(model, optimizer, folder)
        assert loaded["epoch"] == 7 and loaded["lr"] == [0.5, "text"]


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harm",)


def step_dcp_harm(mesh, folder, store):
    path = os.path.join(folder, "harm_dcp")
    dcp.save({"value": Harmful()}, storage_writer=tct.StorageWriter(path))
    try:
        dcp.load({"value": 0}, storage_reader=tct.StorageReader(path))
    except dcp.api.CheckpointException as error:
        assert "more than plain values" in str(error), error
    else:
        raise AssertionError("was loaded")
    assert not os.path.exists("harm")
    dcp.load({"value": 0}, storage_reader=tct.StorageReader(path, trusted=True))
    assert os.path.exists("harm")


def step_refused(mesh, folder, store):
    rank = dist.get_rank()
    try:
        dtype = torch.float32 if rank == 0 else torch.int32
        comm = tcs.TorchCommunicator()
        tcs.save(comm, os.path.join(folder, "refused"), [("w", (4,), (2 * (rank % 2),), torch.zeros(2, dtype=dtype))])
    except tc.InvalidArgumentError as error:
        assert "rank 0 declares float32 [4], rank 1 declares int32 [4]" in str(error), error
    else:
        raise AssertionError("was not refused")
    assert not [name for name in os.listdir(folder) if name.startswith("refused")]


def step_uneven(mesh, folder, store):
    """Two axes of a mesh that divide one axis of a tensor, and tensors that have fewer rows than there are ranks."""
    size = dist.get_world_size()
    grid = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("data", "model"))
    layouts = {"both": [Shard(0), Shard(0)], "crossed": [Shard(1), Shard(0)], "few": [Shard(0), Replicate()]}
    shapes = {"both": (9, 2), "crossed": (5, 3), "few": (1, 4), "none": (0, 6)}
    layouts["none"] = [Shard(1), Replicate()]
    numbers = {name: torch.randn(shape, generator=torch.Generator().manual_seed(3)) for name, shape in shapes.items()}
    state = {name: distribute_tensor(numbers[name], grid, layouts[name]) for name in shapes}
    path = os.path.join(folder, "uneven")
    tct.save_sharded(state, path)
    dcp.save(state, storage_writer=tct.StorageWriter(path + "_dcp"))
    for name, value in tc.load(path).items():
        assert torch.equal(torch.from_numpy(value), numbers[name]), name
    for name in (path, path + "_dcp"):
        again = {name: distribute_tensor(torch.zeros(shape), mesh, [Shard(0)]) for name, shape in shapes.items()}
        tct.load_sharded(again, name)
        for each, value in again.items():
            assert torch.equal(value.full_tensor(), numbers[each]), each


def step_misfits(mesh, folder, store):
    """What does not fit is refused on all ranks, and nothing is changed."""
    path = os.path.join(folder, "misfits")
    tct.save_sharded({"a": torch.ones(4, 3), "b": torch.ones(2)}, path)
    state = {"a": distribute_tensor(torch.zeros(2, 3), mesh, [Shard(0)]), "b": torch.zeros(2, dtype=torch.int32),
             "c": torch.zeros(1)}  # fmt: skip
    try:
        tct.load_sharded(state, path)
    except tct.StateMismatchError as error:
        assert error.missing_keys == ["c"] and error.mismatched_keys == ["a", "b"]
        assert "'a' is float32 [4, 3] in the file and float32 [2, 3] in the model" in str(error), error
    else:
        raise AssertionError("was not refused")
    assert whole(state["a"]).sum() == 0
    tct.save_sharded({f"of_{each}": torch.ones(2 + each) for each in range(2)}, path + "1")
    mine = torch.zeros(2 + dist.get_rank())  # ranks may want different tensors
    tct.load_sharded({f"of_{dist.get_rank()}": mine}, path + "1")
    assert mine.sum() == 2 + dist.get_rank()
    bad = {"w": torch.zeros(2), "bad": "text" if dist.get_rank() == 1 else torch.zeros(1)}
    try:  # an argument of one rank is an error of all
        tct.save_sharded(bad, path + "2")
    except tc.InvalidArgumentError as error:
        mine = dist.get_rank() == 1
        assert str(error) == ("" if mine else "rank 1: ") + "bad: the state of the model has str; wanted a tensor"
    else:
        raise AssertionError("was not refused")


def main():
    steps, rank, size, folder = sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    watchdog = threading.Timer(240, os._exit, (9,))  # a rank that waits for ever
    watchdog.daemon = True
    watchdog.start()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting-{steps[0]}", rank=rank, world_size=size)
    for step in steps:
        globals()["step_" + step](init_device_mesh("cpu", (size,)), folder, sys.argv[5] if len(sys.argv) > 5 else "")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
