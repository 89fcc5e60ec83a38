// Headers, entries and data with one error each, in tables that are valid.

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/forge.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::EntryOf;
using ::tensorcask::testing::IndexOf;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr int kFloat = 1;
constexpr int kString = 7;
constexpr int kBool = 10;
const char kData[] = "/m.data-00000-of-00001";

absl::StatusOr<CheckpointReader> OpenIn(FileSystem* files, const std::string& path = "/m",
                                        CheckpointReaderOptions options = {}) {
  options.read.file_system = files;
  return CheckpointReader::Open(path, options);
}

// ---- Hostile headers, entries and data ------------------------------------------------------------------------------

struct RejectCase {
  const char* name;
  std::string index;
  const char* says;
  Code code = Code::kDataLoss;
  std::string data = std::string(64, '\0');
};

class OpenRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(OpenRejects, WithCodeAndMessage) {
  MemoryFileSystem files;
  files.Put("/m.index", GetParam().index);
  EXPECT_THAT(OpenIn(&files), StatusIs(GetParam().code, AllOf(HasSubstr("/m.index"), HasSubstr(GetParam().says))));
}

std::string WithHeader(const std::function<void(BundleHeaderProto*)>& change) {
  BundleHeaderProto header;
  header.set_num_shards(1);
  header.mutable_version()->set_producer(1);
  change(&header);
  return IndexOf({{"", header.SerializeAsString()}});
}

std::vector<RejectCase> BadHeaders() {
  using H = BundleHeaderProto;
  return {
      {"NoHeader", IndexOf({{"w", EntryOf(kFloat, {}, std::string(4, '\0')).SerializeAsString()}}), "has no header"},
      {"NothingAtAll", IndexOf(std::map<std::string, std::string>()), "has no header"},
      {"Garbage", IndexOf({{"", "\xff\xff\xff"}}), "the header is not a valid message"},
      {"CutShort", IndexOf({{"", "\x1a\x05\x08"}}), "the header is not a valid message"},
      {"WrongWireType", IndexOf({{"", std::string("\x0a\x01\x01", 3)}}),
       "num_shards at byte 0 is bytes on the wire; expected a varint"},
      {"VersionIsNoMessage", IndexOf({{"", std::string("\x08\x01\x1a\x01\x08", 5)}}),
       "the header is not a valid message: version: "},
      {"Twice",
       [] {
         tensorcask::testing::TableForge forge;
         const auto block = forge.Block(tensorcask::testing::ForgeBlock({{0, "", "\x08\x01"}, {0, "", "\x08\x01"}}));
         return forge.Finish({{"", block}});
       }(),
       "key \"\" is not greater than \"\""},
      {"NoShards", WithHeader([](H* h) { h->set_num_shards(0); }), "has 0 shards; wanted 1 to 99999"},
      {"MinusOneShards", WithHeader([](H* h) { h->set_num_shards(-1); }), "has -1 shards"},
      {"MaxShards", WithHeader([](H* h) { h->set_num_shards(INT32_MAX); }), "has 2147483647 shards"},
      {"100000Shards", WithHeader([](H* h) { h->set_num_shards(100000); }), "has 100000 shards"},
      {"ShardsPast32Bits", IndexOf({{"", "\x08\x81\x80\x80\x80\x10"}}),
       "num_shards is 4294967297, which does not fit 32 bits"},
      {"UnknownEndianness", WithHeader([](H* h) { h->set_endianness(static_cast<H::Endianness>(2)); }),
       "endianness 2; wanted 0"},
      {"MinConsumer3", WithHeader([](H* h) { h->mutable_version()->set_min_consumer(3); }),
       "requires reader version 3; this reader has version 2", Code::kUnimplemented},
      {"MinConsumer1000", WithHeader([](H* h) { h->mutable_version()->set_min_consumer(1000); }),
       "requires reader version 1000", Code::kUnimplemented},
      {"MinConsumer2OfAnotherProgram", WithHeader([](H* h) { h->mutable_version()->set_min_consumer(2); }),
       "has min_consumer 2 without Tensorcask's mark (field 4096)", Code::kUnimplemented},
      {"ReaderVersion3", WithHeader([](H* h) {
         h->mutable_version()->set_min_consumer(2);
         h->mutable_extension()->set_reader_version(3);
       }),
       "asks for version 3 of Tensorcask's reader; this reader has version 2", Code::kUnimplemented},
      {"ReaderVersionNegative", WithHeader([](H* h) { h->mutable_extension()->set_reader_version(-1); }),
       "asks for reader version -1"},
      {"ExtensionIsNoMessage",
       WithHeader([](H* h) { h->GetReflection()->MutableUnknownFields(h)->AddVarint(4096, 1); }), "extension"},
      {"BadConsumer", WithHeader([](H* h) { h->mutable_version()->add_bad_consumers(2); }),
       "excludes readers of version 2", Code::kUnimplemented},
      {"BadConsumers", WithHeader([](H* h) {
         for (const int version : {7, 1, 9}) h->mutable_version()->add_bad_consumers(version);
       }),
       "excludes readers of version 1", Code::kUnimplemented},
      {"NegativeProducer", WithHeader([](H* h) { h->mutable_version()->set_producer(-1); }), "has producer -1"},
  };
}

INSTANTIATE_TEST_SUITE_P(Headers, OpenRejects, ::testing::ValuesIn(BadHeaders()),
                         [](const auto& info) { return std::string(info.param.name); });

// What the index alone tells is refused by entries, Find and Read; what data must tell, by Read.
enum class Seen { kInIndex, kInData };

struct EntryCase {
  const char* name;
  std::string entry;
  const char* says;
  Seen seen = Seen::kInIndex;
  std::string data = std::string(64, '\0');
  Code code = Code::kDataLoss;
};

class EntryRejects : public ::testing::TestWithParam<EntryCase> {};

TEST_P(EntryRejects, WithCodeAndMessage) {
  const auto refused = [](const char* file) {
    return StatusIs(GetParam().code, AllOf(HasSubstr(file), HasSubstr("\"w\""), HasSubstr(GetParam().says)));
  };
  BundleHeaderProto header;
  header.set_num_shards(1);
  MemoryFileSystem files;
  files.Put("/m.index", IndexOf({{"", header.SerializeAsString()}, {"w", GetParam().entry}}));
  files.Put(kData, GetParam().data);
  const char* where = GetParam().seen == Seen::kInIndex ? "/m.index" : kData;
  for (const auto strategy : {ReadStrategy::kRead, ReadStrategy::kMap}) {
    CheckpointReaderOptions options;
    options.read.strategy = strategy;
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m", options));
    EXPECT_THAT(reader.Read("w"), refused(where));
    EXPECT_THAT(reader.Map("w"), refused(where));
    if (GetParam().seen == Seen::kInIndex) {
      EXPECT_THAT(reader.entries(), refused(where));
      EXPECT_THAT(reader.Find("w"), refused(where));
    }
    std::vector<CheckpointDamage> damages;
    ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts,
                         reader.VerifyAll([&](const CheckpointDamage& damage) { damages.push_back(damage); }));
    EXPECT_EQ(counts.whole, 0);
    ASSERT_EQ(damages.size(), 1u);
    EXPECT_EQ(damages[0].tensor, "w");
    EXPECT_EQ(damages[0].file, where);
    EXPECT_THAT(damages[0].status, refused(where));
  }
}

std::string Zeros(int dtype, const std::vector<int64_t>& dims, size_t bytes,
                  const std::function<void(BundleEntryProto*)>& change = nullptr) {
  BundleEntryProto entry = EntryOf(dtype, dims, std::string(bytes, '\0'));
  if (change != nullptr) change(&entry);
  return entry.SerializeAsString();
}

std::string Varints(const std::vector<uint64_t>& values) {
  std::string bytes;
  for (const uint64_t value : values) AppendVarint(value, &bytes);
  return bytes;
}

// A string entry whose checksums hold over whatever `lengths` say.
struct ForgedStrings {
  std::string stored;
  std::string entry;
};
ForgedStrings StringsOf(const std::vector<uint64_t>& lengths, const std::string& characters,
                        const std::vector<int64_t>& dims) {
  uint32_t crc = 0;
  for (const uint64_t length : lengths) {
    char bytes[8];
    StoreLittleEndian(length, bytes);
    crc = ExtendCrc32c(crc, absl::string_view(bytes, length <= UINT32_MAX ? 4 : 8));
  }
  char masked[4];
  StoreLittleEndian(MaskCrc32c(crc), masked);
  ForgedStrings forged;
  forged.stored = Varints(lengths) + std::string(masked, 4) + characters;
  crc = ExtendCrc32c(crc, absl::string_view(masked, 4));
  crc = ExtendCrc32c(crc, characters);
  BundleEntryProto entry = EntryOf(kString, dims, forged.stored);
  entry.set_crc32c(MaskCrc32c(crc));
  forged.entry = entry.SerializeAsString();
  return forged;
}

std::vector<EntryCase> BadEntries() {
  using E = BundleEntryProto;
  std::vector<EntryCase> cases = {
      {"Garbage", "\xff\xff", "its entry is not a valid message"},
      {"TrailingGarbage", Zeros(kFloat, {1}, 4) + "\x03", "its entry is not a valid message"},
      {"DtypeOfWrongWireType", std::string("\x0a\x01\x01", 3),
       "dtype at byte 0 is bytes on the wire; expected a varint"},
      {"CrcOfWrongWireType", Zeros(kFloat, {1}, 4) + std::string("\x30\x01", 2),
       "is a varint on the wire; expected a 32-bit number"},
      {"SizeOfWrongWireType", Zeros(kFloat, {1}, 4) + std::string("\x2d\0\0\0\0", 5),
       "is a 32-bit number on the wire; expected a varint"},
      {"SlicesOfWrongWireType", Zeros(kFloat, {1}, 4) + std::string("\x38\x01", 2),
       "is a varint on the wire; expected bytes"},
      {"ShapeIsNoMessage", Zeros(kFloat, {1}, 4) + std::string("\x12\x01\x12", 3), "not a valid message: shape: "},
      {"DimIsNoMessage", Zeros(kFloat, {1}, 4) + std::string("\x12\x03\x12\x01\x08", 5),
       "not a valid message: shape: dim: "},
      {"DtypePast32Bits", "\x08\x81\x80\x80\x80\x10", "dtype is 4294967297, which does not fit 32 bits"},
      {"NoDtype", Zeros(0, {1}, 4), "neither it nor its extension has a dtype"},
      {"UnknownRank", Zeros(kFloat, {1}, 4, [](E* e) { e->mutable_shape()->set_unknown_rank(true); }), "unknown rank"},
      {"NegativeDim", Zeros(kFloat, {-1}, 4), "-1"},
      {"HugeShape", Zeros(kFloat, {int64_t{1} << 40, int64_t{1} << 40}, 4), "[1099511627776,1099511627776]"},
      {"255Dims", Zeros(kFloat, std::vector<int64_t>(255, 1), 4), "has 255 dims; a tensor has at most 254"},
      {"DtypeAndStrides", Zeros(kFloat, {1}, 4, [](E* e) { e->mutable_extension()->add_strides(1); }),
       "wanted dtype 0 beside these"},
      {"DtypeTwice", Zeros(kFloat, {1}, 4, [](E* e) { e->mutable_extension()->set_dtype(1); }),
       "wanted dtype 0 beside these"},
      {"DtypeAndPayload", Zeros(kFloat, {1}, 4, [](E* e) { e->mutable_extension()->set_payload("x"); }),
       "wanted dtype 0 beside these"},
      {"PayloadWithoutDtype", Zeros(0, {1}, 4, [](E* e) { e->mutable_extension()->set_payload("x"); }),
       "neither it nor its extension has a dtype"},
      {"ShardMinus1", Zeros(kFloat, {1}, 4, [](E* e) { e->set_shard_id(-1); }), "its shard is -1; there are 1"},
      {"ShardIsCount", Zeros(kFloat, {1}, 4, [](E* e) { e->set_shard_id(1); }), "its shard is 1; there are 1"},
      {"ShardMax", Zeros(kFloat, {1}, 4, [](E* e) { e->set_shard_id(INT32_MAX); }),
       "its shard is 2147483647; there are 1"},
      {"OffsetMinus8", Zeros(kFloat, {1}, 4, [](E* e) { e->set_offset(-8); }), "its offset is -8 and its size 4"},
      {"OffsetPlusSizeWraps", Zeros(kFloat, {1}, 4, [](E* e) { e->set_offset(INT64_MAX - 2); }),
       "its offset is 9223372036854775805 and its size 4"},
      {"OffsetPastEnd", Zeros(kFloat, {1}, 4, [](E* e) { e->set_offset(65); }), "has 64 bytes; 4 at 65 are wanted",
       Seen::kInData},
      {"OffsetFarPastEnd", Zeros(kFloat, {1}, 4, [](E* e) { e->set_offset(int64_t{1} << 62); }), "are wanted",
       Seen::kInData},
      {"CrossesEnd", Zeros(kFloat, {1}, 4, [](E* e) { e->set_offset(61); }), "has 64 bytes; 4 at 61 are wanted",
       Seen::kInData},
      {"SizeTooSmall", Zeros(kFloat, {2, 2}, 12), "stores 12 bytes; float32 [2,2] needs 16"},
      {"SizeTooLarge", Zeros(kFloat, {2, 2}, 20), "stores 20 bytes; float32 [2,2] needs 16"},
      {"Size0", Zeros(kFloat, {2, 2}, 0), "stores 0 bytes; float32 [2,2] needs 16"},
      {"SizeNegative", Zeros(kFloat, {1}, 4, [](E* e) { e->set_size(-4); }), "its offset is 0 and its size -4"},
      {"Size2To62", Zeros(kFloat, {1}, 4, [](E* e) { e->set_size(int64_t{1} << 62); }),
       "stores 4611686018427387904 bytes; float32 [1] needs 4"},
      {"ShapeOf2To62", Zeros(kFloat, {int64_t{1} << 62}, 4), "needs more than 2^64"},
      {"ShapeOf2To40InFile", Zeros(kFloat, {int64_t{1} << 40}, 4, [](E* e) { e->set_size(int64_t{1} << 42); }),
       "are wanted", Seen::kInData},
      {"CrcWrong", Zeros(kFloat, {1}, 4, [](E* e) { e->set_crc32c(1); }), "stored is 00000001", Seen::kInData},
      {"CrcUnmasked", Zeros(kFloat, {1}, 4, [](E* e) { e->set_crc32c(UnmaskCrc32c(e->crc32c())); }), "its checksum is",
       Seen::kInData},
      {"CrcAbsent", Zeros(kFloat, {1}, 4, [](E* e) { e->clear_crc32c(); }), "stored is 00000000", Seen::kInData},
      {"CrcOfEmptyWrong", Zeros(kFloat, {0}, 0, [](E* e) { e->clear_crc32c(); }), "its checksum is a282ead8",
       Seen::kInData},
      {"BitFlipped", Zeros(kFloat, {16}, 64), "its checksum is", Seen::kInData, std::string(63, '\0') + "\x10"},
      {"BoolOf2", EntryOf(kBool, {3}, std::string("\0\1\2", 3)).SerializeAsString(), "a bool is neither 0 nor 1",
       Seen::kInData, std::string("\0\1\2", 3)},
      {"2To40StringsIn24Bytes", Zeros(kString, {int64_t{1} << 40}, 24),
       "stores 24 bytes; string [1099511627776] needs"},
      {"StringsWithoutChecksum", Zeros(kString, {4}, 7), "stores 7 bytes; string [4] needs 8 or more"},
      {"LengthsWithoutEnd", Zeros(kString, {4}, 12), "the length of string 0 is cut short", Seen::kInData,
       std::string(12, '\x80')},
  };
  const auto add_strings = [&](const char* name, const char* says, const ForgedStrings& strings) {
    cases.push_back({name, strings.entry, says, Seen::kInData, strings.stored});
  };
  add_strings("LengthMax", "string 0 of 1 has length 18446744073709551615", StringsOf({UINT64_MAX}, "abc", {1}));
  add_strings("LengthsWrap", "string 1 of 2 has length", StringsOf({3, UINT64_MAX - 1}, "abc", {2}));
  add_strings("LengthsRunPast", "string 1 of 2 has length 9", StringsOf({3, 9}, "abc", {2}));
  add_strings("LengthsTooShort", "its strings have 2 bytes", StringsOf({1, 1}, "abc", {2}));
  add_strings("MoreLengthsThanStrings", "its strings have 1 bytes", StringsOf({1, 0}, "a", {1}));
  ForgedStrings wrong = StringsOf({1, 1}, "ab", {2});
  wrong.stored[2] ^= 1;
  add_strings("LengthChecksumWrong", "the checksum of its lengths is", wrong);
  wrong = StringsOf({1, 1}, "ab", {2});
  wrong.stored[7] ^= 1;
  add_strings("CharactersChecksumWrong", "its checksum is", wrong);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Entries, EntryRejects, ::testing::ValuesIn(BadEntries()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensorcask
