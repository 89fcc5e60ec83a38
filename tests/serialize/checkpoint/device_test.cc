// Saves tensors of a device and loads tensors to one, on simulated devices.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/device_map.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/copy_across.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/simulated_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::OnHost;
using ::tensorcask::testing::SimulatedDevice;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Call = SimulatedBackend::Call;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int64_t kLarge = int64_t{3} << 20;  // elements of 4 bytes: three pieces of 4 MiB

Tensor Counting(const TensorShape& shape) {
  Tensor tensor = Tensor::Create(DType::kInt32, shape).value();
  std::iota(tensor.mutable_data<int32_t>(), tensor.mutable_data<int32_t>() + tensor.num_elements(), 0);
  return tensor;
}

class DeviceTest : public ::testing::Test {
 protected:
  CheckpointWriterOptions Writing() {
    CheckpointWriterOptions options;
    options.file_system = &files_;
    return options;
  }
  CheckpointReader Open(RefPtr<Allocator> allocator = CpuAllocator::Default(), const std::string& prefix = "m") {
    CheckpointReaderOptions options;
    options.read.file_system = &files_;
    options.allocator = std::move(allocator);
    return CheckpointReader::Open(prefix, options).value();
  }
  // The bytes of the data file of a checkpoint with this tensor alone.
  std::string Saved(const std::string& prefix, const TensorView& tensor, const CheckpointWriterOptions& options,
                    const CheckpointAddOptions& add = {}) {
    CheckpointWriter writer = CheckpointWriter::Create(prefix, options).value();
    EXPECT_OK(writer.Add("w", tensor, add));
    EXPECT_OK(writer.Finish());
    return BytesOf(files_, prefix + ".data-00000-of-00001");
  }

  MemoryFileSystem files_;
};

TEST_F(DeviceTest, TheDataFileIsThatOfTheHost) {
  const SimulatedDevice gpu(0);
  int number = 0;
  const auto same = [&](const TensorView& host, const CheckpointAddOptions& add = {}) {
    SCOPED_TRACE(host.ToString());
    ++number;
    const auto elements = static_cast<int64_t>(host.buffer()->size_bytes() / host.element_size());
    const Layout flat = Layout::RowMajor(TensorShape({elements}));
    const TensorView whole = gpu.Upload(TensorView::Create(host.buffer(), host.dtype(), flat).value());
    const TensorView there = TensorView::Create(whole.buffer(), host.dtype(), host.layout()).value();
    const std::string expected = Saved("host" + std::to_string(number), host, Writing(), add);
    EXPECT_EQ(Saved("device" + std::to_string(number), there, Writing(), add), expected);
    CheckpointWriterOptions threads = Writing();
    threads.num_threads = 2;
    EXPECT_EQ(Saved("threads" + std::to_string(number), there, threads, add), expected);
  };
  const Tensor matrix = Counting(TensorShape({30, 40}));
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
}

TEST_F(DeviceTest, TheDeviceIsRecorded) {
  const SimulatedDevice gpu(5);
  CheckpointWriter writer = CheckpointWriter::Create("m", Writing()).value();
  const TensorView there = gpu.Upload(Counting(TensorShape({2, 3})));
  CheckpointAddOptions named;
  named.metadata.device = {DeviceType::kCuda, 1};
  ASSERT_OK(writer.Add("recorded", there));
  ASSERT_OK(writer.Add("named", there, named));
  ASSERT_OK(writer.AddSlice("sliced", TensorShape({4, 3}), *TensorSlice::Parse("0,2:-"), there));
  ASSERT_OK(writer.AddSlice("sliced", TensorShape({4, 3}), *TensorSlice::Parse("2,2:-"), there));
  ASSERT_OK(writer.BeginTensor("blocks", DType::kInt32, TensorShape({4, 3})));
  ASSERT_OK(writer.AddBlock(there));
  ASSERT_OK(writer.AddBlock(there));
  ASSERT_OK(writer.Finish());
  const CheckpointReader reader = Open();
  EXPECT_EQ(reader.Metadata("recorded")->device.ToString(), "ext_dev:5");
  EXPECT_EQ(reader.Metadata("named")->device.ToString(), "cuda:1");
  EXPECT_EQ(reader.Metadata("sliced")->device.ToString(), "ext_dev:5");
  EXPECT_TRUE(Equal(reader.Read("sliced").value(), reader.Read("blocks").value()));
}

TEST_F(DeviceTest, InTheBackgroundLaterWorkOfTheStreamChangesNothing) {
  const SimulatedDevice gpu(0);
  const Tensor host = Counting(TensorShape({1000}));
  CheckpointWriterOptions options = Writing();
  options.background = true;
  CheckpointWriter writer = CheckpointWriter::Create("m", options).value();
  {
    const TensorView there = gpu.Upload(host);
    ASSERT_OK(writer.Add("w", there));
    EXPECT_GT(gpu.device->pending(kDefaultStream), 0) << "the copy is under way, not done";
    ASSERT_OK(gpu.device->Fill(there.buffer()->MutableDeviceData().value(), 9, 4000, kDefaultStream));
  }
  // The memory of the tensor may be reused: the copy comes first on the stream.
  const TensorView next = gpu.Upload(Tensor::Zeros(DType::kInt32, TensorShape({1000})).value());
  ASSERT_OK_AND_ASSIGN(BackgroundSave save, writer.FinishInBackground());
  ASSERT_OK(save.Wait());
  EXPECT_TRUE(Equal(Open().Read("w").value(), host));
}

TEST_F(DeviceTest, InTheBackgroundElementsThatDoNotChangeStayOnTheDevice) {
  const Tensor host = Counting(TensorShape({kLarge}));
  for (const bool unchanging : {false, true}) {
    SCOPED_TRACE(unchanging);
    const SimulatedDevice gpu(0);
    CheckpointWriterOptions options = Writing();
    options.background = true;
    options.overwrite = true;
    CheckpointWriter writer = CheckpointWriter::Create("m", options).value();
    {
      CheckpointAddOptions add;
      add.unchanging = unchanging;
      ASSERT_OK(writer.Add("w", gpu.Upload(host), add));
    }
    const uint64_t pinned = gpu.cache->pinned()->counters().used_bytes;
    EXPECT_EQ(pinned == 0, unchanging) << pinned;
    ASSERT_OK_AND_ASSIGN(BackgroundSave save, writer.FinishInBackground());
    ASSERT_OK(save.Wait());
    EXPECT_TRUE(Equal(Open().Read("w").value(), host));
  }
}

TEST_F(DeviceTest, LoadsToADevice) {
  std::vector<std::pair<std::string, Tensor>> tensors = {{"small", Counting(TensorShape({2, 3}))},
                                                         {"large", Counting(TensorShape({kLarge + 5}))},
                                                         {"empty", Counting(TensorShape({0, 4}))},
                                                         {"bools", Tensor::FromValues<bool>({true, false})}};
  CheckpointWriter writer = CheckpointWriter::Create("m", Writing()).value();
  for (const auto& [name, tensor] : tensors) ASSERT_OK(writer.Add(name, tensor));
  ASSERT_OK(writer.Add("text", Tensor::FromValues<std::string>({"a", "b"})));
  CheckpointAddOptions encoded;
  encoded.level = PayloadLevel::kDefault;
  ASSERT_OK(writer.Add("encoded", tensors[1].second, encoded));
  CheckpointAddOptions preserve;
  preserve.layout = StoredLayout::kPreserve;
  ASSERT_OK(writer.Add("extension-only", TensorView(tensors[0].second).Transpose(0, 1).value(), preserve));
  ASSERT_OK(writer.AddSlice("sliced", TensorShape({4, 3}), *TensorSlice::Parse("0,2:-"), tensors[0].second));
  ASSERT_OK(writer.AddSlice("sliced", TensorShape({4, 3}), *TensorSlice::Parse("2,2:-"), tensors[0].second));
  ASSERT_OK(writer.Finish());

  const CheckpointReader host = Open();
  const SimulatedDevice gpu(2);
  const CheckpointReader reader = Open(gpu.cache);
  const std::vector<CheckpointNamedTensor> all = reader.ReadAll(2).value();
  ASSERT_EQ(all.size(), 8U);
  for (const CheckpointNamedTensor& one : all) {
    SCOPED_TRACE(one.name);
    const Tensor expected = host.Read(one.name).value();
    const bool stays = one.name == "text" || one.name == "empty";
    EXPECT_EQ(one.tensor.device(), stays ? Device() : gpu.device->device());
    EXPECT_TRUE(Equal(OnHost(one.tensor), expected));
    EXPECT_TRUE(Equal(OnHost(reader.Read(one.name).value()), expected));
    EXPECT_TRUE(Equal(OnHost(reader.Map(one.name).value()), expected));
    ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, reader.ReadWithMetadata(one.name));
    EXPECT_TRUE(Equal(OnHost(decoded.view), expected));
    EXPECT_EQ(decoded.view.device(), one.tensor.device());
  }
  ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("small", *TensorSlice::Parse("1,1:0,2")));
  EXPECT_EQ(part.device(), gpu.device->device());
  EXPECT_TRUE(Equal(OnHost(part), Tensor::FromValues<int32_t>({{3, 4}})));
}

TEST_F(DeviceTest, ReadsIntoTensorsOfADevice) {
  Saved("m", Counting(TensorShape({2, 3})), Writing());
  const SimulatedDevice gpu(0);
  const CheckpointReader reader = Open();
  const TensorView whole = gpu.Upload(Tensor::Zeros(DType::kInt32, TensorShape({3, 4})).value());
  TensorView out = whole.Narrow(0, 0, 2)->Narrow(1, 1, 3).value();
  ASSERT_OK(reader.ReadInto("w", &out));
  out = whole.Narrow(0, 2, 1)->Narrow(1, 0, 2).value();
  ASSERT_OK(reader.ReadSliceInto("w", *TensorSlice::Parse("1,1:1,2"), &out));
  EXPECT_TRUE(Equal(OnHost(whole), Tensor::FromValues<int32_t>({{0, 0, 1, 2}, {0, 3, 4, 5}, {4, 5, 0, 0}})));
  out = whole;
  EXPECT_THAT(reader.ReadInto("w", &out), StatusIs(Code::kInvalidArgument, HasSubstr("[3,4]")));
}

TEST_F(DeviceTest, ReadsEachFormIntoTensorsOfADevice) {
  const Tensor counting = Counting(TensorShape({1000, 700}));
  CheckpointAddOptions encoded;
  encoded.level = PayloadLevel::kDefault;
  CheckpointAddOptions preserve;
  preserve.layout = StoredLayout::kPreserve;
  CheckpointWriter writer = CheckpointWriter::Create("m", Writing()).value();
  ASSERT_OK(writer.Add("plain", counting));
  ASSERT_OK(writer.Add("encoded", counting, encoded));
  ASSERT_OK(writer.Add("extension-only", TensorView(counting).Transpose(0, 1).value(), preserve));
  ASSERT_OK(writer.AddSlice("sliced", TensorShape({1000, 700}), *TensorSlice::Parse("0,400:-"),
                            *TensorView(counting).Narrow(0, 0, 400)));
  ASSERT_OK(writer.AddSlice("sliced", TensorShape({1000, 700}), *TensorSlice::Parse("400,600:-"),
                            *TensorView(counting).Narrow(0, 400, 600)));
  ASSERT_OK(writer.Finish());
  const SimulatedDevice gpu(0);
  const CheckpointReader reader = Open();
  for (const char* const name : {"plain", "encoded", "extension-only", "sliced"}) {
    SCOPED_TRACE(name);
    const Tensor expected = reader.Read(name).value();
    const TensorView memory = gpu.Upload(Tensor::Zeros(DType::kInt32, expected.shape()).value());
    TensorView out = memory;
    ASSERT_OK(reader.ReadInto(name, &out));
    EXPECT_TRUE(Equal(OnHost(memory), expected));
  }
}

TEST_F(DeviceTest, AMissingDataFileIsNamed) {
  Saved("m", Counting(TensorShape({2, 3})), Writing());
  const SimulatedDevice gpu(0);
  const CheckpointReader reader = Open(gpu.cache);
  ASSERT_EQ(files_.Remove("m.data-00000-of-00001"), 0);
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kDataLoss, HasSubstr("m.data-00000-of-00001: cannot open")));
}

TEST_F(DeviceTest, EachTensorGoesToItsRecordedDevice) {
  const SimulatedDevice a(0);
  const SimulatedDevice b(1);
  CheckpointWriter writer = CheckpointWriter::Create("m", Writing()).value();
  const Tensor host = Counting(TensorShape({3}));
  ASSERT_OK(writer.Add("a", a.Upload(host)));
  ASSERT_OK(writer.Add("b", b.Upload(host)));
  ASSERT_OK(writer.Add("host", host));
  ASSERT_OK(writer.Finish());
  CheckpointReaderOptions options;
  options.read.file_system = &files_;
  options.device_allocators = {a.cache, b.cache};
  {
    const CheckpointReader reader = CheckpointReader::Open("m", options).value();
    EXPECT_EQ(reader.Read("a")->device(), a.device->device());
    EXPECT_EQ(reader.Read("b")->device(), b.device->device());
    EXPECT_EQ(reader.Read("host")->device(), Device());
  }
  options.device_map.Add("ext_dev:0", b.device->device());
  options.device_map.Add("cpu", a.device->device());
  {
    const CheckpointReader reader = CheckpointReader::Open("m", options).value();
    EXPECT_EQ(reader.Read("a")->device(), b.device->device());
    EXPECT_EQ(reader.ReadWithMetadata("a")->metadata.device, a.device->device()) << "what was recorded";
    EXPECT_EQ(reader.Read("host")->device(), a.device->device());
  }
  options.device_map = DeviceMap::RefuseOthers();
  {
    const CheckpointReader reader = CheckpointReader::Open("m", options).value();
    EXPECT_THAT(reader.Read("b"), StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("\"b\""), HasSubstr("ext_dev:1"))));
  }
  options.device_map = DeviceMap::AllTo(Device());
  EXPECT_EQ(CheckpointReader::Open("m", options)->Read("a")->device(), Device());
}

TEST_F(DeviceTest, DamageIsFoundOnTheWayToADevice) {
  const std::string data = Saved("m", Counting(TensorShape({kLarge})), Writing());
  const SimulatedDevice gpu(0);
  for (const size_t at : {size_t{0}, data.size() / 2, data.size() - 1}) {
    std::string damaged = data;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    files_.Put("m.data-00000-of-00001", damaged);
    EXPECT_THAT(Open(gpu.cache).Read("w"), StatusIs(Code::kDataLoss, AllOf(HasSubstr("\"w\""), HasSubstr("checksum"))));
  }
  EXPECT_EQ(gpu.cache->statistics().allocations.all.current, 0);
}

TEST_F(DeviceTest, FailuresOfTheDeviceFailTheSaveAndTheLoad) {
  const SimulatedDevice gpu(0);
  const Tensor host = Counting(TensorShape({kLarge}));
  const TensorView there = gpu.Upload(host);
  for (const Call call : {Call::kCopy, Call::kSynchronize, Call::kRecordEvent}) {
    for (const int threads : {1, 2}) {
      CheckpointWriterOptions options = Writing();
      options.num_threads = threads;
      CheckpointWriter writer = CheckpointWriter::Create("failed", options).value();
      gpu.device->FailNext(call, 1, 0, Code::kUnavailable);
      absl::Status status = writer.Add("w", there);
      status.Update(writer.Finish());
      EXPECT_THAT(status, StatusIs(Code::kUnavailable, AllOf(HasSubstr("\"w\""), HasSubstr("simulated"))));
      CheckpointReaderOptions reading;
      reading.read.file_system = &files_;
      EXPECT_THAT(CheckpointReader::Open("failed", reading), StatusIs(Code::kNotFound, HasSubstr("failed")));
      gpu.device->FailNext(call, 0);
    }
  }
  Saved("m", there, Writing());
  for (const Call call : {Call::kCopy, Call::kSynchronize, Call::kRecordEvent}) {
    gpu.device->FailNext(call, 1, 1, Code::kUnavailable);
    EXPECT_THAT(Open(gpu.cache).Read("w"),
                StatusIs(Code::kUnavailable, AllOf(HasSubstr("\"w\""), HasSubstr("simulated"))));
    gpu.device->FailNext(call, 0);
  }
  EXPECT_TRUE(Equal(Open().Read("w").value(), host));
}

TEST_F(DeviceTest, ACheckpointThatIsTooLargeForTheDeviceLeavesEverythingUsable) {
  // 96 MiB in tensors of 24 MiB, for a device of 64 MiB.
  const Tensor host = Counting(TensorShape({int64_t{6} << 20}));
  CheckpointWriter writer = CheckpointWriter::Create("m", Writing()).value();
  for (const char* const name : {"a", "b", "c", "d"}) ASSERT_OK(writer.Add(name, host));
  ASSERT_OK(writer.Finish());
  const SimulatedDevice gpu(0, 64 * kMiB);
  const CheckpointReader reader = Open(gpu.cache);
  EXPECT_THAT(reader.ReadAll(), StatusIs(Code::kResourceExhausted,
                                         AllOf(HasSubstr("\"c\""), HasSubstr("ext_dev:0: no memory for 25165824 bytes"),
                                               HasSubstr("16777216 of 67108864 bytes of the device are free"),
                                               HasSubstr("this allocator has reserved 50331648"))));
  EXPECT_EQ(gpu.cache->statistics().allocations.all.current, 0);
  EXPECT_EQ(gpu.cache->statistics().ooms, 1);
  // Both still work, with the memory that the failed load has given back.
  EXPECT_TRUE(Equal(OnHost(reader.Read("d").value()), host));
  EXPECT_EQ(reader.ReadAll(1, [](const CheckpointEntry& entry) { return entry.name < "c"; })->size(), 2U);
}

}  // namespace
}  // namespace tensorcask
