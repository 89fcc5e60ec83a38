"""Nested dicts, lists and tuples of arrays, such as the parameters of JAX models, by the paths of their leaves.

    >>> import numpy as np, tensorcask.trees as trees
    >>> state = {"params": {"dense": {"kernel": np.ones((2, 3)), "bias": np.zeros(3)}}, "step": 7}
    >>> _ = trees.save("state", state, overwrite=True)
    >>> sorted(trees.flatten(state))
    ['params/dense/bias', 'params/dense/kernel', 'step']
    >>> trees.load("state", like=state)["step"]
    7
    >>> trees.load("state")["params"]["dense"]["kernel"].shape       # without a tree to fill: nested dicts
    (2, 3)

``load`` gives each leaf the kind of the leaf of `like`: an array of NumPy, of JAX (with its sharding), a tensor of
PyTorch, a number. Objects of classes that are registered with JAX have leaves if the program has imported JAX.
"""

import contextlib
import copy
import os
import sys
import typing
from collections.abc import Iterator, Mapping

import numpy as np

from tensorcask import _native
from tensorcask._errors import ExistingTensorError, InvalidArgumentError, MissingTensorError
from tensorcask._gpu import Target, target_on_gpu
from tensorcask._load import to_framework, to_torch
from tensorcask._steps import Step, StepSaver, latest_step

__all__ = ["AsyncCheckpointer", "Step", "TreeMismatchError", "flatten", "load", "load_latest", "save"]

Tree = typing.Any


class TreeMismatchError(MissingTensorError, InvalidArgumentError):
    """A file does not fit a tree: names, dtypes or shapes differ.

    >>> import numpy as np, tensorcask.trees as trees
    >>> _ = trees.save("w.npz", {"w": np.ones(3)})
    >>> trees.load("w.npz", like={"w": np.ones(2)})
    Traceback (most recent call last):
    tensorcask.trees.TreeMismatchError: w.npz: does not fit the tree: 'w' is float64 [3] in the file and float64 [2] ...
    """


def flatten(tree: Tree) -> "dict[str, typing.Any]":
    """The leaves of a tree by the names that ``save`` gives them: the keys on their paths, joined by '/'.

    None has no leaves. Raises ExistingTensorError if two leaves have one name, as in ``{"a/b": x, "a": {"b": y}}``.

    >>> import tensorcask.trees as trees
    >>> trees.flatten({"layers": [1.5, None, {"bias": 2.5}]})
    {'layers/0': 1.5, 'layers/2/bias': 2.5}
    """
    leaves: "dict[str, typing.Any]" = {}
    for path, leaf in _leaves(tree):
        name = "/".join(path)
        if name in leaves:
            raise ExistingTensorError(f"{name!r}: two leaves of the tree have this name")
        leaves[name] = leaf
    return leaves


def save(path: "str | os.PathLike[str]", tree: Tree, **options: typing.Any) -> int:
    """Saves the leaves of a tree as ``tensorcask.save`` does; `options` are those of it. Returns its bytes.

    >>> import numpy as np, tensorcask.trees as trees
    >>> trees.save("tree.safetensors", {"a": {"b": np.zeros(1000, np.float32)}}) > 4000
    True
    """
    return int(_native.save(path, flatten(tree), **options))


def load(
    path: "str | os.PathLike[str]",
    like: Tree = None,
    *,
    strict: bool = True,
    framework: str = "numpy",
    base: "str | os.PathLike[str] | None" = None,
    verify: bool = True,
) -> Tree:
    """Loads a file into a new tree with the structure of `like`, which may have ``jax.ShapeDtypeStruct`` as leaves.

    Dtypes and shapes must be those of the leaves of `like`, and with `strict` the file has no other names:
    TreeMismatchError lists all that differ. `like` is not changed. Without `like` the result is nested dicts, with
    tensors of `framework`. `base` and `verify` are those of ``tensorcask.open``.

    >>> import numpy as np, tensorcask.trees as trees
    >>> _ = trees.save("pair.npz", {"a": np.arange(3), "b": [0.5]})
    >>> trees.load("pair.npz", like={"a": np.zeros(3, np.int64), "b": [0.0]})
    {'a': array([0, 1, 2]), 'b': [0.5]}
    >>> trees.load("pair.npz")
    {'a': array([0, 1, 2]), 'b': {'0': array(0.5)}}
    """
    with _native.open(path, base=base, verify=verify) as reader:
        if like is None:
            return _nested(reader, framework)
        leaves = flatten(like)
        _check(reader, leaves, strict)
        on_gpus = _read_to_gpus(reader, leaves)
        loaded = iter(
            [on_gpus[name] if name in on_gpus else _read(reader, name, leaf) for name, leaf in leaves.items()]
        )
        return map_leaves(like, loaded)


class AsyncCheckpointer(StepSaver):
    """Saves trees at numbered steps, in the background.

    ``save`` returns when the arrays are copied. The options are ``full_every`` (each n-th step is a full checkpoint,
    and the steps between are deltas to it) and those of ``tensorcask.CheckpointManager``.

    >>> import numpy as np, tensorcask.trees as trees
    >>> state = {"w": np.zeros(3)}
    >>> with trees.AsyncCheckpointer("run_of_trees", keep_last=2) as checkpointer:
    ...     for step in range(3):
    ...         state["w"] += 1
    ...         _ = checkpointer.save(step, state)
    >>> step, state = trees.load_latest("run_of_trees", like=state)
    >>> step, state["w"].tolist()
    (2, [3.0, 3.0, 3.0])
    """

    def save(self, step: int, tree: Tree) -> _native.BackgroundSave:
        """Raises the error of the save before, if that failed; then copies the arrays and saves them."""
        return self._save(step, flatten(tree))


def load_latest(
    folder: "str | os.PathLike[str]",
    like: Tree = None,
    *,
    name: str = "ckpt",
    strict: bool = True,
    verify: bool = True,
) -> "tuple[int, Tree] | None":
    """The number and the tree of the newest whole step of a folder; None if there is none.

    Without `verify` only the structure of the step is checked, and its elements are read though they may not match
    their checksum. Errors as ``load``.

    >>> import numpy as np, tensorcask.trees as trees
    >>> with trees.AsyncCheckpointer("run_of_a_tree") as checkpointer:
    ...     _ = checkpointer.save(5, {"w": np.ones(2)})
    >>> trees.load_latest("run_of_a_tree")
    (5, {'w': array([1., 1.])})
    """
    found = latest_step(folder, name, verify)
    if found is None:
        return None
    return found.number, load(found.path, like, strict=strict, base=found.base, verify=verify)


# ---- Trees ----------------------------------------------------------------------------------------------------------


def _jax() -> typing.Any:
    """JAX, if the program has imported it."""
    jax = sys.modules.get("jax")
    return jax if jax is not None and hasattr(jax, "tree_util") else None


def _registered(tree: Tree) -> typing.Any:
    """jax.tree_util, if the object is of a class that is registered with JAX: a dataclass, a FrozenDict."""
    jax = _jax()
    return jax.tree_util if jax is not None and not jax.tree_util.all_leaves([tree]) else None


def _leaves(tree: Tree, path: "tuple[str, ...]" = ()) -> "Iterator[tuple[tuple[str, ...], typing.Any]]":
    """In the order in which ``map_leaves`` asks for them."""
    if isinstance(tree, dict):
        for key, item in tree.items():
            yield from _leaves(item, (*path, str(key)))
    elif isinstance(tree, (list, tuple)):
        names = getattr(tree, "_fields", None) or range(len(tree))
        for name, item in zip(names, tree):
            yield from _leaves(item, (*path, str(name)))
    elif tree is not None:
        tree_util = _registered(tree)
        if tree_util is None:
            yield path, tree
        else:  # one level of it
            for keys, item in tree_util.tree_flatten_with_path(tree, is_leaf=lambda node: node is not tree)[0]:
                yield from _leaves(item, (*path, *map(_text_of_key, keys)))


def _text_of_key(key: typing.Any) -> str:
    for attribute in ("key", "idx", "name"):  # of DictKey and FlattenedIndexKey, SequenceKey, GetAttrKey
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def map_leaves(like: Tree, loaded: "Iterator[typing.Any]") -> Tree:
    """A tree like `like`, with the next value of `loaded` for each leaf."""
    if isinstance(like, dict):
        return _same_type(like, {key: map_leaves(item, loaded) for key, item in like.items()})
    if isinstance(like, tuple) and hasattr(like, "_fields"):
        return type(like)(*(map_leaves(item, loaded) for item in like))
    if isinstance(like, (list, tuple)):
        return _same_type(like, [map_leaves(item, loaded) for item in like])
    tree_util = None if like is None else _registered(like)
    if tree_util is not None:
        items, structure = tree_util.tree_flatten(like, is_leaf=lambda node: node is not like)
        return tree_util.tree_unflatten(structure, [map_leaves(item, loaded) for item in items])
    return None if like is None else next(loaded)


def _same_type(like: Tree, values: typing.Any) -> Tree:
    with contextlib.suppress(TypeError):
        if not isinstance(like, dict):
            return type(like)(values)
        copied = copy.copy(like)  # a defaultdict keeps its factory
        copied.update(values)
        return copied
    return values


# ---- Leaves ---------------------------------------------------------------------------------------------------------


def _is_jax(leaf: object) -> bool:
    jax = _jax()
    return jax is not None and isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct))


def _is_torch(leaf: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(leaf, torch.Tensor)


def _form_of(leaf: typing.Any) -> "tuple[str, tuple[int, ...]]":
    """Dtype and shape of a leaf."""
    if isinstance(leaf, (str, bytes)):
        return "string", ()
    if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
        leaf = np.asarray(leaf)
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "SUOT":
        return "string", tuple(leaf.shape)
    return dtype_name(leaf.dtype), tuple(leaf.shape)


def dtype_name(dtype: typing.Any) -> str:
    """The library's name of a dtype of NumPy, ml_dtypes or PyTorch."""
    name = str(getattr(dtype, "name", dtype)).removeprefix("torch.")
    return name.removesuffix("fn") if name.startswith(("float4", "float6")) else name


def _check(reader: _native.Reader, leaves: "dict[str, typing.Any]", strict: bool) -> None:
    missing = [name for name in leaves if name not in reader]
    problems = []
    if missing:
        problems.append("the file has no " + ", ".join(map(repr, missing)))
    unexpected = [name for name in reader if name not in leaves]
    if strict and unexpected:
        problems.append("the tree has no " + ", ".join(map(repr, unexpected)))
    for name, leaf in leaves.items():
        if name in reader:
            entry, (dtype, shape) = reader.entry(name), _form_of(leaf)
            if entry.shape != shape or entry.dtype != dtype:
                problems.append(
                    f"{name!r} is {entry.dtype} {list(entry.shape)} in the file and {dtype} {list(shape)} in the tree"
                )
    if problems:
        raise TreeMismatchError(f"{reader.path}: does not fit the tree: {'; '.join(problems)}")


def _read_to_gpus(reader: _native.Reader, leaves: "dict[str, typing.Any]") -> "dict[str, typing.Any]":
    """The leaves whose memory is on one GPU that the library can reach, read at once on several threads."""
    targets: "dict[tuple[str, typing.Any], Target | None]" = {}
    target_of: "dict[str, Target]" = {}
    for name, leaf in leaves.items():
        place = _place_of(leaf)
        if place is None:
            continue
        if place not in targets:
            targets[place] = target_on_gpu(*place)
        target = targets[place]
        if target is not None:
            target_of[name] = target
    outs = {name: target.make(reader.entry(name)) for name, target in target_of.items()}
    if outs:
        reader.read_many_into(outs)
    return {name: target_of[name].finish(out) for name, out in outs.items()}


def _place_of(leaf: typing.Any) -> "tuple[str, typing.Any] | None":
    """The framework of a leaf, and its one device."""
    if _is_torch(leaf):
        return "torch", leaf.device
    devices = tuple(getattr(getattr(leaf, "sharding", None), "device_set", ())) if _is_jax(leaf) else ()
    return ("jax", devices[0]) if len(devices) == 1 else None


def _read(reader: _native.Reader, name: str, leaf: typing.Any) -> typing.Any:
    """The stored tensor as a leaf like `leaf`."""
    if _is_jax(leaf):
        array = to_framework("jax", None)(reader.read(name, tensor=True))
        sharding = getattr(leaf, "sharding", None)
        return array if sharding is None else _jax().device_put(array, sharding)
    if _is_torch(leaf):
        return to_torch(reader.read(name, tensor=True), leaf.device)
    array = reader[name]
    if isinstance(leaf, np.ndarray):
        return array
    value: typing.Any = array[()]
    if isinstance(leaf, str):
        return value.decode()
    return value if isinstance(leaf, (np.generic, bytes)) else type(leaf)(value)


def _nested(reader: _native.Reader, framework: str) -> "dict[str, Tree]":
    convert = to_framework(framework, None)
    root: "dict[str, Tree]" = {}
    for name in reader:
        *folders, last = name.split("/")
        node: "dict[str, Tree]" = root
        for depth, folder in enumerate(folders):
            inner = node.setdefault(folder, {})
            if not isinstance(inner, Mapping):
                raise InvalidArgumentError(
                    f"{reader.path}: has {name!r} and {'/'.join(folders[: depth + 1])!r}, which cannot be one tree; "
                    "load it with tensorcask.load"
                )
            node = typing.cast("dict[str, Tree]", inner)
        if last in node:
            raise InvalidArgumentError(
                f"{reader.path}: has tensors below {name!r} and one of this name, which cannot be one tree; load it "
                "with tensorcask.load"
            )
        node[last] = convert(reader.read(name, tensor=framework != "numpy"))
    return root
