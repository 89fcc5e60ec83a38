#include "tensorcask/serialize/io/byte_sink.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/internal/retry.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

using internal::RetryInterrupted;

// Small enough to stay in the cache between the copy into the buffer and the write from it.
constexpr size_t kGatherBytes = size_t{256} << 10;
// A piece of this size or more is passed to the system without a copy. Measured on ext4, 256 MiB reserved: write()
// takes 56 ms by 64 KiB, 52 by 256 KiB, 51 by 1 MiB; gathering pieces of 64 KiB into 1 MiB took 69, for the additional
// copy.
constexpr size_t kDirectBytes = size_t{64} << 10;

// A file that will be synced is sent to the disk each time so many more bytes were appended. Measured on ext4, 4 GiB
// written and synced: 1.73 s if only fsync(2) sends them, 1.25 s in parts of 8 MiB, and in parts of 64 MiB.
constexpr uint64_t kSyncEarlyBytes = uint64_t{16} << 20;

constexpr uint64_t kPaceBytes = uint64_t{64} << 20;  // what PacedSink copies between two calls

constexpr size_t kCopyBytes = size_t{512} << 10;  // what AppendFrom copies at a time
constexpr uint64_t kBlockBytes = 4096;            // file systems share whole blocks

// After an error of StartSync: whether a later Sync may succeed although bytes are lost.
bool MayLoseBytes(IoResult result) {
#ifdef EDQUOT  // Windows has none
  if (result == -EDQUOT) return true;
#endif
  return result == -EIO || result == -ENOSPC;
}

}  // namespace

absl::Status ByteSink::AppendFrom(const ByteSource& source, uint64_t offset, uint64_t bytes) {
  PieceBuffer chunk(bytes, kCopyBytes);
  while (bytes > 0) {
    const auto now = static_cast<size_t>(std::min<uint64_t>(bytes, chunk.size()));
    CASK_RETURN_IF_ERROR(source.ReadAt(offset, absl::MakeSpan(chunk.data(), now)));
    CASK_RETURN_IF_ERROR(Append(absl::string_view(chunk.data(), now)));
    offset += now;
    bytes -= now;
  }
  return absl::OkStatus();
}

absl::Status StringSink::Append(absl::string_view bytes) {
  out_->append(bytes.data(), bytes.size());
  return absl::OkStatus();
}

absl::Status DiscardSink::Append(absl::string_view bytes) {
  position_ += bytes.size();
  return absl::OkStatus();
}

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

absl::StatusOr<std::unique_ptr<FileSink>> FileSink::Create(const std::string& path, FileSystem* file_system) {
  CASK_RETURN_IF_ERROR(CheckPath(path));
  const IoResult handle = RetryInterrupted([&] { return file_system->CreateNew(path); });
  if (handle < 0) return IoError(handle, path, "create", file_system);
  return absl::WrapUnique(new FileSink(path, file_system, handle));
}

absl::StatusOr<std::unique_ptr<FileSink>> FileSink::CreateToPublish(const std::string& path,
                                                                    const std::string& final_path,
                                                                    FileSystem* file_system) {
  CASK_RETURN_IF_ERROR(CheckPath(path));
  const IoResult handle = RetryInterrupted([&] { return file_system->CreateToPublish(path, final_path); });
  if (handle < 0) return IoError(handle, path, "create", file_system);
  return absl::WrapUnique(new FileSink(path, file_system, handle));
}

FileSink::FileSink(std::string path, FileSystem* file_system, IoResult handle)
    : path_(std::move(path)), file_system_(file_system), handle_(handle) {}

FileSink::~FileSink() {
  if (owner_.IsThisProcess()) CloseHandle();
}

absl::Status FileSink::CheckUsable() const {
  if (owner_.IsThisProcess()) return status_;
  return absl::FailedPreconditionError(
      absl::StrCat(path_, ": the parent of this process writes this file, and it alone may"));
}

absl::Status FileSink::Append(absl::string_view bytes) {
  CASK_RETURN_IF_ERROR(CheckUsable());
  if (bytes.size() >= kDirectBytes) {
    CASK_RETURN_IF_ERROR(WriteGathered());
    CASK_RETURN_IF_ERROR(WriteAll(bytes));
  } else {
    if (bytes.size() > kGatherBytes - gathered_.size()) CASK_RETURN_IF_ERROR(WriteGathered());
    gathered_.append(bytes.data(), bytes.size());
  }
  position_ += bytes.size();
  return absl::OkStatus();
}

absl::Status FileSink::AppendFrom(const ByteSource& source, uint64_t offset, uint64_t bytes) {
  CASK_RETURN_IF_ERROR(CheckUsable());
  // Up to the start of a block, so that the blocks after it can be shared.
  const uint64_t head = std::min(bytes, (kBlockBytes - offset % kBlockBytes) % kBlockBytes);
  CASK_RETURN_IF_ERROR(ByteSink::AppendFrom(source, offset, head));
  CASK_ASSIGN_OR_RETURN(const uint64_t copied, CopyInSystem(source, offset + head, bytes - head));
  return ByteSink::AppendFrom(source, offset + head + copied, bytes - head - copied);
}

// Returns the number of bytes copied: all of them, or fewer where the system cannot copy.
absl::StatusOr<uint64_t> FileSink::CopyInSystem(const ByteSource& source, uint64_t offset, uint64_t bytes) {
  FileSystem* files = nullptr;
  IoResult from = -1;
  if (bytes == 0 || !source.GetFile(&files, &from) || files != file_system_) return 0;
  CASK_RETURN_IF_ERROR(WriteGathered());
  uint64_t copied = 0;
  while (copied < bytes) {
    const IoResult result =
        RetryInterrupted([&] { return files->CopyRange(from, offset + copied, handle_, bytes - copied); });
    if (result == 0 || result == -EOPNOTSUPP) break;  // 0: the source shrank; reading it gives the error
    if (result < 0) return Fail(IoError(result, path_, absl::StrCat("write at ", written_), file_system_));
    CASK_RETURN_IF_ERROR(AddWritten(static_cast<uint64_t>(result)));
    copied += static_cast<uint64_t>(result);
    position_ += static_cast<uint64_t>(result);
  }
  return copied;
}

absl::Status FileSink::WriteAt(uint64_t offset, absl::string_view bytes) {
  CASK_RETURN_IF_ERROR(CheckUsable());
  CASK_RETURN_IF_ERROR(WriteGathered());
  while (!bytes.empty()) {
    IoResult result = RetryInterrupted([&] { return file_system_->WriteAt(handle_, offset, bytes); });
    if (result == 0) result = -EIO;  // neither progress nor a reason
    if (result == -EOPNOTSUPP) return Fail(absl::UnimplementedError(absl::StrCat(path_, ": can only be appended to")));
    if (result < 0) return Fail(IoError(result, path_, absl::StrCat("write at ", offset), file_system_));
    bytes.remove_prefix(static_cast<size_t>(result));
    offset += static_cast<uint64_t>(result);
  }
  return absl::OkStatus();
}

void FileSink::ReserveHint(uint64_t size_bytes) {
  if (CheckUsable().ok()) Reserve(size_bytes);
}

void FileSink::ReleaseReserved() {
  if (!CheckUsable().ok() || !WriteGathered().ok() || reserved_ <= written_) return;
  const IoResult result = RetryInterrupted([&] { return file_system_->Reserve(handle_, written_); });
  if (result >= 0) reserved_ = written_;
}

absl::Status FileSink::Flush(bool sync) {
  CASK_RETURN_IF_ERROR(CheckUsable());
  CASK_RETURN_IF_ERROR(WriteGathered());
  if (!sync) return absl::OkStatus();
  // An interrupted sync has not ended and is repeated; any other error is final.
  const IoResult result = RetryInterrupted([&] { return file_system_->Sync(handle_); });
  return result < 0 ? Fail(IoError(result, path_, "sync", file_system_)) : absl::OkStatus();
}

absl::Status FileSink::Close(bool sync) {
  CASK_RETURN_IF_ERROR(CheckUsable());
  CASK_RETURN_IF_ERROR(WriteGathered());
  ReleaseReserved();
  CASK_RETURN_IF_ERROR(SetPermissions());
  CASK_RETURN_IF_ERROR(Flush(sync));
  const IoResult closed = CloseHandle();
  if (closed < 0) return Fail(IoError(closed, path_, "close", file_system_));
  status_ = absl::FailedPreconditionError(absl::StrCat(path_, ": is closed"));
  return absl::OkStatus();
}

absl::Status FileSink::SetPermissions() {
  IoResult result = -EOPNOTSUPP;
  if (permissions_.has_value()) {
    result = RetryInterrupted([&] { return file_system_->SetPermissions(handle_, *permissions_); });
  }
  constexpr uint32_t kOthersRead = 0004;
  const bool stays_private = permissions_.has_value() && (permissions_->mode & kOthersRead) == 0;
  if (result == -EOPNOTSUPP && !stays_private) {
    result = RetryInterrupted([&] { return file_system_->SetPublic(handle_); });
  }
  return result < 0 && result != -EOPNOTSUPP ? Fail(IoError(result, path_, "set the permissions", file_system_))
                                             : absl::OkStatus();
}

absl::Status FileSink::Fail(absl::Status status) {
  status_ = std::move(status);
  gathered_ = std::string();
  CloseHandle();
  return status_;
}

// An interrupted close has closed (Linux frees the descriptor first), and it must not be called again.
IoResult FileSink::CloseHandle() {
  if (handle_ < 0) return 0;
  const IoResult result = file_system_->Close(std::exchange(handle_, -1));
  return result == -EINTR ? 0 : result;
}

void FileSink::Reserve(uint64_t size_bytes) {
  if (!reserves_ || size_bytes <= reserved_) return;
  const IoResult result = RetryInterrupted([&] { return file_system_->Reserve(handle_, size_bytes); });
  reserves_ = result >= 0;
  // A full disk may have reserved a part of it, which Close must release.
  if (result != -EOPNOTSUPP) reserved_ = size_bytes;
}

absl::Status FileSink::WriteGathered() {
  if (gathered_.empty()) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(WriteAll(gathered_));
  gathered_.clear();
  return absl::OkStatus();
}

absl::Status FileSink::WriteAll(absl::string_view bytes) {
  const uint64_t end = written_ + bytes.size();
  if (end >= kLeastReservedBytes && end > reserved_) Reserve(end + std::min(end, kMostReservedAhead));
  while (!bytes.empty()) {
    IoResult result = RetryInterrupted([&] { return file_system_->Append(handle_, bytes); });
    if (result == 0) result = -EIO;  // neither progress nor a reason
    if (result < 0) return Fail(IoError(result, path_, absl::StrCat("write at ", written_), file_system_));
    bytes.remove_prefix(static_cast<size_t>(result));
    CASK_RETURN_IF_ERROR(AddWritten(static_cast<uint64_t>(result)));
  }
  return absl::OkStatus();
}

absl::Status FileSink::AddWritten(uint64_t bytes) {
  written_ += bytes;
  if (!syncs_early_ || written_ - sync_started_ < kSyncEarlyBytes) return absl::OkStatus();
  const IoResult result =
      RetryInterrupted([&] { return file_system_->StartSync(handle_, sync_started_, written_ - sync_started_); });
  sync_started_ = written_;
  return MayLoseBytes(result) ? Fail(IoError(result, path_, "sync", file_system_)) : absl::OkStatus();
}

}  // namespace tensorcask
