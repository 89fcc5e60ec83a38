#include "tensorcask/serialize/checkpoint/latest_checkpoint.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/index_walk.h"
#include "tensorcask/serialize/checkpoint/internal/step_folder.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {

absl::StatusOr<LatestCheckpoint> FindLatestCheckpoint(const std::string& folder, const std::string& name,
                                                      CheckStep check, FileSystem* file_system) {
  // A step that disappears while it is examined was replaced by a newer one, or a user is removing the steps by hand.
  constexpr int kMaxRounds = 100;
  std::set<int64_t> gone;  // not found when checked; if a second listing still names it, it is skipped as missing
  CASK_RETURN_IF_ERROR(checkpoint::CheckStepNames(folder, name));
  LatestCheckpoint latest;
  for (int round = 0; round < kMaxRounds; ++round) {
    CASK_ASSIGN_OR_RETURN(const checkpoint::StepFolder found, checkpoint::ListSteps(folder, name, file_system));
    bool went = false;
    latest.skipped.clear();
    for (auto it = found.steps.rbegin(); it != found.steps.rend() && !went; ++it) {
      if (!it->second.has_index) continue;
      latest.step = it->first;
      latest.prefix = checkpoint::StepPrefix(folder, name, latest.step);
      absl::Status whole = checkpoint::CheckWhole(latest.prefix, check == CheckStep::kEverything, file_system);
      if (whole.ok()) {
        absl::StatusOr<std::string> base = checkpoint::BasePrefixOf(latest.prefix, file_system);
        if (base.ok()) {
          latest.base_prefix = *std::move(base);
          return latest;
        }
        whole = base.status();
      }
      const absl::StatusOr<FileInfo> index = DescribeFile(checkpoint::IndexPath(latest.prefix), file_system);
      went = (absl::IsNotFound(index.status()) || absl::IsNotFound(whole)) && gone.insert(latest.step).second;
      if (!went && !checkpoint::CanBePassedOver(whole)) return whole;
      latest.skipped.push_back({latest.step, std::move(whole)});
    }
    if (!went) break;
  }
  constexpr size_t kMaxNamed = 3;
  std::string message = absl::StrCat(folder, ": holds no whole checkpoint ", Quoted(name + "-STEP"));
  for (size_t i = 0; i < std::min(latest.skipped.size(), kMaxNamed); ++i) {
    const SkippedStep& skipped = latest.skipped[i];
    absl::StrAppend(&message, "; step ", skipped.step, ": ", skipped.why.message());
  }
  if (latest.skipped.size() > kMaxNamed) {
    absl::StrAppend(&message, "; and ", latest.skipped.size() - kMaxNamed, " more");
  }
  return absl::NotFoundError(message);
}

absl::StatusOr<CheckpointReader> OpenLatestCheckpoint(const std::string& folder, const std::string& name,
                                                      CheckpointReaderOptions options, CheckStep check) {
  CASK_ASSIGN_OR_RETURN(const LatestCheckpoint latest,
                        FindLatestCheckpoint(folder, name, check, options.read.file_system));
  return CheckpointReader::Open(latest.prefix, options);
}

}  // namespace tensorcask
