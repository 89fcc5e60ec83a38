"""Tensor: views, copies, DLPack."""

import gc

import ml_dtypes
import numpy as np
import pytest

import tensorcask as tc


@pytest.fixture
def values():
    return np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_views_are_those_of_numpy(values):
    tensor = tc.Tensor(values)
    assert (tensor.shape, tensor.strides, tensor.dtype) == ((2, 3, 4), (12, 4, 1), "float32")
    assert (tensor.ndim, tensor.size, tensor.nbytes, len(tensor)) == (3, 24, 96, 2)
    pairs = [
        (tensor[1], values[1]),
        (tensor[..., ::-2], values[..., ::-2]),
        (tensor[:, 1:, -1], values[:, 1:, -1]),
        (tensor.transpose(0, 2), values.swapaxes(0, 2)),
        (tensor.transpose(), values.swapaxes(-1, -2)),
        (tensor.T, values.T),
        (tensor.permute(2, 0, 1), values.transpose(2, 0, 1)),
        (tensor.permute((2, 0, 1)), values.transpose(2, 0, 1)),
        (tensor.reshape(6, -1), values.reshape(6, -1)),
        (tensor.T.reshape(24), values.T.reshape(24)),
        (tensor[:1].expand(5, 3, 4), np.broadcast_to(values[:1], (5, 3, 4))),
        (tensor.flip(0, 2), values[::-1, :, ::-1]),
        (tensor.unsqueeze(1).squeeze(), values),
        (tensor.clone(), values),
        (tensor.T.contiguous(), values.T),
        (tensor.astype("float64"), values.astype(np.float64)),
        (tensor.astype(np.int8), values.astype(np.int8)),
        (tensor.bitcast("uint32"), values.view(np.uint32)),
    ]
    for ours, theirs in pairs:
        array = ours.numpy()
        assert array.dtype == theirs.dtype and array.shape == theirs.shape
        np.testing.assert_array_equal(array, theirs)
        np.testing.assert_array_equal(np.asarray(ours), theirs)
        assert ours.equal(theirs)
        if array.size and ours.strides == tuple(s // array.itemsize for s in array.strides):
            np.testing.assert_array_equal(np.from_dlpack(ours), theirs)


def test_the_memory_is_shared_and_kept(values):
    tensor = tc.Tensor(values)
    assert np.shares_memory(tensor.numpy(), values) and np.shares_memory(tensor.T.numpy(), values)
    values[0, 0, 0] = 7
    assert tensor[0, 0, 0].numpy() == 7
    array = tensor[1].numpy()
    del tensor, values
    gc.collect()
    assert array.sum() == sum(range(12, 24))
    with pytest.raises(ValueError):
        array[0] = 1  # memory of another library is not written


def test_writing(values):
    tensor = tc.Tensor(values)
    tensor[0, :, 1] = [1, 2, 3]
    tensor[1] = -1
    assert values[0, 0, 1] == 1 or values[0, 1, 1] == 5  # of the caller: stays
    assert (values == np.arange(24, dtype=np.float32).reshape(2, 3, 4)).all()
    assert tensor.numpy()[0, :, 1].tolist() == [1, 2, 3] and (tensor.numpy()[1] == -1).all()
    tensor[...] = tensor.numpy()[::-1]
    own = tensor.clone()
    array = own.numpy()
    array[0] = 5
    assert (own.numpy()[0] == 5).all() and not own.readonly
    later = own.lazy_clone()
    own[0] = 6
    assert (later.numpy()[0] == 5).all() and (own.numpy()[0] == 6).all()
    for wrong in [lambda: own.__setitem__(0, np.ones(7)), lambda: own.__setitem__(9, 1), lambda: own.__setitem__(0, "x")]:
        with pytest.raises((ValueError, IndexError, TypeError, NotImplementedError)):
            wrong()


def test_what_views_refuse(values):
    tensor = tc.Tensor(values)
    for wrong in [
        lambda: tensor[3],
        lambda: tensor[0, 0, 0, 0],
        lambda: tensor["x"],
        lambda: tensor[::0],
        lambda: tensor.transpose(0, 5),
        lambda: tensor.permute(0, 0, 1),
        lambda: tensor.reshape(5, 5),
        lambda: tensor.expand(3, 3, 4),
        lambda: tensor.reshape(2**62, 2**62),
        lambda: tensor.astype("text"),
        lambda: tensor.bitcast("bool"),
        lambda: len(tensor[0, 0, 0]),
        lambda: tc.Tensor(None),
        lambda: tc.Tensor(),
        lambda: tensor.__dlpack__(dl_device=(2, 0)),
        lambda: tensor.__dlpack__(stream=1),
    ]:
        with pytest.raises((ValueError, IndexError, TypeError, BufferError, NotImplementedError)):
            wrong()


def test_dlpack(values):
    tensor = tc.Tensor(values).clone()
    shared = np.from_dlpack(tensor)
    shared_again = tensor.numpy()
    shared_again[0, 0, 0] = 9
    assert shared[0, 0, 0] == 9
    assert tensor.__dlpack_device__() == (1, 0)
    copy = np.asarray(tc.Tensor(tensor).clone())
    tensor[0] = 1
    assert copy[0, 0, 0] == 9
    del tensor
    gc.collect()
    assert shared[0, 0, 1] == 1
    for version in [None, (1, 0), (1, 1), (0, 8)]:
        capsule = tc.Tensor(values).clone().__dlpack__(max_version=version)
        assert "dltensor" in repr(capsule)
        del capsule  # never taken


def test_text(values):
    text = repr(tc.Tensor(np.arange(1_000_000)))
    assert len(text) < 200 and "dtype=int64" in text and "..." in text
    html = tc.Tensor(np.array(["<b>"]))._repr_html_()
    assert "&lt;b&gt;" in html and "string" in html
    assert "bfloat16" in repr(tc.Tensor(np.ones(2, ml_dtypes.bfloat16)))
    assert tc.Tensor(np.array([b"a\0"], object)).numpy().tolist() == [b"a\0"]


def test_integers_stand_for_dtypes_that_numpy_lacks(tmp_path):
    import subprocess
    import sys

    tc.save(tmp_path / "m", {"x": np.array([1, -2], ml_dtypes.bfloat16)})
    program = "import tensorcask as tc; x = tc.load('m')['x']; print(x.dtype, x.tolist(), tc.open('m').entry('x').dtype)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("uint16 [16256, 49152] bfloat16\n", "")
