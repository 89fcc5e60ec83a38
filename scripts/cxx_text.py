"""Reads a C++ file by its punctuation, without parsing it. Used by mutations.py.

    masked = mask(open("serialize/io/byte_source.cc").read())
    for start, end in function_bodies(masked):
        print(masked[start:end])

The file must be formatted by clang-format.
"""

import functools
import re

_TOKEN = re.compile(
    r"""//[^\n]*(?:\\\n[^\n]*)*             # comments
      | /\*.*?\*/
      | (?<![\w])(?:u8|u|U|L)?R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"   # text
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'
      | ^[ \t]*\#(?:[^\n\\]|\\\n|\\.)*      # directives
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


def mask(source):
    """The source with comments, text and directives blanked out; text keeps its quotes. Offsets and lines stay."""

    def blank(match):
        found = match.group(0)
        blanked = re.sub(r"[^\n]", " ", found)
        if found[0] in "/ \t#":
            return blanked
        return found[0] + blanked[1:-1] + found[-1] if found[0] in "\"'" else '"' + blanked[1:-1] + '"'

    return _TOKEN.sub(blank, source)


OPEN = {"(": ")", "[": "]", "{": "}"}
CLOSE = {close: open_ for open_, close in OPEN.items()}


@functools.lru_cache(maxsize=2)
def _pairs(masked):
    """{offset of a bracket: offset of its partner}."""
    pairs, open_ = {}, []
    for match in re.finditer(r"[()\[\]{}]", masked):
        if match.group(0) in OPEN:
            open_.append(match.start())
        elif open_:
            start = open_.pop()
            pairs[start], pairs[match.start()] = match.start(), start
    return pairs


def closing(masked, at):
    """The offset of the bracket that closes the one at `at`; None if there is none."""
    return _pairs(masked).get(at)


def opening(masked, at):
    return _pairs(masked).get(at)


def _brace_kind(header):
    """What a brace opens that stands behind `header`, outside of functions: "scope", "code" or "list"."""
    header = re.sub(r"\balignas\([^)]*\)|\btemplate\s*<[^{};]*?>\s*(?=\b(?:class|struct|union|enum)\b)", " ", header)
    if re.search(r"\bnamespace\b", header) or re.search(r'\bextern\s*"\s*"\s*$', header):
        return "scope"
    if re.search(r"\benum\b", header) or header.rstrip().endswith("="):
        return "list"
    if re.search(r"\b(class|struct|union)\b", header) and "(" not in header:
        return "scope"
    if "(" not in header:
        return "list"
    # A member's braces in the list of a constructor: `: a_{1}, b_(2) {`.
    if re.search(r"\)\s*(noexcept\s*)?:(?!:)", header) and re.search(r"[\w>]\s*$", header):
        last = header.rstrip()
        if not re.search(r"\b(const|noexcept|override|final|try)$", last):
            return "member"
    if re.search(r"[^=!<>]=(?!=)\s*[^()]*$", header) and not re.search(r"\boperator\b", header):
        return "list"
    return "code"


def function_bodies(masked):
    """The (start, end) between the braces of every function body."""
    bodies = []
    header_start = 0
    i = 0
    after_member = False
    while i < len(masked):
        c = masked[i]
        if c in ";}":
            header_start = i + 1
            after_member = False
        elif c == "(" or c == "[":
            end = closing(masked, i)
            if end is None:
                return bodies
            i = end
        elif c == ":" and re.search(r"\b(public|private|protected)\s*$", masked[header_start:i]):
            header_start = i + 1
        elif c == "{":
            kind = _brace_kind(masked[header_start:i])
            if after_member and not re.search(r"[\w>]\s*$", masked[after_member:i]):
                kind = "code"
            end = closing(masked, i)
            if end is None:
                return bodies
            if kind == "scope":
                header_start = i + 1
            elif kind == "member" or (after_member and kind != "code"):
                after_member = end + 1
                i = end
            else:
                if kind == "code":
                    bodies.append((i + 1, end))
                header_start = end + 1
                after_member = False
                i = end
        i += 1
    return bodies
