"""tensorcask.sharded, and what tensorcask.torch does with it: jobs of several processes, by torch.distributed."""

import concurrent.futures
import importlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

import tensorcask as tc
import tensorcask.sharded as tcs
from conftest import interrupt_when

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from store_server import StoreServer  # noqa: E402

RANKS = pathlib.Path(__file__).parent / "sharded_ranks.py"


def test_merge(tmp_path):
    for number in range(2):
        tc.save(tmp_path / f"part-{number}", {f"w{number}": np.full(3, number)})
    tc.merge([tmp_path / "part-0", tmp_path / "part-1"], tmp_path / "whole")
    assert {name: array.tolist() for name, array in tc.load(tmp_path / "whole").items()} == {
        "w0": [0, 0, 0],
        "w1": [1, 1, 1],
    }
    with pytest.raises(FileExistsError):
        tc.merge([tmp_path / "part-0"], tmp_path / "whole")
    with pytest.raises(FileNotFoundError):
        tc.merge([tmp_path / "none"], tmp_path / "other")
    report = tc.merge([tmp_path / "none", tmp_path / "part-1"], tmp_path / "whole", overwrite=True, allow_missing=True,
                      remove_sources=True)  # fmt: skip
    assert report["notes"] == []
    assert str(tmp_path / "part-1.index") in report["removed"]
    assert list(tc.load(tmp_path / "whole")) == ["w1"]
    assert not (tmp_path / "part-1.index").exists()


def test_one_process_saves_and_loads_pieces(tmp_path):
    whole = np.arange(12.0).reshape(4, 3)
    pieces = [("w", (4, 3), (0, 0), whole[:1]), ("w", (4, 3), (1, 0), whole[1:])]
    pieces.append(("e", (0, 3), (0, 0), np.ones((0, 3))))
    report = tcs.save(tcs.LocalCommunicator(), tmp_path / "m", pieces, level="default")
    assert report["pieces"] == 3 and report["data_files"] == 1
    assert report["removed"] == [] and report["notes"] == []
    report = tcs.save(tcs.LocalCommunicator(), tmp_path / "m", pieces, overwrite=True)
    assert report["removed"] == [str(tmp_path / "m.data-00000-of-00001")] and report["notes"] == []
    assert np.array_equal(tc.load(tmp_path / "m")["w"], whole)
    columns = np.zeros((3, 4)).T[1:3]
    tcs.load(tcs.LocalCommunicator(), tmp_path / "m", [("w", (1, 0), columns)])
    assert np.array_equal(columns, whole[1:3])


def test_errors_name_the_tensor(tmp_path):
    comm = tcs.LocalCommunicator()
    with pytest.raises(ValueError, match="6 of 12 elements of \\[4,3\\] are declared"):
        tcs.save(comm, tmp_path / "m", [("w", (4, 3), (0, 0), np.ones((2, 3)))])
    with pytest.raises(ValueError, match="start has 1 numbers; the piece has 2 axes"):
        tcs.save(comm, tmp_path / "m", [("w", (4, 3), (0,), np.ones((4, 3)))])
    tcs.save(comm, tmp_path / "m", [("w", (3,), (0,), np.ones(3))])
    with pytest.raises(KeyError, match="other"):
        tcs.load(comm, tmp_path / "m", [("other", (0,), np.ones(3))])
    with pytest.raises(ValueError):
        tcs.load(comm, tmp_path / "m", [("w", (0,), np.ones(3, np.float32))])


def test_a_checkpoint_that_is_missing_is_a_missing_file(tmp_path):
    def load(comm):
        tcs.load(comm, tmp_path / "none", [("w", (0,), np.ones(3))])

    with pytest.raises(FileNotFoundError, match="none"):
        load(tcs.LocalCommunicator())
    for error in Job().run(load):
        assert isinstance(error, FileNotFoundError) and "none.index" in str(error)


def test_ctrl_c_ends_a_load(tmp_path):
    """All processes agree on that with calls of Python, whose exceptions are their own."""
    program = """
        import numpy as np, tensorcask as tc, tensorcask.sharded as tcs
        class Counting(tcs.LocalCommunicator):
            calls = 0
            def gather(self, mine, root):
                self.calls += 1
                if self.calls == 1: print("begin", flush=True)
                return [mine]
        comm = Counting()
        tc.save("big", {"x": np.zeros(1 << 24, np.uint8)}, sync=False)
        wanted = [("x", (0,), np.zeros(1 << 24, np.uint8))] * 2000
        try:
            tcs.load(comm, "big", wanted)
        except KeyboardInterrupt:
            print("interrupted", comm.calls)
        tcs.load(comm, "big", wanted[:1])
        """
    assert interrupt_when(program, tmp_path) == (0, "interrupted 2\n", "")


def test_an_exception_of_the_communicator_ends_the_save(tmp_path):
    class Broken(tcs.LocalCommunicator):
        calls = 0

        def gather(self, mine, root):
            self.calls += 1
            if self.calls == 4:
                raise ZeroDivisionError("the network")
            return [mine]

    with pytest.raises(ZeroDivisionError, match="the network"):
        tcs.save(Broken(), tmp_path / "m", [("w", (3,), (0,), np.ones(3))])
    assert os.listdir(tmp_path) == []


# ---- Two processes, which are threads -------------------------------------------------------------------------------


class Job:
    """A job of two processes. One that waits in vain for the other fails."""

    def __init__(self):
        self.meeting = threading.Barrier(2, timeout=20)
        self.mine = ["", ""]

    def run(self, work):
        """What work(communicator) raises or returns on each."""

        def of_rank(rank):
            try:
                return work(OfJob(self, rank))
            except Exception as error:  # noqa: BLE001
                return error

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return list(pool.map(of_rank, range(2)))


class OfJob:
    size = 2

    def __init__(self, job, rank):
        self.job, self.rank = job, rank

    def exchange(self, mine):
        self.job.mine[self.rank] = mine
        self.job.meeting.wait()
        found = list(self.job.mine)
        self.job.meeting.wait()
        return found

    def gather(self, mine, root):
        found = self.exchange(mine)
        return found if self.rank == root else None

    def broadcast(self, from_root, root):
        return self.exchange(from_root)[root]

    def barrier(self):
        self.job.meeting.wait()


def test_two_processes(tmp_path):
    def work(comm):
        tcs.save(comm, tmp_path / "m", [("w", (4,), (2 * comm.rank,), np.full(2, comm.rank))])
        rows = np.zeros(3, np.int64)
        tcs.load(comm, tmp_path / "m", [("w", (comm.rank,), rows)])
        return rows.tolist()

    assert Job().run(work) == [[0, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize(
    "wrong, kind",
    [({"level": "best"}, ValueError), ({"level": 3}, TypeError), ({"alignment": "64"}, TypeError),
     ({"alignment": -1}, TypeError), ({"plan": 5}, TypeError), ({"path": 5}, TypeError)],
)  # fmt: skip
def test_an_argument_that_is_wrong_on_one_process_is_an_error_of_all(tmp_path, wrong, kind):
    def save(comm):
        arguments = {"path": tmp_path / "m", **(wrong if comm.rank == 1 else {})}
        tcs.save(comm, pieces=[("w", (2,), (0,), np.ones(2))], **arguments)

    def load(comm):
        tcs.load(comm, wrong["path"] if comm.rank == 1 else tmp_path / "m", [("w", (0,), np.ones(2))])

    for work in (save, load) if "path" in wrong else (save,):
        first, second = Job().run(work)
        assert isinstance(second, kind) and isinstance(first, kind) and str(first).startswith("rank 1: ")
    assert os.listdir(tmp_path) == []


def test_settings_that_are_wrong_on_one_process(tmp_path, monkeypatch):
    """Each process reads those of its host."""

    def load(comm):
        tcs.load(comm, "s3://bucket/m" if comm.rank == 1 else tmp_path / "m", [("w", (0,), np.ones(2))])

    monkeypatch.setenv("AWS_REGION", "not a region")
    first, second = Job().run(load)
    assert "region" in str(second) and str(first).startswith("rank 1: ")


# ---- torch.distributed.checkpoint, without PyTorch ------------------------------------------------------------------


class Array(np.ndarray):
    """As much of a tensor of PyTorch as is used."""

    def detach(self):
        return self

    def numel(self):
        return self.size

    def element_size(self):
        return self.itemsize


@pytest.fixture
def dcp(monkeypatch):
    """tensorcask._dcp with a stub in place of PyTorch."""
    names = ["torch", "torch.distributed", "torch.distributed.checkpoint", "torch.futures"]
    names += ["torch.distributed.checkpoint." + part for part in ("metadata", "planner", "storage")]
    stubs = {name: types.ModuleType(name) for name in names}
    for name, stub in stubs.items():
        monkeypatch.setitem(sys.modules, name, stub)
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(stubs[parent], own, stub)
    kinds = types.SimpleNamespace(BYTE_IO=0, TENSOR=1)
    stubs[names[-2]].WriteItemType = stubs[names[-2]].LoadItemType = kinds
    for kind in ("StorageWriter", "StorageReader"):
        setattr(stubs[names[-1]], kind, type(kind, (), {}))
    stubs[names[-1]].WriteResult = types.SimpleNamespace
    stubs["torch.futures"].Future = type("Future", (), {"set_result": lambda self, value: setattr(self, "value", value)})
    monkeypatch.delitem(sys.modules, "tensorcask._dcp", raising=False)
    module = importlib.import_module("tensorcask._dcp")
    yield module
    sys.modules.pop("tensorcask._dcp", None)


def test_a_value_that_one_process_cannot_give_is_an_error_of_all(dcp, tmp_path, monkeypatch):
    monkeypatch.setattr(dcp, "_communicator", lambda comm: comm)
    item = types.SimpleNamespace(
        type=1, index=types.SimpleNamespace(fqn="w"), storage_index=types.SimpleNamespace(fqn="w", offset=(0,)),
        storage_offsets=(0,), tensor_data=types.SimpleNamespace(size=Size((2,)), chunk=types.SimpleNamespace(offsets=(0,))),
    )  # fmt: skip
    plan = types.SimpleNamespace(items=[item])

    def planner(rank, wrong, committed):
        def resolve(_):
            if rank == wrong:
                raise TypeError("cannot pickle")
            return np.full(2, 7.0).view(Array)

        return types.SimpleNamespace(
            resolve_data=resolve, resolve_tensor=resolve, commit_tensor=lambda _, into: committed.append(into.tolist())
        )

    for wrong in (1, None):
        committed = []

        def save(comm):
            done = dcp.StorageWriter(tmp_path / "m", process_group=comm).write_data(plan, planner(comm.rank, wrong, []))
            return [(result.index.fqn, result.size_in_bytes) for result in done.value]

        def load(comm):
            reader = dcp.StorageReader(tmp_path / "full", process_group=comm)
            reader.read_data(plan, planner(comm.rank, wrong, committed))

        tc.save(tmp_path / "full", {"w": np.ones(2)}, overwrite=True)
        saved, loaded = Job().run(save), Job().run(load)
        if wrong is None:
            assert saved == [[("w", 16)]] * 2 and loaded == [None] * 2 and committed == [[1.0, 1.0]] * 2
            assert tc.load(tmp_path / "m")["w"].tolist() == [7, 7]
        else:
            for first, second in (saved, loaded):
                assert isinstance(second, TypeError) and isinstance(first, TypeError)
                assert str(first) == "rank 1: cannot pickle"
            assert committed == [] and not (tmp_path / "m.index").exists()


class Size(tuple):
    def numel(self):
        return int(np.prod(self))


# ---- Jobs of PyTorch ------------------------------------------------------------------------------------------------


def run(steps, size, folder, *store):
    (folder / f"meeting-{steps.partition(',')[0]}").unlink(missing_ok=True)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    ranks = [
        subprocess.Popen(
            [sys.executable, str(RANKS), steps, str(rank), str(size), str(folder), *store], env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
        )
        for rank in range(size)
    ]  # fmt: skip
    outputs = [rank.communicate()[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * size, "\n".join(outputs)


@pytest.fixture
def torch_job():
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("torch.distributed has no gloo here")
    pytest.importorskip("torch.distributed.fsdp", reason="FSDP").__dict__.get("fully_shard") or pytest.skip("no FSDP2")


def test_jobs_of_torch_exchange_bytes(torch_job, tmp_path):
    run("communicator", 3, tmp_path)


def test_what_is_refused(torch_job, tmp_path):
    run("refused,misfits", 2, tmp_path)


def test_a_model_of_four_ranks_is_loaded_by_three_and_by_one(torch_job, tmp_path, monkeypatch):
    """With its optimizer, by our functions and by torch.distributed.checkpoint, on disk and in a store."""
    server = StoreServer()
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    run("save,uneven,two_axes,train", 4, tmp_path, "s3://bucket/run")
    for size in (3, 1):
        run("load,go_on", size, tmp_path, "s3://bucket/run")
    import torch  # and by a program that knows nothing of jobs

    import tensorcask.torch as tct

    model = torch.nn.ModuleDict({"first": torch.nn.Linear(7, 5), "second": torch.nn.Linear(5, 3, dtype=torch.float64)})
    optimizer = torch.optim.AdamW(model.parameters())
    for path in (tmp_path / "trained", "s3://bucket/run/trained"):
        tct.load_state_dict(model, path, optimizer, strict=False)
        assert optimizer.state_dict()["state"][0]["exp_avg"].abs().sum() > 0
        assert tc.load(path)["count"].tolist() == [0, 1, 2] and bool(tc.verify(path))
    assert server.uploads == {} and "bucket/run/trained_dcp.index" in server.objects
    server.close()


def test_pickles_of_dcp_run_nothing(torch_job, tmp_path):
    run("dcp_harm", 1, tmp_path)


# ---- The guide ------------------------------------------------------------------------------------------------------

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "guide" / "sharded.md"
PROGRAMS = {name: code for code, name in re.findall(r"```python\n(# (\w+\.py)\n.*?)```", PAGE.read_text(), re.DOTALL)}


def run_program(name, *command, **environment):
    pathlib.Path(name).write_text(PROGRAMS[name])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **environment}
    done = subprocess.run([*command, name], env=environment, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_all_programs_of_the_guide_are_run_here():
    assert sorted(PROGRAMS) == ["fsdp.py", "mesh.py"] and PAGE.read_text().count("```python") == 3


def test_the_lines_for_mpi(tmp_path, monkeypatch):
    lines = re.search(r"```python\n(import tensorcask.sharded as tcs\n.*?)```", PAGE.read_text(), re.DOTALL)[1]
    monkeypatch.setattr(tcs, "MpiCommunicator", tcs.LocalCommunicator)  # a job of one process
    monkeypatch.chdir(tmp_path)
    rows, first = np.arange(1024 * 64, dtype=np.float32).reshape(1024, 64), np.zeros((256, 64), np.float32)
    exec(lines, {"my_rows": rows, "first_rows": first})
    assert np.array_equal(first, rows[:256])


def test_the_program_for_pytorch(torch_job):
    losses = []
    for size in (3, 2):
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
        out = run_program("fsdp.py", *launch, OMP_NUM_THREADS="1")
        found = re.search(r"(\d) processes: loss ([\d.]+)", out)
        assert found and int(found[1]) == size, out
        losses.append(float(found[2]))
    assert losses[1] < losses[0]
    assert tc.load("step")["0.weight"].shape == (250, 64)
    assert tc.load("step")["optimizer/state/0/step"] == 6


def test_the_program_for_jax():
    pytest.importorskip("jax")
    for step, devices in enumerate((8, 2), 1):
        flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", "JAX_PLATFORMS": "cpu"}
        out = run_program("mesh.py", sys.executable, **flags)
        assert out == f"{devices} devices: step {step}, bias {2.0**step}\n", out
    assert tc.load("state")["params/kernel"].shape == (64, 256)


# ---- Memory ---------------------------------------------------------------------------------------------------------

PEAK = """
import sys
import numpy as np

def memory(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) >> 10 for line in status if line.startswith(what))

def peak_of(call, *arguments, **options):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = memory("VmRSS")
    result = call(*arguments, **options)
    return memory("VmHWM") - before, result

if sys.argv[1] == "torch":
    import torch, tensorcask.torch as module
    import torch.distributed.checkpoint as dcp
    state, other = {"w": torch.ones(32 << 20)}, {"w": torch.ones(1)}
    def dcp_save(state, path, **options):
        dcp.save(state, storage_writer=module.StorageWriter(path, **options))
    def dcp_load(state, path):
        dcp.load(state, storage_reader=module.StorageReader(path))
    calls = [(module.save_sharded, module.load_sharded), (dcp_save, dcp_load)]
else:
    import jax, tensorcask.jax as module
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    state = {"w": jax.make_array_from_callback((32 << 20,), sharding, lambda i: np.ones(8 << 20, np.float32))}
    other = {"w": jax.numpy.ones(1)}
    calls = [(module.save_sharded, module.load_sharded)]
for save, load in calls:
    save(other, "other", overwrite=True)  # what is loaded and kept once
    load(other, "other")
    saving, _ = peak_of(save, state, "whole", overwrite=True, sync=False)
    loading, _ = peak_of(load, state, "whole")
    print(saving, loading)
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the system does not measure peaks")
@pytest.mark.parametrize("framework, new", [("torch", 0), ("jax", 128)])
def test_no_shard_is_copied(framework, new):
    """128 MiB are saved from where they are, and read to where they stay: arrays of JAX are new ones."""
    pytest.importorskip(framework)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                   "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", PEAK, framework], env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    for saving, loading in (map(int, line.split()) for line in done.stdout.splitlines()):
        assert saving < 16 and loading < new + 16, done.stdout


# ---- MPI ------------------------------------------------------------------------------------------------------------

MPI_RANK = """
import sys
import numpy as np, tensorcask.sharded as tcs

comm = tcs.MpiCommunicator()
for root in range(comm.size):
    for size in (0, 1, 1000):
        all_of_them = comm.gather(bytes([comm.rank]) * size, root)
        wanted = [bytes([rank]) * size for rank in range(comm.size)] if comm.rank == root else None
        assert all_of_them == wanted
        assert comm.broadcast(bytes([comm.rank]) * size if comm.rank == root else b"", root) == bytes([root]) * size
comm.barrier()
rows = np.full((2, 3), comm.rank, np.float32)
tcs.save(comm, sys.argv[1], [("w", (2 * comm.size, 3), (2 * comm.rank, 0), rows)])
column = np.zeros((2 * comm.size, 1), np.float32)
tcs.load(comm, sys.argv[1], [("w", (0, comm.rank % 3), column)])
assert column[:, 0].tolist() == [row // 2 for row in range(2 * comm.size)]
"""


def test_jobs_of_mpi4py(tmp_path):
    pytest.importorskip("mpi4py")
    if not shutil.which("mpirun"):
        pytest.skip("there is no mpirun")
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path), TMPDIR="/tmp",
                       OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")  # fmt: skip
    command = ["mpirun", "--oversubscribe", "-n", "3", sys.executable, "-c", MPI_RANK, str(tmp_path / "m")]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert tc.load(tmp_path / "m")["w"].shape == (6, 3)
