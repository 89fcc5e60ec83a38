"""Reads checkpoints with TensorFlow in a process of its own, because some damaged files make TensorFlow abort.

For each prefix, a line on stdin, prints a line: JSON {name in hex: [dtype, shape, data in hex] or error text}, or a
text if nothing can be listed. Reads with tf.train.load_checkpoint, and each tensor with RestoreV2, too.
"""

import json
import os
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"


def answer(prefix):
    import tensorflow as tf

    import tensorflow_side as theirs

    try:
        reader = tf.train.load_checkpoint(prefix)
        dtypes = reader.get_variable_to_dtype_map()
    except Exception as error:  # any type: the answer is that it refuses
        return f"{type(error).__name__}: {error}"[:300]
    read = {}
    for name, dtype in dtypes.items():
        try:
            value = theirs.value_of(theirs.restore(prefix, name, dtype))
            read[name.encode().hex()] = [value[0], list(value[1]), value[2].hex()]
        except Exception as error:
            read[name.encode().hex()] = f"{type(error).__name__}: {error}"[:300]
    return read


class Worker:
    """ask(prefix) gives {name: value or error text}, a text if TensorFlow refuses all, or Worker.ABORTED."""

    ABORTED = "the process aborted"

    def __init__(self):
        self.process = None

    def ask(self, prefix):
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        self.process.stdin.write(prefix + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if line == "":
            self.close()
            return self.ABORTED
        read = json.loads(line)
        if isinstance(read, str):
            return read
        return {
            bytes.fromhex(name): (
                value if isinstance(value, str) else (value[0], tuple(value[1]), bytes.fromhex(value[2]))
            )
            for name, value in read.items()
        }

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
            self.process = None


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(line.rstrip("\n"))), flush=True)
