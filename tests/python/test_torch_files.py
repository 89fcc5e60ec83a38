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
