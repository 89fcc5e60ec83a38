#!/usr/bin/env python3
"""Wrote tests/testdata/tensorflow: make_testdata.py FOLDER, with the Python that `tools/dev peers all` makes.

Small checkpoints by TensorFlow of what no public file has, and expected.json, which says what TensorFlow and NumPy find
in them. Another version of TensorFlow may write other bytes; the files in the tree stay as they are.
"""

import json
import os
import sys
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import random_tensors  # noqa: E402
import tensorflow_side as theirs  # noqa: E402


def facts(tensor):
    if not tf.is_tensor(tensor):
        tensor = tf.constant(tensor)
    known = {"dtype": tensor.dtype.name, "shape": tensor.shape.as_list()}
    if tensor.dtype == tf.string:
        known["strings"] = [text.hex() for text in np.asarray(tensor.numpy()).reshape(-1).tolist()]
    elif tensor.dtype != tf.variant:
        known["crc32"] = f"{zlib.crc32(np.ascontiguousarray(tensor.numpy()).tobytes()):08x}"
    return known


def every_dtype(rng):
    named = {name: tf.constant(random_tensors.random_array(rng, name, (2, 3))) for name in theirs.DTYPES}
    for quantized, plain in theirs.QUANTIZED.items():
        named[quantized.name] = tf.bitcast(tf.constant(random_tensors.random_array(rng, plain.name, (2, 3))), quantized)
    named["string"] = tf.constant([[b"", b"a\0\xff"], ["é".encode(), b"x" * 130]])
    named["scalar/bfloat16"] = tf.constant(random_tensors.random_array(rng, "bfloat16", ()))
    named["empty/complex64"] = tf.constant(random_tensors.random_array(rng, "complex64", (0, 3)))
    return named


def variants():
    def tensor_list(tensor, shape):
        return tf.raw_ops.TensorListFromTensor(tensor=tensor, element_shape=tf.constant(shape, tf.int32))

    inner = tensor_list(tf.constant([[1.5, 2.5], [3.5, -0.0]]), [2])
    return {
        "list/float32": inner,
        "list/string": tensor_list(tf.constant(["a", ""]), []),
        "list/list": tensor_list(tf.stack([inner, inner]), []),
        "lists": tf.reshape(tf.stack([inner, tensor_list(tf.constant([1, 2, 3]), [])]), [1, 2]),
        "optional": tf.raw_ops.OptionalFromValue(components=[tf.constant([1, 2], tf.int64)]),
        "plain": tf.constant([7, 8], tf.uint16),
    }


def pieces(folder, rng):
    """Tensors in pieces, of which two writers saved one each."""
    whole = {name: random_tensors.random_array(rng, name, (5, 3)) for name in ("float16", "bfloat16", "complex128")}
    for number, rows in enumerate((slice(0, 2), slice(2, 5))):
        text = f"5 3 {rows.start},{rows.stop - rows.start}:-"
        theirs.save_slices(
            os.path.join(folder, f"part-{number}"), [(name, text, array[rows]) for name, array in whole.items()]
        )
    parts = [os.path.join(folder, f"part-{number}") for number in range(2)]
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=parts, destination_prefix=os.path.join(folder, "pieces"), delete_old_dirs=False
    )
    return whole


def version_one(folder, rng):
    whole = {
        name: random_tensors.random_array(rng, name, (4, 2)) for name in ("float16", "complex64", "uint16", "bool")
    }
    sliced = [
        (name, text, array[rows])
        for name, array in whole.items()
        for text, rows in (("4 2 0,1:-", slice(0, 1)), ("4 2 1,3:-", slice(1, 4)))
    ]
    tf.raw_ops.SaveSlices(
        filename=os.path.join(folder, "version-one"),
        tensor_names=[piece[0] for piece in sliced],
        shapes_and_slices=[piece[1] for piece in sliced],
        data=[tf.constant(piece[2]) for piece in sliced],
    )
    return whole


def main(folder):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(2026)
    checkpoints = {
        "every-dtype": every_dtype(rng),
        "variants": variants(),
        "float4": {
            "float4": np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn),
            "plain": np.array([1.0], np.float32),
        },
    }
    for name, named in checkpoints.items():
        theirs.save(os.path.join(folder, name), named)
    checkpoints["pieces"] = pieces(folder, rng)
    checkpoints["version-one"] = version_one(folder, rng)
    expected = {name: {tensor: facts(value) for tensor, value in named.items()} for name, named in checkpoints.items()}
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(expected, file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
