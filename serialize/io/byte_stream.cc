#include "tensorcask/serialize/io/byte_stream.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

constexpr size_t kStreamGatherBytes = size_t{256} << 10;
constexpr size_t kMaxWriteBytes = size_t{1} << 20;  // at a time, so that the interrupt flag is polled often
constexpr int kAskAgainMs = 100;

// Waits until `descriptor` can be read or written (`events`), or has an error that the next read or write will report.
absl::Status Wait(int descriptor, short events, const std::string& name, const KeepWaiting& keep_waiting) {
  while (true) {
    if (keep_waiting && !keep_waiting()) return absl::CancelledError(absl::StrCat(name, ": interrupted"));
    struct pollfd polled = {descriptor, events, 0};
    const int ready = poll(&polled, 1, keep_waiting ? kAskAgainMs : -1);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return IoError(-errno, name, "wait");
  }
}

// True if the call that set errno is to be made again.
bool IsPassing() { return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK; }

class SourceStream final : public ByteStream {
 public:
  SourceStream(std::shared_ptr<const ByteSource> source, uint64_t offset)
      : source_(std::move(source)), offset_(std::min(offset, source_->size_bytes())) {}

  const std::string& name() const override { return source_->name(); }
  std::optional<uint64_t> bytes_left() const override { return source_->size_bytes() - offset_; }

  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    const auto size_bytes = static_cast<size_t>(std::min<uint64_t>(out.size(), source_->size_bytes() - offset_));
    CASK_RETURN_IF_ERROR(source_->ReadAt(offset_, out.first(size_bytes)));
    offset_ += size_bytes;
    return size_bytes;
  }

 private:
  const std::shared_ptr<const ByteSource> source_;
  uint64_t offset_;
};

class DescriptorStream final : public ByteStream {
 public:
  DescriptorStream(int descriptor, std::string name, KeepWaiting keep_waiting)
      : descriptor_(descriptor), name_(std::move(name)), keep_waiting_(std::move(keep_waiting)) {}

  const std::string& name() const override { return name_; }

  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    while (true) {
      CASK_RETURN_IF_ERROR(Wait(descriptor_, POLLIN, name_, keep_waiting_));
      const ssize_t got = read(descriptor_, out.data(), out.size());
      if (got >= 0) return static_cast<size_t>(got);
      if (!IsPassing()) return IoError(-errno, name_, "read");
    }
  }

 private:
  const int descriptor_;
  const std::string name_;
  const KeepWaiting keep_waiting_;
};

}  // namespace

std::unique_ptr<ByteStream> MakeSourceStream(std::shared_ptr<const ByteSource> source, uint64_t offset) {
  return std::make_unique<SourceStream>(std::move(source), offset);
}

std::unique_ptr<ByteStream> MakeDescriptorStream(int descriptor, std::string name, KeepWaiting keep_waiting) {
  return std::make_unique<DescriptorStream>(descriptor, std::move(name), std::move(keep_waiting));
}

DescriptorSink::DescriptorSink(int descriptor, std::string name, KeepWaiting keep_waiting)
    : descriptor_(descriptor), name_(std::move(name)), keep_waiting_(std::move(keep_waiting)) {}

absl::Status DescriptorSink::Append(absl::string_view bytes) {
  CASK_RETURN_IF_ERROR(status_);
  if (bytes.empty()) return absl::OkStatus();
  position_ += bytes.size();
  if (gathered_.size() + bytes.size() <= kStreamGatherBytes) {
    gathered_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  status_ = WriteAll(gathered_);
  if (status_.ok()) status_ = WriteAll(bytes.substr(0, bytes.size() - 1));
  gathered_.assign(1, bytes.back());
  return status_;
}

absl::Status DescriptorSink::Finish() {
  CASK_RETURN_IF_ERROR(status_);
  status_ = WriteAll(gathered_);
  if (!status_.ok()) return status_;
  status_ = absl::FailedPreconditionError(absl::StrCat(name_, ": is finished"));
  return absl::OkStatus();
}

absl::Status DescriptorSink::WriteAll(absl::string_view bytes) {
  while (!bytes.empty()) CASK_RETURN_IF_ERROR(WriteSome(&bytes));
  return absl::OkStatus();
}

// Removes the bytes that were written from the front.
absl::Status DescriptorSink::WriteSome(absl::string_view* bytes) {
  CASK_RETURN_IF_ERROR(Wait(descriptor_, POLLOUT, name_, keep_waiting_));
  const ssize_t put = write(descriptor_, bytes->data(), std::min(bytes->size(), kMaxWriteBytes));
  if (put >= 0) {
    bytes->remove_prefix(static_cast<size_t>(put));
  } else if (!IsPassing()) {
    return IoError(-errno, name_, "write");
  }
  return absl::OkStatus();
}

}  // namespace tensorcask
