// The names that a pickle may use, and what each stands for here. A pickle names functions and classes of Python, and a
// program that obeys it calls them. This reader calls nothing: a name that is not in this table is refused, and one
// that is becomes data.
//
//   const Global* global = FindGlobal("torch.FloatStorage");   // {kStorage, float32}
//   WhatItWouldDo("posix.system");                             // "would run a program"

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_GLOBALS_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_GLOBALS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::torch {

enum class GlobalUse : uint8_t {
  kUnknown,           // not in the table: only with opaque objects
  kStorage,           // a class of storages, whose elements have the dtype
  kDType,             // torch.float32
  kScheme,            // torch.per_tensor_affine
  kTensorClass,       // torch.Tensor: an argument, never called
  kTensor,            // _rebuild_tensor and _rebuild_tensor_v2
  kTensorV3,          // _rebuild_tensor_v3
  kParameter,         // _rebuild_parameter, with or without state
  kQuantized,         // _rebuild_qtensor
  kSparse,            // _rebuild_sparse_tensor
  kMeta,              // _rebuild_meta_tensor_no_storage
  kWrapper,           // _rebuild_wrapper_subclass
  kFromType,          // _rebuild_from_type_v2
  kFromCpuTensor,     // _rebuild_device_tensor_from_cpu_tensor
  kFromNumpy,         // _rebuild_device_tensor_from_numpy
  kLayout,            // torch.serialization._get_layout
  kSize,              // torch.Size
  kDevice,            // torch.device
  kDict,              // OrderedDict
  kCounter,           // Counter
  kDefaultDict,       // the factory, then as OrderedDict
  kDeque,             // deque
  kList,              // lists of TorchScript
  kSet,               // set, frozenset
  kComplex,           // complex
  kBytes,             // bytearray, bytes
  kEncode,            // _codecs.encode: bytes that protocol 2 writes as text
  kTypeTag,           // torch.jit._pickle.restore_type_tag: a value and the name of its type
  kNumpyDType,        // numpy.dtype
  kNumpyArrayClass,   // numpy.ndarray
  kNumpyReconstruct,  // numpy's _reconstruct
  kNumpyFromBuffer,   // numpy's _frombuffer, of protocol 5
  kNumpyScalar,       // numpy's scalar
  kPath,              // pathlib.PosixPath
  kPlainObject,       // a class of plain values: argparse.Namespace; and the modules of TorchScript
  kEnumClass,         // a class of plain values whose members pickles may name, too
  kGetAttr,           // builtins.getattr, only ever called: with a class of enum members and the name of one
};

struct Global {
  absl::string_view name;  // the module and the name in it, joined with "."
  GlobalUse use = GlobalUse::kUnknown;
  // kStorage: kInvalid for elements that this library has no dtype for. kDType: the same.
  DType dtype = DType::kInvalid;
  uint8_t element_bytes = 0;  // kStorage and kDType; 0: not known
};

// The row of the table with this name; null if there is none. "torch.cuda.FloatStorage" is "torch.FloatStorage".
const Global* FindGlobal(absl::string_view name);
// The same of the second, smaller table: what the .metadata file of a distributed checkpoint may name. Those are its
// classes, sizes, dtypes, layouts and paths; nothing in it makes a tensor. Python 3.11.2 writes a member of an enum as
// getattr(CLASS, NAME), most versions as CLASS(NUMBER), so the table has kGetAttr for its one enum.
const Global* FindMetadataGlobal(absl::string_view name);
// The first row of this use and dtype: torch.ByteStorage for kStorage and uint8. Null if there is none.
const Global* FindGlobalOf(GlobalUse use, DType dtype);

// What a program that obeyed the pickle would do with this name: "would run a program", or "" if that is not known.
absl::string_view WhatItWouldDo(absl::string_view name);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_GLOBALS_H_
