#!/usr/bin/env python3
"""The command line over all formats: conversions, statistics, differences, and what a new user types wrong."""

import json
import math
import os
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import TOOL, Scratch, masked_crc32c, read, run  # noqa: E402


def floats(*values, shape=None):
    """A float32 message as text."""
    dims = "".join(f"dim {{ size: {dim} }} " for dim in (shape or [len(values)]))
    return f"dtype: DT_FLOAT tensor_shape {{ {dims}}} float_val: [{', '.join(map(str, values))}]"


class Archives(Scratch):
    def good(self, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def model(self, name="model.ckpt", tensors=None):
        """The prefix of a checkpoint of these {name: message as text}."""
        tensors = tensors or {"dense/kernel": floats(1, 2, 3, 4, 5, 6.5, shape=[2, 3]), "dense/bias": floats(7, 8)}
        stream = b""
        for number, (tensor, text) in enumerate(tensors.items()):
            source = self.write(f"part{number}.pbtxt", text)
            self.good("convert", "--overwrite", "--rename", f"part{number}={tensor}", source, self.path("part.tfrecord"))
            stream += read(self.path("part.tfrecord"))
        with open(self.path("parts.tfrecord"), "wb") as file:
            file.write(stream)
        self.good("convert", "--overwrite", self.path("parts.tfrecord"), self.path(name))
        return self.path(name)

    def tensors(self, path, *arguments):
        document = json.loads(self.good("ls", "--json", "--checksum", *arguments, path))
        return {tensor["name"]: (tensor["dtype"], tensor["shape"], tensor["crc32"]) for tensor in document["tensors"]}


class FormatsByName(Archives):
    def test_an_unknown_extension_is_refused_without_to(self):
        prefix = self.model()
        for name in ("m.h5", "m.onnx", "dir.d/m.bin"):
            done = run("convert", prefix, self.path(name))
            self.assert_one_line(done, 2, "no known format has the extension", "--to")
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("m.")], [])
        self.good("convert", "--to", "checkpoint", prefix, self.path("m.h5"))
        self.assertTrue(os.path.exists(self.path("m.h5.index")))

    def test_names_of_checkpoints(self):
        prefix = self.model()
        for name in ("copy", "copy.ckpt", "copy.ckpt-100", "step-1.5", "v1.2.3"):
            self.good("convert", prefix, self.path(name))
            self.assertTrue(os.path.exists(self.path(name + ".index")), name)

    def test_a_message_is_known_by_its_extension(self):
        prefix = self.model()
        for name in ("x.pb", "x.pbtxt", "x.textproto"):
            self.good("convert", "--include", "dense/bias", prefix, self.path(name))
            self.assertIn("float32", self.good("ls", self.path(name)))
        os.rename(self.path("x.pb"), self.path("x.message"))
        done = run("ls", self.path("x.message"))
        self.assert_one_line(done, 1, "x.message", "no format recognizes", "--format tensorproto")
        self.good("ls", "--format", "tensorproto", self.path("x.message"))


class WrongWords(Archives):
    def test_subcommands(self):
        self.assert_one_line(run("lst"), 2, "no subcommand lst", 'did you mean "ls"?')
        self.assert_one_line(run("dif", "a", "b"), 2, "no subcommand dif", 'did you mean "diff"?')
        self.assert_one_line(run("nonsense"), 2, "no subcommand nonsense", "--help")

    def test_version_and_help(self):
        self.assertEqual(run("-V").stdout, run("--version").stdout)
        self.assertEqual(self.good("help", "convert"), self.good("convert", "--help"))
        self.assertEqual(self.good("help"), self.good("--help"))

    def test_options(self):
        self.assert_one_line(run("ls", "--jsn", "a"), 2, "--jsn", 'did you mean "--json"?')

    def test_tensors(self):
        prefix = self.model()
        self.assert_one_line(run("show", prefix, "dense/kernl"), 1, "dense/kernl", 'did you mean "dense/kernel"?')
        self.assert_one_line(run("show", prefix, "kernel"), 1, 'did you mean "dense/kernel"?')
        done = run("convert", "--rename", "dense/kernl=x", prefix, self.path("copy"))
        self.assert_one_line(done, 2, "there is no tensor dense/kernl", 'did you mean "dense/kernel"?')

    def test_slices_of_python(self):
        prefix = self.model()
        wanted = "float32 [1,2]\n[[5 6.5]]\n"
        for spec in ("1,1:1,2", "1:2,1:3", "[1, 1:]", "-1:,-2:", "[1:2, 1:]", "1:,1:"):
            self.assertEqual(self.good("show", f"--slice={spec}", prefix, "dense/kernel"), wanted, spec)
        self.assert_one_line(run("show", "--slice", "2:,0:3", prefix, "dense/kernel"), 1, "selects nothing", "axis 0")
        self.assert_one_line(run("show", "--slice", "[0,0,0]", prefix, "dense/kernel"), 1, "rank 2")
        self.assert_one_line(run("show", "--slice", "a:b", prefix, "dense/kernel"), 2, "0,2:-", "0:2,:")


class NothingMatched(Archives):
    def test_include_and_exclude(self):
        prefix = self.model()
        self.assert_one_line(run("convert", "--include", "*nope*", prefix, self.path("x")), 2, "--include *nope*", "no tensor")
        self.assertFalse(os.path.exists(self.path("x.index")))
        done = run("convert", "--exclude", "*nope*", prefix, self.path("x"))
        self.assertEqual((done.returncode, done.stderr), (0, "tensorcask convert: --exclude *nope* matches no tensor\n"))

    def test_ls(self):
        done = run("ls", self.model(), "*nope*")
        self.assertEqual((done.returncode, done.stderr), (0, "tensorcask ls: *nope* matches no tensor\n"))


class Figures(Archives):
    def test_convert_tells_what_is_on_the_disk(self):
        text = "dtype: DT_FLOAT tensor_shape { dim { size: 1000000 } } float_val: 1"
        prefix = self.model(tensors={"w": text})
        out = self.good("convert", "--level", "default", prefix, self.path("small"))
        size = sum(os.path.getsize(self.path(name)) for name in os.listdir(self.folder) if name.startswith("small."))
        self.assertLess(size, 1 << 20)
        self.assertRegex(out, r"1 tensor, 3\.8 MiB \((\d+ B|\d+\.\d KiB) on disk\), checkpoint")

    def test_verify_counts_tensors(self):
        prefix = self.model()
        path = prefix + ".data-00000-of-00001"
        with open(path, "r+b") as file:
            file.write(b"\xff")
        done = run("verify", "--json", prefix, self.path("no"))
        self.assertEqual(done.returncode, 1)
        good, missing = json.loads(done.stdout)["files"]
        self.assertEqual((good["whole"], good["damaged"], len(good["damage"])), (1, 1, 1))
        self.assertEqual(good["damage"][0]["file"], path)
        self.assertIn("no", missing["error"])


class Folders(Archives):
    def test_a_folder_with_one_file_is_opened(self):
        os.mkdir(self.path("d"))
        self.good("convert", self.model(), self.path("d/step-1"))
        self.assertIn("dense/kernel", self.good("ls", self.path("d")))
        self.assertIn("dense/kernel", self.good("ls", ".", cwd=self.path("d")))
        self.good("convert", self.model(), self.path("d/step-2"))
        self.assert_one_line(run("ls", self.path("d")), 1, "2 files", "d/step-1", "d/step-2")
        with open(self.path("d/checkpoint"), "w", encoding="utf-8") as file:
            file.write('model_checkpoint_path: "step-2"\n')
        self.assertIn("dense/kernel", self.good("ls", self.path("d")))
        os.mkdir(self.path("empty"))
        self.assert_one_line(run("ls", self.path("empty")), 1, "folder without a file of a known format")

    def test_a_saved_model(self):
        os.makedirs(self.path("s/variables"))
        self.write("s/saved_model.pb", "")
        self.good("convert", self.model(), self.path("s/variables/variables"))
        self.assertIn("dense/kernel", self.good("ls", self.path("s")))

    def test_records_on_stdin(self):
        self.model()
        for command, says in ((["ls", "-"], b"dense/kernel"), (["show", "-", "dense/bias"], b"[7 8]"),
                              (["verify", "-"], b"2 tensors whole"), (["stats", "-"], b"dense/bias")):
            with open(self.path("parts.tfrecord"), "rb") as stream:
                done = subprocess.run([TOOL, *command], stdin=stream, capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(says, done.stdout)
        done = run("ls", "-")
        self.assert_one_line(done, 1, "stdin: contains no record")


class NotTensors(Archives):
    def test_records_of_examples_are_named(self):
        message = b"\x0a\x02\x0a\x00"
        header = struct.pack("<Q", len(message))
        with open(self.path("x.tfrecord"), "wb") as file:
            file.write(header + struct.pack("<I", masked_crc32c(header)) + message
                       + struct.pack("<I", masked_crc32c(message)))
        self.assert_one_line(run("ls", self.path("x.tfrecord")), 1, "x.tfrecord", "looks like a tf.Example")


class Sockets(Archives):
    def serve(self, *paths):
        server = subprocess.Popen([TOOL, "serve", *paths, "--unix", self.path("sock")], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, encoding="utf-8")
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        return server

    def test_checkpoints_with_equal_names_get_names(self):
        prefix = self.model()
        done = run("serve", prefix, prefix, "--unix", self.path("sock"))
        self.assert_one_line(done, 2, "two tensors are called", "NAME=PATH")
        server = self.serve("old=" + prefix, prefix)
        self.assertIn("serving 4 tensors", server.stdout.readline())
        served = "unix:" + self.path("sock")
        self.assertEqual(self.good("show", served, "old/dense/bias"), "float32 [2]\n[7 8]\n")
        self.assertEqual(self.good("show", "--slice", "0,1", served, "old/dense/bias"), "float32 [1]\n[7]\n")
        self.assertIn("4 tensors whole", self.good("verify", served))
        self.assertIn("old/dense/kernel", self.good("stats", served))
        self.good("convert", served, self.path("copy"))
        self.assertIn("2 tensors equal", self.good("diff", prefix, self.path("copy"), "dense/*"))

    def test_recv_does_not_wait_for_ever(self):
        start = time.monotonic()
        done = run("recv", "--timeout", "0.3", self.path("x"), "--unix", self.path("sock"))
        self.assert_one_line(done, 1, "no sender came within 0.3 s")
        self.assertLess(time.monotonic() - start, 30)


class Pipes(Archives):
    def test_a_closed_pipe_is_silent(self):
        prefix = self.model()
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([TOOL, "show", prefix, "dense/bias"], stdout=writer, stderr=subprocess.PIPE, timeout=60,
                              check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (1, b""))

    def test_a_full_disk_is_named(self):
        for arguments in (["ls", self.model()], ["--help"], ["ls", "--help"], ["--version"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([TOOL, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn(b"cannot write to stdout: No space left on device", done.stderr)

    def test_one_unreadable_tensor_leaves_the_document_valid(self):
        prefix = self.model()
        with open(prefix + ".data-00000-of-00001", "r+b") as file:
            file.write(b"\xff")
        done = run("ls", "--json", "--checksum", prefix)
        self.assertEqual(done.returncode, 1)
        tensors = {tensor["name"]: tensor for tensor in json.loads(done.stdout)["tensors"]}
        self.assertIn("checksum", tensors["dense/kernel"]["error"])
        self.assertNotIn("error", tensors["dense/bias"])

    def test_a_hangup_leaves_no_file(self):
        before = sorted(os.listdir(self.folder))
        with subprocess.Popen([TOOL, "save", self.path("copy")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            while sorted(os.listdir(self.folder)) == before:
                time.sleep(0.01)
            process.send_signal(signal.SIGHUP)
            self.assertEqual(process.wait(60), 128 + signal.SIGHUP)
        self.assertEqual(sorted(os.listdir(self.folder)), before)


class Names(Archives):
    def test_unicode_is_printed_and_controls_are_not(self):
        prefix = self.model(tensors={"größe/重み": "dtype: DT_INT8 int_val: 1", "a\u202eb": "dtype: DT_INT8 int_val: 1",
                                     "a\x9bb": "dtype: DT_INT8 int_val: 1"})
        out = self.good("ls", prefix)
        self.assertIn("größe/重み", out)
        self.assertNotIn("\u202e", out)
        self.assertNotIn("\x9b", out)

    def test_a_narrow_terminal_shortens_names_in_the_middle(self):
        long_name = "model/" + "block/" * 20 + "kernel"
        prefix = self.model(tensors={long_name: "dtype: DT_INT8 int_val: 1"})
        leader, terminal = os.openpty()
        import fcntl
        import termios
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        subprocess.run([TOOL, "ls", prefix], stdout=terminal, stderr=subprocess.DEVNULL, timeout=60, check=True)
        os.close(terminal)
        line = os.read(leader, 4096).decode().splitlines()[0]
        os.close(leader)
        self.assertLessEqual(len(line), 60)
        self.assertRegex(line, r"^model/.*\.\.\..*kernel  int8")
        self.assertIn(long_name, self.good("ls", prefix))  # whole in a pipe


class Convert(Archives):
    def test_renaming_by_expression(self):
        prefix = self.model()
        for rules, names in ((["s/^dense\\///"], {"kernel", "bias"}), (["s/e/E/g"], {"dEnsE/kErnEl", "dEnsE/bias"}),
                             (["s/(.*)\\/(.*)/\\2.\\1/"], {"kernel.dense", "bias.dense"}),
                             (["dense/bias=b", "s/dense/d/"], {"b", "d/kernel"})):
            arguments = [word for rule in rules for word in ("--rename", rule)]
            self.good("convert", "--overwrite", *arguments, prefix, self.path("copy"))
            self.assertEqual(set(self.tensors(self.path("copy"))), names)
        done = run("convert", "--rename", "s/(/x/", prefix, self.path("no"))
        self.assert_one_line(done, 2, "regular expression")
        done = run("convert", "--rename", "s/.*/same/", prefix, self.path("no"))
        self.assert_one_line(done, 1, '"same" is there already')
        self.assertFalse(os.path.exists(self.path("no.index")))

    def test_dtypes(self):
        prefix = self.model()
        self.good("convert", "--dtype", "*kernel=bfloat16", prefix, self.path("half"))
        tensors = self.tensors(self.path("half"))
        self.assertEqual((tensors["dense/kernel"][0], tensors["dense/bias"][0]), ("bfloat16", "float32"))
        self.assertIn("[4 5 6.5]", self.good("show", self.path("half"), "dense/kernel"))
        for rule in ("bfloat16", "*=nosuch", "=float32"):
            self.assert_one_line(run("convert", "--dtype", rule, prefix, self.path("x")), 2, "--dtype", "GLOB=DTYPE")

    def test_several_files_become_one(self):
        first = self.model("first", {"a": floats(1)})
        second = self.model("second.tfrecord", {"b": floats(2)})
        out = self.good("convert", first, second, self.path("both"))
        self.assertIn("2 tensors", out)
        self.assertEqual(set(self.tensors(self.path("both"))), {"a", "b"})
        self.assert_one_line(run("convert", first, first, self.path("x")), 1, '"a" is there already')

    def test_a_dry_run_writes_nothing(self):
        prefix = self.model()
        before = sorted(os.listdir(self.folder))
        out = self.good("convert", "--dry-run", "--rename", "dense/bias=b", "--dtype", "*kernel=float16", prefix,
                        self.path("copy"))
        self.assertIn("dense/bias  float32  [2]  ->  b  float32\n", out)
        self.assertIn("dense/kernel  float32  [2,3]  ->  dense/kernel  float16\n", out)
        self.assertIn("would have 2 tensors", out)
        self.assertEqual(sorted(os.listdir(self.folder)), before)


DATA = os.environ.get("TENSORCASK_TEST_DATA", "../shared/data")
PACKED = ("F4", "F6_E2M3", "F6_E3M2")


def with_data(test):
    return unittest.skipUnless(os.path.isdir(os.path.join(DATA, "numpy")), "SKIPPED: no test data")(test)


def files_of(folder):
    """(name, path, what it must hold) of each file of other programs."""
    with open(os.path.join(DATA, folder, "expected.json"), encoding="utf-8") as file:
        for name, expected in json.load(file).items():
            yield name, os.path.join(DATA, folder, name), expected


class OtherPrograms(Archives):
    def check_rejections(self, folder, lenient_ones=()):
        count = 0
        for name, path, expected in files_of(folder):
            if expected["expect"] == "reject" and name not in lenient_ones:
                with self.subTest(name):
                    self.assert_one_line(run("ls", path), 1, name)
                    count += 1
        self.assertGreater(count, 5)

    @with_data
    def test_safetensors(self):
        count = 0
        for name, path, expected in files_of("safetensors"):
            if expected["expect"] != "ok" or name.startswith("odd_"):
                continue
            with self.subTest(name):
                document = json.loads(self.good("ls", "--json", "--checksum", path))
                self.assertEqual(document["format"], "safetensors")
                listed = {tensor["name"]: tensor for tensor in document["tensors"]}
                for tensor in expected["tensors"]:
                    ours = listed[tensor["name"]]
                    self.assertEqual((ours["shape"], ours["stored_bytes"]), (tensor["shape"], tensor["nbytes"]))
                    if tensor["nbytes"] > 0:
                        self.assertEqual(ours["offset"], tensor["file_offset"])
                    if tensor["dtype"] not in PACKED:
                        self.assertEqual(ours["crc32"], tensor["crc32"])
                self.good("verify", path)
                count += 1
        self.assertGreater(count, 10)
        self.check_rejections("safetensors")

    @with_data
    def test_numpy(self):
        count = 0
        for name, path, expected in files_of("numpy"):
            if expected["expect"] != "ok" or name.startswith("odd_"):
                continue
            with self.subTest(name):
                document = json.loads(self.good("ls", "--json", "--checksum", path))
                self.assertEqual(document["format"], name[-3:])
                listed = {tensor["name"]: tensor for tensor in document["tensors"]}
                for tensor in expected["tensors"]:
                    plain = isinstance(tensor["descr"], str) and tensor["descr"][1] in "biufc"
                    if not plain:
                        continue
                    ours = listed[tensor["name"] or name[:-4]]
                    self.assertEqual(ours["shape"], tensor["shape"])
                    if tensor["descr"][0] != ">" and not tensor["fortran_order"]:
                        self.assertEqual(ours["crc32"], tensor["crc32"])
                self.good("verify", path)
                count += 1
        self.assertGreater(count, 25)
        self.check_rejections("numpy")


class BetweenFormats(Archives):
    TARGETS = ("m.safetensors", "m.npz", "m.tfrecord", "m.ckpt")

    def test_there_and_back(self):
        prefix = self.model(tensors={"a/w": floats(*range(6), shape=[2, 3]), "b": "dtype: DT_BFLOAT16 half_val: 16256",
                                     "c": "dtype: DT_BOOL bool_val: true", "größe": "dtype: DT_INT64 int64_val: -9",
                                     "z": "dtype: DT_COMPLEX64 tensor_shape { dim { size: 0 } }"})
        wanted = self.tensors(prefix)
        for first in self.TARGETS:
            self.good("convert", "--overwrite", prefix, self.path(first))
            self.assertEqual(self.tensors(self.path(first)), wanted, first)
            self.assertIn("5 tensors whole", self.good("verify", self.path(first)))
            for second in self.TARGETS:
                with self.subTest(first=first, second=second):
                    copy = self.path("copy" + second)
                    self.good("convert", "--overwrite", self.path(first), copy)
                    self.assertEqual(self.tensors(copy), wanted)
                    self.assertIn("5 tensors equal, 0 different", self.good("diff", prefix, copy))

    def test_one_tensor(self):
        prefix = self.model()
        for name in ("kernel.npy", "kernel.pb", "kernel.pbtxt"):
            self.good("convert", "--include", "dense/kernel", prefix, self.path(name))
            self.assertEqual(self.good("show", self.path(name), "kernel"), self.good("show", prefix, "dense/kernel"))
        self.assert_one_line(run("convert", prefix, self.path("x.npy")), 2, "npy holds exactly one tensor, 2 remain")

    def test_a_large_tensor_crosses_in_blocks(self):
        text = "dtype: DT_FLOAT tensor_shape { dim { size: 5 } dim { size: 1000000 } } float_val: [1, 2, 3]"
        prefix = self.model(tensors={"w": text, "v": floats(1)})
        wanted = self.tensors(prefix)
        for name in self.TARGETS:
            self.good("convert", prefix, self.path("large" + name))
            self.assertEqual(self.tensors(self.path("large" + name)), wanted, name)
        with open(prefix + ".data-00000-of-00001", "r+b") as file:  # blocks are checked as a whole
            file.seek(19000000)
            file.write(b"\x55")
        for name in self.TARGETS:
            done = run("convert", prefix, self.path("no" + name))
            self.assert_one_line(done, 1, '"w"', "checksum")
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("no") or ".tmp-" in name], [])

    def test_what_a_format_cannot_hold(self):
        prefix = self.model(tensors={"s": 'dtype: DT_STRING string_val: "text"', "w": floats(1)})
        done = run("convert", prefix, self.path("m.safetensors"))
        self.assert_one_line(done, 1, '"s"', "string", "safetensors", "--allow-loss")
        self.assertFalse(os.path.exists(self.path("m.safetensors")))
        out = self.good("convert", "--allow-loss", prefix, self.path("m.safetensors"))
        self.assertIn('lost: ', out)
        self.assertIn("1 tensor", out)
        self.good("convert", prefix, self.path("m.npz"))
        self.assertIn("text", self.good("show", self.path("m.npz"), "s"))

    def test_levels_of_npz(self):
        text = "dtype: DT_FLOAT tensor_shape { dim { size: 100000 } } float_val: 1"
        prefix = self.model(tensors={"w": text})
        self.good("convert", "--level", "default", prefix, self.path("small.npz"))
        self.assertLess(os.path.getsize(self.path("small.npz")), 10000)
        self.assertEqual(self.tensors(self.path("small.npz")), self.tensors(prefix))
        self.assert_one_line(run("convert", "--level", "default", prefix, self.path("x.safetensors")), 2, "--level")

    @with_data
    def test_metadata_of_a_file(self):
        source = os.path.join(DATA, "safetensors", "nutllm_tiny.safetensors")
        self.good("convert", source, self.path("copy.safetensors"))
        self.assertEqual(self.tensors(self.path("copy.safetensors")), self.tensors(source))
        metadata = json.loads(self.good("ls", "--json", self.path("copy.safetensors")))["metadata"]
        self.assertEqual(metadata["nutllm.max_seq"], "16")
        self.assert_one_line(run("convert", source, self.path("m.npz")), 1, "metadata", "nutllm.dim", "--allow-loss")
        self.good("convert", "--allow-loss", source, self.path("m.npz"))


class Stats(Archives):
    def test_figures(self):
        prefix = self.model(tensors={"w": floats(1, 2, 3, 4, 0, "nan", "inf", 1e-40), "s": 'dtype: DT_STRING string_val: "a"',
                                     "empty": "dtype: DT_FLOAT tensor_shape { dim { size: 0 } }",
                                     "i": "dtype: DT_INT64 tensor_shape { dim { size: 2 } } int64_val: [-5, 7]"})
        tensors = {t["name"]: t for t in json.loads(self.good("stats", "--json", prefix))["tensors"]}
        w = tensors["w"]
        self.assertEqual((w["zeros"], w["nan"], w["inf"], w["subnormals"], w["min"], w["max"]), (1, 1, 1, 1, 0, 4))
        self.assertAlmostEqual(w["mean"], 10 / 6, places=6)
        self.assertAlmostEqual(w["std"], math.sqrt(30 / 6 - (10 / 6) ** 2), places=6)
        self.assertEqual(sum(w["histogram"]), 6)
        self.assertEqual((tensors["i"]["min"], tensors["i"]["max"], tensors["i"]["mean"]), (-5, 7, 1))
        self.assertNotIn("min", tensors["s"])
        self.assertIsNone(tensors["empty"]["min"])
        text = self.good("stats", prefix, "w")
        self.assertIn("1 NaN, 1 Inf, 1 zero, 1 subnormal", text)

    def test_a_damaged_tensor_is_named(self):
        prefix = self.model()
        with open(prefix + ".data-00000-of-00001", "r+b") as file:
            file.write(b"\xff")
        done = run("stats", prefix)
        self.assertEqual(done.returncode, 1)
        self.assertIn("checksum", done.stdout)
        self.assertIn("dense/bias", done.stdout)


class Diff(Archives):
    def test_equal_files_of_two_formats(self):
        prefix = self.model()
        self.assertEqual(self.good("diff", prefix, self.path("parts.tfrecord")), "2 tensors equal, 0 different\n")

    def test_what_differs(self):
        a = self.model("a", {"same": floats(1), "moved": floats(1, 2, 3, 4, shape=[2, 2]), "more": floats(1, 10),
                             "gone": floats(1), "shape": floats(1, 2), "type": floats(1), "nan": floats("nan")})
        b = self.model("b", {"same": floats(1), "moved": floats(1, 2, 3.5, 4, shape=[2, 2]), "more": floats(2, 10),
                             "new": floats(1), "shape": floats(1), "type": "dtype: DT_INT8 int_val: 1",
                             "nan": floats("nan")})
        done = run("diff", a, b)
        self.assertEqual(done.returncode, 1)
        lines = done.stdout.splitlines()
        self.assertIn("gone: only in A: float32 [1]", lines)
        self.assertIn("new: only in B: float32 [1]", lines)
        self.assertIn("shape: shape differs: float32 [2], float32 [1]", lines)
        self.assertIn("type: dtype differs: float32 [1], int8 []", lines)
        moved = "moved: 1 of 4 elements differ, at most by 0.5 (relative 0.142857) at [1,0]: 3, 3.5"
        more = "more: 1 of 2 elements differ, at most by 1 (relative 0.5) at [0]: 1, 2"
        self.assertEqual(lines[4:], [more, moved, "2 tensors equal, 6 different"])
        done = run("diff", "--rtol", "0.2", a, b, "mo*")
        self.assertEqual(done.stdout.splitlines(), [more, "0 tensors equal, 1 within the tolerance, 1 different"])
        self.assertEqual(run("diff", "--atol", "1", a, b, "mo*").returncode, 0)
        document = json.loads(run("diff", "--json", a, b).stdout)
        kinds = {one["name"]: one["kind"] for one in document["differences"]}
        self.assertEqual(kinds, {"gone": "only in A", "new": "only in B", "shape": "shape", "type": "dtype",
                                 "more": "values", "moved": "values"})

    def test_a_damaged_tensor_is_a_difference(self):
        a, b = self.model("a"), self.model("b")
        with open(b + ".data-00000-of-00001", "r+b") as file:
            file.write(b"\xff")
        done = run("diff", a, b)
        self.assertEqual(done.returncode, 1)
        self.assertIn("dense/kernel: error: ", done.stdout)


if __name__ == "__main__":
    case_report.main("archive")
