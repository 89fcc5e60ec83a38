// A training loop that saves in the background and continues from its newest whole checkpoint.
// docs/guide/checkpoints.md shows this file.

#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

absl::Status Train(const std::string& folder) {
  cask::CheckpointManagerOptions options;
  options.keep_last = 2;
  options.keep_every = 100;  // steps 100, 200, ... are kept forever
  CASK_ASSIGN_OR_RETURN(cask::CheckpointManager manager, cask::CheckpointManager::Open(folder, options));

  int64_t step = 0;
  cask::Tensor weights = *cask::Tensor::Zeros(cask::DType::kFloat32, cask::TensorShape({1000}));
  const absl::StatusOr<cask::LatestCheckpoint> latest = manager.Latest();  // verified: every checksum
  if (latest.ok()) {
    CASK_ASSIGN_OR_RETURN(const cask::CheckpointReader reader, cask::CheckpointReader::Open(latest->prefix));
    CASK_ASSIGN_OR_RETURN(weights, reader.Read("weights"));
    step = latest->step;
    for (const cask::SkippedStep& skipped : latest->skipped) std::cout << "damaged: " << skipped.why << '\n';
  } else if (!absl::IsNotFound(latest.status())) {
    return latest.status();
  }
  std::cout << "from step " << step << ": " << weights.flat<float>()[0] << '\n';

  std::unique_ptr<cask::BackgroundSave> save;  // the newest one
  for (const int64_t end = step + 120; step < end;) {
    for (float& weight : weights.mutable_flat<float>()) weight += 1;
    if (++step % 20 != 0) continue;
    CASK_ASSIGN_OR_RETURN(cask::BackgroundSave next,
                          manager.SaveInBackground(step, [&](cask::CheckpointWriter& writer) {
                            return writer.Add("weights", weights);  // takes a reference, copies nothing
                          }));
    if (save != nullptr) CASK_RETURN_IF_ERROR(save->Wait());
    save = std::make_unique<cask::BackgroundSave>(std::move(next));
  }
  CASK_RETURN_IF_ERROR(save->Wait());
  for (const int64_t kept : manager.steps()) std::cout << "kept: " << manager.PrefixOf(kept) << '\n';
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  const absl::Status status = Train(argc > 1 ? argv[1] : "run-1");
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
