// DLPack on a device: what is shared, which stream waits for which, and when memory is used again.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/interop/dlpack.h"
#include "tensorcask/tensor/interop/dlpack_abi.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/copy_across.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/gpu/gpu_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::AllAre;
using ::tensorcask::testing::Counting;
using ::tensorcask::testing::GpuTest;
using ::tensorcask::testing::kMiB;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Values;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

class DLPackTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    import_.allocator = cache();
  }
  void TearDown() override {
    import_.allocator = nullptr;
    GpuTest::TearDown();
  }
  static DLPackExportOptions For(StreamId stream) {
    DLPackExportOptions options;
    options.stream = stream;
    return options;
  }
  Tensor New(int64_t bytes) const { return Tensor::Create(DType::kUint8, TensorShape({bytes}), cache()).value(); }
  int32_t DeviceTypeNumber() const { return static_cast<int32_t>(backend().device().type); }

  DLPackImportOptions import_;
};
CASK_ON_EACH_DEVICE(DLPackTest);

// Memory of the device that another library owns: uint8 [bytes], filled with `value`.
class Foreign {
 public:
  Foreign(DeviceBackend* device, int64_t bytes, uint8_t value)
      : device_(device), bytes_(static_cast<size_t>(bytes)), dims_{bytes} {
    data_ = device->Allocate(bytes_).value();
    EXPECT_OK(device->Fill(data_, value, bytes_, kDefaultStream));
    EXPECT_OK(device->Synchronize(kDefaultStream));
    managed.version = {1, 1};
    managed.manager_ctx = this;
    managed.deleter = [](dlpack::DLManagedTensorVersioned* self) {
      ++static_cast<Foreign*>(self->manager_ctx)->deletes;
    };
    const Device where = device->device();
    managed.dl_tensor = {
        data_, {static_cast<int32_t>(where.type), where.index}, 1, {dlpack::kDLUInt, 8, 1}, &dims_, nullptr, 0};
  }
  ~Foreign() { EXPECT_OK(device_->Free(data_, bytes_)); }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  void* data() const { return data_; }

  int deletes = 0;
  dlpack::DLManagedTensorVersioned managed = {};

 private:
  DeviceBackend* const device_;
  const size_t bytes_;
  int64_t dims_;
  void* data_ = nullptr;
};

// ---- Out ------------------------------------------------------------------------------------------------------------

TEST_P(DLPackTest, ExportsAddressesOfTheDevice) {
  const TensorView whole = Upload(Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}}));
  const TensorView view = whole.Transpose(0, 1)->Narrow(0, 1, 2).value();
  ASSERT_OK_AND_ASSIGN(const DLPackPtr out, ToDLPack(view));
  const dlpack::DLTensor& tensor = out->dl_tensor;
  EXPECT_EQ(tensor.device.device_type, kind() == testing::DeviceKind::kSimulated ? 12 : 2) << "kDLCUDA is 2";
  EXPECT_EQ(tensor.device.device_id, 0);
  EXPECT_EQ(tensor.data, static_cast<const char*>(whole.buffer()->device_data()) + 4);
  EXPECT_THAT(std::vector<int64_t>(tensor.strides, tensor.strides + 2), ElementsAre(1, 3));
  EXPECT_EQ(out->flags, 0U);
}

TEST_P(DLPackTest, WithoutAStreamTheExportWaits) {
  uint8_t* const host = static_cast<uint8_t*>(backend().AllocateHost(kMiB).value());
  std::memset(host, 0, kMiB);
  const Tensor tensor = New(64 * kMiB);
  ASSERT_OK(backend().Fill(tensor.buffer()->MutableDeviceData().value(), 3, 64 * kMiB, kDefaultStream));
  ASSERT_OK_AND_ASSIGN(const DLPackPtr out, ToDLPack(tensor));
  // Work of any stream sees the bytes, though nothing orders it.
  const StreamId other = NewStream();
  ASSERT_OK(
      backend().Copy(CopyKind::kDeviceToHost, host, static_cast<char*>(out->dl_tensor.data) + 63 * kMiB, kMiB, other));
  ASSERT_OK(backend().Synchronize(other));
  EXPECT_TRUE(AllAre(std::vector<uint8_t>(host, host + kMiB), 3));
  ASSERT_OK(backend().FreeHost(host, kMiB));
}

TEST_P(DLPackTest, TheStreamOfTheConsumerWaitsForThatOfTheMemory) {
  const StreamId consumer = NewStream();
  uint8_t* const host = static_cast<uint8_t*>(backend().AllocateHost(kMiB).value());
  const Tensor tensor = New(kMiB);
  void* const data = tensor.buffer()->MutableDeviceData().value();
  ASSERT_OK(backend().Fill(data, 9, kMiB, kDefaultStream));
  ASSERT_OK(backend().Synchronize(kDefaultStream));
  Hold(kDefaultStream);
  ASSERT_OK(backend().Fill(data, 5, kMiB, kDefaultStream));
  ASSERT_OK_AND_ASSIGN(const DLPackPtr out, ToDLPack(tensor, For(consumer)));
  ASSERT_OK(backend().Copy(CopyKind::kDeviceToHost, host, out->dl_tensor.data, kMiB, consumer));
  ASSERT_OK_AND_ASSIGN(const EventId event, backend().RecordEvent(consumer));
  EXPECT_FALSE(backend().QueryEvent(event).value()) << "the export does not wait, the stream does";
  Release(kDefaultStream);
  ASSERT_OK(backend().Synchronize(consumer));
  EXPECT_TRUE(AllAre(std::vector<uint8_t>(host, host + kMiB), 5));
  backend().DestroyEvent(event);
  ASSERT_OK(backend().FreeHost(host, kMiB));
}

TEST_P(DLPackTest, MemoryIsReusedAfterTheWorkOfTheConsumer) {
  const StreamId consumer = NewStream();
  DLPackPtr out = ToDLPack(New(1000), For(consumer)).value();
  void* const address = out->dl_tensor.data;
  Hold(consumer);
  ASSERT_OK(backend().Fill(address, 7, 1000, consumer));
  out = nullptr;  // the consumer is done with the object, not with its work
  const Tensor other = New(1000);
  void* const elsewhere = other.buffer()->MutableDeviceData().value();
  EXPECT_NE(elsewhere, address);
  ASSERT_OK(backend().Fill(elsewhere, 1, 1000, kDefaultStream));
  Release(consumer);
  EXPECT_THAT(Bytes(elsewhere, 1000), Each(1));
  EXPECT_EQ(New(1000).buffer()->device_data(), address);
}

TEST_P(DLPackTest, AStreamThatDoesNotExistIsRefused) {
  EXPECT_THAT(ToDLPack(New(4), For(9999)), StatusIs(Code::kInvalidArgument, HasSubstr("9999")));
}

TEST_P(DLPackTest, MemoryThatALazyCloneSharesIsReadOnly) {
  const Tensor tensor = Upload(Tensor::FromValues<uint8_t>({1, 2, 3})).ToTensor().value();
  const Tensor clone = tensor.LazyClone().value();
  ASSERT_OK_AND_ASSIGN(const DLPackPtr out, ToDLPack(tensor));
  EXPECT_EQ(out->flags, dlpack::kDLPackFlagReadOnly);
  ASSERT_OK_AND_ASSIGN(LegacyDLPackPtr copy, ToLegacyDLPack(tensor));
  EXPECT_NE(copy->dl_tensor.data, tensor.buffer()->device_data());
  EXPECT_EQ(copy->dl_tensor.device.device_type, DeviceTypeNumber());
  EXPECT_TRUE(Equal(OnHost(FromLegacyDLPack(copy.release(), import_).value()), Tensor::FromValues<uint8_t>({1, 2, 3})));
}

TEST_P(DLPackTest, CopiesAreWhereTheOptionSays) {
  const Tensor host = Counting(DType::kInt16, TensorShape({70, 300}));
  const TensorView view = Upload(host).Flip({1})->Transpose(0, 1).value();
  const TensorView expected = TensorView(host).Flip({1})->Transpose(0, 1).value();
  DLPackExportOptions options;
  options.copy = DLPackCopy::kAlways;
  for (const bool to_host : {false, true}) {
    options.allocator = to_host ? CpuAllocator::Default() : RefPtr<Allocator>();
    ASSERT_OK_AND_ASSIGN(DLPackPtr out, ToDLPack(view, options));
    EXPECT_EQ(out->flags, dlpack::kDLPackFlagIsCopied);
    EXPECT_EQ(out->dl_tensor.device.device_type, to_host ? 1 : DeviceTypeNumber());
    const TensorView in = FromDLPack(out.release(), to_host ? DLPackImportOptions() : import_).value();
    EXPECT_TRUE(Equal(OnHost(in), expected));
  }
  options.allocator = cache();
  ASSERT_OK_AND_ASSIGN(DLPackPtr out, ToDLPack(host, options));
  EXPECT_EQ(out->dl_tensor.device.device_type, DeviceTypeNumber());
  EXPECT_TRUE(Equal(OnHost(FromDLPack(out.release(), import_).value()), host));
}

TEST_P(DLPackTest, ACopyForAnotherStreamHasTheValuesOfTheExport) {
  const StreamId other = NewStream();
  const Tensor tensor = New(kMiB);
  void* const data = tensor.buffer()->MutableDeviceData().value();
  ASSERT_OK(backend().Fill(data, 1, kMiB, kDefaultStream));
  DLPackExportOptions options = For(other);
  options.copy = DLPackCopy::kAlways;
  options.allocator = CachingAllocator::OnStream(cache(), other);
  DLPackPtr copy = ToDLPack(tensor, options).value();
  ASSERT_OK(backend().Fill(data, 9, kMiB, kDefaultStream));
  EXPECT_TRUE(AllAre(Bytes(copy->dl_tensor.data, kMiB, other), 1));
  EXPECT_TRUE(AllAre(Bytes(data, kMiB), 9));
  copy = nullptr;
  options.allocator = nullptr;
}

// ---- In -------------------------------------------------------------------------------------------------------------

TEST_P(DLPackTest, RoundTripsKeepTheMemory) {
  const TensorView view = Upload(Counting(DType::kFloat32, TensorShape({33, 7}))).Flip({1}).value();
  const Tensor expected = OnHost(view);
  DLPackPtr out = ToDLPack(view).value();
  ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(out.release(), import_));
  EXPECT_EQ(in.device(), view.device());
  EXPECT_EQ(in.buffer()->device_data(), view.buffer()->device_data());
  EXPECT_TRUE(Equal(OnHost(in), expected));
  EXPECT_TRUE(in.buffer()->IsWritableInPlace());
}

TEST_P(DLPackTest, TheDeleterIsCalledAfterTheWorkOfAllStreams) {
  const StreamId other = NewStream();
  Foreign foreign(&backend(), 4096, 7);
  TensorView to = Tensor::Create(DType::kUint8, TensorShape({4096}), cache()).value();
  Hold(other);
  {
    ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&foreign.managed, import_));
    EXPECT_EQ(in.buffer()->device_data(), foreign.data());
    ASSERT_OK(CopyAcross(in, &to, other));
  }
  EXPECT_EQ(foreign.deletes, 0);
  static_cast<void>(Tensor::Create(DType::kUint8, TensorShape({4}), cache()));
  EXPECT_EQ(foreign.deletes, 0) << "the copy is work of the other stream";
  Release(other);
  EXPECT_OK(To(Tensor::FromValues<uint8_t>({1}), cache()));
  EXPECT_OK(Tensor::Create(DType::kUint8, TensorShape({4}), cache()));
  EXPECT_EQ(foreign.deletes, 1);
  EXPECT_THAT(Bytes(to.buffer()->device_data(), 4096), Each(7));
}

TEST_P(DLPackTest, TheDeleterIsCalledAtTheLatestWithTheCache) {
  Foreign foreign(&backend(), 4096, 7);
  {
    const RefPtr<CachingAllocator> own = CachingAllocator::Make(device());
    DLPackImportOptions import;
    import.allocator = own;
    ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&foreign.managed, import));
    ASSERT_OK(backend().Fill(in.buffer()->MutableDeviceData().value(), 9, 4096, kDefaultStream));
  }
  EXPECT_EQ(foreign.deletes, 1);
}

TEST_P(DLPackTest, ReadOnlyMemoryIsCopiedAtTheFirstWrite) {
  Foreign foreign(&backend(), 100, 7);
  foreign.managed.flags = dlpack::kDLPackFlagReadOnly;
  {
    ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&foreign.managed, import_));
    EXPECT_FALSE(in.buffer()->IsWritableInPlace());
    EXPECT_EQ(in.buffer()->device_data(), foreign.data());
    ASSERT_OK_AND_ASSIGN(void* const written, in.buffer()->MutableDeviceData());
    EXPECT_NE(written, foreign.data());
    ASSERT_OK(backend().Fill(written, 1, 50, kDefaultStream));
    EXPECT_THAT(Bytes(foreign.data(), 100), Each(7));
    EXPECT_EQ(Bytes(written, 100)[49], 1);
    EXPECT_EQ(Bytes(written, 100)[50], 7);
  }
  ASSERT_OK(cache()->EmptyCache());
  EXPECT_EQ(foreign.deletes, 1);
}

TEST_P(DLPackTest, BoolsAreReadThroughTheHost) {
  const Tensor host = Counting(DType::kBool, TensorShape({3000}));
  DLPackPtr out = ToDLPack(Upload(host)).value();
  ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(out.release(), import_));
  EXPECT_EQ(in.device(), backend().device());
  EXPECT_TRUE(Equal(OnHost(in), host));
  // Bytes that are neither 0 nor 1 need a copy, in which they are 1.
  for (const bool never : {false, true}) {
    Foreign foreign(&backend(), 3000, 200);
    foreign.managed.dl_tensor.dtype = {dlpack::kDLBool, 8, 1};
    DLPackImportOptions import = import_;
    import.copy = never ? DLPackCopy::kNever : DLPackCopy::kIfNeeded;
    {
      const absl::StatusOr<TensorView> copied = FromDLPack(&foreign.managed, import);
      if (never) {
        EXPECT_THAT(copied, StatusIs(Code::kInvalidArgument, HasSubstr("neither 0 nor 1")));
      } else {
        ASSERT_OK(copied);
        EXPECT_NE(copied->buffer()->device_data(), foreign.data());
        EXPECT_EQ(Values<bool>(OnHost(*copied)), std::vector<bool>(3000, true));
      }
    }
    EXPECT_EQ(foreign.deletes, 1);
  }
}

TEST_P(DLPackTest, CopiesOfAnImport) {
  Foreign foreign(&backend(), 10000, 7);
  import_.copy = DLPackCopy::kAlways;
  {
    ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&foreign.managed, import_));
    EXPECT_EQ(foreign.deletes, 1) << "the copy is finished";
    ASSERT_OK(backend().Fill(foreign.data(), 0, 10000, kDefaultStream));
    EXPECT_THAT(Values<uint8_t>(OnHost(in)), Each(7));
  }
}

TEST_P(DLPackTest, ThreadsExchangeTensors) {
  std::vector<StreamId> streams;
  for (int t = 0; t < 4; ++t) streams.push_back(NewStream());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const StreamId stream = streams[static_cast<size_t>(t)];
      DLPackImportOptions import;
      import.allocator = CachingAllocator::OnStream(cache(), stream);
      for (int i = 0; i < 50; ++i) {
        const auto value = static_cast<uint8_t>(60 * t + i);
        const Tensor tensor = New(2000 + 100 * i);
        ASSERT_OK(backend().Fill(tensor.buffer()->MutableDeviceData().value(), value, tensor.buffer()->size_bytes(),
                                 kDefaultStream));
        absl::StatusOr<DLPackPtr> out = ToDLPack(tensor, For(stream));
        ASSERT_OK(out);
        const absl::StatusOr<TensorView> in = FromDLPack(out->release(), import);
        ASSERT_OK(in);
        ASSERT_THAT(Bytes(in->buffer()->device_data(), 2000, stream), Each(value));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tensorcask
