// DLPack for tensors in memory of a device, on the simulated one: what is shared, who waits for whom, and when memory
// goes back.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
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
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/simulated_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::OnHost;
using ::tensorcask::testing::SimulatedDevice;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Call = SimulatedBackend::Call;

constexpr int32_t kExtension = 12;  // DLDeviceType

class DLPackDeviceTest : public ::testing::Test {
 protected:
  DLPackDeviceTest() { import_.allocator = cache_; }

  TensorView OnDevice(const TensorView& host) const { return simulated_.Upload(host); }
  static DLPackExportOptions For(StreamId stream) {
    DLPackExportOptions options;
    options.stream = stream;
    return options;
  }

  const SimulatedDevice simulated_{3};
  const RefPtr<SimulatedBackend>& device_ = simulated_.device;
  const RefPtr<CachingAllocator>& cache_ = simulated_.cache;
  DLPackImportOptions import_;
};

// Memory of the device that another library owns: uint8 [4], unless a test changes that.
class Foreign {
 public:
  explicit Foreign(SimulatedBackend* device, const std::vector<uint8_t>& bytes = {1, 2, 3, 4}) : device_(device) {
    data_ = device->Allocate(512).value();
    EXPECT_OK(device->Copy(CopyKind::kHostToDevice, data_, bytes.data(), bytes.size(), kDefaultStream));
    EXPECT_OK(device->Synchronize(kDefaultStream));
    managed.version = {1, 1};
    managed.manager_ctx = this;
    managed.deleter = [](dlpack::DLManagedTensorVersioned* self) {
      ++static_cast<Foreign*>(self->manager_ctx)->deletes;
    };
    dims = {static_cast<int64_t>(bytes.size())};
    managed.dl_tensor = {data_, {kExtension, 3}, 1, {dlpack::kDLUInt, 8, 1}, dims.data(), nullptr, 0};
  }
  ~Foreign() { EXPECT_OK(device_->Free(data_, 512)); }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  void* data() const { return data_; }

  int deletes = 0;
  std::vector<int64_t> dims;
  dlpack::DLManagedTensorVersioned managed = {};

 private:
  SimulatedBackend* const device_;
  void* data_ = nullptr;
};

// ---- Out ------------------------------------------------------------------------------------------------------------

TEST_F(DLPackDeviceTest, ExportsAddressesOfTheDevice) {
  const TensorView whole = OnDevice(Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}}));
  const TensorView view = whole.Transpose(0, 1)->Narrow(0, 1, 2).value();
  ASSERT_OK_AND_ASSIGN(const DLPackPtr out, ToDLPack(view));
  const dlpack::DLTensor& tensor = out->dl_tensor;
  EXPECT_EQ(tensor.device.device_type, kExtension);
  EXPECT_EQ(tensor.device.device_id, 3);
  EXPECT_EQ(tensor.data, static_cast<const char*>(whole.buffer()->device_data()) + 4);
  EXPECT_EQ(tensor.byte_offset, 0U);
  EXPECT_THAT(std::vector<int64_t>(tensor.shape, tensor.shape + 2), ElementsAre(2, 2));
  EXPECT_THAT(std::vector<int64_t>(tensor.strides, tensor.strides + 2), ElementsAre(1, 3));
  EXPECT_EQ(out->flags, 0U);
}

TEST_F(DLPackDeviceTest, WithoutAStreamTheExportWaits) {
  const Tensor tensor = Tensor::Zeros(DType::kUint8, TensorShape({4}), cache_).value();
  ASSERT_EQ(device_->pending(kDefaultStream), 1);
  ASSERT_OK_AND_ASSIGN(const LegacyDLPackPtr out, ToLegacyDLPack(tensor));
  EXPECT_EQ(device_->pending(kDefaultStream), 0);
  EXPECT_EQ(out->dl_tensor.device.device_type, kExtension);
}

TEST_F(DLPackDeviceTest, TheStreamOfTheConsumerWaitsForThatOfTheMemory) {
  const StreamId consumer = device_->CreateStream().value();
  const Tensor tensor = Tensor::Zeros(DType::kUint8, TensorShape({4}), cache_).value();
  ASSERT_OK_AND_ASSIGN(const DLPackPtr out, ToDLPack(tensor, For(consumer)));
  EXPECT_GT(device_->pending(kDefaultStream), 0) << "the export does not wait";
  // The consumer writes: not before the zeros are there.
  ASSERT_OK(device_->Fill(out->dl_tensor.data, 7, 4, consumer));
  device_->Complete(consumer);
  EXPECT_GT(device_->pending(consumer), 0);
  device_->Complete(kDefaultStream);
  device_->Complete(consumer);
  EXPECT_EQ(device_->pending(consumer), 0);
  EXPECT_EQ(device_->Peek(out->dl_tensor.data), 7);
  ASSERT_OK(device_->DestroyStream(consumer));
}

TEST_F(DLPackDeviceTest, MemoryIsReusedAfterTheWorkOfTheConsumer) {
  const StreamId consumer = device_->CreateStream().value();
  const void* address = nullptr;
  {
    DLPackPtr out = ToDLPack(Tensor::Create(DType::kUint8, TensorShape({4}), cache_).value(), For(consumer)).value();
    address = out->dl_tensor.data;
    ASSERT_OK(device_->Fill(out->dl_tensor.data, 7, 4, consumer));
  }
  EXPECT_NE(Tensor::Create(DType::kUint8, TensorShape({4}), cache_)->buffer()->device_data(), address);
  device_->Complete(consumer);
  EXPECT_EQ(Tensor::Create(DType::kUint8, TensorShape({4}), cache_)->buffer()->device_data(), address);
  ASSERT_OK(device_->DestroyStream(consumer));
}

TEST_F(DLPackDeviceTest, TheStreamOfTheConsumerMayBeDestroyedBeforeTheMemoryIsFreed) {
  DLPackExportOptions options = For(device_->CreateStream().value());
  options.stream_may_end = true;
  const StreamId other = device_->CreateStream().value();
  for (const bool imported : {false, true}) {  // memory of the cache, and of another library
    SCOPED_TRACE(imported);
    Foreign foreign(device_.get(), {1, 2, 3, 4});
    void* address = nullptr;
    {
      const TensorView view = imported ? FromDLPack(&foreign.managed, import_).value()
                                       : TensorView(Tensor::Create(DType::kUint8, TensorShape({4}), cache_).value());
      DLPackPtr out = ToDLPack(view, options).value();
      address = out->dl_tensor.data;
      ASSERT_OK(device_->Fill(address, 7, 4, other));
    }
    EXPECT_EQ(foreign.deletes, 0);
    EXPECT_GT(device_->pending(other), 0) << "dropping memory waits for nothing";
    ASSERT_OK(cache_->EmptyCache());
    EXPECT_EQ(device_->pending(other), 0);
    EXPECT_EQ(foreign.deletes, imported ? 1 : 0);
  }
  ASSERT_OK(device_->DestroyStream(*options.stream));
  ASSERT_OK(device_->DestroyStream(other));
}

TEST_F(DLPackDeviceTest, AStreamThatDoesNotExistIsRefused) {
  const TensorView view = OnDevice(Tensor::FromValues<uint8_t>({1}));
  EXPECT_THAT(ToDLPack(view, For(99)), StatusIs(Code::kInvalidArgument, HasSubstr("99")));
}

TEST_F(DLPackDeviceTest, MemoryThatALazyCloneSharesIsReadOnly) {
  const Tensor tensor = OnDevice(Tensor::FromValues<uint8_t>({1, 2, 3})).ToTensor().value();
  const Tensor clone = tensor.LazyClone().value();
  ASSERT_OK_AND_ASSIGN(const DLPackPtr out, ToDLPack(tensor));
  EXPECT_EQ(out->flags, dlpack::kDLPackFlagReadOnly);
  EXPECT_EQ(out->dl_tensor.data, tensor.buffer()->device_data());
  ASSERT_OK_AND_ASSIGN(const LegacyDLPackPtr copy, ToLegacyDLPack(tensor));
  EXPECT_NE(copy->dl_tensor.data, tensor.buffer()->device_data());
  EXPECT_EQ(copy->dl_tensor.device.device_type, kExtension) << "the copy is where the tensor is";
}

TEST_F(DLPackDeviceTest, WritesAfterAnExportStayInTheSharedMemory) {
  const Tensor tensor = OnDevice(Tensor::FromValues<uint8_t>({1, 2, 3})).ToTensor().value();
  ASSERT_OK_AND_ASSIGN(const DLPackPtr out, ToDLPack(tensor));
  EXPECT_TRUE(tensor.buffer()->IsWritableInPlace());
  EXPECT_EQ(tensor.buffer()->MutableDeviceData().value(), out->dl_tensor.data);
  // A lazy clone shares the memory from now on: the next write leaves it to the clone and the consumer.
  const Tensor clone = tensor.LazyClone().value();
  EXPECT_FALSE(tensor.buffer()->IsWritableInPlace());
  EXPECT_NE(tensor.buffer()->MutableDeviceData().value(), out->dl_tensor.data);
  EXPECT_EQ(clone.buffer()->device_data(), out->dl_tensor.data);
}

TEST_F(DLPackDeviceTest, CopiesAreWhereTheOptionSays) {
  const Tensor host = Tensor::FromValues<int16_t>({{1, 2}, {3, 4}});
  const TensorView view = OnDevice(host);
  DLPackExportOptions options;
  options.copy = DLPackCopy::kAlways;
  {
    ASSERT_OK_AND_ASSIGN(const DLPackPtr same, ToDLPack(view, options));
    EXPECT_EQ(same->dl_tensor.device.device_type, kExtension);
    EXPECT_NE(same->dl_tensor.data, view.buffer()->device_data());
    EXPECT_EQ(same->flags, dlpack::kDLPackFlagIsCopied);
    EXPECT_EQ(device_->Peek(static_cast<char*>(same->dl_tensor.data) + 6), 4);
  }
  options.allocator = CpuAllocator::Default();
  ASSERT_OK_AND_ASSIGN(DLPackPtr on_host, ToDLPack(view.Transpose(0, 1).value(), options));
  EXPECT_EQ(on_host->dl_tensor.device.device_type, 1);
  EXPECT_TRUE(Equal(FromDLPack(on_host.release()).value(), TensorView(host).Transpose(0, 1).value()));
  options.allocator = cache_;
  ASSERT_OK_AND_ASSIGN(DLPackPtr on_device, ToDLPack(host, options));
  EXPECT_EQ(on_device->dl_tensor.device.device_type, kExtension);
  EXPECT_TRUE(Equal(OnHost(FromDLPack(on_device.release(), import_).value()), host));
}

TEST_F(DLPackDeviceTest, ACopyForAnotherStreamIsNotOvertakenByLaterWork) {
  const StreamId other = device_->CreateStream().value();
  const TensorView view = OnDevice(Tensor::FromValues<uint8_t>({1, 2, 3}));
  DLPackExportOptions options = For(other);
  options.copy = DLPackCopy::kAlways;
  options.allocator = CachingAllocator::OnStream(cache_, other);
  ASSERT_OK_AND_ASSIGN(const DLPackPtr copy, ToDLPack(view, options));
  ASSERT_OK(device_->Fill(view.buffer()->MutableDeviceData().value(), 9, 3, kDefaultStream));
  device_->Complete(kDefaultStream);
  device_->Complete(other);
  device_->Complete(kDefaultStream);
  EXPECT_EQ(device_->Peek(copy->dl_tensor.data), 1) << "the value at the time of the export";
  EXPECT_EQ(device_->Peek(view.buffer()->device_data()), 9);
  options.allocator = nullptr;
  ASSERT_OK(device_->DestroyStream(other));
}

TEST_F(DLPackDeviceTest, ACopyOfAFlippedViewIsInOrder) {
  const TensorView flipped = OnDevice(Tensor::FromValues<int16_t>({{1, 2, 3}, {4, 5, 6}})).Flip({1}).value();
  DLPackExportOptions options;
  options.copy = DLPackCopy::kAlways;
  for (const RefPtr<Allocator>& allocator : {RefPtr<Allocator>(), CpuAllocator::Default()}) {
    options.allocator = allocator;
    ASSERT_OK_AND_ASSIGN(const DLPackPtr out, ToDLPack(flipped, options));
    EXPECT_THAT(std::vector<int64_t>(out->dl_tensor.strides, out->dl_tensor.strides + 2), ElementsAre(3, 1));
  }
}

TEST_F(DLPackDeviceTest, APartWithoutElementsIsExported) {
  const TensorView none = OnDevice(Tensor::FromValues<int16_t>({1, 2})).Narrow(0, 1, 0).value();
  ASSERT_OK_AND_ASSIGN(DLPackPtr out, ToDLPack(none));
  EXPECT_EQ(out->dl_tensor.device.device_type, kExtension);
  ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(out.release(), import_));
  EXPECT_EQ(in.num_elements(), 0);
}

TEST_F(DLPackDeviceTest, ACopyOfAViewWithGapsHasNone) {
  const Tensor host = Tensor::FromValues<int16_t>({{1, 2, 3}, {4, 5, 6}});
  const TensorView column = OnDevice(host).Select(1, 1).value();
  DLPackExportOptions options;
  options.copy = DLPackCopy::kAlways;
  ASSERT_OK_AND_ASSIGN(DLPackPtr out, ToDLPack(column, options));
  EXPECT_EQ(out->dl_tensor.strides[0], 1);
  EXPECT_TRUE(Equal(OnHost(FromDLPack(out.release(), import_).value()), Tensor::FromValues<int16_t>({2, 5})));
}

// ---- In -------------------------------------------------------------------------------------------------------------

TEST_F(DLPackDeviceTest, RoundTripsKeepTheMemory) {
  const TensorView view = OnDevice(Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}})).Flip({1}).value();
  const Tensor expected = OnHost(view);
  DLPackPtr out = ToDLPack(view).value();
  const void* const data = out->dl_tensor.data;
  ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(out.release(), import_));
  EXPECT_EQ(in.device(), view.device());
  EXPECT_EQ(static_cast<const char*>(in.buffer()->device_data()) + 8, data) << "element [0,0] is the last of its row";
  EXPECT_TRUE(Equal(OnHost(in), expected));
  EXPECT_TRUE(in.buffer()->IsWritableInPlace());
}

TEST_F(DLPackDeviceTest, TheDeleterIsCalledAfterTheWorkOfAllStreams) {
  const StreamId other = device_->CreateStream().value();
  Foreign foreign(device_.get());
  {
    ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&foreign.managed, import_));
    EXPECT_EQ(in.buffer()->device_data(), foreign.data());
    TensorView to = Tensor::Zeros(DType::kUint8, TensorShape({4}), cache_).value();
    ASSERT_OK(CopyAcross(in, &to, other));
  }
  EXPECT_EQ(foreign.deletes, 0) << "the copy has not finished";
  device_->Complete(kDefaultStream);
  static_cast<void>(OnDevice(Tensor::FromValues<uint8_t>({1})));
  EXPECT_EQ(foreign.deletes, 0) << "the copy is work of the other stream";
  device_->Complete(other);
  static_cast<void>(OnDevice(Tensor::FromValues<uint8_t>({1})));
  EXPECT_EQ(foreign.deletes, 1);
  ASSERT_OK(device_->DestroyStream(other));
}

TEST_F(DLPackDeviceTest, WithoutPendingWorkTheDeleterIsCalledAtOnce) {
  Foreign foreign(device_.get());
  {
    ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&foreign.managed, import_));
    EXPECT_TRUE(Equal(OnHost(in), Tensor::FromValues<uint8_t>({1, 2, 3, 4})));
    EXPECT_EQ(foreign.deletes, 0);
  }
  EXPECT_EQ(foreign.deletes, 1);
}

TEST_F(DLPackDeviceTest, AnAllocationReleasesWhatIsDoneAndEmptyCacheWaits) {
  for (const bool wait : {false, true}) {
    Foreign foreign(device_.get());
    {
      ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&foreign.managed, import_));
      ASSERT_OK(device_->Fill(in.buffer()->MutableDeviceData().value(), 9, 4, kDefaultStream));
    }
    EXPECT_EQ(foreign.deletes, 0);
    if (wait) {
      ASSERT_OK(cache_->EmptyCache());
    } else {
      device_->Complete(kDefaultStream);
      EXPECT_OK(Tensor::Create(DType::kUint8, TensorShape({4}), cache_));
    }
    EXPECT_EQ(foreign.deletes, 1);
  }
}

TEST_F(DLPackDeviceTest, AnAllocatorOfAStreamReleasesWhatIsDone) {
  const StreamId stream = device_->CreateStream().value();
  Foreign foreign(device_.get());
  import_.allocator = CachingAllocator::OnStream(cache_, stream);
  {
    ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&foreign.managed, import_));
    ASSERT_OK(device_->Fill(in.buffer()->MutableDeviceData().value(), 9, 4, stream));
  }
  EXPECT_EQ(foreign.deletes, 0);
  device_->Complete(stream);
  EXPECT_OK(Tensor::Create(DType::kUint8, TensorShape({4}), import_.allocator));
  EXPECT_EQ(foreign.deletes, 1);
  import_.allocator = nullptr;
  ASSERT_OK(device_->DestroyStream(stream));
}

TEST_F(DLPackDeviceTest, TheDeleterIsCalledIfTheDeviceCannotTellItsWork) {
  Foreign foreign(device_.get());
  {
    ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&foreign.managed, import_));
    device_->FailNext(Call::kRecordEvent, 1);
    device_->FailNext(Call::kSynchronize, 2);
  }
  EXPECT_EQ(foreign.deletes, 1);
}

TEST_F(DLPackDeviceTest, ReadOnlyMemoryIsCopiedAtTheFirstWrite) {
  Foreign foreign(device_.get());
  foreign.managed.flags = dlpack::kDLPackFlagReadOnly;
  {
    ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&foreign.managed, import_));
    EXPECT_FALSE(in.buffer()->IsWritableInPlace());
    EXPECT_EQ(in.buffer()->device_data(), foreign.data());
    ASSERT_OK_AND_ASSIGN(void* const written, in.buffer()->MutableDeviceData());
    EXPECT_NE(written, foreign.data());
    EXPECT_EQ(in.buffer()->device_data(), written);
    EXPECT_EQ(in.buffer()->MutableDeviceData().value(), written) << "copied once";
    ASSERT_OK(device_->Fill(written, 9, 1, kDefaultStream));
    EXPECT_TRUE(Equal(OnHost(in), Tensor::FromValues<uint8_t>({9, 2, 3, 4})));
    EXPECT_EQ(device_->Peek(foreign.data()), 1);
  }
  EXPECT_EQ(foreign.deletes, 1);
}

TEST_F(DLPackDeviceTest, CopiesAreFinishedAndReleaseTheMemory) {
  Foreign foreign(device_.get());
  import_.copy = DLPackCopy::kAlways;
  ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&foreign.managed, import_));
  EXPECT_EQ(foreign.deletes, 1);
  EXPECT_EQ(device_->pending(kDefaultStream), 0);
  EXPECT_NE(in.buffer()->device_data(), foreign.data());
  EXPECT_TRUE(Equal(OnHost(in), Tensor::FromValues<uint8_t>({1, 2, 3, 4})));
}

TEST_F(DLPackDeviceTest, AddressesThatAreNotAlignedAreCopied) {
  Foreign foreign(device_.get(), {0, 1, 0, 2, 0, 9});
  foreign.dims = {2};
  foreign.managed.dl_tensor.dtype = {dlpack::kDLUInt, 16, 1};
  foreign.managed.dl_tensor.byte_offset = 1;
  {
    ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&foreign.managed, import_));
    EXPECT_EQ(foreign.deletes, 1);
    EXPECT_TRUE(Equal(OnHost(in), Tensor::FromValues<uint16_t>({1, 2})));
  }
  import_.copy = DLPackCopy::kNever;
  EXPECT_THAT(FromDLPack(&foreign.managed, import_), StatusIs(Code::kInvalidArgument, HasSubstr("multiple of 2")));
}

TEST_F(DLPackDeviceTest, BoolsAreCheckedAndMended) {
  Foreign good(device_.get(), {1, 0, 1});
  good.managed.dl_tensor.dtype = {dlpack::kDLBool, 8, 1};
  {
    ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&good.managed, import_));
    EXPECT_EQ(in.buffer()->device_data(), good.data());
  }
  Foreign bad(device_.get(), {1, 0, 7});
  bad.managed.dl_tensor.dtype = {dlpack::kDLBool, 8, 1};
  ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(&bad.managed, import_));
  EXPECT_NE(in.buffer()->device_data(), bad.data());
  EXPECT_TRUE(Equal(OnHost(in), Tensor::FromValues<bool>({true, false, true})));
  EXPECT_EQ(bad.deletes, 1);
}

TEST_F(DLPackDeviceTest, BoolsOfAnOutputAreNotRead) {
  Foreign memory(device_.get(), {1, 0, 7});
  memory.managed.dl_tensor.dtype = {dlpack::kDLBool, 8, 1};
  import_.copy = DLPackCopy::kNever;
  import_.is_output = true;
  const int64_t copies = device_->calls(SimulatedBackend::Call::kCopy);
  ASSERT_OK_AND_ASSIGN(TensorView out, FromDLPack(&memory.managed, import_));
  EXPECT_EQ(device_->calls(SimulatedBackend::Call::kCopy), copies);
  EXPECT_EQ(out.buffer()->device_data(), memory.data());
  ASSERT_OK(CopyAcross(Tensor::FromValues<bool>({false, true, true}), &out));
  EXPECT_TRUE(Equal(OnHost(out), Tensor::FromValues<bool>({false, true, true})));
}

TEST_F(DLPackDeviceTest, DataAndAllocatorAreOfOneDevice) {
  struct Case {
    dlpack::DLDevice device;
    RefPtr<Allocator> allocator;
    std::string found, wanted;
  };
  for (const Case& c : {Case{{kExtension, 4}, cache_, "device 4 of type 12 (ext_dev)", "ext_dev:3"},
                        Case{{2, 3}, cache_, "device 3 of type 2 (cuda)", "ext_dev:3"},
                        Case{{1, 0}, cache_, "device 0 of type 1 (cpu)", "ext_dev:3"},
                        Case{{kExtension, 3}, CpuAllocator::Default(), "device 3 of type 12 (ext_dev)", "cpu"}}) {
    SCOPED_TRACE(c.found);
    Foreign foreign(device_.get());
    foreign.managed.dl_tensor.device = c.device;
    import_.allocator = c.allocator;
    EXPECT_THAT(FromDLPack(&foreign.managed, import_),
                StatusIs(Code::kUnimplemented, AllOf(HasSubstr(c.found), HasSubstr(c.wanted))));
    EXPECT_EQ(foreign.deletes, 1);
  }
}

TEST_F(DLPackDeviceTest, PinnedMemoryIsMemoryOfTheHost) {
  for (const int32_t type : {3, 11}) {  // kDLCUDAHost, kDLROCMHost
    DLPackPtr out = ToDLPack(Tensor::FromValues<float>({1, 2})).value();
    out->dl_tensor.device = {type, 0};
    ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(out.release()));
    EXPECT_EQ(in.device(), Device());
    EXPECT_TRUE(Equal(in, Tensor::FromValues<float>({1, 2})));
  }
}

TEST_F(DLPackDeviceTest, WithoutAnAllocatorCopiesAreOnTheHost) {
  import_.allocator = nullptr;
  import_.copy = DLPackCopy::kAlways;
  DLPackPtr out = ToDLPack(Tensor::FromValues<float>({1, 2})).value();
  ASSERT_OK_AND_ASSIGN(const TensorView in, FromDLPack(out.release(), import_));
  EXPECT_TRUE(Equal(in, Tensor::FromValues<float>({1, 2})));
}

TEST_F(DLPackDeviceTest, FailuresOfTheDeviceAreReported) {
  Foreign foreign(device_.get());
  import_.copy = DLPackCopy::kAlways;
  device_->FailNext(Call::kCopy, 1);
  EXPECT_THAT(FromDLPack(&foreign.managed, import_), StatusIs(Code::kInternal, HasSubstr("Copy")));
  EXPECT_EQ(foreign.deletes, 1);
  const TensorView view = OnDevice(Tensor::FromValues<uint8_t>({1}));
  device_->FailNext(Call::kSynchronize, 1);
  EXPECT_THAT(ToDLPack(view), StatusIs(Code::kInternal, HasSubstr("Synchronize")));
}

}  // namespace
}  // namespace tensorcask
