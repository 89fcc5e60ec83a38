"""save and Writer."""

import array
import ctypes
import os

import ml_dtypes
import numpy as np
import pytest

import tensorcask as tc


def round_trip(tmp_path, value, name="m"):
    tc.save(tmp_path / name, {"x": value}, overwrite=True)
    return tc.load(tmp_path / name)["x"]


@pytest.mark.parametrize(
    "dtype",
    ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "q", "Q", "l", ">i4", ">f8", ">c16"],
)
def test_dtypes_of_numpy(tmp_path, dtype):
    values = np.array([[0, 1, 0], [1, 1, 0]]).astype(dtype)
    got = round_trip(tmp_path, values)
    assert got.dtype == values.dtype.newbyteorder("=")
    np.testing.assert_array_equal(got, values)


@pytest.mark.parametrize(
    "name",
    ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "int4",
     "uint4", "float8_e8m0fnu", "float8_e3m4", "float8_e4m3"],
)  # fmt: skip
def test_dtypes_of_ml_dtypes(tmp_path, name):
    values = np.array([[1, 2], [0.5, 4]]).astype(getattr(ml_dtypes, name))
    for some in [values, values[::-1, ::-1], values.T, values[0, 0], values[:0]]:
        got = round_trip(tmp_path, some)
        assert got.dtype == values.dtype and got.shape == some.shape
        assert got.tobytes() == some.tobytes()
    with tc.open(tmp_path / "m") as reader:
        assert reader.entry("x").dtype == name


def test_ml_dtypes_in_the_other_byte_order(tmp_path):
    values = np.array([1, 2, 0.5], ml_dtypes.bfloat16)
    swapped = values.view(np.uint16).astype(">u2").view(values.dtype.newbyteorder(">"))
    for some, wanted in [(swapped, values), (swapped[::-1], values[::-1])]:
        assert round_trip(tmp_path, some).tobytes() == wanted.tobytes()
    with tc.open(tmp_path / "m") as reader, pytest.raises(TypeError, match="byte order"):
        reader.read_into("x", swapped)


@pytest.mark.parametrize(
    "strided",
    [lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::2], lambda a: a[3], lambda a: np.broadcast_to(a[0], (5, 8)),
     lambda a: a[2:2], lambda a: a.reshape(2, 3, 8).transpose(2, 0, 1), lambda a: np.asfortranarray(a)],
)  # fmt: skip
def test_any_strides(tmp_path, strided):
    values = strided(np.arange(48.0).reshape(6, 8))
    np.testing.assert_array_equal(round_trip(tmp_path, values), values)
    values.flags.writeable = False
    np.testing.assert_array_equal(round_trip(tmp_path, values), values)
    np.testing.assert_array_equal(round_trip(tmp_path, values.astype(">f4")), values)


def test_arrays_that_strides_in_elements_do_not_express(tmp_path):
    records = np.zeros(4, dtype=[("a", "u1"), ("b", "<f4")])
    records["b"] = [1, 2, 3, 4]
    np.testing.assert_array_equal(round_trip(tmp_path, records["b"]), [1, 2, 3, 4])
    misaligned = np.frombuffer(b"\0" + np.float64([5, 6]).tobytes(), np.uint8)[1:].view(np.float64)
    np.testing.assert_array_equal(round_trip(tmp_path, misaligned), [5, 6])
    flags = np.array([0, 2, 255], np.uint8).view(np.bool_)
    assert round_trip(tmp_path, flags).tobytes() == b"\0\1\1"


def test_other_objects(tmp_path):
    class WithArray:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3)

    class WithDLPack:
        def __dlpack__(self, **options):
            return np.arange(3).__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    class OldDLPack:
        def __dlpack__(self, stream=None):
            return np.arange(3).__dlpack__()

    for value in [WithArray(), WithDLPack(), OldDLPack(), array.array("q", [0, 1, 2]), memoryview(np.arange(3)),
                  (ctypes.c_int64 * 3)(0, 1, 2), [0, 1, 2], (0, 1, 2), tc.Tensor(np.arange(3)), np.arange(3).data]:  # fmt: skip
        np.testing.assert_array_equal(round_trip(tmp_path, value), [0, 1, 2])
    assert round_trip(tmp_path, bytearray(b"ab")).tolist() == [97, 98]
    assert round_trip(tmp_path, 2.5) == 2.5
    assert round_trip(tmp_path, "text")[()] == b"text"


@pytest.mark.parametrize(
    "value",
    [None, object(), {1: 2}, {1, 2}, lambda: 0, [1, None], np.array([1, None]), np.datetime64("2020-01-01"),
     np.zeros(2, "V3"), np.zeros(2, [("a", "f4")]), np.longdouble(1), [[1, 2], [3]], np.array([b"a", 3], object)],
)  # fmt: skip
def test_what_is_no_array_is_an_exception(tmp_path, value):
    with pytest.raises((TypeError, ValueError)) as caught:
        tc.save(tmp_path / "m", {"x": value})
    assert os.listdir(tmp_path) == [], caught.value


@pytest.mark.parametrize("make", [lambda a: a, lambda a: a.reshape(3, 1), lambda a: WithMask(a), lambda a: a[1]])
def test_a_mask_is_no_part_of_a_tensor(tmp_path, make):
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    with pytest.raises(TypeError, match=r'tensor "x": tensors have no mask; pass array.filled\(\)'):
        tc.save(tmp_path / "m", {"x": make(masked)})
    assert os.listdir(tmp_path) == []
    with pytest.raises(TypeError, match="no mask"):
        tc.Tensor(make(masked))
    assert round_trip(tmp_path, masked.filled(7)).tolist() == [1, 7, 3]
    with tc.open(tmp_path / "m") as reader, pytest.raises(TypeError, match="no mask"):
        reader.read_into("x", masked)


class WithMask:
    def __init__(self, masked):
        self.masked = masked

    def __array__(self, dtype=None, copy=None):
        return self.masked


def test_matrices_and_arrays_of_records(tmp_path):
    matrix = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(round_trip(tmp_path, matrix), matrix)
    records = np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")])
    with pytest.raises(TypeError, match="dtype"):
        round_trip(tmp_path, records)
    assert round_trip(tmp_path, records.b).tolist() == [2, 4]


def test_objects_that_lie(tmp_path):
    class Fails:
        def __array__(self, dtype=None, copy=None):
            raise ZeroDivisionError("from the object")

    class NoCapsule:
        def __dlpack__(self, **options):
            return 7

    class UsedCapsule:
        def __dlpack__(self, **options):
            capsule = np.arange(3).__dlpack__()
            np.from_dlpack(type("", (), {"__dlpack__": lambda self, **o: capsule, "__dlpack_device__": lambda self: (1, 0)})())
            return capsule

    with pytest.raises(ZeroDivisionError, match="from the object"):
        tc.save(tmp_path / "m", {"x": Fails()})
    for lie in [NoCapsule(), UsedCapsule()]:
        with pytest.raises((ValueError, TypeError)):
            tc.save(tmp_path / "m", {"x": lie})
    with pytest.raises(TypeError, match="mapping"):
        tc.save(tmp_path / "m", [("x", 1)])
    with pytest.raises(TypeError, match="name of a tensor"):
        tc.save(tmp_path / "m", {3: np.ones(2)})
    with pytest.raises(TypeError):
        tc.save(3, {"x": np.ones(2)})
    with pytest.raises(ValueError, match="NUL"):
        tc.save("a\0b", {"x": np.ones(2)})


def test_an_array_that_is_written_cannot_change_its_size(tmp_path):
    growing = bytearray(b"abc")
    tensor = tc.Tensor(growing)
    with pytest.raises(BufferError):
        growing.extend(b"d")
    del tensor
    growing.extend(b"d")
    numbers = array.array("i", [1, 2])
    tensor = tc.Tensor(numbers)
    with pytest.raises(BufferError):
        numbers.append(3)
    assert tensor.numpy().tolist() == [1, 2]


def test_options(tmp_path):
    zeros = {"x": np.zeros(100_000, np.float32)}
    tc.save(tmp_path / "stored", zeros)
    tc.save(tmp_path / "high", zeros, level="high")
    with tc.open(tmp_path / "high") as reader:
        assert "encoded" in reader.entry("x").encoding
        assert reader.entry("x").stored_bytes < 10_000
    base = {"x": np.random.default_rng(1).standard_normal(100_000).astype(np.float32)}
    tc.save(tmp_path / "base", base, level="default")
    base["x"][3] = 4
    tc.save(tmp_path / "next", base, level="default", base=tmp_path / "base")
    with tc.open(tmp_path / "next") as reader:
        assert "delta" in reader.entry("x").encoding
        np.testing.assert_array_equal(reader["x"], base["x"])  # the base lies in the same folder
    (tmp_path / "elsewhere").mkdir()
    tc.save(tmp_path / "elsewhere" / "next", base, level="default", base=tmp_path / "base")
    with tc.open(tmp_path / "elsewhere" / "next") as reader, pytest.raises(RuntimeError, match="no base is given"):
        reader["x"]
    np.testing.assert_array_equal(tc.load(tmp_path / "next", base=tmp_path / "base")["x"], base["x"])
    with pytest.raises(FileExistsError, match="high"):
        tc.save(tmp_path / "high", zeros)
    tc.save(tmp_path / "high", {"y": np.ones(1)}, overwrite=True, sync=False, alignment=1)
    assert list(tc.load(tmp_path / "high")) == ["y"]
    for wrong in [{"level": "best"}, {"format": "zarr"}, {"threads": 0}, {"shards": -1}]:
        with pytest.raises((ValueError, TypeError)):
            tc.save(tmp_path / "wrong", zeros, **wrong)
    for path, wrong in [("a.safetensors", {"level": "high"}), ("a.npz", {"metadata": {"a": "b"}}), ("a.xyz", {})]:
        with pytest.raises(ValueError, match="hold|format"):
            tc.save(tmp_path / path, zeros, **wrong)
    with pytest.raises(ValueError, match="exactly one"):
        tc.save(tmp_path / "a.npy", {"x": 1, "y": 2})
    with pytest.raises(ValueError, match="string"):
        tc.save(tmp_path / "a.safetensors", {"x": "text"})
    with pytest.raises(FileNotFoundError):
        tc.save(tmp_path / "no" / "such" / "folder", zeros)


def test_checksums_of_safetensors_are_optional(tmp_path):
    plain, summed = tmp_path / "plain.safetensors", tmp_path / "summed.safetensors"
    tensors = {"x": np.arange(1000, dtype=np.float32)}
    tc.save(plain, tensors, checksums=False)
    tc.convert(plain, summed)
    tc.convert(plain, tmp_path / "again.safetensors", checksums=False)
    assert plain.read_bytes() == (tmp_path / "again.safetensors").read_bytes()
    bare = tmp_path / "bare.safetensors"
    tc.convert(summed, bare, checksums=False)
    for path in plain, bare, summed:
        changed = bytearray(path.read_bytes())
        changed[-1] ^= 1
        path.write_bytes(changed)
    for path in plain, bare:
        assert tc.load(path)["x"][-1] != tensors["x"][-1]  # nothing notices
    with pytest.raises(tc.DataLossError, match="checksum"):
        tc.load(summed)
    tc.save(tmp_path / "m", tensors, checksums=False)  # a checkpoint has them always
    assert tc.verify(tmp_path / "m")


def test_the_file_is_that_of_the_peers(tmp_path):
    values = {"x": np.arange(6, dtype=np.float32).reshape(2, 3).T}
    tc.save(tmp_path / "a.npz", values)
    with np.load(tmp_path / "a.npz") as theirs:
        np.testing.assert_array_equal(theirs["x"], values["x"])
    np.savez(tmp_path / "b.npz", **values)
    np.testing.assert_array_equal(tc.load(tmp_path / "b.npz")["x"], values["x"])
    safetensors = pytest.importorskip("safetensors.numpy")
    tc.save(tmp_path / "a.safetensors", values)
    np.testing.assert_array_equal(safetensors.load_file(tmp_path / "a.safetensors")["x"], values["x"])
    safetensors.save_file({"x": np.ascontiguousarray(values["x"])}, tmp_path / "b.safetensors")
    np.testing.assert_array_equal(tc.load(tmp_path / "b.safetensors")["x"], values["x"])


def test_a_writer_streams(path_of, any_format):
    path = path_of(any_format)
    rows = np.arange(20.0).reshape(10, 2)
    with tc.Writer(path, format=any_format) as writer:
        writer.declare("rows", "float64", rows.shape)
        writer.declare("one", np.int32, [])
        for start in range(0, 10, 3):
            writer.add_slice("rows", rows[start : start + 3], start=(start, 0))
        writer.add("one", np.int32(7))
    loaded = tc.load(path)
    np.testing.assert_array_equal(loaded["rows"], rows)
    assert loaded["one"] == 7
    assert writer.closed


def test_a_writer_that_fails_leaves_no_file(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with tc.Writer(tmp_path / "m") as writer:
            writer.add("x", np.ones(1000))
            raise ZeroDivisionError
    assert os.listdir(tmp_path) == []
    writer = tc.Writer(tmp_path / "m")
    writer.add("x", np.ones(1000))
    del writer
    assert os.listdir(tmp_path) == []
    with tc.Writer(tmp_path / "m") as writer:
        writer.add("x", np.ones(3))
        with pytest.raises(ValueError, match='"x"'):
            writer.add("x", np.ones(3))
        assert writer.path if hasattr(writer, "path") else True
        writer.close()
    for use in [lambda: writer.add("y", np.ones(1)), lambda: writer.finish(), lambda: writer.declare("y", "f4", [1])]:
        with pytest.raises(tc.ClosedError):
            use()


def test_wrong_slices(tmp_path):
    writer = tc.Writer(tmp_path / "m")
    with pytest.raises(RuntimeError, match="declared"):
        writer.add_slice("x", np.ones(1), start=(0,))
    writer.declare("x", "float64", (4, 2))
    for array_, start in [(np.ones((5, 2)), (0, 0)), (np.ones(2), (0,)), (np.ones((1, 2)), (4, 0)), (np.ones((1, 2)), (-1, 0)),
                          (np.ones((1, 2), np.float32), (0, 0)), (np.ones((1, 2)), (0, 0, 0)), (np.ones((1, 2)), (2**70, 0))]:  # fmt: skip
        with pytest.raises((ValueError, IndexError, TypeError, RuntimeError)):
            writer.add_slice("x", array_, start=start)
    with pytest.raises(ValueError, match="same number of axes"):
        writer.add_slice("x", np.ones(2), start=(0, 0))
    with pytest.raises(ValueError, match="start has more numbers"):
        writer.add_slice("x", np.ones((1, 2)), start=(0, 0, 0))
    with pytest.raises(ValueError):
        writer.declare("y", "float64", (-1,))
    with pytest.raises((ValueError, TypeError)):
        writer.declare("y", "no dtype", (1,))
