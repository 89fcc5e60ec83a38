// Crashes at every operation of a save by two ranks, in memory (tests/crash/crash_search.h).

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/sharded/sharded_save.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tests/crash/crash_search.h"
#include "tensorcask/tests/crash/scenario.h"
#include "tensorcask/tests/serialize/sharded/sharded_testing.h"
#include "tensorcask/tests/support/crash_model.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::CrashFindings;
using ::tensorcask::testing::CrashMode;
using ::tensorcask::testing::CrashModeName;
using ::tensorcask::testing::CrashSampling;
using ::tensorcask::testing::Numbered;
using ::tensorcask::testing::OnRanks;
using ::tensorcask::testing::Scenario;

constexpr char kPrefix[] = "/job/step";
constexpr int kOld = 1;
constexpr int kNew = 2;

Tensor Whole(int version) { return Numbered(DType::kFloat32, TensorShape({4, 300}), version); }

absl::Status SaveVersion(int version, bool overwrite, FileSystem* files) {
  ShardedSaveOptions options;
  options.file_system = files;
  options.overwrite = overwrite;
  const std::vector<absl::Status> statuses = OnRanks(2, [&](Communicator* comm) -> absl::Status {
    const TensorView whole = Whole(version);
    CASK_ASSIGN_OR_RETURN(const TensorSlice rows, TensorSlice::Create({{comm->rank() * 2, 2}, {}}));
    CASK_ASSIGN_OR_RETURN(const TensorView part, whole.Slice(rows));
    const TensorView step = Tensor::Scalar<int64_t>(version);
    return ShardedSave(comm, kPrefix,
                       {{"w", whole.shape(), rows, part, {}}, {"step", step.shape(), TensorSlice(), step, {}}}, options)
        .status();
  });
  return statuses[0];
}

absl::StatusOr<int> VersionOf(FileSystem* files) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(kPrefix, options));
  CASK_ASSIGN_OR_RETURN(const Tensor step, reader.Read("step"));
  const int version = static_cast<int>(*step.data<int64_t>());
  CASK_ASSIGN_OR_RETURN(const Tensor w, reader.Read("w"));
  if (!Equal(w, Whole(version))) return absl::DataLossError("a mixture of versions");
  return version;
}

class ShardedScenario final : public Scenario {
 public:
  explicit ShardedScenario(bool overwrite) : overwrite_(overwrite) {}

  std::string name() const override { return absl::StrCat("two ranks", overwrite_ ? ", overwrite" : ""); }

  absl::Status Prepare(FileSystem* files) const override {
    files->MakeFolder("/job");
    return overwrite_ ? SaveVersion(kOld, /*overwrite=*/false, files) : absl::OkStatus();
  }

  absl::Status Run(FileSystem* files, absl::FunctionRef<void()> promise) const override {
    CASK_RETURN_IF_ERROR(SaveVersion(kNew, overwrite_, files));
    promise();
    return absl::OkStatus();
  }

  absl::Status Check(MemoryFileSystem* files, int promises) const override {
    const absl::StatusOr<int> version = VersionOf(files);
    if (version.ok()) {
      if (*version != kNew && !(*version == kOld && overwrite_ && promises == 0)) {
        return absl::InternalError(absl::StrCat("version ", *version, " is there"));
      }
    } else if (overwrite_ || promises > 0 || !absl::IsNotFound(version.status())) {
      return version.status();
    }
    // The next save finds its way, and removes what was left.
    CASK_RETURN_IF_ERROR(SaveVersion(kNew + 1, /*overwrite=*/true, files));
    CASK_ASSIGN_OR_RETURN(const int again, VersionOf(files));
    if (again != kNew + 1) return absl::InternalError(absl::StrCat("saved again, and version ", again, " is there"));
    for (const std::string& path : files->Paths()) {
      if (absl::StrContains(path, ".tmp-")) return absl::InternalError(absl::StrCat(path, " is left"));
    }
    return absl::OkStatus();
  }

 private:
  const bool overwrite_;
};

TEST(ShardedCrashTest, LeavesTheOldCheckpointOrTheNewOne) {
  CrashSampling sampling;
  sampling.random_states = 4;
  for (const bool overwrite : {false, true}) {
    const ShardedScenario scenario(overwrite);
    for (const CrashMode mode : {CrashMode::kProcess, CrashMode::kOrdered, CrashMode::kWeak}) {
      SCOPED_TRACE(absl::StrCat(scenario.name(), " ", CrashModeName(mode)));
      const CrashFindings found = SearchForCrashes(scenario, mode, sampling);
      EXPECT_OK(found.run);
      EXPECT_EQ(found.violations, 0) << found.first;
      EXPECT_GT(found.operations, 10);
      EXPECT_GT(found.states, 10);
    }
  }
}

}  // namespace
}  // namespace tensorcask
