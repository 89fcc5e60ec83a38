// Files of torch.save, and models in several of them that have an index (pytorch_model.bin.index.json), as an archive
// format.
//
//   const TorchArchiveFormat torch;
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenArchive("pytorch_model.bin", {&torch}));   // archive.h
//   CASK_ASSIGN_OR_RETURN(Tensor w, archive->Read("encoder.weight"));

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_TORCH_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_TORCH_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

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
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask {

struct TorchFormatOptions {
  // Classes and functions that are not known become opaque values (TorchReaderOptions::opaque_objects).
  bool opaque_objects = false;
};

class TorchArchiveFormat final : public ArchiveFormat {
 public:
  explicit TorchArchiveFormat(const TorchFormatOptions& options = {}) : options_(options) {}

  absl::string_view name() const override { return "torch"; }
  // Programs also save to .bin and .ckpt, which other formats have, too: the content tells them.
  std::vector<absl::string_view> extensions() const override { return {".pt", ".pth"}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType dtype) const override;
  bool HoldsMetadata(const TensorMetadata& metadata) const override;
  absl::StatusOr<std::vector<MetadataNotHeld>> CheckMetadata(const MetadataForFile& metadata) const override;
  absl::Status CheckEntry(const ArchiveEntry& entry) const override;
  absl::Status CheckValue(Value value) const override;
  bool Recognizes(const ArchiveProbe& probe) const override;
  // Also the index of a model in several files: "pytorch_model.bin.index.json".
  std::vector<std::string> FindIn(const std::string& folder, absl::Span<const std::string> names,
                                  FileSystem* file_system) const override;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
  // options.alignment applies to the elements of each tensor; at most 16384.
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                        const ArchiveWriterOptions& options) const override;
  // Writes the file anew, as a conversion does. Errors: also those of PlanConversion: InvalidArgument if the file has
  // anything that is not written, such as an object of a class or a sparse tensor.
  absl::StatusOr<FileEditResult> Edit(const std::string& path, const FileEdits& edits,
                                      const FileEditOptions& options) const override;

 private:
  const TorchFormatOptions options_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_TORCH_FORMAT_H_
