// A file with one serialized TensorProto as an archive format. Its content cannot tell the format: the extension does.
//
//   const TensorProtoArchiveFormat tensorproto;
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenArchive("weights.pb", {&tensorproto}));   // archive.h
//   CASK_ASSIGN_OR_RETURN(Tensor weights, archive->Read("weights"));                  // named after the file
//
// A file of 4 MiB and more whose elements are row-major content is not read when it is opened, and its tensor is read
// and written in blocks, however large. All other messages are in memory as a whole, and so is what Read returns; a
// message of more than max_message_bytes is then ResourceExhausted.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_TENSORPROTO_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_TENSORPROTO_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

class TensorProtoArchiveFormat final : public ArchiveFormat {
 public:
  absl::string_view name() const override { return "tensorproto"; }
  std::vector<absl::string_view> extensions() const override { return {".pb"}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType /*dtype*/) const override { return true; }
  bool Recognizes(const ArchiveProbe& /*probe*/) const override { return false; }
  std::vector<std::string> FindIn(const std::string& folder, absl::Span<const std::string> names,
                                  FileSystem* file_system) const override;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                        const ArchiveWriterOptions& options) const override;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_TENSORPROTO_FORMAT_H_
