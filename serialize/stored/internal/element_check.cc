#include "tensorcask/serialize/stored/internal/element_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/bool_bytes.h"
#include "tensorcask/tensor/base/checksum.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::stored {

ElementCheck::ElementCheck(const StoredTensor& tensor, bool verify, const ElementOptions& options)
    : tensor_(tensor),
      options_(options),
      verify_(verify && tensor.checksum.exists()),
      bools_(tensor.dtype == DType::kBool) {}

void ElementCheck::CheckBools(absl::Span<char> bytes) {
  if (AreBools({bytes.data(), bytes.size()})) return;
  has_odd_bools_ = true;
  for (char& byte : bytes) byte = byte != 0 ? 1 : 0;
}

void ElementCheck::Check(absl::Span<char> bytes) {
  if (verify_) {
    checksum_ = ExtendChecksum(tensor_.checksum.kind, checksum_, absl::string_view(bytes.data(), bytes.size()));
  }
  if (bools_) CheckBools(bytes);
}

void ElementCheck::Copy(absl::string_view bytes, char* to) {
  if (verify_) {
    checksum_ = CopyAndExtendChecksum(tensor_.checksum.kind, checksum_, bytes.data(), to, bytes.size());
  } else {
    std::copy(bytes.begin(), bytes.end(), to);
  }
  // Checks the copy, because the copy is used, whatever happens to the source.
  if (bools_) CheckBools(absl::MakeSpan(to, bytes.size()));
}

void ElementCheck::Join(const ElementCheck& next, uint64_t bytes) {
  if (verify_) checksum_ = CombineChecksums(tensor_.checksum.kind, checksum_, next.checksum_, bytes);
  has_odd_bools_ = has_odd_bools_ || next.has_odd_bools_;
}

absl::Status ElementCheck::Finish() const {
  if (verify_) CASK_RETURN_IF_ERROR(CompareChecksum(tensor_, checksum_));
  if (has_odd_bools_ && !options_.accept_odd_bools) {
    return absl::DataLossError(absl::StrCat("a bool is neither 0 nor 1", options_.odd_bools_hint));
  }
  if (verify_ && options_.verified != nullptr) options_.verified->Add(tensor_.storage_id);
  return absl::OkStatus();
}

}  // namespace tensorcask::stored
