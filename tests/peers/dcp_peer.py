"""Distributed checkpoints of PyTorch: several processes write them, and we read what dcp_to_torch_save makes of them.

Run by hand with WORLD_SIZE, KIND and FOLDER it is one process group that writes: dcp_peer.py 2 dcp /tmp/step-1
"""

import json
import os
import pathlib
import subprocess
import sys
import zlib

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import ours
import peer
from torch_peer import DTYPES, facts, flattened, random_tensor

TORCH = f"torch {torch.__version__}"
MIB = 1 << 20


# ---- The processes that write ----------------------------------------------------------------------------------------


def tensors_for(mesh):
    """Uneven parts along each axis, whole copies, a part for few, a scalar, nothing at all, each dtype."""
    wide = random_tensor(1, "float32", (7, 5))
    shared = {
        "rows": distribute_tensor(wide, mesh, [Shard(0)]),
        "columns": distribute_tensor(random_tensor(2, "int64", (3, 11)), mesh, [Shard(1)]),
        "copied": distribute_tensor(random_tensor(3, "bfloat16", (5,)), mesh, [Replicate()]),
        "one_row": distribute_tensor(random_tensor(4, "float64", (1, 9)), mesh, [Shard(0)]),
        "cube": distribute_tensor(random_tensor(5, "float16", (3, 4, 5)), mesh, [Shard(2)]),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 3),
    }
    for i, name in enumerate(DTYPES):
        shared[f"dtypes.{name}"] = random_tensor(10 + i, name, (2, 3))
    return shared


def state_for(mesh):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.125)
    model(torch.ones(4, 5)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "more": tensors_for(mesh),
        "epoch": 3,
        "name": "a run",
        "blob": b"\x00\xff",
        "list": [1, torch.arange(4), {"deep": 2.5}],
    }


def write(rank, world_size, kind, folder):
    # Processes that meet at a file need no port, which another program may have.
    dist.init_process_group("gloo", init_method=f"file://{folder}.meeting", rank=rank, world_size=world_size)
    mesh = init_device_mesh("cpu", (world_size,))
    if kind == "safetensors":
        state = {name: tensor for name, tensor in tensors_for(mesh).items() if "." not in name and name != "empty"}
        dcp.save(state, storage_writer=HuggingFaceStorageWriter(folder, save_distributed=True))
    elif kind == "large":
        rows = 64 * MIB // 4 // 1024 * world_size
        dcp.save({"w": distribute_tensor(torch.zeros(rows, 1024), mesh, [Shard(0)]),
                  "columns": distribute_tensor(torch.ones(1024, rows // 8), mesh, [Shard(1)])},
                 checkpoint_id=folder)  # fmt: skip
    else:
        dcp.save(state_for(mesh), checkpoint_id=folder)
    dist.destroy_process_group()


# ---- The tests -------------------------------------------------------------------------------------------------------


class Dcp(peer.Scratch):
    def written(self, world_size, kind="dcp"):
        folder = self.path(f"{kind}-{world_size}")
        subprocess.run(
            [sys.executable, os.path.realpath(__file__), str(world_size), kind, folder], check=True, timeout=300
        )
        return folder

    def assert_listed(self, path, tensors):
        self.assertEqual(
            {name: (one["dtype"], tuple(one["shape"]), one["crc32"]) for name, one in ours.listing(path).items()},
            {name: (kind, shape, f"{zlib.crc32(data):08x}")
             for name, (kind, shape, data) in ((name, facts(tensor)) for name, tensor in tensors.items())},
        )  # fmt: skip
        ours.tool("verify", path)

    def test_parts_of_all_ranks_are_whole_tensors(self):
        for world_size in (2, 4):
            folder = self.written(world_size)
            reference = self.path("reference.pt")
            dcp_to_torch_save(folder, reference)
            theirs = torch.load(reference, weights_only=False)
            tensors = flattened(theirs)
            self.assert_listed(folder, tensors)
            peer.carried(TORCH, f"{world_size} processes write a distributed checkpoint, we read", len(tensors))
            self.assert_listed(os.path.join(folder, ".metadata"), tensors)
            # Safetensors has no complex128.
            ours.tool("convert", folder, self.path("ours.safetensors"), "--exclude", "*.complex128")
            self.assert_listed(
                self.path("ours.safetensors"),
                {name: tensor for name, tensor in tensors.items() if tensor.dtype != torch.complex128},
            )
            os.remove(self.path("ours.safetensors"))
            # Nested, with the values.
            ours.tool("convert", folder, self.path("ours.pt"))
            again = torch.load(self.path("ours.pt"), weights_only=True)
            self.assertEqual(again["epoch"], 3)
            self.assertEqual(again["name"], "a run")
            self.assertEqual(again["list"][2], {"deep": 2.5})
            self.assertEqual(again["optimizer"]["param_groups"], theirs["optimizer"]["param_groups"])
            self.assertEqual(sorted(flattened(again)), sorted(tensors))
            os.remove(self.path("ours.pt"))

    def test_parts_in_files_of_safetensors(self):
        for world_size in (2, 4):
            folder = self.written(world_size, "safetensors")
            mesh_free = {
                "rows": random_tensor(1, "float32", (7, 5)),
                "columns": random_tensor(2, "int64", (3, 11)),
                "copied": random_tensor(3, "bfloat16", (5,)),
                "one_row": random_tensor(4, "float64", (1, 9)),
                "cube": random_tensor(5, "float16", (3, 4, 5)),
                "scalar": torch.tensor(3.5),
            }
            self.assert_listed(folder, mesh_free)
            peer.carried(TORCH, f"{world_size} processes write parts to safetensors, we read", len(mesh_free))

    def test_a_conversion_has_a_block_in_memory(self):
        folder = self.written(8, "large")
        target = self.path("large.safetensors")
        before = json.loads(ours.tool("ls", "--json", folder))
        self.assertEqual(len(before["tensors"]), 2)
        most = peak_memory([ours.TOOL, "convert", folder, target])
        peer.found(f"convert of 8 processes x 72 MiB takes {most / MIB:.0f} MiB of memory")
        self.assertLess(most, 256 * MIB)
        self.assertEqual(pathlib.Path(target).stat().st_size // MIB, 8 * 72)


def peak_memory(command):
    """The largest resident size of a program, in bytes."""
    program = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); " \
              "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program, *command], check=True, capture_output=True, timeout=300)
    return int(done.stdout.split()[-1])


if __name__ == "__main__":
    count, of_kind, to = sys.argv[1:]
    torch.multiprocessing.spawn(write, (int(count), of_kind, to), nprocs=int(count))
