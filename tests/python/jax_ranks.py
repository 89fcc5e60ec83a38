"""One process of the jobs of test_jax_sharded.py: jax_ranks.py STEP RANK SIZE PORT FOLDER. It has 8 / SIZE devices."""

import os
import sys
import threading

step, rank, size, port, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={8 // size}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

import tensorcask as tc  # noqa: E402
import tensorcask.jax as tcj  # noqa: E402
import tensorcask.sharded as tcs  # noqa: E402

SHAPES = {"kernel": (16, 24), "bias": (24,), "table": (32, 4), "quarters": (8, 8), "empty": (0, 8)}
DTYPES = {"kernel": "float32", "bias": "bfloat16", "table": "float8_e4m3fn", "quarters": "int4", "empty": "float32"}
SAVED = {"kernel": P("data", "model"), "bias": P("model"), "table": P(("data", "model")), "quarters": P(None, "model"),
         "empty": P(None, "data")}  # fmt: skip
LOADED = {"kernel": P("model", None), "bias": P(), "table": P("data"), "quarters": P("model", "data"), "empty": P()}


def whole(name):
    numbers = np.random.default_rng(len(name)).integers(-7, 7, SHAPES[name])
    return np.asarray(numbers).astype(jnp.dtype(DTYPES[name]))


def placed(array, sharding):
    """The same on all processes, each of which makes its part."""
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def tree_of(mesh, specs, make):
    layers = {name: make(name, NamedSharding(mesh, spec)) for name, spec in specs.items()}
    return {"layers": [layers], "step": 7, "scale": np.float32(0.5), "of_each": jnp.full(3, 4)}


def step_communicator():
    comm = tcs.JaxCommunicator()
    assert (comm.rank, comm.size) == (rank, size)
    for root in range(comm.size):
        for count in (0, 1, 1000, 300_000):
            mine = bytes([comm.rank + 1]) * (count * (comm.rank + 1))
            all_of_them = comm.gather(mine, root)
            if comm.rank == root:
                assert all_of_them == [bytes([each + 1]) * (count * (each + 1)) for each in range(comm.size)]
            else:
                assert all_of_them is None
            sent = bytes([root]) * count
            assert comm.broadcast(sent if comm.rank == root else b"", root) == sent
    comm.barrier()


def step_save():
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
    tree = tree_of(mesh, SAVED, lambda name, sharding: placed(whole(name), sharding))
    keys = jax.random.key_data(jax.random.split(jax.random.key(3), 8))
    tree["keys"] = jax.random.wrap_key_data(placed(np.asarray(keys), NamedSharding(mesh, P("model"))))
    path, plan = os.path.join(folder, "model"), tcs.SavePlan()
    reports = [tcj.save_sharded(tree, path, overwrite=True, plan=plan) for _ in range(2)]
    assert [report["kept_plan"] for report in reports] == [False, True]


def step_load():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    like = tree_of(mesh, LOADED, lambda name, sharding: jax.ShapeDtypeStruct(
        SHAPES[name], DTYPES[name], sharding=sharding))  # fmt: skip
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 8))
    like["keys"] = jax.ShapeDtypeStruct(keys.shape, keys.dtype, sharding=NamedSharding(mesh, P("data")))
    like.update(step=0, scale=np.float32(0), of_each=jnp.zeros(3, int))  # on one device of each process
    loaded = tcj.load_sharded(like, os.path.join(folder, "model"))
    assert loaded["step"] == 7 and type(loaded["step"]) is int and loaded["scale"] == np.float32(0.5)
    assert loaded["of_each"].tolist() == [4, 4, 4] and loaded["of_each"].is_fully_addressable
    for name, array in loaded["layers"][0].items():
        assert array.sharding == like["layers"][0][name].sharding and array.dtype == DTYPES[name], name
        for shard in array.addressable_shards:
            assert np.asarray(shard.data).tobytes() == whole(name)[shard.index].tobytes(), name
    wanted = np.asarray(jax.random.key_data(jax.random.split(jax.random.key(3), 8)))
    for shard in jax.random.key_data(loaded["keys"]).addressable_shards:
        assert np.array_equal(shard.data, wanted[shard.index])


def step_refused():
    """An error of one process is an error of all, and nothing is left."""
    mesh = Mesh(np.array(jax.devices()), ("x",))
    good = placed(np.arange(16.0, dtype=np.float32), NamedSharding(mesh, P("x")))
    bad = object() if rank == 1 else 1.0
    try:
        tcj.save_sharded({"good": good, "bad": bad}, os.path.join(folder, "refused"))
    except tc.InvalidArgumentError as error:
        assert str(error) == ("" if rank == 1 else "rank 1: ") + "bad: is object; wanted an array of numbers or a number"
    else:
        raise AssertionError("was not refused")
    try:
        tcj.load_sharded({"good": good}, os.path.join(folder, "none"))
    except FileNotFoundError as error:
        assert "none" in str(error)
    else:
        raise AssertionError("was not refused")
    assert not [name for name in os.listdir(folder) if name.startswith("refused")]


if __name__ == "__main__":
    watchdog = threading.Timer(240, os._exit, (9,))  # a process that waits for ever
    watchdog.daemon = True
    watchdog.start()
    if size > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", size, rank)
    globals()["step_" + step]()
