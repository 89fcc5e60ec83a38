"""The numbers of a tensor as NumPy has them, and what statistics of them are."""

import numpy as np
from casts import FLOATS, as_float64
from values import BITS, DTYPES, string_values

SIGNED_SMALL = ("int4",)
# The smallest normal number of each floating dtype: what is nearer to zero is subnormal.
SMALLEST_NORMAL = {
    "float64": 2.0**-1022,
    "float32": 2.0**-126,
    "bfloat16": 2.0**-126,
    "float16": 2.0**-14,
    "float8_e5m2": 2.0**-14,
    "float8_e4m3fn": 2.0**-6,
    "float8_e8m0fnu": 0.0,
    "float6_e3m2": 2.0**-2,
    "float4_e2m1": 1.0,
}


def numbers(item):
    """A flat array: float64, int64, uint64, bool, complex128 or object (of bytes, for strings)."""
    if item.dtype == "string":
        return np.array([*string_values(item.data), None], object)[:-1]
    if item.dtype in FLOATS:
        return as_float64(item)
    if item.dtype in BITS or item.dtype == "qint8":
        bits = BITS.get(item.dtype, 8)
        values = np.frombuffer(item.data, "u1").astype("i8") & (1 << bits) - 1
        return np.where(values >> (bits - 1), values - (1 << bits), values) if item.dtype[0] != "u" else values
    return np.frombuffer(item.data, DTYPES[item.dtype][3])


def statistics(item):
    """What `stats --json` says, or None of a dtype of which it has none."""
    if item.dtype == "string" or item.dtype.startswith("complex"):
        return None
    values = numbers(item).astype("f8")
    finite = values[np.isfinite(values)]
    with np.errstate(all="ignore"):
        result = {"zeros": int((values == 0).sum()), "nan": int(np.isnan(values).sum()), "inf": int(np.isinf(values).sum())}
        if item.dtype in FLOATS:
            magnitude = np.abs(values)
            result["subnormals"] = int(((magnitude > 0) & (magnitude < SMALLEST_NORMAL[item.dtype])).sum())
        if len(finite):
            exact = numbers(item) if item.dtype in ("int64", "uint64") else None
            low, high = (finite.min(), finite.max()) if exact is None else (exact.min(), exact.max())
            result.update(min=low.item(), max=high.item(), mean=float(finite.mean()), std=float(finite.std()))
    return result
