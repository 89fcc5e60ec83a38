#!/usr/bin/python3
"""A damaged file: every command gives what is undamaged right, or says what is wrong. It never dies of a signal.

Each round writes a random model, damages one of its files in one way, and asks every command about it. In formats with
checksums no command may end with exit status 0 and a wrong value. property_testing.py says how to run more rounds. Runs
under the system's Python, whose package python3-numpy it wants.
"""

import itertools
import json
import os
import sys
import zlib

sys.dont_write_bytecode = True
sys.path[:0] = (
    os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support", "../tools", "../peers")
)
import case_report  # noqa: E402
import draws  # noqa: E402
from formats import FORMATS  # noqa: E402
from message_files import read_file, records_of, write_file  # noqa: E402
from property_testing import Property, listed_name, run, snapshot  # noqa: E402
from values import Broken  # noqa: E402

# Formats whose every byte of elements, names and shapes has a checksum. safetensors has those that our writer adds.
CHECKED = {"checkpoint", "records", "safetensors", "safetensors model", "npz"}
TARGETS = ("out.ckpt", "out.tfrecord", "out.safetensors", "out.npz")


def damaged(random, data):
    """The bytes with one change, and what it is."""
    place = random.randrange(len(data))
    if random.random() < 0.3:  # near an end, where the structure is
        place = min(len(data) - 1, random.randrange(64)) if random.random() < 0.5 else max(0, len(data) - 1 - random.randrange(64))
    kind = random.choice(("bit", "bit", "byte", "zeros", "cut", "grown", "inserted", "removed"))
    if kind == "bit":
        changed = data[:place] + bytes([data[place] ^ 1 << random.randrange(8)]) + data[place + 1 :]
    elif kind == "byte":
        changed = data[:place] + random.randbytes(1) + data[place + 1 :]
    elif kind == "zeros":
        size = random.choice((1, 4, 16, 512))
        changed = data[:place] + bytes(len(data[place : place + size])) + data[place + size :]
    elif kind == "cut":
        changed = data[:place]
    elif kind == "grown":
        changed = data + random.randbytes(random.choice((1, 8, 100)))
    elif kind == "inserted":
        changed = data[:place] + random.randbytes(random.choice((1, 8))) + data[place:]
    else:
        changed = data[:place] + data[place + random.choice((1, 8)) :]
    return changed, f"{kind} at {place} of {len(data)} bytes"


class Damage(Property):
    def test_every_format(self):
        kinds = itertools.cycle(FORMATS)
        self.each_round(12 * len(FORMATS), lambda random: self.damage(random, next(kinds)))

    def damage(self, random, kind):
        format_ = FORMATS[kind]
        drawn = draws.model(random, kind, plain=random.random() < 0.7)
        path = self.path("in" + format_.ending)
        format_.write(path, drawn)
        if kind in CHECKED and "safetensors" in kind:  # with checksums
            own = self.path("own")
            os.mkdir(own)
            done = run("convert", *([b"--shard-size=60"] if "model" in kind else []), path, os.path.join(own, os.path.basename(path)))
            if done.code != 0:
                return
            for name in os.listdir(self.folder):
                if name != "own":
                    os.remove(self.path(name))
            path = os.path.join(own, os.path.basename(path))
        folder = os.path.dirname(path)
        self.model = format_.read(path)
        self.is_checked = kind in CHECKED
        name = random.choice([name for name in sorted(os.listdir(folder)) if os.path.getsize(os.path.join(folder, name))])
        file = os.path.join(folder, name)
        before = read_file(file)
        content, self.what = damaged(random, before)
        self.what = f"{name}: {self.what}"
        if content == before:
            return
        write_file(file, content)
        state = snapshot(self.folder)
        for arguments in (
            ("ls", path),
            ("ls", "--json", "--checksum", path),
            ("stats", "--json", path),
            ("verify", path),
            ("verify", "--json", path),
            ("diff", path, path),
            ("show", "--max=2", path, self.some_name(random)),
        ):
            done = run(*arguments)
            self.assert_ended(done)
            self.assert_same_files(state, done)
            if arguments[:2] == ("ls", "--json") and done.out:
                self.assert_listed_right(done)
            if arguments[0] == "verify" and done.code == 0:
                self.assert_undamaged(format_, path, done)
        done = run("cat", path)
        self.assertIn(done.code, (0, 1, 2), f"{self.what}\n{done}")
        if done.code == 0:
            self.assert_right(records_of(done.out), done)
        self.conversion(random, format_, path, state)

    def some_name(self, random):
        return random.choice([name for name in self.model.tensors if b"\0" not in name and len(name) < 10_000] or [b"w"])

    def assert_ended(self, done):
        self.assertIn(done.code, (0, 1, 2), f"{self.what}\n{done}")
        if done.code:
            self.assertTrue(done.out or done.err, f"{self.what}\n{done}")

    def assert_right(self, found, done):
        """All that was found is as it was, and nothing is gone."""
        if not self.is_checked or b"they are not verified" in done.err:
            return
        wanted = {name: item.value for name, item in self.model.tensors.items()}
        self.assertEqual({name: item.value for name, item in found.tensors.items()}, wanted, f"{self.what}\n{done}")

    def assert_listed_right(self, done):
        document = json.loads(done.out)
        if not self.is_checked or b"they are not verified" in done.err:
            return
        listed = {listed_name(entry): entry for entry in document["tensors"]}
        for name, entry in listed.items():
            if "error" in entry:
                continue
            self.assertIn(name, self.model.tensors, f"{self.what}\n{done}")
            item = self.model.tensors[name]
            self.assertEqual((entry["dtype"], tuple(entry["shape"])), (item.dtype, item.shape), f"{self.what}\n{done}")
            self.assertEqual(entry["crc32"], f"{zlib.crc32(item.data):08x}", f"{self.what}\n{done}")
        if done.code == 0:
            self.assertEqual(set(listed), set(self.model.tensors), f"{self.what}\n{done}")

    def assert_undamaged(self, format_, path, done):
        """verify found nothing: then an independent reader, if it reads the file at all, finds what was there."""
        try:
            found = format_.read(path)
        except Exception:  # ours accepts what the other one refuses, such as bytes behind the last tensor
            return
        self.assert_right(found, done)

    def conversion(self, random, format_, path, state):
        target = self.path(random.choice(TARGETS))
        done = run("convert", "--allow-loss", path, target)
        self.assert_ended(done)
        if done.code != 0:
            self.assert_same_files(state, done)
            return
        wanted = next(one for one in FORMATS.values() if target.endswith(one.ending))
        try:
            found = wanted.read(target)
        except Broken as error:
            raise AssertionError(f"{error}\n{self.what}\n{done}") from error
        if not self.is_checked or done.lines(b"lost:", b"note:", b"tensorcask convert: note:"):
            return
        self.assert_right(found, done)


if __name__ == "__main__":
    case_report.main("damage_property")
