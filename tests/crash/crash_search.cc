#include "tensorcask/tests/crash/crash_search.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/tests/support/crash_file_system.h"

namespace tensorcask::testing {

absl::string_view CrashModeName(CrashMode mode) {
  switch (mode) {
    case CrashMode::kProcess:
      return "process";
    case CrashMode::kOrdered:
      return "ordered";
    case CrashMode::kWeak:
      return "weak";
  }
  return "?";
}

CrashFindings SearchForCrashes(const Scenario& scenario, CrashMode mode, const CrashSampling& sampling,
                               const Mutation& mutation, bool stop_at_first) {
  CrashFindings found;
  CrashFileSystem files;
  found.run = scenario.Prepare(&files);
  if (!found.run.ok()) return found;
  files.Settle();
  const size_t start = files.log_size();

  std::vector<size_t> promised_at;  // how many operations had been carried out then
  {
    MutantFileSystem mutant(&files, mutation);
    found.run = scenario.Run(&mutant, [&] { promised_at.push_back(files.log_size()); });
    found.mutation_done = mutant.done();
  }
  const CrashModel model(files.log(), mode);
  found.operations = static_cast<int64_t>(model.num_ops() - start);

  std::set<std::pair<uint64_t, int>> seen;
  for (size_t prefix = start; prefix <= model.num_ops(); ++prefix) {
    // What was promised after the last of these operations counts: the crash may come a moment later.
    const auto promises = static_cast<int>(
        std::count_if(promised_at.begin(), promised_at.end(), [&](size_t operations) { return operations <= prefix; }));
    found.states += model.ForEachState(prefix, sampling, [&](const CrashState& state) {
      if (!seen.emplace(state.Fingerprint(), promises).second) return true;
      ++found.distinct;
      MemoryFileSystem after;
      state.Restore(&after);
      const absl::Status checked = scenario.Check(&after, promises);
      if (checked.ok()) return true;
      if (found.violations++ == 0) {
        found.first = absl::StrCat(scenario.name(), ", ", CrashModeName(mode), ": after ", prefix - start, " of ",
                                   found.operations, " operations (", prefix > start ? "last " : "none",
                                   prefix > start ? model.op(prefix - 1).ToString() : "", "), state \"", state.what,
                                   "\": ", checked.message());
      }
      return !stop_at_first;
    });
    if (stop_at_first && found.violations > 0) break;
  }
  return found;
}

}  // namespace tensorcask::testing
