#!/usr/bin/env python3
"""Writes the files in golden/ with h5py 3.16 and Keras 3.15, and expected.json: what h5py reads of them.

make_golden.py FOLDER    (needs h5py, keras and a backend of Keras)
"""

import json
import os
import sys
import zlib

import h5py
import numpy as np


def keras_files(folder):
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(3, name="dense"),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Dense(2, dtype="bfloat16", name="last"),
        ],
        name="model",
    )
    model.save(os.path.join(folder, "model.keras"))
    model.save_weights(os.path.join(folder, "model.weights.h5"))
    model.save(os.path.join(folder, "whole.h5"))


def types_file(path):
    with h5py.File(path, "w") as file:
        for kind in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 ? c8 c16 >f4 >i2 >c8".split():
            name = kind.replace("?", "bool").replace(">", "big_")
            file.create_dataset("types/" + name, data=(np.arange(6) % 5).astype(kind).reshape(2, 3))
        file["scalar"] = np.float32(3.5)
        file["empty"] = np.zeros((0, 3), np.float32)
        file["enum"] = np.array([0, 1, 42], dtype=h5py.enum_dtype({"R": 0, "G": 1, "B": 42}, basetype="i2"))
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((3,))
        h5py.h5d.create(file.id, b"compact", h5py.h5t.NATIVE_FLOAT, space, compact).write(
            h5py.h5s.ALL, h5py.h5s.ALL, np.array([1, 2, 3], np.float32)
        )
        for name, value in {
            "int": 5, "floats": np.array([1.5, -2.5]), "text": "ünï", "fixed": np.bytes_("fixed"),
            "list": ["a", "bb", ""], "fixed_list": np.array([b"x", b"yyy"]), "flag": True, "complex": 1 + 2j,
            "none": h5py.Empty("f4"), "table": np.arange(6, dtype="i1").reshape(2, 3), "big": np.array(7, ">i4"),
            "no_items": np.zeros(0), "compound": np.zeros(2, [("a", "f4"), ("b", "i2")]),
        }.items():  # fmt: skip
            file.attrs[name] = value
        file["types"].attrs["what"] = "types"


def chunks_file(path):
    data = np.arange(13 * 7, dtype=np.float32).reshape(13, 7)
    with h5py.File(path, "w") as file:
        file.create_dataset("chunked", data=data, chunks=(4, 3))
        file.create_dataset("gzip", data=data, chunks=(5, 7), compression="gzip")
        file.create_dataset("shuffled", data=data, chunks=(4, 4), compression="gzip", shuffle=True)
        file.create_dataset("resizable", data=data[:5, :2], chunks=(4, 4), maxshape=(None, None))
        file.create_dataset("unwritten", shape=(3, 2), dtype="f4", fillvalue=2.5)
        file.create_dataset("zeros", shape=(3, 2), dtype="i8")
        holes = file.create_dataset("holes", shape=(9, 9), dtype=">i4", chunks=(4, 4), fillvalue=-7)
        holes[3:5, 2:3] = 1
        file.create_dataset("cube", data=np.arange(60, dtype="u1").reshape(3, 4, 5), chunks=(2, 3, 4))
        file["alias"] = file["chunked"]


def refused_file(path):
    with h5py.File(path, "w") as file:
        file["fine"] = np.arange(3.0)
        file["external"] = h5py.ExternalLink("/etc/passwd", "/x")
        file["soft"] = h5py.SoftLink("/fine")
    with h5py.File(path, "a") as file:
        group = file.create_group("g")
        group["loop"] = file["/"]
        group.create_dataset("storage", shape=(4,), dtype="u1", external=[("/etc/passwd", 0, 4)])
        group.create_dataset("lzf", data=np.zeros((8, 8)), chunks=(4, 4), compression="lzf")
        group.create_dataset("fletcher32", data=np.zeros((8, 8)), chunks=(4, 4), fletcher32=True)
        group["text"] = "a text"
        group["compound"] = np.zeros(2, [("a", "f4"), ("b", "i2")])
        group["opaque"] = np.zeros(2, "V3")
        group["null"] = h5py.Empty("f4")
        layout = h5py.VirtualLayout(shape=(3,), dtype="f8")
        layout[:] = h5py.VirtualSource("/etc/passwd", "x", shape=(3,))
    with h5py.File(path, "a", libver="latest") as file:
        file.create_virtual_dataset("virtual", layout)


def latest_file(path):
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        for i in range(4):
            file[f"group/{i}"] = np.arange(i + 1, dtype=np.float32)
        file.create_dataset("single", data=np.arange(12.0).reshape(3, 4), chunks=(3, 4), compression="gzip")
        early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        early.set_chunk((2, 2))
        early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        space = h5py.h5s.create_simple((5, 5))
        h5py.h5d.create(file.id, b"implicit", h5py.h5t.STD_I16LE, space, early).write(
            h5py.h5s.ALL, h5py.h5s.ALL, np.arange(25, dtype="i2").reshape(5, 5)
        )
        file.create_dataset("grows", data=np.arange(6.0), chunks=(2,), maxshape=(None,))
        for i in range(12):
            file[f"many/{i}"] = i
        file.attrs["text"] = "x"


def dense_file(path):
    """Links and attributes in heaps, and fixed arrays of chunks, one of them with pages."""
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        group = file.create_group("links", track_order=True)
        for i in range(100):
            group[f"link {i}"] = h5py.SoftLink("/fixed")
        group["fixed"] = np.arange(3, dtype="i2")
        for i in range(12):
            group.attrs[f"attribute {i}"] = np.arange(i, i + 3, dtype="i4")
        group.attrs["large"] = np.arange(1300, dtype="i4")  # too large for a block of the heap
        file.create_dataset("fixed", data=np.arange(35, dtype="u2").reshape(5, 7), chunks=(2, 3))
        file.create_dataset("gzip", data=np.arange(35, dtype="f4").reshape(5, 7), chunks=(2, 3), compression="gzip")
        holes = file.create_dataset("holes", shape=(9, 9), dtype="i4", chunks=(4, 4), fillvalue=-7)
        holes[3:5, 2:3] = 1
        pages = file.create_dataset("pages", shape=(2100,), dtype="u1", chunks=(1,), fillvalue=9)
        pages[1000:1010] = np.arange(10)
        pages[2090:] = np.arange(10)
    with h5py.File(path, "a", libver="latest") as file:
        file.create_dataset("layout_5", data=np.arange(35, dtype="f4"), chunks=(6,), compression="gzip", shuffle=True)


def user_block_file(path):
    with h5py.File(path, "w", userblock_size=512) as file:
        file["x"] = np.arange(4.0)


def opened(path, folder):
    """The HDF5 file at `path`, or the one inside."""
    if not path.endswith(".keras"):
        return h5py.File(path)
    import io
    import zipfile

    with zipfile.ZipFile(path) as archive:
        return h5py.File(io.BytesIO(archive.read("model.weights.h5")))


def expected(path, folder):
    """Of each dataset of numbers: dtype, shape, and the CRC-32 of the elements, little-endian and row-major."""
    tensors = {}

    def visit(name, item):
        if not isinstance(item, h5py.Dataset) or item.shape is None or item.is_virtual or item.external:
            return
        if item.dtype.kind not in "fiucbV" or item.dtype.names or item.dtype.kind == "V" and item.dtype.itemsize != 2:
            return
        data = np.asarray(item[()])
        if data.dtype.byteorder == ">":
            data = data.astype(data.dtype.newbyteorder("<"))
        dtype = "bfloat16" if data.dtype.kind == "V" else data.dtype.name
        tensors[name] = {"dtype": dtype, "shape": list(data.shape), "crc32": zlib.crc32(data.tobytes())}

    with opened(path, folder) as file:
        file.visititems(visit)
    return tensors


def main():
    folder = sys.argv[1]
    keras_files(folder)
    for name, write in (
        ("types", types_file),
        ("chunks", chunks_file),
        ("refused", refused_file),
        ("latest", latest_file),
        ("dense", dense_file),
        ("user_block", user_block_file),
    ):
        write(os.path.join(folder, name + ".h5"))
    files = sorted(name for name in os.listdir(folder) if name.endswith((".h5", ".keras")))
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as out:
        json.dump({name: expected(os.path.join(folder, name), folder) for name in files}, out, indent=1, sort_keys=True)
        out.write("\n")


main()
