// The .metadata file of a distributed checkpoint of PyTorch: which tensors there are, in which boxes, and where the
// bytes of each box are. FORMAT.md section 8.
//
//   CASK_ASSIGN_OR_RETURN(const DcpMetadata metadata, ReadDcpMetadata(bytes, limits, &budget));
//   metadata.tensors[0].boxes[1]     // rows 4 to 6
//   metadata.tensors[0].items[1]     // in __1_0.distcp, from byte 10088 on
//
// The file is a pickle. It is read as data (pickle.h), with a table of names that has no functions.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_DCP_METADATA_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_DCP_METADATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/stored/boxes.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::torch {

// A whole file of torch.save inside another file.
struct DcpItem {
  std::string file;  // as the metadata has it: a relative name
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  std::vector<std::string> transforms;  // "stream.zstd/1": what was done to the bytes, in this order
};

struct DcpTensor {
  std::string name;
  DType dtype = DType::kInvalid;
  TensorShape shape;
  bool requires_grad = false;
  std::vector<stored::Box> boxes;
  std::vector<DcpItem> items;  // one for each box
  absl::Status status;         // why the tensor cannot be read; then there may be no boxes
};

// A value that is not a tensor.
struct DcpObject {
  std::string name;
  DcpItem item;
  absl::Status status;
};

struct DcpMetadata {
  std::vector<DcpTensor> tensors;
  std::vector<DcpObject> objects;
  // The keys and positions on the way to each of them, if the file says it.
  absl::flat_hash_map<std::string, std::vector<PathStep>> paths;
  std::string version;
};

// Makes sure, for each tensor, that its boxes tile its shape and that each has an item whose numbers are not negative;
// what is wrong is the status of that tensor. Errors, which do not name the file: DataLoss if the pickle or its outline
// is wrong, or two tensors have one name; Unimplemented for a class that is not known; ResourceExhausted past a limit.
absl::StatusOr<DcpMetadata> ReadDcpMetadata(absl::string_view bytes, const DecodeLimits& limits, ListingBudget* budget);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_DCP_METADATA_H_
