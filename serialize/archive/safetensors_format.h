// Safetensors files, and models in several of them, as an archive format.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_SAFETENSORS_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_SAFETENSORS_FORMAT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/serialize/io/file_edits.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

class SafetensorsArchiveFormat final : public ArchiveFormat {
 public:
  absl::string_view name() const override { return "safetensors"; }
  std::vector<absl::string_view> extensions() const override { return {".safetensors", ".safetensors.index.json"}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType dtype) const override;
  bool Recognizes(const ArchiveProbe& probe) const override;
  // Of a model in several files only the index.
  std::vector<std::string> FindIn(const std::string& folder, absl::Span<const std::string> names) const override;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
  // Stores checksums of the tensors. options.alignment is that of the first tensor.
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                        const ArchiveWriterOptions& options) const override;
  absl::StatusOr<FileEditResult> Edit(const std::string& path, const FileEdits& edits,
                                      const FileEditOptions& options) const override;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_SAFETENSORS_FORMAT_H_
