// GGUF files, and models that are split into several of them, as an archive format. A written model is one file.
//
//   const GgufArchiveFormat gguf;
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenArchive("llama-7b-q4_k.gguf", {&gguf}));   // archive.h
//   CASK_ASSIGN_OR_RETURN(Tensor w, archive->Read("blk.0.attn_q.weight"));             // float32
//
// Tensors in blocks are float32, with the type of the blocks as their encoding ("q4_k"); a GGUF file that is written
// gets the blocks as they are, unless a rule gives the tensor a dtype. Metadata that is text, a number or a bool
// becomes FileMetadata; Values() has all of it, and another GGUF file gets it with its types. A text of FileMetadata
// becomes what GgufWriter::SetParsed makes of it: "uint32:7" is a number.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_GGUF_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_GGUF_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/serialize/values/file_edits.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

struct GgufFormatOptions {
  bool blocks_as_bytes = false;  // tensors in blocks are the bytes of their blocks, as uint8 (GgufReaderOptions)
};

class GgufArchiveFormat final : public ArchiveFormat {
 public:
  explicit GgufArchiveFormat(const GgufFormatOptions& options = {}) : options_(options) {}

  absl::string_view name() const override { return "gguf"; }
  std::vector<absl::string_view> extensions() const override { return {".gguf"}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType dtype) const override;
  absl::StatusOr<std::vector<MetadataNotHeld>> CheckMetadata(const MetadataForFile& metadata) const override;
  bool HoldsValue(absl::string_view name, Value value) const override;
  bool HoldsEncoding(absl::string_view encoding) const override;
  absl::Status CheckEntry(const ArchiveEntry& entry) const override;
  bool Recognizes(const ArchiveProbe& probe) const override;
  // For a split model: only its first part.
  std::vector<std::string> FindIn(const std::string& folder, absl::Span<const std::string> names,
                                  FileSystem* file_system) const override;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                        const ArchiveWriterOptions& options) const override;
  absl::StatusOr<FileEditResult> Edit(const std::string& path, const FileEdits& edits,
                                      const FileEditOptions& options) const override;

 private:
  const GgufFormatOptions options_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_GGUF_FORMAT_H_
