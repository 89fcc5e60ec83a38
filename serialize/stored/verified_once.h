// Remembers which storages of a file were read and had the checksum that is stored, so that a reader verifies each of
// them once.
//
//   VerifiedOnce verified;                 // one for each reader
//   options.verified = &verified;          // elements.h asks it, and tells it
//
// Thread-safe.

#ifndef TENSORCASK_SERIALIZE_STORED_VERIFIED_ONCE_H_
#define TENSORCASK_SERIALIZE_STORED_VERIFIED_ONCE_H_

#include <cstdint>
#include <mutex>

#include "absl/container/flat_hash_set.h"

namespace tensorcask::stored {

class VerifiedOnce {
 public:
  // `storage_id`: StoredTensor::storage_id. 0 is never remembered.
  bool Contains(uint64_t storage_id) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ids_.contains(storage_id);
  }
  void Add(uint64_t storage_id) {
    if (storage_id == 0) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    ids_.insert(storage_id);
  }

 private:
  mutable std::mutex mutex_;
  absl::flat_hash_set<uint64_t> ids_;
};

}  // namespace tensorcask::stored

#endif  // TENSORCASK_SERIALIZE_STORED_VERIFIED_ONCE_H_
