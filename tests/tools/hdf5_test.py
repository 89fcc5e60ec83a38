#!/usr/bin/env python3
"""The tool and HDF5 files of h5py and Keras: lists, elements, attributes, conversions, what is refused."""

import json
import os
import sys

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import Archives, read, run  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serialize", "hdf5", "golden")
with open(os.path.join(GOLDEN, "expected.json"), encoding="utf-8") as expected:
    EXPECTED = json.load(expected)
# What h5py reads and this library does not: newer indexes of chunks, groups and filters.
ONLY_H5PY = {"latest.h5": {"grows"}, "refused.h5": {"g/lzf", "g/fletcher32"}}


def golden(name):
    return os.path.join(GOLDEN, name)


class Hdf5Test(Archives):
    def put(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def test_elements_are_those_that_h5py_reads(self):
        compared = 0
        for name, tensors in EXPECTED.items():
            # Exit status 1 where a tensor has a form that is not read.
            listed = json.loads(run("ls", "--json", "--checksum", "--opaque-dtype=bfloat16", golden(name)).stdout)
            self.assertEqual(listed["format"], "hdf5")
            found = {tensor["name"]: tensor for tensor in listed["tensors"] if "crc32" in tensor}
            for tensor, wanted in tensors.items():
                if tensor in ONLY_H5PY.get(name, ()):
                    self.assertNotIn(tensor, found)
                    continue
                with self.subTest(file=name, tensor=tensor):
                    self.assertEqual(found[tensor]["dtype"], wanted["dtype"])
                    self.assertEqual(found[tensor]["shape"], wanted["shape"])
                    self.assertEqual(int(found[tensor]["crc32"], 16), wanted["crc32"])
                    compared += 1
        self.assertGreater(compared, 60)

    def test_verify(self):
        self.assertIn("model.keras: 8 tensors whole", self.good("verify", golden("model.keras")))
        kernel = self.path("kernel.npy")
        self.good("convert", "--allow-loss", "--include", "layers/dense/vars/0", golden("model.keras"), kernel)
        changed = bytearray(read(golden("model.keras")))
        changed[changed.index(read(kernel)[-48:])] ^= 1
        done = run("verify", self.put("changed.keras", bytes(changed)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("model.weights.h5", done.stdout + done.stderr)

    def test_a_tensor_past_a_limit_is_not_damaged(self):
        for limit, wanted in (("max_memory_beyond_input=100", 1), ("max_file_decoded_bytes=100", 2)):
            done = run("verify", "--json", "--limit", limit, golden("chunks.h5"))
            counts = json.loads(done.stdout)["files"][0]
            self.assertEqual(done.returncode, 1)
            self.assertEqual((counts["damaged"], counts["past_limit"]), (0, wanted))
            self.assertEqual([one["kind"] for one in counts["damage"]], ["past a limit"] * wanted)

    def test_values(self):
        listed = self.good("ls", "--values", golden("whole.h5"))
        self.assertRegex(listed, 'keras_version +text +"3')
        self.assertIn('["model/dense/kernel","model/dense/bias"]', listed)
        config = self.good("show", golden("model.keras"), '["config.json"]')
        self.assertIn("Sequential", config)

    def test_a_model_becomes_safetensors(self):
        target = self.path("model.safetensors")
        self.good("convert", "--allow-loss", golden("model.keras"), target)
        self.good("diff", golden("model.keras"), target)
        listed = json.loads(self.good("ls", "--json", target))
        self.assertIn("Sequential", listed["metadata"]["config.json"])

    def test_nothing_becomes_hdf5(self):
        done = run("convert", golden("user_block.h5"), self.path("x.h5"))
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse(os.path.exists(self.path("x.h5")))

    def test_links_out_of_the_file_are_listed_and_not_followed(self):
        listed = self.good("ls", golden("refused.h5"))
        self.assertRegex(listed, "external +invalid")
        for name, says in (("external", "another file"), ("g/storage", "other files"), ("virtual", "virtual dataset")):
            done = run("show", golden("refused.h5"), name)
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    case_report.main("hdf5")
