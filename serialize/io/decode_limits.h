// Bounds on what a decoder may spend on its input. Past a limit it answers ResourceExhausted, which names the limit,
// before it allocates. With the defaults, memory stays under 64 MiB + 2 x input + the output.
//
//   DecodeOptions options;
//   options.limits.max_message_bytes = 16 << 20;   // a server that expects small tensors
//   CASK_RETURN_IF_ERROR(SetLimit("max_entries", 20'000'000, &options.limits));   // what a user asks for

#ifndef TENSORCASK_SERIALIZE_IO_DECODE_LIMITS_H_
#define TENSORCASK_SERIALIZE_IO_DECODE_LIMITS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorcask {

struct DecodeLimits {
  // Decoded bytes that no input byte represents, in one message in total: copies of one value that fills a shape,
  // omitted zeros.
  int64_t max_memory_beyond_input = int64_t{64} << 20;
  int64_t max_message_bytes = int64_t{2} << 30;        // one decoded message
  int64_t max_file_decoded_bytes = int64_t{16} << 30;  // all that one call decodes from a file
  int max_depth = 64;  // messages in messages, groups in groups; a level takes some KiB of stack
  int64_t max_name_bytes = int64_t{64} << 10;  // a tensor's name
  int64_t max_entries = 10'000'000;            // named things in a file
  // Decoded bytes for each stored byte, where data is compressed. For encoded strings, in messages and in checkpoints,
  // 8 bytes for each length and the characters count.
  int64_t max_expansion = 1000;
};

// Sets the limit of this name, which is the one that messages about limits say.
// Errors: InvalidArgument, naming all limits if none has this name; for a value below 1, and of max_depth above 1000.
absl::Status SetLimit(absl::string_view name, int64_t value, DecodeLimits* limits);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_DECODE_LIMITS_H_
