// Tensors that cross in blocks: the same files as whole tensors make, and no file from a damaged source.

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
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
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/compare_archives.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/formats/internal/slice_order.h"
#include "tensorcask/serialize/archive/tensor_blocks.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr uint64_t kBlockBytes = uint64_t{1} << 20;
constexpr char kName[] = "m";  // also the tensor in formats of one tensor: it is that of the file

std::string Extension(absl::string_view format) {
  if (format == "checkpoint") return "";
  if (format == "tensorproto") return ".pb";
  return format == "records" ? ".tfrecord" : absl::StrCat(".", format);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> Files(absl::string_view format, const std::string& path) {
  if (format != "checkpoint") return {path};
  return {path + ".index", path + ".data-00000-of-00001"};
}

// Some MB: above kLargeMessageBytes, and no multiple of a block.
Tensor Large(DType dtype) {
  Tensor tensor = *Tensor::Create(dtype, TensorShape({5, dtype == DType::kBool ? 900001 : 300001}));
  uint32_t state = 1;
  for (char& byte : tensor.mutable_bytes()) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<char>(dtype == DType::kBool ? state >> 31 : state >> 24);
  }
  return tensor;
}

ArchiveEntry EntryOf(const std::string& name, const Tensor& tensor) {
  ArchiveEntry entry;
  entry.name = name;
  entry.dtype = tensor.dtype();
  entry.shape = tensor.shape();
  return entry;
}

class Blocks : public ::testing::Test {
 protected:
  const ArchiveFormat& Format(absl::string_view name) { return **FindFormat(name, formats_.list()); }
  // A file "m" in a folder of its own.
  std::string NewPath(absl::string_view format) {
    const std::string folder = folder_.Path(absl::StrCat(count_++));
    EXPECT_EQ(mkdir(folder.c_str(), 0777), 0);
    return absl::StrCat(folder, "/", kName, Extension(format));
  }
  // A file with `tensor`, added as a whole, and in formats of many tensors a small one after it.
  std::string Write(absl::string_view format, const Tensor& tensor, const TensorMetadata& metadata = {}) {
    const std::string path = NewPath(format);
    const std::unique_ptr<ArchiveWriter> writer = *CreateArchive(path, Format(format));
    std::vector<std::pair<std::string, Tensor>> tensors = {{kName, tensor}};
    if (Format(format).traits().many_tensors) {
      tensors.push_back({"small", *Tensor::Zeros(tensor.dtype(), TensorShape({3}))});
    }
    for (const auto& [name, one] : tensors) EXPECT_OK(writer->Declare(EntryOf(name, one)));
    for (const auto& [name, one] : tensors) {
      DecodedTensor decoded;
      decoded.view = one;
      if (name == kName) decoded.metadata = metadata;
      EXPECT_OK(writer->Add(EntryOf(name, one), decoded));
    }
    EXPECT_OK(writer->Finish());
    return path;
  }
  absl::Status ConvertTo(const std::string& from, absl::string_view format, const std::string& to, int num_threads) {
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> source, OpenArchive(from, formats_.list()));
    ConvertOptions options;
    options.block_bytes = kBlockBytes;
    options.num_threads = num_threads;
    if (!Format(format).traits().many_tensors) options.include = {kName};
    const ArchiveReader* const sources[] = {source.get()};
    CASK_ASSIGN_OR_RETURN(const ConversionPlan plan, PlanConversion(sources, Format(format), options));
    EXPECT_TRUE((*source->Find(kName))->reads_in_blocks);
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveWriter> writer, CreateArchive(to, Format(format)));
    EXPECT_TRUE(writer->writes_in_blocks(plan.items[0].to()));
    return RunConversion(plan, options, writer.get()).status();
  }

  const AllFormats formats_;
  const TempFolder folder_;
  int count_ = 0;
};

const char* const kFormats[] = {"checkpoint", "safetensors", "npy", "npz", "records", "tensorproto"};

TEST_F(Blocks, EachPairOfFormatsMakesTheBytesOfWholeTensors) {
  for (const DType dtype : {DType::kFloat32, DType::kBool}) {
    const Tensor tensor = Large(dtype);
    for (const char* const from : kFormats) {
      const std::string source = Write(from, tensor);
      for (const char* const to : kFormats) {
        SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " from ", from, " to ", to));
        const bool has_small = Format(from).traits().many_tensors;
        if (!has_small && Format(to).traits().many_tensors) continue;  // the file of `Write` has another tensor more
        const std::string whole = Write(to, tensor);
        const std::string path = NewPath(to);
        ASSERT_OK(ConvertTo(source, to, path, 1 + (to[0] + from[0]) % 3));
        const std::vector<std::string> wanted = Files(to, whole);
        const std::vector<std::string> found = Files(to, path);
        for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(ReadFile(found[i]) == ReadFile(wanted[i])) << found[i];
      }
    }
  }
}

TEST_F(Blocks, KeepMetadataOfMessages) {
  TensorMetadata metadata;
  metadata.attributes["unit"] = "m";
  const Tensor tensor = Large(DType::kFloat32);
  for (const char* const from : {"checkpoint", "records", "tensorproto"}) {
    const std::string source = Write(from, tensor, metadata);
    for (const char* const to : {"checkpoint", "records", "tensorproto"}) {
      SCOPED_TRACE(absl::StrCat("from ", from, " to ", to));
      const std::string path = NewPath(to);
      ASSERT_OK(ConvertTo(source, to, path, 2));
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, OpenArchive(path, formats_.list()));
      EXPECT_TRUE((*reader->Find(kName))->has_metadata);
      ASSERT_OK_AND_ASSIGN(const TensorMetadata read, reader->Metadata(kName));
      EXPECT_EQ(read, metadata);
      ASSERT_OK_AND_ASSIGN(const DecodedTensor whole, reader->ReadWithMetadata(kName));
      EXPECT_EQ(whole.metadata, metadata);
      EXPECT_TRUE(whole.view.bytes() == tensor.bytes());
    }
  }
}

void ChangeByte(const std::string& path, int64_t offset) {  // from the end if it is negative
  FILE* const file = fopen(path.c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  fseek(file, offset, offset < 0 ? SEEK_END : SEEK_SET);
  const int byte = fgetc(file);
  fseek(file, -1, SEEK_CUR);
  fputc(byte ^ 0x40, file);
  fclose(file);
}

// Wherever the damage is, the conversion fails and leaves no file.
TEST_F(Blocks, ADamagedRecordIsAnError) {
  const Tensor tensor = Large(DType::kFloat32);
  const auto bytes = static_cast<int64_t>(tensor.bytes().size());
  for (const int64_t offset : {int64_t{0}, int64_t{9}, int64_t{14}, int64_t{100}, bytes / 2, bytes + 20, bytes + 30}) {
    for (const int num_threads : {1, 2}) {
      SCOPED_TRACE(absl::StrCat("byte ", offset));
      const std::string source = Write("records", tensor);
      ChangeByte(source, offset);
      const std::string path = NewPath("checkpoint");
      const absl::StatusOr<std::unique_ptr<ArchiveReader>> reader = OpenArchive(source, formats_.list());
      if (offset == 0 || offset == 9) {  // the header of the record
        EXPECT_FALSE(reader.ok());
        continue;
      }
      if (reader.ok() && (*reader)->Find(kName).ok()) {
        EXPECT_THAT(ConvertTo(source, "checkpoint", path, num_threads),
                    StatusIs(Code::kDataLoss, HasSubstr("m.tfrecord: record at 0: the checksum of its data is ")));
        EXPECT_THAT((*reader)->Read(kName).status(), StatusIs(Code::kDataLoss, HasSubstr("the checksum of its data")));
      }
      for (const std::string& file : Files("checkpoint", path)) EXPECT_NE(access(file.c_str(), F_OK), 0) << file;
    }
  }
}

TEST_F(Blocks, AFileThatIsCutShortIsAnError) {
  for (const char* const format : {"records", "tensorproto"}) {
    const std::string source = Write(format, Large(DType::kFloat32));
    for (const int64_t left : {int64_t{5} << 20, int64_t{2} << 20, int64_t{100}, int64_t{1}}) {
      ASSERT_EQ(truncate(source.c_str(), left), 0);
      EXPECT_FALSE(OpenArchive(source, formats_.list()).ok()) << format << left;
    }
  }
}

TEST_F(Blocks, ABoolOfAnotherValueIsAnError) {
  const Tensor tensor = *Tensor::Zeros(DType::kBool, TensorShape({5 << 20}));
  const std::string source = Write("tensorproto", tensor);
  const uint64_t header_bytes = ReadFile(source).size() - tensor.bytes().size();
  ChangeByte(source, 3 << 20);
  // The number of the byte in the tensor, in whatever block it is.
  const std::string byte = absl::StrCat("byte ", (3 << 20) - header_bytes, " is ");
  EXPECT_THAT(ConvertTo(source, "npy", NewPath("npy"), 1),
              StatusIs(Code::kDataLoss, AllOf(HasSubstr(byte), HasSubstr("a bool is 0 or 1"))));
  const std::unique_ptr<ArchiveReader> reader = *OpenArchive(source, formats_.list());
  EXPECT_THAT(reader->Read(kName).status(), StatusIs(Code::kDataLoss, HasSubstr(byte)));
}

TEST_F(Blocks, AMessagePastTheLimitIsReadInBlocksOnly) {
  const Tensor tensor = Large(DType::kFloat32);
  const std::string source = Write("tensorproto", tensor);
  ArchiveReaderOptions options;
  options.limits.max_message_bytes = 5 << 20;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, OpenArchive(source, formats_.list(), options));
  EXPECT_THAT(reader->Read(kName).status(), StatusIs(Code::kResourceExhausted));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<TensorBlocks> blocks, reader->ReadBlocks(reader->entries()[0], 1 << 20));
  std::string all;
  while (true) {
    ASSERT_OK_AND_ASSIGN(const std::optional<TensorBlock> block, blocks->Next());
    if (!block.has_value()) break;
    absl::StrAppend(&all, block->elements.bytes());
  }
  EXPECT_TRUE(all == tensor.bytes());
}

// What is listed and what is read are the same file, also if another one gets its name.
TEST_F(Blocks, AMessageIsReadFromTheFileThatWasOpened) {
  const Tensor tensor = Large(DType::kFloat32);
  const std::string source = Write("tensorproto", tensor);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, OpenArchive(source, formats_.list()));
  const std::string other = Write("tensorproto", *Tensor::Zeros(DType::kInt8, TensorShape({3})));
  ASSERT_EQ(std::rename(other.c_str(), source.c_str()), 0);
  ASSERT_OK_AND_ASSIGN(const Tensor read, reader->Read(kName));
  EXPECT_EQ(read.dtype(), DType::kFloat32);
  EXPECT_TRUE(read.bytes() == tensor.bytes());
  ASSERT_OK_AND_ASSIGN(const Tensor row, reader->ReadSlice(kName, *TensorSlice::Create({{4, 1}, {0, 2}})));
  EXPECT_EQ(row.shape(), TensorShape({1, 2}));
}

TEST_F(Blocks, RecordsAndMessagesKeepTheFirstError) {
  const Tensor tensor = *Tensor::Zeros(DType::kFloat32, TensorShape({2, 3}));
  const ArchiveEntry entry = EntryOf("w", tensor);
  DecodedTensor decoded;
  decoded.view = tensor;
  for (const char* const format : {"records", "tensorproto"}) {
    const std::string path = NewPath(format);
    const std::unique_ptr<ArchiveWriter> writer = *CreateArchive(path, Format(format));
    const auto refused = StatusIs(Code::kInvalidArgument, HasSubstr("wanted 6 of float32"));
    const TensorSlice all = TensorSlice::Full(2);
    EXPECT_THAT(writer->AddSlice(entry, {}, all, *Tensor::Zeros(DType::kInt8, TensorShape({2, 3}))), refused);
    EXPECT_THAT(writer->AddSlice(entry, {}, all, tensor), refused);
    EXPECT_THAT(writer->Add(entry, decoded), refused);
    EXPECT_THAT(writer->Declare(entry), refused);
    EXPECT_THAT(writer->Finish(), refused);
    EXPECT_NE(access(path.c_str(), F_OK), 0) << path;
  }
}

// ---- Damaged npz files, and two tensors side by side ----------------------------------------------------------------

// The checksum of the member is compared when its last block has been read: the file is not published.
TEST_F(Blocks, ADamagedMemberOfAnNpzFileIsAnErrorAtItsEnd) {
  const Tensor tensor = Large(DType::kFloat32);
  for (const int num_threads : {1, 2}) {
    const std::string source = Write("npz", tensor);
    ChangeByte(source, static_cast<int64_t>(tensor.bytes().size() / 3));
    const std::string path = NewPath("safetensors");
    EXPECT_THAT(ConvertTo(source, "safetensors", path, num_threads),
                StatusIs(Code::kDataLoss, AllOf(HasSubstr("m.npz: tensor \"m\""), HasSubstr("CRC-32"))));
    EXPECT_NE(access(path.c_str(), F_OK), 0) << path;
  }
}

// A deflated tensor of more than 64 MiB.
TEST_F(Blocks, ALargeDeflatedTensorIsReadInBlocks) {
  constexpr int64_t kBytes = (int64_t{64} << 20) + 12345;
  Tensor tensor = *Tensor::Create(DType::kUint8, TensorShape({kBytes}));
  const absl::Span<char> bytes = tensor.mutable_bytes();
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i >> 6);  // runs are deflated fast
  const std::string source = NewPath("npz");
  ArchiveWriterOptions deflate;
  deflate.level = PayloadLevel::kDefault;
  {
    const std::unique_ptr<ArchiveWriter> writer = *CreateArchive(source, Format("npz"), deflate);
    DecodedTensor decoded;
    decoded.view = tensor;
    ASSERT_OK(writer->Add(EntryOf(kName, tensor), decoded));
    ASSERT_OK(writer->Finish());
  }
  const std::string path = NewPath("npy");
  ASSERT_OK(ConvertTo(source, "npy", path, 2));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, OpenArchive(path, formats_.list()));
  ASSERT_OK_AND_ASSIGN(const Tensor read, reader->Read(kName));
  EXPECT_TRUE(read.bytes() == tensor.bytes());
}

// Equal bytes with equal damage: the files do not count as equal.
TEST_F(Blocks, EqualDamageIsNotEqual) {
  const Tensor tensor = Large(DType::kFloat32);
  std::vector<std::unique_ptr<ArchiveReader>> readers;
  for (const bool is_damaged : {true, true, false}) {
    const std::string path = Write("safetensors", tensor);
    if (is_damaged) ChangeByte(path, static_cast<int64_t>(tensor.bytes().size() / 2));
    readers.push_back(*OpenArchive(path, formats_.list()));
  }
  for (const auto& [a, b] : {std::make_pair(0, 1), std::make_pair(0, 2), std::make_pair(2, 1)}) {
    ASSERT_OK_AND_ASSIGN(const CompareReport report, Compare(*readers[a], *readers[b]));
    ASSERT_EQ(report.differences.size(), 1u);
    EXPECT_EQ(report.differences[0].kind, TensorDifference::Kind::kUnreadable);
    EXPECT_THAT(report.differences[0].status, StatusIs(Code::kDataLoss));
  }
}

// ---- Writers that take slices ---------------------------------------------------------------------------------------

class SliceWriters : public Blocks, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    path_ = NewPath(GetParam());
    writer_ = *CreateArchive(path_, Format(GetParam()));
    entry_.name = "w";
    entry_.dtype = DType::kFloat32;
    entry_.shape = TensorShape({2, 3});
  }
  absl::Status Add(int64_t row, int64_t column, int64_t columns, DType dtype = DType::kFloat32) {
    const TensorSlice slice = *TensorSlice::Create({{row, 1}, {column, columns}});
    return writer_->AddSlice(entry_, {}, slice, *Tensor::Zeros(dtype, TensorShape({1, columns})));
  }
  // There is no file.
  void ExpectNone() {
    EXPECT_FALSE(writer_->Finish().ok());
    writer_.reset();
    for (const std::string& file : Files(GetParam(), path_)) EXPECT_NE(access(file.c_str(), F_OK), 0) << file;
  }

  std::string path_;
  std::unique_ptr<ArchiveWriter> writer_;
  ArchiveEntry entry_;
};

TEST_P(SliceWriters, TakeATensorWithoutElements) {
  entry_.shape = TensorShape({0, 3});
  ASSERT_OK(writer_->AddSlice(entry_, {}, TensorSlice::Full(2), *Tensor::Zeros(DType::kFloat32, entry_.shape)));
  ASSERT_OK(writer_->Finish());
  const std::unique_ptr<ArchiveReader> reader = *OpenArchive(path_, formats_.list());
  ASSERT_EQ(reader->entries().size(), 1u);
  EXPECT_EQ(reader->entries()[0].shape, entry_.shape);
}

TEST_P(SliceWriters, RefuseAnOrderThatIsNotRowMajor) {
  ASSERT_OK(Add(0, 0, 2));
  EXPECT_THAT(Add(1, 0, 3), StatusIs(Code::kInvalidArgument, HasSubstr("does not continue at element 2")));
  ExpectNone();
}

TEST_P(SliceWriters, RefuseToStartInTheMiddle) {
  EXPECT_THAT(Add(1, 0, 3), StatusIs(Code::kInvalidArgument, HasSubstr("does not continue at element 0")));
  ExpectNone();
}

TEST_P(SliceWriters, RefuseASliceThatIsNotOneRun) {
  const TensorSlice columns = *TensorSlice::Create({{0, 2}, {0, 2}});
  EXPECT_THAT(writer_->AddSlice(entry_, {}, columns, *Tensor::Zeros(DType::kFloat32, TensorShape({2, 2}))),
              StatusIs(Code::kInvalidArgument, HasSubstr("does not continue")));
  ExpectNone();
}

TEST_P(SliceWriters, RefuseAnotherDTypeOrNumber) {
  EXPECT_THAT(Add(0, 0, 3, DType::kInt8),
              StatusIs(Code::kInvalidArgument, HasSubstr("3 elements of int8; wanted 3 of")));
  ExpectNone();
}

TEST_P(SliceWriters, RefuseToFinishAnIncompleteTensor) {
  ASSERT_OK(Add(0, 0, 3));
  EXPECT_THAT(writer_->Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("\"w\": only 3 of 6 elements")));
  ExpectNone();
}

TEST_P(SliceWriters, RefuseAnotherTensorMeanwhile) {
  ASSERT_OK(Add(0, 0, 3));
  entry_.name = "v";
  EXPECT_THAT(Add(0, 0, 3), StatusIs(Code::kFailedPrecondition, HasSubstr("\"w\": only 3 of 6 elements")));
  ExpectNone();
}

// The elements of the last slice cannot be read: the tensor stays incomplete.
TEST_P(SliceWriters, PublishNothingAfterAFailedSlice) {
  ASSERT_OK(Add(0, 0, 3));
  const Tensor unreadable = *Tensor::FromBuffer(DType::kFloat32, TensorShape({1, 3}),
                                                TensorBuffer::MakeWithoutData(3 * sizeof(float), "no data here"));
  const TensorSlice row = *TensorSlice::Create({{1, 1}, {0, 3}});
  EXPECT_THAT(writer_->AddSlice(entry_, {}, row, unreadable),
              StatusIs(Code::kFailedPrecondition, HasSubstr("no data here")));
  ExpectNone();
}

TEST_P(SliceWriters, LeaveNothingWithoutFinish) {
  ASSERT_OK(Add(0, 0, 3));
  writer_.reset();
  for (const std::string& file : Files(GetParam(), path_)) EXPECT_NE(access(file.c_str(), F_OK), 0) << file;
}

INSTANTIATE_TEST_SUITE_P(Formats, SliceWriters, ::testing::Values("checkpoint", "records", "tensorproto"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tensorcask
