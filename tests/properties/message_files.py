"""Independent readers and writers of messages, records and checkpoints.

They follow serialize/wire/FORMAT.md and serialize/checkpoint/FORMAT.md, that is TensorFlow's own formats, and share no
code with the library. What breaks a rule raises Broken. Compressed tensors (payloads) are not read.
"""

import glob
import os
import re
import struct

from table_forge import crc32c, index_file, masked, varint
from values import BITS, BY_NUMBER, DTYPES, Model, Tensor, check, count, row_major, size_of, string_values, strings


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def write_file(path, content):
    with open(path, "wb") as file:
        file.write(content)


# --- Messages ---


def field(number, content):
    """A field of a message: bytes with a length, or a number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content & (1 << 64) - 1)
    return varint(number << 3 | 2) + varint(len(content)) + content


def read_varint(data, start):
    number = shift = 0
    while True:
        check(start < len(data) and shift < 70, "a varint is cut")
        byte = data[start]
        start += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, start


def fields(data):
    """{number: [content, ...]}: numbers, or bytes."""
    found, start = {}, 0
    while start < len(data):
        tag, start = read_varint(data, start)
        kind = tag & 7
        if kind == 0:
            content, start = read_varint(data, start)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if kind == 2:
                size, start = read_varint(data, start)
            check(size is not None and size <= len(data) - start, "a field is cut, or of an unknown type")
            content = data[start : start + size]
            start += size
        found.setdefault(tag >> 3, []).append(content)
    return found


def signed(number):
    return number - (1 << 64) if number >> 63 else number


def last(found, number, default):
    return found.get(number, [default])[-1]


def numbers(contents):
    """Repeated numbers, packed or not."""
    result = []
    for content in contents:
        if isinstance(content, int):
            result.append(content)
            continue
        start = 0
        while start < len(content):
            number, start = read_varint(content, start)
            result.append(number)
    return result


def shape_message(shape):
    return b"".join(field(2, field(1, dim) if dim else b"") for dim in shape)


def read_shape(data):
    return tuple(signed(last(fields(dim), 1, 0)) for dim in fields(data).get(2, []))


def extension_message(name, tensor, extra=b""):
    """What TensorExtension says beside elements. `extra`: further fields, between 2 and 9."""
    attributes = b"".join(field(9, field(1, key) + field(2, value)) for key, value in tensor.attributes)
    return (field(1, name) if name else b"") + (field(2, tensor.device) if tensor.device else b"") + extra + attributes


def read_metadata(extension):
    attributes = []
    for attribute in extension.get(9, []):
        found = fields(attribute)
        attributes.append((last(found, 1, b""), last(found, 2, b"")))
    return tuple(sorted(attributes)), last(extension, 2, b"")


def layout_of(tensor, by_column):
    """(strides, elements in that order): row-major, or the other way round."""
    shape, size = tensor.shape, size_of(tensor.dtype)
    strides, step = [], 1
    for dim in shape if by_column else reversed(shape):
        strides.append(step)
        step *= max(dim, 1)
    if not by_column:
        return strides[::-1], tensor.data
    rows, step = [], 1
    for dim in reversed(shape):
        rows.insert(0, step)
        step *= max(dim, 1)
    return strides, row_major(tensor.data, shape[::-1], rows[::-1], 0, size)


def message(name, tensor, by_column=False):
    """A TensorProto: plain, or extension-only if messages of TensorFlow lack the dtype or the order of elements."""
    number = DTYPES[tensor.dtype][0]
    shape = field(2, shape_message(tensor.shape))
    if tensor.dtype == "string":
        values = b"".join(field(8, value) for value in string_values(tensor.data))
        extension = extension_message(name, tensor)
        return field(1, number) + shape + values + (field(4096, extension) if extension else b"")
    content, extra, dtype = tensor.data, b"", field(1, number)
    if number >= 64 or by_column:
        dtype, extra = b"", field(3, number)
        if by_column:
            strides, content = layout_of(tensor, True)
            extra += field(4, b"".join(map(varint, strides)))
    extension = extension_message(name, tensor, extra)
    return dtype + shape + (field(4, content) if content else b"") + (field(4096, extension) if extension else b"")


_WIDE = {5: (4, 1), 6: (8, 1), 9: (4, 2), 12: (8, 2)}  # typed fields of floats: (bytes of a number, numbers an element)


def _typed_values(found, dtype, elements):
    """The elements of the typed field, completed by the rules of serialize/wire/FORMAT.md, 2.3."""
    number = DTYPES[dtype][0]
    which = {1: 5, 2: 6, 7: 8, 8: 9, 9: 10, 10: 11, 14: 13, 18: 12, 19: 13, 22: 16, 23: 17, 24: 18, 25: 18}.get(number, 7)
    contents = found.get(which, [])
    if dtype == "string":
        values = contents + ([contents[-1] if contents else b""] * (elements - len(contents)))
        return strings(values[:elements])
    size = size_of(dtype)
    if which in _WIDE or which == 18:
        data = b"".join(contents)
    else:
        bits = BITS.get(dtype, 8 * size)
        data = b"".join((value & (1 << bits) - 1).to_bytes(size, "little") for value in numbers(contents))
    if not data:
        return bytes(size * elements)
    check(len(data) % size == 0 and len(data) <= size * elements, "values that do not fit the shape")
    return data + data[-size:] * (elements - len(data) // size)


def read_message(data):
    """(name, Tensor)."""
    found = fields(data)
    shape = read_shape(b"".join(found.get(2, [])))
    extension = fields(b"".join(found.get(4096, [])))
    check(10 not in extension, "a payload")
    number = last(found, 1, 0) or last(extension, 3, 0)
    check(number in BY_NUMBER, "dtype", number)
    dtype, content = BY_NUMBER[number], last(found, 4, b"")
    if 3 in extension:
        check(last(found, 1, 0) == 0, "a mixture of forms")
    if dtype == "string" and content:
        lengths, start = [], 0
        for _ in range(count(shape)):
            length, start = read_varint(content, start)
            lengths.append(length)
        values = []
        for length in lengths:
            values.append(content[start : start + length])
            start += length
        content = strings(values)
    elif not content:
        content = _typed_values(found, dtype, count(shape))
    if 4 in extension:
        strides = [signed(stride) for stride in numbers(extension[4])]
        content = row_major(content, shape, strides, signed(last(extension, 5, 0)), size_of(dtype))
    check(dtype == "string" or len(content) == count(shape) * size_of(dtype), "content of another size")
    return last(extension, 1, b""), Tensor(dtype, shape, content, *read_metadata(extension))


def write_message(path, model):
    ((_, tensor),) = model.tensors.items()
    write_file(path, message(tensor.own_name, tensor))


def named_by_file(path, own_name, tensor):
    """The tensor of a file that holds one has the name of the file."""
    return Model({os.path.splitext(os.path.basename(os.fsencode(path)))[0]: tensor._replace(own_name=own_name)})


def read_message_file(path):
    return named_by_file(path, *read_message(read_file(path)))


# --- Records ---


def record(data):
    header = struct.pack("<Q", len(data))
    return header + struct.pack("<I", masked(crc32c(header))) + data + struct.pack("<I", masked(crc32c(data)))


def write_records(path, model, by_column=lambda tensor: False):
    write_file(path, b"".join(record(message(name, tensor, by_column(tensor))) for name, tensor in model.tensors.items()))


def read_records(path):
    return records_of(read_file(path))


def records_of(data):
    tensors, start = {}, 0
    while start < len(data):
        (size,) = struct.unpack_from("<Q", data, start)
        head, body = data[start : start + 8], data[start + 12 : start + 12 + size]
        check(data[start + 8 : start + 12] == struct.pack("<I", masked(crc32c(head))), "a length's checksum")
        start += 12 + size
        check(data[start : start + 4] == struct.pack("<I", masked(crc32c(body))), "a record's checksum")
        start += 4
        name, tensor = read_message(body)
        name = name or str(len(tensors)).encode()
        check(name not in tensors, "two records of one name")
        tensors[name] = tensor
    return Model(tensors)


# --- Messages as text ---

_TOKEN = re.compile(r"""\s+|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign>[{}\[\]:,<>;])|(?P<word>[^\s{}\[\]:,<>;"']+)""")
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v"}


def _unescaped(text):
    def one(match):
        code = match[1].decode()
        if code in _ESCAPES:
            return _ESCAPES[code]
        if code[0] in "01234567":
            return bytes([int(code, 8) & 255])
        return bytes([int(code[1:], 16)]) if code[0] == "x" else code.encode()

    return re.sub(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", one, text.encode("latin-1")[1:-1], flags=re.DOTALL)


def _text_fields(tokens):
    """{name: [word, bytes, or {...}]} up to the closing brace."""
    found = {}
    while tokens and tokens[0][1] != "}":
        name = tokens.pop(0)[1]
        if tokens[0][1] == ":":
            tokens.pop(0)
        values = found.setdefault(name, [])
        if tokens[0][1] == "{":
            tokens.pop(0)
            values.append(_text_fields(tokens))
            check(tokens and tokens.pop(0)[1] == "}", "a brace is missing")
        elif tokens[0][1] == "[":
            while tokens.pop(0)[1] != "]":
                if tokens[0][1] != "]":
                    values.append(_text_value(tokens))
        else:
            values.append(_text_value(tokens))
    return found


def _text_value(tokens):
    if tokens[0][0] != "text":
        return tokens.pop(0)[1]
    value = b""
    while tokens and tokens[0][0] == "text":
        value += _unescaped(tokens.pop(0)[1])
    return value


_TEXT_DTYPES = {"DT_FLOAT": "float32", "DT_DOUBLE": "float64", "DT_HALF": "float16"}


def read_text(path):
    text = read_file(path).decode("latin-1")
    text = re.sub(r"(?m)^\s*#.*$", "", text)
    found = _text_fields([(match.lastgroup, match[0]) for match in _TOKEN.finditer(text) if match.lastgroup])
    ((extension,), (shape,)) = found.get("extension", [{}]), found.get("tensor_shape", [{}])
    dims = tuple(int(dim.get("size", ["0"])[0]) for dim in shape.get("dim", []))
    name = extension.get("name", [b""])[0]
    if "dtype" in extension:
        dtype = BY_NUMBER[int(extension["dtype"][0])]
    else:
        word = found["dtype"][0]
        dtype = BY_NUMBER[int(word)] if word.isdigit() else _TEXT_DTYPES.get(word, word[3:].lower())
    data = found["tensor_content"][0] if "tensor_content" in found else _values_of_text(found, dtype, count(dims))
    if "strides" in extension:
        strides = [int(stride) for stride in extension["strides"]]
        data = row_major(data, dims, strides, int(extension.get("storage_offset", ["0"])[0]), size_of(dtype))
    attributes = tuple(sorted((a["key"][0], a.get("value", [b""])[0]) for a in extension.get("attributes", [])))
    device = extension.get("device", [b""])[0]
    return named_by_file(path, name, Tensor(dtype, dims, data, attributes, device))


def _values_of_text(found, dtype, elements):
    names = [name for name in found if name.endswith("_val")]
    values = found[names[0]] if names else []
    if dtype == "string":
        return strings((values + [values[-1] if values else b""] * elements)[:elements])
    if names and names[0] == "float8_val":
        data = values[0]
    elif dtype in ("float32", "complex64", "float64", "complex128"):
        code = "<f" if dtype in ("float32", "complex64") else "<d"
        data = b"".join(struct.pack(code, float(value)) for value in values)
    elif dtype == "bool":
        data = bytes(value in ("true", "1") for value in values)
    else:
        size = size_of(dtype)
        bits = BITS.get(dtype, 8 * size)
        data = b"".join((int(value) & (1 << bits) - 1).to_bytes(size, "little") for value in values)
    size = size_of(dtype)
    return (data or bytes(size)) + (data or bytes(size))[-size:] * (elements - max(1, len(data) // size)) if elements else b""


def _quoted(data):
    return '"' + "".join(f"\\{byte:03o}" for byte in data) + '"'


def write_text(path, model):
    ((_, tensor),) = model.tensors.items()
    name, number = tensor.own_name, DTYPES[tensor.dtype][0]
    dims = " ".join(f"dim {{ size: {dim} }}" for dim in tensor.shape)
    values = f"tensor_content: {_quoted(tensor.data)}"
    if tensor.dtype == "string":
        values = " ".join(f"string_val: {_quoted(value)}" for value in string_values(tensor.data))
    extension = f"name: {_quoted(name)} " if name else ""
    extension += f"device: {_quoted(tensor.device)} " if tensor.device else ""
    extension += f"dtype: {number} " if number >= 64 else ""
    for key, value in tensor.attributes:
        extension += f"attributes {{ key: {_quoted(key)} value: {_quoted(value)} }} "
    dtype = "" if number >= 64 else f"dtype: {number}"
    write_file(path, f"{dtype} tensor_shape {{ {dims} }} {values} extension {{ {extension}}}\n".encode())


# --- Checkpoints ---


def _strings_entry(values):
    """What a checkpoint stores of strings, and its checksum."""
    lengths = b"".join(map(varint, map(len, values)))
    crc = crc32c(b"".join(struct.pack("<I", len(value)) for value in values))
    checksum = struct.pack("<I", masked(crc))
    return lengths + checksum + b"".join(values), crc32c(checksum + b"".join(values), crc)


def write_checkpoint(path, model, shards=1, by_column=lambda tensor: False):
    """Tensors in turn go to `shards` data files."""
    data, entries, extended = [b""] * shards, [], False
    for turn, (name, tensor) in enumerate(model.tensors.items()):
        shard, number, extra = turn % shards, DTYPES[tensor.dtype][0], b""
        content, dtype = tensor.data, field(1, number)
        if tensor.dtype == "string":
            content, crc = _strings_entry(string_values(tensor.data))
        else:
            if number >= 64 or by_column(tensor):
                dtype, extra, extended = b"", field(3, number), True
                if by_column(tensor):
                    strides, content = layout_of(tensor, True)
                    extra += field(4, b"".join(map(varint, strides)))
            crc = crc32c(content)
        extension = extension_message(tensor.own_name, tensor, extra)
        entry = dtype + field(2, shape_message(tensor.shape)) + (field(3, shard) if shard else b"")
        entry += field(4, len(data[shard])) + field(5, len(content)) + varint(6 << 3 | 5) + struct.pack("<I", masked(crc))
        entries.append((name, entry + (field(4096, extension) if extension else b"")))
        data[shard] += content
    header = field(1, shards) + field(3, field(1, 1) + (field(2, 2) if extended else b""))
    header += field(4096, field(1, 2)) if extended else b""
    write_file(path + ".index", index_file([(b"", header), *sorted(entries)]))
    for shard, content in enumerate(data):
        write_file(f"{path}.data-{shard:05d}-of-{shards:05d}", content)


def _block(file, handle):
    offset, start = read_varint(handle, 0)
    size, _ = read_varint(handle, start)
    check(offset + size + 5 <= len(file), "a block leaves the file")
    content, kind = file[offset : offset + size], file[offset + size]
    check(kind == 0, "a compressed block")
    check(file[offset + size + 1 : offset + size + 5] == struct.pack("<I", masked(crc32c(content + b"\0"))), "a block's checksum")
    (restarts,) = struct.unpack_from("<I", content, size - 4)
    end, start, key, pairs = size - 4 - 4 * restarts, 0, b"", []
    while start < end:
        shared, start = read_varint(content, start)
        unshared, start = read_varint(content, start)
        length, start = read_varint(content, start)
        key = key[:shared] + content[start : start + unshared]
        start += unshared
        pairs.append((key, content[start : start + length]))
        start += length
    return pairs


def read_table(path):
    """[(key, value), ...] of an index file."""
    file = read_file(path)
    check(file[-8:] == bytes.fromhex("57fb808b247547db"), "another magic")
    footer = file[-48:]
    _, start = read_varint(footer, 0)
    _, start = read_varint(footer, start)
    pairs = [pair for _, handle in _block(file, footer[start:]) for pair in _block(file, handle)]
    check(pairs == sorted(pairs), "keys out of order")
    return pairs


def _read_strings(content, elements, crc):
    lengths, start = [], 0
    for _ in range(elements):
        length, start = read_varint(content, start)
        lengths.append(length)
    values, place = [], start + 4
    for length in lengths:
        values.append(content[place : place + length])
        place += length
    check(place == len(content), "strings of another size")
    stored, found = _strings_entry(values)
    check(stored == content and masked(found) == crc, "the checksum of strings")
    return strings(values)


def read_checkpoint(path):
    pairs = dict(read_table(path + ".index"))
    header = fields(pairs.pop(b""))
    shards = last(header, 1, 0)
    names = [f"{path}.data-{shard:05d}-of-{shards:05d}" for shard in range(shards)]
    files = [read_file(name) for name in names]
    others = set(glob.glob(glob.escape(path) + ".data-*")) - set(names)
    check(not others, "data files of no index", sorted(others))
    tensors, places = {}, []
    for name, value in pairs.items():
        entry = fields(value)
        check(7 not in entry and not name.startswith(b"\0"), "slices")
        shard, offset, size = last(entry, 3, 0), last(entry, 4, 0), last(entry, 5, 0)
        content = files[shard][offset : offset + size]
        check(len(content) == size, name, "leaves its data file")
        shape = read_shape(last(entry, 2, b""))
        (crc,) = struct.unpack("<I", last(entry, 6, bytes(4)))
        extension = fields(last(entry, 4096, b""))
        check(10 not in extension, "a payload")
        dtype = BY_NUMBER[last(entry, 1, 0) or last(extension, 3, 0)]
        if dtype == "string":
            content = _read_strings(content, count(shape), crc)
        else:
            check(masked(crc32c(content)) == crc, name, "has another checksum")
            check(len(content) == count(shape) * size_of(dtype), name, "has another size")
        if 4 in extension:
            strides = [signed(stride) for stride in numbers(extension[4])]
            content = row_major(content, shape, strides, signed(last(extension, 5, 0)), size_of(dtype))
        tensors[name] = Tensor(dtype, shape, content, *read_metadata(extension), last(extension, 1, b""))
        places.append(((shard, offset, size > 0, name), name))
    return Model({name: tensors[name] for _, name in sorted(places)})

