#!/usr/bin/env python3
"""tensorcask salvage of npz files without their directory, as a download that stopped leaves them."""

import io
import json
import os
import struct
import sys
import unittest
import zipfile

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import Scratch, read, run  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None

ARRAYS = {"a": [1.5, 2.5, 3.5], "b/c": [4.5], "d": [5.5] * 40, "e": []}


def npy(values):
    """An npy file of float64."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({len(values)},), }}".encode()
    header += b" " * (117 - len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}d", *values)


class Pipe(io.RawIOBase):
    """What zipfile cannot seek in: it writes sizes and checksums behind the data."""

    def __init__(self):
        super().__init__()
        self.content = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.content += data
        return len(data)


def streamed(method, force_zip64=False):
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", method) as archive:
        for name, values in ARRAYS.items():
            with archive.open(name + ".npy", "w", force_zip64=force_zip64) as member:
                member.write(npy(values))
    return bytes(pipe.content)


def seekable(method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, values in ARRAYS.items():
            archive.writestr(name + ".npy", npy(values))
    return file.getvalue()


def by_numpy(save):
    file = io.BytesIO()
    save(file, **{name: np.array(values, "f8") for name, values in ARRAYS.items()})
    return file.getvalue()


def streamed_by_numpy(save):
    pipe = Pipe()
    save(pipe, **{name: np.array(values, "f8") for name, values in ARRAYS.items()})
    return bytes(pipe.content)


def ends(content):
    """Where each member ends, with what is behind its data."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        starts = [member.header_offset for member in archive.infolist()]
    return [*starts[1:], content.index(b"PK\x01\x02", starts[-1])]


class CutArchives(Scratch):
    def put(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def check(self, content):
        """Cuts the file around each end of a member, in each header, and in the directory."""
        places = ends(content)
        cuts = {place + step for place in places for step in (-1, 0, 1, 3, 20, 60)} | {len(content) - 1}
        names = list(ARRAYS)
        out = self.path("saved.npz")
        for length in sorted(cut for cut in cuts if cut < len(content)):
            path = self.put("cut.npz", content[:length])
            whole = sum(place <= length for place in places)
            self.assert_one_line(run("ls", path), 1, path + ": no end record of a zip archive",
                                 "salvage saves the arrays that are whole")
            done = run("salvage", "--overwrite", path, out)
            self.assertEqual(done.returncode, 1, done.stderr)
            lines = done.stdout.splitlines()
            saved = f'{whole} tensor{"" if whole == 1 else "s"} saved'
            self.assertEqual(lines[-1], f"{out}: {saved}{'' if whole else ', and so nothing is written'}")
            self.assertIn(f"lost: {path}: no end record of a zip archive", done.stdout)
            lost = [line for line in lines if 'tensor "' in line]
            self.assertLessEqual(len(lost), 1)
            if lost:
                self.assertIn(f'tensor "{names[whole]}"', lost[0])
            if whole == 0:
                continue
            self.assertEqual(self.values(out), {name: ARRAYS[name] for name in names[:whole]})
            os.unlink(out)

    def values(self, path):
        with zipfile.ZipFile(path) as archive:
            found = {name[:-len(".npy")]: archive.read(name) for name in archive.namelist()}
        result = {}
        for name, content in found.items():
            start = 10 + struct.unpack("<H", content[8:10])[0]
            result[name] = list(struct.unpack(f"<{(len(content) - start) // 8}d", content[start:]))
        return result

    def test_stored_and_deflated(self):
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            self.check(seekable(method))

    def test_written_to_a_pipe(self):
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            for force_zip64 in (False, True):
                self.check(streamed(method, force_zip64))

    @unittest.skipIf(np is None, "SKIPPED: no NumPy (python3-numpy)")
    def test_written_by_numpy(self):
        for save in (np.savez, np.savez_compressed):
            self.check(by_numpy(save))
            self.check(streamed_by_numpy(save))

    def test_written_by_this_tool(self):
        whole = self.put("whole.npz", seekable(zipfile.ZIP_STORED))
        for level in ("stored", "default"):
            self.assertEqual(run("convert", "--level", level, whole, self.path("own.npz"), "--overwrite").returncode, 0)
            self.check(read(self.path("own.npz")))

    def test_to_other_formats_and_as_json(self):
        content = seekable(zipfile.ZIP_STORED)
        path = self.put("cut.npz", content[:ends(content)[1] + 60])
        for name in ("saved.safetensors", "saved", "saved.tfrecord"):
            done = run("salvage", "--json", path, self.path(name))
            self.assertEqual(done.returncode, 1, done.stderr)
            document = json.loads(done.stdout)
            self.assertEqual(document["saved"], 2)
            self.assertEqual([lost["name"] for lost in document["lost"]], ["d", None])
            self.assertEqual(run("verify", self.path(name)).returncode, 0)
        done = run("show", self.path("saved.safetensors"), "b/c")
        self.assertEqual(done.stdout, "float64 [1]\n[4.5]\n")

    def test_a_member_whose_checksum_is_wrong_is_lost(self):
        content = bytearray(seekable(zipfile.ZIP_STORED))
        content[content.index(struct.pack("<d", 2.5))] ^= 1
        path = self.put("cut.npz", content[:-1])
        done = run("salvage", path, self.path("saved.npz"))
        self.assertEqual(done.returncode, 1)
        self.assertIn('tensor "a": has the CRC-32', done.stdout)
        self.assertEqual(sorted(self.values(self.path("saved.npz"))), ["b/c", "d", "e"])

    def test_a_member_of_another_method_hides_no_other(self):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, values in ARRAYS.items():
                method = zipfile.ZIP_BZIP2 if name == "a" else zipfile.ZIP_STORED
                archive.writestr(name + ".npy", npy(values), method)
        path = self.put("cut.npz", file.getvalue()[:-1])
        done = run("salvage", path, self.path("saved.npz"))
        self.assertEqual(done.returncode, 1)
        self.assertIn('tensor "a"', done.stdout)
        self.assertEqual(sorted(self.values(self.path("saved.npz"))), ["b/c", "d", "e"])

    def test_bytes_behind_the_archive(self):
        path = self.put("more.npz", seekable(zipfile.ZIP_STORED) + b"<html>")
        done = run("salvage", path, self.path("saved.npz"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("members were found by their headers up to offset", done.stdout)
        self.assertIn("where the directory begins", done.stdout)
        self.assertEqual(self.values(self.path("saved.npz")), ARRAYS)

    def test_other_content_is_no_cut_archive(self):
        for content in (b"", b"PK", b"PK\3\4", b"<html></html>", bytes(100)):
            path = self.put("x.npz", content)
            done = run("salvage", path, self.path("saved.npz"))
            self.assertEqual((done.returncode, done.stdout), (1, ""), content)
            self.assertFalse(os.path.exists(self.path("saved.npz")))


if __name__ == "__main__":
    case_report.main("salvage of npz files")
