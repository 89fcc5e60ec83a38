// npz files without their directory: NpyReaderOptions::recover_members finds each array that is whole.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/zip/zip_writer.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/npy/npy_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Npy;
using testing::StatusIs;
using Code = absl::StatusCode;

struct Member {
  std::string name;
  std::string data;
  int level = 0;
  bool streamed = false;  // sizes and CRC-32 are after the data
};

// An archive, and where each of its members ends.
std::string Zip(const std::vector<Member>& members, std::vector<size_t>* ends = nullptr) {
  std::string bytes;
  StringSink sink(&bytes);
  ZipWriter writer(&sink);
  for (const Member& member : members) {
    ZipMemberOptions options;
    options.size_bytes = member.data.size();
    options.deflate_level = member.level;
    if (!member.streamed) options.crc32 = Crc32(member.data);
    EXPECT_OK(writer.BeginMember(member.name, options));
    EXPECT_OK(writer.Append(member.data));
    EXPECT_OK(writer.EndMember());
    if (ends != nullptr) ends->push_back(bytes.size());
  }
  EXPECT_OK(writer.Finish());
  return bytes;
}

// `bytes` must outlive the reader.
absl::StatusOr<NpzReader> Recover(const std::string& bytes) {
  NpyReaderOptions options;
  options.recover_members = true;
  return NpzReader::Open(MakeMemorySource("a.npz", bytes), options);
}

TEST(NpzRecovery, OfEveryCutReadsTheWholeArrays) {
  const Tensor a = Tensor::FromValues<float>({1, 2, 3});
  const Tensor b = Tensor::FromValues<int16_t>({4, 5});
  const Tensor c = Tensor::FromValues<double>({6});
  std::vector<size_t> ends;
  const std::string bytes =
      Zip({{"a.npy", Npy(a)}, {"b.npy", Npy(b), 6, true}, {"c.npy", Npy(c), 0, true}, {"d.npy", Npy(a), 6}}, &ends);
  const std::vector<Tensor> tensors = {a, b, c, a};
  for (size_t length = 0; length < bytes.size(); ++length) {
    SCOPED_TRACE(length);
    const std::string cut = bytes.substr(0, length);
    EXPECT_FALSE(NpzReader::Open(MakeMemorySource("a.npz", cut)).ok());
    const absl::StatusOr<NpzReader> reader = Recover(cut);
    size_t whole = 0;
    while (whole < ends.size() && ends[whole] <= length) ++whole;
    if (!reader.ok()) {
      EXPECT_EQ(whole, 0u) << reader.status();
      EXPECT_THAT(reader.status(), StatusIs(Code::kDataLoss, HasSubstr("a.npz: ")));
      continue;
    }
    for (size_t i = 0; i < whole; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      ASSERT_OK_AND_ASSIGN(const Tensor read, reader->Read(name));
      EXPECT_TRUE(Equal(read, tensors[i]));
      EXPECT_OK(reader->Verify(name));
    }
    ASSERT_LE(reader->entries().size(), whole + 1);
    int of_directory = 0;
    int of_arrays = 0;
    EXPECT_OK(reader->VerifyAll([&](const NpyDamage& damage) {
      EXPECT_THAT(damage.status, StatusIs(Code::kDataLoss, HasSubstr("a.npz: ")));
      ++(damage.is_tensor ? of_arrays : of_directory);
    }));
    EXPECT_EQ(of_directory, 1);
    EXPECT_EQ(of_arrays, static_cast<int>(reader->entries().size() - whole));
  }
}

TEST(NpzRecovery, AWholeArchiveIsReadByItsDirectory) {
  const std::string bytes = Zip({{"a.npy", Npy(Tensor::Scalar<int32_t>(7))}});
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, Recover(bytes));
  int damages = 0;
  EXPECT_OK(reader.VerifyAll([&](const NpyDamage&) { ++damages; }));
  EXPECT_EQ(damages, 0);
}

TEST(NpzRecovery, SaysWhatIsLostAndWhy) {
  const std::string good =
      Zip({{"a.npy", Npy(Tensor::Scalar<int32_t>(7))}, {"b.npy", Npy(Tensor::Scalar<int32_t>(8))}});
  const std::string cut = good.substr(0, good.find("b.npy") + 40);
  EXPECT_THAT(NpzReader::Open(MakeMemorySource("a.npz", cut)).status(),
              StatusIs(Code::kDataLoss, AllOf(HasSubstr("no end record"), HasSubstr("; salvage saves the arrays"))));
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, Recover(cut));
  EXPECT_THAT(reader.Read("b"), StatusIs(Code::kDataLoss, HasSubstr("\"b\": is cut short: the file has")));
  std::vector<std::string> damages;
  EXPECT_OK(reader.VerifyAll([&](const NpyDamage& damage) { damages.emplace_back(damage.status.message()); }));
  EXPECT_THAT(damages, ElementsAre(HasSubstr("tensor \"b\""),
                                   AllOf(HasSubstr("no end record"), HasSubstr("by their headers up to offset"),
                                         HasSubstr("; the file ends in the data of member \"b.npy\""))));
}

// A directory lists one of two members of one name; without it the first counts, and the other one is damage.
TEST(NpzRecovery, OfTwoMembersOfOneTensorTheFirstCounts) {
  const std::string one = Npy(Tensor::Scalar<int32_t>(1));
  const std::string two = Npy(Tensor::Scalar<int32_t>(2));
  for (const char* name : {"a", "a.npy"}) {
    std::string bytes = Zip({{"a.npy", one}, {name[1] == '\0' ? "a" : "b.npy", two}, {"c.npy", two}});
    for (size_t at = bytes.find("b.npy"); at != std::string::npos; at = bytes.find("b.npy")) bytes[at] = 'a';
    bytes.resize(bytes.size() - 1);
    ASSERT_OK_AND_ASSIGN(const NpzReader reader, Recover(bytes));
    ASSERT_EQ(reader.entries().size(), 2u);
    ASSERT_OK_AND_ASSIGN(const Tensor a, reader.Read("a"));
    EXPECT_EQ(*a.data<int32_t>(), 1);
    EXPECT_OK(reader.Read("c"));
    std::vector<std::string> damages;
    EXPECT_OK(reader.VerifyAll([&](const NpyDamage& damage) { damages.emplace_back(damage.status.message()); }));
    EXPECT_THAT(damages, ElementsAre(HasSubstr("no end record"), HasSubstr("the name of a member before it")));
  }
}

TEST(NpzRecovery, AnArrayOfObjectsThatWasStreamedEndsTheSearch) {
  std::string objects = Npy(Tensor::Scalar<double>(1));
  objects.replace(objects.find("'<f8'"), 5, "'|O' ");
  const std::string one = Npy(Tensor::Scalar<int32_t>(1));
  std::string bytes = Zip({{"a.npy", one}, {"o.npy", objects, 0, true}, {"c.npy", one}});
  bytes.resize(bytes.size() - 1);
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, Recover(bytes));
  ASSERT_EQ(reader.entries().size(), 2u);
  EXPECT_OK(reader.Read("a"));
  EXPECT_THAT(reader.Read("o"), StatusIs(Code::kDataLoss, HasSubstr("its size is behind its data")));
}

TEST(NpzRecovery, ABombHidesNoOther) {
  const std::string zeros = Npy(*Tensor::Zeros(DType::kFloat32, TensorShape({int64_t{1} << 20})));
  std::string bytes = Zip({{"a.npy", Npy(Tensor::Scalar<int32_t>(1))}, {"bomb.npy", zeros, 9, true}});
  bytes.resize(bytes.size() - 1);
  NpyReaderOptions options;
  options.recover_members = true;
  options.limits.max_file_decoded_bytes = 1 << 20;
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(MakeMemorySource("a.npz", bytes), options));
  EXPECT_OK(reader.Read("a"));
  EXPECT_THAT(reader.Read("bomb"), StatusIs(Code::kResourceExhausted));
}

}  // namespace
}  // namespace tensorcask
