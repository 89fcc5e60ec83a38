// Tensors behind a socket: `tensorcask serve` answers for them, and commands that read take "unix:SOCKET" for a path.
//
// There are two requests (serialize/exchange/channel.h):
//
//   "list"  without tensors. The reply has one tensor, strings [n, 8], a row for each tensor: name; dtype; dims and
//           strides, each joined by commas (no strides: row-major); encoding; stored bytes; "1" if it has metadata;
//           decoded bytes, if it is encoded.
//   "pull"  with one tensor, strings [1] or [2]: a name, and a slice as TensorSlice::Parse takes it. The reply has the
//           tensor: row-major if it was sliced, with its strides and metadata otherwise.

#ifndef TENSORCASK_TOOLS_SERVED_INPUT_H_
#define TENSORCASK_TOOLS_SERVED_INPUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/server.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"

namespace tensorcask::tools {

inline constexpr char kServedPrefix[] = "unix:";
inline constexpr char kListTopic[] = "list";
inline constexpr char kPullTopic[] = "pull";

// A channel to a server that listens already; waits for `timeout` only while the server's queue is full. Shared memory
// that the server can still change is copied on arrival. Errors: as Channel::Connect; NotFound and Unavailable name
// `command`, "serve" or "recv", which should wait at the socket.
absl::StatusOr<Channel> ConnectToListening(const std::string& socket, absl::string_view command,
                                           absl::Duration timeout);

// The status of a peer's reply. A longer message is cut after 1000 bytes, so that a peer cannot fill a terminal.
absl::Status StatusOfReply(const absl::Status& status);

// Waits a minute for each answer. What the list says is checked: names come once, texts are printable, and each tensor
// has the dtype and shape that the list says. Errors: as Channel::Connect and Call; the server's own; DataLoss.
absl::StatusOr<std::unique_ptr<ArchiveReader>> ConnectToServer(const std::string& socket);

// Answers the two requests from these inputs; the status of a reply says what was wrong with the request.
class TensorService final : public Service {
 public:
  struct Source {
    std::string prefix;  // of the names that clients see: "a/" serves "w" as "a/w"
    std::unique_ptr<ArchiveReader> archive;
  };

  // Error: InvalidArgument if two tensors have one name.
  static absl::StatusOr<std::unique_ptr<TensorService>> Create(std::vector<Source> sources);

  size_t num_tensors() const { return tensors_.size(); }
  Message Answer(const Message& request) override;
  uint64_t AnswerBytes(const Message& request) override;

 private:
  struct Entry {
    const ArchiveReader* input;
    const ArchiveEntry* info;
  };

  absl::StatusOr<DecodedTensor> Pull(const Message& request) const;

  std::vector<Source> sources_;
  absl::flat_hash_map<std::string, Entry> tensors_;
  DecodedTensor list_;  // the answer to "list"
  uint64_t list_bytes_ = 0;
};

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_SERVED_INPUT_H_
