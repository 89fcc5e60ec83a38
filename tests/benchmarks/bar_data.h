// Tensors, folders and checkpoints for the rows of `bars` and for benchmarks.

#ifndef TENSORCASK_TESTS_BENCHMARKS_BAR_DATA_H_
#define TENSORCASK_TESTS_BENCHMARKS_BAR_DATA_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/bars.h"

namespace tensorcask::benchmarks {

inline constexpr size_t kMiB = size_t{1} << 20;

// float32 numbers that look random.
inline Tensor Filled(const TensorShape& shape, uint32_t seed) {
  Tensor tensor = Require(Tensor::Create(DType::kFloat32, shape));
  uint32_t state = seed;
  for (float& value : tensor.mutable_flat<float>()) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int32_t>(state)) * 1e-9F;
  }
  return tensor;
}

// A new folder, gone at the end.
class Folder {
 public:
  // In memory, if there is such a file system: a disk would hide all differences.
  static Folder InMemory() {
    return Folder(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path());
  }
  static Folder OnDisk() { return Folder(std::filesystem::temp_directory_path()); }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  void Clear() {
    for (const auto& file : std::filesystem::directory_iterator(path_)) std::filesystem::remove(file);
  }

 private:
  explicit Folder(const std::filesystem::path& parent) : path_((parent / "tensorcask-bars-XXXXXX").string()) {
    if (mkdtemp(&path_[0]) == nullptr) std::exit(1);
  }

  std::string path_;
};

// The name of tensor `i` in a checkpoint.
inline std::string NameOf(size_t i) { return absl::StrCat("layer", i, "/kernel"); }

// Saves a checkpoint with a shard for each thread.
inline void SaveInShards(const std::string& prefix, const std::vector<Tensor>& tensors, bool sync, int threads) {
  CheckpointWriterOptions options;
  options.sync = sync;
  options.num_shards = threads;
  options.num_threads = threads;
  CheckpointWriter writer = Require(CheckpointWriter::Create(prefix, options));
  for (size_t i = 0; i < tensors.size(); ++i) {
    CheckpointAddOptions add;
    add.shard = static_cast<int>(i) % threads;
    Require(writer.Add(NameOf(i), tensors[i], add));
  }
  Require(writer.Finish());
}

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_BAR_DATA_H_
