#include "tensorcask/serialize/wire/records.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/byte_stream.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/wire/records_testing.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/hex.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::ReadAll;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Trickle;
using ::tensorcask::testing::Written;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// The same from a pipe.
absl::Status ReadAllFromPipe(const std::string& bytes, size_t step, std::vector<std::string>* records,
                             RecordReaderOptions options = {}) {
  RecordReader reader(std::make_unique<Trickle>(bytes, step), std::move(options));
  return ReadAll(reader, records);
}

// The header of a record that claims `length` bytes, its checksum correct.
std::string Header(uint64_t length) {
  std::string header(12, '\0');
  StoreLittleEndian(length, &header[0]);
  StoreLittleEndian(MaskCrc32c(Crc32c(absl::string_view(header).substr(0, 8))), &header[8]);
  return header;
}

TEST(Records, ExampleOfTheFormat) {
  std::ifstream file("serialize/wire/FORMAT.md");
  ASSERT_TRUE(file.good());
  std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  page = page.substr(page.find("## 8. Record streams"));
  const size_t begin = page.find("```\n") + 4;
  const std::string hex = page.substr(begin, page.find("```", begin) - begin);
  const std::string example = testing::BytesOfHex(absl::StrReplaceAll(hex, {{" ", ""}, {"\n", ""}}));
  EXPECT_EQ(absl::BytesToHexString(Written({"", "cask"})), absl::BytesToHexString(example));
  std::vector<std::string> records;
  EXPECT_OK(ReadAll(example, &records));
  EXPECT_THAT(records, ElementsAre("", "cask"));
}

TEST(Records, ComeBack) {
  // Around the sizes of a piece when writing, 1 MiB, and of what is read ahead, 256 KiB.
  std::vector<std::string> records = {"", "a", std::string(1, '\0')};
  for (const size_t size : {255u << 10, 256u << 10, (256u << 10) + 1, (1u << 20) - 1, 1u << 20, (1u << 20) + 1}) {
    records.emplace_back(size, static_cast<char>(size % 251));
    records.emplace_back("between");
  }
  const std::string bytes = Written(records);
  size_t data_bytes = 0;
  for (const std::string& record : records) data_bytes += record.size();
  EXPECT_EQ(bytes.size(), data_bytes + 16 * records.size());
  std::vector<std::string> read;
  EXPECT_OK(ReadAll(bytes, &read));
  EXPECT_TRUE(read == records);
  for (const size_t step : {size_t{1}, size_t{4095}, size_t{64} << 10, SIZE_MAX}) {
    EXPECT_OK(ReadAllFromPipe(bytes, step, &read)) << step;
    EXPECT_TRUE(read == records) << step;
  }
  EXPECT_OK(ReadAllFromPipe("", 1, &read));
  EXPECT_TRUE(read.empty());
  EXPECT_OK(ReadAll("", &read));
  EXPECT_TRUE(read.empty());
}

TEST(Records, ReadFromAnOffset) {
  const std::string bytes = Written({"first", "second"});
  RecordReader reader(MakeMemorySource("stream", bytes));
  ASSERT_OK(reader.Next());
  RecordReaderOptions options;
  options.offset = reader.offset();
  std::vector<std::string> records;
  EXPECT_OK(ReadAll(bytes, &records, options));
  EXPECT_THAT(records, ElementsAre("second"));
  options.offset = bytes.size();
  EXPECT_OK(ReadAll(bytes, &records, options));
  EXPECT_TRUE(records.empty());
  options.offset = bytes.size() + 1;
  EXPECT_THAT(ReadAll(bytes, &records, options),
              StatusIs(Code::kDataLoss, HasSubstr("stream: record at 44: the file ends at 43, before this record")));
}

struct DamageCase {
  const char* name;
  std::string bytes;
  Code code;
  const char* says;
};
class RecordsReject : public ::testing::TestWithParam<DamageCase> {};
TEST_P(RecordsReject, WithCodeAndMessage) {
  const auto allocator = MakeRef<FailingAllocator>();
  RecordReaderOptions options;
  options.allocator = allocator;
  options.limits.max_message_bytes = 5;
  std::vector<std::string> records;
  EXPECT_THAT(ReadAll(GetParam().bytes, &records, options), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_TRUE(records.empty() || records == std::vector<std::string>{"head"});
  // From a pipe the claimed length is checked first, since the reader cannot know whether the bytes will arrive.
  const bool claims_too_much =
      absl::StrContains(GetParam().name, "Huge") || absl::StrContains(GetParam().name, "Wraps");
  for (const size_t step : {size_t{1}, SIZE_MAX}) {
    EXPECT_THAT(ReadAllFromPipe(GetParam().bytes, step, &records, options),
                claims_too_much ? StatusIs(Code::kResourceExhausted, HasSubstr("max_message_bytes is 5"))
                                : StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  }
}
const DamageCase kDamages[] = {
    {"ShortHead", Written({"head"}) + "12345678901", Code::kDataLoss,
     "stream: record at 20: cut short: 11 bytes are left; its header takes 12"},
    {"LengthChecksum", std::string(12, '\0'), Code::kDataLoss,
     "stream: record at 0: the checksum of its length is 07980329, stored is 00000000"},
    {"NoTail", Header(3) + "abc", Code::kDataLoss,
     "record at 0: cut short: it has 3 bytes of data and 4 of checksum; 3 are left"},
    {"ShortTail", Header(0) + "abc", Code::kDataLoss, "it has 0 bytes of data and 4 of checksum; 3 are left"},
    {"HugeLength", Header(UINT64_MAX) + "abcdefg", Code::kDataLoss, "it has 18446744073709551615 bytes of data"},
    {"WrapsWithTail", Header(UINT64_MAX - 3) + "abcdefg", Code::kDataLoss, "18446744073709551612 bytes of data"},
    {"DataChecksum", Header(3) + "abc" + std::string(4, '\0'), Code::kDataLoss, "the checksum of its data is"},
    {"PastTheLimit", Written({"head", "sixsix"}), Code::kResourceExhausted,
     "stream: record at 20: 6 bytes; max_message_bytes is 5"},
    {"Gzip", std::string("\x1f\x8b\x08\0\0\0\0\0\0\0\0\0", 12), Code::kDataLoss,
     "; the file looks like a gzip file: decompress it first (gunzip)"},
    {"Zlib", std::string("\x78\x9c\xed\x97\x3b\x0e\xc2\x30\0\0\0\0", 12), Code::kDataLoss,
     "; the file looks like a file compressed with zlib: decompress it first"},
};
INSTANTIATE_TEST_SUITE_P(Damages, RecordsReject, ::testing::ValuesIn(kDamages),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Records, EveryPrefixAndEveryChangedByteIsFound) {
  const std::vector<std::string> whole = {"abc", "", std::string(40, 'x')};
  const std::string bytes = Written(whole);
  const std::vector<size_t> ends = {0, 19, 35, bytes.size()};  // where records end
  std::vector<std::string> records;
  for (size_t size = 0; size < bytes.size(); ++size) {
    SCOPED_TRACE(size);
    const absl::Status status = ReadAll(bytes.substr(0, size), &records);
    size_t complete = 0;
    while (ends[complete + 1] <= size) ++complete;
    if (ends[complete] == size) {
      EXPECT_OK(status);
    } else {
      EXPECT_THAT(status,
                  StatusIs(Code::kDataLoss, HasSubstr(absl::StrCat("record at ", ends[complete], ": cut short"))));
    }
    EXPECT_EQ(records.size(), complete);
    for (const size_t step : {size_t{1}, size_t{7}, SIZE_MAX}) {
      std::vector<std::string> from_pipe;
      EXPECT_EQ(ReadAllFromPipe(bytes.substr(0, size), step, &from_pipe), status);
      EXPECT_EQ(from_pipe, records);
    }
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int change = 1; change < 256; ++change) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ change);
      size_t damaged = 0;
      while (ends[damaged + 1] <= i) ++damaged;
      EXPECT_THAT(ReadAll(changed, &records),
                  StatusIs(Code::kDataLoss, HasSubstr(absl::StrCat("record at ", ends[damaged], ": the checksum"))))
          << i << " ^ " << change;
      EXPECT_EQ(records.size(), damaged);
    }
  }
}

TEST(Records, MemoryIsThatOfTheLongestRecord) {
  const auto allocator = MakeRef<FailingAllocator>();
  RecordReaderOptions options;
  options.allocator = allocator;
  // The file claims far more than it holds: nothing is taken for that.
  const std::string claim = Header(uint64_t{1} << 40) + "abcdefgh";
  std::vector<std::string> records;
  EXPECT_THAT(ReadAll(claim, &records, options), StatusIs(Code::kDataLoss, HasSubstr("cut short")));

  const std::string bytes = Written({std::string(100, 'a'), std::string(3 << 20, 'b'), std::string(2 << 20, 'c')});
  RecordReader reader(MakeMemorySource("stream", bytes), options);
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(reader.Next());
    EXPECT_LE(allocator->live_blocks(), 1);
    EXPECT_LE(allocator->live_bytes(), (3 << 20) + 8192);
  }
}

TEST(Records, MemoryForAPipeFollowsTheBytesThatCome) {
  struct Case {
    uint64_t claimed_bytes, come_bytes;
    int64_t most_blocks, most_bytes;
  };
  const Case cases[] = {{uint64_t{1} << 30, 20, 1, 260 << 10},
                        {uint64_t{1} << 60, 20, 1, 260 << 10},
                        {uint64_t{1} << 30, 1 << 20, 4, (2 << 20) + 4096}};  // 256, 512, 1024, 2048 KiB
  for (const Case& a_case : cases) {
    SCOPED_TRACE(absl::StrCat(a_case.claimed_bytes, ", ", a_case.come_bytes));
    const auto allocator = MakeRef<FailingAllocator>();
    RecordReaderOptions options;
    options.allocator = allocator;
    options.limits.max_message_bytes = INT64_MAX;
    const std::string bytes = Header(a_case.claimed_bytes) + std::string(a_case.come_bytes, 'x');
    RecordReader reader(std::make_unique<Trickle>(bytes, 4095), options);
    EXPECT_THAT(reader.Next(),
                StatusIs(Code::kDataLoss, HasSubstr(absl::StrCat("4 of checksum; ", a_case.come_bytes, " are left"))));
    EXPECT_LE(allocator->calls(), a_case.most_blocks);
    EXPECT_EQ(allocator->live_blocks(), 1);
    EXPECT_LE(allocator->live_bytes(), a_case.most_bytes);
  }
}

TEST(Records, WithoutMemory) {
  const std::string bytes = Written({std::string(100 << 10, 'a')});
  RecordReaderOptions options;
  options.allocator = MakeRef<FailingAllocator>(1);
  std::vector<std::string> records;
  EXPECT_THAT(ReadAll(bytes, &records, options),
              StatusIs(Code::kResourceExhausted, HasSubstr("stream: record at 0: ")));
}

// A sink that takes `bytes_left` bytes.
class FullSink final : public ByteSink {
 public:
  explicit FullSink(size_t bytes_left) : bytes_left_(bytes_left) {}
  absl::Status Append(absl::string_view bytes) override {
    if (bytes.size() > bytes_left_) return absl::ResourceExhaustedError("full");
    bytes_left_ -= bytes.size();
    return absl::OkStatus();
  }
  uint64_t position() const override { return 0; }

 private:
  size_t bytes_left_;
};

TEST(Records, WriterGivesTheErrorOfTheSink) {
  for (size_t room = 0; room < 20; ++room) {
    FullSink sink(room);
    EXPECT_THAT(RecordWriter(&sink).Write("data"), StatusIs(Code::kResourceExhausted, HasSubstr("full"))) << room;
  }
  FullSink sink(20);
  EXPECT_OK(RecordWriter(&sink).Write("data"));
}

// ---- Files that TensorFlow wrote ------------------------------------------------------------------------------------

TEST(Records, TheLimitOfAllRecordsIsToTheByteAndHoldsBeforeBytesAreTaken) {
  const std::string bytes = Written({"12345", "", "678"});
  for (const uint64_t limit : {8, 7, 5, 4}) {
    for (const bool is_pipe : {false, true}) {
      SCOPED_TRACE(absl::StrCat(limit, is_pipe ? ", pipe" : ", file"));
      RecordReaderOptions options;
      options.max_total_bytes = limit;
      RecordReader reader = is_pipe ? RecordReader(std::make_unique<Trickle>(bytes, 1000), options)
                                    : RecordReader(MakeMemorySource("records", bytes), options);
      int count = 0;
      absl::StatusOr<std::optional<absl::string_view>> record = reader.Next();
      for (; record.ok() && record->has_value(); record = reader.Next()) ++count;
      if (limit == 8) {
        EXPECT_OK(record.status());
        EXPECT_EQ(count, 3);
      } else {
        EXPECT_THAT(record, StatusIs(Code::kResourceExhausted, HasSubstr(absl::StrCat("max_total_bytes is ", limit))));
        EXPECT_EQ(count, limit >= 5 ? 2 : 0);
      }
    }
  }
}

TEST(Records, TheLimitIsToTheByte) {
  for (const size_t size : {0, 1, 5, 1000}) {
    SCOPED_TRACE(size);
    const std::string bytes = Written({std::string(size, 'a'), std::string(size + 1, 'b')});
    RecordReaderOptions options;
    options.limits.max_message_bytes = static_cast<int64_t>(size);
    std::vector<std::string> records;
    EXPECT_THAT(ReadAll(bytes, &records, options), StatusIs(Code::kResourceExhausted, HasSubstr("max_message_bytes")));
    EXPECT_THAT(records, ElementsAre(std::string(size, 'a')));
    EXPECT_THAT(ReadAllFromPipe(bytes, 7, &records, options), StatusIs(Code::kResourceExhausted));
    EXPECT_THAT(records, ElementsAre(std::string(size, 'a')));
  }
}

// A pipe that stays open and says nothing more: another read would wait for ever.
class QuietPipe final : public ByteStream {
 public:
  explicit QuietPipe(std::string bytes) : bytes_(std::move(bytes)) {}
  const std::string& name() const override { return name_; }
  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    if (bytes_.empty()) return absl::InternalError("waits for ever");
    const size_t size = bytes_.copy(out.data(), out.size());
    bytes_.erase(0, size);
    return size;
  }

 private:
  const std::string name_ = "quiet";
  std::string bytes_;
};

TEST(Records, ACompleteRecordIsReadFromAnOpenPipe) {
  for (const size_t size : {0, 5, 300 << 10}) {
    SCOPED_TRACE(size);
    RecordReader reader(std::make_unique<QuietPipe>(Written({std::string(size, 'a')})));
    ASSERT_OK_AND_ASSIGN(const auto record, reader.Next());
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(record->size(), size);
    EXPECT_THAT(reader.Next(), StatusIs(Code::kInternal));
  }
}

}  // namespace
}  // namespace tensorcask
