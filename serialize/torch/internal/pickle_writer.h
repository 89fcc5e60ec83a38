// Writes one pickle of protocol 2: values, and tensors with the names of the storages that have their elements.
//
//   SavedTensor w{DType::kFloat32, Layout::RowMajor(TensorShape({2, 3})), /*storage=*/0, /*storage_bytes=*/24};
//   ValueTree values;
//   const auto key = values.AddText("w");
//   values.AddMap({{key, values.AddTensor(0)}});
//   CASK_ASSIGN_OR_RETURN(std::string pickle, WritePickle(values, {w}));   // {"w": tensor of storage "0"}
//
// PyTorch loads it with weights_only, and so does torch::pickle_load of C++: no instruction and no name is used that
// one of them lacks. Values that are in the tree once and have several places are one object of the pickle, too. Equal
// input gives equal bytes; time and memory are linear in it, without recursion.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_WRITER_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::torch {

// How the elements of a quantized tensor become numbers. The numbers of channels are tensors of one axis, in storages
// of their own: float64 and int64, or float32 both if the zero points are floats.
struct SavedQuantizer {
  std::string scheme;  // "torch.per_tensor_affine"
  double scale = 1;
  int64_t zero_point = 0;
  // per_channel: instead of these two
  bool per_channel = false;
  bool floats = false;
  int64_t channels = 0;
  int64_t axis = 0;
  uint64_t scales_storage = 0;
  uint64_t zero_points_storage = 0;
};

struct SavedTensor {
  DType dtype = DType::kInvalid;  // one that CheckSavedDType accepts
  Layout layout;                  // positions in its storage
  uint64_t storage = 0;           // the number that is its key
  uint64_t storage_bytes = 0;     // the size of the whole storage
  bool requires_grad = false;
  std::shared_ptr<SavedQuantizer> quantizer = nullptr;  // for qint8, quint8 and qint32
};

// Errors: Unimplemented for a dtype that PyTorch lacks.
absl::Status CheckSavedDType(DType dtype);

// What a pickle cannot have: objects of classes, arrays that are left in a file, text that is not UTF-8, integers of
// more than 255 bytes, and lists, sets and maps as keys or in sets. Does not look at what is in `value`. Errors:
// InvalidArgument, saying what it is.
absl::Status CheckPickled(Value value);

// The root of the tree, in which the tensor of number i is tensors[i]. Errors: those of CheckPickled, for any value of
// the tree. Requires: !values.empty(), and the tree has no other numbers of tensors.
absl::StatusOr<std::string> WritePickle(const ValueTree& values, absl::Span<const SavedTensor> tensors);

// A dict of texts. Errors: InvalidArgument for text that is not UTF-8.
absl::StatusOr<std::string> WriteTexts(const std::map<std::string, std::string>& texts);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_WRITER_H_
