"""Files of torch.save, read without PyTorch."""

import os

import numpy as np
import pytest

import tensorcask as tc

SEEDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "fuzz", "corpus", "torch_file")


def test_open_and_convert(tmp_path):
    with tc.open(os.path.join(SEEDS, "zip")) as reader:
        assert reader.format == "torch"
        assert "model.steps" in reader
        wanted = {name: reader[name] for name in reader}
    assert wanted["model.embed.weight"].shape == (2, 3)
    np.testing.assert_array_equal(wanted["model.embed.weight"], wanted["model.head.weight"])  # tied
    tc.convert(os.path.join(SEEDS, "zip"), tmp_path / "m.safetensors", allow_loss=True)
    again = tc.load(tmp_path / "m.safetensors")
    assert sorted(again) == sorted(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(again[name], array)


def test_a_file_that_would_run_something_is_refused(tmp_path):
    path = tmp_path / "m.pt"
    with open(os.path.join(SEEDS, "stream"), "rb") as seed:
        magic = seed.read(0x40)
    path.write_bytes(magic[: magic.index(b".") + 1] + b"\x80\x02M\xe9\x03.\x80\x02}.\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.")
    with pytest.raises(tc.Error, match="os.system"):
        tc.open(path)


def test_is_written(tmp_path):
    tc.save(tmp_path / "new.pt", {"w": np.arange(3.0)})
    assert tc.load(tmp_path / "new.pt")["w"].tolist() == [0, 1, 2]


def test_nested():
    nested = tc.load(os.path.join(SEEDS, "zip"), nested=True)
    flat = tc.load(os.path.join(SEEDS, "zip"))

    def walk(value, path):
        if isinstance(value, np.ndarray):
            yield ".".join(path), value
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from walk(item, [*path, str(key)])
        elif isinstance(value, (list, tuple)):
            for number, item in enumerate(value):
                yield from walk(item, [*path, str(number)])

    found = dict(walk(nested, []))
    assert found.keys() == flat.keys()
    for name, array in flat.items():
        np.testing.assert_array_equal(found[name], array)
    with tc.open(os.path.join(SEEDS, "zip")) as reader:
        assert [name for name, _ in walk(reader.nested(read=lambda name: np.zeros(0)), [])] == list(found)
    with pytest.raises(tc.InvalidArgumentError, match="nested=True loads all"):
        tc.load(os.path.join(SEEDS, "zip"), "w", nested=True)


def test_nested_of_a_flat_file(tmp_path):
    tc.save(tmp_path / "m.safetensors", {"w": np.ones(2)}, metadata={"step": "7"})
    nested = tc.load(tmp_path / "m.safetensors", nested=True)
    assert nested["step"] == "7"
    assert nested["w"].tolist() == [1, 1]
