"""Trees of arrays that the processes of a JAX job hold together, as one checkpoint.

    import tensorcask.jax as tcj

    tcj.save_sharded(state, "step-100")                    # every process calls it, with any sharding
    state = tcj.load_sharded(state, "step-100")            # on any number of processes and devices

Leaves have the names that ``tensorcask.trees`` gives them, so ``tensorcask.trees.load`` reads the checkpoint, too.
"""

import os
import typing
from collections.abc import Iterator

import numpy as np

from tensorcask import sharded, trees
from tensorcask._errors import InvalidArgumentError
from tensorcask._load import import_framework

import_framework("jax")  # raises MissingFrameworkError

import jax  # noqa: E402

__all__ = ["load_sharded", "save_sharded"]

Tree = typing.Any

_ALIGNMENT = 64  # of memory that JAX uses as it is on CPUs


def save_sharded(
    tree: Tree,
    path: "str | os.PathLike[str]",
    *,
    comm: "sharded.Communicator | None" = None,
    **options: typing.Any,
) -> "dict[str, typing.Any]":
    """Saves the leaves of a tree that the processes of a job hold together; every process calls it.

    Of a ``jax.Array`` each process gives its addressable shards, and shards that several devices hold are written once.
    Other leaves (arrays of NumPy, numbers) are the same on all processes. Keys of ``jax.random`` are stored as their
    ``key_data``. `comm` is by default that of ``jax.distributed``, or of one process. The options and the result are
    those of ``tensorcask.sharded.save``.

    >>> import jax.numpy as jnp, tensorcask as tc, tensorcask.jax as tcj
    >>> _ = tcj.save_sharded({"dense": {"kernel": jnp.ones((2, 3))}, "step": 7}, "jax_job", overwrite=True)
    >>> tc.load("jax_job")["dense/kernel"].shape
    (2, 3)
    """
    return sharded.save(comm or _default_communicator(), path, _pieces_of(tree), **options)


def load_sharded(
    like: Tree,
    path: "str | os.PathLike[str]",
    *,
    comm: "sharded.Communicator | None" = None,
    verify: bool = True,
) -> Tree:
    """Loads a checkpoint into a new tree with the structure and the shardings of `like`; every process calls it.

    A leaf of `like` is a ``jax.Array``, a ``jax.ShapeDtypeStruct`` (with a sharding; without one the array is on the
    first device of the process), an array of NumPy or a number. Each process reads what its devices hold. The
    checkpoint may have been saved with other shardings, by another number of processes, or by any other program, and
    may have more tensors. All processes raise an error if one does: ``tensorcask.trees.TreeMismatchError`` for tensors
    that the checkpoint lacks or has with another dtype or shape, and those of ``tensorcask.sharded.load``.

    >>> import jax, jax.numpy as jnp, tensorcask.jax as tcj
    >>> state = {"kernel": jnp.arange(6.0).reshape(2, 3), "step": 7}
    >>> _ = tcj.save_sharded(state, "jax_step", overwrite=True)
    >>> like = {"kernel": jax.ShapeDtypeStruct((2, 3), "float32"), "step": 0}
    >>> tcj.load_sharded(like, "jax_step")
    {'kernel': Array([[0., 1., 2.],
           [3., 4., 5.]], dtype=float32), 'step': 7}
    """
    comm = comm or _default_communicator()
    leaves = sharded.together(comm, lambda: {name: _Wanted(name, leaf) for name, leaf in trees.flatten(like).items()})
    stored = sharded.stored_forms(comm, path, leaves)
    sharded.together(comm, lambda: _check(path, stored, leaves))
    pieces = (piece for leaf in leaves.values() for piece in leaf.pieces())
    sharded.load(comm, path, pieces, verify=verify)
    return trees.map_leaves(like, (leaf.finish() for leaf in leaves.values()))


def _default_communicator() -> "sharded.Communicator":
    return sharded.JaxCommunicator() if jax.process_count() > 1 else sharded.LocalCommunicator()


# ---- Saving ---------------------------------------------------------------------------------------------------------


def _pieces_of(tree: Tree) -> "Iterator[tuple[str, tuple[int, ...], tuple[int, ...], typing.Any]]":
    for name, leaf in trees.flatten(tree).items():
        if not isinstance(leaf, jax.Array):
            array = _plain_array(name, leaf)
            yield name, array.shape, (0,) * array.ndim, array
            continue
        if isinstance(leaf, jax.core.Tracer):
            raise InvalidArgumentError(f"{name}: is traced and has no elements yet; call save_sharded outside of jit")
        if leaf.is_deleted():
            raise InvalidArgumentError(f"{name}: was deleted, perhaps because a function with donate_argnums took it")
        whole = jax.random.key_data(leaf) if _is_key(leaf) else leaf
        if whole.size == 0:  # in one piece, however it is divided
            yield name, whole.shape, (0,) * whole.ndim, np.empty(whole.shape, whole.dtype)
            continue
        starts = set()
        for shard in whole.addressable_shards:
            start = _start_of(shard.index)
            if start not in starts:
                starts.add(start)
                yield name, whole.shape, start, shard.data


def _plain_array(name: str, leaf: typing.Any) -> typing.Any:
    """Errors: InvalidArgumentError for a leaf without elements of a fixed size."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        raise InvalidArgumentError(f"{name}: is a ShapeDtypeStruct, which has no elements; wanted an array or a number")
    array = np.asanyarray(leaf)  # a mask stays, and is refused
    if array.dtype.kind in "SUOT":
        raise InvalidArgumentError(f"{name}: is {type(leaf).__name__}; wanted an array of numbers or a number")
    return array


def _is_key(leaf: typing.Any) -> bool:
    return bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _start_of(index: "tuple[slice, ...]") -> "tuple[int, ...]":
    return tuple(axis.start or 0 for axis in index)


# ---- Loading --------------------------------------------------------------------------------------------------------


class _Wanted:
    """A leaf to load: its memory on the host, by what each device holds of it."""

    def __init__(self, name: str, like: typing.Any) -> None:
        self.name = name
        self._like = like
        self._of_jax = isinstance(like, (jax.Array, jax.ShapeDtypeStruct))
        if not self._of_jax:
            array = _plain_array(name, like)
            self.shape, self.dtype = array.shape, array.dtype
            self._parts = {(0,) * array.ndim: np.empty(array.shape, array.dtype)}
            return
        form = jax.eval_shape(jax.random.key_data, like) if _is_key(like) else like
        self.shape, self.dtype = tuple(form.shape), np.dtype(form.dtype)
        sharding = getattr(like, "sharding", None)
        self._sharding: typing.Any = sharding or jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        if _is_key(like) and isinstance(like, jax.Array):
            self._sharding = jax.random.key_data(like).sharding
        self._parts = {}
        self._starts = {}
        try:
            places = self._sharding.addressable_devices_indices_map(self.shape)
        except ValueError as error:  # devices that do not divide an axis
            raise InvalidArgumentError(f"{name}: {error}") from error
        for device, index in places.items():
            start = self._starts[device] = _start_of(index)
            if start not in self._parts:
                ends = (dim if axis.stop is None else axis.stop for axis, dim in zip(index, self.shape, strict=True))
                extents = [end - begin for begin, end in zip(start, ends, strict=True)]
                self._parts[start] = _aligned(extents, self.dtype)

    def pieces(self) -> "Iterator[tuple[str, tuple[int, ...], typing.Any]]":
        for start, part in self._parts.items():
            if part.size > 0:
                yield self.name, start, part

    def finish(self) -> typing.Any:
        """The leaf, with the elements that were read."""
        parts, self._parts = self._parts, {}
        if not self._of_jax:
            (array,) = parts.values()
            if isinstance(self._like, np.ndarray):
                return array
            value = array[()]
            return value if isinstance(self._like, np.generic) else type(self._like)(value)
        kind = self._sharding.memory_kind
        on_devices = [
            jax.device_put(parts[start], jax.sharding.SingleDeviceSharding(device, memory_kind=kind))
            for device, start in self._starts.items()
        ]
        whole = jax.make_array_from_single_device_arrays(self.shape, self._sharding, on_devices, dtype=self.dtype)
        return jax.random.wrap_key_data(whole, impl=_key_impl(self._like)) if _is_key(self._like) else whole


def _key_impl(like: typing.Any) -> typing.Any:
    """The kind of keys, also of a ShapeDtypeStruct, which key_impl refuses."""
    found = []

    def ask(keys: typing.Any) -> typing.Any:
        found.append(jax.random.key_impl(keys))
        return keys

    jax.eval_shape(ask, like)
    return found[0]


def _aligned(shape: "list[int]", dtype: typing.Any) -> typing.Any:
    """An array that JAX can use as it is."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.empty(count + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + count].view(dtype).reshape(shape)


def _check(
    path: "str | os.PathLike[str]", stored: "dict[str, tuple[str, tuple[int, ...]]]", leaves: "dict[str, _Wanted]"
) -> None:
    """Errors: TreeMismatchError, which names all that do not fit."""
    missing = [name for name in leaves if name not in stored]
    problems = ["the file has no " + ", ".join(map(repr, missing))] if missing else []
    for name, leaf in leaves.items():
        wanted = (trees.dtype_name(leaf.dtype), leaf.shape)
        if name in stored and stored[name] != wanted:
            (dtype, shape), (own_dtype, own_shape) = stored[name], wanted
            problems.append(
                f"{name!r} is {dtype} {list(shape)} in the file and {own_dtype} {list(own_shape)} in the tree"
            )
    if problems:
        raise trees.TreeMismatchError(f"{os.fspath(path)}: does not fit the tree: {'; '.join(problems)}")
