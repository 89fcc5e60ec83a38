#!/usr/bin/env python3
"""Projects that use each door of Tensorcask: installed, and as a part of a build.

    doors.py PREFIX FOLDER [--shared]

PREFIX is where `cmake --install` has put Tensorcask, FOLDER where the projects are written and built. Each door of the
root BUILD file, the fixtures for tests, and jobs of MPI if they are installed have a program that links the door alone. With find_package all are built
and run, with pkg-config all are linked and run. FetchContent, add_subdirectory and each component of find_package are
configured, for which CMake looks for each library that a door names.
"""

import argparse
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # the module below lies in the source tree
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import build_files  # noqa: E402

# Door -> a header, and what is true. Each calls a function that lies in the library, not in its headers.
PROGRAMS = {
    "archive": ("serialize/archive/formats/all_formats.h", "cask::AllFormats().list().size() > 5"),
    "checkpoint": ("serialize/checkpoint/manager.h", 'absl::IsNotFound(cask::OpenLatestCheckpoint("none").status())'),
    "compat": ("tensor/compat/resizable.h", "!cask::ResizableTensor().CheckFullyInitialized().ok()"),
    "cuda": ("tensor/memory/cuda_backend.h", "!cask::CudaBackend::Create({/*device=*/-1}).ok()"),
    "dlpack": ("tensor/interop/dlpack.h", "cask::ToDLPack(cask::Tensor::Scalar(1)).ok()"),
    "eigen": ("tensor/interop/eigen.h", "cask::EigenVector<const float>(row)->sum() == 3"),
    "exchange": ("serialize/exchange/unix_socket.h", "cask::UnixSocket::Pair().ok()"),
    "fixture": ("tests/fixture/matchers.h", 'testing::Matches(cask::testing::TensorEq("float32 [2] 1 2"))(row)'),
    "gguf": ("serialize/gguf/gguf_reader.h", 'absl::IsNotFound(cask::GgufReader::Open("none").status())'),
    "hdf5": ("serialize/hdf5/hdf5_reader.h", 'absl::IsNotFound(cask::Hdf5Reader::Open("none").status())'),
    "inspect": ("tensor/inspect/tensor_report.h", "!cask::MakeReport(row).ToText().empty()"),
    "memory": ("tensor/memory/caching_options.h", 'cask::CachingOptions::Parse("max_split_size_mb:32").ok()'),
    "mpi": (
        "serialize/mpi/mpi_communicator.h",
        "absl::IsFailedPrecondition(cask::MakeMpiCommunicator(MPI_COMM_WORLD).status())",
    ),
    "npy": ("serialize/npy/npz_reader.h", 'absl::IsNotFound(cask::NpzReader::Open("none").status())'),
    "object_store": ("serialize/object_store/object_store.h", "cask::ObjectStore::Create({}).ok()"),
    "onnx": ("serialize/onnx/onnx_reader.h", 'absl::IsNotFound(cask::OnnxReader::Open("none").status())'),
    "payload": ("serialize/payload/content_hash.h", "cask::HashElements(row).ok()"),
    "records": ("serialize/wire/records.h", '!cask::StartsWithRecord("no record")'),
    "rename_rules": ("serialize/archive/rename_rules.h", '!cask::CompileRenames({"s/a"}, {}).ok()'),
    "safetensors": (
        "serialize/safetensors/safetensors_reader.h",
        'absl::IsNotFound(cask::SafetensorsReader::Open("none").status())',
    ),
    "serve": ("serialize/archive/formats/served_format.h", '!cask::ServedArchiveFormat().Open("unix:none", {}).ok()'),
    "sharded": ("serialize/sharded/mesh.h", 'cask::Mesh::Parse("data=2,model=4")->num_ranks() == 8'),
    "strided": ("tensor/strided/copy.h", "!cask::TensorView(row).ToString().empty()"),
    "tensor": ("tensor/tensor.h", "!row.ToString().empty()"),
    "tensor_codec": ("serialize/wire/tensor_codec.h", "!cask::DecodeTensor(cask::TensorProto()).ok()"),
    "torch": ("serialize/torch/torch_reader.h", 'absl::IsNotFound(cask::TorchReader::Open("none").status())'),
}

SOURCE = """#include "tensorcask/tensor/tensor.h"
#include "tensorcask/{header}"

namespace cask = tensorcask;

int main() {{
  const cask::Tensor row = cask::Tensor::FromValues<float>({{1, 2}});
  return row.num_elements() == 2 && ({condition}) ? 0 : 1;
}}
"""
PROJECT = """cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES CXX)
set(doors {doors})
{find}
foreach(door ${{doors}})
  add_executable(use_${{door}} ../find_package/${{door}}.cc)
  target_link_libraries(use_${{door}} PRIVATE Tensorcask::${{door}})
endforeach()
"""
FETCH = "include(FetchContent)\nFetchContent_Declare(tensorcask SOURCE_DIR {root})\nFetchContent_MakeAvailable(tensorcask)"
# How a project finds the library. The first is built, the others are configured.
WAYS = {
    "find_package": "find_package(Tensorcask REQUIRED)",
    "components": "foreach(door ${{doors}})\n  find_package(Tensorcask REQUIRED COMPONENTS ${{door}})\nendforeach()",
    "FetchContent": FETCH,
    "add_subdirectory": "add_subdirectory({root} tensorcask)",
}


def doors(root):
    """The names of all doors, "fixture" and "mpi"."""
    top = next(file for file in build_files.build_files(root) if file.package == "")
    names = [arguments["name"] for rule, arguments in top.rules if rule in ("cc_library", "alias")]
    names += ["fixture", "mpi"]
    return sorted(set(names) - {"rpc"})  # which CMake does not build


def write(folder, programs):
    """A project for each way, and the sources of all programs in the first."""
    for way, find in WAYS.items():
        os.makedirs(os.path.join(folder, way))
        with open(os.path.join(folder, way, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(PROJECT.format(doors=" ".join(programs), find=find.format(root=ROOT)))
    for door, (header, condition) in programs.items():
        with open(os.path.join(folder, "find_package", f"{door}.cc"), "w", encoding="utf-8") as file:
            file.write(SOURCE.format(header=header, condition=condition))


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, **options)


def check_cmake(way, programs, arguments):
    folder = os.path.join(arguments.folder, way)
    build = os.path.join(folder, "build")
    shared = "ON" if arguments.shared else "OFF"
    run("cmake", "-S", folder, "-B", build, f"-DCMAKE_PREFIX_PATH={arguments.prefix}", f"-DBUILD_SHARED_LIBS={shared}",
        "-DCMAKE_BUILD_TYPE=None", stdout=sys.stderr)  # fmt: skip
    if way == "find_package":
        run("cmake", "--build", build, "--parallel", str(os.cpu_count()), stdout=sys.stderr)
        for door in programs:
            run(os.path.join(build, f"use_{door}"))


def check_pkg_config(programs, arguments):
    """One program is compiled; the objects of find_package serve the others."""
    libraries = os.path.join(arguments.prefix, "lib")
    environment = {**os.environ, "PKG_CONFIG_PATH": os.path.join(libraries, "pkgconfig"), "LD_LIBRARY_PATH": libraries}

    def flags(*asked):
        return run("pkg-config", *asked, env=environment, stdout=subprocess.PIPE).stdout.split()

    folder, program = os.path.join(arguments.folder, "find_package"), os.path.join(arguments.folder, "program")
    run("c++", "-std=c++20", "-c", *flags("--cflags", "tensorcask"), f"{folder}/tensor.cc", "-o", f"{program}.o")
    for door in programs:
        module = f"tensorcask-{door}" if door in ("fixture", "mpi") else "tensorcask"
        libs = flags(*(() if arguments.shared else ("--static",)), "--libs", module)
        made = f"{folder}/build/CMakeFiles/use_{door}.dir/{door}.cc.o"
        run("c++", f"{program}.o" if door == "tensor" else made, *libs, "-o", program)
        run(program, env=environment)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=os.path.abspath)
    parser.add_argument("folder", type=os.path.abspath)
    parser.add_argument("--shared", action="store_true", help="the library is libtensorcask.so")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    os.makedirs(arguments.folder)
    programs = dict(PROGRAMS)
    if not os.path.exists(os.path.join(arguments.prefix, "lib/pkgconfig/tensorcask-mpi.pc")):
        print("SKIPPED door mpi: it was built without MPI")
        del programs["mpi"]
    write(arguments.folder, programs)
    checks = {way: lambda way=way: check_cmake(way, programs, arguments) for way in WAYS}
    checks["pkg-config"] = lambda: check_pkg_config(programs, arguments)
    failed = 0
    for name, check in checks.items():
        try:
            check()
        except subprocess.CalledProcessError as error:
            failed += 1
            print(f"FAILED doors by {name}: {' '.join(error.cmd)}: exit status {error.returncode}")
        else:
            print(f"PASSED doors by {name}: {len(programs)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
