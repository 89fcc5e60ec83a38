// Encoding while one allocation fails, each in turn. A program of its own: it replaces operator new.

#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/payload_encoder.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"
#include "tensorcask/tests/support/failing_new.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::EncodeOrFail;
using ::tensorcask::testing::FailingNew;
using ::tensorcask::testing::RandomTensor;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Values;
using ::testing::HasSubstr;
using ::testing::Not;

// Each failure is a status or an exception, or the bytes are those of an encoding without any.
void ExpectEachFailureIsTold(const TensorView& view, const PayloadWriteOptions& options) {
  const std::string wanted = EncodeOrFail(view, options);
  int refused = 0;
  for (int64_t n = 0;; ++n) {
    SCOPED_TRACE(n);
    std::string bytes;
    bytes.reserve(2 * wanted.size());
    StringSink sink(&bytes);
    absl::Status status;
    bool threw = false;
    bool failed = false;
    {
      const FailingNew failing(n, FailingNew::kOnce);
      try {
        status = EncodePayload(view, options, &sink).status();
      } catch (const std::bad_alloc&) {
        threw = true;
      }
      failed = failing.has_failed();
    }
    if (!failed) break;
    refused += threw || !status.ok() ? 1 : 0;
    if (!status.ok()) {
      // Not an exception of an absl::StatusOr whose error was passed over.
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, Not(HasSubstr("StatusOr"))));
    } else if (!threw) {
      EXPECT_EQ(bytes, wanted);
    }
    ASSERT_LT(n, 100000);
  }
  EXPECT_GT(refused, 0);
}

// The same elements in memory that others may write: they are copied before they are used.
TensorView InMemoryOfOthers(const Tensor& tensor) {
  auto* const memory = new std::vector<char>(tensor.bytes().begin(), tensor.bytes().end());
  return *Tensor::FromExternal(tensor.dtype(), tensor.shape(), memory->data(), memory->size(), [=] { delete memory; });
}

TEST(PayloadAllocations, OfADelta) {
  const Tensor base = RandomTensor(DType::kFloat32, TensorShape({300, 100}), Values::kWeights, 1);
  Tensor tensor = *base.Clone();
  tensor.mutable_data<float>()[77] += 1;
  PayloadWriteOptions options;
  options.payload.base = MakeBaseLookup(InMemoryOfOthers(base));
  ExpectEachFailureIsTold(tensor, options);
  options.payload.base = MakeBaseLookup(*TensorView(base).Transpose(0, 1));
  ExpectEachFailureIsTold(*TensorView(tensor).Transpose(0, 1), options);
}

TEST(PayloadAllocations, OfAnEstimate) {
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({300, 300}), Values::kWeights, 1);
  ExpectEachFailureIsTold(InMemoryOfOthers(tensor), PayloadWriteOptions());
}

}  // namespace
}  // namespace tensorcask
