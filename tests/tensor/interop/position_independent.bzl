"""position_independent: a file as it comes out when everything behind it is compiled for shared libraries.

.bazelrc builds for programs alone (features=-supports_pic); a shared library for ctypes needs the other kind.
"""

def _position_independent_transition_impl(settings, _attr):
    return {"//command_line_option:copt": settings["//command_line_option:copt"] + ["-fPIC"]}

_position_independent_transition = transition(
    implementation = _position_independent_transition_impl,
    inputs = ["//command_line_option:copt"],
    outputs = ["//command_line_option:copt"],
)

def _position_independent_impl(ctx):
    file = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = file, target_file = ctx.file.library)
    return [DefaultInfo(files = depset([file]), runfiles = ctx.runfiles([file]))]

position_independent = rule(
    implementation = _position_independent_impl,
    attrs = {
        "library": attr.label(allow_single_file = True, cfg = _position_independent_transition, mandatory = True),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
