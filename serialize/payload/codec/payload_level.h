// How hard a writer of payloads tries, and in how large chunks.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PAYLOAD_LEVEL_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PAYLOAD_LEVEL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask {

// How hard a writer tries. Any reader reads any level.
enum class PayloadLevel : uint8_t {
  kStored = 0,  // payloads: as in memory, checked chunk by chunk; messages and checkpoints: not encoded
  // As fast as it can be; finds no repetitions in bytes that are all equally frequent (kHigh does).
  kDefault = 1,
  // Also searches for repetitions inside a chunk, where samples say that they save a 64th or more: in activations,
  // moments with many equal values, symmetric weights, tokens, text. There it is 1.5 to 20 % smaller, at 60 to 400 MB/s
  // a core. Dense weights do not repeat: they become as small as at kDefault, at 0.7 of its speed (0.35 to 0.5 for
  // tensors of up to 256 KiB).
  kHigh = 2,
};

absl::string_view PayloadLevelName(PayloadLevel level);                  // "stored", "default", "high"
absl::StatusOr<PayloadLevel> ParsePayloadLevel(absl::string_view name);  // Errors: InvalidArgument

// Bytes that a chunk decodes to, as powers of two.
constexpr int kMinLog2ChunkBytes = 16;  // 64 KiB
constexpr int kMaxLog2ChunkBytes = 22;  // 4 MiB

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PAYLOAD_LEVEL_H_
