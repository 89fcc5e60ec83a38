"""verify, convert, diff, stats, salvage."""

import json
import math
import os
import pathlib
import zipfile

import numpy as np
import pytest

import tensorcask as tc
from conftest import change_elements


@pytest.fixture
def model(tmp_path, tensors):
    tc.save(tmp_path / "m", tensors)
    return tmp_path / "m"


def damage(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_verify(model, tmp_path):
    report = tc.verify(model)
    assert report and (report.whole, report.damaged, report.not_checked, report.damage) == (5, 0, 0, [])
    damage(tmp_path / "m.data-00000-of-00001", 8)
    report = tc.verify(model)
    assert not report and (report.whole, report.damaged) == (4, 1)
    (one,) = report.damage
    assert one.tensor == "z/kernel" and one.file.endswith("data-00000-of-00001") and '"z/kernel"' in one.message
    assert "1 damaged" in repr(report) and "z/kernel" in repr(one)
    (tmp_path / "m.data-00000-of-00001").unlink()
    report = tc.verify(model)
    assert not report and report.whole == 0 and report.damaged_elsewhere == 1
    assert any("missing" in one.message or "No such file" in one.message for one in report.damage)


def test_damage_outside_of_tensors_counts_separately(tensors):
    tc.save("m.npz", tensors)
    with zipfile.ZipFile("m.npz", "a") as file:
        file.writestr("note.txt", "no array")
    content = pathlib.Path("m.npz").read_bytes()
    pathlib.Path("m.npz").write_bytes(content.replace(b"no array", b"no arrow"))
    report = tc.verify("m.npz")
    assert not report and (report.whole, report.damaged, report.damaged_elsewhere) == (5, 0, 1)
    assert repr(report).endswith(", 1 damaged elsewhere>")


def test_convert(model, tmp_path, tensors):
    result = tc.convert(model, tmp_path / "m.safetensors", include=["*/*"], exclude="a*")
    assert result["tensors"] == 1 and result["bytes"] == 840 and result["losses"] == []
    np.testing.assert_array_equal(tc.load(tmp_path / "m.safetensors")["z/kernel"], tensors["z/kernel"])
    tc.convert(model, tmp_path / "n.npz", rename=lambda name: name.replace("/", "."), dtypes={"z*": "float16"})
    loaded = tc.load(tmp_path / "n.npz")
    assert loaded["z.kernel"].dtype == np.float16 and loaded["a.bias"].dtype == np.int64
    tc.convert(model, tmp_path / "o", rename={"scalar": "number"})
    assert "number" in tc.load(tmp_path / "o") and "empty" in tc.load(tmp_path / "o")
    tc.convert(model, tmp_path / "r", rename=["s,/,.,g", "s/^a\\.(.*)/b.\\1/"])
    assert {"b.bias", "z.kernel"} <= set(tc.load(tmp_path / "r"))
    tc.convert(model, tmp_path / "s", rename="scalar=number")
    assert "number" in tc.load(tmp_path / "s")
    for rule, says in (("s/(a/b/", "not closed"), ("s/nosuch/x/", "matches no tensor"), ("s/a/\\U&/", "case")):
        with pytest.raises(ValueError, match=says):
            tc.convert(model, tmp_path / "refused", rename=rule)
    tc.save(tmp_path / "text", {"t": "x", "n": np.ones(2)})
    with pytest.raises(ValueError, match="is string, .*; allow_loss leaves"):
        tc.convert(tmp_path / "text", tmp_path / "text.safetensors")
    result = tc.convert(tmp_path / "text", tmp_path / "text.safetensors", allow_loss=True)
    assert len(result["losses"]) == 1 and list(tc.load(tmp_path / "text.safetensors")) == ["n"]
    with pytest.raises(FileExistsError):
        tc.convert(model, tmp_path / "n.npz")
    with pytest.raises(ValueError):
        tc.convert(model, tmp_path / "same", rename=lambda name: "x")


def test_diff(model, tmp_path, tensors):
    assert not tc.diff(model, model)
    other = dict(tensors, extra=np.ones(1), flags=np.array([True]))
    other["z/kernel"] = tensors["z/kernel"].copy()
    other["z/kernel"][2, 3] += 0.5
    other["a/bias"] = tensors["a/bias"].astype(np.int32)
    del other["scalar"]
    tc.save(tmp_path / "n.npz", other)
    report = tc.diff(model, tmp_path / "n.npz")
    assert report and report.equal == 1
    kinds = {one.name: one.kind for one in report.differences}
    assert kinds == {"scalar": "only in a", "extra": "only in b", "flags": "shape", "a/bias": "dtype", "z/kernel": "values"}
    (values,) = [one for one in report.differences if one.kind == "values"]
    assert values.where == (2, 3) and values.num_different == 1 and abs(values.max_absolute - 0.5) < 1e-6
    assert not tc.diff(model, tmp_path / "n.npz", names="z*", atol=1).differences


def test_diff_of_other_names_and_dtypes(tmp_path):
    tc.save(tmp_path / "a.npz", {"model.w": np.float32([1, 1.5, -3])})
    tc.save(tmp_path / "b.npz", {"w": np.float64([1, 1.5, -3.25])})
    a, b = tmp_path / "a.npz", tmp_path / "b.npz"
    for rename in ({"model.w": "w"}, lambda name: name[6:]):
        assert [one.kind for one in tc.diff(a, b, rename=rename).differences] == ["dtype"]
        (values,) = tc.diff(a, b, rename=rename, cast=True).differences
        assert (values.name, values.kind, values.num_different, values.max_absolute) == ("w", "values", 1, 0.25)
        assert (values.type_a, values.type_b) == ("float32", "float64")
        assert values.rms == pytest.approx(math.sqrt(0.25**2 / 3))
        assert values.relative_rms == pytest.approx(0.25 / math.sqrt(1 + 1.5**2 + 3**2))
        (total,) = tc.diff(a, b, rename=rename, cast=True).by_type
        assert (total.type_a, total.type_b, total.tensors, total.elements) == ("float32", "float64", 1, 3)
        assert (total.max_absolute, total.rms, total.relative_rms) == (0.25, values.rms, values.relative_rms)
        report = tc.diff(a, b, rename=rename, rtol=0.1)
        assert not report and (report.equal, report.within_tolerance, report.other_dtypes) == (0, 1, 1)


def test_names_with_brackets_and_several_arrays(tmp_path):
    tc.save(tmp_path / "m.npz", {"x[0]": np.ones(1), "x0": np.zeros(1)})
    assert list(tc.load(tmp_path / "m.npz", names="x[0]")) == ["x[0]"]
    with open(tmp_path / "many.npy", "wb") as file:
        np.save(file, np.arange(3))
        np.save(file, np.float32([1.5]))
    loaded = tc.load(tmp_path / "many.npy")
    assert {name: array.tolist() for name, array in loaded.items()} == {"arr_0": [0, 1, 2], "arr_1": [1.5]}


def test_other_content_is_named(tmp_path):
    (tmp_path / "m.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(tc.Error, match="git lfs pull"):
        tc.open(tmp_path / "m.safetensors")


def test_stats(tmp_path):
    values = np.array([0, 1, 2, np.nan, np.inf, 5], np.float32)
    tc.save(tmp_path / "m", {"v": values, "text": "x"})
    text, one = tc.stats(tmp_path / "m")
    assert text.name == "text" and not text.is_numeric
    assert (one.name, one.dtype, one.shape, one.size, one.error) == ("v", "float32", (6,), 6, None)
    assert (one.min, one.max, one.mean, one.zeros, one.nans, one.infinities) == (0, 5, 2, 1, 1, 1)
    assert one.std == pytest.approx(np.std([0, 1, 2, 5])) and sum(one.histogram) == 4
    assert [each.name for each in tc.stats(tmp_path / "m", "v")] == ["v"]


def test_salvage(model, tmp_path, tensors):
    damage(tmp_path / "m.data-00000-of-00001", 8)
    result = tc.salvage(model, tmp_path / "rescued")
    assert result["saved"] == 4 and [one.tensor for one in result["lost"]] == ["z/kernel"]
    loaded = tc.load(tmp_path / "rescued")
    np.testing.assert_array_equal(loaded["a/bias"], tensors["a/bias"])
    with pytest.raises(FileExistsError):
        tc.salvage(model, tmp_path / "rescued")
    with pytest.raises(FileNotFoundError):
        tc.salvage(tmp_path / "none", tmp_path / "rescued", overwrite=True)


def test_a_manager(tmp_path):
    array = np.zeros(100_000)
    with tc.CheckpointManager(tmp_path / "run", keep_last=2, keep_every=4) as manager:
        assert manager.latest() is None and tc.latest(tmp_path / "run") is None
        for step in range(8):
            array[:] = step
            save = manager.save_in_background(step, {"w": array})
            array[:] = -1  # the save has its own copy
        save.wait()
        save.wait()
        assert save.done and manager.steps() == [0, 4, 6, 7]
        step, path = manager.latest()
        assert step == 7 and path == manager.path_of(7)
        assert (tc.load(path)["w"] == 7).all()
        manager.save(9, {"w": array})
        with pytest.raises(FileExistsError):
            manager.save(9, {"w": array})
        with pytest.raises(RuntimeError, match="lock"):
            tc.CheckpointManager(tmp_path / "run")
        with pytest.raises(TypeError):
            manager.save(10, {"w": object()})
        assert manager.latest(verify=False)[0] == 9
    for use in [lambda: manager.steps(), lambda: manager.save(11, {}), lambda: manager.latest()]:
        with pytest.raises(tc.ClosedError):
            use()
    assert tc.latest(tmp_path / "run")[0] == 9
    with tc.CheckpointManager(tmp_path / "run") as again:
        with pytest.raises(FileExistsError):
            again.save_in_background(9, {"w": array})
        (tmp_path / "run" / "ckpt-10.index").mkdir()
        with pytest.raises(tc.Error):
            again.save_in_background(10, {"w": array}).wait()
    for wrong in [{"keep_last": 0}, {"name": "a/b"}, {"level": "best"}]:
        with pytest.raises(ValueError):
            tc.CheckpointManager(tmp_path / "run", **wrong)


def test_deltas_of_a_manager_whose_base_is_lost(tmp_path):
    base, weights = tmp_path / "base", {"w": np.random.default_rng(1).random(100_000)}
    tc.save(base, weights)
    changed = {"w": weights["w"].copy()}
    changed["w"][7] = -1
    with tc.CheckpointManager(tmp_path / "run", base=base, level="default") as manager:
        manager.save(1, changed)
        path = manager.path_of(1)
    assert os.path.getsize(path + ".data-00000-of-00001") < 10_000
    np.testing.assert_array_equal(tc.load(path, base=base)["w"], changed["w"])
    with pytest.raises(tc.FailedPreconditionError, match="base"):
        tc.load(path)
    assert tc.verify(path).not_checked == 1
    tc.save(base, changed, overwrite=True)  # another checkpoint of the same name
    with pytest.raises((tc.FailedPreconditionError, tc.DataLossError)):
        tc.load(path, base=base)
    os.remove(str(base) + ".index")
    with pytest.raises(FileNotFoundError):
        tc.load(path, base=base)
    with pytest.raises(FileNotFoundError):
        tc.CheckpointManager(tmp_path / "run", base=base, level="default")


def test_a_run_of_deltas(tmp_path):
    run, weights = tmp_path / "run", np.random.default_rng(1).random(100_000)
    with tc.CheckpointManager(run, full_every=3, keep_last=2) as manager:
        for step in range(1, 6):
            weights[step] = step
            manager.save(step, {"w": weights})
        assert manager.steps() == [4, 5]  # 4 is the base of 5
        assert manager.latest() == (5, str(run / "ckpt-5"))
    assert os.path.getsize(run / "ckpt-5.data-00000-of-00001") < 10_000
    with tc.open_latest(run) as reader:
        assert reader.path == str(run / "ckpt-5") and "delta" in reader.entry("w").encoding
        np.testing.assert_array_equal(reader["w"], weights)
    for path in (run, run / "ckpt-5", run / "ckpt-5.index"):
        with tc.open(path) as reader:
            np.testing.assert_array_equal(reader["w"], weights)
        np.testing.assert_array_equal(tc.load(path)["w"], weights)
        assert tc.verify(path)
    tc.convert(run, tmp_path / "out.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["w"], weights)
    with pytest.raises(tc.FailedPreconditionError, match="this call reads it"):
        tc.convert(run / "ckpt-5", run / "ckpt-4", overwrite=True)

    # A base that is another checkpoint, or missing.
    with tc.CheckpointManager(run, full_every=2) as manager:
        manager.save(6, {"w": weights})
        manager.save(7, {"w": weights + (np.arange(100_000) == 9)})
    tc.save(run / "ckpt-6", {"w": weights + 1}, overwrite=True)
    with pytest.raises(tc.FailedPreconditionError, match=r"its base, .*ckpt-6: .*hash"):
        tc.load(run)
    assert not tc.verify(run) and tc.verify(run).not_checked == 1
    assert tc.open_latest(run).path == str(run / "ckpt-6")
    os.remove(run / "ckpt-6.index")
    with pytest.raises(tc.FailedPreconditionError, match=r"a delta to .*ckpt-6, which is missing; .*`base`"):
        tc.load(run / "ckpt-7")
    assert tc.open_latest(run).path == str(run / "ckpt-5")
    for wrong in [{"full_every": 0}, {"full_every": 2, "base": run / "ckpt-4"}]:
        with pytest.raises(tc.InvalidArgumentError, match="full_every"):
            tc.CheckpointManager(run, **wrong)


MIB = 1 << 20


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("reuse_memory", [True, False])
def test_memory_of_copies_is_kept_for_the_next_save(tmp_path, reuse_memory):
    array = np.zeros((128, MIB // 8))  # 128 MiB
    array[:] = 1
    strided = array[::2, ::3]
    with tc.CheckpointManager(tmp_path, sync=False, reuse_memory=reuse_memory) as manager:
        before = resident_bytes()
        for step in (1, 2):
            save = manager.save_in_background(step, {"w": array, "strided": strided, "empty": np.zeros((0, 3))})
            array[:] = step + 1  # which the copies do not see
            save.wait()
            kept = resident_bytes() - before
            if reuse_memory:
                assert 120 * MIB < kept < 180 * MIB
            else:
                assert kept < 60 * MIB
            loaded = tc.load(manager.path_of(step))
            assert (loaded["w"] == step).all() and (loaded["strided"] == step).all()
            assert loaded["strided"].shape == strided.shape and loaded["empty"].shape == (0, 3)
            del loaded
    assert resident_bytes() - before < 60 * MIB


def test_memory_of_copies_does_not_grow_with_new_sizes(tmp_path):
    with tc.CheckpointManager(tmp_path, sync=False, keep_last=1) as manager:
        before = resident_bytes()
        for step in range(10):
            manager.save_in_background(step, {"w": np.ones((32 + step, MIB // 8))}).wait()
        assert resident_bytes() - before < 80 * MIB


# ---- What convert replaces and removes ------------------------------------------------------------------------------


def shards(folder, tensors):
    """The index of a model in several files."""
    folder.mkdir()
    tc.save(folder / "all.npz", tensors)
    index = folder / "m.safetensors.index.json"
    names = {}
    for number, (name, array) in enumerate(tensors.items(), 1):
        file = f"m-{number:05}-of-{len(tensors):05}.safetensors"
        tc.save(folder / file, {name: array})
        names[name] = file
    index.write_text(json.dumps({"weight_map": names}))
    (folder / "all.npz").unlink()
    return index


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_convert_leaves_slots_out(tmp_path):
    row = np.ones(2, np.float32)
    tc.save(tmp_path / "old", {"w": row, "w/Adam": row, "w/Adam_1": row, "Adam": row})
    assert tc.convert(tmp_path / "old", tmp_path / "slim.npz", exclude_slots=True)["tensors"] == 2
    assert sorted(tc.open(tmp_path / "slim.npz")) == ["Adam", "w"]
    with pytest.raises(tc.InvalidArgumentError, match="the format npz does not say which tensors are slots"):
        tc.convert(tmp_path / "slim.npz", tmp_path / "x.npz", exclude_slots=True)


def test_convert_removes_only_what_the_old_index_lists(tmp_path, tensors):
    index = shards(tmp_path / "model", {"a": np.ones(2), "b": np.ones(3), "c": np.ones(4)})
    folder = tmp_path / "model"
    (folder / "m-00001-of-00009.safetensors").write_bytes(b"of nobody")
    before = content(folder)
    (tmp_path / "way").symlink_to(folder)
    for source in (folder / "m-00001-of-00003.safetensors", tmp_path / "way" / "m-00002-of-00003.safetensors"):
        for target in (index, folder / "m.safetensors", folder / ".." / "model" / "m.safetensors"):
            for dry_run in (True, False):
                with pytest.raises(tc.FailedPreconditionError, match="this call reads it"):
                    tc.convert(source, target, overwrite=True, dry_run=dry_run)
            assert content(folder) == before
    tc.save(tmp_path / "other", tensors)
    dry = tc.convert(tmp_path / "other", folder / "m.safetensors", overwrite=True, dry_run=True)
    assert content(folder) == before
    done = tc.convert(tmp_path / "other", folder / "m.safetensors", overwrite=True)
    assert done["removed"] == dry["removed"]
    assert {os.path.basename(name) for name in done["removed"]} == {*before} - {"m-00001-of-00009.safetensors"}
    assert sorted(content(folder)) == ["m-00001-of-00009.safetensors", "m.safetensors"]


def test_a_shard_alone_removes_nothing(tmp_path):
    index = shards(tmp_path / "model", {"a": np.ones(2), "b": np.ones(3)})
    index.unlink()
    before = content(tmp_path / "model")
    done = tc.convert(tmp_path / "model" / "m-00001-of-00002.safetensors", tmp_path / "model" / "m.safetensors",
                      overwrite=True)
    assert done["removed"] == []
    assert {name: data for name, data in content(tmp_path / "model").items() if name in before} == before


def test_repeated_converts_of_a_checkpoint_add_no_data_files(model, tmp_path):
    counts = []
    for _ in range(6):
        tc.convert(model, tmp_path / "copy", overwrite=True)
        counts.append(len(list(tmp_path.glob("copy.data-*"))))
    assert max(counts) <= 2, counts
    # A copy of the copy, which may have an empty data file more, has none more than that.
    for _ in range(6):
        tc.convert(tmp_path / "copy", tmp_path / "again", overwrite=True)
        tc.convert(tmp_path / "again", tmp_path / "copy", overwrite=True)
        assert max(len(list(tmp_path.glob(f"{name}.data-*"))) for name in ("copy", "again")) <= 2


def test_a_dry_run_of_convert_refuses_what_the_real_one_refuses(model, tmp_path):
    tc.save(tmp_path / "names.npz", {"__metadata__": np.ones(1)})
    for dry_run in (True, False):
        with pytest.raises(ValueError, match="__metadata__"):
            tc.convert(tmp_path / "names.npz", tmp_path / "m.safetensors", dry_run=dry_run)
        with pytest.raises(tc.Error, match="there is no folder"):
            tc.convert(model, tmp_path / "missing" / "m.npz", dry_run=dry_run)
    assert tc.convert(model, tmp_path / "m.npz", dry_run=True)["removed"] == []
    assert not (tmp_path / "m.npz").exists()


def test_elements_that_another_program_changed(tmp_path):
    for name in ("m.npz", "m.safetensors", "m.tfrecord", "m"):
        path = tmp_path / name
        tc.save(path, {"w": np.array([1.0, 7.5]), "v": np.zeros(2)})
        place = tmp_path / "m.data-00000-of-00001" if name == "m" else path
        content = place.read_bytes()
        place.write_bytes(content.replace(np.array([1.0, 7.5]).tobytes(), np.array([2.0, 7.5]).tobytes()))
        with pytest.raises((ValueError, KeyError)):
            tc.load(path, "w")
        assert tc.load(path, verify=False)["w"].tolist() == [2.0, 7.5]
        with tc.open(path, verify=False) as reader:
            assert reader["w"].tolist() == [2.0, 7.5]
        out = tmp_path / f"out-{name}.npz"
        tc.convert(path, out, verify=False)
        assert tc.load(out)["w"].tolist() == [2.0, 7.5]
        assert not tc.diff(path, out, verify=False).differences
        assert {one.name: one.max for one in tc.stats(path, verify=False)}["w"] == 7.5
        assert not tc.verify(path)


@pytest.mark.parametrize("name", ["m", "m.npz", "m.safetensors", "m.tfrecord"])
def test_an_error_of_damaged_tensors_says_what_helps(name):
    good, bad = np.array([1.0, 7.5]), np.array([2.0, 7.5])
    tc.save(name, {"w": good, "v": np.zeros(2)})
    change_elements(name, good, bad)
    helps = "; tensorcask.salvage saves the undamaged tensors, verify=False reads the others as they are"
    number = "0" if name == "m.tfrecord" else "w"  # a damaged record has lost its name
    for read in (lambda: tc.load(name), lambda: tc.open(name)[number], lambda: tc.convert(name, "out.npz")):
        with pytest.raises(tc.Error) as caught:
            read()
        assert str(caught.value).endswith(helps)
    damage, = tc.verify(name).damage
    assert "salvage" not in damage.message


def test_a_missing_file_has_no_elements_to_read():
    tc.save("m", {"w": np.ones(2)})
    os.remove("m.data-00000-of-00001")
    with pytest.raises(tc.DataLossError, match="; tensorcask.salvage saves the undamaged tensors$"):
        tc.load("m")
    with pytest.raises(tc.Error) as caught:
        tc.load("m", "x")
    assert "salvage" not in str(caught.value)


def test_an_incomplete_tensor_is_counted(tmp_path):
    # "a" and "c", float32 [2], are whole; of "b", float32 [2], the file lists and has one element.
    index = bytes.fromhex(
        "00000608011a02080100081100620001010180810801120412020801201028043510fd784f00010f610801120412020802280835"
        "16921fcf00010e6208011204120208023a040a02100100011163080112041202080220082808358a099c25000000000900000025"
        "000000380000004a0000000500000000a6e85b12000000000100000000c0f2a1b000010263007700000000010000000010082cac"
        "7c0889010e000000000000000000000000000000000000000000000000000000000000000000000057fb808b247547db"
    )
    (tmp_path / "i.index").write_bytes(index)
    (tmp_path / "i.data-00000-of-00001").write_bytes(np.float32([1, 7, 3, 7, 2]).tobytes())
    report = tc.verify("i")
    assert report and (report.whole, report.incomplete, report.damaged, report.not_checked) == (2, 1, 0, 0)
    assert repr(report) == "<VerifyReport: 2 whole, 0 damaged, 1 incomplete>"
    with tc.open("i") as reader:
        assert reader.slice("b")[:1].tolist() == [2]
    assert tc.verify("i", format="checkpoint").incomplete == 1
    tc.save("whole", {"w": np.ones(2)})
    assert tc.verify("whole").incomplete == 0


def test_dtypes_by_kind():
    tensors = {"step": np.int64(46901), "half": np.float16([1.5]), "w": np.float64([1.5, 2]), "on": np.array([True]),
               "z": np.complex128([1 + 2j])}
    tc.save("m", tensors)

    def dtypes(rules, **options):
        result = tc.convert("m", "out", dtypes=rules, overwrite=True, **options)
        with tc.open("out") as reader:
            return {name: reader.entry(name).dtype for name in reader}, result

    kept = {name: array.dtype.name for name, array in tensors.items()}
    for rules in ("float32", {"*": "float32"}, {"float:*": "float32", "complex:*": "complex128"}):
        if rules == "float32" or "*" in rules:  # from complex, too: the imaginary parts would be lost
            with pytest.raises(ValueError, match="imaginary"):
                dtypes(rules)
        found, result = dtypes(rules, allow_loss=True)
        assert found == {**kept, "half": "float32", "w": "float32", "z": found["z"]}
        assert int(tc.load("out")["step"]) == 46901 and not any("step" in loss for loss in result["losses"])
    found, result = dtypes({"int:s*": "float32"})
    assert found == {**kept, "step": "float32"} and any('"step"' in loss for loss in result["losses"])
    assert dtypes({"bool:*": "uint8"})[0] == {**kept, "on": "uint8"}
    assert dtypes({"int:w": "float32"})[0] == kept  # no tensor of that kind
    found, _ = dtypes({"any:[sw]*": "bfloat16"})
    assert found == {**kept, "step": "bfloat16", "w": "bfloat16"}
    assert dtypes({"w": "float32", "*": "float16"}, allow_loss=True)[0]["w"] == "float32"  # the first rule counts


def test_salvage_removes_the_files_that_the_old_model_alone_needs(tmp_path):
    tc.save("m.safetensors", {"v": np.zeros(2), "w": np.ones(2)})
    (tmp_path / "old.safetensors.index.json").write_text(json.dumps({
        "weight_map": {"v": "old-00001-of-00002.safetensors", "w": "old-00002-of-00002.safetensors"}}))
    for number, (name, array) in enumerate({"v": np.zeros(2), "w": np.ones(2)}.items(), 1):
        tc.save(f"old-0000{number}-of-00002.safetensors", {name: array})
    tc.save("old-00003-of-00003.safetensors", {"x": np.ones(1)})  # which the index does not list
    result = tc.salvage("m.safetensors", tmp_path / "old.safetensors", overwrite=True)
    listed = [str(tmp_path / f"old-0000{number}-of-00002.safetensors") for number in (1, 2)]
    assert sorted(result["removed"]) == [*listed, str(tmp_path / "old.safetensors.index.json")]
    assert not any(os.path.exists(path) for path in result["removed"]) and os.path.exists("old-00003-of-00003.safetensors")
    assert tc.salvage("m.safetensors", "new", overwrite=True)["removed"] == []


def test_open_latest_without_checksums():
    good, bad = np.array([1.0, 7.5]), np.array([2.0, 7.5])
    with tc.CheckpointManager("run", keep_last=3) as manager:
        for step in range(2):
            manager.save(step, {"w": good + step})
    change_elements("run/ckpt-1", good + 1, bad + 1)
    assert tc.open_latest("run").path == "run/ckpt-0"
    with tc.open_latest("run", verify=False) as reader:  # which the structure of the step does not show
        assert reader.path == "run/ckpt-1"
        with pytest.raises(tc.DataLossError, match="verify=False"):
            reader["w"]
    for verify in (True, False):
        with tc.open_latest("run", verify=verify, ignore_checksums=True) as reader:
            assert reader.path == "run/ckpt-1" and reader["w"].tolist() == [3, 8.5]


def test_salvage_of_other_formats(tmp_path):
    path = tmp_path / "m.npz"
    tc.save(path, {"w": np.array([1.0, 7.5]), "v": np.zeros(2)})
    content = path.read_bytes()
    path.write_bytes(content.replace(np.array([1.0, 7.5]).tobytes(), np.array([2.0, 7.5]).tobytes()))
    result = tc.salvage(path, tmp_path / "rescued.safetensors")
    assert result["saved"] == 1 and [one.tensor for one in result["lost"]] == ["w"]
    assert list(tc.load(tmp_path / "rescued.safetensors")) == ["v"]
