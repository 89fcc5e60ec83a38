// Receives bytes in order: into a file, into a string, or to be discarded or only counted.
//
//   std::string text;
//   StringSink sink(&text);
//   CASK_RETURN_IF_ERROR(sink.Append("header"));
//
// Append writes all bytes or fails. After a failure every call returns the same Status. One caller at a time.

#ifndef TENSORCASK_SERIALIZE_IO_BYTE_SINK_H_
#define TENSORCASK_SERIALIZE_IO_BYTE_SINK_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/base/owner_process.h"

namespace tensorcask {

class ByteSource;

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Appends `bytes` bytes of `source` from `offset` on, in bounded memory. Errors: those of reading `source` and of
  // Append.
  virtual absl::Status AppendFrom(const ByteSource& source, uint64_t offset, uint64_t bytes);
  virtual uint64_t position() const = 0;  // bytes appended so far
};

// Appends to *out, which must outlive the sink.
class StringSink final : public ByteSink {
 public:
  explicit StringSink(std::string* out) : out_(out), start_(out->size()) {}
  absl::Status Append(absl::string_view bytes) override;
  uint64_t position() const override { return out_->size() - start_; }

 private:
  std::string* out_;
  size_t start_;
};

// Counts bytes and discards them.
class DiscardSink final : public ByteSink {
 public:
  absl::Status Append(absl::string_view bytes) override;
  uint64_t position() const override { return position_; }

 private:
  uint64_t position_ = 0;
};

// A sink in front of another, whose long copies a caller can watch and end.
//
//   PacedSink paced(sink, &options.progress);
//   CASK_RETURN_IF_ERROR(paced.AppendFrom(*file, offset, bytes));   // Cancelled if progress returned false
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

// A new file. The sink gathers small appends (up to 256 KiB) and passes appends of 64 KiB and more straight to the
// system, which writes pieces of 256 KiB to 1 MiB fastest. Disk space is reserved ahead (at most 256 MiB) as the file
// grows; Close releases what was not used. Short counts and EINTR are retried until all is written. After an error the
// file is closed but not removed; publication.h removes it. In a child of fork(2) each call returns FailedPrecondition,
// and the file stays as it is.
class FileSink final : public ByteSink {
 public:
  // Disk space is reserved once a file has kLeastReservedBytes, and no more than kMostReservedAhead beyond what was
  // written: other files may need the disk as well. Measured on ext4, 256 MiB in pieces of 1 MiB: 57.2 ms without, 50.6
  // ms reserved in one piece. A request takes 0.5 ms for 64 MiB and 0.6 ms for 256 MiB.
  static constexpr uint64_t kLeastReservedBytes = uint64_t{1} << 20;
  static constexpr uint64_t kMostReservedAhead = uint64_t{256} << 20;

  // Errors: AlreadyExists if there is a file of that name; from errno, naming the path.
  static absl::StatusOr<std::unique_ptr<FileSink>> Create(const std::string& path,
                                                          FileSystem* file_system = FileSystem::Posix());
  // The same of a temporary file that will get the name `final_path`, or be removed (FileSystem::CreateToPublish).
  static absl::StatusOr<std::unique_ptr<FileSink>> CreateToPublish(const std::string& path,
                                                                   const std::string& final_path,
                                                                   FileSystem* file_system);
  ~FileSink() override;
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  absl::Status Append(absl::string_view bytes) override;
  uint64_t position() const override { return position_; }
  const std::string& path() const { return path_; }

  // From a file of the same file system, the system copies. Where the file system can share bytes between files
  // (Btrfs, XFS), it shares the blocks if position() and `offset` are equal modulo 4096.
  absl::Status AppendFrom(const ByteSource& source, uint64_t offset, uint64_t bytes) override;

  // Writes `bytes` at `offset` of the file, which may lie before or after position(). Does not change position(): the
  // next Append continues there. For formats whose header describes the bytes that follow it.
  // Errors: Unimplemented where the file system cannot go back (FileSystem::WriteAt).
  absl::Status WriteAt(uint64_t offset, absl::string_view bytes);

  // Announces that the file will be synced: from now on it is sent to the disk while more is appended.
  void SyncEarly() { syncs_early_ = true; }

  // Announces the size of the file, so that the file system can reserve contiguous space. A hint: errors are ignored.
  void ReserveHint(uint64_t size_bytes);
  uint64_t reserved_bytes() const { return reserved_; }  // space reserved, from the start of the file

  // Gives back the reserved space beyond what was appended. Close does so too; earlier, it can be done on another
  // thread. A hint: errors are ignored.
  void ReleaseReserved();

  // Writes what was gathered; with `sync`, makes it durable. A failed sync is final: it is unknown which bytes reached
  // the disk, and a second sync would return OK ("Can applications recover from fsync failures?", ATC 2020).
  absl::Status Flush(bool sync);

  // Close gives the file these permissions instead of those of a new file, where SetPermissions can.
  void KeepPermissions(const FilePermissions& permissions) { permissions_ = permissions; }

  // Gives the file the permissions of a new file, calls Flush(sync) and closes it. The sink then accepts no more bytes.
  // Errors: those of each step, including close, where network file systems report failed writes.
  absl::Status Close(bool sync);

 private:
  FileSink(std::string path, FileSystem* file_system, IoResult handle);
  absl::Status CheckUsable() const;
  absl::Status WriteGathered();
  absl::Status WriteAll(absl::string_view bytes);
  absl::Status AddWritten(uint64_t bytes);
  absl::StatusOr<uint64_t> CopyInSystem(const ByteSource& source, uint64_t offset, uint64_t bytes);
  absl::Status Fail(absl::Status status);  // the status of every later call
  absl::Status SetPermissions();
  IoResult CloseHandle();
  void Reserve(uint64_t size_bytes);

  const std::string path_;
  FileSystem* const file_system_;
  IoResult handle_;  // -1: closed
  uint64_t position_ = 0;
  uint64_t written_ = 0;  // bytes passed to the system
  uint64_t reserved_ = 0;
  bool reserves_ = true;  // false after the first refusal
  bool syncs_early_ = false;
  uint64_t sync_started_ = 0;  // bytes of the file
  std::string gathered_;
  std::optional<FilePermissions> permissions_;
  absl::Status status_;
  const OwnerProcess owner_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_BYTE_SINK_H_
