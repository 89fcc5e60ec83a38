// Tensors behind a socket, as `tensorcask serve` answers for them.
//
// Two requests (serialize/exchange/channel.h): "list", without tensors; the reply has one, strings [n, 7], a row a
// tensor: name, dtype, dims and strides joined by commas (no strides: row-major), encoding, bytes stored, and "1" if it
// has metadata. "pull", with one tensor, strings [1] or [2]: a name, and a slice as TensorSlice::Parse takes it; the
// reply has the tensor, row-major if it was sliced, with its metadata otherwise.

#ifndef TENSORCASK_TOOLS_SERVED_INPUT_H_
#define TENSORCASK_TOOLS_SERVED_INPUT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/tools/formats.h"

namespace tensorcask::tools {

inline constexpr char kServedPrefix[] = "unix:";
inline constexpr char kListTopic[] = "list";
inline constexpr char kPullTopic[] = "pull";

// Waits a minute for each answer. Errors: as Channel::Connect and Call; those that the server answers.
absl::StatusOr<std::unique_ptr<Input>> ConnectToServer(const std::string& socket);

// The reply to `request`, from these inputs; the status of a reply is what was wrong with the request.
Message Answer(const std::vector<std::unique_ptr<Input>>& inputs, const Message& request);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_SERVED_INPUT_H_
