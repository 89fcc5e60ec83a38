"""One rank of the jobs of test_sharded.py: sharded_ranks.py STEP RANK SIZE FOLDER."""

import os
import sys
import threading

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

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


def step_communicator(mesh, folder):
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


def step_save(mesh, folder):
    report = tct.save_sharded(model_of(mesh), os.path.join(folder, "model"))
    assert report["data_files"] == dist.get_world_size()
    size = dist.get_world_size()
    grid = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("data", "model")) if size % 2 == 0 else None
    if grid is not None:
        whole = torch.arange(35.0).reshape(5, 7)
        state = {"t": distribute_tensor(whole, grid, [Replicate(), Shard(1)])}
        tct.save_sharded(state, os.path.join(folder, "grid"))


def step_load(mesh, folder):
    state = cleared(model_of(mesh).state_dict())
    tct.load_sharded(state, os.path.join(folder, "model"))
    check(state)
    whole = torch.arange(35.0).reshape(5, 7)
    again = {"t": distribute_tensor(torch.zeros(5, 7), mesh, [Shard(0)])}
    tct.load_sharded(again, os.path.join(folder, "grid"))
    assert torch.equal(again["t"].full_tensor(), whole)


def step_dcp_save(mesh, folder):
    state = {"model": model_of(mesh).state_dict(), "epoch": 7, "lr": [0.5, "text"]}
    writer = tct.StorageWriter(os.path.join(folder, "dcp"), overwrite=True)
    for _ in range(2):  # the second with the plan of the first
        dcp.save(state, storage_writer=writer)


def step_dcp_load(mesh, folder):
    state = {"model": cleared(model_of(mesh).state_dict()), "epoch": 0, "lr": [0.0, ""]}
    dcp.load(state, storage_reader=tct.StorageReader(os.path.join(folder, "dcp")))
    check(state["model"])
    assert state["epoch"] == 7 and state["lr"] == [0.5, "text"]


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harm",)


def step_dcp_harm(mesh, folder):
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


def step_refused(mesh, folder):
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


def main():
    step, rank, size, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    watchdog = threading.Timer(240, os._exit, (9,))  # a rank that waits for ever
    watchdog.daemon = True
    watchdog.start()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting-{step}", rank=rank, world_size=size)
    globals()["step_" + step](init_device_mesh("cpu", (size,)), folder)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
