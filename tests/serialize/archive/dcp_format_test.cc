// Distributed checkpoints among all formats: folders of .distcp files, and of safetensors files with parts of tensors.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/safetensors/sharding_info.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/torch/dcp_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using testing::StatusIs;
using testing::TempFolder;
using ::testing::UnorderedElementsAre;
using Code = absl::StatusCode;

const AllFormats& Formats() {
  static const auto* const formats = new AllFormats();
  return *formats;
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path) {
  return OpenArchive(path, Formats().list());
}

std::string Bytes(const std::vector<float>& numbers) {
  std::string bytes;
  for (const float number : numbers) bytes += torch::testing::Bytes(number);
  return bytes;
}

std::vector<float> Numbers(const absl::StatusOr<Tensor>& tensor) {
  if (!tensor.ok()) {
    ADD_FAILURE() << tensor.status();
    return {};
  }
  return std::vector<float>(tensor->data<float>(), tensor->data<float>() + tensor->num_elements());
}

torch::testing::DcpBuilder Checkpoint() {
  torch::testing::DcpBuilder builder;
  builder.AddTensor("rows", "float32", {3, 1}, {{{0, 0}, {2, 1}}, {{2, 0}, {1, 1}, "__1_0.distcp"}}, Bytes({0, 1, 2}));
  builder.AddTensor("columns", "float32", {1, 3}, {{{0, 1}, {1, 2}}, {{0, 0}, {1, 1}, "__1_0.distcp"}},
                    Bytes({1, 2, 0}));
  builder.AddValue("epoch", torch::testing::Int(3));
  return builder;
}

TEST(DcpFormatTest, AFolderIsAnArchive) {
  const TempFolder folder;
  Checkpoint().WriteTo(folder);
  folder.Write("common.pt", torch::testing::TorchZip(torch::testing::Int(1), {}));  // a file of another format
  for (const std::string& path : {folder.path(), folder.Path(".metadata")}) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> archive, Open(path));
    EXPECT_EQ(archive->format(), "dcp");
    EXPECT_EQ(archive->num_shards(), 3);
    EXPECT_EQ((*archive->Find("rows"))->pieces, 2);
    ASSERT_OK_AND_ASSIGN(const TensorCounts counts,
                         archive->VerifyAll([](const ArchiveDamage& damage) { ADD_FAILURE() << damage.status; }));
    EXPECT_EQ(counts.whole, 2);
    const std::string to = folder.Path("to.safetensors");
    ASSERT_OK_AND_ASSIGN(const ArchiveFormat* const format, FindFormat("safetensors", Formats().list()));
    ArchiveWriterOptions write;
    write.overwrite = true;
    ASSERT_OK(ConvertArchives({archive.get()}, to, *format, {}, write).status());
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> converted, Open(to));
    EXPECT_THAT(Numbers(converted->Read("rows")), ElementsAre(0, 1, 2));
    EXPECT_THAT(Numbers(converted->Read("columns")), ElementsAre(0, 1, 2));
    std::filesystem::remove(to);
  }
}

// A conversion reads in blocks: it compares the checksums all the same.
TEST(DcpFormatTest, AConversionFindsDamage) {
  constexpr float kRow = 1234.5f;
  constexpr float kColumn = 5432.25f;
  for (const float changed : {kRow, kColumn}) {
    const TempFolder folder;
    torch::testing::DcpBuilder builder;
    builder.AddTensor("w", "float32", {2, 1}, {{{0, 0}, {1, 1}}, {{1, 0}, {1, 1}}}, Bytes({0, kRow}));
    builder.AddTensor("columns", "float32", {1, 2}, {{{0, 0}, {1, 1}}, {{0, 1}, {1, 1}}}, Bytes({0, kColumn}));
    std::string& file = builder.files["__0_0.distcp"];
    const size_t element = file.find(Bytes({changed}));
    ASSERT_NE(element, std::string::npos);
    file[element] = static_cast<char>(file[element] ^ 1);
    builder.WriteTo(folder);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> archive, Open(folder.path()));
    ASSERT_OK_AND_ASSIGN(const ArchiveFormat* const format, FindFormat("safetensors", Formats().list()));
    EXPECT_THAT(ConvertArchives({archive.get()}, folder.Path("to.safetensors"), *format),
                StatusIs(Code::kDataLoss, HasSubstr(changed == kRow ? "tensor \"w\"" : "tensor \"columns\"")));
  }
}

TEST(DcpFormatTest, WhatIsNotACheckpoint) {
  const TempFolder folder;
  Checkpoint().WriteTo(folder);
  EXPECT_THAT(Open(folder.Path("__0_0.distcp")), StatusIs(Code::kInvalidArgument, HasSubstr("is a folder")));
  std::filesystem::remove(folder.Path(".metadata"));
  EXPECT_THAT(Open(folder.path()), StatusIs(Code::kDataLoss, HasSubstr("is not finished")));
}

// ---- Parts in files of safetensors ----------------------------------------------------------------------------------

struct Part {
  std::string name;
  std::string offsets;  // JSON; "": the file does not say it
  std::string shape;
  std::vector<float> elements;
};

// `more`: other metadata, JSON.
std::string ShardFile(const std::vector<Part>& parts, const std::string& more = "") {
  std::string info;
  std::string tensors;
  std::string data;
  for (const Part& part : parts) {
    if (!part.offsets.empty()) {
      absl::StrAppend(&info, info.empty() ? "" : ", ", "\\\"", part.name,
                      "\\\": {\\\"saved_offsets\\\": ", part.offsets, "}");
    }
    const size_t begin = data.size();
    data += Bytes(part.elements);
    absl::StrAppend(&tensors, ",\"", part.name, "\":{\"dtype\":\"F32\",\"shape\":", part.shape, ",\"data_offsets\":[",
                    begin, ",", data.size(), "]}");
  }
  std::string header = absl::StrCat("{\"__metadata__\":{\"format\":\"pt\",", more, "\"DCP_SHARDING_INFO\":\"{", info,
                                    "}\"}", tensors, "}");
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return absl::StrCat(torch::testing::Bytes(static_cast<uint64_t>(header.size())), header, data);
}

const char kFirst[] = "shard-00001-model-00001-of-00001.safetensors";
const char kSecond[] = "shard-00002-model-00001-of-00001.safetensors";

TEST(DcpFormatTest, PartsInSafetensorsAreJoined) {
  const TempFolder folder;
  folder.Write(kFirst, ShardFile({{"rows", "[0, 0]", "[2,1]", {0, 1}}, {"columns", "[0, 1]", "[1,2]", {1, 2}}}));
  folder.Write(
      kSecond,
      ShardFile({{"rows", "[2, 0]", "[1,1]", {2}}, {"columns", "[0, 0]", "[1,1]", {0}}, {"scalar", "[]", "[]", {7}}}));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> archive, Open(folder.path()));
  EXPECT_EQ(archive->format(), "dcp");
  EXPECT_EQ((*archive->Find("rows"))->shape, TensorShape({3, 1}));
  EXPECT_THAT(Numbers(archive->Read("rows")), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(archive->Read("columns")), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(archive->Read("scalar")), ElementsAre(7));
  EXPECT_THAT(Numbers(archive->ReadSlice("columns", *TensorSlice::Parse("-:0,2"))), ElementsAre(0, 1));
  ASSERT_OK_AND_ASSIGN(const TensorCounts counts,
                       archive->VerifyAll([](const ArchiveDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_EQ(counts.whole, 3);
}

TEST(DcpFormatTest, JoinedPartsHaveTheMetadataOfAllFiles) {
  const TempFolder folder;
  folder.Write(kFirst, ShardFile({{"w", "[0]", "[1]", {0}}}, R"("author":"me","step":"1","license":"x",)"));
  folder.Write(kSecond, ShardFile({{"w", "[1]", "[1]", {1}}}, R"("step":"2","license":"x",)"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> archive, Open(folder.path()));
  EXPECT_THAT(archive->file_metadata(),
              UnorderedElementsAre(Pair("author", "me"), Pair("format", "pt"), Pair("license", "x")));
  EXPECT_THAT(archive->notes(), ElementsAre(HasSubstr("differ in the metadata \"step\"")));
  ASSERT_OK_AND_ASSIGN(const ArchiveFormat* const format, FindFormat("safetensors", Formats().list()));
  ASSERT_OK(ConvertArchives({archive.get()}, folder.Path("to.safetensors"), *format));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> converted, Open(folder.Path("to.safetensors")));
  EXPECT_EQ(converted->file_metadata().at("author"), "me");
}

// A number may have files of some shards only.
TEST(DcpFormatTest, FilesThatNoShardHasAreMissing) {
  const TempFolder folder;
  folder.Write("shard-00001-model-00001-of-00003.safetensors", ShardFile({{"w", "[0]", "[1]", {0}}}));
  folder.Write("shard-00002-model-00001-of-00003.safetensors", ShardFile({{"w", "[1]", "[1]", {1}}}));
  folder.Write("shard-00002-model-00003-of-00003.safetensors", ShardFile({{"v", "[0]", "[1]", {2}}}));
  const auto is_named = HasSubstr("1 file is missing: shard-*-model-00002-of-00003.safetensors");
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> archive, Open(folder.path()));
  EXPECT_THAT(archive->notes(), ElementsAre(is_named));
  EXPECT_THAT(Numbers(archive->Read("w")), ElementsAre(0, 1));
  std::vector<std::string> reported;
  ASSERT_OK_AND_ASSIGN(const TensorCounts counts, archive->VerifyAll([&](const ArchiveDamage& damage) {
    reported.emplace_back(damage.status.message());
  }));
  EXPECT_THAT(reported, ElementsAre(is_named));
  EXPECT_EQ(counts.damaged_elsewhere, 1);
  EXPECT_EQ(counts.whole, 2);
  folder.Write("shard-00001-model-00002-of-00003.safetensors", ShardFile({{"u", "[0]", "[1]", {3}}}));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> whole, Open(folder.path()));
  EXPECT_THAT(whole->notes(), ElementsAre());
}

TEST(DcpFormatTest, AFileOfPartsAloneSaysSo) {
  const TempFolder folder;
  folder.Write(kFirst, ShardFile({{"rows", "[0, 0]", "[2,1]", {0, 1}}}));
  folder.Write(kSecond, ShardFile({{"rows", "[2, 0]", "[1,1]", {2}}}));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> part, Open(folder.Path(kFirst)));
  EXPECT_EQ(part->format(), "safetensors");
  EXPECT_THAT(part->notes(), ElementsAre(HasSubstr("may be parts of tensors")));
  ASSERT_OK_AND_ASSIGN(const TensorCounts counts,
                       part->VerifyAll([](const ArchiveDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_THAT(counts.notes, Contains(HasSubstr("may be parts of tensors")));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> whole, Open(folder.path()));
  EXPECT_THAT(whole->notes(), ElementsAre());
  ASSERT_OK_AND_ASSIGN(const TensorCounts of_whole,
                       whole->VerifyAll([](const ArchiveDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_THAT(of_whole.notes, Not(Contains(HasSubstr("may be parts of tensors"))));
  // The joined tensors are whole, and a copy of them does not call them parts.
  EXPECT_EQ(whole->file_metadata().count(std::string(safetensors::kShardingInfoKey)), 0u);
}

TEST(DcpFormatTest, PartsThatDoNotFitHideTheirTensorAlone) {
  const TempFolder folder;
  folder.Write(kFirst, ShardFile({{"good", "[0]", "[1]", {5}},
                                  {"hole", "[0]", "[1]", {0}},
                                  {"overlap", "[0]", "[2]", {0, 1}},
                                  {"rank", "[0]", "[1]", {0}},
                                  {"silent", "", "[1]", {0}},
                                  {"huge", "[9223372036854775807]", "[1]", {0}}}));
  folder.Write(
      kSecond,
      ShardFile({{"hole", "[2]", "[1]", {2}}, {"overlap", "[1]", "[2]", {1, 2}}, {"rank", "[0, 1]", "[1,1]", {0}}}));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> archive, Open(folder.path()));
  EXPECT_THAT(Numbers(archive->Read("good")), ElementsAre(5));
  EXPECT_THAT(archive->Read("hole"), StatusIs(Code::kDataLoss, HasSubstr("element [1] is in no box")));
  EXPECT_THAT(archive->Read("overlap"), StatusIs(Code::kDataLoss, HasSubstr("element [1] is in 2 boxes")));
  EXPECT_THAT(archive->Read("rank"), StatusIs(Code::kDataLoss, HasSubstr("different ranks")));
  EXPECT_THAT(archive->Read("silent"), StatusIs(Code::kDataLoss, HasSubstr("does not say which part")));
  EXPECT_THAT(archive->Read("huge"), StatusIs(Code::kDataLoss, HasSubstr("64 bits")));
  int damaged = 0;
  ASSERT_OK_AND_ASSIGN(const TensorCounts counts,
                       archive->VerifyAll([&](const ArchiveDamage& /*damage*/) { ++damaged; }));
  EXPECT_EQ(damaged, 5);
  EXPECT_EQ(counts.damaged, 5);
  EXPECT_EQ(counts.whole, 1);
}

TEST(DcpFormatTest, PartsThatDivideMoreAxesThanCanBeCheckedAreNotDamaged) {
  const auto list = [](absl::string_view number) {
    return absl::StrCat("[", absl::StrJoin(std::vector<absl::string_view>(9, number), ","), "]");
  };
  const TempFolder folder;
  folder.Write(kFirst, ShardFile({{"good", "[0]", "[1]", {5}}, {"many", list("0"), list("1"), {0}}}));
  folder.Write(kSecond, ShardFile({{"many", list("1"), list("1"), {1}}}));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> archive, Open(folder.path()));
  EXPECT_THAT(Numbers(archive->Read("good")), ElementsAre(5));
  EXPECT_THAT(archive->Read("many"), StatusIs(Code::kResourceExhausted, HasSubstr("divide 9 axes")));
  std::vector<std::string> reported;
  ASSERT_OK_AND_ASSIGN(const TensorCounts counts,
                       archive->VerifyAll([&](const ArchiveDamage& damage) { reported.push_back(damage.tensor); }));
  EXPECT_THAT(reported, ElementsAre("many"));
  EXPECT_EQ(counts.past_limit, 1);
  EXPECT_EQ(counts.damaged, 0);
  EXPECT_EQ(counts.whole, 1);
}

TEST(DcpFormatTest, ShardingInfoIsChecked) {
  ASSERT_OK_AND_ASSIGN(
      const safetensors::ShardingInfo info,
      safetensors::ParseShardingInfo(
          R"({"w": {"more": {"a": [1, {"b": 2}]}, "saved_offsets": [4, 0]}, "s": {"saved_offsets": []}})",
          DecodeLimits()));
  EXPECT_THAT(info.at("w"), ElementsAre(4, 0));
  EXPECT_THAT(info.at("s"), ElementsAre());
  for (const char* const text :
       {"", "[]", "7", "{\"w\": 1}", "{\"w\": {}}", "{\"w\": {\"saved_offsets\": 1}}", "{\"w\": [1]}",
        "{\"w\": {\"saved_offsets\": [-1]}}", "{\"w\": {\"saved_offsets\": [1.5]}}",
        "{\"w\": {\"saved_offsets\": [18446744073709551615]}}", "{\"w\": {\"saved_offsets\": [[1]]}}",
        "{\"w\": {\"saved_offsets\": [\"1\"]}}", "{\"w\": {\"saved_offsets\": [1], \"saved_offsets\": [2]}}",
        "{\"w\": {\"saved_offsets\": [1]}, \"w\": {\"saved_offsets\": [1]}}"}) {
    EXPECT_THAT(safetensors::ParseShardingInfo(text, DecodeLimits()), StatusIs(Code::kDataLoss)) << text;
  }
}

}  // namespace
}  // namespace tensorcask
