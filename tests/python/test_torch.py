"""tensorcask.torch, with PyTorch: models, optimizers and their files. test_torch_steps.py has the steps of a run, and
test_frameworks.py what holds without PyTorch."""

import copy
import json
import os

import numpy as np
import pytest

import tensorcask as tc

torch = pytest.importorskip("torch")

import tensorcask.torch as tct  # noqa: E402
from conftest import change_elements  # noqa: E402
from torch_models import Net, assert_same, bits, train, trained  # noqa: E402

SAVED = ["model", "model.safetensors", "model.npz", "model.tfrecord"]


@pytest.mark.parametrize("path", SAVED)
def test_a_model_comes_back_into_its_own_memory(path):
    model, _ = trained()
    wanted = copy.deepcopy(model.state_dict())
    assert tct.save_state_dict(path, model) > 0
    other = Net()
    pointers = {name: tensor.data_ptr() for name, tensor in other.state_dict().items()}
    assert tct.load_state_dict(other, path) == ([], [])
    assert_same(dict(other.state_dict()), dict(wanted))
    assert {name: tensor.data_ptr() for name, tensor in other.state_dict().items()} == pointers
    assert other.out.weight is other.embedding.weight


OPTIMIZERS = {
    "adamw": torch.optim.AdamW,
    "amsgrad": lambda parameters, lr: torch.optim.Adam(parameters, lr=lr, amsgrad=True),
    "sgd without state": torch.optim.SGD,
    "momentum": lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
    "adagrad": torch.optim.Adagrad,
    "lbfgs": lambda parameters, lr: torch.optim.LBFGS(parameters, lr=lr, max_iter=3),
    "rate as a tensor": lambda parameters, lr: torch.optim.Adam(parameters, lr=torch.tensor(lr)),
}


@pytest.mark.parametrize("path", SAVED)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_state_of_an_optimizer_comes_back(path, name):
    model, optimizer = trained(steps=0, optimizer=OPTIMIZERS[name])

    def closure():
        optimizer.zero_grad()
        loss = model(torch.arange(10)).square().mean()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    wanted = copy.deepcopy(optimizer.state_dict())
    tct.save_state_dict(path, model, optimizer)
    other, other_optimizer = trained(seed=1, steps=0, optimizer=OPTIMIZERS[name])
    tct.load_state_dict(other, path, other_optimizer)
    assert_same(other_optimizer.state_dict(), wanted)
    # Training goes on as if nothing had happened.
    state = torch.get_rng_state()
    for one, two in [(model, optimizer), (other, other_optimizer)]:
        torch.set_rng_state(state)
        if name != "lbfgs":
            train(one, two)
    assert_same(dict(other.state_dict()), dict(model.state_dict()))


def test_groups_of_parameters_schedules_and_plain_values():
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(
        [
            {"params": [model.weight], "lr": 0.5, "betas": (0.8, 0.9)},
            {"params": [model.bias], "note": None, "x": [1, 2.5]},
        ]
    )
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    for _ in range(3):
        model(torch.ones(3)).sum().backward()
        optimizer.step()
        schedule.step()
    tct.save_state_dict("all", model, {"adam": optimizer, "schedule": schedule})
    wanted = copy.deepcopy([optimizer.state_dict(), schedule.state_dict()])
    other = torch.nn.Linear(3, 2)
    other_optimizer = torch.optim.Adam([{"params": [other.weight]}, {"params": [other.bias]}])
    other_schedule = torch.optim.lr_scheduler.StepLR(other_optimizer, step_size=7)
    with pytest.raises(
        tc.InvalidArgumentError, match=r"has the state of \['adam', 'schedule'\]; wanted that of \['adam'\]"
    ):
        tct.load_state_dict(other, "all", {"adam": other_optimizer})
    tct.load_state_dict(other, "all", {"adam": other_optimizer, "schedule": other_schedule})
    assert_same([other_optimizer.state_dict(), other_schedule.state_dict()], wanted)


class Kept:
    """Has any state."""

    def __init__(self, state=None):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def test_any_nested_state_comes_back_exactly():
    tensor = torch.arange(3)
    state = {
        "numbers": [0, -1, 2**80, 1.5, 1e-300, float("inf"), float("-inf"), float("nan"), -0.0, 0.1 + 0.2],
        "flags": (True, False, None),
        "text": "\u00fc \x00 \U0001f600",
        "keys": {1: "int", "1": "text", 1.5: "float", "": "empty", "a/b": tensor, "a": {"b": tensor + 1}},
        "same names": {7: tensor + 2, "7": tensor + 3},
        "empty": [{}, [], ()],
        "kinds": [["tensor", "optimizer/keys"], ["dict", []], ("list", [])],
    }
    tct.save_state_dict("kept", {}, Kept(state))
    kept = Kept()
    tct.load_state_dict(torch.nn.Module(), "kept", kept)
    assert_same(kept.state, state)


@pytest.mark.parametrize(
    "state",
    [{"f": len}, [object()], {(1, 2): 3}, {"s": {1, 2}}, [b"bytes"]],
    ids=["function", "object", "key", "set", "bytes"],
)
def test_state_that_is_not_plain_is_refused(state):
    with pytest.raises(tc.InvalidArgumentError, match="optimizer"):
        tct.save_state_dict("kept", {}, Kept(state))
    assert not os.path.exists("kept.index")


DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
    torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


def random(dtype, *shape):
    size = torch.empty((), dtype=dtype).element_size()
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (*shape, size), dtype=torch.uint8)
    return raw.view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("path", ["state", "state.safetensors"])
def test_dtypes_and_layouts(dtype, path):
    if path.endswith("safetensors") and dtype in (torch.complex128,):
        pytest.skip("safetensors has no complex128")
    state = {
        "matrix": random(dtype, 3, 4),
        "transposed": random(dtype, 4, 5).t(),
        "strided": random(dtype, 9)[::2],
        "scalar": random(dtype),
        "empty": random(dtype, 0, 3),
        "repeated": random(dtype, 1, 3).expand(4, 3),
        "channels last": random(dtype, 2, 3, 4, 5).to(memory_format=torch.channels_last),
    }
    model = torch.nn.Module()
    for name, tensor in state.items():
        memory = torch.empty_like(tensor.contiguous() if name == "repeated" else tensor)
        if dtype.is_floating_point or dtype.is_complex:
            model.register_parameter(name, torch.nn.Parameter(memory))
        else:
            model.register_buffer(name, memory)
    strides = {name: tensor.stride() for name, tensor in model.state_dict().items()}
    tct.save_state_dict(path, state)
    tct.load_state_dict(model, path)
    assert_same(dict(model.state_dict()), state)
    assert {name: tensor.stride() for name, tensor in model.state_dict().items()} == strides
    loaded = tc.load(path, framework="torch")
    assert_same({name: loaded[name] for name in state}, state)


def test_views_that_are_conjugated_or_negated_lazily():
    numbers = torch.tensor([1 + 2j, 3 - 4j])
    state = {"conj": numbers.conj(), "neg": numbers.conj().imag}
    assert state["conj"].is_conj() and state["neg"].is_neg()
    tct.save_state_dict("lazy", state)
    assert_same(
        tc.load("lazy", framework="torch"), {name: one.resolve_conj().resolve_neg() for name, one in state.items()}
    )


def test_parameters_that_require_grad_and_have_history():
    weight = torch.ones(3, requires_grad=True)
    tct.save_state_dict("grad.safetensors", {"leaf": weight, "computed": weight * 2})
    assert tc.load("grad.safetensors")["computed"].tolist() == [2, 2, 2]
    module = torch.nn.Module()
    module.leaf = torch.nn.Parameter(torch.zeros(3))
    tct.load_state_dict(module, "grad.safetensors", strict=False)
    assert module.leaf.requires_grad and module.leaf.is_leaf and module.leaf.tolist() == [1, 1, 1]


# ---- Models and files that do not fit -------------------------------------------------------------------------------


def test_strict_lists_all_that_differs_and_changes_nothing():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 4))
    tc.save(
        "other.npz",
        {
            "0.weight": np.zeros((3, 3), np.float32),
            "0.bias": np.zeros(3),
            "1.weight": np.zeros((4, 3), np.float32),
            "x": np.zeros(1),
        },
    )
    wanted = copy.deepcopy(model.state_dict())
    with pytest.raises(tct.StateMismatchError) as caught:
        tct.load_state_dict(model, "other.npz")
    for kind in (tc.Error, tc.MissingTensorError, KeyError, ValueError, RuntimeError):
        assert isinstance(caught.value, kind)
    assert str(caught.value) == (
        "other.npz: does not fit the model: the file has no '1.bias'; the model has no 'x'; '0.weight' is float32 "
        "[3, 3] in the file and float32 [3, 2] in the model; '0.bias' is float64 [3] in the file and float32 [3] in the model"
    )
    assert caught.value.missing_keys == ["1.bias"] and caught.value.unexpected_keys == ["x"]
    assert caught.value.mismatched_keys == ["0.weight", "0.bias"]
    assert_same(dict(model.state_dict()), dict(wanted))
    # As in PyTorch, shapes must fit even if names need not.
    with pytest.raises(tct.StateMismatchError, match="0.weight"):
        tct.load_state_dict(model, "other.npz", strict=False)
    assert_same(dict(model.state_dict()), dict(wanted))


def test_not_strict_reads_what_fits():
    model = torch.nn.Linear(2, 3)
    bias = model.bias.detach().clone()
    tc.save("part.npz", {"weight": np.ones((3, 2), np.float32), "x": np.zeros(1)})
    assert tct.load_state_dict(model, "part.npz", strict=False) == (["bias"], ["x"])
    assert model.weight.sum() == 6 and bits(model.bias) == bits(bias)


def test_a_file_may_have_one_of_tied_parameters():
    model, _ = trained()
    tied = {name: tensor for name, tensor in model.state_dict().items() if name != "out.weight"}
    tct.save_state_dict("tied.safetensors", tied)
    other = Net()
    assert tct.load_state_dict(other, "tied.safetensors") == ([], [])
    assert bits(other.out.weight) == bits(model.embedding.weight)
    other.out.weight = torch.nn.Parameter(torch.zeros(10, 4))  # no longer tied
    with pytest.raises(tct.StateMismatchError, match="the file has no 'out.weight'"):
        tct.load_state_dict(other, "tied.safetensors")


def test_a_model_whose_state_dict_makes_new_tensors():
    class Doubled(torch.nn.Linear):
        def state_dict(self, *arguments, **options):
            return {name: 2 * tensor for name, tensor in super().state_dict(*arguments, **options).items()}

        def load_state_dict(self, state, *arguments, **options):
            return super().load_state_dict({name: tensor / 2 for name, tensor in state.items()}, *arguments, **options)

    model, other = Doubled(2, 3), Doubled(2, 3)
    tct.save_state_dict("doubled", model)
    tct.load_state_dict(other, "doubled")
    assert bits(other.weight) == bits(model.weight) and bits(other.bias) == bits(model.bias)


def test_models_without_memory_for_elements():
    tct.save_state_dict("linear", torch.nn.Linear(2, 3))
    with pytest.raises(
        tc.InvalidArgumentError, match=r"weight is on the meta device; call model.to_empty\(device='cpu'\) first"
    ):
        tct.load_state_dict(torch.nn.Linear(2, 3, device="meta"), "linear")
    model = torch.nn.Linear(2, 3, device="meta").to_empty(device="cpu")
    tct.load_state_dict(model, "linear")
    module = torch.nn.Module()
    module.register_buffer("weight", torch.eye(3).to_sparse())
    with pytest.raises(
        tc.InvalidArgumentError, match="weight has the layout torch.sparse_coo; wanted a plain strided tensor"
    ):
        tct.load_state_dict(module, "linear")
    with pytest.raises(tc.InvalidArgumentError, match="w has the layout torch.sparse_csr"):
        tct.save_state_dict("sparse", {"w": torch.eye(3).to_sparse_csr()})
    with pytest.raises(tc.InvalidArgumentError, match="optimizer is on the meta device"):
        tct.save_state_dict("meta", {}, Kept({"w": torch.empty(3, device="meta")}))
    with pytest.raises((tc.Error, TypeError, BufferError)):
        tct.save_state_dict("half", {"w": torch.zeros(3, dtype=torch.complex32)})
    with pytest.raises(tc.InvalidArgumentError, match="w: the state of the model has int; wanted a tensor"):
        tct.save_state_dict("int", {"w": 3})
    with pytest.raises(tc.InvalidArgumentError, match="optimizer/w: names like this"):
        tct.save_state_dict("name", {"optimizer/w": torch.zeros(1)})


# ---- Damaged files --------------------------------------------------------------------------------------------------


def test_a_file_without_an_optimizer():
    model, optimizer = trained()
    tct.save_state_dict("plain", model)
    wanted = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(tc.MissingTensorError, match="it was saved without an optimizer"):
        tct.load_state_dict(model, "plain", optimizer)
    assert_same(optimizer.state_dict(), wanted)
    tct.save_state_dict("both", model, optimizer)
    assert tct.load_state_dict(Net(), "both") == ([], [])  # the optimizer is left out


HOSTILE = {
    "not JSON": b"{",
    "not text": b"\xff\xfe",
    "nothing": b"",
    "a number": b"7",
    "an unknown kind": b'["set", []]',
    "no kind": b"[1, 2]",
    "a value that is a list": b'["value", [1]]',
    "a dict of numbers": b'["dict", [1]]',
    "a key that is a list": b'["dict", [[[], ["value", 1]]]]',
    "a list that is text": b'["list", "abc"]',
    "a tensor without a name": b'["tensor", 3]',
    "a tensor that is not in the file": b'["tensor", "optimizer/none"]',
    "deep JSON": b"[" * 100_000,
    "deep values": b'["list", [' * 20_000 + b'["value", 1]' + b"]]" * 20_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_state_is_an_error_and_changes_nothing(name):
    model = torch.nn.Linear(1, 1)
    tc.save(
        "hostile.npz",
        {
            "weight": np.ones((1, 1), np.float32),
            "bias": np.ones(1, np.float32),
            "optimizer.json": np.frombuffer(HOSTILE[name], np.uint8),
        },
    )
    wanted, kept = copy.deepcopy(model.state_dict()), Kept("before")
    with pytest.raises(tc.DataLossError, match="^hostile.npz: optimizer.json"):
        tct.load_state_dict(model, "hostile.npz", kept)
    assert kept.state == "before"
    assert_same(dict(model.state_dict()), dict(wanted))


@pytest.mark.parametrize(
    "tree", [np.zeros(3), np.array("text"), np.zeros((2, 2), np.uint8)], ids=["float64", "text", "matrix"]
)
def test_state_of_another_dtype(tree):
    tc.save("state", {"optimizer.json": tree})
    with pytest.raises(tc.DataLossError, match="wanted one axis of uint8"):
        tct.load_state_dict(torch.nn.Module(), "state", Kept())


def test_verify_finds_damage_before_anything_is_changed():
    model, optimizer = trained()
    tct.save_state_dict("damaged", model, optimizer)
    with tc.open("damaged") as reader:
        offset = reader.entry("out.weight").offset  # the last one that is read
    with open("damaged.data-00000-of-00001", "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
    other, other_optimizer = trained(seed=1)
    wanted = copy.deepcopy([dict(other.state_dict()), other_optimizer.state_dict()])
    with pytest.raises(tc.DataLossError, match="out.weight"):
        tct.load_state_dict(other, "damaged", other_optimizer, verify=True)
    assert_same([dict(other.state_dict()), other_optimizer.state_dict()], wanted)
    with pytest.raises(tc.DataLossError, match="out.weight"):
        tct.load_state_dict(other, "damaged", other_optimizer)


def test_without_verify_elements_are_read_as_they_are():
    model, loaded = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)
    weight = model.weight.detach().numpy().copy()
    for path in ("model", "model.safetensors"):
        tct.save_state_dict(path, model)
        change_elements(path, weight, weight + 1)
        for verify in (None, True):
            with pytest.raises(tc.DataLossError, match="weight"):
                tct.load_state_dict(loaded, path, verify=verify)
        tct.load_state_dict(loaded, path, verify=False)
        np.testing.assert_array_equal(loaded.weight.detach().numpy(), weight + 1)
    with tct.AsyncCheckpointer("run", keep_last=3) as checkpointer:
        for step in range(2):
            checkpointer.save(step, model)
    change_elements("run/ckpt-1", weight, weight + 1)
    assert tct.load_latest("run", loaded) == 0
    np.testing.assert_array_equal(loaded.weight.detach().numpy(), weight)
    assert tct.load_latest("run", loaded, verify=False) == 1
    np.testing.assert_array_equal(loaded.weight.detach().numpy(), weight + 1)


def test_the_json_is_plain():
    model, optimizer = trained()
    tct.save_state_dict("model.safetensors", model, optimizer)
    with tc.open("model.safetensors") as reader:
        kind, items = json.loads(bytes(reader["optimizer.json"]))
        assert kind == "dict" and [key for key, _ in items] == ["state", "param_groups"]
        assert "optimizer/state/0/exp_avg" in reader
