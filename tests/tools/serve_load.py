#!/usr/bin/env python3
"""16 clients pull all that one `tensorcask serve` has, for as long as is asked, and check every tensor.

    TENSORCASK=bazel-bin/tools/tensorcask tests/tools/serve_load.py SECONDS

Prints what was pulled and the server's memory, and exits 1 if a client failed or that grew by more than 1 %. It is
taken when all clients are away, after a quarter of the time and at the end."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tool_testing import TOOL, is_listened_to, leb128, run  # noqa: E402

CLIENTS = 16
SIZES = (1, 1000, 4096, 70_000, 300_000, 1 << 20, 3_000_000, 8 << 20)  # bytes of each tensor


def make_checkpoint(folder):
    """The prefix of a checkpoint of int8 tensors, t0 to t7."""
    stream = b""
    for number, size in enumerate(SIZES):
        length = leb128(size)
        path = os.path.join(folder, f"t{number}.pb")
        with open(path, "wb") as file:
            dim = b"\x08" + length
            shape = b"\x12" + leb128(len(dim)) + dim
            file.write(b"\x08\x06\x12" + leb128(len(shape)) + shape + b"\x22" + length + os.urandom(size))
        command = [TOOL, "cat", "--format", "tensorproto", path]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
        stream += done.stdout
    prefix = os.path.join(folder, "model.ckpt")
    subprocess.run([TOOL, "save", prefix], input=stream, stdout=subprocess.DEVNULL, check=True)
    return prefix


def tensors(path):
    """What `ls` tells of the tensors at a path, with checksums of their elements."""
    done = run("ls", "--json", "--checksum", path)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"ls {path}: exit {done.returncode}: {done.stderr}")
    return [{key: tensor[key] for key in ("name", "dtype", "shape", "bytes", "crc32")}
            for tensor in json.loads(done.stdout)["tensors"]]


def resident_kib(process):
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def descriptors(process):
    """What is open, as text: socket:[17], a path."""
    names = []
    for number in os.listdir(f"/proc/{process.pid}/fd"):
        try:
            names.append(os.readlink(f"/proc/{process.pid}/fd/{number}"))
        except FileNotFoundError:  # closed since
            pass
    return sorted(names)


def settled_descriptors(process):
    """The same, once the server has let go of all clients and has one socket, at which it listens."""
    until = time.monotonic() + 60
    while True:
        names = descriptors(process)
        if sum(name.startswith("socket:") for name in names) == 1:
            return names
        if time.monotonic() > until:
            raise AssertionError(f"still open: {names}")
        time.sleep(0.05)


def pull_for(seconds, served, wanted):
    """Pulls from all clients at once. How often each tensor came, and what went wrong."""
    until = time.monotonic() + seconds
    rounds = []
    errors = []

    def pull():
        while time.monotonic() < until and not errors:
            try:
                if tensors(served) != wanted:
                    raise AssertionError("other tensors came")
                rounds.append(1)
            except (AssertionError, subprocess.SubprocessError) as error:
                errors.append(str(error))

    clients = [threading.Thread(target=pull) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return len(rounds), errors


def load(seconds):
    """(how often all tensors were pulled, errors, KiB after a quarter of the time, KiB at the end)"""
    with tempfile.TemporaryDirectory() as folder:
        prefix = make_checkpoint(folder)
        sock = os.path.join(folder, "sock")
        with subprocess.Popen([TOOL, "serve", prefix, "--unix", sock], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL) as server:
            try:
                while not is_listened_to(sock):
                    if server.poll() is not None:
                        raise AssertionError("the server did not start")
                    time.sleep(0.01)
                wanted = tensors(prefix)
                counts = []
                memory = []
                errors = []
                for part in (0.25, 0.75):
                    count, failed = pull_for(part * seconds, "unix:" + sock, wanted)
                    counts.append(count)
                    errors += failed
                    settled_descriptors(server)
                    memory.append(resident_kib(server))
            finally:
                server.send_signal(signal.SIGTERM)
        return sum(counts), errors, memory[0], memory[1]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    count, errors, before, after = load(float(sys.argv[1]))
    print(f"{CLIENTS} clients, {count} times {len(SIZES)} tensors, {count * sum(SIZES) / 2**20:.0f} MiB, "
          f"{len(errors)} errors, server {before} KiB, then {after} KiB")
    for error in errors[:10]:
        print(error, file=sys.stderr)
    sys.exit(1 if errors or after > before * 1.01 else 0)


if __name__ == "__main__":
    main()
