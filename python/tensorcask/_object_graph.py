"""The graph of objects in TensorFlow's checkpoints: the message TrackableObjectGraph of `_CHECKPOINTABLE_OBJECT_GRAPH`.

The C++ library reads it, too (serialize/checkpoint/object_graph.h); this module gives Python the few fields that name
variables. The message comes from a file: every number and every text is checked.
"""

import typing
from collections.abc import Iterator

from tensorcask._errors import DataLossError, ResourceExhaustedError

KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
_MAX_PARTS = 2_000_000  # nodes, children and attributes: an empty one has 2 bytes in a file and 200 in memory


class Attribute(typing.NamedTuple):
    """A saved tensor of an object."""

    name: str  # VARIABLE_VALUE
    full_name: str  # as the program called the variable; may be ""
    key: str  # the name of the tensor in the checkpoint


class Node(typing.NamedTuple):
    children: "dict[str, int]"  # by local name; the number of a node
    attributes: "list[Attribute]"


class _Field(typing.NamedTuple):
    number: int
    wire_type: int
    value: "int | memoryview"


def decode(message: bytes, where: str) -> "list[Node]":
    """The nodes; the first one is the root. Errors, which begin with `where`: DataLossError, ResourceExhaustedError."""
    nodes = []
    budget = _Budget(where)
    for field in _fields(memoryview(message), where):
        if field.number == 1:
            budget.spend()
            nodes.append(_node(_part(field, where), where, budget))
    for i, node in enumerate(nodes):
        for name, child in node.children.items():
            if child >= len(nodes):
                raise DataLossError(f"{where}: the child {name!r} of node {i} is node {child} of {len(nodes)}")
    return nodes


class _Budget:
    def __init__(self, where: str) -> None:
        self._where = where
        self._left = _MAX_PARTS

    def spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise ResourceExhaustedError(f"{self._where}: has more than {_MAX_PARTS} nodes, children and attributes")


def _node(message: memoryview, where: str, budget: _Budget) -> Node:
    node = Node({}, [])
    for field in _fields(message, where):
        if field.number not in (1, 2):
            continue
        budget.spend()
        parts: "dict[int, typing.Any]" = {}
        for part in _fields(_part(field, where), where):
            if field.number == 1 and part.number == 1:
                if not isinstance(part.value, int) or part.value >= 1 << 31:
                    raise DataLossError(
                        f"{where}: the number of a child has the wire type {part.wire_type}, or is negative"
                    )
                parts[1] = part.value
            elif part.number <= 3:
                parts[part.number] = _text(part, where)
        if field.number == 1:
            node.children[parts.get(2, "")] = parts.get(1, 0)
        else:
            node.attributes.append(Attribute(parts.get(1, ""), parts.get(2, ""), parts.get(3, "")))
    return node


def _part(field: _Field, where: str) -> memoryview:
    if not isinstance(field.value, memoryview) or field.wire_type != 2:
        raise DataLossError(f"{where}: field {field.number} has the wire type {field.wire_type}; wanted 2")
    return field.value


def _text(field: _Field, where: str) -> str:
    try:
        return str(_part(field, where), "utf-8")
    except UnicodeDecodeError:
        raise DataLossError(f"{where}: the text of field {field.number} is not UTF-8") from None


def _fields(message: memoryview, where: str) -> "Iterator[_Field]":
    """The fields of a message in the wire format of protobuf."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at, where)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise DataLossError(f"{where}: a field has the number 0")
        if wire_type == 0:
            value, at = _varint(message, at, where)
            yield _Field(number, wire_type, value)
            continue
        if wire_type == 2:
            size, at = _varint(message, at, where)
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
        else:
            raise DataLossError(f"{where}: field {number} has the wire type {wire_type}")
        if size > len(message) - at:
            raise DataLossError(f"{where}: field {number} has {size} bytes; {len(message) - at} are left")
        yield _Field(number, wire_type, message[at : at + size])
        at += size


def _varint(message: memoryview, at: int, where: str) -> "tuple[int, int]":
    """A number of at most 64 bits, and where the next byte is."""
    value = 0
    for i in range(10):
        if at + i >= len(message):
            break
        byte = message[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if value < 1 << 64:
                return value, at + i + 1
            break
    raise DataLossError(f"{where}: a number at byte {at} of a message is truncated or too long")
