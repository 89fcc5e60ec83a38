"""safetensors files and models that cost their reader much: kinds of bombs_test.py."""

import json
import os
import struct

MODEL = "m.safetensors.index.json"


def write(path, tensors, metadata=None):
    """A file of these tensors (name, dims), which have no elements."""
    header = {"__metadata__": metadata} if metadata else {}
    header.update((name, {"dtype": "U8", "shape": dims, "data_offsets": [0, 0]}) for name, dims in tensors)
    text = json.dumps(header, separators=(",", ":")).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)


def st_names(size, folder):
    write(f"{folder}/m.safetensors", ((f"t{i}", [0]) for i in range(size)))


def st_ranks(size, folder):
    write(f"{folder}/m.safetensors", ((f"t{i}", [1] * 253 + [0]) for i in range(size)))


def st_metadata(size, folder):
    write(f"{folder}/m.safetensors", [("t", [0])], {f"k{i}": "v" for i in range(size)})


def st_long_names(size, folder):
    write(f"{folder}/m.safetensors", ((f"{i:05}" + "n" * 65000, [0]) for i in range(size)))


def write_model(folder, files):
    """A model of files with these tensors and this metadata."""
    listed = {}
    for i, (tensors, metadata) in enumerate(files):
        name = f"m-{i:05}.safetensors"
        write(os.path.join(folder, name), tensors, metadata)
        listed.update((tensor, name) for tensor, _ in tensors)
    with open(os.path.join(folder, MODEL), "w", encoding="utf-8") as file:
        json.dump({"metadata": {}, "weight_map": listed}, file)


def st_model(size, folder):
    """Files of 40 tensors."""
    write_model(folder, (([(f"t{i}_{j}", [0]) for j in range(40)], None) for i in range(size)))


def st_model_metadata(size, folder):
    """Files with 10,000 entries of metadata."""
    write_model(folder, (([(f"t{i}", [0])], {f"k{i * 10000 + j}": "v" for j in range(10000)}) for i in range(size)))


KINDS = {"st_names": st_names, "st_ranks": st_ranks, "st_metadata": st_metadata, "st_long_names": st_long_names,
         "st_model": st_model, "st_model_metadata": st_model_metadata}
