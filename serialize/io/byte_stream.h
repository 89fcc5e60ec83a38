// Bytes that come one after the other, from a file or from what has no positions: a pipe, a socket, a terminal.
//
//   std::unique_ptr<ByteStream> in = MakeDescriptorStream(STDIN_FILENO, "stdin");
//   CASK_ASSIGN_OR_RETURN(const size_t got, in->Read(absl::MakeSpan(buffer)));   // 0: the end
//
// Nobody knows how long a stream is before it ends: whoever reads takes memory for the bytes that came, not for those
// that the bytes announce. One caller at a time.

#ifndef TENSORCASK_SERIALIZE_IO_BYTE_STREAM_H_
#define TENSORCASK_SERIALIZE_IO_BYTE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  virtual const std::string& name() const = 0;  // for messages

  // Fills the start of `out` with the next bytes and gives their number: at least 1, unless the stream has ended or
  // `out` is empty. It may be fewer than were asked for though more will come.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> out) = 0;

  // How many bytes are still to come, where that is certain, as of a file: memory may be taken for them at once.
  virtual std::optional<uint64_t> bytes_left() const { return std::nullopt; }
};

// The bytes of `source` from `offset`; none, if that is past the end. Errors of Read: of the source.
std::unique_ptr<ByteStream> MakeSourceStream(std::shared_ptr<const ByteSource> source, uint64_t offset = 0);

// Asked before each wait and ten times a second while it lasts: false gives up, with Cancelled. Empty: wait for ever.
// (A signal that only ends a system call can come just before that call, and then ends nothing.)
using KeepWaiting = std::function<bool()>;

// What can be read from an open descriptor, which stays the caller's and may be of any kind, in non-blocking mode, too.
// Errors of Read: from errno, naming the stream; Cancelled.
std::unique_ptr<ByteStream> MakeDescriptorStream(int descriptor, std::string name, KeepWaiting keep_waiting = {});

// The other end: writes to an open descriptor, which stays the caller's. Small appends are gathered (256 KiB). The last
// byte goes out with Finish alone, so that a stream that was given up is seen to be cut short wherever it ended:
// without that, half of a record stream looks whole where it ends between two records. The process must ignore SIGPIPE.
class DescriptorSink final : public ByteSink {
 public:
  DescriptorSink(int descriptor, std::string name, KeepWaiting keep_waiting = {});

  // Errors: from errno, naming the stream (FailedPrecondition, "Broken pipe", when the reader has gone); Cancelled.
  absl::Status Append(absl::string_view bytes) override;
  uint64_t position() const override { return position_; }

  // Writes what is left. The sink takes nothing after that.
  absl::Status Finish();

 private:
  absl::Status WriteAll(absl::string_view bytes);
  absl::Status WriteSome(absl::string_view* bytes);

  const int descriptor_;
  const std::string name_;
  const KeepWaiting keep_waiting_;
  std::string gathered_;
  uint64_t position_ = 0;
  absl::Status status_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_BYTE_STREAM_H_
