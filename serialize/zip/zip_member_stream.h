// The data of one member of a zip archive, inflated, from front to back.
//
//   ZipMemberStream stream(file, member, /*verify=*/true);
//   CASK_RETURN_IF_ERROR(stream.Read(absl::MakeSpan(header)));
//   CASK_RETURN_IF_ERROR(stream.Read(elements));
//   CASK_RETURN_IF_ERROR(stream.Finish());   // now the checksum was compared
//
// The stream never gives more bytes than the directory promises (member.size_bytes); a deflated member that has more,
// or fewer, is DataLoss. Memory: 256 KiB of input, and zlib's state, for a deflated member; else none. Errors do not
// name the member: Annotate (tensor/base/status_util.h) does. One caller at a time.

#ifndef TENSORCASK_SERIALIZE_ZIP_ZIP_MEMBER_STREAM_H_
#define TENSORCASK_SERIALIZE_ZIP_ZIP_MEMBER_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/zip/zip_member.h"

namespace tensorcask {

// Where deflated data ends, and what it inflates to.
struct DeflatedExtent {
  uint64_t stored_bytes = 0;
  uint64_t size_bytes = 0;
  uint32_t crc32 = 0;
};

class ZipMemberStream {
 public:
  // `file` and `member` are those of ReadZipDirectory or WalkZip; both outlive the stream. Without `verify` no checksum
  // is computed.
  ZipMemberStream(const ByteSource* file, const ZipMember* member, bool verify);
  ~ZipMemberStream();
  ZipMemberStream(const ZipMemberStream&) = delete;
  ZipMemberStream& operator=(const ZipMemberStream&) = delete;

  uint64_t position() const { return position_; }  // bytes given or skipped so far

  // Fills `out` with the next bytes.
  // Errors: DataLoss past the end of the member, or if the data cannot be inflated; those of the source;
  // ResourceExhausted without memory.
  absl::Status Read(absl::Span<char> out);
  // Passes over `bytes` bytes. Without `verify` the bytes of a stored member are not read.
  absl::Status Skip(uint64_t bytes);
  // Reads what is left and checks that the data ends where the directory says and has its checksum.
  absl::Status Finish();

 private:
  friend absl::StatusOr<DeflatedExtent> MeasureDeflated(const ByteSource& file, uint64_t offset,
                                                        absl::Span<char> scratch, DecodeQuota* quota);

  struct Inflater;

  absl::Status ReadStored(absl::Span<char> out);
  absl::Status StartInflating();
  absl::StatusOr<size_t> InflateSome(absl::Span<char> out);
  absl::Status Inflate(absl::Span<char> out);
  absl::Status FinishInflating();

  const ByteSource* const file_;
  const ZipMember* const member_;
  const bool verify_;
  uint64_t position_ = 0;
  uint32_t crc_ = 0;
  std::unique_ptr<Inflater> inflater_;  // null: stored, or nothing was read yet
};

// Inflates the deflated data at `offset`, whose size is not known, to `scratch`, a piece after the other; `quota` is
// charged with what it inflates to. Errors: DataLoss if it has no end or cannot be inflated; ResourceExhausted past the
// quota or without memory; those of the source.
absl::StatusOr<DeflatedExtent> MeasureDeflated(const ByteSource& file, uint64_t offset, absl::Span<char> scratch,
                                               DecodeQuota* quota);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ZIP_ZIP_MEMBER_STREAM_H_
