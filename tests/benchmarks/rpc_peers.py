#!/usr/bin/env python3
"""Tensors over gRPC between two processes, beside other ways to move the same bytes, in turns, in one run.

    tests/benchmarks/rpc_peers.py [MIB]   # from the root, after `bazel build //tests/benchmarks:rpc
                                          # //tests/serialize/rpc:tensor_peer`

Prints rows as tests/benchmarks/bars.cc does. Arrow Flight is compared if this Python has pyarrow, and a link that loses
packets if this process may make network namespaces; else these rows are SKIPPED, with the reason. Both processes share
the processors: the ratios matter, and seconds do not.

    tests/benchmarks/rpc_peers.py flight MIB   # a server of Arrow Flight; prints its port
"""

import collections
import contextlib
import itertools
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import lossy_link  # noqa: E402

PROGRAM = "bazel-bin/tests/benchmarks/rpc"
PEER = "bazel-bin/tests/serialize/rpc/tensor_peer"
ROUNDS = 9
CLIENTS, CLIENT_SECONDS = 64, 60
DELAY, LOSS = 0.010, 0.01  # in each direction
MISSED = []

# A loop of send and recv by itself, for the far link: `serve ADDRESS`, or `pull ADDRESS MIB ROUNDS`.
SOCKET_LOOP = """
import socket, sys, time
if sys.argv[1] == "serve":
    listener = socket.create_server((sys.argv[2], 9999))
    print("up", flush=True)
    peer, _ = listener.accept()
    block = bytes(1 << 20)
    while number := peer.recv(8):
        for _ in range(int.from_bytes(number, "big")):
            peer.sendall(block)
else:
    peer = socket.create_connection((sys.argv[2], 9999))
    mebibytes, block = int(sys.argv[3]), bytearray(1 << 20)
    for _ in range(int(sys.argv[4])):
        start, left = time.perf_counter(), mebibytes << 20
        peer.sendall(mebibytes.to_bytes(8, "big"))
        while left:
            left -= peer.recv_into(block, min(left, len(block)))
        print(time.perf_counter() - start, flush=True)
"""


def row(name, figure, bar, unit, compared_to, at_least=True):
    met = figure >= bar if at_least else figure <= bar
    if not met:
        MISSED.append(name)
    sign = ">=" if at_least else "<="
    verdict = "met" if met else "missed"
    print(f"{name:<54} {figure:9.2f} {unit:<9} {sign} {bar:7.2f}  {verdict:<6}  {compared_to}", flush=True)


def note(name, figure, unit, about):
    print(f"{name:<54} {figure:9.2f} {unit:<9} {'':19} {about}", flush=True)


def skipped(name, reason):
    print(f"{name:<54} SKIPPED: {reason}", flush=True)


@contextlib.contextmanager
def running(command, start=subprocess.Popen):
    """A server that ends with its standard input."""
    process = start([*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def output(command, start=subprocess.Popen):
    process = start([*map(str, command)], stdout=subprocess.PIPE, encoding="utf-8")
    out, _ = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{command}: exit status {process.returncode}")
    return out.splitlines()


def memory_of(process, field):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return int(re.search(rf"{field}:\s*(\d+) kB", file.read())[1]) << 10


def available_memory():
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(re.search(r"MemAvailable:\s*(\d+) kB", file.read())[1]) << 10


class Flight:
    """An Arrow Flight server in a process of its own, and a client here."""

    def __init__(self, mebibytes):
        import pyarrow.flight

        self.process = subprocess.Popen([sys.executable, __file__, "flight", str(mebibytes)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, encoding="utf-8")  # fmt: skip
        self.flight = pyarrow.flight
        self.client = pyarrow.flight.connect(f"grpc://127.0.0.1:{int(self.process.stdout.readline())}")

    def seconds(self):
        start = time.perf_counter()
        rows = sum(chunk.data.num_rows for chunk in self.client.do_get(self.flight.Ticket(b"w")))
        assert rows > 0
        return time.perf_counter() - start

    def close(self):
        self.process.kill()
        self.process.communicate()


def serve_flight(mebibytes):
    import pyarrow
    import pyarrow.flight

    array = pyarrow.array(range(1 << 18), pyarrow.float32())  # a batch of 1 MiB, as our pieces
    table = pyarrow.table({"w": pyarrow.chunked_array([array] * mebibytes)})

    class Server(pyarrow.flight.FlightServerBase):
        def do_get(self, context, ticket):
            return pyarrow.flight.RecordBatchStream(table)

    server = Server("grpc://127.0.0.1:0")
    print(server.port, flush=True)
    sys.stdin.read()


def speed_rows(folder, mebibytes):
    pem = [os.path.join(folder, "certificate"), os.path.join(folder, "key")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-out", pem[0], "-keyout", pem[1], "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)  # fmt: skip
    with running([PROGRAM, "serve", mebibytes, *pem]) as server:
        ports = dict(server.stdout.readline().split() for _ in range(7))
        servers = [f"{name}={port}" for name, port in ports.items()]
        servers += [f"strided={ports['ours']}", f"turned={ports['ours']}"]
        found = collections.defaultdict(list)
        for line in output([PROGRAM, "pull", mebibytes, ROUNDS, pem[0], *servers]):
            name, seconds, cpu = line.split()
            found[name].append((float(seconds), float(cpu)))
        size = (mebibytes << 20) / 1e9

        def speed(name):
            return size / statistics.median(seconds for seconds, _ in found[name])

        def compare(title, name, other, bar):
            ratio = statistics.median(b[0] / a[0] for a, b in zip(found[name], found[other]))
            row(title, ratio, bar, "x", f"{speed(name):.2f} GB/s beside {speed(other):.2f} GB/s")

        compare("pull, to raw messages of gRPC", "ours", "raw", 0.85)
        compare("pull, to one TensorProto as a message", "ours", "message", 6.0)
        compare("pull over TLS, to raw messages of gRPC over TLS", "tls", "raw_tls", 0.85)
        compare("pull into rows that lie apart, to dense memory", "strided", "ours", 0.8)
        note("pull into columns", speed("turned"), "GB/s", f"dense memory: {speed('ours'):.2f} GB/s")
        # A loop of send and recv costs half the processor time of gRPC's raw messages, which bound what a pull can reach.
        for name, loop in itertools.product(("ours", "raw"), ("summed", "socket")):
            ratio = statistics.median(b[0] / a[0] for a, b in zip(found[name], found[loop]))
            note(f"{name}, to a loop of sockets with{'' if loop == 'summed' else 'out'} checksums", ratio, "x",
                 f"{speed(name):.2f} GB/s beside {speed(loop):.2f} GB/s")  # fmt: skip
        for name in ("ours", "raw", "summed", "socket", "message"):
            note(f"processor time of the client a GB, {name}",
                 statistics.median(cpu for _, cpu in found[name]) / size, "s", "")  # fmt: skip
        flight_row(mebibytes, ports["ours"], pem[0], size)


def flight_row(mebibytes, port, certificate, size):
    name = "pull, to Arrow Flight"
    try:
        flight = Flight(mebibytes)
    except ImportError:
        skipped(name, "this Python has no pyarrow")
        return
    flight.seconds()
    pairs = []
    for _ in range(ROUNDS):  # a process for each of ours, which pulls once to warm up
        ours = float(output([PROGRAM, "pull", mebibytes, 1, certificate, f"ours={port}"])[0].split()[1])
        pairs.append((ours, flight.seconds()))
    flight.close()
    ours, theirs = (size / statistics.median(column) for column in zip(*pairs))
    row(name, statistics.median(b / a for a, b in pairs), 1.2, "x", f"{ours:.2f} GB/s beside {theirs:.2f} GB/s")


def memory_rows(mebibytes):
    label = f"{mebibytes} MiB" if mebibytes < 1024 else f"{mebibytes / 1024:g} GiB"
    if available_memory() < (2 * mebibytes << 20) + (3 << 30):
        skipped(f"memory for {label}", f"{available_memory() >> 20} MiB are available")
        return
    with running([PEER, "serve", "127.0.0.1:0", mebibytes, 7]) as server:
        address, tensors = server.stdout.readline().split()
        lines = output([PEER, "pull", f"grpc://{address}", 5])
        client = dict(line.split() for line in lines if line.startswith(("peak", "tensors")))
        mib = 1 << 20
        row(f"memory of the server beside {label}", (memory_of(server, "VmHWM") - int(tensors)) / mib, 32, "MiB",
            "the whole process", at_least=False)  # fmt: skip
        row(f"memory of the client beside {label}", (int(client["peak"]) - int(client["tensors"])) / mib, 48, "MiB",
            "the whole process", at_least=False)  # fmt: skip


def client_rows():
    """Many clients at once. The memory is the median of a third of the time: pieces that are under way differ."""
    with running([PEER, "serve", "127.0.0.1:0", 4, 7]) as server:
        address = server.stdout.readline().split()[0]
        clients = subprocess.Popen([PEER, "clients", f"grpc://{address}", str(CLIENTS), str(CLIENT_SECONDS)],
                                   stdout=subprocess.PIPE, encoding="utf-8")  # fmt: skip
        sides = {"server": server, "clients": clients}
        samples = []
        end = time.monotonic() + 0.9 * CLIENT_SECONDS
        while time.monotonic() < end:
            time.sleep(0.25)
            samples.append([memory_of(process, "VmRSS") / 2**20 for process in sides.values()])
        third = len(samples) // 3
        lines, _ = clients.communicate()
        name = f"{CLIENTS} clients for {CLIENT_SECONDS} s"
        row(f"{name}: exit status", clients.returncode, 0, "", "0: all pulls came, with the right elements", False)
        pulls = [int(line) for line in lines.split("\n") if line.isdigit()]
        row(f"{name}: slowest to fastest", min(pulls) / max(pulls), 0.5, "x",
            f"{min(pulls)} beside {max(pulls)} pulls of 6 MiB")  # fmt: skip
        for side, column in zip(sides, zip(*samples)):
            early, late = (statistics.median(part) for part in (column[third : 2 * third], column[2 * third :]))
            row(f"{name}: memory of the {side}", late / early, 1.01, "x",
                f"{late:.1f} MiB in the last third, {early:.1f} MiB in the second", at_least=False)  # fmt: skip


def far_row(mebibytes=16, rounds=6):
    name = f"pull, {DELAY * 1000:g} ms away with {LOSS * 100:g} % lost, to a loop of send"
    if reason := lossy_link.why_not():
        skipped(name, reason)
        return
    with lossy_link.LossyLink(DELAY, LOSS) as link, contextlib.ExitStack() as stack:
        here, there = (lambda *a, side=side, **k: link.start(side, *a, **k) for side in (1, 0))
        ours = stack.enter_context(running([PEER, "serve", link.addresses[0] + ":0", mebibytes, 7], there))
        address, tensors = ours.stdout.readline().split()
        loop = stack.enter_context(running([sys.executable, "-c", SOCKET_LOOP, "serve", link.addresses[0]], there))
        loop.stdout.readline()
        pulled = [line for line in output([PEER, "pull", f"grpc://{address}", rounds], here) if re.match(r"[0-9.]+$", line)]
        looped = output([sys.executable, "-c", SOCKET_LOOP, "pull", link.addresses[0], int(tensors) >> 20, rounds], here)
        # Without the first transfer, in which TCP learns the link.
        speeds = [int(tensors) / statistics.median(map(float, lines[1:])) / 1e6 for lines in (pulled, looped)]
        row(name, speeds[0] / speeds[1], 0.9, "x", f"{speeds[0]:.1f} MB/s beside {speeds[1]:.1f} MB/s")


def main():
    if sys.argv[1:2] == ["flight"]:
        serve_flight(int(sys.argv[2]))
        return
    mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    with tempfile.TemporaryDirectory(prefix="tensorcask-rpc-bench-") as folder:
        speed_rows(folder, mebibytes)
    memory_rows(mebibytes)
    memory_rows(mebibytes * 16)
    far_row()
    client_rows()
    if MISSED:
        print(f"{len(MISSED)} missed")


if __name__ == "__main__":
    main()
