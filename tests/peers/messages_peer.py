"""TensorProto messages and TFRecord files that TensorFlow and we exchange."""

import unittest

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import tensor_pb2

import ours
import peer
import random_tensors
import tensorflow_side as theirs

TF = f"TensorFlow {tf.__version__}"

# dtype -> the typed field of TensorProto, and how a value is written there.
FIELDS = {
    "float32": ("float_val", float),
    "float64": ("double_val", float),
    **{
        name: ("int_val", int)
        for name in ("int8", "int16", "int32", "uint8", "uint16", "int4", "uint4", "int2", "uint2")
    },
    "int64": ("int64_val", int),
    "uint32": ("uint32_val", int),
    "uint64": ("uint64_val", int),
    "bool": ("bool_val", bool),
    "complex64": ("scomplex_val", None),
    "complex128": ("dcomplex_val", None),
    "float16": ("half_val", "bits"),
    "bfloat16": ("half_val", "bits"),
    **{name: ("float8_val", bytes) for name in theirs.DTYPES if name.startswith("float8")},
}

# The dtypes that tf.make_tensor_proto and tf.make_ndarray know.
MADE = [
    name
    for name in theirs.DTYPES
    if name not in ("int2", "uint2", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz")
]
# tf.io.serialize_tensor knows these.
SERIALIZED = [name for name in theirs.DTYPES if not name.startswith(("float8", "int4", "uint4", "int2", "uint2"))]


def low_bits(value):
    """(dtype, shape, data) with zeros above the bits of small integers: some readers put copies of the sign there."""
    dtype, shape, data = value
    bits = random_tensors.BITS.get(dtype)
    return value if bits is None else (dtype, shape, bytes(byte & (1 << bits) - 1 for byte in data))


def typed_message(array, name, count=None):
    """The array in its typed field; with `count`, only the first `count` values of it."""
    field, kind = FIELDS[name]
    message = tensor_pb2.TensorProto(dtype=tf.as_dtype(name).as_datatype_enum)
    for dim in array.shape:
        message.tensor_shape.dim.add(size=dim)
    flat = np.ascontiguousarray(array).reshape(-1)[:count]
    if kind is bytes:
        message.float8_val = flat.tobytes()
    elif kind == "bits":
        message.half_val.extend(flat.view(np.uint16).tolist())
    elif kind is None:
        getattr(message, field).extend(flat.view(flat.real.dtype).tolist())
    else:
        getattr(message, field).extend(kind(value) for value in flat)
    return message


def message_value(message):
    """What the C++ parser of TensorFlow reads from a message. tf.make_ndarray must read the same elements."""
    parsed = tensor_pb2.TensorProto.FromString(message)
    tensor = tf.io.parse_tensor(message, tf.as_dtype(parsed.dtype))
    if tf.as_dtype(parsed.dtype).name in MADE:
        array = tf.make_ndarray(parsed)
        assert low_bits(theirs.value_of(array)) == low_bits(theirs.value_of(tensor)), (array, tensor)
    return theirs.value_of(tensor)


def without_nans(array):
    """The array with 1.5 in the place of NaNs: text and Python's floats keep no bits of a NaN."""
    if array.dtype.kind not in "fcV" or array.dtype.itemsize == 1:
        return array
    if array.dtype.kind == "c":
        parts = without_nans(array.reshape(-1).view(array.real.dtype))
        return parts.view(array.dtype).reshape(array.shape)
    return np.where(np.isnan(array), array.dtype.type(1.5), array).astype(array.dtype).reshape(array.shape)


class Messages(peer.Scratch):
    def from_records(self, messages):
        """The values that we read from a record file with these serialized messages."""
        path = self.path("theirs.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for message in messages:
                writer.write(message)
        ours.convert(path, self.path("read"), "--overwrite")
        items = ours.read(self.path("read"))
        return [items[str(number).encode()].value for number in range(len(items))]

    def test_they_write(self):
        """tf.make_tensor_proto, tf.io.serialize_tensor and the typed fields."""
        arrays = list(random_tensors.arrays(51, list(FIELDS), per_rank=3).values())
        # tf.make_tensor_proto writes complex numbers, and one element, in the typed field, by way of a Python float.
        arrays = [without_nans(array) if array.size == 1 or array.dtype.kind == "c" else array for array in arrays]
        names = [random_tensors.OUR_NAMES[array.dtype] for array in arrays]
        expected = [(name, array.shape, random_tensors.data_of(array)) for name, array in zip(names, arrays)]
        ways = {
            "make_tensor_proto": [
                tf.make_tensor_proto(array).SerializeToString() for name, array in zip(names, arrays) if name in MADE
            ],
            "serialize_tensor": [
                tf.io.serialize_tensor(tf.constant(array)).numpy()
                for name, array in zip(names, arrays)
                if name in SERIALIZED
            ],
        }
        known = {"make_tensor_proto": MADE, "serialize_tensor": SERIALIZED}
        for way, messages in ways.items():
            with self.subTest(way):
                wanted = [value for value in expected if value[0] in known[way]]
                self.assertEqual(list(map(low_bits, self.from_records(messages))), list(map(low_bits, wanted)))
                peer.carried(TF, f"it writes messages ({way}), we read", len(messages))

    def test_typed_fields(self):
        rng = np.random.default_rng(52)
        messages, expected = [], []
        for name in FIELDS:
            for shape in ((), (3,), (2, 0), (4, 2)):
                array = without_nans(random_tensors.random_array(rng, name, shape))
                messages.append(typed_message(array, name).SerializeToString())
                expected.append((name, shape, random_tensors.data_of(array)))
                if array.size > 1 and not name.startswith(("complex", "float8")):  # the last value fills the rest
                    array = array.copy()
                    array.reshape(-1)[2:] = array.reshape(-1)[1]
                    messages.append(typed_message(array, name, 2).SerializeToString())
                    expected.append((name, shape, random_tensors.data_of(array)))
        for message, value in zip(messages, expected):
            self.assertEqual(low_bits(message_value(message)), low_bits(value))
        self.assertEqual(list(map(low_bits, self.from_records(messages))), list(map(low_bits, expected)))
        peer.carried(TF, "it writes messages (typed fields), both read", len(messages))

    def test_we_write(self):
        named = random_tensors.arrays(53, theirs.DTYPES, per_rank=2)
        items = random_tensors.stored(named)
        ours.write(self.path("ours"), items)
        ours.convert(self.path("ours"), self.path("ours.tfrecord"))
        records = [record.numpy() for record in tf.data.TFRecordDataset(self.path("ours.tfrecord"))]
        expected = [item.value for item in items]  # in the order of the file
        for record, value in zip(records, expected, strict=True):
            self.assertEqual(message_value(record), value)
        peer.carried(TF, "we write messages, it reads", len(records))

    def test_we_write_strings(self):
        """The C++ parser of TensorFlow reads our strings; tf.make_ndarray knows them in string_val only."""
        texts = [b"", b"a", b"\0\xff", b"x" * 300]
        ours.write(self.path("ours"), [ours.Stored(b"s", "string", (2, 2), ours.strings(texts))])
        for name in ("ours.tfrecord", "ours.pb"):
            ours.convert(self.path("ours"), self.path(name))
        ((record,),) = [list(tf.data.TFRecordDataset(self.path("ours.tfrecord")))]
        self.assertEqual(message_value(record.numpy()), ("string", (2, 2), ours.strings(texts)))
        message = peer.read_file(self.path("ours.pb"))
        self.assertEqual(message_value(message), ("string", (2, 2), ours.strings(texts)))
        for content in (record.numpy(), message):
            try:
                array = tf.make_ndarray(tensor_pb2.TensorProto.FromString(content))
                self.assertEqual(array.reshape(-1).tolist(), texts)
            except ValueError:
                peer.found("tf.make_ndarray refuses our message of strings, which tf.io.parse_tensor reads")
        peer.carried(TF, "we write messages, it reads", 2)

    def test_text(self):
        named = {
            name: array
            for name, array in random_tensors.arrays(54, theirs.DTYPES, per_rank=1).items()
            if array.ndim in (0, 2)
        }
        count = 0
        for number, (name, array) in enumerate(named.items()):
            array = without_nans(array)
            dtype = random_tensors.OUR_NAMES[array.dtype]
            value = (dtype, array.shape, random_tensors.data_of(array))
            ours.write(self.path("one"), random_tensors.stored({"one": array}), "--overwrite")
            ours.convert(self.path("one"), self.path("one.pbtxt"), "--overwrite")
            text = peer.read_file(self.path("one.pbtxt")).decode()
            message = text_format.Parse(
                text, tensor_pb2.TensorProto(), allow_unknown_extension=True, allow_unknown_field=True
            )
            self.assertEqual(low_bits(message_value(message.SerializeToString())), low_bits(value), name)
            if dtype in MADE:
                text = text_format.MessageToString(tf.make_tensor_proto(array))
            peer.write_file(self.path("theirs.pbtxt"), text.encode())
            ours.convert(self.path("theirs.pbtxt"), self.path("back"), "--overwrite", "--format", "tensorproto-text")
            (item,) = ours.read(self.path("back")).values()
            self.assertEqual(low_bits(item.value), low_bits(value))
            count = number + 1
        peer.carried(TF, "we write text, it reads", count)
        peer.carried(TF, "it writes text, we read", count)

    def test_extension_only_and_encoded_are_refused(self):
        items = random_tensors.stored({"large": np.zeros((64, 64), np.float32)})
        for option in ("--preserve", "--level=default"):
            ours.write(self.path("own" + option), items, option)
            if option == "--preserve":
                ours.convert(self.path("own" + option), self.path("own.pb"), "--overwrite")
            else:
                ours.convert(self.path("own" + option), self.path("own.pb"), "--overwrite", "--level", "default")
            message = peer.read_file(self.path("own.pb"))
            with self.assertRaises(tf.errors.InvalidArgumentError):
                tf.io.parse_tensor(message, tf.float32)
            with self.assertRaises(TypeError):
                tf.make_ndarray(tensor_pb2.TensorProto.FromString(message))

    def test_where_we_differ(self):
        """What COMPATIBILITY.md says of TensorFlow, and of us."""

        def message(text):
            return text_format.Parse(text, tensor_pb2.TensorProto()).SerializeToString()

        two = "tensor_shape { dim { size: 2 } } "
        rows = {  # name: (message, the data that TensorFlow reads; None: it refuses)
            "more values than elements": (message("dtype: DT_INT32 int_val: [1, 2, 3] " + two), b"\1\0\0\0\2\0\0\0"),
            "a value that does not fit": (message("dtype: DT_UINT8 int_val: [257, 2] " + two), b"\1\2"),
            "values in another dtype's field": (message("dtype: DT_INT32 float_val: [1, 2] " + two), bytes(8)),
            "an odd number of floats": (
                message("dtype: DT_COMPLEX64 scomplex_val: [1, 2, 3] " + two),
                np.array([1 + 2j, 1 + 2j], np.complex64).tobytes(),
            ),
            "unknown_rank in a full shape": (
                message("dtype: DT_INT32 int_val: 5 tensor_shape { unknown_rank: true }"),
                b"\5\0\0\0",
            ),
            "a bool of 2": (message("dtype: DT_BOOL tensor_content: '\\002\\001' " + two), None),
            "too little content": (message("dtype: DT_INT32 tensor_content: '1234' " + two), None),
            "a negative dim": (message("dtype: DT_INT32 int_val: 1 tensor_shape { dim { size: -1 } }"), None),
            # int_val (field 7) as fixed32
            "a known field of another wire type": (message("dtype: DT_INT32 " + two) + b"\x3d\1\0\0\0", bytes(8)),
        }
        for name, (content, read) in rows.items():
            with self.subTest(name):
                dtype = tf.as_dtype(tensor_pb2.TensorProto.FromString(content).dtype)
                if read is None:
                    with self.assertRaises(tf.errors.InvalidArgumentError):
                        tf.io.parse_tensor(content, dtype)
                else:
                    self.assertEqual(theirs.value_of(tf.io.parse_tensor(content, dtype))[2], read)
                peer.write_file(self.path("row.pb"), content)
                with self.assertRaises(ours.Refused):
                    ours.listing(self.path("row.pb"), "--format", "tensorproto")


class Records(peer.Scratch):
    def test_damage(self):
        """Each cut and each changed byte of a record file: we never give a record that TensorFlow does not give."""
        messages = [tf.io.serialize_tensor(tf.constant(value)).numpy() for value in ([1, 2], [3.5], ["a", "bc"])]
        path = self.path("whole.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for content in messages:
                writer.write(content)
        whole = peer.read_file(path)
        variants = [whole[:size] for size in range(1, len(whole))]
        variants += [whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :] for at in range(len(whole))]
        read_by_us = 0
        for number, content in enumerate(variants):
            peer.write_file(path, content)
            try:
                records = [record.numpy() for record in tf.data.TFRecordDataset(path)]
            except tf.errors.DataLossError:
                records = None
            try:
                mine = len(ours.listing(path, "--format", "records"))
            except ours.Refused:
                mine = None
            if records is None:
                self.assertIsNone(mine, number)
            if mine is not None:
                self.assertEqual(records, messages[:mine])
                read_by_us += 1
        self.assertEqual(read_by_us, 2)  # the cuts between records
        peer.found(f"{len(variants)} damaged record files: both give the same records or refuse")


if __name__ == "__main__":
    unittest.main()
