"""Servers on this machine that tests and benchmarks speak to: stores of S3, and nginx.

    with store_servers.Versitygw.start(folder) as server:   # Missing: the program is not there, and why
        server.environment()                                # for our programs: AWS_ENDPOINT_URL and keys

Programs that Go builds are looked for in .cache/peers/bin, where `tools/dev peers all` puts them, and then in PATH.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
BUILT = os.path.join(os.path.dirname(os.path.dirname(HERE)), ".cache/peers/bin")
KEY_ID, SECRET, REGION = "TENSORCASKPEER", "peer-secret/+=%0123456789", "us-east-1"


class Missing(Exception):
    """The server cannot be started here; the text says why."""


def find(program, how):
    found = shutil.which(program, path=os.pathsep.join((BUILT, os.environ.get("PATH", ""), "/usr/sbin")))
    if found is None:
        raise Missing(f"{program} is not installed: {how}")
    return found


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """A process that listens on self.port of this machine, until the end of the block."""

    name = ""

    def __init__(self, command, port, folder, environment=None):
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.log = os.path.join(folder, f"{self.name}.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ, **(environment or {}))
            )
        self.wait()

    def wait(self, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        with open(self.log, errors="replace") as log:
            raise Missing(f"{self.name} did not start: {log.read()[-300:].strip()}")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Store(Server):
    checks_signatures = True

    def environment(self, secret=SECRET):
        """For our programs and those of others. Nothing of the caller's own settings is used."""
        return {
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_SESSION_TOKEN": "",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


class Moto(Store):
    name = "moto"
    checks_signatures = False

    @classmethod
    def start(cls, folder):
        try:
            import moto.server  # noqa: F401
        except ImportError as error:
            raise Missing(f"moto is not installed: {error}") from None
        port = free_port()
        # The program moto_server, of this environment.
        run = "import sys; from moto.server import main; sys.exit(main(sys.argv[1:]))"
        return cls([sys.executable, "-c", run, "-H", "127.0.0.1", "-p", str(port)], port, folder)


class Versitygw(Store):
    name = "versitygw"

    @classmethod
    def start(cls, folder):
        program = find("versitygw", "go install github.com/versity/versitygw/cmd/versitygw")
        port, data = free_port(), os.path.join(folder, "versitygw")
        os.makedirs(data)
        options = ["--port", f"127.0.0.1:{port}", "--keep-alive", "--quiet", "--access", KEY_ID, "--secret", SECRET]
        return cls([program, *options, "posix", data], port, folder)


class Minio(Store):
    name = "MinIO"

    @classmethod
    def start(cls, folder):
        program = find("minio", "go install github.com/minio/minio")
        port, data = free_port(), os.path.join(folder, "minio")
        os.makedirs(data)
        keys = {"MINIO_ROOT_USER": KEY_ID, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_BROWSER": "off"}
        return cls([program, "server", "--address", f"127.0.0.1:{port}", data], port, folder, keys)


STORES = (Moto, Versitygw, Minio)


class Nginx(Server):
    """Files of `root` at self.url; below /whole/ without ranges. With `tls`, (certificate, key), at https://."""

    name = "nginx"

    @classmethod
    def start(cls, folder, root, tls=None):
        program = find("nginx", "the package nginx-light has it")
        port = free_port()
        settings = os.path.join(folder, "nginx.conf")
        secure = f"ssl_certificate {tls[0]}; ssl_certificate_key {tls[1]};" if tls else ""
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        with open(settings, "w") as file:
            file.write(f"""
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 256; }}
http {{
  access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000; {temporary}
  server {{
    listen 127.0.0.1:{port}{" ssl" if tls else ""}; root {root}; {secure}
    location /whole/ {{ alias {root}/; max_ranges 0; }}
  }}
}}
""")
        server = cls([program, "-c", settings, "-p", folder, "-e", f"{folder}/nginx.log"], port, folder)
        if tls:
            server.url = f"https://localhost:{port}"
        return server
