// Bytes that can be read at any position: a file, a piece of memory.
//
//   CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> file, OpenFileSource(path, {}));
//   CASK_RETURN_IF_ERROR(file->ReadAt(file->size_bytes() - 48, absl::MakeSpan(footer)));
//
// A read returns all bytes or an error: the source retries short counts and EINTR, and a range past the end is DataLoss
// ("PATH: 48 bytes at 1000 were requested; the file has 1020"). Each read names its offset, and there is no cursor, so
// several threads may read at once.

#ifndef TENSORCASK_SERIALIZE_IO_BYTE_SOURCE_H_
#define TENSORCASK_SERIALIZE_IO_BYTE_SOURCE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/read_plan.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {

// How bytes are read from a file. kRead copies with positioned reads. kParallel does the same on several threads for
// ranges of 8 MiB and more. kMap maps the file once and copies from there: fastest, but if another process truncates
// the file meanwhile, SIGBUS ends this one. Use it only for files that do not change. Where the file system cannot map
// files, kMap reads as kRead does.
enum class ReadStrategy { kRead, kParallel, kMap };

class ByteSource;

struct ReadOptions {
  ReadOptions() {}  // by hand: GCC 12 takes a defaulted one for uninitialized where it is a default argument
  FileSystem* file_system = FileSystem::Posix();
  ReadStrategy strategy = ReadStrategy::kRead;
  int num_threads = 4;  // for kParallel
  // Not null: the only file that can be opened. Its path is source->name(), and the file system is not asked for it.
  std::shared_ptr<const ByteSource> source = nullptr;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  virtual const std::string& name() const = 0;  // the path, for messages
  virtual uint64_t size_bytes() const = 0;      // when it was opened
  // Waits for the end of opening, which OpenFileSourceSoon began. Errors: as OpenFileSource; size_bytes() is 0 then.
  virtual absl::Status WaitUntilOpen() const { return absl::OkStatus(); }

  // Fills `out` from `offset`. Errors: DataLoss past the end; from errno, naming the path.
  virtual absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const = 0;

  // Fills every range, joining neighbours (gaps up to read_shape().gap_bytes are read over) into few large reads.
  // Ranges may come in any order and may overlap. Errors: as ReadAt; nothing is read if one of them leaves the file.
  virtual absl::Status ReadRanges(absl::Span<const ReadRange> ranges) const;

  // How the source is read best: that of its file system. The default is that of a disk.
  virtual ReadShape read_shape() const { return {}; }

  // While the result lives, the source may fetch these ranges before they are read, as read_plan.h says. Null, the
  // default, if nothing is gained by that. Requires: the source outlives the result.
  virtual std::shared_ptr<Announcement> Announce(absl::Span<const FileRange> ranges,
                                                 const AnnounceOptions& options = {}) const;

  // The open file that has the bytes, for copies inside the system (FileSystem::CopyRange). False: there is none.
  virtual bool GetFile(FileSystem** file_system, IoResult* handle) const;

  // The bytes without a copy: read-only memory of kind kMapped that keeps the mapping alive, whatever happens to this
  // source. `offset` need not be page-aligned; the result starts exactly there. A file is mapped once, as a whole,
  // however many parts a caller maps.
  // Errors: DataLoss past the end, or if the file was truncated meanwhile; Unimplemented if this source cannot map.
  virtual absl::StatusOr<RefPtr<TensorBuffer>> Map(uint64_t offset, size_t size_bytes) const;
};

// Errors: from errno, naming the path; FailedPrecondition for anything but a regular file; InvalidArgument as
// CheckPath; NotFound for another path than that of options.source.
absl::StatusOr<std::shared_ptr<const ByteSource>> OpenFileSource(const std::string& path, const ReadOptions& options);

// As OpenFileSource, and need not wait until the file is open where its system opens files meanwhile
// (FileSystem::OpenToReadSoon): what waits is each method of the source that has to know, and Announce does not.
absl::StatusOr<std::shared_ptr<const ByteSource>> OpenFileSourceSoon(const std::string& path,
                                                                     const ReadOptions& options);

// The same of a file that is open: `handle` is what an operation of options.file_system that opens files returned, an
// error included. The source closes it.
absl::StatusOr<std::shared_ptr<const ByteSource>> SourceOfHandle(const std::string& path, IoResult handle,
                                                                 const ReadOptions& options);

// The bytes of `source` from `offset` on as a source of their own: a file inside another file. Its offsets begin with
// 0, and its name is that of `source`. A part of it is mapped if `source` can be mapped. Errors: DataLoss if the window
// leaves `source`.
absl::StatusOr<std::shared_ptr<const ByteSource>> MakeWindow(std::shared_ptr<const ByteSource> source, uint64_t offset,
                                                             uint64_t size_bytes);

// Whether the path of an open file leads to another file now, or to none. False where the file system cannot tell.
bool WasReplaced(const ByteSource& file);

// Bytes in memory, which must outlive the source.
std::shared_ptr<const ByteSource> MakeMemorySource(std::string name, absl::string_view bytes);
// The same of a buffer, which the source and all that is mapped of it keep alive. Requires: bytes->CheckReadable().
std::shared_ptr<const ByteSource> MakeMemorySource(std::string name, RefPtr<TensorBuffer> bytes);

// NotFound if options.source is not null: there are no files beside it. `path` is that of such a file.
absl::Status CheckHasNeighbours(const std::string& path, const ReadOptions& options);

// The whole file.
// Errors: as OpenFileSource; ResourceExhausted if it is larger than `max_bytes`, or than the memory that can be had.
absl::StatusOr<RefPtr<TensorBuffer>> ReadWholeFile(const std::string& path, uint64_t max_bytes,
                                                   const ReadOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_BYTE_SOURCE_H_
