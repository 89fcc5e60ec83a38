"""The macros of all BUILD files: cask_room, cask_cc_library, cask_cc_test, cask_cc_binary and those of protos.

They put the prefix `tensorcask/` before the path of each header and each proto. A project that depends on this one may
have a `tensor/shape.h` or a `proto/tensor.proto` of its own. With bare paths, the compiler would find the project's
header first, even inside our headers; and a process may contain each proto path only once.

@tensorcask_rules has the rules that different versions of Bazel keep in different places: third_party defines it.
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")
load("@tensorcask_rules//:defs.bzl", "cc_proto_library", "proto_library", "sh_test")

_PREFIX = "tensorcask"

# Warnings for our own sources, in our own workspace alone: a project that depends on us may have other versions of the
# libraries, whose headers may warn.
_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wno-sign-conversion",
]

# `copts` for code whose time goes to a few small loops, which -O2 leaves as they are. No multiplication is fused with an
# addition, which would round once instead of twice: each processor computes the same bits.
FOR_SPEED = [
    "-O3",
    "-ffp-contract=off",
]

# `copts` for code that runs once for a file or a tensor, not once for an element: a third smaller, and compiled sooner.
# It costs time where tensors are tiny: 60,000 of 4 bytes are read in 106 ms, in 100 without it (Zen 5).
FOR_SIZE = ["-Os"]

# Most tests run for less time than the compiler needs for them, and with -O2 it needs a third more. What a test names in
# `copts` comes later and wins: FOR_SPEED is for the loops of a long test. With -O1 GCC 12 sees fewer of the ways through
# an optional, and takes values for uninitialized that are not.
_FOR_TESTS = [
    "-O1",
    "-Wno-maybe-uninitialized",
]

def _warnings():
    name = native.repo_name() if hasattr(native, "repo_name") else native.repository_name()
    return _WARNINGS if name in ("", "@") else []

def _prefix():
    package = native.package_name()
    return _PREFIX + "/" + package if package else _PREFIX

def cask_cc_library(name, copts = [], **kwargs):
    """A library whose headers are included as "tensorcask/<package>/<header>".

    All headers go into `hdrs`, the library's internal ones too, because only `hdrs` get the prefix.
    """
    cc_library(
        name = name,
        copts = _warnings() + copts,
        include_prefix = _prefix(),
        **kwargs
    )

def cask_room(name, srcs, deps, hdrs = [], alone = [], for_size = [], for_speed = [], linkopts = [], visibility = None):
    """The library of a room: all its headers, and its sources, which are compiled as one.

    A source alone costs the compiler more for the headers that it includes than for its own code. So names of an
    unnamed namespace must differ within a room. A program links the room whole, and the linker drops the functions
    that it does not call.

    Args:
      name: that of the folder, or of a part that has more dependencies than the rest.
      srcs: .cc files.
      deps: other rooms and libraries.
      hdrs: all headers, the internal ones too.
      alone: those of `srcs` that are compiled by themselves, as kernels are that have the same names for each processor.
      for_size: those of `srcs` that are compiled with FOR_SIZE.
      for_speed: those of `srcs` that are compiled with FOR_SPEED.
      linkopts: as cc_library has them.
      visibility: of the room.
    """
    headers = name + "_headers"
    cask_cc_library(name = headers, hdrs = hdrs, deps = deps, visibility = ["//visibility:private"])
    flagged = for_size + for_speed
    parts = {
        "_code": ([], [src for src in srcs if src not in flagged]),
        "_code_for_size": (FOR_SIZE, for_size),
        "_code_for_speed": (FOR_SPEED, for_speed),
    }
    code = []
    for suffix, (copts, files) in parts.items():
        if not files:
            continue
        code.append(name + suffix)
        single = [src for src in files if src in alone]
        native.genrule(
            name = name + suffix + "_as_one",
            srcs = [src for src in files if src not in alone],
            outs = [name + suffix + ".cc"],
            cmd = "for file in $(SRCS); do echo \"#line 1 \\\"$$file\\\"\"; cat $$file; done >$@",
            visibility = ["//visibility:private"],
        )
        cc_library(
            name = name + suffix,
            srcs = [name + suffix + ".cc"] + single,
            copts = _warnings() + ["-Wno-subobject-linkage"] + copts,  # it takes each source for a header
            linkopts = linkopts,
            visibility = ["//visibility:private"],
            deps = [headers],
            alwayslink = True,  # the parts of a room call each other
        )
    cc_library(name = name, visibility = visibility, deps = [headers] + code)

def cask_cc_test(name, srcs, deps, copts = [], cpus = [], data = [], size = "medium", **kwargs):
    """A test program. GoogleTest is a dependency like others: "@com_google_googletest//:gtest_main".

    Several sources are compiled as one, since the headers of a test cost more than its code. The unnamed namespace of
    each gets the name of its file, so that two files may have helpers of the same name.

    Args:
      name: of the test.
      srcs: .cc files.
      deps: libraries.
      copts: flags of the compiler, after those of all tests.
      cpus: values of TENSORCASK_CPU. The program runs once more for each: zip_test also as zip_scalar_test.
      data: files that the test reads.
      size: as cc_test has it.
      **kwargs: what else cc_test takes.
    """
    flags = _warnings() + _FOR_TESTS + copts
    if len(srcs) > 1:
        native.genrule(
            name = name + "_as_one",
            testonly = True,
            srcs = srcs,
            outs = [name + "_as_one.cc"],
            cmd = "for file in $(SRCS); do stem=$${file##*/}; echo \"#line 1 \\\"$$file\\\"\"; " +
                  "sed \"s/^namespace {$$/namespace $${stem%.cc} {/\" $$file; done >$@",
            visibility = ["//visibility:private"],
        )
        srcs = [name + "_as_one.cc"]
        flags = flags + ["-Wno-subobject-linkage"]  # it takes each source for a header
    if cpus:
        cc_library(
            name = name + "_code",
            testonly = True,
            srcs = srcs,
            copts = flags,
            visibility = ["//visibility:private"],
            deps = deps,
            alwayslink = True,  # nothing names the cases
        )
        srcs, deps = [], [":" + name + "_code"]
    runs = {name: {}}
    for cpu in cpus:
        runs[name.replace("_test", "_{}_test".format(cpu))] = {"TENSORCASK_CPU": cpu}
    for run, env in runs.items():
        cc_test(
            name = run,
            size = size,
            srcs = srcs,
            copts = flags,
            data = data,
            env = env,
            deps = deps,
            **kwargs
        )

def cask_cc_binary(name, copts = [], linkopts = [], **kwargs):
    """A program. It loads only those shared libraries that it uses."""
    cc_binary(
        name = name,
        copts = _warnings() + copts,
        linkopts = ["-Wl,--as-needed"] + linkopts,
        **kwargs
    )

def cask_proto_library(name, srcs, deps = [], visibility = None, **kwargs):
    """Messages imported as "tensorcask/<package>/x.proto", and their C++ classes.

    Makes the proto_library `name`, and the cc_proto_library that C++ targets name in `deps`: `x_cc_proto` for `x_proto`.

    Args:
      name: must end in "_proto".
      srcs: the .proto files.
      deps: other proto_library targets.
      visibility: of both targets.
      **kwargs: what else proto_library takes.
    """
    if not name.endswith("_proto"):
        fail("cask_proto_library: '{}' must end in '_proto'".format(name))
    proto_library(
        name = name,
        srcs = srcs,
        import_prefix = _prefix(),
        strip_import_prefix = "",
        visibility = visibility,
        deps = deps,
        **kwargs
    )
    cc_proto_library(
        name = name[:-len("_proto")] + "_cc_proto",
        visibility = visibility,
        deps = [":" + name],
    )

def cask_grpc_library(name, srcs, deps, imports = [], visibility = None):
    """The service of a .proto file, included as "tensorcask/<package>/x.grpc.pb.h". Only where gRPC is installed.

    Args:
      name: of the library.
      srcs: one .proto file.
      deps: the cc_proto_library with the messages.
      imports: the other files of the package that it imports.
      visibility: of the library.
    """
    source = srcs[0]
    stem = source[:-len(".proto")]
    outs = [stem + ".grpc.pb.h", stem + ".grpc.pb.cc"]
    root = "$(RULEDIR)/" + name + "_protos"
    folder = root + "/" + _prefix()
    native.genrule(
        name = name + "_code",
        srcs = srcs + imports,
        outs = outs,
        cmd = " && ".join([
            "mkdir -p " + folder,
            "cp $(SRCS) " + folder,
            "$(execpath @com_google_protobuf//:protoc) --proto_path=" + root +
            " --plugin=protoc-gen-grpc=$(execpath @grpc//:grpc_cpp_plugin) --grpc_out=" + root + " " +
            _prefix() + "/" + source,
            "mv " + " ".join([folder + "/" + out for out in outs]) + " $(RULEDIR)",
        ]),
        tags = ["manual"],  # without gRPC, only the library below is skipped by itself
        tools = [
            "@com_google_protobuf//:protoc",
            "@grpc//:grpc_cpp_plugin",
        ],
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name,
        srcs = [outs[1]],
        hdrs = [outs[0]],
        include_prefix = _prefix(),
        visibility = visibility,
        deps = deps + ["@grpc//:grpc++"],
    )

def cask_script_test(name, **kwargs):
    """A test that is one executable script, in the language that its first line names."""
    sh_test(name = name, **kwargs)
