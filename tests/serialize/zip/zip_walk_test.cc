// The walk over the members of a zip archive without its directory: every cut, every form of a member, and every lie.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/zip/zip_directory.h"
#include "tensorcask/serialize/zip/zip_member.h"
#include "tensorcask/serialize/zip/zip_member_stream.h"
#include "tensorcask/serialize/zip/zip_walk.h"
#include "tensorcask/serialize/zip/zip_writer.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;

struct Content {
  std::string name;
  std::string data;
  int level = 0;
  bool with_crc = true;  // false: sizes and CRC-32 are in a data descriptor
};

std::string Zip(const std::vector<Content>& members, bool force_zip64 = false) {
  std::string bytes;
  StringSink sink(&bytes);
  ZipWriter writer(&sink, force_zip64);
  for (const Content& member : members) {
    ZipMemberOptions options;
    options.size_bytes = member.data.size();
    options.deflate_level = member.level;
    if (member.with_crc) options.crc32 = Crc32(member.data);
    EXPECT_OK(writer.BeginMember(member.name, options));
    EXPECT_OK(writer.Append(member.data));
    EXPECT_OK(writer.EndMember());
  }
  EXPECT_OK(writer.Finish());
  return bytes;
}

const std::vector<Content>& Some() {
  static const auto* const some = new std::vector<Content>{{"a", std::string(20, 'x'), 0, true},
                                                           {"b/c", "30:hello, this is 30 bytes....", 0, false},
                                                           {"\xc3\xa4", std::string(300, 'y'), 6, true},
                                                           {"../d", std::string(300, 'z'), 9, false},
                                                           {"", "", 0, true},
                                                           {"e", "", 1, false},
                                                           {"f", "", 0, false},
                                                           {"folder/", "", 0, true},
                                                           {"g", "PK\3\4", 0, true}};
  return *some;
}

// Data of the tests that begins "NN:" has NN bytes.
absl::StatusOr<ZipWalk> Walk(const ByteSource& file, const DecodeLimits& limits = {}) {
  return WalkZip(file, limits, [&](const ZipMember& rest) -> absl::StatusOr<uint64_t> {
    std::string start(std::min<uint64_t>(rest.size_bytes, 3), '\0');
    ZipMemberStream stream(&file, &rest, /*verify=*/false);
    if (absl::Status status = stream.Read(absl::MakeSpan(start)); !status.ok()) return status;
    if (start.size() < 3 || start[2] != ':') return absl::DataLossError("no size");
    return (start[0] - '0') * 10 + (start[1] - '0');
  });
}

absl::StatusOr<std::string> Read(const ByteSource& file, const ZipMember& member) {
  if (!member.status.ok()) return member.status;
  ZipMemberStream stream(&file, &member, /*verify=*/true);
  std::string data(member.size_bytes, '\0');
  if (absl::Status status = stream.Read(absl::MakeSpan(&data[0], data.size())); !status.ok()) return status;
  if (absl::Status status = stream.Finish(); !status.ok()) return status;
  return data;
}

// Whole members follow one another from the first byte on; the last one may be damaged.
void CheckExtents(const ZipWalk& walk, uint64_t file_bytes) {
  uint64_t end = 0;
  for (const ZipMember& member : walk.members) {
    ASSERT_GE(member.header_offset, end);
    if (!member.status.ok()) continue;
    ASSERT_GE(member.data_offset, member.header_offset + 30 + member.name.size());
    ASSERT_LE(member.data_offset, file_bytes);
    ASSERT_LE(member.stored_bytes, file_bytes - member.data_offset);
    end = member.data_offset + member.stored_bytes;
  }
  ASSERT_LE(walk.end, file_bytes);
}

TEST(ZipWalkTest, FindsWhatTheDirectoryLists) {
  for (const bool force_zip64 : {false, true}) {
    const std::string bytes = Zip(Some(), force_zip64);
    const auto file = MakeMemorySource("a.zip", bytes);
    ASSERT_OK_AND_ASSIGN(const std::vector<ZipMember> members, ReadZipDirectory(*file, {}));
    ASSERT_OK_AND_ASSIGN(const ZipWalk walk, Walk(*file));
    EXPECT_EQ(walk.reason, "");
    EXPECT_EQ(bytes.substr(walk.end, 4), "PK\1\2");
    ASSERT_EQ(walk.members.size(), members.size());
    for (size_t i = 0; i < members.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_OK(walk.members[i].status);
      EXPECT_EQ(walk.members[i].name, members[i].name);
      EXPECT_EQ(walk.members[i].header_offset, members[i].header_offset);
      EXPECT_EQ(walk.members[i].data_offset, members[i].data_offset);
      EXPECT_EQ(walk.members[i].stored_bytes, members[i].stored_bytes);
      EXPECT_EQ(walk.members[i].size_bytes, members[i].size_bytes);
      EXPECT_EQ(walk.members[i].crc32, members[i].crc32);
      EXPECT_EQ(*Read(*file, walk.members[i]), Some()[i].data);
    }
  }
}

TEST(ZipWalkTest, OfEveryCutFindsTheWholeMembers) {
  for (const bool force_zip64 : {false, true}) {
    const std::string bytes = Zip(Some(), force_zip64);
    ASSERT_OK_AND_ASSIGN(const std::vector<ZipMember> members, ReadZipDirectory(*MakeMemorySource("a.zip", bytes), {}));
    const size_t directory = bytes.find("PK\1\2");
    for (size_t length = 0; length <= bytes.size(); ++length) {
      SCOPED_TRACE(length);
      const std::string cut = bytes.substr(0, length);
      const auto file = MakeMemorySource("a.zip", cut);
      ASSERT_OK_AND_ASSIGN(const ZipWalk walk, Walk(*file));
      CheckExtents(walk, length);
      size_t whole = 0;
      for (size_t i = 0; i < members.size(); ++i) {
        const uint64_t end = i + 1 < members.size() ? members[i + 1].header_offset : directory;
        if (end > length) break;
        ++whole;
        ASSERT_GT(walk.members.size(), i);
        EXPECT_EQ(*Read(*file, walk.members[i]), Some()[i].data);
      }
      ASSERT_LE(walk.members.size(), whole + 1);
      if (walk.members.size() > whole) {
        EXPECT_EQ(walk.members.back().name, Some()[whole].name);
        // The first two thirds of a wide descriptor of no data are a narrow one.
        const bool is_empty = force_zip64 && Some()[whole].data.empty() && walk.members.back().status.ok();
        EXPECT_THAT(walk.members.back().status, StatusIs(is_empty ? Code::kOk : Code::kDataLoss));
      }
      EXPECT_EQ(walk.reason.empty(), length >= directory + 4);
    }
  }
}

// Another program's forms of the descriptor: without a signature, with sizes of 8 bytes although none is needed.
TEST(ZipWalkTest, DescriptorsOfAllForms) {
  for (const int level : {0, 6}) {
    const std::string data = absl::StrCat("99:", std::string(96, 'q'));
    const std::string good = Zip({{"a", data, level, false}, {"b", "end"}});
    const size_t signature = good.find("PK\7\10");
    ASSERT_NE(signature, std::string::npos);
    const std::string crc = good.substr(signature + 4, 4);
    const std::string stored = good.substr(signature + 8, 4);
    const std::string size = good.substr(signature + 12, 4);
    const std::string zeros(4, '\0');
    for (const bool has_signature : {true, false}) {
      for (const bool is_wide : {true, false}) {
        const std::string form =
            absl::StrCat(has_signature ? "PK\7\10" : "", crc, stored, is_wide ? zeros : "", size, is_wide ? zeros : "");
        const std::string bytes = absl::StrCat(good.substr(0, signature), form, good.substr(signature + 16));
        const auto file = MakeMemorySource("a.zip", bytes);
        ASSERT_OK_AND_ASSIGN(const ZipWalk walk, Walk(*file));
        ASSERT_EQ(walk.members.size(), 2u);
        EXPECT_EQ(*Read(*file, walk.members[0]), data);
        EXPECT_EQ(*Read(*file, walk.members[1]), "end");
      }
    }
  }
}

TEST(ZipWalkTest, AHeaderInsideDataIsData) {
  const std::string inner = Zip({{"inner", "secret"}});
  const std::string bytes = Zip({{"outer", inner}, {"b", "end"}});
  ASSERT_OK_AND_ASSIGN(const ZipWalk walk, Walk(*MakeMemorySource("a.zip", bytes.substr(0, bytes.size() - 22))));
  ASSERT_EQ(walk.members.size(), 2u);
  EXPECT_EQ(walk.members[0].name, "outer");
  EXPECT_EQ(walk.members[1].name, "b");
}

template <typename T>
void Set(std::string* bytes, size_t at, T value) {
  StoreLittleEndian(value, &(*bytes)[at]);
}

struct Lie {
  const char* name;
  std::function<void(std::string*)> tell;
  Code code;         // that of the first member
  const char* says;  // or the reason of the end
  size_t members;    // that are listed
};

TEST(ZipWalkTest, Lies) {
  const std::string good = Zip({{"a", std::string(90, 'x')}, {"b", std::string(90, 'y')}});
  const size_t second = good.find("PK\3\4", 1);
  const auto set16 = [](size_t at, uint16_t value) { return [=](std::string* bytes) { Set(bytes, at, value); }; };
  const auto set32 = [](size_t at, uint32_t value) { return [=](std::string* bytes) { Set(bytes, at, value); }; };
  const std::vector<Lie> lies = {
      {"NoHeader", set32(0, 7), Code::kOk, "no header of a member begins there", 0},
      {"NoSecondHeader", set32(second, 7), Code::kOk, "no header of a member begins there", 1},
      {"SizesPastTheEnd", [](std::string* b) { Set(b, 18, uint32_t{1} << 31), Set(b, 22, uint32_t{1} << 31); },
       Code::kDataLoss, "is cut short: the file has", 1},
      {"SizesOverTheNext", [](std::string* b) { Set(b, 18, uint32_t{120}), Set(b, 22, uint32_t{120}); }, Code::kOk,
       "no header of a member begins there", 1},
      {"TwoSizes", set32(22, 91), Code::kDataLoss, "is stored in 90 bytes and has 91", 2},
      {"Bomb", [](std::string* b) { Set(b, 8, uint16_t{8}), Set(b, 22, uint32_t{1} << 30); }, Code::kDataLoss,
       "cannot make more than 1032", 2},
      {"Zip64Missing", set32(22, 0xffffffff), Code::kDataLoss, "is not there", 1},
      {"LongName", set16(26, 60000), Code::kOk, "the header of a member is cut short", 0},
      {"LongExtra", set16(28, 60000), Code::kDataLoss, "its header is cut short", 1},
      {"Encrypted", set16(6, 1), Code::kUnimplemented, "is encrypted", 2},
      {"Method", set16(8, 12), Code::kUnimplemented, "method 12", 2},
      {"UnknownEnd", [](std::string* b) { Set(b, 6, uint16_t{8}), Set(b, 18, uint64_t{0}); }, Code::kDataLoss,
       "its size is behind its data", 1},
      {"NoDescriptor", set16(6, 8), Code::kDataLoss, "has no data descriptor", 1},
      {"EncryptedOfUnknownEnd", [](std::string* b) { Set(b, 6, uint16_t{9}), Set(b, 18, uint64_t{0}); },
       Code::kUnimplemented, "is encrypted", 1},
      {"NotDeflated", [](std::string* b) { Set(b, 6, uint16_t{8}), Set(b, 8, uint16_t{8}), Set(b, 18, uint64_t{0}); },
       Code::kDataLoss, "cannot be inflated", 1},
  };
  for (const Lie& lie : lies) {
    SCOPED_TRACE(lie.name);
    std::string bytes = good;
    lie.tell(&bytes);
    const auto file = MakeMemorySource("a.zip", bytes);
    ASSERT_OK_AND_ASSIGN(const ZipWalk walk, Walk(*file));
    CheckExtents(walk, bytes.size());
    EXPECT_EQ(walk.members.size(), lie.members);
    if (lie.code == Code::kOk) {
      EXPECT_THAT(walk.reason, HasSubstr(lie.says));
    } else {
      ASSERT_FALSE(walk.members.empty());
      EXPECT_THAT(walk.members[0].status, StatusIs(lie.code, HasSubstr(lie.says)));
      if (lie.members == 1) {
        EXPECT_NE(walk.reason, "");
      }
    }
    if (lie.members == 2) {
      EXPECT_EQ(*Read(*file, walk.members[1]), std::string(90, 'y'));
    }
  }
}

// A zip64 size near 2^64 must not wrap to a place in the file.
TEST(ZipWalkTest, SizesThatWrap) {
  const std::string good = Zip({{"a", "hello"}, {"b", "end"}}, /*force_zip64=*/true);
  const size_t size = 30 + 1 + 4;
  for (const uint64_t wrong : {~uint64_t{0}, ~uint64_t{0} - 30, uint64_t{1} << 63}) {
    std::string bytes = good;
    Set(&bytes, size, wrong), Set(&bytes, size + 8, wrong);
    ASSERT_OK_AND_ASSIGN(const ZipWalk walk, Walk(*MakeMemorySource("a.zip", bytes)));
    ASSERT_EQ(walk.members.size(), 1u);
    EXPECT_THAT(walk.members[0].status, StatusIs(Code::kDataLoss, HasSubstr("is cut short")));
  }
  const std::string streamed = Zip({{"a", "99:", 0, false}});  // its content lies
  ASSERT_OK_AND_ASSIGN(const ZipWalk walk, Walk(*MakeMemorySource("a.zip", streamed.substr(0, 60))));
  ASSERT_EQ(walk.members.size(), 1u);
  EXPECT_THAT(walk.members[0].status, StatusIs(Code::kDataLoss, HasSubstr("of its 99 bytes")));
}

// What is inflated to find the end of a member is bounded, and the members before it are found.
TEST(ZipWalkTest, ABombOfUnknownSizeEndsAtTheLimit) {
  const std::string bytes = Zip({{"a", "good"}, {"bomb", std::string(20 << 20, '\0'), 9, false}, {"c", "end"}});
  DecodeLimits limits;
  limits.max_file_decoded_bytes = 4 << 20;
  const auto file = MakeMemorySource("a.zip", bytes);
  ASSERT_OK_AND_ASSIGN(const ZipWalk walk, Walk(*file, limits));
  ASSERT_EQ(walk.members.size(), 2u);
  EXPECT_EQ(*Read(*file, walk.members[0]), "good");
  EXPECT_THAT(walk.members[1].status, StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes")));
  ASSERT_OK_AND_ASSIGN(const ZipWalk all, Walk(*file));
  EXPECT_EQ(all.members.size(), 3u);
}

TEST(ZipWalkTest, LimitsOfTheList) {
  std::vector<Content> many;
  for (int i = 0; i < 1000; ++i) many.push_back({absl::StrCat("member ", i), ""});
  const std::string bytes = Zip(many);
  const auto file = MakeMemorySource("a.zip", bytes);
  EXPECT_OK(Walk(*file));
  DecodeLimits limits;
  limits.max_entries = 999;
  EXPECT_THAT(Walk(*file, limits),
              StatusIs(Code::kResourceExhausted, HasSubstr("a.zip: the archive has more members")));
  limits = {};
  limits.max_name_bytes = 9;
  EXPECT_THAT(Walk(*file, limits), StatusIs(Code::kResourceExhausted, HasSubstr("name has 10 bytes")));
  limits = {};
  limits.max_memory_beyond_input = 1000;
  const std::string headers = bytes.substr(0, bytes.find("PK\1\2"));  // less than the list takes
  EXPECT_THAT(Walk(*MakeMemorySource("a.zip", headers), limits),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
}

// Each change of one byte: no crash, and what is read with its checksum is what was written.
TEST(ZipWalkTest, EveryChangedByte) {
  const std::string good = Zip(Some());
  const size_t directory = good.find("PK\1\2");
  for (size_t at = 0; at < directory; ++at) {
    for (const int change : {1, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      const auto file = MakeMemorySource("a.zip", bytes);
      ASSERT_OK_AND_ASSIGN(const ZipWalk walk, Walk(*file));
      CheckExtents(walk, bytes.size());
      for (const ZipMember& member : walk.members) {
        const absl::StatusOr<std::string> data = Read(*file, member);
        if (!data.ok()) continue;
        const bool is_known =
            std::any_of(Some().begin(), Some().end(), [&](const Content& content) { return content.data == *data; });
        EXPECT_TRUE(is_known) << at << " " << change << " " << member.name;
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask
