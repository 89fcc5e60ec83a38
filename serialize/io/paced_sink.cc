#include "tensorcask/serialize/io/paced_sink.h"

#include <algorithm>

#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

constexpr uint64_t kPaceBytes = uint64_t{64} << 20;

}  // namespace

absl::Status PacedSink::AppendFrom(const ByteSource& source, uint64_t offset, uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t now = std::min(bytes, kPaceBytes);
    CASK_RETURN_IF_ERROR(sink_->AppendFrom(source, offset, now));
    offset += now;
    bytes -= now;
    copied_ += now;
    if (*progress_ != nullptr && !(*progress_)(copied_)) return absl::CancelledError("told to stop");
  }
  return absl::OkStatus();
}

absl::Status CountingSink::Append(absl::string_view bytes) {
  position_ += bytes.size();
  return absl::OkStatus();
}

absl::Status CountingSink::AppendFrom(const ByteSource&, uint64_t, uint64_t bytes) {
  position_ += bytes;
  return absl::OkStatus();
}

}  // namespace tensorcask
