"""Puts many mutations into one C++ file, each behind a switch, so that one build serves all of them. Used by mutate.py.

    placed = place(source, {17: mutation, 18: other})  # {number: mutations.Mutation}
    placed.text     # the file with both behind tensorcask_mutant(17) and tensorcask_mutant(18)
    placed.around   # {17: ranges of lines of `text` in which an error of the compiler may be its error, 18: ...}
    placed.left     # the numbers that fit no schema

A program that is built from such files behaves as the original. Two variables of the environment change that:

    TENSORCASK_MUTANT=17               switches mutation 17 on
    TENSORCASK_MUTANTS_REACHED=FILE    records which mutations were reached: byte n of FILE (MUTANTS bytes) becomes 1

The schemata, by the place of the mutation:

    statement      { if (tensorcask_mutant(17)) { mutated } else { original } }
    initialiser, condition, argument
                   (tensorcask_mutant(17) ? (mutated) : (original))
    the error of CASK_ASSIGN_OR_RETURN
                   tensorcask_mutant_forced(17, original), which takes the value even if there is none

`constexpr` before a mutated function or constant goes, because the switch is decided when the program runs. What then
does not compile fits no schema; `culprits` names these mutations from the compiler's messages.
"""

import dataclasses
import re

from cxx_text import CLOSE, OPEN, closing, function_bodies, mask
from mutations import arguments_of, declares, flat, is_droppable

MUTANTS = 1 << 16  # the size of the file that records which were reached

SWITCH = """#ifndef TENSORCASK_MUTANT_SWITCH_
#define TENSORCASK_MUTANT_SWITCH_
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
inline int tensorcask_mutant_on = -2;  // its number; -1: none is on; -2: not known yet; -3: none, and records
inline volatile char* tensorcask_mutants_reached = nullptr;
__attribute__((noinline, cold)) inline bool tensorcask_mutant_start(int number) {
  if (__atomic_load_n(&tensorcask_mutant_on, __ATOMIC_ACQUIRE) == -2) {
    int on = -1;
    if (const char* value = getenv("TENSORCASK_MUTANT")) on = atoi(value);
    if (const char* path = getenv("TENSORCASK_MUTANTS_REACHED")) {
      const int file = open(path, O_RDWR | O_CLOEXEC);
      if (file >= 0) {
        void* const bytes = mmap(nullptr, MUTANTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (bytes != MAP_FAILED) tensorcask_mutants_reached = static_cast<char*>(bytes);
        if (bytes != MAP_FAILED) on = -3;
      }
    }
    __atomic_store_n(&tensorcask_mutant_on, on, __ATOMIC_RELEASE);
  }
  if (tensorcask_mutants_reached != nullptr && number >= 0) tensorcask_mutants_reached[number] = 1;
  return __atomic_load_n(&tensorcask_mutant_on, __ATOMIC_RELAXED) == number;
}
// Before main(): tests count the system calls of what they test.
inline const bool tensorcask_mutant_started = tensorcask_mutant_start(-4);
inline bool tensorcask_mutant(int number) {
  const int on = __atomic_load_n(&tensorcask_mutant_on, __ATOMIC_ACQUIRE);
  return __builtin_expect(on >= -1, 1) ? on == number : tensorcask_mutant_start(number);
}
template <typename T>
T&& tensorcask_mutant_forced(int number, T&& value) {
  if (tensorcask_mutant(number)) static_cast<void>(*static_cast<T&&>(value));
  return static_cast<T&&>(value);
}
#endif
""".replace("MUTANTS_BYTES", str(MUTANTS))


@dataclasses.dataclass(frozen=True)
class Placed:
    text: str
    lines: dict  # {number: ranges of lines with the mutated code}
    around: dict  # the same with the original code beside it, and with what is no longer constexpr
    left: list


@dataclasses.dataclass
class _Slot:
    """The bytes [start, end) of the original, to be replaced by a choice between them and their mutations."""

    start: int
    end: int
    form: str  # "statement", "value", "condition", "effect", "forced", "swapped"
    numbers: list


# ---- Where a mutation fits --------------------------------------------------------------------------------------------


def _enclosing(masked, at):
    """The offset of the innermost bracket that is open at `at`; None outside of all."""
    depth = 0
    for i in range(at - 1, -1, -1):
        if masked[i] in CLOSE:
            depth += 1
        elif masked[i] in OPEN:
            if depth == 0:
                return i
            depth -= 1
    return None


def _trimmed(masked, start, end):
    while start < end and masked[start].isspace():
        start += 1
    while end > start and masked[end - 1].isspace():
        end -= 1
    return start, end


def _top_level(masked, start, end, pattern):
    """The offsets of what `pattern` matches in [start, end) outside of brackets."""
    found, i = [], start
    compiled = re.compile(pattern)
    while i < end:
        if masked[i] in OPEN:
            i = closing(masked, i)
            if i is None:
                return found
        elif compiled.match(masked, i, end):
            found.append(i)
        i += 1
    return found


def _is_block(masked, at):
    """True if the brace at `at` opens statements, not a list."""
    if not masked[at - 1].isspace():
        return False
    before = masked[max(0, at - 60) : at].rstrip()
    if before.endswith((")", "]", ";", "{", "}")) or re.search(r"\b(else|do|try|const|noexcept|mutable)$", before):
        return True
    end = closing(masked, at)
    return bool(_top_level(masked, at + 1, end, ";")) or bool(
        re.match(r"\s*(if|for|while|switch|do|case|return)\b", masked[at + 1 : end])
    )


_SKIPPED = re.compile(r"(?:else|do|try)\b|(?:case\b[^;{}?]*?|default\s*)(?<!:):(?!:)")
_CONTROL = re.compile(r"(?:if(?:\s+constexpr)?|for|while|switch|catch)\s*(?=\()")
_BARE_MACRO = re.compile(r"[A-Z][A-Z0-9_]+(?=\()")


def _statement_at(masked, block, start, end):
    """(start, offset of the ;) of the simple statement of the block that has [start, end); None if there is none."""
    i, limit = block + 1, closing(masked, block)
    while i < limit:
        if masked[i].isspace() or masked[i] == ";":
            i += 1
            continue
        if masked[i] == "{":
            i = closing(masked, i) + 1
            continue
        skipped, control = _SKIPPED.match(masked, i, limit), _CONTROL.match(masked, i, limit)
        if skipped:
            if start < skipped.end() and end > i:
                return None  # the value of a case
            i = skipped.end()
            continue
        if control:
            i = closing(masked, control.end()) + 1
            continue
        macro = _BARE_MACRO.match(masked, i, limit)
        if macro and re.match(r"\s+[\w}]", masked[closing(masked, macro.end()) + 1 : limit + 1]):
            i = closing(masked, macro.end()) + 1  # ends with no semicolon
            continue
        ends = _top_level(masked, i, limit, ";")
        if not ends:
            return None
        if i <= start and end <= ends[0] + 1:
            return i, ends[0]
        i = ends[0] + 1
    return None


def _is_declaration(statement):
    """True for `const int x = 1`, `std::string s(3, 'x')` and such; `statement` is masked."""
    if re.match(r"(return|break|continue|goto|throw|delete|CASK_\w+\(|static_cast<)", statement) or is_droppable(statement):
        return False
    if re.match(r"(const|constexpr|static|auto|thread_local|struct|class|enum|using|typedef|alignas)\b", statement):
        return True
    left = re.split(r" (?:=|[-+*/%&|^]=|<<=|>>=) ", flat(statement))[0]
    return re.match(r"[\w:]+(<.*>)?[&*]* +[&*]*\w+\s*(\(\)|\{\}|\[\])*$", left) is not None


def _initialiser(masked, start, end, at):
    """The (start, end) of the value behind the last ` = ` of [start, end) before `at`; None: there is none before it."""
    equals = [i for i in _top_level(masked, start, end, r" =\s") if i < at]
    if not equals:
        return None
    commas = [i for i in _top_level(masked, at, end, ",") if i >= at]
    return _trimmed(masked, equals[-1] + 2, commas[0] if commas and not _in_template(masked, equals[-1], commas[0]) else end)


def _in_template(masked, start, at):
    return masked.count("<", start, at) > masked.count(">", start, at)


def _value(masked, span):
    """A slot for a value, unless that is a list in braces."""
    return None if span is None or span[0] >= span[1] or masked[span[0]] == "{" else _Slot(*span, "value", [])


def _in_control(masked, word, opened, start, end):
    """The slot for [start, end) in the brackets behind `if`, `for`, `while` or `switch`."""
    closed = closing(masked, opened)
    cuts = [opened] + _top_level(masked, opened + 1, closed, ";") + [closed]
    part = next((i for i in range(len(cuts) - 1) if cuts[i] < start and end <= cuts[i + 1]), None)
    if part is None:
        return None
    first, last = _trimmed(masked, cuts[part] + 1, cuts[part + 1])
    if word == "for" and len(cuts) == 2:  # for (x : values)
        colons = _top_level(masked, first, last, r" :\s")
        return _value(masked, _trimmed(masked, colons[0] + 2, last)) if colons and colons[0] < start else None
    if word == "for" and part == 2:
        return _Slot(first, last, "effect", [])
    is_condition = part == (1 if word == "for" else len(cuts) - 2)
    if not is_condition or declares(masked[first:last]):
        return _value(masked, _initialiser(masked, first, last, start))
    return _Slot(first, last, "value" if word == "switch" else "condition", [])


def _slot(masked, mutation):
    """The slot of a mutation in a function; None if none is known."""
    start, end = mutation.start, mutation.end
    element = None  # the outermost argument, or element of a list, that has the mutation
    while True:
        opened = _enclosing(masked, start)
        if opened is None:
            return None
        closed = closing(masked, opened)
        before = masked[max(0, opened - 40) : opened]
        control = re.search(r"\b(if\s+constexpr|if|for|while|switch)\s*$", before) if masked[opened] == "(" else None
        if control:
            if control.group(1).endswith("constexpr"):
                return None
            return _in_control(masked, control.group(1), opened, start, end) or _value(masked, element)
        if masked[opened] == "{" and _is_block(masked, opened):
            break
        parts = arguments_of(masked, opened)
        inside = [(a, b) for a, b in parts if a <= start and end <= b]
        if inside and re.search(r"\bCASK_ASSIGN_OR_RETURN$", before):
            return None if inside[0] == parts[0] else _value(masked, (inside[0][0], parts[-1][1]))
        if inside:
            outer = _initialiser(masked, *inside[0], start) or inside[0]
            if masked[outer[0]] != "{" and not masked[outer[0] : outer[1]].endswith("..."):
                element = outer
        start, end = opened, closed + 1
    statement = _statement_at(masked, opened, start, end)
    if statement is None:
        return None
    text = masked[statement[0] : statement[1]]
    if mutation.kind == "no error" and text.startswith("CASK_ASSIGN_OR_RETURN("):
        parts = arguments_of(masked, statement[0] + len("CASK_ASSIGN_OR_RETURN"))
        return _Slot(parts[1][0], parts[-1][1], "forced", [])
    if not _is_declaration(text):
        return _Slot(statement[0], statement[1] + 1, "statement", [])
    whole = _value(masked, _initialiser(masked, *statement, start))
    if whole is not None and mutation.start >= whole.start and mutation.end <= whole.end:
        return whole
    if element is None and len(_arguments_in(masked, mutation)) == 2:
        return _Slot(mutation.start, mutation.end, "swapped", [])
    return _value(masked, element)


def _arguments_in(masked, span):
    """The arguments of which the span consists; none if these are not its edges."""
    parts = [(a, b) for a, b in arguments_of(masked, _enclosing(masked, span.start)) if span.start <= a and b <= span.end]
    return parts if parts and (parts[0][0], parts[-1][1]) == (span.start, span.end) else []


def _constant_slot(masked, mutation):
    """The slot of a mutation outside of functions: the value of a constant."""
    end = masked.index(";", mutation.end)
    start = masked.rindex(" =", 0, mutation.start)
    span = _trimmed(masked, start + 2, end)
    if masked[span[0]] != "{":
        return _Slot(*span, "value", [])
    parts = arguments_of(masked, _enclosing(masked, mutation.start))
    inside = [(a, b) for a, b in parts if a <= mutation.start and mutation.end <= b]
    return _value(masked, inside[0]) if inside else None


# ---- constexpr --------------------------------------------------------------------------------------------------------


def _constexpr_edits(masked, bodies, slot):
    """The (start, end, text) that make what has the slot no constant; None if that cannot be done."""
    edits = []
    for match in re.finditer(r"\bconstexpr\b ?", masked):
        if match.start() > slot.start:
            break
        if re.search(r"\bif\s+$", masked[max(0, match.start() - 8) : match.start()]):
            continue
        end = _extent(masked, match.end())
        if not match.start() < slot.start < end:
            continue
        in_function = any(start <= match.start() < stop for start, stop in bodies)
        is_function = any(match.end() < start and stop <= end for start, stop in bodies)
        before = masked[max(0, match.start() - 20) : match.start()]
        if is_function:
            text = "inline "
        else:
            text = ("" if in_function or re.search(r"\binline $", before) else "inline ") + "const "
            if masked.startswith("const ", match.end()):
                text = text[: -len("const ")]
        edits.append((match.start(), match.end(), text))
    return edits


def _extent(masked, at):
    """Where the declaration ends that has `at` in its beginning."""
    while at < len(masked):
        if masked[at] == ";":
            return at
        if masked[at] in OPEN:
            end = closing(masked, at)
            if end is None:
                return len(masked)
            if masked[at] == "{" and not re.match(r"\s*[;,]", masked[end + 1 :]):
                return end
            at = end
        at += 1
    return at


# ---- All of a file ----------------------------------------------------------------------------------------------------


def place(source, wanted, is_header=False):
    """Puts the mutations {number: Mutation} into the file, as far as they fit."""
    masked = mask(source)
    bodies = function_bodies(masked)
    slots, edits, left = [], {}, []
    edits_of = {}
    for number, mutation in sorted(wanted.items()):
        inside = any(start <= mutation.start and mutation.end <= end for start, end in bodies)
        slot = (_slot if inside else _constant_slot)(masked, mutation)
        if slot is None or not _join(slots, slot, number):
            left.append(number)
            continue
        edits_of[number] = _constexpr_edits(masked, bodies, slot)
        edits.update({edit[:2]: edit for edit in edits_of[number]})
    spans = [(slot.start, slot.end, slot) for slot in slots]
    inner = {key for key in edits if any(start <= key[0] < end for start, end, _ in spans)}
    for slot in list(slots):  # a constant inside of a slot: its mutations stay out
        bad = [n for n in slot.numbers if any(edit[:2] in inner for edit in edits_of[n])]
        left += bad
        slot.numbers = [n for n in slot.numbers if n not in bad]
    slots = [slot for slot in slots if slot.numbers]
    return _rendered(source, masked, wanted, slots, edits_of, sorted(left), is_header)


def _join(slots, new, number):
    """Adds the slot of a mutation to the slots, which do not overlap. False: it meets one that it cannot be one with."""
    met = [slot for slot in slots if slot.start < new.end and new.start < slot.end]
    for slot in met:
        nested = (slot.start <= new.start and new.end <= slot.end) or (new.start <= slot.start and slot.end <= new.end)
        if not nested or {slot.form, new.form} & {"forced", "swapped"}:
            return False
    for slot in met:
        slots.remove(slot)
    outer = max([new] + met, key=lambda slot: slot.end - slot.start)
    slots.append(_Slot(outer.start, outer.end, outer.form, sorted([number] + [n for slot in met for n in slot.numbers])))
    return True


_CASTS = {"condition": "static_cast<bool>", "effect": "static_cast<void>"}


def _choice(source, masked, slot, wanted):
    """What stands in the slot, as (number, text): the text belongs to that mutation; None: to all of the slot."""
    original = source[slot.start : slot.end]
    on = f"tensorcask_mutant({slot.numbers[0]})"
    if slot.form == "forced":
        return [(None, f"tensorcask_mutant_forced({slot.numbers[0]}, {original})")]
    if slot.form == "swapped":
        a, b = (source[start:end] for start, end in _arguments_in(masked, slot))
        return [(None, f"({on} ? ({b}) : ({a})), ({on} ? ({a}) : ({b}))")]
    cast = _CASTS.get(slot.form, "")
    before, after = ("if (tensorcask_mutant({})) {{", "} else ") if slot.form == "statement" else (f"tensorcask_mutant({{}}) ? {cast}(", ") : ")
    pieces = [(None, "{ " if slot.form == "statement" else "(")]
    for number in slot.numbers:
        mutation = wanted[number]
        mutated = source[slot.start : mutation.start] + mutation.text + source[mutation.end : slot.end]
        pieces += [(None, before.format(number) + "\n"), (number, mutated), (None, "\n" + after)]
    return pieces + [(None, f"{{ {original}\n}} }}" if slot.form == "statement" else f"{cast}({original}))")]


def _rendered(source, masked, wanted, slots, edits_of, left, is_header):
    changes = [(slot.start, slot.end, _choice(source, masked, slot, wanted), slot.numbers) for slot in slots]
    used = {number for slot in slots for number in slot.numbers}
    for edit in {edit for number in used for edit in edits_of[number]}:
        changes.append((*edit[:2], [(None, edit[2])], [number for number in used if edit in edits_of[number]]))
    out = ["#pragma GCC system_header\n" * is_header + SWITCH]
    line, at = out[0].count("\n") + 1, 0
    lines, around = {}, {}
    for start, end, pieces, numbers in sorted(changes, key=lambda change: change[:2]):
        out.append(source[at:start])
        line, at = line + source.count("\n", at, start), end
        first = line
        for number, text in pieces:
            out.append(text)
            last = line + text.count("\n")
            if number is not None:
                lines[number] = [(line, last)]
            line = last
        for number in numbers:
            around.setdefault(number, []).append((first, line))
    out.append(source[at:])
    return Placed("".join(out) if around else source, lines, around, left)


# ---- What does not compile --------------------------------------------------------------------------------------------

_MESSAGE = re.compile(r"^(?:\S*_virtual_includes/[^/]+/tensorcask/)?([\w./-]+?):(\d+)(?::\d+)?: (.*)$", re.MULTILINE)


def culprits(said, placed):
    """The numbers of the mutations that the compiler's messages point at; `placed` is {path: Placed}."""
    places = {"error": [], "note": [], "": []}
    for path, line, text in _MESSAGE.findall(said):
        kind = "error" if "error:" in text else "note" if "note:" in text else ""
        places[kind].append((path, int(line)))
    for kind in ("error", "note", ""):
        inside, beside = (
            {number for path, line in places[kind] if path in placed
             for number, ranges in ranges_of(placed[path]).items() if any(first <= line <= last for first, last in ranges)}
            for ranges_of in (lambda file: file.lines, lambda file: file.around)
        )  # fmt: skip
        if inside and kind == "error":
            return inside
        if beside:
            return beside
    return set()
