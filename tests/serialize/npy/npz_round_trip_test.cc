// The same for npz: stored and deflated members, pieces, streams, reserved room.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/npy/array_format.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/npy/npy_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using testing::In;
using testing::kDTypes;
using testing::Named;
using testing::RandomShape;
using testing::RandomSlice;
using testing::RandomTensor;
using testing::StatusIs;
using testing::WriteNpz;
using Code = absl::StatusCode;

std::vector<Named> SomeTensors(std::mt19937* random) {
  std::vector<Named> tensors;
  for (const DType dtype : kDTypes) {
    tensors.push_back({absl::StrCat("layer/", DTypeName(dtype)),
                       RandomTensor(dtype, RandomShape(static_cast<int>((*random)() % 5), random), random)});
  }
  tensors.push_back({"", Tensor::Scalar(1.5f)});
  tensors.push_back({"\xce\xb1\xce\xb2", *Tensor::FromSpan<std::string>(TensorShape({2}), {"x", "yz"})});
  tensors.push_back({"../up", Tensor::Scalar<int64_t>(-1)});
  tensors.push_back({"a.npy", Tensor::FromValues<uint8_t>({1, 2})});
  tensors.push_back({"zeros", *Tensor::Zeros(DType::kFloat32, TensorShape({300, 1000}))});
  return tensors;
}

TEST(NpzRoundTrip, StoredAndDeflated) {
  std::mt19937 random(3);
  const std::vector<Named> tensors = SomeTensors(&random);
  for (const int level : {0, 1, 9}) {
    for (const uint32_t alignment : {64, 4096}) {
      SCOPED_TRACE(absl::StrCat(level, " ", alignment));
      MemoryFileSystem files;
      NpzWriterOptions options;
      options.deflate_level = level;
      options.format.alignment = alignment;
      ASSERT_OK(WriteNpz(&files, tensors, options));
      const std::string first = *files.Find("a.npz");
      options.overwrite = true;
      ASSERT_OK(WriteNpz(&files, tensors, options));
      EXPECT_EQ(first, *files.Find("a.npz")) << "bytes depend on something else than the input";
      ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("a.npz", In(&files)));
      ASSERT_EQ(reader.entries().size(), tensors.size());
      ASSERT_OK_AND_ASSIGN(const std::vector<NpyTensor> all, reader.ReadAll(2));
      for (size_t i = 0; i < tensors.size(); ++i) {
        const NpyEntry& entry = reader.entries()[i];
        EXPECT_EQ(entry.name, tensors[i].name);
        EXPECT_EQ(all[i].name, tensors[i].name);
        EXPECT_TRUE(Equal(all[i].tensor, tensors[i].tensor)) << entry.name;
        EXPECT_EQ(entry.deflated, level > 0);
        EXPECT_EQ(entry.data_offset % alignment, 0) << entry.name;
        ASSERT_OK_AND_ASSIGN(const TensorView mapped, reader.Map(entry.name));
        EXPECT_TRUE(Equal(mapped, tensors[i].tensor)) << entry.name;
        const bool is_mapped = mapped.buffer() != nullptr && mapped.buffer()->kind() == TensorBuffer::Kind::kMapped;
        EXPECT_EQ(is_mapped, level == 0 && entry.dtype != DType::kString && mapped.num_elements() > 0) << entry.name;
        const TensorSlice slice = RandomSlice(entry.shape, &random);
        for (const bool verify_whole : {false, true}) {
          ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice(entry.name, slice, verify_whole));
          EXPECT_TRUE(Equal(part, *TensorView(tensors[i].tensor).Slice(slice)));
        }
      }
      int damages = 0;
      EXPECT_OK(reader.VerifyAll([&](const NpyDamage&) { ++damages; }));
      EXPECT_EQ(damages, 0);
    }
  }
}

TEST(NpzRoundTrip, InPieces) {
  std::mt19937 random(4);
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({5, 4, 3}), &random);
  for (const int level : {0, 6}) {
    MemoryFileSystem files;
    NpzWriterOptions options;
    options.file_system = &files;
    options.deflate_level = level;
    ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create("a.npz", options));
    const auto add = [&](const char* text) {
      const TensorSlice slice = *TensorSlice::Parse(text);
      return writer.AddSlice("w", tensor.shape(), slice, *TensorView(tensor).Slice(slice));
    };
    EXPECT_THAT(add("1,1:-:-"), StatusIs(Code::kInvalidArgument, HasSubstr("the next one is 0")));
    EXPECT_OK(add("0,2:-:-"));
    EXPECT_THAT(writer.Add("v", tensor), StatusIs(Code::kFailedPrecondition, HasSubstr("\"w\" are missing")));
    EXPECT_THAT(writer.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("\"w\" are missing")));
    EXPECT_OK(add("2,1:0,3:-"));
    EXPECT_THAT(add("2,2:3,1:-"), StatusIs(Code::kInvalidArgument, HasSubstr("not a run of elements")));
    EXPECT_OK(add("2,1:3,1:-"));
    EXPECT_OK(add("3,2:-:-"));
    EXPECT_OK(writer.Add("v", tensor));
    EXPECT_THAT(writer.Add("v", tensor), StatusIs(Code::kAlreadyExists, HasSubstr("\"v\"")));
    EXPECT_THAT(writer.Add(std::string("n\0", 2), tensor), StatusIs(Code::kInvalidArgument, HasSubstr("NUL")));
    ASSERT_OK(writer.Finish());
    EXPECT_THAT(writer.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("is finished")));
    ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("a.npz", In(&files)));
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read("w"));
    EXPECT_TRUE(Equal(read, tensor));
  }
}

TEST(NpzStream, GivesTheElementsInOrderAndVerifiesThemAtTheEnd) {
  std::mt19937 random(5);
  const Tensor numbers = RandomTensor(DType::kInt16, TensorShape({300, 1001}), &random);
  for (const int level : {0, 6}) {
    for (const bool big_endian : {false, true}) {
      SCOPED_TRACE(absl::StrCat(level, " ", big_endian));
      MemoryFileSystem files;
      NpzWriterOptions options;
      options.deflate_level = level;
      options.format.big_endian = big_endian;
      ASSERT_OK(WriteNpz(&files, {{"a", numbers}}, options));
      ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("a.npz", In(&files)));
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ElementStream> stream, reader.OpenStream("a"));
      std::string all(numbers.bytes().size(), '\0');
      EXPECT_THAT(stream->Read(absl::MakeSpan(&all[0], 3)),
                  StatusIs(Code::kInvalidArgument, HasSubstr("\"a\": 3 bytes")));
      for (size_t done = 0; done < all.size();) {
        const size_t bytes = std::min<size_t>(all.size() - done, 2 + done * 3 / 4 * 2);
        ASSERT_OK(stream->Read(absl::MakeSpan(&all[done], bytes)));
        done += bytes;
      }
      EXPECT_TRUE(all == numbers.bytes());
      EXPECT_THAT(stream->Read(absl::MakeSpan(&all[0], 2)), StatusIs(Code::kInvalidArgument, HasSubstr("at most 0")));
      EXPECT_OK(stream->Finish());
    }
  }
}

TEST(NpzStream, DamageIsAnErrorAtTheEndAtLatest) {
  std::mt19937 random(6);
  const Tensor numbers = RandomTensor(DType::kInt32, TensorShape({5000}), &random);
  for (const int level : {0, 6}) {
    MemoryFileSystem files;
    NpzWriterOptions options;
    options.deflate_level = level;
    ASSERT_OK(WriteNpz(&files, {{"a", numbers}}, options));
    const std::string whole = *files.Find("a.npz");
    for (size_t at = 2000; at + 2000 < whole.size(); at += 997) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 4);
      ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(MakeMemorySource("a.npz", damaged)));
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ElementStream> stream, reader.OpenStream("a"));
      std::string all(numbers.bytes().size(), '\0');
      absl::Status status = stream->Read(absl::MakeSpan(&all[0], all.size()));
      if (status.ok()) status = stream->Finish();
      EXPECT_THAT(status, StatusIs(Code::kDataLoss, HasSubstr("a.npz: tensor \"a\""))) << level << " " << at;
    }
  }
}

TEST(NpzStream, RefusesWhatItCannotReadInOrder) {
  MemoryFileSystem files;
  NpzWriterOptions options;
  options.format.order = NpyOrder::kColumnMajor;
  ASSERT_OK(WriteNpz(&files,
                     {{"columns", *Tensor::Zeros(DType::kFloat32, TensorShape({2, 3}))},
                      {"text", *Tensor::FromSpan<std::string>(TensorShape({1}), {"x"})}},
                     options));
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("a.npz", In(&files)));
  for (const char* const name : {"columns", "text"}) {
    EXPECT_THAT(reader.OpenStream(name).status(), StatusIs(Code::kUnimplemented, HasSubstr("row-major order"))) << name;
  }
  EXPECT_THAT(reader.OpenStream("none").status(), StatusIs(Code::kNotFound));
}

// Remembers how much room files reserve.
class ReservationsFileSystem final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  IoResult Reserve(IoResult /*handle*/, uint64_t size_bytes) override {
    reserved.push_back(size_bytes);
    return 0;
  }

  std::vector<uint64_t> reserved;
};

// On a file system in memory, room that is reserved and not used takes as long as room that is used.
TEST(NpzWriter, ReservesWhatALargeMemberNeeds) {
  MemoryFileSystem memory;
  ReservationsFileSystem files(&memory);
  NpzWriterOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create("w.npz", options));
  const Tensor large = *Tensor::Zeros(DType::kInt8, TensorShape({40 << 20}));
  for (const char* const name : {"a", "b"}) ASSERT_OK(writer.Add(name, large));
  ASSERT_OK(writer.Finish());
  constexpr uint64_t kMargin = uint64_t{65} << 10;
  ASSERT_GE(files.reserved.size(), 2u);
  for (size_t i = 0; i < files.reserved.size(); ++i) {
    EXPECT_LE(files.reserved[i], std::min<uint64_t>(i + 1, 2) * large.bytes().size() + kMargin) << i;
  }
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("w.npz", In(&memory)));
  for (const char* const name : {"a", "b"}) EXPECT_TRUE(Equal(*reader.Read(name), large));
}

// The reader gives elements to the host. An allocator of a device is an error that says so.
TEST(NpzReader, RefusesAnAllocatorOfADevice) {
  MemoryFileSystem files;
  ASSERT_OK(WriteNpz(&files, {{"w", *Tensor::Zeros(DType::kFloat32, TensorShape({1000}))}}, {}));
  NpyReaderOptions options = In(&files);
  options.allocator = CachingAllocator::Make(SimulatedBackend::Create({}).value());
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("a.npz", options));
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kFailedPrecondition, HasSubstr("which the host cannot access")));
}

}  // namespace
}  // namespace tensorcask
