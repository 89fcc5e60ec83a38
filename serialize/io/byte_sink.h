// A place that takes bytes one after the other: a file, a string, nothing.
//
//   std::string text;
//   StringSink sink(&text);
//   CASK_RETURN_IF_ERROR(sink.Append("header"));
//
// Append takes all or fails; after a failure the sink answers every call with the same Status. One caller at a time.

#ifndef TENSORCASK_SERIALIZE_IO_BYTE_SINK_H_
#define TENSORCASK_SERIALIZE_IO_BYTE_SINK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  virtual uint64_t position() const = 0;  // bytes taken so far
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

// Counts and drops.
class DiscardSink final : public ByteSink {
 public:
  absl::Status Append(absl::string_view bytes) override;
  uint64_t position() const override { return position_; }

 private:
  uint64_t position_ = 0;
};

// A new file. Small appends are gathered (256 KiB), those of 64 KiB and more go straight to the system: pieces of 256
// KiB to 1 MiB are written fastest. Room is reserved ahead (at most 64 MiB) as the file grows, and what is left of it
// given back by Close. Short counts and EINTR are retried until all is written. After an error the file is closed, and
// it is left as it is: removing it is the business of atomic_publish.h.
class FileSink final : public ByteSink {
 public:
  // Errors: AlreadyExists if there is a file of that name; from errno, naming the path.
  static absl::StatusOr<std::unique_ptr<FileSink>> Create(const std::string& path,
                                                          FileSystem* file_system = FileSystem::Posix());
  ~FileSink() override;
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  absl::Status Append(absl::string_view bytes) override;
  uint64_t position() const override { return position_; }
  const std::string& path() const { return path_; }

  // Says how long the file will be, so that its room can be had in one piece. A hint: errors do not matter.
  void ReserveHint(uint64_t size_bytes);

  // Writes what was gathered; with `sync`, makes it durable. A failed sync is final: what reached the disk is unknown,
  // and asking again would answer OK (facts: "Can applications recover from fsync failures?", ATC 2020).
  absl::Status Flush(bool sync);

  // The permissions of an ordinary file, Flush(sync), close. The sink takes nothing after that.
  // Errors: of each step, the closing too, where network file systems report what was not written.
  absl::Status Close(bool sync);

 private:
  FileSink(std::string path, FileSystem* file_system, IoResult handle);
  absl::Status WriteGathered();
  absl::Status WriteAll(absl::string_view bytes);
  absl::Status Fail(absl::Status status);  // what every later call answers
  IoResult CloseHandle();
  void Reserve(uint64_t size_bytes);

  const std::string path_;
  FileSystem* const file_system_;
  IoResult handle_;  // -1: closed
  uint64_t position_ = 0;
  uint64_t written_ = 0;   // what the system has
  uint64_t reserved_ = 0;  // room asked for, from the start of the file
  bool reserves_ = true;   // false after the first refusal
  std::string gathered_;
  absl::Status status_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_BYTE_SINK_H_
