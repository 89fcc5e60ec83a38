"""Random names, tensors and models, drawn by a random.Random."""

import struct
import zlib

import formats
from values import BITS, Model, Tensor, count, size_of, string_values, strings

PLAIN_NAMES = [b"w", b"b", b"dense/kernel", b"dense/bias", b"layers.0.weight", b"layers.1.weight", b"step", b"emb", b"a.b"]
HOSTILE_NAMES = [
    "ядро/вес".encode(),
    "e\u0301\u00e9 \U0001f642".encode(),
    "\u202ertl\u2028".encode(),
    b"line\nbreak",
    b"\x1b[2Jescape",
    b"\x01\x7f",
    b"nul\0inside",
    b"\0first",
    b"not\xff\xfeutf8",
    b"\xed\xa0\x80",
    b"x[0]",
    b"[a-c]*?",
    b"a=b",
    b"=",
    b"-",
    b"--help",
    b"-o",
    b" ",
    b"a b\tc",
    b"quote\"'\\",
    b"\\x41",
    b"../up",
    b"/absolute",
    b"folder/",
    b"w.npy",
    b".npy",
    b"format",
    b"__metadata__",
    b"tensorcask.crc32c",
    b"_CHECKPOINTABLE_OBJECT_GRAPH/x",
    b"0",
    b"null",
    b"%s",
    b"labels",
    b"MIT",
    b"long" * 40,
]
EDGE_NAMES = [b"", b"n" * 65535, b"n" * 65536, b"n" * 65531, b"n" * 65532, b"n" * 4097]


def names(random, number, plain):
    """Distinct names: plain ones, or any."""
    pool = list(PLAIN_NAMES) if plain else PLAIN_NAMES[:3] + HOSTILE_NAMES + random.sample(EDGE_NAMES, 1)
    return random.sample(pool, min(number, len(pool)))


def shape(random, most=60):
    dims, room = [], most
    if random.random() < 0.05:
        return (random.choice((200, 1000)),)
    for _ in range(random.choice((0, 1, 1, 2, 2, 3, 4))):
        dim = random.choice((0, 1, 2, 3, 4, 5, 7)) if random.random() < 0.9 else random.randint(1, max(1, room))
        dim = min(dim, room)
        room //= max(1, dim)
        dims.append(dim)
    if random.random() < 0.02:
        dims += [1] * random.choice((30, 40, 70, 250))
    return tuple(dims[:254])


def _element_bytes(random, dtype, elements):
    if dtype == "bool":
        return bytes(random.getrandbits(1) for _ in range(elements))
    if dtype in BITS:
        return bytes(random.getrandbits(BITS[dtype]) for _ in range(elements))
    if dtype in ("float32", "float64") and random.random() < 0.5:
        code = "<f" if dtype == "float32" else "<d"
        special = (0.0, -0.0, 1.5, -2.25, 1e-40, 1e-310, float("inf"), float("-inf"), float("nan"), 46900.0)
        return b"".join(struct.pack(code, random.choice(special)) for _ in range(elements))
    if random.random() < 0.2:
        return random.randbytes(size_of(dtype)) * elements
    return random.randbytes(elements * size_of(dtype))


def tensor(random, dtypes, plain=True):
    dtype = random.choice(dtypes)
    dims = shape(random)
    if dtype in BITS:  # whole bytes, as safetensors wants
        dims = (*dims[:3], 4)
    if dtype == "string":
        pool = (b"", b"a", b"text", b"\xff\xfe", "é".encode(), b"x" * 130) + (() if plain else (b"z\0", b"\0"))
        pool = pool if random.random() < 0.5 else ("é".encode(), b"text", b"")
        return Tensor(dtype, dims, strings([random.choice(pool) for _ in range(count(dims))]))
    return Tensor(dtype, dims, _element_bytes(random, dtype, count(dims)))


def with_metadata(random, item):
    """The tensor with a device, and attributes of any bytes."""
    keys = random.sample([b"unit", b"\xff", b"a\nb", b"npy.x", "ü".encode()], random.choice((0, 1, 2)))
    attributes = tuple(sorted((key, random.choice((b"m", b"", b"\0\xff"))) for key in keys))
    own_name = random.choice((b"", b"", b"own", b"\xff\n"))
    return item._replace(attributes=attributes, device=random.choice((b"", b"cuda:1")), own_name=own_name)


def with_type_of_numpy(random, item):
    """The tensor as an array of text or of times, if it can be one."""
    if item.dtype == "int64":
        return item._replace(attributes=((b"npy.descr", random.choice((b"<M8[s]", b"<m8[ns]"))),))
    if item.dtype == "string" and all(formats.is_utf8(value) for value in string_values(item.data)):
        return item._replace(attributes=((b"npy.descr", b"<U"),))
    return item


def file_metadata(random, some_names):
    """Entries, among them values that are names of tensors."""
    texts = ["MIT", "", "a\nb", "ü", '{"x": 1}', *(name.decode("utf-8", "ignore") for name in some_names if len(name) < 100)]
    keys = random.sample(["license", "target", "modelspec.title", "a b", "\u0007", "äöü"], random.choice((0, 1, 2, 3)))
    return {key: random.choice(texts) for key in keys}


def model(random, kind, plain=True):
    """A model that files of this format can hold (of dtypes that it has), of 1 to 6 tensors."""
    target = formats.FORMATS[kind]
    number = 1 if target.one else random.randint(1, 6)
    tensors = {}
    for name in names(random, number, plain):
        item = tensor(random, target.dtypes, plain)
        if target.attributes and random.random() < 0.2:
            item = with_metadata(random, item)
        if target.name in ("npy", "npz") and random.random() < 0.5:
            item = with_type_of_numpy(random, item)
        if target.name == "records":
            item = item._replace(own_name=b"")
        if target.orders and target.name in ("npy", "npz") and len(item.shape) > 32:
            continue  # Debian's NumPy could not write it
        if target.holds(name, item):
            tensors[name] = item
    if not tensors:
        tensors[b"w"] = Tensor("int8", (2,), b"\1\2")
    if kind == "safetensors model" and len(tensors) < 2:
        tensors[b"other"] = Tensor("int8", (2,), b"\3\4")
    metadata = file_metadata(random, list(tensors)) if target.file_metadata and random.random() < 0.4 else {}
    return Model(tensors, metadata)


def by_column(random):
    """Which tensors a writer stores column by column: a function that always answers the same for one tensor."""
    share = random.choice((0, 0, 0.5))
    salt = random.random()

    def stored_by_column(item):
        if item.dtype == "string" or len(item.shape) < 2 or count(item.shape) == 0:
            return False
        return (zlib.crc32(item.data) / 2**32 + salt) % 1 < share

    return stored_by_column
