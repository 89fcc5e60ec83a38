// Serves a Push: the client replaces the tensors of the server (FORMAT.md section 6).

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_PUSH_STREAM_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_PUSH_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>

#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/rpc/internal/open_streams.h"
#include "tensorcask/serialize/rpc/tensor_source.h"

namespace tensorcask::rpc {

// What the pushes to a server share.
struct PushResources {
  TensorSource* source = nullptr;
  OpenStreams* streams = nullptr;
  const DecodeLimits* limits = nullptr;
  std::atomic<uint64_t>* pushes = nullptr;  // that arrived whole
};

// The stream of one push, which fills *response with a serialized PushResponse. All of `server` outlives it. The stream
// deletes itself.
grpc::ServerReadReactor<grpc::ByteBuffer>* ServePush(const PushResources& server, grpc::CallbackServerContext* context,
                                                     grpc::ByteBuffer* response);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_PUSH_STREAM_H_
