"""The formats of the tool, each with a reader and a writer of our own, and what it can hold.

    FORMATS["npz"].write(path, model)
    FORMATS["npz"].read(path)
    FORMATS["npz"].holds(name, tensor)
"""

from typing import Callable, NamedTuple

import array_files as arrays
import message_files as messages
from values import BITS, DTYPES, count, string_values

ALL = tuple(DTYPES)
NUMPY = tuple(dtype for dtype, (_, _, _, descr) in DTYPES.items() if descr) + ("string",)
SAFETENSORS = tuple(dtype for dtype, (_, _, name, _) in DTYPES.items() if name)


def is_utf8(name):
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def fills_bytes(tensor):
    return count(tensor.shape) * BITS.get(tensor.dtype, 8) % 8 == 0


class Format(NamedTuple):
    name: str  # as of --to
    ending: str
    dtypes: tuple
    write: Callable  # of a Model
    read: Callable
    holds_name: Callable
    holds_value: Callable = lambda tensor: True
    one: bool = False  # holds one tensor, whose name is that of the file
    attributes: bool = False  # and other metadata of a tensor
    file_metadata: bool = False
    orders: bool = False  # write takes by_column

    def holds(self, name, tensor):
        """True if the format can hold the tensor with its name and metadata."""
        return (
            tensor.dtype in self.dtypes
            and self.holds_name(name)
            and self.holds_value(tensor)
            and self.holds_metadata(tensor)
            and not (self.name == "records" and tensor.own_name not in (b"", name))
        )

    def holds_metadata(self, tensor):
        if self.attributes:
            return True
        rest = [key for key, _ in tensor.attributes if key != b"npy.descr" or self.name not in ("npy", "npz")]
        return not rest and not tensor.device and not tensor.own_name


def _numpy_holds(tensor):
    """NumPy takes zeros behind a string for padding, and has no rank above 64."""
    if len(tensor.shape) > 64:
        return False
    return tensor.dtype != "string" or not any(value.endswith(b"\0") for value in string_values(tensor.data))


def _any_name(name):
    return len(name) <= 65536


def _safetensors(name, ending, write, read):
    return Format(
        name,
        ending,
        SAFETENSORS,
        write,
        read,
        lambda name: is_utf8(name) and name not in (b"__metadata__", b"tensorcask.crc32c") and _any_name(name),
        fills_bytes,
        file_metadata=True,
    )


FORMATS = {
    "checkpoint": Format(
        "checkpoint",
        ".ckpt",
        ALL,
        messages.write_checkpoint,
        messages.read_checkpoint,
        lambda name: 0 < len(name) <= 65536 and not name.startswith(b"\0"),
        attributes=True,
        orders=True,
    ),
    "records": Format(
        "records",
        ".tfrecord",
        ALL,
        messages.write_records,
        messages.read_records,
        lambda name: 0 < len(name) <= 65536,
        attributes=True,
        orders=True,
    ),
    "tensorproto": Format(
        "tensorproto",
        ".pb",
        ALL,
        messages.write_message,
        messages.read_message_file,
        _any_name,
        one=True,
        attributes=True,
    ),
    "tensorproto-text": Format(
        "tensorproto-text",
        ".pbtxt",
        ALL,
        messages.write_text,
        messages.read_text,
        _any_name,
        one=True,
        attributes=True,
    ),
    "safetensors": _safetensors("safetensors", ".safetensors", arrays.write_safetensors, arrays.read_safetensors),
    "safetensors model": _safetensors(
        "safetensors", ".safetensors.index.json", arrays.write_safetensors_model, arrays.read_safetensors
    ),
    "npy": Format("npy", ".npy", NUMPY, arrays.write_npy, arrays.read_npy, _any_name, _numpy_holds, one=True, orders=True),
    "npz": Format(
        "npz", ".npz", NUMPY, arrays.write_npz, arrays.read_npz, lambda name: is_utf8(name) and b"\0" not in name and len(name) <= 65531, _numpy_holds, orders=True
    ),
}
