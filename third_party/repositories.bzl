"""What Tensorcask needs from outside, over the packages of a Debian system, without a download.

    load("@tensorcask//third_party:repositories.bzl", "tensorcask_repositories")

    tensorcask_repositories()

Labels are the usual ones of each project (`@com_google_absl//absl/status`, `@zstd//:zstd`). If the calling WORKSPACE
has defined a repository of the same name before, that one is used. Bazel evaluates a repository only when a target that is
being built depends on it, so only packages that are used must be installed. An error names the missing Debian package.
"""

# Label in @com_google_absl below absl/ -> module of pkg-config. Header-only libraries have a module, too.
_ABSL = {
    "algorithm:algorithm": "absl_algorithm",
    "algorithm:container": "absl_algorithm_container",
    "base:base": "absl_base",
    "base:config": "absl_config",
    "base:core_headers": "absl_core_headers",
    "base:dynamic_annotations": "absl_dynamic_annotations",
    "cleanup:cleanup": "absl_cleanup",
    "container:btree": "absl_btree",
    "container:fixed_array": "absl_fixed_array",
    "container:flat_hash_map": "absl_flat_hash_map",
    "container:flat_hash_set": "absl_flat_hash_set",
    "container:inlined_vector": "absl_inlined_vector",
    "container:node_hash_map": "absl_node_hash_map",
    "container:node_hash_set": "absl_node_hash_set",
    "functional:any_invocable": "absl_any_invocable",
    "functional:bind_front": "absl_bind_front",
    "functional:function_ref": "absl_function_ref",
    "hash:hash": "absl_hash",
    "memory:memory": "absl_memory",
    "meta:type_traits": "absl_type_traits",
    "numeric:bits": "absl_bits",
    "numeric:int128": "absl_int128",
    "random:bit_gen_ref": "absl_random_bit_gen_ref",
    "random:distributions": "absl_random_distributions",
    "random:random": "absl_random_random",
    "status:status": "absl_status",
    "status:statusor": "absl_statusor",
    "strings:cord": "absl_cord",
    "strings:str_format": "absl_str_format",
    "strings:strings": "absl_strings",
    "synchronization:synchronization": "absl_synchronization",
    "time:time": "absl_time",
    "types:any": "absl_any",
    "types:compare": "absl_compare",
    "types:optional": "absl_optional",
    "types:span": "absl_span",
    "types:variant": "absl_variant",
    "utility:utility": "absl_utility",
}

_BUILD_HEAD = """load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])
"""

def _missing(repository_ctx, what):
    fail("\n\n  Tensorcask: @{name} needs {what}.\n  On Debian: apt-get install {package}\n".format(
        name = repository_ctx.name,
        package = repository_ctx.attr.package,
        what = what,
    ))

def _link_flags(repository_ctx, module):
    pkg_config = repository_ctx.which("pkg-config")
    if not pkg_config:
        fail("\n\n  Tensorcask: @{} needs the program pkg-config.\n  On Debian: apt-get install pkg-config\n".format(
            repository_ctx.name,
        ))
    result = repository_ctx.execute([pkg_config, "--libs", module])
    if result.return_code != 0:
        _missing(repository_ctx, "the pkg-config module '{}'".format(module))
    return [flag for flag in result.stdout.strip().split(" ") if flag]

def _cc_library(name, flags):
    return "\ncc_library(\n    name = {},\n    linkopts = {},\n)\n".format(repr(name), repr(flags))

def _has_header(repository_ctx, header):
    for folder in ["/usr/include", "/usr/local/include"]:
        if repository_ctx.path(folder + "/" + header).exists:
            return True
    return False

def _system_library_impl(repository_ctx):
    header = repository_ctx.attr.header
    if header and not _has_header(repository_ctx, header):
        _missing(repository_ctx, "the header '{}'".format(header))
    builds = {}
    for label, module in repository_ctx.attr.modules.items():
        package, name = label.split(":")
        builds[package] = builds.get(package, _BUILD_HEAD) + _cc_library(name, _link_flags(repository_ctx, module))
    for label, flags in repository_ctx.attr.flags.items():
        package, name = label.split(":")
        builds[package] = builds.get(package, _BUILD_HEAD) + _cc_library(name, flags)
    for package, text in builds.items():
        repository_ctx.file((package + "/" if package else "") + "BUILD.bazel", text, executable = False)

# C++ libraries in the folders of the system: only names and flags for the linker.
_system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "flags": attr.string_list_dict(doc = "'package:name' -> flags for the linker"),
        "header": attr.string(doc = "a header that proves that the library is installed"),
        "modules": attr.string_dict(doc = "'package:name' -> module of pkg-config"),
        "package": attr.string(mandatory = True, doc = "the Debian package to install"),
    },
    environ = ["PKG_CONFIG_PATH"],
    local = True,
)

def _system_headers_impl(repository_ctx):
    folder = repository_ctx.path(repository_ctx.attr.path)
    if not folder.exists:
        _missing(repository_ctx, "the folder '{}'".format(repository_ctx.attr.path))
    repository_ctx.symlink(folder, "include")
    repository_ctx.file("BUILD.bazel", _BUILD_HEAD + """
cc_library(
    name = {},
    hdrs = glob(["include/**"]),
    includes = ["include"],
)
""".format(repr(repository_ctx.name)), executable = False)

# A library of headers in a folder of the system that the compiler does not search by itself.
_system_headers = repository_rule(
    implementation = _system_headers_impl,
    attrs = {"package": attr.string(mandatory = True), "path": attr.string(mandatory = True)},
    local = True,
)

def _system_mpi_impl(repository_ctx):
    pkg_config = repository_ctx.which("pkg-config")
    result = repository_ctx.execute([pkg_config, "--variable=includedir", "mpi-c"]) if pkg_config else None
    if not result or result.return_code != 0:
        _missing(repository_ctx, "the pkg-config module 'mpi-c'")
    repository_ctx.symlink(result.stdout.strip(), "include")

    # The classes of MPI's C++, which MPI 3 has removed, are not wanted.
    repository_ctx.file("BUILD.bazel", _BUILD_HEAD + """
cc_library(
    name = "mpi",
    hdrs = glob(["include/**/*.h"]),
    defines = ["MPICH_SKIP_MPICXX", "OMPI_SKIP_MPICXX"],
    includes = ["include"],
    linkopts = {},
)
""".format(repr(_link_flags(repository_ctx, "mpi-c"))), executable = False)

_system_mpi = repository_rule(
    implementation = _system_mpi_impl,
    attrs = {"package": attr.string(mandatory = True)},
    environ = ["PKG_CONFIG_PATH"],
    local = True,
)

def _system_protobuf_impl(repository_ctx):
    protoc = repository_ctx.which("protoc")
    if not protoc:
        _missing(repository_ctx, "the program protoc")
    if not _has_header(repository_ctx, "google/protobuf/message.h"):
        _missing(repository_ctx, "the header 'google/protobuf/message.h'")
    repository_ctx.symlink(protoc, "protoc")
    libraries = "".join([
        _cc_library(name, _link_flags(repository_ctx, module))
        for name, module in (("protobuf", "protobuf"), ("protobuf_lite", "protobuf-lite"))
    ])
    repository_ctx.file("BUILD.bazel", _BUILD_HEAD + """
exports_files(["protoc"])

proto_lang_toolchain(
    name = "cc_toolchain",
    command_line = "--cpp_out=$(OUT)",
    runtime = ":protobuf",
)
""" + libraries, executable = False)

_system_protobuf = repository_rule(
    implementation = _system_protobuf_impl,
    attrs = {"package": attr.string(mandatory = True)},
    environ = ["PKG_CONFIG_PATH"],
    local = True,
)

# @grpc where gRPC is not installed. No platform has the value `installed`, so targets that need it are incompatible with
# each: Bazel skips them in `bazel test //...`, and says why where one is named.
_GRPC_ABSENT = """load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

constraint_setting(name = "grpc")

constraint_value(
    name = "installed",
    constraint_setting = ":grpc",
)

[
    cc_library(
        name = name,
        target_compatible_with = [":installed"],
    )
    for name in ["grpc++", "grpc++_reflection"]
]

exports_files(["grpc_cpp_plugin"])
"""

def write_grpc_absent(repository_ctx):
    """The repository of a project or machine without gRPC."""
    repository_ctx.file("BUILD.bazel", _GRPC_ABSENT, executable = False)
    repository_ctx.file("grpc_cpp_plugin", "")  # never run

def _system_grpc_impl(repository_ctx):
    pkg_config = repository_ctx.which("pkg-config")
    plugin = repository_ctx.which("grpc_cpp_plugin")
    flags = repository_ctx.execute([pkg_config, "--libs", "grpc++"]) if pkg_config else None
    if not flags or flags.return_code != 0 or not plugin or not _has_header(repository_ctx, "grpcpp/grpcpp.h"):
        write_grpc_absent(repository_ctx)
        return
    repository_ctx.symlink(plugin, "grpc_cpp_plugin")
    links = [flag for flag in flags.stdout.strip().split(" ") if flag]
    libraries = _cc_library("grpc++", links) + _cc_library("grpc++_reflection", ["-lgrpc++_reflection"] + links)
    exports = "\nexports_files([\"grpc_cpp_plugin\"])\n"
    repository_ctx.file("BUILD.bazel", _BUILD_HEAD + exports + libraries, executable = False)

# gRPC, which is optional: without it, the targets that need it are skipped.
_system_grpc = repository_rule(
    implementation = _system_grpc_impl,
    attrs = {"package": attr.string(mandatory = True)},
    environ = ["PKG_CONFIG_PATH"],
    local = True,
)

def _files_impl(repository_ctx):
    for path, text in repository_ctx.attr.files.items():
        repository_ctx.file(path, text, executable = False)

# A small repository whose files are given as text.
_files = repository_rule(implementation = _files_impl, attrs = {"files": attr.string_dict()})

def _system_folder_impl(repository_ctx):
    folder = repository_ctx.path(repository_ctx.attr.path)
    if not folder.exists:
        _missing(repository_ctx, "the folder '{}'".format(repository_ctx.attr.path))
    for entry in folder.readdir():
        repository_ctx.symlink(entry, entry.basename)

# A repository in a folder of a Debian package.
_system_folder = repository_rule(
    implementation = _system_folder_impl,
    attrs = {"package": attr.string(mandatory = True), "path": attr.string(mandatory = True)},
    local = True,
)

def _maybe(rule, name, **kwargs):
    if not native.existing_rule(name):
        rule(name = name, **kwargs)

# Forwards to the native rules of Bazel.
def _native_rules(names):
    return "".join(["def {0}(**attrs):\n    native.{0}(**attrs)\n\n".format(name) for name in names])

_RULES_CC_BUILD = """package(default_visibility = ["//visibility:public"])

alias(
    name = "toolchain_type",
    actual = "@bazel_tools//tools/cpp:toolchain_type",
)

alias(
    name = "current_cc_toolchain",
    actual = "@bazel_tools//tools/cpp:current_cc_toolchain",
)
"""

_CC_RULES = [
    "cc_binary",
    "cc_import",
    "cc_library",
    "cc_proto_library",
    "cc_test",
    "cc_toolchain",
    "cc_toolchain_suite",
    "fdo_prefetch_hints",
    "fdo_profile",
    "objc_import",
    "objc_library",
]

# Bazel asks for a report generator whenever it runs tests, with coverage or without.
_COVERAGE_BUILD = """package(default_visibility = ["//visibility:public"])

filegroup(name = "coverage_report_generator")

filegroup(name = "lcov_merger")
"""

def _build_rules():
    """The repositories of rules that Bazel 4 or 7 would download. @platforms is part of Bazel."""
    _maybe(_files, "rules_cc", files = {
        "BUILD.bazel": "",
        "cc/BUILD.bazel": _RULES_CC_BUILD,
        "cc/defs.bzl": _native_rules(_CC_RULES),
        "cc/find_cc_toolchain.bzl": """load(
    "@bazel_tools//tools/cpp:toolchain_utils.bzl",
    _find_cpp_toolchain = "find_cpp_toolchain",
)

find_cc_toolchain = _find_cpp_toolchain
""",
    })
    _maybe(_files, "rules_proto", files = {
        "BUILD.bazel": "",
        "proto/BUILD.bazel": "",
        "proto/defs.bzl": 'load(":native.bzl", "NativeProtoInfo")\n\nProtoInfo = NativeProtoInfo\n\n' +
                          _native_rules(["proto_lang_toolchain", "proto_library"]),
        "proto/native.bzl": "NativeProtoInfo = ProtoInfo\n",
    })
    _maybe(_files, "tensorcask_rules", files = {
        "BUILD.bazel": "",
        "defs.bzl": """load("@rules_cc//cc:defs.bzl", _cc_proto_library = "cc_proto_library")
load("@rules_proto//proto:defs.bzl", _proto_library = "proto_library")

cc_proto_library = _cc_proto_library
proto_library = _proto_library

""" + _native_rules(["sh_test"]),
    })
    _maybe(_files, "remote_coverage_tools", files = {"BUILD.bazel": _COVERAGE_BUILD})
    _maybe(_system_folder, "rules_java", package = "bazel-rules-java", path = "/usr/share/bazel/rules/java")

    # What Bazel 7 loads behind each WORKSPACE.
    _maybe(_system_folder, "bazel_skylib", package = "bazel-skylib", path = "/usr/share/bazel/tools/skylib")
    _maybe(_system_folder, "rules_python", package = "bazel-rules-python", path = "/usr/share/bazel/rules/python")

def system_libraries_for_development(define):
    """Libraries that only tests and benchmarks of Tensorcask use.

    Args:
      define: is called as define(rule, name, **attributes) for each of them.
    """
    define(
        _system_library,
        "leveldb",
        flags = {":leveldb": ["-lleveldb", "-lpthread"]},
        header = "leveldb/db.h",
        package = "libleveldb-dev",
    )

    # For //tests/benchmarks:payload_benchmark alone.
    define(_system_library, "blosc", modules = {":blosc": "blosc"}, package = "libblosc-dev")
    define(
        _system_library,
        "hdf5",
        header = "hdf5/serial/hdf5.h",
        modules = {":hdf5": "hdf5-serial"},
        package = "libhdf5-dev",
    )

    # For //tests/benchmarks:strided_peers alone.
    define(_system_library, "dnnl", flags = {":dnnl": ["-ldnnl", "-lgomp"]}, header = "dnnl.hpp", package = "libdnnl-dev")
    define(
        _system_library,
        "libtorch",
        flags = {":aten": ["-ltorch", "-ltorch_cpu", "-lc10"]},
        header = "ATen/ATen.h",
        package = "libtorch-dev",
    )

def optional_system_libraries(define):
    """Libraries of targets that are built only if a project names them: their tag is "manual".

    Args:
      define: is called as define(rule, name, **attributes) for each of them.
    """
    define(_system_mpi, "mpi", package = "libopenmpi-dev")

def tensorcask_repositories():
    """Defines each repository that Tensorcask uses, unless the WORKSPACE has defined one of that name."""
    _build_rules()
    _maybe(
        _system_library,
        "com_google_absl",
        modules = {"absl/" + label: module for label, module in _ABSL.items()},
        package = "libabsl-dev",
    )
    _maybe(_system_protobuf, "com_google_protobuf", package = "libprotobuf-dev protobuf-compiler")
    _maybe(_system_library, "zstd", modules = {":zstd": "libzstd"}, package = "libzstd-dev")
    _maybe(_system_library, "xxhash", modules = {":xxhash": "libxxhash"}, package = "libxxhash-dev")
    _maybe(_system_library, "snappy", modules = {":snappy": "snappy"}, package = "libsnappy-dev")
    _maybe(_system_library, "re2", modules = {":re2": "re2"}, package = "libre2-dev")
    _maybe(_system_library, "curl", modules = {":curl": "libcurl"}, package = "libcurl4-openssl-dev")
    _maybe(_system_library, "libexpat", modules = {":libexpat": "expat"}, package = "libexpat1-dev")
    optional_system_libraries(_maybe)
    _maybe(_system_headers, "eigen", package = "libeigen3-dev", path = "/usr/include/eigen3")

    _maybe(_system_grpc, "grpc", package = "libgrpc++-dev protobuf-compiler-grpc")  # optional

    # For tests and tools.
    _maybe(
        _system_library,
        "com_google_googletest",
        modules = {":gmock": "gmock", ":gtest": "gmock", ":gtest_main": "gmock_main"},
        package = "libgmock-dev libgtest-dev",
    )
    _maybe(
        _system_library,
        "com_github_google_benchmark",
        flags = {":benchmark_main": ["-lbenchmark_main", "-lbenchmark", "-lpthread"]},
        modules = {":benchmark": "benchmark"},
        package = "libbenchmark-dev",
    )
    _maybe(_system_library, "cli11", flags = {":cli11": []}, header = "CLI/CLI.hpp", package = "libcli11-dev")
    _maybe(_system_library, "libevent", modules = {":event_extra": "libevent"}, package = "libevent-dev")
    _maybe(_system_library, "zlib", modules = {":zlib": "zlib"}, package = "zlib1g-dev")
    _maybe(
        _system_library,
        "nlohmann_json",
        flags = {":json": []},
        header = "nlohmann/json.hpp",
        package = "nlohmann-json3-dev",
    )
    system_libraries_for_development(_maybe)
