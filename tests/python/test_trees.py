"""tensorcask.trees: nested values of NumPy, PyTorch and JAX. What concerns JAX runs in processes that import it."""

import collections
import importlib.util
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tensorcask as tc
from conftest import change_elements
from tensorcask import trees

Point = collections.namedtuple("Point", "x y")


def state():
    return {
        "params": {"dense": {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.zeros(3, np.float16)}},
        "list": [np.ones(2), (np.int8(3), np.array(True))],
        "point": Point(np.arange(2), Point(1.5, None)),
        "ordered": collections.OrderedDict(b=np.zeros((0, 2)), a=np.ones(1)),
        "counts": {10: 1, 2: -7},
        "flag": True,
        "text": "\u00fc",
        "texts": np.array([b"a", b"\x00b"], object),
        "none": None,
        "empty": {},
    }


def assert_same(found, wanted):
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            assert_same(found[key], wanted[key])
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted):
            assert_same(one, other)
    elif isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape and found.tolist() == wanted.tolist()
    else:
        assert repr(found) == repr(wanted)


def emptied(tree):
    """The same structure with other values."""
    if isinstance(tree, dict):
        copied = type(tree)()
        copied.update((key, emptied(value)) for key, value in tree.items())
        return copied
    if isinstance(tree, Point):
        return Point(*map(emptied, tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map(emptied, tree))
    if isinstance(tree, np.ndarray):
        return np.zeros_like(tree) if tree.dtype != object else np.full_like(tree, b"")
    return None if tree is None else type(tree)()


def test_a_tree_comes_back_into_its_structure():
    trees.save("state", state())
    with tc.open("state") as reader:
        assert set(reader) >= {"params/dense/kernel", "list/1/0", "point/y/x", "counts/10", "text"}
    assert_same(trees.load("state", like=emptied(state())), state())
    factory = collections.defaultdict(list, a=np.ones(1))
    trees.save("default", factory)
    assert trees.load("default", like=factory)["not there"] == []


@pytest.mark.parametrize("path", ["state.safetensors", "state.npz", "state.tfrecord"])
def test_other_formats(path):
    tree = {"a": [np.arange(3), {"b": np.float32(2)}], "step": 3}
    trees.save(path, tree, overwrite=True)
    assert_same(trees.load(path, like=emptied(tree)), tree)


def test_structures_do_not_depend_on_jax():
    pytest.importorskip("jax")
    test_a_tree_comes_back_into_its_structure()
    test_two_leaves_of_one_name()


def test_without_a_structure_dicts_come_back():
    trees.save("state", {"a": [np.ones(1), {"b": 2}], "c": Point(3, 4)})
    found = trees.load("state")
    assert found == {"a": {"0": np.ones(1), "1": {"b": 2}}, "c": {"x": 3, "y": 4}}
    assert type(trees.load("state", framework="tensorcask")["c"]["x"]) is tc.Tensor
    for names in [("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b", "x")]:
        with tc.Writer("other", overwrite=True) as writer:
            for name in names:
                writer.add(name, np.ones(1))
        with pytest.raises(tc.InvalidArgumentError, match="cannot be one tree; load it with tensorcask.load"):
            trees.load("other")


def test_all_that_differs_is_listed():
    trees.save("state", {"a": np.ones(2), "b": np.ones(2), "c": 1, "d": 1})
    like = {"a": np.ones(3), "b": np.ones(2, np.float32), "c": 1.0, "e": {"f": 1}}
    with pytest.raises(trees.TreeMismatchError) as caught:
        trees.load("state", like=like)
    assert isinstance(caught.value, KeyError) and isinstance(caught.value, ValueError)
    assert str(caught.value) == (
        "state: does not fit the tree: the file has no 'e/f'; the tree has no 'd'; 'a' is float64 [2] in the file and "
        "float64 [3] in the tree; 'b' is float64 [2] in the file and float32 [2] in the tree; 'c' is int64 [] in the "
        "file and float64 [] in the tree"
    )
    assert trees.load("state", like={"c": 5}, strict=False) == {"c": 1}


def test_two_leaves_of_one_name():
    with pytest.raises(tc.ExistingTensorError, match="'a/b': two leaves"):
        trees.flatten({"a/b": 1, "a": {"b": 2}})
    with pytest.raises(tc.ExistingTensorError, match="'1': two leaves"):
        trees.save("state", {1: 1, "1": 2})


def test_leaves_that_are_no_arrays():
    for leaf in [object(), {1, 2}, 2**70, len]:
        with pytest.raises((tc.Error, TypeError)):
            trees.save("state", {"a": leaf})
    assert trees.flatten(np.ones(1)).keys() == {""}


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    tree = {"w": torch.arange(4).to(torch.bfloat16), "n": [torch.tensor(3)]}
    trees.save("state", tree)
    found = trees.load("state", like={"w": torch.zeros(4, dtype=torch.bfloat16), "n": [torch.tensor(0)]})
    assert torch.equal(found["w"], tree["w"]) and found["n"][0] == 3
    with pytest.raises(trees.TreeMismatchError, match=r"bfloat16 \[4\] in the file and float32 \[4\]"):
        trees.load("state", like={"w": torch.zeros(4), "n": [torch.tensor(0)]})


@pytest.mark.parametrize("full_every", [1, 4])
def test_steps_in_the_background(full_every):
    tree = {"w": np.zeros(1000), "step": 0}
    with trees.AsyncCheckpointer("run", full_every=full_every, keep_last=3) as checkpointer:
        for step in range(6):
            tree["w"][step] = step
            tree["step"] = step
            checkpointer.save(step, tree)
            tree["w"][:] += 1
        checkpointer.wait()
        assert checkpointer.latest().number == 5 and 5 in checkpointer.steps()
    number, found = trees.load_latest("run", like=tree)
    assert number == found["step"] == 5 and found["w"][5] == 5 and found["w"][6] == 5
    assert trees.load_latest("run")[1]["step"] == 5
    assert trees.load_latest("nothing") is None


def test_elements_that_do_not_match_their_checksum():
    good, bad = np.array([1.0, 7.5]), np.array([2.0, 7.5])
    tree = {"w": good}
    with trees.AsyncCheckpointer("run", keep_last=3) as checkpointer:
        for step in range(2):
            checkpointer.save(step, {"w": good + step})
    change_elements("run/ckpt-1", good + 1, bad + 1)
    for path in ("tree", "tree.safetensors"):
        trees.save(path, tree)
        change_elements(path, good, bad)
        with pytest.raises(tc.DataLossError, match="verify=False"):
            trees.load(path, like=tree)
        assert trees.load(path, like=tree, verify=False)["w"].tolist() == trees.load(path, verify=False)["w"].tolist()
        assert trees.load(path, verify=False)["w"].tolist() == [2, 7.5]
    assert trees.load_latest("run", like=tree)[0] == 0
    number, found = trees.load_latest("run", like=tree, verify=False)
    assert number == 1 and found["w"].tolist() == [3, 8.5]


# ---- JAX ------------------------------------------------------------------------------------------------------------


def run(program):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_trees_of_jax():
    run(
        """
        import dataclasses, functools
        import numpy as np
        import tensorcask as tc
        from tensorcask import trees
        trees.save("plain", {"a": [np.ones(2, np.float32)]})      # before JAX is imported
        import jax, jax.numpy as jnp
        import pytest

        @functools.partial(jax.tree_util.register_dataclass, data_fields=["w", "count"], meta_fields=["name"])
        @dataclasses.dataclass
        class Layer:
            w: object
            count: object
            name: str

        def make(fill):
            return {"layers": [Layer(jnp.full((2, 3), fill, jnp.bfloat16), jnp.int32(fill), "first")], "none": None,
                    "mixed keys": {1: np.ones(1), "1b": [np.zeros(2)]}, "host": np.full(2, fill, np.float64),
                    "rate": float(fill), "key": jax.random.PRNGKey(fill)}

        tree, like = make(3), make(0)
        trees.save("state", tree)
        trees.save("state.safetensors", tree)
        with tc.open("state") as reader:
            assert set(reader) == {"layers/0/w", "layers/0/count", "mixed keys/1", "mixed keys/1b/0", "host", "rate",
                                   "key"}, list(reader)
            assert reader.entry("layers/0/w").dtype == "bfloat16"
        for path in ["state", "state.safetensors"]:
            found, wanted = trees.load(path, like=like), dict(tree)
            for one in (found, wanted):
                one["mixed keys"] = list(one["mixed keys"].values())
            assert jax.tree_util.tree_structure(found) == jax.tree_util.tree_structure(wanted)
            for one, two in zip(jax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(wanted)):
                assert type(one) is type(two) and np.array_equal(np.asarray(one), np.asarray(two)), (one, two)
            assert found["layers"][0].w.sharding == tree["layers"][0].w.sharding
        shapes = jax.eval_shape(lambda: {"w": jnp.zeros((2, 3), jnp.bfloat16)})
        trees.save("shapes", {"w": tree["layers"][0].w})
        assert isinstance(trees.load("shapes", like=shapes)["w"], jax.Array)
        assert trees.load("plain", like={"a": [jnp.zeros(2, jnp.float32)]})["a"][0].sum() == 2
        assert isinstance(trees.load("plain", framework="jax")["a"]["0"], jax.Array)
        with pytest.raises(trees.TreeMismatchError, match="float32"):
            trees.load("plain", like={"a": [jnp.zeros(2, jnp.bfloat16)]})
        """
    )


def test_arrays_of_jax_are_saved_as_they_were_at_the_call():
    run(
        """
        import jax, jax.numpy as jnp, numpy as np
        from tensorcask import trees
        step = jax.jit(lambda w: w + 1, donate_argnums=0)
        w = jnp.zeros(10_000)
        with trees.AsyncCheckpointer("run", keep_last=10) as checkpointer:
            for i in range(5):
                checkpointer.save(i, {"w": w})
                w = step(w)                      # its memory is used again
        for i in range(5):
            assert (trees.load(f"run/ckpt-{i}")["w"] == i).all()
        """
    )
