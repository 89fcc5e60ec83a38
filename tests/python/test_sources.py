"""Bytes and file objects instead of paths: the same tensors, and no harm from objects that lie."""

import gc
import gzip
import io
import mmap
import os
import pathlib
import random
import re
import socket
import tarfile
import tempfile
import threading
import time
import weakref
import zipfile

import numpy as np
import pytest

import tensorcask as tc

TENSORS = {"w": np.arange(600_000, dtype=np.float32).reshape(600, 1000), "n": np.int64(7), "e": np.zeros((0, 3))}
ONE_FILE = {"m.safetensors": {}, "m.npz": {}, "m.tfrecord": {"format": "records"}}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name, options in ONE_FILE.items():
        tc.save(folder / name, TENSORS, **options)
    return folder


def equal(loaded):
    return sorted(loaded) == sorted(TENSORS) and all(np.array_equal(loaded[name], TENSORS[name]) for name in TENSORS)


def mapped(path):
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def from_zip(path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, "inside/" + path.name)
    return zipfile.ZipFile(buffer).open("inside/" + path.name)


def from_tar(path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(path, path.name)
    return tarfile.open(fileobj=io.BytesIO(buffer.getvalue())).extractfile(path.name)


def spooled(path):
    file = tempfile.SpooledTemporaryFile(max_size=1 << 30)
    file.write(path.read_bytes())
    return file


KINDS = {
    "bytes": lambda path: path.read_bytes(),
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "array": lambda path: np.frombuffer(path.read_bytes(), np.uint8),
    "mmap": mapped,
    "BytesIO": lambda path: io.BytesIO(path.read_bytes()),
    "file": lambda path: open(path, "rb"),
    "unbuffered": lambda path: open(path, "rb", buffering=0),
    "zip": from_zip,
    "tar": from_tar,
    "gzip": lambda path: gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(path.read_bytes(), 1))),
    "spooled": spooled,
}


@pytest.mark.parametrize("name", ONE_FILE)
@pytest.mark.parametrize("kind", KINDS)
def test_is_the_file(files, kind, name):
    path = files / name
    source = KINDS[kind](path)
    with tc.open(source) as reader:
        assert reader.format == tc.open(path).format
        assert list(reader) == list(tc.open(path))
        assert reader.slice("w")[599, 998:].tolist() == [599998.0, 599999.0]
        assert np.array_equal(reader.read("w", mmap=True), TENSORS["w"])
    assert equal(tc.load(source))
    assert tc.verify(source).whole == 3
    assert not tc.diff(source, path)
    assert [one.name for one in tc.stats(source, "n")] == ["n"]


def test_convert_reads_them(files, tmp_path):
    report = tc.convert(io.BytesIO((files / "m.npz").read_bytes()), tmp_path / "a.safetensors")
    assert report["tensors"] == 3
    assert equal(tc.load((tmp_path / "a.safetensors").read_bytes()))
    rename = tc.convert((files / "m.npz").read_bytes(), tmp_path / "b.npz", rename={"w": "v"}, include=["w"])
    assert rename["tensors"] == 1 and list(tc.open(tmp_path / "b.npz")) == ["v"]


def test_memory_is_not_copied_and_stays(files):
    content = bytearray((files / "m.safetensors").read_bytes())
    reader = tc.open(content)
    array = reader.read("w", mmap=True)
    assert not array.flags.writeable
    start = np.frombuffer(content, np.uint8).__array_interface__["data"][0]
    assert start <= array.__array_interface__["data"][0] < start + len(content)
    with pytest.raises(BufferError):
        content.append(0)
    reader.close()
    del reader
    with pytest.raises(BufferError):
        content.append(0)
    assert array[599, 999] == 599999
    del array
    gc.collect()
    content.append(0)


def test_a_reader_keeps_the_file_object_and_releases_it(files):
    class File(io.BytesIO):
        pass

    file = File((files / "m.npz").read_bytes())
    alive = weakref.ref(file)
    reader = tc.open(file)
    del file
    assert alive() is not None and reader["n"] == 7
    part = reader.slice("w")
    reader.close()
    del reader, part
    gc.collect()
    assert alive() is None


def test_npy_is_called_as_its_file():
    content = io.BytesIO()
    np.save(content, np.arange(3))
    assert list(tc.load(content)) == ["BytesIO"]
    assert list(tc.load(content.getvalue())) == ["bytes"]
    content.name = "folder/rows.npy"
    assert list(tc.load(content)) == ["rows"]
    for name in [5, b"x", "", "a\0b", "x" * 5000, None]:
        content.name = name
        assert tc.open(content).path == "BytesIO"


def test_several_threads_read_one_object(files):
    with open(files / "m.npz", "rb") as file:
        reader = tc.open(file)
        results = []

        def read():
            results.append(all(np.array_equal(reader["w"], TENSORS["w"]) for _ in range(5)))

        threads = [threading.Thread(target=read) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [True] * 6
        assert equal(tc.load(file, threads=8))


# ---- Files that need others ------------------------------------------------------------------------------------------


def test_models_in_several_files_are_opened_by_their_path(tmp_path, monkeypatch):
    tc.save(tmp_path / "m.safetensors", TENSORS, max_shard_bytes=1_000_000)
    tc.save(tmp_path / "ckpt", TENSORS)
    index = (tmp_path / "m.safetensors.index.json").read_bytes()
    monkeypatch.chdir(tmp_path)  # where the names of the other files lead to them
    with open("m.safetensors.index.json", "rb") as file, pytest.raises(
        tc.Error, match=r"m-00001-of-.*: cannot be read, because only the bytes of m.safetensors.index.json are given"
    ):
        tc.load(file)
    with pytest.raises(tc.Error, match="cannot be read, because only the bytes of bytes are given"):
        tc.load(index)
    with open("ckpt.index", "rb") as file, pytest.raises(
        tc.FailedPreconditionError, match="is the index of a checkpoint.*open the checkpoint by its path"
    ):
        tc.open(file)
    with pytest.raises(tc.DataLossError, match="the index of a checkpoint is opened by its path"):
        tc.open(pathlib.Path("ckpt.index").read_bytes())
    with open("ckpt.data-00000-of-00001", "rb") as file, pytest.raises(
        tc.DataLossError, match="this is a data file of a checkpoint"
    ):
        tc.open(file)


def test_no_other_file_is_looked_at(tmp_path, monkeypatch):
    tc.save(tmp_path / "m", {"other": np.ones(1)})
    monkeypatch.chdir(tmp_path)
    content = io.BytesIO()
    np.savez(content, w=np.ones(2))
    content.name = "m"  # beside m.index, which makes the path m a checkpoint
    assert list(tc.open("m")) == ["other"]
    assert list(tc.open(content)) == ["w"]
    content.name = "unix:m"
    assert list(tc.open(content)) == ["w"]
    content.name = str(tmp_path)
    assert list(tc.open(content)) == ["w"]


# ---- Objects that are no files, and files that lie -------------------------------------------------------------------


@pytest.mark.parametrize("thing", [3, 2.5, object(), ["m.npz"], {"a": 1}])
def test_other_objects_are_type_errors(thing):
    with pytest.raises(TypeError, match="wanted a path, bytes or a file object"):
        tc.open(thing)


def test_buffers_must_be_contiguous(files):
    with pytest.raises(BufferError):
        tc.open(memoryview((files / "m.npz").read_bytes())[::2])


def test_what_cannot_seek_is_refused(files):
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as file, pytest.raises(ValueError, match="cannot seek; read it first"):
        tc.open(file)

    class Response:
        def read(self, count=-1):
            return b""

    with pytest.raises(ValueError, match=r"Response: cannot seek; read it first: open\(file.read\(\)\)"):
        tc.load(Response())


def test_text_is_refused(files):
    with pytest.raises(ValueError, match="opened as text; open it with mode 'rb'"):
        tc.open(io.StringIO("{}" * 100))


class Lies(io.BytesIO):
    """A file whose `read` does as `lie` says, from the call `after` on."""

    def __init__(self, content, lie, after=0):
        super().__init__(content)
        self.lie, self.after = lie, after

    def read(self, count=-1):
        self.after -= 1
        return super().read(count) if self.after >= 0 else self.lie(super().read, count)


def raises(error):
    def read(_, __):
        raise error

    return read


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no")


LIES = {
    "ends early": (lambda read, count: b"", tc.DataLossError, "now ends at"),
    "too much": (lambda read, count: b"x" * (count + 1), ValueError, "returned .* bytes; wanted at most"),
    "none": (lambda read, count: None, OSError, "no bytes now"),
    "text": (lambda read, count: "x" * count, ValueError, "opened as text"),
    "a number": (lambda read, count: 5, OSError, "cannot read at .*TypeError.*'int'"),
    "holes": (lambda read, count: memoryview(b"x" * 2 * count)[::2], OSError, "BufferError"),
    "closed": (raises(ValueError("I/O operation on closed file")), OSError, "ValueError: I/O operation on closed file"),
    "of the system": (raises(OSError(5, "Input/output error")), OSError, "Input/output error"),
    "of nothing": (raises(Unprintable()), OSError, "cannot be printed"),
    "end of all": (raises(MemoryError()), OSError, "MemoryError"),
}


@pytest.mark.parametrize("name", ONE_FILE)
@pytest.mark.parametrize("lie", LIES)
def test_lies_are_errors(files, name, lie):
    content = (files / name).read_bytes()
    behaviour, error, message = LIES[lie]
    for after in range(8):
        with pytest.raises(error, match=message) as caught:
            tc.load(Lies(content, behaviour, after), threads=2)
        assert isinstance(caught.value, tc.Error)
        assert isinstance(caught.value, OSError) or "Lies" in str(caught.value)


def test_errors_of_reading_are_no_damage(files):
    content = (files / "m.npz").read_bytes()
    with pytest.raises(OSError, match="closed file"):
        tc.verify(Lies(content, LIES["closed"][0], after=4))


@pytest.mark.parametrize("name", ONE_FILE)
def test_short_reads_are_no_errors(files, name):
    def short(read, count):
        return bytearray(read(min(count, 1 + count // 3)))

    assert equal(tc.load(Lies((files / name).read_bytes(), short)))


@pytest.mark.parametrize("size", [-1, 1 << 70, 1 << 62, "5", None, 2.5, 0, 3])
def test_lies_about_the_size(files, size):
    class File(io.BytesIO):
        def tell(self):
            return size

    with pytest.raises((ValueError, OverflowError, OSError, MemoryError)):
        tc.load(File((files / "m.safetensors").read_bytes()))


def test_changes_its_mind(files):
    rng = random.Random(7)
    for name in ONE_FILE:
        content = (files / name).read_bytes()

        def change(read, count):
            got = bytearray(read(count))
            for _ in range(rng.choice([0, 0, 1, 3])):
                got[rng.randrange(len(got))] = rng.randrange(256)
            return got

        for _ in range(150):
            try:
                loaded = tc.load(Lies(content, change))
            except (tc.Error, MemoryError):
                continue
            assert all(isinstance(array, np.ndarray) for array in loaded.values())


def test_bytes_that_change_while_they_are_read(files):
    content = bytearray((files / "m.npz").read_bytes())
    done = threading.Event()

    def change():
        rng = random.Random(3)
        while not done.is_set():
            content[rng.randrange(len(content))] = rng.randrange(256)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(60):
            try:
                tc.load(content)
            except (tc.Error, MemoryError, KeyError):
                pass
    finally:
        done.set()
        thread.join()


def test_uses_itself(files):
    class File(io.BytesIO):
        reader = None

        def read(self, count=-1):
            if self.reader is not None:
                self.reader["w"]
            return super().read(count)

    file = File((files / "m.npz").read_bytes())
    file.reader = tc.open(file)
    with pytest.raises(OSError, match="its method read uses the archive that it is read for"):
        file.reader["n"]
    file.reader = None


def test_uses_another_reader(files):
    other = tc.open(io.BytesIO((files / "m.npz").read_bytes()))

    def nested(read, count):
        assert other["n"] == 7
        return read(count)

    assert equal(tc.load(Lies((files / "m.npz").read_bytes(), nested)))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_program_comes_out(files, error):
    with pytest.raises(error):
        tc.open(Lies((files / "m.npz").read_bytes(), raises(error())))
    late = Lies((files / "m.npz").read_bytes(), None, after=1 << 30)
    reader = tc.open(late)
    late.after, late.lie = 1, raises(error())
    with pytest.raises(error):
        reader["w"]
    file = io.BytesIO((files / "m.npz").read_bytes())
    assert equal(tc.load(file))  # nothing is left of it


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_reads_what_its_parent_was_reading(files):
    started = threading.Event()

    def slow(read, count):
        started.set()
        time.sleep(0.2)
        return read(count)

    file = Lies((files / "m.npz").read_bytes(), slow, after=4)
    reader = tc.open(file)
    thread = threading.Thread(target=lambda: reader["w"])
    thread.start()
    started.wait()
    child = os.fork()
    if child == 0:
        file.lie = lambda read, count: read(count)
        os._exit(0 if reader["n"] == 7 else 1)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()


def test_messages_name_the_file(files, tmp_path):
    (tmp_path / "cut.npz").write_bytes((files / "m.npz").read_bytes()[:500])
    with open(tmp_path / "cut.npz", "rb") as file, pytest.raises(ValueError, match=re.escape(str(tmp_path / "cut.npz"))):
        tc.open(file)
    with pytest.raises(ValueError, match="^bytes: "):
        tc.open(b"nothing of use")
    with pytest.raises(ValueError, match="^bytes: "):
        tc.open(b"")
