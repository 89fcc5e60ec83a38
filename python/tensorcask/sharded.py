"""Checkpoints that the processes of a job write and read together.

    import tensorcask.sharded as tcs

    comm = tcs.TorchCommunicator()                       # of torch.distributed; or any object with these methods
    rows = 1024 // comm.size
    tcs.save(comm, "step-100", [("w", (1024, 64), (rows * comm.rank, 0), my_rows)])
    tcs.load(comm, "step-100", [("w", (0, 0), first_rows)])

Every process calls the same function with what it holds or wants. The result is one checkpoint in the form of
TensorFlow, which ``tensorcask.open`` reads, whole or not at all.
"""

import builtins
import json
import os
import typing
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tensorcask import _errors, _native
from tensorcask._errors import InvalidArgumentError

SavePlan = _native.SavePlan

__all__ = [
    "Communicator",
    "JaxCommunicator",
    "LocalCommunicator",
    "MpiCommunicator",
    "SavePlan",
    "TorchCommunicator",
    "load",
    "save",
]

_CHUNK = 256 << 20  # bytes of one message: some engines count them in 31 bits
_GATHERED = 64 << 20  # bytes that the devices of JAX hold of one message


class Communicator(typing.Protocol):
    """The calls by which processes exchange bytes. An exception of a method ends the save or load of its process.

    >>> import tensorcask.sharded as tcs
    >>> comm: tcs.Communicator = tcs.LocalCommunicator()
    >>> comm.gather(b"mine", 0)
    [b'mine']
    """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def gather(self, mine: bytes, root: int, /) -> "list[bytes] | None":
        """What each process passed, by rank, at `root`; None at all others."""

    def broadcast(self, from_root: bytes, root: int, /) -> bytes:
        """What `root` passed."""

    def barrier(self) -> object:
        """Returns when all processes have called it."""


class LocalCommunicator:
    """A job of one process.

    >>> import numpy as np, tensorcask as tc, tensorcask.sharded as tcs
    >>> tcs.save(tcs.LocalCommunicator(), "alone", [("w", (3,), (0,), np.ones(3))], overwrite=True)["pieces"]
    1
    >>> tc.load("alone")["w"].tolist()
    [1.0, 1.0, 1.0]
    """

    rank = 0
    size = 1

    def gather(self, mine: bytes, root: int) -> "list[bytes] | None":
        return [mine]

    def broadcast(self, from_root: bytes, root: int) -> bytes:
        return from_root

    def barrier(self) -> None:
        pass


class MpiCommunicator:
    """The ranks of a communicator of mpi4py, of which it makes a copy; by default ``MPI.COMM_WORLD``.

    Every rank makes one at the same time.
    """

    def __init__(self, comm: typing.Any = None) -> None:
        from mpi4py import MPI

        self._byte: typing.Any = MPI.BYTE
        self._comm: typing.Any = (MPI.COMM_WORLD if comm is None else comm).Dup()
        self.rank = int(self._comm.Get_rank())
        self.size = int(self._comm.Get_size())

    def gather(self, mine: bytes, root: int) -> "list[bytes] | None":
        sizes = self._comm.gather(len(mine), root)
        if self.rank != root:
            for begin in range(0, len(mine), _CHUNK):
                self._comm.Send([memoryview(mine)[begin : begin + _CHUNK], self._byte], root)
            return None
        return [mine if rank == root else self._receive(rank, sizes[rank]) for rank in range(self.size)]

    def broadcast(self, from_root: bytes, root: int) -> bytes:
        size = self._comm.bcast(len(from_root), root)
        data = bytearray(from_root) if self.rank == root else bytearray(size)
        for begin in range(0, size, _CHUNK):
            self._comm.Bcast([memoryview(data)[begin : begin + _CHUNK], self._byte], root)
        return from_root if self.rank == root else bytes(data)

    def barrier(self) -> None:
        self._comm.Barrier()

    def _receive(self, rank: int, size: int) -> bytes:
        data = bytearray(size)
        for begin in range(0, size, _CHUNK):
            self._comm.Recv([memoryview(data)[begin : begin + _CHUNK], self._byte], rank)
        return bytes(data)


class JaxCommunicator:
    """The processes of ``jax.distributed.initialize``. Their devices exchange the bytes, as those of a computation.

    A gather goes to all processes, as JAX has no other. All have the same number of devices.
    """

    def __init__(self) -> None:
        import jax
        from jax.experimental import multihost_utils

        self._utils: typing.Any = multihost_utils
        self.rank = int(jax.process_index())
        self.size = int(jax.process_count())

    def gather(self, mine: bytes, root: int) -> "list[bytes] | None":
        sizes = [int.from_bytes(row, "little") for row in self._of_all(len(mine).to_bytes(8, "little"), 8)]
        parts: "list[list[bytes]]" = [[] for _ in sizes]
        chunk = max(1 << 16, _GATHERED // self.size)
        for begin in range(0, max(sizes), chunk):
            count = min(chunk, max(sizes) - begin)
            rows = self._of_all(mine[begin : begin + count], count)
            if self.rank == root:
                for part, row, size in zip(parts, rows, sizes, strict=True):
                    part.append(row[: max(0, size - begin)].tobytes())
        return [b"".join(part) for part in parts] if self.rank == root else None

    def broadcast(self, from_root: bytes, root: int) -> bytes:
        size = int.from_bytes(self._of_one(len(from_root).to_bytes(8, "little"), 8, root), "little")
        parts = []
        for begin in range(0, size, _GATHERED):
            count = min(_GATHERED, size - begin)
            parts.append(self._of_one(from_root[begin : begin + count], count, root))
        return b"".join(parts)

    def barrier(self) -> None:
        self._utils.sync_global_devices("tensorcask")

    def _of_all(self, mine: bytes, count: int) -> typing.Any:
        return np.asarray(self._utils.process_allgather(self._padded(mine, count)))[:, :count]

    def _of_one(self, from_root: bytes, count: int, root: int) -> bytes:
        padded = self._padded(from_root if self.rank == root else b"", count)
        row = self._utils.broadcast_one_to_all(padded, is_source=self.rank == root)
        return np.asarray(row)[:count].tobytes()

    def _padded(self, data: bytes, count: int) -> typing.Any:
        """To a power of two: JAX compiles a program for each size."""
        padded = np.zeros(1 << max(8, (count - 1).bit_length()), np.uint8)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        return padded


class TorchCommunicator:
    """The processes of a group of ``torch.distributed``, with gloo or nccl; by default all of them."""

    def __init__(self, group: typing.Any = None) -> None:
        import torch.distributed as dist

        if not dist.is_available() or not dist.is_initialized():
            raise InvalidArgumentError("torch.distributed has no process group; call init_process_group first")
        import torch

        self._torch: typing.Any = torch
        self._dist: typing.Any = dist
        self._group = group
        self.rank = int(dist.get_rank(group))
        self.size = int(dist.get_world_size(group))
        if self.rank < 0:
            raise InvalidArgumentError("this process is not in the group")
        on_gpu = "nccl" in str(dist.get_backend(group))
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")

    def gather(self, mine: bytes, root: int) -> "list[bytes] | None":
        size = self._number(len(mine))
        sizes = [self._number(0) for _ in range(self.size)]
        self._dist.all_gather(sizes, size, group=self._group)
        if self.rank != root:
            for chunk in self._chunks(mine):
                self._dist.send(chunk, dst=self._global(root), group=self._group)
            return None
        return [
            mine if rank == root else self._receive(rank, int(sizes[rank].item())) for rank in range(self.size)
        ]

    def broadcast(self, from_root: bytes, root: int) -> bytes:
        size = self._number(len(from_root))
        self._dist.broadcast(size, src=self._global(root), group=self._group)
        total = int(size.item())
        parts = []
        sent = self._chunks(from_root) if self.rank == root else None
        for begin in range(0, total, _CHUNK):
            chunk = next(sent) if sent is not None else self._empty(min(_CHUNK, total - begin))
            self._dist.broadcast(chunk, src=self._global(root), group=self._group)
            if sent is None:
                parts.append(chunk.cpu().numpy().tobytes())
        return from_root if sent is not None else b"".join(parts)

    def barrier(self) -> None:
        self._dist.barrier(group=self._group)

    def _global(self, rank: int) -> int:
        return rank if self._group is None else int(self._dist.get_global_rank(self._group, rank))

    def _number(self, value: int) -> typing.Any:
        return self._torch.tensor([value], dtype=self._torch.int64, device=self._device)

    def _empty(self, size: int) -> typing.Any:
        return self._torch.empty(size, dtype=self._torch.uint8, device=self._device)

    def _chunks(self, data: bytes) -> "typing.Iterator[typing.Any]":
        for begin in range(0, len(data), _CHUNK):
            chunk = bytearray(data[begin : begin + _CHUNK])
            yield self._torch.frombuffer(chunk, dtype=self._torch.uint8).to(self._device)

    def _receive(self, rank: int, size: int) -> bytes:
        parts = []
        for begin in range(0, size, _CHUNK):
            chunk = self._empty(min(_CHUNK, size - begin))
            self._dist.recv(chunk, src=self._global(rank), group=self._group)
            parts.append(chunk.cpu().numpy().tobytes())
        return b"".join(parts)


def save(
    comm: Communicator,
    path: "str | os.PathLike[str]",
    pieces: "Iterable[tuple[str, Sequence[int], Sequence[int], object]]",
    *,
    level: str = "stored",
    overwrite: bool = False,
    sync: bool = True,
    alignment: int = 64,
    plan: "_native.SavePlan | None" = None,
) -> "dict[str, typing.Any]":
    """Saves what the processes hold as one checkpoint; every process calls it.

    A piece is (name, shape of the whole tensor, index of the first element of the piece, array). A piece that several
    processes hold is written once. All processes raise an error if one does, and before a byte is written if they
    declare one tensor with different dtypes or shapes, if pieces overlap, or if elements of a tensor are in no piece.
    `plan` keeps the plan for the next save of the same pieces. The other options are those of ``tensorcask.save``.
    Returns ``pieces`` and ``bytes`` that this process wrote, ``data_files`` of the checkpoint, and ``kept_plan``; on
    the first process ``removed`` (the data files of the old checkpoint that were removed) and ``notes``, too, which are
    empty on the others.
    """
    made = together(
        comm,
        lambda: _native.PiecesToSave(
            pieces, path, level=level, overwrite=overwrite, sync=sync, alignment=alignment, plan=plan
        ),
    )
    return _native.sharded_save(comm, made)


def load(
    comm: Communicator,
    path: "str | os.PathLike[str]",
    wanted: "Iterable[tuple[str, Sequence[int], object]]",
    *,
    verify: bool = True,
) -> None:
    """Reads parts of tensors into arrays; every process calls it.

    What is wanted is (name, index of the first element, writable array of the stored dtype). The first process reads
    the index, and each process reads the bytes that it wants. All processes raise an error if one does.
    """
    made = together(comm, lambda: _native.PiecesToLoad(wanted, path, verify=verify))
    _native.sharded_load(comm, made)


# ---- What the modules of the frameworks share -----------------------------------------------------------------------

_Made = typing.TypeVar("_Made")


def together(comm: Communicator, make: "Callable[[], _Made]") -> _Made:
    """What `make` returns. If it fails on one process, all raise: nobody waits for a process that has gone."""
    made: "_Made | None" = None
    own = None
    try:
        made = make()
    except Exception as error:
        own = error
    if comm.size > 1:
        said = b"" if own is None else json.dumps([type(own).__name__, str(own)]).encode()
        all_said = comm.gather(said, 0) or []
        first = next(([rank, *json.loads(each)] for rank, each in enumerate(all_said) if each), None)
        first = json.loads(comm.broadcast(json.dumps(first).encode(), 0))
        if own is None and first is not None:
            rank, name, message = first
            raise _error_class(name)(f"rank {rank}: {message}")
    if own is not None:
        raise own
    return typing.cast(_Made, made)


def _error_class(name: str) -> "Callable[[str], Exception]":
    """The class of an exception of another process, or one that says as much."""
    if name in ("TypeError", "ValueError", "KeyError", "IndexError", "MemoryError", "RuntimeError"):
        return typing.cast("Callable[[str], Exception]", getattr(builtins, name))
    found = getattr(_errors, name, None)
    if isinstance(found, type) and issubclass(found, _errors.Error):
        return found
    return InvalidArgumentError


def stored_forms(
    comm: Communicator, path: "str | os.PathLike[str]", names: "Iterable[str] | None" = None
) -> "dict[str, tuple[str, tuple[int, ...]]]":
    """Dtype and shape of the tensors that the processes name, or of all, as far as a checkpoint has them.

    The first process reads them for all. Every process calls it.
    """
    own = None if names is None else list(names)
    forms = _of_first(comm, lambda: _read_forms(path, own))
    if own is not None and comm.size > 1:  # processes may have different tensors
        asked = comm.gather(json.dumps([name for name in own if name not in forms]).encode(), 0) or []
        others = {name for each in asked for name in json.loads(each)}.difference(own)
        forms.update(_of_first(comm, lambda: _read_forms(path, sorted(others))))
    return {name: (dtype, tuple(shape)) for name, (dtype, shape) in forms.items()}


def _read_forms(path: "str | os.PathLike[str]", names: "list[str] | None") -> typing.Any:
    if names == []:
        return {}
    with _native.open(path) as reader:
        entries = [reader.entry(name) for name in (reader if names is None else names) if name in reader]
    return {entry.name: (entry.dtype, entry.shape) for entry in entries}


def _of_first(comm: Communicator, make: "Callable[[], typing.Any]") -> typing.Any:
    """What `make` returns on the first process, as JSON has it."""
    made = together(comm, lambda: make() if comm.rank == 0 else None)
    return json.loads(comm.broadcast(json.dumps(made).encode(), 0))
