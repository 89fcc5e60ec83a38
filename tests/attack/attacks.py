"""What the attacks on serve, recv and the commands that read from a server have in common."""

import contextlib
import os
import random
import resource
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
import liar  # noqa: E402
from liar import HELLO  # noqa: E402
from tool_testing import TOOL, Scratch, is_listened_to, leb128, sanitized  # noqa: E402

WAIT_SECONDS = 10 if sanitized() else 1  # for an honest client, under attack
LARGE_BYTES = 8 << 20
seed = int(os.environ.get("ATTACK_SEED", "1"))
worst_waits = {}


def ask(path):
    """How long an honest client waits for a tensor, in seconds."""
    begin = time.monotonic()
    with socket.socket(socket.AF_UNIX) as client:
        # With a timeout of its own Python's connect would not wait while the server's queue is full.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 30, 0))
        client.connect(path)
        client.settimeout(30)
        client.sendall(HELLO + liar.pull(1, b"small"))
        while True:
            received = liar.receive_frame(client)
            if received is None:
                raise AssertionError(f"the server cut off an honest client after {time.monotonic() - begin:.2f} s")
            if received[0] == 3:
                return time.monotonic() - begin


def open_descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def memory_kib(process, what="VmRSS"):
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what + ":"))


class Attack(Scratch):
    def setUp(self):
        super().setUp()
        self.random = random.Random(seed)
        self.sock = self.path("sock")

    def model(self):
        """The prefix of a checkpoint of "small", 4 bytes, and "large", 8 MiB."""
        stream = b""
        for name, size in (("small", 4), ("large", LARGE_BYTES)):
            dim = b"\x08" + leb128(size)
            with open(self.path(name + ".pb"), "wb") as file:
                file.write(b"\x08\x06" + liar.field(2, liar.field(2, dim)) + liar.field(4, os.urandom(size)))
            stream += subprocess.run([TOOL, "cat", "--format", "tensorproto", self.path(name + ".pb")],
                                     stdout=subprocess.PIPE, check=True).stdout
        subprocess.run([TOOL, "save", self.path("model.ckpt")], input=stream, stdout=subprocess.DEVNULL, check=True)
        return self.path("model.ckpt")

    def start(self, *arguments, limits=()):
        def limit():
            for what, most in limits:
                resource.setrlimit(what, (most, most))
        process = subprocess.Popen([TOOL, *arguments, "--unix", self.sock], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=limit)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        until = time.monotonic() + 30
        while True:
            with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
                if arguments[0] == "serve":
                    probe.connect(self.sock)
                    return process
            if arguments[0] != "serve" and is_listened_to(self.sock):
                return process
            self.assertIsNone(process.poll(), "it did not start")
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)

    def connect(self, data=b""):
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.settimeout(5)
        client.connect(self.sock)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(data)
        return client

    def assert_honest_clients_are_answered(self, times=5):
        worst = 0
        for _ in range(times):
            worst = max(worst, ask(self.sock))
            time.sleep(0.02)
        name = self.id().rsplit(".", 1)[-1]
        worst_waits[name] = max(worst_waits.get(name, 0), worst)
        self.assertLess(worst, WAIT_SECONDS)

    def assert_cut_off(self, client):
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while client.recv(1 << 16):
                pass

    @contextlib.contextmanager
    def strange_descriptors(self):
        """(what, descriptor) of each kind. For two of them close(2) can block the process that calls it."""
        with contextlib.ExitStack() as stack:
            def keep(descriptor):
                stack.callback(self.close_elsewhere, descriptor)
                return descriptor
            ends = os.pipe()
            listener = socket.socket(socket.AF_UNIX)
            stack.callback(listener.close)
            kinds = [("pipe", keep(ends[0])), ("pipe end", keep(ends[1])), ("folder", keep(os.open("/", os.O_RDONLY))),
                     ("zeros", keep(os.open("/dev/zero", os.O_RDWR))), ("eventfd", keep(os.eventfd(0))),
                     ("path", keep(os.open("/tmp", os.O_PATH))), ("file", keep(os.open(__file__, os.O_RDONLY))),
                     ("socket", listener.fileno()), ("unsealed", keep(liar.memory_file(4096, sealed=False))),
                     ("empty", keep(os.memfd_create("empty", os.MFD_ALLOW_SEALING)))]
            file, peer = liar.lingering_socket(30)
            stack.callback(peer.close)
            kinds.append(("lingering socket", file))
            with contextlib.suppress(OSError):
                folder = self.path("mount")
                os.mkdir(folder)
                fuse = liar.FuseFile(folder)
                stack.callback(fuse.close)
                kinds.append(("FUSE", lambda: keep(os.open(fuse.path, os.O_RDONLY))))
            # The last, and opened when it is reached: a process that is started while this one has the file open waits.
            yield kinds

    @staticmethod
    def close_elsewhere(descriptor):
        """In a thread, because it may block."""
        def close():
            with contextlib.suppress(OSError):
                os.close(descriptor)
        threading.Thread(target=close, daemon=True).start()

    def answer_with(self, reply):
        """A server that answers request `number` with the bytes of reply(client, number, what it asks for)."""
        listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.sock)
        listener.bind(self.sock)
        listener.listen()
        self.addCleanup(listener.close)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    client = listener.accept()[0]
                    client.sendall(HELLO)
                    number = 0
                    while (received := liar.receive_frame(client)) is not None:
                        if received[0] == 2:
                            number += 1
                            client.sendall(reply(client, number, received[1]))
        threading.Thread(target=serve, daemon=True).start()
