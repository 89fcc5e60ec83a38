"""Tensors between hosts: tc.serve, tc.open("grpc://..."), tc.follow and tc.push."""

import importlib.util
import socket
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import tensorcask as tc

HAS_GRPC = importlib.util.find_spec("tensorcask._grpc") is not None
needs_grpc = pytest.mark.skipif(not HAS_GRPC, reason="the package was built without gRPC: it has no tensorcask._grpc")


def same(loaded, tensors):
    assert set(loaded) == set(tensors)
    for name, array in tensors.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].dtype == array.dtype


# ---- Without gRPC ---------------------------------------------------------------------------------------------------


def test_what_to_install():
    script = """
        import sys
        sys.modules["tensorcask._grpc"] = None     # as where it was not built
        import numpy as np, tensorcask as tc
        for call in (
            lambda: tc.open("grpc://127.0.0.1:1"),
            lambda: tc.load("grpcs://127.0.0.1:1"),
            lambda: tc.verify("grpc://127.0.0.1:1"),
            lambda: tc.serve({"w": np.ones(2)}),
            lambda: tc.follow("grpc://127.0.0.1:1", {}),
            lambda: tc.push("grpc://127.0.0.1:1", 1, {}),
        ):
            try:
                call()
            except tc.MissingFrameworkError as error:
                assert isinstance(error, ImportError) and "libgrpc++-dev" in str(error), error
            else:
                raise AssertionError("no error")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=60)


@needs_grpc
def test_grpc_is_linked_with_its_own_module_alone():
    script = """
        import tensorcask as tc
        with open("/proc/self/maps") as maps:
            assert "libgrpc" not in maps.read()
        with tc.serve({}) as server:
            tc.open(server.url).close()
        with open("/proc/self/maps") as maps:
            files = {line.split()[-1] for line in maps if ".so" in line}
        assert sum("_native" in file for file in files) == 1, files
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=60)


# ---- Reading --------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tensors):
    if not HAS_GRPC:
        pytest.skip("the package was built without gRPC: it has no tensorcask._grpc")
    with tc.serve({**tensors, "words": np.array([b"a", b"bc"], object)}, step=3) as server:
        yield server


def test_each_function_reads(server, tensors, tmp_path):
    words = {"words": np.array([b"a", b"bc"], object)}
    with tc.open(server.url) as reader:
        assert sorted(reader) == sorted({**tensors, **words}) and len(reader) == len(tensors) + 1
        assert reader.version == server.version and reader.version.step == 3
        assert reader.format == "grpc" and reader.path == server.url
        np.testing.assert_array_equal(reader.slice("z/kernel")[3:9:2, 1], tensors["z/kernel"][3:9:2, 1])
        out = np.zeros((7, 30), np.float32).T
        reader.read_into("z/kernel", out)
        np.testing.assert_array_equal(out, tensors["z/kernel"])
        assert reader["words"].tolist() == [b"a", b"bc"]
        assert "none" not in reader
        with pytest.raises(KeyError, match="none"):
            reader["none"]
        with pytest.raises(IndexError):
            reader.slice("a/bias")[9]
        values = dict(reader.nested())
        np.testing.assert_array_equal(values["a/bias"], tensors["a/bias"])
    loaded = tc.load(server.url, [*tensors])
    same(loaded, {name: np.asarray(array) for name, array in tensors.items()})
    assert tc.verify(server.url)
    assert {entry.name for entry in tc.stats(server.url)} >= {"a/bias"}
    copy = tmp_path / "copy"
    tc.convert(server.url, copy)
    assert not tc.diff(server.url, copy)
    assert server.stats()["sent_bytes"] > 0


def test_a_name_chooses_the_tensors_below_it(server, tensors):
    with tc.open(server.url + "/z") as reader:
        assert list(reader) == ["kernel"]
        np.testing.assert_array_equal(reader["kernel"], tensors["z/kernel"])


def test_a_reader_is_of_one_version(server):
    with tc.open(server.url) as reader:
        server.publish(4, {"w": np.ones(2)})
        with pytest.raises(tc.AbortedError, match="version|step"):
            reader["a/bias"]
    assert tc.open(server.url).version.step == 4


@needs_grpc
def test_what_cannot_be_opened():
    for wrong in ("grpc://", "grpc://host", "grpc://host:port", "grpc:///w"):
        with pytest.raises(ValueError, match="grpc://HOST:PORT"):
            tc.open(wrong)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionError, match="127.0.0.1"):
            tc.open(f"grpc://127.0.0.1:{nobody.getsockname()[1]}")
    with pytest.raises(TypeError, match="tensorcask.Credentials"):
        tc.open("grpc://127.0.0.1:1", credentials="secret")
    with pytest.raises((ValueError, OSError)):
        tc.save("grpc://127.0.0.1:1", {"w": np.ones(1)})


# ---- Serving --------------------------------------------------------------------------------------------------------


@needs_grpc
@pytest.mark.parametrize("as_reader", [False, True])
def test_a_file(any_format, path_of, tensors, as_reader):
    path = path_of(any_format)
    tc.save(path, tensors)
    source = tc.open(path) if as_reader else path
    with tc.serve(source) as server:
        if as_reader:
            source.close()  # the server has the file open
        same(tc.load(server.url), {name: np.asarray(array) for name, array in tensors.items()})
        assert server.version.step == 0
        with pytest.raises(tc.FailedPreconditionError, match="mapping"):
            server.publish(1, {})
    with pytest.raises(tc.ClosedError):
        server.version
    assert server.closed and "closed" in repr(server)


@needs_grpc
def test_several_files(tmp_path):
    for number in (1, 2):
        tc.save(tmp_path / f"{number}.npz", {"w": np.full(2, number)})
    sources = {"old": tc.open(tmp_path / "1.npz"), "new": tc.open(tmp_path / "2.npz")}
    with tc.serve(sources) as server:
        assert sorted(tc.open(server.url)) == ["new/w", "old/w"]
        assert tc.load(server.url + "/new")["w"].tolist() == [2, 2]
    tc.save(tmp_path / "3.npz", {"old/w": np.ones(2)})
    with pytest.raises(ValueError, match="two tensors are called \"old/w\""):
        tc.serve({**sources, "": tc.open(tmp_path / "3.npz")})
    with pytest.raises(TypeError, match="Readers alone"):
        tc.serve({"a": tc.open(tmp_path / "1.npz"), "b": np.ones(1)})


@needs_grpc
def test_a_file_object_of_python(tmp_path):
    tc.save(tmp_path / "m.npz", {"w": np.arange(100_000)})
    with open(tmp_path / "m.npz", "rb") as file, tc.serve(tc.open(file)) as server:
        np.testing.assert_array_equal(tc.load(server.url)["w"], np.arange(100_000))


@needs_grpc
def test_published_arrays_may_change():
    w = np.zeros(1000)
    tensor = tc.Tensor(np.zeros(3))
    with tc.serve({"w": w, "t": tensor}) as server:
        w[:] = 5
        assert not tc.load(server.url)["w"].any()
        version = server.publish(9, {"w": w})
        w[:] = 6
        assert version == server.version and version.step == 9
        assert (tc.load(server.url)["w"] == 5).all()
        with pytest.raises(TypeError):
            server.publish(10, {"w": object()})
        assert server.version == version


@needs_grpc
def test_nothing_is_published_yet():
    with tc.serve(None) as server:
        with pytest.raises(tc.UnavailableError, match="published"):
            server.version
        server.publish(1, {"w": np.ones(1)})
        assert list(tc.open(server.url)) == ["w"]


@needs_grpc
@pytest.mark.parametrize("in_memory", [False, True])
def test_a_folder_that_is_followed(tmp_path, in_memory):
    folder = tmp_path / "run"
    with tc.CheckpointManager(folder, full_every=2, keep_last=2) as manager:
        with tc.serve(folder, follow=True, interval=0.05, in_memory=in_memory) as server:
            with pytest.raises(tc.UnavailableError, match="no whole step"):
                server.version
            for step in range(3):
                manager.save(step, {"w": np.full(3, step)})
                while True:
                    version = server.wait_for_newer(None if step == 0 else version, timeout=60)
                    if version.step == step:
                        break
                with tc.open(server.url) as reader:
                    assert reader.version.step == step and reader["w"].tolist() == [step] * 3
            with pytest.raises(TimeoutError):
                server.wait_for_newer(version, timeout=0.1)


@needs_grpc
def test_what_cannot_be_served(tmp_path):
    with pytest.raises(FileNotFoundError):
        tc.serve(tmp_path / "none.npz")
    with pytest.raises(TypeError, match="source must be"):
        tc.serve(5)
    with pytest.raises(TypeError, match="folder"):
        tc.serve({}, follow=True)
    with pytest.raises(ValueError, match="accept_pushes"):
        tc.serve(tmp_path, follow=True, accept_pushes=True)
    for wrong in ({"max_streams": 0}, {"slow_client": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            tc.serve({}, **wrong)
    for wrong in ("127.0.0.1", "0.0.0.0:0"):
        with pytest.raises(ValueError):
            tc.serve({}, wrong)
    with tc.serve({}) as server, pytest.raises(ConnectionError):
        tc.serve({}, server.address)
    with tc.serve({}, "0.0.0.0:0", insecure=True) as server:
        assert server.port > 0 and server.address.endswith(f":{server.port}")


@needs_grpc
def test_too_many_streams():
    with tc.serve({"w": np.ones(2)}, max_streams=1) as server:
        follower = tc.follow(server.url, {"w": np.zeros(2)}, timeout=60)
        next(follower)
        waiting = threading.Thread(target=lambda: list(follower))
        waiting.start()
        while server.stats()["num_streams"] == 0:
            time.sleep(0.01)
        with pytest.raises(MemoryError, match="stream"):
            tc.load(server.url)
        assert server.stats()["refused_streams"] > 0
        follower.stop()
        waiting.join()


@needs_grpc
def test_a_server_drains():
    with tc.serve({"w": np.ones(2)}) as server:
        follower = tc.follow(server.url, {"w": np.zeros(2)}, timeout=60)
        next(follower)
        waiting = threading.Thread(target=lambda: list(follower))
        waiting.start()
        server.drain(timeout=30)
        assert server.closed
        with pytest.raises(ConnectionError):
            tc.open(server.url)
        follower.stop()
        waiting.join(30)
        assert not waiting.is_alive()
        server.drain()
        server.close()


# ---- Pushing --------------------------------------------------------------------------------------------------------


@needs_grpc
def test_a_push_replaces_the_tensors(tensors):
    with tc.serve({"old": np.ones(1)}, accept_pushes=True) as server:
        before = server.version
        version = tc.push(server.url, 12, tensors)
        assert version.step == 12 and server.wait_for_newer(before, timeout=60) == version
        with server.reader() as reader:
            assert reader.version == version
            same(dict(reader), {name: np.asarray(array) for name, array in tensors.items()})
        assert server.stats()["pushes"] == 1
    with pytest.raises(ConnectionError):
        tc.push(server.url, 13, tensors)


@needs_grpc
def test_pushes_that_are_refused():
    with tc.serve({"old": np.ones(1)}) as server:
        with pytest.raises(PermissionError):
            tc.push(server.url, 1, {"w": np.ones(1)})
        assert list(tc.open(server.url)) == ["old"]
    with pytest.raises(ValueError, match="without a name"):
        tc.push("grpc://127.0.0.1:1/name", 1, {})
    with pytest.raises(ValueError, match="grpc://HOST:PORT"):
        tc.push("127.0.0.1:1", 1, {})


# ---- Following ------------------------------------------------------------------------------------------------------


@needs_grpc
def test_versions_are_loaded_in_place():
    target = {"w": np.zeros((2, 3), np.float32).T, "b": np.zeros(4)}
    kept = dict(target)
    with tc.serve(None) as server:
        steps = []
        with tc.follow(server.url, target, timeout=60) as follower:
            assert follower.version is None
            for step in range(1, 4):
                server.publish(step, {"w": np.full((3, 2), step, np.float32), "b": np.full(4, -float(step))})
                version = next(follower)
                assert version == server.version == follower.version
                steps.append(version.step)
                assert (target["w"] == step).all() and (target["b"] == -step).all()
        assert steps == [1, 2, 3] and all(target[name] is kept[name] for name in target)
        assert follower.stopped and list(follower) == []


@needs_grpc
def test_a_module_of_pytorch():
    torch = pytest.importorskip("torch")
    trainer, model = torch.nn.Linear(4, 3), torch.nn.Sequential(torch.nn.Linear(4, 3))
    parameters = list(model.parameters())
    with tc.serve({f"0.{name}": value for name, value in trainer.state_dict().items()}, step=1) as server:
        follower = tc.follow(server.url, model, timeout=60)
        assert next(follower).step == 1
        x = torch.ones(4)
        assert torch.equal(model(x), trainer(x))
        with torch.no_grad():
            trainer.weight.add_(1)
        assert not torch.equal(model(x), trainer(x))
        server.publish(2, {f"0.{name}": value for name, value in trainer.state_dict().items()})
        assert next(follower).step == 2 and torch.equal(model(x), trainer(x))
        assert all(one is other for one, other in zip(parameters, model.parameters(), strict=True))
        assert all(parameter.requires_grad for parameter in parameters)
        model(x).sum().backward()


@needs_grpc
def test_a_function_gets_a_reader():
    seen = []

    def load(reader):
        if not seen:
            server.publish(2, {"w": np.full(2, 2.0)})  # while the reader is open
        seen.append(reader.version.step)
        return reader["w"]

    with tc.serve({"w": np.ones(2)}, step=1) as server, tc.follow(server.url, load, timeout=0.3) as follower:
        assert next(follower).step == 2 and seen == [1, 2]
        with pytest.raises(TimeoutError):
            next(follower)
        server.publish(3, {"w": np.ones(2)})
        assert follower.next(60).step == 3


@needs_grpc
def test_what_a_follower_refuses():
    with tc.serve({"w": np.ones(2), "extra": np.ones(1)}) as server:
        with pytest.raises(ValueError, match="'extra' has no place"):
            next(tc.follow(server.url, {"w": np.zeros(2)}))
        w = np.zeros(2)
        next(tc.follow(server.url, {"w": w}, strict=False))
        assert w.tolist() == [1, 1]
        with pytest.raises(KeyError, match="no tensor 'v'"):
            next(tc.follow(server.url, {"v": np.zeros(2)}, strict=False))
        for wrong in (np.zeros(3), np.zeros(2, np.float32)):
            with pytest.raises(ValueError, match='"w"'):
                next(tc.follow(server.url, {"w": wrong}, strict=False))
        fixed = np.zeros(2)
        fixed.setflags(write=False)
        with pytest.raises(ValueError):
            next(tc.follow(server.url, {"w": fixed}, strict=False))
    with pytest.raises(TypeError, match="target must be"):
        tc.follow("grpc://127.0.0.1:1", 5)
    with pytest.raises(ValueError, match="grpc://HOST:PORT"):
        tc.follow("127.0.0.1:1", {})


@needs_grpc
def test_a_follower_waits_for_the_server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:{}".format(free.getsockname()[1])
    w = np.zeros(2)
    follower = tc.follow("grpc://" + address, {"w": w})
    start = time.monotonic()
    with pytest.raises(ConnectionError):
        follower.next(timeout=0.5)
    assert time.monotonic() - start < 30
    for step in (1, 2):  # the second server is another one
        published = threading.Event()

        def serve(step=step, published=published):
            time.sleep(0.2)
            with tc.serve({"w": np.full(2, step)}, address, step=step):
                published.wait(60)

        server = threading.Thread(target=serve)
        server.start()
        w[:] = 0
        w = w.astype(np.int64)
        follower._target["w"] = w
        version = follower.next(60)
        published.set()
        server.join()
        assert version.step == step and w.tolist() == [step, step]


@needs_grpc
def test_another_thread_stops_a_follower():
    with tc.serve({"w": np.ones(2)}) as server:
        follower = tc.follow(server.url, {"w": np.zeros(2)})
        threading.Timer(0.3, follower.stop).start()
        assert len(list(follower)) == 1


# ---- Signals, and the end of the process ----------------------------------------------------------------------------


@needs_grpc
@pytest.mark.parametrize("wait", ["next(follower)", "server.wait_for_newer(server.version)", "tc.open(deaf)"])
def test_ctrl_c(wait):
    script = f"""
        import os, signal, socket, threading, time, numpy as np, tensorcask as tc
        silent = socket.socket()
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        deaf = "grpc://127.0.0.1:%d" % silent.getsockname()[1]
        with tc.serve({{"w": np.ones(2)}}) as server:
            follower = tc.follow(server.url, {{"w": np.zeros(2)}})
            next(follower)
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                {wait}
            except KeyboardInterrupt:
                print("interrupted")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=60, capture_output=True, text=True
    )
    assert run.stdout == "interrupted\n"


@needs_grpc
def test_the_interpreter_exits_while_a_server_and_a_follower_run():
    script = """
        import threading, numpy as np, tensorcask as tc
        server = tc.serve({"w": np.ones(2)})
        follower = tc.follow(server.url, {"w": np.zeros(2)})
        next(follower)
        threading.Thread(target=next, args=(follower,), daemon=True).start()
        reader = tc.open(server.url)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=60, capture_output=True, text=True)
    assert run.returncode == 0 and run.stderr == ""


@needs_grpc
def test_a_child_of_fork_is_told():
    script = """
        import os, numpy as np, tensorcask as tc
        server = tc.serve({"w": np.ones(2)})
        child = os.fork()
        if child == 0:
            try:
                tc.open(server.url)
            except tc.FailedPreconditionError as error:
                os._exit(7 if "os.fork" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert tc.load(server.url)["w"].tolist() == [1, 1]
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], check=True, timeout=60)


# ---- TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pem(tmp_path):
    """Paths of a certificate of localhost that has signed itself, and of its key."""
    if not HAS_GRPC:
        pytest.skip("the package was built without gRPC: it has no tensorcask._grpc")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2",
               "-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "certificate.pem"]  # fmt: skip
    try:
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return tmp_path / "certificate.pem", tmp_path / "key.pem"


def test_tls(pem):
    certificate, key = pem
    own = tc.Credentials(certificate=certificate, key=key)
    with tc.serve({"w": np.ones(2)}, credentials=own, accept_pushes=True) as server:
        url = f"grpcs://localhost:{server.port}"
        assert server.url == f"grpcs://{server.address}"
        trusting = tc.Credentials(authorities=certificate.read_bytes())
        assert tc.load(url, credentials=trusting)["w"].tolist() == [1, 1]
        tc.push(url, 5, {"w": np.full(2, 5.0)}, credentials=trusting)
        w = np.zeros(2)
        with tc.follow(url, {"w": w}, credentials=trusting, timeout=60) as follower:
            assert next(follower).step == 5 and w.tolist() == [5, 5]
        with pytest.raises(ConnectionError):
            tc.push(url, 6, {})  # nobody of the system has signed the certificate


def test_a_token_and_certificates_of_clients(pem):
    certificate, key = pem
    own = tc.Credentials(certificate=certificate, key=key, authorities=certificate, token="secret")
    assert repr(own) == "Credentials(certificate, key, authorities, token)"  # and none of their content
    with tc.serve({"w": np.ones(2)}, credentials=own) as server:
        url = f"grpcs://localhost:{server.port}"
        assert list(tc.open(url, credentials=own)) == ["w"]
        for token in (None, "wrong"):
            other = tc.Credentials(certificate=certificate, key=key, authorities=certificate, token=token)
            with pytest.raises(PermissionError, match="token"):
                tc.open(url, credentials=other)
        with pytest.raises(tc.InvalidArgumentError, match="needs its key"):
            tc.Credentials(certificate=certificate)
        with pytest.raises(FileNotFoundError):
            tc.Credentials(authorities=str(certificate) + ".none")
        for wrong in (b"junk", __file__):
            with pytest.raises(ValueError, match="not PEM"):
                tc.Credentials(authorities=wrong)
        with pytest.raises(ValueError, match="need a certificate"):
            tc.serve({}, credentials=tc.Credentials(token="secret"))
