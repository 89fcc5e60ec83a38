"""Distributed checkpoints of PyTorch, read without PyTorch."""

import os
import sys

import numpy as np
import pytest

import tensorcask as tc

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "tools")
sys.path.append(TOOLS)
from dcp_files import two_ranks  # noqa: E402

NUMBERS = np.arange(6, dtype=np.float32)


def test_parts_of_all_files_are_whole_tensors(tmp_path):
    step = two_ranks().write(tmp_path / "step")
    with tc.open(step) as reader:
        assert reader.format == "dcp"
        assert list(reader) == ["model.columns", "model.rows", "scale"]
        np.testing.assert_array_equal(reader["model.rows"], NUMBERS.reshape(3, 2))
        np.testing.assert_array_equal(reader["model.columns"], NUMBERS.reshape(2, 3))
        assert reader["scale"] == 7
    assert sorted(tc.load(step)) == ["model.columns", "model.rows", "scale"]


def test_is_converted(tmp_path):
    step = two_ranks().write(tmp_path / "step")
    tc.convert(step, tmp_path / "m.safetensors")
    np.testing.assert_array_equal(tc.load(tmp_path / "m.safetensors")["model.rows"], NUMBERS.reshape(3, 2))
    with tc.open(tmp_path / "m.safetensors") as reader:
        assert (reader.metadata["epoch"], reader.metadata["optim.lr"]) == ("3", "0.5")


def test_a_missing_file_hides_its_tensors_alone(tmp_path):
    step = two_ranks().write(tmp_path / "step")
    os.remove(os.path.join(step, "__1_0.distcp"))
    with tc.open(step) as reader:
        assert reader["scale"] == 7
        with pytest.raises(tc.Error, match="model.rows"):
            reader["model.rows"]  # pylint: disable=pointless-statement


def test_a_folder_that_is_not_finished_is_refused(tmp_path):
    step = two_ranks().write(tmp_path / "step")
    os.remove(os.path.join(step, ".metadata"))
    with pytest.raises(tc.Error, match="metadata"):
        tc.open(step)
