// Tensors of this process for a server: a trainer publishes its weights after each step, and goes on.
//
//   LiveTensors live;
//   CASK_ASSIGN_OR_RETURN(const auto server, TensorServer::Start(&live, {}));   // tensor_server.h
//   CASK_RETURN_IF_ERROR(live.Publish(100, {{"w", w}, {"b", b}}));              // served from now on
//   *w.mutable_data<float>() = 0.5f;                                            // what is served stays as it was
//
// Nothing is copied until the program writes to a tensor that is being served (TensorView::LazyClone); then the tensor
// moves to new memory, and the old memory is freed when the next version is published and the last stream of the old
// version has ended. Pointers that were taken before Publish write to what is served: take them again.

#ifndef TENSORCASK_SERIALIZE_RPC_LIVE_TENSORS_H_
#define TENSORCASK_SERIALIZE_RPC_LIVE_TENSORS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/rpc/tensor_source.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

class LiveTensors final : public TensorSource {
 public:
  // Replaces all tensors that are served. Tensors on a device are copied to the host first.
  // Errors, after which the version before is still served: AlreadyExists if two tensors have one name; InvalidArgument
  // for metadata that no message can have (TensorMetadata::Validate); those of copies: ResourceExhausted,
  // FailedPrecondition for a buffer without data, errors of a device.
  absl::Status Publish(int64_t step, std::vector<NamedView> tensors, FileMetadata file_metadata = {});

  absl::StatusOr<TensorSnapshot> Current() override;
  absl::StatusOr<TensorSnapshot> WaitForNewer(const TensorVersion& version, Deadline deadline) override;
  absl::StatusOr<TensorVersion> Replace(TensorSet set) override;  // as Publish

 private:
  std::mutex mutex_;
  std::condition_variable published_;
  TensorSnapshot snapshot_;  // without tensors before the first Publish
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_RPC_LIVE_TENSORS_H_
