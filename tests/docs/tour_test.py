#!/usr/bin/env python3
"""The tour of docs/guide/tool.md: its commands, run on the public checkpoint, print what the page shows.

Needs the larger test files (TENSORCASK_TEST_DATA); skipped without them.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
import case_report  # noqa: E402
import source_tree  # noqa: E402

TOOL = os.path.abspath(sys.argv.pop(1) if len(sys.argv) > 1 else "bazel-bin/tools/tensorcask")
CHECKPOINT = "model.ckpt-46900"


def tour():
    """[(command, what it prints)]; lines that the page wraps are whole again."""
    page = source_tree.read(source_tree.root(), "docs/guide/tool.md")
    block = re.search(r"## A tour\n.*?```\n(.*?)```", page, re.DOTALL)[1]
    steps = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append((re.sub(r"  +# .*", "", line[2:]), []))
        elif line.startswith("  "):
            steps[-1][1][-1] += " " + line.strip()
        else:
            steps[-1][1].append(line)
    return steps


def find_checkpoint():
    data = os.environ.get("TENSORCASK_TEST_DATA", "")
    for folder, _, names in os.walk(os.path.join(data, "tensorflow")) if data else ():
        if CHECKPOINT + ".index" in names:
            return folder
    return None


class Tour(unittest.TestCase):
    def test_each_command_prints_what_the_page_shows(self):
        source = find_checkpoint()
        if source is None:
            self.skipTest(f"TENSORCASK_TEST_DATA has no {CHECKPOINT}")
        steps = tour()
        self.assertGreater(len(steps), 8)
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "bin"))
            os.symlink(TOOL, os.path.join(folder, "bin", "tensorcask"))
            work = os.path.join(folder, "work")
            os.mkdir(work)
            for name in os.listdir(source):
                if name.startswith(CHECKPOINT):
                    shutil.copy(os.path.join(source, name), work)
                    os.chmod(os.path.join(work, name), 0o644)
            environment = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}")
            for command, shown in steps:
                done = subprocess.run(
                    ["sh", "-c", command], cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, timeout=60, check=False, text=True,
                )  # fmt: skip
                self.assertEqual(done.stdout.splitlines(), shown, command)


if __name__ == "__main__":
    case_report.main("tour")
