"""Whatever the program can do, a function of the module can: their options, side by side."""

import inspect
import json
import os
import re

import numpy as np
import pytest

import tensorcask as tc
from tensorcask import _keywords

COMPLETIONS = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "manual", "tensorcask.bash")

CHECKING = {"--format": "format", "--lenient": "lenient", "--base": "base", "--constants": "constants",
            "--no-links": "links", "--stored": "stored", "--opaque-objects": "opaque_objects",
            "--limit": "limits"}  # fmt: skip
READING = {**CHECKING, "--ignore-checksums": "verify"}
WRITING = {"--to": "format", "--level": "level", "--alignment": "alignment", "--no-checksums": "checksums",
           "--shard-size": "max_shard_bytes", "--replace-in": "replace_in", "--external": "external",
           "--overwrite": "overwrite"}  # fmt: skip
SELECTING = {"--include": "include", "--exclude": "exclude"}
# Command of the program -> a function, and its argument for each option.
TABLE = {
    "convert": (tc.convert, {**READING, **WRITING, **SELECTING, "--format": "source_format", "--rename": "rename",
                             "--exclude-slots": "exclude_slots", "--dtype": "dtypes", "--set": "metadata", "--unset": "metadata",
                             "--allow-loss": "allow_loss", "--dry-run": "dry_run"}),
    "save": (tc.save, WRITING),
    "diff": (tc.diff, {**READING, "--rtol": "rtol", "--atol": "atol", "--cast": "cast", "--rename": "rename"}),
    "verify": (tc.verify, CHECKING),
    "stats": (tc.stats, READING),
    "salvage": (tc.salvage, {"--overwrite": "overwrite", "--base": "base", "--to": "format", "--lenient": "lenient"}),
}  # fmt: skip
# What a program needs and a function does not: help, another form of the result, what the dtype of an array says, and
# what is chosen in Python itself.
OF_PROGRAMS = {"--help", "-h", "--json", "--opaque-dtype", "--names", "--stats"}
# The caller of save chooses the arrays, and has them.
MISSING = {"save": {*SELECTING, "--allow-loss", "--limit"}}
# What a program decides by itself.
OF_FUNCTIONS = {"sync", "threads", "progress", "shards", "names", "metadata", "base", "filesystem", "credentials"}


def options_of(command):
    with open(COMPLETIONS, encoding="utf-8") as file:
        return set(re.search(rf"^    {command}\) echo '(.*)' ;;$", file.read(), re.MULTILINE)[1].split())


@pytest.mark.parametrize("command", TABLE)
def test_each_option_is_an_argument(command):
    function, table = TABLE[command]
    arguments = _keywords.names(function.__doc__.partition("\n")[0])
    assert options_of(command) - OF_PROGRAMS - MISSING.get(command, set()) == set(table)
    assert set(table.values()) <= set(arguments)
    positional = {"source", "destination", "path", "tensors", "a", "b"}
    assert set(arguments) - positional - OF_FUNCTIONS <= set(table.values())


def test_a_server_has_the_options_of_the_program():
    own = {"--listen": "address", "--insecure": "insecure", "--timeout": "slow_client", "--certificate": "credentials",
           "--key": "credentials", "--client-ca": "credentials", "--token-file": "credentials", "--follow": "follow"}  # fmt: skip
    # A Reader, which serve takes, has the options for reading; a Channel is for the same host.
    others = OF_PROGRAMS | set(READING) | {"--unix"}
    assert options_of("serve") - others == set(own)
    assert set(own.values()) <= set(inspect.signature(tc.serve).parameters)


@pytest.mark.parametrize("function", [tc.open, tc.load])
def test_what_opens_has_them_too(function):
    arguments = _keywords.names(function.__doc__.partition("\n")[0]) if function is tc.open else (
        list(inspect.signature(function).parameters))  # fmt: skip
    assert set(READING.values()) <= set(arguments)


@pytest.mark.parametrize("flag", ["lenient", "constants", "links", "opaque_objects", "stored", "verify"])
def test_flags_are_bools(tmp_path, flag):
    tc.save(tmp_path / "m.npz", {"w": np.ones(1)})
    assert tc.load(tmp_path / "m.npz", **{flag: True})["w"] == 1
    for value in (1, "yes", None):
        with pytest.raises(TypeError, match=f"{flag} must be a bool, not <class"):
            tc.open(tmp_path / "m.npz", **{flag: value})


def test_limits(tmp_path):
    tc.save(tmp_path / "m.npz", {"a": np.ones(1), "b": np.ones(1)})
    for read in (tc.open, tc.load, tc.verify, tc.stats):
        read(tmp_path / "m.npz", limits={"max_entries": 2})
        with pytest.raises(tc.ResourceExhaustedError, match="the limit max_entries is 1"):
            read(tmp_path / "m.npz", limits={"max_entries": 1})
    with pytest.raises(ValueError, match='no limit is called "max_entrys"; there are .*max_entries'):
        tc.open(tmp_path / "m.npz", limits={"max_entrys": 1})
    with pytest.raises(ValueError, match="max_entries is 0; wanted 1 or more"):
        tc.open(tmp_path / "m.npz", limits={"max_entries": 0})
    for value in (1.5, True, "1", 1 << 63):
        with pytest.raises(TypeError, match="a value of limits must be an int of 64 bits, not"):
            tc.open(tmp_path / "m.npz", limits={"max_entries": value})


def test_constants_of_onnx(tmp_path):
    def field(number, content):
        return bytes([number << 3 | 2, len(content)]) + content

    tensor = field(4, np.float32(5).tobytes()) + b"\x10\x01"  # float_data; data_type: FLOAT
    attribute = field(1, b"value") + field(5, tensor) + b"\xa0\x01\x04"  # type: TENSOR
    node = field(2, b"five") + field(4, b"Constant") + field(5, attribute)
    (tmp_path / "m.onnx").write_bytes(b"\x08\x08" + field(7, field(1, node)))  # ir_version: 8; graph
    assert list(tc.load(tmp_path / "m.onnx")) == []
    assert tc.load(tmp_path / "m.onnx", constants=True) == {"five": 5}
    assert [one.name for one in tc.stats(tmp_path / "m.onnx", constants=True)] == ["five"]
    assert tc.verify(tmp_path / "m.onnx", constants=True).whole == 1
    assert tc.convert(tmp_path / "m.onnx", tmp_path / "m.npz", constants=True, allow_loss=True)["tensors"] == 1
    assert tc.diff(tmp_path / "m.onnx", tmp_path / "m.npz", constants=True).equal == 1


def test_salvage_names_the_format(tmp_path):
    tc.save(tmp_path / "m.npz", {"w": np.ones(1)})
    assert tc.salvage(tmp_path / "m.npz", tmp_path / "rescued", format="npz", lenient=True)["saved"] == 1
    assert tc.open(tmp_path / "rescued").format == "npz"


def test_convert_makes_several_files(tmp_path):
    tc.save(tmp_path / "m.npz", {str(i): np.full(1000, i, np.float32) for i in range(6)})
    for name, most, files in [("a.safetensors", 8000, 3), ("b.safetensors.index.json", None, 1)]:
        report = tc.convert(tmp_path / "m.npz", tmp_path / name, max_shard_bytes=most)
        assert report["tensors"] == 6
        stem = name.partition(".")[0]
        assert len([one for one in os.listdir(tmp_path) if re.match(rf"{stem}[.-].*safetensors$", one)]) == files
        with open(tmp_path / f"{stem}.safetensors.index.json", encoding="utf-8") as file:
            assert len(json.load(file)["weight_map"]) == 6
        assert tc.load(tmp_path / f"{stem}.safetensors.index.json")["5"][0] == 5


def test_save_and_writers_make_several_files(tmp_path):
    tensors = {str(i): np.full(1000, i, np.float32) for i in range(6)}
    tc.save(tmp_path / "a.safetensors", tensors, max_shard_bytes=8000)
    with tc.Writer(tmp_path / "b.safetensors", max_shard_bytes=8000) as writer:
        for name, values in tensors.items():
            writer.declare(name, "float32", values.shape)
        for name, values in tensors.items():
            writer.add(name, values)
    for stem in "ab":
        assert sorted(one for one in os.listdir(tmp_path) if one.startswith(stem)) == [
            *(f"{stem}-0000{i}-of-00003.safetensors" for i in (1, 2, 3)), f"{stem}.safetensors.index.json"]  # fmt: skip
        assert tc.load(tmp_path / f"{stem}.safetensors.index.json")["5"][0] == 5


@pytest.mark.parametrize("name, most, says", [("m.safetensors", 0, "max_shard_bytes is 0; wanted 1 or more"),
                                              ("m.safetensors", -1, "max_shard_bytes is -1"),
                                              ("m.npz", 5, "is for safetensors files, not for an npz file")])  # fmt: skip
def test_sizes_that_are_refused(tmp_path, name, most, says):
    tc.save(tmp_path / "source", {"w": np.ones(1)})
    for call in [lambda: tc.save(tmp_path / name, {"w": np.ones(1)}, max_shard_bytes=most),
                 lambda: tc.Writer(tmp_path / name, max_shard_bytes=most),
                 lambda: tc.convert(tmp_path / "source", tmp_path / name, max_shard_bytes=most)]:  # fmt: skip
        with pytest.raises(ValueError, match=re.escape(says)):
            call()


def test_convert_changes_metadata(tmp_path):
    tc.save(tmp_path / "a.safetensors", {"w": np.ones(1)}, metadata={"step": "1", "old": "x"})
    tc.convert(tmp_path / "a.safetensors", tmp_path / "b.safetensors", metadata={"step": "2", "old": None, "new": "y"},
               source_format="safetensors")  # fmt: skip
    with tc.open(tmp_path / "b.safetensors") as reader:
        assert reader.metadata == {"format": "pt", "step": "2", "new": "y"}
    with pytest.raises(ValueError, match="lenient|format|checkpoint|safetensors"):
        tc.convert(tmp_path / "a.safetensors", tmp_path / "c.safetensors", source_format="npz")
