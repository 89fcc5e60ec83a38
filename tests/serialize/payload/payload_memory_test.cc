// What happens when memory is short. A program of its own: it replaces operator new.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/payload/payload_encoder.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"
#include "tensorcask/tests/support/counted_allocations.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Always;
using ::tensorcask::testing::EncodeOrFail;
using ::tensorcask::testing::FailingNothrowNew;
using ::tensorcask::testing::RandomTensor;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Values;
using ::testing::HasSubstr;

const auto kNoMemory = StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("memory"));

TEST(PayloadMemory, EncodingSaysSo) {
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({300, 300}), Values::kWeights, 1);
  const TensorView turned = *TensorView(tensor).Transpose(0, 1);
  const TensorView whole = tensor;
  for (PayloadOptions options : {PayloadOptions(), Always(), Always(PayloadLevel::kHigh)}) {
    for (const TensorView* base : {static_cast<const TensorView*>(nullptr), &whole}) {
      options.base = base;
      absl::Status status;
      DiscardSink sink;
      {
        const FailingNothrowNew failing;
        status = EncodePayload(turned, options, &sink).status();
      }
      EXPECT_THAT(status, kNoMemory);
    }
  }
}

TEST(PayloadMemory, ReadingSaysSo) {
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({300, 300}), Values::kMixed, 1);
  const std::string payload = EncodeOrFail(tensor, Always());
  const auto source = MakeMemorySource("file", payload);
  ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(source, 0, payload.size(), {}));
  TensorView dense = *Tensor::Create(DType::kFloat32, tensor.shape());
  TensorView turned = *dense.Transpose(0, 1);
  TensorView part = *Tensor::Create(DType::kFloat32, TensorShape({300, 10}));
  const TensorSlice slice = *TensorSlice::Parse("-:20,10");
  absl::Status statuses[5];
  int damages = 0;
  {
    const FailingNothrowNew failing;
    statuses[0] = PayloadReader::Open(source, 0, payload.size(), {}).status();
    statuses[1] = reader.ReadInto(&dense);
    statuses[2] = reader.ReadInto(&turned);
    statuses[3] = reader.ReadSliceInto(tensor.shape(), slice, &part);
    statuses[4] = reader.Verify([&](const absl::Status&) { ++damages; });
  }
  for (const absl::Status& status : statuses) EXPECT_THAT(status, kNoMemory);
  EXPECT_EQ(damages, 0);
  // The reader goes on when there is memory again.
  EXPECT_OK(reader.ReadInto(&dense));
  EXPECT_EQ(dense.bytes(), tensor.bytes());
}

TEST(PayloadMemory, ChunksTakeWhatEarlierChunksTook) {
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({1000, 1000}), Values::kWeights, 1);
  const auto allocations = [&](size_t chunk_bytes) {
    const std::string payload = EncodeOrFail(tensor, Always(PayloadLevel::kDefault, chunk_bytes));
    const PayloadReader reader = *PayloadReader::Open(payload, {});
    TensorView out = *Tensor::Create(DType::kFloat32, tensor.shape());
    return testing::AllocationsOf([&] { EXPECT_OK(reader.ReadInto(&out)); });
  };
  EXPECT_LE(allocations(64 << 10), allocations(4 << 20) + 10);
}

}  // namespace
}  // namespace tensorcask
