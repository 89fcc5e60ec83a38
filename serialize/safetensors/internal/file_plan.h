// Which tensor goes where: the files of a model, their headers, and the offsets of tensors in them. Arithmetic and
// text; no files.

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_FILE_PLAN_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_FILE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::safetensors {

struct PlannedTensor {
  absl::string_view name;  // belongs to the caller, who keeps it
  DType dtype = DType::kInvalid;
  TensorShape shape;
  uint64_t stored_bytes = 0;
  // Set by PlanFiles:
  size_t file = 0;
  uint64_t offset = 0;  // in the file
};

struct PlanOptions {
  uint64_t alignment = 64;
  bool by_alignment = true;  // the reference writer's order of tensors; else that of `tensors`
  bool checksums = true;
  uint64_t max_shard_bytes = 0;                                  // 0: one file
  const std::map<std::string, std::string>* metadata = nullptr;  // for all files; null: none
  std::map<std::string, std::string> aliases;                    // to the tensors they name
};

struct FilePlan {
  std::vector<size_t> tensors;  // numbers, in the order of their data
  std::string header;           // with its length before it; zeros for the digits of the checksums
  uint64_t size_bytes = 0;      // the size of the file
};

// Errors: InvalidArgument, without the file, for a name that no tensor or alias can have.
absl::Status CheckName(absl::string_view name);

// At least one file. Errors: InvalidArgument if a header is larger, or a file is, than the format allows.
absl::StatusOr<std::vector<FilePlan>> PlanFiles(const PlanOptions& options, std::vector<PlannedTensor>* tensors);

// Sets the checksums in plan->header, those of the tensors in the order of their data and its own, and returns their
// digits there, which begin at ChecksumOffset(). Requires: the plan was made with checksums.
absl::string_view SetChecksums(absl::Span<const uint32_t> checksums, FilePlan* plan);
uint64_t ChecksumOffset();  // in the file

// Makes the header `size_bytes` long, with its length before it, by spaces at its end. The file grows by as much, but
// the offsets of the tensors stay as they were. Requires: the header is no longer than that.
void ResizeHeader(uint64_t size_bytes, bool has_checksums, FilePlan* plan);

// "model-00001-of-00003.safetensors" of "model.safetensors". Requires: `path` ends in ".safetensors".
std::string ShardName(absl::string_view path, size_t number, size_t count);

// Whether `suffix` makes the name of a shard of a model's name: "-00001-of-00003.safetensors", and
// "-00001-of-00003-r2.safetensors", as edits call new versions of a shard (shard_files.h).
bool IsShardSuffix(absl::string_view suffix);

// The text of the index. `files` has the name of each file, without a folder.
std::string IndexText(absl::Span<const PlannedTensor> tensors, absl::Span<const std::string> files);

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_FILE_PLAN_H_
