"""What the tests of `tensorcask edit` have in common."""

import json
import os
import struct
import sys
import zipfile

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from tool_testing import Scratch, read, run  # noqa: E402


def floats(*values):
    numbers = ", ".join(map(str, values))
    return f"dtype: DT_FLOAT tensor_shape {{ dim {{ size: {len(values)} }} }} float_val: [{numbers}]"


def safetensors(tensors, metadata=None, padding=0):
    """The bytes of a file as other programs write it: {name: float32 values}."""
    header = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, values in tensors.items():
        piece = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode() + b" " * padding
    return struct.pack("<Q", len(text)) + text + data


def parse_safetensors(path):
    """(header, data) by the rules of the format alone."""
    content = read(path)
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def npy(*values, descr="<f4"):
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': ({len(values)},), }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}f", *values)


class Edits(Scratch):
    def good(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def put(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def values(self, path, *arguments):
        """{name: (dtype, shape, checksum of the elements)}"""
        document = json.loads(self.good("ls", "--json", "--checksum", *arguments, path))
        return {tensor["name"]: (tensor["dtype"], tensor["shape"], tensor["crc32"]) for tensor in document["tensors"]}

    def model(self, name, tensors=None):
        """A file of the format that the name says, with tensors dense/kernel, dense/bias and step."""
        source = self.put("source.safetensors", safetensors(tensors or {"dense/kernel": [1, 2, 3, 4.5],
                                                                        "dense/bias": [5, 6], "step": [7]}))
        self.good("convert", "--overwrite", source, self.path(name))
        os.remove(source)
        return self.path(name)

    def sharded(self, extra=""):
        """The index of a model of two files."""
        self.put("m-00001-of-00002.safetensors", safetensors({"a": [1, 2]}, {"format": "pt", "tied": "a"}))
        self.put("m-00002-of-00002.safetensors", safetensors({"b": [3]}))
        return self.put("m.safetensors.index.json", (
            '{"metadata": {"total_size": 12, "total_parameters": 3.5e0}' + extra + ', "weight_map": '
            '{"a": "m-00001-of-00002.safetensors", "b": "m-00002-of-00002.safetensors"}, "other": [{"weight_map": 1}]}'
        ).encode())

    def archive(self, name="m.npz", compression=zipfile.ZIP_STORED):
        """An npz file with a member that is no array."""
        with zipfile.ZipFile(self.path(name), "w", compression) as file:
            file.writestr("a.npy", npy(1, 2, 3))
            file.writestr("notes.txt", "not an array")
            with file.open("stream.npy", "w", force_zip64=True) as member:  # as np.savez writes
                member.write(npy(*range(1000)))
        return self.path(name)

    def refused(self, arguments, code, *pieces):
        """The command fails, and all files are as they were."""
        before = {name: read(self.path(name)) for name in os.listdir(self.folder)}
        self.assert_one_line(run("edit", *arguments), code, *pieces)
        self.assertEqual({name: read(self.path(name)) for name in os.listdir(self.folder)}, before)
