#!/usr/bin/env python3
"""How `tools/dev mutate` copies the tree, and how it runs test programs without Bazel."""

import os
import stat
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = (os.path.join(HERE, folder) for folder in ("../support", "../../scripts"))
import case_report  # noqa: E402
import mutant_judge  # noqa: E402


class Copying(unittest.TestCase):
    def test_the_copy_becomes_the_tree_and_the_tree_stays(self):
        with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as copy:
            for name, text in (("a/x.sh", b"one"), ("b.cc", b"two")):
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "wb") as file:
                    file.write(text)
            os.chmod(os.path.join(root, "a/x.sh"), 0o755)
            tree = {"a/x.sh": b"one", "b.cc": b"two"}
            with open(os.path.join(copy, "left_over"), "wb"):
                pass
            mutant_judge.write_tree({**tree, "b.cc": b"mutated"}, root, copy)
            self.assertEqual(sorted(os.listdir(copy)), ["a", "b.cc"])
            self.assertTrue(os.access(os.path.join(copy, "a/x.sh"), os.X_OK))
            with open(os.path.join(copy, "b.cc"), "rb") as file:
                self.assertEqual(file.read(), b"mutated")
            with open(os.path.join(root, "b.cc"), "rb") as file:
                self.assertEqual(file.read(), b"two")
            os.utime(os.path.join(copy, "a/x.sh"), (1, 1))
            mutant_judge.write_tree(tree, root, copy)
            with open(os.path.join(copy, "b.cc"), "rb") as file:
                self.assertEqual(file.read(), b"two")
            self.assertEqual(os.stat(os.path.join(copy, "a/x.sh")).st_mtime, 1, "what is the same is not written")


QUERY = """<?xml version="1.1" encoding="UTF-8" standalone="no"?>
<query version="2">
  <rule class="cc_test" location="x" name="//tests/tensor:shape_test">
    <list name="tags"><string value="local"/></list>
    <dict name="env"><pair><string value="TENSORCASK_CPU"/><string value="scalar"/></pair></dict>
  </rule>
  <rule class="sh_test" location="x" name="//tests/fuzz:table_test">
    <list name="args"><string value="$(location corpus/table/a)"/><string value="$(rootpath //tools:tensorcask)"/></list>
  </rule>
  <rule class="cc_test" location="x" name="//tests/tensor:slow_test">
    <list name="tags"><string value="manual"/></list>
  </rule>
  <rule class="test_suite" location="x" name="//tests:all"/>
</query>"""


class Listing(unittest.TestCase):
    def test_programs_of_a_query(self):
        first, second = mutant_judge.programs_of(QUERY, "/copy")
        self.assertEqual((first.label, first.package), ("//tests/tensor:shape_test", "tests/tensor"))
        self.assertEqual(first.executable, "/copy/bazel-bin/tests/tensor/shape_test")
        self.assertEqual((first.arguments, first.environment), ((), (("TENSORCASK_CPU", "scalar"),)))
        self.assertEqual(second.arguments, ("tests/fuzz/corpus/table/a", "tools/tensorcask"))


class Running(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)
        self.runner = mutant_judge.Runner(self.home.name, jobs=1, least_limit=20)

    def program(self, name, script, seconds=0.0, reached=(), package="tests/tensor"):
        executable = os.path.join(self.home.name, "bin", package, name)
        inside = os.path.join(executable + ".runfiles", "tensorcask", package)
        os.makedirs(inside)
        path = os.path.join(inside, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + script)
        os.chmod(path, stat.S_IRWXU)
        return mutant_judge.Program(f"//{package}:{name}", executable, ("one",), (("LEVEL", "2"),), seconds, frozenset(reached))

    def test_a_program_finds_its_surroundings(self):
        program = self.program("a_test", '[[ "$1" == one && "$LEVEL" == 2 && -d "$TEST_TMPDIR" && "$TENSORCASK_MUTANT" == 7 '
                               '&& "$PWD" == "$TEST_SRCDIR/$TEST_WORKSPACE" && -x tests/tensor/a_test ]]')  # fmt: skip
        self.assertEqual(self.runner.run(program, 60, TENSORCASK_MUTANT="7")[0], 0)
        self.assertNotEqual(self.runner.run(program, 60, TENSORCASK_MUTANT="8")[0], 0)
        self.assertEqual(os.listdir(self.runner.scratch), [])

    def test_what_a_program_leaves_behind_is_ended(self):
        program = self.program("a_test", 'sleep 600 & echo $! > "$OUT"')
        path = os.path.join(self.home.name, "pid")
        self.assertEqual(self.runner.run(program, 60, OUT=path)[0], 0)
        with open(path, encoding="utf-8") as file:
            process = f"/proc/{file.read().strip()}"
        for _ in range(600):
            if not os.path.exists(process):
                return
            with open(process + "/stat", encoding="utf-8") as file:
                if file.read().rsplit(")", 1)[1].split()[0] in "ZX":
                    return
            time.sleep(0.1)
        self.fail("still runs")

    def test_a_program_that_does_not_end_is_ended(self):
        self.assertIsNone(self.runner.run(self.program("a_test", "while :; do sleep 0.1; done"), 0.3)[0])

    def test_a_stopped_runner_starts_nothing(self):
        path = os.path.join(self.home.name, "ran")
        program = self.program("a_test", 'touch "$OUT"')
        self.runner.stop()
        self.assertIsNone(self.runner.run(program, 60, OUT=path)[0])
        self.assertFalse(os.path.exists(path))

    def test_what_a_program_reaches_is_recorded(self):
        record = 'if [[ -n "${TENSORCASK_MUTANTS_REACHED:-}" ]]; then printf x | dd of="$TENSORCASK_MUTANTS_REACHED" bs=1 seek=%d conv=notrunc 2>/dev/null; fi\n'  # fmt: skip
        reaches = self.program("a_test", record % 7 + record % 3)
        touchy = self.program("b_test", '[[ -z "${TENSORCASK_MUTANTS_REACHED:-}" ]]')
        fails = self.program("c_test", "exit 1")
        self.assertEqual(self.runner.record([reaches, touchy, fails]), [fails])
        self.assertEqual(reaches.reached, {3, 7})
        self.assertGreater(reaches.seconds, 0)
        self.assertIsNone(touchy.reached, "fails only while recording: may reach all")

    def judged(self, programs, number=7, **options):
        return mutant_judge.judge(self.runner, programs, number, "^tests/tensor$", **options)

    def noting(self, name, status, **about):
        return self.program(name, f'echo {name} >> "{self.home.name}/ran"; exit {status}\n', **about)

    def ran(self):
        with open(os.path.join(self.home.name, "ran"), encoding="utf-8") as file:
            return file.read().split()

    def test_the_room_comes_first_then_the_fastest(self):
        far = {"package": "tests/serialize/io"}
        programs = [self.noting("far_slow", 0, seconds=3, reached={7}, **far), self.noting("far", 0, seconds=1, reached={7}, **far),
                    self.noting("slow", 0, seconds=9, reached={7}), self.noting("fast", 0, seconds=5, reached={7, 8}),
                    self.noting("other", 1, reached={8})]  # fmt: skip
        self.assertEqual(self.judged(programs), ("survived", ""))
        self.assertEqual(self.ran(), ["fast", "slow", "far", "far_slow"])

    def test_it_ends_with_the_first_that_fails_twice(self):
        programs = [self.noting("a", 0, seconds=1, reached={7}), self.noting("b", 1, seconds=2, reached={7}),
                    self.noting("c", 1, seconds=3, reached={7})]  # fmt: skip
        self.assertEqual(self.judged(programs), ("noticed", "//tests/tensor:b"))
        self.assertEqual(self.ran(), ["a", "b", "b"])

    def test_a_program_that_fails_once_notices_nothing(self):
        once = self.program("a_test", f'[[ -e "{self.home.name}/before" ]] && exit 0; touch "{self.home.name}/before"; exit 1',
                            reached={7})  # fmt: skip
        self.assertEqual(self.judged([once]), ("survived", ""))

    def test_only_the_room(self):
        far = self.noting("far", 1, reached={7}, package="tests/serialize/io")
        self.assertEqual(self.judged([far], room_only=True), ("survived", ""))
        self.assertEqual(self.judged([far]), ("noticed", "//tests/serialize/io:far"))

    def test_what_no_program_reaches(self):
        self.assertEqual(self.judged([self.noting("a", 1, reached={8})]), ("survived", "not reached"))

    def test_a_program_whose_reach_is_unknown_judges_all(self):
        program = self.noting("a", 1)
        program.reached = None
        self.assertEqual(self.judged([program]), ("noticed", "//tests/tensor:a"))
        self.assertEqual(self.judged([self.noting("b", 1)], number=None), ("noticed", "//tests/tensor:b"))


class Building(unittest.TestCase):
    def test_what_takes_too_long_is_ended(self):
        with tempfile.TemporaryDirectory() as home:
            workspace = mutant_judge.Workspace(home, jobs=1)
            os.mkdir(workspace.folder)
            self.assertEqual(workspace.run("sh", "-c", "echo said; exit 3"), (3, "said\n"))
            with self.assertRaises(mutant_judge.TooLong):
                workspace.run("sh", "-c", "trap '' INT; while :; do sleep 0.05; done", limit=0.2)

    def test_the_signature_follows_what_a_program_reads(self):
        with tempfile.TemporaryDirectory() as home:
            workspace = mutant_judge.Workspace(home, jobs=1)
            executable = os.path.join(home, "a_test")
            data = os.path.join(executable + ".runfiles", "data")
            os.mkdir(executable + ".runfiles")
            signatures = []
            for number, (program, read) in enumerate(((b"one", b"1"), (b"one", b"1"), (b"two", b"1"), (b"two", b"2"))):
                for path, content in ((executable, program), (data, read)):
                    with open(path, "wb") as file:
                        file.write(content)
                    os.utime(path, ns=(number, number))
                signatures.append(workspace.signature(mutant_judge.Program("//:a_test", executable)))
            self.assertEqual(signatures[0], signatures[1])
            self.assertEqual(len(set(signatures)), 3)


if __name__ == "__main__":
    case_report.main("mutant_judge")
