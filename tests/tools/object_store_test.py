#!/usr/bin/env python3
"""The tool and files of s3:// and http://, from a small store in this process."""

import json
import os
import sys

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from store_server import StoreServer  # noqa: E402
from tool_testing import Archives, read, run  # noqa: E402


class ObjectStore(Archives):
    def setUp(self):
        super().setUp()
        self.store = StoreServer()
        self.addCleanup(self.store.close)
        self.url = self.store.url
        self.environment = {**os.environ, **self.store.environment()}

    def tool(self, *arguments, code=0):
        done = run(*arguments, env=self.environment)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertNotIn("SECRET", done.stdout + done.stderr)
        return done

    def test_a_checkpoint_goes_there_and_back(self):
        here = os.path.join(self.folder, "here.ckpt")
        self.make_checkpoint(here)
        self.tool("convert", here, "s3://bucket/run/there.ckpt")
        self.assertEqual(sorted(self.store.objects), ["bucket/run/there.ckpt.data-00000-of-00001",
                                                 "bucket/run/there.ckpt.index"])  # fmt: skip
        self.tool("diff", here, "s3://bucket/run/there.ckpt")
        self.tool("verify", "s3://bucket/run/there.ckpt")
        self.assertIn("exists already", self.tool("convert", here, "s3://bucket/run/there.ckpt", code=1).stderr)
        self.tool("convert", "s3://bucket/run/there.ckpt", os.path.join(self.folder, "back.ckpt"))
        self.tool("diff", here, os.path.join(self.folder, "back.ckpt"))
        # The same objects over HTTP, which is only read.
        web = self.url + "/bucket/run/there.ckpt"
        self.tool("diff", here, web)
        self.assertIn("only read", self.tool("convert", here, self.url + "/bucket/new.ckpt", code=1).stderr)

    def test_requests_are_counted(self):
        here = os.path.join(self.folder, "here.ckpt")
        self.make_checkpoint(here)
        self.tool("convert", here, "s3://bucket/there.ckpt")
        self.store.seen.clear()
        done = self.tool("ls", "--stats", "s3://bucket/there.ckpt.index")
        self.assertRegex(done.stderr, rf"(?m)^{len(self.store.seen)} requests?, 0 repeated; .* received, 0 B sent$")

    def test_what_is_not_there(self):
        self.assertIn("s3://bucket/none", self.tool("ls", "s3://bucket/none", code=1).stderr)
        self.assertIn("empty step", self.tool("ls", "s3://bucket//none", code=1).stderr)

    def test_what_the_store_says_is_passed_on(self):
        here = os.path.join(self.folder, "here.ckpt")
        self.make_checkpoint(here)
        for status, code, words in (
            (404, "NoSuchBucket", "The specified bucket does not exist"),
            (403, "SignatureDoesNotMatch", "Check your key"),
            (403, "RequestTimeTooSkewed", "The clocks differ"),
            (400, "InvalidBucketName", "The bucket is not valid"),
        ):
            self.store.refused["elsewhere"] = (status, code, words)
            for command in (
                ("ls", "s3://elsewhere/ckpt"),
                ("ls", "s3://elsewhere/run/ckpt"),
                ("ls", "s3://elsewhere/run/model.safetensors"),
                ("ls", "s3://elsewhere/run/"),
                ("verify", "s3://elsewhere/run/ckpt"),
                ("stats", "s3://elsewhere/model.npz"),
                ("diff", here, "s3://elsewhere/run/ckpt"),
                ("convert", "s3://elsewhere/run/ckpt", os.path.join(self.folder, "new.ckpt")),
                ("convert", here, "s3://elsewhere/run/ckpt"),
                ("convert", here, "s3://elsewhere/model.safetensors"),
                ("clean", "s3://elsewhere/run/"),
            ):
                with self.subTest(code=code, command=command[:2]):
                    said = run(*command, env=self.environment)
                    self.assertEqual(said.returncode, 1, said)
                    self.assertIn("s3://elsewhere/", said.stderr)
                    self.assertIn(code, said.stderr)
                    self.assertIn(words, said.stderr)

    def test_a_folder_is_listed(self):
        here = os.path.join(self.folder, "here.ckpt")
        self.make_checkpoint(here)
        self.tool("convert", here, "s3://bucket/run/ckpt-1")
        self.tool("convert", here, "s3://bucket/run/model.safetensors")
        self.store.put("bucket/run/notes.txt", b"text")
        self.store.put("bucket/run/deeper/model.npz", b"of a folder inside")
        self.store.seen.clear()
        lines = self.tool("ls", "s3://bucket/run/").stdout.splitlines()
        self.assertEqual([line.split() for line in lines[:-1]], [["s3://bucket/run/ckpt-1", "checkpoint"],
                                                                 ["s3://bucket/run/model.safetensors", "safetensors"]])  # fmt: skip
        self.assertEqual(lines[-1], "total: 2 archives")
        self.assertLessEqual(len(self.store.seen), 4)  # nothing is opened
        listed = json.loads(self.tool("ls", "--json", "s3://bucket/run/").stdout)
        self.assertEqual([one["format"] for one in listed["archives"]], ["checkpoint", "safetensors"])
        # The slash may be left out where there is no file of that name.
        self.assertEqual(self.tool("ls", "s3://bucket/run").stdout.splitlines(), lines)
        self.tool("convert", here, "s3://bucket/top.ckpt")
        self.assertIn("s3://bucket/top.ckpt", self.tool("ls", "s3://bucket").stdout)
        self.assertIn("total: 1 archive", self.tool("ls", "s3://bucket").stdout)
        self.assertIn("GLOB", self.tool("ls", "s3://bucket/run/", "*", code=1).stderr)
        self.assertIn("has no objects", self.tool("ls", "s3://bucket/none/", code=1).stderr)
        self.assertIn("cannot be listed", self.tool("ls", self.url + "/bucket/run/", code=1).stderr)

    def test_a_damaged_file_beside_a_folder_of_its_name_is_an_error(self):
        here = os.path.join(self.folder, "here.ckpt")
        self.make_checkpoint(here)
        self.tool("convert", here, "s3://bucket/run/ckpt-1")
        for name in ("run.index", "run"):
            self.store.put("bucket/" + name, b"neither a checkpoint nor another file")
            done = self.tool("ls", "s3://bucket/run", code=1)
            self.assertEqual(done.stdout, "")
            self.assertIn("s3://bucket/run", done.stderr)
            del self.store.stored["bucket/" + name]
        self.assertIn("s3://bucket/run/ckpt-1", self.tool("ls", "s3://bucket/run").stdout)

    def test_keys_with_spaces_and_signs(self):
        here = os.path.join(self.folder, "here.ckpt")
        self.make_checkpoint(here)
        self.tool("convert", here, "s3://bucket/run 1/50%20+off")
        self.assertIn('"s3://bucket/run 1/50%20+off" ', self.tool("ls", "s3://bucket/run 1/").stdout)
        self.store.start_upload("bucket/run 1/an upload+", days_old=100)
        self.tool("clean", "--delete", "s3://bucket/run 1/")
        self.assertEqual(self.store.uploads, {})

    def test_an_upload_that_is_gone_was_not_removed(self):
        class Vanishing(dict):
            def pop(self, *arguments):
                return None

        self.store.uploads = Vanishing()
        self.store.start_upload("bucket/run/x", days_old=100)
        done = self.tool("clean", "--delete", "s3://bucket/run/", code=1)
        self.assertIn("s3://bucket/run/x: cannot remove the upload", done.stderr)
        self.assertIn("NoSuchUpload", done.stderr)

    def make_leftovers(self):
        here = os.path.join(self.folder, "here.ckpt")
        if not os.path.exists(here + ".index"):
            self.make_checkpoint(here)
        self.tool("convert", here, "s3://bucket/run/whole")
        for name, days in (("old", 8), ("new", 6)):
            self.store.put(f"bucket/run/{name}.data-00000-of-00001", b"x" * 1000, days_old=days)
            self.store.start_upload(f"bucket/run/{name}-upload", days_old=days)
        self.store.put("bucket/run/a.txt", b"not ours", days_old=100)
        self.store.put("bucket/run/deeper/x.data-00000-of-00001", b"not here", days_old=100)
        self.store.start_upload("bucket/run/deeper/y", days_old=100)

    def test_what_killed_writers_left_is_found(self):
        self.make_leftovers()
        lines = self.tool("clean", "s3://bucket/run/").stdout.splitlines()
        self.assertEqual(len(lines), 5, lines)
        for line, name, state in zip(lines, ("new-upload", "new.data-00000-of-00001", "old-upload", "old.data-00000-of-00001"),
                                     ("unfinished upload, not old enough", "data without an index, not old enough",
                                      "unfinished upload", "data without an index")):  # fmt: skip
            self.assertIn(f"s3://bucket/run/{name} ", line)
            self.assertIn(state, line)
        self.assertEqual(lines[-1], "2 files can be removed, 1000 B; --delete removes them")
        self.assertEqual((len(self.store.objects), len(self.store.uploads)), (6, 3))

    def test_old_leftovers_are_removed_when_asked(self):
        for word, age, left in (("--delete", (), 2), ("--yes", ("--older-than", "5d"), 0)):
            self.store.stored.clear()
            self.store.uploads.clear()
            self.make_leftovers()
            listed = json.loads(self.tool("clean", "--json", word, *age, "s3://bucket/run").stdout)["files"]
            self.assertEqual([one["removed"] for one in listed], [left == 0, left == 0, True, True])
            paths = [one["path"] for one in listed]
            self.assertEqual(sorted(self.store.objects),
                             sorted(["bucket/run/a.txt", "bucket/run/deeper/x.data-00000-of-00001", "bucket/run/whole.index",
                                     "bucket/run/whole.data-00000-of-00001"] + [path[5:] for path in paths[1:2] if left]))  # fmt: skip
            self.assertEqual(sorted(one.path for one in self.store.uploads.values()),
                             sorted(["bucket/run/deeper/y"] + ["bucket/run/new-upload"] * (left > 0)))  # fmt: skip
            self.tool("verify", "s3://bucket/run/whole")

    def test_data_that_was_saved_again_stays(self):
        self.make_leftovers()

        # A save under the old name, of which the index is still missing when the data file is about to be removed.
        def save_again(method, path):
            if (method, path) == ("HEAD", "/bucket/run/old.index"):
                self.store.put("bucket/run/old.data-00000-of-00001", b"y" * 1000)

        self.store.before = save_again
        done = self.tool("clean", "--delete", "s3://bucket/run", code=1)
        self.assertIn("s3://bucket/run/old.data-00000-of-00001: was not removed, because it was saved again", done.stderr)
        self.assertEqual(self.store.objects["bucket/run/old.data-00000-of-00001"], b"y" * 1000)
        self.assertIn("1 file removed", done.stdout)

    def test_ages(self):
        self.store.start_upload("bucket/run/x", days_old=1)
        for age, code in (("23h", 0), ("1439min", 0), ("86000s", 0), ("0", 0), ("1w", 2), ("", 2), ("-1d", 2), ("d", 2)):
            done = self.tool("clean", "--older-than=" + age, "s3://bucket/run", code=code)
            self.assertIn("1 file can be removed" if code == 0 else "--older-than", done.stdout + done.stderr)
        self.assertIn("nothing to remove", self.tool("clean", "--older-than", "2d", "s3://bucket/run").stdout)
        self.assertEqual(self.tool("clean", "s3://bucket/empty/").stdout, "no temporary files\n")

    def make_checkpoint(self, path):
        source = os.path.join(self.folder, "source.npy")
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1000), }"
        header += " " * (117 - len(header)) + "\n"
        with open(source, "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
            file.write(bytes(range(250)) * 48)
        self.tool("convert", source, path)
        self.assertTrue(read(path + ".index"))


if __name__ == "__main__":
    case_report.main("object_store")
