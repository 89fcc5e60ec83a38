"""npy, npz and record files that cost their reader much: kinds of bombs_test.py."""

import struct
import zipfile


def npy(descr, shape, data=b""):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + data


def fields(count, kind="|u1"):
    return ",".join(f"('{i:x}','{kind}')" for i in range(count))


def write_npz(folder, members, how=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(f"{folder}/m.npz", "w", how) as file:
        for name, data in members:
            file.writestr(name, data)


def long_outer_names(size, folder):
    """Members of some 600 bytes: 130 fields inside one whose name has 60,000 bytes."""
    array = npy(f"[('{'n' * 60000}',[{fields(130)}])]", "(0,)")
    write_npz(folder, ((f"m{i}.npy", array) for i in range(size)))


def members_of_fields(size, folder):
    array = npy(f"[{fields(20000)}]", "(0,)")
    write_npz(folder, ((f"m{i}.npy", array) for i in range(size)))


def ranks_of_fields(size, folder):
    with open(f"{folder}/m.npy", "wb") as file:
        file.write(npy(f"[{fields(size)}]", "(" + "1," * 252 + "0,)"))


def small_members(size, folder):
    array = npy("'|u1'", "(1,)", b"1")
    write_npz(folder, ((f"layer_{i}/kernel.npy", array) for i in range(size)), zipfile.ZIP_STORED)


def deflated_fields(size, folder):
    """Fields of one byte, in 100 records."""
    write_npz(folder, [("m.npy", npy(f"[{fields(size, '|b1')}]", "(100,)", bytes(100 * size)))])


def deflated_array(size, folder):
    """Zeros of `size` MiB."""
    write_npz(folder, [("m.npy", npy("'<f4'", f"({size << 18},)", bytes(size << 20)))])


def masked_crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


def tiny_records(size, folder):
    """Records of 24 bytes, which are named by their numbers: uint8 [0]."""
    message = bytes.fromhex("0804 1204 1202 0800")
    length = struct.pack("<Q", len(message))
    with open(f"{folder}/m.tfrecord", "wb") as file:
        file.write((length + masked_crc32c(length) + message + masked_crc32c(message)) * size)


KINDS = {"tiny_records": tiny_records, "deflated_array": deflated_array, "long_outer_names": long_outer_names,
         "members_of_fields": members_of_fields,
         "ranks_of_fields": ranks_of_fields, "small_members": small_members, "deflated_fields": deflated_fields}
