"""Files of s3://, of web servers, and of file systems of fsspec."""

import errno
import io
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import tensorcask as tc
import tensorcask.sharded as tcs
from tensorcask import _filesystems

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from store_server import StoreServer  # noqa: E402


@pytest.fixture
def store(monkeypatch):
    server = StoreServer()
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()


def same(loaded, tensors):
    assert list(loaded) == sorted(tensors) or set(loaded) == set(tensors)
    for name, array in tensors.items():
        np.testing.assert_array_equal(loaded[name], array)


# ---- s3:// and https:// ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model", "model.safetensors", "model.npz"])
def test_a_file_goes_there_and_back(store, tensors, name):
    path = "s3://bucket/run/" + name
    tc.save(path, tensors)
    assert all(key.startswith("bucket/run/model") for key in store.objects)
    same(tc.load(path), tensors)
    with tc.open(path) as reader:
        np.testing.assert_array_equal(reader.slice("z/kernel")[3:5], tensors["z/kernel"][3:5])
    assert tc.verify(path)
    with pytest.raises(FileExistsError, match="exists already"):
        tc.save(path, tensors)
    tc.save(path, {"w": np.ones(3)}, overwrite=True)
    same(tc.load(path), {"w": np.ones(3)})
    # The same objects from a web server, which is only read.
    same(tc.load(f"{store.url}/bucket/run/{name}"), {"w": np.ones(3)})
    with pytest.raises(OSError, match="only read"):
        tc.save(f"{store.url}/bucket/run/{name}", tensors, overwrite=True)


def test_what_is_not_there(store):
    with pytest.raises(FileNotFoundError, match="s3://bucket/none"):
        tc.open("s3://bucket/none.npz")
    with pytest.raises(OSError, match="empty step"):
        tc.open("s3://bucket//none.npz")


def test_convert_diff_and_salvage(store, tensors):
    tc.save("here.npz", tensors)
    assert tc.convert("here.npz", "s3://bucket/there")["tensors"] == len(tensors)
    assert tc.convert("s3://bucket/there", "s3://bucket/again.safetensors")["tensors"] == len(tensors)
    assert tc.diff("here.npz", "s3://bucket/again.safetensors").equal
    assert tc.salvage("s3://bucket/there", "s3://bucket/rescued")["saved"] == len(tensors)
    tc.convert("s3://bucket/rescued", "back.npz")
    same(tc.load("back.npz"), tensors)


def test_a_writer(store):
    with tc.Writer("s3://bucket/rows.safetensors") as writer:
        writer.add("w", np.arange(6).reshape(2, 3))
        assert store.objects == {}
    assert tc.load("s3://bucket/rows.safetensors")["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(RuntimeError), tc.Writer("s3://bucket/lost.safetensors") as writer:
        writer.add("w", np.arange(6))
        raise RuntimeError
    assert list(store.objects) == ["bucket/rows.safetensors"] and store.uploads == {}


def test_steps_of_a_run(store):
    with tc.CheckpointManager("s3://bucket/run", keep_last=2) as manager:
        assert len(manager.notes) == 1 and "no locks" in manager.notes[0]
        manager.save(1, {"w": np.ones(3)})
        for step in (2, 3):
            manager.save_in_background(step, {"w": np.full(3, step)}).wait()
        assert manager.steps() == [2, 3] and manager.latest() == (3, "s3://bucket/run/ckpt-3")
        # Another manager at the same time.
        with tc.CheckpointManager("s3://bucket/run", keep_last=2) as other:
            with pytest.raises(FileExistsError):
                other.save(3, {"w": np.zeros(3)})
            other.save(10, {"w": np.full(3, 10)})
        manager.save(4, {"w": np.full(3, 4)})
        assert manager.steps() == [3, 4]
    assert tc.latest("s3://bucket/run") == (10, "s3://bucket/run/ckpt-10")
    with tc.open_latest("s3://bucket/run") as reader:
        assert reader["w"].tolist() == [10, 10, 10]
    assert b'"ckpt-10"' in store.objects["bucket/run/checkpoint"]
    with tc.CheckpointManager("run") as here:
        assert here.notes == []


def test_settings_of_the_environment_count_at_each_call(store, monkeypatch):
    tc.save("s3://bucket/w.npz", {"w": np.ones(2)})
    other = StoreServer()
    monkeypatch.setenv("AWS_ENDPOINT_URL", other.url)
    with pytest.raises(FileNotFoundError):
        tc.open("s3://bucket/w.npz")
    other.close()
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
    same(tc.load("s3://bucket/w.npz"), {"w": np.ones(2)})
    monkeypatch.setenv("AWS_REGION", "not a region")
    with pytest.raises(ValueError, match="region"):
        tc.open("s3://bucket/w.npz")


def test_every_variable_that_a_store_reads_counts_at_each_call(store, monkeypatch, tmp_path):
    tc.save("s3://bucket/w.npz", {"w": np.ones(2)})
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    same(tc.load("s3://bucket/w.npz"), {"w": np.ones(2)})
    (tmp_path / "other" / ".aws").mkdir(parents=True)
    (tmp_path / "other" / ".aws" / "config").write_text("[default]\nregion = not a region\n")
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    with pytest.raises(ValueError, match="region"):
        tc.open("s3://bucket/w.npz")


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the system does not list threads")
def test_stores_of_old_settings_end(store, monkeypatch):
    """Those that readers hold go on."""
    path = "s3://bucket/run/ckpt-1"
    tc.save(path, {"w": np.ones(2)})
    tc.save("s3://bucket/run/ckpt-2", {"w": np.ones(2)}, base=path, level="default")
    reader, with_base = tc.open(path), tc.open("s3://bucket/run/ckpt-2", base=path)
    manager = tc.CheckpointManager("s3://bucket/run")
    writer = tc.Writer("s3://bucket/v.npz")
    numbers = []
    for number in range(24):
        monkeypatch.setenv("AWS_SESSION_TOKEN", f"token-{number}")
        same(tc.load(path), {"w": np.ones(2)})
        numbers.append(len(os.listdir("/proc/self/task")))
    assert max(numbers[12:]) <= max(numbers[:12]) + 6, numbers
    assert reader["w"].tolist() == with_base["w"].tolist() == [1, 1]
    manager.save(3, {"w": np.ones(2)})
    assert manager.steps() == [1, 2, 3]
    manager.close()
    writer.add("w", np.ones(2))
    writer.finish()
    same(tc.load("s3://bucket/v.npz"), {"w": np.ones(2)})


def test_a_child_of_fork_has_connections_of_its_own(store):
    tc.save("s3://bucket/w.npz", {"w": np.ones(2)})
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if tc.load("s3://bucket/w.npz")["w"].tolist() == [1, 1] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    same(tc.load("s3://bucket/w.npz"), {"w": np.ones(2)})


def test_a_checkpoint_of_a_job(store):
    comm, path = tcs.LocalCommunicator(), "s3://bucket/run/step"
    tcs.save(comm, path, [("w", (4, 3), (2 * half, 0), np.full((2, 3), half)) for half in range(2)])
    assert sorted(store.objects) == ["bucket/run/step.data-00000-of-00001", "bucket/run/step.index"]
    column = np.zeros((4, 1), np.int64)
    tcs.load(comm, path, [("w", (0, 1), column)])
    assert column[:, 0].tolist() == [0, 0, 1, 1]
    with pytest.raises(FileExistsError):
        tcs.save(comm, path, [("w", (3,), (0,), np.ones(3))])
    tc.save("here", {"v": np.ones(3)})
    tc.merge([path, "here"], "s3://bucket/run/both")
    assert sorted(tc.load("s3://bucket/run/both")) == ["v", "w"]
    assert store.uploads == {}


def test_a_file_that_is_replaced_while_it_is_read(store):
    tc.save("s3://bucket/w", {"w": np.arange(1_000_000.0)})
    with tc.open("s3://bucket/w") as reader:
        assert reader.slice("w")[:2].tolist() == [0, 1]
        data = "bucket/w.data-00000-of-00001"
        store.put(data, store.objects[data][::-1])
        with pytest.raises(OSError, match="replaced while it was read") as error:
            reader.slice("w")[500_000:]
        assert error.value.errno == errno.ESTALE


# ---- File systems of fsspec -----------------------------------------------------------------------------------------


class Files:
    """As much of a file system of fsspec as is used. Objects in memory; `calls` has the names of what was called."""

    def __init__(self, **files):
        self.files = {path: (data, 0) for path, data in files.items()}
        self.calls = []
        self.before_read = None

    def _strip_protocol(self, path):
        return path.removeprefix("mine://")

    def invalidate_cache(self, path=None):
        pass

    def info(self, path):
        self.calls.append("info")
        if path not in self.files:
            if any(one.startswith(path.rstrip("/") + "/") for one in self.files):
                return {"name": path, "type": "directory", "size": 0}
            raise FileNotFoundError(path)
        data, version = self.files[path]
        return {"name": path, "type": "file", "size": len(data), "ETag": str(version)}

    def ls(self, path, detail=True):
        assert detail is False
        return [one for one in self.files if one.rpartition("/")[0] == path.rstrip("/")]

    def cat_ranges(self, paths, starts, ends, on_error="return"):
        assert on_error == "raise"
        self.calls.append(f"cat_ranges {len(paths)}")
        if self.before_read:
            self.before_read()
        return [self.files[path][0][start:end] for path, start, end in zip(paths, starts, ends)]

    def pipe_file(self, path, value, mode="overwrite"):
        assert isinstance(value, bytes)
        self.calls.append(f"pipe_file {mode}")
        if mode == "create" and path in self.files:
            raise FileExistsError(path)
        self.files[path] = (value, self.files.get(path, (b"", 0))[1] + 1)

    def rm_file(self, path):
        del self.files[path]


@pytest.mark.parametrize("name", ["run/model", "run/model.safetensors", "mine://run/model.npz"])
def test_a_file_system_of_the_caller(tensors, name):
    files = Files()
    tc.save(name, tensors, filesystem=files)
    assert sorted(files.files)[0].startswith("run/model")
    same(tc.load(name, filesystem=files), tensors)
    with tc.open(name, filesystem=files) as reader:
        np.testing.assert_array_equal(reader["a/bias"], tensors["a/bias"])
    assert not os.path.exists("run")
    with pytest.raises(FileExistsError):
        tc.save(name, tensors, filesystem=files)
    tc.save(name, {"w": np.ones(3)}, overwrite=True, filesystem=files)
    same(tc.load(name, filesystem=files), {"w": np.ones(3)})
    with pytest.raises(FileNotFoundError):
        tc.open("other.npz", filesystem=files)


def test_the_reader_keeps_the_file_system():
    files = Files()
    tc.save("w.npz", {"w": np.ones(3)}, filesystem=files)
    reader = tc.open("w.npz", filesystem=files)
    part = reader.slice("w")
    del files
    assert reader["w"].tolist() == [1, 1, 1] and part[1:].tolist() == [1, 1]


def test_large_files_are_read_in_pieces_and_small_ones_at_once():
    files = Files()
    array = np.arange(5_000_000.0)  # 38 MiB
    tc.save("w.npy", {"w": array}, filesystem=files)
    files.calls.clear()
    np.testing.assert_array_equal(tc.load("w.npy", filesystem=files, threads=1)["w"], array)
    reads = [int(call.split()[1]) for call in files.calls if call.startswith("cat_ranges")]
    assert 5 <= sum(reads) <= 10
    tc.save("v.npz", {str(i): np.full(10, i) for i in range(20)}, filesystem=files)
    files.calls.clear()
    assert len(tc.load("v.npz", filesystem=files)) == 20
    assert files.calls.count("cat_ranges 1") <= 2  # the file is opened twice: to recognize it, and to read it


def test_a_version_that_changes_is_an_error():
    files = Files()
    tc.save("w", {"w": np.arange(1_000_000.0)}, filesystem=files)
    name = "w.data-00000-of-00001"
    with tc.open("w", filesystem=files) as reader:
        assert reader.slice("w")[:1].tolist() == [0]
        files.before_read = lambda: files.pipe_file(name, files.files[name][0])  # the same bytes, another ETag
        with pytest.raises(OSError, match="was replaced while it was read.*ETag 1.*ETag 2") as error:
            reader.slice("w")[500_000:]
        assert error.value.errno == errno.ESTALE
        files.before_read = lambda: files.files.pop(name)
        with pytest.raises(OSError):
            reader.slice("w")[500_000:]


class Lying(Files):
    answer = staticmethod(lambda pieces: pieces)

    def cat_ranges(self, *arguments, **options):
        return self.answer(super().cat_ranges(*arguments, **options))


def fail(error):
    raise error


@pytest.mark.parametrize(
    "answer, expected, says",
    [
        (lambda pieces: [one[:-1] for one in pieces], tc.DataLossError, "bytes for"),
        (lambda pieces: [one + b"x" for one in pieces], tc.DataLossError, "bytes for"),
        (lambda pieces: [], tc.DataLossError, "returned 0 pieces"),
        (lambda pieces: pieces * 2, tc.DataLossError, "more pieces"),
        (lambda pieces: ["text"] * len(pieces), OSError, "str"),
        (lambda pieces: None, OSError, "NoneType"),
        (lambda pieces: [PermissionError("not for you")], PermissionError, "not for you"),
        (lambda pieces: fail(ValueError("what is this")), OSError, "ValueError: what is this"),
        (lambda pieces: fail(KeyboardInterrupt()), KeyboardInterrupt, None),
    ],
)
def test_nothing_that_it_returns_is_trusted(answer, expected, says):
    files = Lying()
    tc.save("w.npz", {"w": np.ones(3)}, filesystem=files)
    files.answer = answer
    with pytest.raises(expected, match=says):
        tc.load("w.npz", filesystem=files)


@pytest.mark.parametrize("size", [None, -1, "12", 2**70, 1.5])
def test_sizes_that_are_none(size):
    files = Files()
    tc.save("w.npz", {"w": np.ones(3)}, filesystem=files)
    files.info = lambda path: {"type": "file", "size": size}
    with pytest.raises((OSError, NotImplementedError)):
        tc.open("w.npz", filesystem=files)


def test_a_failed_save_leaves_nothing():
    files = Files()
    files.pipe_file = lambda path, value, mode="overwrite": fail(ConnectionError("gone"))
    with pytest.raises(OSError, match="gone"):
        tc.save("w.npz", {"w": np.ones(3)}, filesystem=files)
    assert files.files == {}


class Uncertain(Files):
    """Raises the errors of `raises`, by the end of a name, after the file was written or, of `refuses`, before."""

    def __init__(self, raises=None, refuses=None):
        super().__init__()
        self.raises, self.refuses, self.is_lost = raises or {}, refuses or {}, False

    def pipe_file(self, path, value, mode="overwrite"):
        end = path.rpartition(".")[2]
        if end in self.refuses:
            raise self.refuses[end]
        super().pipe_file(path, value, mode)
        if end in self.raises:
            raise self.raises[end]

    def info(self, path):
        return fail(ConnectionError("no network")) if self.is_lost and path.endswith(".index") else super().info(path)


DATA = "w.data-00000-of-00001"


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("error", [TimeoutError("late"), FileExistsError("w.index"), ValueError("what is this")])
def test_a_save_whose_answer_is_lost_has_succeeded(tensors, error, overwrite):
    files = Uncertain()
    if overwrite:
        tc.save("w", {"w": np.ones(3)}, filesystem=files)
    files.raises = {"index": error, "data-00000-of-00001": error, "npz": error}
    for name in ("w", "w.npz"):
        tc.save(name, tensors, overwrite=overwrite, filesystem=files)
        same(tc.load(name, filesystem=files), tensors)


@pytest.mark.parametrize(
    "error, expected, stays",
    [(TimeoutError("late"), TimeoutError, True), (ValueError("what is this"), OSError, True),
     (PermissionError("not for you"), PermissionError, False), (FileNotFoundError("no bucket"), FileNotFoundError, False)],
)  # fmt: skip
def test_data_stays_while_its_index_may_still_appear(error, expected, stays):
    files = Uncertain(refuses={"index": error})
    with pytest.raises(expected, match=str(error)):
        tc.save("w", {"w": np.ones(3)}, filesystem=files)
    assert list(files.files) == ([DATA] if stays else [])


def test_data_stays_if_nothing_tells_whether_its_index_is_there():
    class Late(Uncertain):
        def pipe_file(self, path, value, mode="overwrite"):
            self.is_lost = path.endswith(".index")
            super().pipe_file(path, value, mode)

    files = Late(raises={"index": FileExistsError("w.index")})
    with pytest.raises(OSError, match="whether the file was written is unknown: ConnectionError: no network") as error:
        tc.save("w", {"w": np.ones(3)}, filesystem=files)
    assert not isinstance(error.value, FileExistsError)
    files.is_lost = False
    assert tc.load("w", filesystem=files)["w"].tolist() == [1, 1, 1]


def test_a_file_that_another_writer_may_have_written_stays():
    files = Uncertain(refuses={"index": PermissionError("no")})
    files.raises = {"data-00000-of-00001": FileExistsError(DATA)}
    with pytest.raises(PermissionError):
        tc.save("w", {"w": np.ones(3)}, filesystem=files)
    assert list(files.files) == [DATA]


def test_a_file_that_another_writer_wrote_first():
    class Faster(Uncertain):
        def pipe_file(self, path, value, mode="overwrite"):
            super().pipe_file(path, value[::-1], mode)

    for end in ("data-00000-of-00001", "index"):
        files = Faster(raises={end: FileExistsError("w." + end)})
        with pytest.raises(FileExistsError):
            tc.save("w", {"w": np.arange(3.0)}, filesystem=files)
        assert list(files.files) == ["w." + end]


def test_ctrl_c_while_the_index_is_written():
    files = Uncertain(raises={"index": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        tc.save("w", {"w": np.ones(3)}, filesystem=files)
    assert tc.load("w", filesystem=files)["w"].tolist() == [1, 1, 1]


def test_what_cannot_create_exclusively_is_refused():
    class WithoutMode(Files):
        def pipe_file(self, path, value):
            raise AssertionError

    class ReadOnly(Files):
        pipe_file = None

    for files, says in ((WithoutMode(), "no parameter mode"), (ReadOnly(), "cannot create a file exclusively")):
        with pytest.raises(NotImplementedError, match=says):
            tc.save("w.npz", {"w": np.ones(3)}, filesystem=files)
        assert files.files == {}
    assert _filesystems.missing_to_create(Files()) is None


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match="file system of fsspec.*no method info"):
        tc.open("w.npz", filesystem=object())
    with pytest.raises(TypeError, match="must be a path"):
        tc.open(io.BytesIO(b"x"), filesystem=Files())
    with pytest.raises(TypeError, match="filesystem"):
        tc.verify("w.npz", filesystem=Files())


def test_threads_share_a_file_system(tensors):
    files = Files()
    tc.save("model", tensors, filesystem=files)
    with tc.open("model", filesystem=files) as reader:
        failures = []

        def work():
            try:
                for _ in range(20):
                    np.testing.assert_array_equal(reader["z/kernel"], tensors["z/kernel"])
            except Exception as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []


def test_fsspec_itself(tensors):
    memory = pytest.importorskip("fsspec.implementations.memory")
    local = pytest.importorskip("fsspec.implementations.local")
    files = memory.MemoryFileSystem()
    files.store.clear()
    for name in ("/run/model", "memory://run/model.safetensors"):
        tc.save(name, tensors, filesystem=files)
        same(tc.load(name, filesystem=files), tensors)
        with pytest.raises(FileExistsError):
            tc.save(name, tensors, filesystem=files)
    files.store.clear()
    tc.save("here.npz", tensors)
    disk = local.LocalFileSystem()
    same(tc.load(os.path.abspath("here.npz"), filesystem=disk), tensors)
    with pytest.raises(NotImplementedError, match="LocalFileSystem cannot create a file exclusively"):
        tc.save(os.path.abspath("new.npz"), tensors, filesystem=disk)


def test_fsspec_is_not_imported():
    program = "import sys, tensorcask; assert not any(name.startswith('fsspec') for name in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
