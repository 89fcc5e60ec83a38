// Work that a crash may interrupt, and the conditions that must hold afterwards.
//
// A scenario runs through CrashFileSystem; crash_search.h then looks at every state that a crash at any time may have
// left, and asks the scenario whether it is one that we promise.

#ifndef TENSORCASK_TESTS_CRASH_SCENARIO_H_
#define TENSORCASK_TESTS_CRASH_SCENARIO_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"

namespace tensorcask::testing {

class Scenario {
 public:
  virtual ~Scenario() = default;

  virtual std::string name() const = 0;  // "overwrite, 2 shards, strings"

  // False: what Run does is not durable, so that only the death of the process can be survived (CrashMode::kProcess).
  virtual bool durable() const { return true; }

  // Makes what stands, durably, before the work begins.
  virtual absl::Status Prepare(FileSystem* files) const = 0;

  // The work. Calls promise() each time that something was promised to the caller, as when a save has returned OK.
  virtual absl::Status Run(FileSystem* files, absl::FunctionRef<void()> promise) const = 0;

  // OK if `files` is what may be there after a crash before which so many promises were made; else what is wrong. May
  // work on `files`, as who comes after a crash does.
  virtual absl::Status Check(MemoryFileSystem* files, int promises) const = 0;
};

using Scenarios = std::vector<std::unique_ptr<Scenario>>;

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_CRASH_SCENARIO_H_
