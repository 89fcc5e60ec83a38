"""Object graphs, variants, V1 checkpoints and whole SavedModels: what TensorFlow writes beside plain tensors."""

import os
import tempfile
import unittest

import numpy as np
import tensorflow as tf

import ours
import peer
import random_tensors
import tensorflow_side as theirs

TF = f"TensorFlow {tf.__version__}"
V1_DTYPES = [
    name
    for name in theirs.DTYPES
    if name
    in (
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    )
]


def small_model():
    return tf.keras.Sequential(
        [
            tf.keras.Input((6,)),
            tf.keras.layers.Dense(5, activation="relu", name="one"),
            tf.keras.layers.BatchNormalization(name="norm"),
            tf.keras.layers.Dense(2, name="two"),
        ]
    )


class Objects(peer.Scratch):
    def copies(self, prefix):
        """The checkpoint as we convert it, as several data files, and merged."""
        ours.convert(prefix, self.path("same"), "--alignment", 1)
        ours.convert(prefix, self.path("aligned"))
        stored = list(ours.read(prefix).values())
        shards = [item._replace(shard=number % 3) for number, item in enumerate(stored)]
        ours.write(self.path("shards"), shards, "--shards=3")
        ours.merge(self.path("merged"), self.path("aligned"))
        self.assertEqual(peer.read_file(prefix + ".index"), peer.read_file(self.path("same.index")))
        return [self.path(name) for name in ("same", "aligned", "shards", "merged")]

    def test_keras_model_with_optimizer(self):
        model = small_model()
        model.compile(tf.keras.optimizers.Adam(0.01), "mse")
        rng = np.random.default_rng(3)
        inputs, targets = rng.random((32, 6), np.float32), rng.random((32, 2), np.float32)
        model.fit(inputs, targets, epochs=2, verbose=0)
        prefix = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(self.path("model"))
        expected = model(inputs).numpy()
        tree = ours.tool("ls", "--tree", prefix).decode()
        for part in ("model", "optimizer", "save_counter"):
            self.assertIn(part, tree)
        tensors = len(ours.listing(prefix))
        peer.carried(TF, "it writes an object graph, we list", tensors)
        for copy in self.copies(prefix):
            with self.subTest(copy):
                fresh = small_model()
                fresh.compile(tf.keras.optimizers.Adam(0.5), "mse")
                fresh.optimizer.build(fresh.trainable_variables)
                status = tf.train.Checkpoint(model=fresh, optimizer=fresh.optimizer).restore(copy)
                status.assert_existing_objects_matched()
                status.assert_consumed()
                self.assertEqual(fresh(inputs).numpy().tobytes(), expected.tobytes())
                for one, other in zip(fresh.optimizer.variables, model.optimizer.variables):
                    self.assertEqual(one.numpy().tobytes(), other.numpy().tobytes())
                peer.carried(TF, "it writes an object graph, we convert, it restores the objects", tensors)

    def restored(self, prefix, **parts):
        status = tf.train.Checkpoint(**parts).restore(prefix)
        status.assert_existing_objects_matched()
        status.assert_consumed()

    def test_objects_follow_the_names_that_convert_changes(self):
        """--rename, --exclude and --include of an object checkpoint: the graph has the new names, and only them."""
        model, optimizer = tf.Module(), tf.Module()
        model.kernel = tf.Variable(np.arange(6, dtype=np.float32).reshape(2, 3))
        model.bias = tf.Variable([1.0, 2.0, 3.0])
        optimizer.steps, optimizer.kernel = tf.Variable(7, dtype=tf.int64), tf.Variable([4.0, 5.0])
        prefix = tf.train.Checkpoint(model=model, optimizer=optimizer).save(self.path("model"))

        def fresh():
            one, other = tf.Module(), tf.Module()
            one.kernel, one.bias = tf.Variable(tf.zeros([2, 3])), tf.Variable(tf.zeros([3]))
            other.steps, other.kernel = tf.Variable(0, dtype=tf.int64), tf.Variable([0.0, 0.0])
            return one, other

        def expect_model(one):
            self.assertEqual(one.kernel.numpy().tolist(), model.kernel.numpy().tolist())
            self.assertEqual(one.bias.numpy().tolist(), [1, 2, 3])

        ours.tool("convert", "--rename", "s/^model\\/(kernel|bias)/encoder\\/dense\\/\\1/", prefix, self.path("renamed"))
        self.assertIn("encoder/dense/kernel/.ATTRIBUTES/VARIABLE_VALUE", ours.listing(self.path("renamed")))
        one, other = fresh()
        self.restored(self.path("renamed"), model=one, optimizer=other)
        expect_model(one)
        self.assertEqual((other.steps.numpy(), other.kernel.numpy().tolist()), (7, [4, 5]))

        for number, arguments in enumerate((["--exclude", "optimizer/*"],
                                            ["--include", "model/*", "--include", "save_counter/*"])):
            path = self.path(f"part{number}")
            ours.tool("convert", *arguments, prefix, path)
            self.assertFalse([name for name in ours.listing(path) if name.startswith("optimizer/")])
            one, other = fresh()
            self.restored(path, model=one)
            expect_model(one)
            with self.assertRaisesRegex(AssertionError, "not bound to checkpointed values"):
                self.restored(path, model=one, optimizer=other)

        ours.tool("convert", "--dtype", "model/*=bfloat16", prefix, self.path("half"))
        one, other = tf.Module(), fresh()[1]
        one.kernel = tf.Variable(tf.zeros([2, 3], tf.bfloat16))
        one.bias = tf.Variable(tf.zeros([3], tf.bfloat16))
        self.restored(self.path("half"), model=one, optimizer=other)
        self.assertEqual(tf.cast(one.bias, tf.float32).numpy().tolist(), [1, 2, 3])
        peer.carried(TF, "it writes an object graph, we convert, it restores the objects", 4)

    def test_module_with_containers(self):
        class Nested(tf.Module):
            def __init__(self, start):
                super().__init__()
                self.list = [tf.Variable(start + index, dtype=tf.float64) for index in range(3)]
                self.dict = {"a b": tf.Variable([start, start], dtype=tf.int64), "é": tf.Variable(f"text {start}")}
                self.half = tf.Variable(tf.cast([start, start + 1], tf.bfloat16))
                self.flag = tf.Variable(start > 0)

        source = Nested(5)
        prefix = tf.train.Checkpoint(nested=source).save(self.path("nested"))
        self.assertIn("a b", ours.tool("ls", "--tree", prefix).decode())
        for copy in self.copies(prefix):
            fresh = Nested(0)
            tf.train.Checkpoint(nested=fresh).restore(copy).assert_consumed()
            self.assertEqual([part.numpy() for part in fresh.list], [5, 6, 7])
            self.assertEqual(fresh.dict["é"].numpy(), b"text 5")
            self.assertEqual(fresh.dict["a b"].numpy().tolist(), [5, 5])
            self.assertTrue(fresh.flag.numpy())
            peer.carried(
                TF, "it writes an object graph, we convert, it restores the objects", len(ours.listing(prefix))
            )

    def test_saved_model(self):
        """The variables of a SavedModel, replaced by our copy of them."""

        class Doubler(tf.Module):
            def __init__(self):
                super().__init__()
                self.factor = tf.Variable([2.0, 3.0])

            @tf.function(input_signature=[tf.TensorSpec([2], tf.float32)])
            def __call__(self, values):
                return values * self.factor

        tf.saved_model.save(Doubler(), self.path("saved"))
        variables = self.path("saved/variables/variables")
        items = ours.read(variables)
        ours.write(variables, [item._replace(shard=1) for item in items.values()], "--shards=2", "--overwrite")
        loaded = tf.saved_model.load(self.path("saved"))
        self.assertEqual(loaded(tf.constant([1.0, 1.0])).numpy().tolist(), [2, 3])
        peer.carried(TF, "it writes an object graph, we convert, it restores the objects", len(items))

    def test_manager_and_state_file(self):
        counter = tf.Variable(0)
        manager = tf.train.CheckpointManager(tf.train.Checkpoint(counter=counter), self.path("run"), max_to_keep=2)
        for step in range(3):
            counter.assign(step)
            manager.save(checkpoint_number=step)
        items = list(ours.read(manager.latest_checkpoint).values())
        changed = [item._replace(data=b"\7\0\0\0") if item.dtype == "int32" else item for item in items]
        ours.write(manager.latest_checkpoint, changed, "--overwrite")
        tf.train.Checkpoint(counter=counter).restore(tf.train.latest_checkpoint(self.path("run")))
        self.assertEqual(counter.numpy(), 7)
        peer.carried(TF, "we write, it reads", len(items))


class Variants(peer.Scratch):
    def exchange(self, variant, restored_value):
        """TensorFlow saves the variant; we verify it, copy it in three ways, and TensorFlow restores the copies."""
        prefix = self.path("theirs")
        theirs.save(prefix, {"variant": variant, "plain": tf.constant([1, 2])})
        self.assertIn("2 tensors whole", ours.tool("verify", prefix).decode())
        self.assertEqual(ours.listing(prefix)["variant"]["dtype"], "variant")
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            # New names: where a checkpoint is replaced, ours chooses another number of shards.
            same, aligned, stream, back = (os.path.join(folder, name) for name in ("same", "aligned", "s.tfrecord", "back"))
            ours.convert(prefix, same, "--alignment", 1)
            ours.convert(prefix, aligned)
            ours.convert(prefix, stream)
            ours.convert(stream, back, "--to", "checkpoint", "--alignment", 1)
            for ending in (".index", ".data-00000-of-00001"):
                self.assertEqual(peer.read_file(prefix + ending), peer.read_file(same + ending))
            for copy in (same, aligned, back):
                restored = theirs.restore(copy, "variant", tf.variant)
                self.assertEqual(restored_value(restored), restored_value(variant))
                peer.carried(TF, "it writes a variant, we convert, it restores", 1)

    def test_tensor_list(self):
        for values, dtype in (
            ([[1.0, 2.0], [3.0, -0.0]], tf.float32),
            ([["a"], [""]], tf.string),
            ([[True], [False]], tf.bool),
            ([[1 + 2j], [3]], tf.complex64),
            ([[0.5], [2.0]], tf.bfloat16),
        ):
            tensor = tf.constant(values, dtype)
            shape = tf.constant(tensor.shape[1:], tf.int32)
            self.exchange(
                tf.raw_ops.TensorListFromTensor(tensor=tensor, element_shape=shape),
                lambda variant, dtype=dtype, shape=shape: theirs.value_of(
                    tf.raw_ops.TensorListStack(input_handle=variant, element_shape=shape, element_dtype=dtype)
                ),
            )

    def test_list_of_lists(self):
        inner = tf.raw_ops.TensorListFromTensor(
            tensor=tf.constant([[7, 8], [9, 10]]), element_shape=tf.constant([2], tf.int32)
        )
        outer = tf.raw_ops.TensorListFromTensor(
            tensor=tf.stack([inner, inner]), element_shape=tf.constant([], tf.int32)
        )

        def value(variant):
            first = tf.raw_ops.TensorListGetItem(
                input_handle=variant, index=1, element_shape=tf.constant([], tf.int32), element_dtype=tf.variant
            )
            return theirs.value_of(
                tf.raw_ops.TensorListStack(
                    input_handle=first, element_shape=tf.constant([2], tf.int32), element_dtype=tf.int32
                )
            )

        self.exchange(outer, value)

    def test_tensors_of_variants(self):
        pair = tf.stack(
            [
                tf.raw_ops.TensorListFromTensor(
                    tensor=tf.constant([number, number]), element_shape=tf.constant([], tf.int32)
                )
                for number in range(6)
            ]
        )
        self.exchange(
            tf.reshape(pair, [2, 3]),
            lambda variants: [
                theirs.value_of(
                    tf.raw_ops.TensorListStack(
                        input_handle=variant, element_dtype=tf.int32, element_shape=tf.constant([], tf.int32)
                    )
                )
                for variant in tf.unstack(tf.reshape(variants, [6]))
            ],
        )

    def test_optional(self):
        self.exchange(
            tf.raw_ops.OptionalFromValue(components=[tf.constant([1, 2, 3])]),
            lambda variant: [
                theirs.value_of(part)
                for part in tf.raw_ops.OptionalGetValue(optional=variant, output_types=[tf.int32], output_shapes=[[3]])
            ],
        )

    def test_iterator_state(self):
        """A tf.data iterator saves its position as variants."""

        def iterator():
            return iter(tf.data.Dataset.range(20).shuffle(5, seed=1).batch(2))

        first = iterator()
        next(first)
        prefix = tf.train.Checkpoint(it=first).write(self.path("theirs"))
        ours.convert(prefix, self.path("ours"))
        rest = [batch.numpy().tolist() for batch in first]
        second = iterator()
        tf.train.Checkpoint(it=second).read(self.path("ours")).assert_consumed()
        self.assertEqual([batch.numpy().tolist() for batch in second], rest)
        peer.carried(TF, "it writes a variant, we convert, it restores", len(ours.listing(prefix)))


class VersionOne(peer.Scratch):
    """The older format of one file, which we only read."""

    def test_random(self):
        for seed in range(2):
            named = random_tensors.arrays(100 + seed, V1_DTYPES, per_rank=2)
            tf.raw_ops.Save(
                filename=self.path("v1"),
                tensor_names=list(named),
                data=[tf.constant(array) for array in named.values()],
            )
            expected = {item.name: item.value for item in random_tensors.stored(named)}
            self.assertEqual(sorted(ours.read(self.path("v1"))), sorted(expected))
            for mode in ("read", "all"):
                self.assert_same(
                    {name: item.value for name, item in ours.read(self.path("v1"), mode).items()}, expected
                )
            peer.carried(TF, "it writes V1, we read", len(expected))
            ours.convert(self.path("v1"), self.path("v2"), "--alignment", 1, "--overwrite")
            self.assert_same(theirs.load(self.path("v2")), expected)
            peer.carried(TF, "it writes V1, we convert to V2, it reads", len(expected))

    def test_strings(self):
        rng = np.random.default_rng(5)
        texts = random_tensors.random_strings(rng, (3, 4))
        tf.raw_ops.Save(filename=self.path("v1"), tensor_names=["s"], data=[tf.reshape(tf.constant(texts), [3, 4])])
        self.assertEqual(ours.read(self.path("v1"))[b"s"].value, ("string", (3, 4), ours.strings(texts)))
        peer.carried(TF, "it writes V1, we read", 1)

    def test_slices(self):
        rng = np.random.default_rng(6)
        expected, pieces = {}, []
        for dtype in V1_DTYPES:
            array = random_tensors.random_array(rng, dtype, (5, 3))
            expected[dtype.encode()] = (dtype, (5, 3), array.tobytes())
            pieces += [
                (dtype, "5 3 0,2:-", array[:2]),
                (dtype, "5 3 2,3:0,1", array[2:, :1]),
                (dtype, "5 3 2,3:1,2", array[2:, 1:]),
            ]
        tf.raw_ops.SaveSlices(
            filename=self.path("v1"),
            tensor_names=[piece[0] for piece in pieces],
            shapes_and_slices=[piece[1] for piece in pieces],
            data=[tf.constant(piece[2]) for piece in pieces],
        )
        self.assert_same({name: item.value for name, item in ours.read(self.path("v1")).items()}, expected)
        peer.carried(TF, "it writes V1, we read", len(expected))

    def test_saver(self):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            variable = tf.compat.v1.get_variable("dense/kernel", initializer=tf.constant([[1.0, 2.0]]))
            session.run(variable.initializer)
            prefix = tf.compat.v1.train.Saver(write_version=tf.compat.v1.train.SaverDef.V1).save(
                session, self.path("v1"), write_meta_graph=False
            )
        self.assertEqual(list(ours.read(prefix)), [b"dense/kernel"])
        self.assertTrue(os.path.isfile(prefix))
        peer.carried(TF, "it writes V1, we read", 1)


if __name__ == "__main__":
    unittest.main()
