"""TensorFlow's side: saves and restores checkpoints as {name: array or tensor}."""

import numpy as np
import tensorflow as tf

import ours
import random_tensors

# Our names of the dtypes of NumPy and ml_dtypes that TensorFlow has and this version of ours writes in plain form.
DTYPES = [
    name
    for name in random_tensors.DTYPES
    if name not in ("float4_e2m1", "float6_e2m3", "float6_e3m2", "float8_e8m0fnu", "float8_e4m3", "float8_e3m4")
]
# TensorFlow reads parts of tensors, and tensors in pieces, of these dtypes only (and of qint8, quint8 and qint32).
SLICED = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "int4",
    "uint4",
    "float32",
    "float64",
    "bfloat16",
    "complex64",
    "complex128",
]
QUANTIZED = {tf.qint8: tf.int8, tf.quint8: tf.uint8, tf.qint16: tf.int16, tf.quint16: tf.uint16, tf.qint32: tf.int32}


def save(prefix, named, slices=None):
    """SaveV2. `slices`: shape_and_slice of each tensor, "" for a whole one."""
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(named),
        shape_and_slices=slices or [""] * len(named),
        tensors=[tensor if tf.is_tensor(tensor) else tf.constant(tensor) for tensor in named.values()],
    )


def save_slices(prefix, pieces):
    """SaveV2 of [(name, "4 2 0,2:-", tensor), ...]."""
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=[piece[0] for piece in pieces],
        shape_and_slices=[piece[1] for piece in pieces],
        tensors=[tf.constant(piece[2]) for piece in pieces],
    )


def restore(prefix, name, dtype, part=""):
    """RestoreV2 of one tensor, or of the part "4 2 0,2:-"."""
    (tensor,) = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=[name], shape_and_slices=[part], dtypes=[dtype])
    return tensor


def value_of(tensor):
    """(our dtype, shape, data) of a tensor or array."""
    dtype = tf.as_dtype(tensor.dtype)
    array = np.asarray(tensor.numpy() if tf.is_tensor(tensor) else tensor)
    if dtype == tf.string:
        return "string", tuple(array.shape), ours.strings(array.reshape(-1).tolist())
    return dtype.name, tuple(array.shape), np.ascontiguousarray(array).tobytes()


def load(prefix):
    """{name: (our dtype, shape, data)} of all tensors, by tf.train.load_checkpoint."""
    reader = tf.train.load_checkpoint(prefix)
    dtypes = reader.get_variable_to_dtype_map()
    loaded = {}
    for name, shape in reader.get_variable_to_shape_map().items():
        array = np.asarray(reader.get_tensor(name))
        assert list(array.shape) == list(shape), (name, array.shape, shape)
        if dtypes[name] == tf.string:
            data = ours.strings(array.reshape(-1).tolist())
        else:
            data = np.ascontiguousarray(array).tobytes()
        loaded[name.encode()] = (dtypes[name].name, tuple(shape), data)
    return loaded


def restore_all(prefix, values):
    """The same by RestoreV2 with the dtypes that `values` ({name: (dtype, shape, data)}) have."""
    tensors = tf.raw_ops.RestoreV2(
        prefix=prefix,
        tensor_names=list(values),
        shape_and_slices=[""] * len(values),
        dtypes=[tf.as_dtype(value[0]) for value in values.values()],
    )
    return {name: value_of(tensor) for name, tensor in zip(values, tensors)}
