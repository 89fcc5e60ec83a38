"""Frames of a channel made by hand (serialize/exchange/FORMAT.md), right and wrong, and the descriptors that a liar sends."""

import array
import ctypes
import fcntl
import os
import signal
import socket
import struct
import threading
import time

from tool_testing import leb128, masked_crc32c

F_ADD_SEALS = 1033
SEALS = 0x2 | 0x4 | 0x10  # against shrinking, growing and future writing


def frame(kind, sequence, body=b"", inline=b"", descriptors=0):
    """A frame: section 2."""
    header = b"TCX\n" + struct.pack("<HBBQQQII", 1, kind, 0, sequence, len(body), len(inline), descriptors,
                                  masked_crc32c(body))
    return header + struct.pack("<I", masked_crc32c(header)) + body + inline


def claim(kind, sequence, body_bytes, inline_bytes=0):
    """The header of a frame that claims sizes."""
    header = b"TCX\n" + struct.pack("<HBBQQQII", 1, kind, 0, sequence, body_bytes, inline_bytes, 0, 0)
    return header + struct.pack("<I", masked_crc32c(header))


HELLO = frame(1, 0, b"\x08\x01\x10\x01\x18" + leb128(1 << 31))


def field(number, content):
    return leb128(number << 3 | 2) + leb128(len(content)) + content


def strings_tensor(shape, texts):
    """A TensorProto of strings."""
    dims = b"".join(field(2, b"\x08" + leb128(dim)) for dim in shape)
    return b"\x08\x07" + field(2, dims) + b"".join(field(8, text) for text in texts)


def int64_tensor(shape, values):
    """A TensorProto of int64."""
    dims = b"".join(field(2, b"\x08" + leb128(dim)) for dim in shape)
    return b"\x08\x09" + field(2, dims) + field(4, struct.pack(f"<{len(values)}q", *values))


def message(kind, sequence, topic, request, tensors):
    """A frame with these TensorProtos, inline."""
    entries = b"".join(field(5, b"\xb0\x01" + leb128(len(tensor))) for tensor in tensors)
    return frame(kind, sequence, field(1, topic) + b"\x10" + leb128(request) + entries, b"".join(tensors))


def ask_for_list(sequence, version=1):
    """The request for a list: serialize/serve/FORMAT.md, section 2."""
    return message(2, sequence, b"list", sequence, [int64_tensor([], [version])])


LIST = ask_for_list(1)


def list_reply(number, rows, version=1, notes=()):
    """The list of rows (name, encoding, five numbers, sizes), and notes: the same section."""
    return message(3, number, b"", number, [
        int64_tensor([], [version]), strings_tensor([len(rows)], [row[0] for row in rows]),
        strings_tensor([len(rows)], [row[1] for row in rows]),
        int64_tensor([len(rows), 5], [value for row in rows for value in row[2]]),
        int64_tensor([sum(len(row[3]) for row in rows)], [size for row in rows for size in row[3]]),
        strings_tensor([len(notes)], notes),
    ])  # fmt: skip


def pull(sequence, name):
    return message(2, sequence, b"pull", sequence, [strings_tensor([1], [name])])


def shared_tensor(sequence, name, count, kind=2, request=None):
    """What `send` says of `count` float32 from byte 0 of the descriptor that comes with it; with kind 3, an answer."""
    shape = field(2, b"\x08" + leb128(count))
    entry = (b"\xb8\x01\x01\xc0\x01\x01" + field(25, shape) + b"\xd8\x01" + leb128(4 * count) +
             field(28, field(1, name)))
    body = field(1, b"tensor") + b"\x10" + leb128(request or sequence) + field(5, entry)
    return frame(kind, sequence, body, descriptors=1)


def end_of_tensors(sequence):
    return frame(2, sequence, field(1, b"end") + b"\x10" + leb128(sequence))


def send_with(sock, data, descriptors):
    """Sends descriptors; False if the other side refuses all (EPERM)."""
    try:
        sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])
        return True
    except PermissionError:
        return False


def receive_frame(sock):
    """(type, body, inline data) of the next frame; None at the end."""
    def exactly(count):
        data = b""
        while len(data) < count:
            piece = sock.recv(min(count - len(data), 1 << 20))
            if not piece:
                return None
            data += piece
        return data
    header = exactly(44)
    if header is None:
        return None
    body_bytes, inline_bytes = struct.unpack("<QQ", header[16:32])
    body = exactly(body_bytes)
    inline = exactly(inline_bytes)
    return None if body is None or inline is None else (header[6], body, inline)


def memory_file(size, sealed=True):
    file = os.memfd_create("liar", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.posix_fallocate(file, 0, size)
    if sealed:
        fcntl.fcntl(file, F_ADD_SEALS, SEALS)
    return file


def lingering_socket(seconds):
    """A TCP socket whose last close(2) waits for its peer, which reads nothing: (descriptor, what keeps it so)."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        ours = socket.socket()
        ours.connect(listener.getsockname())
        peer = listener.accept()[0]
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
    ours.setblocking(False)
    try:
        while True:
            ours.send(bytes(1 << 16))
    except BlockingIOError:
        pass
    return ours.detach(), peer


class FuseFile:
    """A file whose daemon never answers a close or a read: `path`, while this is open. OSError where that cannot be."""

    INIT, LOOKUP, GETATTR, OPEN, READ, FLUSH, FORGET = 26, 1, 3, 14, 15, 25, 2

    def __init__(self, folder):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.folder = folder.encode()
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0".encode()
        if self.libc.mount(b"liar", self.folder, b"fuse.liar", 0, options) != 0:
            os.close(self.device)
            raise OSError(ctypes.get_errno(), "mount")
        self.flushes = 0
        threading.Thread(target=self.serve, daemon=True).start()
        self.path = os.path.join(folder, "file")

    @staticmethod
    def attributes(node):
        mode = 0o040755 if node == 1 else 0o100644
        return struct.pack("<6Q10I", node, 0 if node == 1 else 4096, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def serve(self):
        while True:
            try:
                request = os.read(self.device, 1 << 17)
            except OSError:
                return
            _, opcode, unique, node = struct.unpack("<IIQQ", request[:24])
            if opcode == self.INIT:
                major, minor = struct.unpack("<II", request[40:48])
                reply = struct.pack("<IIIIHHIIHHI", major, min(minor, 31), 65536, 0, 16, 8, 65536, 1, 0, 0, 0)
                reply = reply.ljust(64, b"\0")
            elif opcode == self.LOOKUP:
                reply = struct.pack("<QQQQII", 2, 0, 60, 60, 0, 0) + self.attributes(2)
            elif opcode == self.GETATTR:
                reply = struct.pack("<QII", 60, 0, 0) + self.attributes(node)
            elif opcode == self.OPEN:
                reply = struct.pack("<QII", 1, 0, 0)
            elif opcode == self.FLUSH:
                self.flushes += 1
                continue
            elif opcode in (self.FORGET, self.READ):
                continue
            else:
                reply = None
            error = -38 if reply is None else 0
            reply = reply or b""
            try:
                os.write(self.device, struct.pack("<IiQ", 16 + len(reply), error, unique) + reply)
            except OSError:
                pass

    def close(self):
        """Ends the connection, which ends every close that waits."""
        self.libc.umount2(self.folder, 1)  # MNT_FORCE: aborts the connection, and may find the mount busy
        self.libc.umount2(self.folder, 2)  # MNT_DETACH


class Asker:
    """A connection that asks for one tensor again and again, and reads the answers; it connects again when cut off."""

    def __init__(self, path, name, pause, rate):
        self.path, self.name, self.pause, self.rate = path, name, pause, rate
        self.socket = None

    def connect(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.setblocking(False)
        self.sequence, self.header, self.left, self.read = 0, b"", 0, 0
        self.ask_at, self.asked_at = 0, None
        try:
            self.socket.connect(self.path)
            self.socket.sendall(HELLO)
        except OSError:  # the server's queue is full
            self.close()

    def close(self):
        self.socket.close()
        self.socket = None

    def step(self, now):
        """Does what can be done without waiting."""
        if self.socket is None:
            return self.connect()
        try:
            if self.ask_at is not None and now >= self.ask_at:
                self.sequence += 1
                self.socket.sendall(pull(self.sequence, self.name))
                self.ask_at, self.asked_at, self.read = None, now, 0
            room = 1 << 20 if self.rate is None or self.asked_at is None else int(self.rate * (now - self.asked_at))
            if room > self.read:
                data = self.socket.recv(min(room - self.read, 1 << 18))
                self.read += len(data)
                if not data:
                    return self.close()
                self.consume(data, now)
        except BlockingIOError:
            pass
        except OSError:
            self.close()
        return None

    def consume(self, data, now):
        """Follows the frames."""
        while data:
            if self.left == 0:
                part = 44 - len(self.header)
                self.header += data[:part]
                data = data[part:]
                if len(self.header) < 44:
                    return
                self.left = sum(struct.unpack("<QQ", self.header[16:32]))
            part = min(self.left, len(data))
            self.left -= part
            data = data[part:]
            if self.left == 0:
                if self.header[6] == 3:
                    self.ask_at, self.asked_at = now + self.pause, None
                self.header = b""


def keep_asking(path, count, name, pause, rate=None):
    """Does not return. With `rate`: an answer is read at this many bytes a second."""
    askers = [Asker(path, name, pause, rate) for _ in range(count)]
    while True:
        for asker in askers:
            asker.step(time.monotonic())
        time.sleep(0.005)


def write_without_end(file, fuse):
    """The id of a process that writes to `file` from memory that never arrives, holding the file's lock if it can."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    process = os.fork()
    if process == 0:
        source = os.open(fuse.path, os.O_RDONLY)
        libc.write(file, libc.mmap(None, 4096, 1, 2, source, 0), 4096)
        signal.pause()
    return process
