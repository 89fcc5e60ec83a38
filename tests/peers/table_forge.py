"""Makes index files of checkpoints (serialize/checkpoint/FORMAT.md section 3) with right checksums and any content."""

import struct

_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def masked(crc):
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number):
    encoded = b""
    while number > 127:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])


def index_file(entries):
    """A table with one data block, of (key, value) in the order given; each key is stored whole."""
    file = b""

    def block(pairs):
        nonlocal file
        content, restarts = b"", []
        for key, value in pairs:
            restarts.append(len(content))
            content += b"\0" + varint(len(key)) + varint(len(value)) + key + value
        restarts = restarts or [0]
        content += struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts)) + b"\0"
        handle = varint(len(file)) + varint(len(content) - 1)
        file += content + struct.pack("<I", masked(crc32c(content)))
        return handle

    data = block(entries)
    meta = block([])
    index = block([(max(key for key, _ in entries) + b"z", data)])
    return file + (meta + index).ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")
