// Looks at very many crashes of saves, in memory: `tools/dev crash [STATES]`.
//
//   crash_states [--states N]
//
// Prints a line for each scenario, then for each mutant, then the totals. Exit status: 1 if a promise was broken or a
// mutant got away, 2 if misused.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "tensorcask/tests/crash/crash_search.h"
#include "tensorcask/tests/crash/manager_scenarios.h"
#include "tensorcask/tests/crash/merge_scenarios.h"
#include "tensorcask/tests/crash/model_scenarios.h"
#include "tensorcask/tests/crash/mutants.h"
#include "tensorcask/tests/crash/save_scenarios.h"
#include "tensorcask/tests/crash/scenario.h"
#include "tensorcask/tests/support/crash_model.h"

namespace tensorcask::testing {
namespace {

Scenarios AllScenarios() {
  Scenarios all = AllSaveScenarios();
  for (auto more : {AllModelScenarios, AllMergeScenarios, AllManagerScenarios}) {
    Scenarios scenarios = more();
    std::move(scenarios.begin(), scenarios.end(), std::back_inserter(all));
  }
  return all;
}

struct Total {
  int64_t runs = 0;  // scenarios, each in each mode that it is meant for
  int64_t places = 0;
  int64_t states = 0;
  int64_t distinct = 0;
  int64_t violations = 0;
};

Total SearchAll(const Scenarios& scenarios, const CrashSampling& sampling, bool print) {
  Total total;
  for (const auto& scenario : scenarios) {
    for (const CrashMode mode : {CrashMode::kProcess, CrashMode::kOrdered, CrashMode::kWeak}) {
      if (!scenario->durable() && mode != CrashMode::kProcess) continue;
      const CrashFindings found = SearchForCrashes(*scenario, mode, sampling);
      ++total.runs;
      if (mode != CrashMode::kProcess) total.places += found.operations + 1;
      total.states += found.states;
      total.distinct += found.distinct;
      total.violations += found.violations + (found.run.ok() ? 0 : 1);
      if (!print) continue;
      std::printf("%-48s %-8s %3lld operations %7lld states %3lld violations\n", scenario->name().c_str(),
                  std::string(CrashModeName(mode)).c_str(), static_cast<long long>(found.operations),
                  static_cast<long long>(found.states), static_cast<long long>(found.violations));
      if (!found.run.ok()) std::printf("    cannot be run: %s\n", found.run.ToString().c_str());
      if (found.violations > 0) std::printf("    %s\n", found.first.c_str());
      std::fflush(stdout);
    }
  }
  return total;
}

int Main(int64_t states) {
  const Scenarios scenarios = AllScenarios();
  CrashSampling sampling;
  sampling.max_exhaustive = 10;
  sampling.random_states = 0;
  const Total systematic = SearchAll(scenarios, sampling, /*print=*/false);
  const int64_t missing = std::max<int64_t>(0, states - systematic.states);
  sampling.random_states = static_cast<int>((missing + systematic.places - 1) / systematic.places);
  const Total total = SearchAll(scenarios, sampling, /*print=*/true);

  const std::vector<MutantVerdict> mutants = TryMutants();
  size_t caught = 0;
  for (const MutantVerdict& mutant : mutants) {
    caught += mutant.caught ? 1 : 0;
    std::printf("mutant %s: %s\n", mutant.caught ? "caught" : "NOT CAUGHT", mutant.name.c_str());
    if (mutant.caught) std::printf("    %s\n", mutant.caught_by.c_str());
  }
  std::printf(
      "%zu scenarios, %lld with their modes; %lld states, %lld of them distinct; %lld violations; %zu of %zu "
      "mutants caught\n",
      scenarios.size(), static_cast<long long>(total.runs), static_cast<long long>(total.states),
      static_cast<long long>(total.distinct), static_cast<long long>(total.violations), caught, mutants.size());
  return total.violations == 0 && caught == mutants.size() ? 0 : 1;
}

}  // namespace
}  // namespace tensorcask::testing

int main(int argc, char** argv) {
  int64_t states = 500000;
  bool understood = argc == 1;
  if (argc == 3 && std::strcmp(argv[1], "--states") == 0) {
    char* end = nullptr;
    states = std::strtoll(argv[2], &end, 10);
    understood = *argv[2] != '\0' && *end == '\0' && states >= 0 && states <= 1000000000;
  }
  if (!understood) {
    std::fprintf(stderr, "usage: crash_states [--states N]\n");
    return 2;
  }
  return tensorcask::testing::Main(states);
}
