#!/usr/bin/env python3
"""A client that gRPC's own tools generate for Python from proto/exchange_service.proto lists and pulls tensors.

    tests/peers/grpc_peer.py        # `tools/dev grpc` calls it, with the Python of the environment that it made
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import grpc
import numpy
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_tools import protoc

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
TOOL = os.path.join(ROOT, "bazel-bin", "tools", "tensorcask-grpc")
PROTOS = ["exchange_service", "tensor", "tensor_extension", "tensor_shape", "tensor_slice", "types"]
SERVICE = "tensorcask.rpc.v1.TensorExchange"


def crc32c(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class StockClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        os.symlink(ROOT, os.path.join(cls.folder.name, "tensorcask"))
        out = os.path.join(cls.folder.name, "generated")
        os.mkdir(out)
        names = [f"tensorcask/proto/{name}.proto" for name in PROTOS]
        command = ["protoc", f"-I{cls.folder.name}", f"--python_out={out}", f"--grpc_python_out={out}", *names]
        assert protoc.main(command) == 0
        sys.path.insert(0, out)
        from tensorcask.proto import exchange_service_pb2, exchange_service_pb2_grpc, tensor_pb2

        cls.messages, cls.tensor = exchange_service_pb2, tensor_pb2
        cls.numbers = numpy.arange(700_000, dtype=numpy.float32).reshape(700, 1000)  # three pieces
        path = os.path.join(cls.folder.name, "numbers.npy")
        numpy.save(path, cls.numbers)
        server = subprocess.Popen([TOOL, "serve", f"a={path}", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                                  encoding="utf-8")  # fmt: skip
        cls.addClassCleanup(server.communicate)
        cls.addClassCleanup(server.kill)
        address = re.match(r"grpc://(\S+): serving 1 tensor$", server.stdout.readline())[1]
        cls.channel = grpc.insecure_channel(address)
        cls.addClassCleanup(cls.channel.close)
        cls.service = exchange_service_pb2_grpc.TensorExchangeStub(cls.channel)

    def pull(self, **item):
        """The bytes of one item, whose pieces are checked."""
        listed = self.service.List(self.messages.ListRequest())
        request = self.messages.PullRequest(version=listed.version)
        request.items.add(name=listed.tensors[0].name, **item)
        data = b""
        for piece in self.service.Pull(request):
            self.assertEqual((piece.item, piece.version_id), (0, listed.version.id))
            self.assertEqual(piece.offset - item.get("offset", 0), len(data))
            self.assertEqual(piece.crc32c, crc32c(piece.data))
            data += piece.data
        return data

    def test_list(self):
        listed = self.service.List(self.messages.ListRequest())
        self.assertEqual([tensor.name for tensor in listed.tensors], [b"a/numbers"])
        self.assertEqual([dim.size for dim in listed.tensors[0].shape.dim], [700, 1000])
        self.assertEqual((listed.tensors[0].dtype, listed.next), (1, 0))

    def test_pull(self):
        self.assertEqual(self.pull(), self.numbers.tobytes())
        self.assertEqual(self.pull(offset=1_500_000), self.numbers.tobytes()[1_500_000:])

    def test_pull_a_slice(self):
        extents = [{"start": 100, "length": 300}, {"start": 7, "length": 2}]
        self.assertEqual(self.pull(slice={"extent": extents}), self.numbers[100:400, 7:9].tobytes())

    def test_pull_a_message(self):
        message = self.tensor.TensorProto.FromString(self.pull(as_message=True))
        self.assertEqual(message.tensor_content, self.numbers.tobytes())

    def test_errors(self):
        request = self.messages.PullRequest()
        request.items.add(name=b"none")
        with self.assertRaises(grpc.RpcError) as raised:
            list(self.service.Pull(request))
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_health_and_reflection(self):
        health = health_pb2_grpc.HealthStub(self.channel).Check(health_pb2.HealthCheckRequest())
        self.assertEqual(health.status, health_pb2.HealthCheckResponse.SERVING)
        reflection = reflection_pb2_grpc.ServerReflectionStub(self.channel)
        asked = [reflection_pb2.ServerReflectionRequest(list_services="")]
        answer = next(iter(reflection.ServerReflectionInfo(iter(asked))))
        self.assertIn(SERVICE, [service.name for service in answer.list_services_response.service])


if __name__ == "__main__":
    unittest.main()
