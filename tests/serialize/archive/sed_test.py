#!/usr/bin/env python3
"""The rules of --rename do what the program sed does: random rules and names, and a table, against `sed -E`."""

import os
import random
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import case_report  # noqa: E402

PROGRAM = os.path.abspath("tests/serialize/archive/apply_sed_rules")
NAMES = [
    "", "a", "b", "ab", "abc", "abcabc", "aab", "a.b", "a/b", "a\nb", "c0a1", "aaaa", "bbbb", "abab", "A_b", "a b",
    "cab.b0", "0", "..", "aabbcc", "ba", "\\a-[{", "a]b-", "model.layers.10.weight", "model.layers.1.bias",
]  # fmt: skip
TABLE = [
    r"s/^model\.//", r"s,/,.,g", r"s|a/b|x|", r"s/(.*)\.weight$/\1.w/", r"s/layers\.([0-9]+)/h.\1.&/", r"s/x*/-/g",
    r"s/a*/-/2", r"s/b*/-/2g", r"s/\<a/x/", r"s/a\|b/x/", r"s/[[:alpha:]]+/<&>/g", r"s/A/x/gI", r"s/[^a-c]/_/gi",
    r"s/(a|b)+/[\1]/g", r"s/(weight|bias)$/param_\1/", r"s/\./\n/", r"s_a\_b_x_", r"s/[/]/x/", r"s/$/.x/", r"s/^/y\/&/",
    r"s!a!\!!", r"s:b:\:\&&:", r"s#(a)(b)?#\2\1#g", r"s/()/x/", r"s/a||b/x/g", r"s/a{,2}/x/g", r"s/a+?b/x/", r"s/]/x/",
    r"s/*/x/", r"s/a{/x/", r"s/(a/x/", r"s/a)/x/", r"s/[a/x/", r"s/a/x/0", r"s/a/x/gg", r"s/a/x", r"s/[z-a]/x/",
    r"s/[[:foo:]]/x/", r"s/(a)/\2/", r"s/a/x/q", r"s/\//::/", r"s/[]^\n-]/x/g", r"s/[\n]/x/", r"s/a\tb/x/", r"s/a.b/x/",
]  # fmt: skip
# What sed has and the rules have not: refused, never taken for something else.
REFUSED = {
    r"s/\<a/x/": r"\b is the boundary of a word", r"s/a\>/x/": r"\b is the boundary of a word",
    r"s/(a)\1/x/": "in the new text alone", r"s/a/\U&/": "upper and lower case", r"s/a/\l&/": "upper and lower case",
    r"s/a/\x41/": "not supported: a backslash", r"s/\x41/b/": "not supported: a backslash", r"s/[\d]/b/": "in brackets",
    r"s/[[=a=]]/b/": "in brackets", r"s/[[.a.]]/b/": "in brackets", r"s/a/\q/": "not supported: a backslash",
    r"s/\d/b/": "not supported: a backslash", r"s/a/b/p": "as a flag", r"s/a/b/e": "as a flag", r"s/a/b/M": "as a flag",
    r"s/a/b/w x": "as a flag", r"s|a\|b|x|": "another delimiter|no other meaning", r"s/a{1001}/b/": "1000 repetitions",
    r"s//b/": "is empty", r"s/(a*)*/\1/": "inside a part that is repeated", r"s/((a)|b)+/\2/": "that is repeated",
    r"s/[é]/e/": "only characters of ASCII", r"s/é/e/I": "only the letters of ASCII", r"s/^*/x/": "cannot be repeated",
}  # fmt: skip


class Rules:
    """Random rules without what versions of sed do in different ways: \\B, and anchors inside an expression."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def atom(self, depth):
        kind = self.rng.random()
        if kind < 0.5:
            return self.rng.choice(["a", "b", "c", "."])
        if kind < 0.6:
            return self.rng.choice(["[ab]", "[^a]", "[[:digit:]]", "[a-c0]", "[]a]", "[^]b]", "[a-]", "[\\n.]", "[.]"])
        if kind < 0.66:
            return self.rng.choice([r"\.", r"\w", r"\W", r"\s", r"\S", r"\n", r"\/", r"\\", r"\-", r"\[", r"\{"])
        return f"({self.regex(depth + 1)})" if depth < 3 else self.rng.choice("abc0")

    def piece(self, depth):
        sign = self.rng.choice(["*", "+", "?", "{2}", "{1,2}", "{,2}", "{2,}", "{0,1}"])
        return self.atom(depth) + (sign if self.rng.random() < 0.35 else "")

    def regex(self, depth=0):
        count = self.rng.choice([1, 1, 1, 2, 3] if depth else [1, 1, 1, 1, 2])
        return "|".join("".join(self.piece(depth) for _ in range(self.rng.randint(1, 4))) for _ in range(count))

    def rule(self):
        regex = self.regex()
        groups = ["\\" + str(i + 1) for i in range(min(regex.count("("), 9))]
        texts = ["x", "[&]", "-", r"\n", r"\&", ".", r"\/", "<"] + groups * 3
        text = "".join(self.rng.choice(texts) for _ in range(self.rng.randint(0, 4)))
        anchored = self.rng.choice(["", "", "", "^"]) + (f"({regex})" if "|" in regex else regex)
        return f"s/{anchored}{self.rng.choice(['', '', '', '$'])}/{text}/" + self.rng.choice(
            ["", "g", "2", "2g", "I", "gI", "3"]
        )


def ours(rules, names):
    pairs = "".join(f"{rule}\0{name}\0" for rule in rules for name in names)
    done = subprocess.run([PROGRAM], input=pairs.encode(), stdout=subprocess.PIPE, check=True)
    answers = done.stdout.decode().split("\0")[:-1]
    return [answers[i * len(names) : (i + 1) * len(names)] for i in range(len(rules))]


def theirs(rule, names):
    """The results of sed; None if it refuses the rule."""
    done = subprocess.run(
        ["sed", "-z", "-E", rule], input="".join(name + "\0" for name in names).encode(), check=False,
        env=dict(os.environ, LC_ALL="C"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return None if done.returncode else done.stdout.decode().split("\0")[:-1]


@unittest.skipUnless(shutil.which("sed"), "needs the program sed")
class AsSed(unittest.TestCase):
    def compare(self, rules):
        """Returns how many rules both took, and how many sed alone took."""
        taken = refused = 0
        for rule, mine in zip(rules, ours(rules, NAMES), strict=True):
            wanted = theirs(rule, NAMES)
            if mine[0][0] == "!":
                refused += wanted is not None
                continue
            self.assertIsNotNone(wanted, f"sed refuses {rule}")
            taken += 1
            for name, text, answer in zip(NAMES, wanted, mine, strict=True):
                if answer[0] != "?":  # ambiguous
                    self.assertEqual(answer, "=" + text, f"{rule} of {name!r}")
        return taken, refused

    def test_random_rules(self):
        rules = Rules(1)
        taken, refused = self.compare([rules.rule() for _ in range(400)])
        self.assertGreater(taken, 250)
        self.assertLess(refused, 60)

    def test_table(self):
        taken, _ = self.compare(TABLE)
        self.assertGreater(taken, 28)

    def test_what_is_refused(self):
        for (rule, says), answers in zip(REFUSED.items(), ours(REFUSED, ["a"]), strict=True):
            with self.subTest(rule):
                self.assertEqual(answers[0][0], "!", answers)
                self.assertRegex(answers[0], "|".join(part.replace("\\", "\\\\") for part in says.split("|")))
                self.assertIn("at byte", answers[0])


if __name__ == "__main__":
    case_report.main("sed")
