"""Any array goes out and comes back: dtypes, shapes, strides, byte orders drawn at random."""

import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorcask as tc
from conftest import FORMATS
from tensorcask import _native, _plain, trees

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
ML_DTYPES = ["bfloat16", "float8_e4m3fn", "float8_e5m2"]


@st.composite
def arrays(draw):
    """Any bits (NaN payloads, -0.0) in any layout."""
    shape = draw(st.lists(st.integers(0, 4), max_size=5))
    name = draw(st.sampled_from(DTYPES + ML_DTYPES))
    dtype = np.dtype(getattr(ml_dtypes, name)) if name in ML_DTYPES else np.dtype(draw(st.sampled_from("<>")) + name)
    count = int(np.prod([max(1, 2 * size) for size in shape]))
    data = draw(st.binary(min_size=64, max_size=64))
    raw = np.frombuffer((data * (count * dtype.itemsize // 64 + 1))[: count * dtype.itemsize], np.uint8)
    if dtype == bool:
        raw = raw % 2
    array = raw.copy().view(dtype).reshape([max(1, 2 * size) for size in shape])
    index = []
    for size in shape:
        step = draw(st.sampled_from([1, 2, -1, -2]))
        index.append(slice(None, None, step))
    array = array[tuple(index)]
    array = array[tuple(slice(0, size) for size in shape)]
    if array.ndim:
        array = array.transpose(draw(st.permutations(range(array.ndim))))
    if draw(st.booleans()):
        array = np.broadcast_to(array, (2,) + array.shape)
    return array


def same_bits(got, wanted):
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype.newbyteorder("=")
    assert got.tobytes() == wanted.astype(wanted.dtype.newbyteorder("=")).tobytes()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(array=arrays(), format=st.sampled_from(sorted(FORMATS)), data=st.data())
def test_save_and_load(tmp_path, array, format, data):
    if format == "npz" and array.dtype.name in ML_DTYPES or format == "safetensors" and array.dtype.kind == "c":
        format = "checkpoint"
    path = tmp_path / ("m" + FORMATS[format])
    tc.save(path, {"x": array}, format=format, overwrite=True, sync=False)
    same_bits(tc.load(path)["x"], array)
    same_bits(np.asarray(tc.load(path, mmap=True)["x"]), array)
    index = tuple(data.draw(st.slices(size)) if data.draw(st.booleans()) else slice(None) for size in array.shape)
    with tc.open(path) as reader:
        same_bits(reader.slice("x")[index], array[index])


@settings(max_examples=150, deadline=None)
@given(array=arrays())
def test_tensors(array):
    tensor = tc.Tensor(array)
    same_bits(tensor.numpy(), array)
    same_bits(tensor.clone().numpy(), array)
    same_bits(tensor.lazy_clone().T.numpy(), array.T)
    assert tensor.shape == array.shape


def native(array):
    return np.array(array, array.dtype.newbyteorder("="))


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
STATES = st.recursive(
    PLAIN | arrays().map(native),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


def same_state(got, wanted):
    assert type(got) is type(wanted)
    if isinstance(wanted, np.ndarray):
        same_bits(got, wanted)
    elif isinstance(wanted, dict):
        assert list(got) == list(wanted) and [type(key) for key in got] == [type(key) for key in wanted]
        for key in wanted:
            same_state(got[key], wanted[key])
    elif isinstance(wanted, (list, tuple)):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted):
            same_state(one, other)
    else:
        assert repr(got) == repr(wanted)


@settings(max_examples=150, deadline=None)
@given(state=STATES)
def test_nested_state_as_tensors_and_json(state):
    tensors = {}
    tree = _plain.encode(state, "optimizer", tensors, lambda value: isinstance(value, np.ndarray))
    text = _plain.to_json(tree)
    same_state(_plain.decode(_plain.from_json(text, "file"), tensors.__getitem__, "file"), state)


@settings(max_examples=300, deadline=None)
@given(text=st.binary() | st.text().map(str.encode), at=st.integers(0, 200))
def test_damaged_state_is_an_error(text, at):
    whole = _plain.to_json(_plain.encode({"a": [1, {"b": (2.5, None)}]}, "optimizer", {}, lambda value: False))
    for damaged in (text, whole[:at] + text + whole[at + len(text) :]):
        try:
            _plain.decode(_plain.from_json(damaged, "file"), lambda name: name, "file")
        except tc.DataLossError as error:
            assert str(error).startswith("file")


TREES = st.recursive(
    arrays().map(native),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner) | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=TREES)
def test_trees(tmp_path, tree):
    path, tree = tmp_path / "tree", {"root": tree, "step": 3}
    trees.save(path, tree, overwrite=True, sync=False)
    same_state(trees.load(path, like=tree), tree)


@settings(max_examples=300, deadline=None)
@given(message=st.binary(max_size=100))
def test_object_graphs_of_any_bytes(message):
    try:
        nodes = _native.decode_object_graph(message, "file")
    except tc.DataLossError as error:
        assert str(error).startswith("file")
    else:
        assert all(child < len(nodes) for node in nodes for child in node.children.values())
