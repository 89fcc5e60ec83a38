// What all formats of addresses "grpc://HOST:PORT[/NAME]", and with TLS "grpcs://...", have in common. Needs no gRPC:
// what opens an address is up to the derived class, as RemoteArchiveFormat is (remote_archive.h).

#ifndef TENSORCASK_SERIALIZE_RPC_REMOTE_FORMAT_H_
#define TENSORCASK_SERIALIZE_RPC_REMOTE_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

class RemoteFormat : public ArchiveFormat {
 public:
  static constexpr char kScheme[] = "grpc://";
  static constexpr char kTlsScheme[] = "grpcs://";

  explicit RemoteFormat(bool tls) : tls_(tls) {}

  absl::string_view name() const override { return tls_ ? "grpcs" : "grpc"; }
  absl::string_view scheme() const override { return tls_ ? kTlsScheme : kScheme; }
  std::vector<absl::string_view> extensions() const override { return {}; }
  ArchiveTraits traits() const override {
    ArchiveTraits traits;
    traits.strides = true;
    traits.metadata = true;
    traits.file_metadata = true;
    traits.strings = true;
    return traits;
  }
  bool HoldsDType(DType dtype) const override { return dtype != DType::kInvalid; }
  bool Recognizes(const ArchiveProbe& /*probe*/) const override { return false; }  // no file is one

 private:
  const bool tls_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_RPC_REMOTE_FORMAT_H_
