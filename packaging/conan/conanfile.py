"""Tensorcask for Conan 2: `conan create packaging/conan` in the tree, `requires = "tensorcask/0.1.0"` in a project.

CMake finds it with find_package(Tensorcask) and links Tensorcask::<door>, as without Conan.
"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir
from conan.tools.system.package_manager import Apt


class Tensorcask(ConanFile):
    name = "tensorcask"
    description = "Reads, writes and ships tensors: TensorFlow checkpoints, safetensors, npy, npz and messages"
    license = ("Apache-2.0", "ISC", "MIT")
    topics = ("tensor", "checkpoint", "safetensors", "numpy", "tensorflow", "pytorch", "gguf", "onnx")
    package_type = "library"
    settings = ("os", "arch", "compiler", "build_type")
    options = {
        "shared": [True, False],
        "tool": [True, False],
        "system_libraries": [True, False],  # the libraries of the system, as Debian has them, in the place of packages
    }
    default_options = {"shared": False, "tool": False, "system_libraries": False}

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._root, "tensor", "version.h"))
        self.version = re.search(r'CASK_VERSION_STRING "([0-9.]+)"', text)[1]

    # A recipe of a server names the archive of a release instead.
    def export_sources(self):
        for name in ("CMakeLists.txt", "LICENSE", "NOTICE"):
            copy(self, name, self._root, self.export_sources_folder)
        for name in ("cmake", "proto", "serialize", "tensor", "tests/fixture", "tools"):
            copy(self, "*", os.path.join(self._root, name), os.path.join(self.export_sources_folder, name))

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        if self.options.system_libraries:
            return
        # What headers include is needed by those who use them; the rest is linked.
        self.requires("protobuf/[>=4.25 <8]", transitive_headers=True)
        self.requires("abseil/[>=20230802]", transitive_headers=True)  # the version that protobuf chooses
        for name in ("expat/[>=2.4 <3]", "libcurl/[>=7.86 <9]", "re2/[>=20220601]", "snappy/[>=1.1.9 <2]", "xxhash/[>=0.8 <1]", "zlib/[>=1.2.11 <2]",
                     "zstd/[>=1.5 <2]"):  # fmt: skip
            self.requires(name)
        self.requires("nlohmann_json/[>=3.11 <4]", visible=False)
        if self.options.tool:
            self.requires("cli11/[>=2.3 <3]", visible=False)
            self.requires("libevent/[>=2.1.12 <3]", visible=False)

    def build_requirements(self):
        if not self.options.system_libraries:
            self.tool_requires("protobuf/<host_version>")

    def system_requirements(self):
        if self.options.system_libraries:
            packages = ["libabsl-dev", "libcurl4-openssl-dev", "libexpat1-dev", "libprotobuf-dev", "libre2-dev", "libsnappy-dev", "libxxhash-dev", "libzstd-dev",
                        "nlohmann-json3-dev", "pkg-config", "protobuf-compiler", "zlib1g-dev"]  # fmt: skip
            Apt(self).install(packages + (["libcli11-dev", "libevent-dev"] if self.options.tool else []), check=True)

    def validate(self):
        check_min_cppstd(self, 17)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({
            "TENSORCASK_MPI": False,
            "TENSORCASK_TESTS": False,
            "TENSORCASK_TOOL": bool(self.options.tool),
            # Doors that exist if these are found.
            "CMAKE_DISABLE_FIND_PACKAGE_Eigen3": True,
            "CMAKE_DISABLE_FIND_PACKAGE_GTest": True,
        })  # fmt: skip
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        for name in ("LICENSE", "NOTICE"):
            copy(self, name, self.source_folder, os.path.join(self.package_folder, "licenses"))
        rmdir(self, os.path.join(self.package_folder, "share", "doc"))

    # find_package reads the package's own files, which name the doors.
    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "Tensorcask")]
        self.cpp_info.bindirs = ["bin"]
