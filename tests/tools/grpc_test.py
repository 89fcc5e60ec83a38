#!/usr/bin/env python3
"""serve --listen, and the commands that read grpc://HOST:PORT. Built where gRPC is installed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import EXTENSION_ONLY, TOOL, Scratch, run  # noqa: E402


def read_bytes(pid):
    """What a process has read so far."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            return int(re.search(r"rchar: (\d+)", file.read())[1])
    except OSError:
        return 0


class Grpc(Scratch):
    def serve(self, *operands):
        """The address of a server. Operands may be options."""
        self.process, address = self.start("serve", *operands, "--listen", "127.0.0.1:0",
                                           says=r"serving \d+ tensors?")  # fmt: skip
        return address

    def start(self, *arguments, says, **options):
        """A process that prints a line with its address, and that address."""
        process = subprocess.Popen([TOOL, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, encoding="utf-8", **options)  # fmt: skip
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        found = re.match(rf"(grpcs?://127\.0\.0\.1:\d+): {says}$", line)
        self.assertTrue(found, line or process.stderr.read())
        return process, found[1]

    def receive(self, destination, *options):
        return self.start("recv", destination, *options, "--listen", "127.0.0.1:0", says="waiting for a push")

    def certificate(self, name="own"):
        """The paths of a certificate for 127.0.0.1 that signs itself, and of its key."""
        pem = [self.path(f"{name}.crt"), self.path(f"{name}.key")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-out", pem[0], "-keyout", pem[1], "-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)  # fmt: skip
        return pem

    def listed(self, path):
        done = run("ls", "--json", "--checksum", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        tensors = json.loads(done.stdout)["tensors"]
        for tensor in tensors:  # the other side has them elsewhere
            tensor["shard"] = tensor["offset"] = None
        return tensors

    def test_every_command_that_reads(self):
        prefix = self.checkpoint()
        address = self.serve(prefix)
        self.assertEqual(self.listed(address), self.listed(prefix))
        self.assertEqual(run("stats", address).stdout.splitlines()[1:], run("stats", prefix).stdout.splitlines()[1:])
        self.assertEqual(run("diff", address, prefix).returncode, 0)
        self.assertEqual(run("verify", address).returncode, 0)
        name = self.listed(prefix)[0]["name"]
        self.assertEqual(run("show", address, name).stdout, run("show", prefix, name).stdout)
        self.assertEqual(run("convert", address, self.path("copy")).returncode, 0)
        self.assertEqual(run("diff", prefix, self.path("copy")).returncode, 0)

    def test_several_files_and_names(self):
        one, two = self.checkpoint("one.ckpt"), self.checkpoint("two.ckpt")
        address = self.serve(f"a={one}", f"b={two}")
        names = [tensor["name"] for tensor in self.listed(one)]
        wanted = [f"{prefix}/{name}" for prefix in "ab" for name in names]
        self.assertEqual([tensor["name"] for tensor in self.listed(address)], wanted)
        self.assertEqual(self.listed(address + "/b"), self.listed(two))
        self.assertEqual(run("diff", address + "/a", one).returncode, 0)

    def test_what_is_refused(self):
        prefix = self.checkpoint()
        self.assert_one_line(run("serve", prefix), 2, "wanted either --unix SOCKET or --listen HOST:PORT")
        self.assert_one_line(run("serve", prefix, prefix, "--listen", "127.0.0.1:0"), 2, "two tensors", "NAME=PATH")
        self.assert_one_line(run("serve", prefix, "--listen", "0.0.0.0:0"), 1, "no credentials")
        self.assert_one_line(run("serve", prefix, "--listen", "here"), 1, "wanted HOST:PORT")
        self.assert_one_line(run("ls", "grpc://127.0.0.1"), 1, "is not the address of a server")
        self.assert_one_line(run("ls", "grpc://127.0.0.1:1"), 1, "grpc://127.0.0.1:1: ", "no server listens there")
        self.assert_one_line(run("convert", prefix, "grpc://127.0.0.1:1"), 2, "a server is only read")

    @unittest.skipUnless(shutil.which("openssl"), "without openssl")
    def test_tls(self):
        prefix = self.checkpoint()
        pem = self.certificate()
        address = self.serve(prefix, "--certificate", pem[0], "--key", pem[1])
        self.assertTrue(address.startswith("grpcs://"))
        trusting = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": pem[0]}
        done = run("diff", address, prefix, env=trusting)
        self.assertEqual(done.returncode, 0, done.stderr)
        # No authority of the system has signed it.
        self.assert_one_line(run("ls", address), 1, "certificate verify failed", "TENSORCASK_GRPC_CA")
        self.assert_one_line(run("serve", prefix, "--listen", "127.0.0.1:0", "--key", pem[1]), 2, "TLS needs both")

    @unittest.skipUnless(shutil.which("openssl"), "without openssl")
    def test_what_clients_show(self):
        prefix = self.checkpoint()
        own, client = self.certificate(), self.certificate("client")
        with open(self.path("token"), "w", encoding="utf-8") as file:
            file.write("secret-1\n")
        with open(self.path("wrong"), "w", encoding="utf-8") as file:
            file.write("secret-2\n")
        tls = ["--certificate", own[0], "--key", own[1]]
        address = self.serve(prefix, *tls, "--token-file", self.path("token"))
        trusting = {**os.environ, "TENSORCASK_GRPC_CA": own[0]}
        self.assert_one_line(run("ls", address, env=trusting), 1, "the server wants a token")
        wrong = {**trusting, "TENSORCASK_GRPC_TOKEN_FILE": self.path("wrong")}
        self.assert_one_line(run("ls", address, env=wrong), 1, "the token is wrong")
        right = {**trusting, "TENSORCASK_GRPC_TOKEN_FILE": self.path("token")}
        self.assertEqual(run("diff", address, prefix, env=right).returncode, 0)
        missing = {**trusting, "TENSORCASK_GRPC_TOKEN_FILE": self.path("none")}
        self.assert_one_line(run("ls", address, env=missing), 1, "TENSORCASK_GRPC_TOKEN_FILE", self.path("none"))

        wrong = {**trusting, "TENSORCASK_GRPC_CA": self.path("token")}
        self.assert_one_line(run("ls", address, env=wrong), 1, "TENSORCASK_GRPC_CA", 'has no "CERTIFICATE" in PEM')
        swapped = ["--certificate", own[1], "--key", own[0]]
        self.assert_one_line(run("serve", prefix, "--listen", "127.0.0.1:0", *swapped), 1, 'has no "CERTIFICATE"')
        others = ["--certificate", own[0], "--key", client[1]]
        self.assert_one_line(run("serve", prefix, "--listen", "127.0.0.1:0", *others), 1, "belong together")
        self.assert_one_line(run("ls", address.replace("grpcs", "grpc")), 1, "does the server speak TLS?")

        address = self.serve(prefix, *tls, "--client-ca", client[0])
        self.assertEqual(run("ls", address, env=trusting).returncode, 1)
        shown = {**trusting, "TENSORCASK_GRPC_CERTIFICATE": client[0]}
        self.assert_one_line(run("ls", address, env=shown), 1, "set both")
        shown["TENSORCASK_GRPC_KEY"] = client[1]
        self.assertEqual(run("diff", address, prefix, env=shown).returncode, 0)

        process, address = self.receive(self.path("copy.npz"), *tls, "--token-file", self.path("token"))
        done = run("send", prefix, address, "--allow-loss", env=trusting)
        self.assert_one_line(done, 1, "the server wants a token")
        done = run("send", prefix, address, "--allow-loss", env=right)
        self.assertEqual((done.returncode, process.wait(60)), (0, 0), done.stderr)
        self.assert_one_line(run("serve", prefix, "--listen", "127.0.0.1:0", "--token-file", self.path("token")), 2,
                             "--token-file needs --certificate and --key")  # fmt: skip

    def test_send_and_receive(self):
        prefix = self.checkpoint()
        process, address = self.receive(self.path("copy.ckpt"))
        self.assert_one_line(run("ls", address), 1, "only takes what `send` sends")
        done = run("send", prefix, address)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, rf"^{re.escape(prefix)}: 1 tensor sent$")
        self.assertEqual(process.wait(60), 0, process.stderr.read())
        self.assertEqual(run("diff", prefix, self.path("copy.ckpt")).returncode, 0)

        name = self.listed(prefix)[0]["name"]
        process, address = self.receive(self.path("one.npy"))
        done = run("send", prefix, address, name)
        self.assertEqual((done.returncode, process.wait(60)), (0, 0), done.stderr)
        process, address = self.receive(self.path("two.npy"))
        served = self.serve(f"a={prefix}", f"b={prefix}")
        self.assert_one_line(run("send", served, address), 1, "npy holds one tensor, 2 came")
        self.assertEqual(process.wait(60), 2)
        self.assertFalse(os.path.exists(self.path("two.npy")))

    def test_metadata_goes_along(self):
        """What a server offers and what a push brings is what `convert` copies."""
        prefix, model = self.checkpoint(), self.path("model.safetensors")
        self.assertEqual(run("convert", prefix, model, "--set", "epoch=3", "--set", "note=\u00fcber").returncode, 0)
        typed = self.path("typed.gguf")
        sets = ["general.architecture=test", "test.block_count=uint32:7", "test.rate=float32:0.5", "test.on=bool:true"]
        done = run("convert", model, typed, *[word for one in sets for word in ("--set", one)])
        self.assertEqual(done.returncode, 0, done.stderr)
        for source in (model, typed):
            for extension in ("safetensors", "gguf"):
                names = [self.path(f"{how}.{extension}") for how in ("converted", "pulled", "pushed")]
                self.assertEqual(run("convert", source, names[0], "--overwrite").returncode, 0)
                done = run("recv", self.serve(source), names[1], "--overwrite")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                process, address = self.receive(names[2], "--overwrite")
                done = run("send", source, address)
                self.assertEqual((done.returncode, done.stderr, process.wait(60)), (0, "", 0))
                values = [sorted(run("ls", "--values", name).stdout.splitlines()) for name in names]
                self.assertTrue(values[0])
                self.assertEqual(values, [values[0]] * 3, (source, extension))
        # A target that cannot hold it is an error, unless the user allows that.
        address = self.serve(model)
        self.assert_one_line(run("recv", address, self.path("x.npz")), 1, "the file has metadata", "--allow-loss")
        done = run("recv", address, self.path("x.npz"), "--allow-loss")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("lost: ", done.stdout)
        process, address = self.receive(self.path("y.npz"))
        self.assert_one_line(run("send", model, address), 1, "the file has metadata")
        self.assertEqual(process.wait(60), 1)

    def test_metadata_and_strides_of_tensors_go_along(self):
        tagged = self.tagged(b"\x12\x06cuda:0" + b"\x4a\x09\x0a\x04unit\x12\x01m")
        path = self.write("g.pbtxt", EXTENSION_ONLY)
        self.assertEqual(run("convert", "--format", "tensorproto-text", path, self.path("g")).returncode, 0)
        for prefix in (tagged, self.path("g")):
            wanted = self.listed(prefix)
            self.assertTrue(wanted[0]["attributes"] or wanted[0]["strides"])
            address = self.serve(prefix)
            self.assertEqual(self.listed(address), wanted)
            self.assertEqual(run("recv", address, self.path("pulled"), "--overwrite").returncode, 0)
            self.assertEqual(self.listed(self.path("pulled")), wanted)
            process, address = self.receive(self.path("pushed"), "--overwrite")
            done = run("send", prefix, address)
            self.assertEqual((done.returncode, done.stderr, process.wait(60)), (0, "", 0))
            self.assertEqual(self.listed(self.path("pushed")), wanted)

    def test_receive_from_a_server(self):
        prefix = self.checkpoint()
        address = self.serve(prefix)
        done = run("recv", address, self.path("copy.safetensors"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(run("diff", prefix, self.path("copy.safetensors")).returncode, 0)
        self.assert_one_line(run("recv", address, self.path("copy.safetensors")), 1, "--overwrite replaces it")
        self.assert_one_line(run("recv", address), 2, "wanted DST behind")
        self.assert_one_line(run("recv", "here", self.path("x")), 2, "wanted an address")
        self.assert_one_line(run("recv", address, self.path("x"), "--listen", "127.0.0.1:0"), 2, "neither --unix nor")
        self.assert_one_line(run("send", prefix, address), 1, "the server accepts no pushes")

    def test_recv_keeps_what_another_program_saved_meanwhile(self):
        large = self.path("large.npy")
        rows = 1 << 28
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows},), }}".ljust(117) + "\n"
        with open(large, "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
            file.truncate(file.tell() + rows)
        address = self.serve(large)
        small = self.checkpoint("small.ckpt")
        for name in ("copy.ckpt", "other.ckpt"):
            self.assertEqual(run("convert", small, self.path(name), "--rename", f"s/^/{name[0]}_/").returncode, 0)
        before = set(os.listdir(self.path("")))
        with subprocess.Popen([TOOL, "recv", address, self.path("copy.ckpt"), "--overwrite"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8") as process:  # fmt: skip
            while process.poll() is None and set(os.listdir(self.path(""))) == before:
                pass
            process.send_signal(signal.SIGSTOP)
            for end in (".data-00000-of-00001", ".index"):
                os.replace(self.path("other.ckpt") + end, self.path("copy.ckpt") + end)
            process.send_signal(signal.SIGCONT)
            _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn("was replaced by another save", errors)
        self.assertEqual([tensor["name"] for tensor in self.listed(self.path("copy.ckpt"))], ["o_w"])

    def test_follows_a_run(self):
        run_folder = self.path("run")
        os.mkdir(run_folder)
        self.process, address = self.start("serve", run_folder, "--follow", "--listen", "127.0.0.1:0",
                                           says=rf"following {re.escape(run_folder)}, which has no step to serve yet")  # fmt: skip
        first, second = self.checkpoint("first.ckpt"), self.path("second.npz")
        self.assertEqual(run("convert", first, os.path.join(run_folder, "ckpt-1")).returncode, 0)
        deadline = time.monotonic() + 60
        while run("diff", address, first).returncode != 0:
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(run("convert", first, second, "--rename", "s/^/new_/").returncode, 0)
        self.assertEqual(run("convert", second, os.path.join(run_folder, "ckpt-2")).returncode, 0)
        while run("diff", address, second).returncode != 0:
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(run("verify", address).returncode, 0)
        self.assert_one_line(run("serve", run_folder, "--follow", "--unix", self.path("s")), 2, "--follow is for --listen")
        self.assert_one_line(run("serve", run_folder, first, "--follow", "--listen", "127.0.0.1:0"), 2, "wants one PATH")

    def test_a_broken_push_leaves_nothing(self):
        """A sender is killed while it sends. The next one is taken."""
        large, small = self.path("large.npy"), self.checkpoint()
        rows = 40 << 20
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows},), }}".ljust(117) + "\n"
        with open(large, "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(rows))
        process, address = self.receive(self.path("copy.ckpt"))
        sizes = os.path.getsize(large)
        for _ in range(3):
            sender = subprocess.Popen([TOOL, "send", large, address], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)  # fmt: skip
            while sender.poll() is None and read_bytes(sender.pid) < sizes // 4:
                pass
            self.assertIsNone(sender.poll(), "the sender has ended before it was killed")
            sender.kill()
            sender.wait()
            self.assertIsNone(process.poll())
            self.assertFalse(os.path.exists(self.path("copy.ckpt.index")))
        done = run("send", small, address)
        self.assertEqual((done.returncode, process.wait(60)), (0, 0), done.stderr)
        self.assertEqual(run("diff", small, self.path("copy.ckpt")).returncode, 0)

    def test_what_send_and_recv_refuse(self):
        prefix = self.checkpoint()
        self.assert_one_line(run("send", prefix, "grpc://127.0.0.1:1"), 1, "grpc://127.0.0.1:1: ")
        self.assert_one_line(run("send", prefix, "grpc://a:1", "grpc://b:1"), 2, "wanted one address to send to")
        self.assert_one_line(run("send", prefix), 2, "wanted either --unix SOCKET or an address")
        self.assert_one_line(run("send", prefix, "grpc://127.0.0.1:1/name"), 1, "wanted an address without a name")
        done = run("recv", self.path("x"), "--listen", "127.0.0.1:0", "--timeout", "0.2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no push came within 0.2 s", done.stderr)
        self.assert_one_line(run("recv", self.path("x"), "--listen", "0.0.0.0:0"), 1, "no credentials")
        process, _ = self.receive(self.path("x"))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 128 + signal.SIGINT)
        self.assertFalse([name for name in os.listdir(self.path("")) if name.startswith("x")])

    def test_interrupts(self):
        prefix = self.checkpoint()
        for number in (signal.SIGINT, signal.SIGTERM):
            self.serve(prefix)
            self.process.send_signal(number)
            self.assertEqual(self.process.wait(60), 128 + number, self.process.stderr.read())

    def test_without_the_other_program(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = os.path.join(folder, "tensorcask")
            with open(TOOL, "rb") as source, open(alone, "wb") as target:
                target.write(source.read())
            os.chmod(alone, 0o755)
            done = subprocess.run([alone, "ls", "grpc://h:1"], capture_output=True, encoding="utf-8", check=False,
                                  env={**os.environ, "PATH": folder})  # fmt: skip
            self.assert_one_line(done, 1, "need the program tensorcask-grpc")


if __name__ == "__main__":
    case_report.main("grpc")
