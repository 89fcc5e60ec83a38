#!/usr/bin/env python3
"""Attacks on serve: clients that flood, stall and lie, while an honest one asks for a tensor."""

import contextlib
import os
import resource
import signal
import socket
import sys
import threading
import time

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder)
                for folder in (".", "../support", "../tools"))
import case_report  # noqa: E402
import liar  # noqa: E402
from attacks import WAIT_SECONDS, Attack, memory_kib, open_descriptors  # noqa: E402
from liar import HELLO, LIST, frame  # noqa: E402
from tool_testing import sanitized  # noqa: E402


class AttacksOnServers(Attack):
    # ---- Clients that take and give nothing -------------------------------------------------------------------------

    def test_idle_connections(self):
        self.start("serve", self.model())
        for data in (b"", HELLO, HELLO[:20]):
            for _ in range(70):
                self.connect(data)
            self.assert_honest_clients_are_answered()

    def test_clients_that_never_read(self):
        server = self.start("serve", self.model())
        before = memory_kib(server)
        for _ in range(66):
            self.connect(HELLO + liar.pull(1, b"large"))
        self.assert_honest_clients_are_answered()
        if not sanitized():
            self.assertLess(memory_kib(server) - before, 400 << 10)

    def test_clients_that_read_slowly(self):
        self.start("serve", self.model())
        clients = [self.connect(HELLO + liar.pull(1, b"large")) for _ in range(66)]
        stop = threading.Event()

        def dribble():
            while not stop.wait(0.02):
                for client in clients:
                    with contextlib.suppress(OSError):
                        client.recv(10, socket.MSG_DONTWAIT)
        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            self.assert_honest_clients_are_answered()
        finally:
            stop.set()
            thread.join()

    def test_half_frames_with_many_descriptors(self):
        server = self.start("serve", self.model(), limits=[(resource.RLIMIT_NOFILE, 1024)])
        file = liar.memory_file(4096)
        self.addCleanup(os.close, file)
        half = frame(2, 1, b"\x0a\x04pull", descriptors=253)[:20]
        for _ in range(10):
            liar.send_with(self.connect(HELLO), half, [file] * 253)
        self.assert_honest_clients_are_answered()
        self.assertLess(open_descriptors(server), 200)

    def test_few_descriptors(self):
        self.start("serve", self.model(), limits=[(resource.RLIMIT_NOFILE, 32)])
        for _ in range(100):
            self.connect(HELLO + LIST)
        self.assert_honest_clients_are_answered()

    def test_little_memory(self):
        if sanitized():
            self.skipTest("SKIPPED: a sanitizer needs the address space")
        server = self.start("serve", self.model(), limits=[(resource.RLIMIT_AS, 1 << 30)])
        for _ in range(100):
            self.connect(HELLO + liar.pull(1, b"large"))
        self.assert_honest_clients_are_answered()
        self.assertIsNone(server.poll())

    def test_a_flood_of_connections(self):
        self.start("serve", self.model())
        stop = threading.Event()
        data = (b"", HELLO, HELLO[:20], b"GET / HTTP/1.1\r\n\r\n", HELLO + LIST, HELLO + liar.pull(1, b"large"))

        def flood():
            while not stop.is_set():
                with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
                    client.settimeout(1)
                    client.connect(self.sock)
                    client.sendall(self.random.choice(data))
        threads = [threading.Thread(target=flood) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            self.assert_honest_clients_are_answered(10)
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    @contextlib.contextmanager
    def asking(self, processes, count, name, **how):
        """Processes that have `count` connections each and ask for a tensor all the time (liar.keep_asking)."""
        children = []
        for _ in range(processes):
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    liar.keep_asking(self.sock, count, name, **how)
                os._exit(1)
            children.append(child)
        try:
            time.sleep(1)
            yield
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

    def test_busy_clients(self):
        """More clients than there are places; none of them is ever silent."""
        self.start("serve", self.model())
        with self.asking(2, 36, b"small", pause=0.01):
            self.assert_honest_clients_are_answered(10)

    def test_busy_clients_of_many_processes(self):
        self.start("serve", self.model())
        with self.asking(8, 9, b"small", pause=0.01):
            self.assert_honest_clients_are_answered(10)

    def test_large_answers_that_are_read_just_fast_enough(self):
        """Many more of them than fit into the memory for answers."""
        self.start("serve", self.model())
        with self.asking(1, 66, b"large", pause=0, rate=6 << 20):
            self.assert_honest_clients_are_answered(10)

    # ---- Requests that are wrong ------------------------------------------------------------------------------------

    def test_large_requests(self):
        server = self.start("serve", self.model())
        before = memory_kib(server)
        for size in (64 << 10, 1 << 20, 1 << 31, 1 << 63):
            for sizes in ((size + 1, 0), (5, size)):
                self.assert_cut_off(self.connect(HELLO + liar.claim(2, 1, *sizes) + bytes(1000)))
        clients = [self.connect(HELLO + liar.claim(2, 1, 60 << 10) + bytes(50 << 10)) for _ in range(60)]
        self.assert_honest_clients_are_answered()
        del clients
        if not sanitized():
            self.assertLess(memory_kib(server, "VmHWM") - before, 32 << 10)

    def test_frames_that_are_no_requests(self):
        self.start("serve", self.model())
        for data in (frame(3, 1, b"\x0a\x04list\x10\x01"), frame(2, 1, b"\x0a\x04list"), frame(2, 2, b"\x10\x01"),
                     HELLO, frame(4, 1), frame(5, 1)):
            self.assert_cut_off(self.connect(HELLO + data))
        self.assert_honest_clients_are_answered()

    def test_mutated_frames(self):
        server = self.start("serve", self.model())
        good = HELLO + LIST + liar.pull(2, b"small") + liar.pull(3, b"small")
        for _ in range(300):
            data = bytearray(good)
            for _ in range(self.random.randint(1, 4)):
                where = self.random.randrange(len(data))
                data[where:where + self.random.randint(0, 2)] = self.random.randbytes(self.random.randint(0, 2))
            with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
                client.connect(self.sock)
                client.sendall(data)
        self.assert_honest_clients_are_answered()
        self.assertIsNone(server.poll())

    # ---- Descriptors -------------------------------------------------------------------------------------------------

    def test_strange_descriptors_for_a_server(self):
        server = self.start("serve", self.model())
        with self.strange_descriptors() as kinds:
            for what, file in kinds:
                descriptor = file() if callable(file) else file
                with self.subTest(what):
                    for data in (frame(2, 1, b"\x0a\x04pull\x10\x01", descriptors=1), b"\n"):
                        client = self.connect(HELLO)
                        if liar.send_with(client, data, [descriptor]):
                            self.assert_cut_off(client)
                    if what == "lingering socket":  # the server has the last one
                        self.close_elsewhere(descriptor)
                    self.assert_honest_clients_are_answered(2)
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(5 + WAIT_SECONDS), 128 + signal.SIGTERM)


if __name__ == "__main__":
    case_report.main("attack_servers")
