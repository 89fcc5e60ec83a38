"""What MODULE.bazel needs besides modules. Read by versions of Bazel that have modules, and by no other."""

load(
    "//third_party:repositories.bzl",
    "optional_system_libraries",
    "system_libraries_for_development",
    "write_grpc_absent",
)

_RULES = """load("@com_google_protobuf//bazel:cc_proto_library.bzl", _cc_proto_library = "cc_proto_library")
load("@com_google_protobuf//bazel:proto_library.bzl", _proto_library = "proto_library")
load("@rules_shell//shell:sh_test.bzl", _sh_test = "sh_test")

cc_proto_library = _cc_proto_library
proto_library = _proto_library
sh_test = _sh_test
"""

def _rules_repository_impl(repository_ctx):
    repository_ctx.file("BUILD.bazel", "", executable = False)
    repository_ctx.file("defs.bzl", _RULES, executable = False)

_rules_repository = repository_rule(implementation = _rules_repository_impl)

_grpc_absent_repository = repository_rule(implementation = write_grpc_absent)

def _rules_impl(_):
    _rules_repository(name = "tensorcask_rules")
    _grpc_absent_repository(name = "grpc")

# @tensorcask_rules: the rules of protobuf and of scripts, which under a WORKSPACE are Bazel's own. @grpc: without gRPC,
# because the library of the system has another protobuf than the modules.
rules = module_extension(implementation = _rules_impl)

def _define(rule, name, **kwargs):
    rule(name = name, **kwargs)

def _system_libraries_impl(_):
    system_libraries_for_development(_define)

# Libraries of the system that only tests and benchmarks use, and that no module has.
system_libraries = module_extension(implementation = _system_libraries_impl)

def _optional_libraries_impl(_):
    optional_system_libraries(_define)

# Libraries of the system for targets that are built only if a project names them.
optional_libraries = module_extension(implementation = _optional_libraries_impl)
