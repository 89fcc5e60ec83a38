// An archive of tensors that are in memory: of a message, which is decoded as a whole, or of a pipe.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_DECODED_ARCHIVE_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_DECODED_ARCHIVE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/record_stream.h"

namespace tensorcask {

// `path` is for error messages. A tensor whose metadata_status is an error is listed and read; Metadata returns that
// error. `has_names` as in ArchiveReader. Requires: the names differ.
std::unique_ptr<ArchiveReader> MakeDecodedArchive(absl::string_view format, std::string path,
                                                  std::vector<NamedRecord> tensors, bool has_names);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_DECODED_ARCHIVE_H_
