// The members of a zip archive, as its directory and the headers before their data agree on them.
//
//   CASK_ASSIGN_OR_RETURN(std::vector<ZipMember> members, ReadZipDirectory(*file, limits));
//   for (const ZipMember& member : members) ...   // member.name, member.data_offset, member.size_bytes
//
// A zip archive states most facts twice, and readers differ in which copy they use. So one file can show different
// contents to different readers. ReadZipDirectory compares the copies, and refuses an archive unless
//
//   - an end record lies at the end of the file, and its comment holds no second end record;
//   - the directory lies right before the end record, has as many entries as the record says, and no other bytes;
//   - name, method, flags, sizes and CRC-32 of each entry are those of the member's local header and, if it has one, of
//     its data descriptor;
//   - the members follow one another from the first byte of the file to the directory, without gap or overlap;
//   - no two have the same name.
//
// Names are bytes and never become paths: "../x" is a key like others. Archives in several files, encrypted members,
// methods other than stored and deflated, and links are refused.

#ifndef TENSORCASK_SERIALIZE_ZIP_ZIP_DIRECTORY_H_
#define TENSORCASK_SERIALIZE_ZIP_ZIP_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/zip/zip_member.h"

namespace tensorcask {

// What ReadZipDirectory fetches beside the local headers where many small reads are slow (ReadShape): the first
// data_bytes of each member's data, which the caller reads next. They are kept while `fetched` lives.
struct ZipReadAhead {
  uint64_t data_bytes = 0;
  std::shared_ptr<void> fetched;
};

// True if a file that begins with `start` can be a zip archive: the first four bytes decide.
bool IsZip(absl::string_view start);

// All members, in the order of the directory. Reads the directory and the local headers.
// With `list_damaged`, what concerns one member does not hide the others: the two copies of its facts disagree, or it
// is encrypted or compressed by another method. Then ZipMember::status says so, and data_offset is not known. Errors,
// naming file and member: DataLoss if the file is not a zip archive or breaks a rule above; Unimplemented for
// encryption, other methods and archives in several files; ResourceExhausted past limits.max_entries or max_name_bytes;
// those of the source.
absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(const ByteSource& file, const DecodeLimits& limits,
                                                        bool list_damaged = false, ZipReadAhead* ahead = nullptr);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ZIP_ZIP_DIRECTORY_H_
