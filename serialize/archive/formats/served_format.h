// The tensors of a server (archive_service.h, `tensorcask serve`) as an archive: "unix:SOCKET" in place of a path.
//
//   const ServedArchiveFormat served;
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenArchive("unix:/run/user/1000/model.sock", {&served}));
//
// What the server says is checked as serialize/serve/FORMAT.md demands. An answer is awaited for a minute.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_SERVED_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_SERVED_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

class ServedArchiveFormat final : public ArchiveFormat {
 public:
  static constexpr char kScheme[] = "unix:";

  absl::string_view name() const override { return "served"; }
  absl::string_view scheme() const override { return kScheme; }
  std::vector<absl::string_view> extensions() const override { return {}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType dtype) const override { return dtype != DType::kInvalid; }
  bool Recognizes(const ArchiveProbe& /*probe*/) const override { return false; }  // no file has this format
  // Uses only the limits and the budget of the list of `options`.
  // Errors: those of Channel::ConnectToListening; those of the server; Unimplemented, with both versions, if the server
  // speaks another version of the protocol; DataLoss for a list that breaks its rules; ResourceExhausted past a limit.
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_SERVED_FORMAT_H_
