"""Our side: runs the command line and //tests/peers:bulk, and speaks the stream of tensors that bulk speaks.

A tensor is (name, dtype, shape, data): name and data are bytes, dtype is our name of it, shape is a tuple. The data of
strings is, for each, its length as 8 bytes and its bytes.
"""

import functools
import json
import os
import struct
import subprocess
import zlib
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
TOOL = os.environ.get("TENSORCASK", os.path.join(ROOT, "bazel-bin/tools/tensorcask"))
BULK = os.environ.get("TENSORCASK_BULK", os.path.join(ROOT, "bazel-bin/tests/peers/bulk"))


class Stored(NamedTuple):
    name: bytes
    dtype: str
    shape: tuple
    data: bytes
    slice: str = "*"  # as "0,2:-"; then shape is that of the whole tensor, and data is that of the slice
    shard: int = 0

    @property
    def value(self):
        return self.dtype, self.shape, self.data


class Refused(Exception):
    """Our program answered with an error."""


def strings(values):
    """The data of strings."""
    return b"".join(struct.pack("<Q", len(value)) + value for value in values)


def string_values(data):
    values = []
    while data:
        (size,) = struct.unpack_from("<Q", data)
        values.append(data[8 : 8 + size])
        data = data[8 + size :]
    return values


def _finished(program, arguments, stdin=b"", timeout=300):
    done = subprocess.run(
        [program, *map(str, arguments)], input=stdin, capture_output=True, timeout=timeout, check=False
    )
    if done.returncode < 0:
        raise AssertionError(f"{program} {arguments} was killed by signal {-done.returncode}")
    if done.returncode != 0:
        raise Refused(done.stderr.decode(errors="replace").strip())
    return done.stdout


def tool(*arguments, **options):
    """What the command line prints. Raises Refused."""
    return _finished(TOOL, arguments, **options)


def _line(item):
    shape = ",".join(map(str, item.shape)) or "-"
    return f"{item.name.hex()} {item.dtype} {shape} {item.shard} {item.slice} {len(item.data)}\n".encode()


def _parsed(stream):
    items, start = [], 0
    while start < len(stream):
        end = stream.index(b"\n", start)
        name, dtype, shape, shard, piece, size = stream[start:end].decode().split(" ")
        dims = () if shape == "-" else tuple(map(int, shape.split(",")))
        start = end + 1 + int(size)
        items.append(Stored(bytes.fromhex(name), dtype, dims, stream[end + 1 : start], piece, int(shard)))
    return items


def write(prefix, items, *options):
    """Saves a checkpoint. Options: as of bulk."""
    _finished(BULK, ["write", prefix, *options], stdin=b"".join(_line(item) + item.data for item in items))


def write_sharded(prefix, items, ranks):
    """Saves a checkpoint as a job of so many ranks: the shard of an item is the rank that has it."""
    _finished(BULK, ["sharded", prefix, ranks], stdin=b"".join(_line(item) + item.data for item in items))


def read(prefix, mode="read"):
    """All tensors of a checkpoint: {name: Stored}. Raises Refused. Mode: read, map or all."""
    return {item.name: item for item in _parsed(_finished(BULK, ["read", prefix, mode]))}


def read_slices(prefix, wanted):
    """The data of the parts [(name, slice), ...]."""
    lines = "".join(f"{name.hex()} {piece}\n" for name, piece in wanted)
    return [item.data for item in _parsed(_finished(BULK, ["slices", prefix], stdin=lines.encode()))]


def merge(target, *sources):
    _finished(BULK, ["merge", target, *sources])


def convert(source, target, *options):
    tool("convert", *options, source, target)


def listing(path, *options):
    """What `ls --json --checksum` says: {name: {"dtype", "shape", "crc32", ...}}."""
    document = json.loads(tool("ls", "--json", "--checksum", *options, path))
    return {tensor["name"]: tensor for tensor in document["tensors"]}


def crc32(data):
    return f"{zlib.crc32(data):08x}"


@functools.lru_cache(maxsize=None)
def writes(file_format):
    """True if `convert --to` knows the format. An unknown one is a misuse, exit status 2."""
    done = subprocess.run(
        [TOOL, "convert", "--to", file_format, "/no/such/file", "/no/such/target"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return done.returncode == 1
