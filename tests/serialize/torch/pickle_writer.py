"""Random pickles: well formed ones from a grammar, and damaged ones.

    data = well_formed(random.Random(1))
    other = damaged(random.Random(1), data)
"""

import struct


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
        last = self.rng.choice([b"R", b"\x81", b"}\x92"]) if full == "argparse.Namespace" else b"R"
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
                                lambda: b"\x88", lambda: b"N", lambda: b"G" + struct.pack(">d", 1.0), self.number,
                                lambda: self.call("builtins.complex", b"K\x01", b"K\x00"),
                                lambda: b"G" + struct.pack(">d", self.rng.choice([2.0**63, -(2.0**31), 2.0**100, -0.0, 0.5])),
                                lambda: self.tuple_of([self.key(), self.key()])])()  # fmt: skip

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
            attributes = b"}" + b"".join(self.text(self.word()) + item + b"s" for item in self.items(depth)) + b"b"
            return made + (attributes if rng.random() < 0.3 else b"")
        words = [self.text(self.word()) for _ in range(3)]
        if kind == 4:
            return rng.choice([b"\x8f(" + b"".join(words) + b"\x90", b"(" + b"".join(words) + b"\x91"])
        if kind == 5:
            return self.call("builtins.set", b"](" + b"".join(words + [self.key(), self.key()]) + b"e")
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
