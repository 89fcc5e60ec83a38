#!/usr/bin/env python3
"""Random pickles, well formed and damaged, read by serialize/torch and by Python's own unpickler with the same table.

    pickle_grammar_test.py [--count=N] [--seed=N]

Both make the same value of a pickle, or both refuse it. A million pickles take some minutes:

    bazel run //tests/serialize/torch:pickle_grammar_test -- --count=1000000
"""

import argparse
import collections
import os
import random
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from pickle_machine import of_python  # noqa: E402
from pickle_writer import damaged, well_formed  # noqa: E402

ORACLE = os.path.join(HERE, "pickle_oracle")
BATCH = 5000


def of_library(batch):
    stream = b"".join(struct.pack("<I", len(data)) + data for data in batch)
    done = subprocess.run([ORACLE], input=stream, capture_output=True, check=True)
    lines = done.stdout.decode().splitlines()
    assert len(lines) == len(batch), (len(lines), len(batch))
    return lines


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=int(os.environ.get("PICKLES", "20000")))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    sys.setrecursionlimit(10_000)
    counts, wrong = collections.Counter(), []
    for first in range(0, options.count, BATCH):
        rng = random.Random(f"{options.seed} {first}")
        batch = []
        while len(batch) < min(BATCH, options.count - first):
            data = well_formed(rng)
            batch.append(damaged(rng, data) if rng.random() < 0.6 else data)
        for data, ours in zip(batch, of_library(batch)):
            theirs = of_python(data)
            # Python looks at frames when it reads from them, and so lets some instructions leave theirs.
            leaves_frame = ours.endswith(("leaves its frame", "inside another frame"))
            if theirs is None or leaves_frame or ours == "large":
                counts["not compared"] += 1
            elif ours.startswith("refused: ") and theirs.startswith("refused: "):
                counts["refused by both"] += 1
            elif ours == theirs:
                counts["the same value"] += 1
            else:
                counts["different"] += 1
                wrong.append((data, ours, theirs))
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    for data, ours, theirs in sorted(wrong, key=lambda one: len(one[0]))[:10]:
        print(f"{data!r}\n  here:   {ours[:300]}\n  Python: {theirs[:300]}")
    # A test whose pickles are all refused, or all whole, compares nothing.
    return bool(wrong) or min(counts["the same value"], counts["refused by both"]) < options.count // 10


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
