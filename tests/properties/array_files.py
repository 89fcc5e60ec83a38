"""Independent readers and writers of safetensors, npy and npz: json, zipfile, NumPy, and no code of the library."""

import io
import json
import os
import struct
import zipfile

import numpy as np
from message_files import read_file, write_file
from values import (
    BY_DESCR,
    BY_SAFETENSORS,
    DTYPES,
    OPAQUE,
    Model,
    Tensor,
    check,
    count,
    packed,
    string_values,
    strings,
    unpacked,
)

# What our writer adds to the metadata of safetensors; "format" it adds beside it.
OWN_KEYS = ("tensorcask.crc32c", "tensorcask.aliases")

# --- safetensors ---


def _unique(pairs):
    check(len({key for key, _ in pairs}) == len(pairs), "a key twice")
    return dict(pairs)


def read_header(data):
    (size,) = struct.unpack_from("<Q", data)
    check(size <= len(data) - 8, "the header leaves the file")
    text = data[8 : 8 + size].decode("utf-8")
    check(text.startswith("{"), "the header does not begin with a brace")
    return json.loads(text, object_pairs_hook=_unique), data[8 + size :]


def read_safetensors_file(path):
    header, data = read_header(read_file(path))
    metadata = header.pop("__metadata__", None) or {}
    check(all(isinstance(value, str) for value in metadata.values()), "metadata that is no text")
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        check(begin == end and stop <= len(data), name, "leaves a gap, overlaps or leaves the file")
        end = stop
        dtype, shape = BY_SAFETENSORS[entry["dtype"]], tuple(entry["shape"])
        content = unpacked(dtype, data[begin:stop], count(shape))
        check(len(content) == count(shape) * DTYPES[dtype][1], name, "has another size")
        tensors[name.encode()] = Tensor(dtype, shape, content)
    check(end == len(data), "bytes behind the last tensor")
    return Model(tensors, {key: value for key, value in metadata.items() if key not in OWN_KEYS})


def read_safetensors(path):
    """A file, or a model of several with its index, all of which must be there, and no other file that looks so."""
    if not path.endswith(".index.json"):
        return read_safetensors_file(path)
    index = json.loads(read_file(path), object_pairs_hook=_unique)
    folder, tensors = os.path.dirname(path), {}
    metadata = {key: value for key, value in index.get("metadata", {}).items() if isinstance(value, str)}
    for file in sorted(set(index["weight_map"].values())):
        part = read_safetensors_file(os.path.join(folder, file))
        listed = {name.encode() for name, where in index["weight_map"].items() if where == file}
        check(listed == set(part.tensors), file, "holds other tensors than its index says")
        tensors.update(part.tensors)
        metadata.update(part.metadata)
    return Model(tensors, metadata)


def safetensors_bytes(model, order=None):
    """As the reference writer does it: compact JSON, spaces up to a multiple of 8."""
    header, data = {}, b""
    if model.metadata:
        header["__metadata__"] = model.metadata
    for name, tensor in model.tensors.items():
        content = packed(tensor.dtype, tensor.data)
        header[name.decode()] = {
            "dtype": DTYPES[tensor.dtype][2],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    if order:
        header = {key: header[key] for key in order(list(header))}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def write_safetensors(path, model, order=None):
    write_file(path, safetensors_bytes(model, order))


def write_safetensors_model(path, model, parts=2):
    """NAME.safetensors.index.json and NAME-00001-of-00002.safetensors ... as Hugging Face's programs write them."""
    stem = os.path.basename(path)[: -len(".safetensors.index.json")]
    names = list(model.tensors)
    weight_map = {}
    for part in range(parts):
        file = f"{stem}-{part + 1:05d}-of-{parts:05d}.safetensors"
        own = {name: model.tensors[name] for name in names[part::parts]}
        write_safetensors(os.path.join(os.path.dirname(path), file), Model(own, model.metadata))
        weight_map.update({name.decode(): file for name in own})
    index = {"metadata": {"total_size": sum(len(packed(t.dtype, t.data)) for t in model.tensors.values())}, "weight_map": weight_map}
    write_file(path, json.dumps(index, indent=2, sort_keys=True).encode())


# --- npy and npz ---


def _loaded(stream):
    """(array, shape). NumPy 1 has no rank above 32: what NumPy 2 reads up to rank 64 is then a flat array, row-major."""
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read_header(stream)
    if len(shape) <= 32:
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False), shape
    check(len(shape) <= 64, "NumPy has no rank above 64")
    check(not by_column or sum(dim != 1 for dim in shape) <= 1, "an order that this reader does not know")
    return np.frombuffer(stream.read(count(shape) * dtype.itemsize), dtype), shape


def read_array(data):
    """A Tensor of the bytes of an npy file, which NumPy reads."""
    stream = io.BytesIO(data)
    array, shape = _loaded(stream)
    check(stream.tell() == len(data), "bytes behind the array")
    dtype = array.dtype
    if dtype.kind == "S":
        return Tensor("string", shape, strings(array.ravel().tolist()))
    if dtype.kind == "U":
        values = [value.encode("utf-8", "surrogatepass") for value in array.ravel().tolist()]
        return Tensor("string", shape, strings(values), ((b"npy.descr", b"<U"),))
    array = np.ascontiguousarray(array)
    array = array.astype(dtype.newbyteorder("<"), copy=False)
    if dtype.kind in "Mm":
        return Tensor("int64", shape, array.tobytes(), ((b"npy.descr", array.dtype.str.encode()),))
    descr = array.dtype.str.replace("|V2", "<V2")
    return Tensor(OPAQUE if descr == "|V1" else BY_DESCR[descr], shape, array.tobytes())


def array_bytes(tensor, by_column=False):
    """The bytes of an npy file, which NumPy writes."""
    descr = dict(tensor.attributes).get(b"npy.descr", b"").decode()
    if descr.startswith("<U"):
        values = [value.decode("utf-8", "surrogatepass") for value in string_values(tensor.data)]
        array = np.array(values, dtype=f"U{max([1, *map(len, values)])}").reshape(tensor.shape)
    elif descr:
        array = np.frombuffer(tensor.data, descr).reshape(tensor.shape)
    elif tensor.dtype == "string":
        values = string_values(tensor.data)
        array = np.array(values, dtype=f"S{max([1, *map(len, values)])}").reshape(tensor.shape)
    else:
        array = np.frombuffer(tensor.data, np.dtype(DTYPES[tensor.dtype][3])).reshape(tensor.shape)
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asfortranarray(array) if by_column else array, allow_pickle=False)
    return stream.getvalue()


def read_npy(path):
    name = os.path.splitext(os.path.basename(os.fsencode(path)))[0]
    return Model({name: read_array(read_file(path))})


def write_npy(path, model, by_column=lambda tensor: False):
    ((_, tensor),) = model.tensors.items()
    write_file(path, array_bytes(tensor, by_column(tensor)))


def _member_name(info):
    name = info.orig_filename
    return name.encode("utf-8" if info.flag_bits & 0x800 else "cp437")


def read_npz(path):
    tensors = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name = _member_name(info)
            if not name.endswith(b".npy"):
                continue
            check(name[:-4] not in tensors, "two arrays of one name")
            info.filename = info.orig_filename  # as the local header has it: zipfile cuts at a NUL
            tensors[name[:-4]] = read_array(archive.read(info))
    return Model(tensors)


def write_npz(path, model, by_column=lambda tensor: False, deflate=False):
    method = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, tensor in model.tensors.items():
            info = zipfile.ZipInfo("member")
            info.filename = name.decode() + ".npy"
            info.compress_type = method
            archive.writestr(info, array_bytes(tensor, by_column(tensor)))
