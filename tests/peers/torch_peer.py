"""Files of torch.save with PyTorch: it loads what we write in each of its ways, and we read what it writes."""

import collections
import json
import os
import pickle
import shutil
import subprocess
import sys
import unittest
import zlib

import safetensors.torch
import torch
from torch.utils.serialization import config

import ours
import peer

TORCH = f"torch {torch.__version__}"

# Ours and theirs have the same names for these.
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
          "float8_e5m2fnuz", "float8_e8m0fnu"]  # fmt: skip
SHAPES = [(), (0,), (7,), (2, 3), (3, 0, 2), (2, 3, 4, 5)]

# Prints what torch::pickle_load finds in each of the files.
PICKLE_LOAD = r"""
#include <torch/csrc/jit/serialization/pickle.h>
#include <fstream>
#include <iostream>
#include <iterator>
int main(int count, char** paths) {
  for (int i = 1; i < count; ++i) {
    std::ifstream file(paths[i], std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    for (const auto& entry : torch::jit::pickle_load(bytes).toGenericDict()) {
      std::cout << entry.key().toStringRef();
      if (!entry.value().isTensor()) { std::cout << " " << entry.value() << "\n"; continue; }
      const at::Tensor tensor = entry.value().toTensor().contiguous();
      std::cout << " " << tensor.scalar_type() << " " << tensor.sizes();
      const auto* bytes = static_cast<const unsigned char*>(tensor.data_ptr());
      for (size_t at = 0; at < tensor.nbytes(); ++at) std::cout << (at == 0 ? " " : ",") << int{bytes[at]};
      std::cout << "\n";
    }
  }
}
"""


def data_of(tensor):
    """The bytes of the elements, row-major."""
    tensor = tensor.detach().contiguous().reshape(-1)
    return bytes(tensor.view(torch.uint8).tolist()) if tensor.numel() > 0 else b""


def facts(tensor):
    return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), data_of(tensor)


def random_tensor(seed, name, shape):
    dtype = getattr(torch, name)
    generator = torch.Generator().manual_seed(seed)
    count = torch.Size(shape).numel()
    most = 2 if name == "bool" else 256
    raw = torch.randint(0, most, (count * dtype.itemsize,), dtype=torch.uint8, generator=generator)
    return raw.view(dtype).reshape(shape)


def random_tensors(seed):
    return {f"{name}.{'x'.join(map(str, shape))}": random_tensor(seed + i, name, shape)
            for name in DTYPES for i, shape in enumerate(SHAPES)}  # fmt: skip


def flattened(value, path=()):
    """{name: tensor} of nested dicts, lists and tuples, named as we name them."""
    if isinstance(value, torch.Tensor):
        return {".".join(path): value}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    found = {}
    for key, item in items:
        found.update(flattened(item, (*path, str(key))))
    return found


class Torch(peer.Scratch):
    def saved(self, name, value, **options):
        torch.save(value, self.path(name), **options)
        return self.path(name)

    def loaded(self, path):
        """The object of the file, which is the same in each way of loading."""
        plain = torch.load(path, weights_only=True)
        expected = {name: facts(tensor) for name, tensor in flattened(plain).items()}
        others = [torch.load(path, weights_only=True, mmap=True)]
        with config.patch("load.calculate_storage_offsets", True):
            others.append(torch.load(path, weights_only=True))
            others.append(torch.load(path, weights_only=True, mmap=True))
        for other in others:
            self.assertEqual(list(flattened(other)), list(expected))
            self.assert_same({name: facts(tensor) for name, tensor in flattened(other).items()}, expected)
        if not any(tensor.is_quantized for tensor in flattened(plain).values()):  # PyTorch makes none of these on meta
            meta = torch.load(path, weights_only=True, map_location="meta")
            self.assertEqual({name: tensor.shape for name, tensor in flattened(meta).items()},
                             {name: tensor.shape for name, tensor in flattened(plain).items()})  # fmt: skip
        return plain

    def assert_listed(self, path, tensors):
        listed = ours.listing(path)
        self.assertEqual(
            {name: (one["dtype"], tuple(one["shape"]), one["crc32"]) for name, one in listed.items()},
            {name: (kind, shape, f"{zlib.crc32(data):08x}")
             for name, (kind, shape, data) in ((name, facts(tensor)) for name, tensor in tensors.items())},
        )  # fmt: skip
        ours.tool("verify", path)

    def test_it_writes_every_dtype(self):
        tensors = random_tensors(1)
        for options in ({}, {"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}):
            path = self.saved("theirs.pt", tensors, **options)
            if "_use_new_zipfile_serialization" not in options:
                self.assert_listed(path, tensors)
            else:
                self.assertEqual(sorted(ours.listing(path)), sorted(tensors))
            peer.carried(TORCH, "it writes, we read", len(tensors))

    def test_we_write_every_dtype(self):
        tensors = random_tensors(2)
        items = [ours.Stored(name.encode(), *facts(tensor)) for name, tensor in tensors.items()]
        ours.write(self.path("ckpt"), items)
        ours.convert(self.path("ckpt"), self.path("ours.pt"))
        self.assert_listed(self.path("ours.pt"), tensors)
        loaded = self.loaded(self.path("ours.pt"))
        self.assertIs(type(loaded), dict)
        self.assert_same({name: facts(tensor) for name, tensor in loaded.items()},
                         {name: facts(tensor) for name, tensor in tensors.items()})  # fmt: skip
        peer.carried(TORCH, "we write, it reads", len(tensors))

    def test_debug_mode(self):
        """With this variable PyTorch compares the places that it computes with those that the file has."""
        ours.convert(self.saved("theirs.pt", random_tensors(3)), self.path("ours.pt"))
        script = "import sys, torch; torch.load(sys.argv[1], weights_only=True)"
        done = subprocess.run([sys.executable, "-c", script, self.path("ours.pt")], capture_output=True, text=True,
                              check=False, env={**os.environ, "TORCH_SERIALIZATION_DEBUG": "1"})  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_large(self):
        """Storages that are written piece by piece, with their checksum behind them."""
        tensors = {"large": random_tensor(5, "float32", (700, 1024)), "small": random_tensor(6, "int8", (3,))}
        ours.convert(self.saved("theirs.pt", tensors), self.path("ours.pt"))
        self.assert_listed(self.path("ours.pt"), tensors)
        self.assert_same({name: facts(tensor) for name, tensor in self.loaded(self.path("ours.pt")).items()},
                         {name: facts(tensor) for name, tensor in tensors.items()})  # fmt: skip
        peer.carried(TORCH, "we write, it reads", len(tensors))

    def test_a_model_with_ties(self):
        """The state of a model and its optimizer comes back: nested, tied, in its order of axes, ready to train on."""
        torch.manual_seed(4)
        model = torch.nn.Sequential(
            collections.OrderedDict(embed=torch.nn.Embedding(5, 4), conv=torch.nn.Conv2d(4, 4, 3),
                                    head=torch.nn.Linear(4, 5, bias=False), norm=torch.nn.BatchNorm2d(4))
        )  # fmt: skip
        model.head.weight = model.embed.weight
        model.conv.to(memory_format=torch.channels_last)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        sum(parameter.sum() for parameter in model.parameters()).backward()
        optimizer.step()
        checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 12,
                      "parameter": model.conv.weight}  # fmt: skip
        path = self.saved("theirs.pt", checkpoint)
        self.assert_listed(path, flattened(checkpoint))
        ours.convert(path, self.path("ours.pt"))
        again = self.loaded(self.path("ours.pt"))
        self.assert_same({name: facts(tensor) for name, tensor in flattened(again).items()},
                         {name: facts(tensor) for name, tensor in flattened(checkpoint).items()})  # fmt: skip
        weights = again["model"]
        self.assertEqual(weights["embed.weight"].data_ptr(), weights["head.weight"].data_ptr())
        self.assertEqual(weights["conv.weight"].stride(), model.conv.weight.stride())
        self.assertTrue(again["parameter"].requires_grad)
        self.assertFalse(weights["conv.weight"].requires_grad)
        self.assertEqual(again["epoch"], 12)
        self.assertEqual(again["optimizer"]["param_groups"], checkpoint["optimizer"]["param_groups"])
        model.load_state_dict(weights)
        optimizer.load_state_dict(again["optimizer"])
        # Without the optimizer, and flat.
        ours.convert(self.path("ours.pt"), self.path("model.pt"), "--include=model.*", "--rename=s/^model[.]//")
        model.load_state_dict(self.loaded(self.path("model.pt")))
        peer.carried(TORCH, "it writes, we write, it reads", 2 * len(flattened(checkpoint)))

    def test_quantized(self):
        numbers = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        scales = torch.tensor([0.1, 0.2, 0.25], dtype=torch.float64)
        tensors = {
            "one": torch.quantize_per_tensor(numbers, 0.1, 3, torch.quint8),
            "wide": torch.quantize_per_tensor(numbers, 1e-3, -7, torch.qint32),
            "channels": torch.quantize_per_channel(numbers, scales, torch.tensor([0, 1, -2]), 1, torch.qint8),
            "floats": torch.quantize_per_channel(numbers, scales.float(), torch.tensor([1.5, 0.0, 2.0]), 1, torch.quint8),
        }
        tensors["tied"] = tensors["channels"]
        ours.convert(self.saved("theirs.pt", tensors), self.path("ours.pt"))
        again = self.loaded(self.path("ours.pt"))
        for name, tensor in tensors.items():
            with self.subTest(name):
                self.assertEqual(again[name].qscheme(), tensor.qscheme())
                self.assertTrue(torch.equal(again[name].int_repr(), tensor.int_repr()))
                if "channel" in str(tensor.qscheme()):
                    for of in ("q_per_channel_scales", "q_per_channel_zero_points"):
                        self.assertTrue(torch.equal(getattr(again[name], of)(), getattr(tensor, of)()), of)
                    self.assertEqual(again[name].q_per_channel_axis(), tensor.q_per_channel_axis())
                else:
                    self.assertEqual((again[name].q_scale(), again[name].q_zero_point()),
                                     (tensor.q_scale(), tensor.q_zero_point()))  # fmt: skip
        self.assertEqual(again["tied"].data_ptr(), again["channels"].data_ptr())
        peer.carried(TORCH, "it writes, we write, it reads", len(tensors))

    def test_values(self):
        shared = [1, 2]
        values = {
            "numbers": [0, 1, 255, 256, 65535, 65536, -1, 2**31, -(2**63), 2**64 - 1, 2**200, -(2**200), 0.1, 1e300,
                        float("inf"), True, False, None, 1 - 2j],
            "texts": ["", "größe\n", "a" * 300],
            "tuple": (1, ("two", [3])),
            "set": {"a", 1, (2, 3)},
            "bytes": bytearray(range(256)),
            "size": torch.Size([2, 3]),
            "device": torch.device("cuda", 1),
            "dtype": torch.bfloat16,
            "shared": (shared, shared),
            "empty": [(), [], {}, set(), torch.Size([])],
            "keys": {1: "int", (1, "a"): "tuple", True: "bool", 0.5: "float", "a.b": "dot"},
            "tensor": torch.arange(3),
        }  # fmt: skip
        ours.convert(self.saved("theirs.pt", values), self.path("ours.pt"))
        again = self.loaded(self.path("ours.pt"))
        self.assertEqual(bytes(again["bytes"]), bytes(values["bytes"]))
        for key in values:
            if key not in ("bytes", "tensor"):
                self.assertEqual(again[key], values[key], key)
                self.assertIs(type(again[key]), type(values[key]), key)
        self.assertEqual(list(map(type, again["numbers"])), list(map(type, values["numbers"])))
        peer.carried(TORCH, "it writes values, we write, it reads", len(values))

    def test_other_roots(self):
        for value in (torch.arange(4.0), [torch.arange(2), 7, torch.zeros(1)], (torch.ones(2), {"a": torch.ones(1)})):
            with self.subTest(type(value)):
                ours.convert(self.saved("theirs.pt", value), self.path("ours.pt"), "--overwrite")
                again = torch.load(self.path("ours.pt"), weights_only=True)
                self.assertIs(type(again), type(value))
                self.assertEqual({name: facts(tensor) for name, tensor in flattened(again).items()},
                                 {name: facts(tensor) for name, tensor in flattened(value).items()})  # fmt: skip

    def test_an_edit(self):
        value = {"model": {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(1)}, "epoch": 3}
        path = self.saved("m.pt", value)
        ours.tool("edit", path, "--rename=s/model[.]a/w/", "--remove=model.b", "--set=note=größe")
        again = self.loaded(path)
        self.assertEqual(set(again), {"epoch", "w"})
        self.assertEqual(facts(again["w"]), facts(value["model"]["a"]))
        self.assertEqual(json.loads(ours.tool("ls", "--json", path))["metadata"], {"note": "größe"})

    @unittest.skipUnless(shutil.which("g++"), "no compiler")
    def test_pickle_load(self):
        """C++ of PyTorch reads our files without Python: tensors, tied ones, and numbers."""
        old = {name: tensor for name, tensor in random_tensors(7).items() if not name.startswith(("float8", "uint", "e"))}
        old.update({name: tensor for name, tensor in random_tensors(7).items() if name.startswith("uint8")})
        old["tied"] = old["float32.2x3"]
        path = self.saved("theirs.pt", {**old, "epoch": 3, "large": 2**40, "lr": 0.5, "text": "a"})
        ours.convert(path, self.path("ours.pt"))
        peer.write_file(self.path("load.cc"), PICKLE_LOAD.encode())
        root = os.path.dirname(torch.__file__)
        subprocess.run(
            ["g++", "-std=c++20", "-O0", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
             f"-I{root}/include", f"-I{root}/include/torch/csrc/api/include", self.path("load.cc"), "-o",
             self.path("load"), f"-L{root}/lib", f"-Wl,-rpath,{root}/lib", "-ltorch_cpu", "-lc10"],
            check=True,
        )  # fmt: skip
        printed = subprocess.run([self.path("load"), self.path("ours.pt")], capture_output=True, text=True, check=False)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        lines = dict(line.split(" ", 1) for line in printed.stdout.splitlines())
        self.assertEqual([lines[key] for key in ("epoch", "large", "lr", "text")], ["3", str(2**40), "0.5", "a"])
        for name, tensor in old.items():
            _, _, *data = lines[name].replace(", ", ",").split(" ")
            self.assertEqual(bytes(map(int, data[0].split(","))) if data else b"", data_of(tensor), name)
        peer.carried(TORCH, "we write, its C++ reads", len(old))


class Inert:
    """What a class or function of another library is while PyTorch loads a file."""

    def __init__(self, *_arguments, **_names):
        pass

    def __setstate__(self, state):
        pass

    def __setitem__(self, key, value):
        pass

    def append(self, item):
        pass


class InertPickle:
    """A pickle module for torch.load that makes tensors and plain containers, and Inert of all else."""

    class Unpickler(pickle.Unpickler):
        def find_class(self, module, name):
            plain = (module, name) in {("collections", "OrderedDict"), ("collections", "defaultdict"),
                                       ("builtins", "dict"), ("builtins", "set"), ("__builtin__", "set")}  # fmt: skip
            return super().find_class(module, name) if plain or module.split(".")[0] == "torch" else Inert

    @classmethod
    def load(cls, file, **options):
        return cls.Unpickler(file, **options).load()


def published_models():
    """Files of torch.save that others have published: those of the test data, and what TENSORCASK_PUBLISHED_MODELS lists."""
    real = os.path.join(os.environ.get("TENSORCASK_TEST_DATA", ""), "pytorch", "real")
    paths = [os.path.join(real, name) for name in sorted(os.listdir(real))] if os.path.isdir(real) else []
    return paths + [path for path in os.environ.get("TENSORCASK_PUBLISHED_MODELS", "").split(":") if path]


def key_of_tie(tensor):
    """Equal for names of the same elements."""
    whole = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.dtype, tensor.shape, tensor.stride())
    return whole if tensor.numel() > 0 else id(tensor)


class Published(peer.Scratch):
    def theirs(self, path):
        """{name: tensor} as PyTorch loads the file; None for what it does not load, or for no dict."""
        try:
            value = torch.load(path, weights_only=True, map_location="cpu")
        except Exception:  # what PyTorch's safe mode refuses
            try:
                value = torch.load(path, weights_only=False, map_location="cpu", pickle_module=InertPickle)
            except Exception:  # TorchScript, or no file of torch.save
                return None
        tensors = flattened(value) if isinstance(value, dict) else {}
        plain = all(not tensor.is_quantized and tensor.layout == torch.strided for tensor in tensors.values())
        return tensors if tensors and plain else None

    def assert_converted(self, path, tensors):
        """Our file of safetensors has what safetensors' own program would have: the elements, once for tied names."""
        target = self.path("ours.safetensors")
        ours.convert(path, target, "--overwrite", "--opaque-objects", "--allow-loss")
        stored = safetensors.torch.load_file(target)
        with safetensors.safe_open(target, "pt") as file:
            metadata = file.metadata()
        ties = {}
        for name, tensor in tensors.items():
            kept = name if name in stored else metadata[name]
            self.assertEqual(facts(stored[kept]), facts(tensor), name)
            ties.setdefault(key_of_tie(tensor), set()).add(kept)
        self.assertEqual([len(kept) for kept in ties.values()], [1] * len(stored))  # each tensor is stored once
        theirs = self.path("theirs.safetensors")
        safetensors.torch.save_file({kept: tensors[kept].contiguous().clone() for kept in stored}, theirs)
        self.assert_same({name: facts(tensor) for name, tensor in stored.items()},
                         {name: facts(tensor) for name, tensor in safetensors.torch.load_file(theirs).items()})  # fmt: skip

    def test_published_models(self):
        count = tied = 0
        for path in published_models():
            tensors = self.theirs(path)
            if tensors is None:
                continue
            with self.subTest(path):
                self.assert_converted(path, tensors)
            count += 1
            tied += len(tensors) - len(set(map(key_of_tie, tensors.values())))
            peer.carried(TORCH, "published files, we convert, safetensors reads", len(tensors))
            # The same weights as transformers stores a large model, with a tied name.
            names = list(tensors)
            if len(names) < 4 or not all(len(name) < 200 for name in names):
                continue
            more = {**tensors, "tied.again": tensors[names[0]]}
            parts = [dict(list(more.items())[i::3]) for i in range(3)]
            index = {}
            for i, part in enumerate(parts):
                name = f"pytorch_model-{i + 1:05}-of-00003.bin"
                torch.save({key: tensor.detach().clone() for key, tensor in part.items()}, self.path(name))
                index.update(dict.fromkeys(part, name))
            peer.write_file(self.path("pytorch_model.bin.index.json"),
                            json.dumps({"metadata": {"total_size": 1}, "weight_map": index}).encode())  # fmt: skip
            with self.subTest(path, form="sharded"):
                apart = {name: tensor.detach().clone() for name, tensor in more.items()}
                self.assert_converted(self.path("pytorch_model.bin.index.json"), apart)
            with self.subTest(path, form="tied"):
                torch.save(more, self.path("tied.pt"))
                self.assert_converted(self.path("tied.pt"), more)
        if count == 0:
            self.skipTest("no published models: TENSORCASK_TEST_DATA or TENSORCASK_PUBLISHED_MODELS names them")
        peer.found(f"published files of torch.save that equal PyTorch's: {count}, with {tied} tied names")


if __name__ == "__main__":
    unittest.main()
