"""A small S3 store in this process, which is a web server, too: for tests of the program and of the Python module.

    server = StoreServer()
    server.objects["bucket/key"]         # its bytes, once they are there
    server.close()

Objects live in memory: ranges, ETags, conditions, uploads in parts, lists. Signatures are not checked.
"""

import collections
import email.utils
import http.server
import re
import sys
import threading
import time
import urllib.parse
import xml.etree.ElementTree

Object = collections.namedtuple("Object", "data version save_id seconds")
Upload = collections.namedtuple("Upload", "path save_id parts seconds")


def of_xml(name, *children):
    return f"<{name}>{''.join(children)}</{name}>"


def encoded(key):
    """A key in a list, as Amazon's store and MinIO encode it: a space is "+"."""
    return urllib.parse.quote_plus(key, safe="/")


class _Http(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # of a client that was killed
            super().handle_error(request, client_address)


class StoreServer:
    def __init__(self):
        self.stored = {}  # by "bucket/key"
        self.uploads = {}  # by upload id
        self.seen = []  # (method, path with its query)
        self.before = lambda method, path: None  # called with each of them before it is answered
        self.refused = {}  # (status, code, words) for every request, by bucket
        self.lock = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), type("Bound", (_Handler,), {"store": self}))
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def objects(self):
        return {path: one.data for path, one in self.stored.items()}

    def put(self, path, data, save_id=None, days_old=0):
        version = len(self.seen) + len(self.stored) + len(data)
        self.stored[path] = Object(data, f'"{version}-{time.monotonic_ns()}"', save_id, time.time() - days_old * 86400)

    def start_upload(self, path, save_id=None, days_old=0):
        number = f"{len(self.uploads)}-{len(self.seen)}"
        self.uploads[number] = Upload(path, save_id, {}, time.time() - days_old * 86400)
        return number

    def environment(self):
        """The variables by which programs find it."""
        return {
            "AWS_ACCESS_KEY_ID": "KEY",
            "AWS_SECRET_ACCESS_KEY": "SECRET",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "eu-1",
        }

    def close(self):
        self._http.shutdown()
        self._http.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store = None

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
        self.store.seen.append((self.command, self.path))
        self.store.before(self.command, self.path)
        path, _, query = self.path.partition("?")
        return urllib.parse.unquote(path)[1:], dict(urllib.parse.parse_qsl(query, keep_blank_values=True))

    def parse_request(self):
        if not super().parse_request():
            return False
        bucket = urllib.parse.unquote(self.path.partition("?")[0])[1:].partition("/")[0]
        if bucket not in self.store.refused:
            return True
        self.target()
        self.body()
        status, code, words = self.store.refused[bucket]
        self.answer(status, of_xml("Error", of_xml("Code", code), of_xml("Message", words)).encode())
        return False

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def publish(self, path, data, save_id):
        with self.store.lock:
            found = self.store.stored.get(path)
            wanted = self.headers.get("If-Match")
            if (self.headers.get("If-None-Match") == "*" and found) or (wanted and (not found or found.version != wanted)):
                return self.answer(412)
            self.store.put(path, data, save_id)
            return self.answer(200, b"<CompleteMultipartUploadResult/>", ETag=self.store.stored[path].version)

    def list_objects(self, bucket, query):
        keys, folders = [], []
        for path in sorted(self.store.stored):
            key = path.partition("/")[2]
            if not path.startswith(f"{bucket}/{query['prefix']}"):
                continue
            rest = key[len(query["prefix"]) :]
            if query.get("delimiter") and "/" in rest:
                folders.append(query["prefix"] + rest.partition("/")[0] + "/")
            else:
                keys.append(key)
        rows = [of_xml("Contents", of_xml("Key", encoded(key)), of_xml("Size", "1")) for key in keys]
        rows += [of_xml("CommonPrefixes", of_xml("Prefix", encoded(one))) for one in sorted(set(folders))]
        rows += [of_xml("EncodingType", "url")]
        return self.answer(200, of_xml("ListBucketResult", *rows).encode())

    def list_uploads(self, bucket, query):
        rows = [of_xml("EncodingType", "url")]
        for number, one in self.store.uploads.items():
            if one.path.startswith(f"{bucket}/{query['prefix']}"):
                started = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(one.seconds))
                key = encoded(one.path.partition("/")[2])
                rows.append(
                    of_xml("Upload", of_xml("Key", key), of_xml("UploadId", number), of_xml("Initiated", started))
                )
        return self.answer(200, of_xml("ListMultipartUploadsResult", *rows).encode())

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path, query = self.target()
        if "list-type" in query:
            return self.list_objects(path, query)
        if "uploads" in query:
            return self.list_uploads(path, query)
        found = self.store.stored.get(path)
        if found is None:
            return self.answer(404)
        headers = {"ETag": found.version, "Last_Modified": email.utils.formatdate(found.seconds, usegmt=True)}
        if found.save_id:
            headers["x_amz_meta_tensorcask_save"] = found.save_id
        if self.headers.get("If-Match", found.version) != found.version:
            return self.answer(412)
        if self.command == "HEAD":
            return self.answer(200, Content_Length=str(len(found.data)), **headers)
        if "Range" not in self.headers:
            return self.answer(200, found.data, **headers)
        first, last = re.fullmatch(r"bytes=(\d*)-(\d+)", self.headers["Range"]).groups()
        start = int(first) if first else max(0, len(found.data) - int(last))
        end = min(int(last), len(found.data) - 1) if first else len(found.data) - 1
        headers["Content_Range"] = f"bytes {start}-{end}/{len(found.data)}"
        return self.answer(206, found.data[start : end + 1], **headers)

    def do_PUT(self):
        path, query = self.target()
        data = self.body()
        if "uploadId" not in query:
            return self.publish(path, data, self.headers["x-amz-meta-tensorcask-save"])
        self.store.uploads[query["uploadId"]].parts[int(query["partNumber"])] = data
        return self.answer(200, ETag='"part"')

    def do_POST(self):
        path, query = self.target()
        data = self.body()
        if "uploads" in query:
            number = self.store.start_upload(path, self.headers["x-amz-meta-tensorcask-save"])
            return self.answer(200, of_xml("InitiateMultipartUploadResult", of_xml("UploadId", number)).encode())
        upload = self.store.uploads.pop(query["uploadId"])
        wanted = [int(one.text) for one in xml.etree.ElementTree.fromstring(data).iter() if one.tag.endswith("PartNumber")]
        assert wanted == sorted(upload.parts), wanted
        return self.publish(path, b"".join(upload.parts[number] for number in wanted), upload.save_id)

    def do_DELETE(self):
        path, query = self.target()
        if "uploadId" in query:
            if self.store.uploads.pop(query["uploadId"], None) is None:
                return self.answer(404, of_xml("Error", of_xml("Code", "NoSuchUpload")).encode())
        else:
            self.store.stored.pop(path, None)
        return self.answer(204)

    def log_message(self, *arguments):
        pass
