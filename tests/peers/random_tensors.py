"""Random tensors: every dtype of NumPy and ml_dtypes that we have too, ranks 0 to 6, axes of size 0, any bits."""

import ml_dtypes
import numpy as np

import ours

# Our name -> the dtype of NumPy or ml_dtypes with the same elements.
DTYPES = {
    **{
        name: np.dtype(name)
        for name in (
            "bool",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "float16",
            "float32",
            "float64",
            "complex64",
            "complex128",
        )
    },
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    **{
        name: np.dtype(getattr(ml_dtypes, name))
        for name in (
            "int2",
            "uint2",
            "int4",
            "uint4",
            "float8_e5m2",
            "float8_e4m3fn",
            "float8_e4m3fnuz",
            "float8_e4m3b11fnuz",
            "float8_e5m2fnuz",
            "float8_e8m0fnu",
            "float8_e4m3",
            "float8_e3m4",
        )
    },
    "float4_e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
    "float6_e2m3": np.dtype(ml_dtypes.float6_e2m3fn),
    "float6_e3m2": np.dtype(ml_dtypes.float6_e3m2fn),
}
OUR_NAMES = {dtype: name for name, dtype in DTYPES.items()}
BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1": 4, "float6_e2m3": 6, "float6_e3m2": 6}

# Names that a format may trip over: Unicode in several normal forms, control characters, separators, a long one.
NAMES = [
    "dense/kernel",
    "ядро/вес",
    "張量",
    "e\u0301 and \u00e9",
    "a b\tc",
    "quote\"'\\",
    "../up",
    "C:\\x",
    "🙂/🧠",
    "\u202ertl",
    "\u0001control",
    "-",
    "--help",
    "x" * 1000,
    "a=b",
    "a:b",
    "*",
    "%s",
    "{}",
    "con",
    ".",
    "..",
]


def random_shape(rng, rank, max_elements=500):
    shape = []
    for _ in range(rank):
        room = max_elements // max(1, int(np.prod([max(1, dim) for dim in shape])))
        shape.append(int(rng.integers(0 if rng.random() < 0.08 else 1, max(2, min(room, 9)))))
    return tuple(shape)


def random_array(rng, name, shape):
    """Any bits that are valid: bools are 0 and 1; dtypes below a byte have zeros (or copies of the sign) above."""
    dtype = DTYPES[name]
    count = int(np.prod(shape, dtype=np.int64))
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool).reshape(shape)
    raw = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    if name in BITS:
        bits = BITS[name]
        raw &= (1 << bits) - 1
        if name.startswith("int"):
            raw = np.where(raw >> (bits - 1), raw | (0xFF << bits & 0xFF), raw).astype(np.uint8)
    return raw.view(dtype).reshape(shape)


def random_strings(rng, shape):
    count = int(np.prod(shape, dtype=np.int64))
    return [rng.bytes(int(rng.choice([0, 1, 5, 127, 128, 300]))) for _ in range(count)]


def arrays(seed, dtypes, per_rank=2, max_elements=500):
    """{name: array}: for each dtype and each rank from 0 to 6, `per_rank` arrays, and the names above."""
    rng = np.random.default_rng(seed)
    made = {}
    for dtype in dtypes:
        for rank in range(7):
            for turn in range(per_rank):
                shape = random_shape(rng, rank, max_elements)
                made[f"{dtype}/{rank}/{turn}"] = random_array(rng, dtype, shape)
    for number, name in enumerate(NAMES):
        made[name] = random_array(rng, dtypes[number % len(dtypes)], (2, 3))
    return made


def data_of(array):
    return np.ascontiguousarray(array).tobytes()


def stored(named, shard=lambda number: 0):
    """The arrays as our tensors."""
    return [
        ours.Stored(name.encode(), OUR_NAMES[array.dtype], array.shape, data_of(array), "*", shard(number))
        for number, (name, array) in enumerate(named.items())
    ]
