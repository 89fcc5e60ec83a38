#include "tensorcask/serialize/payload/payload_encoder.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Always;
using ::tensorcask::testing::EncodeOrFail;
using ::tensorcask::testing::Forge;
using ::tensorcask::testing::RandomStrings;
using ::tensorcask::testing::RandomTensor;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Values;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr size_t kKiB = 1024;
constexpr int64_t kMiB = int64_t{1} << 20;

absl::StatusOr<std::optional<PayloadSummary>> Encode(const TensorView& view, const PayloadWriteOptions& options = {}) {
  DiscardSink sink;
  absl::StatusOr<std::optional<PayloadSummary>> written = EncodePayload(view, options, &sink);
  EXPECT_EQ(sink.position(), written.ok() && written->has_value() ? (*written)->stored_bytes : 0);
  return written;
}

// ---- Whether it pays ------------------------------------------------------------------------------------------------

TEST(PayloadEncoder, WritesNothingThatDoesNotPay) {
  struct Case {
    const char* name;
    Tensor tensor;
    bool pays;
  };
  const Case cases[] = {
      {"no elements", *Tensor::Create(DType::kFloat32, TensorShape({0})), false},
      {"one element", Tensor::FromValues<float>({1}), false},
      {"no strings", *Tensor::Create(DType::kString, TensorShape({0})), false},
      {"small zeros", *Tensor::Zeros(DType::kFloat32, TensorShape({20})), false},
      {"zeros", *Tensor::Zeros(DType::kFloat32, TensorShape({200})), true},
      {"noise", RandomTensor(DType::kUint8, TensorShape({100'000}), Values::kNoise, 1), false},
      {"weights", RandomTensor(DType::kFloat32, TensorShape({100'000}), Values::kWeights, 1), true},
      {"much noise", RandomTensor(DType::kUint8, TensorShape({17 * kMiB}), Values::kNoise, 1), false},
      {"many zeros", *Tensor::Zeros(DType::kUint8, TensorShape({17 * kMiB})), true},
      {"much of weights", RandomTensor(DType::kBfloat16, TensorShape({9 * kMiB}), Values::kWeights, 1), true},
      {"strings", RandomStrings(TensorShape({3000}), 30, 1), true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    PayloadWriteOptions options;
    ASSERT_OK_AND_ASSIGN(const std::optional<PayloadSummary> written, Encode(c.tensor, options));
    EXPECT_EQ(written.has_value(), c.pays);
    EXPECT_TRUE(!written || written->stored_bytes * 50 <= written->decoded_bytes * 49);
    options.always = true;
    EXPECT_TRUE((*Encode(c.tensor, options)).has_value());
    options = {};
    options.payload.level = PayloadLevel::kStored;
    EXPECT_TRUE((*Encode(c.tensor, options)).has_value());
  }
}

TEST(PayloadEncoder, SaysWhatItWrote) {
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({100'000}), Values::kWeights, 5);
  PayloadSummary summary;
  const std::string bytes = EncodeOrFail(tensor, Always(PayloadLevel::kHigh), &summary);
  EXPECT_EQ(summary.decoded_bytes, 400'000);
  EXPECT_EQ(summary.stored_bytes, bytes.size());
  EXPECT_EQ(summary.num_chunks, 7);
  EXPECT_EQ(summary.shared_chunks, 0);
  EXPECT_EQ(summary.header.dtype, DType::kFloat32);
  EXPECT_EQ(summary.header.level, 2);
  EXPECT_EQ(summary.header.Encode(), bytes.substr(0, kPayloadHeaderBytes));
}

// ---- The bytes ------------------------------------------------------------------------------------------------------

TEST(PayloadEncoder, BytesDependOnNeitherThreadsNorPlace) {
  std::mt19937 random(11);
  for (uint32_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const Tensor tensor = seed == 5 ? RandomStrings(TensorShape({50, 60}), 200, seed)
                                    : RandomTensor(seed % 2 == 0 ? DType::kFloat32 : DType::kInt16,
                                                   TensorShape({30, 50, 40 + seed}), Values::kMixed, seed);
    const TensorView view = testing::RandomView(tensor, &random);
    PayloadWriteOptions options = Always();
    const std::string bytes = EncodeOrFail(view, options);
    ASSERT_OK_AND_ASSIGN(const Tensor dense, view.ToTensor());
    for (const int threads : {1, 2, 3, 8}) {
      options.num_threads = threads;
      EXPECT_EQ(EncodeOrFail(view, options), bytes) << threads;
      EXPECT_EQ(EncodeOrFail(dense, options), bytes) << threads;
    }
  }
}

TEST(PayloadEncoder, RawChunksLieAtMultiplesOf64WhateverIsBeforeThePayload) {
  const Tensor tensor = RandomTensor(DType::kInt8, TensorShape({1'000'000}), Values::kMixed, 4);
  std::string bytes = "17 bytes before..";
  StringSink sink(&bytes);
  ASSERT_OK(sink.Append("and 5"));
  ASSERT_OK(EncodePayload(tensor, Always(), &sink));
  const std::string payload = bytes.substr(22);
  EXPECT_EQ(payload, EncodeOrFail(tensor, Always()));
  const Forge forge = Forge::Of(payload);
  int raw = 0;
  for (size_t i = 0; i < forge.chunks.size(); ++i) {
    if (forge.chunks[i].size != forge.header.chunk(i).size) continue;
    ++raw;
    EXPECT_EQ(forge.chunks[i].offset % 64, 0) << i;
    EXPECT_EQ(payload.substr(forge.chunks[i].offset, forge.chunks[i].size),
              tensor.bytes().substr(forge.header.chunk(i).begin, forge.header.chunk(i).size));
  }
  EXPECT_GT(raw, 0);
}

TEST(PayloadEncoder, StoresEqualChunksOnce) {
  // Chunks a b a a b, and one shorter.
  const Tensor part = RandomTensor(DType::kUint16, TensorShape({2, 32 * kKiB}), Values::kNoise, 1);
  std::string elements;
  for (const int which : {0, 1, 0, 0, 1})
    elements += std::string(part.bytes().substr(size_t{64} * kKiB * which, 64 * kKiB));
  elements += elements.substr(0, 1000);
  Tensor tensor = *Tensor::Create(DType::kUint16, TensorShape({static_cast<int64_t>(elements.size() / 2)}));
  std::memcpy(tensor.mutable_bytes().data(), elements.data(), elements.size());
  PayloadSummary summary;
  const std::string payload = EncodeOrFail(tensor, {PayloadLevel::kDefault, 64 * kKiB}, &summary);
  EXPECT_EQ(summary.num_chunks, 6);
  EXPECT_EQ(summary.shared_chunks, 3);
  const Forge forge = Forge::Of(payload);
  EXPECT_EQ(forge.chunks[0].offset, forge.chunks[2].offset);
  EXPECT_EQ(forge.chunks[0].offset, forge.chunks[3].offset);
  EXPECT_EQ(forge.chunks[1].offset, forge.chunks[4].offset);
  EXPECT_LT(payload.size(), size_t{3} * 64 * kKiB);
  ASSERT_OK_AND_ASSIGN(const Tensor read, testing::ReadWhole(payload, tensor.shape()));
  EXPECT_EQ(read.bytes(), tensor.bytes());
}

// One that begins as another and has its checksum is compared with it.
TEST(PayloadEncoder, DoesNotTakeChunksForEqualThatAreNot) {
  Tensor near = *RandomTensor(DType::kUint8, TensorShape({2 * 65536}), Values::kNoise, 1).Clone();
  char* const bytes = near.mutable_bytes().data();
  std::memcpy(bytes + 65536, bytes, 65536);
  // The generator of crc32c, which changes no remainder.
  const uint64_t generator = uint64_t{0x82f63b78} << 1 | 1;
  for (int i = 0; i < 5; ++i) bytes[65536 + 1000 + i] ^= static_cast<char>(generator >> (8 * i));
  ASSERT_EQ(Crc32c({bytes, 65536}), Crc32c({bytes + 65536, 65536}));
  PayloadSummary summary;
  const std::string payload = EncodeOrFail(near, Always(PayloadLevel::kDefault, 64 * kKiB), &summary);
  EXPECT_EQ(summary.num_chunks, 2);
  EXPECT_EQ(summary.shared_chunks, 0);
  ASSERT_OK_AND_ASSIGN(const Tensor read, testing::ReadWhole(payload, near.shape()));
  EXPECT_EQ(read.bytes(), near.bytes());
}

TEST(PayloadEncoder, PadsWhatExpandsSoThatDefaultLimitsTakeIt) {
  const Tensor row = *Tensor::Zeros(DType::kUint8, TensorShape({1}));
  ASSERT_OK_AND_ASSIGN(const TensorView zeros, TensorView(row).Expand({200 * kMiB}));
  PayloadSummary summary;
  const std::string payload = EncodeOrFail(zeros, {}, &summary);
  EXPECT_EQ(summary.num_chunks, 200);
  EXPECT_EQ(summary.shared_chunks, 199);
  EXPECT_GE(payload.size() * 1000, summary.decoded_bytes);
  EXPECT_LT(payload.size() * 999, summary.decoded_bytes);
  ASSERT_OK(PayloadReader::Open(payload, {}));
}

// ---- Deltas ---------------------------------------------------------------------------------------------------------

TEST(PayloadEncoder, TakesADeltaOnlyIfItPays) {
  const auto is_delta = [](const Tensor& tensor, const TensorView& base, PayloadLevel level, bool always) {
    PayloadWriteOptions options;
    options.payload = {level, 64 * kKiB, MakeBaseLookup(base)};
    options.always = always;
    const std::optional<PayloadSummary> written = *Encode(tensor, options);
    return written && written->header.is_delta;
  };
  for (const int64_t count : {50 * 1000, 6 * 1000 * 1000}) {  // on everything, and on samples
    for (const DType dtype : {DType::kFloat32, DType::kInt32}) {
      SCOPED_TRACE(absl::StrCat(count, " ", DTypeName(dtype)));
      const Tensor base = RandomTensor(dtype, TensorShape({count}), Values::kNoise, 1);
      const Tensor other = RandomTensor(dtype, TensorShape({count}), Values::kNoise, 2);
      Tensor step = *base.Clone();
      for (int64_t i = 0; i < count; i += 3) step.mutable_bytes()[i * 4] ^= 1;
      for (const bool always : {false, true}) {
        EXPECT_TRUE(is_delta(step, base, PayloadLevel::kDefault, always));
        EXPECT_FALSE(is_delta(step, other, PayloadLevel::kDefault, always));
        EXPECT_FALSE(is_delta(step, base, PayloadLevel::kStored, always));
      }
      ASSERT_OK_AND_ASSIGN(const TensorView reshaped, TensorView(base).Reshape({count / 100, 100}));
      EXPECT_TRUE(is_delta(step, reshaped, PayloadLevel::kDefault, false));
    }
  }
  const Tensor bools = RandomTensor(DType::kBool, TensorShape({100'000}), Values::kNoise, 1);
  EXPECT_FALSE(is_delta(bools, bools, PayloadLevel::kDefault, true));
  const Tensor strings = RandomStrings(TensorShape({1000}), 30, 1);
  EXPECT_FALSE(is_delta(strings, strings, PayloadLevel::kDefault, true));
  const Tensor none = *Tensor::Create(DType::kFloat32, TensorShape({0}));
  EXPECT_FALSE(is_delta(none, none, PayloadLevel::kDefault, true));
}

TEST(PayloadEncoder, NamesTheBaseByItsElements) {
  const Tensor base = RandomTensor(DType::kFloat32, TensorShape({300, 200}), Values::kNoise, 1);
  ASSERT_OK_AND_ASSIGN(const TensorView turned, TensorView(base).Transpose(0, 1));
  PayloadWriteOptions options = Always();
  options.payload.base = MakeBaseLookup(turned);
  ASSERT_OK_AND_ASSIGN(const Tensor same, turned.ToTensor());
  PayloadSummary summary;
  const std::string payload = EncodeOrFail(same, options, &summary);
  ASSERT_TRUE(summary.header.is_delta);
  EXPECT_EQ(summary.header.base, *HashElements(same));
  EXPECT_LT(payload.size(), 1000);  // nothing has changed
  const TensorView base_of_same = same;
  options.payload.base = MakeBaseLookup(base_of_same);
  EXPECT_EQ(EncodeOrFail(turned, options), payload);
}

// ---- Errors ---------------------------------------------------------------------------------------------------------

TEST(PayloadEncoder, RefusesOptionsThatCannotBe) {
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({1000}), Values::kSmooth, 1);
  for (const size_t chunk_bytes : {size_t{0}, 32 * kKiB, 65 * kKiB, 8192 * kKiB}) {
    PayloadWriteOptions options;
    options.payload.chunk_bytes = chunk_bytes;
    EXPECT_THAT(Encode(tensor, options), StatusIs(Code::kInvalidArgument, HasSubstr("64 KiB to 4 MiB")));
  }
  PayloadWriteOptions options;
  options.payload.level = static_cast<PayloadLevel>(3);
  EXPECT_THAT(Encode(tensor, options), StatusIs(Code::kInvalidArgument, HasSubstr("level 3")));

  for (const Tensor& base :
       {*Tensor::Zeros(DType::kFloat32, TensorShape({999})), *Tensor::Zeros(DType::kInt32, TensorShape({1000}))}) {
    const TensorView view = base;
    options = {};
    options.payload.base = MakeBaseLookup(view);
    EXPECT_THAT(Encode(tensor, options), StatusIs(Code::kInvalidArgument, HasSubstr("the base is")));
  }
}

TEST(PayloadEncoder, RefusesTensorsThatHaveNoSuchForm) {
  for (const DType dtype : {DType::kResource, DType::kVariant}) {
    EXPECT_THAT(Encode(*Tensor::Create(dtype, TensorShape({2}))),
                StatusIs(Code::kUnimplemented, HasSubstr(std::string(DTypeName(dtype)))));
  }
  const TensorView none = *TensorView::Create(TensorBuffer::MakeWithoutData(4000, "left at home"), DType::kFloat32,
                                              Layout::RowMajor(TensorShape({1000})));
  EXPECT_THAT(Encode(none), StatusIs(Code::kFailedPrecondition, HasSubstr("left at home")));
  const Tensor tensor = *Tensor::Zeros(DType::kFloat32, TensorShape({1000}));
  PayloadWriteOptions options;
  options.payload.base = MakeBaseLookup(none);
  EXPECT_THAT(Encode(tensor, options), StatusIs(Code::kFailedPrecondition, HasSubstr("left at home")));

  const Tensor one = *Tensor::Zeros(DType::kFloat64, TensorShape({1}));
  ASSERT_OK_AND_ASSIGN(const TensorView endless, TensorView(one).Expand({int64_t{1} << 61}));
  EXPECT_THAT(Encode(endless), StatusIs(Code::kInvalidArgument, HasSubstr("2^63")));
}

// Takes so many bytes, and no more.
class FullSink final : public ByteSink {
 public:
  explicit FullSink(uint64_t room) : room_(room) {}
  absl::Status Append(absl::string_view bytes) override {
    EXPECT_FALSE(failed_) << "used after an error";
    failed_ = bytes.size() > room_ - taken_;
    if (failed_) return absl::DataLossError("the disk is full");
    taken_ += bytes.size();
    return absl::OkStatus();
  }
  uint64_t position() const override { return taken_; }

 private:
  const uint64_t room_;
  uint64_t taken_ = 0;
  bool failed_ = false;
};

TEST(PayloadEncoder, PassesOnWhatTheSinkSays) {
  const Tensor tensor = RandomTensor(DType::kUint8, TensorShape({600'000}), Values::kMixed, 1);
  for (PayloadWriteOptions options :
       {Always(), PayloadWriteOptions{PayloadLevel::kStored, 64 * kKiB}, PayloadWriteOptions{}}) {
    for (const int threads : {1, 3}) {
      options.num_threads = threads;
      const uint64_t size = (*Encode(tensor, options))->stored_bytes;
      for (const uint64_t room : {uint64_t{0}, uint64_t{63}, uint64_t{64}, size / 2, size - 5, size - 1}) {
        FullSink sink(room);
        EXPECT_THAT(EncodePayload(tensor, options, &sink), StatusIs(Code::kDataLoss, HasSubstr("disk is full")));
      }
      FullSink sink(size);
      EXPECT_OK(EncodePayload(tensor, options, &sink));
    }
  }
}

}  // namespace
}  // namespace tensorcask
