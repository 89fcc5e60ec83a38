#!/usr/bin/env python3
"""The tool and files of s3:// and http://, from a small store in this process."""

import http.server
import os
import re
import sys
import threading
import unittest
import urllib.parse
import xml.etree.ElementTree

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import Archives, read, run  # noqa: E402


class Store(http.server.BaseHTTPRequestHandler):
    """Objects in memory: ranges, ETags, conditions, uploads in parts. Signatures are not checked."""

    protocol_version = "HTTP/1.1"
    objects = {}  # path -> (bytes, number of the version, save id)
    uploads = {}
    seen = []

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers and status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def target(self):
        self.seen.append((self.command, self.path))
        path, _, query = self.path.partition("?")
        return urllib.parse.unquote(path)[1:], dict(urllib.parse.parse_qsl(query, keep_blank_values=True))

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def store(self, path, data, save_id):
        if self.headers.get("If-None-Match") == "*" and path in self.objects:
            return self.answer(412)
        self.objects[path] = (data, len(self.seen), save_id)
        return self.answer(200, b"<CompleteMultipartUploadResult/>", ETag=f'"{len(self.seen)}"')

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path, query = self.target()
        if "list-type" in query:
            prefix = path + "/" + query["prefix"]
            keys = [key.partition("/")[2] for key in sorted(self.objects) if key.startswith(prefix)]
            rows = "".join(f"<Contents><Key>{urllib.parse.quote(key)}</Key><Size>1</Size></Contents>" for key in keys)
            return self.answer(200, f"<ListBucketResult>{rows}</ListBucketResult>".encode())
        if path not in self.objects:
            return self.answer(404)
        data, version, save_id = self.objects[path]
        headers = {"ETag": f'"{version}"', "x_amz_meta_tensorcask_save": save_id}
        if self.command == "HEAD":
            return self.answer(200, Content_Length=str(len(data)), **headers)
        first, last = re.fullmatch(r"bytes=(\d*)-(\d+)", self.headers["Range"]).groups()
        start = int(first) if first else max(0, len(data) - int(last))
        end = min(int(last), len(data) - 1) if first else len(data) - 1
        headers["Content_Range"] = f"bytes {start}-{end}/{len(data)}"
        return self.answer(206, data[start : end + 1], **headers)

    def do_PUT(self):
        path, query = self.target()
        data = self.body()
        if "uploadId" not in query:
            return self.store(path, data, self.headers["x-amz-meta-tensorcask-save"])
        self.uploads[query["uploadId"]][1][int(query["partNumber"])] = data
        return self.answer(200, ETag='"part"')

    def do_POST(self):
        path, query = self.target()
        data = self.body()
        if "uploads" in query:
            name = str(len(self.uploads))
            self.uploads[name] = (self.headers["x-amz-meta-tensorcask-save"], {})
            text = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            return self.answer(200, text.encode())
        save_id, parts = self.uploads.pop(query["uploadId"])
        wanted = [int(one.text) for one in xml.etree.ElementTree.fromstring(data).iter() if one.tag.endswith("PartNumber")]
        assert wanted == sorted(parts), wanted
        return self.store(path, b"".join(parts[number] for number in wanted), save_id)

    def do_DELETE(self):
        path, query = self.target()
        self.objects.pop(path, None)
        self.uploads.pop(query.get("uploadId"), None)
        return self.answer(204)

    def log_message(self, *arguments):
        pass


class ObjectStore(Archives):
    def setUp(self):
        super().setUp()
        Store.objects, Store.uploads, Store.seen = {}, {}, []
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self.environment = dict(os.environ, AWS_ACCESS_KEY_ID="KEY", AWS_SECRET_ACCESS_KEY="SECRET",
                                AWS_ENDPOINT_URL=self.url, AWS_REGION="eu-1")  # fmt: skip

    def tool(self, *arguments, code=0):
        done = run(*arguments, env=self.environment)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertNotIn("SECRET", done.stdout + done.stderr)
        return done

    def test_a_checkpoint_goes_there_and_back(self):
        here = os.path.join(self.folder, "here.ckpt")
        self.make_checkpoint(here)
        self.tool("convert", here, "s3://bucket/run/there.ckpt")
        self.assertEqual(sorted(Store.objects), ["bucket/run/there.ckpt.data-00000-of-00001",
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
        Store.seen.clear()
        done = self.tool("ls", "--stats", "s3://bucket/there.ckpt.index")
        self.assertRegex(done.stderr, rf"(?m)^{len(Store.seen)} requests?, 0 repeated; .* received, 0 B sent$")

    def test_what_is_not_there(self):
        self.assertIn("s3://bucket/none", self.tool("ls", "s3://bucket/none", code=1).stderr)
        self.assertIn("empty step", self.tool("ls", "s3://bucket//none", code=1).stderr)

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
