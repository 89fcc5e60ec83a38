// What a conversion replaces and removes, and what a dry run checks.

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/dtype_rule.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/save_load.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

class ConvertArchivesTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return absl::StrCat(folder_.path(), "/", name); }
  const ArchiveFormat& Format(const std::string& name) const { return **FindFormat(name, formats_.list()); }
  std::unique_ptr<ArchiveReader> Open(const std::string& path) const {
    absl::StatusOr<std::unique_ptr<ArchiveReader>> reader = OpenArchive(path, formats_.list());
    EXPECT_OK(reader.status());
    return *std::move(reader);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    FileSystem::Posix()->List(folder_.path(), &names);
    return names;
  }
  // A model of three files, with an index.
  void SaveModel() const {
    const Tensor values = Tensor::FromValues<float>({1, 2});
    std::vector<TensorToSave> tensors;
    for (const char* name : {"a", "b", "c"}) tensors.push_back({name, values, {}});
    SafetensorsFormatOptions shards;
    shards.max_shard_bytes = 8;
    ASSERT_OK(SaveTensors(Path("m.safetensors"), SafetensorsArchiveFormat(shards), tensors, {}).status());
  }
  absl::StatusOr<ConvertReport> Convert(const std::string& from, const std::string& to, const std::string& format,
                                        bool dry_run = false) const {
    const std::unique_ptr<ArchiveReader> source = Open(Path(from));
    const ArchiveReader* const sources[] = {source.get()};
    ConvertOptions options;
    options.dry_run = dry_run;
    ArchiveWriterOptions write;
    write.overwrite = true;
    return ConvertArchives(sources, Path(to), Format(format), options, write);
  }

  const AllFormats formats_;
  const TempFolder folder_;
};

// Three names of one tensor, of which two are aliases, and metadata.
std::string TiedFile() {
  const std::string header = R"({"__metadata__":{"format":"pt","head":"embed","top":"embed"},)"
                             R"("embed":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(8, '\0');
}

TEST_F(ConvertArchivesTest, SlotsOfTensorFlow1AreLeftOutByTheirNames) {
  const Tensor row = Tensor::FromValues<float>({1, 2});
  std::vector<TensorToSave> tensors;
  for (const char* name : {"Adam", "a/w", "a/w/Adam", "a/w/Adam_1", "b/Adam"}) tensors.push_back({name, row, {}});
  ASSERT_OK(SaveTensors(Path("old"), Format("checkpoint"), tensors, {}).status());
  const std::unique_ptr<ArchiveReader> source = Open(Path("old"));
  const ArchiveReader* const sources[] = {source.get()};
  ConvertOptions options;
  options.exclude_slots = true;
  ASSERT_OK_AND_ASSIGN(const ConvertReport report, ConvertArchives(sources, Path("slim.npz"), Format("npz"), options));
  EXPECT_EQ(report.tensors, 3);
  const std::unique_ptr<ArchiveReader> slim = Open(Path("slim.npz"));
  std::vector<std::string> names;
  for (const ArchiveEntry& entry : slim->entries()) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("Adam", "a/w", "b/Adam"));
  // An npz file does not say what a slot is.
  const ArchiveReader* const slims[] = {slim.get()};
  EXPECT_THAT(PlanConversion(slims, Format("npz"), options),
              StatusIs(Code::kInvalidArgument, HasSubstr("slim.npz: the format npz does not say which tensors")));
}

TEST_F(ConvertArchivesTest, ATieThatIsLostIsInTheReport) {
  std::ofstream(Path("tied.safetensors"), std::ios::binary) << TiedFile();
  const std::unique_ptr<ArchiveReader> source = Open(Path("tied.safetensors"));
  const ArchiveReader* const sources[] = {source.get()};
  const auto untied = [&](const std::vector<DTypeRule>& rules, const std::string& format) {
    ConvertOptions options;
    options.dtypes = rules;
    ArchiveWriterOptions write;
    write.overwrite = true;
    const absl::StatusOr<ConvertReport> report =
        ConvertArchives(sources, Path(absl::StrCat("out.", format)), Format(format), options, write);
    EXPECT_OK(report.status());
    std::vector<std::string> names;
    for (const ConvertLoss& loss : report->losses) {
      EXPECT_EQ(loss.kind, ConvertLoss::Kind::kUntied);
      EXPECT_THAT(loss.message, HasSubstr("shares the elements of \"embed\" and becomes a copy"));
      names.push_back(loss.tensor);
    }
    return names;
  };
  EXPECT_THAT(untied({}, "safetensors"), IsEmpty());
  EXPECT_THAT(untied({MakeDTypeRule("*", DType::kBfloat16)}, "safetensors"), IsEmpty());
  EXPECT_THAT(untied({MakeDTypeRule("h*", DType::kBfloat16)}, "safetensors"), ElementsAre("head"));
  EXPECT_THAT(untied({MakeDTypeRule("e*", DType::kBfloat16)}, "safetensors"), ElementsAre("head", "top"));
  EXPECT_THAT(untied({}, "npz"), ElementsAre("head", "top"));
}

TEST_F(ConvertArchivesTest, AKeyOfMetadataToRemoveIsInASource) {
  std::ofstream(Path("tied.safetensors"), std::ios::binary) << TiedFile();
  SaveModel();
  const std::unique_ptr<ArchiveReader> first = Open(Path("tied.safetensors"));
  const std::unique_ptr<ArchiveReader> second = Open(Path("m.safetensors.index.json"));
  const ArchiveReader* const sources[] = {second.get(), first.get()};
  ConvertOptions options;
  options.unset_metadata = {"fromat"};
  EXPECT_THAT(PlanConversion(sources, Format("safetensors"), options),
              StatusIs(Code::kNotFound, HasSubstr("there is no metadata \"fromat\"; did you mean \"format\"?")));
  options.unset_metadata = {"format"};
  EXPECT_OK(PlanConversion(sources, Format("safetensors"), options).status());
  options.set_metadata["format"] = "tf";
  EXPECT_THAT(PlanConversion(sources, Format("safetensors"), options),
              StatusIs(Code::kInvalidArgument, HasSubstr("both set and unset")));
}

TEST_F(ConvertArchivesTest, AShardIsNotConvertedOverItsModel) {
  SaveModel();
  const std::vector<std::string> before = Names();
  ASSERT_THAT(before, SizeIs(4));
  for (const char* target : {"m.safetensors", "m.safetensors.index.json"}) {
    for (const bool dry_run : {true, false}) {
      EXPECT_THAT(Convert("m-00001-of-00003.safetensors", target, "safetensors", dry_run),
                  StatusIs(Code::kFailedPrecondition, HasSubstr("this call reads it")));
      EXPECT_EQ(Names(), before);
    }
  }
}

TEST_F(ConvertArchivesTest, RunConversionHasTheSameGuard) {
  SaveModel();
  const std::vector<std::string> before = Names();
  const std::unique_ptr<ArchiveReader> source = Open(Path("m-00002-of-00003.safetensors"));
  const ArchiveReader* const sources[] = {source.get()};
  ASSERT_OK_AND_ASSIGN(const ConversionPlan plan, PlanConversion(sources, Format("safetensors")));
  ArchiveWriterOptions write;
  write.overwrite = true;
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveWriter> writer,
                         CreateArchive(Path("m.safetensors"), Format("safetensors"), write));
    EXPECT_THAT(RunConversion(plan, {}, writer.get()),
                StatusIs(Code::kFailedPrecondition, HasSubstr("this call reads it")));
  }
  EXPECT_EQ(Names(), before);
}

TEST_F(ConvertArchivesTest, TheReportSaysWhatIsRemoved) {
  SaveModel();
  const Tensor values = Tensor::FromValues<float>({3});
  ASSERT_OK(SaveTensors(Path("other.npz"), Format("npz"), {{"x", values, {}}}, {}).status());
  ASSERT_OK_AND_ASSIGN(const ConvertReport dry, Convert("other.npz", "m.safetensors", "safetensors", true));
  EXPECT_THAT(dry.removed, SizeIs(4));
  EXPECT_EQ(dry.tensors, 0);
  ASSERT_OK_AND_ASSIGN(const ConvertReport done, Convert("other.npz", "m.safetensors", "safetensors"));
  EXPECT_EQ(done.removed, dry.removed);
  EXPECT_EQ(done.tensors, 1);
  EXPECT_THAT(Names(), ElementsAre("m.safetensors", "other.npz"));
  ASSERT_OK_AND_ASSIGN(const ConvertReport again, Convert("other.npz", "m.safetensors", "safetensors"));
  EXPECT_THAT(again.removed, IsEmpty());
}

TEST_F(ConvertArchivesTest, WhatAnotherProgramSavedOverTheSourceStays) {
  const Tensor values = Tensor::FromValues<float>({3});
  for (const char* format : {"safetensors", "npz", "torch", "gguf"}) {
    for (const bool before : {true, false}) {
      SCOPED_TRACE(format);
      const std::string path = Path("m");
      const std::string content = "of another program";
      const auto save = [&] {
        std::ofstream(Path("new")) << content;
        FileSystem::Posix()->Rename(Path("new"), path, FileSystem::OnExisting::kReplace);
        return true;
      };
      ArchiveWriterOptions write;
      write.overwrite = true;
      ASSERT_OK(SaveTensors(path, Format(format), {{"w", values, {}}}, write).status());
      const std::unique_ptr<ArchiveReader> source = Open(path);
      const ArchiveReader* const sources[] = {source.get()};
      ConvertOptions options;
      if (before) save();
      if (!before) options.progress = [&](int64_t, uint64_t) { return save(); };
      EXPECT_THAT(ConvertArchives(sources, path, Format(format), options, write),
                  StatusIs(Code::kAborted, HasSubstr("was replaced by another writer")));
      std::ifstream file(path);
      EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), content);
    }
  }
}

TEST_F(ConvertArchivesTest, CopiesOfOneTensorHaveABound) {
  std::string header = R"({"__metadata__":{"format":"pt")";
  for (int i = 0; i < 1100; ++i) absl::StrAppend(&header, R"(,"v)", i, R"(":"w")");
  absl::StrAppend(&header, R"(},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})");
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size() & 0xff);
  length[1] = static_cast<char>(header.size() >> 8);
  std::ofstream(Path("m.safetensors")) << length << header << std::string(8, 'x');
  EXPECT_THAT(Convert("m.safetensors", "m.npz", "npz"), StatusIs(Code::kResourceExhausted, HasSubstr("8800 bytes")));
  ASSERT_OK_AND_ASSIGN(const ConvertReport tied, Convert("m.safetensors", "n.safetensors", "safetensors"));
  EXPECT_EQ(tied.tensors, 1101);
}

TEST_F(ConvertArchivesTest, ADryRunWritesNothingAndRefusesWhatTheRealOneRefuses) {
  const Tensor values = Tensor::FromValues<float>({3});
  ASSERT_OK(SaveTensors(Path("names.npz"), Format("npz"), {{"__metadata__", values, {}}}, {}).status());
  ASSERT_OK(SaveTensors(Path("plain.npz"), Format("npz"), {{"w", values, {}}}, {}).status());
  for (const bool dry_run : {true, false}) {
    EXPECT_THAT(Convert("names.npz", "m.safetensors", "safetensors", dry_run),
                StatusIs(Code::kInvalidArgument, HasSubstr("__metadata__")));
    for (const char* format : {"safetensors", "npz", "npy", "records", "tensorproto"}) {
      EXPECT_THAT(Convert("plain.npz", "missing/m", format, dry_run),
                  StatusIs(Code::kNotFound, HasSubstr("there is no folder")))
          << format;
    }
    EXPECT_THAT(Convert("plain.npz", "missing/deep/m", "checkpoint", dry_run), StatusIs(Code::kNotFound));
  }
  ASSERT_OK(Convert("plain.npz", "made/m", "checkpoint", true).status());
  EXPECT_THAT(Names(), ElementsAre("names.npz", "plain.npz"));
}

}  // namespace
}  // namespace tensorcask
