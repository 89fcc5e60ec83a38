"""ONNX's own package writes, and we read: every data type in every form, models, side files, sequences, sparse tensors.
We write, and it reads and checks: tensors, models with other initializers, side files."""

import functools
import os
import unittest
import zlib

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import ours
import peer

ONNX = f"onnx {onnx.__version__}"

# Number of the data type -> its dtype in NumPy, and ours if the names differ.
DTYPES = {
    TensorProto.FLOAT: (np.float32, "float32"),
    TensorProto.UINT8: (np.uint8, "uint8"),
    TensorProto.INT8: (np.int8, "int8"),
    TensorProto.UINT16: (np.uint16, "uint16"),
    TensorProto.INT16: (np.int16, "int16"),
    TensorProto.INT32: (np.int32, "int32"),
    TensorProto.INT64: (np.int64, "int64"),
    TensorProto.BOOL: (np.bool_, "bool"),
    TensorProto.FLOAT16: (np.float16, "float16"),
    TensorProto.DOUBLE: (np.float64, "float64"),
    TensorProto.UINT32: (np.uint32, "uint32"),
    TensorProto.UINT64: (np.uint64, "uint64"),
    TensorProto.COMPLEX64: (np.complex64, "complex64"),
    TensorProto.COMPLEX128: (np.complex128, "complex128"),
    TensorProto.BFLOAT16: (ml_dtypes.bfloat16, "bfloat16"),
    TensorProto.FLOAT8E4M3FN: (ml_dtypes.float8_e4m3fn, "float8_e4m3fn"),
    TensorProto.FLOAT8E4M3FNUZ: (ml_dtypes.float8_e4m3fnuz, "float8_e4m3fnuz"),
    TensorProto.FLOAT8E5M2: (ml_dtypes.float8_e5m2, "float8_e5m2"),
    TensorProto.FLOAT8E5M2FNUZ: (ml_dtypes.float8_e5m2fnuz, "float8_e5m2fnuz"),
    TensorProto.UINT4: (ml_dtypes.uint4, "uint4"),
    TensorProto.INT4: (ml_dtypes.int4, "int4"),
    TensorProto.FLOAT4E2M1: (ml_dtypes.float4_e2m1fn, "float4_e2m1"),
    TensorProto.FLOAT8E8M0: (ml_dtypes.float8_e8m0fnu, "float8_e8m0fnu"),
    TensorProto.UINT2: (ml_dtypes.uint2, "uint2"),
    TensorProto.INT2: (ml_dtypes.int2, "int2"),
    TensorProto.FLOAT6E2M3: (ml_dtypes.float6_e2m3fn, "float6_e2m3"),
    TensorProto.FLOAT6E3M2: (ml_dtypes.float6_e3m2fn, "float6_e3m2"),
}


def bits_of(data_type):
    name = TensorProto.DataType.Name(data_type)
    if name in ("UINT4", "INT4", "FLOAT4E2M1"):
        return 4
    if name in ("UINT2", "INT2"):
        return 2
    return 6 if name.startswith("FLOAT6") else 8 * np.dtype(DTYPES[data_type][0]).itemsize


def random_array(rng, data_type, shape):
    """Elements of any bits; of a byte each below 8 bits."""
    dtype = np.dtype(DTYPES[data_type][0])
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    raw = rng.integers(0, 256, count * dtype.itemsize, np.uint8)
    bits = bits_of(data_type)
    if bits < 8:
        raw &= (1 << bits) - 1
    return raw.view(dtype).reshape(shape)


def facts(data_type, array):
    """What `ls --json --checksum` says of the array."""
    data = array.tobytes()
    if bits_of(data_type) < 8:
        data = bytes(byte & ((1 << bits_of(data_type)) - 1) for byte in data)
    return DTYPES[data_type][1], list(array.shape), f"{zlib.crc32(data):08x}"


def typed(data_type, array, name):
    """The tensor with its values in the typed field, as helper.make_tensor writes it."""
    tensor = TensorProto(name=name, data_type=data_type, dims=array.shape)
    flat = array.reshape(-1)
    bits = bits_of(data_type)
    if bits < 8:
        elements = [byte & ((1 << bits) - 1) for byte in flat.tobytes()]
        if bits == 6:
            tensor.int32_data.extend(elements)
        else:
            whole = sum(element << (bits * i) for i, element in enumerate(elements))
            tensor.int32_data.extend(whole.to_bytes((len(elements) * bits + 7) // 8, "little"))
        return tensor
    field = helper.tensor_dtype_to_field(data_type)
    if flat.dtype.kind == "c":
        flat = flat.view(np.float32 if flat.dtype == np.complex64 else np.float64)
    elif field == "int32_data" and flat.dtype.kind not in "iu":
        flat = flat.view(f"u{flat.dtype.itemsize}")
    getattr(tensor, field).extend(flat.tolist())
    return tensor


def model_of(*initializers, nodes=(), **more):
    graph = helper.make_graph(list(nodes), "main", [], [], initializer=list(initializers), **more)
    return helper.make_model(graph, producer_name="peers")


class Onnx(peer.Scratch):
    def listed(self, path):
        return {
            name: (tensor["dtype"], tensor["shape"], tensor["crc32"]) for name, tensor in ours.listing(path).items()
        }

    def test_every_data_type_raw_and_typed(self):
        rng = np.random.default_rng(700)
        defined = {number for name, number in TensorProto.DataType.items() if name not in ("UNDEFINED", "STRING")}
        self.assertEqual(set(DTYPES), defined)
        expected, tensors = {}, []
        for data_type in DTYPES:
            for shape in ((), (0,), (1,), (7,), (3, 5), (2, 3, 4)):
                array = random_array(rng, data_type, shape)
                name = f"{TensorProto.DataType.Name(data_type)}{list(shape)}"
                raw = numpy_helper.from_array(array, name + " raw")
                self.assertEqual(raw.data_type, data_type)
                tensors += [raw, typed(data_type, array, name + " typed")]
                # What their reader makes of the typed form is what went in.
                theirs = numpy_helper.to_array(tensors[-1])
                self.assertEqual(facts(data_type, theirs), facts(data_type, array), name)
                for tensor in tensors[-2:]:
                    expected[tensor.name] = facts(data_type, array)
        path = self.path("m.onnx")
        onnx.save(model_of(*tensors), path)
        self.assertEqual(self.listed(path), expected)
        ours.tool("verify", path)
        peer.carried(ONNX, "it writes, we read", len(expected))

    def test_packings_of_every_length(self):
        rng = np.random.default_rng(701)
        expected, tensors = {}, []
        for data_type in DTYPES:
            if bits_of(data_type) >= 8:
                continue
            for length in range(66):
                array = random_array(rng, data_type, (length,))
                tensors.append(numpy_helper.from_array(array, f"{data_type} {length}"))
                expected[tensors[-1].name] = facts(data_type, array)
        path = self.path("m.onnx")
        onnx.save(model_of(*tensors), path)
        self.assertEqual(self.listed(path), expected)
        peer.carried(ONNX, "it writes, we read", len(expected))

    def test_tensors_strings_and_sequences_in_files_of_their_own(self):
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        onnx.save_tensor(numpy_helper.from_array(array, "x"), self.path("x.pb"))
        self.assertEqual(self.listed(self.path("x.pb")), {"x": facts(TensorProto.FLOAT, array)})
        texts = np.array(["a", "", "größe"], dtype=object)
        onnx.save_tensor(numpy_helper.from_array(texts, "s"), self.path("s.pb"))
        listed = ours.listing(self.path("s.pb"))["s"]
        self.assertEqual((listed["dtype"], listed["shape"]), ("string", [3]))
        sequence = numpy_helper.from_list([array, array + 1], "q")
        peer.write_file(self.path("q.pb"), sequence.SerializeToString())
        self.assertEqual(
            self.listed(self.path("q.pb")),
            {"0": facts(TensorProto.FLOAT, array), "1": facts(TensorProto.FLOAT, array + 1)},
        )
        peer.carried(ONNX, "it writes, we read", 4)

    def test_side_files(self):
        rng = np.random.default_rng(702)
        arrays = {f"w{i}": random_array(rng, data_type, (17, 100)) for i, data_type in enumerate(DTYPES)}
        expected = {name: facts(list(DTYPES)[int(name[1:])], array) for name, array in arrays.items()}
        for one_file in (True, False):
            folder = self.path(f"one{one_file}")
            os.mkdir(folder)
            path = os.path.join(folder, "m.onnx")
            model = model_of(*(numpy_helper.from_array(array, name) for name, array in arrays.items()))
            onnx.save_model(
                model, path, save_as_external_data=True, all_tensors_to_one_file=one_file, location="m.bin",
                size_threshold=100,
            )
            self.assertEqual(self.listed(path), expected)
            self.assertGreater(len(os.listdir(folder)), 1)
            ours.tool("verify", path)
            peer.carried(ONNX, "it writes with side files, we read", len(expected))

    def same_array(self, tensor, data_type, array, folder=""):
        """The message says what the array has, element by element."""
        self.assertEqual((tensor.data_type, tuple(tensor.dims)), (data_type, array.shape))
        read = numpy_helper.to_array(tensor, folder)
        self.assertEqual(facts(data_type, read), facts(data_type, array))

    def test_it_reads_tensors_in_files_of_their_own(self):
        rng = np.random.default_rng(703)
        for data_type in DTYPES:
            for shape in ((3, 5), (), (7,), (0, 2)):
                array = random_array(rng, data_type, shape)
                onnx.save(model_of(numpy_helper.from_array(array, "x")), self.path("m.onnx"))
                ours.convert(self.path("m.onnx"), self.path("x.pb"), "--to", "onnx", "--overwrite")
                tensor = onnx.load_tensor(self.path("x.pb"))
                self.assertEqual(tensor.name, "x")
                onnx.checker.check_tensor(tensor)
                self.same_array(tensor, data_type, array)
                peer.carried(ONNX, "we write tensors, it reads", 1)

    def test_it_reads_models_with_other_initializers(self):
        """Graphs in nodes, documentation and typed fields around them; the rest of the model is the same message."""
        rng = np.random.default_rng(704)
        old = {f"w{i}": (data_type, random_array(rng, data_type, (17, 100))) for i, data_type in enumerate(DTYPES)}
        tensors = [numpy_helper.from_array(array, name) for name, (_, array) in old.items()]
        for tensor in tensors:
            tensor.doc_string = f"doc of {tensor.name}"
        deep = numpy_helper.from_array(np.arange(5, dtype=np.int64), "deep")
        branch = helper.make_graph([], "then", [], [], initializer=[deep])
        node = helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch, else_branch=branch)
        base = model_of(*tensors, nodes=[node])
        onnx.save(base, self.path("base.onnx"))
        new = {name: (data_type, random_array(rng, data_type, (17, 100))) for name, (data_type, _) in old.items()}
        onnx.save(model_of(*(numpy_helper.from_array(array, name) for name, (_, array) in new.items())),
                  self.path("new.onnx"))  # fmt: skip
        folder = self.path("external")
        os.mkdir(folder)
        for target, options in ((self.path("m.onnx"), ()), (os.path.join(folder, "m.onnx"), ("--external",))):
            ours.convert(self.path("new.onnx"), target, "--replace-in", self.path("base.onnx"), *options)
            model = onnx.load(target, load_external_data=False)
            self.assertEqual(any(tensor.data_location == TensorProto.EXTERNAL for tensor in model.graph.initializer),
                             bool(options))  # fmt: skip
            onnx.load_external_data_for_model(model, os.path.dirname(target))
            self.assertEqual(len(model.graph.initializer), len(new))
            for tensor in model.graph.initializer:
                self.assertEqual(tensor.doc_string, f"doc of {tensor.name}")
                self.same_array(tensor, *new[tensor.name])
            del model.graph.initializer[:]
            without = onnx.ModelProto()
            without.CopyFrom(base)
            del without.graph.initializer[:]
            self.assertEqual(model, without)
            peer.carried(ONNX, f"we replace initializers{' in a side file' * bool(options)}, it reads", len(new))
        ours.convert(os.path.join(folder, "m.onnx"), self.path("joined.onnx"))
        joined = onnx.load(self.path("joined.onnx"))
        for tensor in joined.graph.initializer:
            self.same_array(tensor, *new[tensor.name])
        peer.carried(ONNX, "we join models, it reads", len(new))

    def test_its_checker_accepts_models(self):
        weight = numpy_helper.from_array(np.arange(4096, dtype=np.float32).reshape(64, 64), "w")
        value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64])
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [value], [result], [weight])
        onnx.save(helper.make_model(graph), self.path("m.onnx"))
        onnx.checker.check_model(self.path("m.onnx"), full_check=True)
        np.save(self.path("w.npy"), np.ones((64, 64), np.float32))
        ours.convert("w=" + self.path("w.npy"), self.path("n.onnx"), "--replace-in", self.path("m.onnx"))
        ours.convert(self.path("n.onnx"), self.path("e.onnx"), "--external")
        for name in ("n.onnx", "e.onnx"):
            onnx.checker.check_model(self.path(name), full_check=True)
            model = onnx.load(self.path(name))
            self.assertEqual(numpy_helper.to_array(model.graph.initializer[0]).sum(), 4096)
        peer.carried(ONNX, "we write models, its checker accepts them", 2)

    def test_it_evaluates_models_with_other_names(self):
        values = {name: np.arange(4, dtype=np.float32) + number for number, name in enumerate("wbc")}
        weights = {name: numpy_helper.from_array(array, name) for name, array in values.items()}
        info = functools.partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT, shape=[4])
        then = helper.make_graph([helper.make_node("Add", ["w", "b"], ["t"])], "then", [], [info("t")])
        other = helper.make_graph([helper.make_node("Mul", ["w", "c"], ["e"])], "else", [], [info("e")], [weights["c"]])
        nodes = [helper.make_node("If", ["condition"], ["y"], then_branch=then, else_branch=other),
                 helper.make_node("Sub", ["y", "b"], ["z"])]  # fmt: skip
        condition = helper.make_tensor_value_info("condition", TensorProto.BOOL, [])
        graph = helper.make_graph(nodes, "g", [condition], [info("z"), info("w")], [weights["w"], weights["b"]],
                                  value_info=[info("b")])  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
        helper.set_model_props(model, {"author": "me", "dropped": "x"})
        path = self.path("m.onnx")
        onnx.save(model, path)
        with open(path, "rb") as file:
            before = file.read()
        ours.tool("edit", path, "--rename", "s/^/model./", "--set", "author=you", "--unset", "dropped")
        onnx.checker.check_model(path, full_check=True)
        renamed = onnx.load(path)
        self.assertEqual([one.name for one in renamed.graph.initializer], ["model.w", "model.b"])
        self.assertEqual([(one.key, one.value) for one in renamed.metadata_props], [("author", "you")])
        for chosen in (True, False):
            given = {"condition": np.array(chosen)}
            theirs = ReferenceEvaluator(model).run(None, given)
            for result, wanted in zip(ReferenceEvaluator(renamed).run(None, given), theirs):
                self.assertEqual(result.tobytes(), wanted.tobytes())
        ours.tool("edit", path, "--rename", r"s/^model\.//", "--set", "author=me", "--set", "dropped=x")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), before)
        peer.carried(ONNX, "we rename initializers, it evaluates", 3)

    def test_graphs_in_nodes_and_sparse_tensors(self):
        array = np.arange(4, dtype=np.int64)

        def branch(name, value):
            return helper.make_graph([], name, [], [], initializer=[numpy_helper.from_array(array + value, "b")])

        node = helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch("t", 1), else_branch=branch("e", 2))
        sparse = helper.make_sparse_tensor(
            numpy_helper.from_array(np.array([1.5, 2.5], np.float32), "s"),
            numpy_helper.from_array(np.array([1, 5], np.int64), "i"),
            [2, 3],
        )
        path = self.path("m.onnx")
        onnx.save(model_of(numpy_helper.from_array(array, "w"), nodes=[node], sparse_initializer=[sparse]), path)
        self.assertEqual(
            self.listed(path),
            {
                "w": facts(TensorProto.INT64, array),
                "if.then_branch/b": facts(TensorProto.INT64, array + 1),
                "if.else_branch/b": facts(TensorProto.INT64, array + 2),
                "s.values": facts(TensorProto.FLOAT, np.array([1.5, 2.5], np.float32)),
                "s.indices": facts(TensorProto.INT64, np.array([1, 5], np.int64)),
            },
        )
        peer.carried(ONNX, "it writes, we read", 5)


if __name__ == "__main__":
    unittest.main()
