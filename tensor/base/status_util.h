// Adds to an absl::Status what its maker did not know: which thing the error is about.
//
//   CASK_ASSIGN_OR_ANNOTATE(const Header header, ParseHeader(bytes), absl::StrCat("tensor ", Quoted(name)));
//   CASK_ANNOTATE_IF_ERROR(header.Validate(), path);
//   CASK_RETURN_IF_ERROR(AsDataLoss(DecodeHeader(bytes), path));
//
//   INVALID_ARGUMENT: dim 0 is -3   ->  INVALID_ARGUMENT: tensor "w": dim 0 is -3
//   INVALID_ARGUMENT: dim 0 is -3   ->  DATA_LOSS: /m.index: dim 0 is -3
//
// Some errors are about this process and not about its input: no memory is left, or no file descriptor. The code alone
// does not tell, because ResourceExhausted is also the code of a limit. Such an error carries a mark, which all
// functions here keep; a search for damage stops at it and reports no damage:
//
//   if (memory == nullptr) return MarkResourceFailure(absl::ResourceExhaustedError("no memory for 12 bytes"));
//   ...
//   if (IsResourceFailure(status)) return status;

#ifndef TENSORCASK_TENSOR_BASE_STATUS_UTIL_H_
#define TENSORCASK_TENSOR_BASE_STATUS_UTIL_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/cxx17.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {

// `status` with "CONTEXT: " before its message. The code and all payloads stay. An OK status stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

// `status` with `text` after its message. The code and all payloads stay. An OK status stays OK.
absl::Status AppendToMessage(const absl::Status& status, absl::string_view text);

// Annotate for an error in the content of a file: InvalidArgument, the code of decoders in memory, becomes DataLoss.
// All other codes stay.
absl::Status AsDataLoss(const absl::Status& status, absl::string_view file);

// The same error, marked as one of this process. Requires: !status.ok().
absl::Status MarkResourceFailure(absl::Status status);

bool IsResourceFailure(const absl::Status& status);

}  // namespace tensorcask

// CASK_RETURN_IF_ERROR and CASK_ASSIGN_OR_RETURN of an annotated error. `context` is computed only if there is one.
#define CASK_ANNOTATE_IF_ERROR(expression, context)                                 \
  do {                                                                              \
    const absl::Status cask_status_ = (expression);                                 \
    if (!cask_status_.ok()) return ::tensorcask::Annotate(cask_status_, (context)); \
  } while (false)

#define CASK_ASSIGN_OR_ANNOTATE(declaration, expression, context) \
  CASK_ASSIGN_OR_ANNOTATE_IMPL_(CASK_CONCAT_(cask_statusor_, __LINE__), declaration, expression, context)

#define CASK_ASSIGN_OR_ANNOTATE_IMPL_(name, declaration, expression, context) \
  auto name = (expression);                                                   \
  if (!name.ok()) return ::tensorcask::Annotate(name.status(), (context));    \
  declaration = std::move(name).value()

#endif  // TENSORCASK_TENSOR_BASE_STATUS_UTIL_H_
