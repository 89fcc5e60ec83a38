#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"

#include <complex>
#include <memory>

#include "tensorcask/serialize/checkpoint/table/table_writer.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::testing {

absl::Status Save(const std::string& prefix, const std::vector<CheckpointNamedTensor>& tensors,
                  const CheckpointWriterOptions& options) {
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(prefix, options));
  for (const CheckpointNamedTensor& named : tensors) {
    CheckpointAddOptions add;
    add.shard = named.shard;
    CASK_RETURN_IF_ERROR(writer.Add(named.name, named.tensor, add));
  }
  return writer.Finish();
}

std::string BytesOf(const MemoryFileSystem& files, const std::string& path) {
  const std::shared_ptr<const std::string> bytes = files.Find(path);
  EXPECT_NE(bytes, nullptr) << path;
  return bytes == nullptr ? "" : *bytes;
}

::testing::AssertionResult SameTensor(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) {
    return ::testing::AssertionFailure() << a.ToString() << " is not " << b.ToString();
  }
  bool same = true;
  if (a.dtype() == DType::kString) {
    for (int64_t i = 0; i < a.num_elements(); ++i) same &= a.flat<std::string>()[i] == b.flat<std::string>()[i];
  } else {
    same = a.bytes() == b.bytes();
  }
  if (same) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << a.ToString() << " differs from " << b.ToString();
}

std::vector<CheckpointNamedTensor> SampleTensors(int num_shards) {
  std::vector<CheckpointNamedTensor> tensors = {
      {"dense/kernel", Tensor::FromValues<float>({{1, -2.5f, 3}, {4, 5, -0.0f}})},
      {"dense/bias", Tensor::FromValues<double>({0.1, 1e300})},
      {"step", Tensor::Scalar<int64_t>(1)},
      {"names", Tensor::FromValues<std::string>({std::string("a\0b", 3), "", std::string(300, 'x')})},
      {"flags", Tensor::FromValues<bool>({true, false, true})},
      {"spectrum", Tensor::FromValues<std::complex<float>>({{1, 2}, {3, 4}})},
      {"empty", *Tensor::Create(DType::kFloat32, TensorShape({0, 7}))},
      {"no names", *Tensor::Create(DType::kString, TensorShape({0}))},
      {"byte\nname\xff", Tensor::Scalar<uint8_t>(255)},
      {"a/very/long/name/with/parts/that/others/share/kernel", Tensor::FromValues<int16_t>({-1, 1})},
      {"a/very/long/name/with/parts/that/others/share/bias", Tensor::FromValues<uint32_t>({7})},
  };
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].shard = static_cast<int>(i % static_cast<size_t>(num_shards));
  return tensors;
}

std::string IndexOf(const std::map<std::string, std::string>& content) {
  std::string file;
  StringSink sink(&file);
  checkpoint::TableWriter writer(&sink, {});
  for (const auto& [key, value] : content) EXPECT_OK(writer.Add(key, value));
  EXPECT_OK(writer.Finish());
  return file;
}

std::string IndexOf(int num_shards, const std::map<std::string, BundleEntryProto>& entries) {
  BundleHeaderProto header;
  header.set_num_shards(num_shards);
  header.mutable_version()->set_producer(1);
  std::map<std::string, std::string> content = {{"", header.SerializeAsString()}};
  for (const auto& [name, entry] : entries) content[name] = entry.SerializeAsString();
  return IndexOf(content);
}

BundleEntryProto EntryOf(int dtype, const std::vector<int64_t>& dims, const std::string& bytes, int64_t offset) {
  BundleEntryProto entry;
  entry.set_dtype(static_cast<DataType>(dtype));
  entry.mutable_shape();
  for (const int64_t dim : dims) entry.mutable_shape()->add_dim()->set_size(dim);
  entry.set_offset(offset);
  entry.set_size(static_cast<int64_t>(bytes.size()));
  entry.set_crc32c(MaskCrc32c(Crc32c(bytes)));
  return entry;
}

}  // namespace tensorcask::testing
