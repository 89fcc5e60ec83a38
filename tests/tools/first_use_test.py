#!/usr/bin/env python3
"""What a new user types: names of formats, wrong words, folders, pipes, and what is not a file of tensors."""

import fcntl
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
import termios

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import TOOL, Archives, floats, is_listened_to, masked_crc32c, run  # noqa: E402


class FormatsByName(Archives):
    def test_an_unknown_extension_is_refused_without_to(self):
        prefix = self.model()
        for name in ("m.zarr", "dir.d/m.bin"):
            done = run("convert", prefix, self.path(name))
            self.assert_one_line(done, 2, "no known format has the extension", "--to")
        self.assert_one_line(run("convert", prefix, self.path("m.onnx")), 1, "made of another model", "--replace-in")
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("m.")], [])
        self.good("convert", "--to", "checkpoint", prefix, self.path("m.zarr"))
        self.assertTrue(os.path.exists(self.path("m.zarr.index")))

    def test_a_file_that_exists_needs_overwrite(self):
        prefix = self.model()
        for name in ("m.npz", "m.safetensors", "m.tfrecord", "m"):
            self.good("convert", prefix, self.path(name))
            self.assert_one_line(run("convert", prefix, self.path(name)), 1, name, "; --overwrite replaces it")

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
        self.assert_one_line(done, 1, "x.message", "no format recognizes", "tensorproto or tensorproto-text (option --format")
        self.good("ls", "--format", "tensorproto", self.path("x.message"))


class WrongWords(Archives):
    def test_subcommands(self):
        self.assert_one_line(run("lst"), 2, "no subcommand lst", 'did you mean "ls"?')
        self.assert_one_line(run("dif", "a", "b"), 2, "no subcommand dif", 'did you mean "diff"?')
        for word, meant in (("compare", "diff"), ("list", "ls"), ("copy", "convert"), ("check", "verify"), ("rename", "edit"),
                            ("print", "show"), ("receive", "recv"), ("gc", "clean")):
            self.assert_one_line(run(word, "a", "b"), 2, f"no subcommand {word}", f'did you mean "{meant}"?')
        self.assert_one_line(run("nonsense"), 2, "no subcommand nonsense", "--help")

    def test_version_and_help(self):
        self.assertEqual(run("-V").stdout, run("--version").stdout)
        self.assertEqual(self.good("help", "convert"), self.good("convert", "--help"))
        self.assertEqual(self.good("help"), self.good("--help"))

    def test_options(self):
        self.assert_one_line(run("--versoin"), 2, "no option --versoin", 'did you mean "--version"?')
        self.assert_one_line(run("-x"), 2, "no option -x", "see tensorcask --help")
        self.assert_one_line(run("convert", self.model()), 2, "DST is required")
        self.assert_one_line(run("ls", "--jsn", "a"), 2, "--jsn", 'did you mean "--json"?')

    def test_tensors(self):
        prefix = self.model()
        self.assert_one_line(run("show", prefix, "dense/kernl"), 1, "dense/kernl", 'did you mean "dense/kernel"?')
        self.assert_one_line(run("show", prefix, "kernel"), 1, 'did you mean "dense/kernel"?')
        done = run("convert", "--rename", "dense/kernl=x", prefix, self.path("copy"))
        self.assert_one_line(done, 2, 'x: no tensor "dense/kernl"', 'did you mean "dense/kernel"?')

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

    def test_rules_of_convert(self):
        prefix = self.model()
        done = run("convert", "--overwrite", "--dtype", "*nope*=bfloat16", prefix, self.path("x"))
        wanted = "tensorcask convert: --dtype *nope*=bfloat16 matches no tensor\n"
        self.assertEqual((done.returncode, done.stderr), (0, wanted))
        done = run("convert", "--rename", "s/nope/x/", prefix, self.path("y"))
        self.assert_one_line(done, 2, "--rename s/nope/x/ matches no tensor")
        self.assertFalse(os.path.exists(self.path("y.index")))

        arguments = ["--rename", "s/dense/d/", "--rename", "s/^d.kernel/k/"]  # the second matches what the first makes
        done = run("convert", "--overwrite", *arguments, prefix, self.path("x"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_every_other_command(self):
        prefix = self.model()
        stream = subprocess.run([TOOL, "cat", prefix], capture_output=True, timeout=60, check=True).stdout
        for command, what in ((["cat", prefix, "--exclude", "*nope*"], "--exclude *nope*"),
                              (["save", "--exclude", "*nope*", self.path("x")], "--exclude *nope*"),
                              (["save", "--include", "dense/*", "--include", "*nope*", self.path("y")], "--include *nope*")):
            done = subprocess.run([TOOL, *command], input=stream, capture_output=True, timeout=60, check=False)
            wanted = f"tensorcask {command[0]}: {what} matches no tensor\n"
            self.assertEqual((done.returncode, done.stderr.decode()), (0, wanted), command)

    def test_send(self):
        with subprocess.Popen([TOOL, "recv", self.path("x"), "--unix", self.path("sock")], stdout=subprocess.DEVNULL) as recv:
            while not is_listened_to(self.path("sock")):
                time.sleep(0.01)
            done = run("send", self.model(), "--exclude", "*nope*", "--unix", self.path("sock"))
            self.assertEqual((done.returncode, done.stderr), (0, "tensorcask send: --exclude *nope* matches no tensor\n"))
            self.assertEqual(recv.wait(60), 0)

    def test_operands_must_match(self):
        prefix = self.model()
        for command in (["ls", prefix], ["ls", "--sort", "size", prefix], ["ls", "--json", prefix], ["stats", prefix],
                        ["diff", prefix, prefix], ["cat", prefix], ["ls", self.path("parts.tfrecord")],
                        ["send", "--unix", self.path("sock"), prefix]):
            self.assert_one_line(run(*command, "*nope*"), 2, f"tensorcask {command[0]}: *nope* matches no tensor\n")
            done = run(*command, "dense/bias", "dense/kernl")
            self.assert_one_line(done, 2, 'dense/kernl matches no tensor; did you mean "dense/kernel"?')
        other = self.model("other", {"only/there": floats(1)})
        self.assertEqual(run("diff", prefix, other, "only/*").returncode, 1)  # one of the files has it

    def test_nothing_is_left_to_write(self):
        prefix = self.model()
        before = sorted(os.listdir(self.folder))
        for arguments in ([], ["--dry-run"], ["--include", "dense/*"]):
            done = run("convert", *arguments, "--exclude", "*", prefix, self.path("x"))
            self.assert_one_line(done, 2, "no tensor is left to write: --exclude matches all tensors")
        with open(self.path("parts.tfrecord"), "rb") as stream:
            done = subprocess.run([TOOL, "save", "--exclude", "*", self.path("x")], stdin=stream, capture_output=True,
                                  encoding="utf-8", timeout=60, check=False)
        self.assert_one_line(done, 2, "no tensor is left to write")
        text = self.write("s.pbtxt", 'dtype: DT_STRING string_val: "text"')
        before.append("s.pbtxt")
        for arguments in ([], ["--dry-run"]):
            done = run("convert", "--allow-loss", *arguments, text, self.path("x.safetensors"))
            self.assertEqual((done.returncode, done.stdout.count("lost: ")), (1, 1))
            self.assertIn("a safetensors file can hold none of the tensors; nothing is written", done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(before))

    def test_a_file_without_tensors_stays_one(self):
        with open(self.path("e.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", 2) + b"{}")
        self.good("convert", self.path("e.safetensors"), self.path("e.npz"))
        self.assertIn("total: 0 tensors", self.good("ls", self.path("e.npz")))


class Destinations(Archives):
    def test_folders_and_streams_are_refused(self):
        prefix = self.model()
        os.mkdir(self.path("d"))
        before = sorted(os.listdir(self.folder))
        with open(self.path("parts.tfrecord"), "rb") as stream:
            records = stream.read()
        for name, says in ((".", "is a folder"), ("..", "is a folder"), ("d", "d: is a folder; wanted"), ("d/", "such as"),
                           ("nosuch/", "is a folder"), ("d/.", "is a folder"), ("-", "-: wanted a file to write"),
                           ("unix:sock", "unix:sock: wanted a file to write")):
            for command in (["convert", prefix, name], ["convert", "--dry-run", prefix, name], ["salvage", prefix, name],
                            ["convert", "--overwrite", "--to", "checkpoint", prefix, name], ["save", name],
                            ["convert", "--to", "npz", prefix, name], ["recv", name, "--unix", "sock"],
                            ["edit", "--rename", "dense/bias=b", "-o", name, prefix]):
                done = subprocess.run([TOOL, *command], input=records, capture_output=True, timeout=60, check=False,
                                      cwd=self.folder)
                self.assertEqual(done.returncode, 2, (command, done.stderr))
                self.assertIn(says, done.stderr.decode())
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.assertEqual(os.listdir(self.path("d")), [])


class Figures(Archives):
    def test_convert_tells_what_is_on_the_disk(self):
        text = "dtype: DT_FLOAT tensor_shape { dim { size: 1000000 } } float_val: 1"
        prefix = self.model(tensors={"w": text})
        out = self.good("convert", "--level", "default", prefix, self.path("small"))
        size = sum(os.path.getsize(self.path(name)) for name in os.listdir(self.folder) if name.startswith("small."))
        self.assertLess(size, 1 << 20)
        self.assertRegex(out, r"1 tensor, 3\.8 MiB \((\d+ B|\d+\.\d KiB) on disk\), checkpoint")

    def test_strings_have_the_same_size_plain_and_encoded(self):
        for length in (3, 120, 500):
            text = '"' + "ab" * (length // 2) + '", '
            prefix = self.model(tensors={"s": "dtype: DT_STRING tensor_shape { dim { size: 1000 } } string_val: ["
                                              + (text * 1000)[:-2] + "]"})
            self.good("convert", "--overwrite", "--level", "high", prefix, self.path("small"))
            plain, encoded = (json.loads(self.good("ls", "--json", path)) for path in (prefix, self.path("small")))
            self.assertTrue(encoded["tensors"][0]["encoding"].startswith("encoded"))
            self.assertEqual(plain["tensors"][0]["bytes"], encoded["tensors"][0]["bytes"])
            self.assertEqual(plain["totals"]["bytes"], encoded["totals"]["bytes"])
            self.assertIn(f"  {plain['totals']['bytes']}  encoded", self.good("ls", self.path("small")))

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
        os.remove(path)
        done = run("verify", prefix)
        self.assertEqual(done.stdout.splitlines()[-1],
                         f"{prefix}: 0 tensors whole, 2 damaged, damage outside of tensors in 1 place")


class Folders(Archives):
    def test_a_folder_with_one_file_is_opened(self):
        os.mkdir(self.path("d"))
        self.good("convert", self.model(), self.path("d/step-1"))
        self.assertIn("dense/kernel", self.good("ls", self.path("d")))
        self.assertIn("dense/kernel", self.good("ls", ".", cwd=self.path("d")))
        self.good("convert", self.model(), self.path("d/step-2"))
        for folder in (self.path("d"), self.path("d/")):
            self.assert_one_line(run("ls", folder), 1, "2 files", "/d/step-1", "/d/step-2")
        with open(self.path("d/checkpoint"), "w", encoding="utf-8") as file:
            file.write('model_checkpoint_path: "step-2"\n')
        self.assertIn("dense/kernel", self.good("ls", self.path("d")))
        self.assert_one_line(run("ls", self.path("d/checkpoint")), 1, "the list of the checkpoints in its folder")
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
        self.assert_one_line(run("ls", "--format", "npz", "-"), 2, "only records are read from stdin")


class NotTensors(Archives):
    def test_pipes_and_empty_paths(self):
        os.mkfifo(self.path("pipe"))
        for path in (self.path("pipe"), "/dev/null", "/dev/stdin"):
            self.assert_one_line(run("ls", path), 1, f"{path}: is a pipe, a socket or a device; wanted a regular file")
        self.assert_one_line(run("ls", ""), 2, "PATH is empty")

    def test_a_path_with_nothing_there(self):
        for command in (["ls"], ["show"], ["convert"], ["verify"]):
            path = self.path("nofile")
            done = run(*command, path, *(["w"] if command[0] in ("show", "convert") else []))
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{path}: no such file or folder, and no checkpoint of this name (there is no {path}.index)",
                          done.stderr)
        self.assert_one_line(run("ls", self.path("nofile.npz")), 1, "nofile.npz", "No such file")

    def test_a_data_file_names_its_checkpoint(self):
        prefix = self.model()
        data = prefix + ".data-00000-of-00001"
        self.assert_one_line(run("ls", data), 1, f"{data}: this is a data file of a checkpoint: name the checkpoint, {prefix}\n")
        os.remove(prefix + ".index")
        self.assert_one_line(run("ls", data), 1, f"whose index, {prefix}.index, is missing")

    def test_compressed_files_pointers_and_other_formats(self):
        for name, start, says in (("a.npz.gz", b"\x1f\x8b\x08\0", "gzip"), ("b.zst", b"\x28\xb5\x2f\xfd\0\0", "Zstandard"),
                                  ("c.xz", b"\xfd7zXZ\0", "xz"), ("d.bz2", b"BZh91AY", "bzip2"),
                                  ("e.weights", b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "git lfs pull"),
                                  ("g.pkl", b"\x80\x02}q\0.", "pickle")):
            with open(self.path(name), "wb") as file:
                file.write(start)
            self.assert_one_line(run("ls", self.path(name)), 1, name + ": this ", says)

    def test_a_temporary_file_is_named(self):
        path = self.write("m.npz.tmp-0123456789abcdef", "half")
        says = f"the temporary file of a save to {self.path('m.npz')} that is not finished or was killed (tensorcask clean"
        self.assert_one_line(run("ls", path), 1, f"{path}: this is {says}")
        prefix = self.model()
        self.good("convert", prefix, self.path("whole.npz"))
        with open(self.path("whole.npz"), "rb") as whole, open(self.path("cut.npz.tmp-0123456789abcdef"), "wb") as cut:
            cut.write(whole.read()[:-30])
        self.assert_one_line(run("ls", cut.name), 1, cut.name, "; this is the temporary file of a save to ")

    def test_records_of_examples_are_named(self):
        message = b"\x0a\x02\x0a\x00"
        header = struct.pack("<Q", len(message))
        with open(self.path("x.tfrecord"), "wb") as file:
            file.write(header + struct.pack("<I", masked_crc32c(header)) + message
                       + struct.pack("<I", masked_crc32c(message)))
        for command in (["ls", self.path("x.tfrecord")], ["convert", self.path("x.tfrecord"), self.path("copy")], ["ls", "-"],
                        ["save", self.path("copy")]):
            with open(self.path("x.tfrecord"), "rb") as stream:
                done = subprocess.run([TOOL, *command], stdin=stream, capture_output=True, encoding="utf-8", timeout=60,
                                      check=False)
            self.assert_one_line(done, 1, ": the record looks like a tf.Example, which is not a tensor\n")
            self.assertEqual(done.stderr.count("tf.Example"), 1)


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

    def test_salvage_says_that_it_wants_files(self):
        self.assert_one_line(run("salvage", "unix:" + self.path("sock"), self.path("x")), 2, "run it where they are")

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
        self.assertEqual((done.returncode, done.stderr), (141, b""))  # 128 + SIGPIPE

    def test_a_full_disk_is_named(self):
        for arguments in (["ls", self.model()], ["--help"], ["ls", "--help"], ["--version"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([TOOL, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn(b"cannot write to stdout: No space left on device", done.stderr)

    def test_a_disk_that_fills_while_a_file_is_written_leaves_nothing(self):
        prefix = self.model(tensors={"w": "dtype: DT_FLOAT tensor_shape { dim { size: 2000000 } } float_val: 1"})
        before = sorted(os.listdir(self.folder))
        limit = 4 << 20  # ThreadSanitizer writes a file of 2 MiB itself
        limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))}
        for name in ("x", "x.npz", "x.safetensors", "x.tfrecord", "x.pb"):
            self.assert_one_line(run("convert", prefix, self.path(name), **limits), 1, name, "cannot write", "File too large")
            self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_one_unreadable_tensor_leaves_the_document_valid(self):
        prefix = self.model()
        with open(prefix + ".data-00000-of-00001", "r+b") as file:
            file.write(b"\xff")
        done = run("ls", "--json", "--checksum", prefix)
        self.assertEqual(done.returncode, 1)
        tensors = {tensor["name"]: tensor for tensor in json.loads(done.stdout)["tensors"]}
        self.assertIn("checksum", tensors["dense/kernel"]["error"])
        self.assertNotIn("error", tensors["dense/bias"])

    def test_an_interrupted_document_is_still_valid(self):
        values = "dtype: DT_FLOAT tensor_shape { dim { size: 4000000 } } float_val: 1"
        prefix = self.model(tensors={f"t{number:02}": values for number in range(12)})
        interrupted = 0
        for delay in range(60):  # until the signal comes neither before the work nor after it
            with subprocess.Popen([TOOL, "ls", "--json", "--checksum", prefix], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as process:
                time.sleep(delay / 100)
                process.send_signal(signal.SIGINT)
                out, _ = process.communicate(timeout=60)
            if process.returncode != 128 + signal.SIGINT:
                continue
            document = json.loads(out)
            self.assertLessEqual(len(document["tensors"]), 12)
            interrupted += document.get("error") == "interrupted"
            if interrupted:
                break
        self.assertEqual(interrupted, 1)

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


if __name__ == "__main__":
    case_report.main("first_use")
