#!/usr/bin/env python3
"""The tool with files of torch.save: listed, shown, compared, verified and converted, and harmful ones refused."""

import io
import json
import math
import os
import pickle
import resource
import struct
import sys
import unittest
import zipfile

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import DATA, Archives, read, run, sanitized  # noqa: E402


# ---- Pickles: the instructions that push a value ----------------------------------------------------------------------


def number(value):
    return b"J" + struct.pack("<i", value)


def real(value):
    return b"G" + struct.pack(">d", value)


def text(value):
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def tuple_of(*items):
    return b"(" + b"".join(items) + b"t"


def list_of(*items):
    return b"](" + b"".join(items) + b"e"


def dict_of(**entries):
    return b"}(" + b"".join(text(key) + value for key, value in entries.items()) + b"u"


def pairs(*entries):
    """A dict with keys of any kind."""
    return b"}(" + b"".join(key + value for key, value in entries) + b"u"


def call(function, *arguments):
    return function + tuple_of(*arguments) + b"R"


def tensor(key, count, shape, strides, offset=0):
    """Float32 elements of the storage `key`, which has `count` elements."""
    storage = tuple_of(text("storage"), name("torch", "FloatStorage"), text(key), text("cpu"), number(count)) + b"Q"
    hooks = call(name("collections", "OrderedDict"))
    return call(name("torch._utils", "_rebuild_tensor_v2"), storage, number(offset), tuple_of(*map(number, shape)),
                tuple_of(*map(number, strides)), b"\x89", hooks)


def array(dtype, shape, content):
    """An array of NumPy, in row-major order."""
    made = call(name("numpy.core.multiarray", "_reconstruct"), name("numpy", "ndarray"), tuple_of(number(0)), text("b"))
    kind = call(name("numpy", "dtype"), text(dtype), b"\x89", b"\x88")
    kind += tuple_of(number(3), text("<"), b"N", b"N", b"N", number(-1), number(-1), number(0)) + b"b"
    encoded = call(name("_codecs", "encode"), text(content.decode("latin1")), text("latin1"))
    return made + tuple_of(number(1), tuple_of(*map(number, shape)), kind, b"\x89", encoded) + b"b"


def saved(value, storages):
    """The bytes of a file with this object, whose storages are lists of numbers."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + value + b".")
        for key, numbers in storages.items():
            archive.writestr(f"archive/data/{key}", struct.pack(f"<{len(numbers)}f", *numbers))
        archive.writestr("archive/version", "3\n")
    return file.getvalue()


class Loader(pickle.Unpickler):
    """Loads the object of a file without PyTorch: a tensor is the list of its elements."""

    NAMES = {"_rebuild_tensor_v2": lambda storage, offset, size, *_: storage[offset : offset + math.prod(size)],
             "encode": lambda content, _: content.encode("latin1"), "device": lambda name: ("device", name),
             "float32": "a dtype", "OrderedDict": dict}  # fmt: skip

    def __init__(self, archive, folder):
        super().__init__(io.BytesIO(archive.read(f"{folder}/data.pkl")))
        self.archive, self.folder = archive, folder

    def find_class(self, module, attribute):
        return self.NAMES.get(attribute, attribute)

    def persistent_load(self, pid):
        content = self.archive.read(f"{self.folder}/data/{pid[2]}")
        return list(struct.unpack(f"<{len(content) // 4}f", content))


def load(path):
    with zipfile.ZipFile(path) as archive:
        return Loader(archive, archive.namelist()[0].split("/")[0]).load()


CHECKPOINT = dict_of(
    model=dict_of(weight=tensor("0", 6, (2, 3), (3, 1)), tied=tensor("0", 6, (2, 3), (3, 1)),
                  turned=tensor("0", 6, (3, 2), (1, 3))),
    optimizer=dict_of(param_groups=list_of(dict_of(lr=real(0.001), betas=tuple_of(real(0.9), real(0.999))))),
    epoch=number(12))


class TorchFiles(Archives):
    def file(self, file_name, content):
        with open(self.path(file_name), "wb") as file:
            file.write(content)
        return self.path(file_name)

    def checkpoint(self, file_name="m.pt"):
        return self.file(file_name, saved(CHECKPOINT, {"0": range(6)}))

    def test_a_file_is_listed_under_any_name(self):
        for file_name in ("m.pt", "m.pth", "pytorch_model.bin", "epoch.ckpt", "m"):
            listing = json.loads(self.good("ls", "--json", "--checksum", self.checkpoint(file_name)))
            self.assertEqual(listing["format"], "torch")
            self.assertEqual([one["name"] for one in listing["tensors"]], ["model.tied", "model.turned", "model.weight"])
            self.assertEqual([one["shape"] for one in listing["tensors"]], [[2, 3], [3, 2], [2, 3]])
            self.assertEqual(listing["tensors"][0]["crc32"], listing["tensors"][2]["crc32"])
            self.assertEqual({one["storage_id"] for one in listing["tensors"]}, {0})
        two = saved(dict_of(a=tensor("0", 6, (2,), (1,)), b=tensor("1", 2, (2,), (1,)), c=tensor("0", 6, (2,), (1,), 4)),
                    {"0": range(6), "1": range(2)})  # fmt: skip
        ids = [one["storage_id"] for one in json.loads(self.good("ls", "--json", self.file("two.pt", two)))["tensors"]]
        self.assertEqual(ids[0], ids[2])
        self.assertNotEqual(ids[0], ids[1])
        done = run("ls", self.path("two.pt"))  # two of the six elements of a storage are in no tensor
        self.assertIn("8 of 32 bytes of storages belong to no tensor", done.stderr)

    def test_tensors_are_shown(self):
        path = self.checkpoint()
        self.assertEqual(self.good("show", path, "model.turned"), "float32 [3,2]\n[[0 3]\n [1 4]\n [2 5]]\n")
        self.assertEqual(self.good("show", "--slice", "1,1:0,2", path, "model.weight"), "float32 [1,2]\n[[3 4]]\n")
        self.good("stats", path)

    def test_values_are_shown(self):
        path = self.checkpoint()
        self.assertEqual(self.good("show", path, "optimizer.param_groups[0].lr"), "0.001\n")
        self.assertEqual(self.good("show", path, "optimizer.param_groups.0.betas"), "[0.9,0.999]\n")
        self.assertEqual(self.good("show", path, "epoch"), "12\n")
        self.assertEqual(json.loads(self.good("show", path, "."))["model"]["weight"], {"tensor": "model.weight"})
        self.assertIn(f'{path}: no tensor "nothing"', run("show", path, "nothing").stderr)

    def test_what_is_in_a_checkpoint(self):
        """Below a long list: a line for each group of names, and the first values."""
        layer = dict_of(weight=tensor("0", 6, (2, 3), (3, 1)), bias=tensor("0", 6, (3,), (1,)))
        step = dict_of(exp_avg=tensor("0", 6, (3,), (1,)), step=tensor("0", 6, (), ()))
        groups = list_of(dict_of(lr=real(0.001), params=list_of(*map(number, range(40)))))
        path = self.file("l.ckpt", saved(dict_of(
            epoch=number(3), version=text("2.1.0"), state_dict=dict_of(**{f"model.{i}": layer for i in range(8)}),
            optimizer_states=list_of(dict_of(state=dict_of(**{str(i): step for i in range(8)}), param_groups=groups)),
            callbacks=b"}", name=text("a" * 50), done=b"\x88", note=text("b")),
            {"0": range(6)}))  # fmt: skip
        below = self.good("ls", path).splitlines()[32:]
        self.assertTrue(below[0].startswith("total: 32 tensors, "), below)
        self.assertEqual(below[1:], [
            "  optimizer_states.0.state.*: 16 tensors, 128 B", "  state_dict.model.*: 16 tensors, 288 B",
            'values: epoch=3, version="2.1.0", done=true, note="b", 3 more '
            "(ls --values)"])  # fmt: skip
        self.assertEqual(self.good("ls", path, "state_dict.*").splitlines()[17:], [])  # one group, values not asked for
        for depth, wanted in (("1", ["optimizer_states.0.state.*", "state_dict.model.*"]),
                              ("3", ["optimizer_states.0.state.*"] + [f"state_dict.model.{i}.*" for i in range(8)])):
            groups = json.loads(self.good("ls", "--depth", depth, "--json", path))["groups"]
            self.assertEqual([group["pattern"] for group in groups], wanted)
            for group in groups:
                self.assertIn(f"total: {group['tensors']} tensors, {group['bytes']} ", self.good("ls", path, group["pattern"]))
        rows = [line.split() for line in self.good("ls", "--depth", "1", "--sort", "size", path).splitlines()]
        self.assertEqual(rows[0], ["state_dict.model.*", "16", "tensors", "float32", "288"])
        self.assertEqual([row[0] for row in rows], ["state_dict.model.*", "optimizer_states.0.state.*", "total:", "values:"])
        rows = [line.split() for line in self.good("ls", "--depth", "9", path, "*.0.bias", "*.1.*").splitlines()]
        self.assertEqual([row[:2] for row in rows[:2]], [["optimizer_states.0.state.1.exp_avg", "1"],
                                                         ["optimizer_states.0.state.1.step", "1"]])  # fmt: skip
        self.assertEqual(run("ls", "--depth", "0", path).returncode, 2)
        self.assertEqual(run("ls", "--depth", "1", "--checksum", path).returncode, 2)
        # Values: no tensors, and each entry of a list of maps by its name, or the list as a whole.
        lines = [line.split(maxsplit=2) for line in self.good("ls", "--values", path).splitlines()]
        self.assertEqual([line[0] for line in lines], [
            "epoch", "version", "optimizer_states.0.param_groups.0.lr", "optimizer_states.0.param_groups.0.params",
            "callbacks", "name", "done", "note"])  # fmt: skip
        self.assertEqual(self.good("show", path, lines[2][0]), lines[2][2] + "\n")
        whole = self.good("ls", "--values", path, "optimizer_states").split(maxsplit=2)
        self.assertEqual((whole[0], whole[1]), ("optimizer_states", "list"))
        self.assertEqual(json.loads(whole[2])[0]["param_groups"][0]["lr"], 0.001)
        done = run("ls", "--values", path, "groups")
        self.assertIn('"groups" matches no value; "*groups*" matches 2: "optimizer_states.0.param_groups.0.lr", ', done.stderr)

    def test_values_without_a_dict_around_them_are_listed(self):
        path = self.file("m.pt", saved(list_of(number(7), tuple_of(text("a"), array("i2", (2, 2), b"\1\0\2\0\3\0\4\0"))),
                                       {}))  # fmt: skip
        self.assertEqual(self.good("ls", "--values", path).split(), ["0", "int", "7", "1", "tuple", '["a",[[1,2],[3,4]]]'])
        self.assertEqual(self.good("show", path, "1[1]"), "[[1,2],[3,4]]\n")
        self.assertIn("7", self.good("ls", "--values", self.file("n.pt", saved(number(7), {}))))

    def test_a_conversion_has_the_same_elements(self):
        path = self.checkpoint()
        for target in ("m.safetensors", "m.npz", "m"):
            self.good("convert", path, self.path(target))
            self.good("diff", path, self.path(target))
        done = run("convert", "--overwrite", path, self.path("m.npz"))
        self.assertIn("3 values beside the tensors", done.stdout + done.stderr)
        one = self.file("one.pt", saved(tensor("0", 4, (2, 2), (0, 1), 1), {"0": range(4)}))
        self.good("convert", one, self.path("one.npy"))
        self.assertEqual(self.good("show", self.path("one.npy")), "float32 [2,2]\n[[1 2]\n [1 2]]\n")

    def test_keys_of_any_kind_keep_their_places(self):
        """Also beside texts that look like them in JSON."""
        latin1 = name("_codecs", "encode")
        keys = [b"\x88", b"\x89", b"N", real(0.5), real(math.inf), call(latin1, text("kx"), text("latin1")),
                tuple_of(number(1), text("a")), tuple_of(b"\x88", tuple_of(number(2))), name("torch", "float32"),
                call(name("torch", "device"), text("cuda:0")), number(7), b"\x8a\x09" + b"\0" * 8 + b"\1"]  # fmt: skip
        keys += map(text, ["true", "false", "null", "inf ", '"inf"', "[1,2]", '[1,"a"]', '"float32"', '{"bytes":"6b78"}'])
        places = [[number(i), pairs((text("w"), tensor(str(i), 2, (2,), (1,))), (b"\x88", number(i)))]
                  for i in range(len(keys))]  # fmt: skip
        value = pairs(*((key, list_of(*place)) for key, place in zip(keys, places)),
                      (text("here"), pairs(*((key, tensor(str(i), 2, (2,), (1,))) for i, key in enumerate(keys)))))
        path = self.file("k.pt", saved(value, {str(i): [i, i + 0.5] for i in range(len(keys))}))
        before = load(path)
        self.assertEqual(len(before), len(keys) + 1)
        self.good("convert", path, self.path("n.pt"))
        self.assertEqual(load(self.path("n.pt")), before)
        self.assertEqual(list(map(type, load(self.path("n.pt")))), list(map(type, before)))
        self.good("diff", path, self.path("n.pt"))
        names = [one["name"] for one in json.loads(self.good("ls", "--json", path))["tensors"]]
        for key in ("True", "None", "0.5", "inf", "(1, a)", "(True, ..)", "torch.float32", "cuda:0", "7", "18446744073709551616"):
            self.assertIn(f"{key}.1.w", names)
            self.assertIn(f"here.{key}", names)
            self.assertEqual(self.good("show", path, f"{key}.1.True"), self.good("show", path, f"{key}.0"))
            self.assertIn(f"{key}.1.True", self.good("ls", "--values", path, f"{key}.*"))
        # Patterns choose by the same names.
        self.good("convert", path, self.path("some.pt"), "--include=True.*", "--include=here.None")
        self.assertEqual(load(self.path("some.pt")), {True: before[True], "here": {None: before["here"][None]}})

    def test_names_of_one_tensor_keep_their_places(self):
        shared = tensor("0", 2, (2,), (1,)) + b"q\x63"
        value = pairs((text("a"), shared), (b"\x88", b"h\x63"), (text("list"), list_of(b"h\x63", b"h\x63")))
        path = self.file("k.pt", saved(value, {"0": [1, 2]}))
        self.good("convert", path, self.path("n.pt"))
        self.assertEqual(load(self.path("n.pt")), {"a": [1, 2], True: [1, 2], "list": [[1, 2], [1, 2]]})
        self.good("convert", path, self.path("m.pt"), "--exclude=a", "--exclude=list.0", "--rename=True=b")
        self.assertEqual(load(self.path("m.pt")), {"list": [None, [1, 2]], "b": [1, 2]})

    def test_a_key_that_cannot_be_written_is_a_loss(self):
        value = dict_of(m=pairs((name("some.module", "KEY"), list_of(tensor("0", 2, (2,), (1,)), number(1))),
                                (text("epoch"), number(3))))  # fmt: skip
        path = self.file("k.pt", saved(value, {"0": [1, 2]}))
        done = run("convert", "--opaque-objects", path, self.path("n.pt"))
        self.assertEqual(done.returncode, 1)
        self.assertIn('value "m.some.module.KEY": a pickle has no object of the class "some.module.KEY"; --allow-loss', done.stderr)
        self.assertFalse(os.path.exists(self.path("n.pt")))
        self.good("convert", "--opaque-objects", "--allow-loss", path, self.path("n.pt"))
        self.assertEqual(load(self.path("n.pt")), {"m": {"epoch": 3}, "m.some.module.KEY.0": [1, 2]})

    def test_a_long_key_over_many_values(self):
        """The names of all values would take 100 GB."""
        value = dict_of(**{"K" * 1_000_000: dict_of(**{str(i): number(i) for i in range(100_000)})}, t=tensor("0", 1, (), ()))
        path = self.file("k.pt", saved(value, {"0": [1]}))
        limit = 3 << 30

        def small(*arguments):
            if sanitized():
                return run(*arguments)
            return run(*arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))

        self.assertIn("values: more than ", small("ls", path).stdout)
        done = small("ls", "--values", path, "nosuch")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('"nosuch" matches no value', done.stderr)
        self.assertEqual(small("ls", "--values", path, "t").stdout.split()[:2], ["t", "tensor"])
        done = small("convert", path, self.path("t.pt"), "--include=t")
        self.assertEqual((done.returncode, load(self.path("t.pt"))), (0, {"t": [1]}), done.stderr)
        done = small("convert", path, self.path("t.safetensors"), "--include=t")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_one_line(small("ls", "--values", path, "*t"), 1, "too long to compare all of them with patterns")

    def test_maps_without_entries_come_back(self):
        path = self.file("e.pt", saved(dict_of(w=tensor("0", 1, (), ()), state=b"}", m=dict_of(a=b"}"), items=b"]"),
                                       {"0": [1]}))  # fmt: skip
        self.good("convert", path, self.path("e.safetensors"))
        self.assertEqual(json.loads(self.good("ls", "--json", "--values", self.path("e.safetensors")))["values"],
                         {"format": "pt", "state": {}, "m.a": {}, "items": []})  # fmt: skip
        self.good("convert", self.path("e.safetensors"), self.path("back.pt"))
        self.assertEqual(load(self.path("back.pt")), {"state": {}, "m.a": {}, "items": [], "w": [1]})
        done = run("convert", path, self.path("e.npz"))
        self.assertIn('3 values beside the tensors are not copied: "state", "m.a", "items"', done.stderr)

    def test_metadata_beside_the_object_is_listed(self):
        path = self.checkpoint()
        self.good("edit", "--set", "author=me", "--set", "epoch=x", path)
        self.assertEqual(self.good("ls", "--values", path, "author").split(), ["author", "text", '"me"'])
        self.assertEqual(self.good("show", path, "author"), '"me"\n')
        self.assertEqual(self.good("show", path, "epoch"), "12\n")
        self.assertEqual([line.split() for line in self.good("ls", "--values", path, "epoch").splitlines()],
                         [["epoch", "int", "12"], ["epoch", "text", '"x"']])  # fmt: skip
        document = json.loads(self.good("ls", "--values", "--json", path))
        self.assertEqual(document["metadata"], {"author": "me", "epoch": "x"})
        document = json.loads(self.good("ls", "--values", "--json", path, "a*"))
        self.assertEqual((document["values"], document["metadata"]), ({}, {"author": "me"}))
        plain = self.file("t.pt", saved(dict_of(t=tensor("0", 1, (), ())), {"0": [1]}))
        self.good("edit", "--set", "author=me", plain)
        self.assertIn('values: author="me" (ls --values)', self.good("ls", plain))

    def test_a_conversion_notes_what_no_format_has(self):
        state = call(name("collections", "OrderedDict")) + dict_of(w=tensor("0", 1, (), ()))[1:] + dict_of(_metadata=b"}") + b"b"
        parameter = call(name("torch._utils", "_rebuild_parameter_with_state"), tensor("0", 1, (), ()), b"\x89", b"N",
                         dict_of(mask=tensor("0", 1, (), ())))
        value = dict_of(state=state, p=parameter, array=array("i1", (1,), b"a"),
                        frozen=call(name("builtins", "frozenset"), list_of(number(1))),
                        last=call(name("collections", "deque"), list_of(number(1)), number(5)),
                        path=call(name("pathlib", "PurePosixPath"), text("a"), text("b")))
        path = self.file("m.pt", saved(value, {"0": [1]}))
        note = (f'{path}: the new file lacks the attributes of 1 dict (_metadata), the places of the tensors that are '
                'attributes of 1 tensor (of "p"), the classes of some values (PurePosixPath, deque, frozenset, numpy.ndarray)\n')
        for target in ("n.pt", "n.safetensors", "n.npz"):
            done = run("convert", path, self.path(target))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr.count(note), 1, done.stderr)
        self.assertNotIn("lacks", run("convert", self.path("n.pt"), self.path("o.pt")).stderr)

    def test_other_scales_of_equal_elements_are_noted(self):
        def quantized(file_name, scale):
            storage = tuple_of(text("storage"), name("torch", "QInt8Storage"), text("0"), text("cpu"), number(4)) + b"Q"
            scheme = tuple_of(name("torch", "per_tensor_affine"), real(scale), number(0))
            value = call(name("torch._utils", "_rebuild_qtensor"), storage, number(0), tuple_of(number(4)),
                         tuple_of(number(1)), scheme, b"\x89", call(name("collections", "OrderedDict")))
            return self.file(file_name, saved(dict_of(q=value), {"0": [1]}))

        one, same, other = quantized("a.pt", 0.5), quantized("b.pt", 0.5), quantized("c.pt", 0.25)
        self.assertEqual(run("diff", one, same).stderr, "")
        done = run("diff", one, other)
        self.assertEqual((done.returncode, done.stdout), (0, "1 tensor equal, 0 different\n"))
        self.assertIn("note: 1 tensor with equal quantized elements has another scale", done.stderr)
        self.assertEqual(json.loads(self.good("diff", "--json", one, other))["other_scales"], 1)

    def test_values_are_text_where_there_is_only_text(self):
        """Numbers, bools and texts go by their paths and come back; what has no text is named."""
        path = self.file("v.pt", saved(dict_of(
            model=dict_of(w=tensor("0", 6, (2, 3), (3, 1))), epoch=number(12), done=b"\x88", nothing=b"N",
            name=text("größe\n7"), losses=list_of(real(0.5), real(0.25)), raw=array("i1", (2, 2), b"abcd"),
            optimizer=dict_of(groups=list_of(dict_of(lr=real(0.001), betas=tuple_of(real(0.9), real(0.999)))))),
            {"0": range(6)}))  # fmt: skip
        self.good("convert", path, self.path("v.safetensors"))
        listing = json.loads(self.good("ls", "--json", self.path("v.safetensors")))
        table = listing["metadata"].pop("tensorcask.values")
        self.assertEqual(listing["metadata"].pop("format"), "pt")  # which transformers wants of all metadata
        self.assertEqual(listing["metadata"], {
            "epoch": "12", "done": "true", "nothing": "null", "name": '"größe\\u000a7"', "losses": "[0.5,0.25]",
            "raw.0": "[97,98]", "raw.1": "[99,100]", "optimizer.groups.0.lr": "0.001",
            "optimizer.groups.0.betas": "[0.9,0.999]"})  # fmt: skip
        self.assertIn("value int epoch\n", table)
        self.assertIn("value tuple(float64) optimizer.groups.0.betas", table)
        values = json.loads(self.good("ls", "--json", "--values", self.path("v.safetensors")))["values"]
        self.assertEqual((values["epoch"], values["done"], values["name"]), (12, True, "größe\n7"))
        self.good("convert", self.path("v.safetensors"), self.path("back.pt"))
        flat = {"epoch": 12, "done": True, "nothing": None, "name": "größe\n7", "losses": [0.5, 0.25],
                "raw.0": [97, 98], "raw.1": [99, 100], "optimizer.groups.0.lr": 0.001,
                "optimizer.groups.0.betas": [0.9, 0.999], "model.w": {"tensor": "model.w"}}  # fmt: skip
        self.assertEqual(json.loads(self.good("show", self.path("back.pt"), ".")), flat)
        self.good("convert", self.path("back.pt"), self.path("again.safetensors"))
        self.good("convert", self.path("again.safetensors"), self.path("again.pt"))
        with open(self.path("back.pt"), "rb") as one, open(self.path("again.pt"), "rb") as other:
            self.assertEqual(one.read(), other.read())
        self.good("convert", path, self.path("v.gguf"))
        self.assertEqual(self.good("show", self.path("v.gguf"), "optimizer.groups.0.lr"), "0.001\n")
        done = run("convert", self.path("v.safetensors"), self.path("v.npz"))  # no metadata there: noted, as of a .pt file
        self.assertIn("9 values beside the tensors are not copied", done.stderr)
        self.assertEqual(done.returncode, 0)

    def test_texts_of_values_may_change(self):
        self.good("convert", self.checkpoint(), self.path("m.safetensors"))
        path = self.path("m.safetensors")
        self.good("edit", path, "--set", "epoch=13", "--set", "plain=7", "--unset", "optimizer.param_groups.0.lr")
        values = json.loads(self.good("ls", "--json", "--values", path))["values"]
        self.assertEqual((values["epoch"], values["plain"]), (13, "7"))
        self.good("edit", path, "--set", "epoch=many")  # no int: a text
        self.assertEqual(json.loads(self.good("ls", "--json", "--values", path))["values"]["epoch"], "many")
        for table in ("", "value int", "value int epoch", "metadata list(int) plain\nvalue \\q\n\n", "value int \\x"):
            self.good("edit", path, "--set", f"tensorcask.values={table}", "--set", "epoch=1")
            self.good("ls", "--values", path)
            self.good("convert", path, self.path("n.pt"), "--overwrite")
        done = run("convert", path, self.path("n.safetensors"), "--unset", "epoch")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("epoch", json.loads(self.good("ls", "--json", self.path("n.safetensors")))["metadata"])
        one, two = (self.file(f"{i}.pt", saved(dict_of(epoch=number(i), **{f"w{i}": tensor("0", 1, (1,), (1,))}), {"0": [i]}))
                    for i in (1, 2))  # fmt: skip
        self.assert_one_line(run("convert", one, two, self.path("both.safetensors")), 1, 'the metadata "epoch" is "2"')
        self.good("convert", one, two, self.path("both.safetensors"), "--unset", "epoch")

    def test_opaque_values_are_a_loss(self):
        value = dict_of(w=tensor("0", 1, (1,), (1,)), hook=call(name("some.module", "Hook"), number(1)))
        path = self.file("o.pt", saved(value, {"0": [1]}))
        done = run("convert", "--opaque-objects", path, self.path("o.safetensors"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn('value "hook" is an object of the class "some.module.Hook", which a safetensors file cannot hold; '
                      "--allow-loss", done.stderr)  # fmt: skip
        self.assertFalse(os.path.exists(self.path("o.safetensors")))
        done = run("convert", "--opaque-objects", "--allow-loss", path, self.path("o.safetensors"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.good("convert", "--opaque-objects", "--exclude", "hook", path, self.path("p.safetensors"))

    def test_quantized_tensors_keep_their_scales(self):
        def quantized(key, *parameters):
            storage = tuple_of(text("storage"), name("torch", "QInt8Storage"), text(key), text("cpu"), number(12)) + b"Q"
            hooks = call(name("collections", "OrderedDict"))
            return call(name("torch._utils", "_rebuild_qtensor"), storage, number(0), tuple_of(number(2), number(6)),
                        tuple_of(number(6), number(1)), tuple_of(*parameters), b"\x89", hooks)  # fmt: skip

        one = quantized("0", name("torch", "per_tensor_affine"), real(0.1), number(3))
        scales = tensor("1", 2, (2,), (1,))
        channels = quantized("0", name("torch", "per_channel_affine"), scales, scales, number(0))
        path = self.file("q.pt", saved(dict_of(one=one, many=dict_of(channels=channels)), {"0": [0, 1, 2], "1": [0.5, 2]}))
        self.good("convert", path, self.path("copy.pt"))
        self.good("diff", path, self.path("copy.pt"))
        self.good("verify", self.path("copy.pt"))
        self.good("edit", "--rename", "one=two", self.path("copy.pt"))
        lists = [json.loads(self.good("ls", "--json", self.path(of)))["tensors"] for of in ("q.pt", "copy.pt")]
        self.assertEqual([[tensor["attributes"] for tensor in of] for of in lists], [[
            {"torch.qscheme": "torch.per_channel_affine", "torch.scale": "[0.5,2.0]", "torch.zero_point": "[0.5,2.0]",
             "torch.axis": "0"},
            {"torch.qscheme": "torch.per_tensor_affine", "torch.scale": "0.1", "torch.zero_point": "3"}]] * 2)
        done = run("convert", "--dtype", "any:*=float32", path, self.path("float.pt"))  # the integers, without the scale
        self.assert_one_line(done, 1, 'tensor "one" has metadata')
        self.good("convert", path, self.path("q.tfrecord"))  # the attributes travel
        self.good("convert", self.path("q.tfrecord"), self.path("back.pt"))
        self.assertEqual(json.loads(self.good("ls", "--json", self.path("back.pt")))["tensors"][1]["attributes"]["torch.scale"],
                         "0.1")
        bare = self.file("bare.pbtxt", b'dtype: DT_QINT8 tensor_shape { dim { size: 2 } } tensor_content: "ab"')
        self.assert_one_line(run("convert", bare, self.path("no.pt")), 1, "need a scale in PyTorch")

    def test_any_format_is_written_as_a_dict(self):
        self.good("convert", self.checkpoint(), self.path("m.safetensors"))
        self.good("edit", self.path("m.safetensors"), "--set", "note=größe")
        for source in ("m.safetensors", "m.pt"):
            self.good("convert", self.path(source), self.path("n.pt"), "--overwrite")
            self.good("diff", self.path("m.pt"), self.path("n.pt"))
            self.good("verify", self.path("n.pt"))
            listing = json.loads(self.good("ls", "--json", self.path("n.pt")))
            self.assertEqual([one.get("alias_of") for one in listing["tensors"]], [None, None, "model.tied"])
            sizes = [one["bytes"] for one in listing["tensors"]]
            tied, total = self.good("ls", self.path("n.pt")).splitlines()[2:4]
            self.assertTrue(tied.endswith("plain, the same as model.tied"), tied)
            self.assertTrue(total.startswith(f"total: 3 tensors, {sum(sizes)} bytes"), total)
            self.assertTrue(total.endswith(f", {sizes[2]} of them of 1 tensor that is the same as another"), total)
            again = self.good("convert", self.path("n.pt"), self.path("again.pt"), "--overwrite")
            self.assertNotIn("not copied", again)
            with open(self.path("n.pt"), "rb") as one, open(self.path("again.pt"), "rb") as other:
                self.assertEqual(one.read(), other.read())
            self.good("convert", self.path("n.pt"), self.path("back.safetensors"), "--overwrite")
            self.good("diff", self.path("m.safetensors"), self.path("back.safetensors"))
            if source == "m.safetensors":
                self.assertEqual(listing["metadata"]["note"], "größe")
                self.assertEqual(list(json.loads(self.good("show", self.path("n.pt"), "."))),
                                 ["epoch", "optimizer.param_groups.0.betas", "optimizer.param_groups.0.lr",
                                  "model.tied", "model.turned", "model.weight"])
        self.assert_one_line(run("convert", self.path("m.pt"), self.path("n.pt")), 1, "n.pt", "exists")

    def test_values_stay_where_they_are(self):
        path = self.checkpoint()
        self.good("convert", path, self.path("n.pt"))
        self.assertEqual(self.good("show", self.path("n.pt"), "."), self.good("show", path, "."))
        self.good("convert", path, self.path("model.pt"), "--include=model.*", "--rename=s/^model[.]//")
        self.assertEqual(json.loads(self.good("show", self.path("model.pt"), ".")),
                         {name: {"tensor": name} for name in ("tied", "turned", "weight")})
        self.good("convert", path, self.path("rest.pt"), "--exclude=optimizer*", "--exclude=model.t*")
        self.assertEqual(json.loads(self.good("show", self.path("rest.pt"), ".")),
                         {"model": {"weight": {"tensor": "model.weight"}}, "epoch": 12})
        some = dict_of(list=list_of(tensor("0", 4, (2,), (1,)), number(7), tensor("0", 4, (1,), (1,), 3)))
        self.good("convert", self.file("some.pt", saved(some, {"0": range(4)})), self.path("one.pt"), "--exclude=list.0")
        self.assertEqual(self.good("show", self.path("one.pt"), "."), '{"list":[null,7,{"tensor":"list.2"}]}\n')
        self.assert_one_line(run("convert", path, self.path("x.pt"), "--rename=model.weight=epoch"), 1,
                             'tensor "model.weight" would be called "epoch", as a value beside the tensors is')

    def test_a_text_at_many_places_is_written_once(self):
        again = text("a" * 100_000) + b"q\x07"
        value = dict_of(texts=list_of(again, *[b"h\x07"] * 200), w=tensor("0", 1, (), ()))
        path = self.file("m.pt", saved(value, {"0": [1]}))
        self.good("convert", path, self.path("n.pt"))
        self.assertLess(os.path.getsize(self.path("n.pt")), 110_000)
        self.assertEqual(self.good("show", self.path("n.pt"), "."), self.good("show", path, "."))

    def test_objects_are_a_loss(self):
        value = dict_of(w=tensor("0", 1, (), ()), args=call(name("argparse", "Namespace")), x=number(1))
        path = self.file("m.pt", saved(value, {"0": [1]}))
        wanted = f'{path}: value "args": a pickle has no object of the class "argparse.Namespace"'
        self.assert_one_line(run("convert", path, self.path("n.pt")), 1, wanted, "--allow-loss")
        self.assertFalse(os.path.exists(self.path("n.pt")))
        done = run("convert", "--allow-loss", path, self.path("n.pt"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(wanted, done.stdout + done.stderr)
        self.assertEqual(self.good("show", self.path("n.pt"), "."), '{"w":{"tensor":"w"},"x":1}\n')

    def test_a_file_is_edited(self):
        path = self.checkpoint()
        self.good("edit", path, "--rename", "model.turned=turned", "--remove", "model.tied", "--set", "k=v")
        self.assertEqual(json.loads(self.good("show", path, ".")),
                         {"model": {"weight": {"tensor": "model.weight"}},
                          "optimizer": {"param_groups": [{"lr": 0.001, "betas": [0.9, 0.999]}]}, "epoch": 12,
                          "turned": {"tensor": "turned"}})
        self.assertEqual(self.good("show", path, "turned"), "float32 [3,2]\n[[0 3]\n [1 4]\n [2 5]]\n")
        self.assertEqual(json.loads(self.good("ls", "--json", path))["metadata"], {"k": "v"})
        self.good("edit", path, "--unset", "k", "--output", self.path("n.pt"))
        self.assertNotIn("k", json.loads(self.good("ls", "--json", self.path("n.pt"))).get("metadata", {}))

    def members(self, path):
        with zipfile.ZipFile(path) as archive:
            return {info.filename: archive.read(info) for info in archive.infolist()}

    def test_a_change_of_the_metadata_keeps_all_other_records(self):
        state = dict_of(w=tensor("0", 1, (), ()))[1:]  # without the dict itself
        value = call(name("collections", "OrderedDict")) + state + dict_of(_metadata=b"}") + b"b"
        path = self.file("m.pt", saved(value, {"0": [1]}))
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("archive/extra/notes.txt", "a note")
            archive.writestr("elsewhere/x.py", "pass", zipfile.ZIP_DEFLATED)
            archive.writestr("archive/.format_version", "1")
        before = self.members(path)
        del before["archive/.format_version"]
        self.good("edit", "--dry-run", "--set", "k=v", path)
        self.good("edit", "--set", "k=v", path)
        after = self.members(path)
        self.assertIn(b"k", after.pop("archive/extra/tensorcask_metadata.pkl"))
        self.assertEqual(after, before)
        self.assertEqual(json.loads(self.good("ls", "--json", path))["metadata"], {"k": "v"})
        self.good("edit", "--unset", "k", "--output", self.path("n.pt"), path)
        self.assertEqual(self.members(self.path("n.pt")), before)
        self.good("verify", path)
        # A new pickle has neither the attributes nor the records.
        content = read(path)
        lacks = 'the attributes of 1 dict (_metadata), the records "archive/extra/notes.txt", "elsewhere/x.py"'
        self.assert_one_line(run("edit", "--rename", "w=v", path), 1, f"{path}: a file with these changes would lack {lacks}",
                             "--output FILE")
        self.assertEqual(read(path), content)
        done = run("edit", "--rename", "w=v", "--output", self.path("o.pt"), path)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in lacks.split(", the "):
            self.assertIn(line, done.stdout)
        self.assertEqual(self.good("show", self.path("o.pt"), "v"), "float32 []\n1\n")

    def test_attributes_that_are_not_read_have_a_note(self):
        parameter = call(name("torch._utils", "_rebuild_parameter_with_state"), tensor("0", 1, (), ()), b"\x88", b"N",
                         dict_of(tag=text("hello"), mask=tensor("0", 1, (), ())))
        path = self.file("m.pt", saved(dict_of(w=parameter), {"0": [1]}))
        note = 'the attributes of 1 tensor that are not tensors (of "w")'
        for done in (run("ls", path), run("convert", path, self.path("n.pt"))):
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"{note} are not read", done.stderr)
        self.assertIn(note, run("edit", "--remove", "w.mask", path).stderr)

    # ---- Models in several files ---------------------------------------------------------------------------------------

    def sharded(self):
        """a and b in the first file, c and its other name d in the second."""
        one = dict_of(a=tensor("0", 2, (2,), (1,)), b=tensor("1", 1, (), ()))
        two = dict_of(c=tensor("0", 3, (3,), (1,)), d=tensor("0", 3, (3,), (1,)))
        self.file("m-00001-of-00002.bin", saved(one, {"0": [1, 2], "1": [3]}))
        self.file("m-00002-of-00002.bin", saved(two, {"0": [4, 5, 6]}))
        return self.index(a=1, b=1, c=2, d=2)

    def index(self, **files):
        document = {"metadata": {"total_size": 24},
                    "weight_map": {key: f"m-0000{number}-of-00002.bin" for key, number in files.items()}}
        return self.file("pytorch_model.bin.index.json", json.dumps(document).encode())

    def listed_with_damage(self, path):
        """{name: tensor} of `ls`, whose status says that some tensors cannot be read."""
        done = run("ls", "--json", path)
        self.assertEqual(done.returncode, 1, done.stderr)
        return {one["name"]: one for one in json.loads(done.stdout)["tensors"]}

    def test_a_model_in_several_files(self):
        path = self.sharded()
        for target in (path, self.path(".")):
            listing = json.loads(self.good("ls", "--json", "--checksum", target))
            self.assertEqual([(one["name"], one["shape"], one["shard"]) for one in listing["tensors"]],
                             [("a", [2], 0), ("b", [], 0), ("c", [3], 1), ("d", [3], 1)])
        self.assertEqual(listing["format"], "torch")
        self.assertEqual(listing["tensors"][3]["alias_of"], "c")
        self.assertEqual(self.good("show", path, "c"), "float32 [3]\n[4 5 6]\n")
        self.good("verify", path)
        self.good("convert", path, self.path("m.safetensors"))
        self.good("diff", path, self.path("m.safetensors"))
        self.assertEqual(self.good("show", self.path("m.safetensors"), "d"), "float32 [3]\n[4 5 6]\n")
        self.assert_one_line(run("edit", path, "--rename=a=x"), 1, path, "a model in several files")

    def test_one_file_of_a_model_says_so(self):
        self.sharded()
        self.good("convert", self.path("m-00001-of-00002.bin"), self.path("t.safetensors.index.json"), "--shard-size=8")
        for name, note in (("m-00001-of-00002.bin", "file 1 of 2 of a model, which is usually opened by m.bin.index.json"),
                           ("t-00002-of-00002.safetensors",
                            "file 2 of 2 of a model, which is usually opened by t.safetensors.index.json")):
            note = f"note: {self.path(name)}: is {note}\n"
            for command in ("ls", "verify", "stats"):
                done = run(command, self.path(name))
                self.assertEqual(done.returncode, 0)
                self.assertIn(note, done.stderr + done.stdout, command)
            self.assertIn(note, run("convert", self.path(name), self.path(name + ".npz")).stderr)
        content = read(self.path("m-00001-of-00002.bin"))
        for name in ("m-00001-of-00001.bin", "m-00003-of-00002.bin", "m-0001-of-0002.bin", "m-00001-of-000002.bin",
                     "00001-of-00002.bin", "m-00000-of-00002.bin", "m-of-00002.bin"):  # fmt: skip
            for command in ("ls", "verify"):
                done = run(command, self.file(name, content))
                self.assertEqual(done.returncode, 0)
                self.assertNotIn("of a model", done.stderr + done.stdout, name)

    def test_values_in_the_files_of_a_model_are_left_out_with_a_note(self):
        path = self.sharded()
        one = dict_of(a=tensor("0", 2, (2,), (1,)), b=tensor("1", 1, (), ()), step=b"K\x07", name=b"X\x01\0\0\0n")
        file = self.file("m-00001-of-00002.bin", saved(one, {"0": [1, 2], "1": [3]}))
        for command in (["ls", path], ["convert", path, self.path("m.npz")]):
            done = run(*command)
            self.assertEqual(done.returncode, 0)
            self.assertIn(f'{file}: values beside the tensors are left out (2): "step", ...\n', done.stderr)

    def test_a_missing_file_hides_its_tensors(self):
        path = self.sharded()
        missing = self.path("m-00002-of-00002.bin")
        os.remove(missing)
        listed = self.listed_with_damage(path)
        self.assertEqual(sorted(listed), ["a", "b", "c", "d"])
        self.assertIn(f"{missing}: is missing; {path} lists it", listed["c"]["error"])
        self.assertEqual(self.good("show", path, "a"), "float32 [2]\n[1 2]\n")
        self.assertIn("is missing", run("show", path, "c").stderr)
        done = run("verify", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{missing}: is missing", done.stdout + done.stderr)
        self.assertEqual(run("convert", path, self.path("x.npz")).returncode, 1)
        self.good("convert", path, self.path("x.npz"), "--exclude=[cd]")

    def test_the_index_and_the_files_are_compared(self):
        self.sharded()
        path = self.index(a=1, b=2, c=2)
        listed = self.listed_with_damage(path)
        self.assertEqual(sorted(listed), ["a", "b", "c", "d"])
        self.assertIn("which does not have it", listed["b"]["error"])
        self.assertNotIn("error", listed["d"])
        done = run("verify", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn('has the tensor "b", which', done.stdout + done.stderr)
        self.assertIn('has the tensor "d", which', done.stdout + done.stderr)
        self.assertIn("3 tensors whole, 1 damaged", done.stdout + done.stderr)
        path = self.index(a=1, b=2)
        self.assertIn("does not list there, nor 1 other tensor", run("ls", path).stderr)
        self.file("pytorch_model.bin.index.json", b'{"weight_map": {"a": "../m-00001-of-00002.bin"}}')
        self.assert_one_line(run("ls", path), 1, "it must be the name of a file in the folder of the index")

    def test_a_link_out_of_the_folder_is_not_followed(self):
        path = self.sharded()
        os.mkdir(self.path("other"))
        os.rename(self.path("m-00001-of-00002.bin"), self.path("other/secret.bin"))
        os.mkdir(self.path("model"))
        for file_name in ("m-00002-of-00002.bin", "pytorch_model.bin.index.json"):
            os.rename(self.path(file_name), self.path("model/" + file_name))
        os.symlink("../other/secret.bin", self.path("model/m-00001-of-00002.bin"))
        path = self.path("model/pytorch_model.bin.index.json")
        listed = self.listed_with_damage(path)
        self.assertIn("is a link", listed["a"]["error"])
        self.assertNotIn("error", listed["c"])

    # ---- Unknown classes -----------------------------------------------------------------------------------------------

    def test_opaque_objects(self):
        value = dict_of(w=tensor("0", 1, (), ()), x=call(name("posix", "system"), text("touch " + self.path("harm"))))
        path = self.file("m.pt", saved(value, {"0": [1]}))
        self.assert_one_line(run("ls", path), 1, 'names "posix.system"', "--opaque-objects")
        self.assertIn("w  float32", self.good("ls", "--opaque-objects", path))
        shown = json.loads(self.good("show", "--opaque-objects", path, "x"))
        self.assertEqual(shown["object"], "posix.system")
        self.assertIn('"posix.system"', run("ls", "--opaque-objects", path).stderr)
        done = run("convert", "--opaque-objects", path, self.path("n.pt"))
        self.assertEqual(done.returncode, 1)
        self.assertIn('value "x": a pickle has no object of the class "posix.system"', done.stderr)
        self.good("convert", "--opaque-objects", "--allow-loss", path, self.path("n.pt"))
        self.assertEqual(self.good("show", self.path("n.pt"), "w"), "float32 []\n1\n")
        self.good("convert", "--opaque-objects", path, self.path("n.npz"))
        self.assertFalse(os.path.exists(self.path("harm")))

    def test_damage_is_found(self):
        path = self.checkpoint()
        self.good("verify", path)
        with open(path, "r+b") as file:
            content = file.read()
            file.seek(content.index(struct.pack("<2f", 4, 5)))
            file.write(b"\1")
        done = run("verify", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn('tensor "model.weight"', done.stdout + done.stderr)
        done = run("show", path, "model.weight")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f'{path}: tensor "model.weight"', done.stderr)

    def test_a_harmful_file_is_refused_by_name(self):
        harmful = dict_of(w=tensor("0", 1, (), ()), x=call(name("posix", "system"), text("touch " + self.path("harm"))))
        path = self.file("m.pt", saved(harmful, {"0": [1]}))
        for command in (["ls", path], ["show", path, "w"], ["verify", path], ["convert", path, self.path("x.npz")]):
            self.assert_one_line(run(*command), 1, path, 'names "posix.system", which would run a program')
        self.assertEqual(sorted(os.listdir(self.path("."))), ["m.pt"])

    def test_what_is_no_file_of_torch_is_named(self):
        path = self.file("m.pt", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
        self.assert_one_line(run("ls", path), 1, f"{path}: this is a pointer of Git LFS")
        path = self.file("n.pth", b"text" * 20)
        self.assert_one_line(run("ls", path), 1, f"{path}: neither a zip archive nor a stream of torch.save")
        path = self.file("o.pt", saved(CHECKPOINT, {"0": range(6)})[:300])
        self.assert_one_line(run("ls", path), 1, f"{path}: no end record of a zip archive")

    @unittest.skipUnless(os.path.isdir(os.path.join(DATA, "pytorch")), "SKIPPED: no test data")
    def test_files_of_others(self):
        folder = os.path.join(DATA, "pytorch")
        with open(os.path.join(folder, "expected.json"), encoding="utf-8") as file:
            expected = json.load(file)["files"]
        count = 0
        for file_name in sorted(expected):
            if not file_name.startswith("synthetic/") or "sparse" in file_name:
                continue
            listing = json.loads(self.good("ls", "--json", "--checksum", os.path.join(folder, file_name)))
            wanted = {".".join(map(str, one["path"])): (one["dtype"], one["shape"], f"{one['crc32_contiguous']:08x}")
                      for one in expected[file_name]["tensors"]}
            found = {one["name"]: (one["dtype"], one["shape"], one["crc32"]) for one in listing["tensors"]}
            if list(wanted) == [""]:
                found = {"": value for value in found.values()}
            self.assertEqual(found, wanted, file_name)
            count += 1
        self.assertGreater(count, 50)


if __name__ == "__main__":
    case_report.main("torch")
