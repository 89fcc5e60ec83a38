#!/usr/bin/env python3
"""Makes each call of test_leaks.py under valgrind: under_valgrind.py [LOOPS]

Fails if memory that the module allocated is lost, or if the module reads or writes memory that is not allocated or not
initialized. What valgrind finds in Python and NumPy alone does not count. Prints what it found and where.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.realpath(__file__))
CHILD = "--calls"


def make_all_calls(loops):
    sys.path.insert(0, HERE)
    import test_leaks

    with tempfile.TemporaryDirectory() as folder:
        for name, call in test_leaks.make_calls(pathlib.Path(folder)).items():
            for _ in range(loops):
                call()
            print(name, flush=True)


def problems_of_the_module(report):
    for error in xml.etree.ElementTree.parse(report).getroot().iter("error"):
        kind = error.findtext("kind")
        frames = list(error.iter("frame"))
        of_module = any("/tensorcask/_native" in frame.findtext("obj", "") for frame in frames)
        if of_module and kind not in ("Leak_StillReachable", "Leak_PossiblyLost", "Leak_IndirectlyLost"):
            yield kind, error.findtext("xwhat/text") or error.findtext("what"), frames


def main():
    loops = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        command = ["valgrind", "--quiet", "--leak-check=full", "--num-callers=30", "--xml=yes", f"--xml-file={report}",
                   sys.executable, __file__, CHILD, str(loops)]  # fmt: skip
        # With its own allocator, Python hides from valgrind what belongs to what.
        subprocess.run(command, env={**os.environ, "PYTHONMALLOC": "malloc"}, check=True)
        problems = list(problems_of_the_module(report))
    for kind, text, frames in problems:
        print(f"{kind}: {text}")
        for frame in frames:
            print(f"    {frame.findtext('fn')} ({os.path.basename(frame.findtext('obj', ''))})")
    print(f"valgrind: {len(problems)} problems of the module in {loops} loops of each call")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        make_all_calls(int(sys.argv[2]))
    else:
        main()
