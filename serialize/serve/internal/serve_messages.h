// The bytes of the protocol: what the client and the server share. FORMAT.md describes them.

#ifndef TENSORCASK_SERIALIZE_SERVE_INTERNAL_SERVE_MESSAGES_H_
#define TENSORCASK_SERIALIZE_SERVE_INTERNAL_SERVE_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/serve/served_tensor.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"

namespace tensorcask::serve {

inline constexpr int64_t kVersion = 1;
inline constexpr char kListTopic[] = "list";
inline constexpr char kPullTopic[] = "pull";

enum class Side { kClient, kServer };

// What the request for a list consists of, and what its reply begins with.
DecodedTensor EncodeVersion();
// Checks the first tensor of a request for a list or of its reply, from `peer`.
// Errors: InvalidArgument if it is not a version; Unimplemented, with both versions, if it is not kVersion.
absl::Status CheckVersion(absl::Span<const DecodedTensor> tensors, Side peer);

// The reply to a request for a list. Requires: the names are in order, and come once.
absl::StatusOr<std::vector<DecodedTensor>> EncodeList(absl::Span<const ServedTensor> tensors,
                                                      std::vector<std::string> notes);
// Checks the reply, which may say anything, and calls fn(tensor) for each tensor in order, then on_note(note).
// Errors: InvalidArgument, naming the row; those of CheckVersion, fn and on_note.
absl::Status DecodeList(absl::Span<const DecodedTensor> reply, absl::FunctionRef<absl::Status(ServedTensor)> fn,
                        absl::FunctionRef<absl::Status(const std::string&)> on_note);

// A name, and after it a slice as TensorSlice::ToString writes it, if a part is wanted.
absl::StatusOr<ServeRequest> EncodePull(std::vector<std::string> texts);
// Errors: InvalidArgument if the tensors are not those of a pull.
absl::StatusOr<std::vector<std::string>> DecodePull(absl::Span<const DecodedTensor> tensors);

}  // namespace tensorcask::serve

#endif  // TENSORCASK_SERIALIZE_SERVE_INTERNAL_SERVE_MESSAGES_H_
