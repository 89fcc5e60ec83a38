#!/usr/bin/env python3
"""tensorcask edit: names and metadata change, values and everything else stay, or the command says why not."""

import io
import json
import os
import stat
import struct
import sys
import zipfile

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from edits import Edits, floats, npy, safetensors  # noqa: E402
from tool_testing import EXTENSION_ONLY, index_of, leb128, masked_crc32c, read, run  # noqa: E402


class AllFormats(Edits):
    NAMES = ("m.safetensors", "m.npz", "m.ckpt")

    def test_names_change_and_values_stay(self):
        for name in self.NAMES:
            path = self.model(name)
            before = self.values(path)
            files = sorted(os.listdir(self.folder))
            plan = self.good("edit", "--dry-run", "--rename", "s/^dense/encoder/", path)
            self.assertEqual(self.values(path), before)
            self.assertIn("dense/kernel -> encoder/kernel\n", plan)
            self.assertIn("2 tensors renamed; would write", plan)
            out = self.good("edit", "--rename", "s/^dense/encoder/", "--rename", "step=global_step", path)
            self.assertIn("3 tensors renamed; wrote", out)
            renamed = {key.replace("dense", "encoder").replace("step", "global_step"): value
                       for key, value in before.items()}
            self.assertEqual(self.values(path), renamed)
            self.good("verify", path)
            self.assertEqual(sorted(os.listdir(self.folder)), files)

    def test_names_may_be_exchanged(self):
        for name in self.NAMES:
            path = self.model(name)
            before = self.values(path)
            self.good("edit", "--rename", "dense/bias=step", "--rename", "step=dense/bias", path)
            after = self.values(path)
            self.assertEqual((after["step"], after["dense/bias"]), (before["dense/bias"], before["step"]))

    def test_hostile_and_long_names(self):
        for name in self.NAMES:
            path = self.model(name)
            before = self.values(path)
            long_name = "x" * 30000
            odd = "../größe \x1b[31m\n"
            out = self.good("edit", "--rename", "step=" + odd, "--rename", "dense/bias=" + long_name, path)
            self.assertIn('step -> "../', out)
            self.assertNotIn("\x1b", out)
            after = self.values(path)
            self.assertEqual(after[odd], before["step"])
            self.assertEqual(after[long_name], before["dense/bias"])
            self.good("verify", path)

    def test_output_leaves_the_old_file(self):
        for name, output in zip(self.NAMES, ("new.safetensors", "new.npz", "new.ckpt")):
            path = self.model(name)
            before = self.values(path)
            out = self.good("edit", "--rename", "step=s", "-o", self.path(output), path)
            self.assertIn(output, out)
            self.assertEqual(self.values(path), before)
            self.assertEqual(self.values(self.path(output))["s"], before["step"])
            self.good("verify", self.path(output))
            for flags in ([], ["--dry-run"]):
                self.refused([*flags, "--rename", "step=s", "-o", self.path(output), path], 1, "exists already; --output writes only new files")

    def test_what_is_refused(self):
        for name in self.NAMES:
            path = self.model(name)
            for arguments, code, piece in (
                ([], 2, "nothing to change: give --rename, --set, --unset or --remove"),
                (["--rename", "nosuch=x"], 2, 'nosuch=x: no tensor "nosuch"'),
                (["--rename", "dense/kernl=x"], 2, 'did you mean "dense/kernel"?'),
                (["--rename", "s/zzz/y/"], 2, "--rename s/zzz/y/ matches no tensor"),
                (["--rename", "step"], 2, "wanted FROM=TO"),
                (["--rename", "step=dense/bias"], 1, 'both "dense/bias" and "step" would be called "dense/bias"'),
                (["--rename", "s/.*/same/"], 1, 'would be called "same"'),
                (["--set", "x"], 2, "wanted KEY=VALUE"),
                (["--remove", "nosuch*"], 2, "--remove nosuch* matches no tensor"),
            ):
                self.refused([*arguments, path], code, piece)

    def test_a_symbolic_link_is_not_replaced(self):
        for name in self.NAMES:
            self.model(name)
            ending = ".index" if name == "m.ckpt" else ""
            link = self.path("link" + name[1:])
            os.symlink(name + ending, link + ending)
            if ending:
                os.symlink("m.ckpt.data-00000-of-00001", link + ".data-00000-of-00001")
            self.refused(["--rename", "step=s", link], 1, "is a symbolic link to " + name, "--output")
            self.assertTrue(os.path.islink(link + ending))

    def test_permissions_stay(self):
        for name in self.NAMES:
            path = self.model(name)
            changed = path + (".index" if name == "m.ckpt" else "")
            for mode in (0o600, 0o640, 0o664):
                os.chmod(changed, mode)
                self.good("edit", "--rename", "s/$/x/", path)
                self.assertEqual(stat.S_IMODE(os.stat(changed).st_mode), mode)
        os.chmod(self.path("m.ckpt.index"), 0o600)
        self.good("edit", "--rename", "s/$/y/", "-o", self.path("new/m.ckpt"), self.path("m.ckpt"))
        self.assertEqual(stat.S_IMODE(os.stat(self.path("new/m.ckpt.index")).st_mode), 0o600)

    def test_the_same_again_changes_nothing(self):
        path = self.model("m.safetensors")
        self.good("edit", "--set", "a=b", path)
        before = read(path)
        self.assertIn("already; nothing is written", self.good("edit", "--set", "a=b", path))
        self.assertEqual(read(path), before)


class Npz(Edits):
    def test_members_stay_as_they_are_stored(self):
        for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            path = self.archive(compression=compression)
            before = self.values(path)
            with zipfile.ZipFile(path) as file:
                old = {info.filename: (info.CRC, info.compress_size, info.compress_type) for info in file.infolist()}
            self.good("edit", "--rename", "a=größe", path)
            self.assertEqual(self.values(path), {"größe": before["a"], "stream": before["stream"]})
            self.good("verify", path)
            with zipfile.ZipFile(path) as file:
                self.assertIsNone(file.testzip())
                new = {info.filename: (info.CRC, info.compress_size, info.compress_type) for info in file.infolist()}
                self.assertEqual(file.read("notes.txt"), b"not an array")
            old["größe.npy"] = old.pop("a.npy")
            self.assertEqual(new, old)

    def test_a_streamed_archive_with_data_descriptors(self):
        class Pipe(io.RawIOBase):
            def __init__(self):
                super().__init__()
                self.content = b""

            def writable(self):
                return True

            def write(self, piece):
                self.content += bytes(piece)
                return len(piece)

        pipe = Pipe()
        with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("a.npy", npy(1, 2, 3))
        path = self.put("m.npz", pipe.content)
        before = self.values(path)
        self.good("edit", "--rename", "a=b", path)
        self.assertEqual(self.values(path), {"b": before["a"]})

    def test_names_that_stay_keep_their_encoding(self):
        path = self.path("m.npz")
        content = b""
        for name in ("plain.npy", "xx.npy"):
            with zipfile.ZipFile(path, "a") as file:
                file.writestr(name, npy(1))
        for other in (b"\xc3\xa9", b"\x82\xff"):  # UTF-8 that is not marked as such; bytes of code page 437
            content = self.put("n.npz", read(path).replace(b"xx.npy", other + b".npy"))
            with zipfile.ZipFile(content) as file:
                before = set(file.namelist())
            done = run("edit", "--rename", "plain=b", content)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with zipfile.ZipFile(content) as file:
                self.assertEqual(set(file.namelist()), before - {"plain.npy"} | {"b.npy"})

    def test_a_name_that_numpy_takes_for_a_member(self):
        path = self.archive()
        self.refused(["--rename", "a=stream.npy", path], 1, 'NumPy takes the name "stream.npy"', 'tensor "stream"')
        self.good("edit", "--rename", "a=a.npy", path)
        self.refused(["--rename", "stream=a", path], 1, 'NumPy takes the name "a.npy"', 'tensor "a"')

    def test_aligned_members_stay_aligned(self):
        path = self.model("m.npz")
        self.good("edit", "--rename", "s/^/x/", path)
        for tensor in json.loads(self.good("ls", "--json", path))["tensors"]:
            self.assertEqual(tensor["offset"] % 64, 0)

    def test_what_is_refused(self):
        path = self.archive()
        self.refused(["--rename", "a=stream", path], 1, 'would be called "stream"')
        self.refused(["--rename", "a=" + "x" * 65535, path], 1, "names of at most 65535")
        self.refused(["--set", "a=b", path], 1, "holds no metadata")
        header = b"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,), }"
        header += b" " * (-(len(header) + 11) % 64) + b"\n"
        with zipfile.ZipFile(self.path("fields.npz"), "w") as file:
            file.writestr("p.npy", b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + bytes(4))
        self.refused(["--rename", "p.x=q", self.path("fields.npz")], 1, 'is the field "x" of an array of structures')


class Checkpoints(Edits):
    def test_only_the_index_is_written(self):
        path = self.model("m.ckpt")
        data = os.stat(path + ".data-00000-of-00001")
        self.assertIn("the data files stay as they are", self.good("edit", "--rename", "step=s", path))
        after = os.stat(path + ".data-00000-of-00001")
        self.assertEqual((after.st_ino, after.st_mtime_ns), (data.st_ino, data.st_mtime_ns))
        self.good("edit", "--rename", "s=step", path + ".index")

    def test_removing_leaves_the_bytes(self):
        path = self.model("m.ckpt")
        out = self.good("edit", "--remove", "dense/*", path)
        self.assertIn("2 tensors removed; wrote an index", out)
        self.assertIn("24 B in them belong to no tensor now", out)
        self.assertEqual(set(self.values(path)), {"step"})
        self.good("verify", path)

    def test_pieces_follow_the_name(self):
        path = self.sliced()
        before = self.values(path)
        self.good("edit", "--rename", "s=part/s", path)
        self.assertEqual(self.values(path), {"part/s": before["s"]})
        self.good("verify", path)
        self.assertEqual(json.loads(self.good("ls", "--json", path))["tensors"][0]["encoding"], "sliced")
        self.assertIn("16 B", self.good("edit", "--remove", "part/s", path))
        self.assertEqual(self.values(path), {})

    def test_extension_only_and_encoded_tensors(self):
        path = self.checkpoint("extension-only", {"w": EXTENSION_ONLY})
        before = self.values(path)
        self.good("edit", "--rename", "w=v", path)
        self.assertEqual(self.values(path), {"v": before["w"]})
        source = self.put("z.safetensors", safetensors({"zeros": [0] * 5000, "copy": [0] * 5000}))
        self.good("convert", "--level", "high", source, self.path("encoded"))
        before = self.values(self.path("encoded"))
        self.good("edit", "--rename", "zeros=z", self.path("encoded"))
        self.assertEqual(self.values(self.path("encoded")), {"z": before["zeros"], "copy": before["copy"]})
        # Both share their bytes, so that nothing is unused.
        self.assertNotIn("belong to no tensor", self.good("edit", "--remove", "z", self.path("encoded")))
        self.good("verify", self.path("encoded"))

    def test_a_delta_keeps_its_name(self):
        first = self.put("1.safetensors", safetensors({"w": [i * 1.37 for i in range(20000)], "v": [1]}))
        second = self.put("2.safetensors", safetensors({"w": [i * 1.37 for i in range(19999)] + [0], "v": [1]}))
        self.good("convert", first, self.path("base"))
        self.good("convert", "--level", "high", "--base", self.path("base"), second, self.path("delta"))
        self.refused(["--rename", "w=x", self.path("delta")], 1, "is a delta", "must keep its name")
        self.good("edit", "--rename", "v=x", self.path("delta"))
        self.assertEqual(set(self.values(self.path("delta"), "--base", self.path("base"))), {"w", "x"})

    def test_big_endian(self):
        data = struct.pack(">2f", 1, 2)
        entry = b"\x08\x01\x12\x04\x12\x02\x08\x02\x28\x08\x35" + struct.pack("<I", masked_crc32c(data))
        self.bundle("big", [(b"w", entry)], data)
        with open(self.path("big.index"), "wb") as file:
            file.write(index_of([(b"", b"\x08\x01\x10\x01\x1a\x02\x08\x01"), (b"w", entry)]))
        before = self.values(self.path("big"))
        self.good("edit", "--rename", "w=v", self.path("big"))
        self.assertEqual(self.values(self.path("big")), {"v": before["w"]})
        self.assertIn("1", self.good("show", self.path("big"), "v"))

    def test_a_key_of_a_slice_that_is_none_is_damage(self):
        self.bundle("m", [(b"\0\1", b"\x08\x01\x12\x00\x28\x04"), (b"w", b"\x08\x01\x12\x00\x28\x04")], b"\0" * 4)
        self.refused(["--rename", "w=v", self.path("m")], 1, "m.index")

    def test_the_object_graph_keeps_its_names(self):
        key = b"w/.ATTRIBUTES/VARIABLE_VALUE"
        attribute = b"\x0a\x0eVARIABLE_VALUE\x1a" + leb128(len(key)) + key
        node = b"\x12" + leb128(len(attribute)) + attribute
        graph = b"\x0a" + leb128(len(node)) + node
        text = "".join(f"\\{byte:03o}" for byte in graph)
        sources = [self.write("graph.pbtxt", f"dtype: DT_STRING tensor_shape {{ }} string_val: '{text}'"),
                   self.write("w.pbtxt", floats(1, 2)), self.write("other.pbtxt", floats(3))]
        path = self.path("objects")
        self.good("convert", "--rename", "graph=_CHECKPOINTABLE_OBJECT_GRAPH", "--rename", "w=" + key.decode(),
                  *sources, path)
        self.good("verify", path)
        for arguments in (["--rename", "s/^w/x/"], ["--remove", "w/*"]):
            self.refused([*arguments, path], 1, "object graph", "must stay; `tensorcask convert` changes the graph, too",
                         "_CHECKPOINTABLE_OBJECT_GRAPH")
        self.refused(["--rename", "_CHECKPOINTABLE_OBJECT_GRAPH=x", path], 1, "TensorFlow finds the object graph")
        self.good("edit", "--rename", "other=o", path)  # which the graph does not name
        self.good("edit", "--rename", "s/^w.*/w/", "--remove", "_CHECKPOINTABLE_OBJECT_GRAPH", path)
        self.assertEqual(set(self.values(path)), {"o", "w"})
        self.good("verify", path)

    def sharded_checkpoint(self):
        """The prefix of a checkpoint whose tensors a, b and c lie in three data files."""
        entries = [(b"", b"\x08\x03\x1a\x02\x08\x01")]
        for shard, name in enumerate((b"a", b"b", b"c")):
            data = struct.pack("<2f", shard, 7)
            self.put(f"k.data-0000{shard}-of-00003", data)
            place = b"\x18" + bytes([shard]) if shard else b""
            entries.append((name, b"\x08\x01\x12\x04\x12\x02\x08\x02" + place + b"\x28\x08\x35" +
                            struct.pack("<I", masked_crc32c(data))))
        self.put("k.index", index_of(entries))
        return self.path("k")

    def test_a_missing_data_file_is_named_and_stays_listed(self):
        for damage in (None, b"\1\2"):
            for options in (["--dry-run"], ["-o", self.path("o" if damage is None else "p")], []):
                path = self.sharded_checkpoint()
                before = self.values(path)
                file = path + ".data-00001-of-00003"
                content = read(file)
                os.unlink(file)
                if damage is not None:
                    self.put("k.data-00001-of-00003", damage)
                out = self.good("edit", "--rename", "a=x", *options, path)
                self.assertIn("note: 1 of the 3 data files is missing or too short: k.data-00001-of-00003\n", out)
                edited = path if not options else options[1] if len(options) == 2 else None
                if edited is None:
                    continue
                self.put(os.path.basename(edited) + ".data-00001-of-00003", content)  # it is found again
                self.good("verify", edited)
                self.assertEqual(self.values(edited), {"x": before["a"], "b": before["b"], "c": before["c"]})

    def test_an_edit_that_needs_a_missing_data_file_is_refused(self):
        data = struct.pack("<2f", 1, 7)
        self.put("g.data-00001-of-00002", data)  # the object graph is in the other one
        crc = struct.pack("<I", masked_crc32c(data))
        self.put("g.index", index_of([
            (b"", b"\x08\x02\x1a\x02\x08\x01"),
            (b"_CHECKPOINTABLE_OBJECT_GRAPH", b"\x08\x07\x12\x00\x28\x08\x35" + crc),
            (b"a", b"\x08\x01\x12\x04\x12\x02\x08\x02\x18\x01\x28\x08\x35" + crc)]))
        self.refused(["--rename", "a=b", self.path("g")], 1, "_CHECKPOINTABLE_OBJECT_GRAPH", "g.data-00000-of-00002",
                     "; tensorcask salvage saves the undamaged tensors\n")
        out = self.good("edit", "--rename", "a=b", "--remove", "_CHECKPOINTABLE_OBJECT_GRAPH", self.path("g"))
        self.assertIn("note: 1 of the 2 data files is missing or too short: g.data-00000-of-00002\n", out)
        self.assertEqual(set(self.values(self.path("g"))), {"b"})

    def test_what_is_refused(self):
        path = self.model("m.ckpt")
        self.refused(["--rename", "step=", path], 1, "a tensor's name is empty")
        self.refused(["--rename", "step=_CHECKPOINTABLE_OBJECT_GRAPH", path], 1, "finds the object graph")
        self.refused(["--set", "a=b", path], 1, "holds no metadata")
        self.refused(["--rename", "step=s", "-o", self.path("x.index"), path], 1, "x.index")
        with open(path + ".index", "r+b") as file:
            file.write(b"\xff\xff")
        self.refused(["--rename", "step=s", path], 1, "m.ckpt.index")

    def test_v1_checkpoints_are_refused_by_name(self):
        # tests/fuzz/corpus/v1_checkpoint/plain: "s", a float32, and "w", int32 [4].
        content = bytes.fromhex(
            "0000220a200a090a01731200180122000a0f0a0177120412020804180322020a001202080100050f0073000100120d0a"
            "017312001a062a040000c03f0107117700010101807f120f0a017712020a001a063a0401020304000000000100000000"
            "803e99ea000000000100000000c0f2a1b000010201005f00000000010000000084b0b63c6408710e0000000000000000"
            "0000000000000000000000000000000000000000000000000000000057fb808b247547db"
        )
        path = self.put("v1.ckpt", content)
        self.assertEqual(set(self.values(path)), {"s", "w"})
        self.refused(["--rename", "w=x", path], 1, "is a V1 checkpoint", "convert")


class OtherInputs(Edits):
    def test_records_and_messages_are_for_convert(self):
        for name in ("m.tfrecord", "one.pb", "one.npy"):
            path = self.model(name, None if name == "m.tfrecord" else {"one": [1]})
            for arguments in (["--rename", "s/^/x/"], ["--rename", "s/^/x/", "--dry-run"]):
                self.refused([*arguments, path], 1, "is not edited; use tensorcask convert --rename")

    def test_streams_and_what_is_not_there(self):
        self.refused(["--rename", "a=b", "-"], 2, "edit changes files")
        self.refused(["--rename", "a=b", "unix:/nowhere"], 2, "edit changes files")
        self.refused(["--rename", "a=b", self.path("none.safetensors")], 1, "none.safetensors")
        self.refused(["--rename", "a=b", self.folder], 1, "is a folder without a file of a known format")

    def test_no_room_leaves_the_old_file(self):
        path = self.model("m.safetensors")
        done = run("edit", "--rename", "step=s", "-o", "/proc/none/m.safetensors", path)
        self.assert_one_line(done, 1, "/proc/none/m.safetensors")


if __name__ == "__main__":
    case_report.main("edit")
