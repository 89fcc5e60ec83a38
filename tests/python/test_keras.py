"""tensorcask.keras: TensorFlow's own files, forged object graphs, and models of Keras if it is installed."""

import glob
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest

import tensorcask as tc
import tensorcask.keras as tck
from conftest import change_elements
from tensorcask import _native

DATA = pathlib.Path(os.environ.get("TENSORCASK_TEST_DATA", "")) / "tensorflow"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="TENSORCASK_TEST_DATA is not set")


# ---- Files of TensorFlow --------------------------------------------------------------------------------------------

NAMES = {
    "tfkeras-loss-scale-2shards": {
        "sequential/dense/kernel": "layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE",
        "SGD/sequential/dense/bias/momentum":
            "layer_with_weights-0/bias/.OPTIMIZER_SLOT/optimizer/base_optimizer/momentum/.ATTRIBUTES/VARIABLE_VALUE",
        "good_steps": "optimizer/loss_scale/good_steps/.ATTRIBUTES/VARIABLE_VALUE",
    },
    "tfranking-bert-lite": {
        "word_embeddings/embeddings": "model/layer_with_weights-0/embeddings/.ATTRIBUTES/VARIABLE_VALUE",
        "transformer/layer_0/self_attention/attention_output/kernel":
            "model/layer_with_weights-4/_attention_output_dense/kernel/.ATTRIBUTES/VARIABLE_VALUE",
        # Other paths to the same objects.
        "model/layer-1/embeddings": "model/layer_with_weights-0/embeddings/.ATTRIBUTES/VARIABLE_VALUE",
        "model/layer_with_weights-4/_attention_layer/_output_dense/kernel":
            "model/layer_with_weights-4/_attention_output_dense/kernel/.ATTRIBUTES/VARIABLE_VALUE",
    },
    "tf-optimizer-slot": {"Variable": "v/.ATTRIBUTES/VARIABLE_VALUE", "v": "v/.ATTRIBUTES/VARIABLE_VALUE"},
    "tfx-taxi-ckpt-1000": {"dnn/hiddenlayer_0/kernel": "dnn/hiddenlayer_0/kernel"},  # TensorFlow 1
    "tf-table-legacy": {"lookup_table/table-keys": "lookup_table/.ATTRIBUTES/table-keys"},
}  # fmt: skip


@needs_data
@pytest.mark.parametrize("folder", NAMES)
def test_names_of_real_checkpoints(folder):
    (index,) = glob.glob(str(DATA / folder / "*.index"))
    with tck.open(index.removesuffix(".index")) as checkpoint:
        for name, key in NAMES[folder].items():
            assert checkpoint.key_of(name) == checkpoint.key_of(name + ":0") == checkpoint.key_of(key) == key
            assert checkpoint.entry(name).name == key
            assert np.array_equal(checkpoint[name], checkpoint.reader[key])


@needs_data
@pytest.mark.parametrize("index", sorted(glob.glob(str(DATA / "*" / "*.index"))), ids=lambda path: path.split("/")[-2])
def test_every_variable_of_real_files_has_one_name(index):
    with tck.open(index.removesuffix(".index")) as checkpoint:
        keys = set(checkpoint.reader) - {tck._GRAPH}
        assert {checkpoint.key_of(name) for name in checkpoint} == keys and len(checkpoint) == len(keys)
        assert sorted(tck.load(index.removesuffix(".index"))) == sorted(checkpoint)


@needs_data
def test_a_saved_model_opens_by_its_folder(tmp_path):
    source = DATA / "tf-optimizer-slot"
    (tmp_path / "model" / "variables").mkdir(parents=True)
    shutil.copy(source / "saved_model.pb", tmp_path / "model")
    for path in source.glob("variables.*"):
        shutil.copy(path, tmp_path / "model" / "variables")
    for path in ["model", "model/saved_model.pb", "model/variables", "model/variables/variables", tmp_path / "model"]:
        assert tck.load(path, names=["Adam/*", "Variable"]).keys() == {
            "Adam/iter", "Adam/beta_1", "Adam/beta_2", "Adam/decay", "Adam/learning_rate", "Adam/Variable/m",
            "Adam/Variable/v", "Variable",
        }  # fmt: skip
    assert repr(tck.open("model")) == "<tensorcask.keras.Checkpoint of 'model/variables/variables', 8 variables>"


# ---- Object graphs --------------------------------------------------------------------------------------------------


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def part(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def node(children=(), attributes=()):
    message = b"".join(part(1, part(1, number) + part(2, name)) for name, number in children)
    return part(
        1,
        message
        + b"".join(part(2, part(1, "VARIABLE_VALUE") + part(2, full) + part(3, key)) for full, key in attributes),
    )


VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def save(graph, *names, path="model"):
    tc.save(
        path,
        {tck._GRAPH: graph, **{name + VALUE: np.float32(i) for i, name in enumerate(names)}},
        overwrite=True,
    )


def test_names_that_are_shared_or_absent_give_way_to_paths():
    graph = (
        node([("a", 1), ("b", 2), ("c", 3), ("d", 4), ("w", 5), ("lists.Sare..odd", 6)])
        + node(attributes=[("Variable", "a" + VALUE)])
        + node(attributes=[("Variable", "b" + VALUE)])
        + node(attributes=[("", "c" + VALUE)])
        + node(attributes=[("w", "d" + VALUE)])  # the path of another variable
        + node(attributes=[("x", "w" + VALUE)])
        + node(attributes=[("dense/kernel", "e" + VALUE)])
        + node([("lost", 7)], attributes=[("saved elsewhere", "none" + VALUE)])
    )
    save(graph, "a", "b", "c", "d", "e", "w", "beside the graph")
    with tck.open("model") as checkpoint:
        assert list(checkpoint) == ["a", "b", "c", "d", "x", "dense/kernel", "beside the graph"]
        assert len(checkpoint) == 7 and checkpoint["dense/kernel"] == checkpoint["dense/kernel:0"] == 4
        assert "Variable" not in checkpoint and 3 not in checkpoint and "saved elsewhere" not in checkpoint
        with pytest.raises(tc.MissingTensorError, match="2 variables are called 'Variable'; they are 'a', 'b'"):
            checkpoint["Variable"]
        with pytest.raises(KeyError, match="no variable 'dense/kernl'; similar names: 'dense/kernel'"):
            checkpoint["dense/kernl"]
        assert dict(checkpoint).keys() == set(checkpoint) and checkpoint.get("none") is None
    assert repr(checkpoint) == "<tensorcask.keras.Checkpoint, closed>"
    with pytest.raises(tc.ClosedError):
        checkpoint["a"]


def test_the_public_one_of_two_variables_has_their_name():
    """As model.export of Keras 3 stores a model: each variable is in `variables` and again in `_all_variables`."""
    kernel, bias = "sequential/dense/kernel", "sequential/dense/bias"
    graph = (
        node([("variables", 1), ("_all_variables", 2)])
        + node([("0", 3), ("1", 4), ("2", 7)])
        + node([("0", 5), ("1", 6)])
        + node(attributes=[(kernel, "variables/0" + VALUE)])
        + node(attributes=[(bias, "variables/1" + VALUE)])
        + node(attributes=[(bias, "_all_variables/0" + VALUE)])
        + node(attributes=[(kernel, "_all_variables/1" + VALUE)])
        + node(attributes=[("seed_generator/state", "variables/2" + VALUE)])
    )
    save(graph, "variables/0", "variables/1", "variables/2", "_all_variables/0", "_all_variables/1")
    with tck.open("model") as checkpoint:
        assert list(checkpoint) == [kernel, bias, "_all_variables/0", "_all_variables/1", "seed_generator/state"]
        assert checkpoint[kernel] == 0 and checkpoint[bias + ":0"] == 1 and checkpoint["variables/1"] == 1
        assert checkpoint["_all_variables/0"] == 3
    assert tck.load("model", names="sequential/*") == {kernel: 0, bias: 1}


def test_paths_with_slashes_and_cycles():
    save(node([("a/b.c", 1), ("self", 0)]) + node(attributes=[("", "a.Sb..c" + VALUE)]), "a.Sb..c")
    with tck.open("model") as checkpoint:
        assert checkpoint.key_of("self/self/a.Sb..c") == "a.Sb..c" + VALUE


HOSTILE = {
    "truncated": node([("a", 1)])[:-1],
    "text": b"\xff" * 20,
    "a child that does not exist": node([("a", 7)]),
    "a negative child": part(1, part(1, part(1, 2**64 - 1))),
    "a child whose number is text": part(1, part(1, part(1, "one"))),
    "a node that is a number": part(1, 5),
    "a name that is a number": part(1, part(1, part(2, 5))),
    "a name that is not UTF-8": part(1, part(1, part(2, b"\xff"))),
    "a group": b"\x0b\x0c",
    "field 0": b"\x00\x00",
    "a number that never ends": b"\x80" * 30,
    "a number of 70 bits": b"\x08" + b"\xff" * 9 + b"\x7f",
    "a size of 2**60": b"\x0a" + varint(2**60),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_graphs(name):
    save(HOSTILE[name], "a")
    with pytest.raises(tc.DataLossError, match="^model: _CHECKPOINTABLE_OBJECT_GRAPH"):
        tck.open("model")


def test_each_prefix_of_a_graph_opens_or_is_an_error():
    graph = (
        node([("a", 1), ("b", 1)])
        + node(attributes=[("kernel", "a" + VALUE)])
        + b"\x11"
        + bytes(8)
        + b"\x1d"
        + bytes(4)
    )
    outcomes = set()
    for size in range(len(graph) + 1):
        for changed in (
            [graph[:size]] if size == len(graph) else [graph[:size], graph[:size] + b"\xff" + graph[size + 1 :]]
        ):
            try:
                outcomes.add(len(_native.decode_object_graph(changed, "file")))
            except tc.DataLossError:
                outcomes.add("error")
    assert outcomes == {0, 2, "error"}


def test_a_graph_of_millions_of_empty_nodes():
    with pytest.raises(tc.ResourceExhaustedError, match="^file: object graph: its 3000000 nodes"):
        _native.decode_object_graph(b"\x0a\x00" * 3_000_000, "file")
    assert len(_native.decode_object_graph(b"\x0a\x00" * 1000, "file")) == 1000


@pytest.mark.parametrize("value", [np.float32(1), np.array(["a", "b"])], ids=["float32", "two texts"])
def test_a_graph_of_another_dtype(value):
    tc.save("model", {tck._GRAPH: value})
    with pytest.raises(tc.DataLossError, match="wanted one string"):
        tck.open("model")


def test_patterns_and_missing_names():
    tc.save("model", {"dense/kernel": np.ones(2), "dense/bias": np.zeros(2), "other": np.zeros(1)})
    assert set(tck.load("model", "dense/*")) == {"dense/bias", "dense/kernel"}
    with pytest.raises(tc.MissingTensorError, match="no variable matches 'conv"):
        tck.load("model", "conv*")
    with pytest.raises(tc.MissingTensorError, match="no variable 'dense/kernle'"):
        tck.load("model", ["dense/kernle"])
    assert type(tck.load("model", "other", framework="tensorcask")["other"]) is tc.Tensor
    with pytest.raises(ValueError, match="framework is 'tf'"):
        tck.load("model", framework="tf")


def test_files_that_are_not_there():
    for name in ["none", "model.keras", "model.weights.h5", "x.hdf5"]:
        with pytest.raises(FileNotFoundError):
            tck.open(name)


GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serialize", "hdf5", "golden")


@pytest.mark.skipif(not os.path.isdir(GOLDEN), reason="the files of HDF5 are not beside the tests")
def test_files_of_hdf5():
    for name in ["model.keras", "model.weights.h5"]:
        with tck.open(os.path.join(GOLDEN, name)) as checkpoint:
            assert checkpoint["layers/dense/vars/0"].shape == (4, 3)
        with tc.open(os.path.join(GOLDEN, name)) as reader:
            assert reader.format == "hdf5"
            assert reader.nested(read=str)["/layers/dense/vars"] == {"name": "dense"}
    with tc.open(os.path.join(GOLDEN, "whole.h5")) as reader:
        assert reader.nested(read=str)["/model_weights"]["layer_names"] == ["dense", "norm", "last"]


# ---- Models ---------------------------------------------------------------------------------------------------------


class Variable:
    """As of Keras 3."""

    def __init__(self, path, value):
        self.path, self.value = path, np.asarray(value)
        self.shape, self.dtype = self.value.shape, self.value.dtype.name

    def assign(self, value):
        self.value = np.array(value)


def model_of(**weights):
    return types.SimpleNamespace(weights=[Variable(name.replace("_", "/"), value) for name, value in weights.items()])


@pytest.mark.parametrize("path", ["weights", "weights.safetensors", "weights.npz"])
def test_weights_of_a_model(path):
    model = model_of(dense_kernel=np.ones((2, 3), np.float32), dense_bias=np.arange(3))
    tck.save_weights(path, model)
    other = model_of(dense_kernel=np.zeros((2, 3), np.float32), dense_bias=np.zeros(3, int))
    assert tck.load_weights(other, path) == []
    assert [one.value.tolist() for one in other.weights] == [one.value.tolist() for one in model.weights]


def test_weights_that_do_not_fit():
    tck.save_weights("weights.npz", model_of(a=np.ones(2), b=np.ones(2), c=np.ones(2)))
    model = model_of(a=np.zeros(3), b=np.zeros(2, np.float32), c=np.zeros(2), d=np.zeros(1))
    with pytest.raises(tc.InvalidArgumentError) as caught:
        tck.load_weights(model, "weights.npz")
    assert str(caught.value) == (
        "weights.npz: does not fit the model: the file has no 'd'; 'a' is float64 [2] in the file and float64 [3] in "
        "the model; 'b' is float64 [2] in the file and float32 [2] in the model"
    )
    assert not any(one.value.any() for one in model.weights)
    fitting = model_of(c=np.zeros(2), d=np.zeros(1))
    assert tck.load_weights(fitting, "weights.npz", strict=False) == ["d"]
    assert fitting.weights[0].value.tolist() == [1, 1]
    with pytest.raises(tc.InvalidArgumentError, match="two variables of the model are called 'a'"):
        tck.save_weights("twice", types.SimpleNamespace(weights=[Variable("a", 1), Variable("a", 2)]))


def test_steps_of_a_model_and_its_optimizer():
    def make(value):
        model = model_of(dense_kernel=np.full(3, value), dense_bias=np.full(1, value))
        model.optimizer = types.SimpleNamespace(
            name=f"adam_{value}", variables=[Variable(f"adam_{value}/iteration", np.int64(value))]
        )
        return model

    with tck.AsyncCheckpointer("run", full_every=3) as checkpointer:
        for step in range(5):
            model = make(step)
            checkpointer.save(step, model)
            for one in [*model.weights, *model.optimizer.variables]:
                one.value[...] = 77
        checkpointer.wait()
        assert checkpointer.steps() == [0, 1, 2, 3, 4] and checkpointer.latest().number == 4
    other = make(0)
    assert tck.load_latest("run", other) == 4
    assert [one.value.max() for one in [*other.weights, *other.optimizer.variables]] == [4, 4, 4]
    other.optimizer.variables.append(Variable("adam_0/rate", 1.0))
    with pytest.raises(tc.InvalidArgumentError, match="the file has no 'optimizer/rate'"):
        tck.load_latest("run", other)
    assert tck.load_latest("run", other, strict=False) == 4 and tck.load_latest("nothing", other) is None
    other.optimizer.variables.append(Variable("adam_0/rate", 1.0))
    with pytest.raises(tc.InvalidArgumentError, match="two variables"):
        tck.load_latest("run", other)


def test_elements_that_do_not_match_their_checksum():
    good, bad = np.array([1.0, 7.5]), np.array([2.0, 7.5])
    with tck.AsyncCheckpointer("run", keep_last=3) as checkpointer:
        for step in range(2):
            checkpointer.save(step, model_of(w=good + step))
    change_elements("run/ckpt-1", good + 1, bad + 1)
    for path in ("weights", "weights.safetensors"):
        tck.save_weights(path, model_of(w=good))
        change_elements(path, good, bad)
        model = model_of(w=np.zeros(2))
        for read in (lambda: tck.open(path)["w"], lambda: tck.load(path), lambda: tck.load_weights(model, path)):
            with pytest.raises(tc.DataLossError, match="verify=False"):
                read()
        assert model.weights[0].value.tolist() == [0, 0]
        assert tck.load_weights(model, path, verify=False) == [] and model.weights[0].value.tolist() == [2, 7.5]
        assert tck.load(path, verify=False)["w"].tolist() == [2, 7.5]
        with tck.open(path, verify=False) as checkpoint:
            assert checkpoint["w"].tolist() == [2, 7.5]
    model = model_of(w=np.zeros(2))
    assert tck.load_latest("run", model) == 0 and model.weights[0].value.tolist() == [1, 7.5]
    assert tck.load_latest("run", model, verify=False) == 1 and model.weights[0].value.tolist() == [3, 8.5]


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_a_model_of_keras(backend):
    for name in ("keras", backend):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    program = """
        import keras, numpy as np, tensorcask as tc, tensorcask.keras as tck
        def make():
            return keras.Sequential(
                [keras.Input((3,)), keras.layers.Dense(4, name="first"), keras.layers.BatchNormalization(name="norm"),
                 keras.layers.Dense(2, dtype="bfloat16", name="last")], name="model")
        def value(variable):
            return np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(variable, "float64")))
        model, other = make(), make()
        for path in ["weights", "weights.safetensors"]:
            tck.save_weights(path, model)
            assert tck.load_weights(other, path) == []
            for one, two in zip(model.weights, other.weights):
                assert np.array_equal(value(one), value(two))
            for weight in other.weights:
                weight.assign(weight * 0 + 7)
        print(sorted(tc.open("weights")))

        inputs, targets = np.ones((8, 3), "float32"), np.zeros((8, 2), "float32")
        for one in (model, other):
            one.compile(keras.optimizers.Adam(0.1), "mse")
        assert tck.load_latest("run", other) is None
        with tck.AsyncCheckpointer("run", full_every=2) as checkpointer:
            for step in range(4):
                model.fit(inputs, targets, verbose=0)
                checkpointer.save(step, model)
        assert tck.load_latest("run", other) == 3
        def values(one):
            return [value(variable) for variable in one.weights + one.optimizer.variables]
        assert all(map(np.array_equal, values(model), values(other))) and len(values(other)) > 14
        model.fit(inputs, targets, verbose=0)
        other.fit(inputs, targets, verbose=0)
        assert all(map(np.array_equal, values(model), values(other)))
        """
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line[8:] for line in program.splitlines())],
        env={**os.environ, "KERAS_BACKEND": backend}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "'model/first/kernel'" in done.stdout and "'model/last/bias'" in done.stdout


def test_nothing_is_imported():
    program = (
        "import sys, tensorcask.keras; sys.exit(bool({'keras', 'tensorflow', 'torch', 'jax'} & sys.modules.keys()))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
