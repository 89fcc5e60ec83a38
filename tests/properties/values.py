"""What a file holds, as an independent reader or writer of the format sees it.

    model = Model({b"w": Tensor("float32", (2,), struct.pack("<2f", 1, 2))}, {"license": "MIT"})

The data of a tensor is row-major and little-endian, with a byte for each element below 8 bits. That of strings is, for
each, its length as 8 bytes and its bytes, as in tests/peers/ours.py and for `ls --checksum`.
"""

from typing import NamedTuple

from ours import string_values, strings  # noqa: F401

# Name -> (number in messages, bytes of an element in memory, name in safetensors, descr of NumPy).
DTYPES = {
    "float32": (1, 4, "F32", "<f4"),
    "float64": (2, 8, "F64", "<f8"),
    "int32": (3, 4, "I32", "<i4"),
    "uint8": (4, 1, "U8", "|u1"),
    "int16": (5, 2, "I16", "<i2"),
    "int8": (6, 1, "I8", "|i1"),
    "string": (7, 0, None, None),
    "complex64": (8, 8, "C64", "<c8"),
    "int64": (9, 8, "I64", "<i8"),
    "bool": (10, 1, "BOOL", "|b1"),
    "qint8": (11, 1, None, None),
    "bfloat16": (14, 2, "BF16", "<V2"),
    "uint16": (17, 2, "U16", "<u2"),
    "complex128": (18, 16, None, "<c16"),
    "float16": (19, 2, "F16", "<f2"),
    "uint32": (22, 4, "U32", "<u4"),
    "uint64": (23, 8, "U64", "<u8"),
    "float8_e5m2": (24, 1, "F8_E5M2", None),
    "float8_e4m3fn": (25, 1, "F8_E4M3", None),
    "int4": (29, 1, None, None),
    "uint2": (32, 1, None, None),
    "float8_e8m0fnu": (64, 1, "F8_E8M0", None),
    "float4_e2m1": (65, 1, "F4", None),
    "float6_e3m2": (67, 1, "F6_E3M2", None),
}
BITS = {"int4": 4, "uint2": 2, "float4_e2m1": 4, "float6_e3m2": 6}
BY_NUMBER = {number: name for name, (number, *_) in DTYPES.items()}
BY_SAFETENSORS = {name: ours for ours, (_, _, name, _) in DTYPES.items() if name}
BY_DESCR = {descr: ours for ours, (_, _, _, descr) in DTYPES.items() if descr}
OPAQUE = "opaque"  # NumPy's V1: elements of a byte, whose dtype the file does not name


class Tensor(NamedTuple):
    dtype: str
    shape: tuple
    data: bytes
    attributes: tuple = ()  # ((key, value), ...), bytes, sorted
    device: bytes = b""
    own_name: bytes = b""  # in the metadata of a tensor that has its name from elsewhere: a key, a file

    @property
    def value(self):
        return self.dtype, self.shape, self.data

    @property
    def metadata(self):
        """What is to stay; of arrays of text it is the type, not its width."""
        attributes = tuple((key, b"<U" if value.startswith(b"<U") else value) for key, value in self.attributes)
        return attributes, self.device, self.own_name


class Model(NamedTuple):
    tensors: dict  # name as bytes -> Tensor, in the order of the file
    metadata: dict = {}  # of the file, text -> text


class Broken(Exception):
    """The file breaks a rule of its format."""


def check(condition, *what):
    if not condition:
        raise Broken(*what)


def count(shape):
    product = 1
    for dim in shape:
        product *= dim
    return product


def size_of(dtype):
    return DTYPES[dtype][1]


def packed(dtype, data):
    """Elements below 8 bits as safetensors stores them: one behind the other, the lowest bits first."""
    bits = BITS.get(dtype)
    if bits is None:
        return data
    number = sum(value << bits * place for place, value in enumerate(data))
    return number.to_bytes(len(data) * bits // 8, "little")


def unpacked(dtype, data, elements):
    bits = BITS.get(dtype)
    if bits is None:
        return data
    number = int.from_bytes(data, "little")
    return bytes(number >> bits * place & (1 << bits) - 1 for place in range(elements))


def row_major(data, shape, strides, offset, size):
    """The elements of `size` bytes in row-major order."""
    places = [offset]
    for dim, stride in zip(shape, strides):
        places = [place + step * stride for place in places for step in range(dim)]
    return b"".join(data[place * size : (place + 1) * size] for place in places)
