#!/usr/bin/env python3
"""How `tools/dev mutate` puts mutations behind switches: the text, a program that is built from it, errors."""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = (os.path.join(HERE, folder) for folder in ("../support", "../../scripts"))
import case_report  # noqa: E402
import mutant_schemata  # noqa: E402
import mutations  # noqa: E402

HEAD = "namespace tensorcask {\n\nint f(int a, int b) {\n"
TAIL = "\n}\n\n}  // namespace tensorcask\n"


def placed_of(source, **choice):
    """The file with all its mutations, or those whose kind, or whose text, is `choice`."""
    found = [m for m in mutations.find_mutations(source) if all(getattr(m, name) == choice[name] for name in choice)]
    return mutant_schemata.place(source, dict(enumerate(found)))


def behind_switch(body, **choice):
    """What a function's statements become, on one line; "": nothing fits a switch."""
    source = HEAD + body + TAIL
    placed = placed_of(source, **choice)
    if placed.text == source:
        return ""
    before, after = mutant_schemata.SWITCH + HEAD, TAIL
    assert placed.text.startswith(before) and placed.text.endswith(after), placed.text
    return " ".join(placed.text[len(before) : -len(after)].split())


def on(number, mutated, original):
    return f"{{ if (tensorcask_mutant({number})) {{ {mutated} }} else {{ {original} }} }}"


def value(number, mutated, original, cast=""):
    return f"(tensorcask_mutant({number}) ? {cast}( {mutated} ) : {cast}({original}))"


def condition(number, mutated, original):
    return value(number, mutated, original, "static_cast<bool>")


class Text(unittest.TestCase):
    def test_statements(self):
        self.assertEqual(behind_switch("  g(h);"), on(0, "{}", "g(h);"))
        self.assertEqual(behind_switch("  if (x) g(h); else k(i);", kind="drop"),
                         f"if (x) {on(0, '{}', 'g(h);')} else {on(1, '{}', 'k(i);')}")  # fmt: skip
        self.assertEqual(behind_switch("  return g(a - b);"), on(0, "return g(b - a);", "return g(a - b);"))
        self.assertEqual(behind_switch("  for (x : y) { k += h(a, b); }", kind="exchange"),
                         f"for (x : y) {{ {on(0, 'k += h(b, a);', 'k += h(a, b);')} }}")  # fmt: skip
        self.assertEqual(behind_switch("  switch (x) {\n    case E::kA: g(h);\n    default: break;\n  }"),
                         f"switch (x) {{ case E::kA: {on(0, '{}', 'g(h);')} default: {on(1, '{}', 'break;')} }}")  # fmt: skip
        self.assertEqual(behind_switch("  CASK_RETURN_IF_ERROR(g(h));"),
                         on(0, "static_cast<void>(g(h));", "CASK_RETURN_IF_ERROR(g(h));"))  # fmt: skip

    def test_declarations(self):
        self.assertEqual(behind_switch("  const int x = g(a - b);"), f"const int x = {value(0, 'g(b - a)', 'g(a - b)')};")
        self.assertEqual(behind_switch("  const bool x =\n      a == b;"), f"const bool x = {value(0, 'a != b', 'a == b')};")
        self.assertEqual(behind_switch("  T x(h(a - b), c);", text="b - a"), f"T x({value(0, 'h(b - a)', 'h(a - b)')}, c);")
        self.assertEqual(behind_switch("  T x{{c, a - b}};"), f"T x{{{{c, {value(0, 'b - a', 'a - b')}}}}};")
        self.assertEqual(behind_switch("  T x(a, b);"),
                         "T x((tensorcask_mutant(0) ? (b) : (a)), (tensorcask_mutant(0) ? (a) : (b)));")  # fmt: skip
        self.assertEqual(behind_switch("  constexpr int x = a - b;"), f"const int x = {value(0, 'b - a', 'a - b')};")
        self.assertEqual(behind_switch("  CASK_ASSIGN_OR_RETURN(const T x, g(h));", kind="no error"),
                         "CASK_ASSIGN_OR_RETURN(const T x, tensorcask_mutant_forced(0, g(h)));")  # fmt: skip
        self.assertEqual(behind_switch("  CASK_ASSIGN_OR_RETURN(const T x, g(a - b));", text="b - a"),
                         f"CASK_ASSIGN_OR_RETURN(const T x, {value(0, 'g(b - a)', 'g(a - b)')});")  # fmt: skip

    def test_conditions(self):
        self.assertEqual(behind_switch("  if (x) return;", kind="negate"), f"if ({condition(0, '!(x)', 'x')}) return;")
        self.assertEqual(behind_switch("  if (const int e = f(); e == h) return;", text="!="),
                         f"if (const int e = f(); {condition(0, 'e != h', 'e == h')}) return;")  # fmt: skip
        self.assertEqual(behind_switch("  if (const int e = a - b; e) return;", text="b - a"),
                         f"if (const int e = {value(0, 'b - a', 'a - b')}; e) return;")  # fmt: skip
        self.assertEqual(behind_switch("  if (T* e = f(a - b)) return;"),
                         f"if (T* e = {value(0, 'f(b - a)', 'f(a - b)')}) return;")  # fmt: skip
        self.assertEqual(behind_switch("  for (int i = a; i < b; i += c) ++i;", text="<="),
                         f"for (int i = a; {condition(0, 'i <= b', 'i < b')}; i += c) ++i;")  # fmt: skip
        self.assertEqual(behind_switch("  for (int i = a; i != b; i += 7) ++i;", text="8"),
                         f"for (int i = a; i != b; {value(0, 'i += 8', 'i += 7', 'static_cast<void>')}) ++i;")  # fmt: skip
        self.assertEqual(behind_switch("  for (int i = 7; i != b; ++i) ++j;", text="8"),
                         f"for (int i = {value(0, '8', '7')}; i != b; ++i) ++j;")  # fmt: skip
        self.assertEqual(behind_switch("  for (int i : g(a - b)) ++j;", text="b - a"),
                         f"for (int i : {value(0, 'g(b - a)', 'g(a - b)')}) ++j;")  # fmt: skip
        self.assertEqual(behind_switch("  switch (x % y) { case 1: return 2; }", text="y % x"),
                         f"switch ({value(0, 'y % x', 'x % y')}) {{ case 1: return 2; }}")  # fmt: skip

    def test_code_inside_of_values(self):
        self.assertEqual(behind_switch("  const auto x = [&] { g(h); };", kind="drop"),
                         f"const auto x = [&] {{ {on(0, '{}', 'g(h);')} }};")  # fmt: skip
        self.assertEqual(behind_switch("  Each(x, [&](int i) {\n    if (i) {\n      return i + 7;\n    }\n  });", text="8"),
                         f"Each(x, [&](int i) {{ if (i) {{ {on(0, 'return i + 8;', 'return i + 7;')} }} }});")  # fmt: skip
        self.assertEqual(behind_switch("  for (int i : {c, a - b}) {\n  }", text="b - a"),
                         f"for (int i : {{c, {value(0, 'b - a', 'a - b')}}}) {{ }}")  # fmt: skip

    def test_what_the_compiler_needs_fits_no_switch(self):
        for body in ("  if constexpr (x == y) return;", "  switch (x) {\n    case 7: return;\n  }"):
            source = HEAD + body + TAIL
            placed = placed_of(source)
            self.assertEqual(placed.text, source)
            self.assertEqual(placed.left, list(range(len(mutations.find_mutations(source)))))
            self.assertTrue(placed.left)

    def test_mutations_of_the_same_text_share_a_place(self):
        self.assertEqual(
            behind_switch("  if (h == k) return 7;"),
            "if ((tensorcask_mutant(0) ? static_cast<bool>( !(h == k) ) : tensorcask_mutant(1) ? static_cast<bool>( "
            "false && (h == k) ) : tensorcask_mutant(2) ? static_cast<bool>( h != k ) : static_cast<bool>(h == k))) "
            "{ if (tensorcask_mutant(3)) { return 6; } else if (tensorcask_mutant(4)) { return 8; } else { return 7; } }",
        )

    def test_constants_become_variables(self):
        def whole(source):
            return " ".join(placed_of(source, text="8").text[len(mutant_schemata.SWITCH) :].split())

        self.assertEqual(whole("constexpr int kA = 7;\n"), f"inline const int kA = {value(0, '8', '7')};")
        self.assertEqual(whole("inline constexpr const char* kA = g(7);\n"),
                         f"inline const char* kA = {value(0, 'g(8)', 'g(7)')};")  # fmt: skip
        self.assertEqual(whole("class C {\n  static constexpr int kA = 7;\n};\n"),
                         f"class C {{ static inline const int kA = {value(0, '8', '7')}; }};")  # fmt: skip
        self.assertEqual(whole("constexpr int kB = 2;\nconstexpr int F(int x) {\n  return x + 7;\n}\nconstexpr int kC = 1;\n"),
                         f"constexpr int kB = 2; inline int F(int x) {{ {on(0, 'return x + 8;', 'return x + 7;')} }} "
                         "constexpr int kC = 1;")  # fmt: skip

    def test_a_file_without_mutations_stays(self):
        placed = mutant_schemata.place("int x;\n", {})
        self.assertEqual((placed.text, placed.around, placed.left), ("int x;\n", {}, []))


PROGRAM = """
#include <cstdio>
#include <optional>
#include <unistd.h>

namespace {
constexpr int kStep = 7;

constexpr int Half(int x) {
  return x / 2;
}
int Count(int n) {
  int total = 0;
  for (int i = 0; i < n; ++i) {
    total += kStep;
  }
  return total;
}
void Never(int x) {
  std::printf("never %d", x);
}
}  // namespace

int main(int argc, char** argv) {
  if (argc > 7) {
    Never(argc);
  }
  std::printf("%d %d", Count(3), Half(9));
  std::fflush(stdout);
  _exit(0);
}
"""


class Program(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found = mutations.find_mutations(PROGRAM)
        cls.folder = tempfile.TemporaryDirectory()
        cls.placed = mutant_schemata.place(PROGRAM, dict(enumerate(cls.found)))
        source = os.path.join(cls.folder.name, "program.cc")
        with open(source, "w", encoding="utf-8") as file:
            file.write(cls.placed.text)
        cls.program = os.path.join(cls.folder.name, "program")
        subprocess.run(["g++", "-std=c++17", "-w", "-o", cls.program, source], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def said(self, **variables):
        outside = {name: value for name, value in os.environ.items() if not name.startswith("TENSORCASK_MUTANT")}
        done = subprocess.run([self.program], env={**outside, **variables}, stdout=subprocess.PIPE, check=False)
        return done.stdout.decode()

    def number_of(self, line, text):
        lines = PROGRAM.splitlines()
        return next(i for i, m in enumerate(self.found) if lines[m.line - 1].strip() == line and m.text == text)

    def test_all_fit(self):
        self.assertEqual(self.placed.left, [])
        self.assertEqual(sorted(self.placed.around), list(range(len(self.found))))

    def test_without_a_mutation_nothing_changes(self):
        self.assertEqual(self.said(), "21 4")
        self.assertEqual(self.said(TENSORCASK_MUTANT="-1"), "21 4")
        self.assertEqual(self.said(TENSORCASK_MUTANT=str(len(self.found))), "21 4")

    def test_one_mutation_is_on(self):
        for line, text, said in (
            ("for (int i = 0; i < n; ++i) {", "<=", "28 4"),
            ("for (int i = 0; i < n; ++i) {", "1", "14 4"),
            ("total += kStep;", "{}", "0 4"),
            ("return x / 2;", "3", "21 3"),
            ("constexpr int kStep = 7;", "8", "24 4"),
            ("if (argc > 7) {", "!(argc > 7)", "never 121 4"),
        ):
            self.assertEqual(self.said(TENSORCASK_MUTANT=str(self.number_of(line, text))), said, text)

    def test_reached_mutations_are_recorded_even_if_the_program_ends_at_once(self):
        path = os.path.join(self.folder.name, "reached")
        with open(path, "wb") as file:
            file.truncate(mutant_schemata.MUTANTS)
        self.assertEqual(self.said(TENSORCASK_MUTANTS_REACHED=path), "21 4")
        with open(path, "rb") as file:
            reached = {i for i, byte in enumerate(file.read()) if byte}
        unreached = {i for i, m in enumerate(self.found) if PROGRAM.splitlines()[m.line - 1].strip().startswith(("std::printf(\"never", "Never(argc)"))}  # fmt: skip
        self.assertTrue(unreached)
        self.assertEqual(reached, set(range(len(self.found))) - unreached)

    def test_a_missing_file_for_the_record_does_no_harm(self):
        self.assertEqual(self.said(TENSORCASK_MUTANTS_REACHED="/nonexistent/file"), "21 4")


class Errors(unittest.TestCase):
    def test_the_line_of_an_error_names_the_mutation(self):
        source = HEAD + "  g(h);\n  if (x) k(a, b);" + TAIL
        placed = placed_of(source)
        for number, ranges in placed.lines.items():
            for path in ("tensor/a.cc", "bazel-out/k8-opt/bin/tensor/_virtual_includes/a/tensorcask/tensor/a.cc"):
                said = f"{path}:{ranges[0][0]}:7: error: no\n"
                self.assertEqual(mutant_schemata.culprits(said, {"tensor/a.cc": placed}), {number})
        self.assertEqual(mutant_schemata.culprits("tensor/a.cc:1:7: error: no\n", {"tensor/a.cc": placed}), set())
        self.assertEqual(mutant_schemata.culprits("tensor/b.cc:60:7: error: no\n", {"tensor/a.cc": placed}), set())

    def test_errors_count_more_than_notes(self):
        placed = placed_of(HEAD + "  g(h);\n  k(i);" + TAIL)
        (first, _), (second, _) = placed.lines[0][0], placed.lines[1][0]
        said = f"a.cc:{first}:1: note: here\na.cc:{second}:1: error: no\n"
        self.assertEqual(mutant_schemata.culprits(said, {"a.cc": placed}), {1})
        said = f"a.cc:{first}:1: note: here\nb.cc:{second}:1: error: no\n"
        self.assertEqual(mutant_schemata.culprits(said, {"a.cc": placed}), {0})

    def test_what_is_no_longer_constant_is_blamed_for_its_uses(self):
        placed = placed_of("constexpr int F(int x) {\n  return x + 7;\n}\nstatic_assert(F(1) == 8);\n", text="8")
        line = mutant_schemata.SWITCH.count("\n") + 1
        said = f"a.cc:{line + 99}:1: error: call to non-constexpr function\na.cc:{line}:8: note: declared here\n"
        self.assertEqual(mutant_schemata.culprits(said, {"a.cc": placed}), {0})


if __name__ == "__main__":
    case_report.main("mutant_schemata")
