// What happens when memory is short. A program of its own: it replaces operator new, and a function of zstd.

#include <dlfcn.h>
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/payload/codec/plane_codec.h"
#include "tensorcask/serialize/payload/payload_encoder.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"
#include "tensorcask/tests/support/counted_allocations.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace {
bool contexts_fail = false;
bool zstd_is_shared = false;
}  // namespace

// In place of zstd's own, whose memory does not come from operator new. Weak, so that it gives way to zstd's own where
// zstd is linked into the program.
extern "C" __attribute__((weak)) ZSTD_DCtx* ZSTD_createDCtx() {
  using Create = ZSTD_DCtx* (*)();
  zstd_is_shared = true;
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "ZSTD_createDCtx"));
  return contexts_fail ? nullptr : create();
}

namespace tensorcask {
namespace {

using ::tensorcask::testing::Always;
using ::tensorcask::testing::EncodeOrFail;
using ::tensorcask::testing::FailingNothrowNew;
using ::tensorcask::testing::Forge;
using ::tensorcask::testing::RandomTensor;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Values;
using ::testing::HasSubstr;

const auto kNoMemory = StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("memory"));

TEST(PayloadMemory, EncodingSaysSo) {
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({300, 300}), Values::kWeights, 1);
  const TensorView turned = *TensorView(tensor).Transpose(0, 1);
  const TensorView whole = tensor;
  for (PayloadWriteOptions options : {PayloadWriteOptions(), Always(), Always(PayloadLevel::kHigh)}) {
    for (const TensorView* base : {static_cast<const TensorView*>(nullptr), &whole}) {
      if (base != nullptr) options.payload.base = MakeBaseLookup(*base);
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

// Claims that no bytes back are refused as such. If memory were requested for them, the error would be that
// there is none.
TEST(PayloadMemory, AClaimTakesNone) {
  Forge honest;
  honest.header.dtype = DType::kFloat32;
  honest.header.num_elements = 16;
  honest.Add(std::string(64, 'x'));
  struct Claim {
    const char* name;
    uint64_t elements;
    size_t chunks;
    absl::StatusCode code;
    const char* says;
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const Claim claims[] = {
      {"AllThereCanBe", uint64_t{1} << 60, 1, kInvalid, "the index of its 4398046511104 chunks"},
      {"AChunkMore", (1 << 20) / 4 + 1, 1, absl::StatusCode::kDataLoss, "index is wrong"},
      {"PastTheLimits", uint64_t{1} << 34, 65536, absl::StatusCode::kResourceExhausted, "past max_memory_beyond_input"},
      {"LargerThanDecoded", 15, 1, kInvalid, "chunk 0 has 64 bytes; it decodes to 60"},
  };
  for (const Claim& claim : claims) {
    SCOPED_TRACE(claim.name);
    Forge forge = honest;
    forge.header.num_elements = claim.elements;
    forge.chunks.resize(claim.chunks, honest.chunks[0]);
    const std::string payload = forge.Bytes();
    absl::Status status;
    {
      const FailingNothrowNew failing;
      status = PayloadReader::Open(payload, {}).status();
    }
    EXPECT_THAT(status, StatusIs(claim.code, HasSubstr(claim.says)));
  }
}

TEST(PayloadMemory, WithoutAContextOfZstdReadingSaysSo) {
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({10'000}), Values::kWeights, 1);
  const std::string payload = EncodeOrFail(tensor, Always());
  ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(payload, {}));
  TensorView out = *Tensor::Create(DType::kFloat32, tensor.shape());
  char frame[100];
  char plane[50] = {};
  const size_t frame_bytes = ZSTD_compress(frame, sizeof(frame), plane, sizeof(plane), 1);
  int damages = 0;
  contexts_fail = true;
  std::vector<payload::PlaneDecoder> others(100);  // have the contexts that are left from before
  for (payload::PlaneDecoder& other : others) {
    other.DecodeFrame({frame, frame_bytes}, absl::MakeSpan(plane)).IgnoreError();
  }
  const absl::Status read = reader.ReadInto(&out);
  const absl::Status verified = reader.Verify([&](const absl::Status&) { ++damages; });
  contexts_fail = false;
  if (!zstd_is_shared) GTEST_SKIP() << "zstd is linked into the program, and its function cannot be replaced";
  EXPECT_THAT(read, kNoMemory);
  EXPECT_THAT(verified, kNoMemory);
  EXPECT_EQ(damages, 0);
  EXPECT_OK(reader.ReadInto(&out));
  EXPECT_EQ(out.bytes(), tensor.bytes());
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
