// Payloads in sources that fail, shared by threads, and damaged.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Always;
using ::tensorcask::testing::ElementBytes;
using ::tensorcask::testing::EncodeOrFail;
using ::tensorcask::testing::Forge;
using ::tensorcask::testing::RandomStrings;
using ::tensorcask::testing::RandomTensor;
using ::tensorcask::testing::ReadWhole;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Values;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr size_t kKiB = 1024;

// ---- Where payloads are ---------------------------------------------------------------------------------------------

TEST(PayloadReader, ReadsFromASource) {
  for (const Tensor& tensor : {RandomTensor(DType::kInt32, TensorShape({100, 2000}), Values::kMixed, 1),
                               RandomTensor(DType::kBool, TensorShape({100, 2000}), Values::kMixed, 1),
                               RandomStrings(TensorShape({5000}), 40, 1)}) {
    const std::string payload = EncodeOrFail(tensor, Always());
    const std::string file = absl::StrCat("before", payload, "behind");
    const std::shared_ptr<const ByteSource> source = MakeMemorySource("a file", file);
    for (const int threads : {1, 3}) {
      PayloadReadOptions options;
      options.num_threads = threads;
      ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(source, 6, payload.size(), options));
      TensorView out = *Tensor::Create(tensor.dtype(), tensor.shape());
      ASSERT_OK(reader.ReadInto(&out));
      EXPECT_EQ(ElementBytes(out), ElementBytes(tensor));
      EXPECT_OK(reader.Verify([](const absl::Status& damage) { FAIL() << damage; }));
    }
    for (const uint64_t offset : {uint64_t{13}, std::numeric_limits<uint64_t>::max()}) {
      EXPECT_THAT(PayloadReader::Open(source, offset, payload.size(), {}),
                  StatusIs(Code::kDataLoss, HasSubstr("a file: a payload of")));
    }
  }
}

// Fails to read anything past some place.
class TornSource final : public ByteSource {
 public:
  TornSource(absl::string_view bytes, uint64_t torn_at) : bytes_(bytes), torn_at_(torn_at) {}
  const std::string& name() const override { return name_; }
  uint64_t size_bytes() const override { return bytes_.size(); }
  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
    if (offset + out.size() > torn_at_ && offset < bytes_.size() - 200) return absl::UnavailableError("torn: EIO");
    bytes_.copy(out.data(), out.size(), offset);
    return absl::OkStatus();
  }

 private:
  const std::string name_ = "torn";
  const absl::string_view bytes_;
  const uint64_t torn_at_;
};

TEST(PayloadReader, PassesOnWhatTheSourceSays) {
  const Tensor tensor = RandomTensor(DType::kInt32, TensorShape({100'000}), Values::kMixed, 1);
  const std::string payload = EncodeOrFail(tensor, Always());
  EXPECT_THAT(PayloadReader::Open(std::make_shared<TornSource>(payload, 10), 0, payload.size(), {}),
              StatusIs(Code::kUnavailable, HasSubstr("torn")));
  for (const int threads : {1, 3}) {
    PayloadReadOptions options;
    options.num_threads = threads;
    ASSERT_OK_AND_ASSIGN(const PayloadReader reader,
                         PayloadReader::Open(std::make_shared<TornSource>(payload, 64), 0, payload.size(), options));
    TensorView out = *Tensor::Create(DType::kInt32, tensor.shape());
    EXPECT_THAT(reader.ReadInto(&out),
                StatusIs(Code::kUnavailable, HasSubstr("chunk 0 (elements 0 to 16383): torn: EIO")));
    EXPECT_THAT(reader.Verify([](const absl::Status& damage) { FAIL() << damage; }), StatusIs(Code::kUnavailable));
  }
}

TEST(PayloadReader, IsSafeFromSeveralThreads) {
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({100, 1000}), Values::kMixed, 1);
  const std::string payload = EncodeOrFail(tensor, Always());
  PayloadReadOptions options;
  options.num_threads = 2;
  ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(payload, options));
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int64_t row = i; row < 100; row += 4) {
        const TensorSlice slice = *TensorSlice::Create({{row, 1}, {}});
        TensorView out = *Tensor::Create(DType::kFloat32, TensorShape({1, 1000}));
        EXPECT_OK(reader.ReadSliceInto(tensor.shape(), slice, &out));
        EXPECT_EQ(ElementBytes(out), ElementBytes(*TensorView(tensor).Slice(slice)));
      }
      EXPECT_OK(reader.Verify([](const absl::Status& damage) { ADD_FAILURE() << damage; }));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- Damage ---------------------------------------------------------------------------------------------------------

TEST(PayloadReader, NamesTheFirstDamagedChunkAndVerifyAll) {
  const Tensor tensor = RandomTensor(DType::kInt16, TensorShape({400'000}), Values::kMixed, 3);
  std::string payload = EncodeOrFail(tensor, Always());
  const Forge forge = Forge::Of(payload);
  ASSERT_EQ(forge.chunks.size(), 13);
  const std::set<size_t> damaged = {4, 5, 12};
  for (const size_t i : damaged) payload[forge.chunks[i].offset + forge.chunks[i].size / 2] ^= 1;
  for (const int threads : {1, 2, 5}) {
    PayloadReadOptions options;
    options.num_threads = threads;
    ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(payload, options));
    TensorView out = *Tensor::Create(DType::kInt16, tensor.shape());
    EXPECT_THAT(reader.ReadInto(&out),
                StatusIs(Code::kDataLoss, HasSubstr("chunk 4 (elements 131072 to 163839): the checksum of its")));
    std::vector<std::string> found;
    ASSERT_OK(reader.Verify([&](const absl::Status& damage) { found.emplace_back(damage.ToString()); }));
    ASSERT_EQ(found.size(), 3);
    EXPECT_THAT(found[0], HasSubstr("DATA_LOSS: chunk 4 ("));
    EXPECT_THAT(found[1], HasSubstr("chunk 5 ("));
    EXPECT_THAT(found[2], HasSubstr("chunk 12 (elements 393216 to 399999)"));
    // Others stay readable.
    for (size_t i = 0; i < 13; ++i) {
      std::string part(std::min<size_t>(32'768, 400'000 - i * 32'768) * 2, '\0');
      const absl::Status status = reader.ReadRange(i * 32'768, absl::MakeSpan(&part[0], part.size()));
      EXPECT_EQ(status.ok(), damaged.count(i) == 0) << i;
      EXPECT_EQ(status.ok() && part == tensor.bytes().substr(i * 64 * kKiB, part.size()), status.ok()) << i;
    }
  }
}

TEST(PayloadReader, WithoutChecksumsOnlyVerifyLooks) {
  const Tensor tensor = RandomTensor(DType::kUint8, TensorShape({1000}), Values::kNoise, 3);
  std::string payload = EncodeOrFail(tensor, Always());
  payload[100] ^= 1;
  PayloadReadOptions options;
  options.verify = false;
  ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(payload, options));
  TensorView out = *Tensor::Create(DType::kUint8, tensor.shape());
  EXPECT_OK(reader.ReadInto(&out));
  int damages = 0;
  EXPECT_OK(reader.Verify([&](const absl::Status&) { ++damages; }));
  EXPECT_EQ(damages, 1);
}

// Whatever one byte is changed to, and wherever a payload ends: an error, or the same elements (gaps are any bytes).
TEST(PayloadReader, ChangedBytesAndPrefixesErrOrDoNoHarm) {
  Tensor tensor = RandomTensor(DType::kInt32, TensorShape({300}), Values::kSmooth, 1);
  const Tensor strings = RandomStrings(TensorShape({100}), 8, 1);
  for (const Tensor& sample : {tensor, strings, RandomTensor(DType::kBool, TensorShape({500}), Values::kNoise, 1),
                               RandomTensor(DType::kFloat16, TensorShape({40}), Values::kNoise, 1)}) {
    const std::string payload = EncodeOrFail(sample, Always());
    SCOPED_TRACE(absl::StrCat(DTypeName(sample.dtype()), ", ", payload.size(), " bytes"));
    int unharmed = 0;
    for (size_t at = 0; at < payload.size(); ++at) {
      for (const char change : {'\x01', '\x80', '\xff', '\x10'}) {
        std::string changed = payload;
        changed[at] ^= change;
        const absl::StatusOr<Tensor> read = ReadWhole(changed, sample.shape());
        if (!read.ok()) continue;
        ++unharmed;
        EXPECT_EQ(ElementBytes(*read), ElementBytes(sample)) << at;
      }
      EXPECT_FALSE(ReadWhole(absl::string_view(payload).substr(0, at), sample.shape()).ok()) << at;
    }
    EXPECT_LT(unharmed, 4 * 64);  // those between chunks
  }
}

// The same with checksums made right again, so that all after them is looked at.
TEST(PayloadReader, ForgedChunksErrOrGiveElements) {
  std::mt19937 random(9);
  for (const Tensor& sample :
       {RandomTensor(DType::kFloat32, TensorShape({3000}), Values::kWeights, 1),
        RandomTensor(DType::kBool, TensorShape({5000}), Values::kMixed, 1), RandomStrings(TensorShape({500}), 8, 1)}) {
    const Forge forge = Forge::Of(EncodeOrFail(sample, Always(PayloadLevel::kHigh)));
    SCOPED_TRACE(std::string(DTypeName(sample.dtype())));
    for (int i = 0; i < 3000; ++i) {
      Forge changed = forge;
      for (auto n = 1 + random() % 3; n > 0; --n) {
        const size_t at = random() % std::min<size_t>(changed.body.size(), random() % 2 == 0 ? SIZE_MAX : 40);
        changed.body[at] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
      }
      const absl::StatusOr<Tensor> read = ReadWhole(changed.Bytes(), sample.shape());
      if (read.ok() && sample.dtype() == DType::kBool) {
        for (const char byte : read->bytes()) ASSERT_TRUE(byte == 0 || byte == 1);
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask
