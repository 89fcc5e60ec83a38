"""Files for the tests of the page, made by hand: safetensors, with NumPy's arrays."""

import json
import struct

import numpy as np

DTYPES = {"float16": "F16", "float32": "F32", "float64": "F64", "int64": "I64"}


def write(path, tensors, metadata=None):
    header, blobs, offset = {}, [], 0
    if metadata:
        header["__metadata__"] = metadata
    for name, array in tensors.items():
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": [offset, offset + len(data)]}
        blobs.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    return path


def model(seed=1, layers=4, width=64):
    """A small transformer."""
    random = np.random.default_rng(seed)

    def weights(*shape):
        return (random.normal(size=shape) * 0.03).astype(np.float32)

    tensors = {"model.embed_tokens.weight": weights(500, width)}
    for i in range(layers):
        layer = f"model.layers.{i}."
        for name, shape in (("self_attn.q_proj", (width, width)), ("self_attn.k_proj", (width, width)),
                            ("self_attn.v_proj", (width, width)), ("self_attn.o_proj", (width, width)),
                            ("mlp.up_proj", (4 * width, width)), ("mlp.down_proj", (width, 4 * width))):  # fmt: skip
            tensors[f"{layer}{name}.weight"] = weights(*shape)
        tensors[f"{layer}input_layernorm.weight"] = 1 + weights(width)
    tensors["model.conv.weight"] = weights(16, 8, 3, 3).astype(np.float16)
    tensors["step"] = np.array(100)
    return tensors


def sick_model():
    """The same with something for each check of the page's Health."""
    tensors = model()
    tensors["model.layers.1.mlp.up_proj.weight"] *= 8
    tensors["model.layers.2.mlp.down_proj.weight"][3, :] = 0
    tensors["model.layers.2.mlp.down_proj.weight"][:, 7:20] = 0
    tensors["model.layers.0.self_attn.k_proj.weight"][5, 5] = np.nan
    tensors["model.layers.0.self_attn.k_proj.weight"][5, 6] = np.inf
    tensors["model.conv.weight"][0, 0, 0, 0] = 65504
    tensors["model.zero"] = np.zeros((8, 8), np.float32)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
    return tensors


SCRIPT = "<script>window.hacked=1</script>"
HOSTILE_NAMES = [
    SCRIPT,
    "</script><img src=x onerror=window.hacked=2>",
    "<img src=x onerror=window.hacked=3>",
    '"><svg onload=window.hacked=4>',
    "javascript:window.hacked=5",
    "\u202eevil\u202c.weight",
    "a\nb\x1b[31m\x00",
    "\u05e9\u05dc\u05d5\u05dd.\u05de\u05e9\u05e7\u05dc",
    "\u0646\u0645\u0648\u0630\u062c/\u0637\u0628\u0642\u0629",
    "x" * 4096,
    "",
    "it's $HOME `id`",
    "__proto__",
    "constructor",
    "%2e%zz&q=1#",
]
