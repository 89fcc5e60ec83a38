r"""What serialize/torch should make of a pickle, by Python's own unpickler with the same table of names.

    pickle_machine.of_python(b"\x80\x02K\x01.")   # a line as pickle_oracle.cc prints it
"""

import io
import pickle
import struct


class Refused(Exception):
    pass


class NotCompared(Exception):
    """A key with a list in it, which is harmless as data and which Python refuses; or a name that only the library has."""


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
        self.dict_states = []

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


def new_object(name, arguments):
    refuse(isinstance(name, Name) and name.name != "argparse.Namespace", "an object of another class")
    return call(name, arguments)


@instruction(ord("R"))
def load_reduce(self):
    arguments, name = self.stack.pop(), self.stack.pop()
    self.append(call(name, arguments))


@instruction(0x81)
def load_newobj(self):
    arguments, name = self.stack.pop(), self.stack.pop()
    self.append(new_object(name, arguments))


@instruction(0x92)
def load_newobj_ex(self):
    keywords, arguments, name = self.stack.pop(), self.stack.pop(), self.stack.pop()
    refuse(type(keywords) is not dict or keywords, "keywords")
    self.append(new_object(name, arguments))


@instruction(ord("b"))
def load_build(self):
    state, target = self.stack.pop(), self.stack[-1]
    if isinstance(target, Object):
        refuse(target.state is not None, "two states")
        target.state = (state,)
    else:
        refuse(type(target) is not dict or type(state) is not dict, "no state")
        self.dict_states.append(state)


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
        machine = Machine(file)
        value = machine.load()
        refuse(any(type(name) is not str for state in machine.dict_states for name in state), "the name of an attribute")
        refuse(file.read(1) != b"", "bytes behind")
        return as_text(value)
    except Refused as error:
        return f"refused: {error}"
    except NotCompared:
        return None
