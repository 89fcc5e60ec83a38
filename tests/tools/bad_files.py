"""Makes files with one bad part (member, record, shard, dtype, data file) for tests of the commands.

    class Ls(Files):
        def test_it_lists_the_others(self):
            case = self.missing_shard()
            run("ls", case.path)
"""

import os
import struct
import zipfile

from tool_testing import Scratch, index_of, masked_crc32c, read, run

DAMAGED, UNKNOWN, INCOMPLETE = "damaged", "unknown", "incomplete"


class Case:
    """A file with the tensors "a" (1, 7) and "c" (3, 7), and a bad one, whose kind says what verify finds."""

    def __init__(self, path, bad, kind, extension, has_dtype=False):
        self.path = path
        self.bad = bad  # its name
        self.kind = kind
        self.extension = extension
        self.has_dtype = has_dtype  # of the bad tensor, too


class Files(Scratch):
    """Makes the files; each method of MAKERS makes one with another bad part."""

    def tensors(self, name, tensors, *options):
        """A file of float32 [2] tensors {name: first element}."""
        parts = []
        for tensor, value in tensors.items():
            text = f"dtype: DT_FLOAT tensor_shape {{ dim {{ size: 2 }} }} float_val: [{value}, 7]"
            parts.append(self.write(f"{tensor}.pbtxt", text))
        done = run("convert", "--format", "tensorproto-text", *options, *parts, self.path(name))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path(name)

    def good(self, name, *options):
        return self.tensors(name, {"a": 1, "b": 2, "c": 3}, *options)

    def put(self, path, content):
        with open(path, "wb") as file:
            file.write(content)
        return path

    def damaged_record(self):
        path = self.good("r.tfrecord")
        content = read(path)
        self.assertEqual(content.count(struct.pack("<2f", 2, 7)), 1)
        self.put(path, content.replace(struct.pack("<2f", 2, 7), struct.pack("<2f", 9, 7)))
        return Case(path, "1", DAMAGED, ".tfrecord")

    def record_that_is_no_tensor(self):
        path = self.good("r.tfrecord")
        record = b"\x08\x7f\x12\x00"  # dtype 127: a reference
        header = struct.pack("<Q", len(record))
        framed = header + struct.pack("<I", masked_crc32c(header)) + record + struct.pack("<I", masked_crc32c(record))
        content = read(path)
        size = len(content) // 3
        self.put(path, content[:size] + framed + content[2 * size:])
        return Case(path, "1", DAMAGED, ".tfrecord")

    def cut_records(self):
        path = self.tensors("r.tfrecord", {"a": 1, "c": 3, "d": 2})
        self.put(path, read(path)[:-3])
        return Case(path, "2", DAMAGED, ".tfrecord")

    def record_of_damaged_length(self):
        path = self.tensors("r.tfrecord", {"a": 1, "c": 3, "d": 2})
        content = bytearray(read(path))
        content[2 * len(content) // 3] ^= 1
        self.put(path, content)
        return Case(path, "2", DAMAGED, ".tfrecord")

    def damaged_header_of_a_member(self):
        path = self.good("z.npz")
        content = bytearray(read(path))
        content[content.index(b"\x93NUMPY", content.index(b"\x93NUMPY") + 1)] ^= 1
        self.put(path, content)
        return Case(path, "b", DAMAGED, ".npz")

    def member_of_a_later_version(self):
        path = self.good("z.npz")
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        members["b.npy"] = members["b.npy"][:6] + b"\x09\x00" + members["b.npy"][8:]
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name), content)
        return Case(path, "b", UNKNOWN, ".npz")

    def local_header_of_a_member(self):
        path = self.good("z.npz")
        content = bytearray(read(path))
        content[content.index(b"b.npy")] ^= 1
        self.put(path, content)
        return Case(path, "b", DAMAGED, ".npz")

    def member_of_another_method(self):
        path = self.good("z.npz")
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content, zipfile.ZIP_BZIP2 if name == "b.npy" else zipfile.ZIP_STORED)
        return Case(path, "b", UNKNOWN, ".npz")

    def safetensors_of_unknown_dtype(self):
        path = self.good("s.safetensors", "--no-checksums")
        content = read(path)
        at = content.index(b'"b":{"dtype":"') + len(b'"b":{"dtype":"')
        self.put(path, content[:at] + b"Q32" + content[at + 3:])
        return Case(path, "b", UNKNOWN, ".safetensors")

    def model(self):
        return self.good("m.safetensors.index.json", "--shard-size", "8")

    def missing_shard(self):
        path = self.model()
        os.unlink(self.path("m-00002-of-00003.safetensors"))
        return Case(path, "b", DAMAGED, ".safetensors")

    def damaged_shard(self):
        path = self.model()
        self.put(self.path("m-00002-of-00003.safetensors"), b"\xff" * 16)
        return Case(path, "b", DAMAGED, ".safetensors")

    def shard_without_its_tensor(self):
        path = self.model()
        self.put(self.path("m-00002-of-00003.safetensors"), struct.pack("<Q", 8) + b"{}      ")
        return Case(path, "b", DAMAGED, ".safetensors")

    def shard_that_is_a_folder(self):
        path = self.missing_shard().path
        os.mkdir(self.path("m-00002-of-00003.safetensors"))
        return Case(path, "b", DAMAGED, ".safetensors")

    def shard_that_is_a_pipe(self):
        path = self.missing_shard().path
        os.mkfifo(self.path("m-00002-of-00003.safetensors"))
        return Case(path, "b", DAMAGED, ".safetensors")

    def checkpoint(self, name, dtypes=(1, 1, 1)):
        """A checkpoint whose three tensors lie in three data files."""
        entries = [(b"", b"\x08\x03\x1a\x02\x08\x01")]
        for shard, (tensor, dtype) in enumerate(zip((b"a", b"b", b"c"), dtypes)):
            data = struct.pack("<2f", shard + 1, 7)
            self.put(self.path(f"{name}.data-0000{shard}-of-00003"), data)
            place = b"\x18" + bytes([shard]) if shard else b""
            entries.append((tensor, b"\x08" + bytes([dtype]) + b"\x12\x04\x12\x02\x08\x02" + place + b"\x28\x08\x35" +
                            struct.pack("<I", masked_crc32c(data))))
        self.put(self.path(name + ".index"), index_of(entries))
        return self.path(name)

    def missing_data_file(self):
        path = self.checkpoint("k")
        os.unlink(path + ".data-00001-of-00003")
        return Case(path, "b", DAMAGED, "", has_dtype=True)

    def data_file_that_is_a_folder(self):
        path = self.missing_data_file().path
        os.mkdir(path + ".data-00001-of-00003")
        return Case(path, "b", DAMAGED, "", has_dtype=True)

    def checkpoint_of_unknown_dtype(self):
        return Case(self.checkpoint("k", (1, 120, 1)), "b", UNKNOWN, "")

    def incomplete_slices(self):
        """As TensorFlow stores a slot of a partitioned variable: "b" lists one of its two elements."""
        data = struct.pack("<2f", 1, 7) + struct.pack("<2f", 3, 7) + struct.pack("<f", 2)

        def entry(first, last):
            return (b"\x08\x01\x12\x04\x12\x02\x08" + bytes([(last - first) // 4]) +
                    (b"\x20" + bytes([first]) if first else b"") + b"\x28" + bytes([last - first]) + b"\x35" +
                    struct.pack("<I", masked_crc32c(data[first:last])))

        whole = b"\x08\x01\x12\x04\x12\x02\x08\x02\x3a\x04\x0a\x02\x10\x01"
        path = self.bundle("i", [(b"\0b\0\1\1\1\x80\x81", entry(16, 20)), (b"a", entry(0, 8)), (b"b", whole),
                                 (b"c", entry(8, 16))], data)
        return Case(path, "b", INCOMPLETE, "", has_dtype=True)

    MAKERS = (damaged_record, record_that_is_no_tensor, cut_records, record_of_damaged_length,
              damaged_header_of_a_member, member_of_a_later_version, local_header_of_a_member, member_of_another_method,
              safetensors_of_unknown_dtype, missing_shard, damaged_shard, shard_without_its_tensor,
              shard_that_is_a_folder, shard_that_is_a_pipe, missing_data_file, data_file_that_is_a_folder,
              checkpoint_of_unknown_dtype, incomplete_slices)
