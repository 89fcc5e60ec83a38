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
import unittest

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import TOOL, Scratch, run  # noqa: E402


class Grpc(Scratch):
    def serve(self, *operands):
        """The address of a server. Operands may be options."""
        process = subprocess.Popen([TOOL, "serve", *operands, "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")  # fmt: skip
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        found = re.match(r"(grpcs?://127\.0\.0\.1:\d+): serving \d+ tensors?$", line)
        self.assertTrue(found, line or process.stderr.read())
        self.process = process
        return found[1]

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
        self.assert_one_line(run("ls", "grpc://127.0.0.1"), 1, "is no address of a server")
        self.assert_one_line(run("ls", "grpc://127.0.0.1:1"), 1, "grpc://127.0.0.1:1: ")
        self.assert_one_line(run("convert", prefix, "grpc://127.0.0.1:1"), 2, "a server is only read")

    @unittest.skipUnless(shutil.which("openssl"), "without openssl")
    def test_tls(self):
        prefix = self.checkpoint()
        pem = [self.path("certificate"), self.path("key")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-out", pem[0], "-keyout", pem[1], "-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)  # fmt: skip
        address = self.serve(prefix, "--certificate", pem[0], "--key", pem[1])
        self.assertTrue(address.startswith("grpcs://"))
        trusting = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": pem[0]}
        done = run("diff", address, prefix, env=trusting)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(run("ls", address).returncode, 1)  # no authority of the system has signed it
        self.assert_one_line(run("serve", prefix, "--listen", "127.0.0.1:0", "--key", pem[1]), 2, "TLS needs both")

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
