// Distributed checkpoints of PyTorch as an archive format: a folder of .distcp files with their .metadata, or of
// safetensors files with parts of tensors (joined_shards.h). They are read, not written.
//
//   const DcpArchiveFormat dcp;
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenArchive("/runs/7/step-1000", {&dcp}));   // archive.h; a folder

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_DCP_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_DCP_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/formats/torch_format.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

class DcpArchiveFormat final : public ArchiveFormat {
 public:
  // The options of files of torch.save: each part of a checkpoint is such a file.
  explicit DcpArchiveFormat(const TorchFormatOptions& options = {}) : options_(options) {}

  absl::string_view name() const override { return "dcp"; }
  std::vector<absl::string_view> extensions() const override { return {".distcp"}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType dtype) const override { return dtype != DType::kInvalid; }
  // Recognizes the folder and its .metadata; and each of its files, so that Open can say to name the folder.
  bool Recognizes(const ArchiveProbe& probe) const override;
  std::vector<std::string> FindIn(const std::string& folder, absl::Span<const std::string> names,
                                  FileSystem* file_system) const override;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;

 private:
  const TorchFormatOptions options_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_DCP_FORMAT_H_
