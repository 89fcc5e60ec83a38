// Serves tensors to other hosts over gRPC.
//
//   LiveTensors live;                                                       // live_tensors.h; or ServeArchive
//   CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorServer> server, TensorServer::Start(&live, {}));
//   ...                                                                     // clients: grpc://127.0.0.1:PORT
//   server->Drain(absl::Seconds(30));
//
// Elements in memory leave without a copy. Each stream has one piece of 1 MiB in flight, whatever its size: memory does
// not depend on how slow a client is. gRPC's standard services for health and reflection are on.
//
// Clients: remote_archive.h, and what any language generates from proto/exchange_service.proto. The protocol:
// FORMAT.md.

#ifndef TENSORCASK_SERIALIZE_RPC_TENSOR_SERVER_H_
#define TENSORCASK_SERIALIZE_RPC_TENSOR_SERVER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/rpc/tensor_source.h"

namespace grpc {
class ServerCredentials;
}  // namespace grpc

namespace tensorcask {

struct TensorServerOptions {
  std::string address = "127.0.0.1:0";  // HOST:PORT; port 0: any that is free
  // What clients must present. MakeTlsCredentials (tls.h) and grpc::SslServerCredentials make them. Null: nothing,
  // every client is served.
  std::shared_ptr<grpc::ServerCredentials> credentials = nullptr;
  // Allows an address of other hosts without credentials. Every host that reaches it can then read all tensors.
  bool insecure = false;
  // The memory that all streams together may use for blocks of files, gathered elements, messages and the lists of
  // items in requests. (Tensors that are in memory already do not count.) Past the limit a stream ends with
  // ResourceExhausted.
  uint64_t max_memory_bytes = uint64_t{256} << 20;
  int max_streams = 256;  // at once; one more is refused with ResourceExhausted
  // A stream is ended if its client receives and sends nothing for this long.
  absl::Duration slow_client = absl::Seconds(30);
  // Clients may replace all tensors (push_tensors.h). The source must have Replace, as LiveTensors has.
  bool accept_pushes = false;
  // Of a push: max_file_decoded_bytes and max_memory_beyond_input for all tensors together; max_message_bytes,
  // max_entries and max_name_bytes.
  DecodeLimits push_limits;
};

struct TensorServerStats {
  int num_streams = 0;           // open now, watches included
  uint64_t total_streams = 0;    // accepted since Start
  uint64_t refused_streams = 0;  // refused past max_streams, or while the server drained
  uint64_t slow_streams = 0;     // ended for TensorServerOptions::slow_client
  uint64_t sent_bytes = 0;       // elements of tensors
  uint64_t pushes = 0;           // received whole
};

// Thread-safe.
class TensorServer {
 public:
  // `source` must outlive the server.
  // Errors: InvalidArgument for an address without a port, and for one that other hosts can reach, without credentials
  // or `insecure`; for a certificate and a key that do not belong together; Unavailable if the address cannot be
  // listened at.
  static absl::StatusOr<std::unique_ptr<TensorServer>> Start(TensorSource* source, TensorServerOptions options);
  ~TensorServer();  // does what Drain(absl::ZeroDuration()) does

  int port() const;
  const std::string& address() const;  // HOST:PORT, with the port that was chosen

  // From now on new requests fail with Unavailable ("draining"). Returns when all streams have ended; those that have
  // not at the deadline are cut.
  void Drain(Deadline deadline);
  TensorServerStats stats() const;

 private:
  class Impl;
  explicit TensorServer(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_RPC_TENSOR_SERVER_H_
