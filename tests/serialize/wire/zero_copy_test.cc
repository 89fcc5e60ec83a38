// Messages that refer to the elements where they are, and tensors that stay in the message.

#include "tensorcask/serialize/wire/zero_copy.h"

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tests/serialize/wire/message_pieces_testing.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::InChunks;
using ::tensorcask::testing::Joined;
using testing::Difference;
using testing::EncodeToString;
using ::testing::HasSubstr;
using testing::OwnDTypes;
using testing::PlainDTypes;
using testing::RandomShape;
using testing::RandomTensor;
using testing::StatusIs;
using Code = absl::StatusCode;

const EncodeOptions kPreserve = {Representation::kContent, false, StoredLayout::kPreserve};

TensorMetadata SomeMetadata() {
  TensorMetadata metadata;
  metadata.name = "w";
  metadata.attributes["key"] = std::string(1000, 'v');
  return metadata;
}

std::vector<DType> AllDTypes() {
  std::vector<DType> dtypes = PlainDTypes();
  for (const DType dtype : OwnDTypes()) dtypes.push_back(dtype);
  return dtypes;
}

class PiecesOfEveryDType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, PiecesOfEveryDType, ::testing::ValuesIn(AllDTypes()),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

TEST_P(PiecesOfEveryDType, GivesTheBytesOfEncodeTensorTo) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  for (int round = 0; round < 40; ++round) {
    const Tensor tensor = RandomTensor(GetParam(), RandomShape(&random), &random);
    const TensorView whole(tensor);
    const TensorView view = tensor.rank() >= 2 && round % 2 == 0 ? *whole.Transpose(0, 1) : whole;
    EncodeOptions options;
    options.representation = random() % 3 == 0 ? Representation::kValues : Representation::kContent;
    options.checksum = random() % 2 == 0;
    options.layout = random() % 2 == 0 ? StoredLayout::kRowMajor : StoredLayout::kPreserve;
    const TensorMetadata metadata = random() % 2 == 0 ? SomeMetadata() : TensorMetadata();
    SCOPED_TRACE(absl::StrCat(view.ToString(), options.checksum ? " with checksum" : ""));
    const std::string message = EncodeToString(view, metadata, options);
    ASSERT_OK_AND_ASSIGN(const MessagePieces pieces, EncodeTensorToPieces(view, metadata, options));
    EXPECT_EQ(Joined(pieces), message);
    ASSERT_OK_AND_ASSIGN(absl::Cord cord, EncodeTensorToCord(view, metadata, options));
    EXPECT_EQ(std::string(cord), message);
    for (const absl::Cord& part :
         {cord, absl::Cord(message), InChunks(message, 1), InChunks(message, 7), InChunks(message, 100)}) {
      ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, DecodeTensorFromCord(part));
      EXPECT_EQ(Difference(*decoded.view.ToTensor(), *view.ToTensor()), "");
      EXPECT_EQ(decoded.metadata, metadata);
    }
  }
}

const void* ElementsOf(const TensorView& view) {
  return static_cast<const char*>(view.buffer()->data()) + view.bounds().begin;
}

TEST(Pieces, ReferToTheElements) {
  const Tensor tensor = *Tensor::Zeros(DType::kFloat32, TensorShape({100, 50}));
  ASSERT_OK_AND_ASSIGN(const MessagePieces pieces, EncodeTensorToPieces(tensor, SomeMetadata(), {}));
  ASSERT_EQ(pieces.pieces.size(), 3);
  EXPECT_EQ(pieces.pieces[1].data(), tensor.bytes().data());
  EXPECT_EQ(pieces.pieces[1].size(), 20000);
  // A transposed one, too, if its order may stay; else it is gathered.
  const TensorView columns = *TensorView(tensor).Transpose(0, 1);
  ASSERT_OK_AND_ASSIGN(const MessagePieces kept, EncodeTensorToPieces(columns, {}, kPreserve));
  EXPECT_EQ(kept.pieces[1].data(), tensor.bytes().data());
  ASSERT_OK_AND_ASSIGN(const MessagePieces gathered, EncodeTensorToPieces(columns, {}, {}));
  EXPECT_NE(gathered.pieces[1].data(), tensor.bytes().data());
}

TEST(Cords, RoundTripStaysOnTheSameMemory) {
  const Tensor tensor = *Tensor::Zeros(DType::kFloat64, TensorShape({64, 64}));
  for (const TensorView& view :
       {TensorView(tensor), *TensorView(tensor).Transpose(0, 1), *TensorView(tensor).Flip({1})}) {
    SCOPED_TRACE(view.ToString());
    ASSERT_OK_AND_ASSIGN(const absl::Cord cord, EncodeTensorToCord(view, SomeMetadata(), kPreserve));
    ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, DecodeTensorFromCord(cord));
    EXPECT_EQ(ElementsOf(decoded.view), static_cast<const void*>(tensor.bytes().data()));
    EXPECT_EQ(decoded.view.strides(), view.strides());
  }
}

TEST(Cords, KeepTheMemoryAlive) {
  absl::Cord cord;
  bool released = false;
  {
    static float values[1000];
    for (int i = 0; i < 1000; ++i) values[i] = static_cast<float>(i);
    const Tensor tensor = *Tensor::FromExternal(DType::kFloat32, TensorShape({1000}), values, sizeof(values),
                                                [&released] { released = true; });
    cord = *EncodeTensorToCord(tensor, {}, {});
  }
  EXPECT_FALSE(released);
  TensorView view = DecodeTensorFromCord(cord)->view;
  cord.Clear();
  EXPECT_FALSE(released) << "the tensor made from the message is there";
  EXPECT_EQ(view.data<float>()[999], 999);
  view = TensorView();
  EXPECT_TRUE(released);
}

TEST(Cords, AWriteToTheTensorLeavesTheMessageAlone) {
  const Tensor tensor = Tensor::FromValues<int32_t>({1, 2, 3, 4, 5});
  ASSERT_OK_AND_ASSIGN(const absl::Cord cord, EncodeTensorToCord(tensor, {}, {}));
  const std::string before(cord);
  ASSERT_OK_AND_ASSIGN(DecodedTensor decoded, DecodeTensorFromCord(cord));
  decoded.view.mutable_data<int32_t>()[0] = 9;
  EXPECT_EQ(std::string(cord), before);
  EXPECT_EQ(tensor.flat<int32_t>()[0], 1);
  EXPECT_EQ(decoded.view.data<int32_t>()[0], 9);
}

// A chunk boundary inside the elements: one copy, into aligned memory, which the tensor then writes in place.
TEST(Cords, JoinsScatteredElements) {
  std::mt19937_64 random(5);
  const Tensor tensor = RandomTensor(DType::kInt64, TensorShape({300}), &random);
  ASSERT_OK_AND_ASSIGN(DecodedTensor decoded, DecodeTensorFromCord(InChunks(EncodeToString(tensor, {}), 1000)));
  EXPECT_EQ(Difference(*decoded.view.ToTensor(), tensor), "");
  const void* const before = decoded.view.buffer()->data();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(before) % Allocator::kAlignment, 0);
  decoded.view.mutable_data<int64_t>()[0] = 1;
  EXPECT_EQ(decoded.view.buffer()->data(), before);
}

// Aligned memory with a message at a chosen place.
class Placed {
 public:
  Placed(const std::string& message, size_t offset)
      : buffer_(*TensorBuffer::Allocate(message.size() + offset)), size_(message.size()), offset_(offset) {
    std::memcpy(static_cast<char*>(buffer_->mutable_data()) + offset, message.data(), message.size());
  }
  absl::string_view message() const { return buffer_->bytes().substr(offset_, size_); }
  const RefPtr<TensorBuffer>& owner() const { return buffer_; }

 private:
  RefPtr<TensorBuffer> buffer_;
  size_t size_;
  size_t offset_;
};

TEST(InPlace, AliasesWhatIsAligned) {
  std::mt19937_64 random(6);
  for (const DType dtype : AllDTypes()) {
    if (dtype == DType::kString) continue;
    const Tensor tensor = RandomTensor(dtype, TensorShape({40}), &random);
    const std::string message = EncodeToString(tensor, {});
    int aliased = 0;
    for (size_t offset = 0; offset < 16; ++offset) {
      const Placed placed(message, offset);
      ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, DecodeTensorInPlace(placed.message(), placed.owner()));
      EXPECT_EQ(Difference(*decoded.view.ToTensor(), tensor), "");
      const char* elements = static_cast<const char*>(ElementsOf(decoded.view));
      aliased += elements >= placed.message().data() && elements < placed.message().data() + placed.message().size();
    }
    const size_t alignment = IsComplex(dtype) ? ElementSize(dtype) / 2 : ElementSize(dtype);
    EXPECT_EQ(aliased, static_cast<int>(16 / alignment)) << DTypeName(dtype);
  }
}

TEST(InPlace, ChecksWhatItAliases) {
  const Tensor tensor = Tensor::FromValues<int32_t>({1, 2, 3, 4});
  const EncodeOptions checked = {Representation::kContent, true};
  std::string message = EncodeToString(tensor, {}, checked);
  EXPECT_OK(DecodeTensorFromCord(absl::Cord(message)));
  ASSERT_OK_AND_ASSIGN(const absl::Cord cord, EncodeTensorToCord(tensor, {}, checked));
  EXPECT_OK(DecodeTensorFromCord(cord));
  message[message.find("\x03\0\0\0", 0, 4)] ^= 1;
  for (size_t offset = 0; offset < 4; ++offset) {
    const Placed placed(message, offset);
    EXPECT_THAT(DecodeTensorInPlace(placed.message(), placed.owner()),
                StatusIs(Code::kDataLoss, HasSubstr("masked crc32c")));
  }
  EXPECT_THAT(DecodeTensorFromCord(InChunks(message, 9)), StatusIs(Code::kDataLoss, HasSubstr("masked crc32c")));
  // The checksum shows that an element that the message refers to was changed.
  Tensor changed = *Tensor::Zeros(DType::kInt32, TensorShape({1000}));  // a cord copies some hundred bytes at once
  ASSERT_OK_AND_ASSIGN(const absl::Cord stale, EncodeTensorToCord(changed, {}, checked));
  changed.mutable_flat<int32_t>()[0] = 7;
  EXPECT_THAT(DecodeTensorFromCord(stale), StatusIs(Code::kDataLoss, HasSubstr("masked crc32c")));
}

TEST(InPlace, BoolsAreChecked) {
  const std::string message = testing::VarintField(1, 10) + testing::ShapeField({3}) + testing::BytesField(4, "\1\2\1");
  EXPECT_THAT(DecodeTensorFromCord(InChunks(message, 4)),
              StatusIs(Code::kInvalidArgument, HasSubstr("tensor_content: byte 1 is 2")));
}

TEST(Pieces, RefuseWhatEncodeTensorRefuses) {
  const Tensor tensor = Tensor::FromValues<int32_t>({1});
  TensorMetadata metadata;
  metadata.requires_grad = true;
  EXPECT_THAT(EncodeTensorToCord(tensor, metadata, {}), StatusIs(Code::kInvalidArgument, HasSubstr("requires_grad")));
  EXPECT_THAT(EncodeTensorToPieces(tensor, metadata, {}), StatusIs(Code::kInvalidArgument, HasSubstr("requires_grad")));
}

// Every prefix and every one-byte change, in chunks of all sizes: what bytes in one piece give, and the same complaint.
TEST(Cords, HostileBytes) {
  const Tensor numbers = Tensor::FromValues<int16_t>({{1, -2}, {300, 4}});
  TensorMetadata metadata;
  metadata.attributes["k"] = "v";
  const std::string goldens[] = {
      EncodeToString(*TensorView(numbers).Transpose(0, 1), metadata,
                     {Representation::kContent, true, StoredLayout::kPreserve}),
      EncodeToString(numbers, metadata, {Representation::kValues, false}),
      EncodeToString(Tensor::FromValues<std::string>({"a", "bc"}), {}),
      testing::BytesField(4, "x") + EncodeToString(numbers, {}) + testing::VarintField(99, 1) + testing::Tag(98, 3) +
          testing::Tag(98, 4) + testing::Fixed32Field(97, 1) + testing::Fixed64Field(96, 1),
      testing::BytesField(4, "x") + EncodeToString(numbers, {}) + testing::Fixed64Field(96, 1),
  };
  DecodeOptions options;
  options.limits.max_memory_beyond_input = 4096;
  const auto check = [&options](const std::string& message, size_t chunk_bytes) {
    const absl::StatusOr<DecodedTensor> wanted = DecodeSerializedTensorWithMetadata(message, options);
    const absl::StatusOr<DecodedTensor> found = DecodeTensorFromCord(InChunks(message, chunk_bytes), options);
    ASSERT_EQ(found.status(), wanted.status());
    if (!wanted.ok()) return;
    EXPECT_EQ(found->metadata, wanted->metadata);
    EXPECT_EQ(found->view.layout(), wanted->view.layout());
    EXPECT_EQ(Difference(*found->view.ToTensor(), *wanted->view.ToTensor()), "");
  };
  for (const std::string& golden : goldens) {
    for (size_t size = 0; size <= golden.size(); ++size) {
      for (size_t chunk_bytes = 1; chunk_bytes < 8; ++chunk_bytes) check(golden.substr(0, size), chunk_bytes);
    }
    for (size_t at = 0; at < golden.size(); ++at) {
      std::string message = golden;
      for (int change = 1; change < 256; ++change) {
        message[at] = static_cast<char>(golden[at] ^ change);
        check(message, 1 + static_cast<size_t>(change) % 9);
        ASSERT_FALSE(HasFailure()) << "byte " << at << " ^ " << change;
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask
