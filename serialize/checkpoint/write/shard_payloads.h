// Writes the encoded tensors of one data file as payloads, each distinct content once (FORMAT.md section 5.5).
//
//   ShardPayloads payloads(options.payload, num_threads);
//   CASK_ASSIGN_OR_RETURN(const std::optional<StoredPayload> stored,
//                         payloads.Append("w", weights, PayloadLevel::kDefault, sink));
//   if (!stored) ...      // nothing was written: it does not pay
//
// Nothing is written for a tensor with the dtype and elements of an earlier encoded one: its entry points to the range
// of the first. One caller at a time.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_SHARD_PAYLOADS_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_SHARD_PAYLOADS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::checkpoint {

struct StoredPayload {
  PayloadHeader header;
  uint64_t offset = 0;
  uint64_t stored_bytes = 0;
  uint32_t masked_crc32c = 0;  // that of all stored bytes
};

class ShardPayloads {
 public:
  // `num_threads` encode the chunks of one tensor. options.level is not used.
  ShardPayloads(PayloadOptions options, int num_threads) : options_(std::move(options)), num_threads_(num_threads) {}

  // `key` is that of the index; pieces of tensors are never deltas. Writes nothing, and the result is empty, if the
  // dtype has no encoded form or the payload would not be small enough. Memory: that of EncodePayload (8 bytes for each
  // string; a copy of a strided view of strings), the tensor of this name in the base, and the whole payload of
  // strings. Errors: those of EncodePayload. A tensor of the base that cannot be read is treated as absent, which is
  // not an error.
  absl::StatusOr<std::optional<StoredPayload>> Append(absl::string_view key, const TensorView& tensor,
                                                      PayloadLevel level, ByteSink* sink);

 private:
  // The properties that tensors must share to be stored once.
  struct Content {
    DType dtype;
    int64_t num_elements;
    PayloadLevel level;
    std::string hash;

    friend bool operator==(const Content& a, const Content& b) {
      return a.dtype == b.dtype && a.num_elements == b.num_elements && a.level == b.level && a.hash == b.hash;
    }
    template <typename H>
    friend H AbslHashValue(H state, const Content& content) {
      return H::combine(std::move(state), content.dtype, content.num_elements, content.level, content.hash);
    }
  };
  struct Place {
    StoredPayload stored;
    uint64_t shares = 0;  // how many tensors have it
  };

  absl::StatusOr<std::optional<StoredPayload>> Encode(absl::string_view key, const TensorView& tensor,
                                                      PayloadLevel level, ByteSink* sink) const;
  absl::StatusOr<std::optional<StoredPayload>> EncodeStrings(const TensorView& tensor, PayloadLevel level,
                                                             ByteSink* sink) const;

  const PayloadOptions options_;
  const int num_threads_;
  std::unordered_map<Content, Place, absl::Hash<Content>> places_;  // where payloads are that are not deltas
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_SHARD_PAYLOADS_H_
