// Serves a Watch: the versions of the tensors, each when it is there (FORMAT.md section 5).

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_WATCH_STREAM_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_WATCH_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/serialize/rpc/internal/open_streams.h"
#include "tensorcask/serialize/rpc/tensor_source.h"

namespace tensorcask::rpc {

// The stream of one request. It begins with the version that `source` has, unless the client knows it, and goes on with
// what OpenStreams::OfferToAll offers. It ends at once if `source` never has a set. `source` and `streams` outlive it.
// The stream deletes itself.
grpc::ServerWriteReactor<v1::Version>* ServeWatch(TensorSource* source, OpenStreams* streams,
                                                  const v1::WatchRequest& request);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_WATCH_STREAM_H_
