#!/usr/bin/env python3
"""Messages of the tool: they use its words and options, and name what is wrong and what to do."""

import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import zipfile

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import DATA, TOOL, Archives, floats, is_listened_to, read, run  # noqa: E402


def zip_start(member):
    """The first bytes of a zip file with this first member."""
    return b"PK\x03\x04" + bytes(22) + struct.pack("<HH", len(member), 0) + member.encode() + bytes(64)


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Base(Archives):
    def file(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def npy(self, name, descr, shape, data):
        text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
        text = text.ljust(117) + b"\n"
        return self.file(name, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data)


class Text(Base):
    def test_names_in_utf8_are_readable_in_messages(self):
        prefix = self.model(tensors={"weights/größe": floats(1, 2), "重み": floats(3)})
        self.assert_one_line(run("show", prefix, "weights/grösse"), 1, '"weights/grösse"', 'did you mean "weights/größe"?')
        with open(prefix + ".data-00000-of-00001", "r+b") as data:
            data.write(b"\xff" * os.path.getsize(data.name))
        out = run("verify", prefix).stdout
        self.assertIn('tensor "weights/größe" at offset', out)
        self.assertIn('tensor "重み" at offset', out)

    def test_control_and_bidi_characters_in_messages_are_not(self):
        prefix = self.model()
        for text, escaped in (("\u202e", r"\xe2\x80\xae"), ("\u2066", r"\xe2\x81\xa6"), ("\u2028", r"\xe2\x80\xa8"),
                              ("\x85", r"\xc2\x85"), ("\x9b", r"\xc2\x9b"), ("\x1b", r"\x1b")):
            done = run("show", prefix, f"ö{text}z")
            self.assert_one_line(done, 1, f'no tensor "ö{escaped}z"')
            self.assertNotIn(text, done.stderr)

    def test_strings_are_shown_as_utf8(self):
        prefix = self.model(tensors={"s": "dtype: DT_STRING tensor_shape { dim { size: 2 } } "
                                          'string_val: ["größe", "\\033\\377"]'})
        self.assertEqual(self.good("show", prefix, "s"), 'string [2]\n["größe" "\\x1b\\xff"]\n')


class OwnWords(Base):
    """No names of C++ functions and fields, on stderr or in JSON."""

    def fails(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 1, done)
        for word in ("::", "(lenient", "without verifying"):
            self.assertNotIn(word, done.stdout + done.stderr)
        return done

    def test_errors_in_json(self):
        bad = self.npy("bad.npy", "|b1", "(4,)", b"\0\1\2\0")
        good = self.npy("good.npy", "|b1", "(4,)", b"\0\1\1\0")
        os.mkdir(self.path("other"))
        os.rename(good, self.path("other/bad.npy"))
        advice = "only 0 and 1 are bools (--lenient accepts this)"
        for command, key in ((["ls", "--checksum", bad], "tensors"), (["stats", bad], "tensors"),
                             (["diff", bad, self.path("other/bad.npy")], "differences")):
            document = json.loads(self.fails(command[0], "--json", *command[1:]).stdout)
            self.assertIn(advice, document[key][0]["error"], command)
        (verified,) = json.loads(self.fails("verify", "--json", bad).stdout)["files"]
        self.assertIn(advice, verified["damage"][0]["message"])
        self.good("show", "--lenient", bad)

    def test_errors_of_whole_files_in_json(self):
        header = {"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}
        path = self.file("rest.safetensors", safetensors(header, bytes(8)))
        (verified,) = json.loads(self.fails("verify", "--json", path).stdout)["files"]
        self.assertIn("(--lenient accepts this)", verified["error"])

    def test_a_changed_element_of_a_file_with_checksums(self):
        path = self.path("sums.safetensors")
        self.good("convert", self.model(), path)
        content = read(path)
        self.file("sums.safetensors", content[:-1] + bytes([content[-1] ^ 1]))
        out = self.fails("verify", path).stdout
        self.assertIn("its checksum is", out)
        self.assertIn("a program changed the elements in place", out)


class Limits(Base):
    """Input past a limit is refused with the option that changes the limit."""

    def test_a_limit_is_changed_by_its_name(self):
        prefix = self.model(tensors={"a": "dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: 1",
                                     "b": "dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: 1"})
        model = self.path("m.npz")
        self.good("convert", prefix, model)
        out = self.path("out.npz")
        for command in (["ls", model], ["stats", model], ["verify", model], ["convert", model, out], ["diff", model, model]):
            done = run(*command, "--limit", "max_entries=1")
            self.assertEqual(done.returncode, 1, done)
            self.assertRegex(done.stderr, r"the limit max_entries is 1; --limit max_entries=N changes it\n$", command)
            self.good(*command, "--limit", "max_entries=2", "--limit", "max_expansion=2000")

    def test_a_wrong_limit_is_misuse(self):
        for word, said in (("max_entrys=1", 'no limit is called "max_entrys"; there are max_depth'),
                           ("max_entries=0", "wanted a size of 1 byte or more"), ("max_entries=", "wanted a size"),
                           ("=5", 'no limit is called ""'), ("max_depth=1001", "wanted at most 1000")):
            done = run("ls", self.model(), "--limit", word)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(said, done.stderr)


class Counts(Base):
    """One byte, one file: no message says "1 bytes"."""

    WRONG = re.compile(r"(?<![\w.,/-])1 (bytes|tensors|files|elements|entries|members|arrays|records|values|shards|slices|"
                       r"strings|dims|blocks|chunks|fields|data files|(byte|tensor|file|value|record) are)\b")

    def check(self, *arguments):
        done = run(*arguments)
        self.assertIsNone(self.WRONG.search(done.stdout + done.stderr), (arguments, done.stdout, done.stderr))
        return done

    def sources(self):
        """Small files of every format, and the file of each to damage."""
        strings = "dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: 's'"
        bytes_of = {"b": "dtype: DT_INT8 tensor_shape { dim { size: 1 } } int_val: 1", "s": strings}
        prefix = self.model(tensors=bytes_of)
        yield prefix, prefix + ".index"
        yield prefix, prefix + ".data-00000-of-00001"
        one = self.model("one.ckpt", tensors={"b": bytes_of["b"]})
        for target in ("one.safetensors", "one.npy", "one.npz", "one.tfrecord", "one.pb", "one.pbtxt"):
            self.good("convert", one, self.path(target))
            yield self.path(target), self.path(target)
        self.good("convert", "--level", "default", one, self.path("deflated.npz"))
        yield self.path("deflated.npz"), self.path("deflated.npz")

    def test_files_cut_anywhere_and_with_a_byte_more(self):
        for path, damaged in self.sources():
            whole = read(damaged)
            sizes = sorted({*range(20), *range(20, len(whole), 19), *range(max(len(whole) - 20, 0), len(whole))})
            contents = [whole[:size] for size in sizes if size < len(whole)]
            contents += [whole + b"x", b"x" + whole, whole[:1] + whole[2:]]
            for number, content in enumerate(contents):
                with open(damaged, "wb") as file:
                    file.write(content)
                for command in (["verify"], ["verify", "--lenient"], ["ls"], ["stats"])[number % 2 :: 2]:
                    self.check(*command, path)
            with open(damaged, "wb") as file:
                file.write(whole)

    def test_files_without_trouble(self):
        for path, _ in self.sources():
            for command in (["ls"], ["ls", "--json"], ["show"], ["stats"], ["verify"], ["salvage"]):
                target = [self.path("salvaged.tfrecord"), "--overwrite"] if command == ["salvage"] else []
                self.check(*command, path, *target)
        os.mkdir(self.path("folder"))
        self.file("folder/a.npy", b"")
        self.check("ls", self.path("folder"))

    def test_what_looks_like_something(self):
        pickle = b"\x80\x04\x95\x0b" + bytes(7) + b"}\x94\x8c\x01a\x94K\x01s." + bytes(64)
        for name in ("m.tfrecord", "m.bin", "m.npz", "m"):
            done = self.check("ls", self.file(name, pickle))
            self.assertIn("a pickle of Python", done.stderr)
            self.assertNotIn("looks like what", done.stderr)
        done = subprocess.run([TOOL, "ls", "-"], input=pickle, capture_output=True, check=False, timeout=60)
        self.assertIn(b"look like a pickle of Python", done.stderr)


class Options(Base):
    def test_slices(self):
        prefix = self.model()
        wanted = "wanted START:STOP for each axis as in Python (0:2,:), or START,LENGTH or - for each axis (0,2:-)"
        for spec, says in (("0:2,1", 'the index "1" needs brackets around all axes: [0:2,1]'),
                           ("::2", '"::2" has a step, and steps are not supported'),
                           ("0:4:2,:", '"0:4:2" has a step'), ("[0:4:2, 1]", '"0:4:2" has a step'),
                           ("0:2,...", '"..." is not supported: write : for each axis'),
                           ("1", 'the index "1" needs brackets around all axes: [1]'), ("0:x", '"x" is not a number'),
                           ("0.5:2", '"0.5" is not a number'), ("0,2:x", '"x" is not a number'),
                           ("[0:2,1", "one of the brackets is missing"), ("[]", "an axis is empty"), ("None", wanted)):
            self.assert_one_line(run("show", "--slice", spec, prefix, "dense/kernel"), 2, f'--slice "{spec}": {wanted}', says)
        self.assert_one_line(run("show", "--slice", "0,2", prefix, "dense/kernel"), 1, 'slice "0,2" has 1 axis', "rank 2")
        self.assertIn("[[2]]", self.good("show", "--slice", "[0:1,1]", prefix, "dense/kernel"))

    def test_tolerances(self):
        prefix = self.model()
        for option in ("--rtol", "--atol"):
            for value in ("abc", "-1", "nan", "inf", "1e999", "1e-5x", "1,5"):
                done = run("diff", f"{option}={value}", prefix, prefix)
                self.assert_one_line(done, 2, f'{option}: wanted a number of 0 or more, as in 1e-5; found "{value}"')
                self.assertLess(len(done.stderr), 200)
            for value in ("0", "1e-5", ".5", "1E-3"):
                self.good("diff", option, value, prefix, prefix)

    def test_times_and_sizes(self):
        sock = self.path("sock")
        for value in ("abc", "-1", "nan", "inf", "0", "1e10", "1,5", "0x10"):
            done = run("recv", self.path("x"), "--unix", sock, f"--timeout={value}")
            self.assert_one_line(done, 2, f'--timeout: wanted seconds from 0.001 to 1e9, as in 2.5; found "{value}"')
        prefix = self.model()
        for value in ("abc", "-1", "0", "5XB", "5kbb", "1..5GB", "nan", "1e3", "9.3EB"):
            done = run("convert", f"--shard-size={value}", prefix, self.path("x.safetensors"))
            self.assert_one_line(done, 2, f'--shard-size: wanted a size of 1 byte or more, as in 500MB or 2GiB; found "{value}"')
        for value in ("1.5GB", "2 GiB", "500mb", "7K", "300", "300b", ".5kib"):
            self.good("convert", "--overwrite", "--shard-size", value, prefix, self.path("x.safetensors"))

    def test_opaque_dtypes(self):
        prefix = self.model()
        self.assert_one_line(run("ls", "--opaque-dtype", "flaot32", prefix), 2, 'no dtype is called "flaot32"; did you mean "float32"?')
        self.assert_one_line(run("ls", "--opaque-dtype", "float8", prefix), 2, 'no dtype is called "float8"', "names contain it", '"float8_e')

    def test_names_that_contain_a_word(self):
        names = [f"block/conv2d_{i}/kernel" for i in range(5)] + ["dense/bias"]
        prefix = self.model(tensors={name: floats(1) for name in names})
        hint = '; 5 names contain it: "block/conv2d_0/kernel", "block/conv2d_1/kernel", "block/conv2d_2/kernel", ...\n'
        self.assert_one_line(run("show", prefix, "conv2d"), 1, 'no tensor "conv2d"' + hint)
        hint = hint.replace("5 names contain it", '"*conv2d*" matches 5')
        self.assert_one_line(run("ls", prefix, "conv2d"), 2, "conv2d matches no tensor" + hint)
        self.assert_one_line(run("ls", prefix, "conv2d*"), 2, "conv2d* matches no tensor" + hint)
        self.assert_one_line(run("diff", prefix, prefix, "--rename", "s/dense/d/", "conv2d"), 2, "no tensor" + hint)
        for option in ("--exclude=conv2d", "--dtype=conv2d=bfloat16"):
            done = run("convert", "--dry-run", option, prefix, self.path("new"))
            self.assertIn(f"{option.replace('=', ' ', 1)} matches no tensor" + hint, done.stderr)
        self.assertIn("--exclude conv2d matches no tensor" + hint, run("cat", "--exclude", "conv2d", prefix, errors="replace").stderr)
        self.assert_one_line(run("show", prefix, "conv2d_3"), 1, 'did you mean "block/conv2d_3/kernel"?')

    def test_lenient_says_what_it_overlooks(self):
        path = self.npy("tail.npy", "<f4", "(1,)", bytes(8))
        self.assert_one_line(run("ls", path), 1, "4 bytes behind the array (--lenient accepts this)")
        with zipfile.ZipFile(self.path("tail.npz"), "w") as file:
            file.write(path, "a.npy")
        for name, note in (("tail.npy", "4 bytes"), ("tail.npz", 'member "a.npy": 4 bytes')):
            done = run("ls", "--lenient", self.path(name))
            self.assertEqual((done.returncode, done.stdout.count("\n")), (0, 2), done.stderr)
            self.assertEqual(done.stderr, f"tensorcask ls: note: {self.path(name)}: {note} behind the array are ignored\n")

    def test_the_help_of_lenient_names_every_format_that_takes_it(self):
        text = " ".join(self.good("ls", "--help").split())
        self.assertIn("Accept a safetensors, npy or npz file that breaks a rule", text)

    def test_dtypes(self):
        prefix = self.model()
        for word, meant in (("flaot32", "float32"), ("f16", "float16"), ("Float32", "float32"), ("bf16", "bfloat16"),
                            ("fp16", "float16"), ("FP32", "float32"), ("bfloat61", "bfloat16"), ("u_int8", "uint8")):
            done = run("convert", "--dtype", f"*={word}", prefix, self.path("x"))
            self.assert_one_line(done, 2, f"--dtype *={word}: wanted GLOB=DTYPE",
                                 f'no dtype is called "{word}"; did you mean "{meant}"?')
        done = run("convert", "--dtype", "*=nosuch", prefix, self.path("x"))
        self.assert_one_line(done, 2, 'no dtype is called "nosuch"\n')
        done = run("convert", "--dtype", "bfloat61", prefix, self.path("x"))
        self.assert_one_line(done, 2, 'or a dtype for all; no dtype is called "bfloat61"; did you mean "bfloat16"?')
        done = run("convert", "--dtype", "=float32", prefix, self.path("x"))
        self.assert_one_line(done, 2, "wanted GLOB=DTYPE")
        self.assertNotIn("no dtype", done.stderr)
        self.good("convert", "--dtype", "bfloat16", prefix, self.path("x"))
        self.assertEqual({dtype for dtype, _, _ in self.tensors(self.path("x")).values()}, {"bfloat16"})

    def test_a_pattern_that_matches_nothing_has_a_hint(self):
        prefix = self.model()
        done = run("convert", "--include", "kernel", prefix, self.path("x"))
        self.assert_one_line(done, 2, '--include kernel matches no tensor; did you mean "dense/kernel"?')
        done = run("edit", "--remove", "bias", prefix)
        self.assert_one_line(done, 2, '--remove bias matches no tensor; did you mean "dense/bias"?')

    def test_merge_says_which_command_joins_other_files(self):
        self.good("convert", self.model(), self.path("a.safetensors"))
        done = run("merge", self.path("a.safetensors"), self.path("b"))
        self.assert_one_line(done, 1, "cannot open", "a.safetensors is no prefix of a checkpoint; convert joins files of "
                                                     "other formats")  # fmt: skip

    def test_a_dry_run_looks_whether_dst_exists(self):
        prefix = self.model()
        for name in ("copy", "copy.npz", "copy.safetensors", "copy.tfrecord"):
            path = self.path(name)
            self.good("convert", "--dry-run", prefix, path)
            self.good("convert", prefix, path)
            before = {file: os.stat(self.path(file)).st_mtime_ns for file in os.listdir(self.folder)}
            self.assert_one_line(run("convert", "--dry-run", prefix, path), 1, path, "exists already; --overwrite replaces it")
            self.good("convert", "--dry-run", "--overwrite", prefix, path)
            self.assertEqual({file: os.stat(self.path(file)).st_mtime_ns for file in os.listdir(self.folder)}, before)

    def test_a_dry_run_prints_columns(self):
        prefix = self.model()
        rules = ["--rename", "dense/bias=b", "--dtype", "*kernel=float16"]
        out = self.good("convert", "--dry-run", *rules, prefix, self.path("x"))
        self.assertEqual(sorted(out.splitlines()[:2]), ["dense/bias    float32  [2]    ->  b             float32",
                                                        "dense/kernel  float32  [2,3]  ->  dense/kernel  float16"])
        out = self.good("convert", "--dry-run", prefix, self.path("x"))
        self.assertEqual(sorted(out.splitlines()[:2]), ["dense/bias    float32  [2]", "dense/kernel  float32  [2,3]"])


class Pipes(Base):
    def test_cat_into_a_pipe_whose_reader_goes_is_silent(self):
        large = self.large()
        for tensors in (1, 0):  # the reader goes after some bytes, or before the first
            with subprocess.Popen([TOOL, "cat", large], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                if tensors:
                    self.assertTrue(process.stdout.read(1))
                process.stdout.close()
                self.assertEqual(process.stderr.read(), b"")
                self.assertEqual(process.wait(60), 141)

    def test_a_full_disk_is_not_silent(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([TOOL, "cat", self.model()], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"stdout: cannot write: No space left on device", done.stderr)

    def test_other_formats_on_stdin_are_named(self):
        prefix = self.model()
        self.good("convert", prefix, self.path("m.npz"))
        self.good("convert", prefix, self.path("m.safetensors"))
        self.good("convert", "--include", "dense/bias", prefix, self.path("m.npy"))
        for name, what in (("m.npz", "an npz file"), ("m.npy", "an npy file"), ("m.safetensors", "a safetensors file")):
            for command in (["ls", "-"], ["verify", "-"], ["convert", "-", self.path("x")], ["save", self.path("x")]):
                with open(self.path(name), "rb") as stream:
                    done = subprocess.run([TOOL, *command], stdin=stream, capture_output=True, encoding="utf-8", timeout=60,
                                          check=False)
                self.assert_one_line(done, 1, "stdin: only records can be read from standard input, and these bytes look like "
                                     + what + "\n")
        os.rename(self.path("m.npz"), self.path("m.tfrecord"))
        self.assert_one_line(run("ls", "--format", "records", self.path("m.tfrecord")), 1, "m.tfrecord: record at 0:",
                             "the file looks like an npz file")


class Paths(Base):
    def test_the_missing_folder_is_named(self):
        prefix = self.model()
        missing = self.path("nodir")
        for name in ("sub/m", "sub/m.npz", "m.safetensors", "m.tfrecord", "m.npy", "sub/m.pb"):
            done = run("convert", "--include", "dense/bias", prefix, os.path.join(missing, name))
            self.assert_one_line(done, 1, f"{missing}/{name}", f"; there is no folder {missing}\n")
            self.assertNotIn(".tmp-", done.stderr)
        for name in ("m", "m.npz", "sub/m.safetensors", "sub/deep/m.ckpt"):
            self.assert_one_line(run("ls", os.path.join(missing, name)), 1, name, f"; there is no folder {missing}\n")
        self.assertNotIn("folder " + self.folder, run("ls", self.path("m.npz")).stderr)
        self.assertFalse(os.path.exists(missing))

    def test_odd_file_names_and_many_arguments(self):
        self.good("convert", self.model("m", tensors={"w": floats(1)}), self.path("m.npz"))
        content = read(self.path("m.npz"))
        for name in ("a\nb", "\x1b[31m", "-", "--", "-x", "--help", "[ab]", "a=b", "*", " ", "größe"):
            with self.subTest(name):
                self.file(name, content)
                self.assertIn("w  float32  [1]", self.good("ls", self.path(name)))
                if name != "-":  # standard input
                    self.assertIn("w  float32  [1]", self.good("ls", "--", name, cwd=self.folder))
                self.good("convert", self.path(name), self.path(name + ".safetensors"))
                out = self.good("verify", self.path(name + ".safetensors"))
                self.assertEqual((out.count("\n"), out.count("\x1b")), (1, 0))
                self.file("bad" + name, content[:-30])
                done = run("ls", self.path("bad" + name))
                self.assertEqual((done.returncode, done.stderr.count("\n"), done.stderr.count("\x1b")), (1, 1, 0))
        self.assertIn("w  float32  [1]", self.good("ls", self.path("m"), *["w"] * 100000))

    def test_sockets_that_nothing_waits_at(self):
        missing = self.path("nope")
        hint = f"no `tensorcask serve` waits at this socket: start it first with --unix {missing}"
        for command in ("ls", "verify", "stats", "cat"):
            self.assert_one_line(run(command, "unix:" + missing), 1, "No such file or directory", hint)
        prefix = self.model()
        self.assert_one_line(run("send", prefix, "--unix", missing), 1, "no `tensorcask recv` waits at this socket")
        with socket.socket(socket.AF_UNIX) as left:  # as a killed server leaves it
            left.bind(self.path("left"))
        self.assert_one_line(run("ls", "unix:" + self.path("left")), 1, "Connection refused; no `tensorcask serve` waits")

    def test_sockets_in_a_folder_that_is_missing(self):
        path = self.path("no/such/sock")
        prefix = self.model()
        for command in (["serve", prefix], ["recv", self.path("x")]):
            self.assert_one_line(run(*command, "--unix", path), 2, f"--unix {path}: there is no folder {self.path('no/such')}")
        self.assertFalse(os.path.exists(self.path("x.index")))

    def test_a_tensor_without_a_name(self):
        path = self.file("a.safetensors", safetensors({"": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, b"7"))
        for option in ((), ("--dry-run",)):
            done = run("convert", *option, path, self.path("x"))
            self.assert_one_line(done, 1, f'{path}: tensor "": its name is empty, which a checkpoint file cannot hold; rename it')
        self.assertEqual(os.listdir(self.folder), ["a.safetensors"])
        self.good("convert", path, self.path("x.npz"))
        self.good("convert", "--rename", "=a", path, self.path("x"))
        self.assertIn("a  uint8", self.good("ls", self.path("x")))

    def test_a_checkpoint_in_a_folder_with_the_name_of_another_hides_neither(self):
        prefix = self.model("m", tensors={"a": floats(1)})
        self.good("convert", "--rename", "a=b", prefix, self.path("m/x"))
        self.assertIn("a  float32", self.good("ls", prefix))
        self.assertIn("b  float32", self.good("ls", self.path("m/x")))
        self.assertIn("b  float32", self.good("ls", self.path("m/")))

    def test_formats_that_this_version_does_not_read_are_named(self):
        path = self.file("a.tflite", b"\x1c\0\0\0TFL3" + bytes(64))
        for command in (["ls", path], ["convert", path, self.path("x")], ["verify", path]):
            done = run(*command)
            self.assert_one_line(done, 1, f"{path}: this is a TensorFlow Lite model", "this version does not read")
        path = self.file("a.zip", zip_start("notes.txt"))
        self.assert_one_line(run("ls", path), 1, 'a zip file whose first member, "notes.txt", is not an array of NumPy')

    def test_a_message_of_onnx_is_told_from_one_of_tensorflow(self):
        path = self.file("input_0.pb", b"\x08\x02\x08\x03\x10\x01\x42\x01x\x4a\x18" + bytes(24))
        self.assertIn("x  float32  [2,3]", self.good("ls", path))
        damaged = self.file("m.onnx", b"\x08\x07\x12\x07pytorch\x3a\x05" + bytes(2))
        self.assert_one_line(run("ls", damaged), 1, f"{damaged}: a length of 5 with only 2 bytes left at byte 13\n")

    def test_the_array_of_an_npy_file_has_no_name(self):
        bad = self.npy("bad.npy", "|b1", "(4,)", b"\0\1\2\0")
        for command in (["show", bad], ["verify", bad], ["stats", bad], ["convert", bad, self.path("x")],
                        ["ls", "--checksum", bad]):
            done = run(*command)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{bad}: element 2 is a bool of byte 2", done.stdout + done.stderr)
            self.assertNotIn('""', done.stdout + done.stderr)


class Sizes(Base):
    def test_the_total_of_deflated_tensors_counts_each(self):
        prefix = self.model(tensors={"a": floats(1, 2), "b": floats(3), "c": floats(*range(9))})
        self.good("convert", "--level", "default", prefix, self.path("m.npz"))
        document = json.loads(self.good("ls", "--json", self.path("m.npz")))
        stored = sum(tensor["stored_bytes"] for tensor in document["tensors"])
        self.assertEqual(document["totals"], {"tensors": 3, "bytes": 48, "stored_bytes": stored})
        self.assertIn(f"total: 3 tensors, 48 bytes (48 B), stored in {stored} (", self.good("ls", self.path("m.npz")))

    def test_a_pattern_without_a_tensor_is_named_before_what_is_left(self):
        done = run("convert", "--include", "nope", self.model(), self.path("x.npy"))
        self.assert_one_line(done, 2, "--include nope matches no tensor")

    def test_save_and_recv_print_the_size_that_ls_prints(self):
        values = "dtype: DT_FLOAT tensor_shape { dim { size: 70000 } } float_val: 1"
        prefix = self.model(tensors={"w": values, "b": floats(1)})
        size = "273.4 KiB"
        self.assertIn(f"({size})\n", self.good("ls", prefix))
        stream = subprocess.run([TOOL, "cat", prefix], capture_output=True, timeout=60, check=True).stdout
        done = subprocess.run([TOOL, "save", self.path("s")], input=stream, capture_output=True, timeout=60, check=True)
        self.assertEqual(done.stdout.decode(), f"{self.path('s')}: 2 tensors, {size}, checkpoint\n")
        out = []
        thread = threading.Thread(target=lambda: out.append(run("recv", self.path("r"), "--unix", self.path("sock")).stdout))
        thread.start()
        while not is_listened_to(self.path("sock")):
            time.sleep(0.01)
        self.good("send", prefix, "--unix", self.path("sock"))
        thread.join()
        self.assertEqual(out, [f"{self.path('r')}: 2 tensors, {size}, checkpoint\n"])


if __name__ == "__main__":
    case_report.main("messages")
