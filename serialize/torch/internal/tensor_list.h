// The list of the tensors of a file.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_TENSOR_LIST_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_TENSOR_LIST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/torch/internal/torch_file.h"
#include "tensorcask/serialize/torch/torch_reader.h"

namespace tensorcask::torch {

struct TensorSource {
  size_t part = 0;  // a position in TorchFile::parts
  Ref object = kNoRef;
  uint64_t begin = 0;  // where its first element begins, in bytes of its storage
};

struct TensorList {
  bool has_names = true;
  std::vector<TorchEntry> entries;    // sorted by name
  std::vector<TensorSource> sources;  // for each entry
};

// Errors: those of FindTensors, naming the file; Unimplemented if two tensors would have one name in either form.
absl::StatusOr<TensorList> ListTensors(const TorchFile& file, const DecodeLimits& limits, ListingBudget* budget);

// Sentences about what is unusual in the file as a whole: opaque classes, attributes that are left out, and bytes that
// no tensor has.
std::vector<std::string> NotesOf(const TorchFile& file, const TensorList& list);

// TorchReader::NotWritten.
std::vector<std::string> NotWritten(const TorchFile& file, const TensorList& list);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_TENSOR_LIST_H_
