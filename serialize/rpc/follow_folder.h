// Serves the newest whole step of a training run, and each new one once it is whole.
//
//   const CheckpointArchiveFormat format;
//   const std::unique_ptr<TensorSource> source = FollowFolder(
//       "/models/run-7", [&](const std::string& prefix) { return OpenArchive(prefix, {&format}); }, {});
//   CASK_ASSIGN_OR_RETURN(const auto server, TensorServer::Start(source.get(), {}));   // tensor_server.h
//
// The folder is one of a CheckpointManager (checkpoint/manager.h). The version has the number of the step. A step that
// is saved again under its number is a new version: its index is another file, or has another size or time.

#ifndef TENSORCASK_SERIALIZE_RPC_FOLLOW_FOLDER_H_
#define TENSORCASK_SERIALIZE_RPC_FOLLOW_FOLDER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/rpc/tensor_source.h"

namespace tensorcask {

struct FollowFolderOptions {
  std::string name = "ckpt";                   // CheckpointManagerOptions::name
  absl::Duration interval = absl::Seconds(1);  // the time between two looks at the folder
  CheckStep check = CheckStep::kStructure;     // what a step must pass to be served
  // Reads each step into memory before it is served. false: elements are read from the files when they are asked for,
  // so the run must keep a step as long as clients may read it.
  bool in_memory = false;
  FileSystem* file_system = FileSystem::Posix();
};

// Opens the archive of a step.
using OpenStep = std::function<absl::StatusOr<std::unique_ptr<ArchiveReader>>(const std::string& prefix)>;

// A step that cannot be opened is left out, and the step before it stays. Tensors that cannot be read are left out, and
// notes tell clients of them. A thread looks for steps and reads them; the step before is served meanwhile. Before the
// first whole step, or while it is read, Current fails with Unavailable and gives the reason.
std::unique_ptr<TensorSource> FollowFolder(std::string folder, OpenStep open, FollowFolderOptions options);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_RPC_FOLLOW_FOLDER_H_
