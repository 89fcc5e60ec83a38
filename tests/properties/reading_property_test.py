#!/usr/bin/python3
"""ls, show, stats, diff, verify, cat and save agree with an independent reader, whatever the names and values.

Each round writes a random model by an independent writer and asks every command about it. Nothing in the folder may
change. property_testing.py says how to run more rounds. Runs under the system's Python, whose package python3-numpy it
wants.
"""

import itertools
import json
import os
import re
import sys

import numpy as np

sys.dont_write_bytecode = True
sys.path[:0] = (
    os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support", "../tools", "../peers")
)
import case_report  # noqa: E402
import draws  # noqa: E402
from casts import nearest  # noqa: E402
from decoded import numbers, statistics  # noqa: E402
from formats import FORMATS  # noqa: E402
from message_files import read_file, records_of  # noqa: E402
from property_testing import Property, listed_name, run, snapshot, unescaped  # noqa: E402
from values import count  # noqa: E402

_VALUE = re.compile(rb'"((?:[^"\\]|\\.)*)"|([^\s\[\]"]+)')


def complex_value(text):
    """Of "1+2j", "nan-infj", "1e-07+3e+30j"."""
    real, imaginary = re.fullmatch(r"(.*[^e])([+-].*)j", text).groups()
    return complex(float(real), float(imaginary))


class Reading(Property):
    def test_every_format(self):
        kinds = itertools.cycle(FORMATS)
        self.each_round(15 * len(FORMATS), lambda random: self.reading(random, next(kinds), random.random() < 0.4))

    def reading(self, random, kind, plain):
        format_ = FORMATS[kind]
        drawn = draws.model(random, kind, plain)
        path = self.path("in" + format_.ending)
        if format_.orders:
            format_.write(path, drawn, by_column=draws.by_column(random))
        else:
            format_.write(path, drawn)
        model = format_.read(path)
        before = snapshot(self.folder)
        self.assert_lists(path, model)
        self.names_of_lines(path, model)
        for name in random.sample(list(model.tensors), min(2, len(model.tensors))):
            self.values(path, name, model.tensors[name])
        self.statistics(path, model)
        self.verified(path, model)
        self.same(path, path)
        if kind == "records":
            self.streamed(path)
        self.assert_same_files(before, None)
        self.piped(random, path, model)

    def good(self, *arguments, stdin=b"", clean=True):
        done = run(*arguments, stdin=stdin)
        if clean:
            self.assert_clean(done)
        self.assertEqual(done.code, 0, done)
        return done

    def names_of_lines(self, path, model):
        done = self.good("ls", path)
        lines = done.out.decode().splitlines()
        total = max(number for number, line in enumerate(lines) if line.startswith("total: "))
        self.assertEqual(total, len(model.tensors), done)
        found = []
        for line in lines[:total]:
            quoted = re.match(r'"((?:[^"\\]|\\.)*)"(\.\.\. \(\d+ bytes\))?  ', line)
            text = unescaped(quoted[1].encode()) if quoted else line.split("  ")[0].encode()
            found.append(text if not quoted or not quoted[2] else text[:64])
        wanted = [name if len(name) <= 4096 else name[:64] for name in model.tensors]
        plain = [name if name in model.tensors else name[:64] for name in found]
        self.assertEqual(sorted(plain), sorted(w if w in found else model_name for w, model_name in zip(wanted, model.tensors)), done)

    def values(self, path, name, item):
        if b"\0" in name or len(name) > 100_000:
            return
        done = self.good("show", "--max=all", "--", path, name)
        head, _, rest = done.out.partition(b"\n")
        shape = ",".join(map(str, item.shape))
        self.assertEqual(head, f"{item.dtype} [{shape}]".encode(), done)
        shown = _VALUE.findall(rest)
        wanted = numbers(item)
        self.assertEqual(len(shown), count(item.shape), done)
        for (text, word), value in zip(shown, wanted.tolist()):
            if item.dtype == "string":
                self.assertEqual(unescaped(text), value, done)
                continue
            word = word.decode()
            if item.dtype == "bool":
                self.assertEqual(word, "true" if value else "false", done)
            elif item.dtype.startswith("complex"):
                self.same_number(item.dtype, complex_value(word).real, value.real, done)
                self.same_number(item.dtype, complex_value(word).imag, value.imag, done)
            elif isinstance(value, int):
                self.assertEqual(int(word), value, done)
            else:
                self.same_number(item.dtype, float(word), value, done)

    def same_number(self, dtype, shown, value, done):
        """The shown decimal number must be that of the dtype which is nearest to it."""
        if np.isfinite(shown):
            shown = nearest(dtype, shown)
        self.assertTrue(repr(shown) == repr(value) or shown == value == 0, f"{shown} != {value}\n{done}")

    def statistics(self, path, model):
        done = self.good("stats", "--json", path)
        for entry in json.loads(done.out)["tensors"]:
            item = model.tensors[listed_name(entry)]
            wanted = statistics(item)
            if wanted is None:
                self.assertNotIn("mean", entry, done)
                continue
            for key, value in wanted.items():
                if key in ("mean", "std"):
                    if entry.get(key) is not None:
                        self.assertAlmostEqual(entry[key], value, delta=1e-6 * max(abs(wanted["min"]), abs(wanted["max"])), msg=done)
                else:
                    self.assertEqual(entry[key], value, f"{key} of {listed_name(entry)!r}\n{done}")

    def verified(self, path, model):
        done = self.good("verify", path)
        number = len(model.tensors)
        self.assertIn(f": {number} tensor{'s' if number != 1 else ''} whole".encode(), done.out, done)

    def same(self, a, b):
        done = self.good("diff", "--json", a, b)
        self.assertEqual(json.loads(done.out)["differences"], [], done)

    def streamed(self, path):
        """Records on standard input are those of the file."""
        stream = read_file(path)
        for command in ("ls", "stats"):
            options = ("--json", "--checksum") if command == "ls" else ("--json",)
            here, there = (json.loads(self.good(command, *options, where, stdin=stream).out) for where in ("-", path))
            self.assertEqual(here["tensors"], there["tensors"])
        self.assertIn(b" whole", self.good("verify", "-", stdin=stream).out)
        self.assertEqual(json.loads(self.good("diff", "--json", "-", path, stdin=stream).out)["differences"], [])

    def piped(self, random, path, model):
        """cat | save, into another format, and diff tells a changed element."""
        stream = run("cat", path)
        refused = [name for name, item in model.tensors.items() if not FORMATS["records"].holds(name, item)]
        if refused:
            if stream.code == 1:
                self.assertNotEqual(stream.err, b"", stream)
                return
        self.assertEqual(stream.code, 0, stream.err)
        copies = records_of(stream.out).tensors
        self.assertEqual({name: item.value for name, item in copies.items()}, {name: item.value for name, item in model.tensors.items()})
        for name, item in model.tensors.items():
            self.assertEqual(copies[name].metadata[:2], item.metadata[:2])
        kind = random.choice([kind for kind, format_ in FORMATS.items() if not format_.one])
        target = FORMATS[kind]
        saved = self.path("saved" + target.ending)
        self.bystanders(("saved-00002-of-00007.safetensors", "saved-extra.safetensors", "saved.index.bak"))
        before = snapshot(self.folder)
        done = run("save", *random.choice(((), ("--overwrite",))), saved, stdin=stream.out)
        self.assert_clean(done)
        if done.code != 0:
            self.assertFalse(all(target.holds(name, item) for name, item in copies.items()), done)
            self.assert_same_files(before, done)
            return
        after = snapshot(self.folder)
        self.assertEqual({name: after.get(name) for name in before}, before, done)
        found = target.read(saved)
        self.assertEqual({name: item.value for name, item in found.tensors.items()}, {name: item.value for name, item in copies.items()}, done)
        self.same(path, saved)
        self.changed(random, path, model)

    def changed(self, random, path, model):
        """diff finds one changed element."""
        usable = [name for name, item in model.tensors.items() if item.data and item.dtype not in ("string", "bool")]
        if not usable:
            return
        name = random.choice(usable)
        item = model.tensors[name]
        other = item._replace(data=bytes([item.data[0] ^ 1]) + item.data[1:])
        changed = model._replace(tensors={**model.tensors, name: other})
        old, new = numbers(item), numbers(other)
        copy = self.path("changed.tfrecord")
        FORMATS["records"].write(copy, changed)
        done = run("diff", "--json", path, copy)
        self.assert_clean(done)
        equal = np.array_equal(old, new, equal_nan=old.dtype.kind in "fc")
        self.assertEqual(done.code, 0 if equal else 1, done)
        differences = json.loads(done.out)["differences"]
        self.assertEqual([listed_name(entry) for entry in differences], [] if equal else [name], done)


if __name__ == "__main__":
    case_report.main("reading_property")
