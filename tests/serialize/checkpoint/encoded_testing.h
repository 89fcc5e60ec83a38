// Checkpoints of encoded tensors.

#ifndef TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_ENCODED_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_ENCODED_TESTING_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::testing {

using Fill = std::function<absl::Status(CheckpointWriter&)>;

inline constexpr char kData[] = "/m.data-00000-of-00001";

// Weights as they are: exponents that hardly differ, mantissas that do. No two seeds give the same.
inline Tensor Weights(std::initializer_list<int64_t> dims, uint32_t seed) {
  Tensor tensor = *Tensor::Create(DType::kFloat32, TensorShape(dims));
  uint32_t state = seed * 2654435761u + 1;
  for (float& value : tensor.mutable_flat<float>()) {
    state = state * 1664525u + 1013904223u;
    value = (static_cast<float>(state >> 8) / (1 << 24) - 0.5f) * 0.1f;
  }
  return tensor;
}

// The same some steps of training later.
inline Tensor Trained(const Tensor& weights) {
  Tensor tensor = *weights.Clone();
  uint32_t i = 0;
  for (float& value : tensor.mutable_flat<float>()) {
    if (i++ % 8 == 0) value *= 1.0f + 1e-6f;
  }
  return tensor;
}

inline CheckpointWriterOptions At(PayloadLevel level) {
  CheckpointWriterOptions options;
  options.payload.level = level;
  return options;
}

inline void SaveIn(FileSystem* files, const std::string& prefix, CheckpointWriterOptions options, const Fill& fill) {
  options.file_system = files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create(prefix, options));
  ASSERT_OK(fill(writer));
  if (!options.background) {
    ASSERT_OK(writer.Finish());
    return;
  }
  ASSERT_OK_AND_ASSIGN(BackgroundSave save, writer.FinishInBackground());
  ASSERT_OK(save.Wait());
}

inline absl::StatusOr<CheckpointReader> OpenIn(FileSystem* files, const std::string& prefix = "/m",
                                               CheckpointReaderOptions options = {}) {
  options.read.file_system = files;
  return CheckpointReader::Open(prefix, options);
}

inline std::shared_ptr<const CheckpointReader> Shared(absl::StatusOr<CheckpointReader> reader) {
  EXPECT_OK(reader.status());
  return std::make_shared<const CheckpointReader>(*std::move(reader));
}

inline std::vector<std::string> Damages(const CheckpointReader& reader, int64_t whole, int64_t without_base = 0) {
  std::vector<std::string> found;
  const absl::StatusOr<CheckpointCounts> counts =
      reader.VerifyAll([&](const CheckpointDamage& damage) { found.push_back(std::string(damage.status.message())); });
  EXPECT_OK(counts.status());
  EXPECT_EQ(counts->whole, whole);
  EXPECT_EQ(counts->not_checked, 0);
  EXPECT_EQ(counts->without_base, without_base);
  EXPECT_THAT(counts->notes, ::testing::ElementsAre());
  return found;
}

// A value of an index, as protobuf's own classes have it.
template <typename Proto>
inline Proto InIndex(const MemoryFileSystem& files, const std::string& prefix, const std::string& key) {
  const std::string index = BytesOf(files, prefix + ".index");
  Proto proto;
  const auto table = checkpoint::TableReader::Open(MakeMemorySource("index", index), {});
  EXPECT_OK(table.status());
  const auto value = (*table)->Find(key);
  EXPECT_TRUE(value.ok() && value->has_value() && proto.ParseFromString(std::string(**value)));
  return proto;
}

// Makes the index name another base, as a stranger may.
inline void NameBase(MemoryFileSystem* files, const std::string& prefix, const std::string& base) {
  const std::string index = BytesOf(*files, prefix + ".index");
  std::map<std::string, std::string> content;
  const auto table = checkpoint::TableReader::Open(MakeMemorySource("index", index), {});
  ASSERT_OK(table.status());
  ASSERT_OK((*table)->ForEach([&](absl::string_view key, absl::string_view value) {
    content.emplace(key, value);
    return absl::OkStatus();
  }));
  BundleHeaderProto header;
  ASSERT_TRUE(header.ParseFromString(content[""]));
  header.mutable_version()->set_min_consumer(2);
  header.mutable_extension()->set_reader_version(2);
  header.mutable_extension()->set_base(base);
  content[""] = header.SerializeAsString();
  files->Put(prefix + ".index", IndexOf(content));
}

inline void ExpectReads(const CheckpointReader& reader, const std::string& name, const Tensor& wanted) {
  ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(name));
  EXPECT_TRUE(SameTensor(read, wanted));
  ASSERT_OK_AND_ASSIGN(const Tensor mapped, reader.Map(name));
  EXPECT_TRUE(SameTensor(mapped, wanted));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor with_metadata, reader.ReadWithMetadata(name));
  EXPECT_TRUE(SameTensor(*with_metadata.view.ToTensor(), wanted));
  // Into memory of other strides.
  const int64_t rows = wanted.dim(0), columns = wanted.dim(1);
  ASSERT_OK_AND_ASSIGN(const Tensor turned, Tensor::Create(wanted.dtype(), TensorShape({columns, rows})));
  ASSERT_OK_AND_ASSIGN(TensorView out, TensorView(turned).Transpose(0, 1));
  ASSERT_OK(reader.ReadInto(name, &out));
  EXPECT_TRUE(SameTensor(*out.ToTensor(), wanted));
  const TensorSlice slice = *TensorSlice::Parse(absl::StrCat(rows / 3, ",", rows / 2, ":1,2"));
  ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice(name, slice));
  EXPECT_TRUE(SameTensor(part, *TensorView(wanted).Slice(slice)->ToTensor()));
  ASSERT_OK_AND_ASSIGN(const Tensor verified, reader.ReadSlice(name, slice, /*verify_whole=*/true));
  EXPECT_TRUE(SameTensor(verified, part));
}

class Deltas : public ::testing::Test {
 protected:
  void SetUp() override {
    SaveIn(&files_, "/base", {}, [&](CheckpointWriter& writer) {
      CASK_RETURN_IF_ERROR(writer.Add("other dtype", Tensor::FromValues<int32_t>({1, 2})));
      return writer.Add("w", first_);
    });
    CheckpointWriterOptions options = At(PayloadLevel::kDefault);
    options.payload.base = Shared(OpenIn(&files_, "/base"));
    SaveIn(&files_, "/m", options, [&](CheckpointWriter& writer) {
      CASK_RETURN_IF_ERROR(writer.Add("new", Weights({100, 100}, 9)));
      CASK_RETURN_IF_ERROR(writer.Add("other dtype", Weights({100, 100}, 10)));
      return writer.Add("w", second_);
    });
  }

  absl::StatusOr<CheckpointReader> WithBase(const std::string& prefix, const std::string& base) {
    CheckpointReaderOptions options;
    options.base = Shared(OpenIn(&files_, base));
    return OpenIn(&files_, prefix, options);
  }

  MemoryFileSystem files_;
  const Tensor first_ = Weights({200, 100}, 1);
  const Tensor second_ = Trained(first_);
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_ENCODED_TESTING_H_
