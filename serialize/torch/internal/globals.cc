#include "tensorcask/serialize/torch/internal/globals.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tensorcask::torch {
namespace {

// Sorted by name.
constexpr Global kGlobals[] = {
    {"_codecs.encode", GlobalUse::kEncode},
    {"argparse.Namespace", GlobalUse::kPlainObject},
    {"builtins.bool", GlobalUse::kTensorClass},
    {"builtins.bytearray", GlobalUse::kBytes},
    {"builtins.bytes", GlobalUse::kBytes},
    {"builtins.complex", GlobalUse::kComplex},
    {"builtins.dict", GlobalUse::kTensorClass},
    {"builtins.float", GlobalUse::kTensorClass},
    {"builtins.frozenset", GlobalUse::kSet},
    {"builtins.int", GlobalUse::kTensorClass},
    {"builtins.list", GlobalUse::kTensorClass},
    {"builtins.set", GlobalUse::kSet},
    {"builtins.str", GlobalUse::kTensorClass},
    {"builtins.tuple", GlobalUse::kTensorClass},
    {"collections.Counter", GlobalUse::kCounter},
    {"collections.OrderedDict", GlobalUse::kDict},
    {"collections.defaultdict", GlobalUse::kDefaultDict},
    {"collections.deque", GlobalUse::kDeque},
    {"datetime.date", GlobalUse::kPlainObject},
    {"datetime.datetime", GlobalUse::kPlainObject},
    {"datetime.time", GlobalUse::kPlainObject},
    {"datetime.timedelta", GlobalUse::kPlainObject},
    {"datetime.timezone", GlobalUse::kPlainObject},
    {"numpy._core.multiarray._reconstruct", GlobalUse::kNumpyReconstruct},
    {"numpy._core.multiarray.scalar", GlobalUse::kNumpyScalar},
    {"numpy._core.numeric._frombuffer", GlobalUse::kNumpyFromBuffer},
    {"numpy.core.multiarray._reconstruct", GlobalUse::kNumpyReconstruct},
    {"numpy.core.multiarray.scalar", GlobalUse::kNumpyScalar},
    {"numpy.core.numeric._frombuffer", GlobalUse::kNumpyFromBuffer},
    {"numpy.dtype", GlobalUse::kNumpyDType},
    {"numpy.ndarray", GlobalUse::kNumpyArrayClass},
    {"pathlib.Path", GlobalUse::kPath},
    {"pathlib.PosixPath", GlobalUse::kPath},
    {"pathlib.PurePath", GlobalUse::kPath},
    {"pathlib.PurePosixPath", GlobalUse::kPath},
    {"pathlib.PureWindowsPath", GlobalUse::kPath},
    {"pathlib.WindowsPath", GlobalUse::kPath},
    {"pathlib._local.Path", GlobalUse::kPath},
    {"pathlib._local.PosixPath", GlobalUse::kPath},
    {"pathlib._local.PurePath", GlobalUse::kPath},
    {"pathlib._local.PurePosixPath", GlobalUse::kPath},
    {"pathlib._local.PureWindowsPath", GlobalUse::kPath},
    {"pathlib._local.WindowsPath", GlobalUse::kPath},
    {"torch.BFloat16Storage", GlobalUse::kStorage, DType::kBfloat16, 2},
    {"torch.BFloat16Tensor", GlobalUse::kTensorClass},
    {"torch.BoolStorage", GlobalUse::kStorage, DType::kBool, 1},
    {"torch.BoolTensor", GlobalUse::kTensorClass},
    {"torch.ByteStorage", GlobalUse::kStorage, DType::kUint8, 1},
    {"torch.ByteTensor", GlobalUse::kTensorClass},
    {"torch.CharStorage", GlobalUse::kStorage, DType::kInt8, 1},
    {"torch.CharTensor", GlobalUse::kTensorClass},
    {"torch.ComplexDoubleStorage", GlobalUse::kStorage, DType::kComplex128, 16},
    {"torch.ComplexFloatStorage", GlobalUse::kStorage, DType::kComplex64, 8},
    {"torch.DoubleStorage", GlobalUse::kStorage, DType::kFloat64, 8},
    {"torch.DoubleTensor", GlobalUse::kTensorClass},
    {"torch.FloatStorage", GlobalUse::kStorage, DType::kFloat32, 4},
    {"torch.FloatTensor", GlobalUse::kTensorClass},
    {"torch.HalfStorage", GlobalUse::kStorage, DType::kFloat16, 2},
    {"torch.HalfTensor", GlobalUse::kTensorClass},
    {"torch.IntStorage", GlobalUse::kStorage, DType::kInt32, 4},
    {"torch.IntTensor", GlobalUse::kTensorClass},
    {"torch.LongStorage", GlobalUse::kStorage, DType::kInt64, 8},
    {"torch.LongTensor", GlobalUse::kTensorClass},
    {"torch.QInt32Storage", GlobalUse::kStorage, DType::kQint32, 4},
    {"torch.QInt8Storage", GlobalUse::kStorage, DType::kQint8, 1},
    {"torch.QUInt2x4Storage", GlobalUse::kStorage, DType::kInvalid, 1},
    {"torch.QUInt4x2Storage", GlobalUse::kStorage, DType::kInvalid, 1},
    {"torch.QUInt8Storage", GlobalUse::kStorage, DType::kQuint8, 1},
    {"torch.ShortStorage", GlobalUse::kStorage, DType::kInt16, 2},
    {"torch.ShortTensor", GlobalUse::kTensorClass},
    {"torch.Size", GlobalUse::kSize},
    {"torch.Tensor", GlobalUse::kTensorClass},
    {"torch.UntypedStorage", GlobalUse::kStorage, DType::kUint8, 1},
    {"torch._tensor.Tensor", GlobalUse::kTensorClass},
    {"torch._tensor._rebuild_from_type_v2", GlobalUse::kFromType},
    {"torch._utils._rebuild_device_tensor_from_cpu_tensor", GlobalUse::kFromCpuTensor},
    {"torch._utils._rebuild_device_tensor_from_numpy", GlobalUse::kFromNumpy},
    {"torch._utils._rebuild_meta_tensor_no_storage", GlobalUse::kMeta},
    {"torch._utils._rebuild_parameter", GlobalUse::kParameter},
    {"torch._utils._rebuild_parameter_with_state", GlobalUse::kParameter},
    {"torch._utils._rebuild_qtensor", GlobalUse::kQuantized},
    {"torch._utils._rebuild_sparse_tensor", GlobalUse::kSparse},
    {"torch._utils._rebuild_tensor", GlobalUse::kTensor},
    {"torch._utils._rebuild_tensor_v2", GlobalUse::kTensor},
    {"torch._utils._rebuild_tensor_v3", GlobalUse::kTensorV3},
    {"torch._utils._rebuild_wrapper_subclass", GlobalUse::kWrapper},
    {"torch.bcomplex32", GlobalUse::kDType, DType::kInvalid, 4},
    {"torch.bfloat16", GlobalUse::kDType, DType::kBfloat16, 2},
    {"torch.bits16", GlobalUse::kDType, DType::kInvalid, 2},
    {"torch.bits1x8", GlobalUse::kDType, DType::kInvalid, 1},
    {"torch.bits2x4", GlobalUse::kDType, DType::kInvalid, 1},
    {"torch.bits4x2", GlobalUse::kDType, DType::kInvalid, 1},
    {"torch.bits8", GlobalUse::kDType, DType::kInvalid, 1},
    {"torch.bool", GlobalUse::kDType, DType::kBool, 1},
    {"torch.complex128", GlobalUse::kDType, DType::kComplex128, 16},
    {"torch.complex32", GlobalUse::kDType, DType::kInvalid, 4},
    {"torch.complex64", GlobalUse::kDType, DType::kComplex64, 8},
    {"torch.device", GlobalUse::kDevice},
    {"torch.distributed._mesh_layout._FlatLayout", GlobalUse::kPlainObject},
    {"torch.distributed._mesh_layout._MeshLayout", GlobalUse::kPlainObject},
    {"torch.distributed.device_mesh.DeviceMesh", GlobalUse::kPlainObject},
    {"torch.distributed.tensor.DTensor", GlobalUse::kTensorClass},
    {"torch.distributed.tensor._dtensor_spec.DTensorSpec", GlobalUse::kPlainObject},
    {"torch.distributed.tensor._dtensor_spec.ShardOrderEntry", GlobalUse::kPlainObject},
    {"torch.distributed.tensor._dtensor_spec.TensorMeta", GlobalUse::kPlainObject},
    {"torch.distributed.tensor.placement_types.Partial", GlobalUse::kPlainObject},
    {"torch.distributed.tensor.placement_types.Replicate", GlobalUse::kPlainObject},
    {"torch.distributed.tensor.placement_types.Shard", GlobalUse::kPlainObject},
    {"torch.distributed.tensor.placement_types._StridedShard", GlobalUse::kPlainObject},
    {"torch.float16", GlobalUse::kDType, DType::kFloat16, 2},
    {"torch.float32", GlobalUse::kDType, DType::kFloat32, 4},
    {"torch.float4_e2m1fn_x2", GlobalUse::kDType, DType::kInvalid, 1},
    {"torch.float64", GlobalUse::kDType, DType::kFloat64, 8},
    {"torch.float8_e4m3fn", GlobalUse::kDType, DType::kFloat8E4m3fn, 1},
    {"torch.float8_e4m3fnuz", GlobalUse::kDType, DType::kFloat8E4m3fnuz, 1},
    {"torch.float8_e5m2", GlobalUse::kDType, DType::kFloat8E5m2, 1},
    {"torch.float8_e5m2fnuz", GlobalUse::kDType, DType::kFloat8E5m2fnuz, 1},
    {"torch.float8_e8m0fnu", GlobalUse::kDType, DType::kFloat8E8m0fnu, 1},
    {"torch.int1", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.int16", GlobalUse::kDType, DType::kInt16, 2},
    {"torch.int2", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.int3", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.int32", GlobalUse::kDType, DType::kInt32, 4},
    {"torch.int4", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.int5", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.int6", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.int64", GlobalUse::kDType, DType::kInt64, 8},
    {"torch.int7", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.int8", GlobalUse::kDType, DType::kInt8, 1},
    {"torch.jit._pickle.build_boollist", GlobalUse::kList},
    {"torch.jit._pickle.build_doublelist", GlobalUse::kList},
    {"torch.jit._pickle.build_intlist", GlobalUse::kList},
    {"torch.jit._pickle.build_tensorlist", GlobalUse::kList},
    {"torch.jit._pickle.restore_type_tag", GlobalUse::kTypeTag},
    {"torch.nn.parameter.Buffer", GlobalUse::kTensorClass},
    {"torch.nn.parameter.Parameter", GlobalUse::kTensorClass},
    {"torch.per_channel_affine", GlobalUse::kScheme},
    {"torch.per_channel_affine_float_qparams", GlobalUse::kScheme},
    {"torch.per_channel_symmetric", GlobalUse::kScheme},
    {"torch.per_tensor_affine", GlobalUse::kScheme},
    {"torch.per_tensor_symmetric", GlobalUse::kScheme},
    {"torch.qint32", GlobalUse::kDType, DType::kQint32, 4},
    {"torch.qint8", GlobalUse::kDType, DType::kQint8, 1},
    {"torch.quint2x4", GlobalUse::kDType, DType::kInvalid, 1},
    {"torch.quint4x2", GlobalUse::kDType, DType::kInvalid, 1},
    {"torch.quint8", GlobalUse::kDType, DType::kQuint8, 1},
    {"torch.serialization._get_layout", GlobalUse::kLayout},
    {"torch.storage.TypedStorage", GlobalUse::kTensorClass},
    {"torch.storage.UntypedStorage", GlobalUse::kStorage, DType::kUint8, 1},
    {"torch.storage._UntypedStorage", GlobalUse::kStorage, DType::kUint8, 1},
    {"torch.uint1", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.uint16", GlobalUse::kDType, DType::kUint16, 2},
    {"torch.uint2", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.uint3", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.uint32", GlobalUse::kDType, DType::kUint32, 4},
    {"torch.uint4", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.uint5", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.uint6", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.uint64", GlobalUse::kDType, DType::kUint64, 8},
    {"torch.uint7", GlobalUse::kDType, DType::kInvalid, 0},
    {"torch.uint8", GlobalUse::kDType, DType::kUint8, 1},
};

// Classes of the .metadata file of a distributed checkpoint. Sorted by name.
constexpr Global kMetadataGlobals[] = {
    {"builtins.getattr", GlobalUse::kGetAttr},
    {"torch.distributed.checkpoint.filesystem._StorageInfo", GlobalUse::kPlainObject},
    {"torch.distributed.checkpoint.metadata.BytesStorageMetadata", GlobalUse::kPlainObject},
    {"torch.distributed.checkpoint.metadata.ChunkStorageMetadata", GlobalUse::kPlainObject},
    {"torch.distributed.checkpoint.metadata.Metadata", GlobalUse::kPlainObject},
    {"torch.distributed.checkpoint.metadata.MetadataIndex", GlobalUse::kPlainObject},
    {"torch.distributed.checkpoint.metadata.StorageMeta", GlobalUse::kPlainObject},
    {"torch.distributed.checkpoint.metadata.TensorProperties", GlobalUse::kPlainObject},
    {"torch.distributed.checkpoint.metadata.TensorStorageMetadata", GlobalUse::kPlainObject},
    {"torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING", GlobalUse::kEnumClass},
};

// Modules and functions that a harmful pickle names; the first match counts. A name that ends with a dot is that of a
// module.
struct Harm {
  absl::string_view name;
  absl::string_view what;
};
constexpr Harm kHarms[] = {
    {"os.", "would run a program, or change files"},
    {"posix.", "would run a program, or change files"},
    {"nt.", "would run a program, or change files"},
    {"subprocess.", "would run a program"},
    {"pty.", "would run a program"},
    {"commands.", "would run a program"},
    {"asyncio.subprocess.", "would run a program"},
    {"shutil.", "would change files"},
    {"builtins.eval", "would run Python code"},
    {"builtins.exec", "would run Python code"},
    {"builtins.execfile", "would run Python code"},
    {"builtins.compile", "would compile Python code"},
    {"builtins.__import__", "would load a module"},
    {"builtins.getattr", "would reach any function"},
    {"builtins.open", "would open a file"},
    {"io.open", "would open a file"},
    {"importlib.", "would load a module"},
    {"runpy.", "would run Python code"},
    {"pickle.", "would obey another pickle"},
    {"_pickle.", "would obey another pickle"},
    {"cPickle.", "would obey another pickle"},
    {"dill.", "would obey another pickle"},
    {"cloudpickle.", "would obey another pickle"},
    {"joblib.", "would obey another pickle"},
    {"marshal.", "would make Python code"},
    {"types.", "would make Python code"},
    {"ctypes.", "would call machine code"},
    {"socket.", "would use the network"},
    {"urllib.", "would use the network"},
    {"requests.", "would use the network"},
    {"http.", "would use the network"},
    {"webbrowser.", "would open a browser"},
    {"sys.", "would change the running Python"},
    {"operator.", "would reach any function"},
    {"functools.", "would call another function"},
    {"torch.storage._load_from_bytes", "would obey another pickle"},
    {"torch.load", "would obey another pickle"},
    {"torch.hub.", "would download and run code"},
};

constexpr int Compare(absl::string_view a, absl::string_view b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return a.size() == b.size() ? 0 : a.size() < b.size() ? -1 : 1;
}

template <size_t kCount>
constexpr bool IsSorted(const Global (&table)[kCount]) {
  for (size_t i = 1; i < kCount; ++i) {
    if (Compare(table[i - 1].name, table[i].name) >= 0) return false;
  }
  return true;
}
static_assert(IsSorted(kGlobals) && IsSorted(kMetadataGlobals), "Find searches by halves");

template <size_t kCount>
const Global* Find(const Global (&table)[kCount], absl::string_view name) {
  const Global* const found = std::lower_bound(std::begin(table), std::end(table), name,
                                               [](const Global& a, absl::string_view b) { return a.name < b; });
  return found != std::end(table) && found->name == name ? found : nullptr;
}

}  // namespace

const Global* FindGlobal(absl::string_view name) {
  constexpr absl::string_view kCuda = "torch.cuda.";
  std::string on_host;
  if (absl::StartsWith(name, kCuda) && (absl::EndsWith(name, "Storage") || absl::EndsWith(name, "Tensor"))) {
    on_host = absl::StrCat("torch.", name.substr(kCuda.size()));
    name = on_host;
  }
  return Find(kGlobals, name);
}

const Global* FindMetadataGlobal(absl::string_view name) {
  if (const Global* const own = Find(kMetadataGlobals, name); own != nullptr) return own;
  const Global* const shared = Find(kGlobals, name);
  if (shared == nullptr) return nullptr;
  switch (shared->use) {
    case GlobalUse::kDType:
    case GlobalUse::kLayout:
    case GlobalUse::kSize:
    case GlobalUse::kPath:
    case GlobalUse::kDict:
      return shared;
    default:
      return nullptr;
  }
}

const Global* FindGlobalOf(GlobalUse use, DType dtype) {
  const Global* const found = std::find_if(std::begin(kGlobals), std::end(kGlobals), [&](const Global& global) {
    return global.use == use && global.dtype == dtype;
  });
  return found == std::end(kGlobals) || dtype == DType::kInvalid ? nullptr : found;
}

absl::string_view WhatItWouldDo(absl::string_view name) {
  for (const Harm& harm : kHarms) {
    if (harm.name.back() == '.' ? absl::StartsWith(name, harm.name) : name == harm.name) return harm.what;
  }
  return "";
}

}  // namespace tensorcask::torch
