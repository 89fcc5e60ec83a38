#!/usr/bin/python3
"""convert, over all pairs of formats: exit 0 means that an independent reader finds the same, or a line said what differs.

Each round writes random models with an independent writer, converts them with random options, and reads the result with
an independent reader. Otherwise nothing in the folder may have changed. property_testing.py says how to run more rounds.
Runs under the system's Python, whose package python3-numpy it wants.
"""

import fnmatch
import itertools
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path[:0] = (
    os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support", "../tools", "../peers")
)
import case_report  # noqa: E402
import casts  # noqa: E402
import draws  # noqa: E402
from formats import FORMATS  # noqa: E402
from property_testing import Property, names_it, run, snapshot  # noqa: E402
from values import OPAQUE, Broken  # noqa: E402


BYSTANDERS = (
    "out-00001-of-00003.safetensors",
    "out-00007-of-00009.safetensors",
    "out-extra.safetensors",
    "out.safetensors.index.json.old",
    "out.index.bak",
    "out.tmp-12",
    "other.safetensors.tmp-0123456789abcdef",
    "other.ckpt.data-00000-of-00001",
    "in.txt",
)


def replaced(name, rule):
    """What `--rename` with the rule s/REGEX/TEXT/ makes of a name; the rules drawn here mean the same in Python."""
    _, pattern, text, flags = rule.split(b"/")
    return re.sub(pattern, text, name, count=0 if flags == b"g" else 1)


class Choice:
    """Random options of convert, and what they make of the sources."""

    def __init__(self, random, sources, target):
        self.arguments = []
        self.allow_loss = random.random() < 0.35
        self.include = self.exclude = self.rename = self.dtype = None
        names = [name for source in sources for name in source.tensors if b"\0" not in name]
        usable = [name for name in names if not set(name) & set(b"[]*?\\=") and name]
        if usable and random.random() < (0.9 if target.one else 0.15):
            self.include = random.choice(usable)
            self.arguments += [b"--include=" + self.include]
        if usable and random.random() < 0.15:
            self.exclude = random.choice((random.choice(usable), b"dense/*"))
            self.arguments += [b"--exclude=" + self.exclude]
        if random.random() < 0.2:
            self.rename = random.choice((b"s/e/E/g", b"s/^/p./", b"s/[0-9]+/N/", b"s/\\./_/"))
            self.arguments += [b"--rename=" + self.rename]
        if random.random() < 0.2:
            self.dtype = random.choice(casts.TARGETS)
            self.arguments += [b"--dtype=*=" + self.dtype.encode()]
        if self.allow_loss:
            self.arguments += [b"--allow-loss"]
        if target.name == "safetensors" and random.random() < 0.2:
            self.arguments += [b"--shard-size=" + str(random.choice((1, 64, 1000))).encode()]
        if target.name == "safetensors" and random.random() < 0.2:
            self.arguments += [b"--no-checksums"]
        if random.random() < 0.2:
            self.arguments += [b"--alignment=" + random.choice((b"1", b"8", b"256"))]
        self.level = target.name in ("npz", "checkpoint", "records", "tensorproto") and random.random() < 0.25
        if self.level:
            self.arguments += [b"--level=" + random.choice((b"default", b"high"))]

    def matches(self, name, glob):
        return fnmatch.fnmatchcase(name.decode("latin-1"), glob.decode("latin-1"))

    def all_match(self, sources):
        """True if each rule that must match something does."""
        names = [name for source in sources for name in source.tensors]
        return (self.include is None or any(self.matches(name, self.include) for name in names)) and (
            self.rename is None or any(re.search(self.rename.split(b"/")[1], name) for name in names)
        )

    def expected(self, sources):
        """[(name in the source, new name, tensor, True if --dtype applies)]."""
        chosen = []
        for source, (name, item) in ((source, pair) for source in sources for pair in source.tensors.items()):
            if self.include is not None and not self.matches(name, self.include):
                continue
            if self.exclude is not None and self.matches(name, self.exclude):
                continue
            to = replaced(name, self.rename) if self.rename else name
            chosen.append((name, to, item))
        return chosen


class Convert(Property):
    def test_every_pair_with_plain_names(self):
        pairs = itertools.cycle(itertools.product(FORMATS, FORMATS))
        self.each_round(3 * len(FORMATS) ** 2, lambda random: self.conversion(random, *next(pairs), plain=True))

    def test_every_pair_with_any_names(self):
        pairs = itertools.cycle(itertools.product(FORMATS, FORMATS))
        self.each_round(2 * len(FORMATS) ** 2, lambda random: self.conversion(random, *next(pairs), plain=False))

    def sources(self, random, kind, plain):
        """The paths and models of one or several sources."""
        made = []
        for number in range(random.choice((1, 1, 1, 2))):
            source = FORMATS[kind] if number == 0 else FORMATS[random.choice(list(FORMATS))]
            drawn = draws.model(random, kind if number == 0 else self.kind_of(source), plain)
            path = self.path(f"in{number}{source.ending}")
            write = source.write
            by_column = draws.by_column(random) if source.orders else None
            write(path, drawn, **({"by_column": by_column} if by_column else {}))
            has_strides = by_column and source.attributes and any(map(by_column, drawn.tensors.values()))
            made.append((path, self.seen(source, path, drawn), has_strides))
        return made

    @staticmethod
    def kind_of(wanted):
        return next(kind for kind, format_ in FORMATS.items() if format_ is wanted)

    def seen(self, source, path, drawn):
        """The model as our independent reader finds it: which must be the one that was drawn."""
        found = source.read(path)
        if not source.one:
            self.assertEqual(
                {name: item.value for name, item in found.tensors.items()},
                {name: item.value for name, item in drawn.tensors.items()},
            )
        return found

    def conversion(self, random, a, b, plain):
        target = FORMATS[b]
        made = self.sources(random, a, plain)
        sources = [drawn for _, drawn, _ in made]
        destination = self.path("out" + target.ending)
        if random.random() < 0.3:
            target.write(destination, draws.model(random, b))
        self.bystanders(random.sample(BYSTANDERS, 4))
        choice = Choice(random, sources, target)
        overwrite = [b"--overwrite"] if random.random() < 0.5 else []
        arguments = [*choice.arguments, *overwrite, *(path for path, _, _ in made), destination]

        before = snapshot(self.folder)
        dry = run("convert", "--dry-run", *arguments)
        self.assert_clean(dry)
        self.assert_same_files(before, dry)
        real = run("convert", *arguments)
        self.assert_clean(real)
        self.assertEqual(real.code, dry.code, f"{dry}\n{real}")
        if real.code != 0:
            self.assert_same_files(before, real)
            strides = target.file_metadata and any(has_strides for _, _, has_strides in made)
            must = not strides and self.must_succeed(choice, sources, target, overwrite, destination, before)
            self.assertFalse(must, real)
            return
        planned = [line.replace(b"would remove: ", b"removed: ") for line in dry.lines(b"lost:", b"note:", b"would remove:")]
        self.assertEqual(real.lines(b"lost:", b"note:", b"removed:"), planned)
        self.assert_only_destination_changed(before, real, destination)
        if not os.path.exists(destination) and target.ending == ".safetensors":  # --shard-size
            destination += ".index.json"
        if choice.level and target.name != "npz":  # our readers do not read payloads: without the level again
            os.mkdir(self.path("plain"))
            plain = self.path("plain/out" + target.ending)
            again = run("convert", destination, plain)
            self.assertEqual(again.code, 0, f"{real}\n{again}")
            destination = plain
        try:
            found = target.read(destination)
        except Broken as error:
            raise AssertionError(f"{error}\n{real}") from error
        self.assert_nothing_lost_or_invented(choice, sources, found, target, real)
        if OPAQUE not in {item.dtype for item in found.tensors.values()}:
            self.assert_lists(destination, found)

    def must_succeed(self, choice, sources, target, overwrite, destination, before):
        """True if nothing stands in the way."""
        chosen = choice.expected(sources)
        names = [to for _, to, _ in chosen]
        keys = [key for source in sources for key in source.metadata]
        return (
            (not target.one or len(chosen) == 1)
            and chosen
            and len(set(names)) == len(names)
            and (overwrite or os.path.basename(destination) not in {re.sub(r"\.index$", "", name) for name in before})
            and choice.dtype is None
            and choice.all_match(sources)
            and len(set(keys)) == len(keys)
            and (target.file_metadata or set(keys) <= {"format"} or choice.allow_loss)
            and all(target.holds(to, item) for _, to, item in chosen)
            and not ("in0" + target.ending in before and target.ending.endswith(".json"))
        )

    def assert_only_destination_changed(self, before, done, destination):
        after = snapshot(self.folder)
        name = os.path.basename(destination)
        own = re.compile(r"out(-\d{5}-of-\d{5}(-r\d+)?)?\.safetensors(\.index\.json)?|" + re.escape(name) + r"(\.index|\.data-\d{5}-of-\d{5})?")
        for path in set(before) | set(after):
            if before.get(path) == after.get(path):
                continue
            self.assertTrue(own.fullmatch(path), f"{path} changed\n{done}")
            if before.get(path, (0, b""))[1].startswith(b"bystander"):
                self.fail(f"{path}, which no index lists, is gone or replaced\n{done}")

    def assert_nothing_lost_or_invented(self, choice, sources, found, target, done):
        lines = done.lines(b"lost:", b"note:", b"tensorcask convert: note:")
        rest = dict(found.tensors)
        for name, to, item in choice.expected(sources):
            said = any(names_it(line, name) for line in lines)
            if target.one and rest:
                to = next(iter(rest))
            copy = rest.pop(to, None)
            if copy is None:
                self.assertTrue(said, f"{name!r} is gone without a word\n{done}")
                continue
            wanted = self.wanted(choice, item)
            if copy.dtype == OPAQUE:
                self.assertTrue(said, f"{name!r} has lost its dtype without a word\n{done}")
                wanted = wanted._replace(dtype=OPAQUE)
            if not said:
                self.assertEqual(copy.dtype, wanted.dtype, f"{name!r}\n{done}")
                if target.name == "tensorproto-text" and wanted.dtype == "string":  # docs/guide/numpy.md
                    wanted = wanted._replace(attributes=tuple(a for a in wanted.attributes if a[0] != b"npy.descr"))
                if target.name == "records" and wanted.own_name == to:  # a record has one place for a name
                    wanted = wanted._replace(own_name=b"")
                self.assertEqual(copy.metadata, wanted.metadata, f"{name!r}\n{done}")
            self.assertEqual(copy.shape, wanted.shape, f"{name!r}\n{done}")
            if copy.dtype == wanted.dtype:
                self.assertEqual(copy.data, wanted.data, f"{name!r}\n{done}")
        self.assertEqual(rest, {}, f"invented\n{done}")
        self.assert_metadata(sources, found, target, lines, done)

    @staticmethod
    def wanted(choice, item):
        return casts.cast(item, choice.dtype) if choice.dtype else item

    def assert_metadata(self, sources, found, target, lines, done):
        wanted = {}
        for source in sources:
            for key, value in source.metadata.items():
                said = any(names_it(line, key.encode()) for line in lines)
                self.assertTrue(said or wanted.setdefault(key, value) == value, f"{key!r} of two sources\n{done}")
                if not target.file_metadata:
                    self.assertTrue(said or key == "format", f"{key!r} is gone without a word\n{done}")
                elif not said:
                    self.assertEqual(found.metadata.get(key), value, f"{key!r}\n{done}")
        self.assertLessEqual(set(found.metadata), set(wanted) | {"format"}, done)


if __name__ == "__main__":
    case_report.main("convert_property")
