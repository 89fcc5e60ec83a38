"""Nested Python values beside tensors: the state of an optimizer as tensors and JSON.

``encode`` replaces each tensor of a nested value by its name and gives the rest as JSON; ``decode`` is the inverse.
Dicts (keys are text, numbers, booleans), lists, tuples, text, numbers, booleans and None come back with their types;
infinities and NaN, too. Subclasses come back as these: an OrderedDict as a dict, a float of NumPy as a float.
"""

import json
import typing
from collections.abc import Callable

from tensorcask._errors import DataLossError, InvalidArgumentError

# Each value is stored as a list of its kind and its content, so that the kinds cannot be confused.
Tree = typing.Any


def encode(
    value: object, prefix: str, tensors: "dict[str, object]", is_tensor: "Callable[[object], bool]"
) -> "list[Tree]":
    """Adds the tensors of `value` to `tensors`, under names that start with `prefix`, and returns the tree."""
    if is_tensor(value):
        name = prefix
        while name in tensors:  # {1: a, "1": b}, {"a/b": c, "a": {"b": d}}
            name += "~"
        tensors[name] = value
        return ["tensor", name]
    if isinstance(value, dict):
        items = []
        for key, item in value.items():
            if not isinstance(key, (str, int, float)):
                raise InvalidArgumentError(f"{prefix}: the key {key!r} is neither text nor a number")
            items.append([key, encode(item, f"{prefix}/{key}", tensors, is_tensor)])
        return ["dict", items]
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, [encode(item, f"{prefix}/{i}", tensors, is_tensor) for i, item in enumerate(value)]]
    if value is None or isinstance(value, (bool, int, float, str)):
        return ["value", value]
    raise InvalidArgumentError(
        f"{prefix}: {type(value).__name__} cannot be stored; wanted tensors, numbers, text, None, and dicts, lists and "
        "tuples of these"
    )


def to_json(tree: Tree) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


def from_json(text: bytes, where: str) -> Tree:
    """Errors: DataLossError, which begins with `where`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataLossError(f"{where} is not JSON: {error}") from None


def decode(tree: Tree, read: "Callable[[str], object]", where: str) -> typing.Any:
    """`read` gives the tensor of a name. The tree comes from a file, so every part of it is checked.

    Errors: DataLossError, which begins with `where`; the errors of `read`.
    """
    try:
        return _decode(tree, read, where)
    except RecursionError:
        raise DataLossError(f"{where}: its values are nested too deeply") from None


def _decode(tree: Tree, read: "Callable[[str], object]", where: str) -> typing.Any:
    if not isinstance(tree, list) or len(tree) != 2 or not isinstance(tree[0], str):
        raise DataLossError(f"{where}: found {str(tree)[:80]!r}; wanted a kind and its content")
    kind, content = tree
    if kind == "tensor" and isinstance(content, str):
        return read(content)
    if kind in ("list", "tuple") and isinstance(content, list):
        items = [_decode(item, read, where) for item in content]
        return items if kind == "list" else tuple(items)
    if kind == "dict" and isinstance(content, list):
        return dict(_pair(pair, read, where) for pair in content)
    if kind == "value" and (content is None or isinstance(content, (bool, int, float, str))):
        return content
    raise DataLossError(f"{where}: found {str(content)[:80]!r} as the content of {kind[:80]!r}")


def _pair(pair: Tree, read: "Callable[[str], object]", where: str) -> "tuple[typing.Any, typing.Any]":
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], (str, int, float)):
        raise DataLossError(f"{where}: found {str(pair)[:80]!r}; wanted a key and its value")
    return pair[0], _decode(pair[1], read, where)
