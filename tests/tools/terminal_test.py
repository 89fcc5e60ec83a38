#!/usr/bin/env python3
"""The tool on a terminal: progress, widths, colors, and names that are printed and typed again."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import unittest
import zipfile

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import TOOL, Scratch, run  # noqa: E402

BYTE = "dtype: DT_INT8 int_val: 1"


class Terminal(Scratch):
    def on_terminal(self, *arguments, columns=0, both=False, env=None):
        """(exit status, what a terminal gets from stderr, stdout); with `both` stdout is the terminal, too."""
        leader, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen([TOOL, *map(str, arguments)], stdin=subprocess.DEVNULL,
                              stdout=terminal if both else subprocess.PIPE, stderr=terminal,
                              env={**os.environ, "TERM": "xterm", **(env or {})}) as process:
            os.close(terminal)
            shown = b""
            try:
                while piece := os.read(leader, 4096):
                    shown += piece
            except OSError:  # the end of a terminal
                pass
            out = b"" if both else process.stdout.read()
            code = process.wait(60)
        os.close(leader)
        return code, shown.decode(), out.decode(errors="replace")

    def screen(self, shown):
        """The lines that a terminal shows after this text: it goes back at \\r, and erases the rest at \\x1b[K."""
        lines = []
        for line in shown.split("\n"):
            text, column = "", 0
            for part in re.split("(\r|\x1b\\[K)", line):
                if part == "\r":
                    column = 0
                elif part == "\x1b[K":
                    text = text[:column]
                else:
                    text = text[:column] + part + text[column + len(part):]
                    column += len(part)
            lines.append(text)
        return lines


class Progress(Terminal):
    def test_commands_that_read_all_show_it_and_erase_it(self):
        prefix = self.checkpoint()
        for command, says, result in ((["verify", prefix], "verifying ", "1 tensor whole\n"),
                                      (["salvage", prefix, self.path("saved")], "salvaging ", "1 tensor saved\n"),
                                      (["ls", "--checksum", prefix], "reading", "total: 1 tensor, 24 bytes (24 B)\n")):
            code, shown, out = self.on_terminal(*command)
            self.assertEqual(code, 0)
            self.assertIn("\r" + says, shown)
            self.assertRegex(shown, r" (\d+) B of \1 B\x1b", command)
            self.assertTrue(shown.endswith("\r\x1b[K"), repr(shown))
            self.assertTrue(out.endswith(result), out)
            self.assertEqual(run(*command, *(["--overwrite"] if command[0] == "salvage" else [])).stderr, "")

    def test_cat_shows_it_beside_a_pipe(self):
        _, shown, _ = self.on_terminal("cat", self.checkpoint())
        self.assertIn("\rwriting 1/1 24 B of 24 B\x1b[K", shown)
        self.assertTrue(shown.endswith("\r\x1b[K"), repr(shown))

    def test_each_line_begins_with_a_verb(self):
        prefix = self.checkpoint()
        npz = self.path("m.npz")
        self.assertEqual(run("convert", prefix, npz).returncode, 0)
        for command, verb in ((["convert", prefix, self.path("copy")], "converting 1/1"), (["stats", prefix], "reading"),
                              (["diff", prefix, npz], "comparing"), (["edit", "--rename", "w=v", npz], "copying")):
            code, shown, _ = self.on_terminal(*command)
            self.assertEqual(code, 0)
            self.assertRegex(shown, f"\r{verb} [0-9.]+ (B|KiB) of ", command)

    def test_it_does_not_overwrite_a_result_or_a_message(self):
        prefix = self.checkpoint()
        with open(prefix + ".data-00000-of-00001", "r+b") as file:
            file.write(b"\xff")
        for command, wanted in ((["verify", prefix, self.path("no")], ["damaged: ", "0 tensors whole, 1 damaged", "no.index"]),
                                (["ls", "--checksum", prefix, "w"], ["checksum", "w  float32", "total: 1"]),
                                (["convert", prefix, self.path("copy")], ["checksum"])):
            code, shown, _ = self.on_terminal(*command, both=True)
            self.assertEqual(code, 1)
            lines = [line for line in self.screen(shown) if line.strip()]
            for piece in wanted:
                self.assertTrue(any(piece in line for line in lines), (piece, lines))
            for line in lines:
                self.assertNotRegex(line, "^(verifying|reading|converting)", lines)

    def test_a_line_that_is_wider_than_the_terminal_is_cut(self):
        prefix = self.checkpoint("a" * 100)
        _, shown, _ = self.on_terminal("verify", prefix, columns=30)
        shows = re.findall("\r([^\r\x1b]*)\x1b\\[K", shown)
        self.assertGreater(max(map(len, shows)), 20)
        self.assertLess(max(map(len, shows)), 30)

    def test_a_dumb_terminal_gets_none(self):
        self.assertEqual(self.on_terminal("verify", self.checkpoint(), env={"TERM": "dumb"})[1], "")

    def test_verify_prints_damage_as_it_finds_it(self):
        prefix = self.checkpoint()
        with open(prefix + ".data-00000-of-00001", "r+b") as file:
            file.write(b"\xff")
        good = self.checkpoint("good")
        leader, terminal = pty.openpty()
        os.mkfifo(self.path("pipe.index"))
        done = subprocess.run([TOOL, "verify", prefix, good], stdout=subprocess.PIPE, stderr=terminal, timeout=60,
                              check=False)
        os.close(terminal)
        os.close(leader)
        lines = done.stdout.decode().splitlines()
        self.assertEqual([line.split(": ")[0] for line in lines], ["damaged", prefix, good])


class Colors(Terminal):
    def test_there_are_none(self):
        prefix = self.checkpoint()
        for env in ({}, {"NO_COLOR": "1"}):
            for command in (["ls", prefix], ["verify", prefix], ["--help"], ["lst"]):
                shown = self.on_terminal(*command, both=True, env=env)[1]
                self.assertNotRegex(shown, "\x1b\\[[0-9;]*m")


class Names(Terminal):
    def npz_of(self, names):
        """An npz file of one byte for each name."""
        path = self.path("names.npz")
        header = b"{'descr': '|i1', 'fortran_order': False, 'shape': (), }".ljust(117) + b"\n"
        with zipfile.ZipFile(path, "w") as file:
            for name in names:
                file.writestr(name + ".npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\x01")
        return path

    def test_unicode_is_printed_and_controls_are_not(self):
        for name, printed in (("größe/重み", "größe/重み"), ("a\u202eb", '"a\\xe2\\x80\\xae\\x62"'), ("a b", '"a b"'),
                              ("a\x1bb", '"a\\x1b\\x62"'), ('q"', '"q\\""')):
            prefix = self.checkpoint(f"m{len(printed)}{ord(printed[-2])}", {name: BYTE})
            line = run("ls", prefix).stdout.splitlines()[0]
            self.assertTrue(line.startswith(printed + "  int8"), line)
            self.assertEqual(self.on_terminal("ls", prefix, columns=80, both=True)[1].splitlines()[0].rstrip(), line)

    def test_a_printed_name_can_be_typed_again(self):
        for number, name in enumerate(("a\x1b[2Jb\nc", "a b", 'q"', "a\udcff", "\u202eb", "back\\slash")):
            prefix = self.checkpoint(f"m{number}", {name: BYTE})
            printed = run("ls", prefix).stdout.split("  int8")[0]
            for typed in (printed, printed.strip('"') if printed.startswith('"') and not name.endswith('"') else printed, name):
                self.assertEqual(run("show", prefix, typed).stdout, "int8 []\n1\n", (printed, typed))
                done = run("convert", "--overwrite", "--rename", typed + "=x", prefix, self.path("renamed"))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("x  int8", run("ls", self.path("renamed")).stdout)

    def test_a_name_with_a_backslash_is_itself_first(self):
        prefix = self.checkpoint(tensors={"a\\x41": BYTE})
        self.assertEqual(run("show", prefix, "a\\x41").stdout, "int8 []\n1\n")
        self.assert_one_line(run("show", prefix, "aA"), 1, "no tensor")

    def test_long_names_keep_the_columns_of_a_terminal(self):
        long_name = "model/" + "block/" * 20 + "kernel"
        prefix = self.checkpoint(tensors={long_name: BYTE})
        for columns in (40, 60, 100):
            line = self.on_terminal("ls", prefix, columns=columns, both=True)[1].splitlines()[0]
            self.assertLessEqual(len(line), columns)
            self.assertRegex(line, r"^mod.*\.\.\..*nel  int8")
        self.assertIn(long_name + "  int8", run("ls", prefix).stdout)

    def test_wide_characters_take_two_columns(self):
        names = ["日本語/核", "größe", "emoji😀", "abcdefghij", "e\u0301te", "한국어"]
        npz = self.npz_of(names)
        widths = {"日本語/核": 9, "größe": 5, "emoji😀": 7, "abcdefghij": 10, "e\u0301te": 3, "한국어": 6}
        for columns in (80, None):
            shown = self.on_terminal("ls", npz, columns=columns, both=True)[1] if columns else run("ls", npz).stdout
            lines = {name: line for line in shown.splitlines() for name in names if line.startswith(name)}
            for name, width in widths.items():
                self.assertRegex(lines[name], f"^{name}{' ' * (12 - width)}int8")

    def test_wide_names_are_shortened_to_the_terminal(self):
        npz = self.npz_of(["重み" * 20, "x" * 30])
        lines = self.on_terminal("ls", npz, columns=44, both=True)[1].splitlines()
        wide = next(line for line in lines if line.startswith("重"))
        self.assertRegex(wide, r"^[重み]+\.\.\.[重み]+ *int8  \[\]  1  plain$")
        count = len([c for c in wide if c in "重み"])
        self.assertLessEqual(len(wide) + count, 44)
        self.assertGreater(len(wide) + count, 41)

    def test_progress_cuts_whole_characters(self):
        prefix = self.checkpoint("重み" * 12)
        _, shown, _ = self.on_terminal("verify", prefix, columns=40)
        for line in re.findall("\r([^\r\x1b]*)\x1b\\[K", shown):
            self.assertLess(len(line) + len([c for c in line if c in "重み"]), 40)
            self.assertNotIn("\ufffd", line)

    def test_columns_that_do_not_fit_go_to_further_lines(self):
        prefix = self.checkpoint(tensors={"dense/kernel": "dtype: DT_FLOAT tensor_shape { dim { size: 6 } } "
                                                          "float_val: [1.23456, 2e-20, -3.5e10, 4, nan, 0]"})
        wide = run("stats", prefix).stdout.splitlines()[1]
        for columns in (30, 50, 79):
            shown = self.on_terminal("stats", prefix, columns=columns, both=True)[1].splitlines()
            lines = [line.split("\x1b[K")[-1].rstrip() for line in shown]
            lines = lines[[line.startswith("name ") for line in lines].index(True):]
            for line in lines:
                self.assertLessEqual(len(line), columns, lines)
            text = " ".join(lines)
            for word in wide.split()[1:]:
                self.assertIn(word, text)
            half = len(lines) // 2
            header, row = lines[:half], lines[half:]
            self.assertEqual(len(header), len(row))
            self.assertTrue(all(line.startswith("    ") for line in row[1:]), lines)

    def test_verify_names_a_long_name_in_full(self):
        long_name = "model/" + "block/" * 20 + "kernel"
        prefix = self.checkpoint(tensors={long_name: BYTE})
        with open(prefix + ".data-00000-of-00001", "wb") as file:
            file.write(b"\xff")
        self.assertIn(f"damaged: {long_name}: ", run("verify", prefix).stdout)
        self.assertEqual(json.loads(run("verify", "--json", prefix).stdout)["files"][0]["damage"][0]["name"], long_name)


if __name__ == "__main__":
    case_report.main("terminal")
