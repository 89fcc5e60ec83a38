// A file with one TensorProto in protobuf's text form as an archive format. (serialize/archive may not use the message
// classes, which the text form needs.)

#ifndef TENSORCASK_TOOLS_FORMATS_TENSORPROTO_TEXT_FORMAT_H_
#define TENSORCASK_TOOLS_FORMATS_TENSORPROTO_TEXT_FORMAT_H_

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

namespace tensorcask::tools {

class TensorProtoTextArchiveFormat final : public ArchiveFormat {
 public:
  absl::string_view name() const override { return "tensorproto-text"; }
  std::vector<absl::string_view> extensions() const override { return {".pbtxt", ".textproto"}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType /*dtype*/) const override { return true; }
  bool Recognizes(const ArchiveProbe& /*probe*/) const override { return false; }
  std::vector<std::string> FindIn(const std::string& /*folder*/, absl::Span<const std::string> /*names*/,
                                  FileSystem* /*file_system*/) const override {
    return {};
  }
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                        const ArchiveWriterOptions& options) const override;
};

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_FORMATS_TENSORPROTO_TEXT_FORMAT_H_
