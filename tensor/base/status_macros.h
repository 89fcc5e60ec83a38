// Macros that return a failed absl::Status to the caller.
//
//   absl::Status Save(const std::string& prefix, const Tensor& kernel) {
//     CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(prefix));   // declares `writer`
//     CASK_RETURN_IF_ERROR(writer.Add("kernel", kernel));
//     return writer.Finish();
//   }
//
// CASK_RETURN_IF_ERROR takes an absl::Status. CASK_ASSIGN_OR_RETURN takes a declaration, or a variable, and an
// absl::StatusOr. The function that contains them returns absl::Status or absl::StatusOr. A declaration or expression
// with a comma outside brackets, as in std::pair<int, int>, needs parentheses around it or an alias of the type.
// CASK_ASSIGN_OR_RETURN expands to several statements: inside `if` or `for` it needs braces.

#ifndef TENSORCASK_TENSOR_BASE_STATUS_MACROS_H_
#define TENSORCASK_TENSOR_BASE_STATUS_MACROS_H_

#include "tensorcask/tensor/base/cxx17.h"

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
