// What the bytes of a stored tensor must prove while they pass by, in order: their checksum, and that bools are 0 or 1.

#ifndef TENSORCASK_SERIALIZE_STORED_INTERNAL_ELEMENT_CHECK_H_
#define TENSORCASK_SERIALIZE_STORED_INTERNAL_ELEMENT_CHECK_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/stored/elements.h"
#include "tensorcask/serialize/stored/stored_tensor.h"

namespace tensorcask::stored {

class ElementCheck {
 public:
  // Compares the checksum only if `verify` is set and there is one, whatever options.verify says. Requires: `tensor`
  // and `options` outlive this.
  ElementCheck(const StoredTensor& tensor, bool verify, const ElementOptions& options);

  // True if the bytes need not pass by.
  bool idle() const { return !verify_ && !bools_; }

  // The next bytes, as they are stored. Bools are made 0 or 1 in place.
  void Check(absl::Span<char> bytes);
  // The next bytes, which are also copied to `to`, in one pass. There is no overlap.
  void Copy(absl::string_view bytes, char* to);
  // What another check, which began after these bytes, found in the next `bytes` bytes.
  void Join(const ElementCheck& next, uint64_t bytes);

  // Tells options.verified if the checksum is right. Errors: DataLoss, without the names of file and tensor.
  absl::Status Finish() const;

 private:
  void CheckBools(absl::Span<char> bytes);

  const StoredTensor& tensor_;
  const ElementOptions& options_;
  const bool verify_;
  const bool bools_;
  uint32_t checksum_ = 0;
  bool has_odd_bools_ = false;
};

}  // namespace tensorcask::stored

#endif  // TENSORCASK_SERIALIZE_STORED_INTERNAL_ELEMENT_CHECK_H_
