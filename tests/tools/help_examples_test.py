#!/usr/bin/env python3
"""Every example that `tensorcask help SUBCOMMAND` shows does what it promises, when it is typed as it stands there.

Each runs in a folder of its own that has the files which the examples name. /models and the socket's folder are moved
into that folder, `ssh host` is a program that runs the rest of its line in the folder `host`, and s3:// is a store in
this process. Addresses of gRPC, which not every machine has, are left to grpc_test.py.
"""

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path[:0] = (
    os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support")
)
import case_report  # noqa: E402
from store_server import StoreServer  # noqa: E402
from tool_testing import TOOL, Archives, floats, leb128, read, run  # noqa: E402

SOCKET_FOLDER = "/run/user/1000/"


def examples():
    """{subcommand: [command line, ...]}."""
    commands = re.findall(r"^  ([a-z]+)  ", run("--help").stdout, re.MULTILINE)
    found = {}
    for command in commands:
        text = re.split(r"^Examples?.*:\n", run("help", command).stdout, flags=re.MULTILINE)[-1]
        found[command] = [line.strip() for line in text.splitlines() if re.match(r"  (\S+ .*\| |ssh .*)?tensorcask ", line)]
    return found


def object_graph():
    """A message of one object, as text: the file of an object graph with a variable `step`."""

    def field(number, content):
        return leb128(number << 3 | 2) + leb128(len(content)) + content

    attribute = field(1, b"VARIABLE_VALUE") + field(2, b"step") + field(3, b"step/.ATTRIBUTES/VARIABLE_VALUE")
    root = field(1, b"\x08\x01" + field(2, b"step"))
    graph = field(1, root) + field(1, field(2, attribute))
    return "dtype: DT_STRING tensor_shape { } string_val: '" + "".join(f"\\{byte:03o}" for byte in graph) + "'"


def onnx_model():
    """A model of ONNX with an initializer `model.weight`, float32 [2]."""

    def field(number, content):
        return leb128(number << 3 | 2) + leb128(len(content)) + content

    weight = b"\x08\x02\x10\x01" + field(8, b"model.weight") + field(9, struct.pack("<2f", 1, 2))
    return b"\x08\x0d" + field(7, field(5, weight)) + field(8, b"\x10\x15")


class HelpExamples(Archives):
    def prepare(self):
        """The files that examples read."""
        tensors = {
            "dense/kernel": floats(*range(40), shape=[10, 4]),
            "dense/bias": floats(7, 8),
            "dense/kernel/Adam": floats(1, 2),
            "model.weight": floats(1, 2.5),
            "optimizer.m": floats(3),
            "step/.ATTRIBUTES/VARIABLE_VALUE": floats(5, shape=[]),
            "_CHECKPOINTABLE_OBJECT_GRAPH": object_graph(),
        }
        self.model("model.ckpt", tensors)
        few = {name: tensors[name] for name in ("dense/kernel", "dense/bias")}
        for name in ("model.ckpt-100", "model.ckpt-200", "step-100", "step-200"):
            self.model(name, few)
        weights = {name: text for name, text in tensors.items() if "OBJECT" not in name}
        self.model("weights", weights)
        self.good("convert", self.path("weights"), self.path("model.safetensors"))
        self.good("edit", "--set", "author=me", self.path("model.safetensors"))
        self.good("convert", self.path("step-100"), self.path("step-100.safetensors"))
        for name in ("model.tfrecord", "cut.tfrecord"):
            self.good("convert", self.path("weights"), self.path(name))
        self.good("convert", "--include=model.weight", self.path("weights"), self.path("a.tfrecord"))
        self.good("convert", "--include=dense/bias", self.path("weights"), self.path("b.tfrecord"))
        self.good("convert", "--include=dense/bias", self.path("weights"), self.path("bias.pb"))
        for name in ("a.safetensors", "b.safetensors"):
            self.good("convert", "--include=dense/bias", self.path("weights"), self.path(name))
        self.good("convert", r"--rename=s/^model\.//", "--dtype=*=bfloat16", self.path("weights"),
                  self.path("model-bfloat16.safetensors"))
        self.good("convert", "--include=model.weight", self.path("weights"), self.path("tuned.safetensors"))
        self.good("convert", "--set=tokenizer.chat_template=x", self.path("weights"), self.path("model.gguf"))
        for name in ("base.onnx", "model.onnx"):
            with open(self.path(name), "wb") as file:
                file.write(onnx_model())
        self.good("convert", "--include=dense/bias", self.path("weights"), self.path("worker-0"))
        self.good("convert", "--include=model.weight", self.path("weights"), self.path("worker-1"))
        for folder in ("a", "b", "shards", "models", "bin", "run", "run-7", "host", "split"):
            os.mkdir(self.path(folder))
        for step in (1, 2):
            self.good("convert", self.path("step-100"), self.path(f"run-7/ckpt-{step}"))
        for folder in ("a", "b"):
            self.good("convert", "--include=dense/bias", self.path("weights"), self.path(f"{folder}/x.npy"))
        self.good("convert", "--rename=dense/bias=arr_0", self.path("step-100"), self.path("data.npz"))
        with open(self.path("opaque.pbtxt"), "w", encoding="utf-8") as file:
            file.write("dtype: DT_FLOAT8_E4M3FN tensor_shape { dim { size: 2 } } float8_val: '\\x40\\x41'")
        self.good("convert", "--allow-loss", self.path("opaque.pbtxt"), self.path("scales.npz"))
        with open(self.path("models/left.tmp-0123456789abcdef"), "wb") as file:
            file.write(struct.pack("<I", 1))
        os.symlink(TOOL, self.path("bin/tensorcask"))
        with open(self.path("bin/ssh"), "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nshift\ncd host && exec "$@"\n')
        os.chmod(self.path("bin/ssh"), 0o755)

    def shell(self, line, **options):
        line = line.replace("/models", self.path("models")).replace(SOCKET_FOLDER, self.path("run") + "/")
        environment = dict(
            os.environ, PATH=f"{self.path('bin')}:{os.environ['PATH']}", AWS_ENDPOINT_URL=self.store.url,
            AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret",
        )  # fmt: skip
        return subprocess.Popen(
            ["sh", "-c", line], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, encoding="utf-8", **options,
        )  # fmt: skip

    def assert_good(self, line, process):
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (0, ""), f"{line}\n{out}{err}")
        return out

    def setUp(self):
        super().setUp()
        self.store = StoreServer()
        self.addCleanup(self.store.close)

    def wait_for_socket(self):
        for _ in range(600):
            if os.path.exists(self.path("run/model.sock")):
                return
            time.sleep(0.05)
        self.fail("no socket appeared")

    def test_each_example_of_one_line(self):
        self.prepare()
        prepared, number = self.folder, 0
        saved = "tensorcask convert weights.index s3://bucket/run/step-100"
        self.assert_good(saved, self.shell(saved))
        for command, lines in examples().items():
            self.assertTrue(lines, f"help {command} shows no example")
            if command in ("browse", "send", "recv", "serve", "demo"):
                continue
            for line in lines:
                with self.subTest(line), tempfile.TemporaryDirectory() as folder:
                    self.folder = os.path.join(folder, "work")
                    shutil.copytree(prepared, self.folder, symlinks=True)
                    if command == "save":  # another machine has it
                        for ending in (".index", ".data-00000-of-00001"):
                            os.rename(self.path("model.ckpt" + ending), self.path("host/model.ckpt" + ending))
                    self.assert_good(line, self.shell(line))
                    number += 1
        self.assertGreater(number, 20)

    def test_send_and_recv(self):
        self.prepare()
        send, receive = (next(line for line in examples()[command] if SOCKET_FOLDER in line)
                         for command in ("send", "recv"))  # fmt: skip
        receiver = self.shell(receive)
        self.wait_for_socket()
        self.assert_good(send, self.shell(send))
        self.assert_good(receive, receiver)
        self.assertEqual(sorted(self.tensors(self.path("copy.ckpt"))), ["dense/bias", "dense/kernel", "dense/kernel/Adam"])

    def test_serve(self):
        self.prepare()
        serve, show = (line for line in examples()["serve"] if SOCKET_FOLDER in line)
        server = self.shell("exec " + serve.rstrip("& "))
        self.addCleanup(server.communicate)
        self.addCleanup(server.terminate)
        self.wait_for_socket()
        self.assertIn("float32 [10,4]", self.assert_good(show, self.shell(show)))

    def test_browse(self):
        self.prepare()
        for line in examples()["browse"]:
            # Any port, and no browser on the screen of the tester.
            server = self.shell("unset DISPLAY WAYLAND_DISPLAY; exec " + line.replace("8080", "0"))
            self.addCleanup(server.communicate)
            self.addCleanup(server.terminate)
            self.assertRegex(server.stdout.readline(), r"^http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{32}\n$", line)

    def test_demo(self):
        (line,) = examples()["demo"]
        self.prepare()
        before = sorted(os.listdir(self.folder)), read(self.path("model.safetensors"))
        self.assertIn("identical", self.assert_good(line, self.shell(line)))
        self.assertEqual((sorted(os.listdir(self.folder)), read(self.path("model.safetensors"))), before)


if __name__ == "__main__":
    case_report.main("help_examples")
