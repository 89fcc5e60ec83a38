"""Whatever the program can do, a function of the module can: their options, side by side."""

import json
import os
import re

import numpy as np
import pytest

import tensorcask as tc
from tensorcask import _keywords

COMPLETIONS = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "manual", "tensorcask.bash")

READING = {"--format": "format", "--lenient": "lenient", "--base": "base", "--ignore-checksums": "verify"}
WRITING = {"--to": "format", "--level": "level", "--alignment": "alignment", "--no-checksums": "checksums",
           "--shard-size": "max_shard_bytes", "--overwrite": "overwrite"}  # fmt: skip
SELECTING = {"--include": "include", "--exclude": "exclude"}
# Command of the program -> a function, and its argument for each option.
TABLE = {
    "convert": (tc.convert, {**READING, **WRITING, **SELECTING, "--format": "source_format", "--rename": "rename",
                             "--exclude-slots": "exclude_slots", "--dtype": "dtypes", "--set": "metadata", "--unset": "metadata",
                             "--allow-loss": "allow_loss", "--dry-run": "dry_run"}),
    "save": (tc.save, WRITING),
    "diff": (tc.diff, {"--rtol": "rtol", "--atol": "atol", "--cast": "cast", "--rename": "rename",
                       "--ignore-checksums": "verify"}),
    "verify": (tc.verify, {"--format": "format", "--base": "base"}),
    "stats": (tc.stats, {"--ignore-checksums": "verify"}),
    "salvage": (tc.salvage, {"--overwrite": "overwrite", "--base": "base"}),
}  # fmt: skip
# What a program needs and a function does not: help, another form of the result, what the dtype of an array says, and
# what is chosen in Python itself.
OF_PROGRAMS = {"--help", "-h", "--json", "--opaque-dtype", "--limit", "--names"}
READING = {"--constants", "--no-links", "--stored"}  # of ONNX and GGUF
MISSING = {
    "save": {*SELECTING, "--allow-loss"},  # the caller chooses the arrays
    "convert": READING,
    "diff": {"--format", "--lenient", "--base", *READING},
    "stats": {"--format", "--lenient", "--base", *READING},
    "verify": {"--lenient", *READING},
    "salvage": {"--to", "--lenient"},
}
# What a program decides by itself.
OF_FUNCTIONS = {"sync", "threads", "progress", "shards", "names", "metadata", "base"}


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
                                              ("m.npz", 5, "an npz file cannot be split by size")])  # fmt: skip
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
