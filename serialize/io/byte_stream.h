// Bytes that are read in order: from a file, or from a source without offsets such as a pipe, a socket or a terminal.
//
//   std::unique_ptr<ByteStream> in = MakeDescriptorStream(STDIN_FILENO, "stdin");
//   CASK_ASSIGN_OR_RETURN(const size_t got, in->Read(absl::MakeSpan(buffer)));   // 0: the end
//
// The length of a stream is unknown before it ends: a reader allocates memory for bytes that have arrived, not for
// bytes that a header announces. One caller at a time.

#ifndef TENSORCASK_SERIALIZE_IO_BYTE_STREAM_H_
#define TENSORCASK_SERIALIZE_IO_BYTE_STREAM_H_

#include "tensorcask/tensor/base/cxx17.h"

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
  // `out` is empty. The number may be smaller than the size of `out` although more bytes will follow.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> out) = 0;

  // The number of bytes that follow, if it is certain, as for a file: a reader may allocate memory for all of them at
  // once.
  virtual std::optional<uint64_t> bytes_left() const { return std::nullopt; }
};

// The bytes of `source` from `offset`; none, if that is past the end. Errors of Read: of the source.
std::unique_ptr<ByteStream> MakeSourceStream(std::shared_ptr<const ByteSource> source, uint64_t offset = 0);

// Called before each wait and ten times a second during it; if it returns false, the call ends with Cancelled. Empty:
// waits for ever. (A signal alone does not end every wait: if it arrives just before the system call, it interrupts
// nothing.)
using KeepWaiting = std::function<bool()>;

// Reads from an open descriptor of any kind, also in non-blocking mode. The caller keeps the descriptor and closes it.
// Errors of Read: from errno, naming the stream; Cancelled.
std::unique_ptr<ByteStream> MakeDescriptorStream(int descriptor, std::string name, KeepWaiting keep_waiting = {});

// The other end: writes to an open descriptor, which the caller keeps and closes. Small appends are gathered (256 KiB).
// The sink keeps the last byte until Finish. So if the writer gives up, the stream ends inside a record and the reader
// notices; a stream that ends between two records would look whole. The process must ignore SIGPIPE.
class DescriptorSink final : public ByteSink {
 public:
  DescriptorSink(int descriptor, std::string name, KeepWaiting keep_waiting = {});

  // Errors: from errno, naming the stream (FailedPrecondition, "Broken pipe", when the reader has gone); Cancelled.
  absl::Status Append(absl::string_view bytes) override;
  uint64_t position() const override { return position_; }

  // Writes the remaining bytes. The sink then accepts no more.
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
