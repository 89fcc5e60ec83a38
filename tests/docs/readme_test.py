#!/usr/bin/env python3
"""The README and the other documents show code, commands and files that exist."""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import case_report  # noqa: E402


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Readme(unittest.TestCase):
    def test_every_program_is_the_file_it_names(self):
        blocks = re.findall(r"<!-- (\S+) -->\n```cpp\n(.*?)```", read("README.md"), re.DOTALL)
        self.assertGreater(len(blocks), 0)
        for path, code in blocks:
            # The file says in its first comment where it is shown.
            self.assertEqual(re.sub(r"\A(//.*\n)+\n", "", read(path)), code, path)

    def test_every_command_of_the_workbench_exists(self):
        known = re.findall(r"^    (\w[\w| -]*)\)", read("tools/dev"), re.MULTILINE)
        known = {name.strip() for names in known for name in names.split("|")}
        for document in ("README.md", "COMPATIBILITY.md", "SECURITY.md", "TESTING.md"):
            for command in re.findall(r"tools/dev (\w+)", read(document)):
                self.assertIn(command, known, document)

    def test_every_link_leads_somewhere(self):
        for document in ("README.md", "COMPATIBILITY.md", "SECURITY.md", "TESTING.md"):
            text = re.sub(r"```.*?```", "", read(document), flags=re.DOTALL)  # a lambda looks like a link
            for target in re.findall(r"\]\(([^)#]+)\)", text):
                if "://" not in target:
                    self.assertTrue(os.path.exists(target), f"{document}: {target}")

    def test_every_file_of_ours_that_a_document_names_exists(self):
        root = os.path.dirname(os.path.realpath("README.md"))  # the source tree: most of its files are no data of this test
        documents = {"README.md": 5, "COMPATIBILITY.md": 8, "SECURITY.md": 6, "TESTING.md": 12, "docs/from_pytorch.md": 30}
        for document, least in documents.items():
            paths = set(re.findall(r"(?<![\w/])((?:tensor|serialize|tests|tools)/[\w/]+\.(?:h|cc|py|md))\b", read(document)))
            self.assertGreater(len(paths), least, document)
            for path in sorted(paths):
                self.assertTrue(os.path.exists(os.path.join(root, path)), f"{document}: {path}")

    def test_every_limit_is_told_with_its_default(self):
        root = os.path.dirname(os.path.realpath("README.md"))
        header = read(os.path.join(root, "serialize/io/decode_limits.h"))
        limits = re.findall(r"^  int(?:64_t)? (\w+) = ([^;]+);", header, re.MULTILINE)
        self.assertGreaterEqual(len(limits), 7)
        told = dict(re.findall(r"^\| `(max_\w+)` \| ([^|]+) \|", read("SECURITY.md"), re.MULTILINE))
        self.assertEqual({name for name, _ in limits}, set(told))
        units = {"10": "KiB", "20": "MiB", "30": "GiB"}
        for name, value in limits:
            shifted = re.fullmatch(r"int64_t\{(\d+)\} << (\d+)", value)
            default = f"{shifted[1]} {units[shifted[2]]}" if shifted else f"{int(value.replace(chr(39), '')):,}"
            self.assertEqual(told[name], default, name)


if __name__ == "__main__":
    case_report.main("docs")
