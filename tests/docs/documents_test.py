#!/usr/bin/env python3
"""README.md, CONTRIBUTING.md and the pages of docs/ show programs, commands, files and limits that exist.

Reads the source tree, as tests/layering_test.py does. By hand:

    tests/docs/documents_test.py [--verbose]
"""

import glob
import os
import re
import sys
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support"), os.path.join(HERE, "..")]
sys.path += [os.path.join(HERE, "..", "..", "scripts"), os.path.join(HERE, "..", "consumer_doors")]
import api_test  # noqa: E402
import build_files  # noqa: E402
import case_report  # noqa: E402
import doors  # noqa: E402
import layering_test  # noqa: E402
import source_tree  # noqa: E402

ROOT = source_tree.root()

# Pages with lines that are still too long.
TOO_WIDE = {
    "docs/from_pytorch.md",
    "serialize/checkpoint/FORMAT.md",
    "serialize/exchange/FORMAT.md",
    "serialize/payload/FORMAT.md",
    "serialize/wire/FORMAT.md",
}
README_LINES = 150


def read(path):
    return source_tree.read(ROOT, path)


def documents():
    """All pages for readers: those of the root and of docs/."""
    names = (os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "*.md")))
    return sorted(names) + [f"docs/{path}" for path in source_tree.files(os.path.join(ROOT, "docs"), ".md")]


def without_programs(text):
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def programs_of(text):
    """[(path, code)] of the programs that a page shows."""
    return re.findall(r"<!-- (\S+\.cc) -->\n```cpp\n(.*?)```", text, re.DOTALL)


class Programs(unittest.TestCase):
    def test_every_program_is_the_file_it_names(self):
        shown = set()
        for document in documents():
            for path, code in programs_of(read(document)):
                shown.add(path)
                with self.subTest(f"{document}: {path}"):
                    source = read(path)
                    # The file opens with a comment, which says where it is shown.
                    opening = re.match(r"(?://.*\n)+\n", source)[0]
                    self.assertEqual(source[len(opening) :], code)
                    if path.startswith("examples/"):
                        self.assertIn(document, opening)
        self.assertEqual(shown, shown | {f"examples/{path}" for path in source_tree.files(f"{ROOT}/examples", ".cc")})

    def test_every_build_file_is_part_of_the_file_it_names(self):
        count = 0
        for document in documents():
            for path, code in re.findall(r"<!-- (\S+) -->\n```(?:cmake|make)\n(.*?)```", read(document), re.DOTALL):
                count += 1
                self.assertIn(code, read(path), f"{document}: {path}")
        self.assertGreater(count, 2)

    def test_every_example_is_run(self):
        script = read("tests/docs/examples_test.sh") + read("tests/docs/rpc_examples_test.sh")
        for path in source_tree.files(f"{ROOT}/examples", ".cc"):
            self.assertTrue(re.search(rf"examples/{path[: -len('.cc')]}[ )]", script), path)

    def test_every_output_that_is_shown_is_what_the_test_expects(self):
        script = read("tests/docs/examples_test.sh") + read("tests/docs/rpc_examples_test.sh")
        count = 0
        for document in documents():
            for output in re.findall(r"<!-- output of \S+ -->\n```\n(.*?)```", read(document), re.DOTALL):
                count += 1
                self.assertTrue(output.strip() in script, f"{document}: the test does not expect\n{output}")
        self.assertGreater(count, 1)


class Names(unittest.TestCase):
    def test_every_command_of_the_workbench_exists(self):
        names = re.findall(r"^    (\w[\w| -]*)\)", read("tools/dev"), re.MULTILINE)
        known = {name.strip() for group in names for name in group.split("|")}
        for document in documents():
            for command in re.findall(r"tools/dev (\w+)", read(document)):
                self.assertIn(command, known, document)

    def test_every_command_and_option_of_the_tool_exists(self):
        commands = set(re.findall(r'^    \{"(\w+)", "', read("tools/tensorcask.cc"), re.MULTILINE))
        self.assertGreater(len(commands), 9)
        completions = read("tools/manual/tensorcask.bash").partition("\n}\n")[0]
        options = {name: words.split() for name, words in re.findall(
            r"^    (\w+)\) echo '(.*)' ;;$", completions, re.MULTILINE)}  # fmt: skip
        for document in documents():
            calls = re.findall(r"(?:^\$ |`|\| )tensorcask ([a-z]\w*)([^`\n|#]*)", read(document), re.MULTILINE)
            for command, arguments in calls:
                self.assertIn(command, commands, document)
                for option in re.findall(r" (--[a-z][\w-]*)", arguments):
                    self.assertIn(option, options[command], f"{document}: tensorcask {command} {option}")

    def test_every_link_leads_somewhere(self):
        for document in documents():
            folder = os.path.dirname(document)
            # A lambda in a program looks like a link.
            for target in re.findall(r"\]\(([^)#]+)[^)]*\)", without_programs(read(document))):
                if "://" not in target:
                    self.assertTrue(os.path.exists(os.path.join(ROOT, folder, target)), f"{document}: {target}")

    def test_every_page_of_the_guide_is_linked_from_the_readme(self):
        readme = read("README.md")
        for document in documents():
            if document != "README.md":
                self.assertTrue(f"]({document})" in readme, f"README.md has no link to {document}")

    def test_every_file_of_ours_that_a_document_names_exists(self):
        least = {"README.md": 2, "COMPATIBILITY.md": 8, "SECURITY.md": 6, "TESTING.md": 10}
        least.update({"docs/api.md": 60, "docs/architecture.md": 50, "docs/from_pytorch.md": 30})
        made = re.compile(r"\bNAME\b|\.pb\.h$")
        for document in documents():
            paths = set(
                re.findall(
                    r"(?<![\w/.])((?:tensor|serialize|tests|tools|examples|proto)/[\w/]+\.(?:h|cc|py|md|sh|proto))\b",
                    read(document).replace("tensorcask/", ""),
                )
            )
            self.assertGreaterEqual(len(paths), least.get(document, 0), document)
            for path in sorted(path for path in paths if not made.search(path)):
                self.assertTrue(os.path.exists(os.path.join(ROOT, path)), f"{document}: {path}")

    def test_every_label_that_a_document_names_exists(self):
        labels = set()
        for file in build_files.build_files(ROOT):
            labels.add(f"//{file.package}")
            labels |= {f"//{file.package}:{arguments['name']}" for _, arguments in file.rules}
        for document in documents():
            for label in re.findall(r"@tensorcask(//[\w/]*(?::[\w.]+)?)", read(document)):
                self.assertTrue(label in labels or label.endswith(".bzl"), f"{document}: {label}")


class Readme(unittest.TestCase):
    def test_it_is_short(self):
        self.assertLessEqual(len(read("README.md").splitlines()), README_LINES)

    def test_the_lines_for_bazelrc_are_those_of_the_consumer(self):
        block = re.search(r"Add these lines to your `\.bazelrc`.*?```\n(.*?)```", read("README.md"), re.DOTALL)[1]
        consumer = [line for line in read("tests/consumer/.bazelrc").splitlines() if line.startswith("build --")]
        for line in block.splitlines():
            self.assertIn(line, consumer)

    def test_the_packages_are_those_that_the_workbench_installs(self):
        block = re.search(r"apt-get install (.*?)```", read("README.md"), re.DOTALL)[1]
        known = re.search(r"build_packages=\((.*?)\)", read("tools/dev"), re.DOTALL)[1].split()
        for package in block.replace("\\", "").split():
            self.assertIn(package, known)

    def told_needs(self):
        """{label: what the table of targets says that it needs}. A row may have several: `@tensorcask//:a`, `:b`."""
        told = {}
        row = r"^\| `@tensorcask(//[\w/]*(?::\w+)?)`((?:, `:\w+`)*) \|[^|]*\| ([^|]*) \|$"
        for first, others, needs in re.findall(row, read("README.md"), re.MULTILINE):
            labels = [first] + [f"//{name}" for name in re.findall(r":\w+", others)]
            for label in labels:
                told[label] = set()
                for part in needs.split("; "):  # "zstd, xxHash", "protobuf for `:a`", "zlib for `:a` and `:b`"
                    words, _, of = part.partition(" for ")
                    if not of or label[2:] in re.findall(r"`(:\w+)`", of):
                        told[label] |= set(words.split(", ")) - {"-"}
        return told

    def test_what_each_door_needs_is_what_it_links(self):
        names = {"eigen": "Eigen 3.4 or 5", "com_google_protobuf": "protobuf", "xxhash": "xxHash", "re2": "RE2"}
        names.update({"com_google_googletest": "GoogleTest", "nlohmann_json": "nlohmann-json", "grpc": "gRPC"})
        needs = api_test.repositories_of(ROOT)
        for door, told in self.told_needs().items():
            label = door if ":" in door else f"{door}:{door.rpartition('/')[2]}"
            linked = {names.get(name, name) for name in needs(label)} - {"com_google_absl"}
            self.assertEqual(told, linked, label)

    def test_every_door_is_in_the_table_of_targets(self):
        told = {door.rpartition("/")[2].lstrip(":") for door in self.told_needs()}
        self.assertEqual(told, set(doors.PROGRAMS) - {"mpi"} | {"rpc"})  # no alias; no CMake


class Architecture(unittest.TestCase):
    PAGE = "docs/architecture.md"

    def test_the_drawing_has_each_room_on_its_floor(self):
        drawing = re.search(r"## The floors\n\n```\n(.*?)```", read(self.PAGE), re.DOTALL)[1]
        drawn, floor = {}, None
        for line in drawing.splitlines():
            number = re.match(r" (\d) ", line)
            floor = int(number[1]) if number else floor
            drawn.update({room: floor for room in line[:56].split() if room in layering_test.FLOORS})
        rooms = {room: floor for room, floor in layering_test.FLOORS.items() if os.path.isdir(os.path.join(ROOT, room))}
        self.assertEqual(drawn, rooms)

    def test_the_rooms_inside_rooms_are_drawn(self):
        text = read(self.PAGE)
        for room, floors in layering_test.INNER_ROOMS.items():
            drawing = re.search(rf"^ {room} .*?(?:\n\n|\n```)", text, re.MULTILINE | re.DOTALL)[0]
            lines = drawing.splitlines()
            heights = {inner: height for height, inners in enumerate(floors) for inner in inners}
            at = {inner: [n for n, line in enumerate(lines) if f" {inner}/" in line] for inner in heights}
            for inner, height in heights.items():
                self.assertEqual(len(at[inner]), 1, inner)
                for other, other_height in heights.items():
                    if height < other_height:
                        self.assertGreater(at[inner], at[other], f"{room}: {inner} is below {other}")


class Formats(unittest.TestCase):
    """Every format of serialize/archive/formats stands where readers look for it."""

    FOLDER = "serialize/archive/formats"
    ENDING = "_format.h"
    WITHOUT_FILES = ("served",)  # no format of files: only programs that have a connection link it
    WITHOUT_SIGNATURE = ("checkpoint", "dcp", "tensorproto")
    ROOMS = {"dcp": "torch", "records": "wire", "tensorproto": "wire"}  # others have the name of their format
    IN_WORDS = {"checkpoint": "checkpoints?", "torch": "PyTorch", "wire": "records?"}  # as SECURITY.md calls a room
    # (page, first line of the table, what the first cell of a row for a room has).
    TABLES = (
        ("docs/architecture.md", "| Room | Holds | Knows nothing of |", "`serialize/{room}`"),
        ("COMPATIBILITY.md", "| Format | Read | Written | Compared with |", r"serialize/{room}/FORMAT\.md"),
        ("SECURITY.md", "| What | Memory | Budget |", r"\b{words}\b"),
        ("SECURITY.md", "| Bytes | Checksum | Verified |", r"\b{words}\b"),
    )

    def formats(self):
        found = [path[: -len(self.ENDING)] for path in os.listdir(os.path.join(ROOT, self.FOLDER))
                 if path.endswith(self.ENDING)]  # fmt: skip
        self.assertGreater(len(found), 9)
        return sorted(set(found) - set(self.WITHOUT_FILES))

    def tables_without(self, rooms):
        """A sentence for each table that lacks a room."""
        problems = []
        for page, head, pattern in self.TABLES:
            table = read(page).partition(f"\n{head}\n")[2].partition("\n\n")[0]
            cells = [line.split("|")[1] for line in table.splitlines()]
            self.assertGreater(len(cells), 9, f"{page}: {head}")
            for room in sorted(rooms):
                wanted = re.compile(pattern.format(room=room, words=self.IN_WORDS.get(room, room)), re.IGNORECASE)
                if not any(map(wanted.search, cells)):
                    problems.append(f"{page}: the table {head} has no row for serialize/{room}")
        return problems

    def test_every_room_of_a_format_has_its_rows(self):
        rooms = {self.ROOMS.get(name, name) for name in self.formats()}
        for room in rooms:
            self.assertTrue(os.path.isdir(os.path.join(ROOT, "serialize", room)), room)
        problems = self.tables_without(rooms)
        self.assertEqual(problems, [], "\n" + "\n".join(problems))

    def test_a_room_without_rows_is_found(self):
        self.assertEqual(len(self.tables_without({"zarr"})), len(self.TABLES))

    def test_the_page_of_formats_has_each(self):
        for name in self.formats():
            header = read(f"{self.FOLDER}/{name}{self.ENDING}")
            spoken = re.findall(r'string_view name\(\) const override { return "([\w-]+)"; }', header)
            self.assertGreater(len(spoken), 0, name)
            for word in spoken:
                self.assertIn(f"\n| {word} |", read("docs/formats.md"), f"{name}: run `tools/dev manual`")

    def test_readers_of_other_formats_tell_each_by_its_signature(self):
        hints = read("serialize/io/content_hint.cc")
        for name in set(self.formats()) - set(self.WITHOUT_SIGNATURE):
            self.assertIn(f'{{"{name}", "', hints)

    def test_the_list_of_all_formats_has_each(self):
        header = read(f"{self.FOLDER}/all_formats.h")
        listed = re.findall(rf'#include "tensorcask/{self.FOLDER}/(\w+){self.ENDING}"', header)
        self.assertEqual(sorted(listed), self.formats())


class KeysOfLs(unittest.TestCase):
    def test_the_guide_has_the_keys_of_the_document(self):
        columns = read("tools/commands/ls.cc").partition("\nconst Column kColumns[] = {\n")[2].partition("\n};\n")[0]
        keys = re.findall(r'^    \{"(\w+)",', columns, re.MULTILINE)
        self.assertGreater(len(keys), 14)
        table = read("docs/guide/tool.md").partition("\n| Key | Value | Absent or null |\n")[2].partition("\n\n")[0]
        self.assertEqual(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE), keys)


class Pages(unittest.TestCase):
    def test_no_line_is_too_wide(self):
        wide = {}
        for document in source_tree.files(ROOT, ".md"):
            lines = read(document).splitlines()
            numbers = [n for n, line in enumerate(lines, start=1) if len(line) > 120 and not line.startswith("|")]
            if numbers:
                wide[document] = numbers
        self.assertEqual({name: numbers for name, numbers in wide.items() if name not in TOO_WIDE}, {})

    def test_every_limit_is_told_with_its_default(self):
        header = read("serialize/io/decode_limits.h")
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
    case_report.main("documents")
