// TensorFlow's checkpoints as an archive format. `path` is the prefix or the .index file.
//
//   const CheckpointArchiveFormat checkpoint;
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenArchive("/models/step-100", {&checkpoint}));   // archive.h

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_CHECKPOINT_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_CHECKPOINT_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/values/file_edits.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

struct CheckpointFormatOptions {
  // False: the caller uses ForEachEntry, Read and VerifyAll of the reader, but neither entries(), which is empty, nor
  // Find. A checkpoint of many tensors then takes less memory.
  bool keep_entries = true;
};

class CheckpointArchiveFormat final : public ArchiveFormat {
 public:
  explicit CheckpointArchiveFormat(const CheckpointFormatOptions& options = {}) : options_(options) {}

  absl::string_view name() const override { return "checkpoint"; }
  std::vector<absl::string_view> extensions() const override { return {".index"}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType dtype) const override { return dtype != DType::kResource; }
  absl::Status CheckEntry(const ArchiveEntry& entry) const override;
  bool Recognizes(const ArchiveProbe& probe) const override;
  // If the folder has the file `checkpoint`: the latest checkpoint that this file names. Otherwise all checkpoints of
  // the folder; of a SavedModel its variables.
  std::vector<std::string> FindIn(const std::string& folder, absl::Span<const std::string> names,
                                  FileSystem* file_system) const override;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                        const ArchiveWriterOptions& options) const override;
  absl::StatusOr<FileEditResult> Edit(const std::string& path, const FileEdits& edits,
                                      const FileEditOptions& options) const override;
  absl::StatusOr<ArchiveSalvage> Salvage(const std::string& path, const std::string& to,
                                         const ArchiveReaderOptions& read, const ArchiveWriterOptions& write,
                                         const std::function<bool()>& keep_going) const override;

 private:
  const CheckpointFormatOptions options_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_CHECKPOINT_FORMAT_H_
