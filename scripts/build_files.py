"""Reads the BUILD files: which rules there are, with their arguments.

    for file in build_files(root):
        for rule, arguments in file.rules: ...     # "cask_cc_library", {"name": "shape", "hdrs": ["shape.h"], ...}
"""

import os


class BuildFile(dict):
    """Runs a BUILD file as Python, in which every rule is a function that notes its arguments in `rules`.

    A list that the file loads has itself as its only element: FOR_SIZE is ["FOR_SIZE"].
    """

    def __init__(self, package, text):
        super().__init__()
        self.package = package
        self.default_visibility = []
        self.rules = []  # (rule, arguments)
        exec(compile(text, package + "/BUILD.bazel", "exec"), self)  # the tree's own text

    def __missing__(self, rule):
        if rule.isupper():
            return [rule]

        def note(*_, **arguments):
            if rule == "package":
                self.default_visibility = arguments.get("default_visibility", [])
            elif "name" in arguments:
                self.rules.append((rule, arguments))
            return []

        return note

    def label(self, name):
        """The full label of `name` as this file writes it; None for other repositories."""
        if name.startswith("@"):
            return None
        if name.startswith(":"):
            return f"//{self.package}{name}"
        return name if ":" in name else f"{name}:{name.rpartition('/')[2]}"


def build_files(root):
    """All BUILD files of the workspace, by package."""
    ignored = set()
    if os.path.exists(os.path.join(root, ".bazelignore")):
        with open(os.path.join(root, ".bazelignore"), encoding="utf-8") as f:
            ignored = set(f.read().split())
    for folder, folders, files in os.walk(root):
        package = os.path.relpath(folder, root)
        package = "" if package == "." else package.replace(os.sep, "/")
        # Links to Bazel's outputs lead out of the tree.
        folders[:] = sorted(f for f in folders if not f.startswith((".", "bazel-")) and f"{package}/{f}" not in ignored)
        if "BUILD.bazel" in files:
            with open(os.path.join(folder, "BUILD.bazel"), encoding="utf-8") as f:
                yield BuildFile(package, f.read())
