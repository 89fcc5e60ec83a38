#!/usr/bin/env python3
"""Checks what libtensorcask.so exports: the namespace tensorcask, and what protobuf needs of its messages.

    scripts/exported_symbols.py LIBRARY    # prints the number of symbols; exits with 1 after a finding

cmake/exported_symbols.map makes the choice; this file repeats its rule as one regular expression. Functions in
tensorcask::internal are exported, too: templates in public headers call them.
"""

import re
import subprocess
import sys

# Members and functions of the namespace, their thunks, tables of virtual functions and type information.
_OWN = r"_Z(?:T[IRSTV]|GV|Thn?\d+_|Tv0_n\d+_)?N[rVK]*[RO]?10tensorcask"
# What the generated classes of other messages use if they have a field of ours, or import a file of ours.
_ARENA = r"_ZN6google8protobuf5Arena18CreateMaybeMessageIN10tensorcask"
_DESCRIPTORS = r"descriptor_table_tensorcask_2f"
_OURS = re.compile("|".join((_OWN, _ARENA, _DESCRIPTORS)))
# One symbol of each kind that programs link.
NEEDED = {
    "a function of the library": re.compile(r"_ZN10tensorcask16CheckpointReader4OpenE"),
    "a class of protobuf": re.compile(r"_ZTVN10tensorcask11TensorProtoE$"),
    "a message on an arena": re.compile(_ARENA + "11TensorProtoE"),
    "the descriptors of a .proto file": re.compile(_DESCRIPTORS + "proto_2ftensor_2eproto$"),
}


def foreign(symbols):
    """Those that are not ours."""
    return [symbol for symbol in symbols if not _OURS.match(symbol)]


def missing(symbols):
    """The kinds of which there is none."""
    return [kind for kind, pattern in NEEDED.items() if not any(map(pattern.match, symbols))]


def exported(library):
    output = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", library], check=True, capture_output=True)
    return [line.split()[0].partition("@")[0] for line in output.stdout.decode().splitlines() if line]


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    symbols = exported(arguments[0])
    findings = [f"exported, but not ours: {symbol}" for symbol in foreign(symbols)]
    findings += [f"not exported: {kind}" for kind in missing(symbols)]
    for finding in findings:
        print(f"{arguments[0]}: {finding}")
    print(f"{arguments[0]}: {len(symbols)} exported symbols, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
