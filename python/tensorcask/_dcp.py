"""The storage of torch.distributed.checkpoint: StorageWriter and StorageReader of tensorcask.torch."""

import io
import os
import typing
from collections.abc import Iterator

from tensorcask import _native, sharded
from tensorcask._errors import InvalidArgumentError
from tensorcask._load import import_framework

import_framework("torch")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.checkpoint import metadata as dcp_metadata  # noqa: E402
from torch.distributed.checkpoint import planner as dcp_planner  # noqa: E402
from torch.distributed.checkpoint import storage as dcp_storage  # noqa: E402
from torch.futures import Future  # noqa: E402

# What is no tensor: DCP gives its bytes, and takes them back.
_BYTES = "dcp.bytes/"


def _communicator(group: typing.Any) -> sharded.Communicator:
    if dist.is_available() and dist.is_initialized():
        return sharded.TorchCommunicator(group)
    return sharded.LocalCommunicator()


def _done(value: typing.Any) -> typing.Any:
    future: typing.Any = Future()
    future.set_result(value)
    return future


class StorageWriter(dcp_storage.StorageWriter):
    """Writes what ``torch.distributed.checkpoint.save`` saves as one checkpoint of tensors.

    >>> import torch, tensorcask as tc, tensorcask.torch as tct
    >>> import torch.distributed.checkpoint as dcp
    >>> state = torch.nn.Linear(3, 2).state_dict()
    >>> _ = dcp.save(state, storage_writer=tct.StorageWriter("dcp_step", overwrite=True))
    >>> tc.load("dcp_step")["weight"].shape
    (2, 3)

    Tensors have the names of the (flat) state; values that are no tensors are bytes under ``dcp.bytes/``. The options
    are those of ``tensorcask.sharded.save``. The checkpoint is whole or not there, also if a process fails.
    """

    def __init__(
        self, path: "str | os.PathLike[str]", *, process_group: typing.Any = None, **options: typing.Any
    ) -> None:
        super().__init__()
        self._path = path
        self._group = process_group
        self._options = {"plan": _native.SavePlan(), **options}

    def reset(self, checkpoint_id: "str | os.PathLike[str] | None" = None) -> None:
        if checkpoint_id is not None:
            self._path = checkpoint_id

    def set_up_storage_writer(self, is_coordinator: bool, *arguments: typing.Any, **keywords: typing.Any) -> None:
        pass

    def prepare_local_plan(self, plan: "dcp_planner.SavePlan") -> "dcp_planner.SavePlan":
        return plan

    def prepare_global_plan(self, plans: "list[dcp_planner.SavePlan]") -> "list[dcp_planner.SavePlan]":
        return plans

    def write_data(self, plan: "dcp_planner.SavePlan", planner: "dcp_planner.SavePlanner") -> typing.Any:
        results: "list[typing.Any]" = []

        # Values are resolved where sharded.save asks for the pieces: an error there is one of all processes.
        def pieces() -> "Iterator[tuple[str, typing.Any, typing.Any, object]]":
            for item in plan.items:
                data = planner.resolve_data(item)
                if item.type == dcp_planner.WriteItemType.BYTE_IO:
                    content = torch.frombuffer(bytearray(data.getbuffer()), dtype=torch.uint8)
                    yield _BYTES + item.index.fqn, tuple(content.shape), (0,), content
                else:
                    content = data.detach()
                    shape = tuple(item.tensor_data.size)
                    if item.tensor_data.size.numel() == 0:  # in one piece, however it is divided
                        yield item.index.fqn, shape, (0,) * len(shape), content.new_empty(shape)
                    elif content.numel() > 0:
                        yield item.index.fqn, shape, tuple(item.tensor_data.chunk.offsets), content
                size = content.numel() * content.element_size()
                results.append(dcp_storage.WriteResult(index=item.index, size_in_bytes=size, storage_data=None))

        sharded.save(_communicator(self._group), self._path, pieces(), **self._options)
        return _done(results)

    def finish(self, metadata: "dcp_metadata.Metadata", results: typing.Any) -> None:
        pass  # write_data has published the checkpoint

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: "str | os.PathLike[str]") -> bool:
        return True

    def storage_meta(self) -> "dcp_metadata.StorageMeta | None":
        return dcp_metadata.StorageMeta(checkpoint_id=str(self._path))


class StorageReader(dcp_storage.StorageReader):
    """Reads checkpoints of tensors for ``torch.distributed.checkpoint.load``, whatever wrote them.

    >>> import torch, tensorcask as tc, tensorcask.torch as tct
    >>> import torch.distributed.checkpoint as dcp
    >>> _ = tc.save("any_step", {"weight": torch.ones(2, 3)}, overwrite=True)
    >>> state = {"weight": torch.zeros(2, 3)}
    >>> dcp.load(state, storage_reader=tct.StorageReader("any_step"))
    >>> state["weight"].sum().item()
    6.0

    Each process reads the bytes that its part of the state needs. Values that are no tensors are pickles, which DCP
    loads without a check. So they are loaded here first, as ``torch.load(weights_only=True)`` does, and DCP gets a
    pickle of the result. A value that this refuses is an InvalidArgumentError; with `trusted` DCP gets it as it is.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str]",
        *,
        process_group: typing.Any = None,
        verify: bool = True,
        trusted: bool = False,
    ) -> None:
        super().__init__()
        self._trusted = trusted
        self._path = path
        self._group = process_group
        self._verify = verify

    def reset(self, checkpoint_id: "str | os.PathLike[str] | None" = None) -> None:
        if checkpoint_id is not None:
            self._path = checkpoint_id

    def read_metadata(self, *arguments: typing.Any, **keywords: typing.Any) -> "dcp_metadata.Metadata":
        state: "dict[str, typing.Any]" = {}
        for name, (dtype, shape) in sharded.stored_forms(_communicator(self._group), self._path).items():
            if name.startswith(_BYTES):
                state[name[len(_BYTES) :]] = dcp_metadata.BytesStorageMetadata()
            elif hasattr(torch, dtype):
                size = torch.Size(shape)
                chunk = dcp_metadata.ChunkStorageMetadata(offsets=torch.Size([0] * len(shape)), sizes=size)
                properties = dcp_metadata.TensorProperties(dtype=getattr(torch, dtype))
                state[name] = dcp_metadata.TensorStorageMetadata(properties=properties, size=size, chunks=[chunk])
        return dcp_metadata.Metadata(state_dict_metadata=state, storage_data=None)

    def set_up_storage_reader(
        self, metadata: "dcp_metadata.Metadata", is_coordinator: bool, *arguments: typing.Any, **keywords: typing.Any
    ) -> None:
        pass

    def prepare_local_plan(self, plan: "dcp_planner.LoadPlan") -> "dcp_planner.LoadPlan":
        return plan

    def prepare_global_plan(self, plans: "list[dcp_planner.LoadPlan]") -> "list[dcp_planner.LoadPlan]":
        return plans

    def read_data(self, plan: "dcp_planner.LoadPlan", planner: "dcp_planner.LoadPlanner") -> typing.Any:
        tensors: "list[tuple[typing.Any, typing.Any]]" = []
        byte_items: "list[typing.Any]" = []

        # Tensors are resolved where sharded.load asks for them: an error there is one of all processes.
        def wanted() -> "Iterator[tuple[str, typing.Any, object]]":
            for item in plan.items:
                if item.type == dcp_planner.LoadItemType.BYTE_IO:
                    byte_items.append(item)
                    continue
                into = planner.resolve_tensor(item).detach()
                tensors.append((item, into))
                starts = zip(item.storage_index.offset, item.storage_offsets, strict=True)
                yield item.storage_index.fqn, [base + more for base, more in starts], into

        sharded.load(_communicator(self._group), self._path, wanted(), verify=self._verify)
        for item, into in tensors:
            planner.commit_tensor(item, into)
        if byte_items:
            with _native.open(self._path) as reader:
                for item in byte_items:
                    content = reader.read(_BYTES + item.storage_index.fqn)
                    planner.load_bytes(item, self._plain(item.storage_index.fqn, io.BytesIO(content.tobytes())))
        return _done(None)

    def _plain(self, name: str, content: io.BytesIO) -> io.BytesIO:
        """A pickle of the same value that names nothing but plain types and tensors."""
        if self._trusted:
            return content
        try:
            value = torch.load(content, weights_only=True)
        except Exception as error:
            raise InvalidArgumentError(
                f"{os.fspath(self._path)}: the value {name!r} is a pickle of more than plain values; "
                f"StorageReader(..., trusted=True) loads it and runs what it says"
            ) from error
        again = io.BytesIO()
        torch.save(value, again)
        again.seek(0)
        return again

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: "str | os.PathLike[str]") -> bool:
        return True
