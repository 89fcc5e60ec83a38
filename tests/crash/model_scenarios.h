// Saving a safetensors model, in one file or in several, over a model in one file or in several.

#ifndef TENSORCASK_TESTS_CRASH_MODEL_SCENARIOS_H_
#define TENSORCASK_TESTS_CRASH_MODEL_SCENARIOS_H_

#include <memory>

#include "tensorcask/tests/crash/scenario.h"

namespace tensorcask::testing {

struct ModelCase {
  int old_files = 1;         // 0: there is no old model; 1: NAME.safetensors; more: with an index
  int new_files = 1;         // as old_files, of the new model
  bool by_index = false;     // the caller names the index
  bool overwritten = false;  // the old model replaced another one, so that its files have names of a revision
  bool sync = true;
};

// The promises: a reader that opens the model gets the old one or the new one, bit by bit; each index that is there
// belongs to a whole model; after the save has returned OK the model is the new one, and no file of the old one is
// left. Saving again works.
std::unique_ptr<Scenario> MakeModelScenario(const ModelCase& model);

Scenarios AllModelScenarios();

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_CRASH_MODEL_SCENARIOS_H_
