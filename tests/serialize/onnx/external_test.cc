// Elements in side files: what is opened, and what is refused.

#include <sys/stat.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/onnx/internal/external_data.h"
#include "tensorcask/serialize/onnx/onnx_reader.h"
#include "tensorcask/tensor/base/sha1.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/onnx/onnx_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using Code = absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ModelOf(const std::string& entries, const std::string& name = "w") {
  return Initializer(ExternalTensor(2, {4}, entries, name));
}

// The element bytes of "w", or the error.
std::string ReadW(const std::string& path, const OnnxReaderOptions& options = {}) {
  const absl::StatusOr<OnnxReader> reader = OnnxReader::Open(path, options);
  if (!reader.ok()) return reader.status().ToString();
  EXPECT_NE(reader->FindEntry("w"), nullptr);
  const absl::StatusOr<Tensor> tensor = reader->Read("w");
  return tensor.ok() ? std::string(tensor->bytes()) : tensor.status().ToString();
}

TEST(OnnxSideFiles, GiveTheirElements) {
  const TempFolder folder;
  folder.Write("m.bin", "0123456789");
  std::filesystem::create_directory(folder.Path("parts"));
  folder.Write("parts/a..b.bin", "abcd");
  const std::string path =
      folder.Write("m.onnx", Model(ModelOf(Entry("location", "m.bin") + Entry("offset", "3") + Entry("length", "4")) +
                                   ModelOf(Entry("location", "./parts/../parts//a..b.bin"), "v") +
                                   ModelOf(Entry("location", "m.bin") + Entry("basepath", "/anything"), "u")));
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::Open(path));
  EXPECT_THAT(reader.side_files(), ElementsAre(folder.Path("m.bin"), folder.Path("parts/a..b.bin")));
  EXPECT_EQ(reader.FindEntry("w")->side_file, folder.Path("m.bin"));
  EXPECT_EQ(reader.FindEntry("w")->offset, 3u);
  ASSERT_OK_AND_ASSIGN(const Tensor w, reader.Read("w"));
  EXPECT_EQ(w.bytes(), "3456");
  ASSERT_OK_AND_ASSIGN(const Tensor v, reader.Map("v"));
  EXPECT_EQ(v.bytes(), "abcd");
  ASSERT_OK_AND_ASSIGN(const Tensor u, reader.Read("u"));
  EXPECT_EQ(u.bytes(), "0123");
  ASSERT_OK_AND_ASSIGN(const OnnxCounts counts,
                       reader.VerifyAll([](const OnnxDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_EQ(counts.without_checksum, 3);
}

TEST(OnnxSideFiles, HideOnlyTheirOwnTensorsWhenTheyAreMissing) {
  const TempFolder folder;
  folder.Write("there.bin", "0123");
  const std::string path = folder.Write(
      "m.onnx", Model(ModelOf(Entry("location", "gone.bin")) + ModelOf(Entry("location", "there.bin"), "v") +
                      ModelOf(Entry("location", "there.bin") + Entry("offset", "1"), "past")));
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::Open(path));
  EXPECT_EQ(reader.entries().size(), 3u);
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kNotFound, HasSubstr(folder.Path("gone.bin"))));
  EXPECT_THAT(reader.Read("past"), StatusIs(Code::kDataLoss, HasSubstr("past the end of the side file (4 bytes)")));
  ASSERT_OK_AND_ASSIGN(const Tensor v, reader.Read("v"));
  EXPECT_EQ(v.bytes(), "0123");
  std::vector<std::string> damages;
  ASSERT_OK_AND_ASSIGN(const OnnxCounts counts, reader.VerifyAll([&](const OnnxDamage& damage) {
    damages.push_back(absl::StrCat(damage.is_of_file ? "file: " : "tensor: ", damage.status.message()));
  }));
  EXPECT_EQ(counts.lost, 1);
  EXPECT_EQ(counts.without_checksum, 1);
  EXPECT_THAT(damages, ElementsAre(HasSubstr("gone.bin"), HasSubstr("past the end")));
  // Opened when first needed: a file that comes later is read.
  folder.Write("gone.bin", "wxyz");
  ASSERT_OK_AND_ASSIGN(const Tensor w, reader.Read("w"));
  EXPECT_EQ(w.bytes(), "wxyz");
}

TEST(OnnxSideFiles, AreComparedWithTheirChecksum) {
  const TempFolder folder;
  folder.Write("m.bin", "0123456789");
  const auto model = [](const std::string& sha1) {
    return Model(ModelOf(Entry("location", "m.bin") + Entry("checksum", sha1)));
  };
  const std::string good = folder.Write("good.onnx", model("87ACEC17CD9DCD20A716CC2CF67417B71C8A7016"));
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::Open(good));
  ASSERT_OK_AND_ASSIGN(const OnnxCounts counts,
                       reader.VerifyAll([](const OnnxDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_EQ(counts.verified, 1);
  const std::string bad = folder.Write("bad.onnx", model(std::string(40, 'a')));
  ASSERT_OK_AND_ASSIGN(const OnnxReader other, OnnxReader::Open(bad));
  std::vector<std::string> damages;
  ASSERT_OK_AND_ASSIGN(const OnnxCounts bad_counts, other.VerifyAll([&](const OnnxDamage& damage) {
    damages.push_back(std::string(damage.status.message()));
  }));
  EXPECT_EQ(bad_counts.verified, 0);
  EXPECT_THAT(damages, ElementsAre(HasSubstr("the SHA-1 of the side file is 87acec17")));
}

TEST(OnnxSideFiles, WithBadIndicesOfASparseTensorAreOneDamage) {
  const TempFolder folder;
  const std::string indices = LittleEndian(5, 8) + LittleEndian(5, 8);
  folder.Write("i.bin", indices);
  Sha1 hash;
  hash.Update(indices);
  const auto model = [](const std::string& sha1) {
    return Model(Sub(15, Sub(1, RawTensor(2, {2}, "ab", "s")) +
                             Sub(2, ExternalTensor(7, {2}, Entry("location", "i.bin") + Entry("checksum", sha1), "i")) +
                             Packed(3, {3, 4})));
  };
  for (const auto& [sha1, says] : std::vector<std::pair<std::string, std::string>>{
           {hash.Finish(), "index 1 is not larger"}, {std::string(40, 'a'), "the SHA-1 of the side file is"}}) {
    ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::Open(folder.Write("m.onnx", model(sha1))));
    std::vector<std::string> damages;
    ASSERT_OK_AND_ASSIGN(const OnnxCounts counts, reader.VerifyAll([&](const OnnxDamage& damage) {
      damages.push_back(std::string(damage.status.message()));
    }));
    EXPECT_THAT(damages, ElementsAre(HasSubstr(says)));
    EXPECT_EQ(counts.verified, 0);
    EXPECT_EQ(counts.without_checksum, 1);  // the values
  }
}

// A cache as that of Hugging Face's Hub: files have the names of their content, and snapshots are links to them.
TEST(OnnxSideFiles, MayBeLinksAsInTheCacheOfTheHub) {
  const TempFolder folder;
  for (const char* name : {"blobs", "snapshots", "snapshots/1", "elsewhere"}) {
    std::filesystem::create_directory(folder.Path(name));
  }
  folder.Write("blobs/aaa", Model(ModelOf(Entry("location", "m.bin"))));
  folder.Write("blobs/bbb", "0123");
  folder.Write("elsewhere/ccc", "0123");
  const std::string model = folder.Path("snapshots/1/m.onnx");
  const std::string data = folder.Path("snapshots/1/m.bin");
  std::filesystem::create_symlink("../../blobs/aaa", model);
  std::filesystem::create_symlink("../../blobs/bbb", data);
  EXPECT_EQ(ReadW(model), "0123");
  OnnxReaderOptions strict;
  strict.follow_links = false;
  EXPECT_THAT(ReadW(model, strict), HasSubstr("a link"));

  const auto link_to = [&](const std::string& target) {
    std::filesystem::remove(data);
    std::filesystem::create_symlink(target, data);
    return ReadW(model);
  };
  EXPECT_EQ(link_to(folder.Path("blobs/bbb")), "0123");
  EXPECT_THAT(link_to("../../elsewhere/ccc"), HasSubstr("PERMISSION_DENIED"));
  EXPECT_THAT(link_to("/etc/passwd"), HasSubstr("PERMISSION_DENIED"));
  EXPECT_THAT(link_to("/proc/self/exe"), HasSubstr("PERMISSION_DENIED"));
  EXPECT_THAT(link_to("../../blobs"), HasSubstr("PERMISSION_DENIED"));
  EXPECT_THAT(link_to("../../blobs/gone"), HasSubstr("NOT_FOUND"));
  std::filesystem::create_symlink("bbb", folder.Path("blobs/second"));
  EXPECT_THAT(link_to("../../blobs/second"), HasSubstr("PERMISSION_DENIED"));
}

TEST(OnnxSideFiles, WithSeveralNamesAreReadWithANote) {
  const TempFolder folder;
  folder.Write("m.bin", "0123");
  std::filesystem::create_hard_link(folder.Path("m.bin"), folder.Path("other.bin"));
  const std::string path = folder.Write("m.onnx", Model(ModelOf(Entry("location", "m.bin"))));
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::Open(path));
  EXPECT_THAT(reader.notes(), IsEmpty());
  EXPECT_OK(reader.Read("w").status());
  EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("m.bin: this file has other names")));
}

// A model may have more side files than a process may open.
TEST(OnnxSideFiles, AreOpenAFewAtATime) {
  const TempFolder folder;
  std::string graph;
  for (int i = 0; i < 150; ++i) {
    const std::string name = absl::StrCat("f", i);
    folder.Write(name, absl::StrCat(1000 + i));
    graph += ModelOf(Entry("location", name), name);
  }
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::Open(folder.Write("m.onnx", Model(graph))));
  const auto num_open = [] {
    using Files = std::filesystem::directory_iterator;
    return std::distance(Files("/proc/self/fd"), Files());
  };
  const auto before = num_open();
  ASSERT_OK_AND_ASSIGN(const OnnxCounts counts,
                       reader.VerifyAll([](const OnnxDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_EQ(counts.without_checksum, 150);
  for (int i = 0; i < 150; ++i) EXPECT_EQ(reader.Read(absl::StrCat("f", i))->bytes(), absl::StrCat(1000 + i));
  EXPECT_LE(num_open(), before + 70);
}

TEST(OnnxSideFiles, AreRegularFilesOnly) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.Path("d"));
  ASSERT_EQ(mkfifo(folder.Path("pipe").c_str(), 0600), 0);
  const auto read = [&](const std::string& location) {
    return ReadW(folder.Write("m.onnx", Model(ModelOf(Entry("location", location)))));
  };
  EXPECT_THAT(read("d"), HasSubstr("is a folder"));
  EXPECT_THAT(read("pipe"), HasSubstr("not a regular file"));
  folder.Write("d/x", "0123");
  std::filesystem::create_directory_symlink("d", folder.Path("linked"));
  EXPECT_THAT(read("linked/x"), HasSubstr("PERMISSION_DENIED"));
  EXPECT_EQ(read("d/x"), "0123");
}

TEST(OnnxSideFiles, AreNotOpenedWithoutAFolder) {
  const std::string bytes = Model(ModelOf(Entry("location", "m.bin")));
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::OpenSource(MakeMemorySource("m", bytes)));
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kFailedPrecondition, HasSubstr("folder")));
}

struct RefusedCase {
  const char* name;
  std::string entries;
  const char* says;
};

class OnnxExternalDataRefuses : public ::testing::TestWithParam<RefusedCase> {};

TEST_P(OnnxExternalDataRefuses, ForThatTensorAlone) {
  const std::string bytes = Model(ModelOf(GetParam().entries) + Initializer(RawTensor(2, {4}, "0123", "good")));
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::OpenSource(MakeMemorySource("m", bytes)));
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kDataLoss, HasSubstr(GetParam().says)));
  EXPECT_THAT(reader.side_files(), IsEmpty());
  EXPECT_OK(reader.Read("good").status());
  int damages = 0;
  ASSERT_OK_AND_ASSIGN(const OnnxCounts counts, reader.VerifyAll([&](const OnnxDamage&) { ++damages; }));
  EXPECT_EQ(damages, 1);
  EXPECT_EQ(counts.without_checksum, 1);
}

std::string At(const std::string& location) { return Entry("location", location); }
std::string AtX(const std::string& key, const std::string& value) { return At("x") + Entry(key, value); }

const RefusedCase kRefused[] = {
    {"NoLocation", Entry("offset", "0"), "no location"},
    {"EmptyLocation", At(""), "refused"},
    {"Absolute", At("/etc/passwd"), "absolute"},
    {"Leaves", At("../x"), "leaves the folder"},
    {"LeavesLater", At("a/../../x"), "leaves the folder"},
    {"Folder", At("a/"), "is that of a folder"},
    {"Dot", At("."), "is that of a folder"},
    {"Nul", At(std::string("x\0.bin", 6)), "NUL"},
    {"Hash", At("#memory"), "memory of the program"},
    {"Address", At("*/_ORT_MEM_ADDR_/*"), "memory of onnxruntime"},
    {"HashBehindDots", At("a/../#x"), "marks memory of the program"},
    {"DriveBehindDots", At("a/../C:x"), "without drive or scheme"},
    {"Drive", At("C:x"), "drive or scheme"},
    {"Scheme", At("http://host/x"), "drive or scheme"},
    {"FileScheme", At("file:x"), "drive or scheme"},
    {"Backslash", At("..\\x"), "'/' between folders"},
    {"Escape", At("x\x1b[2J"), "printable"},
    {"NotUtf8", At("x\xff"), "printable"},
    {"TooLong", At(std::string(5000, 'x')), "has a text of 5000 bytes; wanted at most 4096"},
    {"OffsetTooLong", AtX("offset", std::string(4096, '0') + "4"), "has a text of 4097 bytes"},
    {"LongStep", At(std::string(300, 'x')), "refused"},
    {"UnknownKey", AtX("sha256", "0"), "key \"sha256\""},
    {"TwoKeys", AtX("location", "y"), "it once"},
    {"ManyEntries", At("x") + At("x") + At("x") + At("x") + At("x") + At("x"), "6 entries"},
    {"OffsetEmpty", AtX("offset", ""), "decimal digits"},
    {"OffsetBlank", AtX("offset", " 1"), "decimal digits"},
    {"OffsetPlus", AtX("offset", "+1"), "decimal digits"},
    {"OffsetMinus", AtX("offset", "-1"), "decimal digits"},
    {"OffsetUnderscore", AtX("offset", "1_0"), "decimal digits"},
    {"OffsetHex", AtX("offset", "0x10"), "decimal digits"},
    {"OffsetTooLarge", AtX("offset", "18446744073709551616"), "decimal digits"},
    {"LengthOther", AtX("length", "5"), "has the length 5; UINT8 [4] needs 4"},
    {"LengthNewline", AtX("length", "4\n"), "decimal digits"},
    {"Checksum", AtX("checksum", "abc"), "40 hexadecimal digits"},
};

INSTANTIATE_TEST_SUITE_P(Entries, OnnxExternalDataRefuses, ::testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensorcask
