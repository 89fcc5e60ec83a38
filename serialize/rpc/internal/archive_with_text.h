// An archive with other metadata of the file: texts that clients can be sent.

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_ARCHIVE_WITH_TEXT_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_ARCHIVE_WITH_TEXT_H_

#include <memory>
#include <string>
#include <vector>

#include "tensorcask/serialize/archive/archive_reader.h"

namespace tensorcask::rpc {

// All else is that of `archive`.
std::shared_ptr<const ArchiveReader> WithFileMetadata(std::shared_ptr<const ArchiveReader> archive,
                                                      FileMetadata file_metadata, std::vector<std::string> notes);
// With its values as texts, and notes on what has none and on tensors that cannot be read (beside_tensors.h).
std::shared_ptr<const ArchiveReader> WithValuesAsText(std::shared_ptr<const ArchiveReader> archive);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_ARCHIVE_WITH_TEXT_H_
