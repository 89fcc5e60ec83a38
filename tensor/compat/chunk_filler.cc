#include "tensorcask/tensor/compat/chunk_filler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/compat/resizable.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

std::string ToString(ChunkFiller::Range range) { return absl::StrCat("[", range.begin, ", ", range.end, ")"); }

}  // namespace

absl::StatusOr<ChunkFiller> ChunkFiller::Create(ResizableTensor* tensor, DType dtype, size_t max_ranges) {
  CASK_RETURN_IF_ERROR(tensor->MutableRawData(dtype).status());
  CASK_ASSIGN_OR_RETURN(Tensor shared, tensor->ToTensor());
  return ChunkFiller(std::move(shared), max_ranges);
}

absl::Status ChunkFiller::CheckOpen() const {
  return finished_ ? absl::FailedPreconditionError("the chunk filler is finished") : absl::OkStatus();
}

absl::Status ChunkFiller::CheckDType(DType dtype) const {
  CASK_RETURN_IF_ERROR(CheckOpen());
  if (dtype == tensor_.dtype()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a chunk of ", DTypeName(dtype), " for a tensor of ", DTypeName(tensor_.dtype())));
}

absl::Status ChunkFiller::CheckRange(int64_t begin, size_t count) {
  const int64_t total = tensor_.num_elements();
  if (begin < 0 || !RangeFits(static_cast<uint64_t>(begin), count, static_cast<uint64_t>(total))) {
    return absl::OutOfRangeError(
        absl::StrCat("a chunk of ", count, " elements from number ", begin, " for a tensor of ", total));
  }
  if (count == 0) return absl::OkStatus();
  const Range range = {begin, begin + static_cast<int64_t>(count)};
  const auto after = arrived_.upper_bound(begin);  // the first that begins after `begin`
  const auto before = after == arrived_.begin() ? arrived_.end() : std::prev(after);
  const bool meets_before = before != arrived_.end() && before->second > begin;
  if (meets_before || (after != arrived_.end() && after->first < range.end)) {
    const auto met = meets_before ? before : after;
    return absl::AlreadyExistsError(absl::StrCat("a chunk of elements ", ToString(range), ": of those ",
                                                 ToString({met->first, met->second}), " have arrived before"));
  }
  const bool touches =
      (before != arrived_.end() && before->second == begin) || (after != arrived_.end() && after->first == range.end);
  if (!touches && arrived_.size() >= max_ranges_) {
    return absl::ResourceExhaustedError(absl::StrCat("a chunk of elements ", ToString(range),
                                                     " would be one range more than the ", max_ranges_, " allowed"));
  }
  return tensor_.EnsureMutable();
}

void ChunkFiller::Arrived(Range range) {
  if (range.begin == range.end) return;
  num_missing_ -= range.end - range.begin;
  const auto after = arrived_.upper_bound(range.begin);
  if (after != arrived_.end() && after->first == range.end) {
    range.end = after->second;
    arrived_.erase(after);
  }
  const auto behind = arrived_.upper_bound(range.begin);
  if (behind != arrived_.begin() && std::prev(behind)->second == range.begin) {
    std::prev(behind)->second = range.end;
  } else {
    arrived_.emplace(range.begin, range.end);
  }
}

absl::Status ChunkFiller::WriteBytes(int64_t begin, absl::string_view bytes) {
  CASK_RETURN_IF_ERROR(CheckOpen());
  const size_t element_bytes = tensor_.element_size();
  if (element_bytes == 0) return absl::InvalidArgumentError("a chunk of bytes for a tensor of objects");
  if (bytes.size() % element_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("a chunk of ", bytes.size(), " bytes: ", DTypeName(tensor_.dtype()),
                                                   " takes ", element_bytes, " each"));
  }
  if (tensor_.dtype() == DType::kBool) {
    const auto bad = std::find_if(bytes.begin(), bytes.end(), [](char byte) { return (byte & ~1) != 0; });
    if (bad != bytes.end()) {
      return absl::InvalidArgumentError(absl::StrCat("a chunk of bools: byte ", bad - bytes.begin(), " is ",
                                                     static_cast<int>(static_cast<unsigned char>(*bad))));
    }
  }
  const size_t count = bytes.size() / element_bytes;
  CASK_RETURN_IF_ERROR(CheckRange(begin, count));
  if (count == 0) return absl::OkStatus();
  std::memmove(tensor_.mutable_bytes().data() + static_cast<size_t>(begin) * element_bytes, bytes.data(), bytes.size());
  Arrived({begin, begin + static_cast<int64_t>(count)});
  return absl::OkStatus();
}

std::vector<ChunkFiller::Range> ChunkFiller::Missing(size_t max_ranges) const {
  std::vector<Range> missing;
  int64_t begin = 0;  // where the next missing range begins
  for (const auto& [arrived_begin, arrived_end] : arrived_) {
    if (missing.size() == max_ranges) return missing;
    if (begin < arrived_begin) missing.push_back({begin, arrived_begin});
    begin = arrived_end;
  }
  if (begin < tensor_.num_elements() && missing.size() < max_ranges) {
    missing.push_back({begin, tensor_.num_elements()});
  }
  return missing;
}

absl::StatusOr<Tensor> ChunkFiller::Finish() {
  CASK_RETURN_IF_ERROR(CheckOpen());
  if (!IsComplete()) {
    constexpr size_t kShown = 8;
    std::string text = absl::StrCat(num_missing_, " of ", tensor_.num_elements(), " elements are missing:");
    const std::vector<Range> missing = Missing(kShown + 1);
    for (size_t i = 0; i < missing.size(); ++i) {
      absl::StrAppend(&text, " ", i < kShown ? ToString(missing[i]) : "...");
    }
    return absl::FailedPreconditionError(text);
  }
  finished_ = true;
  arrived_.clear();
  return std::move(tensor_);
}

}  // namespace tensorcask
