// Tensors of sizes around each threshold at which code takes another path: in every form in which a file can hold them,
// the library reads, verifies, measures, compares and converts the same elements.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/compare_archives.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/summarize.h"
#include "tensorcask/serialize/archive/tensor_blocks.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/v1_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

constexpr char kName[] = "m";  // formats of one tensor call it by the name of the file

// One of the forms in which files hold a tensor.
struct Form {
  const char* name;
  const char* format;
  PayloadLevel level = PayloadLevel::kStored;
  int pieces_of_v1 = 0;
};
const Form kForms[] = {{"V1", "checkpoint", PayloadLevel::kStored, 1},
                       {"V1InPieces", "checkpoint", PayloadLevel::kStored, 2},
                       {"Checkpoint", "checkpoint"},
                       {"EncodedCheckpoint", "checkpoint", PayloadLevel::kDefault},
                       {"Safetensors", "safetensors"},
                       {"Npy", "npy"},
                       {"Npz", "npz"},
                       {"DeflatedNpz", "npz", PayloadLevel::kDefault},
                       {"Records", "records"},
                       {"EncodedRecords", "records", PayloadLevel::kDefault},
                       {"Message", "tensorproto"},
                       {"EncodedMessage", "tensorproto", PayloadLevel::kDefault}};
const char* const kTargets[] = {"checkpoint", "safetensors", "npy", "npz", "records", "tensorproto"};

Tensor Numbers(int64_t count) {
  Tensor tensor = *Tensor::Create(DType::kFloat32, TensorShape({count}));
  float* const data = tensor.mutable_data<float>();
  for (int64_t i = 0; i < count; ++i) data[i] = static_cast<float>(i % 4099) - 2000;
  return tensor;
}

class Sizes : public ::testing::TestWithParam<Form> {
 protected:
  const ArchiveFormat& Format(absl::string_view name) { return **FindFormat(name, formats_.list()); }

  std::string NewPath(absl::string_view format) {
    const std::string extension = format == "checkpoint"    ? ""
                                  : format == "tensorproto" ? ".pb"
                                  : format == "records"     ? ".tfrecord"
                                                            : absl::StrCat(".", format);
    const std::string folder = folder_.Path(absl::StrCat(count_++));
    std::filesystem::create_directory(folder);
    return absl::StrCat(folder, "/", kName, extension);
  }

  std::string Write(const Form& form, const Tensor& tensor) {
    const std::string path = NewPath(form.format);
    if (form.pieces_of_v1 > 0) {
      testing::V1Content content;
      const int64_t first = tensor.num_elements() / 2;
      if (form.pieces_of_v1 == 1) {
        content.Add(kName, tensor);
      } else {
        content.Add(
            kName, tensor,
            {*TensorSlice::Create({{0, first}}), *TensorSlice::Create({{first, tensor.num_elements() - first}})});
      }
      std::ofstream(path, std::ios::binary) << testing::IndexOf(content.Finish());
      return path;
    }
    ArchiveWriterOptions options;
    options.level = form.level;
    const std::unique_ptr<ArchiveWriter> writer = *CreateArchive(path, Format(form.format), options);
    const DecodedTensor decoded = {tensor, {}};
    EXPECT_OK(writer->Declare(DescribeTensor(kName, decoded)));
    EXPECT_OK(writer->Add(DescribeTensor(kName, decoded), decoded));
    EXPECT_OK(writer->Finish());
    return path;
  }

  std::unique_ptr<ArchiveReader> Open(const std::string& path) {
    absl::StatusOr<std::unique_ptr<ArchiveReader>> reader = OpenArchive(path, formats_.list());
    EXPECT_OK(reader);
    return *std::move(reader);
  }

  void ExpectReads(const ArchiveReader& file, const Tensor& wanted);
  void ExpectMeasures(const ArchiveReader& file, const ArchiveReader& other, const Tensor& wanted);
  void ExpectConverts(const ArchiveReader& file, const Tensor& wanted);

  const AllFormats formats_;
  const testing::TempFolder folder_;
  int count_ = 0;
};

void Sizes::ExpectReads(const ArchiveReader& file, const Tensor& wanted) {
  ASSERT_OK_AND_ASSIGN(const TensorCounts counts,
                       file.VerifyAll([](const ArchiveDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_EQ(counts.whole, 1);
  ASSERT_OK_AND_ASSIGN(const Tensor whole, file.Read(kName));
  EXPECT_TRUE(whole.bytes() == wanted.bytes());
  const int64_t middle = wanted.num_elements() / 2;
  const TensorSlice slice = *TensorSlice::Create({{middle - 7, 15}});
  ASSERT_OK_AND_ASSIGN(const Tensor part, file.ReadSlice(kName, slice));
  EXPECT_EQ(part.bytes(), TensorView(wanted).Slice(slice)->Contiguous()->bytes());
  for (const uint64_t block_bytes : {uint64_t{256} << 10, uint64_t{1} << 20}) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<TensorBlocks> blocks, file.ReadBlocks(file.entries()[0], block_bytes));
    std::string all;
    while (true) {
      ASSERT_OK_AND_ASSIGN(const std::optional<TensorBlock> block, blocks->Next());
      if (!block.has_value()) break;
      absl::StrAppend(&all, block->elements.bytes());
    }
    EXPECT_TRUE(all == wanted.bytes()) << block_bytes;
  }
}

void Sizes::ExpectMeasures(const ArchiveReader& file, const ArchiveReader& other, const Tensor& wanted) {
  ASSERT_OK_AND_ASSIGN(const std::vector<TensorStatistics> measured, Summarize(file));
  ASSERT_EQ(measured.size(), 1u);
  EXPECT_OK(measured[0].status);
  EXPECT_EQ(measured[0].num_elements, static_cast<uint64_t>(wanted.num_elements()));
  EXPECT_EQ(measured[0].min, -2000);
  EXPECT_EQ(measured[0].max, 2098);
  for (const bool is_first : {true, false}) {
    ASSERT_OK_AND_ASSIGN(const CompareReport report, is_first ? Compare(file, other) : Compare(other, file));
    EXPECT_EQ(report.equal, 1);
    for (const TensorDifference& one : report.differences) ADD_FAILURE() << one.name << ": " << one.status;
  }
}

void Sizes::ExpectConverts(const ArchiveReader& file, const Tensor& wanted) {
  const ArchiveReader* const sources[] = {&file};
  // The largest take long: where blocks are copied to does not depend on the number of blocks.
  const bool is_large = wanted.bytes().size() > size_t{8} << 20;
  for (const char* const target : kTargets) {
    if (is_large && target != kTargets[wanted.num_elements() % 2]) continue;
    SCOPED_TRACE(absl::StrCat("to ", target));
    ASSERT_OK_AND_ASSIGN(const ConversionPlan plan, PlanConversion(sources, Format(target)));
    const std::string path = NewPath(target);
    ArchiveWriterOptions options;
    options.sync = false;
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveWriter> writer, CreateArchive(path, Format(target), options));
    ASSERT_OK(RunConversion(plan, {}, writer.get()));
    ASSERT_OK_AND_ASSIGN(const Tensor copy, Open(path)->Read(kName));
    EXPECT_TRUE(copy.bytes() == wanted.bytes());
    std::filesystem::remove_all(std::filesystem::path(path).parent_path());
  }
}

TEST_P(Sizes, AroundEachThresholdTheElementsStayTheSame) {
  for (const int64_t kib : {64, 256, 512, 1024, 16384}) {
    for (const int64_t more : {-1, 0, 1}) {
      const int64_t count = kib * 1024 / static_cast<int64_t>(sizeof(float)) + more;
      SCOPED_TRACE(absl::StrCat(count, " elements of float32"));
      const Tensor tensor = Numbers(count);
      const std::unique_ptr<ArchiveReader> file = Open(Write(GetParam(), tensor));
      const std::unique_ptr<ArchiveReader> other = Open(Write({"Reference", "safetensors"}, tensor));
      ExpectReads(*file, tensor);
      ExpectMeasures(*file, *other, tensor);
      ExpectConverts(*file, tensor);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, Sizes, ::testing::ValuesIn(kForms),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensorcask
