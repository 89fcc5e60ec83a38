#!/usr/bin/env python3
"""Random pickles, well formed and damaged, read by serialize/torch and by Python's own unpickler with the same table.

    pickle_grammar_test.py [--count=N] [--seed=N]

Both make the same value of a pickle, or both refuse it. A million pickles take some minutes:

    bazel run //tests/serialize/torch:pickle_grammar_test -- --count=1000000
"""

import argparse
import collections
import io
import os
import pickle
import random
import struct
import subprocess
import sys

ORACLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pickle_oracle")
BATCH = 5000


class Refused(Exception):
    pass


class NotCompared(Exception):
    """A key with a list in it, which is harmless as data and which Python refuses; or a name that only the library has."""


# ---- What Python makes of a pickle -----------------------------------------------------------------------------------


class Name:
    """A class or function of the table."""

    def __init__(self, name):
        self.name = name


class Object:
    """An object of a class of plain values."""

    def __init__(self, name, arguments):
        self.name, self.arguments, self.state, self.items, self.entries = name, arguments, None, None, None


class Size(tuple):
    pass


class Device(str):
    pass


def refuse(condition, why):
    if condition:
        raise Refused(why)


def is_list(value):
    return isinstance(value, (list, tuple)) and not isinstance(value, (str, bytes))


def new_dict(*arguments):
    if not arguments:
        return {}
    refuse(len(arguments) != 1, "dict")
    (pairs,) = arguments
    if isinstance(pairs, dict):
        return dict(pairs)
    refuse(not is_list(pairs) or any(not is_list(pair) or isinstance(pair, Size) or len(pair) != 2 for pair in pairs),
           "dict")  # fmt: skip
    return dict(pairs)


def new_set(*arguments):
    if not arguments:
        return set()
    refuse(len(arguments) != 1 or not is_list(arguments[0]), "set")
    return set(arguments[0])


def new_bytes(*arguments):
    if not arguments:
        return b""
    if len(arguments) == 1 and isinstance(arguments[0], bytes):
        return arguments[0]
    refuse(len(arguments) != 2 or type(arguments[0]) is not str or arguments[1] not in ("latin1", "latin-1"), "bytes")
    try:
        return arguments[0].encode("latin1")
    except UnicodeEncodeError as error:
        raise Refused("latin1") from error


def new_complex(*arguments):
    refuse(len(arguments) != 2 or any(type(part) not in (int, float, bool) for part in arguments), "complex")
    return complex(*map(float, arguments))


def new_size(*arguments):
    refuse(len(arguments) != 1 or type(arguments[0]) is not tuple, "size")
    return Size(arguments[0])


def new_device(*arguments):
    refuse(len(arguments) not in (1, 2) or type(arguments[0]) is not str, "device")
    refuse(len(arguments) == 2 and type(arguments[1]) is not int, "device")
    return Device(arguments[0] if len(arguments) == 1 else f"{arguments[0]}:{arguments[1]}")


CALLS = {
    "collections.OrderedDict": new_dict,
    "builtins.set": new_set,
    "builtins.frozenset": new_set,
    "builtins.bytes": new_bytes,
    "builtins.bytearray": new_bytes,
    "_codecs.encode": new_bytes,
    "builtins.complex": new_complex,
    "torch.Size": new_size,
    "torch.device": new_device,
    "argparse.Namespace": None,
    "torch.float32": None,
    "torch.bfloat16": None,
}


class Machine(pickle._Unpickler):
    """Python's unpickler, with the instructions of FORMAT.md section 2 and the names above."""

    dispatch = dict(pickle._Unpickler.dispatch)
    for _code in b"PioILFSVldgp\x82\x83\x84\x97\x98":
        dispatch.pop(_code, None)

    def __init__(self, file):
        super().__init__(file)
        self.file = file

    def position(self):
        frame = self._unframer.current_frame
        left = len(frame.getbuffer()) - frame.tell() if frame else 0
        return self.file.tell() - left

    def read_line(self):
        line = self.readline()
        refuse(not line.endswith(b"\n"), "a name is cut")
        return line[:-1]

    def load(self):
        try:
            return super().load()
        except (Refused, NotCompared):
            raise
        except TypeError as error:
            if "unhashable" in str(error):
                raise NotCompared from error
            raise Refused(str(error)) from error
        except Exception as error:  # of any kind: the pickle is wrong
            raise Refused(f"{type(error).__name__}: {error}") from error

    def find_class(self, module, name):
        full = f"{'builtins' if module == '__builtin__' else module}.{name}"
        if full not in CALLS and full.startswith(("torch.", "builtins.", "collections.")):
            raise NotCompared  # damage may make a name that the library knows
        refuse(full not in CALLS, full)
        return Name(full)


def instruction(code):
    def add(function):
        Machine.dispatch[code] = function
        return function

    return add


@instruction(0x80)
def load_proto(self):
    refuse(self.file.tell() != 1, "PROTO inside")
    refuse(not 2 <= self.read(1)[0] <= 5, "protocol")


@instruction(ord("."))
def load_stop(self):
    refuse(self.metastack or len(self.stack) != 1, "the stack")
    refuse(self._unframer.current_frame and self._unframer.current_frame.read(1), "inside a frame")
    raise pickle._Stop(self.stack.pop())


@instruction(ord("c"))
def load_global(self):
    module, name = self.read_line(), self.read_line()
    self.append(self.find_class(module.decode("utf-8"), name.decode("utf-8")))


def load_text(size):
    def load(self):
        (count,) = struct.unpack(size, self.read(struct.calcsize(size)))
        refuse(count < 0, "a length")
        data = self.read(count)
        try:
            self.append(data.decode("utf-8"))
        except UnicodeDecodeError:
            self.append(data)

    return load


for _code, _size in (("X", "<I"), ("\x8c", "<B"), ("\x8d", "<Q"), ("U", "<B"), ("T", "<i")):
    instruction(ord(_code))(load_text(_size))


@instruction(0x96)
def load_bytearray8(self):
    (count,) = struct.unpack("<Q", self.read(8))
    self.append(self.read(count))


@instruction(0x8A)
def load_long1(self):
    self.append(int.from_bytes(self.read(self.read(1)[0]), "little", signed=True))


@instruction(0x8B)
def load_long4(self):
    (count,) = struct.unpack("<i", self.read(4))
    refuse(not 0 <= count <= 255, "a length")
    self.append(int.from_bytes(self.read(count), "little", signed=True))


@instruction(0x91)
def load_frozenset(self):
    items = self.pop_mark()
    self.append(set(items))


def add_items(self, target, items, kinds):
    if isinstance(target, Object):
        if target.items is None:
            target.items = [] if list in kinds else set()
        target = target.items
    refuse(type(target) not in kinds, "adds to another value")
    if isinstance(target, list):
        target.extend(items)
    else:
        target.update(items)


@instruction(ord("a"))
def load_append(self):
    item = self.stack.pop()
    add_items(self, self.stack[-1], [item], (list,))


@instruction(ord("e"))
def load_appends(self):
    items = self.pop_mark()
    add_items(self, self.stack[-1], items, (list,))


@instruction(0x90)
def load_additems(self):
    items = self.pop_mark()
    add_items(self, self.stack[-1], items, (set,))


def set_items(self, target, items):
    if isinstance(target, Object):
        if target.entries is None:
            target.entries = {}
        target = target.entries
    refuse(type(target) is not dict or len(items) % 2 != 0, "sets an item of another value")
    for i in range(0, len(items), 2):
        target[items[i]] = items[i + 1]


@instruction(ord("s"))
def load_setitem(self):
    value, key = self.stack.pop(), self.stack.pop()
    set_items(self, self.stack[-1], [key, value])


@instruction(ord("u"))
def load_setitems(self):
    items = self.pop_mark()
    set_items(self, self.stack[-1], items)


def call(name, arguments):
    refuse(not isinstance(name, Name) or type(arguments) is not tuple, "a call")
    if name.name == "argparse.Namespace":
        return Object(name.name, arguments)
    refuse(CALLS[name.name] is None, "never called")
    return CALLS[name.name](*arguments)


@instruction(ord("R"))
@instruction(0x81)
def load_reduce(self):
    arguments, name = self.stack.pop(), self.stack.pop()
    self.append(call(name, arguments))


@instruction(0x92)
def load_newobj_ex(self):
    keywords, arguments, name = self.stack.pop(), self.stack.pop(), self.stack.pop()
    refuse(type(keywords) is not dict or keywords, "keywords")
    self.append(call(name, arguments))


@instruction(ord("b"))
def load_build(self):
    state, target = self.stack.pop(), self.stack[-1]
    if isinstance(target, Object):
        refuse(target.state is not None, "two states")
        target.state = (state,)
    else:
        refuse(type(target) is not dict, "no state")


@instruction(ord("Q"))
def load_persistent_id(self):
    raise Refused("a storage")


@instruction(0x95)
def load_frame(self):
    (size,) = struct.unpack("<Q", self.read(8))
    refuse(size > len(self.file.getbuffer()) - self.file.tell(), "a frame past the end")
    self._unframer.load_frame(size)


def put(self, slot):
    refuse(not self.stack, "nothing to keep")
    refuse(slot >= self.position(), "a memo past the bytes")
    self.memo[slot] = self.stack[-1]


instruction(ord("q"))(lambda self: put(self, self.read(1)[0]))
instruction(ord("r"))(lambda self: put(self, struct.unpack("<I", self.read(4))[0]))
instruction(0x94)(lambda self: put(self, len(self.memo)))


def as_text(value, above=()):
    refuse(id(value) in above, "contains itself")
    inner = (*above, id(value))

    def texts(items):
        return ", ".join(as_text(item, inner) for item in items)

    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return "f" + struct.pack(">d", value).hex()
    if isinstance(value, complex):
        return f"complex({as_text(value.real)},{as_text(value.imag)})"
    if isinstance(value, Device):
        return f"device({value.encode().hex()})"
    if isinstance(value, str):
        return "t" + value.encode().hex()
    if isinstance(value, bytes):
        return "b" + value.hex()
    if isinstance(value, Size):
        return f"size({texts(value)})"
    if isinstance(value, tuple):
        return f"({texts(value)})"
    if isinstance(value, list):
        return f"[{texts(value)}]"
    if isinstance(value, set):
        return f"set({', '.join(sorted(as_text(item, inner) for item in value))})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_text(key, inner)}: {as_text(item, inner)}" for key, item in value.items()) + "}"
    if isinstance(value, Name):
        kind = value.name.removeprefix("torch.")
        return f"dtype({kind})" if kind in ("float32", "bfloat16") else f"object({value.name}, none, none)"
    state = None if value.state is None else value.state[0]
    if value.items is not None or value.entries is not None:
        state = (state, value.items, value.entries)
    return f"object({value.name}, {as_text(value.arguments, inner)}, {as_text(state, inner)})"


def of_python(data):
    """The line of the oracle, "refused: ...", or None for what is not compared."""
    file = io.BytesIO(data)
    try:
        refuse(not data.startswith(b"\x80"), "no PROTO")
        value = Machine(file).load()
        refuse(file.read(1) != b"", "bytes behind")
        return as_text(value)
    except Refused as error:
        return f"refused: {error}"
    except NotCompared:
        return None


# ---- The grammar -----------------------------------------------------------------------------------------------------


class Writer:
    """Writes one pickle: values in random forms, memos, frames, and values that are dropped again."""

    def __init__(self, rng):
        self.rng, self.slots = rng, {}

    def text(self, value):
        data, rng = value.encode(), self.rng
        forms = [b"X" + struct.pack("<I", len(data)), b"\x8d" + struct.pack("<Q", len(data)),
                 b"T" + struct.pack("<i", len(data))]  # fmt: skip
        if len(data) < 256:
            forms += [b"\x8c" + bytes([len(data)]), b"U" + bytes([len(data)])]
        return rng.choice(forms) + data

    def word(self):
        return self.rng.choice(["", "a", "b", "größe", "a.b", "weight", "x" * 300, "\x00", "\u20ac"])

    def number(self):
        rng = self.rng
        value = rng.choice([0, 1, 2, 255, 256, 65535, 65536, 2**31 - 1, -(2**31), -1, 2**31, 2**63 - 1, -(2**63), 2**63,
                            2**64 - 1, 2**64, 2**100, -(2**100), rng.getrandbits(70)])  # fmt: skip
        length = (value.bit_length() + 8) // 8 + rng.choice([0, 0, 0, 1, 3])
        data = value.to_bytes(length, "little", signed=True)
        forms = [b"\x8a" + bytes([length]) + data, b"\x8b" + struct.pack("<i", length) + data]
        if 0 <= value < 256:
            forms.append(b"K" + bytes([value]))
        if 0 <= value < 65536:
            forms.append(b"M" + struct.pack("<H", value))
        if -(2**31) <= value < 2**31:
            forms.append(b"J" + struct.pack("<i", value))
        return rng.choice(forms)

    def data(self):
        data = self.rng.randbytes(self.rng.choice([0, 1, 5]))
        return self.rng.choice([b"C" + bytes([len(data)]), b"B" + struct.pack("<I", len(data)),
                                b"\x8e" + struct.pack("<Q", len(data)), b"\x96" + struct.pack("<Q", len(data))]) + data

    def name(self, full):
        module, _, name = full.rpartition(".")
        if module == "builtins" and self.rng.random() < 0.5:
            module = "__builtin__"
        if self.rng.random() < 0.5:
            return f"c{module}\n{name}\n".encode()
        return self.text(module) + self.text(name) + b"\x93"

    def tuple_of(self, items):
        if len(items) < 4 and self.rng.random() < 0.7:
            return b"".join(items) + (b")", b"\x85", b"\x86", b"\x87")[len(items)]
        return b"(" + b"".join(items) + b"t"

    def call(self, full, *arguments):
        last = self.rng.choice([b"R", b"R", b"\x81", b"}\x92"])
        return self.name(full) + self.tuple_of(list(arguments)) + last

    def scalar(self):
        rng = self.rng
        return rng.choice([
            lambda: b"N",
            lambda: rng.choice([b"\x88", b"\x89"]),
            self.number,
            lambda: b"G" + rng.choice([struct.pack(">d", rng.uniform(-9, 9)), rng.randbytes(8)]),
            lambda: self.text(self.word()),
            self.data,
            lambda: self.call("builtins.complex", b"K\x01", b"G" + struct.pack(">d", -0.5)),
            lambda: self.call("_codecs.encode", self.text("\xff\x00a"), self.text("latin1")),
            lambda: self.call("torch.device", self.text("cuda"), b"K\x01"),
            lambda: self.call("torch.device", self.text("cpu")),
            lambda: self.name(rng.choice(["torch.float32", "torch.bfloat16"])),
            lambda: self.call("torch.Size", self.tuple_of([b"K\x02", b"K\x03"])),
        ])()  # fmt: skip

    def key(self):
        return self.rng.choice([lambda: self.text(self.word()), lambda: b"K" + bytes([self.rng.randrange(3)]),
                                lambda: b"\x88", lambda: b"N", lambda: b"G" + struct.pack(">d", 1.0)])()  # fmt: skip

    def items(self, depth):
        return [self.value(depth - 1) for _ in range(self.rng.choice([0, 1, 2, 3, 5]))]

    def filled(self, items, one, many):
        """The items put into the value on the stack, one by one or together."""
        if self.rng.random() < 0.4:
            return b"".join(item + one for item in items)
        return b"(" + b"".join(items) + many

    def container(self, depth):
        rng = self.rng
        kind = rng.randrange(7)
        if kind == 0:
            return self.tuple_of(self.items(depth))
        if kind == 1:
            slot = self.kept() if rng.random() < 0.3 else b""
            return b"]" + slot + self.filled(self.items(depth), b"a", b"e")
        entries = [self.key() + item for item in self.items(depth)]
        if kind == 2:
            return b"}" + self.filled(entries, b"s", b"u")
        if kind == 3:
            made = self.call("collections.OrderedDict") + self.filled(entries, b"s", b"u")
            return made + (b"}b" if rng.random() < 0.3 else b"")
        words = [self.text(self.word()) for _ in range(3)]
        if kind == 4:
            return rng.choice([b"\x8f(" + b"".join(words) + b"\x90", b"(" + b"".join(words) + b"\x91"])
        if kind == 5:
            return self.call("builtins.set", b"](" + b"".join(words) + b"e")
        state = b"}" + self.filled(entries, b"s", b"u") + b"b" if rng.random() < 0.8 else b""
        return self.call("argparse.Namespace") + state

    def kept(self):
        """Keeps the value on the stack."""
        form = self.rng.randrange(3)
        if form == 0:
            self.slots[len(self.slots)] = True
            return b"\x94"
        slot = len(self.slots)
        self.slots[slot] = True
        return b"q" + bytes([slot]) if form == 1 and slot < 256 else b"r" + struct.pack("<I", slot)

    def value(self, depth=3):
        rng = self.rng
        if self.slots and rng.random() < 0.1:
            slot = rng.choice(list(self.slots))
            return b"h" + bytes([slot]) if slot < 256 and rng.random() < 0.7 else b"j" + struct.pack("<I", slot)
        made = self.container(depth) if depth > 0 and rng.random() < 0.6 else self.scalar()
        if rng.random() < 0.2:
            made += self.kept()
        if rng.random() < 0.05:
            made += rng.choice([b"20", b"N0", b"(N1", b"(0"])
        return made


def well_formed(rng):
    body = Writer(rng).value() + b"."
    protocol = rng.choice([2, 3, 4, 5])
    if rng.random() < 0.3:
        body = b"\x95" + struct.pack("<Q", len(body)) + body
    return b"\x80" + bytes([protocol]) + body


def damaged(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(1, len(data))
        what = rng.randrange(5)
        if what == 0:
            data[at] = rng.randrange(256)
        elif what == 1:
            del data[at : at + rng.choice([1, 1, 4])]
        elif what == 2:
            data[at:at] = bytes([rng.choice(b"()012.NKa es}]R\x81\x85\x86\x90\x94b\x88tu")])
        elif what == 3:
            other = rng.randrange(1, len(data))
            data[at:at] = data[other : other + rng.randrange(1, 12)]
        else:
            del data[at:]
        if len(data) < 2:
            break
    return bytes(data)


# ---- The comparison --------------------------------------------------------------------------------------------------


def of_library(batch):
    stream = b"".join(struct.pack("<I", len(data)) + data for data in batch)
    done = subprocess.run([ORACLE], input=stream, capture_output=True, check=True)
    lines = done.stdout.decode().splitlines()
    assert len(lines) == len(batch), (len(lines), len(batch))
    return lines


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=int(os.environ.get("PICKLES", "20000")))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    sys.setrecursionlimit(10_000)
    counts, wrong = collections.Counter(), []
    for first in range(0, options.count, BATCH):
        rng = random.Random(f"{options.seed} {first}")
        batch = []
        while len(batch) < min(BATCH, options.count - first):
            data = well_formed(rng)
            batch.append(damaged(rng, data) if rng.random() < 0.6 else data)
        for data, ours in zip(batch, of_library(batch)):
            theirs = of_python(data)
            # Python looks at frames when it reads from them, and so lets some instructions leave theirs.
            leaves_frame = ours.endswith(("leaves its frame", "inside another frame"))
            if theirs is None or leaves_frame or ours == "large":
                counts["not compared"] += 1
            elif ours.startswith("refused: ") and theirs.startswith("refused: "):
                counts["refused by both"] += 1
            elif ours == theirs:
                counts["the same value"] += 1
            else:
                counts["different"] += 1
                wrong.append((data, ours, theirs))
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    for data, ours, theirs in sorted(wrong, key=lambda one: len(one[0]))[:10]:
        print(f"{data!r}\n  here:   {ours[:300]}\n  Python: {theirs[:300]}")
    # A test whose pickles are all refused, or all whole, compares nothing.
    return bool(wrong) or min(counts["the same value"], counts["refused by both"]) < options.count // 10


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
