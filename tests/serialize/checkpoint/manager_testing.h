// Steps of a run in memory, and what they hold.

#ifndef TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_MANAGER_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_MANAGER_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"

namespace tensorcask::testing {

inline CheckpointManagerOptions On(FileSystem* files, int keep_last = 3, int64_t keep_every = 0) {
  CheckpointManagerOptions options;
  options.keep_last = keep_last;
  options.keep_every = keep_every;
  options.writer.file_system = files;
  options.writer.num_shards = 2;
  return options;
}

// What a step holds: its number, in shard 1.
inline absl::Status AddStep(int64_t step, CheckpointWriter& writer) {
  CheckpointAddOptions add;
  add.shard = 1;
  CASK_RETURN_IF_ERROR(writer.Add("w", *Tensor::Zeros(DType::kFloat32, TensorShape({3}))));
  return writer.Add("step", Tensor::Scalar<int64_t>(step), add);
}

inline absl::Status SaveStep(CheckpointManager* manager, int64_t step) {
  return manager->Save(step, [&](CheckpointWriter& writer) { return AddStep(step, writer); });
}

// The number that a step holds; -1 if it cannot be read.
inline int64_t Content(FileSystem* files, const std::string& prefix) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(prefix, options);
  if (!reader.ok()) return -1;
  const absl::StatusOr<Tensor> step = reader->Read("step");
  const absl::StatusOr<Tensor> w = reader->Read("w");
  return step.ok() && w.ok() ? step->scalar<int64_t>() : -1;
}

inline std::vector<std::string> FilesOf(int64_t step) {
  const std::string prefix = absl::StrCat("/run/ckpt-", step);
  return {prefix + ".data-00000-of-00002", prefix + ".data-00001-of-00002", prefix + ".index"};
}

// The files of these steps, of the state file and of the lock, sorted.
inline std::vector<std::string> FilesOfRun(const std::vector<int64_t>& steps) {
  std::vector<std::string> paths = {"/run/.ckpt.lock", "/run/checkpoint"};
  for (const int64_t step : steps) {
    for (std::string& path : FilesOf(step)) paths.push_back(std::move(path));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_MANAGER_TESTING_H_
