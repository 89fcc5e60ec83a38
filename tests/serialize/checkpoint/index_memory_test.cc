// The memory of index entries is charged to max_memory_beyond_input before it is allocated, and an exceeded limit is
// never reported as damage.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "snappy.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/format/entry_encoder.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/salvage.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tests/serialize/checkpoint/bundle_forge.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/forge.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::BundleForge;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;
using ::testing::UnorderedElementsAre;
using Code = absl::StatusCode;

constexpr int kInt8 = 6;

absl::StatusOr<CheckpointReader> OpenIn(MemoryFileSystem* files, const DecodeLimits& limits = {}) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  options.limits = limits;
  return CheckpointReader::Open("/m", options);
}

std::vector<absl::Status> DamageIn(const CheckpointReader& reader, int64_t* whole = nullptr) {
  std::vector<absl::Status> found;
  const absl::StatusOr<CheckpointCounts> counts =
      reader.VerifyAll([&](const CheckpointDamage& damage) { found.push_back(damage.status); });
  EXPECT_OK(counts.status());
  if (whole != nullptr && counts.ok()) *whole = counts->whole;
  return found;
}

// An index of one snappy block with an entry of `bytes` zeros in a field that readers skip.
void PutLargeEntry(size_t bytes, MemoryFileSystem* files) {
  BundleEntryProto entry = testing::EntryOf(kInt8, {1}, std::string(1, '\0'));
  entry.GetReflection()->MutableUnknownFields(&entry)->AddLengthDelimited(1000, std::string(bytes, '\0'));
  const std::string content =
      testing::ForgeBlock({{0, "", checkpoint::EncodeHeader(1, false)}, {0, "w", entry.SerializeAsString()}});
  std::string compressed;
  snappy::Compress(content.data(), content.size(), &compressed);
  testing::TableForge table;
  const checkpoint::BlockHandle block = table.Block(compressed, checkpoint::kSnappyBlock);
  files->Put("/m.index", table.Finish({{"w", block}}));
  files->Put("/m.data-00000-of-00001", std::string(1, '\0'));
}

TEST(DecodeQuota, ReleasesWhatWasFreed) {
  DecodeLimits limits;
  limits.max_memory_beyond_input = 100;
  DecodeQuota quota = DecodeQuota::ForUnbacked(limits, /*backed=*/0, /*charged=*/60);
  {
    QuotaCharge charge(&quota);
    EXPECT_OK(charge.Add(30));
    EXPECT_THAT(charge.Add(11), StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input is 100")));
    charge.Clear();
    EXPECT_OK(charge.Add(40));
    EXPECT_EQ(quota.charged(), 100u);
  }
  EXPECT_EQ(quota.charged(), 60u);
  quota.Release(60);
  EXPECT_OK(quota.Charge(100));
  DecodeQuota full = DecodeQuota::ForUnbacked(limits, 0, /*charged=*/200);
  EXPECT_FALSE(full.Charge(1).ok());
}

TEST(IndexMemory, BoundsWhatABlockClaimsBeforeItIsDecompressed) {
  MemoryFileSystem files;
  PutLargeEntry(1 << 20, &files);
  ASSERT_OK(OpenIn(&files));
  DecodeLimits limits;
  limits.max_memory_beyond_input = 900'000;
  EXPECT_THAT(OpenIn(&files, limits),
              StatusIs(Code::kResourceExhausted, HasSubstr("the limit max_memory_beyond_input is 900000")));
}

TEST(IndexMemory, SalvagesALargeEntryOfACompressedBlock) {
  MemoryFileSystem files;
  PutLargeEntry(100'000, &files);
  CheckpointReaderOptions options;
  options.read.file_system = &files;
  std::vector<std::string> saved;
  ASSERT_OK_AND_ASSIGN(const SalvageReport report,
                       SalvageTensors("/m", options, [&](absl::string_view name, const DecodedTensor&) {
                         saved.emplace_back(name);
                         return absl::OkStatus();
                       }));
  EXPECT_THAT(saved, ElementsAre("w"));
  for (const CheckpointDamage& lost : report.lost) ADD_FAILURE() << lost.status;
}

TEST(ForEachEntry, GivesTheEntriesOfTheList) {
  BundleForge bundle;
  bundle.AddSliced("t", kInt8, {4}, {"2,2", "0,2"});  // not in the order of the keys
  bundle.AddPiece("t", "0,2", kInt8, {2}, "ab");
  bundle.AddPiece("t", "2,2", kInt8, {2}, "cd");
  bundle.Add("a", kInt8, {3}, "efg");
  bundle.Add("z", kInt8, {0}, "");
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  std::vector<std::string> names;
  EXPECT_OK(reader.ForEachEntry([&](const CheckpointEntry& entry) {
    names.push_back(absl::StrCat(entry.name, " ", entry.offset, " ", entry.stored_bytes));
    return absl::OkStatus();
  }));
  EXPECT_THAT(names, ElementsAre("a 4 3", "t 2 4", "z 7 0"));  // t is where its first slice is
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
  ASSERT_EQ(entries.size(), names.size());
  EXPECT_EQ(entries[1].offset, 2u);
  EXPECT_THAT(reader.ForEachEntry([](const CheckpointEntry&) { return absl::CancelledError("enough"); }),
              StatusIs(Code::kCancelled, "enough"));
}

TEST(IndexMemory, OfAListIsChargedWithDimsAndSlices) {
  BundleForge bundle;
  for (int i = 0; i < 100; ++i) bundle.Add(absl::StrCat("rank", i), kInt8, std::vector<int64_t>(254, 0), "");
  MemoryFileSystem files;
  bundle.Put(&files);
  DecodeLimits limits;
  limits.max_memory_beyond_input = 0;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, limits));
  const absl::Status walked = reader.ForEachEntry([](const CheckpointEntry&) { return absl::OkStatus(); });
  EXPECT_OK(walked);                     // keeps no shapes
  EXPECT_OK(reader.entries().status());  // not compressed: the file backs the list

  // The slices of one tensor cost more than twice their bytes.
  BundleForge sliced;
  std::vector<std::string> slices;
  for (int i = 0; i < 2000; ++i) {
    slices.push_back(absl::StrCat(i, ",1"));
    sliced.AddPiece("t", slices.back(), kInt8, {1}, "x");
  }
  sliced.AddSliced("t", kInt8, {2000}, slices);
  sliced.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader whole, OpenIn(&files));
  EXPECT_THAT(DamageIn(whole), ElementsAre());
  ASSERT_OK_AND_ASSIGN(const CheckpointReader bounded, OpenIn(&files, limits));
  const std::vector<absl::Status> found = DamageIn(bounded);
  ASSERT_FALSE(found.empty());
  for (const absl::Status& status : found) {
    EXPECT_THAT(status, StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input is 0")));
  }
  EXPECT_THAT(bounded.Read("t"), StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input is 0")));
}

TEST(VerifyAll, FindsPiecesThatNoTensorListsAndThatAreMissing) {
  BundleForge bundle;
  bundle.AddSliced("b", kInt8, {4}, {"2,2", "0,2"});
  bundle.AddPiece("b", "0,2", kInt8, {2}, "ab");
  bundle.AddPiece("a", "0,1", kInt8, {1}, "x");  // orphans before, between and after the listed ones
  bundle.AddPiece("b", "1,1", kInt8, {1}, "y");
  bundle.AddPiece("c", "0,1", kInt8, {1}, "z");
  bundle.Add("w", kInt8, {1}, "w");
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  int64_t whole = 0;
  const std::vector<absl::Status> found = DamageIn(reader, &whole);
  EXPECT_EQ(whole, 1);
  EXPECT_THAT(found,
              UnorderedElementsAre(
                  StatusIs(Code::kDataLoss, HasSubstr("slice \"2,2\" of tensor \"b\": is missing")),
                  StatusIs(Code::kDataLoss, HasSubstr("slice \"0,1\" of tensor \"a\": no tensor lists this piece")),
                  StatusIs(Code::kDataLoss, HasSubstr("slice \"1,1\" of tensor \"b\": no tensor lists this piece")),
                  StatusIs(Code::kDataLoss, HasSubstr("slice \"0,1\" of tensor \"c\": no tensor lists this piece"))));
}

TEST(VerifyAll, NamesAThousandOverlapsAndReportsTheRest) {
  BundleForge bundle;
  bundle.Add("all", kInt8, {3000}, std::string(3000, '\0'));
  for (int i = 0; i < 1500; ++i) {
    BundleEntryProto& entry = bundle.Add(absl::StrCat("part", i), kInt8, {1}, std::string(1, '\0'));
    entry.set_offset(2 * i + 1);
  }
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  int64_t whole = 0;
  const std::vector<absl::Status> found = DamageIn(reader, &whole);
  EXPECT_EQ(whole, 1);
  EXPECT_EQ(found.size(), 1500u);
  EXPECT_THAT(found, Contains(StatusIs(Code::kDataLoss, HasSubstr("overlaps tensor \"all\" at offset 0"))).Times(1000));
  EXPECT_THAT(found, Contains(StatusIs(Code::kDataLoss, HasSubstr("overlaps another entry"))).Times(500));
}

// More pieces, long on one axis each and crossing, than the search for overlaps looks at.
TEST(VerifyAll, CallsScatteredSlicesPastALimitNotDamaged) {
  constexpr int64_t kSlices = 12'000;
  BundleForge bundle;
  std::vector<std::string> slices;
  for (int64_t i = 0; i < kSlices; ++i) {
    const int64_t at = i * 7919 % kSlices * 2;
    const std::string first = absl::StrCat(at + (i % 3 == 2 ? 1 : 0), ",1");
    const std::string second = absl::StrCat(at + (i % 3 == 0 ? 1 : 0), ",1");
    slices.push_back(i % 3 == 0   ? absl::StrCat("-:", second, ":", at, ",1")
                     : i % 3 == 1 ? absl::StrCat(at, ",1:-:", at + 1, ",1")
                                  : absl::StrCat(first, ":", at, ",1:-"));
  }
  bundle.AddSliced("t", kInt8, {2 * kSlices, 2 * kSlices, 2 * kSlices}, slices);
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  EXPECT_THAT(DamageIn(reader), Contains(StatusIs(Code::kResourceExhausted, HasSubstr("the limit is 16777216"))));
}

}  // namespace
}  // namespace tensorcask
