"""ONNX: models and tensors of their own, with the tensors that they keep in files beside them."""

import numpy as np
import pytest

import tensorcask as tc


def field(number, wire_type, content):
    return bytes([number << 3 | wire_type]) + content


def varint(number):
    low = bytes([number & 127 | (128 if number > 127 else 0)])
    return low + varint(number >> 7) if number > 127 else low


def counted(number, content):
    return field(number, 2, varint(len(content)) + content)


def tensor(name, dims, *rest):
    """A TensorProto of float32."""
    return b"".join(field(1, 0, varint(dim)) for dim in dims) + field(2, 0, b"\1") + counted(8, name) + b"".join(rest)


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
    base = tmp_path / "base.onnx"
    base.write_bytes(model(tensor(b"a", (2, 3), counted(9, VALUES.tobytes()))))
    tc.save(tmp_path / "new.onnx", {"a": VALUES + 1}, replace_in=base)
    np.testing.assert_array_equal(tc.load(tmp_path / "new.onnx")["a"], VALUES + 1)
    tc.save(tmp_path / "a.npz", {"a": VALUES + 2})
    tc.convert(tmp_path / "a.npz", tmp_path / "new.onnx", replace_in=str(base), overwrite=True)
    np.testing.assert_array_equal(tc.load(tmp_path / "new.onnx")["a"], VALUES + 2)
    with pytest.raises(ValueError, match='"b" is not an initializer'):
        tc.save(tmp_path / "other.onnx", {"b": VALUES}, replace_in=base)
    with pytest.raises(ValueError, match="replace_in is for onnx files, not for an npz file"):
        tc.convert(tmp_path / "a.npz", tmp_path / "b.npz", replace_in=base)


def test_elements_move_to_a_side_file_and_back(tmp_path):
    big = np.arange(600, dtype=np.float32)
    path = tmp_path / "m.onnx"
    path.write_bytes(model(tensor(b"big", (600,), counted(9, big.tobytes()))))
    tc.convert(path, tmp_path / "a.onnx", external=True)
    assert (tmp_path / "a.onnx.data").read_bytes() == big.tobytes()
    tc.convert(path, tmp_path / "b.onnx", external="weights.bin")
    assert (tmp_path / "weights.bin").read_bytes() == big.tobytes()
    tc.save(tmp_path / "c.onnx", {"big": big + 1}, replace_in=tmp_path / "b.onnx", external="c.bin")
    np.testing.assert_array_equal(tc.load(tmp_path / "c.onnx")["big"], big + 1)
    tc.convert(tmp_path / "a.onnx", tmp_path / "back.onnx", external=False)
    assert (tmp_path / "back.onnx").read_bytes() == path.read_bytes()
    with pytest.raises(TypeError, match="external must be str"):
        tc.convert(path, tmp_path / "d.onnx", external=1)
