"""GGUF files: tensors of plain numbers, and of blocks as float32."""

import struct

import numpy as np
import pytest

import tensorcask as tc


def gguf(keys, tensors):
    """The bytes of a file. keys: {name: text}; tensors: {name: (sizes, innermost first, type, data)}."""

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(text(name) + struct.pack("<I", 8) + text(value) for name, value in keys.items())
    data = b""
    for name, (sizes, kind, content) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, len(data))
        data += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + data


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.gguf"
    blocks = struct.pack("<e", 0.5) + bytes(range(32)) + struct.pack("<e", -2) + bytes(range(1, 33))
    plain = struct.pack("<6f", *range(6))
    path.write_bytes(gguf({"general.name": "tiny"}, {"plain": ([3, 2], 0, plain), "blocks": ([32, 2], 8, blocks)}))
    return path


def test_open(model):
    with tc.open(model) as reader:
        assert reader.format == "gguf"
        assert sorted(reader) == ["blocks", "plain"]
        assert reader.metadata == {"general.name": "tiny"}
        np.testing.assert_array_equal(reader["plain"], np.arange(6, dtype=np.float32).reshape(2, 3))
        whole = reader["blocks"]
        assert whole.dtype == np.float32 and whole.shape == (2, 32)
        np.testing.assert_array_equal(whole[0], np.arange(32) * 0.5)
        np.testing.assert_array_equal(whole[1], np.arange(1, 33) * -2)


def test_load_and_convert(model, tmp_path):
    loaded = tc.load(model)
    np.testing.assert_array_equal(loaded["blocks"][1], np.arange(1, 33) * -2)
    tc.convert(model, tmp_path / "m.safetensors")
    again = tc.load(tmp_path / "m.safetensors")
    for name, array in loaded.items():
        np.testing.assert_array_equal(again[name], array)


def test_written(tmp_path, model):
    path = tmp_path / "new.gguf"
    tensors = {"w": np.arange(6, dtype=np.float16).reshape(2, 3), "i": np.arange(3, dtype=np.int64)}
    tc.save(path, tensors, metadata={"general.architecture": "llama", "llama.block_count": "uint32:2"})
    with tc.open(path) as reader:
        assert reader.metadata == {"general.architecture": "llama", "llama.block_count": "2"}
    loaded = tc.load(path)
    for name, array in tensors.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].dtype == array.dtype
    tc.convert(model, tmp_path / "copy.gguf")
    assert (tmp_path / "copy.gguf").read_bytes() == model.read_bytes()
    with pytest.raises(tc.Error, match="uint8, which a gguf file cannot hold|cannot hold uint8"):
        tc.save(tmp_path / "u.gguf", {"w": np.zeros(3, np.uint8)})
