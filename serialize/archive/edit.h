// Changes names of tensors and the metadata of a file and removes tensors, without touching the elements that stay.
//
//   ArchiveEdits edits;
//   edits.rename = [](absl::string_view name) { return absl::StrCat("encoder/", name); };
//   edits.set_metadata["license"] = "MIT";
//   CASK_ASSIGN_OR_RETURN(const ArchiveEditReport report, EditArchive("model.safetensors", edits, formats));
//
// A reader sees the old file or the new one at every moment, also after a crash: nothing is changed in place. So the
// elements of safetensors and npz files are copied where the file system cannot share them (ext4). A header that is
// written over the old one would need no copy, but a crash could leave a part of each, and programs that have mapped
// the file would see it change. What the formats do:
//
// - safetensors: a new file with a new header and the same data replaces the old one. The system copies the data;
//   where the file system can (Btrfs, XFS), both files share them. Checksums stay with their tensors, and tied
//   tensors stay tied. Fields that the format does not define are left out, with a note. A model in several files gets
//   new files under new names for those that change; then its index is replaced, and then the old files are removed
//   (FileEditResult::removed_files).
//   The format allows no gaps, so the data after a removed tensor move up; its bytes are not in the new file. A tensor
//   is removed only together with its other names; another name can be removed alone.
// - GGUF: likewise, with the version and the byte order of the old file; metadata keeps its types. A key that only pads
//   may be added (serialize/gguf/FORMAT.md section 3.4). A model in several files is edited in place if one of them
//   changes; else options.output, the name of the first one, gets all of them (serialize/gguf/edit_file.h).
// - ONNX: a new model with the same bytes, but for the names of initializers, in each place that uses them, and for
//   metadata_props (serialize/onnx/FORMAT.md section 8). An initializer that a node uses is not removed.
// - npz: likewise, with new headers of the members and a new directory. Nothing is inflated. No metadata. The bytes of
//   removed arrays are not in the new file. At least one array stays.
// - checkpoint: a new index replaces the old one; the data files are not touched. Tensors can be removed; their bytes
//   stay in the data files. No metadata. V1 checkpoints, deltas and tensors that the checkpoint's object graph names
//   are refused: TensorFlow restores by the names in the graph.
// - torch: a change of the metadata of an archive copies all other records as they are. Other changes write a new
//   pickle (serialize/torch/FORMAT.md section 6); without options.output they are refused if the new file would lack
//   attributes or records of the old one. Notes say what it lacks.
// - Other formats are refused: ConvertArchives (convert_archives.h) writes them anew.
//
// Values, dtypes and shapes stay the same, bit by bit. No checksum of elements is verified. The new files have the
// permissions that the old files have in common. Other hard links to an old file keep its content.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_EDIT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_EDIT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/values/file_edits.h"

namespace tensorcask {

struct ArchiveEdits {
  // The new name of each tensor, as ConvertOptions::rename (convert_archives.h).
  std::function<absl::StatusOr<std::string>(absl::string_view name)> rename;
  // True for tensors to remove, by their old names; null: none is removed.
  std::function<bool(absl::string_view name)> remove;
  FileMetadata set_metadata;
  std::set<std::string> unset_metadata;
};

struct ArchiveEditReport {
  std::string path;                                          // the archive that was found
  std::string format;                                        // ArchiveFormat::name
  std::vector<std::pair<std::string, std::string>> renamed;  // from, to; sorted
  std::vector<std::string> removed;                          // sorted
  FileEditResult result;
};

// Edits the archive at `path`, which OpenArchive would open. With options.dry_run, only checks and reports. If no name
// and no metadata would change, writes nothing and reports no files.
// Errors, and nothing has changed: those of OpenArchive; AlreadyExists if two tensors would have one name, and for an
// options.output that exists; InvalidArgument for a name or metadata that the format cannot hold, and for metadata of a
// format without it; NotFound for a key of unset_metadata that is not there; FailedPrecondition for tensors that must
// keep their names, and for what a new file of torch.save would lack (above); Unimplemented for formats that are not
// edited; Cancelled by options.progress; from errno, naming the file.
absl::StatusOr<ArchiveEditReport> EditArchive(const std::string& path, const ArchiveEdits& edits,
                                              ArchiveFormats formats, const FileEditOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_EDIT_H_
