#!/usr/bin/env python3
"""`tensorcask diff` judged by exact arithmetic: numbers of every pair of dtypes, at the edges of what each holds."""

import itertools
import json
import math
import os
import struct
import sys
from fractions import Fraction

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import Archives, run  # noqa: E402

EDGES = [
    sign * value + step
    for value in (0, 1, 2**24, 2**31, 2**53, 2**54, 2**62, 2**63, 2**64)
    for sign in (1, -1)
    for step in (-2, -1, 0, 1, 2)
]
FLOATS = [*EDGES, 0.5, -0.5, 0.1, 1e300, -1e300, 1e-300, -0.0, math.nan, math.inf, -math.inf]
LARGE = 2.0**100  # as an imaginary part, it is the whole distance
DTYPES = {  # descr: the letter of struct, candidates
    "<i8": ("q", EDGES),
    "<u8": ("Q", EDGES),
    "<i4": ("i", EDGES),
    "|u1": ("B", EDGES),
    "<f8": ("d", FLOATS),
    "<f4": ("f", FLOATS),
    "<c8": ("ff", [complex(x, y) for x in FLOATS for y in (0, LARGE)]),
    "<c16": ("dd", [complex(x, y) for x in FLOATS for y in (0, LARGE, math.nan)]),
}


def pack(descr, value):
    letters = DTYPES[descr][0]
    return struct.pack("<" + letters, *((value.real, value.imag) if len(letters) == 2 else (value,)))


def values_of(descr):
    """The candidates that the dtype holds, as it holds them."""
    letters, candidates = DTYPES[descr]
    found = {}
    for value in candidates:
        try:
            data = pack(descr, value)
        except (struct.error, OverflowError):
            continue
        stored = struct.unpack("<" + letters, data)
        found[data] = complex(*stored) if len(stored) == 2 else stored[0]
    return list(found.values())


def npy(descr, values):
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': ({len(values)},), }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    data = b"".join(pack(descr, value) for value in values)
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + data


def parts(value):
    return (value.real, value.imag) if isinstance(value, complex) else (value, 0)


def is_nan(value):
    return any(math.isnan(part) for part in parts(value))


def distance(a, b):
    """|a - b| as a Fraction, or infinite."""
    if is_nan(a) or is_nan(b):
        return 0 if is_nan(a) and is_nan(b) else math.inf
    if parts(a) == parts(b):  # Python compares int and float exactly
        return 0
    if any(math.isinf(part) for part in (*parts(a), *parts(b))):
        return math.inf
    real, imaginary = (abs(Fraction(x) - Fraction(y)) for x, y in zip(parts(a), parts(b)))
    return real if imaginary == 0 else Fraction(math.hypot(real, imaginary))


class Values(Archives):
    def put(self, name, descr, values):
        with open(self.path(name), "wb") as file:
            file.write(npy(descr, values))
        return self.path(name)

    def test_numbers_of_all_pairs_of_dtypes_are_compared_exactly(self):
        for descr_a, descr_b in itertools.product(DTYPES, DTYPES):
            pairs = list(itertools.product(values_of(descr_a), values_of(descr_b)))
            a = self.put("a.npy", descr_a, [pair[0] for pair in pairs])
            b = self.put("b.npy", descr_b, [pair[1] for pair in pairs])
            distances = [distance(*pair) for pair in pairs]
            for tolerance in (0, 1, 0.5, 2.0**53, 2.0**63):
                with self.subTest(a=descr_a, b=descr_b, tolerance=tolerance):
                    done = run("diff", "--json", "--cast", "--atol", repr(tolerance), a, b)
                    wanted = sum(one > tolerance for one in distances)
                    self.assertEqual(done.returncode, int(wanted > 0), done.stderr)
                    found = (json.loads(done.stdout)["differences"] or [{"different": 0}])[0]
                    self.assertEqual(found["different"], wanted)
                    if wanted == 0:
                        continue
                    largest = max(distances)
                    self.assertEqual(found["max_absolute"], None if largest > 1e308 else float(largest))

    def test_one_element_beyond_double_is_a_difference(self):
        for descr_a, value_a, descr_b, value_b in (
            ("<i8", 2**53 + 1, "<f8", 2.0**53),
            ("<i8", -(2**53) - 1, "<f8", -(2.0**53)),
            ("<i8", 2**63 - 1, "<f8", 2.0**63),
            ("<u8", 2**64 - 1, "<f8", 2.0**64),
            ("<u8", 2**64 - 1, "<c16", complex(2.0**64, 0)),
            ("<i8", 2**63 - 1, "<u8", 2**63),
            ("<i8", -1, "<u8", 2**64 - 1),
            ("<i8", 2**24 + 1, "<f4", 2.0**24),
        ):
            a = self.put("a.npy", descr_a, [value_a])
            b = self.put("b.npy", descr_b, [value_b])
            with self.subTest(a=value_a, b=value_b):
                self.assertIn("1 of 1 elements differ", run("diff", "--cast", a, b).stdout)
                self.assertIn("1 of 1 elements differ", run("diff", "--cast", b, a).stdout)
                self.assertEqual(run("diff", "--rtol", "1e-20", a, b).returncode, 1)

    def test_a_tolerance_is_held_against_the_true_difference(self):
        a = self.put("a.npy", "<i8", [2**53 + 1])
        for descr, zero in (("<i8", 0), ("<u8", 0), ("<f8", -0.0)):
            b = self.put("b.npy", descr, [zero])
            with self.subTest(b=descr):
                self.assertEqual(run("diff", "--atol", repr(2.0**53), a, b).returncode, 1)
                self.assertEqual(run("diff", "--atol", repr(2.0**53 + 2), a, b).returncode, 0)


if __name__ == "__main__":
    case_report.main("diff")
