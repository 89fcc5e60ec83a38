#!/usr/bin/env python3
"""send, recv and serve, as their users run them: with peers that are many, slow, silent, wrong or killed."""

import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support", "../attack"))
import case_report  # noqa: E402
import liar  # noqa: E402
import serve_load  # noqa: E402
from liar import HELLO, LIST, frame  # noqa: E402
from tool_testing import (  # noqa: E402
    EXTENSION_ONLY,
    TOOL,
    TRACED,
    Scratch,
    emulated,
    is_listened_to,
    leb128,
    run,
    sanitized,
    with_strace,
)


def tensor_frame(sequence, name):
    """What `send` says of an int8 scalar of this name."""
    extension = b"\x0a" + leb128(len(name)) + name
    message = b"\x08\x06\x12\x00\x22\x01\x07\x82\x80\x02" + leb128(len(extension)) + extension
    entry = b"\xb0\x01" + leb128(len(message))
    return frame(2, sequence, b"\x0a\x06tensor\x10" + leb128(sequence) + b"\x2a" + leb128(len(entry)) + entry, message)


class Exchange(Scratch):
    def start(self, *arguments, **options):
        process = subprocess.Popen([TOOL, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   **{"stderr": subprocess.PIPE, **options}, encoding="utf-8")
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def listening(self, *arguments, **options):
        """A server or receiver, once its socket is there."""
        process = self.start(*arguments, "--unix", self.path("sock"), **options)
        while not is_listened_to(self.path("sock")):
            self.assertIsNone(process.poll(), process.poll() is not None and process.stderr.read())
            time.sleep(0.01)
        return process

    def connect(self, *frames):
        """A peer made by hand that has said these."""
        peer = socket.socket(socket.AF_UNIX)
        self.addCleanup(peer.close)
        peer.connect(self.path("sock"))
        peer.settimeout(60)
        peer.sendall(b"".join(frames))
        return peer

    def assert_cut_off(self, peer):
        try:
            while peer.recv(4096):
                pass
        except ConnectionResetError:
            pass

    def listed(self, path):
        done = run("ls", "--json", "--checksum", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        tensors = json.loads(done.stdout)["tensors"]
        for tensor in tensors:  # the other side has them elsewhere
            tensor["shard"] = tensor["offset"] = None
        return tensors

    def stop(self, process, number):
        process.send_signal(number)
        self.assertEqual(process.wait(60), 128 + number, process.stderr.read())
        self.assertFalse(os.path.exists(self.path("sock")))

    def test_send_and_recv(self):
        tagged = self.tagged(b"\x12\x06cuda:0" + b"\x4a\x09\x0a\x04unit\x12\x01m")
        path = self.write("g.pbtxt", EXTENSION_ONLY)
        self.assertEqual(run("convert", "--format", "tensorproto-text", path, self.path("g")).returncode, 0)
        for prefix in (tagged, self.path("g"), self.sliced()):
            receiver = self.listening("recv", "--overwrite", self.path("copy"))
            done = run("send", prefix, "--unix", self.path("sock"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(receiver.wait(60), 0, receiver.stderr.read())
            self.assertFalse(os.path.exists(self.path("sock")))
            wanted = self.listed(prefix)
            for tensor in wanted:
                if tensor["encoding"] == "sliced":
                    tensor["encoding"] = "plain"
            self.assertEqual(self.listed(self.path("copy")), wanted)

    def test_what_the_new_file_cannot_hold_is_said(self):
        tagged = self.tagged(b"\x12\x06cuda:0" + b"\x4a\x09\x0a\x04unit\x12\x01m")
        path = self.write("g.pbtxt", EXTENSION_ONLY)
        self.assertEqual(run("convert", "--format", "tensorproto-text", path, self.path("g")).returncode, 0)
        for prefix, lost in ((tagged, "metadata"), (self.path("g"), "strides")):
            receiver = self.listening("recv", self.path("copy.safetensors"))
            done = run("send", prefix, "--unix", self.path("sock"))
            self.assert_one_line(done, 1, f"has {lost}, which a safetensors file cannot hold", "recv --allow-loss")
            self.assertEqual(receiver.wait(60), 1)
            self.assertFalse(os.path.exists(self.path("copy.safetensors")))
            receiver = self.listening("recv", "--allow-loss", "--overwrite", self.path("lossy.safetensors"))
            self.assertEqual(run("send", prefix, "--unix", self.path("sock")).returncode, 0)
            self.assertEqual(receiver.wait(60), 0, receiver.stderr.read())
            self.assertIn("lost: tensor", receiver.stdout.read())

    def test_what_the_receiver_cannot_save_the_sender_hears(self):
        prefix = self.checkpoint()
        before = sorted(os.listdir(self.folder))
        receiver = self.listening("recv", self.path("x.pb"))
        self.assert_one_line(run("send", prefix, "--exclude", "*", "--unix", self.path("sock")), 1, "0 came")
        self.assertEqual(receiver.wait(60), 2)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_a_sender_that_dies_leaves_no_file(self):
        before = sorted(os.listdir(self.folder))
        receiver = self.listening("recv", self.path("copy"))
        self.connect(HELLO, tensor_frame(1, b"a"), tensor_frame(2, b"b")[:70]).close()
        self.assertEqual(receiver.wait(60), 1)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_who_is_no_sender_does_not_end_a_receiver(self):
        prefix = self.checkpoint()
        receiver = self.listening("recv", self.path("copy"))
        self.connect().close()
        self.connect(b"TCX\n").close()
        done = run("ls", "unix:" + self.path("sock"))
        self.assert_one_line(done, 1, "this is a `tensorcask recv`, which only takes what `send` sends")
        self.assertEqual(run("send", prefix, "--unix", self.path("sock")).returncode, 0)
        self.assertEqual(receiver.wait(60), 0)
        self.assertEqual(self.listed(self.path("copy")), self.listed(prefix))
        self.listening("serve", prefix)
        done = run("send", prefix, "--unix", self.path("sock"))
        self.assert_one_line(done, 1, "this is a `tensorcask serve`", "a `tensorcask recv` takes what `send` sends")

    def test_interrupts(self):
        prefix = self.checkpoint()
        before = sorted(os.listdir(self.folder))
        for number in (signal.SIGINT, signal.SIGTERM):
            self.stop(self.listening("recv", self.path("copy")), number)
            self.stop(self.listening("serve", prefix), number)
            receiver = self.listening("recv", self.path("copy"))
            with socket.socket(socket.AF_UNIX) as sender:  # says nothing
                sender.connect(self.path("sock"))
                time.sleep(0.3)
                self.stop(receiver, number)
            self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_serve_answers_every_command_that_reads(self):
        tagged = self.tagged(b"\x12\x06cuda:0" + b"\x4a\x09\x0a\x04unit\x12\x01m")
        path = self.write("g.pbtxt", EXTENSION_ONLY)
        self.assertEqual(run("convert", "--format", "tensorproto-text", path, self.path("g")).returncode, 0)
        zeros = self.write("z.pbtxt", "dtype: DT_INT32 tensor_shape { dim { size: 50000 } }")
        done = run("convert", "--format", "tensorproto-text", "--level", "default", zeros, self.path("z"))
        self.assertEqual(done.returncode, 0, done.stderr)
        server = self.listening("serve", self.path("g"), tagged, self.path("z"))
        served = "unix:" + self.path("sock")
        listed = [tensor for prefix in (self.path("g"), tagged, self.path("z")) for tensor in self.listed(prefix)]
        self.assertEqual(self.listed(served), listed)
        self.assertEqual(listed[2]["bytes"], 200000)
        self.assertRegex(run("ls", served).stdout, r"z .* encoded default, 0\.\d %\n")
        self.assertEqual(run("show", "--slice", "1,1:0,2", served, "g").stdout, "int8 [1,2]\n[[2 4]]\n")
        self.assertEqual(run("convert", "--include", "w", served, self.path("copy")).returncode, 0)
        self.assertEqual(self.listed(self.path("copy")), self.listed(tagged))
        self.assert_one_line(run("show", served, "v"), 1, 'no tensor "v"')
        self.assert_one_line(run("show", "--slice", "5,5:-", served, "g"), 1, "axis 0")
        self.assert_one_line(run("serve", tagged, "--unix", self.path("sock")), 1, "sock")
        self.stop(server, signal.SIGTERM)
        self.assert_one_line(run("ls", served), 1, "sock")
        self.assert_one_line(run("serve", tagged, tagged, "--unix", self.path("sock")), 2, 'two tensors are called "w"')

    def test_metadata_that_does_not_go_along_is_said(self):
        header = b'{"__metadata__":{"epoch":"3"},"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}'
        path = self.path("m.safetensors")
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + b"\1\2")
        sentence = f"{path}: the file has metadata (\"epoch\"), which a records file cannot hold\n"
        receiver = self.listening("recv", self.path("received.safetensors"))
        done = run("send", path, "--unix", self.path("sock"))
        self.assertEqual((done.returncode, done.stderr), (0, "tensorcask send: left out: " + sentence))
        self.assertEqual(receiver.wait(60), 0, receiver.stderr.read())
        done = subprocess.run([TOOL, "cat", path], capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, "tensorcask cat: left out: " + sentence))
        server = self.listening("serve", path)
        done = run("convert", "unix:" + self.path("sock"), self.path("served.safetensors"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not served: " + sentence, done.stderr)
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.communicate(timeout=60)[1], "tensorcask serve: not served: " + sentence)

    def test_serve_says_what_it_overlooked(self):
        path = self.path("w.safetensors")
        header = json.dumps({"w": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + b"\1\2\0\0\0\0")
        server = self.listening("serve", "--lenient", path)
        server.send_signal(signal.SIGTERM)
        self.assertRegex(server.communicate(timeout=60)[1], r"^tensorcask serve: .*: 4 bytes behind the last tensor")

    def test_a_checkpoint_without_its_data_is_not_served(self):
        prefix = self.checkpoint()
        os.remove(prefix + ".data-00000-of-00001")
        self.assert_one_line(run("serve", prefix, "--unix", self.path("sock")), 1, "data-00000-of-00001")
        self.assertFalse(os.path.exists(self.path("sock")))

    def test_strangers_and_sixteen_clients_at_once(self):
        prefix = self.checkpoint()
        server = self.listening("serve", prefix)
        served = "unix:" + self.path("sock")
        wanted = run("show", prefix, "w").stdout

        def resident():
            with open(f"/proc/{server.pid}/status", encoding="utf-8") as file:
                return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])

        after_round = []
        for _ in range(4):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(self.path("sock"))
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
                clients = [self.start("show", served, "w") for _ in range(16)]
                for client in clients:
                    out, err = client.communicate(timeout=60)
                    self.assertEqual((client.returncode, out, err), (0, wanted, ""))
            after_round.append(resident())
        self.assertIsNone(server.poll())
        if not sanitized():
            self.assertLess(after_round[-1] - after_round[0], 4096, "KiB")
        self.stop(server, signal.SIGINT)

    # ---- Signals ----------------------------------------------------------------------------------------------------

    def test_an_interrupt_in_the_middle_leaves_no_file(self):
        before = sorted(os.listdir(self.folder))
        half = tensor_frame(2, b"b")[:60]
        for number in (signal.SIGINT, signal.SIGTERM):
            for sent in (HELLO, HELLO + tensor_frame(1, b"a"), HELLO + tensor_frame(1, b"a") + half):
                receiver = self.listening("recv", self.path("copy"))
                sender = self.connect(sent)
                if len(sent) > len(HELLO):
                    sender.recv(4096)  # it has begun
                self.stop(receiver, number)
                self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_an_interrupt_ends_a_sender_that_nobody_hears(self):
        path = self.large()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path("sock"))
            listener.listen()
            for number in (signal.SIGINT, signal.SIGTERM):
                sender = self.start("send", "--format", "tensorproto", path, "--unix", self.path("sock"))
                with listener.accept()[0] as receiver:
                    receiver.recv(1)
                    sender.send_signal(number)
                    out, err = sender.communicate(timeout=60)
                    self.assertEqual((sender.returncode, out, err), (128 + number, "", ""))

    def test_an_interrupt_ends_a_server_with_clients(self):
        server = self.listening("serve", "--format", "tensorproto", self.large())
        quiet = self.connect(HELLO + LIST)
        quiet.recv(1)
        pull = frame(2, 1, b"\x0a\x04pull\x10\x01")
        clients = [self.connect(), self.connect(HELLO), self.connect(HELLO + pull[:50]), quiet]
        self.stop(server, signal.SIGTERM)
        for client in clients:
            self.assert_cut_off(client)

    # ---- Progress ---------------------------------------------------------------------------------------------------

    def test_progress_is_for_terminals(self):
        prefix = self.checkpoint()
        self.assertEqual(run("convert", prefix, self.path("x.tfrecord")).returncode, 0)
        with open(self.path("x.tfrecord"), "rb") as records:
            for command, says in ((["convert", "--overwrite", prefix, self.path("c")], "converting 1/1 24 B"),
                                  (["save", "--overwrite", self.path("c")], "saving 1 24 B"),
                                  (["recv", "--overwrite", self.path("c")], "receiving 1 24 B"),
                                  (["send", prefix], "sending 1/1 24 B"),
                                  (["serve", prefix], "1 client, 1 answer, ")):
                records.seek(0)
                leader, terminal = pty.openpty()
                process = {
                    "recv": lambda: self.listening(*command, stderr=terminal),
                    "send": lambda: self.start(*command, "--unix", self.path("sock"), stderr=terminal),
                    "serve": lambda: self.listening(*command, stderr=terminal),
                }.get(command[0], lambda: subprocess.Popen([TOOL, *command], stdin=records, stdout=subprocess.DEVNULL,
                                                           stderr=terminal))
                other = None
                if command[0] == "send":
                    other = self.listening("recv", "--overwrite", self.path("c"))
                process = process()
                if command[0] == "recv":
                    self.assertEqual(run("send", prefix, "--unix", self.path("sock")).returncode, 0)
                shown = ""
                if command[0] == "serve":
                    with self.connect(HELLO + LIST):
                        while says not in shown:
                            shown += os.read(leader, 4096).decode()
                    process.send_signal(signal.SIGINT)
                process.wait(60)
                if other:
                    out, err = other.communicate(timeout=60)
                    self.assertEqual((other.returncode, err), (0, ""), "no terminal, no progress")
                os.close(terminal)
                try:
                    while piece := os.read(leader, 4096).decode():
                        shown += piece
                except OSError:  # the end of a terminal
                    pass
                os.close(leader)
                self.assertIn("\r" + says, shown, command)
                self.assertTrue(shown.endswith("\r\x1b[K"), (command, shown))

    # ---- Peers that are slow, silent or too many --------------------------------------------------------------------

    def test_a_silent_peer_is_given_up(self):
        before = sorted(os.listdir(self.folder))
        for sent in (b"", HELLO[:20], HELLO, HELLO + tensor_frame(1, b"a"), HELLO + tensor_frame(1, b"a")[:70]):
            receiver = self.listening("recv", "--timeout", "0.2", self.path("copy"))
            self.connect(sent)
            out, err = receiver.communicate(timeout=60)
            self.assertEqual((receiver.returncode, out, err.count("\n")), (1, "", 1), err)
            self.assertIn("deadline", err)
            self.assertEqual(sorted(os.listdir(self.folder)), before)
        prefix = self.checkpoint()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path("sock"))
            listener.listen()
            done = run("send", "--timeout", "0.2", prefix, "--unix", self.path("sock"))
            self.assert_one_line(done, 1, "deadline")

    def test_a_client_must_ask_in_time_and_may_be_quiet_after_that(self):
        server = self.listening("serve", "--timeout", "0.2", self.checkpoint())
        asked = self.connect(HELLO + LIST)
        asked.recv(1)
        for sent in (b"", HELLO[:20], HELLO, HELLO + LIST[:50]):
            self.assert_cut_off(self.connect(sent))
        asked.sendall(liar.ask_for_list(2))
        while True:
            received = asked.recv(4096)
            self.assertNotEqual(received, b"")
            if frame(3, 2)[:7] in received:  # the header of a reply
                break
        asked.sendall(liar.ask_for_list(3)[:50])  # and then nothing more
        self.assert_cut_off(asked)
        self.stop(server, signal.SIGTERM)

    def test_idle_clients_make_room(self):
        server = self.listening("serve", self.checkpoint())
        clients = [self.connect(HELLO) for _ in range(200)]
        self.assertEqual(run("show", "unix:" + self.path("sock"), "w").returncode, 0)
        self.assertLess(len(serve_load.descriptors(server)), 64 + 20)
        for client in clients:
            client.close()
        self.stop(server, signal.SIGTERM)

    def test_ten_thousand_that_go_leave_nothing_behind(self):
        prefix = self.checkpoint()
        server = self.listening("serve", prefix)
        served = "unix:" + self.path("sock")
        garbage = b"GET / HTTP/1.1\r\n\r\n" * 10
        sendings = (b"", HELLO[:20], HELLO, garbage, HELLO + LIST[:60], HELLO + LIST)
        shared = frame(2, 1, b"\x0a\x04pull", descriptors=2)
        file = os.memfd_create("file")
        self.addCleanup(os.close, file)
        held = []
        for count in (2000, 10000):
            for number in range(count):
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(self.path("sock"))
                    try:
                        if number % 7 == 6:  # descriptors on their way
                            client.sendall(HELLO)
                            socket.send_fds(client, [shared[:30]], [file, file])
                        else:
                            client.sendall(sendings[number % 7])
                    except (BrokenPipeError, ConnectionResetError, PermissionError):  # it has had enough, or takes none
                        pass
            self.assertEqual(run("show", served, "w").returncode, 0)
            held.append((serve_load.settled_descriptors(server), serve_load.resident_kib(server)))
        (descriptors, resident), (descriptors_after, resident_after) = held
        self.assertEqual(descriptors, descriptors_after)
        if not sanitized() and not emulated(server):
            # The least that malloc can lose, 32 bytes for each of 10,000 clients, is more than this.
            self.assertLess(resident_after, resident + 300, "KiB")
        self.stop(server, signal.SIGINT)

    def test_sixteen_clients_for_some_seconds(self):
        count, errors, before, after = serve_load.load(4)
        self.assertEqual(errors, [])
        self.assertGreater(count, 0)
        if not sanitized():
            self.assertLess(after, before * 1.25, "KiB")  # serve_load.py itself, in a minute, sees less

    # ---- Killed -----------------------------------------------------------------------------------------------------

    def start_killed(self, number, *arguments):
        """A command that strace kills at this of its system calls; of all of them, if EVERY_SYSTEM_CALL is set."""
        calls = "all" if os.environ.get("EVERY_SYSTEM_CALL") else "%network,poll"
        inject = f"inject={calls}:signal=KILL:when={number}"
        command = ["strace", "-f", "-o", "/dev/null", "-e", inject, TOOL, *arguments, "--unix", self.path("sock")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   encoding="utf-8", env=TRACED)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    @with_strace
    def test_a_sender_killed_at_any_call(self):
        prefix = self.checkpoint()
        wanted = self.listed(prefix)
        before = set(os.listdir(self.folder))
        failed = 0
        sent = None
        number = 0
        while sent != 0:
            number += 1
            receiver = self.listening("recv", self.path("copy"))
            sender = self.start_killed(number, "send", prefix)
            sender.communicate(timeout=60)
            sent = sender.returncode
            try:  # If it was killed before it sent a tensor, this one does, and dies.
                self.connect(HELLO, tensor_frame(1, b"a")).close()
            except OSError:
                pass
            out, err = receiver.communicate(timeout=60)
            if receiver.returncode == 0:
                self.assertEqual(self.listed(self.path("copy")), wanted)
                for name in set(os.listdir(self.folder)) - before:
                    os.remove(self.path(name))
            else:
                failed += 1
                self.assertEqual((receiver.returncode, out, err.count("\n")), (1, "", 1), err)
            self.assertEqual(set(os.listdir(self.folder)), before)
        self.assertGreater(failed, 1)

    @with_strace
    def test_a_receiver_killed_at_any_call(self):
        prefix = self.checkpoint()
        failed = 0
        received = None
        number = 0
        while received != 0:
            number += 1
            receiver = self.start_killed(number, "recv", "--overwrite", self.path("copy"))
            while not is_listened_to(self.path("sock")) and receiver.poll() is None:
                time.sleep(0.01)
            done = run("send", prefix, "--unix", self.path("sock"))
            receiver.communicate(timeout=60)
            received = receiver.returncode
            if done.returncode == 0:
                self.assertEqual(self.listed(self.path("copy")), self.listed(prefix))
            else:
                failed += 1
                self.assert_one_line(done, 1, "sock")
                self.assertNotEqual(received, 0)
            # What a killed process had made is there still. The next one takes the place of its socket.
        self.assertGreater(failed, 1)


if __name__ == "__main__":
    case_report.main("exchange")
