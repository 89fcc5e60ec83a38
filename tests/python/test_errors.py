"""Exceptions: their classes, their sentences, and what is left after them."""

import errno
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import tensorcask as tc
from conftest import interrupt_when


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        tc.open(tmp_path / "none.npz")
    assert isinstance(caught.value, tc.Error) and isinstance(caught.value, tc.MissingFileError)
    assert "none.npz" in str(caught.value) and caught.value.errno == errno.ENOENT
    for function in [tc.load, tc.verify, tc.stats]:
        with pytest.raises(FileNotFoundError):
            function(tmp_path / "none.npz")


def test_a_missing_tensor_names_similar_ones(tmp_path):
    tc.save(tmp_path / "m", {"dense/kernel": np.ones(2)})
    with tc.open(tmp_path / "m") as reader:
        with pytest.raises(KeyError) as caught:
            reader["dense/kernl"]
        assert isinstance(caught.value, tc.MissingTensorError)
        assert "dense/kernel" in str(caught.value) and not str(caught.value).startswith("'")
        for missing in [lambda: reader.entry("x"), lambda: reader.slice("x"), lambda: reader.read("x")]:
            with pytest.raises(KeyError):
                missing()
        for wrong in [3, None, 1.5, ("a",)]:
            with pytest.raises(TypeError):
                reader[wrong]


def test_a_file_that_is_there(tmp_path):
    tc.save(tmp_path / "m.npz", {"x": np.ones(2)})
    with pytest.raises(FileExistsError) as caught:
        tc.save(tmp_path / "m.npz", {"x": np.ones(2)})
    assert isinstance(caught.value, tc.Error) and caught.value.errno == errno.EEXIST


def test_no_permission(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (tmp_path / "m.npz").touch(0)
    with pytest.raises(PermissionError):
        tc.open(tmp_path / "m.npz")


def test_names_are_no_formats(tmp_path):
    for name in ["%s%n%R", "{}", "\udcff", "a" * 70_000]:
        with pytest.raises(TypeError):
            tc.save(tmp_path / "m", {name: object()})
        with pytest.raises(TypeError):
            tc.save(tmp_path / "m", {name: [None]})
        tc.save(tmp_path / "n", {"x": np.ones(1)}, overwrite=True)
        with pytest.raises(KeyError):
            tc.load(tmp_path / "n", name)
    with pytest.raises(TypeError, match="%s%n%R"):
        tc.save(tmp_path / "m", {"%s%n%R": object()})


def under_a_limit(limit, program, cwd):
    return run("import resource\nresource.setrlimit(resource." + limit + ")\n" + textwrap.dedent(program), cwd=cwd)


@pytest.mark.parametrize("name", ["m", "m.safetensors", "m.npz", "m.npy", "m.tfrecord"])
@pytest.mark.parametrize("how", ["tc.save(name, {'x': x})", "w = tc.Writer(name); w.add('x', x); w.finish()"])
def test_a_file_past_a_limit_of_the_system(tmp_path, name, how):
    done = under_a_limit(
        "RLIMIT_FSIZE, (1 << 20, -1)",
        f"""
        import errno, numpy as np, tensorcask as tc
        name, x = {name!r}, np.random.default_rng(1).random(1_000_000)
        try:
            {how}
        except OSError as error:
            assert isinstance(error, tc.SystemCallError) and not isinstance(error, MemoryError), repr(error)
            assert error.errno == errno.EFBIG and "File too large" in str(error), (error.errno, str(error))
            print("caught")
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "caught\n"), done.stderr
    assert not [file for file in os.listdir(tmp_path) if file in (name, name + ".index")]


def test_a_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        for name in ["m", "m.safetensors", "m.npz"]:
            with pytest.raises(tc.SystemCallError) as caught:
                tc.save(disk / name, {"x": np.random.default_rng(1).random(1_000_000)})
            assert caught.value.errno == errno.ENOSPC and "No space left" in str(caught.value)
            assert os.listdir(disk) == []
        with tc.CheckpointManager(disk / "run") as manager:
            save = manager.save_in_background(1, {"x": np.random.default_rng(1).random(1_000_000)})
            with pytest.raises(OSError) as caught:
                save.wait()
            assert caught.value.errno == errno.ENOSPC
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_too_many_open_files(tmp_path):
    tc.save(tmp_path / "m", {"x": np.ones(2)})
    done = under_a_limit(
        "RLIMIT_NOFILE, (40, 40)",
        """
        import errno, tensorcask as tc
        readers = []
        try:
            for i in range(100): readers.append(tc.open("m")); readers[-1]["x"]
        except OSError as error:
            print(type(error).__name__, error.errno == errno.EMFILE)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "SystemCallError True\n"), done.stderr


def test_no_memory_is_a_memory_error(tmp_path):
    tc.save(tmp_path / "m", {"x": np.ones(50_000_000, np.float32)}, sync=False)
    done = run(
        """
        import resource, tensorcask as tc
        reader = tc.open("m")
        with open("/proc/self/statm") as statm: used = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), -1))
        try:
            reader["x"]
        except MemoryError as error:
            print(isinstance(error, tc.Error))
        """,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_file_that_vanished_is_no_missing_tensor(tmp_path):
    tc.save(tmp_path / "m", {"x": np.ones(2)})
    reader = tc.open(tmp_path / "m")
    os.remove(tmp_path / "m.data-00000-of-00001")
    with pytest.raises(tc.Error) as caught:
        reader["x"]
    assert not isinstance(caught.value, KeyError)


def test_a_bomb_is_a_memory_error(tmp_path):
    bomb = tmp_path / "bomb.safetensors"
    header = b'{"x":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}'
    bomb.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises((MemoryError, ValueError)) as caught:
        tc.load(bomb)
    assert isinstance(caught.value, tc.Error)


def test_every_class_derives_from_error_and_a_built_in_one():
    for name in tc.__all__:
        thing = getattr(tc, name)
        if isinstance(thing, type) and issubclass(thing, tc.Error) and thing is not tc.Error:
            assert [base for base in thing.__bases__ if base.__module__ == "builtins"], name
            assert str(thing("a sentence")) == "a sentence"
            copy = pickle.loads(pickle.dumps(thing("a sentence")))
            assert type(copy) is thing and str(copy) == "a sentence"


def run(program, **arguments):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, **arguments
    )


def test_the_interpreter_exits_with_everything_open(tmp_path):
    done = run(
        """
        import threading, numpy as np, tensorcask as tc
        tc.save("m", {"x": np.ones(1_000_000), "y": np.ones(3)})
        reader = tc.open("m"); part = reader.slice("x"); mapped = reader.read("x", mmap=True)
        tensor = tc.Tensor(np.ones(5)); capsule = tensor.__dlpack__()
        names = iter(reader)
        writer = tc.Writer("w"); writer.add("x", np.ones(1000))
        manager = tc.CheckpointManager("run")
        save = manager.save_in_background(1, {"x": np.ones(3_000_000), "t": tensor})
        class Holder: pass
        holder = Holder(); holder.self = holder; holder.things = [reader, part, mapped, tensor, manager, save]
        def forever():
            while True: reader["x"]
        threading.Thread(target=forever, daemon=True).start()
        print("end")
        """,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    assert tc.latest(tmp_path / "run")[0] == 1  # the save in the background was finished


def test_a_program_that_imports_the_module_on_another_thread(tmp_path):
    """It ends, and Ctrl-C ends one call of it."""
    program = """
        import threading
        thread = threading.Thread(target=__import__, args=("tensorcask",))
        thread.start()
        thread.join()
        import numpy as np, tensorcask as tc, tensorcask.sharded as tcs
        manager = tc.CheckpointManager("run")
        manager.save(1, {"x": np.zeros(1 << 24, np.uint8)})
        wanted = [("x", (0,), np.zeros(1 << 24, np.uint8))] * 2000
        class Telling(tcs.LocalCommunicator):
            def gather(self, mine, root):
                print("begin", flush=True)
                return [mine]
        try:
            tcs.load(Telling(), manager.path_of(1), wanted)
        except KeyboardInterrupt:
            print("interrupted")
        """
    assert interrupt_when(program, tmp_path) == (0, "begin\ninterrupted\n", "")


def test_fork_with_everything_open(tmp_path):
    done = run(
        """
        import os, sys, warnings, numpy as np, tensorcask as tc
        warnings.simplefilter("ignore")
        tc.save("m", {"x": np.arange(1000)})
        reader = tc.open("m")
        manager = tc.CheckpointManager("run")
        save = manager.save_in_background(1, {"x": np.ones(3_000_000)})
        writer = tc.Writer("w"); writer.add("x", np.ones(1000))
        child = os.fork()
        if child == 0:
            assert reader["x"].sum() == 499500
            try: manager.save(2, {"x": np.ones(3)})
            except RuntimeError: pass
            else: os._exit(3)
            try: writer.finish()
            except (RuntimeError, tc.Error): pass
            else: os._exit(4)
            sys.exit(5)  # through the end of the interpreter
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        save.wait()
        writer.finish()
        manager.save(2, {"x": np.ones(3)})
        print(manager.steps(), sorted(tc.load("w")))
        """,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1, 2] ['x']\n", "")


@pytest.mark.parametrize(
    "work", ["tc.load('big')", "tc.verify('big')", "tc.stats('big')", "tc.diff('big', 'big')",
             "tc.convert('big', 'other', overwrite=True)", "tc.save('other', many, overwrite=True)",
             "[reader[name] for name in reader]"],
)  # fmt: skip
def test_ctrl_c(tmp_path, work):
    # Named often, so that the work takes longer than the machine's file cache.
    code, out, err = interrupt_when(
        f"""
        import numpy as np, tensorcask as tc
        many = {{str(i): np.ones(500_000) for i in range(40)}}
        tc.save("big", many, sync=False)
        reader = tc.open("big")
        try:
            print("begin", flush=True)
            while True: {work}
        except KeyboardInterrupt:
            print("interrupted")
        tc.load("big", names="3")
        """,
        tmp_path,
    )
    assert (code, out, err) == (0, "interrupted\n", "")
    assert not [name for name in os.listdir(tmp_path) if "tmp" in name or "partial" in name]


def test_a_handler_that_raises_something_else(tmp_path):
    program = """
        import signal, numpy as np, tensorcask as tc
        def handler(*_): raise ZeroDivisionError("from the handler")
        signal.signal(signal.SIGINT, handler)
        tc.save("big", {str(i): np.ones(500_000) for i in range(40)}, sync=False)
        try:
            print("begin", flush=True)
            while True: tc.load("big")
        except ZeroDivisionError as error:
            print(error)
        """
    assert interrupt_when(program, tmp_path) == (0, "from the handler\n", "")


def test_exceptions_in_callbacks_come_through(tmp_path):
    tc.save(tmp_path / "m", {"x": np.ones(3)})

    def rename(name):
        raise ZeroDivisionError("from the callback")

    with pytest.raises(ZeroDivisionError, match="from the callback"):
        tc.convert(tmp_path / "m", tmp_path / "n", rename=rename)
    with pytest.raises(TypeError):
        tc.convert(tmp_path / "m", tmp_path / "n", rename=lambda name: 3)

    class Lies(dict):
        def items(self):
            yield "x", np.ones(3)
            raise ZeroDivisionError("from the mapping")

    with pytest.raises(ZeroDivisionError, match="from the mapping"):
        tc.save(tmp_path / "n", Lies())
    assert not (tmp_path / "n.index").exists()


def test_a_writer_closed_by_another_thread_while_it_finishes(tmp_path):
    done = run(
        """
        import threading, numpy as np, tensorcask as tc
        stop = threading.Event()
        def work():  # the thread that finishes waits for the GIL, and the one that closes does not
            while not stop.is_set(): pass
        working = threading.Thread(target=work)
        working.start()
        results = []
        def finish(writer):
            try: results.append(writer.finish())
            except tc.ClosedError: results.append("closed")
        for i in range(20):
            writer = tc.Writer(f"m-{i}")
            writer.add("x", np.ones(100_000))
            thread = threading.Thread(target=finish, args=(writer,))
            thread.start()
            writer.close()
            thread.join()
        stop.set()
        working.join()
        print(len(results))
        """,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "20\n", "")


def test_a_writer_closed_by_another_thread(tmp_path):
    writer = tc.Writer(tmp_path / "m")
    stop = threading.Event()
    seen = []

    def add(thread):
        i = 0
        while not stop.is_set():
            try:
                writer.add(f"{thread}/{i}", np.ones(1000))
            except tc.ClosedError:
                seen.append("closed")
                return
            i += 1

    threads = [threading.Thread(target=add, args=(thread,)) for thread in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    writer.close()
    time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join()
    assert "closed" in seen
