#include "tensorcask/serialize/payload/payload_reader.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/serialize/payload/payload_encoder.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Always;
using ::tensorcask::testing::ElementBytes;
using ::tensorcask::testing::EncodeOrFail;
using ::tensorcask::testing::FixedSizeDTypes;
using ::tensorcask::testing::RandomStrings;
using ::tensorcask::testing::RandomTensor;
using ::tensorcask::testing::RandomView;
using ::tensorcask::testing::ReadWhole;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Values;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr size_t kKiB = 1024;
constexpr PayloadLevel kLevels[] = {PayloadLevel::kStored, PayloadLevel::kDefault, PayloadLevel::kHigh};
constexpr Values kValues[] = {Values::kNoise, Values::kSmooth, Values::kZeros, Values::kMixed, Values::kWeights};

// A view of some memory of its own, of the dims of `like`, as strided as can be.
TensorView Elsewhere(const TensorView& like, std::mt19937* random) {
  std::vector<int64_t> axes(static_cast<size_t>(like.rank()));
  std::vector<int64_t> dims(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  std::shuffle(axes.begin(), axes.end(), *random);
  for (size_t i = 0; i < axes.size(); ++i) dims[axes[i]] = like.dim(static_cast<int>(i)) + (*random)() % 3;
  TensorView view = *Tensor::Create(like.dtype(), *TensorShape::Create(dims));
  view = *view.Permute(axes);
  for (int axis = 0; axis < view.rank(); ++axis) {
    view = *view.Narrow(axis, view.dim(axis) - like.dim(axis), like.dim(axis));
    if ((*random)() % 3 == 0) view = *view.Flip({axis});
  }
  return view;
}

// A random box of a tensor of these dims.
TensorSlice RandomSlice(absl::Span<const int64_t> dims, std::mt19937* random) {
  std::vector<TensorSlice::Extent> extents;
  for (const int64_t dim : dims) {
    if (dim == 0 || (*random)() % 3 == 0) {
      extents.emplace_back();
    } else {
      const int64_t start = (*random)() % dim;
      extents.push_back({start, 1 + static_cast<int64_t>((*random)() % (dim - start))});
    }
  }
  return *TensorSlice::Create(extents);
}

// ---- Whole tensors --------------------------------------------------------------------------------------------------

TEST(PayloadReader, GivesBackEveryDTypeLevelAndValue) {
  uint32_t seed = 0;
  for (const DType dtype : FixedSizeDTypes()) {
    for (const PayloadLevel level : kLevels) {
      for (const Values values : kValues) {
        for (const TensorShape& shape :
             {TensorShape(), TensorShape({0, 3}), TensorShape({1}), TensorShape({17, 1003})}) {
          SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", PayloadLevelName(level), " ", static_cast<int>(values), " ",
                                    shape.ToString()));
          const Tensor tensor = RandomTensor(dtype, shape, values, ++seed);
          const std::string payload = EncodeOrFail(tensor, Always(level));
          ASSERT_OK_AND_ASSIGN(const Tensor read, ReadWhole(payload, shape));
          EXPECT_EQ(ElementBytes(read), ElementBytes(tensor));
        }
      }
    }
  }
}

TEST(PayloadReader, GivesBackEveryChunkSize) {
  for (int log2 = kMinLog2ChunkBytes; log2 <= kMaxLog2ChunkBytes; ++log2) {
    for (const int64_t more : {-1, 0, 1}) {  // elements than two chunks have
      const int64_t count = (int64_t{1} << (log2 - 1)) + more;
      SCOPED_TRACE(absl::StrCat("2^", log2, ", ", count));
      const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({count}), Values::kMixed, log2);
      const std::string payload = EncodeOrFail(tensor, Always(PayloadLevel::kDefault, size_t{1} << log2));
      PayloadReadOptions options;
      options.num_threads = 2;
      ASSERT_OK_AND_ASSIGN(const Tensor read, ReadWhole(payload, tensor.shape(), nullptr, options));
      EXPECT_EQ(read.bytes(), tensor.bytes());
    }
  }
}

TEST(PayloadReader, KeepsEveryBitOfFloats) {
  std::vector<uint32_t> bits = {0x7fc00001, 0xffc12345, 0x7f800001, 0x80000000, 0,
                                1,          0x807fffff, 0x7f800000, 0xff800000};
  for (uint32_t i = 0; i < 30'000; ++i) bits.push_back(bits[i % 9] ^ (i % 7 == 0 ? i : 0));
  Tensor tensor = *Tensor::Create(DType::kFloat32, TensorShape({static_cast<int64_t>(bits.size())}));
  std::memcpy(tensor.mutable_bytes().data(), bits.data(), bits.size() * 4);
  Tensor base = *tensor.Clone();
  for (int64_t i = 0; i < base.num_elements(); i += 5) base.mutable_bytes()[i * 4] ^= 3;
  const TensorView base_view = base;
  for (const PayloadLevel level : kLevels) {
    PayloadWriteOptions options = Always(level);
    ASSERT_OK_AND_ASSIGN(const Tensor read, ReadWhole(EncodeOrFail(tensor, options), tensor.shape()));
    EXPECT_EQ(read.bytes(), tensor.bytes());
    if (level == PayloadLevel::kStored) continue;
    options.payload.base = MakeBaseLookup(base_view);
    ASSERT_OK_AND_ASSIGN(const Tensor delta, ReadWhole(EncodeOrFail(tensor, options), tensor.shape(), &base_view));
    EXPECT_EQ(delta.bytes(), tensor.bytes());
  }
}

TEST(PayloadReader, GivesBackAnyViewIntoAnyOther) {
  std::mt19937 random(1);
  const std::vector<DType> dtypes = FixedSizeDTypes();
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<int64_t> dims(random() % 6);
    for (int64_t& dim : dims) dim = random() % 40 == 0 ? 0 : 1 + random() % 14;
    if (!dims.empty() && seed % 3 == 0) dims[random() % dims.size()] = 500 + random() % 2000;
    int64_t product = 1;
    for (const int64_t dim : dims) product *= dim;
    if (product > 1'000'000) continue;
    const Tensor tensor =
        RandomTensor(dtypes[random() % dtypes.size()], *TensorShape::Create(dims), kValues[random() % 5], seed);
    const TensorView view = RandomView(tensor, &random);
    const std::string payload = EncodeOrFail(view, Always(kLevels[random() % 3]));
    PayloadReadOptions options;
    options.num_threads = 1 + static_cast<int>(random() % 3);
    ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(payload, options));
    TensorView out = Elsewhere(view, &random);
    ASSERT_OK(reader.ReadInto(&out));
    EXPECT_EQ(ElementBytes(out), ElementBytes(view));
    EXPECT_EQ(reader.chunks_decoded(), reader.header().num_chunks());
  }
}

// ---- Parts ----------------------------------------------------------------------------------------------------------

TEST(PayloadReader, SlicesAreThoseOfTheWhole) {
  std::mt19937 random(2);
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<int64_t> dims(1 + random() % 4);
    for (int64_t& dim : dims) dim = 1 + random() % 6;
    dims[random() % dims.size()] *= 100;
    const TensorShape shape = *TensorShape::Create(dims);
    const DType dtype = seed % 10 == 0 ? DType::kString : seed % 2 == 0 ? DType::kFloat64 : DType::kInt16;
    const Tensor tensor =
        dtype == DType::kString ? RandomStrings(shape, 10, seed) : RandomTensor(dtype, shape, Values::kMixed, seed);
    const std::string payload = EncodeOrFail(tensor, Always());
    PayloadReadOptions options;
    options.num_threads = 1 + static_cast<int>(random() % 3);
    ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(payload, options));
    for (int i = 0; i < 10; ++i) {
      const TensorSlice slice = RandomSlice(dims, &random);
      ASSERT_OK_AND_ASSIGN(const TensorView wanted, TensorView(tensor).Slice(slice));
      TensorView out = i % 2 == 0 ? TensorView(*Tensor::Create(dtype, wanted.shape())) : Elsewhere(wanted, &random);
      ASSERT_OK(reader.ReadSliceInto(shape, slice, &out)) << slice;
      EXPECT_EQ(ElementBytes(out), ElementBytes(wanted)) << slice;
    }
  }
}

TEST(PayloadReader, SlicesOutsideAreOutOfRange) {
  const Tensor tensor = RandomTensor(DType::kInt8, TensorShape({10, 20}), Values::kSmooth, 1);
  const std::string payload = EncodeOrFail(tensor, Always());
  ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(payload, {}));
  TensorView out = *Tensor::Create(DType::kInt8, TensorShape({2, 20}));
  EXPECT_THAT(reader.ReadSliceInto(tensor.shape(), *TensorSlice::Parse("9,2:-"), &out), StatusIs(Code::kOutOfRange));
  EXPECT_THAT(reader.ReadSliceInto(tensor.shape(), *TensorSlice::Parse("-"), &out), StatusIs(Code::kInvalidArgument));
}

// Of 1024 chunks, as a tensor of 1 GiB has by default, a slice of 1 % decodes at most 2 % and one.
TEST(PayloadReader, ASliceDecodesOnlyItsChunks) {
  const Tensor row = RandomTensor(DType::kFloat32, TensorShape({1, 4096}), Values::kWeights, 1);
  ASSERT_OK_AND_ASSIGN(const TensorView rows, TensorView(row).Expand({4096, 4096}));  // 64 MiB
  const std::string payload = EncodeOrFail(rows, Always());
  const TensorShape shape({4096, 4096});
  struct Case {
    const char* slice;
    uint64_t most;
  };
  const Case cases[] = {{"0,41:-", 21}, {"100,40:-", 21}, {"4000,1:-", 1}, {"7,1:5,1", 1}, {"8,8:4000,1", 2}};
  for (const Case& c : cases) {
    ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(payload, {}));
    ASSERT_EQ(reader.header().num_chunks(), 1024);
    const TensorSlice slice = *TensorSlice::Parse(c.slice);
    TensorView out = *Tensor::Create(DType::kFloat32, *slice.Apply(shape));
    ASSERT_OK(reader.ReadSliceInto(shape, slice, &out));
    EXPECT_LE(reader.chunks_decoded(), c.most) << c.slice;
    EXPECT_GT(reader.chunks_decoded(), 0);
    EXPECT_EQ(ElementBytes(out), ElementBytes(*rows.Slice(slice))) << c.slice;
  }
}

TEST(PayloadReader, RangesAreThoseOfTheWhole) {
  std::mt19937 random(3);
  const Tensor tensor = RandomTensor(DType::kComplex64, TensorShape({50'000}), Values::kMixed, 1);
  const std::string payload = EncodeOrFail(tensor, Always());
  ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(payload, {}));
  for (int i = 0; i < 200; ++i) {
    const uint64_t first = random() % 50'001;
    std::string out(random() % (50'001 - first) * 8, '\x55');
    const uint64_t before = reader.chunks_decoded();
    ASSERT_OK(reader.ReadRange(first, absl::MakeSpan(&out[0], out.size())));
    EXPECT_EQ(out, tensor.bytes().substr(first * 8, out.size()));
    EXPECT_LE(reader.chunks_decoded() - before, out.size() / (64 * kKiB) + 2);
  }
}

// ---- Strings --------------------------------------------------------------------------------------------------------

TEST(PayloadReader, GivesBackStrings) {
  std::string huge(300 * kKiB, 'x');
  huge[100'000] = '\0';
  const Tensor cases[] = {
      *Tensor::Create(DType::kString, TensorShape({0})),
      *Tensor::Create(DType::kString, TensorShape()),
      *Tensor::Create(DType::kString, TensorShape({100'000})),  // all empty
      Tensor::FromValues<std::string>({"", std::string("\0", 1), "a", ""}),
      Tensor::FromValues<std::string>({"", huge, "", huge.substr(1), "end"}),
      RandomStrings(TensorShape({200, 300}), 12, 1),
      RandomStrings(TensorShape({20'000}), 3, 2),
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    for (const PayloadLevel level : kLevels) {
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(absl::StrCat(i, " ", PayloadLevelName(level)));
        PayloadWriteOptions encoding = Always(level);
        encoding.num_threads = threads;
        PayloadReadOptions options;
        options.num_threads = threads;
        const std::string payload = EncodeOrFail(cases[i], encoding);
        ASSERT_OK_AND_ASSIGN(const Tensor read, ReadWhole(payload, cases[i].shape(), nullptr, options));
        EXPECT_EQ(ElementBytes(read), ElementBytes(cases[i]));
      }
    }
  }
}

TEST(PayloadReader, StringsReplaceWhatWasThereInAnyView) {
  std::mt19937 random(5);
  const Tensor tensor = RandomStrings(TensorShape({30, 40}), 20, 1);
  const std::string payload = EncodeOrFail(tensor, Always());
  ASSERT_OK_AND_ASSIGN(const PayloadReader reader, PayloadReader::Open(payload, {}));
  for (int i = 0; i < 5; ++i) {
    TensorView out = i == 0 ? TensorView(*Tensor::Create(DType::kString, tensor.shape())) : Elsewhere(tensor, &random);
    ASSERT_OK(Fill("something longer than what comes", &out));
    ASSERT_OK(reader.ReadInto(&out));
    EXPECT_EQ(ElementBytes(out), ElementBytes(tensor));
  }
}

// ---- Deltas ---------------------------------------------------------------------------------------------------------

TEST(PayloadReader, GivesBackDeltas) {
  std::mt19937 random(6);
  for (const DType dtype : FixedSizeDTypes()) {
    if (dtype == DType::kBool) continue;
    SCOPED_TRACE(std::string(DTypeName(dtype)));
    const Tensor base = RandomTensor(dtype, TensorShape({90, 1000}), Values::kNoise, 1);
    Tensor tensor = *base.Clone();
    for (char& byte : tensor.mutable_bytes()) byte ^= static_cast<char>(random() % 10 == 0);
    const TensorView base_view = *TensorView(base).Flip({0});  // same elements elsewhere
    ASSERT_OK_AND_ASSIGN(const TensorView view, TensorView(tensor).Flip({0}));
    for (const PayloadLevel level : {PayloadLevel::kDefault, PayloadLevel::kHigh}) {
      PayloadWriteOptions options = Always(level);
      options.payload.base = MakeBaseLookup(base_view);
      options.num_threads = 2;
      PayloadSummary summary;
      const std::string payload = EncodeOrFail(view, options, &summary);
      ASSERT_TRUE(summary.header.is_delta);
      ASSERT_OK_AND_ASSIGN(const Tensor read, ReadWhole(payload, view.shape(), &base_view));
      EXPECT_EQ(ElementBytes(read), ElementBytes(view));

      const TensorSlice slice = *TensorSlice::Parse("3,50:500,100");
      ASSERT_OK_AND_ASSIGN(PayloadReader reader, PayloadReader::Open(payload, {}));
      ASSERT_OK_AND_ASSIGN(const Tensor dense_base, base_view.ToTensor());
      ASSERT_OK(reader.SetBase(dense_base));
      TensorView out = *Tensor::Create(dtype, TensorShape({50, 100}));
      ASSERT_OK(reader.ReadSliceInto(view.shape(), slice, &out));
      EXPECT_EQ(ElementBytes(out), ElementBytes(*view.Slice(slice)));
    }
  }
}

TEST(PayloadReader, WantsTheRightBase) {
  const Tensor base = RandomTensor(DType::kFloat32, TensorShape({50'000}), Values::kNoise, 1);
  const TensorView base_view = base;
  PayloadWriteOptions options = Always();
  options.payload.base = MakeBaseLookup(base_view);
  const std::string payload = EncodeOrFail(base, options);
  ASSERT_OK_AND_ASSIGN(PayloadReader reader, PayloadReader::Open(payload, {}));
  TensorView out = *Tensor::Create(DType::kFloat32, base.shape());
  const auto wants_base = StatusIs(Code::kFailedPrecondition, HasSubstr(HashElements(base)->ToString()));
  EXPECT_THAT(reader.ReadInto(&out), wants_base);
  EXPECT_THAT(reader.ReadRange(0, {}), wants_base);
  EXPECT_OK(reader.Verify([](const absl::Status& damage) { FAIL() << damage; }));

  Tensor other = *base.Clone();
  other.mutable_bytes()[199'999] ^= 1;
  EXPECT_THAT(reader.SetBase(other), wants_base);
  EXPECT_THAT(reader.SetBase(*Tensor::Zeros(DType::kFloat32, TensorShape({49'999}))),
              StatusIs(Code::kFailedPrecondition, HasSubstr("50000 elements of dtype float32")));
  EXPECT_THAT(reader.SetBase(*Tensor::Zeros(DType::kInt32, TensorShape({50'000}))),
              StatusIs(Code::kFailedPrecondition, HasSubstr("it must have")));
  EXPECT_THAT(reader.ReadInto(&out), wants_base);
  EXPECT_OK(reader.SetBase(base));
  EXPECT_OK(reader.ReadInto(&out));
  EXPECT_EQ(ElementBytes(out), ElementBytes(base));

  const std::string plain = EncodeOrFail(base, Always());
  ASSERT_OK_AND_ASSIGN(PayloadReader not_delta, PayloadReader::Open(plain, {}));
  EXPECT_THAT(not_delta.SetBase(base), StatusIs(Code::kFailedPrecondition, HasSubstr("not a delta")));
}

TEST(PayloadReader, IgnoresTheLevelOfTheWriter) {
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({5000}), Values::kWeights, 1);
  const std::string payload = EncodeOrFail(tensor, Always());
  for (const char level : {'\0', '\2', '\3', '\xff'}) {
    const std::string other = testing::WithHeaderBytes(payload, 11, absl::string_view(&level, 1));
    ASSERT_OK_AND_ASSIGN(const Tensor read, ReadWhole(other, tensor.shape()));
    EXPECT_EQ(ElementBytes(read), ElementBytes(tensor));
  }
}

}  // namespace
}  // namespace tensorcask
