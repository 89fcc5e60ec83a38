// Counts the decoded bytes or entries of an input, and compares the sum with one of DecodeLimits.
//
//   DecodeQuota quota = DecodeQuota::ForFile(limits);
//   CASK_RETURN_IF_ERROR(quota.Charge(4000));   // before the decoder allocates 4000 bytes
//
//   RESOURCE_EXHAUSTED: decodes to 4000 bytes, besides 1000 before; the limit max_file_decoded_bytes is 4500
//
// Errors do not name the file or tensor: Annotate (tensor/base/status_util.h) adds the name. An error about a limit
// does not mean damage: the input may be whole, and a caller who trusts it can raise the limit.

#ifndef TENSORCASK_SERIALIZE_IO_DECODE_QUOTA_H_
#define TENSORCASK_SERIALIZE_IO_DECODE_QUOTA_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"

namespace tensorcask {

// ResourceExhausted: "WHAT; the limit LIMIT_NAME is LIMIT".
//
//   if (count > limits.max_entries) return PastLimit("has more tensors", "max_entries", limits.max_entries);
absl::Status PastLimit(absl::string_view what, absl::string_view limit_name, int64_t limit);

// A limit as an unsigned number. A negative limit allows nothing.
inline uint64_t LimitOf(int64_t limit) { return limit > 0 ? static_cast<uint64_t>(limit) : 0; }

// Methods are safe from several threads, Reset apart.
class DecodeQuota {
 public:
  // For a size that does not fit 64 bits; no limit allows it.
  static constexpr uint64_t kTooMany = std::numeric_limits<uint64_t>::max();

  // `limit_name` names the field of DecodeLimits, `unit` what is counted; both must outlive this. `backed` is allowed
  // beyond the limit, because that many bytes of the input represent it.
  DecodeQuota(const char* limit_name, int64_t limit, uint64_t backed = 0, const char* unit = "bytes",
              uint64_t charged = 0);

  static DecodeQuota ForFile(const DecodeLimits& limits);  // a quota of max_file_decoded_bytes
  // A quota of max_memory_beyond_input. `backed` bytes are not unbacked; `charged` bytes count from the start, whatever
  // the limit.
  static DecodeQuota ForUnbacked(const DecodeLimits& limits, uint64_t backed = 0, uint64_t charged = 0);

  // Adds `amount`. Errors: ResourceExhausted, and nothing is added, if the sum would pass the limit.
  absl::Status Charge(uint64_t amount) {
    uint64_t before = charged_.load(std::memory_order_relaxed);
    do {
      if (before > allowed_ || amount > allowed_ - before) return Refuse(amount, before);
    } while (amount > 0 && !charged_.compare_exchange_weak(before, before + amount, std::memory_order_relaxed));
    return absl::OkStatus();
  }
  // Subtracts `amount`: the memory was freed. Requires: so much was charged.
  void Release(uint64_t amount) { charged_.fetch_sub(amount, std::memory_order_relaxed); }

  uint64_t charged() const { return charged_.load(std::memory_order_relaxed); }
  void Reset() { charged_.store(0, std::memory_order_relaxed); }

 private:
  absl::Status Refuse(uint64_t amount, uint64_t before) const;  // the error

  const char* limit_name_;
  const char* unit_;
  int64_t limit_;
  uint64_t backed_;
  uint64_t allowed_;  // the limit and what is backed, below kTooMany
  std::atomic<uint64_t> charged_{0};
};

// Bytes that stay charged until this object is destroyed, or until the quota is if they are kept.
class QuotaCharge {
 public:
  explicit QuotaCharge(DecodeQuota* quota) : quota_(quota) {}
  QuotaCharge(const QuotaCharge&) = delete;
  QuotaCharge& operator=(const QuotaCharge&) = delete;
  ~QuotaCharge() {
    if (amount_ > 0) quota_->Release(amount_);
  }

  // Errors: those of DecodeQuota::Charge.
  absl::Status Add(uint64_t amount) {
    absl::Status status = quota_->Charge(amount);
    if (status.ok()) amount_ += amount;
    return status;
  }
  void Clear() {
    quota_->Release(amount_);
    amount_ = 0;
  }
  void Keep() { amount_ = 0; }
  uint64_t amount() const { return amount_; }

 private:
  DecodeQuota* const quota_;
  uint64_t amount_ = 0;
};

// The two quotas of one message: all bytes that it decodes to, nested tensors included, and those of them that no input
// byte represents.
class MessageQuota {
 public:
  explicit MessageQuota(const DecodeLimits& limits)
      : bytes_("max_message_bytes", limits.max_message_bytes), unbacked_(DecodeQuota::ForUnbacked(limits)) {}

  // Empty: the number does not fit 64 bits.
  absl::Status Charge(std::optional<int64_t> bytes, std::optional<int64_t> unbacked);

  uint64_t bytes() const { return bytes_.charged(); }
  void Reset() {
    bytes_.Reset();
    unbacked_.Reset();
  }

 private:
  DecodeQuota bytes_;
  DecodeQuota unbacked_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_DECODE_QUOTA_H_
