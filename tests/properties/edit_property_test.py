#!/usr/bin/python3
"""edit and salvage: what an independent reader finds afterwards is what was asked for, and every other file is as before.

property_testing.py says how to run more rounds. Runs under the system's Python, whose package python3-numpy it wants.
"""

import itertools
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path[:0] = (
    os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support", "../tools", "../peers")
)
import case_report  # noqa: E402
import draws  # noqa: E402
from formats import FORMATS  # noqa: E402
from property_testing import Property, run, snapshot  # noqa: E402
from values import Broken  # noqa: E402

EDITED = ("checkpoint", "safetensors", "safetensors model", "npz")
BYSTANDERS = ("in-r1.safetensors", "in.ckpt.bak", "in.npz.tmp-12", "in-extra.safetensors", "other.ckpt.index", "in.index")


class Edit(Property):
    def test_every_format(self):
        kinds = itertools.cycle(EDITED)
        self.each_round(40 * len(EDITED), lambda random: self.edit(random, next(kinds)))

    def test_what_is_not_edited_stays(self):
        kinds = itertools.cycle([kind for kind in FORMATS if kind not in EDITED])
        self.each_round(8, lambda random: self.refused(random, next(kinds)))

    def refused(self, random, kind):
        format_ = FORMATS[kind]
        path = self.path("in" + format_.ending)
        format_.write(path, draws.model(random, kind))
        before = snapshot(self.folder)
        done = run("edit", "--rename=s/^/x/", path)
        self.assert_clean(done)
        self.assertEqual(done.code, 1, done)
        self.assert_same_files(before, done)

    def choose(self, random, model, kind):
        """The options and the model that they ask for; None if the options contradict each other."""
        is_model = "model" in kind
        tensors, metadata, options = dict(model.tensors), dict(model.metadata), []
        names = [name for name in tensors if name and not set(name) & set(b"\0=\"\\") and len(name) < 4096]
        globs = [name for name in names if not set(name) & set(b"[]*?")]
        if names and random.random() < 0.5:
            old = random.choice(names)
            new = random.choice((b"renamed", "новое".encode(), b"with space", *names))
            options += [b"--rename=" + old + b"=" + new]
            if new in tensors:
                return options, None
            tensors = {new if name == old else name: item for name, item in tensors.items()}
        elif random.random() < 0.5:
            options += [b"--rename=s/[a-c]/X/g"]
            renamed = [re.sub(b"[a-c]", b"X", name) for name in tensors]
            if len(set(renamed)) < len(renamed) or renamed == list(tensors):
                return options, None
            tensors = dict(zip(renamed, tensors.values()))
        if not any(option.startswith(b"--rename") for option in options) and globs and random.random() < 0.4:
            gone = random.choice(globs)
            options += [b"--remove=" + gone]
            del tensors[gone]
            if not tensors and (is_model or kind == "npz"):
                return options, None
        if model.metadata and not is_model and random.random() < 0.4:
            key = random.choice(list(metadata))
            options += [b"--unset=" + key.encode()]
            del metadata[key]
        if random.random() < 0.3:
            options += [b"--set=new key=" + "wért".encode()]
            metadata["new key"] = "wért"
        return options or [b"--rename=s/x*/&/"], (tensors, metadata)

    def edit(self, random, kind):
        format_ = FORMATS[kind]
        plain = random.random() < 0.5
        drawn = draws.model(random, kind, plain)
        path = self.path("in" + format_.ending)
        if format_.orders:
            format_.write(path, drawn, by_column=draws.by_column(random))
        else:
            format_.write(path, drawn)
        if random.random() < 0.3:
            done = run("convert", "--overwrite", path, path)  # as we write it, with checksums
            self.assertEqual(done.code, 0, done)
        model = format_.read(path)
        self.bystanders(random.sample(BYSTANDERS, 3))
        options, wanted = self.choose(random, model, kind)
        output = path
        if random.random() < 0.3 and "model" not in kind:
            output = self.path("out" + format_.ending)
            options += [b"--output=" + output.encode()]
        before = snapshot(self.folder)
        dry = run("edit", "--dry-run", *options, path)
        self.assert_clean(dry)
        self.assert_same_files(before, dry)
        real = run("edit", *options, path)
        self.assert_clean(real)
        self.assertEqual(real.code, dry.code, f"{dry}\n{real}")
        if real.code != 0:
            self.assert_same_files(before, real)
            self.assertFalse(wanted is not None and self.must_succeed(kind, model, wanted, options), real)
            return
        self.assertIsNotNone(wanted, real)
        for name, content in snapshot(self.folder).items():
            if name not in before or before[name] != content:
                self.assertRegex(name, rf"^(in|out)(-\d+-of-\d+(-r\d+)?)?{re.escape(format_.ending[:5])}", real)
        for name in before:
            if before[name] != "folder" and before[name][1].startswith(b"bystander"):
                self.assertEqual(snapshot(self.folder).get(name), before[name], f"{name}\n{real}")
        try:
            found = format_.read(output)
        except Broken as error:
            raise AssertionError(f"{error}\n{real}") from error
        tensors, metadata = wanted
        self.assertEqual(found.tensors, tensors, real)
        self.assertEqual(found.metadata, metadata, real)
        if output != path:
            self.assertEqual(format_.read(path), model, real)

    @staticmethod
    def must_succeed(kind, model, wanted, options):
        tensors, metadata = wanted
        format_ = FORMATS[kind]
        changes_metadata = metadata != model.metadata
        names_held = all(format_.holds_name(name) for name in tensors)
        is_empty_regex = b"--rename=s/x*/&/" in options
        return names_held and not is_empty_regex and (not changes_metadata or kind == "safetensors")


class Salvage(Property):
    def test_of_a_damaged_checkpoint_what_is_whole(self):
        self.each_round(30, self.salvage)

    def salvage(self, random):
        format_ = FORMATS["checkpoint"]
        model = draws.model(random, "checkpoint", plain=random.random() < 0.5)
        path = self.path("in.ckpt")
        format_.write(path, model)
        data = path + ".data-00000-of-00001"
        size = os.path.getsize(data)
        if size:
            place = random.randrange(size)
            with open(data, "r+b") as file:
                file.seek(place)
                byte = file.read(1)
                file.seek(place)
                file.write(bytes([byte[0] ^ 1 << random.randrange(8)]))
        before = snapshot(self.folder)
        done = run("salvage", path, self.path("saved.ckpt"))
        self.assert_clean(done)
        after = snapshot(self.folder)
        self.assertEqual({name: after.get(name) for name in before}, before, done)
        self.assertEqual(done.code, 1 if size else 0, done)
        lost = len(done.lines(b"lost:"))
        self.assertEqual(lost, 1 if size else 0, done)
        if lost == len(model.tensors):
            self.assertEqual(after, before, done)
            return
        found = format_.read(self.path("saved.ckpt"))
        self.assertEqual(len(found.tensors), len(model.tensors) - lost, done)
        for name, item in found.tensors.items():
            self.assertEqual(item, model.tensors[name], done)


if __name__ == "__main__":
    case_report.main("edit_property")
