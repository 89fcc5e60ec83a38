"""Stores of S3 and web servers as others make them, and the libraries that others read and write them with."""

import contextlib
import importlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import unittest
import unittest.mock

import numpy as np

import ours
import peer
import random_tensors
import store_servers

# Keys that are hard to sign: spaces, plus, percent, colon, UTF-8, and one of 1,024 bytes.
KEYS = [
    "plain",
    "with space",
    "a+b",
    "100%",
    "%2F",
    "a:b=c&d?e#f",
    "größe/模型",
    "~tilde_-.",
    "...a",
    "/".join(["k" * 200] * 5 + ["k" * 19]),
]
REFUSED = [("a//b", "empty step"), ("a/./b", 'the step "."'), ("a/../b", 'the step ".."'), ("", "")]
PART_BYTES = 5 << 20


def module(name):
    """The module, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


class Served(peer.Scratch):
    def make_archives(self):
        """Files of each kind here: {name: path}; one of them is large enough for several parts."""
        named = random_tensors.arrays(48, ["float32", "int8", "bool", "bfloat16"], per_rank=1)
        named["large"] = np.arange(9 << 20, dtype=np.int32).reshape(9, -1)
        ours.write(self.path("m.ckpt"), random_tensors.stored(named))
        paths = {"m.ckpt": self.path("m.ckpt")}
        for name in ("m.safetensors", "m.npz", "m.pt"):
            paths[name] = self.path(name)
            ours.convert(self.path("m.ckpt"), paths[name], "--allow-loss")
        return paths

    def objects(self, path):
        """The files of an archive: {ending: bytes}."""
        if os.path.exists(path):
            return {"": peer.read_file(path)}
        folder, name = os.path.split(path)
        found = [one for one in os.listdir(folder) if one.startswith(name + ".") and "tmp" not in one]
        return {one[len(name) :]: peer.read_file(os.path.join(folder, one)) for one in found}


class Stores(Served):
    """Each test goes over all stores that can be started here."""

    servers = []
    missing = []

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tensorcask-stores-")
        cls.addClassCleanup(folder.cleanup)
        cls.servers, cls.missing = [], []
        if module("boto3") is None:
            raise unittest.SkipTest("boto3 is not installed")
        for kind in store_servers.STORES:
            try:
                server = kind.start(folder.name)
            except store_servers.Missing as reason:
                cls.missing.append(f"{kind.name}: {reason}")
                continue
            cls.addClassCleanup(server.stop)
            cls.servers.append(server)
            cls.client(server).create_bucket(Bucket="bucket")

    @staticmethod
    def client(server):
        import boto3
        import botocore.config

        return boto3.client(
            "s3",
            endpoint_url=server.url,
            region_name=store_servers.REGION,
            aws_access_key_id=store_servers.KEY_ID,
            aws_secret_access_key=store_servers.SECRET,
            config=botocore.config.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 3}),
        )

    @contextlib.contextmanager
    def on(self, server):
        """A subtest with the settings of this store in the environment."""
        with self.subTest(server.name), unittest.mock.patch.dict(os.environ, server.environment()):
            yield

    def test_which_stores_are_there(self):
        self.assertTrue(self.servers or self.missing)
        if self.missing:
            self.skipTest("; ".join(self.missing))

    def put(self, client, path, key):
        """Uploads an archive as other programs do."""
        for ending, data in self.objects(path).items():
            client.put_object(Bucket="bucket", Key=key + ending, Body=data)

    def test_there_and_back(self):
        """What we wrote is what we read, and what boto3 reads; what boto3 wrote is what we read."""
        archives = self.make_archives()
        for server in self.servers:
            with self.on(server):
                client = self.client(server)
                for name, path in archives.items():
                    here = ours.listing(path)
                    ours.convert(path, f"s3://bucket/ours/{name}", "--allow-loss")
                    self.assertEqual(ours.listing(f"s3://bucket/ours/{name}"), here)
                    ours.tool("verify", f"s3://bucket/ours/{name}")
                    listed = client.list_objects_v2(Bucket="bucket", Prefix=f"ours/{name}")["Contents"]
                    for one in listed:
                        data = client.get_object(Bucket="bucket", Key=one["Key"])["Body"].read()
                        peer.write_file(self.path(f"{server.name}-{os.path.basename(one['Key'])}"), data)
                    self.assertEqual(ours.listing(self.path(f"{server.name}-{name}")), here)
                    peer.carried(f"{server.name} and boto3", "we write, it reads", len(here))
                    self.put(client, path, f"theirs/{name}")
                    self.assertEqual(ours.listing(f"s3://bucket/theirs/{name}"), here)
                    peer.carried(f"{server.name} and boto3", "it writes, we read", len(here))
                uploads = client.list_multipart_uploads(Bucket="bucket").get("Uploads", [])
                self.assertEqual(uploads, [])

    def test_parts_of_others(self):
        """An object that boto3 uploads in parts has an ETag of another form, and its ranges begin anywhere."""
        import boto3.s3.transfer

        path = self.make_archives()["m.safetensors"]
        for server in self.servers:
            with self.on(server):
                sizes = boto3.s3.transfer.TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES)
                self.client(server).upload_file(path, "bucket", "parts.safetensors", Config=sizes)
                self.assertEqual(ours.listing("s3://bucket/parts.safetensors"), ours.listing(path))

    def test_other_libraries(self):
        """s3fs, obstore and TensorStore read the bytes that we wrote, and write bytes that we read."""
        path = self.make_archives()["m.safetensors"]
        data = peer.read_file(path)
        here = ours.listing(path)
        for server in self.servers:
            with self.on(server):
                ours.convert(path, "s3://bucket/libraries/m.safetensors")
                written = self.client(server).get_object(Bucket="bucket", Key="libraries/m.safetensors")["Body"].read()
                for name, library in self.libraries(server).items():
                    with self.subTest(name):
                        self.assertTrue(library.read("libraries/m.safetensors") == written)
                        library.write(f"libraries/{name}.safetensors", data)
                        self.assertEqual(ours.listing(f"s3://bucket/libraries/{name}.safetensors"), here)
                        peer.carried(f"{server.name} and {name}", "it reads and writes", len(here))

    @staticmethod
    def libraries(server):
        found = {}
        if module("s3fs"):
            found["s3fs"] = S3fs(server)
        if module("obstore"):
            found["obstore"] = Obstore(server)
        if module("tensorstore"):
            found["TensorStore"] = TensorStore(server)
        return found

    def test_keys(self):
        source = self.path("one.npy")
        np.save(source, np.arange(12))
        for server in self.servers:
            with self.on(server):
                client = self.client(server)
                for key in KEYS:
                    with self.subTest(key):
                        ours.convert(source, f"s3://bucket/{key}", "--to=npy")
                        got = client.get_object(Bucket="bucket", Key=key)["Body"].read()
                        self.assertTrue(got == peer.read_file(source))
                        self.assertEqual(list(ours.listing(f"s3://bucket/{key}").values())[0]["shape"], [12])
                        client.delete_object(Bucket="bucket", Key=key)
                for key, says in REFUSED:
                    with self.assertRaises(ours.Refused) as refused:
                        ours.convert(source, f"s3://bucket/{key}", "--to=npy")
                    self.assertIn(says, str(refused.exception))

    def test_one_winner(self):
        """Of saves of one name at the same time one wins, whole; a later one is refused."""
        sources = []
        for i in range(4):
            sources.append(self.path(f"{i}.npy"))
            np.save(sources[-1], np.full(1000, i))
        for server in self.servers:
            with self.on(server):
                results = {}

                def save(source):
                    try:
                        ours.convert(source, "s3://bucket/race.npy")
                        results[source] = "won"
                    except ours.Refused as refused:
                        results[source] = str(refused)

                threads = [threading.Thread(target=save, args=(source,)) for source in sources]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                winners = [source for source, result in results.items() if result == "won"]
                self.assertEqual(len(winners), 1, results)
                for source, result in results.items():
                    if source not in winners:
                        self.assertRegex(result, "exist|published it first")
                winner = ours.listing(winners[0])
                self.assertEqual([one["crc32"] for one in ours.listing("s3://bucket/race.npy").values()],
                                 [one["crc32"] for one in winner.values()])  # fmt: skip
                ours.convert(sources[0], "s3://bucket/race.npy", "--overwrite")

    def test_refusals(self):
        source = self.path("one.npy")
        np.save(source, np.arange(12))
        for server in self.servers:
            with self.on(server):
                with self.assertRaises(ours.Refused) as refused:
                    ours.tool("ls", "s3://bucket/none")
                self.assertIn("s3://bucket/none", str(refused.exception))
                with self.assertRaises(ours.Refused) as refused:
                    ours.convert(source, "s3://no-such-bucket/one.npy")
                self.assertIn("no-such-bucket", str(refused.exception))
                if not server.checks_signatures:
                    continue
                secret = "not-the-right-secret"
                with unittest.mock.patch.dict(os.environ, server.environment(secret)):
                    with self.assertRaises(ours.Refused) as refused:
                        ours.tool("ls", "s3://bucket/none")
                self.assertIn("403", str(refused.exception))
                self.assertNotIn(secret, str(refused.exception))


class S3fs:
    def __init__(self, server):
        import s3fs

        self.files = s3fs.S3FileSystem(
            key=store_servers.KEY_ID,
            secret=store_servers.SECRET,
            client_kwargs={"endpoint_url": server.url, "region_name": store_servers.REGION},
            skip_instance_cache=True,
        )

    def read(self, key):
        return self.files.cat_file(f"bucket/{key}")

    def write(self, key, data):
        self.files.pipe_file(f"bucket/{key}", data)


class Obstore:
    def __init__(self, server):
        import obstore.store

        self.store = obstore.store.S3Store(
            "bucket",
            endpoint=server.url,
            region=store_servers.REGION,
            access_key_id=store_servers.KEY_ID,
            secret_access_key=store_servers.SECRET,
            client_options={"allow_http": True},
        )

    def read(self, key):
        return bytes(self.store.get(key).bytes())

    def write(self, key, data):
        self.store.put(key, data)


class TensorStore:
    """Its keys come from the environment, which Stores.each sets."""

    def __init__(self, server):
        import tensorstore

        self.store = tensorstore.KvStore.open(
            {
                "driver": "s3",
                "bucket": "bucket",
                "endpoint": server.url,
                "aws_region": store_servers.REGION,
                "aws_credentials": {"type": "environment"},
            }
        ).result()

    def read(self, key):
        return self.store.read(key).result().value

    def write(self, key, data):
        self.store.write(key, data).result()


class Web(Served):
    """nginx: ranges, files without ranges, TLS with a private certificate authority, and a proxy that is not there."""

    def start(self, root, tls=None):
        try:
            server = store_servers.Nginx.start(self.folder, root, tls)
        except store_servers.Missing as reason:
            self.skipTest(str(reason))
        self.addCleanup(server.stop)
        return server

    def serve(self, tls=None):
        archives = self.make_archives()
        root = self.path("root")
        os.mkdir(root)
        for name, path in archives.items():
            for ending, data in self.objects(path).items():
                peer.write_file(os.path.join(root, name + ending), data)
        return archives, self.start(root, tls)

    def test_files_are_read(self):
        archives, server = self.serve()
        for name, path in archives.items():
            self.assertEqual(ours.listing(f"{server.url}/{name}"), ours.listing(path))
            self.assertEqual(ours.listing(f"{server.url}/whole/{name}"), ours.listing(path))
            ours.tool("verify", f"{server.url}/{name}")
            peer.carried("nginx", "we read over HTTP", 2 * len(ours.listing(path)))
        with self.assertRaises(ours.Refused) as refused:
            ours.convert(archives["m.npz"], f"{server.url}/new.npz")
        self.assertIn("only read", str(refused.exception))

    def test_large_files_need_ranges(self):
        root = self.path("root")
        os.mkdir(root)
        np.save(os.path.join(root, "large.npy"), np.zeros(65 << 20, np.uint8))
        server = self.start(root)
        (listed,) = json.loads(ours.tool("ls", "--json", f"{server.url}/large.npy"))["tensors"]
        self.assertEqual(listed["shape"], [65 << 20])
        with self.assertRaises(ours.Refused) as refused:
            ours.tool("ls", f"{server.url}/whole/large.npy")
        self.assertIn("does not answer ranges", str(refused.exception))

    def test_a_private_certificate_authority(self):
        if shutil.which("openssl") is None:
            self.skipTest("openssl is not installed")
        certificate, key = self.path("ca.pem"), self.path("key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
            check=True, capture_output=True,
        )  # fmt: skip
        archives, server = self.serve(tls=(certificate, key))
        url = f"{server.url}/m.safetensors"
        with self.assertRaises(ours.Refused) as refused:
            ours.tool("ls", url)
        self.assertIn("certificate", str(refused.exception))
        names = ("AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
        self.enterContext(unittest.mock.patch.dict(os.environ, dict.fromkeys(names, "")))
        for name in names:
            with self.subTest(name), unittest.mock.patch.dict(os.environ, {name: certificate}):
                self.assertEqual(ours.listing(url), ours.listing(archives["m.safetensors"]))
        # The name in the certificate is compared, too.
        with unittest.mock.patch.dict(os.environ, {"CURL_CA_BUNDLE": certificate}):
            with self.assertRaises(ours.Refused):
                ours.tool("ls", url.replace("localhost", "127.0.0.1"))

    def test_proxies(self):
        """Those of the environment are asked, as curl does."""
        _, server = self.serve()
        nobody = f"http://127.0.0.1:{store_servers.free_port()}"
        with unittest.mock.patch.dict(os.environ, {"http_proxy": nobody, "no_proxy": ""}):
            with self.assertRaises(ours.Refused):
                ours.tool("ls", f"{server.url}/m.npz")
        with unittest.mock.patch.dict(os.environ, {"http_proxy": nobody, "no_proxy": "127.0.0.1"}):
            ours.tool("ls", f"{server.url}/m.npz")


if __name__ == "__main__":
    unittest.main()
