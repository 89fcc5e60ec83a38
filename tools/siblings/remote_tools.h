// What the program has from gRPC. Two programs are made of the same commands: `tensorcask`, which is not linked with
// gRPC and starts in a few milliseconds, and `tensorcask-grpc`, which is, and exists where gRPC is installed. Where
// arguments need gRPC, the first runs the second in its place.

#ifndef TENSORCASK_TOOLS_SIBLINGS_REMOTE_TOOLS_H_
#define TENSORCASK_TOOLS_SIBLINGS_REMOTE_TOOLS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/tools/output/console.h"

namespace tensorcask::tools {

struct ServedFile {
  std::string prefix;  // of the names that clients see
  std::unique_ptr<ArchiveReader> archive;
};

// `serve --listen` and `recv --listen`.
struct ListenFlags {
  std::string address;  // HOST:PORT
  bool insecure = false;
  // Paths of files in PEM. Without a certificate there is no TLS; without authorities clients need no certificate.
  std::string certificate;
  std::string key;
  std::string client_authorities;
  std::string token_file;  // "": clients need no token
  double timeout_s = 0;    // how long a client may take or send nothing
};

// `send` to an address.
struct PushFlags {
  std::string address;  // grpc://HOST:PORT
  int64_t step = 0;
  double timeout_s = 0;     // how long the server may take nothing
  bool allow_loss = false;  // PushArchiveOptions::allow_loss
};

// Opens the checkpoint with this prefix.
using OpenCheckpointOf = std::function<absl::StatusOr<std::unique_ptr<ArchiveReader>>(const std::string& prefix)>;

struct RemoteTools {
  // The formats that open grpc:// and grpcs://.
  std::vector<std::unique_ptr<const ArchiveFormat>> (*formats)();
  // Whether the error says that the server has other tensors by now.
  bool (*is_new_version)(const absl::Status& status);
  // Serves until the process is interrupted. Errors: those of TensorServer; InvalidArgument if two tensors have one
  // name.
  absl::StatusOr<ExitCode> (*serve)(std::vector<ServedFile> files, const ListenFlags& flags, Console& console);
  // The same of the newest whole step in the folder of a CheckpointManager, and of each newer one once it is whole.
  absl::StatusOr<ExitCode> (*follow)(const std::string& folder, const OpenCheckpointOf& open, const ListenFlags& flags,
                                     Console& console);
  // Sends these tensors of the archive. note(sentence) hears of what does not go along. Errors: those of PushArchive.
  absl::Status (*push)(const PushFlags& flags, std::shared_ptr<const ArchiveReader> archive,
                       const std::vector<std::string>& names,
                       const std::function<bool(uint64_t sent_bytes)>& keep_going,
                       const std::function<void(const std::string& sentence)>& note);
  // Waits for one push, and hands its tensors to `save`; the client gets the status that this returns. A push that
  // breaks does not end the wait. Errors: those of TensorServer and of `save`; DeadlineExceeded if no push comes in
  // time; Cancelled if the process is interrupted.
  absl::Status (*receive)(const ListenFlags& flags, const std::function<absl::Status(const ArchiveReader&)>& save,
                          Console& console);
};

// Of this program; null without gRPC. Defined beside main.
const RemoteTools* LinkedRemoteTools();

// What the commands use: main gives it what LinkedRemoteTools returns.
void SetRemoteTools(const RemoteTools* tools);
const RemoteTools* GetRemoteTools();

// "grpc://..." and "grpcs://...".
bool IsRemote(absl::string_view path);
// Whether a command with these arguments needs gRPC.
bool NeedsRemoteTools(absl::Span<const std::string> arguments);
// Runs `tensorcask-grpc` in place of this process. Returns only errors: as RunSiblingProgram.
absl::Status RunRemoteProgram(char** argv);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_SIBLINGS_REMOTE_TOOLS_H_
