// Steps of a run that are stored as deltas to other steps: which ones must stay, and in which order the others go.
//
//   std::set<int64_t> removable = {1, 2};
//   CASK_RETURN_IF_ERROR(KeepBases({3, 4}, base_of, &removable));      // 3 is a delta to 1: removable is now {2}
//   for (const int64_t step : DeltasFirst(removable, base_of)) ...
//
// The functions believe nothing about the bases: they may form chains of any length and cycles, as files say.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_STEP_BASES_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_STEP_BASES_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tensorcask::checkpoint {

inline constexpr int64_t kNoStep = -1;

// The step that a step is stored relative to; kNoStep if there is none.
using BaseOfStep = absl::FunctionRef<absl::StatusOr<int64_t>(int64_t step)>;

// Takes each step out of *removable that a step of `kept` needs, directly or through other bases. Errors: those of
// base_of.
absl::Status KeepBases(std::vector<int64_t> kept, BaseOfStep base_of, std::set<int64_t>* removable);

// `steps`, each one before its base and the highest first where there is a choice. Steps of a cycle come last. A step
// whose base_of fails counts as one without a base.
std::vector<int64_t> DeltasFirst(const std::set<int64_t>& steps, BaseOfStep base_of);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_STEP_BASES_H_
