#include "tensorcask/tests/crash/merge_scenarios.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::testing {
namespace {

constexpr char kSourceFolder[] = "/workers";
constexpr char kTargetFolder[] = "/model";
constexpr char kTarget[] = "/model/ckpt";
constexpr int64_t kOld = 1;
constexpr int64_t kNew = 2;

const std::vector<std::string>& Sources() {
  static const auto* sources = new std::vector<std::string>{"/workers/0", "/workers/1"};
  return *sources;
}

class MergeScenario final : public Scenario {
 public:
  explicit MergeScenario(const MergeCase& merge) : merge_(merge) {}

  std::string name() const override {
    return absl::StrCat("merge, ", ContentName(merge_.content), merge_.overwrite ? ", overwrite" : "",
                        merge_.remove_sources ? ", sources removed" : "",
                        merge_.sources_synced ? "" : ", sources not synced");
  }

  absl::Status Prepare(FileSystem* files) const override {
    files->MakeFolder(kSourceFolder);
    files->MakeFolder(kTargetFolder);
    if (merge_.overwrite) {
      CheckpointWriterOptions options;
      options.file_system = files;
      options.num_shards = 2;
      CASK_RETURN_IF_ERROR(SaveContent(kTarget, merge_.content, kOld, options));
    }
    return merge_.sources_synced ? SaveSources(files) : absl::OkStatus();
  }

  absl::Status Run(FileSystem* files, absl::FunctionRef<void()> promise) const override {
    if (!merge_.sources_synced) CASK_RETURN_IF_ERROR(SaveSources(files));
    CASK_RETURN_IF_ERROR(Merge(files, merge_.overwrite));
    promise();
    return absl::OkStatus();
  }

  absl::Status Check(MemoryFileSystem* files, int promises) const override {
    const absl::StatusOr<int64_t> version = VersionOf(kTarget, merge_.content, files);
    if (version.ok()) {
      if (*version != kNew && !(*version == kOld && merge_.overwrite && promises == 0)) {
        return absl::InternalError(absl::StrCat("version ", *version, " stands"));
      }
    } else if (merge_.overwrite || promises > 0 || !IsMissing(version.status(), kTarget, files)) {
      return version.status();
    }
    if (!merge_.sources_synced) return absl::OkStatus();
    const bool merged = version.ok() && *version == kNew;
    if (merged && merge_.remove_sources) return absl::OkStatus();
    for (int part = 0; part < 2; ++part) {
      CASK_RETURN_IF_ERROR(CheckContent(Sources()[static_cast<size_t>(part)], merge_.content, kNew, files, {part, 2}));
    }
    CASK_RETURN_IF_ERROR(Merge(files, CountFiles(kTargetFolder, files).standing > 0));
    CASK_ASSIGN_OR_RETURN(const int64_t again, VersionOf(kTarget, merge_.content, files));
    if (again != kNew) return absl::InternalError(absl::StrCat("merged again, and version ", again, " stands"));
    if (CountFiles(kTargetFolder, files).temporary > 0) {
      return absl::InternalError("merged again, and temporary files of the killed merge are left");
    }
    return absl::OkStatus();
  }

 private:
  absl::Status SaveSources(FileSystem* files) const {
    CheckpointWriterOptions options;
    options.file_system = files;
    options.sync = false;
    for (int part = 0; part < 2; ++part) {
      CASK_RETURN_IF_ERROR(SaveContent(Sources()[static_cast<size_t>(part)], merge_.content, kNew, options, {part, 2}));
    }
    return absl::OkStatus();
  }

  absl::Status Merge(FileSystem* files, bool overwrite) const {
    CheckpointMergeOptions options;
    options.file_system = files;
    options.overwrite = overwrite;
    options.remove_sources = merge_.remove_sources;
    return MergeCheckpoints(Sources(), kTarget, options).status();
  }

  const MergeCase merge_;
};

}  // namespace

std::unique_ptr<Scenario> MakeMergeScenario(const MergeCase& merge) { return std::make_unique<MergeScenario>(merge); }

Scenarios AllMergeScenarios() {
  Scenarios all;
  for (const Content content : {Content::kSmall, Content::kMany, Content::kSliced}) {
    for (const bool overwrite : {false, true}) {
      for (const bool remove_sources : {false, true}) {
        all.push_back(MakeMergeScenario({content, overwrite, remove_sources, /*sources_synced=*/true}));
      }
      all.push_back(MakeMergeScenario({content, overwrite, /*remove_sources=*/false, /*sources_synced=*/false}));
    }
  }
  return all;
}

}  // namespace tensorcask::testing
