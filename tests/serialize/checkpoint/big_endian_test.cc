// Bundles of big-endian machines, made by hand.

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/payload_encoder.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/bundle_forge.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BundleForge;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

std::string Big(uint64_t value, int bytes) {
  std::string result;
  for (int i = bytes - 1; i >= 0; --i) result.push_back(static_cast<char>(value >> (8 * i)));
  return result;
}

absl::StatusOr<CheckpointReader> OpenBig(BundleForge bundle, MemoryFileSystem* files) {
  bundle.big_endian = true;
  bundle.Put(files);
  CheckpointReaderOptions options;
  options.read.file_system = files;
  return CheckpointReader::Open("/m", options);
}

void ExpectWhole(const CheckpointReader& reader, int64_t whole) {
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts,
                       reader.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_EQ(counts.whole, whole);
}

// What is in a payload has one order.
TEST(BigEndian, EncodedNumbersStayAsTheyAre) {
  Tensor numbers = *Tensor::Create(DType::kInt32, TensorShape({1000}));
  int32_t i = 0;
  for (int32_t& value : numbers.mutable_flat<int32_t>()) value = i++ % 300;
  std::string payload;
  StringSink sink(&payload);
  ASSERT_OK_AND_ASSIGN(const auto written, EncodePayload(numbers, {}, &sink));
  ASSERT_TRUE(written.has_value());
  BundleForge bundle;
  BundleEntryProto& entry = bundle.Add("w", 0, {1000}, payload);
  entry.mutable_extension()->set_dtype(3);
  entry.mutable_extension()->set_payload(payload.substr(0, kPayloadHeaderBytes));
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenBig(bundle, &files));
  ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read("w"));
  EXPECT_TRUE(SameTensor(read, numbers));
  ExpectWhole(reader, 1);
}

TEST(BigEndian, NumbersOfEverySize) {
  BundleForge bundle;
  bundle.Add("u8", 4, {3}, "\1\2\3");
  bundle.Add("bool", 10, {2}, std::string("\1\0", 2));
  bundle.Add("i16", 5, {2}, Big(1, 2) + Big(0xfffe, 2));
  bundle.Add("f32", 1, {2}, Big(0x3f800000, 4) + Big(0xc0000000, 4));
  bundle.Add("i64", 9, {1}, Big(0x0102030405060708, 8));
  bundle.Add("c64", 8, {1}, Big(0x3f800000, 4) + Big(0x40000000, 4));
  bundle.Add("c128", 18, {1}, Big(0x3ff0000000000000, 8) + Big(0x4000000000000000, 8));
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenBig(bundle, &files));
  const std::vector<std::pair<std::string, Tensor>> kWanted = {
      {"u8", Tensor::FromValues<uint8_t>({1, 2, 3})},
      {"bool", Tensor::FromValues<bool>({true, false})},
      {"i16", Tensor::FromValues<int16_t>({1, -2})},
      {"f32", Tensor::FromValues<float>({1, -2})},
      {"i64", Tensor::FromValues<int64_t>({0x0102030405060708})},
      {"c64", *Tensor::FromSpan<std::complex<float>>(TensorShape({1}), {{1, 2}})},
      {"c128", *Tensor::FromSpan<std::complex<double>>(TensorShape({1}), {{1, 2}})},
  };
  for (const auto& [name, wanted] : kWanted) {
    SCOPED_TRACE(name);
    for (int i = 0; i < 2; ++i) {  // verified, and then not again
      ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(name));
      EXPECT_TRUE(SameTensor(read, wanted));
      ASSERT_OK_AND_ASSIGN(const Tensor mapped, reader.Map(name));
      EXPECT_TRUE(SameTensor(mapped, wanted));
    }
  }
  ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("f32", *TensorSlice::Parse("1,1")));
  EXPECT_TRUE(SameTensor(part, Tensor::FromValues<float>({-2})));
  ASSERT_OK_AND_ASSIGN(Tensor strided, Tensor::Zeros(DType::kFloat32, TensorShape({4})));
  ASSERT_OK_AND_ASSIGN(TensorView target, TensorView(strided).Slice(0, std::nullopt, std::nullopt, 2));
  ASSERT_OK(reader.ReadInto("f32", &target));
  EXPECT_TRUE(SameTensor(strided, Tensor::FromValues<float>({1, 0, -2, 0})));
  ExpectWhole(reader, 7);
}

// The lengths and their checksum are numbers of the machine that wrote them; the varints are not.
std::string StoredStrings(const std::vector<std::string>& values, uint32_t* crc) {
  std::string lengths;
  std::string characters;
  *crc = 0;
  for (const std::string& value : values) {
    lengths.push_back(static_cast<char>(value.size()));
    *crc = ExtendCrc32c(*crc, Big(value.size(), 4));
    characters += value;
  }
  const std::string checksum = Big(MaskCrc32c(*crc), 4);
  *crc = ExtendCrc32c(*crc, checksum + characters);
  return lengths + checksum + characters;
}

TEST(BigEndian, Strings) {
  uint32_t crc = 0;
  BundleForge bundle;
  bundle.Add("s", 7, {3}, StoredStrings({"ab", "", "cde"}, &crc)).set_crc32c(MaskCrc32c(crc));
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenBig(bundle, &files));
  ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read("s"));
  EXPECT_TRUE(SameTensor(read, Tensor::FromValues<std::string>({"ab", "", "cde"})));
  ExpectWhole(reader, 1);
  bundle.Put(&files);  // the same bytes, called little-endian
  CheckpointReaderOptions options;
  options.read.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader little, CheckpointReader::Open("/m", options));
  EXPECT_THAT(little.Read("s"), StatusIs(Code::kDataLoss, HasSubstr("the checksum of its lengths is")));
}

TEST(BigEndian, ChecksumIsThatOfTheStoredBytes) {
  BundleForge bundle;
  bundle.Add("f32", 1, {2}, Big(0x3f800000, 4) + Big(0xc0000000, 4));
  bundle.data[3] = '\1';
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenBig(bundle, &files));
  EXPECT_THAT(reader.Read("f32"), StatusIs(Code::kDataLoss, HasSubstr("its checksum is")));
}

TEST(BigEndian, VariantsAreRefused) {
  BundleForge bundle;
  bundle.Add("v", 21, {}, std::string(8, '\0'));
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenBig(bundle, &files));
  EXPECT_THAT(reader.Read("v"), StatusIs(Code::kUnimplemented, HasSubstr("big-endian")));
}

TEST(BigEndian, Slices) {
  BundleForge bundle;
  bundle.AddSliced("t", 5, {2}, {"0,1", "1,1"});
  bundle.AddPiece("t", "0,1", 5, {1}, Big(258, 2));
  bundle.AddPiece("t", "1,1", 5, {1}, Big(3, 2));
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenBig(bundle, &files));
  ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read("t"));
  EXPECT_TRUE(SameTensor(read, Tensor::FromValues<int16_t>({258, 3})));
}

}  // namespace
}  // namespace tensorcask
