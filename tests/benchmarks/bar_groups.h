// The groups of rows that `bars` measures, and the choice among them.

#ifndef TENSORCASK_TESTS_BENCHMARKS_BAR_GROUPS_H_
#define TENSORCASK_TESTS_BENCHMARKS_BAR_GROUPS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace tensorcask::benchmarks {

struct BarGroup {
  const char* name;
  void (*rows)();  // measures the rows and prints them
};

// The groups of these names, in the order of `all`, each once; all of them without names.
// Errors: InvalidArgument for a name of no group; the message lists the names of all.
inline absl::StatusOr<std::vector<BarGroup>> ChosenGroups(const std::vector<BarGroup>& all,
                                                          const std::vector<std::string>& names) {
  if (names.empty()) return all;
  const auto has = [](const std::string& name, const BarGroup& group) { return name == group.name; };
  for (const std::string& name : names) {
    bool known = false;
    std::string list;
    for (const BarGroup& group : all) {
      known = known || has(name, group);
      absl::StrAppend(&list, " ", group.name);
    }
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat("found the group \"", name, "\", wanted one of:", list));
    }
  }
  std::vector<BarGroup> chosen;
  for (const BarGroup& group : all) {
    bool wanted = false;
    for (const std::string& name : names) wanted = wanted || has(name, group);
    if (wanted) chosen.push_back(group);
  }
  return chosen;
}

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_BAR_GROUPS_H_
