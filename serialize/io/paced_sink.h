// A sink in front of another, whose long copies a caller can watch and end.
//
//   PacedSink paced(sink, options.progress);
//   CASK_RETURN_IF_ERROR(paced.AppendFrom(*file, offset, bytes));   // Cancelled if progress returned false

#ifndef TENSORCASK_SERIALIZE_IO_PACED_SINK_H_
#define TENSORCASK_SERIALIZE_IO_PACED_SINK_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask {

class PacedSink final : public ByteSink {
 public:
  // Calls progress(copied) after each piece of AppendFrom, 64 MiB at most, with the bytes that AppendFrom has copied,
  // `already` included. Null: no calls. `sink` and `progress` outlive this.
  PacedSink(ByteSink* sink, const std::function<bool(uint64_t)>* progress, uint64_t already = 0)
      : sink_(sink), progress_(progress), copied_(already) {}

  absl::Status Append(absl::string_view bytes) override { return sink_->Append(bytes); }
  // Errors: also Cancelled.
  absl::Status AppendFrom(const ByteSource& source, uint64_t offset, uint64_t bytes) override;
  uint64_t position() const override { return sink_->position(); }

  uint64_t copied() const { return copied_; }

 private:
  ByteSink* const sink_;
  const std::function<bool(uint64_t)>* const progress_;
  uint64_t copied_;
};

// Counts bytes and reads none: what a file would hold.
class CountingSink final : public ByteSink {
 public:
  absl::Status Append(absl::string_view bytes) override;
  absl::Status AppendFrom(const ByteSource& source, uint64_t offset, uint64_t bytes) override;
  uint64_t position() const override { return position_; }

 private:
  uint64_t position_ = 0;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_PACED_SINK_H_
