// The members of a zip archive whose directory is missing or damaged, as a download that stopped leaves it: by the
// headers before their data, from the first byte of the file on.
//
//   CASK_ASSIGN_OR_RETURN(const ZipWalk walk, WalkZip(*file, limits, size_of_data));
//   for (const ZipMember& member : walk.members) ...   // a ZipMemberStream reads those whose status is OK
//
// Each member begins where the one before it ends; nothing is searched for, so a header inside the data of a member is
// data. Where a header does not say how long the data is, because a data descriptor after the data does (programs that
// write to a pipe store members so), deflated data is inflated to its end, and for stored data the content must say it.
// Only for salvage: other programs may see other members (zip_directory.h).

#ifndef TENSORCASK_SERIALIZE_ZIP_ZIP_WALK_H_
#define TENSORCASK_SERIALIZE_ZIP_ZIP_WALK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/zip/zip_member.h"

namespace tensorcask {

struct ZipWalk {
  // In the order of the file; names may occur twice. ZipMember::status says why a member cannot be read: its data or
  // its descriptor is cut short, for example.
  std::vector<ZipMember> members;
  uint64_t end = 0;    // the offset after the last member whose end was found
  std::string reason;  // why no other is: "the file ends"; empty if the directory begins there
};

// The size of the data of a stored member of unknown size. All that is after its header, in `rest`, may be read as if
// it were the member. Errors: DataLoss, InvalidArgument or Unimplemented if the content does not say it.
using SizeOfZipData = absl::FunctionRef<absl::StatusOr<uint64_t>(const ZipMember& rest)>;

// Reads headers and descriptors, and inflates members of unknown size, max_file_decoded_bytes in all. Errors, naming
// the file: ResourceExhausted past a limit of entries, names or memory; those of the source.
absl::StatusOr<ZipWalk> WalkZip(const ByteSource& file, const DecodeLimits& limits, SizeOfZipData size_of_data);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ZIP_ZIP_WALK_H_
