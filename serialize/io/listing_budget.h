// The memory that lists of tensors take: of all members of a file, and of all files that share the budget.
//
//   auto budget = std::make_shared<ListingBudget>(limits);
//   budget->AddIndex(header_bytes);                             // stored bytes that describe the tensors
//   CASK_RETURN_IF_ERROR(budget->Charge(sizeof(Entry) + name.size()));   // before the entry is kept
//
// A list may take DecodeLimits::max_memory_beyond_input, and kBytesPerIndexByte bytes more for each stored byte of the
// index (headers, directories): names in an index may be compressed, or be made of parts that many entries share, and
// then little input makes a long list. The lists of all archives with many tensors are charged here
// (ArchiveReaderOptions::listing).

#ifndef TENSORCASK_SERIALIZE_IO_LISTING_BUDGET_H_
#define TENSORCASK_SERIALIZE_IO_LISTING_BUDGET_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "tensorcask/serialize/io/decode_limits.h"

namespace tensorcask {

// Methods are safe from several threads.
class ListingBudget {
 public:
  static constexpr uint64_t kBytesPerIndexByte = 16;

  explicit ListingBudget(const DecodeLimits& limits, uint64_t bytes_per_index_byte = kBytesPerIndexByte)
      : limit_(limits.max_memory_beyond_input), bytes_per_index_byte_(bytes_per_index_byte) {}

  // The lists describe what these bytes of a file say.
  void AddIndex(uint64_t stored_bytes);
  // Errors: ResourceExhausted, and nothing is charged, if all lists together would take more than the budget.
  absl::Status Charge(uint64_t bytes);

 private:
  const int64_t limit_;
  const uint64_t bytes_per_index_byte_;
  std::atomic<uint64_t> index_bytes_{0};
  std::atomic<uint64_t> charged_{0};
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_LISTING_BUDGET_H_
