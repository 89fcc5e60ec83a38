"""What the tests of the command line share: running it, files made by hand, and the files of TensorFlow."""

import functools
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

TOOL = os.path.abspath(os.environ.get("TENSORCASK", "tools/tensorcask"))

DATA = os.environ.get("TENSORCASK_TEST_DATA", "../shared/data")
TENSORFLOW = os.path.join(DATA, "tensorflow")


def read(path):
    with open(path, "rb") as file:
        return file.read()


# Under strace the leak sanitizer, which traces its process too, does not work.
TRACED = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")


def sanitized():
    """True if the tool was built with a sanitizer that needs all of the address space."""
    return any(symbol in read(TOOL) for symbol in (b"__asan_init", b"__tsan_init"))


def emulated(process):
    """True if an emulator runs this process, whose memory is then mostly the emulator's."""
    return "qemu" in os.path.basename(os.readlink(f"/proc/{process.pid}/exe"))


def run(*arguments, **options):
    """The finished process, output as text."""
    return subprocess.run(
        [TOOL, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        **options,
    )


@functools.lru_cache(maxsize=None)
def formats():
    """The rows of `--print formats`: (name, extensions, written, edited, options)."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in run("--print", "formats").stdout.splitlines()
            if line.startswith("| ") and not line.startswith(("| Format", "| ---"))]  # fmt: skip
    words = re.compile(r"`(\S+)`")
    return [(name, words.findall(extensions) + ([""] if "none" in extensions else []), written, edited,
             words.findall(options)) for name, extensions, written, edited, options in rows]  # fmt: skip


def is_listened_to(path):
    """True if a process accepts connections to this Unix socket: its file is there before that."""
    with open("/proc/net/unix", encoding="utf-8") as sockets:
        rows = [line.split() for line in sockets]
    return any(row[-1] == path and row[3] == "00010000" for row in rows)


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def index_of(entries):
    """An index file with these (key, value), in order, none longer than 127 bytes: serialize/checkpoint/FORMAT.md."""
    file = b""

    def block(pairs):
        nonlocal file
        content = b""
        restarts = []
        for key, value in pairs:
            restarts.append(len(content))
            content += bytes([0, len(key), len(value)]) + key + value
        restarts = restarts or [0]
        content += struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts)) + b"\0"
        place = leb128(len(file)) + leb128(len(content) - 1)
        file += content + struct.pack("<I", masked_crc32c(content))
        return place

    data = block(entries)
    meta = block([])
    index = block([(entries[-1][0], data)])
    return file + (meta + index).ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")


def leb128(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + leb128(number >> 7)


def with_strace(test):
    usable = shutil.which("strace") and subprocess.run(["strace", "true"], capture_output=True, check=False).returncode == 0
    return unittest.skipUnless(usable, "SKIPPED: strace does not work here")(test)


def checkpoints():
    """(prefix, what it must hold) of every checkpoint in the test data."""
    for folder in sorted(os.listdir(TENSORFLOW)):
        path = os.path.join(TENSORFLOW, folder, "expected.json")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            for name, expected in json.load(file).items():
                if expected.get("kind") == "v2_checkpoint":
                    yield os.path.join(TENSORFLOW, folder, name), expected


def data_files(prefix):
    folder, name = os.path.split(prefix)
    return sorted(file for file in os.listdir(folder) if file.startswith(name + ".data-"))


def with_data(test):
    return unittest.skipUnless(os.path.isdir(TENSORFLOW), "SKIPPED: no test data")(test)


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(content)
        return self.path(name)

    def checkpoint(self, name="model.ckpt", tensors=None):
        """The prefix of a checkpoint of these tensors, {name: its message as text}; null: of one."""
        tensors = tensors or {"w": "dtype: DT_FLOAT tensor_shape { dim { size: 2 } dim { size: 3 } } "
                                   "float_val: [1, 2, 3, 4, 5, 6.5]"}
        sources = []
        for number, (tensor, text) in enumerate(tensors.items()):
            sources.append(f"{tensor}={self.write('source.pbtxt' if number == 0 else f'source{number}.pbtxt', text)}")
        done = run("convert", "--format", "tensorproto-text", *sources, self.path(name))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path(name)

    def bundle(self, name, entries, data):
        """The prefix of a checkpoint with these index entries, sorted, and this data file."""
        with open(self.path(name + ".index"), "wb") as file:
            file.write(index_of([(b"", b"\x08\x01\x1a\x02\x08\x01"), *entries]))
        with open(self.path(name + ".data-00000-of-00001"), "wb") as file:
            file.write(data)
        return self.path(name)

    def tagged(self, extension):
        """A checkpoint of "w", float32 [2], with this extension (field 4096)."""
        data = bytes(8)
        entry = b"\x08\x01\x12\x04\x12\x02\x08\x02\x28\x08\x35" + struct.pack("<I", masked_crc32c(data))
        return self.bundle("tagged", [(b"w", entry + b"\x82\x80\x02" + leb128(len(extension)) + extension)], data)

    def sliced(self):
        """A checkpoint of "s", float32 [4], 1 2 3 4, in two pieces."""
        halves = struct.pack("<2f", 1, 2), struct.pack("<2f", 3, 4)
        pieces = []
        for start, half in ((0, halves[0]), (2, halves[1])):
            place = b"\x20" + bytes([4 * start]) if start else b""
            entry = b"\x08\x01\x12\x04\x12\x02\x08\x02" + place + b"\x28\x08\x35" + struct.pack("<I", masked_crc32c(half))
            pieces.append((b"\0s\0\1\1\1" + bytes([0x80 + start, 0x82]), entry))
        whole = b"\x08\x01\x12\x04\x12\x02\x08\x04" + b"\x3a\x04\x0a\x02\x10\x02" + b"\x3a\x06\x0a\x04\x08\x02\x10\x02"
        return self.bundle("sliced", [*pieces, (b"s", whole)], halves[0] + halves[1])

    def large(self):
        """A message of 4 MiB: far more than a pipe or a socket takes."""
        size = leb128(4 << 20)
        with open(self.path("large.pb"), "wb") as file:
            file.write(b"\x08\x06\x12\x07\x12\x05\x08" + size + b"\x22" + size + bytes(4 << 20))
        return self.path("large.pb")

    def assert_note_and_one_line(self, process, note, code, *pieces):
        """A line of stderr is a note that has `note`; without it, assert_one_line holds."""
        notes = [line for line in process.stderr.splitlines(True) if ": note: " in line]
        self.assertEqual(len(notes), 1, process.stderr)
        self.assertIn(note, notes[0])
        process.stderr = process.stderr.replace(notes[0], "")
        self.assert_one_line(process, code, *pieces)

    def assert_one_line(self, process, code, *pieces):
        """The command failed with `code` and one line on stderr that has all pieces."""
        self.assertEqual(process.returncode, code, process.stderr)
        self.assertEqual(process.stdout, "")
        self.assertEqual(process.stderr.count("\n"), 1, process.stderr)
        for piece in pieces:
            self.assertIn(piece, process.stderr)


def floats(*values, shape=None):
    """A float32 message as text."""
    dims = "".join(f"dim {{ size: {dim} }} " for dim in (shape or [len(values)]))
    return f"dtype: DT_FLOAT tensor_shape {{ {dims}}} float_val: [{', '.join(map(str, values))}]"


class Archives(Scratch):
    def good(self, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def model(self, name="model.ckpt", tensors=None):
        """The prefix of a checkpoint of these {name: message as text}."""
        tensors = tensors or {"dense/kernel": floats(1, 2, 3, 4, 5, 6.5, shape=[2, 3]), "dense/bias": floats(7, 8)}
        stream = b""
        for number, (tensor, text) in enumerate(tensors.items()):
            source = self.write(f"part{number}.pbtxt", text)
            self.good("convert", "--overwrite", "--rename", f"part{number}={tensor}", source, self.path("part.tfrecord"))
            stream += read(self.path("part.tfrecord"))
        with open(self.path("parts.tfrecord"), "wb") as file:
            file.write(stream)
        self.good("convert", "--overwrite", self.path("parts.tfrecord"), self.path(name))
        return self.path(name)

    def tensors(self, path, *arguments):
        document = json.loads(self.good("ls", "--json", "--checksum", *arguments, path))
        return {tensor["name"]: (tensor["dtype"], tensor["shape"], tensor["crc32"]) for tensor in document["tensors"]}


# [[1, 3, 5], [2, 4, 6]], column by column.
EXTENSION_ONLY = (
    "tensor_shape { dim { size: 2 } dim { size: 3 } } tensor_content: '\\001\\002\\003\\004\\005\\006' "
    "extension { dtype: 6 strides: 1 strides: 2 }"
)
