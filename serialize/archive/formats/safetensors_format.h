// Safetensors files, and models in several of them, as an archive format.
//
//   SafetensorsFormatOptions options;
//   options.max_shard_bytes = SafetensorsArchiveFormat::kShardBytes;   // files of at most 5 GB
//   const SafetensorsArchiveFormat format(options);
//   CASK_RETURN_IF_ERROR(ConvertArchives({archive.get()}, "m.safetensors", format).status());   // convert_archives.h

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_SAFETENSORS_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_SAFETENSORS_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/serialize/values/file_edits.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

struct SafetensorsFormatOptions {
  bool checksums = true;  // false: files that are written have none
  // More than 0: a file of at most this many bytes of tensors, then another one (SafetensorsWriterOptions).
  uint64_t max_shard_bytes = 0;
};

class SafetensorsArchiveFormat final : public ArchiveFormat {
 public:
  static constexpr uint64_t kShardBytes = 5'000'000'000;  // the default of Hugging Face's transformers

  explicit SafetensorsArchiveFormat(const SafetensorsFormatOptions& options = {}) : options_(options) {}

  absl::string_view name() const override { return "safetensors"; }
  std::vector<absl::string_view> extensions() const override { return {".safetensors", ".safetensors.index.json"}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType dtype) const override;
  absl::StatusOr<std::vector<MetadataNotHeld>> CheckMetadata(const MetadataForFile& metadata) const override;
  absl::Status CheckEntry(const ArchiveEntry& entry) const override;
  bool Recognizes(const ArchiveProbe& probe) const override;
  // For a model in several files: only its index. A file that an index of the folder lists is part of that model.
  std::vector<std::string> FindIn(const std::string& folder, absl::Span<const std::string> names,
                                  FileSystem* file_system) const override;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
  // options.alignment applies to the first tensor. "NAME.safetensors.index.json" makes a model of files
  // NAME-00001-of-00003.safetensors with this index; max_shard_bytes is then kShardBytes unless it is set. For
  // "NAME.safetensors" with max_shard_bytes, a model that fits one file is that file, without an index.
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                        const ArchiveWriterOptions& options) const override;
  absl::StatusOr<FileEditResult> Edit(const std::string& path, const FileEdits& edits,
                                      const FileEditOptions& options) const override;

 private:
  const SafetensorsFormatOptions options_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_SAFETENSORS_FORMAT_H_
