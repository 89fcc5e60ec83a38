#!/usr/bin/env python3
"""Makes C++ of the examples in the comments of public headers, so that the compiler reads them.

    tests/docs/header_examples.py            # writes tests/docs/header_examples.inc and header_includes.inc
    tests/docs/header_examples.py --check    # exits with 1 if these files are not current

An example is what a comment of a header in docs/api.md has indented by three spaces or more, if it has a statement.
Each becomes a function. "..." stands for what a reader fills in, and an expression may be followed by its value:

    for (const Entry& entry : entries) ...     a statement
    for (const Tensor& rows : ...)             a list
    for (...)  while (...)  if (...)           a condition
    Answer(...)  { return ... }                a value
    class Model : public Base { ... };         a class
    Size(dtype)    // 4 bytes                  an expression, and its value

tests/docs/header_examples.cc declares what the examples take for granted.
"""

import os
import re
import sys

sys.dont_write_bytecode = True  # the module below lies in the source tree
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import source_tree  # noqa: E402

OUTPUT = "tests/docs/header_examples.inc"
INCLUDES = "tests/docs/header_includes.inc"  # of the headers with examples
OPTIONAL = ("serialize/mpi/", "serialize/rpc/")  # their libraries are not built on every machine
NOTE = "// Written by tests/docs/header_examples.py from the comments of public headers. Do not edit."


def doors(root):
    """The public headers, in order."""
    names = set(re.findall(r"`([a-z0-9_/]+\.h)`", source_tree.read(root, "docs/api.md")))
    names = {name for name in names if not name.startswith(OPTIONAL)}
    return sorted(name for name in names if os.path.exists(os.path.join(root, name)))


def comments(text):
    """What the comments of a header have indented: lists of lines without the slashes."""
    for block in re.findall(r"(?:^ *//   .*\n(?:^ *//\n(?=^ *//   ))?)+", text, re.MULTILINE):
        yield [re.sub(r"^ *//(   )?", "", line) for line in block.splitlines()]


def is_example(lines):
    return any(re.search(r";\s*(//.*)?$", line) for line in lines)


def split_comment(line):
    match = re.match(r"^((?:[^\"/]|\"(?:[^\"\\]|\\.)*\"|/(?!/))*)(//.*)?$", line)
    return (match[1].rstrip(), match[2] or "") if match else (line, "")


def paragraphs(lines):
    """The parts between empty lines that have statements."""
    part = []
    for line in lines + [""]:
        if line.strip():
            part.append(line)
            continue
        if is_example(part):
            yield from part
        part = []


def statements(lines):
    """The lines as statements: what stands for something else is replaced."""
    depth = 0  # of parentheses
    for line in paragraphs(lines):
        code, _ = split_comment(line)
        if not code or code.strip().startswith(("...", "#include")) or re.match(r"^\s*class .*\{ \.\.\. \};$", code):
            continue
        code = re.sub(r"\bfor \(const (\w+)& (\w+) : \.\.\.\)", r"for (const \1& \2 : std::vector<\1>())", code)
        code = re.sub(r"\b(for|while) \(\.\.\.\)", "while (more())", code)
        code = code.replace("if (...)", "if (more())").replace("{ return ... }", "{ return Anything(); }")
        code = code.replace("{ ... }", "{ std::abort(); }").replace("(...)", "(Anything())").replace(", ...)", ", Anything())")
        code = re.sub(r"\s\.\.\.$", " {}", code)
        depth += code.count("(") + code.count("[") - code.count(")") - code.count("]")
        yield code if depth > 0 or code.endswith((";", "{", "}", ":", "=", ",", "&&", "||")) else code + ";"


def examples_of(root, header):
    return [lines for lines in comments(source_tree.read(root, header)) if is_example(lines)]


def generate(root):
    """The content of each file."""
    headers = [header for header in doors(root) if examples_of(root, header)]
    includes = [f'#include "tensorcask/{header}"' for header in headers]
    return {OUTPUT: examples_in(root, headers), INCLUDES: "\n".join([NOTE, "", *includes, ""])}


def examples_in(root, headers):
    examples = []
    for header in headers:
        found = examples_of(root, header)
        examples.append(f"namespace {namespace_of(header)} {{\n")
        for number, lines in enumerate(found):
            body = list(statements(lines))
            if re.match(r"^absl::Status \w+\(.*\{$", body[0]):
                examples.append("\n".join(body) + "\n")
                continue
            text = "\n".join("  " + line for line in body)
            examples.append(f"absl::Status Example{number}() {{\n{text}\n  return absl::OkStatus();\n}}\n")
        examples.append(f"}}  // namespace {namespace_of(header)}\n")
    return "\n".join(
        [NOTE]
        + ["#pragma GCC system_header  // no warnings: examples use nothing of what they declare\n"]
        + ["namespace tensorcask::examples {\n"]
        + examples
        + ["}  // namespace tensorcask::examples\n"]
    )


def namespace_of(header):
    return re.sub(r"\W", "_", header[:-2])


def main(arguments):
    root = source_tree.root()
    old = [path for path, wanted in generate(root).items() if not is_current(root, path, wanted)]
    if arguments == ["--check"]:
        for path in old:
            print(f"{path} is not current: run tests/docs/header_examples.py")
        return 1 if old else 0
    for path in old:
        with open(os.path.join(root, path), "w", encoding="utf-8") as file:
            file.write(generate(root)[path])
    return 0


def is_current(root, path, wanted):
    return os.path.exists(os.path.join(root, path)) and source_tree.read(root, path) == wanted


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
