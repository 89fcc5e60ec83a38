// Files of torch.save as an archive format that is read.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_TORCH_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_TORCH_FORMAT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

class TorchArchiveFormat final : public ArchiveFormat {
 public:
  absl::string_view name() const override { return "torch"; }
  // Programs also save to .bin and .ckpt, which other formats have, too: the content tells them.
  std::vector<absl::string_view> extensions() const override { return {".pt", ".pth"}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType dtype) const override;
  bool Recognizes(const ArchiveProbe& probe) const override;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_TORCH_FORMAT_H_
