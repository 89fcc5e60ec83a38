// What a server answers to List, and the version that each answer and request names (FORMAT.md sections 2 and 3).

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_LIST_PAGE_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_LIST_PAGE_H_

#include "absl/status/status.h"
#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/serialize/rpc/tensor_source.h"

namespace tensorcask::rpc {

void SetVersion(const TensorVersion& version, v1::Version* out);

// Whether a request can be served: it names no version, or the one that is served.
// Errors: Aborted, which tells the client to list the tensors again.
absl::Status CheckVersion(bool is_named, const v1::Version& named, const TensorVersion& served);

// Fills *page with one page of about 1 MiB: the readable tensors with the prefix, from number `start` among all with
// the prefix.
// Errors: those of CheckVersion; OutOfRange if `start` is past the last tensor.
absl::Status MakePage(const TensorSnapshot& snapshot, const v1::ListRequest& request, v1::ListResponse* page);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_LIST_PAGE_H_
