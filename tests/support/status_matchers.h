// Matchers and assertions for absl::Status and absl::StatusOr.
//
//   EXPECT_THAT(DecodeTensor(bytes), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("dim 0")));
//   EXPECT_OK(writer.Finish());
//   ASSERT_OK_AND_ASSIGN(Tensor t, reader.Read("w"));

#ifndef TENSORCASK_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define TENSORCASK_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorcask::testing {

inline const absl::Status& GetStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

MATCHER(IsOk, negation ? "is an error" : "is OK") {
  const absl::Status& status = GetStatus(arg);
  if (!status.ok()) *result_listener << status.ToString();
  return status.ok();
}

MATCHER_P2(StatusIs, code, message,
           "has code " + absl::StatusCodeToString(code) + " and a message that " +
               ::testing::DescribeMatcher<std::string>(message)) {
  const absl::Status& status = GetStatus(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         ::testing::ExplainMatchResult(message, std::string(status.message()), result_listener);
}

MATCHER_P(StatusIs, code, "has code " + absl::StatusCodeToString(code)) {
  const absl::Status& status = GetStatus(arg);
  *result_listener << status.ToString();
  return status.code() == code;
}

}  // namespace tensorcask::testing

#define EXPECT_OK(expression) EXPECT_THAT(expression, ::tensorcask::testing::IsOk())
#define ASSERT_OK(expression) ASSERT_THAT(expression, ::tensorcask::testing::IsOk())

#define ASSERT_OK_AND_ASSIGN(declaration, expression) \
  ASSERT_OK_AND_ASSIGN_IMPL_(CASK_TEST_CONCAT_(cask_statusor_, __LINE__), declaration, expression)
#define ASSERT_OK_AND_ASSIGN_IMPL_(name, declaration, expression) \
  auto name = (expression);                                       \
  ASSERT_OK(name);                                                \
  declaration = std::move(name).value()
#define CASK_TEST_CONCAT_(a, b) CASK_TEST_CONCAT_IMPL_(a, b)
#define CASK_TEST_CONCAT_IMPL_(a, b) a##b

#endif  // TENSORCASK_TESTS_SUPPORT_STATUS_MATCHERS_H_
