"""Finds the source tree for tests that read it, and reads files of it."""

import os


def root():
    """Of a Bazel test by the link to WORKSPACE among its data, else above this file."""
    if "TEST_SRCDIR" in os.environ:
        workspace = os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"], "WORKSPACE")
        return os.path.dirname(os.path.realpath(workspace))
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def read(top, path):
    with open(os.path.join(top, path), encoding="utf-8") as file:
        return file.read()


def files(top, *endings):
    """Paths of all files with one of the endings, relative to `top`. Skips what Bazel makes and hidden folders."""
    for folder, subfolders, names in os.walk(top):
        relative = os.path.relpath(folder, top).replace(os.sep, "/")
        relative = "" if relative == "." else relative + "/"
        subfolders[:] = sorted(name for name in subfolders if not name.startswith((".", "bazel-")))
        for name in sorted(names):
            if name.endswith(endings):
                yield relative + name
