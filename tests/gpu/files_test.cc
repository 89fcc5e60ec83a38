// Saves tensors of a device and loads tensors to one: checkpoints and safetensors.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/device_map.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/gpu/gpu_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Counting;
using ::tensorcask::testing::GpuTest;
using ::tensorcask::testing::kMiB;
using ::tensorcask::testing::Noise;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr int64_t kLarge = (int64_t{3} << 20) + 5;  // elements of 4 bytes: three pieces of 4 MiB, and a rest

class FilesTest : public GpuTest {
 protected:
  CheckpointWriterOptions Writing() {
    CheckpointWriterOptions options;
    options.file_system = &files_;
    return options;
  }
  CheckpointReaderOptions Reading() {
    CheckpointReaderOptions options;
    options.read.file_system = &files_;
    return options;
  }
  CheckpointReader Open(RefPtr<Allocator> allocator = CpuAllocator::Default()) {
    CheckpointReaderOptions options = Reading();
    options.allocator = std::move(allocator);
    return CheckpointReader::Open("m", options).value();
  }
  // The bytes of the data file of a checkpoint with this tensor alone.
  std::string Saved(const std::string& prefix, const TensorView& tensor, const CheckpointWriterOptions& options,
                    const CheckpointAddOptions& add = {}) {
    CheckpointWriter writer = CheckpointWriter::Create(prefix, options).value();
    EXPECT_OK(writer.Add("w", tensor, add));
    EXPECT_OK(writer.Finish());
    const std::shared_ptr<const std::string> data = files_.Find(prefix + ".data-00000-of-00001");
    EXPECT_NE(data, nullptr);
    return data == nullptr ? "" : *data;
  }

  MemoryFileSystem files_;
};
CASK_ON_EACH_DEVICE(FilesTest);

TEST_P(FilesTest, TheDataFileIsThatOfTheHost) {
  int number = 0;
  const auto same = [&](const TensorView& host, const CheckpointAddOptions& add = {}) {
    SCOPED_TRACE(host.ToString());
    ++number;
    const auto elements = static_cast<int64_t>(host.buffer()->size_bytes() / host.element_size());
    const Layout flat = Layout::RowMajor(TensorShape({elements}));
    const TensorView whole = Upload(TensorView::Create(host.buffer(), host.dtype(), flat).value());
    const TensorView there = TensorView::Create(whole.buffer(), host.dtype(), host.layout()).value();
    const std::string expected = Saved("host" + std::to_string(number), host, Writing(), add);
    EXPECT_TRUE(Saved("device" + std::to_string(number), there, Writing(), add) == expected);
    CheckpointWriterOptions threads = Writing();
    threads.num_threads = 2;
    EXPECT_TRUE(Saved("threads" + std::to_string(number), there, threads, add) == expected);
  };
  const Tensor matrix = Counting(TensorShape({300, 40}));
  CheckpointAddOptions encoded;
  encoded.level = PayloadLevel::kDefault;
  CheckpointAddOptions preserve;
  preserve.layout = StoredLayout::kPreserve;
  same(matrix);
  same(matrix, encoded);
  same(TensorView(matrix).Transpose(0, 1).value());
  same(TensorView(matrix).Transpose(0, 1).value(), preserve);
  same(TensorView(matrix).Slice(1, 3, 33, 3).value());
  same(Counting(TensorShape({kLarge})));
  same(Counting(TensorShape({kLarge})), encoded);
  same(Noise(kMiB));
  same(Counting(DType::kBfloat16, TensorShape({1001})));
}

TEST_P(FilesTest, InTheBackgroundLaterWorkOfTheStreamChangesNothing) {
  const Tensor host = Counting(TensorShape({kLarge}));
  CheckpointWriterOptions options = Writing();
  options.background = true;
  CheckpointWriter writer = CheckpointWriter::Create("m", options).value();
  {
    const TensorView there = Upload(host);
    ASSERT_OK(writer.Add("w", there));
    ASSERT_OK(backend().Fill(there.buffer()->MutableDeviceData().value(), 9, kLarge * 4, kDefaultStream));
  }
  // The memory of the tensor may be used again: the copy comes first on the stream.
  const TensorView next = Upload(Tensor::Zeros(DType::kInt32, TensorShape({kLarge})).value());
  ASSERT_OK_AND_ASSIGN(BackgroundSave save, writer.FinishInBackground());
  ASSERT_OK(save.Wait());
  EXPECT_TRUE(Equal(Open().Read("w").value(), host));
}

TEST_P(FilesTest, LoadsToTheDevice) {
  std::vector<std::pair<std::string, Tensor>> tensors = {{"small", Counting(TensorShape({2, 3}))},
                                                         {"large", Counting(TensorShape({kLarge}))},
                                                         {"empty", Counting(TensorShape({0, 4}))},
                                                         {"bools", Tensor::FromValues<bool>({true, false})},
                                                         {"noise", Noise(5 * kMiB + 3)}};
  CheckpointWriter writer = CheckpointWriter::Create("m", Writing()).value();
  for (const auto& [name, tensor] : tensors) ASSERT_OK(writer.Add(name, Upload(tensor)));
  ASSERT_OK(writer.Add("text", Tensor::FromValues<std::string>({"a", "b"})));
  CheckpointAddOptions encoded;
  encoded.level = PayloadLevel::kDefault;
  ASSERT_OK(writer.Add("encoded", Upload(tensors[1].second), encoded));
  CheckpointAddOptions preserve;
  preserve.layout = StoredLayout::kPreserve;
  ASSERT_OK(writer.Add("extension-only", TensorView(tensors[0].second).Transpose(0, 1).value(), preserve));
  ASSERT_OK(writer.AddSlice("sliced", TensorShape({4, 3}), *TensorSlice::Parse("0,2:-"), Upload(tensors[0].second)));
  ASSERT_OK(writer.AddSlice("sliced", TensorShape({4, 3}), *TensorSlice::Parse("2,2:-"), tensors[0].second));
  ASSERT_OK(writer.Finish());

  const CheckpointReader host = Open();
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(Equal(host.Read(name).value(), tensor)) << name;
  const CheckpointReader reader = Open(cache());
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointNamedTensor> all, reader.ReadAll(2));
  ASSERT_EQ(all.size(), 9U);
  for (const CheckpointNamedTensor& one : all) {
    SCOPED_TRACE(one.name);
    const Tensor expected = host.Read(one.name).value();
    const bool stays = one.name == "text" || one.name == "empty";
    EXPECT_EQ(one.tensor.device(), stays ? Device() : backend().device());
    EXPECT_TRUE(Equal(OnHost(one.tensor), expected));
    EXPECT_TRUE(Equal(OnHost(reader.Read(one.name).value()), expected));
    EXPECT_TRUE(Equal(OnHost(reader.Map(one.name).value()), expected));
    EXPECT_TRUE(Equal(OnHost(reader.ReadWithMetadata(one.name)->view), expected));
  }
  ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("small", *TensorSlice::Parse("1,1:0,2")));
  EXPECT_EQ(part.device(), backend().device());
  EXPECT_TRUE(Equal(OnHost(part), Tensor::FromValues<int32_t>({{3, 4}})));
}

TEST_P(FilesTest, ReadsIntoViewsOfTheDevice) {
  Saved("m", Counting(TensorShape({2, 3})), Writing());
  const CheckpointReader reader = Open();
  const TensorView whole = Upload(Tensor::Zeros(DType::kInt32, TensorShape({3, 4})).value());
  TensorView out = whole.Narrow(0, 0, 2)->Narrow(1, 1, 3).value();
  ASSERT_OK(reader.ReadInto("w", &out));
  out = whole.Narrow(0, 2, 1)->Narrow(1, 0, 2).value();
  ASSERT_OK(reader.ReadSliceInto("w", *TensorSlice::Parse("1,1:1,2"), &out));
  EXPECT_TRUE(Equal(OnHost(whole), Tensor::FromValues<int32_t>({{0, 0, 1, 2}, {0, 3, 4, 5}, {4, 5, 0, 0}})));
}

TEST_P(FilesTest, EachTensorGoesToItsRecordedDevice) {
  CheckpointWriter writer = CheckpointWriter::Create("m", Writing()).value();
  const Tensor host = Counting(TensorShape({3}));
  ASSERT_OK(writer.Add("there", Upload(host)));
  ASSERT_OK(writer.Add("host", host));
  CheckpointAddOptions other;
  other.metadata.device = {DeviceType::kCuda, 7};
  ASSERT_OK(writer.Add("other", host, other));
  ASSERT_OK(writer.Finish());
  EXPECT_EQ(Open().Metadata("there")->device, backend().device());
  CheckpointReaderOptions options = Reading();
  options.device_allocators = {cache()};
  options.device_map.Add("cuda:7", backend().device());
  {
    const CheckpointReader reader = CheckpointReader::Open("m", options).value();
    EXPECT_EQ(reader.Read("there")->device(), backend().device());
    EXPECT_EQ(reader.Read("other")->device(), backend().device());
    EXPECT_EQ(reader.Read("host")->device(), Device());
    for (const char* const name : {"there", "other", "host"}) {
      EXPECT_TRUE(Equal(OnHost(reader.Read(name).value()), host)) << name;
    }
  }
  options.device_map = DeviceMap::AllTo(Device());
  EXPECT_EQ(CheckpointReader::Open("m", options)->Read("there")->device(), Device());
}

TEST_P(FilesTest, DamageIsFoundOnTheWayToTheDevice) {
  const std::string data = Saved("m", Counting(TensorShape({kLarge})), Writing());
  for (const size_t at : {size_t{0}, data.size() / 2, size_t{kLarge} * 4 - 1}) {
    std::string damaged = data;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    files_.Put("m.data-00000-of-00001", damaged);
    SCOPED_TRACE(at);
    EXPECT_THAT(Open(cache()).Read("w"), StatusIs(Code::kDataLoss, AllOf(HasSubstr("\"w\""), HasSubstr("checksum"))));
  }
  EXPECT_EQ(cache()->statistics().allocations.all.current, 0);
}

TEST_P(FilesTest, SafetensorsOfTheDeviceAreThoseOfTheHost) {
  const Tensor matrix = Counting(DType::kFloat32, TensorShape({300, 40}));
  const std::vector<std::pair<std::string, TensorView>> tensors = {
      {"matrix", matrix},
      {"columns", TensorView(matrix).Transpose(0, 1).value()},
      {"large", Counting(TensorShape({kLarge}))},
      {"half", Counting(DType::kFloat16, TensorShape({77}))},
      {"bools", Counting(DType::kBool, TensorShape({5}))},
      {"scalar", Counting(DType::kInt64, TensorShape({}))},
      {"none", Counting(DType::kInt8, TensorShape({0, 3}))}};
  for (const bool streaming : {false, true}) {
    for (const bool on_device : {false, true}) {
      SafetensorsWriterOptions options;
      options.file_system = &files_;
      options.overwrite = true;
      ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create(on_device ? "there" : "host", options));
      if (streaming) {
        for (const auto& [name, view] : tensors) ASSERT_OK(writer.Declare(name, view.dtype(), view.shape()));
      }
      for (const auto& [name, view] : tensors) {
        TensorView added = view;
        if (on_device) {
          added = name == "columns" ? Upload(matrix).Transpose(0, 1).value() : Upload(view);
        }
        ASSERT_OK(writer.Add(name, added));
      }
      ASSERT_OK(writer.Finish());
    }
    EXPECT_TRUE(*files_.Find("there") == *files_.Find("host"));
  }
  SafetensorsReaderOptions reading;
  reading.read.file_system = &files_;
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open("there", reading));
  for (const auto& [name, view] : tensors) EXPECT_TRUE(Equal(reader.Read(name).value(), view)) << name;
  // Into tensors of the device.
  TensorView out = Upload(Tensor::Zeros(DType::kInt32, TensorShape({kLarge})).value());
  ASSERT_OK(reader.ReadInto("large", &out));
  EXPECT_TRUE(Equal(OnHost(out), Counting(TensorShape({kLarge}))));
}

}  // namespace
}  // namespace tensorcask
