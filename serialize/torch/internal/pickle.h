// Reads one pickle, of protocols 2 to 5, as data: a closed recognizer that executes nothing.
//
//   CASK_ASSIGN_OR_RETURN(Pickle pickle, ReadPickle(bytes, {}, &quota));
//   const Object& root = pickle.object(pickle.root);
//
// A pickle is a program for a machine with a stack. Here the machine can make only what Object lists: numbers, text,
// containers, storages and tensors, and, if the options allow them, opaque objects that are a name and two values. Any
// other name and any other instruction is an error. Time and memory are linear in the bytes, and all memory is charged
// to the quota before it is used.
//
// Objects are numbered in the order in which the pickle makes them. Several may hold the same object, and a list may
// hold itself: tensor_walk.h finds cycles.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/torch/internal/globals.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::torch {

using Ref = uint32_t;  // the number of an object of a pickle
inline constexpr Ref kNoRef = 0xffffffff;

struct Object {
  enum class Kind : uint8_t {
    kNone,
    kBool,     // integer
    kInt,      // integer
    kUint,     // integer, as uint64_t: above INT64_MAX
    kBigInt,   // text: decimal digits
    kFloat,    // real
    kComplex,  // complexes[index]
    kText,     // text. Equal texts are one object, and so are equal bytes
    kBytes,    // text
    kTuple,    // lists[index]; so are the next three
    kList,     // integer: 1 more than the items that it may have; 0: any number
    kSet,      // no two items are equal
    kSize,
    kDict,        // lists[index]: keys and values in turn; no two keys are equal
    kGlobal,      // globals[index]
    kDevice,      // text
    kStorage,     // views[index]
    kTensor,      // tensors[index]
    kNumpyDType,  // numpy_dtypes[index]
    kNumpyArray,  // numpy_arrays[index]
    kObject,      // instances[index]
  };
  Kind kind = Kind::kNone;
  uint32_t index = 0;
  union {
    int64_t integer = 0;
    double real;
  };
  absl::string_view text;  // in the bytes of the pickle, or in Pickle::made
};

// A block of bytes that the pickle declares: in a zip archive the record data/KEY. Or bytes of the pickle itself.
struct Storage {
  Ref key = kNoRef;               // a text; kNoRef for one in line
  Ref device = kNoRef;            // a text or device: "cpu", "cuda:0"
  DType dtype = DType::kInvalid;  // that of the class of the storage
  uint64_t element_bytes = 0;
  uint64_t num_elements = 0;
  bool in_line = false;
  absl::string_view bytes;  // for one in line, little-endian
};

// A storage, or (in files before version 0.4) a part of it.
struct StorageView {
  uint32_t storage = 0;
  uint64_t offset = 0;  // elements
  uint64_t num_elements = 0;
};

struct PickledTensor {
  enum class Form : uint8_t { kDense, kQuantized, kSparse, kMeta, kWrapper };
  Form form = Form::kDense;
  bool requires_grad = false;
  bool conj = false;
  bool neg = false;
  DType dtype = DType::kInvalid;  // kInvalid: this library has no such dtype
  uint8_t element_bytes = 0;
  uint32_t view = 0;        // for kDense and kQuantized: views[view]
  int64_t offset = 0;       // elements of the dtype, from the start of the view
  Ref dtype_name = kNoRef;  // the global that names the dtype, if the tensor has its own
  Ref size = kNoRef;        // a tuple or Size of integers
  Ref stride = kNoRef;      // the same, and as many
  Ref parts = kNoRef;       // kQuantized: its parameters. kSparse: a tuple of tensors and the size
  Ref layout = kNoRef;      // kSparse: the name of the layout
  Ref state = kNoRef;       // attributes that Python gave the tensor: a dict, or a tuple of a dict and one of slots
};

// An object that is only a name and what the pickle gave it.
struct Instance {
  Ref of = kNoRef;         // the global
  Ref arguments = kNoRef;  // a tuple
  Ref state = kNoRef;
  Ref items = kNoRef;    // a list: of a class derived from list
  Ref entries = kNoRef;  // a dict: of a class derived from dict
};

// The items of a list, in Pickle::list_memory. They stay where they are, until this list gets more.
struct RefList {
  Ref* items = nullptr;
  size_t size = 0;
  size_t capacity = 0;
};

struct NumpyDType {
  DType dtype = DType::kInvalid;  // that of plain numbers; kInvalid: of other elements
  bool big_endian = false;
  absl::string_view name;  // "f4"
};

struct NumpyArray {
  // The dtype of plain numbers: bool, integers, floats, complex numbers. kInvalid: other elements, or not known yet.
  DType dtype = DType::kInvalid;
  Ref size = kNoRef;        // a tuple of integers
  absl::string_view bytes;  // row-major, little-endian
  Ref state = kNoRef;       // for others: a tuple of what the pickle gives the array
};

struct Pickle {
  Ref root = kNoRef;
  size_t size_bytes = 0;  // the size of the pickle; more may follow
  std::vector<Object> objects;
  std::vector<RefList> lists;
  std::vector<std::unique_ptr<Ref[]>> list_memory;  // in few blocks: a tensor has several small lists
  std::vector<std::complex<double>> complexes;
  std::vector<Global> globals;
  std::vector<Storage> storages;
  std::vector<StorageView> views;
  std::vector<PickledTensor> tensors;
  std::vector<Instance> instances;
  std::vector<NumpyDType> numpy_dtypes;
  std::vector<NumpyArray> numpy_arrays;
  std::deque<std::string> made;              // texts that are not in the bytes as such
  uint64_t num_dict_states = 0;              // dicts with attributes, which are left out
  std::vector<std::string> dict_attributes;  // the names of these attributes but "_metadata", each once
  std::vector<std::string> opaque_names;     // the names of the globals outside the table, each once

  const Object& object(Ref ref) const { return objects[ref]; }
  absl::Span<const Ref> items(Ref ref) const {
    const RefList& list = lists[objects[ref].index];
    return {list.items, list.size};
  }
};

struct PickleOptions {
  bool opaque_objects = false;  // a name outside the table becomes an opaque object; else it is refused
  bool torchscript = false;     // names that begin with "__torch__." are modules: plain objects
  bool dcp_metadata = false;    // the names are those of FindMetadataGlobal, and there are no storages
};

// The pickle at the start of `bytes`, which outlive the result. Errors, which name a position: DataLoss if an
// instruction or its operands are wrong or unknown, or a global is not in the table; OutOfRange if the bytes end before
// the pickle does; ResourceExhausted past the quota.
absl::StatusOr<Pickle> ReadPickle(absl::string_view bytes, const PickleOptions& options, DecodeQuota* quota);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_H_
