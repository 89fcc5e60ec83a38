// Passing a failed absl::Status up to the caller.
//
//   CASK_RETURN_IF_ERROR(sink.Append(header));
//   CASK_ASSIGN_OR_RETURN(const Footer footer, ReadFooter(file));

#ifndef TENSORCASK_TENSOR_BASE_STATUS_MACROS_H_
#define TENSORCASK_TENSOR_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define CASK_RETURN_IF_ERROR(expression)         \
  do {                                           \
    absl::Status cask_status_ = (expression);    \
    if (!cask_status_.ok()) return cask_status_; \
  } while (false)

#define CASK_ASSIGN_OR_RETURN(declaration, expression) \
  CASK_ASSIGN_OR_RETURN_IMPL_(CASK_CONCAT_(cask_statusor_, __LINE__), declaration, expression)

#define CASK_ASSIGN_OR_RETURN_IMPL_(name, declaration, expression) \
  auto name = (expression);                                        \
  if (!name.ok()) return std::move(name).status();                 \
  declaration = std::move(name).value()

#define CASK_CONCAT_(a, b) CASK_CONCAT_IMPL_(a, b)
#define CASK_CONCAT_IMPL_(a, b) a##b

#endif  // TENSORCASK_TENSOR_BASE_STATUS_MACROS_H_
