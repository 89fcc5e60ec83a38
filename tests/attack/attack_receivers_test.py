#!/usr/bin/env python3
"""Attacks on recv, send and the commands that read from a server: memory that changes, replies and lists that lie."""

import contextlib
import os
import signal
import subprocess
import sys
import time

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder)
                for folder in (".", "../support", "../tools"))
import case_report  # noqa: E402
import liar  # noqa: E402
from attacks import WAIT_SECONDS, Attack  # noqa: E402
from liar import HELLO, frame  # noqa: E402
from tool_testing import TOOL, leb128, run  # noqa: E402


class AttacksOnReceivers(Attack):
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
            self.serve_list([(b"w", b"plain", (1, 1, 4 * count, -1, 0), (count,))], file)
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

    def serve_list(self, rows, shared=None, version=1, notes=()):
        """A server that answers "list" with these rows and notes, and every "pull" with a scalar, or with the file `shared`."""
        def reply(client, number, request):
            if b"list" in request:
                return liar.list_reply(number, rows, version, notes)
            if shared is None:
                return liar.message(3, number, b"", number, [b"\x08\x01\x12\x00\x22\x04abcd"])
            count = os.fstat(shared).st_size // 4
            liar.send_with(client, liar.shared_tensor(number, b"w", count, kind=3), [shared])
            return b""
        self.answer_with(reply)

    def assert_answered_in_ascii(self, *commands):
        for command in commands:
            done = subprocess.run([TOOL, *command, "unix:" + self.sock], capture_output=True, timeout=20, check=False)
            self.assertIn(done.returncode, (0, 1), done)
            for output in (done.stdout, done.stderr):
                self.assertEqual([byte for byte in output if not 32 <= byte < 127 and byte != 10], [], output)

    def test_hostile_lists(self):
        good = (b"w", b"plain", (1, 0, 4, -1, 0), ())
        hostile = (b"\xff\xfe", b"\x1b[2J", b"a\nb", b"", b"\0", b"x" * 5000, "\u202e".encode(), b"%s%n")
        for text in hostile:
            self.serve_list([(text, *good[1:])])
            self.assert_answered_in_ascii(("ls", "--json"), ("ls",), ("ls", "--tree"))
            self.serve_list([(good[0], text, *good[2:])])
            self.assert_answered_in_ascii(("ls", "--json"), ("ls",))
            self.serve_list([good], notes=[text])
            self.assert_answered_in_ascii(("ls", "--json"), ("ls",), ("verify",), ("stats",))
        for column in range(5):
            for number in (-(1 << 63), -2, 1 << 62, (1 << 63) - 1):
                numbers = [*good[2][:column], number, *good[2][column + 1:]]
                self.serve_list([(*good[:2], numbers, ())])
                self.assert_answered_in_ascii(("ls", "--json"), ("ls",))
        for sizes in ((), (1,), (-1, 2), (1 << 62, 8), (1, 2, 3)):
            self.serve_list([(*good[:2], (1, 2, 4, -1, 0), sizes)])
            self.assert_one_line(run("ls", "unix:" + self.sock), 1, "the server's list: ")
        self.serve_list([good])
        self.assertEqual(run("show", "unix:" + self.sock, "w").returncode, 0)
        self.serve_list([good, good])
        self.assert_one_line(run("ls", "unix:" + self.sock), 1, "once")
        self.serve_list([(b"w", b"plain", (2, 0, 8, -1, 0), ())])
        self.assert_one_line(run("show", "unix:" + self.sock, "w"), 1, "the server's list says")

    def test_a_server_of_another_version(self):
        for version in (0, 2):
            self.serve_list([], version=version)
            self.assert_one_line(run("ls", "unix:" + self.sock), 1,
                                 f"the server speaks version {version} of the protocol of served tensors, this client "
                                 "version 1; use the same version of Tensorcask on both sides")

    def test_long_and_hostile_messages_of_a_peer(self):
        """A peer's error is printed in one short line: by commands that read, and by `send`."""
        prefix = self.model()
        for text in (b"x" * 100_000, b"\x1b[2J\na\0\xff" * 2000, ("\u202e" * 9000).encode(), b"gone"):
            self.answer_with(lambda _client, number, _request, text=text: frame(
                3, number, liar.field(1, b"t") + b"\x10" + leb128(number) + b"\x18\x05" + liar.field(4, text)))
            for command in (("ls", "unix:" + self.sock), ("send", prefix, "--unix", self.sock)):
                done = subprocess.run([TOOL, *command], capture_output=True, timeout=20, check=False)
                self.assertEqual((done.returncode, done.stdout), (1, b""), (command, text[:9]))
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr[:300])
                self.assertLess(len(done.stderr), 5000)
                self.assertEqual([byte for byte in done.stderr if not 32 <= byte < 127 and byte != 10], [])
                self.assertIn(b"gone" if text == b"gone" else b"(%d bytes)" % len(text), done.stderr)


if __name__ == "__main__":
    case_report.main("attack_receivers")
