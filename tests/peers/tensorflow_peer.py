"""Checkpoints of numbers and strings that TensorFlow and we exchange, both ways, bit by bit."""

import os
import unittest

import numpy as np
import tensorflow as tf

import ours
import peer
import random_tensors
import tensorflow_side as theirs

TF = f"TensorFlow {tf.__version__}"
WRITES, READS, CONVERTED = "it writes, we read", "we write, it reads", "it writes, we convert, it reads"


def values(stored):
    return {name: item.value for name, item in stored.items()}


def slice_text(shape, starts, lengths):
    return ":".join(
        "-" if (start, length) == (0, dim) else f"{start},{length}"
        for dim, start, length in zip(shape, starts, lengths)
    )


def random_slice(rng, shape):
    starts = [int(rng.integers(0, dim)) for dim in shape]
    return starts, [int(rng.integers(1, dim - start + 1)) for dim, start in zip(shape, starts)]


def part_of(array, starts, lengths):
    return array[tuple(slice(start, start + length) for start, length in zip(starts, lengths))]


def random_pieces(rng, shape, ranks):
    """[(starts, lengths), ...]: axes in up to `ranks` pieces of one length, but for the last; `shape` in all."""
    places = [((), ())]
    for dim in shape:
        most = ranks if np.prod(shape) > 0 and rng.integers(0, 2) else 1
        length = max(1, -(-dim // int(rng.integers(1, most + 1)))) if most > 1 else dim
        ranges = [(start, min(length, dim - start)) for start in range(0, dim, length)] if dim else [(0, 0)]
        places = [
            (starts + (start,), lengths + (count,)) for starts, lengths in places for start, count in ranges
        ]
    return places


class Checkpoints(peer.Scratch):
    def assert_reproduced(self, source, copy):
        """All files of the checkpoint are the same, byte for byte."""
        base, names = os.path.basename(source), sorted(os.listdir(os.path.dirname(source)))
        endings = [name[len(base) :] for name in names if name.startswith((base + ".data-", base + ".index"))]
        self.assertGreaterEqual(len(endings), 2)
        for ending in endings:
            self.assertTrue(peer.read_file(source + ending) == peer.read_file(copy + ending), copy + ending)

    def exchange(self, prefix, expected):
        """TensorFlow wrote {name: value} to `prefix`. We read and convert that; TensorFlow reads the copies."""
        for mode in ("read", "map", "all"):
            self.assert_same(values(ours.read(prefix, mode)), expected)
        self.assertIn("whole", ours.tool("verify", prefix).decode())
        peer.carried(TF, WRITES, len(expected))
        ours.convert(prefix, prefix + "-same", "--alignment", 1)
        self.assert_reproduced(prefix, prefix + "-same")
        ours.convert(prefix, prefix + "-aligned")
        for copy in (prefix + "-same", prefix + "-aligned"):
            self.assert_same(theirs.load(copy), expected)
            self.assert_same(theirs.restore_all(copy, expected), expected)
        peer.carried(TF, CONVERTED, 2 * len(expected))

    def test_random_numbers(self):
        for seed in range(3):
            with self.subTest(seed=seed):
                named = random_tensors.arrays(seed, theirs.DTYPES, per_rank=3)
                expected = {item.name: item.value for item in random_tensors.stored(named)}
                theirs.save(self.path(f"theirs{seed}"), named)
                self.exchange(self.path(f"theirs{seed}"), expected)
                for shards, alignment in ((1, 1), (1, 64), (3, 4096)):
                    prefix = self.path(f"ours{seed}-{shards}-{alignment}")
                    items = random_tensors.stored(named, lambda number, shards=shards: number % shards)
                    ours.write(prefix, items, f"--shards={shards}", f"--alignment={alignment}")
                    self.assert_same(theirs.load(prefix), expected)
                    self.assert_same(theirs.restore_all(prefix, expected), expected)
                    peer.carried(TF, READS, len(expected))

    def test_same_tensors_give_the_same_files(self):
        """With alignment 1 our writer and TensorFlow's make the same bytes, without a conversion."""
        named = random_tensors.arrays(7, theirs.DTYPES, per_rank=1)
        theirs.save(self.path("theirs"), named)
        ours.write(self.path("ours"), random_tensors.stored(named), "--alignment=1")
        self.assert_reproduced(self.path("theirs"), self.path("ours"))

    def test_strings(self):
        rng = np.random.default_rng(11)
        named, expected = {}, {}
        for rank in range(7):
            for turn in range(4):
                shape = random_tensors.random_shape(rng, rank, 60)
                texts = random_tensors.random_strings(rng, shape)
                name = f"strings/{rank}/{turn}"
                named[name] = tf.reshape(tf.constant(texts, tf.string), shape)
                expected[name.encode()] = ("string", shape, ours.strings(texts))
        named["long"] = tf.constant(bytes(range(256)) * 8192)
        expected[b"long"] = ("string", (), ours.strings([bytes(range(256)) * 8192]))
        theirs.save(self.path("theirs"), named)
        self.exchange(self.path("theirs"), expected)
        ours.write(self.path("ours"), [ours.Stored(name, *value) for name, value in expected.items()])
        self.assert_same(theirs.load(self.path("ours")), expected)
        peer.carried(TF, READS, len(expected))

    def test_quantized(self):
        named, expected = {}, {}
        rng = np.random.default_rng(13)
        for quantized, plain in theirs.QUANTIZED.items():
            array = random_tensors.random_array(rng, plain.name, (3, 4))
            named[quantized.name] = tf.bitcast(tf.constant(array), quantized)
            expected[quantized.name.encode()] = (quantized.name, (3, 4), array.tobytes())
        theirs.save(self.path("theirs"), named)
        self.exchange(self.path("theirs"), expected)

    def test_slices(self):
        """Parts of whole tensors: TensorFlow's of our file, ours of TensorFlow's file."""
        named = {
            name: array
            for name, array in random_tensors.arrays(17, theirs.DTYPES, per_rank=2).items()
            if array.ndim > 0 and array.size > 0
        }
        theirs.save(self.path("theirs"), named)
        ours.write(self.path("ours"), random_tensors.stored(named))
        rng = np.random.default_rng(18)
        wanted, expected = [], []
        for name, array in named.items():
            starts, lengths = random_slice(rng, array.shape)
            piece, part = slice_text(array.shape, starts, lengths), part_of(array, starts, lengths)
            wanted.append((name.encode(), piece))
            expected.append(random_tensors.data_of(part))
            text = " ".join(map(str, array.shape)) + " " + piece
            if piece.strip("-:") != "" and random_tensors.OUR_NAMES[array.dtype] not in theirs.SLICED:
                with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "not supported"):
                    theirs.restore(self.path("theirs"), name, tf.as_dtype(array.dtype), text)
                continue
            restored = theirs.restore(self.path("ours"), name, tf.as_dtype(array.dtype), text)
            self.assertEqual(tuple(restored.shape), part.shape)
            self.assertEqual(theirs.value_of(restored)[2], expected[-1], name)
            peer.carried(TF, "we write, it reads a slice", 1)
        self.assertTrue(ours.read_slices(self.path("theirs"), wanted) == expected)
        peer.carried(TF, "it writes, we read a slice", len(wanted))

    def pieces(self, seed):
        """[(name, array, [(starts, lengths), ...])]: arrays cut along their axes into pieces."""
        rng = np.random.default_rng(seed)
        cut = []
        for number, dtype in enumerate(theirs.DTYPES):
            for rank in (1, 2, 3, 5):
                shape = tuple(int(rng.integers(2, 6)) for _ in range(rank))
                array = random_tensors.random_array(rng, dtype, shape)
                places = [((), ())]
                for axis, dim in enumerate(shape):
                    at = int(rng.integers(1, dim)) if (axis + number) % 2 == 0 or rank == 1 else dim
                    ranges = [(0, at), (at, dim - at)] if at < dim else [(0, dim)]
                    places = [
                        (starts + (start,), lengths + (length,))
                        for starts, lengths in places
                        for start, length in ranges
                    ]
                cut.append((f"{dtype}/{rank}", array, places))
        return cut

    def test_partitioned(self):
        cut = self.pieces(19)
        expected = {
            name.encode(): (random_tensors.OUR_NAMES[array.dtype], array.shape, random_tensors.data_of(array))
            for name, array, _ in cut
        }
        items, saved = [], []
        for name, array, places in cut:
            for starts, lengths in places:
                piece, part = slice_text(array.shape, starts, lengths), part_of(array, starts, lengths)
                saved.append((name, " ".join(map(str, array.shape)) + " " + piece, part))
                items.append(
                    ours.Stored(
                        name.encode(),
                        random_tensors.OUR_NAMES[array.dtype],
                        array.shape,
                        random_tensors.data_of(part),
                        piece,
                    )
                )
        theirs.save_slices(self.path("theirs"), saved)
        self.assert_same(values(ours.read(self.path("theirs"))), expected)
        peer.carried(TF, "it writes in pieces, we read", len(expected))
        ours.write(self.path("ours"), items, "--alignment=1")
        self.assert_reproduced(self.path("theirs"), self.path("ours"))
        ours.write(self.path("aligned"), items)
        ours.convert(self.path("theirs"), self.path("whole"))
        self.assert_same(theirs.load(self.path("whole")), expected)
        peer.carried(TF, CONVERTED, len(expected))
        self.assert_same(values(ours.read(self.path("aligned"))), expected)
        readable = {name: value for name, value in expected.items() if value[0] in theirs.SLICED}
        self.assert_same(theirs.restore_all(self.path("aligned"), readable), readable)
        peer.carried(TF, "we write in pieces, it reads", len(readable))
        for name in expected.keys() - readable.keys():  # TensorFlow does not read these from its own file either
            for prefix in ("theirs", "aligned"):
                with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "not supported"):
                    theirs.restore(self.path(prefix), name, tf.as_dtype(expected[name][0]))
        rng = np.random.default_rng(20)
        for name, array, _ in cut:  # parts that cross the borders of the pieces
            starts, lengths = random_slice(rng, array.shape)
            piece, data = slice_text(array.shape, starts, lengths), random_tensors.data_of(
                part_of(array, starts, lengths)
            )
            if name.encode() in readable:
                text = " ".join(map(str, array.shape)) + " " + piece
                restored = theirs.restore(self.path("aligned"), name, tf.as_dtype(array.dtype), text)
                self.assertEqual(theirs.value_of(restored)[2], data)
            self.assertEqual(ours.read_slices(self.path("theirs"), [(name.encode(), piece)]), [data])

    def test_partitioned_variables(self):
        """Variables that tf.compat.v1 partitions, saved and restored by its Saver."""

        def graph():
            variable = tf.compat.v1.get_variable(
                "table",
                shape=(7, 4),
                initializer=tf.compat.v1.zeros_initializer(),
                partitioner=tf.compat.v1.fixed_size_partitioner(3),
            )
            return variable, tf.compat.v1.train.Saver(sharded=True)

        table = np.arange(28, dtype=np.float32).reshape(7, 4)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            variable, saver = graph()
            session.run([part.assign(rows) for part, rows in zip(variable, (table[:3], table[3:5], table[5:]))])
            prefix = saver.save(session, self.path("theirs"))
        expected = {b"table": ("float32", (7, 4), table.tobytes())}
        self.assert_same(values(ours.read(prefix)), expected)
        self.assertEqual(ours.listing(prefix)["table"]["encoding"], "sliced")
        peer.carried(TF, "it writes in pieces, we read", 1)
        ours.convert(prefix, self.path("whole"))
        pieces = [
            ours.Stored(b"table", "float32", (7, 4), table[:2].tobytes(), "0,2:-"),
            ours.Stored(b"table", "float32", (7, 4), table[2:].tobytes(), "2,5:-"),
        ]
        ours.write(self.path("pieces"), pieces)  # other pieces than those of the variable
        for copy in ("whole", "pieces"):
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                variable, saver = graph()
                saver.restore(session, self.path(copy))
                self.assertTrue(np.array_equal(session.run(variable.as_tensor()), table))
        peer.carried(TF, READS, 2)

    def test_shards(self):
        """Several writers of TensorFlow, merged by it."""
        named = random_tensors.arrays(23, theirs.DTYPES, per_rank=1)
        names = list(named)
        parts = []
        for shard in range(4):
            part = tf.raw_ops.ShardedFilename(basename=self.path("part"), shard=shard, num_shards=4).numpy().decode()
            theirs.save(part, {name: named[name] for name in names[shard::4]})
            parts.append(part)
        prefix = self.path("theirs")
        tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix, delete_old_dirs=False)
        self.assertEqual(len([name for name in os.listdir(self.folder) if name.startswith("theirs.data-")]), 4)
        self.exchange(prefix, {item.name: item.value for item in random_tensors.stored(named)})

    def test_merged_by_us(self):
        named = random_tensors.arrays(29, theirs.DTYPES, per_rank=1)
        names, table = list(named), np.arange(12, dtype=np.int64).reshape(6, 2)
        sources = []
        for number in range(3):
            source = self.path(f"source{number}")
            part = {name: named[name] for name in names[number::3]}
            piece = f"{2 * number},2:-"
            if number == 0:
                theirs.save(source, {**part, "table": table[:2]}, [""] * len(part) + [f"6 2 {piece}"])
            else:
                data = table[2 * number : 2 * number + 2].tobytes()
                ours.write(source, [*random_tensors.stored(part), ours.Stored(b"table", "int64", (6, 2), data, piece)])
            sources.append(source)
        ours.merge(self.path("merged"), *sources)
        expected = {item.name: item.value for item in random_tensors.stored({**named, "table": table})}
        self.assert_same(theirs.load(self.path("merged")), expected)
        peer.carried(TF, "we merge, it reads", len(expected))

    def test_merged_by_them(self):
        """TensorFlow merges what we wrote."""
        named = random_tensors.arrays(30, theirs.DTYPES, per_rank=1)
        names = list(named)
        sources = [self.path(f"source{number}") for number in range(2)]
        for number, source in enumerate(sources):
            ours.write(source, random_tensors.stored({name: named[name] for name in names[number::2]}))
        tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=sources, destination_prefix=self.path("merged"), delete_old_dirs=False
        )
        expected = {item.name: item.value for item in random_tensors.stored(named)}
        self.assert_same(values(ours.read(self.path("merged"))), expected)
        self.assert_same(theirs.load(self.path("merged")), expected)
        peer.carried(TF, "we write, it merges, both read", len(expected))

    def test_jobs_of_many_processes(self):
        """Random layouts of jobs: uneven pieces, replicas, ranks that hold nothing of a tensor, or of all."""
        rng = np.random.default_rng(43)
        count = 0
        for turn in range(20):
            ranks = int(rng.choice([2, 3, 4, 8]))
            expected, items = {}, []
            for number in range(int(rng.integers(3, 9))):
                shape = tuple(int(rng.integers(0, 8)) for _ in range(int(rng.integers(0, 4))))
                dtype = str(rng.choice(theirs.SLICED if np.prod(shape) > 1 else theirs.DTYPES))
                array = random_tensors.random_array(rng, dtype, shape)
                name = f"layer/{number}".encode()
                expected[name] = (dtype, shape, random_tensors.data_of(array))
                for starts, lengths in random_pieces(rng, shape, ranks):
                    piece, data = slice_text(shape, starts, lengths), part_of(array, starts, lengths)
                    for rank in rng.choice(ranks, int(rng.integers(1, ranks + 1)), replace=False):
                        items.append(
                            ours.Stored(name, dtype, shape, random_tensors.data_of(data), piece or "*", int(rank))
                        )
            with self.subTest(turn=turn, ranks=ranks):
                ours.write_sharded(self.path(f"job{turn}"), items, ranks)
                self.assertTrue(os.path.exists(self.path(f"job{turn}.data-{ranks - 1:05}-of-{ranks:05}")))
                self.assert_same(theirs.load(self.path(f"job{turn}")), expected)
                self.assert_same(theirs.restore_all(self.path(f"job{turn}"), expected), expected)
                for name, (dtype, shape, _) in expected.items():
                    if np.prod(shape) < 2:
                        continue
                    starts, lengths = random_slice(rng, shape)
                    text = " ".join(map(str, shape)) + " " + slice_text(shape, starts, lengths)
                    restored = theirs.restore(self.path(f"job{turn}"), name, tf.as_dtype(dtype), text)
                    whole = theirs.restore(self.path(f"job{turn}"), name, tf.as_dtype(dtype)).numpy()
                    self.assertEqual(theirs.value_of(restored)[2], part_of(whole, starts, lengths).tobytes(), name)
                count += len(expected)
        peer.carried(TF, "a job of ours writes, it reads", count)

    def test_overwritten(self):
        first, second = random_tensors.arrays(31, theirs.DTYPES[:9], 1), random_tensors.arrays(32, theirs.DTYPES[9:], 1)
        expected = {item.name: item.value for item in random_tensors.stored(second)}
        theirs.save(self.path("a"), first)
        ours.write(
            self.path("a"), random_tensors.stored(second, lambda number: number % 2), "--shards=2", "--overwrite"
        )
        self.assert_same(theirs.load(self.path("a")), expected)
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.data-00000-of-00002", "a.data-00001-of-00002", "a.index"])
        peer.carried(TF, READS, len(expected))
        ours.write(self.path("b"), random_tensors.stored(first))
        theirs.save(self.path("b"), second)
        self.assert_same(values(ours.read(self.path("b"))), expected)
        peer.carried(TF, WRITES, len(expected))

    def test_extension_only_and_encoded_are_refused(self):
        """TensorFlow refuses the checkpoint: it neither lists it nor gives zeros."""
        plain = np.arange(4, dtype=np.float32)
        large = np.zeros((64, 64), np.float32)
        named = {"plain": plain, "large": large}
        own = ours.Stored(b"own", "float8_e8m0fnu", (4,), bytes([1, 2, 3, 4]))
        cases = {
            "strides": (random_tensors.stored(named), ["--preserve"]),
            "encoded": (random_tensors.stored(named), ["--level=default"]),
            "encoded-high": (random_tensors.stored(named), ["--level=high"]),
            "own-dtype": ([*random_tensors.stored(named), own], []),
        }
        for name, (items, options) in cases.items():
            with self.subTest(name):
                prefix = self.path(name)
                ours.write(prefix, items, *options)
                for attempt in (
                    lambda: tf.train.load_checkpoint(prefix),
                    lambda: tf.train.list_variables(prefix),
                    lambda: theirs.restore(prefix, "large", tf.float32),
                    lambda: theirs.restore(prefix, "large", tf.float32, "64 64 0,1:-"),
                    lambda: theirs.restore(prefix, "plain", tf.float32),
                    lambda: tf.train.Checkpoint(v=tf.Variable(plain)).read(prefix),
                ):
                    with self.assertRaisesRegex(Exception, "(?i)version|min_consumer"):
                        attempt()

    def test_many(self):
        rng = np.random.default_rng(37)
        count = 10_000
        named = {
            f"层{number % 97}/block_{number}/kernel": random_tensors.random_array(
                rng, theirs.DTYPES[number % len(theirs.DTYPES)], (number % 5, 3)
            )
            for number in range(count)
        }
        expected = {item.name: item.value for item in random_tensors.stored(named)}
        theirs.save(self.path("theirs"), named)
        self.exchange(self.path("theirs"), expected)
        ours.write(self.path("ours"), random_tensors.stored(named, lambda number: number % 5), "--shards=5")
        self.assert_same(theirs.load(self.path("ours")), expected)
        peer.carried(TF, READS, count)

    @unittest.skipIf(os.environ.get("TENSORCASK_PEERS_SMALL"), "TENSORCASK_PEERS_SMALL is set")
    def test_larger_than_a_gibibyte(self):
        rng = np.random.default_rng(41)
        large = rng.integers(0, 2**62, (140, 1 << 20), dtype=np.int64)  # 1.09 GiB
        crc = ours.crc32(large.data)
        theirs.save(self.path("theirs"), {"before": np.int8(7), "large": large, "after": np.int8(9)})
        self.assertEqual(ours.listing(self.path("theirs"))["large"]["crc32"], crc)
        peer.carried(TF, WRITES, 3)
        ours.convert(self.path("theirs"), self.path("aligned"))
        os.remove(self.path("theirs.data-00000-of-00001"))
        read = tf.train.load_checkpoint(self.path("aligned")).get_tensor("large")
        self.assertEqual(read.shape, large.shape)
        self.assertEqual(ours.crc32(read.data), crc)
        part = theirs.restore(self.path("aligned"), "large", tf.int64, "140 1048576 139,1:1048570,6")
        self.assertEqual(part.numpy().tolist(), large[139:, 1048570:].tolist())
        peer.carried(TF, CONVERTED, 3)


if __name__ == "__main__":
    unittest.main()
