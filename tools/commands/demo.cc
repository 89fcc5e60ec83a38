// tensorcask demo: the main job from end to end on a small model, with timings.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/summary.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

class Stopwatch {
 public:
  // Milliseconds since the last call.
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - start_).count();
    start_ = std::chrono::steady_clock::now();
    return ms;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// A new temporary folder. The destructor removes it with all files in it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string path = (std::filesystem::temp_directory_path(error_) / "tensorcask-demo-XXXXXX").string();
    if (!error_ && mkdtemp(&path[0]) != nullptr) path_ = path;
  }
  ~ScratchFolder() {
    if (!path_.empty()) std::filesystem::remove_all(path_, error_);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }  // empty if the folder could not be made

 private:
  std::string path_;
  std::error_code error_;
};

using Model = std::vector<std::pair<std::string, Tensor>>;

// Small numbers of both signs, as weights are. The same in every run.
absl::StatusOr<Tensor> Weights(const TensorShape& shape, uint32_t seed) {
  CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(DType::kFloat32, shape));
  uint32_t state = seed;
  for (float& value : tensor.mutable_flat<float>()) {
    state = state * 1664525U + 1013904223U;  // Numerical Recipes' generator
    value = (static_cast<float>(state >> 8) / 16777216.0F - 0.5F) * 0.1F;
  }
  return tensor;
}

absl::StatusOr<Model> CreateModel() {
  Model model;
  CASK_ASSIGN_OR_RETURN(Tensor embedding, Weights(TensorShape({32000, 128}), 1));
  CASK_ASSIGN_OR_RETURN(Tensor kernel, Weights(TensorShape({128, 256}), 2));
  CASK_ASSIGN_OR_RETURN(Tensor half, Tensor::Create(DType::kBfloat16, TensorShape({256, 128})));
  for (bfloat16& value : half.mutable_flat<bfloat16>()) value = bfloat16(0.125F);
  CASK_ASSIGN_OR_RETURN(Tensor bias, Tensor::Zeros(DType::kFloat32, TensorShape({256})));
  model.emplace_back("embedding/table", std::move(embedding));
  model.emplace_back("dense/kernel", std::move(kernel));
  model.emplace_back("dense/bias", std::move(bias));
  model.emplace_back("dense/half", std::move(half));
  model.emplace_back("labels", Tensor::FromValues<std::string>({"cat", "dog", "a name with \n in it"}));
  model.emplace_back("global_step", Tensor::Scalar<int64_t>(1000));
  return model;
}

bool SameElements(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (IsFixedSize(a.dtype())) return a.bytes() == b.bytes();
  const DenseView<const std::string, 1> left = a.flat<std::string>();
  return std::equal(left.begin(), left.end(), b.data<std::string>());
}

absl::StatusOr<ExitCode> Demo(Console& console) {
  const ScratchFolder folder;
  if (folder.path().empty()) return absl::UnavailableError("cannot make a temporary folder; set TMPDIR");
  const std::string prefix = folder.path() + "/model.ckpt";
  CASK_ASSIGN_OR_RETURN(const Model model, CreateModel());
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : model) bytes += tensor.TotalBytes();

  Stopwatch watch;
  CheckpointWriterOptions options;
  options.num_shards = 2;
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(prefix, options));
  for (size_t i = 0; i < model.size(); ++i) {
    CheckpointAddOptions add;
    add.shard = static_cast<int>(i % 2);
    CASK_RETURN_IF_ERROR(writer.Add(model[i].first, model[i].second, add));
  }
  CASK_RETURN_IF_ERROR(writer.Finish());
  const double save_ms = watch.Lap();

  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(prefix));
  const double open_ms = watch.Lap();
  int64_t damages = 0;
  CASK_ASSIGN_OR_RETURN(const CheckpointCounts counts, reader.VerifyAll([&](const CheckpointDamage&) { ++damages; }));
  const double verify_ms = watch.Lap();
  if (damages != 0) return absl::InternalError("the checkpoint that was just saved is damaged");

  console.out << absl::StrFormat("%-16s  %-8s  %-12s  %12s  %5s  %9s\n", "name", "dtype", "shape", "bytes", "shard",
                                 "read back");
  CASK_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, reader.entries());
  double read_ms = 0;
  for (const CheckpointEntry& entry : entries) {
    watch.Lap();
    CASK_ASSIGN_OR_RETURN(const Tensor tensor, reader.Read(entry.name));
    read_ms += watch.Lap();
    const auto original =
        std::find_if(model.begin(), model.end(), [&](const auto& item) { return item.first == entry.name; });
    if (original == model.end() || !SameElements(original->second, tensor)) {
      return absl::InternalError(absl::StrCat("tensor \"", entry.name, "\" was read back with other elements"));
    }
    console.out << absl::StrFormat("%-16s  %-8s  %-12s  %12d  %5d  %9s\n", Printable(entry.name),
                                   DTypeName(entry.dtype), entry.shape.ToString(), entry.stored_bytes, entry.shard,
                                   "identical");
  }

  CASK_ASSIGN_OR_RETURN(const Tensor kernel, reader.Read("dense/kernel"));
  CASK_ASSIGN_OR_RETURN(const TensorSlice corner, TensorSlice::Parse("0,2:0,3"));
  CASK_ASSIGN_OR_RETURN(const TensorView view, TensorView(kernel).Slice(corner));
  CASK_ASSIGN_OR_RETURN(const Tensor part, view.ToTensor());
  SummaryOptions rows;
  rows.multiline = true;
  console.out << "\ndense/kernel, slice " << corner.ToString() << ":\n" << SummarizeValue(part, rows) << "\n\n";

  const auto speed = [bytes](double ms) {
    return HumanBytes(static_cast<uint64_t>(static_cast<double>(bytes) / ms * 1000));
  };
  console.out << absl::StrFormat("saved     %8.2f ms   %s/s, synced to disk, two data files\n", save_ms, speed(save_ms))
              << absl::StrFormat("opened    %8.2f ms\n", open_ms)
              << absl::StrFormat("verified  %8.2f ms   %s/s, %d tensors whole\n", verify_ms, speed(verify_ms),
                                 counts.whole)
              << absl::StrFormat("read      %8.2f ms   %s/s, checksums verified\n", read_ms, speed(read_ms))
              << "\nSee a checkpoint of your own: tensorcask report PATH -o page.html\n";
  return kDone;
}

}  // namespace

Action DeclareDemo(CLI::App& app) {
  app.footer(
      "Works in a temporary folder (TMPDIR) and leaves nothing behind.\n\n"
      "Example:\n"
      "  tensorcask demo");
  return [](Console& console) { return Demo(console); };
}

}  // namespace tensorcask::tools
