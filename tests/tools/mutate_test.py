#!/usr/bin/env python3
"""Which mutations `tools/dev mutate` finds in a file and draws, and what it prints. Builds nothing."""

import contextlib
import io
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = (os.path.join(HERE, folder) for folder in ("../support", "../../scripts"))
import case_report  # noqa: E402
import mutant_judge  # noqa: E402
import mutate  # noqa: E402
import mutations  # noqa: E402

HEAD = "namespace tensorcask {\n\nint f(int a, int b) {\n"
TAIL = "\n}\n\n}  // namespace tensorcask\n"


def changes(body, kind=None):
    """What the statements of a function become, by each mutation."""
    source = HEAD + body + TAIL
    found = [x for x in mutations.find_mutations(source) if kind in (None, x.kind)]
    return [x.apply(source)[len(HEAD) : -len(TAIL)] for x in found]


class Reading(unittest.TestCase):
    def test_comments_text_and_directives_are_blanked(self):
        source = 'int x = 1;  // a < b\n#define F(x) \\\n  (x + 1)\nauto s = "a < \\"b"; /* 7\n8 */ char c = \'<\';\n'
        masked = mutations.mask(source)
        self.assertEqual(len(masked), len(source))
        self.assertEqual(masked.count("\n"), source.count("\n"))
        self.assertNotIn("<", masked)
        self.assertNotIn("define", masked)
        self.assertNotRegex(masked, "[78]")
        self.assertIn("int x = 1;", masked)

    def test_raw_text_ends_at_its_tag(self):
        masked = mutations.mask('auto a = R"(x" < y)"; auto b = R"end(x)" < y)end"; int c = 1;')
        self.assertNotIn("<", masked)
        self.assertIn("int c = 1;", masked)

    def test_separators_of_digits_are_no_text(self):
        self.assertEqual(mutations.mask("f(1'000, 0xff'ff);"), "f(1'000, 0xff'ff);")

    def test_function_bodies(self):
        source = """
namespace a::b {
constexpr int kTable[] = {1, 2};
enum class E : int { kOne = 1 };
struct S : Base<int> {
  S(int x) : a_{x}, b_(2) { g1(); }
  explicit S() : a_{1} {}
  int f() const override { return g2(); }
  std::array<int, 2> kept_{3, 4};
  int a_ = 5;
};
template <typename T, typename = std::enable_if_t<(sizeof(T) > 1)>>
class C {
 public:
  bool operator==(const C& other) const { return g3(); }
};
auto F(int x) -> int {
  if (x) { return g4(); }
  const auto inner = [] { return g5(); };
}
}  // namespace a::b
extern "C" {
int H() { return g6(); }
}
"""
        masked = mutations.mask(source)
        bodies = [masked[start:end].split() for start, end in mutations.function_bodies(masked)]
        self.assertEqual([next((word for word in body if word.startswith("g")), "") for body in bodies],
                         ["g1();", "", "g2();", "g3();", "g4();", "g6();"])  # fmt: skip


class Kinds(unittest.TestCase):
    def test_conditions_are_negated(self):
        self.assertEqual(changes("  if (Ready()) g();", "negate"), ["  if (!(Ready())) g();"])
        self.assertEqual(changes("  while (a.ok()) g();", "negate"), ["  while (!(a.ok())) g();"])
        self.assertEqual(changes("  x = a == b;", "negate"), ["  x = a != b;"])
        self.assertEqual(changes("  if (const int e = f(); !e) g();", "negate"),
                         ["  if (const int e = f(); !(!e)) g();"])  # fmt: skip
        self.assertEqual(changes("  if (const int* e = f()) g();", "negate"), [], "a declaration cannot be negated")

    def test_statements_are_dropped(self):
        for statement in ("f(1);", "a.b->c(d, [&] { g; });", "*p = x;", "a[i + 1] += 2;", "++count_;", "n--;", "break;",
                          "std::copy(a, b, c);", "x = {};", "File::Close<int>(x);"):  # fmt: skip
            self.assertIn("  {}", changes("  " + statement, "drop"), statement)
        for statement in ("int x = 1;", "const auto y = f(x);", "return f(x);", "std::lock_guard<std::mutex> lock(m);",
                          "CASK_CHECK(x, y);", "v.reserve(n);", "using a = b;", "delete p;",
                          "static_assert(x);"):  # fmt: skip
            self.assertNotIn("  {}", changes("  " + statement, "drop"), statement)

    def test_the_statement_of_a_condition_is_dropped_alone(self):
        self.assertIn("  if (x) {}", changes("  if (x) g();", "drop"))
        self.assertIn("  for (int i = a; x; ++i) {}", changes("  for (int i = a; x; ++i) g();", "drop"))
        self.assertIn("  if (x) {\n    g();\n  } else {}", changes("  if (x) {\n    g();\n  } else h();", "drop"))
        self.assertIn("  switch (x) {\n    case E::kA: {}\n  }",
                      changes("  switch (x) {\n    case E::kA: g();\n  }", "drop"))  # fmt: skip

    def test_a_statement_of_many_lines_goes_whole(self):
        self.assertIn("  {}\n  h();", changes("  g(a,\n    b);\n  h();", "drop"))

    def test_comparisons_and_numbers_are_off_by_one(self):
        self.assertEqual(changes("  x = a < b;", "off by one"), ["  x = a <= b;"])
        self.assertEqual(changes("  x = a >= b;", "off by one"), ["  x = a > b;"])
        self.assertEqual(changes("  g(7);", "off by one"), ["  g(6);", "  g(8);"])
        self.assertEqual(changes("  g(0);", "off by one"), ["  g(1);"])
        self.assertEqual(changes("  g(0x0fu);", "off by one"), ["  g(0x10u);", "  g(0xeu);"])
        self.assertEqual(changes("  g(1'000);", "off by one"), ["  g(1001);", "  g(999);"])
        self.assertEqual(changes("  g(1.5, x2, 0.25f, 1e3);", "off by one"), [], "no integers")
        self.assertEqual(changes("  std::vector<int> y; std::array<int, 4> z;", "off by one"), [])

    def test_operands_are_exchanged(self):
        self.assertEqual(changes("  x = a - b->c(d);", "exchange"), ["  x = b->c(d) - a;"])
        self.assertEqual(changes("  x = f(y)[2] / n;", "exchange"), ["  x = n / f(y)[2];"])
        self.assertEqual(changes("  x = a && b == c;", "exchange"), ["  x = (a || b == c);"])
        self.assertEqual(changes("  if (a || b(c && d)) g();", "exchange"),
                         ["  if ((a && b(c && d))) g();", "  if (a || b((c || d))) g();"])  # fmt: skip
        self.assertEqual(changes("  g(first, second, third);", "exchange"),
                         ["  g(second, first, third);", "  g(first, third, second);"])  # fmt: skip
        self.assertEqual(changes("  x = std::min(a, b);", "exchange"), [], "the order does not matter")

    def test_errors_are_passed_over(self):
        self.assertEqual(changes("  if (a > b) return Error(a);", "no error"),
                         ["  if (false && (a > b)) return Error(a);"])  # fmt: skip
        self.assertEqual(changes("  if (a) {\n    return Error(a);\n  }", "no error"),
                         ["  if (false && (a)) {\n    return Error(a);\n  }"])  # fmt: skip
        self.assertEqual(changes("  CASK_RETURN_IF_ERROR(g(a));", "no error"), ["  static_cast<void>(g(a));"])
        self.assertEqual(changes("  CASK_ASSIGN_OR_RETURN(const int x, g(a));", "no error"), ["  const int x = *(g(a));"])
        self.assertEqual(changes("  if (a) return 7;", "no error"), [])
        self.assertIn("  if (false && (a)) return 7;", changes("  if (a) return 7;", "drop"))

    def test_messages_checks_and_declarations_are_left_alone(self):
        self.assertEqual(changes('  return absl::DataLossError(absl::StrCat(a - b, " of ", 7));'), [])
        self.assertEqual(changes('  CASK_CHECK(a < b, "x");'), [])
        self.assertEqual(changes("  static_assert(sizeof(int) == 4);"), [])
        source = "#include <a>\nclass A {\n  int x_ = 1;\n  void f(int a = 2);\n};\nenum B { kC = 3 };\n// 4\n"
        self.assertEqual(mutations.find_mutations(source), [])

    def test_constants_outside_of_functions_are_off_by_one(self):
        source = "constexpr int kA = 5;\nstatic constexpr size_t kB = size_t{1} << 20;\n"
        found = [x.apply(source).splitlines()[x.line - 1] for x in mutations.find_mutations(source)]
        self.assertEqual(found, ["constexpr int kA = 4;", "constexpr int kA = 6;"]
                         + [f"static constexpr size_t kB = size_t{{{n}}} << {m}" + ";"
                            for n, m in ((0, 20), (2, 20), (1, 19), (1, 21))])  # fmt: skip

    def test_every_mutation_changes_its_line_and_keeps_the_brackets(self):
        source = HEAD + "  if (a < b || !f(a, b)) return Error(b);\n  g(h[1] - 2,\n    a);\n" + TAIL
        found = mutations.find_mutations(source)
        self.assertEqual({x.kind for x in found}, set(mutations.KINDS))
        for mutation in found:
            mutated = mutation.apply(source)
            differs = mutations.difference(source, mutated)
            self.assertTrue(differs, mutation)
            self.assertEqual(differs[0], "-" + source.splitlines()[mutation.line - 1].strip())
            for pair in ("()", "{}", "[]"):
                self.assertEqual(mutated.count(pair[0]), mutated.count(pair[1]), mutated)


class Drawing(unittest.TestCase):
    SOURCES = {"tensor/a.cc": HEAD + "  g(1);\n  h(a < b);" + TAIL, "serialize/b.cc": HEAD + "  x = a - b;" + TAIL}

    def test_a_seed_gives_the_same_draws_and_none_twice(self):
        first = list(mutate.draw(self.SOURCES, "7"))
        self.assertEqual(first, list(mutate.draw(dict(reversed(self.SOURCES.items())), 7)))
        self.assertEqual(len(first), len(set(first)))
        everything = {(path, x) for path in self.SOURCES for x in mutations.find_mutations(self.SOURCES[path])}
        self.assertEqual(set(first), everything)
        self.assertNotEqual(first, list(mutate.draw(self.SOURCES, "8")))

    def test_lines_are_equally_likely(self):
        firsts = [next(mutate.draw(self.SOURCES, seed)) for seed in range(300)]
        places = [(path, mutation.line) for path, mutation in firsts]
        for place in set(places):
            self.assertGreater(places.count(place), 60)
        self.assertEqual(len(set(places)), 3)

    def test_only_production_code_of_this_processor(self):
        flags = {"avx2"}
        for path in ("tensor/shape.cc", "tensor/base/crc32c.h", "serialize/wire/message/x.h", "tools/ls.cc",
                     "tensor/strided/internal/copy_kernels_avx2.cc"):  # fmt: skip
            self.assertTrue(mutate.is_production(path, flags), path)
        for path in ("tests/tensor/shape_test.cc", "tools/dev", "scripts/fuzz.py", "tensor/BUILD.bazel", "examples/a.cc",
                     "tensor/strided/internal/copy_kernels_avx512.cc"):  # fmt: skip
            self.assertFalse(mutate.is_production(path, flags), path)
        self.assertFalse(mutate.is_production("serialize/payload/codec/planes_x86.cc", set()))

    def test_the_room_of_a_file(self):
        folders = {"tests/tensor", "tests/tensor/base", "tests/serialize/checkpoint", "tests/tools"}
        for path, pattern in {
            "tensor/shape.cc": "^tests/tensor$",
            "tensor/internal/shape_rep.cc": "^tests/tensor$",
            "tensor/base/crc32c.cc": "^tests/tensor/base(/|$)",
            "serialize/checkpoint/read/x.cc": "^tests/serialize/checkpoint(/|$)",
            "tools/ls.cc": "^tests/tools(/|$)",
            "elsewhere/x.cc": "^tests",
        }.items():
            self.assertEqual(mutate.tests_of(path, folders.__contains__), pattern)


class Equivalents(unittest.TestCase):
    def test_parse(self):
        text = "# about\n\na.cc\n-  x = 1;\n+  x = 2;\n  Both are\n  the same.\n\nb.cc\n- f();\n+ {}\n  A hint.\n"
        self.assertEqual(mutate.parse_equivalents(text), {
            ("a.cc", ("-x = 1;", "+x = 2;")): "Both are the same.",
            ("b.cc", ("-f();", "+{}")): "A hint.",
        })  # fmt: skip
        self.assertEqual(mutate.parse_equivalents("# nothing\n"), {})

    def test_each_has_a_reason(self):
        with self.assertRaisesRegex(ValueError, "line 4: a.cc has no reason"):
            mutate.parse_equivalents("a.cc\n- x\n+ y\n")
        with self.assertRaisesRegex(ValueError, "a.cc has no difference"):
            mutate.parse_equivalents("a.cc\n  for no reason\n")

    def test_the_file_of_the_tree_parses(self):
        with open(os.path.join(HERE, "..", "mutation_equivalents.txt"), encoding="utf-8") as file:
            known = mutate.parse_equivalents(file.read())
        for path, differs in known:
            self.assertTrue(any(line.startswith("-") for line in differs), path)


class Printing(unittest.TestCase):
    @staticmethod
    def record(result, line=1):
        return {"number": line, "path": "a.cc", "line": line, "kind": "drop", "difference": ["-f();", "+{}"], "result": result, "by": "",
                "seconds": 1, "alone": False}  # fmt: skip

    def test_summary(self):
        results = ["noticed"] * 3 + ["survived", "equivalent", "does not compile"]
        records = [self.record(result, line) for line, result in enumerate(results)]
        self.assertEqual(mutate.summary(records), [
            "",
            "noticed 3, survived 1, does not compile 1, same program 0, equivalent 1, too slow 0",
            "75.0 % of 4 noticed",
            "",
            "a.cc:3: drop (number 3)",
            "    -f();",
            "    +{}",
        ])  # fmt: skip
        self.assertEqual(len(mutate.summary([])), 2)

    def test_a_log_that_was_cut_is_read_as_far_as_it_goes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log")
            log = mutate.Log(path)
            self.assertEqual(log.records, {})
            for number, result in enumerate(("noticed", "survived", "does not compile")):
                log.add({**self.record(result), "number": number})
            log.add({**self.record("equivalent"), "number": 1})
            with open(path, "a", encoding="utf-8") as file:
                file.write('{"path": "a')
            again = mutate.Log(path)
            self.assertEqual(again.records, log.records)
            self.assertEqual([again.records[i]["result"] for i in range(3)], ["noticed", "equivalent", "does not compile"])
            again.add({**self.record("survived"), "number": 3})
            self.assertEqual(mutate.Log(path).records, again.records)
            self.assertEqual(len(again.records), 4)

    def test_survivors_are_asked_for_again_when_the_tests_changed(self):
        known = {("a.cc", ("-f();", "+{}")): "a reason"}
        for result, same, changed, listed in (
            ("noticed", True, True, True),
            ("does not compile", True, True, True),
            ("survived", True, False, False),
            ("equivalent", False, False, True),
        ):
            record = {**self.record(result), "tests": "0a"}
            self.assertEqual(mutate.is_settled(record, "0a", {}), same, result)
            self.assertEqual(mutate.is_settled(record, "0b", {}), changed, result)
            self.assertEqual(mutate.is_settled(record, "0a", known), listed, result)

    def test_arguments(self):
        options = mutate.parse_arguments(["300", "20261122"])
        self.assertEqual((options.n, options.seed), (300, "20261122"))
        self.assertRegex(mutate.parse_arguments([]).seed, r"^20\d{6}$")
        self.assertEqual(mutate.parse_arguments(["--files", "a/*", "--files", "b.cc"]).files, ["a/*", "b.cc"])


class FakeWorkspace:
    """A workspace whose builds fail as long as the copy has one of the lines `bad`."""

    def __init__(self, bad=(), changed=()):
        self.bad, self.changed, self.tree, self.built = bad, changed, {}, []

    def write(self, tree, _root):
        self.tree = tree

    def build(self, targets, quiet=(), _limit=None, _options=()):
        self.built.append((tuple(targets), tuple(quiet)))
        for path, content in self.tree.items():
            for number, line in enumerate(content.decode().splitlines(), 1):
                if line.strip() in self.bad:
                    return False, f"{path}:{number}:1: error: no\n"
        return True, ""

    def programs(self, _targets):
        return [mutant_judge.Program(f"//tests/tensor:{name}", name) for name in ("a_test", "b_test")]

    def signature(self, program):
        return program.label in self.changed and self.tree


class FakeRunner:
    """`reached` {program: numbers}; `noticed` {number: program}, with None for the mutation that is built alone."""

    def __init__(self, reached, noticed):
        self.reached, self.noticed, self.asked, self.is_stopped = reached, noticed, [], False

    def record(self, programs):
        for program in programs:
            program.reached = frozenset(self.reached.get(program.executable, ()))
        return []

    def notices(self, program, number=None):
        self.asked.append((number, program.executable))
        return self.noticed.get(number) == program.executable


class Running(unittest.TestCase):
    SOURCE = HEAD + "  g(h);\n  k(i);\n  switch (x) {\n    case 7: return;\n  }" + TAIL
    DRAWN = {number: mutation for number, mutation in enumerate(mutations.find_mutations(SOURCE))}  # 2: case 6; 3: case 8

    def results(self, workspace, runner, path="tensor/a.cc", equivalents=b""):
        tree = {path: self.SOURCE.encode(), mutate.EQUIVALENTS: equivalents}
        drawn = {number: (path, mutation) for number, mutation in self.DRAWN.items()}
        with tempfile.TemporaryDirectory() as home:
            run = mutate.Run(mutate.parse_arguments(["--jobs", "1"]), tree, drawn, mutate.Log(os.path.join(home, "log")), home)
            run.workspace, run.runner = workspace, runner
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                run.run()
            self.assertEqual(run.open(), [])
            asked = list(runner.asked)
            again = mutate.Run(run.options, tree, drawn, mutate.Log(os.path.join(home, "log")), home)
            again.workspace, again.runner = None, None
            with contextlib.redirect_stdout(io.StringIO()):
                again.run()  # asks nothing again
            self.assertEqual(runner.asked, asked)
            return {number: (record["result"], record["by"]) for number, record in sorted(run.log.records.items())}

    def test_each_mutation_meets_the_programs_that_reach_it(self):
        runner = FakeRunner({"a_test": {0, 1}, "b_test": {0}}, {0: "b_test"})
        workspace = FakeWorkspace()
        self.assertEqual(self.results(workspace, runner), {
            0: ("noticed", "//tests/tensor:b_test"),
            1: ("survived", ""),
            2: ("same program", ""),
            3: ("same program", ""),
        })  # fmt: skip
        self.assertEqual(runner.asked, [(0, "a_test"), (0, "b_test"), (1, "a_test")])
        self.assertEqual(workspace.built[0], (("//...",), ("tensor/a.cc",)))

    def test_a_mutation_that_nothing_reaches_survives(self):
        runner = FakeRunner({"a_test": {0}}, {0: "a_test"})
        self.assertEqual(self.results(FakeWorkspace(), runner)[1], ("survived", "not reached"))

    def test_what_fits_no_switch_is_built_alone(self):
        runner = FakeRunner({"a_test": {0, 1}}, {0: "a_test", 1: "a_test", None: "b_test"})
        workspace = FakeWorkspace(bad=("case 6: return;",), changed=("//tests/tensor:b_test",))
        self.assertEqual(self.results(workspace, runner), {
            0: ("noticed", "//tests/tensor:a_test"),
            1: ("noticed", "//tests/tensor:a_test"),
            2: ("does not compile", ""),
            3: ("noticed", "//tests/tensor:b_test"),
        })  # fmt: skip

    def test_what_does_not_compile_behind_a_switch_is_built_alone(self):
        runner = FakeRunner({"a_test": {0, 1}}, {0: "a_test", None: "b_test"})
        workspace = FakeWorkspace(bad=("} else { k(i);",), changed=("//tests/tensor:b_test",))
        results = self.results(workspace, runner)
        self.assertEqual(results[0], ("noticed", "//tests/tensor:a_test"))
        self.assertEqual(results[1], ("noticed", "//tests/tensor:b_test"))

    def test_equivalents_are_not_run(self):
        runner = FakeRunner({"a_test": {0, 1}}, {1: "a_test"})
        known = b"tensor/a.cc\n-g(h);\n+{}\n  A reason.\n"
        self.assertEqual(self.results(FakeWorkspace(), runner, equivalents=known)[0], ("equivalent", ""))
        self.assertNotIn(0, [number for number, _ in runner.asked])


if __name__ == "__main__":
    case_report.main("mutate")
