"""ONNX: models and tensors of their own, with the tensors that they keep in files beside them."""

import numpy as np
import pytest

import tensorcask as tc


def field(number, wire_type, content):
    return bytes([number << 3 | wire_type]) + content


def counted(number, content):
    return field(number, 2, bytes([len(content)]) + content)


def tensor(name, dims, *rest):
    """A TensorProto of float32."""
    return b"".join(field(1, 0, bytes([dim])) for dim in dims) + field(2, 0, b"\1") + counted(8, name) + b"".join(rest)


def model(*tensors):
    return field(1, 0, b"\x0a") + counted(7, b"".join(counted(5, one) for one in tensors))


def side_file(location):
    return counted(13, counted(1, b"location") + counted(2, location)) + field(14, 0, b"\1")


VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_open_and_convert(tmp_path):
    path = tmp_path / "m.onnx"
    (tmp_path / "side.bin").write_bytes((VALUES + 1).tobytes())
    path.write_bytes(model(tensor(b"a", (2, 3), counted(9, VALUES.tobytes())),
                           tensor(b"b", (2, 3), side_file(b"side.bin"))))  # fmt: skip
    with tc.open(path) as reader:
        assert reader.format == "onnx"
        assert sorted(reader) == ["a", "b"]
        np.testing.assert_array_equal(reader["a"], VALUES)
        np.testing.assert_array_equal(reader["b"], VALUES + 1)
    tc.convert(path, tmp_path / "m.safetensors")
    np.testing.assert_array_equal(tc.load(tmp_path / "m.safetensors")["b"], VALUES + 1)


def test_a_side_file_outside_the_folder_is_refused(tmp_path):
    (tmp_path / "secret").write_bytes(VALUES.tobytes())
    folder = tmp_path / "model"
    folder.mkdir()
    path = folder / "m.onnx"
    path.write_bytes(model(tensor(b"a", (2, 3), counted(9, VALUES.tobytes())),
                           tensor(b"b", (2, 3), side_file(b"../secret"))))  # fmt: skip
    with tc.open(path) as reader:
        np.testing.assert_array_equal(reader["a"], VALUES)
        with pytest.raises(tc.Error, match="secret"):
            reader["b"]


def test_a_model_is_made_of_another_one(tmp_path):
    with pytest.raises(tc.Error, match="made of another model"):
        tc.save(tmp_path / "new.onnx", {"w": np.zeros(3)})
