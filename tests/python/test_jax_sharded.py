"""tensorcask.jax: one process with several devices, and jobs of several processes by jax.distributed."""

import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest

import tensorcask as tc

pytest.importorskip("jax")
RANKS = pathlib.Path(__file__).parent / "jax_ranks.py"


def environment():
    return dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))


def run(step, size, folder):
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, str(RANKS), step, str(rank), str(size), str(port), str(folder)], env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
        )
        for rank in range(size)
    ]  # fmt: skip
    outputs = [rank.communicate()[0] for rank in ranks]
    if any("CPU collectives" in output for output in outputs):
        pytest.skip("this JAX has no collectives between processes on CPUs")
    assert [rank.returncode for rank in ranks] == [0] * size, "\n".join(outputs)


def test_jobs_of_jax_exchange_bytes(tmp_path):
    run("communicator", 2, tmp_path)


@pytest.mark.parametrize("savers, loaders", [(2, 1), (1, 2), (2, 2)])
def test_a_tree_is_loaded_with_other_shardings(tmp_path, savers, loaders):
    run("save", savers, tmp_path)
    run("load", loaders, tmp_path)
    assert bool(tc.verify(tmp_path / "model"))
    stored = tc.load(tmp_path / "model")  # by a program that knows nothing of JAX
    assert stored["layers/0/kernel"].shape == (16, 24) and stored["step"] == 7 and stored["keys"].shape == (8, 2)


def test_an_error_of_one_process_is_one_of_all(tmp_path):
    run("refused", 2, tmp_path)


def test_what_is_no_array(tmp_path):
    import jax

    import tensorcask.jax as tcj

    with pytest.raises(tc.InvalidArgumentError, match="name: is str; wanted an array of numbers or a number"):
        tcj.save_sharded({"name": "resnet"}, tmp_path / "m")
    with pytest.raises(tc.InvalidArgumentError, match="w: is a ShapeDtypeStruct, which has no elements"):
        tcj.save_sharded({"w": jax.ShapeDtypeStruct((2,), "float32")}, tmp_path / "m")
    with pytest.raises(tc.InvalidArgumentError, match="w: is traced"):
        jax.jit(lambda w: tcj.save_sharded({"w": w}, tmp_path / "m"))(np.ones(3))
    gone = jax.numpy.ones(3)
    gone.delete()
    with pytest.raises(tc.InvalidArgumentError, match="w: was deleted"):
        tcj.save_sharded({"w": gone}, tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_a_tree_that_does_not_fit_is_refused(tmp_path):
    import jax

    import tensorcask.jax as tcj
    from tensorcask import trees

    tcj.save_sharded({"a": {"w": jax.numpy.ones((4, 3))}, "n": 1}, tmp_path / "m")
    like = {"a": {"w": jax.ShapeDtypeStruct((2, 3), "float32"), "v": 0.0}, "n": 1.0}
    with pytest.raises(trees.TreeMismatchError) as refused:
        tcj.load_sharded(like, tmp_path / "m")
    for part in ("m: does not fit the tree: the file has no 'a/v'", "'n' is int64 [] in the file and float64 [] in",
                 "'a/w' is float32 [4, 3] in the file and float32 [2, 3] in the tree"):  # fmt: skip
        assert part in str(refused.value)
    assert isinstance(refused.value, KeyError) and isinstance(refused.value, ValueError)


def test_devices_that_do_not_divide_an_axis(tmp_path):
    import jax

    import tensorcask.jax as tcj

    tcj.save_sharded({"w": jax.numpy.arange(5.0)}, tmp_path / "m")
    mesh = jax.sharding.AbstractMesh((2,), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    with pytest.raises(tc.InvalidArgumentError, match="^w: .*should evenly divide the shape"):
        tcj.load_sharded({"w": jax.ShapeDtypeStruct((5,), "float32", sharding=sharding)}, tmp_path / "m")


def test_kinds_of_keys(tmp_path):
    import jax

    import tensorcask.jax as tcj

    keys = {"typed": jax.random.key(1, impl="rbg"), "many": jax.random.split(jax.random.key(2), 3),
            "old": jax.random.PRNGKey(3)}  # fmt: skip
    tcj.save_sharded(keys, tmp_path / "m")
    like = {"typed": jax.random.key(0, impl="rbg"), "many": jax.eval_shape(lambda: keys["many"]), "old": keys["old"]}
    loaded = tcj.load_sharded(like, tmp_path / "m")
    for name, key in keys.items():
        assert loaded[name].dtype == key.dtype and bool((loaded[name] == key).all()), name
    with pytest.raises(ValueError, match=r"uint32 \[4\] in the file and uint32 \[2\] in the tree"):
        tcj.load_sharded({"typed": jax.random.key(0, impl="threefry2x32")}, tmp_path / "m")


def test_small_integers_and_floats_of_jax_in_other_functions(tmp_path):
    import jax
    import jax.numpy as jnp

    from tensorcask import trees

    tree = {name: jnp.arange(-2, 2).astype(name) for name in ("int4", "int2", "float4_e2m1fn", "float8_e5m2")}
    trees.save(tmp_path / "m", tree)
    loaded = trees.load(tmp_path / "m", like=tree)
    for name, array in loaded.items():
        assert isinstance(array, jax.Array) and array.dtype == tree[name].dtype
        assert np.asarray(array).tobytes() == np.asarray(tree[name]).tobytes(), name
