#!/usr/bin/env python3
"""The promises on how light the library is: what it links, how large a program gets, how long compiling takes.

    tests/benchmarks/lightness.py    # from the root, after `bazel build //tests/benchmarks:read_one //tensor/...
                                     # //serialize/npy/... //serialize/safetensors/...`

Prints rows as tests/benchmarks/bars.cc does.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = "bazel-bin/tests/benchmarks/read_one"


def row(name, figure, bar, unit, compared_to):
    verdict = "met" if figure <= bar else "missed"
    print(f"{name:<54} {figure:9.2f} {unit:<9} <= {bar:7.2f}  {verdict:<6}  {compared_to}", flush=True)


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options).stdout


def program_size(folder):
    """MB of the stripped program, and the names of the shared libraries it loads."""
    stripped = os.path.join(folder, "program")
    run("strip", "-o", stripped, PROGRAM)
    libraries = re.findall(r"^\s*(\S+) =>", run("ldd", stripped), re.MULTILINE)
    return os.path.getsize(stripped) / 1e6, libraries


def compile_seconds(folder):
    """Seconds in which a program that includes tensor.h and does nothing compiles, a median."""
    os.symlink(os.getcwd(), os.path.join(folder, "tensorcask"))
    source = os.path.join(folder, "a.cc")
    with open(source, "w", encoding="utf-8") as file:
        file.write('#include "tensorcask/tensor/tensor.h"\nint main() {}\n')
    command = ["g++", "-std=c++17", "-O2", "-c", "-I", folder, "-o", os.path.join(folder, "a.o"), source]
    seconds = []
    for _ in range(5):
        start = time.monotonic()
        run(*command)
        seconds.append(time.monotonic() - start)
    return statistics.median(seconds)


def build_minutes(folder):
    """Minutes of a build of all libraries with nothing cached."""
    base = os.path.join(folder, "bazel")
    command = ["bazel", f"--output_base={base}", "--max_idle_secs=5"]
    # No cache that a user has set up, and the links of the working folder stay as they are.
    build = [*command, "build", "--disk_cache=", "--symlink_prefix=/", "//tensor/...", "//serialize/...", "//proto/..."]
    try:
        run(*build, "--nobuild")  # the server's own start
        start = time.monotonic()
        run(*build)
        return (time.monotonic() - start) / 60
    finally:
        subprocess.run([*command, "shutdown"], check=False, capture_output=True)
        subprocess.run(["chmod", "-R", "u+w", base], check=False, capture_output=True)
        shutil.rmtree(base, ignore_errors=True)


ROOMS = {  # a program that uses the room, the packages of its libraries, and what its format needs besides Abseil
    "tensor": ('#include "tensorcask/tensor/tensor.h"\n#include <cstdio>\n'
               'int main() { std::puts(tensorcask::Tensor::Scalar<float>(1).ToString().c_str()); }\n',
               ["tensor"], [], []),
    "safetensors": ('#include "tensorcask/serialize/safetensors/safetensors_reader.h"\n'
                    '#include "tensorcask/serialize/safetensors/safetensors_writer.h"\n'
                    'int main(int, char** names) {\n'
                    '  return tensorcask::SafetensorsReader::Open(names[0]).ok() ||\n'
                    '         tensorcask::SafetensorsWriter::Create(names[0]).ok();\n}\n',
                    ["tensor", "serialize/io", "serialize/values", "serialize/stored", "serialize/safetensors"], [], []),
    "npy": ('#include "tensorcask/serialize/npy/npz_reader.h"\n#include "tensorcask/serialize/npy/npz_writer.h"\n'
            'int main(int, char** names) {\n'
            '  return tensorcask::NpzReader::Open(names[0]).ok() || tensorcask::NpzWriter::Create(names[0]).ok();\n}\n',
            ["tensor", "serialize/io", "serialize/values", "serialize/stored", "serialize/zip", "serialize/npy"], ["-lz"],
             ["libz."]),
}


def strangers_of(room, folder):
    """The shared libraries that a program with nothing but this room loads, beyond Abseil, what the format needs, and
    those of the system's compiler."""
    code, packages, linked, needed = ROOMS[room]
    archives = [
        os.path.join(path, name)
        for package in packages
        for path, _, names in os.walk(f"bazel-bin/{package}")
        for name in names
        if name.endswith((".a", ".lo"))
    ]
    source = os.path.join(folder, f"{room}.cc")
    with open(source, "w", encoding="utf-8") as file:
        file.write(code)
    absl = run("pkg-config", "--libs", "absl_status", "absl_statusor", "absl_strings", "absl_str_format", "absl_hash",
               "absl_flat_hash_map").split()
    program = os.path.join(folder, room)
    run("g++", "-std=c++17", "-O2", "-I", folder, "-o", program, source, "-Wl,--start-group", *archives, "-Wl,--end-group",
        "-Wl,--as-needed", *absl, *linked, "-lpthread")
    libraries = re.findall(r"^\s*(\S+) =>", run("ldd", program), re.MULTILINE)
    system = re.compile(r"lib(c|m|stdc\+\+|gcc_s|pthread|dl|rt)\.so|linux-vdso")
    return [
        library for library in libraries
        if not system.match(library) and not library.startswith(("libabsl_", *needed))
    ]


def main():
    if not os.path.exists(PROGRAM):
        sys.exit(f"lightness: {PROGRAM} is not built")
    with tempfile.TemporaryDirectory() as folder:
        megabytes, libraries = program_size(folder)
        row("stripped program that reads a tensor of a checkpoint", megabytes, 1.15, "MB",
            "beyond shared " + " ".join(sorted({re.sub(r"_.*|\.so.*", "", library) for library in libraries})))
        row("compiling tensor.h alone", compile_seconds(folder), 1, "s", "g++ -O2 -c")
        for room, (_, _, _, needed) in ROOMS.items():
            strangers = strangers_of(room, folder)
            beyond = " and ".join(["Abseil", *(name.rstrip(".") for name in needed)])
            row(f"link closure of the {room} room beyond {beyond}", len(strangers), 0, "libraries",
                " ".join(strangers) or "-")
        row("clean build of all libraries", build_minutes(folder), 4, "minutes", f"{os.cpu_count()} cores")


if __name__ == "__main__":
    main()
