// Looks for a state after a crash that breaks a promise.
//
//   const CrashFindings found = SearchForCrashes(scenario, CrashMode::kWeak, {});
//   EXPECT_EQ(found.violations, 0) << found.first;

#ifndef TENSORCASK_TESTS_CRASH_CRASH_SEARCH_H_
#define TENSORCASK_TESTS_CRASH_CRASH_SEARCH_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tests/crash/mutant_file_system.h"
#include "tensorcask/tests/crash/scenario.h"
#include "tensorcask/tests/support/crash_model.h"

namespace tensorcask::testing {

struct CrashFindings {
  absl::Status run;            // what the work itself came to
  int64_t operations = 0;      // those of the work; a crash is tried before each and after the last
  int64_t states = 0;          // looked at
  int64_t distinct = 0;        // how many of them; the rest had been looked at before
  int64_t violations = 0;      // states that break a promise
  std::string first;           // the first of them: the state, and what is wrong
  bool mutation_done = false;  // the mutant reached its mutation
};

// Runs `scenario`, its save code changed as `mutation` says, and checks states after each operation. Ends at the first
// violation if `stop_at_first`.
CrashFindings SearchForCrashes(const Scenario& scenario, CrashMode mode, const CrashSampling& sampling,
                               const Mutation& mutation = {}, bool stop_at_first = false);

absl::string_view CrashModeName(CrashMode mode);  // "process", "ordered", "weak"

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_CRASH_CRASH_SEARCH_H_
