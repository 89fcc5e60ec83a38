// Serves a Pull: pieces of many tensors, one after another (FORMAT.md section 4).

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_PULL_STREAM_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_PULL_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>

#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/rpc/internal/open_streams.h"
#include "tensorcask/serialize/rpc/internal/work_queue.h"
#include "tensorcask/serialize/rpc/tensor_source.h"

namespace tensorcask::rpc {

// What the pulls of a server share.
struct PullResources {
  TensorSource* source = nullptr;
  OpenStreams* streams = nullptr;
  DecodeQuota* memory = nullptr;  // besides that of the tensors
  WorkQueue* files = nullptr;     // reads tensors that are not in memory
  std::atomic<uint64_t>* sent_bytes = nullptr;
};

// The stream of one request, which is a PullRequest. All of `server` outlives it. The stream deletes itself.
grpc::ServerWriteReactor<grpc::ByteBuffer>* ServePull(const PullResources& server, const grpc::ByteBuffer& request,
                                                      grpc::CallbackServerContext* context);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_PULL_STREAM_H_
