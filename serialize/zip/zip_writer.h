// Writes zip archives front to back, with equal bytes for equal input.
//
//   ZipWriter zip(sink);
//   CASK_RETURN_IF_ERROR(zip.BeginMember("kernel.npy", {.size_bytes = 16512, .prefix_bytes = 128, .alignment = 64}));
//   CASK_RETURN_IF_ERROR(zip.Append(header));     // 128 bytes
//   CASK_RETURN_IF_ERROR(zip.Append(elements));   // the rest; these begin at a multiple of 64
//   CASK_RETURN_IF_ERROR(zip.EndMember());
//   CASK_RETURN_IF_ERROR(zip.Finish());
//
// The caller gives sizes before the data, so zip64 is used exactly where it is needed. If the caller does not know the
// CRC-32, the writer puts it into a data descriptor after the data. A deflated member whose CRC-32 is known is kept in
// memory until its end, so that its header has all numbers, too. Dates are 1980-01-01; members are regular files that
// all may read. One caller at a time.

#ifndef TENSORCASK_SERIALIZE_ZIP_ZIP_WRITER_H_
#define TENSORCASK_SERIALIZE_ZIP_ZIP_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/zip/zip_directory.h"

namespace tensorcask {

struct ZipMemberOptions {
  uint64_t size_bytes = 0;             // the size of all data that Append will be given
  std::optional<uint32_t> crc32 = {};  // that of the same data
  int deflate_level = 0;               // 0: stored; 1 to 9
  // A stored member gets padding in its header, so that its data from byte `prefix_bytes` on begins at a multiple of
  // `alignment` bytes of the archive. A power of two, at most 16384.
  uint64_t prefix_bytes = 0;
  uint32_t alignment = 1;
};

class ZipWriter {
 public:
  static constexpr size_t kMaxNameBytes = 0xffff;

  // `sink` outlives the writer and is at its start. With `force_zip64` all members and the end are written as if they
  // were larger than 4 GiB (for tests).
  explicit ZipWriter(ByteSink* sink, bool force_zip64 = false);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  // Errors: InvalidArgument for a name that has a NUL byte (readers end names there), is not UTF-8 or is too long.
  static absl::Status CheckName(absl::string_view name);

  bool Has(absl::string_view name) const { return names_.contains(name); }  // a member of this name was begun

  // Errors: those of CheckName; InvalidArgument for options out of range; AlreadyExists for a second member of that
  // name; those of the sink. Requires: no member is open.
  absl::Status BeginMember(absl::string_view name, const ZipMemberOptions& options);
  // Requires: a member is open, its data so far and `bytes` are no more than size_bytes, and `bytes` do not change
  // meanwhile.
  absl::Status Append(absl::string_view bytes);
  // Requires: a member is open and all its data was given. Errors: Internal if the CRC-32 is not that of the options.
  absl::Status EndMember();
  // Copies `member` of the archive `from` (ReadZipDirectory) under the name `name`, as it is stored there: nothing is
  // inflated, and its CRC-32 is not computed. Stored data that begin at a multiple of 64 bytes do so again. Large
  // stored data keep their offset modulo 4096, so that FileSink::AppendFrom can share them. Errors: those of
  // BeginMember; those of `from`. Requires: no member is open. A name that stays may have any bytes, and is marked as
  // UTF-8 only if it was.
  absl::Status CopyMember(const ByteSource& from, const ZipMember& member, absl::string_view name);
  // Writes the directory. Requires: no member is open; called once.
  absl::Status Finish();

 private:
  struct Member;
  struct Deflater;

  absl::Status StartMember(absl::string_view name, const ZipMemberOptions& options);
  absl::Status WriteHeader(bool numbers_are_known);
  absl::Status Deflate(absl::string_view bytes, bool end);
  absl::Status Emit(absl::string_view bytes);  // writes data of the open member
  void AppendEntry();

  ByteSink* const sink_;
  const bool force_zip64_;
  const uint64_t start_;  // position of the sink at the start
  std::unique_ptr<Member> member_;
  std::unique_ptr<Deflater> deflater_;
  std::string directory_;
  uint64_t num_members_ = 0;
  absl::flat_hash_set<std::string> names_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ZIP_ZIP_WRITER_H_
