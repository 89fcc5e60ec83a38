"""Channel, Listener, SharedMemory."""

import contextlib
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import tensorcask as tc
from conftest import interrupt_when


@pytest.fixture
def pair(tmp_path):
    with tc.Listener(tmp_path / "socket") as listener:
        client = tc.Channel.connect(tmp_path / "socket", timeout=5)
        server = listener.accept(timeout=5)
        yield client, server
        client.shutdown()
        server.shutdown()


def test_messages(pair):
    client, server = pair
    big = np.arange(1_000_000, dtype=np.float32).reshape(1000, 1000)
    client.send({"small": np.arange(3), "big": big.T, "text": np.array(["a", b"\0"], object)}, topic="batch", timeout=5)
    message = server.receive(timeout=5)
    assert message.topic == "batch" and not message.is_request
    assert list(message.tensors) == ["small", "big", "text"]
    np.testing.assert_array_equal(message.tensors["big"], big.T)
    assert message.tensors["text"].tolist() == [b"a", b"\0"]
    server.send([big, 3.5], timeout=5)
    server.send(big[0], timeout=5)
    answer = client.receive(timeout=5)
    assert list(answer.tensors) == [0, 1] and answer.tensors[1] == 3.5
    assert isinstance(answer.arrays(tensor=True)[0], tc.Tensor)
    np.testing.assert_array_equal(client.receive(timeout=5).arrays()[0], big[0])


def test_shared_memory_is_not_copied(pair):
    client, server = pair
    memory = tc.SharedMemory(max_bytes=64 << 20)
    batch = memory.zeros((1000, 1000), "float32")
    batch[:] = np.arange(1000)
    assert memory.total_bytes >= batch.nbytes
    with pytest.raises(MemoryError):
        memory.zeros(1 << 40, "uint8")
    client.send({"batch": batch, "row": batch[1, ::2]}, timeout=5)
    received = server.receive(timeout=5).tensors
    np.testing.assert_array_equal(received["batch"], batch)
    np.testing.assert_array_equal(received["row"], batch[1, ::2])
    assert not received["batch"].flags.writeable
    assert np.shares_memory(received["batch"][1], received["row"])
    server.send(received["batch"], timeout=5)  # back, as shared memory
    np.testing.assert_array_equal(client.receive(timeout=5).arrays()[0], batch)
    del memory
    assert batch[3, 3] == 3
    with pytest.raises(ValueError):
        tc.SharedMemory().zeros(3, "string")
    with pytest.raises(ValueError):
        tc.SharedMemory().zeros((-1,))


def test_requests(pair):
    client, server = pair

    def serve():
        while (request := server.receive()) is not None:
            if request.topic == "double":
                server.reply(request, {"y": request.tensors["x"] * 2})
            else:
                server.reply(request, error="unknown topic")

    thread = threading.Thread(target=serve)
    thread.start()
    assert client.call({"x": np.arange(3)}, topic="double", timeout=5).tensors["y"].tolist() == [0, 2, 4]
    with pytest.raises(ValueError, match="unknown topic"):
        client.call(None, topic="half", timeout=5)
    client.close(timeout=5)
    thread.join()
    with pytest.raises(tc.ClosedError):
        client.send(np.ones(1))
    client.close()


def test_timeouts_and_wrong_arguments(pair, tmp_path):
    client, server = pair
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        server.receive(timeout=0.2)
    with pytest.raises((TimeoutError, FileNotFoundError)):
        tc.Channel.connect(tmp_path / "nobody", timeout=0.1)
    assert time.monotonic() - started < 5
    client.send(np.ones(1), timeout=1)
    message = server.receive(timeout=1)
    for wrong in [lambda: client.send(object()), lambda: client.send({3: 4}), lambda: client.receive(timeout=-1),
                  lambda: client.receive(timeout="x"), lambda: server.reply(message, None)]:  # fmt: skip
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            wrong()
    server.shutdown()
    with pytest.raises(tc.Error):
        client.receive(timeout=5)


def test_another_process(tmp_path):
    program = """
        import numpy as np, tensorcask as tc
        memory = tc.SharedMemory()
        with tc.Channel.connect("socket", timeout=10) as channel:
            for step in range(5):
                batch = memory.zeros((256, 1024))
                batch[:] = step
                channel.send({"batch": batch}, topic=str(step))
        """
    with tc.Listener(tmp_path / "socket") as listener:
        producer = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path)
        channel = listener.accept(timeout=30)
        kept = []
        while (message := channel.receive(timeout=30)) is not None:
            kept.append(message.tensors["batch"])
        assert producer.wait(30) == 0
    assert [array.mean() for array in kept] == [0, 1, 2, 3, 4]  # after the producer has ended


@pytest.mark.parametrize("wait", ["listener.accept()", "server.receive()", "client.call(None)"])
def test_ctrl_c_while_waiting(tmp_path, wait):
    program = f"""
        import tensorcask as tc
        listener = tc.Listener("socket")
        client = tc.Channel.connect("socket"); server = listener.accept()
        print("begin", flush=True)
        try: {wait}
        except KeyboardInterrupt: print("interrupted")
        """
    assert interrupt_when(program, tmp_path) == (0, "interrupted\n", "")


# ---- Tensors behind an address --------------------------------------------------------------------------------------


@contextlib.contextmanager
def served(path, tensors, version=1):
    """A server of float32 arrays (serialize/serve/FORMAT.md). Gives its address."""
    names = sorted(tensors)
    numbers = [[1, tensors[name].ndim, tensors[name].nbytes, -1, 0] for name in names]
    sizes = [size for name in names for size in tensors[name].shape]
    texts = lambda values: np.array(values, object)  # noqa: E731
    listed = [np.array(version), texts(names), texts(["plain"] * len(names)), np.array(numbers, np.int64),
              np.array(sizes, np.int64)]  # fmt: skip

    def answer(listener):
        with contextlib.suppress(tc.Error, OSError, ValueError):
            while True:
                with listener.accept() as channel:
                    while (request := channel.receive()) is not None:
                        if request.topic == "list":
                            channel.reply(request, listed)
                            continue
                        name, *part = [text.decode() for text in request.arrays()[0].tolist()]
                        array = tensors[name]
                        if part:
                            begin, size = map(int, part[0].split(":")[0].split(","))
                            array = array[begin : begin + size]
                        channel.reply(request, [array])

    with tc.Listener(path) as listener:
        thread = threading.Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        yield f"unix:{path}"
    thread.join(10)


def test_an_address_opens_like_a_file(tmp_path):
    tensors = {"kernel": np.arange(12, dtype=np.float32).reshape(4, 3), "scale": np.array(2.5, np.float32)}
    with served(tmp_path / "socket", tensors) as address:
        with tc.open(address) as reader:
            assert reader.format == "served" and reader.path == address and list(reader) == ["kernel", "scale"]
            np.testing.assert_array_equal(reader["kernel"], tensors["kernel"])
            np.testing.assert_array_equal(reader.slice("kernel")[1:3], tensors["kernel"][1:3])
            with pytest.raises(KeyError, match='no tensor "kernl"; did you mean "kernel"'):
                reader["kernl"]
        loaded = tc.load(address, names="k*")
        assert list(loaded) == ["kernel"]
        np.testing.assert_array_equal(loaded["kernel"], tensors["kernel"])


def test_a_server_of_another_version_is_refused(tmp_path):
    with served(tmp_path / "socket", {}, version=2) as address:
        with pytest.raises(tc.Error, match="the server speaks version 2 .* this client version 1"):
            tc.open(address)


def test_an_address_at_which_nothing_listens(tmp_path):
    with pytest.raises(FileNotFoundError, match="no `tensorcask serve` waits at this socket"):
        tc.open(f"unix:{tmp_path}/socket")
    with pytest.raises(ValueError, match="a server at unix: is only read"):
        tc.save(f"unix:{tmp_path}/socket", {"w": np.ones(3)})
