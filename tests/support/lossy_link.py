"""Two network namespaces, and a link between them that delays packets and loses some.

    with LossyLink(delay=0.010, loss=0.01) as link:
        server = link.start(0, ["server", "--listen", link.addresses[0]])   # as subprocess.Popen
        client = link.start(1, ["client", link.addresses[0]])

Packets go through this process, by a TUN device at each end. `delay` is seconds in each direction, `loss` the share of
packets. Needs /dev/net/tun and the rights to make namespaces: without them, `why_not()` says so.
"""

import collections
import ctypes
import fcntl
import os
import random
import select
import socket
import struct
import subprocess
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK, IFF_UP = 0x8914, 0x8916, 0x891C, 0x1


def _in_new_namespace(work):
    """What `work` returns, called in a thread that has a network namespace of its own."""
    results = []

    def run():
        try:
            if LIBC.unshare(CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "a network namespace")
            results.append(work())
        except OSError as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(results[0], OSError):
        raise results[0]
    return results[0]


def _make_end(address):
    """(the TUN device, the namespace that it is in), both as descriptors."""
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"link", IFF_TUN | IFF_NO_PI))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for request, ip in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, "255.255.255.0")):
            to = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(ip))
            fcntl.ioctl(control, request, struct.pack("16s16s8x", b"link", to))
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", b"link", IFF_UP))
    return tun, os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def why_not():
    """None if a LossyLink can be made, else the reason."""
    try:
        for descriptor in _in_new_namespace(lambda: _make_end("10.77.0.1")):
            os.close(descriptor)
    except OSError as error:
        return f"no TUN device in a namespace of its own: {error}"
    return None


class LossyLink:
    addresses = ("10.77.0.1", "10.77.0.2")

    def __init__(self, delay, loss, seed=1):
        self._delay, self._loss, self._chance = delay, loss, random.Random(seed)
        self._ended = threading.Event()
        self.carried = self.lost = 0  # packets

    def __enter__(self):
        self._ends = [_in_new_namespace(lambda address=address: _make_end(address)) for address in self.addresses]
        (a, _), (b, _) = self._ends
        self._threads = [threading.Thread(target=self._relay, args=way) for way in ((a, b), (b, a))]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            for descriptor in end:
                os.close(descriptor)

    def start(self, side, command, **kwargs):
        namespace = self._ends[side][1]
        return subprocess.Popen(command, preexec_fn=lambda: LIBC.setns(namespace, CLONE_NEWNET), **kwargs)

    def _relay(self, source, target):
        under_way = collections.deque()  # (when it arrives, the packet)
        while not self._ended.is_set():
            wait = max(0, under_way[0][0] - time.monotonic()) if under_way else 0.1
            if select.select([source], [], [], wait)[0]:
                packet = os.read(source, 65536)
                if self._chance.random() < self._loss:
                    self.lost += 1
                else:
                    under_way.append((time.monotonic() + self._delay, packet))
            while under_way and under_way[0][0] <= time.monotonic():
                os.write(target, under_way.popleft()[1])
                self.carried += 1
