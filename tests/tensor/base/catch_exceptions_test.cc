#include "tensorcask/tensor/base/catch_exceptions.h"

#include <pthread.h>

#include <new>
#include <stdexcept>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

TEST(CatchExceptions, PassesTheResultOn) {
  EXPECT_OK(CatchExceptions([] { return absl::OkStatus(); }));
  const absl::Status status = CatchExceptions([] { return absl::DataLossError("damaged"); });
  EXPECT_EQ(status, absl::DataLossError("damaged"));
  EXPECT_FALSE(IsResourceFailure(status));
}

TEST(CatchExceptions, TurnsAnyExceptionIntoAnErrorOfThisProcess) {
  const absl::Status memory = CatchExceptions([]() -> absl::Status { throw std::bad_alloc(); });
  EXPECT_THAT(memory, StatusIs(Code::kResourceExhausted, HasSubstr("no memory")));
  EXPECT_TRUE(IsResourceFailure(memory));
  const absl::Status other = CatchExceptions([]() -> absl::Status { throw std::runtime_error("of the caller"); });
  EXPECT_THAT(other, StatusIs(Code::kResourceExhausted, HasSubstr("of the caller")));
  const absl::Status number = CatchExceptions([]() -> absl::Status { throw 7; });
  EXPECT_THAT(number, StatusIs(Code::kResourceExhausted, HasSubstr("threw an exception")));
}

TEST(CatchExceptions, LetsAThreadEnd) {
#if defined(_LIBCPP_VERSION)
  GTEST_SKIP() << "libc++ does not pass the end of a thread on";
#endif
  pthread_t thread;
  const auto run = [](void*) -> void* {
    CatchExceptions([]() -> absl::Status { pthread_exit(nullptr); }).IgnoreError();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, run, nullptr), 0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
}

}  // namespace
}  // namespace tensorcask
