"""The exceptions of the package.

Each class derives from ``Error`` and from the built-in class that programs catch in this case. The message is the
sentence of the library: the file, what was found and what was wanted.
"""

import errno


class Error(Exception):
    """Any error of the library."""

    def __str__(self) -> str:
        # KeyError would quote the sentence.
        return str(self.args[0]) if self.args else ""


class InvalidArgumentError(Error, ValueError):
    """Values disagree, or a format cannot hold them."""


class DataLossError(Error, ValueError):
    """Stored bytes are truncated, or their structure or checksum is broken."""


class ClosedError(Error, ValueError):
    """A reader, writer or channel is used after it was closed."""


class MissingTensorError(Error, KeyError):
    """No tensor has this name. The message names similar ones."""


class MissingFileError(Error, FileNotFoundError):
    """No file is there."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.errno = errno.ENOENT


class ExistingTensorError(Error, ValueError):
    """Two tensors would have one name."""


class ExistingFileError(Error, FileExistsError):
    """The file exists; ``overwrite=True`` replaces it."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.errno = errno.EEXIST


class UnimplementedError(Error, NotImplementedError):
    """Well formed, but newer than this version, or something that it only lists."""


class OutOfRangeError(Error, IndexError):
    """An index or slice outside of the tensor."""


class ResourceExhaustedError(Error, MemoryError):
    """Past a limit on what a file may make the library spend; or no memory. A full disk is a SystemCallError."""


class FailedPreconditionError(Error, RuntimeError):
    """The wrong moment: a delta without its base, an incomplete tensor, a folder that another manager has open."""


class NoPermissionError(Error, PermissionError):
    """The system refuses access."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.errno = errno.EACCES


class DeadlineError(Error, TimeoutError):
    """The timeout passed."""


class UnavailableError(Error, ConnectionError):
    """The other process ended, or was cut off."""


class CancelledError(Error, RuntimeError):
    """The call was ended before it was done."""


class MissingFrameworkError(Error, ImportError):
    """The caller asked for a framework (PyTorch, JAX) that is not installed or fails to import."""


class SystemCallError(Error, OSError):
    """The system reports another error: a full disk, a file past a limit of its size, too many open files.

    ``errno`` is its number, for example ``errno.ENOSPC``.
    """
