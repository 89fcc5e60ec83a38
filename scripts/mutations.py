"""Finds the places of a C++ file where a small, wrong change can be made, and makes it. Used by mutate.py.

    text = open("serialize/io/byte_source.cc").read()
    for mutation in find_mutations(text):
        print(mutation.line, mutation.kind, difference(text, mutation.apply(text)))

The kinds:

    negate      a condition is negated: `if (x)` becomes `if (!(x))`, `==` becomes `!=`
    drop        a statement is dropped: a call, an assignment, `break`
    off by one  `<` becomes `<=`; an integer n becomes n + 1 or n - 1
    exchange    operands change places: a - b, a / b, a % b, f(a, b); `&&` becomes `||`
    no error    an error is passed over: `if (x) return Error();` and CASK_RETURN_IF_ERROR no longer return

Only code inside function bodies is changed, and the numbers of constants outside of them. Comments, text, includes,
declarations and the arguments of errors and messages are left alone; so are CASK_CHECK and static_assert, which only a
bug reaches, and hints such as reserve(). The file is read by its punctuation, not parsed: it must be formatted by
clang-format, which puts spaces around binary operators and none into template arguments.
"""

import bisect
import dataclasses
import difflib
import re

from cxx_text import CLOSE, OPEN, closing, function_bodies, mask, opening

KINDS = ("negate", "drop", "off by one", "exchange", "no error")


@dataclasses.dataclass(frozen=True)
class Mutation:
    """The bytes [start, end) of a file become `text`."""

    start: int
    end: int
    text: str
    kind: str
    line: int  # from 1 on

    def apply(self, source):
        return source[: self.start] + self.text + source[self.end :]


def difference(before, after):
    """The lines that differ, each as "-text" or "+text" without the spaces around it."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line[0] + line[1:].strip() for line in list(lines)[2:] if not line.startswith("@@")]


# ---- What is left alone ---------------------------------------------------------------------------------------------

# Calls whose arguments are text for people, checks that only a bug fails, and what is decided when compiling.
_NOT_BEHAVIOUR = re.compile(
    r"(?:\b\w*Error|\bStrCat|\bStrAppend|\bStrJoin|\bStrFormat|\bSubstitute|\bQuoted|\bAnnotate|\bMisuse|\bCASK_D?CHECK"
    r"|\bstatic_assert|\bassert|\bsizeof|\balignof|\bdecltype|\balignas|\b__attribute__)\s*\("
)


def _left_alone(masked):
    """The (start, end) of those arguments, sorted."""
    spans = []
    for match in _NOT_BEHAVIOUR.finditer(masked):
        end = closing(masked, match.end() - 1)
        if end is not None:
            spans.append((match.end() - 1, end + 1))
    return sorted(spans)


class _Spans:
    """Asks whether an offset lies in one of the spans."""

    def __init__(self, spans):
        self.starts, self.ends = [], []
        for start, end in sorted(spans):
            if self.ends and start <= self.ends[-1]:
                self.ends[-1] = max(self.ends[-1], end)
            else:
                self.starts.append(start)
                self.ends.append(end)

    def __contains__(self, at):
        i = bisect.bisect_right(self.starts, at) - 1
        return i >= 0 and at < self.ends[i]


# ---- Statements -----------------------------------------------------------------------------------------------------

_KEYWORDS = re.compile(
    r"(return|if|else|for|while|do|switch|case|default|goto|using|typedef|delete|new|throw|try|catch|static_assert|const"
    r"|constexpr|static|auto|struct|class|enum|union|template|public|private|protected|friend|extern|namespace|operator"
    r"|CASK_\w+|co_return|asm|static_cast)\b"
)
# Hints: without them everything is the same, only slower.
_HINT = re.compile(r"(\.|->|\b)(reserve|shrink_to_fit|IgnoreError|\w*[Pp]refetch\w*|madvise|mallopt)\(")


def flat(text):
    """The text without what stands in brackets."""
    out, depth = [], 0
    for c in text:
        if c in CLOSE:
            depth -= 1
        if depth == 0:
            out.append(c)
        if c in OPEN:
            depth += 1
    return "".join(out)


def _statement_end(masked, start, limit):
    """The offset of the ; that ends the statement at `start`; None if a bracket ends it."""
    i = start
    while i < limit:
        c = masked[i]
        if c == ";":
            return i
        if c in OPEN:
            i = closing(masked, i)
            if i is None or i >= limit:
                return None
        elif c in CLOSE:
            return None
        i += 1
    return None


def is_droppable(statement):
    """True for a call or an assignment; `statement` is masked and without its semicolon."""
    if re.fullmatch(r"break|continue", statement):
        return True
    if _KEYWORDS.match(statement) or _HINT.search(statement):
        return False
    shown = flat(statement)
    if re.fullmatch(r"(\+\+|--)[\w.>:*()\[\]-]+|[\w.>:*()\[\]-]+(\+\+|--)", shown):
        return True
    assignment = re.match(r"([*\w.:>()\[\]-]+) (=|[-+*/%&|^]=|<<=|>>=) ", shown)
    if assignment:
        return True
    # Name, members and template arguments without a space in them, then brackets to the end.
    return re.fullmatch(r"[*\w:.>\[\]()-]+(<[\w:, ]*>)?\(\)", shown) is not None


def _statements(masked, start, end):
    """(start, offset of the ;) of what may be a simple statement, at any depth."""
    for match in re.finditer(r"[;{})]|(?<!:):(?!:)|\belse\b", masked[start:end]):
        begin = start + match.end()
        while begin < end and masked[begin].isspace():
            begin += 1
        if match.group(0) == ")" and not _closes_control(masked, start + match.start()):
            continue
        if begin >= end or not (masked[begin].isalpha() or masked[begin] in "_*+-:("):
            continue
        at = start + match.start()
        if match.group(0) == ":" and not re.search(r"(\bcase\b[^;{}?]*|\bdefault)$", masked[max(start, at - 80) : at]):
            continue
        stop = _statement_end(masked, begin, end)
        if stop is not None:
            yield begin, stop
    begin = start
    while begin < end and masked[begin].isspace():
        begin += 1
    stop = _statement_end(masked, begin, end)
    if stop is not None:
        yield begin, stop


def _closes_control(masked, at):
    start = opening(masked, at)
    return start is not None and re.search(r"\b(if( constexpr)?|for|while)\s*$", masked[max(0, start - 20) : start])


# ---- Expressions ----------------------------------------------------------------------------------------------------

def _operand_before(masked, at, limit):
    """Where the operand starts that ends at `at` (exclusive); None if it is not a simple one."""
    i = at
    while i > limit:
        c = masked[i - 1]
        if c in ")]":
            start = opening(masked, i - 1)
            if start is None or start < limit:
                return None
            i = start
        elif c.isalnum() or c in "_.:":
            i -= 1
        elif masked[i - 2 : i] == "->":
            i -= 2
        elif c in "*&!~-" and (masked[i - 2].isspace() or masked[i - 2] in "(["):
            i -= 1
        else:
            break
    return i if i < at else None


def _operand_after(masked, at, limit):
    """Where the operand ends that starts at `at`; None if it is not a simple one."""
    i = at
    while i < limit and masked[i] in "*&!~-+":
        i += 1
    while i < limit:
        c = masked[i]
        if c in "([":
            end = closing(masked, i)
            if end is None or end >= limit:
                return None
            i = end + 1
        elif c.isalnum() or c in "_.:":
            i += 1
        elif masked[i : i + 2] == "->":
            i += 2
        elif c == "<" and re.match(r"<[\w:, *]+>[({]", masked[i:]):
            i += masked[i:].index(">") + 1
        elif c == "{" and i > at and (masked[i - 1].isalnum() or masked[i - 1] in "_>"):
            end = closing(masked, i)
            if end is None or end >= limit:
                return None
            i = end + 1
        else:
            break
    return i if i > at else None


_TERM_START = re.compile(r"(&&|\|\||[,;?({\[=]|(?<!:):|\breturn)\s*$")
_COMPARISONS = ("==", "!=", "<=", ">=", "::")
_TERM_END = re.compile(r"\s*(&&|\|\||[,;?)}\]]|:\s)")


def _term_before(masked, at, limit):
    """Where the operand of && or || starts that ends at `at`."""
    i = at
    while i > limit:
        if masked[i - 1] in CLOSE:
            start = opening(masked, i - 1)
            if start is None or start < limit:
                break
            i = start
        elif masked[i - 2 : i] in ("==", "!=", "<=", ">=", "::", "->"):
            i -= 2
        elif _TERM_START.search(masked, max(limit, i - 10), i) and not masked[max(0, i - 10) : i].rstrip().endswith(_COMPARISONS):
            break
        else:
            i -= 1
    while masked[i].isspace():
        i += 1
    return i


def _term_after(masked, at, limit):
    """Where the operand of && or || ends that starts at `at`."""
    i = at
    while i < limit and not _TERM_END.match(masked, i):
        i = closing(masked, i) + 1 if masked[i] in OPEN else i + 1
    return i


_NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F']+|\d[\d']*)([uUlLzZ]*)(?![\w.])")


def _other_numbers(text, suffix):
    digits = text.replace("'", "")
    base = 16 if digits[:2] in ("0x", "0X") else 8 if len(digits) > 1 and digits[0] == "0" else 10
    value = int(digits, base)
    shown = (lambda n: hex(n) + suffix) if base == 16 else (lambda n: str(n) + suffix)
    return [shown(value + 1)] + ([shown(value - 1)] if value > 0 else [])


def arguments_of(masked, at):
    """The (start, end) of each argument of the call whose bracket is at `at`."""
    end = closing(masked, at)
    if end is None:
        return []
    spans, start, i = [], at + 1, at + 1
    while i < end:
        if masked[i] in OPEN:
            i = closing(masked, i)
        elif masked[i] == "<" and re.match(r"<[\w:, *&]+>", masked[i:end]):
            i += masked[i:end].index(">")
        elif masked[i] == ",":
            spans.append((start, i))
            start = i + 1
        i += 1
    spans.append((start, end))
    trimmed = []
    for first, last in spans:
        while first < last and masked[first].isspace():
            first += 1
        while last > first and masked[last - 1].isspace():
            last -= 1
        trimmed.append((first, last))
    return trimmed


# Calls whose arguments have no order, and what is no call.
_NO_ORDER = re.compile(r"\b(if|for|while|switch|return|catch|CASK_\w+|min|max|swap|equal)(<[\w: ]*>)?$")
_ARGUMENT = re.compile(r"[\w(*-]")  # worth to be exchanged: no lambda, no address, no text


def _condition(masked, at):
    """(start, end) of the condition in the brackets at `at` of an `if`, behind an initialisation."""
    end = closing(masked, at)
    if end is None:
        return None
    start, i = at + 1, at + 1
    while i < end:
        if masked[i] in OPEN:
            i = closing(masked, i)
        elif masked[i] == ";":
            start = i + 1
        i += 1
    while masked[start].isspace():
        start += 1
    return (start, end) if start < end else None


_RETURNS = re.compile(r"\s*\{?\s*return\b([^;]*);")
_ERROR = re.compile(r"[Ee]rror|[Ss]tatus|\bE[A-Z]+\b|errno|Damage|DataLoss|Misuse|Refuse|Invalid|Bad|Cannot|false|nullopt")


def declares(condition):
    """True for `const X* x = f()`, which stands where only a condition may."""
    return re.match(r"[\w:<>*& ,]+ [*&]?\w+ = ", flat(condition)) is not None


# ---- All of it ------------------------------------------------------------------------------------------------------


def find_mutations(source):
    """All mutations of the file, in the order of their places."""
    masked = mask(source)
    alone = _Spans(_left_alone(masked))
    line_starts = [0] + [match.end() for match in re.finditer("\n", source)]
    found = {}

    def add(start, end, text, kind):
        if start in alone or source[start:end] == text:
            return
        line = bisect.bisect_right(line_starts, start)
        found.setdefault((start, end, text), Mutation(start, end, text, kind, line))

    for start, end in function_bodies(masked):
        _find_in_body(source, masked, start, end, add)
    for match in re.finditer(r"^[ \t]*(?:inline |static )*constexpr [^;{}()]*? = ([^;{}]*(?:\w\{[^;{}]*\}[^;{}]*)*);", masked, re.MULTILINE):
        for number in _NUMBER.finditer(masked, match.start(1), match.end(1)):
            for text in _other_numbers(*number.groups()):
                add(number.start(), number.end(), text, "off by one")
    return sorted(found.values(), key=lambda mutation: (mutation.start, mutation.end, mutation.text))


def _find_in_body(source, masked, start, end, add):
    body = masked[start:end]

    # Conditions.
    for match in re.finditer(r"\b(if|while)\s*\(", body):
        opening = start + match.end() - 1
        condition = _condition(masked, opening)
        if condition is None or declares(masked[condition[0] : condition[1]]):
            continue
        text = source[condition[0] : condition[1]]
        if text not in ("true", "false"):
            add(*condition, f"!({text})", "negate")
        returned = _RETURNS.match(masked, condition[1] + 1, end) if match.group(1) == "if" else None
        if returned:
            add(*condition, f"false && ({text})", "no error" if _ERROR.search(returned.group(1)) else "drop")
    for match in re.finditer(r" (==|!=) ", body):
        add(start + match.start(1), start + match.end(1), "!=" if match.group(1) == "==" else "==", "negate")

    # Statements.
    for begin, stop in _statements(masked, start, end):
        statement = masked[begin:stop]
        if is_droppable(statement):
            add(begin, stop + 1, "{}", "drop")
        elif statement.startswith("CASK_RETURN_IF_ERROR("):
            inner = source[begin + len("CASK_RETURN_IF_ERROR(") : stop - 1]
            add(begin, stop + 1, f"static_cast<void>({inner});", "no error")
        elif statement.startswith("CASK_ASSIGN_OR_RETURN("):
            parts = arguments_of(masked, begin + len("CASK_ASSIGN_OR_RETURN"))
            if len(parts) >= 2 and masked[parts[0][0]] != "(":
                left = source[parts[0][0] : parts[0][1]]
                right = source[parts[1][0] : parts[-1][1]]
                add(begin, stop + 1, f"{left} = *({right});", "no error")

    # Comparisons, operators and numbers.
    for match in re.finditer(r" (<=|>=|<|>) ", body):
        operator = match.group(1)
        add(start + match.start(1), start + match.end(1), operator[0] if len(operator) == 2 else operator + "=", "off by one")
    for match in re.finditer(r" (&&|\|\|) ", body):
        other = "||" if match.group(1) == "&&" else "&&"
        left, right = _term_before(masked, start + match.start(), start), _term_after(masked, start + match.end(), end)
        add(left, right, f"({source[left:start + match.start()]} {other} {source[start + match.end():right]})", "exchange")
    for match in re.finditer(r" (-|/|%|<<|>>|<|>|<=|>=) ", body):
        middle = start + match.start()
        left = _operand_before(masked, middle, start)
        right = _operand_after(masked, start + match.end(), end)
        if left is None or right is None:
            continue
        first, second = source[left:middle], source[start + match.end() : right]
        if first.strip() and second.strip():
            add(left, right, f"{second} {match.group(1)} {first}", "exchange")
    for match in _NUMBER.finditer(body):
        if body[match.end() : match.end() + 1] == ">":
            continue  # a template argument
        for text in _other_numbers(*match.groups()):
            add(start + match.start(), start + match.end(), text, "off by one")

    # Arguments of calls.
    for match in re.finditer(r"[\w>]\(", body):
        opening = start + match.end() - 1
        if _NO_ORDER.search(masked[max(start, opening - 40) : opening]):
            continue
        spans = arguments_of(masked, opening)
        for (first, first_end), (second, second_end) in zip(spans, spans[1:]):
            a, b = source[first:first_end], source[second:second_end]
            if a == b or "{" in masked[first:second_end] or "/*" in source[spans[0][0] : spans[-1][1]]:
                continue
            if not _ARGUMENT.match(a) or not _ARGUMENT.match(b) or a.isdigit() != b.isdigit():
                continue
            add(first, second_end, f"{b}{source[first_end:second]}{a}", "exchange")
