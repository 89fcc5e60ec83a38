// How many requests it takes to read archives from a file system that is like an object store.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/save_load.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/uploading_file_system.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::UploadingFileSystem;

constexpr int64_t kLarge = 64;
constexpr int64_t kLargeElements = int64_t{1} << 20;  // 4 MiB
constexpr int64_t kSmallElements = 256;               // 1 KiB

Tensor Numbered(int64_t elements, int32_t number) {
  Tensor tensor = *Tensor::Create(DType::kInt32, TensorShape({elements}));
  int32_t* const data = tensor.mutable_data<int32_t>();
  for (int64_t i = 0; i < elements; ++i) data[i] = static_cast<int32_t>(i) * 7 + number;
  return tensor;
}

bool IsNumbered(const Tensor& tensor, int64_t elements, int32_t number) {
  const Tensor wanted = Numbered(elements, number);
  return tensor.shape() == wanted.shape() && tensor.dtype() == DType::kInt32 &&
         std::memcmp(tensor.data<int32_t>(), wanted.data<int32_t>(), static_cast<size_t>(elements) * 4) == 0;
}

// A field of a protobuf message.
std::string NumberField(int field, uint64_t value) {
  std::string bytes(1, static_cast<char>(field << 3));
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes += static_cast<char>(value);
}
std::string BytesField(int field, absl::string_view value) {
  std::string bytes = NumberField(field, value.size());
  bytes[0] = static_cast<char>(field << 3 | 2);
  return bytes.append(value.data(), value.size());
}

// A model of ONNX with these initializers: onnx.proto's ModelProto, GraphProto and TensorProto.
std::string ModelOf(absl::Span<const TensorToSave> tensors) {
  constexpr uint64_t kInt32 = 6;
  std::string graph = BytesField(2, "graph");
  for (const TensorToSave& tensor : tensors) {
    const absl::string_view raw(reinterpret_cast<const char*>(tensor.elements.data<int32_t>()),
                                static_cast<size_t>(tensor.elements.num_elements()) * 4);
    graph += BytesField(5, absl::StrCat(NumberField(1, static_cast<uint64_t>(tensor.elements.num_elements())),
                                        NumberField(2, kInt32), BytesField(8, tensor.name), BytesField(9, raw)));
  }
  return absl::StrCat(NumberField(1, 8), BytesField(7, graph), BytesField(8, NumberField(2, 17)));
}

class ObjectStoreReads : public ::testing::TestWithParam<const char*> {
 protected:
  // 64 tensors of 4 MiB, with 64 of 1 KiB between them.
  void Save(const std::string& path) {
    std::vector<TensorToSave> tensors;
    for (int32_t i = 0; i < 2 * kLarge; ++i) {
      TensorToSave tensor;
      tensor.name = absl::StrCat("w", absl::Dec(i, absl::kZeroPad4));
      tensor.elements = Numbered(i % 2 == 0 ? kLargeElements : kSmallElements, i);
      tensors.push_back(std::move(tensor));
    }
    if (absl::string_view(GetParam()) == "onnx") return memory_.Put(path, ModelOf(tensors));
    ASSERT_OK_AND_ASSIGN(const ArchiveFormat* const format, FindFormat(GetParam(), formats_.list()));
    ArchiveWriterOptions options;
    options.file_system = &memory_;
    ASSERT_OK(SaveTensors(path, *format, tensors, options).status());
  }

  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path) {
    ArchiveReaderOptions options;
    options.format = GetParam();
    options.read.file_system = &store_;
    return OpenArchive(path, formats_.list(), options);
  }

  const AllFormats formats_;
  MemoryFileSystem memory_;
  UploadingFileSystem store_{&memory_};
};

TEST_P(ObjectStoreReads, AllTensorsTakeAsManyRequestsAsTheyHavePieces) {
  ASSERT_NO_FATAL_FAILURE(Save("/m"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> archive, Open("/m"));
  // The members of a zip archive have headers before their data: one request for each large one, which brings those of
  // the small one after it and of the next. So have the tensors of ONNX.
  const absl::string_view format = GetParam();
  const bool has_headers = format == "npz" || format == "torch" || format == "onnx";
  EXPECT_LE(store_.requests(), has_headers ? kLarge + 5 : 5);
  std::vector<const ArchiveEntry*> entries;
  for (const ArchiveEntry& entry : archive->entries()) entries.push_back(&entry);
  ASSERT_EQ(entries.size(), static_cast<size_t>(2 * kLarge));
  for (const int threads : {1, 4}) {
    SCOPED_TRACE(threads);
    store_.Reset();
    LoadOptions options;
    options.num_threads = threads;
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> tensors, LoadTensors(*archive, entries, options));
    for (int32_t i = 0; i < 2 * kLarge; ++i) {
      EXPECT_TRUE(IsNumbered(tensors[static_cast<size_t>(i)], i % 2 == 0 ? kLargeElements : kSmallElements, i)) << i;
    }
    // 257 MiB in pieces of 8 MiB, and the data file of a checkpoint. Threads may come too late for a piece.
    EXPECT_LE(store_.requests(), threads == 1 ? 36 : 2 * 36);
    EXPECT_LE(store_.most_in_flight(), uint64_t{16} * (8 << 20));
  }
}

TEST_P(ObjectStoreReads, VerificationReadsAsLoadingDoes) {
  ASSERT_NO_FATAL_FAILURE(Save("/m"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> archive, Open("/m"));
  store_.Reset();
  const auto fail = [](const ArchiveDamage& damage) { ADD_FAILURE() << damage.status; };
  ASSERT_OK_AND_ASSIGN(const TensorCounts counts, archive->VerifyAll(fail));
  EXPECT_EQ(counts.whole, 2 * kLarge);
  EXPECT_LE(store_.requests(), 36);
  EXPECT_LE(store_.most_in_flight(), uint64_t{16} * (8 << 20));
}

class ObjectStoreSlices : public ObjectStoreReads {};

TEST_P(ObjectStoreSlices, TakeTheirBytes) {
  ASSERT_NO_FATAL_FAILURE(Save("/m"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> archive, Open("/m"));
  store_.Reset();
  const TensorSlice half = *TensorSlice::Parse("1000,524288");
  ASSERT_OK_AND_ASSIGN(const Tensor part, archive->ReadSlice("w0004", half));
  EXPECT_EQ(part.data<int32_t>()[0], 7004);
  EXPECT_LE(store_.requests(), 3);
  EXPECT_LE(store_.bytes_read(), uint64_t{3} << 20);
}

TEST_P(ObjectStoreReads, ConversionReadsAsLoadingDoes) {
  ASSERT_NO_FATAL_FAILURE(Save("/m"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> archive, Open("/m"));
  ASSERT_OK_AND_ASSIGN(const ArchiveFormat* const npz, FindFormat("npz", formats_.list()));
  store_.Reset();
  ArchiveWriterOptions write;
  write.file_system = &memory_;
  ConvertOptions options;
  options.allow_loss = true;  // ONNX has metadata
  ASSERT_OK(ConvertArchives({archive.get()}, "/copy.npz", *npz, options, write).status());
  EXPECT_LE(store_.requests(), 72);
}

std::string NameOf(const ::testing::TestParamInfo<const char*>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Formats, ObjectStoreReads,
                         ::testing::Values("checkpoint", "safetensors", "npz", "torch", "gguf", "onnx"), NameOf);
INSTANTIATE_TEST_SUITE_P(Formats, ObjectStoreSlices,
                         ::testing::Values("checkpoint", "safetensors", "npz", "torch", "gguf", "onnx"), NameOf);

}  // namespace
}  // namespace tensorcask
