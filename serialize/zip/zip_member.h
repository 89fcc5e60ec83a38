// One member of a zip archive, and what its headers and the entries of the directory have in common.

#ifndef TENSORCASK_SERIALIZE_ZIP_ZIP_MEMBER_H_
#define TENSORCASK_SERIALIZE_ZIP_ZIP_MEMBER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorcask {

struct ZipMember {
  std::string name;  // any bytes; UTF-8 if the archive says that it is
  bool deflated = false;
  uint32_t crc32 = 0;          // that of the inflated data
  uint64_t stored_bytes = 0;   // the size of the data in the file
  uint64_t size_bytes = 0;     // inflated; a claim, at most 1032 times stored_bytes
  uint64_t header_offset = 0;  // the position of the local header in the file
  uint64_t data_offset = 0;    // the position of the data in the file
  uint16_t flags = 0;
  uint16_t method = 0;  // as the archive says it
  absl::Status status;  // why the member cannot be read: only with `list_damaged`

  bool is_folder() const { return !name.empty() && name.back() == '/'; }  // then it has no data
};

namespace zip {

// Replaces each of `values` that is the mask by the next 8 bytes of the zip64 extra field among `extra`.
// Errors: DataLoss if there is no such field, or it is too short.
absl::Status UnmaskZip64(absl::string_view extra, absl::Span<uint64_t* const> values);

// Whether the member can be read; `made_by` and `attributes` are those of the directory, or 0.
// Errors: Unimplemented for encryption, unknown flags and other methods; DataLoss for a link, a name that is not UTF-8
// and sizes that cannot be.
absl::Status CheckMember(const ZipMember& member, uint16_t made_by, uint32_t attributes);

}  // namespace zip
}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ZIP_ZIP_MEMBER_H_
