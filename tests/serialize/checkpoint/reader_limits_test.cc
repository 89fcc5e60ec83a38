// The limits of DecodeLimits on opening and reading a checkpoint.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/forge.h"
#include "tensorcask/tests/serialize/checkpoint/reader_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::EntryOf;
using ::tensorcask::testing::ForgeBlock;
using ::tensorcask::testing::ForgedEntry;
using ::tensorcask::testing::kFloat;
using ::tensorcask::testing::OpenIn;
using ::tensorcask::testing::SampleTensors;
using ::tensorcask::testing::Save;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TableForge;
using ::tensorcask::testing::WriteTo;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

TEST(ReaderLimits, AreKept) {
  MemoryFileSystem files;
  ASSERT_OK(Save("/m", SampleTensors(1), WriteTo(&files)));
  CheckpointReaderOptions options;
  {
    options.limits = DecodeLimits();
    options.limits.max_entries = 5;
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m", options));
    EXPECT_THAT(reader.entries(), StatusIs(Code::kResourceExhausted, HasSubstr("max_entries is 5")));
  }
  {
    options.limits = DecodeLimits();
    options.limits.max_name_bytes = 10;
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m", options));
    EXPECT_THAT(reader.entries(), StatusIs(Code::kResourceExhausted, HasSubstr("max_name_bytes is 10")));
    EXPECT_OK(reader.Read("step"));
  }
  {
    ASSERT_OK(Save("/big",
                   {{"w", *Tensor::Zeros(DType::kUint8, TensorShape({5000}))},
                    {"s", *Tensor::Create(DType::kString, TensorShape({100}))}},
                   WriteTo(&files)));
    options.limits = DecodeLimits();
    options.limits.max_file_decoded_bytes = 3000;
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/big", options));
    EXPECT_THAT(reader.Read("w"), StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes is 3000")));
    EXPECT_THAT(reader.Read("s"), StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes is 3000")));
    Tensor strings = *Tensor::Create(DType::kString, TensorShape({100}));
    EXPECT_THAT(reader.ReadInto("s", &strings),
                StatusIs(Code::kResourceExhausted, HasSubstr("tensor \"s\" at offset")));
    EXPECT_OK(reader.Map("w"));  // decodes nothing
    // One that is too large to look at does not keep the others from being looked at.
    std::vector<std::string> damaged;
    ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts,
                         reader.VerifyAll([&](const CheckpointDamage& damage) { damaged.push_back(damage.tensor); }));
    EXPECT_EQ(counts.whole, 1);
    EXPECT_THAT(damaged, ElementsAre("s"));
  }
}

// Names that share all but their ends: 2,000 of 60 KiB in a file of 100 KiB.
TEST(ReaderLimits, BoundNamesThatShareTheirBeginnings) {
  using tensorcask::testing::ForgedEntry;
  const std::string entry = EntryOf(kFloat, {0}, "").SerializeAsString();
  std::vector<ForgedEntry> entries = {{0, "", "\x08\x01"}, {0, std::string(60000, 'n'), entry}};
  for (uint32_t i = 0; i < 2000; ++i) {
    const char end[] = {static_cast<char>(1 + i / 200), static_cast<char>(1 + i % 200)};
    entries.push_back({60000, std::string(end, 2), entry});
  }
  tensorcask::testing::TableForge forge;
  const auto block = forge.Block(tensorcask::testing::ForgeBlock(entries));
  MemoryFileSystem files;
  files.Put("/m.index", forge.Finish({{"z", block}}));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  EXPECT_THAT(reader.entries(), StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
  EXPECT_OK(reader.Find(std::string(60000, 'n')));
}

}  // namespace
}  // namespace tensorcask
