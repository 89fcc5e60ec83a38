"""open, Reader, load."""

import collections.abc
import gc
import pathlib
import threading

import numpy as np
import pytest

import tensorcask as tc


def save(path_of, format, tensors):
    path = path_of(format)
    tc.save(path, tensors, format=format)
    return path


def test_a_reader_is_a_mapping_in_the_order_of_the_file(path_of, any_format, tensors):
    path = save(path_of, any_format, tensors)
    with tc.open(path) as reader:
        assert isinstance(reader, collections.abc.Mapping)
        assert reader.format == any_format
        assert len(reader) == len(tensors)
        assert set(reader) == set(tensors)
        if any_format != "safetensors":  # which sorts by dtype
            assert list(reader) == list(tensors)
        assert "a/bias" in reader and "b" not in reader and 3 not in reader
        assert sorted(reader.keys()) == sorted(tensors)
        assert dict(reader.items()).keys() == tensors.keys()
        assert reader.get("b") is None and reader.get("b", 7) == 7
        for name, array in tensors.items():
            read = reader[name]
            assert isinstance(read, np.ndarray)
            assert read.dtype == array.dtype and read.shape == array.shape
            np.testing.assert_array_equal(read, array)
            entry = reader.entry(name)
            assert (entry.name, entry.dtype, entry.shape) == (name, str(array.dtype), array.shape)
            assert entry.nbytes == array.nbytes


def test_what_was_read_is_writable_and_lives_longer_than_the_reader(path_of, tensors):
    path = save(path_of, "checkpoint", tensors)
    with tc.open(path) as reader:
        kernel = reader["z/kernel"]
    del reader
    gc.collect()
    kernel += 1
    np.testing.assert_array_equal(kernel, tensors["z/kernel"] + 1)
    assert kernel.ctypes.data % 64 == 0


def test_a_mapped_array_is_read_only_memory_of_the_file(path_of, any_format, tensors):
    path = save(path_of, any_format, tensors)
    with tc.open(path) as reader:
        kernel = reader.read("z/kernel", mmap=True)
    np.testing.assert_array_equal(kernel, tensors["z/kernel"])
    if any_format != "records":
        assert not kernel.flags.writeable
        with pytest.raises(ValueError):
            kernel[0] = 0
        with pytest.raises(ValueError):
            kernel.flags.writeable = True


@pytest.mark.parametrize(
    "index",
    [
        np.s_[3:9],
        np.s_[-4:],
        np.s_[::7],
        np.s_[::-1],
        np.s_[20:3:-5],
        np.s_[5],
        np.s_[-1, 2],
        np.s_[..., 1],
        np.s_[2:4, ..., ::2],
        np.s_[...],
        np.s_[9:3],
        np.s_[100:],
        np.s_[np.int32(4)],
        np.s_[:, 10**30 :],
        (),
    ],
)
def test_a_slice_reads_what_numpy_selects(path_of, any_format, tensors, index):
    path = save(path_of, any_format, tensors)
    with tc.open(path) as reader:
        part = reader.slice("z/kernel")
        assert part.shape == (30, 7) and part.dtype == "float32" and len(part) == 30
        got = part[index]
    want = tensors["z/kernel"][index]
    assert got.shape == np.shape(want)
    np.testing.assert_array_equal(got, want)


def test_a_slice_reads_no_other_rows(tmp_path):
    path = str(tmp_path / "big")
    tc.save(path, {"w": np.arange(4_000_000, dtype=np.float32).reshape(1000, 4000)})
    data = tmp_path / "big.data-00000-of-00001"
    damaged = bytearray(data.read_bytes())
    damaged[40] ^= 1
    data.write_bytes(damaged)
    with tc.open(path) as reader:
        np.testing.assert_array_equal(reader.slice("w")[500:502, 0], np.float32([2_000_000, 2_004_000]))
        with pytest.raises(tc.DataLossError, match='"w"'):
            reader["w"]


@pytest.mark.parametrize("index", [np.s_[0, 0, 0], np.s_[30], np.s_[-31], np.s_[::0], np.s_[..., ...], "x", 1.0, True, None])
def test_indices_that_numpy_refuses_or_reads_otherwise_are_exceptions(path_of, tensors, index):
    with tc.open(save(path_of, "checkpoint", tensors)) as reader:
        with pytest.raises((IndexError, TypeError, ValueError)):
            reader.slice("z/kernel")[index]


def test_read_into(path_of, any_format, tensors):
    with tc.open(save(path_of, any_format, tensors)) as reader:
        out = np.zeros((7, 30), np.float32)
        reader.read_into("z/kernel", out.T)
        np.testing.assert_array_equal(out.T, tensors["z/kernel"])
        with pytest.raises(ValueError, match="float64"):
            reader.read_into("z/kernel", np.zeros((30, 7)))
        with pytest.raises(ValueError):
            reader.read_into("z/kernel", np.zeros((7, 30), np.float32))
        out.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            reader.read_into("z/kernel", out.T)
        with pytest.raises(TypeError):
            reader.read_into("z/kernel", [1, 2])
        with pytest.raises(TypeError):
            reader.read_into("z/kernel", out.astype(">f4").T)


class Lender:
    """Passes an array on through DLPack. `calls` has the arguments; `refused` are not known."""

    def __init__(self, array, refused=(), **also):
        self.array, self.refused, self.also, self.calls = array, refused, also, []

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **arguments):
        self.calls.append(dict(arguments))
        for name in self.refused:
            if name in arguments:
                raise TypeError(f"__dlpack__() got an unexpected keyword argument {name!r}")
        return self.array.__dlpack__(**{**arguments, **self.also})


def test_read_into_asks_for_the_memory_itself(path_of):
    versioned = not np.__version__.startswith("1.")
    old = () if versioned else ("max_version", "copy")
    with tc.open(save(path_of, "checkpoint", {"x": np.arange(3.0)})) as reader:
        for refused in [old, ("copy", *old), ("max_version", "copy")]:
            lender = Lender(np.zeros(3), refused)
            reader.read_into("x", lender)
            assert lender.array.tolist() == [0, 1, 2]
            assert lender.calls[0]["copy"] is False and "max_version" in lender.calls[0]
        assert len(lender.calls) == 3 and lender.calls[-1] == {}
        if versioned:
            copier = Lender(np.zeros(3), copy=True)
            with pytest.raises(ValueError, match="gives a copy of its elements"):
                reader.read_into("x", copier)
    reading = Lender(np.arange(3.0), old)
    assert tc.Tensor(reading).numpy().tolist() == [0, 1, 2]
    assert all("copy" not in call for call in reading.calls)


def test_read_into_bool_memory_with_any_bytes(path_of, any_format):
    mask = np.arange(10) % 3 == 0
    with tc.open(save(path_of, any_format, {"mask": mask})) as reader:
        memory = np.full(20, 7, np.uint8)  # what numpy.empty may return
        reader.read_into("mask", memory.view(bool)[::2])
        np.testing.assert_array_equal(memory[::2], mask.view(np.uint8))
        np.testing.assert_array_equal(memory[1::2], 7)
        locked = np.full(10, 7, np.uint8)
        locked.flags.writeable = False
        with pytest.raises(ValueError):
            reader.read_into("mask", locked.view(bool))


def test_closed_readers(path_of, tensors):
    reader = tc.open(save(path_of, "checkpoint", tensors))
    part = reader.slice("z/kernel")
    view = reader.items()
    names = iter(reader)
    reader.close()
    reader.close()
    assert reader.closed and "closed" in repr(reader)
    next(names)
    for use in [
        lambda: part[3],
        lambda: reader["a/bias"],
        lambda: "a/bias" in reader,
        lambda: len(reader),
        lambda: list(reader),
        lambda: list(view),
        lambda: reader.entry("a/bias"),
        lambda: reader.slice("a/bias"),
        lambda: reader.metadata,
        lambda: reader.path,
        lambda: reader.read_into("a/bias", np.zeros(5, np.int64)),
    ]:
        with pytest.raises(tc.ClosedError, match="closed"):
            use()
    assert issubclass(tc.ClosedError, ValueError)


def test_load(path_of, any_format, tensors):
    path = save(path_of, any_format, tensors)
    for arguments in [{}, {"mmap": True}, {"threads": 1}, {"threads": 3}]:
        loaded = tc.load(path, **arguments)
        assert loaded.keys() == tensors.keys()
        for name, array in tensors.items():
            np.testing.assert_array_equal(loaded[name], array)
            assert loaded[name].dtype == array.dtype
    assert list(tc.load(path, "a/bias")) == ["a/bias"]
    assert sorted(tc.load(path, "*/*")) == ["a/bias", "z/kernel"]
    assert sorted(tc.load(path, ["*bias", "scalar"])) == ["a/bias", "scalar"]
    assert tc.load(path, []) == {}
    with pytest.raises(KeyError, match="a/bias"):
        tc.load(path, "a/bais")
    with pytest.raises(KeyError, match="no tensor matches"):
        tc.load(path, ["*bias", "x*"])
    with pytest.raises(ValueError, match="framework"):
        tc.load(path, framework="caffe")
    assert tc.load(pathlib.Path(path)).keys() == tensors.keys()
    assert isinstance(tc.load(path, framework="tensorcask")["a/bias"], tc.Tensor)


def test_names_are_any_bytes(tmp_path):
    name = "\udcffé\n"  # the byte FF, as file names have it in Python
    tc.save(tmp_path / "m", {name: np.ones(2)})
    assert list(tc.load(tmp_path / "m")) == [name]
    with tc.open(tmp_path / "m") as reader:
        np.testing.assert_array_equal(reader[b"\xff\xc3\xa9\n"], [1, 1])


def test_strings_are_bytes(path_of):
    words = np.array([[b"a\0", b""], ["ü", b"\xff\0\0"]], object)
    want = [[b"a\0", b""], ["ü".encode(), b"\xff\0\0"]]
    for format in ["checkpoint", "records"]:
        path = path_of(format)
        tc.save(path, {"words": words, "one": b"x\0", "text": np.array(["ab", "c"]), "none": np.empty((0, 2), object)})
        loaded = tc.load(path)
        assert loaded["words"].dtype == object and loaded["words"].tolist() == want
        assert loaded["one"].shape == () and loaded["one"][()] == b"x\0"
        assert loaded["text"].tolist() == [b"ab", b"c"]
        assert loaded["none"].shape == (0, 2)
        with tc.open(path) as reader:
            assert reader.entry("words").dtype == "string"
            assert reader.slice("words")[1, 0].shape == ()


def test_threads_load_in_parallel(path_of, tensors):
    with tc.open(save(path_of, "checkpoint", tensors)) as reader:
        wrong = []

        def work():
            for _ in range(200):
                if not np.array_equal(reader["z/kernel"], tensors["z/kernel"]):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_metadata_and_notes(tmp_path):
    tc.save(tmp_path / "m.safetensors", {"w": np.ones(2)}, metadata={"license": "MIT"})
    with tc.open(tmp_path / "m.safetensors") as reader:
        assert reader.metadata["license"] == "MIT"
        assert isinstance(reader.notes, list)
        assert "safetensors" in repr(reader)
