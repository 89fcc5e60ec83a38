"""What functions return, and what they show while they work: pickles, texts, progress."""

import concurrent.futures
import copy
import multiprocessing
import os
import pickle
import re

import numpy as np
import pytest

import tensorcask as tc


@pytest.fixture
def files(tmp_path):
    tc.save(tmp_path / "a.npz", {"w": np.array([0.0, 1.0, np.inf]), "only": np.ones(2)})
    tc.save(tmp_path / "b.safetensors", {"w": np.array([0.0, 1.5, np.inf])})
    return str(tmp_path / "a.npz"), str(tmp_path / "b.safetensors")


def damaged(tmp_path):
    tc.save(tmp_path / "m", {"v": np.ones(3), "w": np.ones(3)})
    with open(tmp_path / "m.data-00000-of-00001", "r+b") as file:
        file.write(b"oops")
    return tc.verify(tmp_path / "m")


def fields(thing):
    """All attributes of a result, and of the results in it."""
    if isinstance(thing, list):
        return [fields(one) for one in thing]
    if not type(thing).__module__.startswith("tensorcask"):
        return thing
    return {name: fields(getattr(thing, name)) for name in dir(thing) if not name.startswith("_")} | {"": repr(thing)}


def test_results_are_pickled_and_copied(tmp_path, files):
    results = [tc.diff(*files), *tc.stats(files[0]), damaged(tmp_path)]
    results += [*results[0].differences, *results[0].by_type, *results[-1].damage]
    names = {"DiffReport", "Difference", "TypeDifference", "TensorStats", "VerifyReport", "Damage"}
    assert {type(one).__name__ for one in results} == names
    for one in results:
        for other in [pickle.loads(pickle.dumps(one)), copy.deepcopy(one), copy.copy(one)]:
            assert other is not one and fields(other) == fields(one)


def test_statistics_of_64_bit_integers_are_exact(tmp_path):
    tc.save(tmp_path / "m", {"i": np.array([-(2**63), 2**53 + 1]), "u": np.array([2**64 - 1], np.uint64)})
    signed, natural = tc.stats(tmp_path / "m")
    for one in [signed, pickle.loads(pickle.dumps(signed))]:
        assert (one.min, one.max) == (-(2**63), 2**53 + 1)
    assert (natural.min, natural.max) == (2**64 - 1, 2**64 - 1)
    assert isinstance(tc.stats(tmp_path / "m", "i")[0].min, int)


def test_a_pool_of_processes_returns_them(files):
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        report = pool.submit(tc.diff, *files).result()
        statistics = pool.submit(tc.stats, files[0]).result()
    assert repr(report) == repr(tc.diff(*files))
    assert [one.name for one in statistics] == ["only", "w"] and statistics[1].infinities == 1


def test_texts(tmp_path):
    with tc.Writer(tmp_path / "m.npz") as writer:
        assert repr(writer) == f"<tensorcask.Writer of {str(tmp_path / 'm.npz')!r}, npz>"
        writer.add("w", np.ones((2, 3), np.float32))
    assert repr(writer).endswith(", closed>")
    reader = tc.open(tmp_path / "m.npz")
    rows = reader.slice("w")
    assert repr(rows) == '<tensorcask.SliceReader of "w", float32 [2,3]>'
    reader.close()
    assert repr(rows) == '<tensorcask.SliceReader of "w", float32 [2,3], closed>'


def test_a_slice_of_a_closed_reader_refuses(tmp_path):
    tc.save(tmp_path / "m", {"w": np.arange(4)})
    with tc.open(tmp_path / "m") as reader:
        rows = reader.slice("w")
        assert rows[1:2].tolist() == [1]
    with pytest.raises(tc.ClosedError, match="the reader is closed"):
        rows[1:2]
    assert rows.shape == (4,) and len(rows) == 4
    assert tc.open(tmp_path / "m").slice("w")[0] == 0, "a slice holds its reader open when nothing else refers to it"


# ---- Progress -------------------------------------------------------------------------------------------------------


class Bar:
    """Of tqdm, what is used."""

    def __init__(self):
        self.total = 0

    def update(self, bytes):
        self.total += bytes


def test_progress_of_save_and_convert(tmp_path):
    tensors = {str(i): np.ones(300_000) for i in range(20)}
    calls = []
    bar = Bar()
    tc.save(tmp_path / "m", tensors, progress=calls.append)
    tc.convert(tmp_path / "m", tmp_path / "m.npz", progress=bar)
    assert sum(calls) == 48_000_000 and all(type(one) is int and one > 0 for one in calls)
    assert bar.total == 48_000_000


@pytest.mark.parametrize("work", ["save", "convert"])
def test_an_exception_of_progress_ends_the_work(tmp_path, work):
    tensors = {str(i): np.ones(3000) for i in range(2000)}
    tc.save(tmp_path / "m", tensors)

    def stop(bytes):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        if work == "save":
            tc.save(tmp_path / "out", tensors, progress=stop)
        else:
            tc.convert(tmp_path / "m", tmp_path / "out.npz", progress=stop)


@pytest.mark.parametrize("progress", [1, "text", object()])
def test_progress_must_be_callable(tmp_path, progress):
    with pytest.raises(TypeError, match="progress must be a function"):
        tc.save(tmp_path / "m", {}, progress=progress)


# ---- Words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["convert", "diff", "latest", "open", "salvage", "save", "stats", "verify"])
def test_an_unknown_keyword_is_named(name):
    with pytest.raises(TypeError, match=rf"{name}\(\) has no argument 'nonsense'; it has "):
        getattr(tc, name)("a", nonsense=1)


@pytest.mark.parametrize("call, says", [
    (lambda reader: reader.read("w", nmap=True), r"read() has no argument 'nmap'; did you mean mmap?"),
    (lambda reader: reader.slice(nam="w"), r"slice() has no argument 'nam'; did you mean name?"),
    (lambda reader: reader.select(pattern="w"), r"select() has no argument 'pattern'; it has names"),
    (lambda _: tc.Writer("m", levl="high"), r"Writer() has no argument 'levl'; did you mean level?"),
    (lambda _: tc.CheckpointManager("m", keep_lst=3), r"CheckpointManager() has no argument 'keep_lst'; did you mean"),
    (lambda _: tc.Writer(pth="m"), r"Writer() has no argument 'pth'; did you mean path?"),
    (lambda _: tc.Writer(format="npz"), r"Writer() needs the argument 'path'"),
    (lambda _: tc.CheckpointManager(foldr="m"), r"CheckpointManager() has no argument 'foldr'; did you mean folder?"),
    (lambda _: tc.CheckpointManager(), r"CheckpointManager() needs the argument 'folder'"),
    (lambda _: tc.Tensor(arrray=np.ones(1)), r"Tensor() has no argument 'arrray'; did you mean array?"),
    (lambda _: tc.Tensor(), r"Tensor() needs the argument 'array'"),
    (lambda _: tc.Listener(pth="m"), r"Listener() has no argument 'pth'; did you mean path?"),
    (lambda _: tc.Listener(), r"Listener() needs the argument 'path'"),
    (lambda _: tc.SharedMemory(max_byts=1), r"SharedMemory() has no argument 'max_byts'; did you mean max_bytes?"),
    (lambda reader: reader.read(nme="w"), r"read() has no argument 'nme'; did you mean name?"),
    (lambda _: tc.Tensor(np.ones(1)).reshape(shap=1), r"reshape() has no argument"),
    (lambda _: tc.SharedMemory().zeros(3, dtyp="int8"), r"zeros() has no argument 'dtyp'; did you mean dtype?"),
    (lambda _: tc.Channel.connect("m", timeot=1), r"connect() has no argument 'timeot'; did you mean timeout?"),
])  # fmt: skip
def test_an_unknown_keyword_of_a_method_is_named(tmp_path, monkeypatch, call, says):
    monkeypatch.chdir(tmp_path)
    tc.save("a.npz", {"w": np.ones(1)})
    with tc.open("a.npz") as reader, pytest.raises(TypeError, match=re.escape(says)):
        call(reader)
    assert os.listdir() == ["a.npz"]


def test_methods_are_still_those_of_the_class():
    assert tc.Reader.read.__doc__.startswith("read(self, name: str") and tc.Writer.add.__name__ == "add"
    assert tc.Channel.connect.__name__ == "connect"


def test_an_unknown_keyword_has_near_ones():
    with pytest.raises(TypeError, match=r"save\(\) has no argument 'overwrit'; did you mean overwrite\?"):
        tc.save("m", {}, overwrit=True)
    with pytest.raises(TypeError, match="did you mean .*dtypes"):
        tc.convert("m", "n", dtype="float16")
