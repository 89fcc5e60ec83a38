// ONNX models, and ONNX tensors and sequences in files of their own, as an archive format.
//
// A file NAME.pb that is written holds one tensor. A model is made of another one, ArchiveWriterOptions::base_model
// (which ConvertArchives sets to its source, if that is one model); the tensors replace its initializers.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ONNX_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ONNX_FORMAT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

class OnnxArchiveFormat final : public ArchiveFormat {
 public:
  absl::string_view name() const override { return "onnx"; }
  std::vector<absl::string_view> extensions() const override { return {".onnx"}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType dtype) const override;
  // A model by its content. A tensor or a sequence has no signature: also the extension must be .pb.
  bool Recognizes(const ArchiveProbe& probe) const override;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                        const ArchiveWriterOptions& options) const override;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ONNX_FORMAT_H_
