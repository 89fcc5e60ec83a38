#!/usr/bin/env python3
"""Checks that an installed wheel brings what it needs: check_wheel.py

The module and the program may load the libraries that every Linux of the wheel's platform has, and those inside the
wheel. `tools/dev wheel` runs this with the Python of a fresh virtual environment.
"""

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig

# PEP 600 and https://github.com/pypa/auditwheel: what wheels for manylinux may expect of the system.
OF_THE_SYSTEM = {
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libstdc++.so.6",
    "libz.so.1",
}
PACKAGES = sysconfig.get_path("platlib")


def loaded_by(file):
    """The shared libraries that the dynamic linker finds for a file."""
    found = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
    assert "not found" not in found, found
    return re.findall(r"(/\S+) \(0x", found)


def check(file):
    brought = 0
    for library in loaded_by(file):
        if os.path.realpath(library).startswith(os.path.realpath(PACKAGES) + os.sep):
            brought += 1
        elif os.path.basename(library) not in OF_THE_SYSTEM:
            sys.exit(f"{file} loads {library}, which the wheel does not bring")
    print(f"{os.path.relpath(file, PACKAGES)}: {brought} libraries in the wheel, none of Debian's packages")


def main():
    import tensorcask._native

    check(tensorcask._native.__file__)
    grpc = importlib.util.find_spec("tensorcask._grpc")
    if grpc is not None:  # the wheel was built where gRPC is
        check(grpc.origin)
    program = os.path.join(sysconfig.get_path("scripts"), "tensorcask")
    print(subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip())
    check(os.path.join(PACKAGES, "tensorcask.scripts", "tensorcask"))  # auditwheel moves it there


if __name__ == "__main__":
    main()
