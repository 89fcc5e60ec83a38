// The members of npz archives: their names, what is not an array, and how much they may expand.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/serialize/zip/zip_writer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/npy/npy_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::In;
using testing::Npy;
using testing::StatusIs;
using testing::WriteNpz;
using Code = absl::StatusCode;

// An archive of these members: name, data.
std::string Zip(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string bytes;
  StringSink sink(&bytes);
  ZipWriter writer(&sink);
  for (const auto& [name, data] : members) {
    ZipMemberOptions options;
    options.size_bytes = data.size();
    EXPECT_OK(writer.BeginMember(name, options));
    EXPECT_OK(writer.Append(data));
    EXPECT_OK(writer.EndMember());
  }
  EXPECT_OK(writer.Finish());
  return bytes;
}

// `bytes` must outlive the reader.
absl::StatusOr<NpzReader> Open(const std::string& bytes) { return NpzReader::Open(MakeMemorySource("a.npz", bytes)); }

// A name is a key of the caller and never becomes a path.
TEST(NpzNames, AreKeysWhateverTheyLookLike) {
  const std::vector<std::string> names = {
      "../x", "/etc/x", "C:\\x", "a\\..\\b", "a/../b", "..", ".", "", "\x1b[2J", "a\nb", std::string(60000, 'n')};
  std::vector<testing::Named> tensors;
  for (const std::string& name : names) tensors.push_back({name, Tensor::Scalar<int32_t>(7)});
  MemoryFileSystem files;
  ASSERT_OK(WriteNpz(&files, tensors, {}));
  EXPECT_THAT(files.Paths(), ElementsAre("a.npz"));
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("a.npz", In(&files)));
  ASSERT_EQ(reader.entries().size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(reader.entries()[i].name, names[i]);
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(names[i]));
    EXPECT_EQ(*read.data<int32_t>(), 7);
  }
  EXPECT_THAT(files.Paths(), ElementsAre("a.npz"));
}

// NumPy reads the last of two members that give one tensor its name.
TEST(NpzNames, TwoMembersOfOneTensorAreRefused) {
  const std::string one = Npy(Tensor::Scalar<int32_t>(1));
  const std::string two = Npy(Tensor::Scalar<int32_t>(2));
  EXPECT_THAT(Open(Zip({{"a.npy", one}, {"a", two}})).status(),
              StatusIs(Code::kDataLoss, HasSubstr("two tensors are named \"a\"")));
  EXPECT_THAT(Open(Zip({{"a", one}, {"a.npy", two}})).status(),
              StatusIs(Code::kDataLoss, HasSubstr("two tensors are named \"a\"")));
  std::string twice = Zip({{"a.npy", one}, {"b.npy", two}});
  for (size_t at = twice.find("b.npy"); at != std::string::npos; at = twice.find("b.npy")) twice[at] = 'a';
  EXPECT_THAT(Open(twice).status(), StatusIs(Code::kDataLoss, HasSubstr("\"a.npy\"")));
  ASSERT_OK_AND_ASSIGN(const NpzReader other, Open(Zip({{"a.npy", one}, {"a.npy.npy", two}})));
  EXPECT_EQ(other.entries()[1].name, "a.npy");
}

TEST(NpzMembers, FoldersAreIgnoredAndArchivesInsideAreNotOpened) {
  const std::string array = Npy(Tensor::Scalar<int32_t>(1));
  const std::string inner = Zip({{"inner.npy", array}});
  const std::string bytes = Zip({{"folder/", ""}, {"w.npy", array}, {"inner.npz", inner}, {"note.txt", "text"}});
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, Open(bytes));  // which reads them until it is gone
  ASSERT_EQ(reader.entries().size(), 1u);
  EXPECT_EQ(reader.entries()[0].name, "w");
  EXPECT_THAT(reader.other_members(), ElementsAre("inner.npz", "note.txt"));
  int damages = 0;
  EXPECT_OK(reader.VerifyAll([&](const NpyDamage&) { ++damages; }));
  EXPECT_EQ(damages, 0);
  const std::string misnamed = Zip({{"w.npy", inner}});
  ASSERT_OK_AND_ASSIGN(const NpzReader other, Open(misnamed));
  EXPECT_TRUE(other.entries().empty());
  EXPECT_THAT(other.other_members(), ElementsAre("w.npy"));
}

TEST(NpzMembers, DamageOfWhatIsNoArrayIsReported) {
  std::string bytes = Zip({{"w.npy", Npy(Tensor::Scalar<int32_t>(1))}, {"note.txt", "text"}});
  bytes[bytes.find("text")] = 'T';
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, Open(bytes));
  std::vector<NpyDamage> damages;
  EXPECT_OK(reader.VerifyAll([&](const NpyDamage& damage) { damages.push_back(damage); }));
  ASSERT_EQ(damages.size(), 1u);
  EXPECT_FALSE(damages[0].is_tensor);
  EXPECT_THAT(damages[0].status, StatusIs(Code::kDataLoss, HasSubstr("member \"note.txt\"")));
}

TEST(NpzMembers, VerifyAllChecksWhatReadingDoesNot) {
  std::string bytes = Zip({{"w.npy", Npy(Tensor::Scalar<int32_t>(0x01020304))}});
  bytes[bytes.find("\4\3\2\1")] = 5;
  NpyReaderOptions options;
  options.verify_checksums = false;
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(MakeMemorySource("a.npz", bytes), options));
  EXPECT_OK(reader.Read("w"));
  int damages = 0;
  EXPECT_OK(reader.VerifyAll([&](const NpyDamage& damage) { damages += damage.tensor == "w" ? 1 : 0; }));
  EXPECT_EQ(damages, 1);
}

// A symbolic link of Info-ZIP: the mode in the attributes says so, and the data are the path it leads to.
TEST(NpzMembers, ALinkIsRefused) {
  std::string bytes = Zip({{"w.npy", "/etc/passwd"}});
  const std::string entry_mark = "PK\x01\x02";
  constexpr size_t kModeOffset = 40;
  const size_t entry = bytes.find(entry_mark);
  ASSERT_NE(entry, std::string::npos);
  bytes[entry + kModeOffset] = '\xff';
  bytes[entry + kModeOffset + 1] = '\xa1';  // 0120777
  EXPECT_THAT(Open(bytes).status(), StatusIs(Code::kDataLoss, HasSubstr("symbolic link")));
}

// np.savez_compressed of zeros deflates to almost 1 / 1032, more than the default of max_expansion says.
TEST(NpzExpansion, TheDefaultAcceptsZerosAndACallerCanSetLess) {
  const Tensor zeros = *Tensor::Zeros(DType::kFloat32, TensorShape({int64_t{4} << 20}));
  MemoryFileSystem files;
  NpzWriterOptions write;
  write.deflate_level = 6;
  ASSERT_OK(WriteNpz(&files, {{"w", zeros}}, write));
  NpyReaderOptions options = In(&files);
  options.limits.max_memory_beyond_input = 0;
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("a.npz", options));
  const uint64_t ratio = zeros.bytes().size() / reader.entries()[0].stored_bytes;
  EXPECT_GT(ratio, 1000u);
  ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read("w"));
  EXPECT_TRUE(Equal(read, zeros));
  for (const int64_t limit : {int64_t{0}, int64_t{999}}) {
    options.limits.max_expansion = limit;
    ASSERT_OK_AND_ASSIGN(const NpzReader strict, NpzReader::Open("a.npz", options));
    EXPECT_THAT(strict.Read("w"), StatusIs(Code::kResourceExhausted, HasSubstr("max_expansion")));
  }
  options.limits.max_expansion = 1000;
  options.limits.max_file_decoded_bytes = static_cast<int64_t>(zeros.bytes().size()) - 1;
  ASSERT_OK_AND_ASSIGN(const NpzReader small, NpzReader::Open("a.npz", options));
  EXPECT_THAT(small.Read("w"), StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes")));
}

// Strings take more memory than their characters: the limit holds for that, too.
TEST(NpzExpansion, StringsCountAsTheyAreInMemory) {
  const Tensor strings = *Tensor::FromSpan<std::string>(TensorShape({100000}), std::vector<std::string>(100000, "x"));
  MemoryFileSystem files;
  NpzWriterOptions write;
  write.deflate_level = 9;
  ASSERT_OK(WriteNpz(&files, {{"s", strings}}, write));
  NpyReaderOptions options = In(&files);
  options.limits.max_memory_beyond_input = 0;
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("a.npz", options));
  EXPECT_THAT(reader.Read("s"), StatusIs(Code::kResourceExhausted, HasSubstr("max_expansion")));
}

// A member of which nothing is known but its name.
TEST(NpzDamage, ADamagedMemberIsRefusedByEveryCall) {
  std::string bytes = Zip({{"a.npy", Npy(Tensor::Scalar<int32_t>(1))}, {"b.npy", Npy(Tensor::Scalar<int32_t>(2))}});
  bytes[bytes.find("b.npy")] = 'c';  // in its own header
  EXPECT_THAT(Open(bytes).status(), StatusIs(Code::kDataLoss, HasSubstr("another name in its own header")));
  NpyReaderOptions options;
  options.list_damaged_members = true;
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(MakeMemorySource("a.npz", bytes), options));
  ASSERT_EQ(reader.entries().size(), 2);
  ASSERT_OK_AND_ASSIGN(const Tensor whole, reader.ReadSlice("a", TensorSlice::Full(0), /*verify_whole=*/true));
  EXPECT_EQ(*whole.data<int32_t>(), 1);
  Tensor out = Tensor::Scalar<int32_t>(0);
  TensorView view = out;
  for (const absl::Status& status :
       {reader.Read("b").status(), reader.ReadView("b").status(), reader.ReadInto("b", &out), reader.Map("b").status(),
        reader.ReadSlice("b", TensorSlice::Full(0), /*verify_whole=*/false).status(),
        reader.ReadSlice("b", TensorSlice::Full(0), /*verify_whole=*/true).status(),
        reader.ReadSliceInto("b", TensorSlice::Full(0), &view, /*verify_whole=*/true), reader.OpenStream("b").status(),
        reader.Verify("b")}) {
    EXPECT_THAT(status, StatusIs(Code::kDataLoss, HasSubstr("another name in its own header")));
  }
}

}  // namespace
}  // namespace tensorcask
