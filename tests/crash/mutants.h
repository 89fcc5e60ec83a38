// Mistakes in save code, and whether the crash tests notice each.

#ifndef TENSORCASK_TESTS_CRASH_MUTANTS_H_
#define TENSORCASK_TESTS_CRASH_MUTANTS_H_

#include <string>
#include <vector>

#include "tensorcask/tests/crash/crash_search.h"

namespace tensorcask::testing {

struct MutantVerdict {
  std::string name;       // "new: sync 1 dropped"
  bool possible = false;  // the code came to the place where the mistake is
  bool caught = false;
  std::string caught_by;  // the state, and what is wrong with it
};

// Each mistake of MutantFileSystem, for each place in a save where it can be made.
std::vector<MutantVerdict> TryMutants();

struct FaultVerdict {
  std::string name;  // "overwrite: sync 2 fails"
  bool possible = false;
  CrashFindings found;  // what was found in the code as it is
};

// The faults that some of the mistakes are about, with the code as it is: which has to bear them. That a mutant is
// caught means nothing if the fault alone breaks a promise.
std::vector<FaultVerdict> TryFaults();

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_CRASH_MUTANTS_H_
