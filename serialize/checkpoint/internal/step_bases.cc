#include "tensorcask/serialize/checkpoint/internal/step_bases.h"

#include <cstddef>
#include <map>

#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::checkpoint {

absl::Status KeepBases(std::vector<int64_t> kept, BaseOfStep base_of, std::set<int64_t>* removable) {
  for (size_t i = 0; i < kept.size() && !removable->empty(); ++i) {
    CASK_ASSIGN_OR_RETURN(const int64_t base, base_of(kept[i]));
    if (removable->erase(base) != 0) kept.push_back(base);
  }
  return absl::OkStatus();
}

std::vector<int64_t> DeltasFirst(const std::set<int64_t>& steps, BaseOfStep base_of) {
  std::map<int64_t, int64_t> bases;     // for steps whose base is one of `steps`, too
  std::map<int64_t, size_t> needed_by;  // how many steps that are not in `ordered` have this base
  for (const int64_t step : steps) {
    const absl::StatusOr<int64_t> base = base_of(step);
    if (!base.ok() || steps.count(*base) == 0) continue;
    bases[step] = *base;
    ++needed_by[*base];
  }
  std::set<int64_t> rest = steps;
  std::set<int64_t> free;  // those of `rest` that no other step needs
  for (const int64_t step : steps) {
    if (needed_by.count(step) == 0) free.insert(step);
  }
  std::vector<int64_t> ordered;
  while (!rest.empty()) {
    const int64_t step = free.empty() ? *rest.rbegin() : *free.rbegin();
    rest.erase(step);
    free.erase(step);
    ordered.push_back(step);
    const auto base = bases.find(step);
    if (base != bases.end() && --needed_by[base->second] == 0 && rest.count(base->second) != 0) {
      free.insert(base->second);
    }
  }
  return ordered;
}

}  // namespace tensorcask::checkpoint
