"""Tensors in files and between processes, without a copy and without a framework.

    >>> import numpy as np, tensorcask as tc
    >>> _ = tc.save("model.safetensors", {"w": np.ones((2, 3), np.float32)}, overwrite=True)
    >>> with tc.open("model.safetensors") as reader:
    ...     print(reader.entry("w").shape, reader["w"].sum())
    (2, 3) 6.0

One set of functions reads and writes all formats, such as TensorFlow checkpoints, safetensors, npz, GGUF and files of
PyTorch; docs/formats.md lists them. docs/python.md is the guide.
"""

import collections.abc as _abc

from tensorcask import _native
from tensorcask._errors import (
    AbortedError,
    CancelledError,
    ClosedError,
    DataLossError,
    DeadlineError,
    Error,
    ExistingFileError,
    ExistingTensorError,
    FailedPreconditionError,
    InvalidArgumentError,
    MissingFileError,
    MissingFrameworkError,
    MissingTensorError,
    NoPermissionError,
    OutOfRangeError,
    ResourceExhaustedError,
    SystemCallError,
    UnavailableError,
    UnimplementedError,
)
from tensorcask._keywords import name_methods as _name_methods
from tensorcask._keywords import named as _named
from tensorcask._load import load
from tensorcask._native import (
    BackgroundSave,
    Channel,
    CheckpointManager,
    Damage,
    Difference,
    DiffReport,
    Entry,
    Listener,
    Message,
    Reader,
    Server,
    SharedMemory,
    SliceReader,
    Tensor,
    TensorStats,
    TypeDifference,
    VerifyReport,
    Writer,
)
from tensorcask._native import version as __version__
from tensorcask._remote import Credentials, Follower, Version, follow, serve
from tensorcask._report import Report, report
from tensorcask._steps import open_latest
from tensorcask._values import OpaqueObject

_abc.Mapping.register(Reader)
_name_methods(Channel, CheckpointManager, Listener, Reader, Server, SharedMemory, Tensor, Writer)

convert = _named(_native.convert)
diff = _named(_native.diff)
latest = _named(_native.latest)
merge = _named(_native.merge)
open = _named(_native.open)
push = _named(_native.push)
salvage = _named(_native.salvage)
save = _named(_native.save)
stats = _named(_native.stats)
verify = _named(_native.verify)

__all__ = [
    "AbortedError",
    "BackgroundSave",
    "CancelledError",
    "Channel",
    "CheckpointManager",
    "ClosedError",
    "Credentials",
    "Damage",
    "DataLossError",
    "DeadlineError",
    "DiffReport",
    "Difference",
    "Entry",
    "Error",
    "ExistingFileError",
    "ExistingTensorError",
    "FailedPreconditionError",
    "Follower",
    "InvalidArgumentError",
    "Listener",
    "Message",
    "MissingFileError",
    "MissingFrameworkError",
    "MissingTensorError",
    "NoPermissionError",
    "OpaqueObject",
    "OutOfRangeError",
    "Reader",
    "Report",
    "ResourceExhaustedError",
    "Server",
    "SharedMemory",
    "SliceReader",
    "SystemCallError",
    "Tensor",
    "TensorStats",
    "TypeDifference",
    "UnavailableError",
    "UnimplementedError",
    "VerifyReport",
    "Version",
    "Writer",
    "__version__",
    "convert",
    "diff",
    "follow",
    "latest",
    "load",
    "merge",
    "open",
    "open_latest",
    "push",
    "report",
    "salvage",
    "save",
    "serve",
    "stats",
    "verify",
]
