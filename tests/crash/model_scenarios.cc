#include "tensorcask/tests/crash/model_scenarios.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {
namespace {

constexpr char kFolder[] = "/model";
constexpr char kModel[] = "/model/m.safetensors";
constexpr char kIndex[] = "/model/m.safetensors.index.json";
constexpr int64_t kOld = 1;
constexpr int64_t kNew = 2;
constexpr int64_t kNext = 3;
constexpr int kTensors = 4;
constexpr int64_t kTensorBytes = 24;

Tensor TensorOf(int64_t version, int number) {
  Tensor tensor = *Tensor::Create(DType::kInt64, TensorShape({kTensorBytes / 8}));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.mutable_data<int64_t>()[i] = version * 1000 + number + i;
  return tensor;
}

absl::Status SaveModel(int num_files, bool by_index, int64_t version, bool sync, FileSystem* files) {
  SafetensorsWriterOptions options;
  options.file_system = files;
  options.overwrite = true;
  options.sync = sync;
  options.always_index = by_index;
  if (num_files > 1 || by_index) {
    options.max_shard_bytes = static_cast<uint64_t>((kTensors + num_files - 1) / num_files * kTensorBytes);
  }
  CASK_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(kModel, options));
  for (int i = 0; i < kTensors; ++i) CASK_RETURN_IF_ERROR(writer.Add(absl::StrCat("t", i), TensorOf(version, i)));
  return writer.Finish();
}

// The version of the model at `path`. Errors: those of opening it; DataLoss if it mixes versions.
absl::StatusOr<int64_t> VersionAt(const std::string& path, FileSystem* files) {
  SafetensorsReaderOptions options;
  options.read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(path, options));
  CASK_ASSIGN_OR_RETURN(const Tensor first, reader.Read("t0"));
  const int64_t version = first.data<int64_t>()[0] / 1000;
  for (int i = 0; i < kTensors; ++i) {
    CASK_ASSIGN_OR_RETURN(const Tensor tensor, reader.Read(absl::StrCat("t", i)));
    if (tensor.bytes() != TensorOf(version, i).bytes()) {
      return absl::DataLossError(absl::StrCat(path, ": tensor t", i, " is not that of version ", version));
    }
  }
  return version;
}

class ModelScenario final : public Scenario {
 public:
  explicit ModelScenario(const ModelCase& model) : model_(model) {}

  std::string name() const override {
    return absl::StrCat("model in ", model_.new_files, " over ", model_.old_files, model_.by_index ? ", by index" : "",
                        model_.overwritten ? ", overwritten" : "", model_.sync ? "" : ", no sync");
  }
  bool durable() const override { return model_.sync; }

  absl::Status Prepare(FileSystem* files) const override {
    files->MakeFolder(kFolder);
    if (model_.old_files == 0) return absl::OkStatus();
    const bool by_index = model_.by_index;
    CASK_RETURN_IF_ERROR(SaveModel(model_.old_files, by_index, kOld, true, files));
    return model_.overwritten ? SaveModel(model_.old_files, by_index, kOld, true, files) : absl::OkStatus();
  }

  absl::Status Run(FileSystem* files, absl::FunctionRef<void()> promise) const override {
    CASK_RETURN_IF_ERROR(SaveModel(model_.new_files, model_.by_index, kNew, model_.sync, files));
    promise();
    return absl::OkStatus();
  }

  absl::Status Check(MemoryFileSystem* files, int promises) const override {
    FileInfo info;
    const bool has_index = files->Describe(kIndex, &info) >= 0;
    for (const std::string& path : {std::string(kModel), std::string(kIndex)}) {
      if (path == kIndex && !has_index) continue;
      const absl::StatusOr<int64_t> version = VersionAt(path, files);
      if (!version.ok()) {
        if (path == kModel && model_.old_files == 0 && promises == 0 && absl::IsNotFound(version.status())) continue;
        return version.status();
      }
      if (*version != kNew && !(*version == kOld && promises == 0)) {
        return absl::InternalError(absl::StrCat(path, ": version ", *version, " stands"));
      }
    }
    CASK_RETURN_IF_ERROR(SaveModel(model_.new_files, model_.by_index, kNext, model_.sync, files));
    CASK_ASSIGN_OR_RETURN(const int64_t version, VersionAt(model_.by_index ? kIndex : kModel, files));
    return version == kNext ? absl::OkStatus()
                            : absl::InternalError(absl::StrCat("saved again, and version ", version, " stands"));
  }

 private:
  const ModelCase model_;
};

}  // namespace

std::unique_ptr<Scenario> MakeModelScenario(const ModelCase& model) { return std::make_unique<ModelScenario>(model); }

Scenarios AllModelScenarios() {
  Scenarios all;
  for (const int old_files : {0, 1, 2, 4}) {
    for (const int new_files : {1, 2, 4}) {
      ModelCase model;
      model.old_files = old_files;
      model.new_files = new_files;
      all.push_back(MakeModelScenario(model));
      model.overwritten = true;
      if (old_files > 0) all.push_back(MakeModelScenario(model));
      model.overwritten = false;
      model.by_index = true;
      all.push_back(MakeModelScenario(model));
    }
  }
  for (const int new_files : {1, 4}) {
    ModelCase model;
    model.old_files = 2;
    model.new_files = new_files;
    model.sync = false;
    all.push_back(MakeModelScenario(model));
  }
  return all;
}

}  // namespace tensorcask::testing
