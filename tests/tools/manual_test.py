#!/usr/bin/env python3
"""The help, the man page and the completions: current, accepted by man and the shells, and complete."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import TOOL, Scratch, read, run  # noqa: E402

MANUAL = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools/manual")
FILES = {"man": "tensorcask.1", "bash": "tensorcask.bash", "zsh": "_tensorcask", "fish": "tensorcask.fish"}
WITHOUT_OPERANDS = ("demo",)


def with_program(name):
    return unittest.skipUnless(shutil.which(name), f"SKIPPED: there is no {name}")


def subcommands():
    part = run("--help").stdout.split("\nSubcommands:\n")[1].split("\n\n")[0]
    return re.findall(r"^  (\w+) ", part, re.MULTILINE)


def options(command):
    part = run(command, "--help").stdout.split("\nOptions:\n")[1]
    return re.findall(r"^  (?:-\w, )?(--[a-z-]+)", part, re.MULTILINE)


class Files(Scratch):
    def test_the_files_in_the_tree_are_current(self):
        for what, name in FILES.items():
            printed = run("--print", what)
            self.assertEqual(printed.returncode, 0, printed.stderr)
            same = printed.stdout == read(os.path.join(MANUAL, name)).decode()
            self.assertTrue(same, f"tools/manual/{name} is not current: run `tools/dev manual`")
        same = run("--print", "formats").stdout == read(os.path.join(MANUAL, "../../docs/formats.md")).decode()
        self.assertTrue(same, "docs/formats.md is not current: run `tools/dev manual`")
        self.assert_one_line(run("--print", "html"), 2, "man, bash, zsh, fish or formats")
        self.assertNotIn("--print", run("--help").stdout)

    def test_everything_is_in_each_of_them(self):
        commands = subcommands()
        self.assertGreater(len(commands), 12)
        texts = {what: run("--print", what).stdout for what in FILES}
        for command in commands:
            self.assertIn(f'.SS "tensorcask {command} ', texts["man"])
            for option in options(command):
                self.assertIn(option.replace("-", "\\-"), texts["man"], (command, option))
                self.assertRegex(texts["bash"], rf"(?m)^    {command}\) echo '[^']*{option}")
                self.assertIn(f"'*{option}" if f"'*{option}" in texts["zsh"] else f"'{option}", texts["zsh"])
                self.assertRegex(texts["fish"], rf"seen_subcommand_from {command}' -l {option[2:]} ")


class ManPage(Scratch):
    def check(self, *command):
        done = subprocess.run(command, input=run("--print", "man").stdout, capture_output=True, encoding="utf-8",
                              timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    @with_program("groff")
    def test_groff_has_no_warning(self):
        page = re.sub("\x1b\\[[0-9;]*m|.\b", "", self.check("groff", "-man", "-ww", "-Tutf8"))
        self.assertIn("--rename 's/^model\\.//'", page)  # no character was replaced
        self.assertIn("EXIT STATUS", page)

    @with_program("mandoc")
    def test_mandoc_has_no_warning(self):
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=run("--print", "man").stdout,
                              capture_output=True, encoding="utf-8", timeout=60, check=False)
        found = [line for line in done.stdout.splitlines() if "missing date" not in line]  # it would never be current
        self.assertEqual((found, done.stderr), ([], ""))

    def test_every_command_has_an_example(self):
        page = run("--print", "man").stdout
        for command in subcommands():
            section = page.split(f'.SS "tensorcask {command} ')[1].split("\n.SS ")[0]
            self.assertRegex(section, rf"\n\.nf\n(.*\n)*tensorcask {command}", command)


class Shells(Scratch):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        os.symlink(TOOL, self.path("bin/tensorcask"))
        self.env = dict(os.environ, PATH=self.path("bin") + ":" + os.environ["PATH"], HOME=self.folder)
        os.mkdir(self.path("work"))
        self.checkpoint("work/model.ckpt", {"dense/kernel": "dtype: DT_INT8 int_val: 1"})

    def bash(self, *words):
        """What bash offers for the last of these words."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tensorcask tensorcask; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", os.path.join(MANUAL, FILES["bash"]), "tensorcask", *words],
                              capture_output=True, encoding="utf-8", env=self.env, cwd=self.path("work"), timeout=60,
                              check=False)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    @with_program("bash")
    def test_bash_completes(self):
        self.assertEqual(self.bash("conv"), ["convert"])
        self.assertEqual(set(self.bash("s")), {name for name in subcommands() if name.startswith("s")})
        self.assertEqual(self.bash("--v"), ["--version"])
        self.assertEqual(self.bash("help", "sal"), ["salvage"])
        self.assertEqual(self.bash("ls", "--ch"), ["--checksum"])
        self.assertEqual(self.bash("convert", "--level", "h"), ["high"])
        self.assertEqual(self.bash("convert", "--level", "=", "d"), ["default"])
        self.assertIn("npz", self.bash("convert", "a", "--to", ""))
        self.assertNotIn("graph", self.bash("convert", "a", "--to", ""))
        self.assertEqual(self.bash("ls", "--format", "np"), ["npy", "npz"])
        self.assertEqual(self.bash("ls", "mod"), ["model.ckpt"])
        self.assertEqual(self.bash("ls", "--json", "mod"), ["model.ckpt"])
        self.assertEqual(self.bash("convert", "--base", "mod"), ["model.ckpt"])
        self.assertEqual(self.bash("convert", "--level", "high", "mod"), ["model.ckpt"])
        self.assertEqual(self.bash("convert", "x", "y", "mod"), ["model.ckpt"])
        self.assertEqual(self.bash("show", "model.ckpt", ""), ["dense/kernel"])
        self.assertEqual(self.bash("show", "model.ckpt", "dense/kernel", "--max", ""), [])
        self.assertEqual(self.bash("demo", ""), [])

    @with_program("zsh")
    def test_zsh_accepts_the_file_and_completes(self):
        path = os.path.join(MANUAL, FILES["zsh"])
        done = subprocess.run(["zsh", "-f", "-n", path], capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        script = ('zmodload zsh/zpty; zpty z zsh -f -i; '
                  'zpty -w z "PS1=; unsetopt zle_bracketed_paste; fpath=($1 \\$fpath); autoload -Uz compinit; compinit -u -D; '
                  'zstyle \\":completion:*\\" list-prompt \\"\\"; zstyle \\":completion:*\\" select-prompt \\"\\"; '
                  'print re\\"\\"ady"; '
                  'zpty -r z out "*ready*"; zpty -w -n z "$2"$\'\\t\'; sleep 2; zpty -w -n z $\'\\x15\'; '
                  'zpty -w z "print do\\"\\"ne"; zpty -r z out "*done*"; print -r -- $out')
        for line, offered in (("tensorcask conv", "tensorcask convert"), ("tensorcask ls --ch", "--checksum"),
                              ("tensorcask convert --level hi", "--level high"),
                              ("tensorcask show model.ckpt de", "dense/kernel")):
            done = subprocess.run(["zsh", "-f", "-c", script, "zsh", MANUAL, line], capture_output=True, encoding="utf-8",
                                  errors="replace", env=self.env, cwd=self.path("work"), timeout=120, check=False)
            self.assertIn(offered, re.sub("\x1b\\[[0-9;?]*[a-zA-Z]|[\r\a]|.\b", "", done.stdout), done.stderr)

    @with_program("fish")
    def test_fish_completes(self):
        def offered(line):
            done = subprocess.run(["fish", "--no-config", "-c", f"source {os.path.join(MANUAL, FILES['fish'])}; "
                                   f"complete -C {json.dumps(line)}"], capture_output=True, encoding="utf-8", env=self.env,
                                  cwd=self.path("work"), timeout=60, check=False)
            self.assertEqual(done.stderr, "")
            return [row.split("\t")[0] for row in done.stdout.splitlines()]

        self.assertEqual(offered("tensorcask conv"), ["convert"])
        self.assertEqual(offered("tensorcask ls --ch"), ["--checksum"])
        self.assertEqual(offered("tensorcask convert --level h"), ["high"])
        self.assertIn("dense/kernel", offered("tensorcask show model.ckpt "))


class Help(Scratch):
    def test_fits_a_narrow_terminal(self):
        for width in (40, 60, 80):
            for command in ([], ["convert"], ["ls"]):
                done = run(*command, "--help", env=dict(os.environ, COLUMNS=str(width)))
                text, _, examples = done.stdout.partition("Examples:\n")
                too_long = [line for line in text.splitlines() if len(line) > width and " " in line.strip()
                            and not line.startswith(("Usage:", "  tensorcask"))]
                self.assertEqual(too_long, [], examples)

    def test_usage_names_the_operands(self):
        for command, usage in (("convert", "SRC... DST"), ("ls", "PATH [GLOB...]"), ("show", "PATH [NAME]"),
                               ("diff", "A B [GLOB...]")):
            self.assertIn(f"Usage: tensorcask {command} [OPTIONS] {usage}\n", run(command, "--help").stdout)


if __name__ == "__main__":
    case_report.main("manual")
