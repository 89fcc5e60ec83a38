"""``python -m tensorcask`` runs the program ``tensorcask`` that belongs to this module.

    $ python -m tensorcask ls model.safetensors
"""

import os
import shutil
import sys
import sysconfig


def program() -> str | None:
    """The path of the program: among those of this environment, of the user, or on the path of commands."""
    schemes = [sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")]
    folders = [sysconfig.get_path("scripts", scheme) for scheme in schemes]
    return shutil.which("tensorcask", path=os.pathsep.join(folders)) or shutil.which("tensorcask")


def main() -> None:
    found = program()
    if found is None:
        sys.exit("python -m tensorcask: the program tensorcask is not installed beside this Python; `pip install` of the "
                 "module installs it")  # fmt: skip
    os.execv(found, ["tensorcask", *sys.argv[1:]])


if __name__ == "__main__":
    main()
