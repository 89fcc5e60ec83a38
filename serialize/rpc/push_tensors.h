// Sends tensors to a server, which offers them from then on: a worker hands its result to a parameter server.
//
//   CASK_ASSIGN_OR_RETURN(const TensorVersion version,
//                         PushTensors("grpc://10.0.0.7:50051", 100, {{"w", w}, {"b", b}}, {}));
//
// The server must accept pushes (TensorServerOptions::accept_pushes), and its source must have Replace, as LiveTensors
// has. It offers the new tensors when all of them have arrived, and keeps the ones before if the push breaks.

#ifndef TENSORCASK_SERIALIZE_RPC_PUSH_TENSORS_H_
#define TENSORCASK_SERIALIZE_RPC_PUSH_TENSORS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/tensor_source.h"

namespace tensorcask {

// The server gets the tensors with their metadata and strides, and the metadata beside them. Elements of a fixed size
// are sent row-major, without a copy if they are row-major in memory. Uses the credentials, the timeouts and the limits
// of `options`. A push that broke is not repeated.
// Errors: InvalidArgument for what is not an address, an address with a NAME, and two tensors of one name;
// PermissionDenied if the server accepts no pushes; Unavailable if it cannot be reached, goes away or drains;
// DeadlineExceeded; ResourceExhausted past a limit of the server; DataLoss if the server ends the push without an error
// and without an answer; those of LiveTensors::Publish.
absl::StatusOr<TensorVersion> PushTensors(const std::string& address, int64_t step, std::vector<NamedView> tensors,
                                          const RemoteOptions& options, FileMetadata file_metadata = {});

struct PushArchiveOptions {
  // Leaves out metadata of tensors that cannot be read, and objects beside the tensors that have no text, instead of
  // failing.
  bool allow_loss = false;
  // Called before each piece; the push ends with Cancelled when it returns false. Null: always true.
  std::function<bool(uint64_t sent_bytes)> keep_going = nullptr;
  // Called before the first byte is sent, with a sentence for each value or metadata that the push leaves out; may be
  // null.
  std::function<void(const std::string& sentence)> note = nullptr;
};

// Sends the tensors of these names from a file, with what the file has beside them: values become texts, as in metadata
// of safetensors (archive/convert_archives.h). The file is read piece by piece: a few MiB are in memory.
// Errors: those of PushTensors; NotFound for an unknown name; those of reading; InvalidArgument for what only
// allow_loss leaves out; Cancelled by keep_going.
absl::StatusOr<TensorVersion> PushArchive(const std::string& address, int64_t step,
                                          std::shared_ptr<const ArchiveReader> archive,
                                          const std::vector<std::string>& names, const RemoteOptions& options,
                                          const PushArchiveOptions& push = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_RPC_PUSH_TENSORS_H_
