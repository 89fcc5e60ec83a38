// What a server, a network and a signal can do to a save and a load: lies for a LyingServer, and what a save must
// leave.
//
//   for (const Fault& fault : PassingFaults()) {
//     server.LieAt(2, fault.lie);
//     ExpectNothingOrAll(&server, Save(store->files()));
//   }

#ifndef TENSORCASK_TESTS_SERIALIZE_OBJECT_STORE_FAULT_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_OBJECT_STORE_FAULT_TESTING_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/lying_server.h"

namespace tensorcask::testing {

inline constexpr char kFaultyPrefix[] = "s3://bucket/run/step-1";
inline constexpr char kFaultyIndex[] = "bucket/run/step-1.index";
inline constexpr char kFaultyData[] = "bucket/run/step-1.data-00000-of-00001";

const std::vector<Tensor>& SavedTensors();                      // three parts of 5 MiB
absl::StatusOr<CheckpointReader> OpenSaved(FileSystem* files);  // at kFaultyPrefix
// OK if all tensors come back as they were saved, one after the other.
absl::Status LoadAndCompare(FileSystem* files, const std::vector<Tensor>& wanted);
// Of SavedTensors(), at kFaultyPrefix.
absl::Status SaveAll(FileSystem* files);
absl::Status LoadAll(FileSystem* files);
absl::Status LoadAllAtOnce(FileSystem* files);  // in one call, with several requests at a time

// Lies. With `works` the server does first what is asked for.
LyingServer::Lie Answers(int status, const std::string& code, bool works);
LyingServer::Lie Ends(Exchange::End end, bool works);
LyingServer::Lie CutsTheBody(Exchange::End end);

struct Fault {
  const char* name;
  LyingServer::Lie lie;
};
std::vector<Fault> PassingFaults();  // a request that is repeated succeeds
std::vector<Fault> LastingFaults();  // what does not pass, or is no answer to the question

// How many requests `work` makes of an honest server.
size_t RequestsOf(const std::function<absl::Status(FileSystem*)>& work, LyingServer* server);
// After a save that may have failed: no index, or a whole checkpoint.
void ExpectNothingOrAll(LyingServer* server, const absl::Status& saved);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_OBJECT_STORE_FAULT_TESTING_H_
