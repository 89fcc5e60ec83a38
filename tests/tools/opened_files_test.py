#!/usr/bin/env python3
"""What the tool opens while it reads files of PyTorch, ONNX and GGUF, good and hostile ones, as strace sees it.

`ls`, `verify` and `convert` of each file may open the file itself, the other files of a model in several files, and what
every program opens to start. Only `convert` writes, and only in the folder of its result. No command starts a program
or makes a socket.
"""

import concurrent.futures
import os
import re
import struct
import subprocess
import sys
import unittest

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from onnx_test import entry, model, number, raw, tensor  # noqa: E402
from tool_testing import DATA, TOOL, TRACED, Scratch, with_strace  # noqa: E402

FOLDERS = [os.path.join(DATA, name) for name in ("pytorch", "onnx", "gguf")]
# What the loader, the C library and the count of processors read.
SYSTEM = ("/lib", "/usr/lib", "/etc/ld.so.", "/proc/self/", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/",
          "/sys/fs/cgroup", "/proc/sys/", "/etc/localtime", "/dev/null", "/dev/urandom")  # fmt: skip
CALL = re.compile(r"(openat2?|execve|socket)\((.*)\) += (-?\d+)(?:<(.*)>)?")
PATH = re.compile(r'(?:AT_FDCWD(?:<([^>]*)>)?|\d+<([^>]*)>), "((?:[^"\\]|\\.)*)"')
WRITES = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_TMPFILE")


def calls_of(command):
    """[(name of the call, its arguments, its result, the path of what it opened)] of a run, and its exit status."""
    # In memory: strace goes on after a write that fails, as on a disk that is full, and lines then lack their middle.
    log = os.memfd_create("calls")
    with open(log, encoding="utf-8", errors="backslashreplace") as file:
        done = subprocess.run(
            ["strace", "-f", "-y", "-s", "4096", "-e", "trace=openat,openat2,execve,socket",
             "-o", f"/proc/{os.getpid()}/fd/{log}", *command],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False, env=TRACED,
        )  # fmt: skip
        if b"strace: " in done.stderr:
            raise AssertionError(done.stderr.decode(errors="replace"))
        calls = []
        begun = {}  # by the thread, of a call during which another thread made one
        for line in file:
            thread, text = re.match(r"(\d*) *(.*)", line).groups()
            if text.endswith(" <unfinished ...>"):
                begun[thread] = text[: -len(" <unfinished ...>")]
                continue
            resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", text)
            call = CALL.match(begun.pop(thread, "") + resumed.group(1) if resumed else text)
            if call:
                calls.append(call.groups())
    return calls, done.returncode


def companions(path):
    """The files that are read with `path`: those of a split model of GGUF; those beneath the folder of a model of ONNX."""
    folder, name = os.path.split(path)
    part = re.match(r"(.*)-\d{5}-of-(\d{5})\.gguf$", name)
    if part:
        return {os.path.join(folder, f"{part.group(1)}-{i:05}-of-{part.group(2)}.gguf")
                for i in range(1, 1 + min(int(part.group(2)), 99))}  # fmt: skip
    return {path}


class OpenedFiles(Scratch):
    def check(self, path, allowed=(), commands=("ls", "verify", "convert")):
        """The exit statuses of the commands, none of which opens anything but these paths."""
        path = os.path.realpath(path)
        allowed = companions(path) | {os.path.realpath(one) for one in allowed}
        statuses = []
        for command in commands:
            out = self.path(f"{abs(hash(path))}")
            os.makedirs(out, exist_ok=True)
            to = ["--allow-loss", os.path.join(out, "out.safetensors")] if command == "convert" else []
            flags = ["--json", "--checksum"] if command == "ls" else []
            calls, status = calls_of([TOOL, command, *flags, path, *to])
            statuses.append(status)
            self.assertGreater(len(calls), 1, path)
            self.assertEqual([call[0] for call in calls].count("execve"), 1, f"{command} {path}: starts a program")
            self.assertNotIn("socket", [call[0] for call in calls], f"{command} {path}")
            for call, arguments, result, opened in calls:
                if call == "execve":
                    continue
                where = f"{command} {path}: {call}({arguments}) = {result}"
                self.check_open(where, arguments, opened, allowed, out if command == "convert" else None)
        return statuses

    def check_open(self, where, arguments, opened, allowed, out):
        found = PATH.match(arguments)
        self.assertIsNotNone(found, where)
        base = found.group(1) or found.group(2) or os.getcwd()
        named = os.path.normpath(os.path.join(base, found.group(3)))
        data = os.path.realpath(DATA) + "/"
        for path in {named, os.path.realpath(named) if opened is None else opened}:
            if out is not None and (path + "/").startswith(os.path.realpath(out) + "/"):
                continue
            self.assertFalse(any(flag in arguments for flag in WRITES), f"{where} writes")
            path = re.sub(r"^/proc/\d+/", "/proc/self/", path)
            if path in allowed or (path.startswith(SYSTEM) and not path.startswith(data)):
                continue
            folders = {os.path.dirname(one) for one in allowed}
            is_folder = "O_DIRECTORY" in arguments and any((one + "/").startswith(path + "/") for one in folders)
            is_folder = is_folder or ("O_PATH" in arguments and "O_DIRECTORY" in arguments)  # not read: of a link
            # What the system refuses is not opened, if it is looked for beneath the folder of the file only.
            is_refused = opened is None and path == named and any(named.startswith(one + "/") for one in folders)
            is_refused = is_refused or (opened is None and "RESOLVE_BENEATH" in arguments)
            self.assertTrue(is_folder or is_refused, where)

    @with_strace
    @unittest.skipUnless(all(os.path.isdir(folder) for folder in FOLDERS), "SKIPPED: no test data")
    def test_files_of_others(self):
        paths = [os.path.join(folder, name) for top in FOLDERS for folder, _, names in os.walk(top) for name in names
                 if not name.endswith((".json", ".tsv"))]  # fmt: skip
        self.assertGreater(len(paths), 200)
        with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
            statuses = list(pool.map(self.check, sorted(paths)))
        self.assertGreater(sum(status[0] == 0 for status in statuses), 150)  # these were read ...
        self.assertGreater(sum(status[0] == 1 for status in statuses), 40)  # ... and these refused
        self.assertEqual({code for status in statuses for code in status}, {0, 1})

    @with_strace
    def test_side_files_of_a_model_are_beneath_its_folder(self):
        os.makedirs(self.path("models/deep"))
        for name in ("secret", "models/w.bin", "models/deep/v.bin", "models/other.bin"):
            with open(self.path(name), "wb") as file:
                file.write(struct.pack("<4f", 1, 2, 3, 4))
        os.symlink("../secret", self.path("models/link.bin"))

        def external(name, location):
            return tensor(1, (4,), name, number(14, 1) + entry(b"location", location))

        def put(name, *tensors):
            with open(self.path(name), "wb") as file:
                file.write(model(raw(1, (1,), b"inside", b"\0\0\0\0"), *tensors))
            return self.path(name)

        good = put("models/good.onnx", external(b"w", b"w.bin"), external(b"v", b"deep/v.bin"))
        sides = [self.path("models/w.bin"), self.path("models/deep/v.bin")]
        self.assertEqual(self.check(good, sides), [0, 0, 0])
        secret = self.path("secret").encode()
        for location in (b"../secret", secret, b"link.bin", b"deep/../../secret", b"w.bin\0", b"file://" + secret):
            self.check(put("models/bad.onnx", external(b"w", location)), commands=("verify", "convert"))

    @with_strace
    def test_a_pickle_opens_nothing(self):
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        import torch_test  # noqa: PLC0415

        def call(module, function, *arguments):
            return torch_test.call(torch_test.name(module, function), *arguments)

        text = torch_test.text
        for harm in (call("builtins", "open", text(self.path("made")), text("w")),
                     call("posix", "system", text("touch " + self.path("made"))),
                     call("builtins", "__import__", text("socket")),
                     call("torch", "load", text("/etc/passwd"))):  # fmt: skip
            value = torch_test.dict_of(w=torch_test.tensor("0", 1, (1,), (1,)), x=harm)
            with open(self.path("m.pt"), "wb") as file:
                file.write(torch_test.saved(value, {"0": [1]}))
            self.assertEqual(self.check(self.path("m.pt")), [1, 1, 1])
            self.assertFalse(os.path.exists(self.path("made")))


if __name__ == "__main__":
    case_report.main("opened_files")
