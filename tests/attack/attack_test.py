#!/usr/bin/env python3
"""Attacks on serve, recv and the commands that read from a server, each with a time limit.

As a test: a short form. By hand, for as long as is asked, with the worst wait of an honest client printed:

    TENSORCASK=bazel-bin/tools/tensorcask tests/attack/attack_test.py --seconds 600
"""

import contextlib
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder)
                for folder in (".", "../support", "../tools"))
import case_report  # noqa: E402
import liar  # noqa: E402
from liar import HELLO, LIST, frame  # noqa: E402
from tool_testing import TOOL, Scratch, leb128, run, sanitized  # noqa: E402

WAIT_SECONDS = 10 if sanitized() else 1  # for an honest client, under attack
LARGE_BYTES = 8 << 20
SEED = int(os.environ.get("ATTACK_SEED", "1"))
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
        self.random = random.Random(SEED)
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
            if arguments[0] != "serve" and os.path.exists(self.sock):
                time.sleep(0.05)
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

    # ---- Descriptors ------------------------------------------------------------------------------------------------

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

    def test_strange_descriptors_for_a_receiver(self):
        with self.strange_descriptors() as kinds:
            for what, file in kinds:
                receiver = self.start("recv", "--timeout", "2", self.path("copy"))
                descriptor = file() if callable(file) else file
                with self.subTest(what):
                    sender = self.connect(HELLO)
                    liar.send_with(sender, liar.shared_tensor(1, b"w", 1000), [descriptor])
                    if what == "lingering socket":  # the receiver has the last one
                        os.close(descriptor)
                    self.assertEqual(receiver.wait(5 + WAIT_SECONDS), 1)
                    self.assertFalse(os.path.exists(self.path("copy.index")))

    # ---- Shared memory that changes ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def racing_memory(self, count):
        """A memory file of `count` float32, sealed as a sender must, that another process changes all the time."""
        file = os.memfd_create("racing", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.posix_fallocate(file, 0, 4 * count)
        writer = subprocess.Popen(
            [sys.executable, "-c", "import mmap,os\nm = mmap.mmap(%d, 0)\nprint('ready', flush=True)\n"
             "while True:\n  for i in range(0, len(m), 4096):\n    m[i] = (m[i] + 1) & 255\n" % file],
            pass_fds=[file], stdout=subprocess.PIPE)
        try:
            writer.stdout.readline()
            liar.fcntl.fcntl(file, liar.F_ADD_SEALS, liar.SEALS)
            yield file
        finally:
            writer.kill()
            writer.communicate()
            os.close(file)

    def assert_verifies(self, prefix):
        done = run("verify", prefix)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_is_saved_while_it_changes_verifies(self):
        count = 1 << 18
        for number in range(int(os.environ.get("ATTACK_RACES", "4"))):
            receiver = self.start("recv", "--overwrite", *(("--level", "default") if number % 2 else ()),
                                  self.path("copy"))
            with self.racing_memory(count) as file:
                sender = self.connect(HELLO)
                liar.send_with(sender, liar.shared_tensor(1, b"w", count), [file])
                sender.sendall(liar.end_of_tensors(2))
                self.assertEqual(receiver.wait(30), 0)
            self.assert_verifies(self.path("copy"))

    def test_what_is_converted_from_a_server_while_it_changes_verifies(self):
        count = 1 << 18
        with self.racing_memory(count) as file:
            self.serve_list([[b"w", b"float32", b"%d" % count, b"", b"plain", b"%d" % (4 * count), b"0", b""]], file)
            for number in range(int(os.environ.get("ATTACK_RACES", "4"))):
                level = ("--level", "default") if number % 2 else ()
                done = run("convert", "--overwrite", *level, "unix:" + self.sock, self.path("copy"))
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assert_verifies(self.path("copy"))

    def test_memory_whose_owner_writes_without_end(self):
        folder = self.path("mount")
        os.mkdir(folder)
        try:
            fuse = liar.FuseFile(folder)
        except OSError:
            self.skipTest("SKIPPED: no FUSE")
        self.addCleanup(fuse.close)
        # Before Linux 6.16 the seals do not keep a writer from holding the file's lock.
        knows_seals_first = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 16)
        writers = []
        for sealed in (True, False) if knows_seals_first else (False,):
            receiver = self.start("recv", "--overwrite", "--timeout", "2", self.path("copy"))
            file = liar.memory_file(4096, sealed)
            writers.append(liar.write_without_end(file, fuse))
            try:
                time.sleep(0.2)
                sender = self.connect(HELLO)
                liar.send_with(sender, liar.shared_tensor(1, b"w", 1000), [file])
                with contextlib.nullcontext() if sealed else contextlib.suppress(BrokenPipeError):
                    sender.sendall(liar.end_of_tensors(2))  # the receiver may have refused the memory already
                self.assertEqual(receiver.wait(5 + WAIT_SECONDS), 0 if sealed else 1, sealed)
            finally:
                os.kill(writers[-1], signal.SIGKILL)
                self.close_elsewhere(file)
            if sealed:
                self.assert_verifies(self.path("copy"))
        fuse.close()
        for writer in writers:
            os.waitpid(writer, 0)

    # ---- What a receiver and the options refuse ---------------------------------------------------------------------

    def test_replies_for_a_receiver(self):
        receiver = self.start("recv", "--timeout", "2", self.path("copy"))
        sender = self.connect(HELLO)
        liar.send_with(sender, liar.shared_tensor(1, b"w", 1000, kind=3), [liar.memory_file(4096)])
        self.assertEqual(receiver.wait(5 + WAIT_SECONDS), 1)
        self.assertFalse(os.path.exists(self.path("copy.index")))

    def test_numbers_that_no_option_can_be(self):
        prefix = self.model()
        for number in ("99999999999999999999", "-99999999999999999999", "1e99", "nan", "-1", "+1", "1.5", "0x10",
                       "1'000", " 1", "", "\xff"):
            self.assert_one_line(run("show", "--max", number, prefix, "small"), 2, "--max")
            copy = self.path("never")
            self.assert_one_line(run("convert", "--alignment", number, prefix, copy), 2, "--alignment")
            self.assert_one_line(run("save", "--limit", number, copy), 2, "--limit")
        for number in ("99999999999999999999", "-99999999999999999999", "1e99", "nan", "-1"):
            for command in (("serve", prefix), ("recv", self.path("copy")), ("send", prefix)):
                if number != "1e99":
                    done = run(*command, "--unix", self.sock, "--timeout", number)
                    self.assertEqual(done.returncode, 2, (command, number, done.stderr))
        self.assertEqual(run("serve", prefix, "--unix", self.sock, "--max", "1").returncode, 2)
        self.assertFalse(os.path.exists(self.sock))

    # ---- Servers that lie -------------------------------------------------------------------------------------------

    def serve_list(self, rows, shared=None):
        """A server that answers "list" with these rows, and every "pull" with a scalar, or with the file `shared`."""
        listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.sock)
        listener.bind(self.sock)
        listener.listen()
        texts = [text for row in rows for text in row]

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    client = listener.accept()[0]
                    client.sendall(HELLO)
                    number = 0
                    while (received := liar.receive_frame(client)) is not None:
                        if received[0] != 2:
                            continue
                        number += 1
                        if shared is not None and b"list" not in received[1]:
                            count = os.fstat(shared).st_size // 4
                            liar.send_with(client, liar.shared_tensor(number, b"w", count, kind=3), [shared])
                            continue
                        tensor = (liar.strings_tensor([len(rows), 8], texts) if b"list" in received[1]
                                  else b"\x08\x01\x12\x00\x22\x04abcd")
                        client.sendall(liar.message(3, number, b"", number, [tensor]))
        threading.Thread(target=serve, daemon=True).start()
        self.addCleanup(listener.close)

    def test_hostile_text_in_every_column(self):
        good = [b"w", b"float32", b"", b"", b"plain", b"4", b"0", b""]
        hostile = (b"\xff\xfe", b"\x1b[2J", b"a\nb", b"", b"\0", b"x" * 5000, b"99999999999999999999", b"-1", b"1,2",
                   "\u202e".encode(), b"%s%n")
        for column in range(8):
            for text in hostile if column in (0, 4) else hostile[:3] + hostile[6:9]:
                self.serve_list([[*good[:column], text, *good[column + 1:]]])
                for command in (("ls", "--json"), ("ls",), ("ls", "--tree"))[:3 if column == 0 else 2]:
                    done = subprocess.run([TOOL, *command, "unix:" + self.sock], capture_output=True, timeout=20,
                                          check=False)
                    self.assertIn(done.returncode, (0, 1), (column, text, done))
                    for output in (done.stdout, done.stderr):
                        bad = [byte for byte in output if not 32 <= byte < 127 and byte != 10]
                        self.assertEqual(bad, [], (column, text, output))
        self.serve_list([good])
        self.assertEqual(run("show", "unix:" + self.sock, "w").returncode, 0)
        self.serve_list([good, good])
        self.assert_one_line(run("ls", "unix:" + self.sock), 1, "once")
        self.serve_list([[b"w", b"float64", b"", b"", b"plain", b"8", b"0", b""]])
        self.assert_one_line(run("show", "unix:" + self.sock, "w"), 1, "the server's list says")


    def test_long_and_hostile_messages_of_a_peer(self):
        """A peer's error is printed in one short line: by commands that read, and by `send`."""
        prefix = self.model()
        for text in (b"x" * 100_000, b"\x1b[2J\na\0\xff" * 2000, ("\u202e" * 9000).encode(), b"gone"):
            self.answer_with(lambda number, text=text: frame(
                3, number, liar.field(1, b"t") + b"\x10" + leb128(number) + b"\x18\x05" + liar.field(4, text)))
            for command in (("ls", "unix:" + self.sock), ("send", prefix, "--unix", self.sock)):
                done = subprocess.run([TOOL, *command], capture_output=True, timeout=20, check=False)
                self.assertEqual((done.returncode, done.stdout), (1, b""), (command, text[:9]))
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr[:300])
                self.assertLess(len(done.stderr), 5000)
                self.assertEqual([byte for byte in done.stderr if not 32 <= byte < 127 and byte != 10], [])
                self.assertIn(b"gone" if text == b"gone" else b"(%d bytes)" % len(text), done.stderr)

    def answer_with(self, reply):
        """A server that answers each request with reply(its number)."""
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
                            client.sendall(reply(number))
        threading.Thread(target=serve, daemon=True).start()


def attack_for(seconds):
    """Runs all attacks again and again, with other random numbers; 1 if one of them succeeded."""
    global SEED  # pylint: disable=global-statement
    import unittest  # pylint: disable=import-outside-toplevel
    os.environ["ATTACK_RACES"] = "20"
    until = time.monotonic() + seconds
    failed = False
    rounds = 0
    while time.monotonic() < until:
        rounds += 1
        SEED += 1
        suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
        failed |= not unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful()
    print(f"{rounds} rounds; the worst wait of an honest client under each attack:")
    for name, wait in sorted(worst_waits.items(), key=lambda item: -item[1]):
        print(f"  {wait:6.3f} s  {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    if "--seconds" in sys.argv[1:]:
        sys.exit(attack_for(float(sys.argv[sys.argv.index("--seconds") + 1])))
    case_report.main("attack")
