// Saves what is whole of a damaged file of any format to a new file, and lists what is lost.
//
//   CASK_ASSIGN_OR_RETURN(const ArchiveSalvage salvage,
//                         SalvageArchive("broken.npz", "rescued.npz", npz, AllFormats().list()));
//   for (const ArchiveDamage& lost : salvage.lost) ...
//
// A file whose list of tensors can be read is verified first (ArchiveReader::VerifyAll), then its whole tensors are
// copied (convert_archives.h): each is read twice. Of an npz file without its directory, as a download that stopped
// leaves it, the members are found by the headers before their data (ArchiveFormat::OpenDamaged). A checkpoint whose
// index is damaged is searched for whole entries (checkpoint/salvage.h), if the new file is a checkpoint, too.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_SALVAGE_ARCHIVE_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_SALVAGE_ARCHIVE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/archive/archive_format.h"

namespace tensorcask {

// Writes a file of `format` at `to`, whole like every save; nothing if all is lost. `path` is one that OpenArchive
// takes, also a folder with one archive. The source replaces the metadata, the number of files and store_opaquely of
// `write`. `keep_going`, unless null, is called before each tensor: if it returns false, nothing is written.
// Errors: those of OpenArchive if not even a list of tensors can be read; AlreadyExists unless write.overwrite;
// InvalidArgument if `to` is the source; Cancelled; those of the writer.
absl::StatusOr<ArchiveSalvage> SalvageArchive(const std::string& path, const std::string& to,
                                              const ArchiveFormat& format, ArchiveFormats formats,
                                              const ArchiveReaderOptions& read = {},
                                              const ArchiveWriterOptions& write = {},
                                              const std::function<bool()>& keep_going = nullptr);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_SALVAGE_ARCHIVE_H_
