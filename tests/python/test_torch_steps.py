"""tensorcask.torch, with PyTorch: the steps of a run, saved in the background."""

import contextlib
import copy
import os
import resource
import time

import pytest

import tensorcask as tc

torch = pytest.importorskip("torch")

import tensorcask.torch as tct  # noqa: E402
from torch_models import assert_same, bits, train, trained  # noqa: E402


@pytest.mark.parametrize("full_every", [1, 3])
def test_what_is_saved_is_the_state_at_the_call(full_every):
    model, optimizer = trained(steps=1)
    wanted = {}
    with tct.AsyncCheckpointer("run", keep_last=9, full_every=full_every) as checkpointer:
        for step in range(6):
            train(model, optimizer)
            wanted[step] = copy.deepcopy([dict(model.state_dict()), optimizer.state_dict()])
            checkpointer.save(step, model, optimizer)
            with torch.no_grad():  # at once, while the save runs
                for tensor in [*model.parameters(), *model.buffers()]:
                    tensor.zero_()
                for state in optimizer.state.values():
                    for tensor in state.values():
                        tensor.fill_(7)
        checkpointer.wait()
        assert checkpointer.steps() == list(range(6))
        assert checkpointer.latest().number == checkpointer.latest(verify=False).number == 5
    for step in range(6):
        base = None if step % full_every == 0 else f"run/ckpt-{step - step % full_every}"
        other, other_optimizer = trained(seed=1)
        tct.load_state_dict(other, f"run/ckpt-{step}", other_optimizer, base=base)
        assert_same([dict(other.state_dict()), other_optimizer.state_dict()], wanted[step])


def test_deltas_are_small_and_old_ones_are_removed():
    model = torch.nn.Linear(500, 500)
    with tct.AsyncCheckpointer("run", keep_last=2, full_every=4) as checkpointer:
        for step in range(10):
            with torch.no_grad():
                model.weight[step] += 1
            checkpointer.save(step, model)
        checkpointer.wait()
        assert checkpointer.steps() == [8, 9]
    assert tc.latest("run") == (9, "run/ckpt-9")
    with tc.open_latest("run") as reader:
        assert reader.path == "run/ckpt-9" and reader["weight"].shape == (500, 500)
    assert tct.load_latest("run", torch.nn.Linear(500, 500)) == 9
    size = {
        path: os.path.getsize(path)
        for path in ["run/ckpt-8.data-00000-of-00001", "run/ckpt-9.data-00000-of-00001"]
    }
    full, delta = size.values()
    assert full > 1_000_000 and delta < full / 50, size
    restored = torch.nn.Linear(500, 500)
    tct.load_latest("run", restored)
    assert bits(restored.weight) == bits(model.weight)


def test_keep_rules():
    model = torch.nn.Linear(1, 1)
    with tct.AsyncCheckpointer("run", keep_last=2, keep_every=3, name="model") as checkpointer:
        for step in range(8):
            checkpointer.save(step, model)
        checkpointer.wait()
        assert checkpointer.steps() == [0, 3, 6, 7]
        assert checkpointer.latest() == tct.Step(7, "run/model-7", None)
    assert tct.load_latest("run", model, name="model") == 7
    assert tct.load_latest("run", model) is None and tct.load_latest("nothing", model) is None
    with pytest.raises(tc.InvalidArgumentError, match="full_every is 0"):
        tct.AsyncCheckpointer("run2", full_every=0)
    with tct.AsyncCheckpointer("run3", keep_last=1, full_every=3) as checkpointer:
        for step in range(5):
            checkpointer.save(step, model)
        checkpointer.wait()
        assert checkpointer.steps() == [3, 4]  # 3 is the base of 4


def damage(path):
    with open(path + ".data-00000-of-00001", "r+b") as file:
        byte = file.read(1)[0]
        file.seek(0)
        file.write(bytes([byte ^ 0xFF]))


def test_latest_passes_over_damaged_steps_and_deltas_without_their_full_step():
    model = torch.nn.Linear(30, 30)
    with tct.AsyncCheckpointer("run", full_every=3) as checkpointer:
        for step in range(6):
            with torch.no_grad():
                model.bias += 1
            checkpointer.save(step, model)
    assert tct.load_latest("run", model) == 5
    damage("run/ckpt-5")
    assert tct.load_latest("run", model) == 4
    damage("run/ckpt-3")  # the base of 4 and 5
    assert tct.load_latest("run", model) == 2
    assert tct.latest_step("run", verify=False).number == 5
    os.remove("run/ckpt-0.index")
    assert tct.load_latest("run", model) is None


def test_a_run_goes_on_where_it_stopped():
    model, optimizer = trained()
    for start in (0, 3, 6):
        assert tct.load_latest("run", model, optimizer) == (start - 1 if start else None)
        with tct.AsyncCheckpointer("run", full_every=10) as checkpointer:
            for step in range(start, start + 3):
                checkpointer.save(step, model, optimizer)
    assert os.path.exists("run/ckpt-6.index") and tct.load_latest("run", model, optimizer) == 8


@contextlib.contextmanager
def full_disk():
    """Files may have 1000 bytes in this block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def save_that_fails(checkpointer, step, model):
    checkpointer.wait()
    with full_disk():
        save = checkpointer.save(step, model)
        with contextlib.suppress(tc.Error):
            save.wait()


def test_errors_of_the_background_arrive_at_the_next_call_or_at_the_end():
    model = torch.nn.Linear(300, 300)
    checkpointer = tct.AsyncCheckpointer("run")
    save_that_fails(checkpointer, 1, model)
    with pytest.raises(tc.Error, match="ckpt-1"):
        checkpointer.save(2, model)
    checkpointer.save(2, model)  # the error is raised once
    checkpointer.wait()
    save_that_fails(checkpointer, 3, model)
    with pytest.raises(tc.Error, match="ckpt-3"):
        checkpointer.close()
    for call in (lambda: checkpointer.save(3, model), checkpointer.steps, checkpointer.latest):
        with pytest.raises(tc.ClosedError):
            call()
    checkpointer.close()
    with tct.AsyncCheckpointer("run") as again:  # the folder is free again
        assert again.steps() == [2]
        with pytest.raises(tc.ExistingFileError):
            again.save(2, model)


@pytest.mark.parametrize("failing", [0, 1])
def test_after_a_failed_full_step_the_next_one_is_full(failing):
    model = torch.nn.Linear(300, 300)
    with tct.AsyncCheckpointer("run", full_every=3) as checkpointer:
        for step in range(4):
            if step == failing:
                torch.nn.init.normal_(model.weight)  # the delta is too large, too
                save_that_fails(checkpointer, step, model)
                with pytest.raises(tc.Error, match="too large"):
                    checkpointer.wait()
            else:
                checkpointer.save(step, model)
        checkpointer.wait()
        wanted = {0: [1, 2, 3], 1: [0, 2, 3]}[failing]
        assert checkpointer.steps() == wanted
    assert tct.latest_step("run").base == {0: "run/ckpt-1", 1: None}[failing]
    assert tct.load_latest("run", model) == 3


def test_the_exception_of_a_with_block_stays():
    model = torch.nn.Linear(300, 300)
    with pytest.raises(ZeroDivisionError) as caught:
        with tct.AsyncCheckpointer("run") as checkpointer:
            save_that_fails(checkpointer, 1, model)
            1 / 0
    assert any("ckpt-1" in note for note in caught.value.__notes__)


def test_a_save_stalls_the_loop_for_a_copy():
    model = torch.nn.Linear(2048, 2048)  # 16 MiB
    memory = torch.empty(2048, 2048)
    with tct.AsyncCheckpointer("run", keep_last=2, level="default") as checkpointer:
        stalls, copies = [], []
        for step in range(4):
            checkpointer.wait()
            start = time.perf_counter()
            checkpointer.save(step, model)
            stalls.append(time.perf_counter() - start)
            start = time.perf_counter()
            memory.copy_(model.weight.detach())
            copies.append(time.perf_counter() - start)
    assert min(stalls) < 20 * min(copies) + 0.02, (stalls, copies)


def test_a_run_that_goes_on_from_an_older_step_replaces_deltas_without_their_full_step():
    model = torch.nn.Linear(30, 30)
    with tct.AsyncCheckpointer("run", full_every=3) as checkpointer:
        for step in range(6):
            checkpointer.save(step, model)
    damage("run/ckpt-3")  # the base of 4 and 5
    assert tct.load_latest("run", model) == 2
    with tct.AsyncCheckpointer("run", full_every=3) as checkpointer:
        for step in range(3, 5):
            with torch.no_grad():
                model.weight += 1
            checkpointer.save(step, model)
        checkpointer.wait()
        # Step 5 is a delta to the step that was lost: a later save replaces it.
        assert checkpointer.steps() == [0, 1, 2, 3, 4, 5]
    other = torch.nn.Linear(30, 30)
    assert tct.load_latest("run", other) == 4 and bits(other.weight) == bits(model.weight)
    # A step that is whole stays.
    with tct.AsyncCheckpointer("run", full_every=3) as checkpointer:
        with pytest.raises(tc.ExistingFileError):
            checkpointer.save(3, model)
