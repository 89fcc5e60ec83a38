"""What a file system of fsspec can do. fsspec itself is not imported."""

import inspect
import typing

# Where fsspec has the methods that every file system inherits. They look for the file and then write it: of two writers
# at the same time both may find none.
_ABSTRACT = ("fsspec.spec", "fsspec.asyn")


def missing_to_create(filesystem: typing.Any) -> "str | None":
    """What ``filesystem`` lacks to create a file only if there is none, in one step; None if it lacks nothing."""
    name = f"{type(filesystem).__module__}.{type(filesystem).__qualname__}"
    for method in ("_pipe_file", "pipe_file"):
        kind = next((kind for kind in type(filesystem).__mro__ if method in vars(kind)), None)
        function = None if kind is None or kind.__module__ in _ABSTRACT else vars(kind)[method]
        if callable(function):
            if "mode" in inspect.signature(function).parameters:
                return None
            return (
                f"{name} cannot create a file exclusively: its {method} has no parameter mode, "
                "of which 'create' is needed; a newer version may have it"
            )
    return (
        f"{name} cannot create a file exclusively: it has no pipe_file of its own that takes mode='create'; "
        "save to a file of the disk, and copy it"
    )
