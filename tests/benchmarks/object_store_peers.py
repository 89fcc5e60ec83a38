#!/usr/bin/env python3
"""Object stores by this library, by a plain socket and by the programs of others, in turns, in one run.

    tests/benchmarks/object_store_peers.py [MIB]   # by a Python with tests/peers/requirements-light.txt, from the root,
                                                   # after `bazel build //tests/benchmarks:object_store`

Prints rows as tests/benchmarks/bars.cc does. nginx serves files, versitygw (or else MinIO) is the store; rows whose
server or program is not there are SKIPPED, with the reason. One process asks, and the servers share its processors: the
ratios matter, and seconds do not.
"""

import contextlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../peers"))
import store_servers  # noqa: E402

PROGRAM = "bazel-bin/tests/benchmarks/object_store"
ROUNDS = 5
RANGE_BYTES = 8 << 20
CONNECTIONS = 16
DELAY, BYTES_PER_SECOND = 0.020, 80e6
MISSED = []


def row(name, figure, bar, unit, compared_to, at_least=True):
    met = figure >= bar if at_least else figure <= bar
    if not met:
        MISSED.append(name)
    sign = ">=" if at_least else "<="
    verdict = "met" if met else "missed"
    print(f"{name:<54} {figure:9.2f} {unit:<9} {sign} {bar:7.2f}  {verdict:<6}  {compared_to}", flush=True)


def skipped(name, reason):
    print(f"{name:<54} SKIPPED: {reason}", flush=True)


def ours(task, *arguments, environment=None):
    """(seconds, seconds of processor time, share of the time in which connections had requests) of one round, after one
    that opens connections."""
    done = subprocess.run(
        [PROGRAM, task, *map(str, arguments), "1"],
        capture_output=True,
        text=True,
        env=dict(os.environ, **(environment or {})),
    )
    if done.returncode != 0:
        raise RuntimeError(f"{task} {arguments}: {done.stderr.strip()}")
    seconds, cpu, busy = done.stdout.split()
    return float(seconds), float(cpu), float(busy)


def timed(run):
    start, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - start, time.process_time() - cpu, 0


def in_turns(tasks):
    """The medians of {name: function that returns (seconds, cpu, busy)}, over rounds in which each has its turn."""
    found = {name: [] for name in tasks}
    for _ in range(ROUNDS):
        for name, task in tasks.items():
            found[name].append(task())
    return {name: tuple(statistics.median(column) for column in zip(*rows)) for name, rows in found.items()}


def ratio_text(name, other, found, size):
    return f"{size / found[name][0] / 1e9:.2f} GB/s beside {size / found[other][0] / 1e9:.2f} GB/s of {other}"


def web_rows(folder, size):
    """Ranges of a file from nginx beside a loop of recv, near and far."""
    root = os.path.join(folder, "root")
    os.makedirs(root)
    with open(os.path.join(root, "file"), "wb") as file:
        file.write(os.urandom(size))
    try:
        server = store_servers.Nginx.start(folder, root)
    except store_servers.Missing as reason:
        return skipped("ranges over HTTP", reason)
    with server:
        url = f"{server.url}/file"
        found = in_turns({"ranges": lambda: ours("ranges", url), "recv": lambda: ours("recv", url)})
        row("HTTP: ranges of 8 MiB x 16, to a loop of recv", found["recv"][0] / found["ranges"][0], 0.9, "x",
            ratio_text("ranges", "recv", found, size))  # fmt: skip
        row("HTTP: processor time a GB", found["ranges"][1] / size * 1e9, 0.8, "s",
            f"recv: {found['recv'][1] / size * 1e9:.2f} s", at_least=False)  # fmt: skip
        with behind_slow_proxy(server) as port:
            far = in_turns({"ranges": lambda: ours("ranges", f"http://127.0.0.1:{port}/file")})
        far_rows("HTTP: ", "ranges", far["ranges"], size)


@contextlib.contextmanager
def behind_slow_proxy(server):
    """The port of a proxy that makes `server` far away."""
    port = store_servers.free_port()
    proxy = subprocess.Popen([PROGRAM, "proxy", str(port), str(server.port), str(DELAY), str(BYTES_PER_SECOND)])
    try:
        time.sleep(0.5)
        yield port
    finally:
        proxy.kill()
        proxy.wait()


def far_rows(where, name, found, size, bare=None):
    """The second row says whether connections wait for work, however slow this machine answers. `bare`: of the same
    requests and nothing else, which server, proxy and these processors bound as well."""
    ranges = math.ceil(size / RANGE_BYTES)
    best = math.ceil(ranges / CONNECTIONS) * (DELAY + RANGE_BYTES / BYTES_PER_SECOND)
    beside = "" if bare is None else f"; bare requests: {best / bare[0]:.2f} x"
    row(f"{where}{name} at 20 ms and 80 MB/s a connection", best / found[0], 0.75, "x",
        f"{size / found[0] / 1e9:.2f} GB/s of {size / best / 1e9:.2f} that these allow{beside}")  # fmt: skip
    row(f"{where}{name} there: time in which connections are busy", found[2], 0.75, "x", "16 connections all the time")


def readers(server):
    """{name: function that reads the object `key`}, of the libraries that are installed."""
    found = {}
    with contextlib.suppress(ImportError):
        import object_store_peer

        for name, library in object_store_peer.Stores.libraries(server).items():
            found[name] = library
        found["boto3"] = Boto3(object_store_peer.Stores.client(server))
    return found


class Boto3:
    """With its transfer manager, as upload_fileobj and download_fileobj use it."""

    def __init__(self, client):
        self.client = client

    def read(self, key):
        import io

        file = io.BytesIO()
        self.client.download_fileobj("bucket", key, file)
        return file.getvalue()

    def write(self, key, data):
        import io

        self.client.upload_fileobj(io.BytesIO(data), "bucket", key)


# At least so many times as fast as others: (read, written). A save is not slower; how much faster it can be is what the
# bare parts are, since the server works for both on these processors.
PEER_BARS = {"obstore": (1.1, None), "s3fs": (1.1, None), "TensorStore": (1.1, 1.0), "boto3": (2.5, 1.0)}


def store_rows(folder, mebibytes):
    size = mebibytes << 20
    for kind in (store_servers.Versitygw, store_servers.Minio):
        try:
            server = kind.start(folder)
            break
        except store_servers.Missing as reason:
            skipped(f"S3 of {kind.name}", reason)
    else:
        return
    with server:
        os.environ.update(server.environment())
        libraries = readers(server)
        if "boto3" not in libraries:
            return skipped("S3", "boto3 is not installed, which makes the bucket")
        libraries["boto3"].client.create_bucket(Bucket="bucket")
        ours("save", "s3://bucket/m", mebibytes)
        listed = libraries["boto3"].client.list_objects_v2(Bucket="bucket", Prefix="m.")["Contents"]
        data_file = max(listed, key=lambda one: one["Size"])["Key"]  # an overwritten checkpoint has an empty one, too
        tasks = {
            "load": lambda: ours("load", "s3://bucket/m"),
            "bare requests": lambda: ours("fresh", f"s3://bucket/{data_file}"),
        }
        for name, library in libraries.items():
            tasks[name] = lambda library=library: timed(lambda: library.read(data_file))
        found = in_turns(tasks)
        where = f"S3 of {server.name}: "
        row(where + "verified load, to bare requests", found["bare requests"][0] / found["load"][0], 0.85, "x",
            ratio_text("load", "bare requests", found, size))  # fmt: skip
        row(where + "processor time a GB loaded", found["load"][1] / size * 1e9, 0.8, "s",
            f"bare requests: {found['bare requests'][1] / size * 1e9:.2f} s", at_least=False)  # fmt: skip
        with behind_slow_proxy(server) as port:
            address = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
            far = in_turns({
                "load": lambda: ours("load", "s3://bucket/m", environment=address),
                "bare requests": lambda: ours("fresh", f"s3://bucket/{data_file}", environment=address),
            })  # fmt: skip
        far_rows(where, "verified load", far["load"], size, far["bare requests"])
        for name in libraries:
            row(f"{where}verified load, to {name}", found[name][0] / found["load"][0], PEER_BARS[name][0], "x",
                ratio_text("load", name, found, size))  # fmt: skip

        data = os.urandom(size)
        tasks = {
            "save": lambda: ours("save", "s3://bucket/saved", mebibytes),
            "bare parts": lambda: ours("parts", "s3://bucket/parts", mebibytes),
        }
        for name, library in libraries.items():
            if PEER_BARS[name][1] is not None:
                tasks[name] = lambda library=library: timed(lambda: library.write("written", data))
        found = in_turns(tasks)
        row(where + "save, to bare parts", found["bare parts"][0] / found["save"][0], 0.9, "x",
            ratio_text("save", "bare parts", found, size))  # fmt: skip
        row(where + "processor time a GB saved", found["save"][1] / size * 1e9, 1.0, "s",
            f"bare parts: {found['bare parts'][1] / size * 1e9:.2f} s", at_least=False)  # fmt: skip
        for name in libraries:
            if PEER_BARS[name][1] is not None:
                bound = found[name][0] / found["bare parts"][0]
                row(f"{where}save, to {name}", found[name][0] / found["save"][0], PEER_BARS[name][1], "x",
                    f"{ratio_text('save', name, found, size)}; bare parts: {bound:.2f} x")  # fmt: skip


def main():
    mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="tensorcask-store-bench-") as folder:
        web_rows(folder, mebibytes << 20)
        store_rows(folder, mebibytes)
    print(f"load of the machine after: {os.getloadavg()[0]:.1f}")
    if MISSED:
        print(f"{len(MISSED)} missed")


if __name__ == "__main__":
    main()
