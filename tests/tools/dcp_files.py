"""Distributed checkpoints of PyTorch, as two processes write them, made without PyTorch."""

import os

from torch_test import call, list_of, name, number, real, saved, tensor, text, tuple_of

METADATA = "torch.distributed.checkpoint.metadata"


def pairs(*entries):
    return b"}(" + b"".join(key + value for key, value in entries) + b"u"


def made(module, of, state):
    return name(module, of) + b")\x81" + state + b"b"


def size(numbers):
    return call(name("torch", "Size"), tuple_of(*map(number, numbers)))


class Checkpoint:
    """The files of a folder, piece by piece."""

    def __init__(self):
        self.files = {}
        self.entries = []
        self.places = []
        self.paths = []

    def item(self, file, content, of, offset=b"N"):
        old = self.files.get(file, b"")
        self.files[file] = old + content
        index = made(METADATA, "MetadataIndex", pairs((text("fqn"), text(of)), (text("offset"), offset),
                                                      (text("index"), b"N")))  # fmt: skip
        info = made("torch.distributed.checkpoint.filesystem", "_StorageInfo",
                    pairs((text("relative_path"), text(file)), (text("offset"), number(len(old))),
                          (text("length"), number(len(content))), (text("transform_descriptors"), b"N")))  # fmt: skip
        self.places.append((index, info))

    def tensor(self, of, shape, boxes):
        """Float32. boxes: (file, offsets, sizes, numbers)."""
        chunks = []
        for file, offsets, sizes, numbers in boxes:
            strides = [1] * len(sizes)
            for axis in range(len(sizes) - 1, 0, -1):
                strides[axis - 1] = strides[axis] * sizes[axis]
            content = saved(tensor("0", len(numbers), sizes, strides), {"0": numbers})
            self.item(file, content, of, size(offsets))
            chunks.append(made(METADATA, "ChunkStorageMetadata",
                               pairs((text("offsets"), size(offsets)), (text("sizes"), size(sizes)))))  # fmt: skip
        properties = made(METADATA, "TensorProperties", tuple_of(
            name("torch", "float32"), call(name("torch.serialization", "_get_layout"), text("torch.strided")), b"\x89",
            call(name(METADATA, "_MEM_FORMAT_ENCODING"), number(0)), b"\x89"))  # fmt: skip
        self.entries.append((text(of), made(METADATA, "TensorStorageMetadata", pairs(
            (text("properties"), properties), (text("size"), size(shape)), (text("chunks"), list_of(*chunks))))))  # fmt: skip

    def value(self, of, pickled, path=()):
        self.item("__0_0.distcp", saved(pickled, {}), of)
        self.entries.append((text(of), name(METADATA, "BytesStorageMetadata") + b")\x81"))
        if path:
            self.paths.append((text(of), tuple_of(*path)))

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        metadata = made(METADATA, "Metadata", pairs(
            (text("state_dict_metadata"), pairs(*self.entries)), (text("planner_data"), pairs(*self.paths)),
            (text("storage_data"), pairs(*self.places)), (text("storage_meta"), b"N"), (text("version"), text("1.0.0"))))  # fmt: skip
        for file, content in {**self.files, ".metadata": b"\x80\x02" + metadata + b"."}.items():
            with open(os.path.join(folder, file), "wb") as out:
                out.write(content)
        return str(folder)


def two_ranks():
    """"rows" [3,2] in two files, "columns" [2,3] in two boxes, both 0 to 5; "scale"; two values."""
    checkpoint = Checkpoint()
    checkpoint.tensor("model.rows", (3, 2), [("__1_0.distcp", (2, 0), (1, 2), [4, 5]),
                                             ("__0_0.distcp", (0, 0), (2, 2), [0, 1, 2, 3])])  # fmt: skip
    checkpoint.tensor("model.columns", (2, 3), [("__0_0.distcp", (0, 0), (2, 2), [0, 1, 3, 4]),
                                                ("__1_0.distcp", (0, 2), (2, 1), [2, 5])])  # fmt: skip
    checkpoint.tensor("scale", (), [("__0_0.distcp", (), (), [7])])
    checkpoint.value("optim.lr", real(0.5), (text("optim"), text("lr")))
    checkpoint.value("epoch", number(3), (text("epoch"),))
    return checkpoint
