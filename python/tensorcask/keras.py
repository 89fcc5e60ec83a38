"""Variables of Keras and TensorFlow by the names that their users know, without TensorFlow or Keras.

    import tensorcask.keras as tck

    weights = tck.load("saved_model")                        # a SavedModel, or the prefix of a checkpoint
    with tck.open("ckpt-7") as checkpoint:
        kernel = checkpoint["dense/kernel"]                  # as Keras calls the variable
        same = checkpoint["layer_with_weights-0/kernel"]     # along the attributes of the objects

A checkpoint of TensorFlow 2 stores a variable under its path through the objects that were saved, such as
``layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE``, and beside it the name that the program gave it. Checkpoints
of TensorFlow 1 store variables under their names.

``save_weights`` and ``load_weights`` store the weights of a model of Keras in any format of the library, by the names
of its variables, and ``AsyncCheckpointer`` those of its optimizer, too. They use the model that the caller gives, and
import nothing.
"""

import collections
import difflib
import fnmatch
import importlib
import os
import typing
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tensorcask import _native
from tensorcask._errors import DataLossError, InvalidArgumentError, MissingTensorError
from tensorcask._load import read_to, to_framework
from tensorcask._steps import Step, StepSaver, latest_step

__all__ = ["AsyncCheckpointer", "Checkpoint", "Step", "load", "load_latest", "load_weights", "open", "save_weights"]

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_CONFIG = "/.ATTRIBUTES/OBJECT_CONFIG_JSON"  # how Keras makes the object; no variable
_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # the graph of objects of TensorFlow 2


class _Attribute(typing.NamedTuple):
    """A saved tensor of an object."""

    name: str  # VARIABLE_VALUE
    full_name: str  # as the program called the variable; may be ""
    key: str  # the name of the tensor in the checkpoint


class _Node(typing.NamedTuple):
    children: "dict[str, int]"  # by local name; the number of a node
    attributes: "list[_Attribute]"


class Checkpoint(Mapping[str, typing.Any]):
    """The variables of a checkpoint: a read-only mapping of their names to arrays, in the order of the objects.

    The name is the one that the program gave the variable (``dense/kernel``) if the checkpoint has it once, and
    otherwise the path through the objects (``layer_with_weights-0/kernel``). Keras 3's ``model.export`` stores each
    variable a second time, under a private attribute (``_all_variables/0``): the public one has the name. Look-ups take both, also with ``:0``, any
    other path to the same object, and the key of the tensor in the file.

    >>> import numpy as np, tensorcask as tc, tensorcask.keras as tck
    >>> _ = tc.save("by_name.ckpt", {"dense/kernel": np.ones((2, 3)), "dense/bias": np.zeros(3)})
    >>> with tck.open("by_name.ckpt") as checkpoint:
    ...     sorted(checkpoint), checkpoint.entry("dense/kernel:0").shape, checkpoint.slice("dense/kernel")[1:].shape
    (['dense/bias', 'dense/kernel'], (2, 3), (1, 3))
    """

    def __init__(self, reader: _native.Reader) -> None:
        self._reader = reader
        self._nodes = _read_graph(reader)
        full_names: "dict[str, str]" = {}  # by key
        for node in self._nodes:
            for attribute in node.attributes:
                full_names.setdefault(attribute.key, attribute.full_name)
        keys = [key for key in full_names if key in reader and not key.endswith(_CONFIG)]
        keys += [key for key in reader if key not in full_names and key != _GRAPH]
        uses = collections.Counter(full_names.get(key, "") for key in keys)
        public = [key for key in keys if not _is_private(key)]
        public_uses = collections.Counter(full_names.get(key, "") for key in public)
        owners = {key for key in keys if uses[full_names.get(key, "")] == 1}
        owners.update(key for key in public if public_uses[full_names.get(key, "")] == 1)
        owned = {full_names.get(key, "") for key in owners}
        paths = {_path_of(key): key for key in reversed(keys)}
        self._shared: "dict[str, list[str]]" = collections.defaultdict(list)
        self._keys: "dict[str, str]" = {}
        for key in keys:
            name = full_names.get(key, "")
            if name and name not in owned:
                self._shared[name].append(_path_of(key))
            if not name or key not in owners or paths.get(name, key) != key:
                name = _path_of(key)
            self._keys[key if name in self._keys else name] = key
        self._paths = paths

    def __getitem__(self, name: str) -> "np.ndarray[typing.Any, typing.Any]":
        """Reads one variable and verifies its checksum."""
        return self._reader[self.key_of(name)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def __iter__(self) -> "Iterator[str]":
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def key_of(self, name: str) -> str:
        """The name of the tensor in the file, for ``tensorcask.open``. Raises MissingTensorError, a KeyError."""
        key = self._find(name)
        if key is not None:
            return key
        plain = name.removesuffix(":0")
        if plain in self._shared:
            raise MissingTensorError(
                f"{self._reader.path}: {len(self._shared[plain])} variables are called {plain!r}; they are "
                + ", ".join(map(repr, self._shared[plain][:10]))
            )
        similar = difflib.get_close_matches(plain, list(self._keys)[:10_000], cutoff=0.4)
        hint = "; similar names: " + ", ".join(map(repr, similar)) if similar else ""
        raise MissingTensorError(f"{self._reader.path}: no variable {name!r}{hint}")

    def entry(self, name: str) -> _native.Entry:
        """Dtype, shape and more, without reading the elements."""
        return self._reader.entry(self.key_of(name))

    def slice(self, name: str) -> _native.SliceReader:
        """``checkpoint.slice('embedding/weights')[1000:1010]`` reads these rows only."""
        return self._reader.slice(self.key_of(name))

    def read(self, name: str, *, mmap: bool = False, tensor: bool = False) -> typing.Any:
        """Reads one variable; the arguments are those of ``tensorcask.Reader.read``."""
        return self._reader.read(self.key_of(name), mmap=mmap, tensor=tensor)

    @property
    def reader(self) -> _native.Reader:
        """The file, by the keys of its tensors."""
        return self._reader

    def close(self) -> None:
        """Arrays that were read stay."""
        self._reader.close()

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._reader.closed:
            return "<tensorcask.keras.Checkpoint, closed>"
        return f"<tensorcask.keras.Checkpoint of {self._reader.path!r}, {len(self)} variables>"

    def _find(self, name: str) -> "str | None":
        for known in (name, name.removesuffix(":0")):
            for names in (self._keys, self._paths):
                if known in names:
                    return names[known]
        if name in self._reader:
            return name
        return self._follow(name.removesuffix(":0"))

    def _follow(self, path: str) -> "str | None":
        """The key of the variable that the attributes of the objects lead to."""
        if not self._nodes:
            return None
        node = self._nodes[0]
        for part in path.split("/"):
            local_name = part.replace(".S", "/").replace("..", ".")
            if local_name not in node.children:
                return None
            node = self._nodes[node.children[local_name]]
        keys = [attribute.key for attribute in node.attributes if attribute.name == "VARIABLE_VALUE"]
        return keys[0] if keys and keys[0] in self._reader else None


def open(path: "str | os.PathLike[str]", *, verify: bool = True) -> Checkpoint:
    """Opens the folder of a SavedModel, its folder ``variables``, or a checkpoint; reads the index and the graph.

    Other files have the names that are in them: ``layers/dense/vars/0`` in ``model.keras`` and ``model.weights.h5``.
    ``verify`` is that of ``tensorcask.open``, and so are the exceptions.

    >>> import numpy as np, tensorcask as tc, tensorcask.keras as tck
    >>> _ = tc.save("bias.ckpt", {"bias": np.zeros(3)})
    >>> with tck.open("bias.ckpt") as checkpoint:
    ...     checkpoint["bias"]
    array([0., 0., 0.])
    """
    return Checkpoint(_native.open(_prefix_of(os.fspath(path)), verify=verify))


def load(
    path: "str | os.PathLike[str]",
    names: "str | Iterable[str] | None" = None,
    *,
    framework: str = "numpy",
    device: object = None,
    mmap: bool = False,
    verify: bool = True,
) -> "dict[str, typing.Any]":
    """Loads variables into a dict, by the names of ``Checkpoint``. The arguments are those of ``tensorcask.load``.

    >>> import numpy as np, tensorcask as tc, tensorcask.keras as tck
    >>> _ = tc.save("three.ckpt", {"a/bias": np.zeros(1), "a/kernel": np.ones(2), "b/kernel": np.ones(3)})
    >>> list(tck.load("three.ckpt", "*/kernel"))
    ['a/kernel', 'b/kernel']
    """
    if framework not in ("cupy", "tensorcask"):  # whose device target_on_gpu checks
        to_framework(framework, device)
    with open(path, verify=verify) as checkpoint:
        chosen = (
            list(checkpoint) if names is None else _choose(checkpoint, [names] if isinstance(names, str) else names)
        )
        reader = checkpoint.reader
        return {name: read_to(reader, checkpoint.key_of(name), framework, device, mmap=mmap) for name in chosen}


def save_weights(path: "str | os.PathLike[str]", model: typing.Any, **options: typing.Any) -> int:
    """Saves ``model.weights`` by the names of its variables; `options` are those of ``tensorcask.save``.

    Returns the bytes on the disk. Raises InvalidArgumentError if two variables have one name.

    >>> import keras, tensorcask as tc, tensorcask.keras as tck
    >>> model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2, name="dense")], name="small")
    >>> _ = tck.save_weights("dense.safetensors", model)
    >>> [(name, array.shape) for name, array in tc.load("dense.safetensors").items()]
    [('small/dense/bias', (2,)), ('small/dense/kernel', (3, 2))]
    """
    return int(_native.save(path, _values(_weights(model)), **options))


def load_weights(
    model: typing.Any, path: "str | os.PathLike[str]", *, strict: bool = True, verify: bool = True
) -> "list[str]":
    """Assigns the variables of a file to ``model.weights`` of the same names. Returns the names that the file lacks.

    The file is one of ``save_weights``, a SavedModel or a checkpoint of TensorFlow. Shapes and dtypes must be those of
    the model, and with `strict` the file must have all variables: InvalidArgumentError lists what differs, before
    anything is changed. ``verify`` is that of ``tensorcask.open``.

    >>> import keras, tensorcask.keras as tck
    >>> model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
    >>> _ = tck.save_weights("weights.safetensors", model)
    >>> tck.load_weights(model, "weights.safetensors")
    []
    """
    with open(path, verify=verify) as checkpoint:
        return _assign(_weights(model), checkpoint, strict)


class AsyncCheckpointer(StepSaver):
    """Saves the weights of a model, and the variables of its optimizer, at numbered steps in the background.

    ``save`` returns when the variables are copied. The options are ``full_every`` (each n-th step is a full checkpoint,
    and the steps between are deltas to it) and those of ``tensorcask.CheckpointManager``.

    >>> import keras, tensorcask.keras as tck
    >>> model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
    >>> with tck.AsyncCheckpointer("run_of_keras", keep_last=2) as checkpointer:
    ...     for step in range(3):
    ...         _ = checkpointer.save(step, model)
    >>> tck.load_latest("run_of_keras", model)
    2
    """

    def save(self, step: int, model: typing.Any) -> _native.BackgroundSave:
        """Raises the error of the save before, if that failed; then copies the variables and saves them."""
        return self._save(step, _values(_weights_and_optimizer(model)))


def load_latest(
    folder: "str | os.PathLike[str]",
    model: typing.Any,
    *,
    name: str = "ckpt",
    strict: bool = True,
    verify: bool = True,
) -> "int | None":
    """Assigns the newest whole step of a folder to a model and its optimizer, and returns its number.

    None for a folder without steps. The model is compiled as the one that was saved; its optimizer is built if it is
    not. Without `verify` only the structure of the step is checked, and its elements are read though they may not match
    their checksum. Errors as ``load_weights``.

    >>> import keras, tensorcask.keras as tck
    >>> model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
    >>> print(tck.load_latest("no_run_of_keras", model))
    None
    """
    found = latest_step(folder, name, verify)
    if found is None:
        return None
    with Checkpoint(_native.open(found.path, base=found.base, verify=verify)) as checkpoint:
        _assign(_weights_and_optimizer(model), checkpoint, strict)
    return found.number


def _read_graph(reader: _native.Reader) -> "list[_Node]":
    if _GRAPH not in reader:
        return []
    where = f"{reader.path}: {_GRAPH}"
    entry = reader.entry(_GRAPH)
    if entry.dtype != "string" or entry.shape != ():
        raise DataLossError(f"{where} is {entry.dtype} {list(entry.shape)}; wanted one string")
    nodes = _native.decode_object_graph(bytes(reader[_GRAPH][()]), where)
    return [_Node(children, [_Attribute(*one) for one in attributes]) for children, attributes in nodes]


def _path_of(key: str) -> str:
    """layer/kernel for layer/kernel/.ATTRIBUTES/VARIABLE_VALUE, table/table-keys for table/.ATTRIBUTES/table-keys."""
    return key.removesuffix(_SUFFIX).replace("/.ATTRIBUTES/", "/")


def _is_private(key: str) -> bool:
    """Whether an attribute on the path to the variable is private, as in _all_variables/0."""
    return any(part.startswith("_") for part in _path_of(key).split("/"))


def _prefix_of(path: str) -> str:
    if os.path.basename(path) == "saved_model.pb":
        path = os.path.dirname(path) or "."
    for prefix in (os.path.join(path, "variables", "variables"), os.path.join(path, "variables")):
        if os.path.isfile(prefix + ".index"):
            return prefix
    return path


def _choose(checkpoint: Checkpoint, names: "Iterable[str]") -> "list[str]":
    chosen: "dict[str, None]" = {}
    for name in names:
        found = [one for one in checkpoint if fnmatch.fnmatchcase(one, name)] if name not in checkpoint else [name]
        if not found and any(sign in name for sign in "*?["):
            raise MissingTensorError(f"{checkpoint.reader.path}: no variable matches {name!r}")
        if not found:
            checkpoint.key_of(name)  # raises
        chosen.update(dict.fromkeys(found))
    return list(chosen)


# ---- Models of Keras, by the attributes that they have -------------------------------------------------------------


def _weights(model: typing.Any) -> "dict[str, typing.Any]":
    """The variables of a model by name: ``path`` of Keras 3, ``name`` of Keras 2 and TensorFlow."""
    return _by_name(model.weights)


def _by_name(variables: "Iterable[typing.Any]") -> "dict[str, typing.Any]":
    named: "dict[str, typing.Any]" = {}
    for variable in variables:
        name = str(getattr(variable, "path", None) or variable.name).removesuffix(":0")
        if name in named:
            raise InvalidArgumentError(f"two variables of the model are called {name!r}")
        named[name] = variable
    return named


def _weights_and_optimizer(model: typing.Any) -> "dict[str, typing.Any]":
    variables = _weights(model)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return variables
    if not getattr(optimizer, "built", True):
        optimizer.build(model.trainable_variables)
    own_name = getattr(optimizer, "name", "")  # Keras numbers them: adam, adam_1
    for name, variable in _by_name(optimizer.variables).items():
        name = "optimizer/" + name.removeprefix(f"{own_name}/")
        if name in variables:
            raise InvalidArgumentError(f"a variable of the model and one of the optimizer are called {name!r}")
        variables[name] = variable
    return variables


def _assign(variables: "dict[str, typing.Any]", checkpoint: Checkpoint, strict: bool) -> "list[str]":
    """Returns the names that the file lacks."""
    missing = [name for name in variables if name not in checkpoint]
    problems = [f"the file has no {', '.join(map(repr, missing))}"] if strict and missing else []
    for name in missing:
        del variables[name]
    for name, variable in variables.items():
        entry, shape, dtype = checkpoint.entry(name), tuple(variable.shape), _dtype_name(variable)
        if entry.shape != shape or entry.dtype != dtype:
            problems.append(
                f"{name!r} is {entry.dtype} {list(entry.shape)} in the file and {dtype} {list(shape)} in the model"
            )
    if problems:
        raise InvalidArgumentError(f"{checkpoint.reader.path}: does not fit the model: {'; '.join(problems)}")
    for name, variable in variables.items():
        if checkpoint.entry(name).dtype.startswith(("bfloat16", "float8", "int4", "uint4")):
            importlib.import_module("ml_dtypes")  # Keras has it; without it, arrays of these dtypes are integers
        variable.assign(checkpoint[name])
    return missing


def _values(variables: "dict[str, typing.Any]") -> "dict[str, typing.Any]":
    return {name: _value_of(variable) for name, variable in variables.items()}


def _value_of(variable: typing.Any) -> typing.Any:
    """The tensor of the framework, which ``tensorcask.save`` reads without a copy."""
    value = getattr(variable, "value", variable)
    return value() if callable(value) else value


def _dtype_name(variable: typing.Any) -> str:
    return str(getattr(variable.dtype, "name", variable.dtype))
