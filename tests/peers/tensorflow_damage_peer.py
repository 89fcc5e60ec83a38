"""What TensorFlow and we say of damaged and hostile checkpoints. Where we give a value, it is the right one."""

import collections
import signal
import struct
import subprocess
import sys
import unittest

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import tensor_bundle_pb2

import ours
import peer
import table_forge
import tensorflow_side as theirs
from tensorflow_worker import Worker

TF = f"TensorFlow {tf.__version__}"
HEADER = b"\x08\x01\x1a\x02\x08\x01"


def entry(dtype, shape, data, **fields):
    """The serialized entry of a tensor that starts at 0; fields replace what the data says."""
    made = tensor_bundle_pb2.BundleEntryProto(
        dtype=dtype, size=len(data), crc32c=table_forge.masked(table_forge.crc32c(data))
    )
    for dim in shape:
        made.shape.dim.add(size=dim)
    for field, value in fields.items():
        setattr(made, field, value)
    return made.SerializeToString()


def header(**fields):
    made = tensor_bundle_pb2.BundleHeaderProto.FromString(HEADER)
    for field, value in fields.items():
        if field in ("min_consumer", "bad_consumers"):
            if field == "bad_consumers":
                made.version.bad_consumers.extend(value)
            else:
                made.version.min_consumer = value
        else:
            setattr(made, field, value)
    return made.SerializeToString()


class Damage(peer.Scratch):
    @classmethod
    def setUpClass(cls):
        cls.worker = Worker()
        cls.addClassCleanup(cls.worker.close)

    def put(self, name, index, data, shards=1):
        peer.write_file(self.path(f"{name}.index"), index)
        peer.write_file(self.path(f"{name}.data-00000-of-{shards:05d}"), data)
        return self.path(name)

    def read_by_us(self, prefix):
        """{name: value or error text}; a text if we refuse all."""
        try:
            items = ours.read(prefix, "each")
        except ours.Refused as refused:
            return str(refused)
        return {
            name: item.data.decode(errors="replace") if item.dtype == "error" else item.value
            for name, item in items.items()
        }

    # ---- Each cut and each changed byte -----------------------------------------------------------------------------

    def judge(self, prefix, right, outcome):
        """Counts what both say; fails where we give anything but the right value."""
        mine, other = self.read_by_us(prefix), self.worker.ask(prefix)
        for name, value in mine.items() if isinstance(mine, dict) else ():
            self.assertIn(name, right)
            if not isinstance(value, str):
                self.assertEqual(value, right[name])
                outcome["we: right values"] += 1
        for name, value in other.items() if isinstance(other, dict) else ():
            if isinstance(value, str):
                outcome["TensorFlow: refuses a tensor"] += 1
            elif value == right.get(name):
                outcome["TensorFlow: right values"] += 1
            else:
                outcome["TensorFlow: other values or names"] += 1
        if other == Worker.ABORTED:
            outcome["TensorFlow: aborts"] += 1
        elif isinstance(other, str):
            outcome["TensorFlow: refuses the checkpoint"] += 1
        if isinstance(mine, str):
            outcome["we: refuse the checkpoint"] += 1
        else:
            outcome["we: refuse a tensor"] += sum(isinstance(value, str) for value in mine.values())
            outcome["we: miss a tensor"] += len(right) - len(mine)

    def test_each_byte(self):
        prefix = self.path("whole")
        theirs.save(
            prefix,
            {
                "a": np.arange(6, dtype=np.float32).reshape(2, 3),
                "b/é": tf.constant([b"xy", b""]),
                "c": np.array([1, -2, 3], np.int16),
                "d": np.array([True, False]),
            },
        )
        right = {name: item.value for name, item in ours.read(prefix).items()}
        index, data = peer.read_file(prefix + ".index"), peer.read_file(prefix + ".data-00000-of-00001")
        outcome, count = collections.Counter(), 0
        for number, (whole, other, is_index) in enumerate(((index, data, True), (data, index, False))):
            changed = [
                whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :]
                for at in range(len(whole))
                for mask in (0x01, 0x80, 0xFF)
            ]
            changed += [whole[:size] for size in range(len(whole))]
            for at, content in enumerate(changed):
                pair = (content, other) if is_index else (other, content)
                self.judge(self.put(f"damaged{number}-{at}", *pair), right, outcome)
            count += len(changed)
        self.assertEqual(outcome["we: miss a tensor"], 0)
        self.assertEqual(outcome["TensorFlow: other values or names"], 0)
        figures = ", ".join(f"{name} {times}" for name, times in sorted(outcome.items()) if times)
        peer.found(f"{count} damaged checkpoints of {len(right)} tensors: {figures}")

    # ---- One wrong value under right checksums ----------------------------------------------------------------------

    def rows(self):
        """name: (index, data, what TensorFlow does: "refuses", "aborts", or the value that it gives to "w")."""
        four = struct.pack("<4f", 1, 2, 3, 4)
        good = entry(1, (2, 2), four)
        value = ("float32", (2, 2), four)

        def index(tensor=good, head=HEADER):
            return table_forge.index_file([(b"", head), (b"w", tensor)])

        def floats(**fields):
            return index(entry(1, (2, 2), four, **fields))

        # Two strings of one byte each, and two bytes behind them that no length counts.
        lengths = struct.pack("<2I", 1, 1)
        stored = b"\1\1" + struct.pack("<I", table_forge.masked(table_forge.crc32c(lengths))) + b"abcd"
        checksum = table_forge.masked(table_forge.crc32c(lengths + stored[2:8]))
        strings = entry(7, (2,), stored, crc32c=checksum)
        unknown_rank = tensor_bundle_pb2.BundleEntryProto.FromString(entry(1, (), four[:4]))
        unknown_rank.shape.unknown_rank = True
        refuses, aborts = "refuses", "aborts"
        return {
            "no header": (table_forge.index_file([(b"w", good)]), four, refuses),
            "no shards": (index(head=header(num_shards=0)), four, refuses),
            "two shards, one file": (index(head=header(num_shards=2)), four, refuses),
            "unknown byte order": (index(head=HEADER + b"\x10\x02"), four, value),
            "min_consumer 2": (index(head=header(min_consumer=2)), four, refuses),
            "bad consumer 1": (index(head=header(bad_consumers=[1])), four, refuses),
            "negative producer": (index(head=b"\x08\x01\x1a\x0b\x08" + b"\xff" * 9 + b"\x01"), four, refuses),
            "wrong checksum": (floats(crc32c=1), four, refuses),
            "data cut short": (index(), four[:15], refuses),
            "size too small": (index(entry(1, (2, 2), four[:12])), four, refuses),
            "size too large": (index(entry(1, (2, 1), four)), four, refuses),
            "negative size": (floats(size=-16), four, refuses),
            "negative offset": (floats(offset=-4), four, refuses),
            "offset past the end": (floats(offset=64), four, refuses),
            "unknown shard": (floats(shard_id=7), four, refuses),
            "negative shard": (floats(shard_id=-1), four, refuses),
            "dtype 0": (index(entry(0, (2, 2), four)), four, refuses),
            "unknown dtype": (index(entry(63, (2, 2), four)), four, refuses),
            "reference dtype": (index(entry(101, (2, 2), four)), four, refuses),
            "resource": (index(entry(20, (2, 2), four)), four, refuses),
            "negative dim": (index(entry(1, (-2, -2), four)), four, aborts),
            "dims whose product overflows": (index(entry(1, (1 << 40, 1 << 40), four)), four, aborts),
            "a zero dim beside huge ones": (index(entry(1, (0, 1 << 40, 1 << 40), b"")), b"", refuses),
            "unknown rank": (index(unknown_rank.SerializeToString()), four[:4], ("float32", (), four[:4])),
            "a bool of 2": (index(entry(10, (4,), b"\1\2\0\1")), b"\1\2\0\1", ("bool", (4,), b"\1\2\0\1")),
            "bytes behind the strings": (index(strings), stored, ("string", (2,), ours.strings([b"a", b"b"]))),
            "keys out of order": (table_forge.index_file([(b"", HEADER), (b"x", good), (b"w", good)]), four, refuses),
            "a key twice": (table_forge.index_file([(b"", HEADER), (b"w", good), (b"w", good)]), four, value),
            "two tensors at one place": (
                table_forge.index_file([(b"", HEADER), (b"v", good), (b"w", good)]),
                four,
                value,
            ),
        }

    def test_one_wrong_value(self):
        """We refuse each row. TensorFlow reads some of them, and aborts on others (COMPATIBILITY.md)."""
        for name, (index, data, expected) in self.rows().items():
            with self.subTest(name):
                prefix = self.put("row " + name, index, data)
                mine, other = self.read_by_us(prefix), self.worker.ask(prefix)
                mine = mine if isinstance(mine, str) else mine[b"w"]
                self.assertIsInstance(mine, str)
                if isinstance(other, dict):
                    other = other.get(b"w", "not listed")
                if isinstance(other, str):
                    other = "aborts" if other == Worker.ABORTED else "refuses"
                self.assertEqual(other, expected)

    def test_aborts(self):
        """TensorFlow ends the process when it saves a resource, and when it reads an unknown dtype by name."""
        four = struct.pack("<4f", 1, 2, 3, 4)
        index = table_forge.index_file([(b"", HEADER), (b"w", entry(63, (2, 2), four))])
        prefix = self.put("unknown", index, four)
        codes = [
            f"tf.train.load_checkpoint({prefix!r}).get_tensor('w')",
            f"tf.raw_ops.SaveV2(prefix={self.path('r')!r}, tensor_names=['r'], shape_and_slices=[''], "
            "tensors=[tf.Variable(1.0).handle])",
        ]
        for code in codes:
            with self.subTest(code):
                command = [sys.executable, "-c", f"import tensorflow as tf; print('ready', flush=True); {code}"]
                done = subprocess.run(command, capture_output=True, check=False)
                self.assertEqual(done.stdout, b"ready\n")
                self.assertEqual(done.returncode, -signal.SIGABRT)
        self.assertEqual(ours.tool("ls", prefix).decode().split()[:2], ["w", "invalid"])
        with self.assertRaisesRegex(ours.Refused, "UNIMPLEMENTED"):
            ours.read(prefix)

    def test_big_endian(self):
        """A checkpoint that says that it is big-endian: both of us exchange the bytes."""
        arrays = {
            "f": np.arange(6, dtype=np.float32).reshape(2, 3),
            "c": np.array([1 + 2j, 3], np.complex128),
            "h": np.array([0.5, -2], np.float16),
            "i": np.array([1, -2, 1 << 40], np.int64),
            "u": np.array([7, 8], np.uint8),
        }
        dtypes = {"f": 1, "c": 18, "h": 19, "i": 9, "u": 4}
        data, entries = b"", []
        for name, array in sorted(arrays.items()):
            stored = array.astype(array.dtype.newbyteorder(">")).tobytes()
            entries.append((name.encode(), entry(dtypes[name], array.shape, stored, offset=len(data))))
            data += stored
        index = table_forge.index_file([(b"", header(endianness=1)), *entries])
        prefix = self.put("big", index, data)
        right = {name.encode(): (array.dtype.name, array.shape, array.tobytes()) for name, array in arrays.items()}
        self.assertEqual(self.read_by_us(prefix), right)
        self.assertEqual(self.worker.ask(prefix), right)
        peer.carried(TF, "big-endian, made by hand, both read", len(right))

    def test_a_missing_file_that_no_entry_names(self):
        """TensorFlow reads a checkpoint of two data files if all tensors are in the file that exists."""
        four = struct.pack("<4f", 1, 2, 3, 4)
        index = table_forge.index_file([(b"", header(num_shards=2)), (b"w", entry(1, (2, 2), four))])
        prefix = self.put("two", index, four, shards=2)
        self.assertEqual(self.worker.ask(prefix), {b"w": ("float32", (2, 2), four)})
        self.assertEqual(self.read_by_us(prefix), {b"w": ("float32", (2, 2), four)})
        peer.carried(TF, "made by hand, both read", 1)


if __name__ == "__main__":
    unittest.main()
