// The memory of lists: every format charges a budget that readers share, and the tensors of a stream are kept by name.

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/formats/records_format.h"
#include "tensorcask/serialize/io/byte_stream.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/torch/dcp_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using testing::TempFolder;
using Code = absl::StatusCode;

// Tensors with their numbers as elements, in this order.
absl::Status Save(const std::string& path, const ArchiveFormat& format, const std::vector<std::string>& names,
                  const std::vector<TensorMetadata>& metadata = {}) {
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> writer = CreateArchive(path, format, {});
  if (!writer.ok()) return writer.status();
  std::vector<ArchiveEntry> entries;
  for (const std::string& name : names) {
    entries.emplace_back();
    entries.back().name = name;
    entries.back().dtype = DType::kInt32;
    entries.back().shape = TensorShape({2});
    EXPECT_OK((*writer)->Declare(entries.back()));
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    Tensor tensor = *Tensor::Zeros(DType::kInt32, TensorShape({2}));
    tensor.mutable_flat<int32_t>()[0] = static_cast<int32_t>(i);
    DecodedTensor decoded;
    decoded.view = tensor;
    if (i < metadata.size()) decoded.metadata = metadata[i];
    EXPECT_OK((*writer)->Add(entries[i], decoded));
  }
  return (*writer)->Finish();
}

std::shared_ptr<ListingBudget> BudgetOf(int64_t bytes) {
  DecodeLimits limits;
  limits.max_memory_beyond_input = bytes;
  return std::make_shared<ListingBudget>(limits, /*bytes_per_index_byte=*/0);
}

// A file with several tensors of a format that is only read, or made of another file; "" for other formats.
std::string FileOf(const ArchiveFormat& format) {
  const std::map<absl::string_view, std::string> files = {
      {"hdf5", "tests/fuzz/corpus/hdf5/chunks"},
      {"onnx", "tests/fuzz/corpus/onnx/model"},
      {"torch", "tests/fuzz/corpus/torch_file/zip"},
  };
  const auto found = files.find(format.name());
  return found != files.end() ? found->second : "";
}

// A format that comes later is tested, too: whatever holds many tensors.
TEST(ListingBudget, IsChargedByEveryFormatAndSharedByReaders) {
  const AllFormats formats;
  int tested = 0;
  for (const ArchiveFormat* const format : formats.list()) {
    if (!format->traits().many_tensors) continue;
    SCOPED_TRACE(std::string(format->name()));
    const TempFolder folder;
    std::string path = FileOf(*format);
    if (format->name() == "dcp") {
      torch::testing::DcpBuilder builder;
      for (const char* const name : {"a", "b", "c"}) {
        builder.AddTensor(name, "float32", {1}, {{{0}, {1}}}, torch::testing::Bytes(1.0F));
      }
      builder.WriteTo(folder);
      path = folder.path();
    } else if (path.empty()) {
      path = folder.Path(format->traits().is_prefix ? "m" : absl::StrCat("m", format->extensions()[0]));
      ASSERT_OK(Save(path, *format, {"a", "b", "c"}));
    }
    ArchiveReaderOptions options;
    options.format = std::string(format->name());
    options.listing = BudgetOf(100);
    EXPECT_THAT(OpenArchive(path, formats.list(), options),
                StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
    int64_t enough = 128;
    for (options.listing = BudgetOf(enough); !OpenArchive(path, formats.list(), options).ok(); enough *= 2) {
      ASSERT_LT(enough, 1 << 20);
      options.listing = BudgetOf(2 * enough);
    }
    options.listing = BudgetOf(enough);
    EXPECT_OK(OpenArchive(path, formats.list(), options));
    EXPECT_THAT(OpenArchive(path, formats.list(), options),
                StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
    ++tested;
  }
  EXPECT_GE(tested, 4);
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> Stream(const std::string& path, uint64_t max_bytes = UINT64_MAX) {
  const int file = open(path.c_str(), O_RDONLY);
  absl::StatusOr<std::unique_ptr<ArchiveReader>> read =
      ReadRecordStream(MakeDescriptorStream(file, "stream", [] { return true; }), {}, max_bytes);
  close(file);
  return read;
}

TEST(RecordStream, KeepsEachTensorUnderItsName) {
  const TempFolder folder;
  const std::string path = folder.Path("m.tfrecord");
  const std::vector<std::string> names = {"d", "a", "f", "c", "b", "e"};
  std::vector<TensorMetadata> metadata(names.size());
  metadata[2].attributes["k"] = "v";
  ASSERT_OK(Save(path, RecordsArchiveFormat(), names, metadata));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, Stream(path));
  ASSERT_EQ(reader->entries().size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) {
      EXPECT_LT(reader->entries()[i - 1].name, reader->entries()[i].name);
    }
    ASSERT_OK_AND_ASSIGN(const DecodedTensor tensor, reader->ReadWithMetadata(names[i]));
    EXPECT_EQ(tensor.view.data<int32_t>()[0], static_cast<int32_t>(i)) << names[i];
    EXPECT_EQ(tensor.metadata.attributes.size(), metadata[i].attributes.size()) << names[i];
  }
}

TEST(RecordStream, RefusesMoreBytesThanItMayRead) {
  const TempFolder folder;
  const std::string path = folder.Path("m.tfrecord");
  ASSERT_OK(Save(path, RecordsArchiveFormat(), {"a", "b"}));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, Stream(path));
  constexpr uint64_t kFrameBytes = 16;  // the frame of a record, which the limit does not count
  uint64_t bytes = 0;
  for (const ArchiveEntry& entry : reader->entries()) bytes += entry.stored_bytes - kFrameBytes;
  EXPECT_OK(Stream(path, bytes));
  EXPECT_THAT(Stream(path, bytes - 1), StatusIs(Code::kResourceExhausted, HasSubstr("max_total_bytes")));
}

}  // namespace
}  // namespace tensorcask
