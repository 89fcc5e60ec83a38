// Zip archives: what the writer writes, and every way of lying in one that the reader refuses.

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
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
#include "tensorcask/serialize/zip/zip_format.h"
#include "tensorcask/serialize/zip/zip_member_stream.h"
#include "tensorcask/serialize/zip/zip_writer.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
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
  bool with_crc = true;
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
    options.prefix_bytes = member.data.size() / 2;
    options.alignment = 64;
    EXPECT_OK(writer.BeginMember(member.name, options));
    EXPECT_OK(writer.Append(absl::string_view(member.data).substr(0, 1)));
    EXPECT_OK(writer.Append(absl::string_view(member.data).substr(std::min<size_t>(member.data.size(), 1))));
    EXPECT_OK(writer.EndMember());
  }
  EXPECT_OK(writer.Finish());
  return bytes;
}

// Opens the archive and reads all members; the first error.
absl::Status ReadAll(const std::string& bytes, std::vector<Content>* out = nullptr, const DecodeLimits& limits = {}) {
  const auto file = MakeMemorySource("a.zip", bytes);
  const absl::StatusOr<std::vector<ZipMember>> members = ReadZipDirectory(*file, limits);
  if (!members.ok()) return members.status();
  for (const ZipMember& member : *members) {
    ZipMemberStream stream(file.get(), &member, /*verify=*/true);
    std::string data(member.size_bytes, '\0');
    if (absl::Status status = stream.Read(absl::MakeSpan(&data[0], data.size())); !status.ok()) return status;
    if (absl::Status status = stream.Finish(); !status.ok()) return status;
    if (out != nullptr) out->push_back({member.name, data});
  }
  return absl::OkStatus();
}

const std::vector<Content>& Some() {
  static const auto* const some = new std::vector<Content>{{"a", std::string(200, 'x'), 0, true},
                                                           {"b/c", "hello", 0, false},
                                                           {"\xc3\xa4", std::string(5000, 'y'), 6, true},
                                                           {"../d", std::string(300, 'z'), 9, false},
                                                           {"", "", 0, true},
                                                           {"e", "", 1, false}};
  return *some;
}

TEST(ZipRoundTrip, AllForms) {
  for (const bool force_zip64 : {false, true}) {
    const std::string bytes = Zip(Some(), force_zip64);
    std::vector<Content> read;
    ASSERT_OK(ReadAll(bytes, &read));
    ASSERT_EQ(read.size(), Some().size());
    for (size_t i = 0; i < read.size(); ++i) {
      EXPECT_EQ(read[i].name, Some()[i].name);
      EXPECT_EQ(read[i].data, Some()[i].data);
    }
    EXPECT_EQ(Zip(Some(), force_zip64), bytes);
    EXPECT_OK(ReadAll(Zip({}, force_zip64)));
  }
}

TEST(ZipRoundTrip, MoreMembersThan16Bits) {
  std::vector<Content> many;
  for (int i = 0; i < 70000; ++i) many.push_back({absl::StrCat(i), ""});
  const std::string bytes = Zip(many);
  std::vector<Content> read;
  ASSERT_OK(ReadAll(bytes, &read));
  EXPECT_EQ(read.size(), many.size());
  DecodeLimits limits;
  limits.max_entries = 69999;
  EXPECT_THAT(ReadAll(bytes, nullptr, limits), StatusIs(Code::kResourceExhausted, HasSubstr("max_entries")));
}

// Counts reads and their bytes.
class CountingSource final : public ByteSource {
 public:
  explicit CountingSource(std::string bytes)
      : content_(std::move(bytes)), source_(MakeMemorySource("a.zip", content_)) {}
  const std::string& name() const override { return source_->name(); }
  uint64_t size_bytes() const override { return source_->size_bytes(); }
  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
    ++reads_;
    bytes_ += out.size();
    return source_->ReadAt(offset, out);
  }
  int reads() const { return reads_; }
  uint64_t bytes() const { return bytes_; }

 private:
  const std::string content_;
  const std::shared_ptr<const ByteSource> source_;
  mutable int reads_ = 0;
  mutable uint64_t bytes_ = 0;
};

TEST(ZipDirectory, ReadsTheHeadersOfSmallMembersTogetherAndNoDataOfLargeOnes) {
  for (const bool with_crc : {true, false}) {  // false: with data descriptors
    std::vector<Content> small;
    for (int i = 0; i < 1000; ++i) small.push_back({absl::StrCat("member", i), "some bytes", 0, with_crc});
    const CountingSource of_small(Zip(small));
    const absl::StatusOr<std::vector<ZipMember>> found = ReadZipDirectory(of_small, {});
    ASSERT_OK(found);
    EXPECT_EQ(found->size(), 1000u);
    EXPECT_LT(of_small.reads(), 10);

    std::vector<Content> large;
    for (int i = 0; i < 10; ++i) large.push_back({absl::StrCat(i), std::string(200'000, 'x'), 0, with_crc});
    const CountingSource of_large(Zip(large));
    ASSERT_OK(ReadZipDirectory(of_large, {}));
    EXPECT_LE(of_large.reads(), 22);
    EXPECT_LT(of_large.bytes(), 70'000u);  // most of them are the end of the file, where its end record is looked for
  }
}

// A source far away, which is told what will be read.
class FarSource final : public ByteSource {
 public:
  explicit FarSource(std::string bytes) : content_(std::move(bytes)), source_(MakeMemorySource("a.zip", content_)) {}
  const std::string& name() const override { return source_->name(); }
  uint64_t size_bytes() const override { return source_->size_bytes(); }
  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override { return source_->ReadAt(offset, out); }
  ReadShape read_shape() const override {
    ReadShape shape;
    shape.in_flight = 8;
    shape.gap_bytes = uint64_t{1} << 20;
    return shape;
  }
  std::shared_ptr<Announcement> Announce(absl::Span<const FileRange> ranges,
                                         const AnnounceOptions& options) const override {
    for (const FileRange& range : ranges) announced += range.size_bytes;
    max_gap_bytes = options.max_gap_bytes;
    return nullptr;
  }

  mutable uint64_t announced = 0;
  mutable uint64_t max_gap_bytes = 0;

 private:
  const std::string content_;
  const std::shared_ptr<const ByteSource> source_;
};

TEST(ZipDirectory, AnnouncesTheHeadersAndNotTheDataBetweenThem) {
  std::vector<Content> large;
  for (int i = 0; i < 10; ++i) large.push_back({absl::StrCat(i), std::string(200'000, 'x'), 0, true});
  const FarSource far(Zip(large));
  ASSERT_OK(ReadZipDirectory(far, {}));
  EXPECT_GT(far.announced, 0u);
  EXPECT_LT(far.announced, 10'000u);
  EXPECT_LT(far.max_gap_bytes, 200'000u);  // the source would read over gaps of 1 MiB
}

TEST(ZipWriterTest, RefusesNames) {
  std::string bytes;
  StringSink sink(&bytes);
  ZipWriter writer(&sink);
  EXPECT_THAT(writer.BeginMember(std::string(70000, 'a'), {}), StatusIs(Code::kInvalidArgument, HasSubstr("70000")));
  EXPECT_THAT(writer.BeginMember("\xff", {}), StatusIs(Code::kInvalidArgument, HasSubstr("UTF-8")));
  EXPECT_OK(writer.BeginMember("a", {}));
  EXPECT_OK(writer.EndMember());
  EXPECT_THAT(writer.BeginMember("a", {}), StatusIs(Code::kAlreadyExists));
}

// A sink that takes `room` bytes, and then fails as a full disk does.
class SmallSink final : public ByteSink {
 public:
  explicit SmallSink(uint64_t room) : room_(room) {}
  absl::Status Append(absl::string_view bytes) override {
    if (bytes.size() > room_ - position_) return absl::ResourceExhaustedError("the disk is full");
    position_ += bytes.size();
    return absl::OkStatus();
  }
  uint64_t position() const override { return position_; }

 private:
  const uint64_t room_;
  uint64_t position_ = 0;
};

TEST(ZipWriterTest, EachCallReportsThatItsBytesWereNotWritten) {
  const auto write = [](uint64_t room, int* calls) -> absl::Status {
    SmallSink sink(room);
    ZipWriter writer(&sink);
    ZipMemberOptions options;
    options.size_bytes = 7;
    *calls = 0;
    CASK_RETURN_IF_ERROR(writer.BeginMember("a", options));
    ++*calls;
    CASK_RETURN_IF_ERROR(writer.Append("content"));
    ++*calls;
    CASK_RETURN_IF_ERROR(writer.EndMember());
    ++*calls;
    return writer.Finish();
  };
  int calls = 0;
  int before = 0;
  for (uint64_t room = 0;; ++room) {
    const absl::Status status = write(room, &calls);
    EXPECT_GE(calls, before) << room;
    EXPECT_LE(calls, before + 1) << room;
    before = calls;
    if (status.ok()) break;
    ASSERT_THAT(status, StatusIs(Code::kResourceExhausted, HasSubstr("the disk is full"))) << room;
    if (room < 30) {  // a local header has more
      EXPECT_EQ(calls, 0) << room;
    }
  }
  EXPECT_EQ(calls, 3);
}

// Bit 11 of the flags, which stand at byte 6 of a local header.
TEST(ZipWriterTest, MarksNamesThatAreNotAscii) {
  EXPECT_EQ(Zip({{"plain", ""}})[7] & 8, 0);
  EXPECT_EQ(Zip({{"na\u00efve", ""}})[7] & 8, 8);
}

// ---- Lies -----------------------------------------------------------------------------------------------------------

constexpr size_t kEnd = 22;

template <typename T>
void Set(std::string* bytes, size_t at, T value) {
  StoreLittleEndian(value, &(*bytes)[at]);
}

size_t DirectoryOf(const std::string& bytes) { return LoadLittleEndian<uint32_t>(&bytes[bytes.size() - 6]); }

struct Lie {
  const char* name;
  std::function<void(std::string*)> tell;
  Code code;
  const char* says;
};

TEST(ZipLies, AreRefused) {
  const std::vector<Content> two = {{"a", std::string(90, 'x')}, {"b", std::string(90, 'y'), 6}};
  const std::string good = Zip(two);
  ASSERT_OK(ReadAll(good));
  const size_t directory = DirectoryOf(good);
  const size_t entry_b = good.find("PK\1\2", directory + 1);
  const size_t local_b = good.find("PK\3\4", 1);
  const size_t end = good.size() - kEnd;
  const auto set16 = [](size_t at, uint16_t value) { return [=](std::string* bytes) { Set(bytes, at, value); }; };
  const auto set32 = [](size_t at, uint32_t value) { return [=](std::string* bytes) { Set(bytes, at, value); }; };
  const auto both16 = [](size_t a, size_t b, uint16_t value) {
    return [=](std::string* bytes) { Set(bytes, a, value), Set(bytes, b, value); };
  };
  const std::vector<Lie> lies = {
      {"LocalName", [](std::string* bytes) { (*bytes)[30] = 'z'; }, Code::kDataLoss, "another name"},
      {"LocalSize", set32(22, 91), Code::kDataLoss, "another size or checksum"},
      {"LocalCrc", set32(14, 1), Code::kDataLoss, "another size or checksum"},
      {"LocalMethod", set16(8, 8), Code::kDataLoss, "another method"},
      {"LocalFlags", set16(6, 8), Code::kDataLoss, "other flags"},
      {"LocalSignature", set32(0, 0), Code::kDataLoss, "no header at 0"},
      {"StoredSize", set32(directory + 20, 89), Code::kDataLoss, "is stored in 89 bytes and has 90"},
      {"SameName", [&](std::string* bytes) { (*bytes)[entry_b + 46] = 'a', (*bytes)[local_b + 30] = 'a'; },
       Code::kDataLoss, "two members are named \"a\""},
      {"SameHeader", set32(entry_b + 42, 0), Code::kDataLoss, "same header"},
      {"InsideAnother", set32(entry_b + 42, 40), Code::kDataLoss, "member"},
      {"BehindDirectory", set32(entry_b + 42, static_cast<uint32_t>(directory + 5)), Code::kDataLoss, "member"},
      {"Bomb", set32(entry_b + 24, 0x7fffffff), Code::kDataLoss, "cannot make more than 1032"},
      {"Longer",
       [&](std::string* bytes) { Set(bytes, entry_b + 24, uint32_t{80}), Set(bytes, local_b + 22, uint32_t{80}); },
       Code::kDataLoss, "more than the 80 bytes"},
      {"Shorter",
       [&](std::string* bytes) { Set(bytes, entry_b + 24, uint32_t{99}), Set(bytes, local_b + 22, uint32_t{99}); },
       Code::kDataLoss, "inflates to 90 bytes"},
      {"Garbage", [&](std::string* bytes) { (*bytes)[local_b + 31] = '\7'; }, Code::kDataLoss, "cannot be inflated"},
      {"Encrypted", both16(6, directory + 8, 1), Code::kUnimplemented, "is encrypted"},
      {"Strongly", both16(6, directory + 8, 0x41), Code::kUnimplemented, "is encrypted"},
      {"Flags", both16(6, directory + 8, 0x20), Code::kUnimplemented, "unknown flags"},
      {"Crc", [](std::string* bytes) { (*bytes)[100] ^= 1; }, Code::kDataLoss, "CRC-32"},
      {"Link", set32(directory + 38, 0120777u << 16), Code::kDataLoss, "symbolic link"},
      {"NoEnd", [&](std::string* bytes) { bytes->resize(end); }, Code::kDataLoss, "no end record"},
      {"Count", both16(end + 8, end + 10, 1), Code::kDataLoss, "more members"},
      {"Count3", both16(end + 8, end + 10, 3), Code::kDataLoss, "cannot hold"},
      {"TwoCounts", set16(end + 8, 1), Code::kDataLoss, "two different numbers"},
      {"Disk", set16(end + 4, 1), Code::kUnimplemented, "several files"},
      {"EntryDisk", set16(directory + 34, 1), Code::kUnimplemented, "another file"},
      {"CommentLength", set16(end + 20, 9), Code::kDataLoss, "no end record"},
      {"DirectorySize", set32(end + 12, 7), Code::kDataLoss, "does not end at"},
      {"DirectoryOffset", set32(end + 16, 0xfffffff0), Code::kDataLoss, "does not end at"},
      {"Prefix", [](std::string* bytes) { bytes->insert(0, "junk"); }, Code::kDataLoss, "does not end at"},
      {"Suffix", [](std::string* bytes) { bytes->append("junk"); }, Code::kDataLoss, "no end record"},
      {"EndInComment",
       [&](std::string* bytes) {
         const std::string again = bytes->substr(end);
         Set(bytes, end + 20, static_cast<uint16_t>(again.size()));
         bytes->append(again);
       },
       Code::kDataLoss, "two end records"},
      {"EndLikeComment",
       [&](std::string* bytes) {
         Set(bytes, end + 20, uint16_t{30});
         bytes->append(absl::StrCat("PK\5\6", std::string(26, 'x')));
       },
       Code::kDataLoss, "another end record"},
      {"Name",
       [&](std::string* bytes) { (*bytes)[directory + 46] = '\xff', Set(bytes, directory + 8, uint16_t{0x800}); },
       Code::kDataLoss, "marked as UTF-8"},
      {"Zip64Missing", set32(directory + 24, 0xffffffff), Code::kDataLoss, "is not there"},
      {"ExtraLength", set16(directory + 30, 60000), Code::kDataLoss, "leaves the directory"},
  };
  for (const Lie& lie : lies) {
    SCOPED_TRACE(lie.name);
    std::string bytes = good;
    lie.tell(&bytes);
    EXPECT_THAT(ReadAll(bytes), StatusIs(lie.code, HasSubstr(lie.says)));
  }
  for (const int number : {1, 6, 9, 12, 14, 93, 99}) {
    const auto method = static_cast<uint16_t>(number);
    std::string bytes = good;
    Set(&bytes, 8, method), Set(&bytes, directory + 10, method);
    EXPECT_THAT(ReadAll(bytes), StatusIs(Code::kUnimplemented, HasSubstr(absl::StrCat("method ", method))));
  }
}

TEST(ZipLies, OfZip64AreRefused) {
  const std::string good = Zip({{"a", "hello", 0, false}}, /*force_zip64=*/true);
  ASSERT_OK(ReadAll(good));
  const size_t end = good.size() - kEnd;
  const size_t locator = end - zip::kLocatorBytes;
  const size_t end64 = locator - zip::kEnd64Bytes;
  const size_t descriptor = good.find("PK\7\10");
  const size_t extra = good.find("PK\1\2") + 46 + 1;
  const auto set64 = [](size_t at, uint64_t value) { return [=](std::string* bytes) { Set(bytes, at, value); }; };
  const std::vector<Lie> lies = {
      {"Locator", set64(locator + 8, uint64_t{1} << 63), Code::kDataLoss, "locator points to"},
      {"Entries", [&](std::string* b) { Set(b, end64 + 24, uint64_t{1} << 40), Set(b, end64 + 32, uint64_t{1} << 40); },
       Code::kDataLoss, "disagree"},
      {"TwoCounts", set64(end64 + 24, 2), Code::kDataLoss, "two different numbers"},
      {"OffsetWraps", set64(end64 + 48, ~uint64_t{0} - 20), Code::kDataLoss, "d"},
      {"RecordSize", set64(end64 + 4, 45), Code::kDataLoss, "no zip64 end record"},
      {"HeaderOffset", set64(extra + 4 + 16, ~uint64_t{0}), Code::kDataLoss, "bytes of no member"},
      {"Size", set64(extra + 4, ~uint64_t{0}), Code::kDataLoss, "is stored in"},
      {"Descriptor", set64(descriptor + 8, 6), Code::kDataLoss, "data descriptor that disagrees"},
      {"DescriptorSignature", set64(descriptor, 0), Code::kDataLoss, "no data descriptor"},
      {"ExtraTooShort", [&](std::string* b) { Set(b, extra + 2, uint16_t{16}); }, Code::kDataLoss, "extra field"},
  };
  for (const Lie& lie : lies) {
    SCOPED_TRACE(lie.name);
    std::string bytes = good;
    lie.tell(&bytes);
    EXPECT_THAT(ReadAll(bytes), StatusIs(lie.code, HasSubstr(lie.says)));
  }
}

TEST(ZipDamage, EveryCutIsRefused) {
  for (const bool force_zip64 : {false, true}) {
    const std::string good = Zip(Some(), force_zip64);
    for (size_t length = 0; length < good.size(); ++length)
      EXPECT_FALSE(ReadAll(good.substr(0, length)).ok()) << length;
  }
}

// A changed byte of one member's own header hides no other member, if the caller wants a list.
TEST(ZipDamage, OfOneMemberHidesNoOther) {
  const std::string good = Zip({{"first", "1234"}, {"second", "5678"}, {"third", "9"}});
  const size_t begin = good.find("second") - 30;
  const size_t end = good.find("second") + 6;
  for (size_t at = begin; at < end; ++at) {
    SCOPED_TRACE(at - begin);
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    const auto file = MakeMemorySource("a.zip", bad);
    const absl::StatusOr<std::vector<ZipMember>> members = ReadZipDirectory(*file, {});
    ASSERT_OK_AND_ASSIGN(const std::vector<ZipMember> listed, ReadZipDirectory(*file, {}, /*list_damaged=*/true));
    ASSERT_EQ(listed.size(), 3);
    EXPECT_EQ(listed[1].status.ok(), members.ok());
    for (const size_t other : {size_t{0}, size_t{2}}) {
      EXPECT_OK(listed[other].status);
      EXPECT_OK(ZipMemberStream(file.get(), &listed[other], /*verify=*/true).Finish());
    }
  }
}

// Another reader may go by the other header, and can read the member.
TEST(ZipDamage, AMemberThatCannotBeReadYetHasTwoHeadersThatAgree) {
  const std::string good = Zip({{"a", "1234"}, {"b", "5678"}});
  const size_t directory = DirectoryOf(good);
  for (const bool both : {true, false}) {
    std::string bytes = good;
    Set(&bytes, directory + 10, uint16_t{12});
    if (both) Set(&bytes, 8, uint16_t{12});
    const auto file = MakeMemorySource("a.zip", bytes);
    ASSERT_OK_AND_ASSIGN(const std::vector<ZipMember> members, ReadZipDirectory(*file, {}, /*list_damaged=*/true));
    ASSERT_EQ(members.size(), 2);
    EXPECT_THAT(members[0].status, both ? StatusIs(Code::kUnimplemented, HasSubstr("method 12"))
                                        : StatusIs(Code::kDataLoss, HasSubstr("another method")));
    EXPECT_OK(members[1].status);
  }
}

TEST(ZipStream, SkipsAndStopsAtTheEnd) {
  const std::string bytes = Zip({{"a", "0123456789", 6}});
  const auto file = MakeMemorySource("a.zip", bytes);
  ASSERT_OK_AND_ASSIGN(const std::vector<ZipMember> members, ReadZipDirectory(*file, {}));
  ZipMemberStream stream(file.get(), &members[0], /*verify=*/true);
  EXPECT_OK(stream.Skip(3));
  char some[3];
  EXPECT_OK(stream.Read(absl::MakeSpan(some)));
  EXPECT_EQ(absl::string_view(some, 3), "345");
  EXPECT_THAT(stream.Skip(5), StatusIs(Code::kDataLoss, HasSubstr("the member has 10")));
  EXPECT_OK(stream.Finish());
}

}  // namespace
}  // namespace tensorcask
