"""References and memory stay flat over many calls. tests/python/under_valgrind.py makes the same calls."""

import gc
import itertools
import os
import sys

import ml_dtypes
import numpy as np

import tensorcask as tc
import tensorcask.sharded as tcs
from tensorcask import keras, trees

LOOPS = int(os.environ.get("TENSORCASK_LEAK_LOOPS", "10000"))


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def raises(function):
    try:
        function()
    except Exception:
        return
    raise AssertionError("no exception")


def make_calls(tmp_path):
    """A name and a function for each call of the module."""
    array = np.arange(1000.0)
    transposed = np.arange(1000.0).reshape(10, 100).T
    brain = np.ones(10, ml_dtypes.bfloat16)
    words = np.array([b"one", "two"], object)
    path = str(tmp_path / "m")
    tc.save(path, {"x": array, "w": words, "b": brain})
    reader = tc.open(path)
    other = str(tmp_path / "n.safetensors")
    tensor = tc.Tensor(transposed)
    out = np.zeros(1000)
    tree = {"a": [np.zeros(10), {"b": 3}], "c": "text"}
    trees.save(str(tmp_path / "tree"), tree)
    return {
        "open": lambda: tc.open(path),
        "read": lambda: reader["x"],
        "read bfloat16": lambda: reader["b"],
        "read strings": lambda: reader["w"],
        "map": lambda: reader.read("x", mmap=True),
        "read_into": lambda: reader.read_into("x", out),
        "slice": lambda: reader.slice("x")[10:20],
        "entry": lambda: repr(reader.entry("x")),
        "iterate": lambda: list(reader),
        "missing": lambda: raises(lambda: reader["y"]),
        "load": lambda: tc.load(path, "x"),
        "load tensors": lambda: tc.load(path, framework="tensorcask"),
        "save": lambda: tc.save(other, {"x": array, "y": transposed, "b": brain}, overwrite=True, sync=False),
        "save of a wrong type": lambda: raises(lambda: tc.save(other, {"x": array, "y": object()}, overwrite=True)),
        "tensor": lambda: tc.Tensor(array),
        "views": lambda: tensor.T[1:3].reshape(-1).numpy(),
        "dlpack out": lambda: np.from_dlpack(tensor.clone()),
        "dlpack unused": lambda: tensor.__dlpack__(),
        "dlpack in": lambda: tc.Tensor(tensor.clone()),
        "text": lambda: (repr(tensor), tensor._repr_html_()),
        "lazy_clone": lambda: tensor.lazy_clone().__setitem__(0, 1.0),
        "stats": lambda: tc.stats(path),
        "verify": lambda: repr(tc.verify(path)),
        "diff": lambda: tc.diff(path, path),
        "trees.save": lambda: trees.save(other, {"a": [array]}, overwrite=True, sync=False),
        "trees.load": lambda: trees.load(str(tmp_path / "tree"), like=tree),
        "keras.open": lambda: keras.open(path)["x"],
        **calls_of_writers(tmp_path, path, array),
        **calls_of_jobs(tmp_path, array),
        **calls_between_processes(tmp_path, array),
        **calls_of_torch(str(tmp_path / "torch"), other),
    }


def calls_of_writers(folder, path, array):
    damaged, other = str(folder / "damaged"), str(folder / "other")
    tc.save(damaged, {"x": array, "y": array})
    with open(damaged + ".data-00000-of-00001", "r+b") as file:
        file.write(b"oops")
    (folder / "cut.npy").write_bytes(b"\x93NUMPY\x01\x00")
    manager = tc.CheckpointManager(folder / "run", keep_last=1, sync=False)
    background = tc.CheckpointManager(folder / "background", keep_last=1, sync=False)
    steps, background_steps = itertools.count(), itertools.count()
    (folder / "elsewhere").mkdir()
    tc.save(folder / "elsewhere" / "base", {"x": array})

    def write():
        with tc.Writer(other, overwrite=True, sync=False) as writer:
            writer.declare("x", "float64", (2, 1000))
            writer.add_slice("x", array[None], start=(0, 0))
            writer.add_slice("x", array[None], start=(1, 0))

    def delta():
        tc.save(other, {"x": array}, base=folder / "elsewhere" / "base", level="default", overwrite=True, sync=False)
        raises(lambda: tc.load(other))

    return {
        "Writer": write,
        "Writer that ends early": lambda: tc.Writer(other, overwrite=True, sync=False).close(),
        "convert": lambda: tc.convert(path, other, exclude="w", overwrite=True, sync=False),
        "convert that fails": lambda: raises(lambda: tc.convert(path, other, rename=len, overwrite=True)),
        "salvage": lambda: tc.salvage(damaged, other, overwrite=True, sync=False),
        "delta without its base": delta,
        "damaged elements": lambda: raises(lambda: tc.load(damaged)),
        "damaged file": lambda: raises(lambda: tc.open(folder / "cut.npy")),
        "manager": lambda: manager.save(next(steps), {"x": array}),
        "manager in the background": lambda: background.save_in_background(next(background_steps), {"x": array}).wait(),
        "latest": lambda: (tc.latest(folder / "run"), background.latest(), background.steps()),
    }


def calls_of_jobs(folder, array):
    comm, path, into = tcs.LocalCommunicator(), folder / "job", np.zeros(500)
    halves = [("x", (1000,), (500 * half,), array[500 * half :][:500]) for half in range(2)]
    wrong = [*halves, ("y", (3,), (0,), object())]

    def refuse(mine, root):
        raise ZeroDivisionError

    broken = tcs.LocalCommunicator()
    broken.gather = refuse
    return {
        "sharded.save": lambda: tcs.save(comm, path, halves, overwrite=True, sync=False),
        "sharded.save of a wrong type": lambda: raises(lambda: tcs.save(comm, path, wrong, overwrite=True)),
        "sharded.save that fails": lambda: raises(lambda: tcs.save(broken, path, halves, overwrite=True)),
        "sharded.load": lambda: tcs.load(comm, path, [("x", (250,), into)]),
        "sharded.load that fails": lambda: raises(lambda: tcs.load(comm, path, [("y", (0,), into)])),
    }


def calls_between_processes(folder, array):
    listener = tc.Listener(folder / "socket")
    sender = tc.Channel.connect(listener.path)
    receiver = listener.accept()
    memory = tc.SharedMemory()
    shared = memory.zeros((100, 100))

    def send(tensors):
        sender.send(tensors, topic="topic")
        return receiver.receive().tensors["x"]

    return {
        "message": lambda: send({"x": array}),
        "message of shared memory": lambda: send({"x": shared}),
        "shared memory": lambda: memory.zeros((10, 10)),
        "shared memory past its limit": lambda: raises(lambda: memory.zeros(1 << 50)),
        "timeout": lambda: raises(lambda: receiver.receive(timeout=0)),
    }


def calls_of_torch(path, other):
    try:
        import torch
    except ImportError:
        return {}
    import tensorcask.torch as tct

    model = torch.nn.Linear(10, 10)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(10)).sum().backward()
    optimizer.step()
    tct.save_state_dict(path, model, optimizer)
    return {
        "load torch": lambda: tc.load(path, framework="torch"),
        "save_state_dict": lambda: tct.save_state_dict(other, model, optimizer, overwrite=True, sync=False),
        "load_state_dict": lambda: tct.load_state_dict(model, path, optimizer),
        "load_state_dict that fails": lambda: raises(lambda: tct.load_state_dict(torch.nn.Linear(1, 1), path)),
    }


SLOW = {"trees.save", "trees.load", "keras.open", "load torch", "save_state_dict", "load_state_dict",
        "load_state_dict that fails", "save", "save of a wrong type", "stats", "verify", "diff",
        "open", "load", "load tensors", "Writer", "Writer that ends early", "convert", "convert that fails", "salvage",
        "delta without its base", "damaged elements", "damaged file", "manager", "manager in the background", "latest",
        "timeout", "sharded.save", "sharded.save of a wrong type", "sharded.save that fails", "sharded.load",
        "sharded.load that fails"}  # fmt: skip


def test_memory_is_flat(tmp_path):
    watched = [np.dtype(np.float64), None, True, tc.Tensor, tc.Error, np.ndarray, (), ""]
    for name, call in make_calls(tmp_path).items():
        loops = LOOPS // 10 if name in SLOW else LOOPS
        for _ in range(loops // 10):
            call()
        gc.collect()
        objects = len(gc.get_objects())
        references = [sys.getrefcount(thing) for thing in watched]
        before = resident_bytes()
        for _ in range(loops):
            call()
        gc.collect()
        growth = resident_bytes() - before
        assert growth < 3 << 20, f"{name}: {growth} bytes more after {loops} loops"
        assert len(gc.get_objects()) - objects < 50, name
        for thing, old in zip(watched, references):
            assert abs(sys.getrefcount(thing) - old) < loops // 10 + 50, f"{name}: references of {thing!r}"
