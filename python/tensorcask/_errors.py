"""The exceptions of the package.

Each class derives from ``Error`` and from the built-in class that programs catch in this case. The message is the
sentence of the library: the file, what was found and what was wanted.
"""

import errno


class Error(Exception):
    """Any error of the library.

    >>> import tensorcask as tc
    >>> try:
    ...     tc.open("nothing.npz")
    ... except tc.Error as error:
    ...     print(error)
    nothing.npz: cannot open: No such file or directory
    """

    def __str__(self) -> str:
        # KeyError would quote the sentence.
        return str(self.args[0]) if self.args else ""


class InvalidArgumentError(Error, ValueError):
    """Values disagree, or a format cannot hold them.

    >>> import tensorcask as tc
    >>> tc.save("words.safetensors", {"words": [b"a", b"b"]})
    Traceback (most recent call last):
    tensorcask.InvalidArgumentError: ...
    """


class DataLossError(Error, ValueError):
    """Stored bytes are truncated, or their structure or checksum is broken.

    >>> import tensorcask as tc
    >>> with open("cut.npy", "wb") as file:
    ...     _ = file.write(b"\\x93NUMPY\\1\\0")
    >>> tc.load("cut.npy")
    Traceback (most recent call last):
    tensorcask.DataLossError: cut.npy: ...
    """


class ClosedError(Error, ValueError):
    """A reader, writer or channel is used after it was closed.

    >>> import tensorcask as tc
    >>> _ = tc.save("one.npz", {"w": 1.0})
    >>> with tc.open("one.npz") as reader:
    ...     pass
    >>> reader["w"]
    Traceback (most recent call last):
    tensorcask.ClosedError: ...
    """


class MissingTensorError(Error, KeyError):
    """No tensor has this name. The message names similar ones.

    >>> import tensorcask as tc
    >>> _ = tc.save("kernel.npz", {"kernel": 1.0})
    >>> tc.load("kernel.npz", "kernl")
    Traceback (most recent call last):
    tensorcask.MissingTensorError: kernel.npz: ...kernel...
    """


class MissingFileError(Error, FileNotFoundError):
    """No file is there.

    >>> import tensorcask as tc
    >>> try:
    ...     tc.open("nothing.npz")
    ... except FileNotFoundError as error:
    ...     type(error).__name__, error.errno
    ('MissingFileError', 2)
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.errno = errno.ENOENT


class ExistingTensorError(Error, ValueError):
    """Two tensors would have one name.

    >>> import tensorcask as tc
    >>> with tc.Writer("names") as writer:
    ...     writer.add("w", 1.0)
    ...     writer.add("w", 2.0)
    Traceback (most recent call last):
    tensorcask.ExistingTensorError: ...
    """


class ExistingFileError(Error, FileExistsError):
    """The file exists; ``overwrite=True`` replaces it.

    >>> import tensorcask as tc
    >>> _ = tc.save("twice.npz", {"w": 1.0})
    >>> tc.save("twice.npz", {"w": 2.0})
    Traceback (most recent call last):
    tensorcask.ExistingFileError: twice.npz: ...
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.errno = errno.EEXIST


class UnimplementedError(Error, NotImplementedError):
    """Well formed, but newer than this version, or something that it only lists."""


class OutOfRangeError(Error, IndexError):
    """An index or slice outside of the tensor.

    >>> import tensorcask as tc
    >>> _ = tc.save("rows.npz", {"w": [[1.0, 2.0], [3.0, 4.0]]})
    >>> with tc.open("rows.npz") as reader:
    ...     reader.slice("w")[2]
    Traceback (most recent call last):
    tensorcask.OutOfRangeError: ...
    """


class ResourceExhaustedError(Error, MemoryError):
    """Past a limit on what a file may make the library spend; or no memory. A full disk is a SystemCallError.

    >>> import tensorcask as tc
    >>> memory = tc.SharedMemory(max_bytes=1 << 20)
    >>> memory.zeros((1000, 1000), "float32")
    Traceback (most recent call last):
    tensorcask.ResourceExhaustedError: ...
    """


class FailedPreconditionError(Error, RuntimeError):
    """The wrong moment: a delta without its base, an incomplete tensor, a folder that another manager has open.

    >>> import tensorcask as tc
    >>> with tc.CheckpointManager("locked") as manager:
    ...     tc.CheckpointManager("locked")
    Traceback (most recent call last):
    tensorcask.FailedPreconditionError: ...
    """


class NoPermissionError(Error, PermissionError):
    """The system refuses access."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.errno = errno.EACCES


class DeadlineError(Error, TimeoutError):
    """The timeout passed.

    >>> import tensorcask as tc
    >>> with tc.Listener("quiet.sock") as listener:
    ...     listener.accept(timeout=0.01)
    Traceback (most recent call last):
    tensorcask.DeadlineError: ...
    """


class UnavailableError(Error, ConnectionError):
    """The other process ended, or was cut off. A server cannot be reached, or has no tensors yet."""


class CancelledError(Error, RuntimeError):
    """The call was ended before it was done."""


class MissingFrameworkError(Error, ImportError):
    """The caller asked for a framework (PyTorch, JAX, CuPy) that is not installed or fails to import, or for gRPC,
    which this build of the package does not have."""


class SystemCallError(Error, OSError):
    """The system reports another error: a full disk, a file past a limit of its size, too many open files.

    ``errno`` is its number, for example ``errno.ENOSPC``.

    >>> import errno, tensorcask as tc
    >>> try:
    ...     tc.open("/dev/null/model")
    ... except OSError as error:
    ...     print(error.errno == errno.ENOTDIR)
    True
    """


class AbortedError(SystemCallError, OSError):
    """What was opened has been replaced meanwhile: a server has another version of its tensors. Open it again.

    >>> import numpy as np, tensorcask as tc       # needs grpc
    >>> with tc.serve({"w": np.zeros(2)}) as server, tc.open(server.url) as reader:
    ...     _ = server.publish(1, {"w": np.ones(2)})
    ...     reader["w"]
    Traceback (most recent call last):
    tensorcask.AbortedError: ...
    """


for _class in list(vars().values()):
    if isinstance(_class, type):
        _class.__module__ = "tensorcask"  # where programs import it from; tracebacks show that
