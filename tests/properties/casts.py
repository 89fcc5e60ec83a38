"""What --dtype makes of elements, by NumPy: a rule that ends in a floating dtype takes floating tensors only."""

import numpy as np
from values import BITS, DTYPES, Tensor

TARGETS = ("float64", "float32", "float16", "bfloat16")
# Bits of exponent and mantissa, the bias, and whether all ones in the exponent are infinity and NaN, as in IEEE 754.
_SMALL = {
    "float8_e5m2": (5, 2, 15, True),
    "float8_e4m3fn": (4, 3, 7, False),
    "float6_e3m2": (3, 2, 3, False),
    "float4_e2m1": (2, 1, 1, False),
}
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e8m0fnu", *_SMALL)


def _small_value(dtype, byte):
    if dtype == "float8_e8m0fnu":
        return float("nan") if byte == 255 else 2.0 ** (byte - 127)
    exponent_bits, bits, bias, ieee = _SMALL[dtype]
    sign = -1.0 if byte >> (exponent_bits + bits) & 1 else 1.0
    exponent, mantissa = byte >> bits & (1 << exponent_bits) - 1, byte & (1 << bits) - 1
    ones = exponent == (1 << exponent_bits) - 1
    if ones and ieee:
        return float("nan") if mantissa else sign * float("inf")
    if dtype == "float8_e4m3fn" and ones and mantissa == 7:
        return float("nan")
    scale = mantissa if exponent == 0 else mantissa + (1 << bits)
    return sign * scale * 2.0 ** (max(exponent, 1) - bias - bits)


def as_float64(item):
    if item.dtype == "bfloat16":
        wide = np.frombuffer(item.data, "<u2").astype("<u4") << 16
        return wide.view("<f4").astype("<f8")
    if item.dtype in _SMALL or item.dtype == "float8_e8m0fnu":
        return np.array([_small_value(item.dtype, byte) for byte in item.data], "<f8")
    return np.frombuffer(item.data, DTYPES[item.dtype][3]).astype("<f8")


def _as_bfloat16(values):
    """Of float32, to the nearest, ties to even."""
    bits = values.astype("<f4").view("<u4").astype("<u8")
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    quiet = bits >> 16 | 0x40
    return np.where(np.isnan(values), quiet, nearest).astype("<u2")


def nearest(dtype, value):
    """The finite number of the dtype that is nearest to a decimal number, which is finite."""
    with np.errstate(all="ignore"):
        if dtype in ("float64", "complex128"):
            return value
        if dtype in ("float32", "complex64"):
            return float(np.float32(value))
        if dtype == "float16":
            return float(np.float16(value))
    if dtype == "bfloat16":
        data = _as_bfloat16(np.array([value])).tobytes()
        return float(as_float64(Tensor(dtype, (1,), data))[0])
    bits = BITS.get(dtype, 8)
    values = [_small_value(dtype, byte) for byte in range(1 << bits)]
    return min((one for one in values if abs(one) < float("inf")), key=lambda one: abs(one - value))


def cast(item, dtype):
    """The tensor converted, as far as a rule `*=DTYPE` applies to it."""
    if item.dtype == dtype or item.dtype not in FLOATS:
        return item
    with np.errstate(all="ignore"):
        values = as_float64(item)
        data = _as_bfloat16(values) if dtype == "bfloat16" else values.astype(DTYPES[dtype][3])
    return item._replace(dtype=dtype, data=data.tobytes())
