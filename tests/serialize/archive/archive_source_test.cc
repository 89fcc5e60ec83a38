// An archive of bytes instead of a path: the same tensors, and no file of the system is looked at.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/compare_archives.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/v1_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::TempFolder;
using Code = absl::StatusCode;

using Named = std::vector<std::pair<std::string, Tensor>>;

absl::Status Save(const std::string& path, const ArchiveFormat& format, const Named& tensors,
                  const ArchiveWriterOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> writer = CreateArchive(path, format, options);
  if (!writer.ok()) return writer.status();
  for (const auto& [name, tensor] : tensors) EXPECT_OK((*writer)->Declare(DescribeTensor(name, {tensor, {}})));
  for (const auto& [name, tensor] : tensors) {
    EXPECT_OK((*writer)->Add(DescribeTensor(name, {tensor, {}}), {tensor, {}}));
  }
  return (*writer)->Finish();
}

RefPtr<TensorBuffer> BytesOf(const std::string& path) { return *ReadWholeFile(path, uint64_t{1} << 30); }

class ArchiveSource : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenBytes(const std::string& path, std::string name,
                                                           const std::string& format = "") {
    ArchiveReaderOptions options;
    options.format = format;
    return OpenArchive(MakeMemorySource(std::move(name), BytesOf(path)), formats_.list(), options);
  }

  const ArchiveFormat& Format(absl::string_view name) { return **FindFormat(name, formats_.list()); }

  const TempFolder folder_;
  const AllFormats formats_;
  const Named tensors_ = {{"b", Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}})}, {"n", Tensor::Scalar<int64_t>(7)}};
};

// A format that comes later is tested, too.
TEST_F(ArchiveSource, HasTheTensorsOfEveryFormatOfOneFile) {
  int tested = 0;
  for (const ArchiveFormat* const format : formats_.list()) {
    if (format->traits().is_prefix || !format->traits().is_written) continue;  // dcp: a folder
    SCOPED_TRACE(std::string(format->name()));
    const std::string extension(format->extensions()[0]);
    std::string path = folder_.Path("b" + extension);
    if (!format->traits().needs_base) {
      const size_t count = format->traits().many_tensors ? tensors_.size() : 1;
      ASSERT_OK(Save(path, *format, Named(tensors_.begin(), tensors_.begin() + static_cast<std::ptrdiff_t>(count))));
    } else {
      ASSERT_EQ(format->name(), "onnx");
      path = "tests/fuzz/corpus/onnx/model";
    }
    ArchiveReaderOptions options;
    options.format = std::string(format->name());
    ASSERT_OK_AND_ASSIGN(const auto file, OpenArchive(path, formats_.list(), options));
    ASSERT_OK_AND_ASSIGN(const auto bytes, OpenBytes(path, "b" + extension));
    EXPECT_EQ(bytes->format(), format->name());
    EXPECT_EQ(bytes->path(), "b" + extension);
    EXPECT_THAT(bytes->files(), ElementsAre("b" + extension));
    EXPECT_FALSE(bytes->entries().empty());
    if (format->traits().many_tensors) {
      ASSERT_OK_AND_ASSIGN(const CompareReport report, Compare(*file, *bytes, {}));
      EXPECT_EQ(report.equal, static_cast<int64_t>(bytes->entries().size()));
      EXPECT_TRUE(report.differences.empty());
    }
    ASSERT_OK_AND_ASSIGN(const TensorCounts counts,
                         bytes->VerifyAll([](const ArchiveDamage& damage) { ADD_FAILURE() << damage.status; }));
    EXPECT_EQ(counts.whole, static_cast<int64_t>(bytes->entries().size()));
    ++tested;
  }
  EXPECT_GE(tested, 8);
}

TEST_F(ArchiveSource, MayBeAFileOfHdf5) {
  const std::string path = "tests/fuzz/corpus/hdf5/chunks";
  ASSERT_OK_AND_ASSIGN(const auto file, OpenArchive(path, formats_.list()));
  ASSERT_OK_AND_ASSIGN(const auto bytes, OpenBytes(path, "no such file.h5"));
  EXPECT_EQ(bytes->format(), "hdf5");
  ASSERT_OK_AND_ASSIGN(const CompareReport report, Compare(*file, *bytes, {}));
  EXPECT_GT(report.equal, 0);
  EXPECT_TRUE(report.differences.empty());
}

TEST_F(ArchiveSource, MayBeAV1Checkpoint) {
  testing::V1Content content;
  content.Add("w", Tensor::FromValues<float>({3, 4}));
  const std::string table = testing::IndexOf(content.Finish());
  ASSERT_OK_AND_ASSIGN(const auto archive, OpenArchive(MakeMemorySource("model.ckpt", table), formats_.list()));
  EXPECT_EQ(archive->format(), "checkpoint");
  ASSERT_OK_AND_ASSIGN(const Tensor w, archive->Read("w"));
  EXPECT_EQ(w.data<float>()[1], 4);
  EXPECT_THAT(archive->files(), ElementsAre("model.ckpt"));
}

TEST_F(ArchiveSource, MapsABufferWhichTensorsKeepAlive) {
  const std::string path = folder_.Path("m.safetensors");
  ASSERT_OK(Save(path, Format("safetensors"), tensors_));
  RefPtr<TensorBuffer> bytes = BytesOf(path);
  const char* const first = bytes->bytes().data();
  const size_t size = bytes->size_bytes();
  ASSERT_OK_AND_ASSIGN(auto archive, OpenArchive(MakeMemorySource("m", std::move(bytes)), formats_.list()));
  ASSERT_OK_AND_ASSIGN(const Tensor b, archive->Map("b"));
  archive.reset();
  const auto* const data = reinterpret_cast<const char*>(b.data<float>());
  EXPECT_TRUE(data >= first && data < first + size);
  EXPECT_EQ(b.data<float>()[5], 6);
  // Bytes that the caller keeps are copied.
  const RefPtr<TensorBuffer> kept = BytesOf(path);
  ASSERT_OK_AND_ASSIGN(archive, OpenArchive(MakeMemorySource("m", kept->bytes()), formats_.list()));
  ASSERT_OK_AND_ASSIGN(const Tensor copy, archive->Map("b"));
  EXPECT_EQ(copy.data<float>()[5], 6);
}

TEST_F(ArchiveSource, LooksAtNoFileOfItsName) {
  ASSERT_OK(Save(folder_.Path("m"), Format("checkpoint"), {tensors_[0]}));
  ASSERT_OK(Save(folder_.Path("x.npz"), Format("npz"), {tensors_[1]}));
  // Beside m.index, which makes the path a checkpoint; that of a folder; that of a server.
  for (const std::string& name : {folder_.Path("m"), folder_.path(), std::string("unix:m"), std::string("m.ckpt")}) {
    ASSERT_OK_AND_ASSIGN(const auto archive, OpenBytes(folder_.Path("x.npz"), name));
    EXPECT_EQ(archive->format(), "npz") << name;
    EXPECT_EQ(archive->path(), name);
  }
  EXPECT_THAT(OpenBytes(folder_.Path("x.npz"), ""), StatusIs(Code::kInvalidArgument));
}

TEST_F(ArchiveSource, WithElementsInOtherFilesIsRefused) {
  SafetensorsFormatOptions options;
  options.max_shard_bytes = 24;
  const std::string model = folder_.Path("m.safetensors");
  ASSERT_OK(Save(model, SafetensorsArchiveFormat(options), tensors_));
  ASSERT_OK(Save(folder_.Path("c"), Format("checkpoint"), tensors_));
  // Of the name of the file, so that the other files would be found.
  const std::string index = model + ".index.json";
  const auto shards = OpenBytes(index, index);
  const absl::Status status = shards.ok() ? (*shards)->Read("b").status() : shards.status();
  EXPECT_THAT(status.message(), AllOf(HasSubstr("-of-00002.safetensors: cannot be read, because only the bytes of "),
                                      HasSubstr("open that by its path")));
  const std::string table = folder_.Path("c.index");
  EXPECT_THAT(OpenBytes(table, table), StatusIs(Code::kFailedPrecondition, HasSubstr("is the index of a checkpoint")));
  EXPECT_THAT(OpenBytes(table, "c"),
              StatusIs(Code::kDataLoss, HasSubstr("is opened by its path, which ends in .index")));
  EXPECT_THAT(OpenBytes(folder_.Path("c.data-00000-of-00001"), folder_.Path("c.data-00000-of-00001")),
              StatusIs(Code::kDataLoss, HasSubstr("this is a data file of a checkpoint")));
}

// A new model of ONNX is made of an old one, which is a file.
TEST_F(ArchiveSource, OfAModelIsNoBaseOfAnotherOne) {
  const std::string model = "tests/fuzz/corpus/onnx/model";
  const std::string other = folder_.Path("other.onnx");
  ASSERT_OK_AND_ASSIGN(const auto file, OpenArchive(model, formats_.list()));
  EXPECT_OK(ConvertArchives({file.get()}, other, Format("onnx")).status());
  ASSERT_OK_AND_ASSIGN(const auto bytes, OpenBytes(model, other));
  EXPECT_THAT(ConvertArchives({bytes.get()}, folder_.Path("new.onnx"), Format("onnx")),
              StatusIs(Code::kInvalidArgument, HasSubstr("it is made of another model")));
}

TEST_F(ArchiveSource, SaysWhatIsWrong) {
  const auto open = [&](absl::string_view bytes, const std::string& format) {
    ArchiveReaderOptions options;
    options.format = format;
    return OpenArchive(MakeMemorySource("x.bin", bytes), formats_.list(), options).status();
  };
  const absl::Status unknown = open("no format at all", "");
  EXPECT_THAT(unknown, StatusIs(Code::kDataLoss, HasSubstr("x.bin: no format recognizes this file")));
  EXPECT_FALSE(absl::StrContains(unknown.message(), ".index"));
  EXPECT_THAT(open("", "npz"), StatusIs(Code::kDataLoss, HasSubstr("x.bin: ")));
  EXPECT_THAT(open("", "none"), StatusIs(Code::kInvalidArgument, HasSubstr("is not one of")));
  EXPECT_THAT(open("", "checkpoint"), StatusIs(Code::kDataLoss, HasSubstr("x.bin")));
}

// A source of the caller's own, which cannot be mapped and fails when it is told to.
class Failing final : public ByteSource {
 public:
  explicit Failing(RefPtr<TensorBuffer> bytes) : bytes_(std::move(bytes)) {}

  const std::string& name() const override { return name_; }
  uint64_t size_bytes() const override { return bytes_->size_bytes(); }
  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
    if (fails_) return absl::UnavailableError("the disk is on holiday");
    const absl::string_view part = bytes_->bytes().substr(offset, out.size());
    if (part.size() < out.size()) return absl::DataLossError("too short");
    part.copy(out.data(), out.size());
    return absl::OkStatus();
  }
  void Fail() { fails_ = true; }

 private:
  const RefPtr<TensorBuffer> bytes_;
  const std::string name_ = "mine";
  bool fails_ = false;
};

TEST_F(ArchiveSource, ReportsTheErrorOfTheSource) {
  for (const char* const format : {"safetensors", "npz", "records"}) {
    SCOPED_TRACE(format);
    const std::string path = folder_.Path(format);
    ASSERT_OK(Save(path, Format(format), tensors_));
    const auto source = std::make_shared<Failing>(BytesOf(path));
    ASSERT_OK_AND_ASSIGN(const auto archive, OpenArchive(source, formats_.list()));
    ASSERT_OK_AND_ASSIGN(const Tensor n, archive->Map("n"));
    EXPECT_EQ(*n.data<int64_t>(), 7);
    source->Fail();
    EXPECT_THAT(archive->Read("b"), StatusIs(Code::kUnavailable, HasSubstr("the disk is on holiday")));
  }
}

}  // namespace
}  // namespace tensorcask
