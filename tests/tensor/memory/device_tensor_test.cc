// Tensors in memory of a device, on the simulated one: what the host may do with them, and what it is refused.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/concat.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/copy_across.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/memory_observer.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/simulated_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::SimulatedDevice;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Call = SimulatedBackend::Call;

class DeviceTensorTest : public ::testing::Test {
 protected:
  Tensor New(DType dtype, const TensorShape& shape) { return Tensor::Create(dtype, shape, cache_).value(); }
  uint8_t Peek(const Tensor& tensor, size_t offset = 0) const {
    return device_->Peek(static_cast<const char*>(tensor.buffer()->device_data()) + offset);
  }
  int64_t Copies() const { return device_->calls(Call::kCopy); }

  const SimulatedDevice simulated_{3};
  const RefPtr<SimulatedBackend>& device_ = simulated_.device;
  const RefPtr<CachingAllocator>& cache_ = simulated_.cache;
};

TEST_F(DeviceTensorTest, KnowsItsDevice) {
  const Tensor tensor = New(DType::kFloat32, TensorShape({2, 3}));
  EXPECT_EQ(tensor.device().ToString(), "ext_dev:3");
  EXPECT_EQ(TensorView(tensor).device().ToString(), "ext_dev:3");
  EXPECT_EQ(tensor.buffer()->kind(), TensorBuffer::Kind::kDevice);
  EXPECT_EQ(tensor.buffer()->allocator_name(), "caching");
  EXPECT_EQ(tensor.buffer()->device_data(), device_->base());
  EXPECT_EQ(tensor.buffer()->block_info().allocated_bytes, 512U);
  EXPECT_TRUE(tensor.IsAligned());
  EXPECT_EQ(Tensor::FromValues<float>({1}).device(), Device());
  EXPECT_EQ(New(DType::kFloat32, TensorShape({0})).device(), Device()) << "a tensor without elements has no memory";
}

TEST_F(DeviceTensorTest, TheHostIsRefusedItsData) {
  Tensor tensor = New(DType::kFloat32, TensorShape({2, 3}));
  const auto refused = StatusIs(Code::kFailedPrecondition, AllOf(HasSubstr("ext_dev:3"), HasSubstr("copy_across.h")));
  EXPECT_THAT(tensor.buffer()->CheckReadable(), refused);
  EXPECT_THAT(tensor.EnsureMutable(), refused);
  EXPECT_THAT(tensor.Clone(), refused);
  EXPECT_THAT(TensorView(tensor).Transpose(0, 1)->Contiguous(), refused);
  Tensor host = Tensor::Zeros(DType::kFloat32, TensorShape({2, 3})).value();
  TensorView to_host = host;
  TensorView to_device = tensor;
  EXPECT_THAT(Copy(tensor, &to_host), refused);
  EXPECT_THAT(Copy(host, &to_device), refused);
  EXPECT_THAT(tensor.ToString(), HasSubstr("ext_dev:3"));
  EXPECT_DEATH(static_cast<void>(tensor.data<float>()), "ext_dev:3");
  EXPECT_DEATH(static_cast<void>(tensor.mutable_data<float>()), "ext_dev:3");
  EXPECT_DEATH(static_cast<void>(*static_cast<const volatile char*>(tensor.buffer()->device_data())), "");
}

TEST_F(DeviceTensorTest, CopiesOfTheHostIntoADevicesAllocatorAreRefused) {
  const Tensor host = Tensor::FromValues<float>({{1, 2}, {3, 4}});
  const auto refused = StatusIs(Code::kFailedPrecondition, HasSubstr("ext_dev:3"));
  EXPECT_THAT(host.Clone(cache_), refused);
  EXPECT_THAT(TensorView(host).Clone(MemoryFormat::kPreserve, cache_), refused);
  EXPECT_THAT(Concat({host, host}, 0, cache_), refused);
  EXPECT_THAT(Split(host, {1, 1}, 1, cache_), refused);
  EXPECT_THAT(ConvertTo(host, DType::kFloat64, MemoryFormat::kPreserve, {}, cache_), refused);
  EXPECT_EQ(cache_->statistics().allocations.all.current, 0);
}

TEST_F(DeviceTensorTest, ObjectsStayOnTheHost) {
  EXPECT_THAT(Tensor::Create(DType::kString, TensorShape({2}), cache_),
              StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("objects"), HasSubstr("ext_dev:3"))));
  EXPECT_EQ(cache_->statistics().allocations.all.current, 0);
}

TEST_F(DeviceTensorTest, ZerosAreFilledOnTheDevice) {
  const Tensor tensor = Tensor::Zeros(DType::kUint8, TensorShape({5}), cache_).value();
  EXPECT_EQ(device_->pending(kDefaultStream), 1);
  device_->Complete(kDefaultStream);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(Peek(tensor, i), 0);
}

TEST_F(DeviceTensorTest, SlicesAndReshapesShareItsMemory) {
  const Tensor tensor = New(DType::kInt16, TensorShape({4, 2}));
  const Tensor row = tensor.Slice(1, 3).value();
  EXPECT_EQ(row.device(), tensor.device());
  EXPECT_EQ(row.buffer()->device_data(), device_->base() + 4);
  EXPECT_TRUE(row.SharesBufferWith(tensor));
  EXPECT_EQ(tensor.Reshape(TensorShape({8}))->buffer()->device_data(), device_->base());
}

TEST_F(DeviceTensorTest, LazyClonesAreCopiedOnTheDeviceAtTheFirstWrite) {
  const Tensor host = Tensor::FromValues<uint8_t>({1, 2, 3, 4});
  const Tensor tensor = To(host, cache_)->ToTensor().value();
  const int64_t copies = Copies();
  Tensor clone = tensor.LazyClone().value();
  EXPECT_EQ(clone.buffer()->device_data(), tensor.buffer()->device_data());
  EXPECT_EQ(Copies(), copies);
  EXPECT_FALSE(clone.buffer()->IsWritableInPlace());

  const uint64_t version = clone.buffer()->version();
  ASSERT_OK_AND_ASSIGN(void* const written, clone.buffer()->MutableDeviceData());
  EXPECT_NE(written, tensor.buffer()->device_data());
  EXPECT_EQ(clone.buffer()->version(), version + 1);
  EXPECT_EQ(Copies(), copies + 1);
  ASSERT_OK(device_->Fill(written, 9, 1, kDefaultStream));
  device_->Complete(kDefaultStream);
  EXPECT_EQ(Peek(tensor), 1);
  EXPECT_EQ(Peek(clone), 9);
  EXPECT_EQ(Peek(clone, 3), 4);
  // Both roots have memory of their own now.
  EXPECT_EQ(clone.buffer()->MutableDeviceData().value(), written);
  EXPECT_EQ(tensor.buffer()->MutableDeviceData().value(), tensor.buffer()->device_data());
  EXPECT_EQ(Copies(), copies + 2) << "only the fill";
}

TEST_F(DeviceTensorTest, AFailedCopyOnWriteChangesNothing) {
  const Tensor tensor = Tensor::Zeros(DType::kUint8, TensorShape({4}), cache_).value();
  const Tensor clone = tensor.LazyClone().value();
  device_->FailNext(Call::kCopy, 1);
  EXPECT_THAT(clone.buffer()->MutableDeviceData(), StatusIs(Code::kInternal, HasSubstr("Copy")));
  EXPECT_EQ(clone.buffer()->device_data(), tensor.buffer()->device_data());
  EXPECT_OK(clone.buffer()->MutableDeviceData());
}

TEST_F(DeviceTensorTest, AFullDeviceTellsTheNumbers) {
  const uint64_t total = uint64_t{64} << 20;
  EXPECT_THAT(Tensor::Create(DType::kFloat32, TensorShape({1 << 25}), cache_),
              StatusIs(Code::kResourceExhausted,
                       AllOf(HasSubstr("ext_dev:3"), HasSubstr("134217728 bytes"), HasSubstr(std::to_string(total)))));
  EXPECT_OK(Tensor::Create(DType::kFloat32, TensorShape({1 << 20}), cache_));
}

TEST_F(DeviceTensorTest, ExternalMemoryOfADeviceIsReleasedOnceAfterItsWork) {
  ASSERT_OK_AND_ASSIGN(void* const block, device_->Allocate(512));
  int released = 0;
  TensorBuffer::External memory;
  memory.data = block;
  memory.size_bytes = 16;
  memory.kind = TensorBuffer::Kind::kDevice;
  memory.allocator = cache_;
  memory.release = [&] { ++released; };
  {
    const Tensor tensor =
        Tensor::FromBuffer(DType::kFloat32, TensorShape({4}), TensorBuffer::WrapExternal(std::move(memory))).value();
    EXPECT_EQ(tensor.device().ToString(), "ext_dev:3");
    EXPECT_EQ(tensor.buffer()->MutableDeviceData().value(), block);
    EXPECT_OK(tensor.buffer()->RecordStream(7));
    const Tensor clone = tensor.LazyClone().value();
    EXPECT_NE(clone.buffer()->device_data(), block) << "memory of others is copied at once";
  }
  EXPECT_EQ(released, 0) << "the copy has not finished";
  device_->Complete(kDefaultStream);
  EXPECT_OK(To(Tensor::FromValues<float>({1}), cache_));
  EXPECT_EQ(released, 1);
  EXPECT_OK(device_->Free(block, 512));
}

TEST_F(DeviceTensorTest, MemoryIsReusedWhenTheRecordedStreamIsDone) {
  const StreamId other = device_->CreateStream().value();
  const void* first = nullptr;
  {
    const Tensor tensor = New(DType::kFloat32, TensorShape({4}));
    first = tensor.buffer()->device_data();
    ASSERT_OK(device_->Fill(tensor.buffer()->MutableDeviceData().value(), 1, 16, other));
    ASSERT_OK(tensor.buffer()->RecordStream(other));
  }
  EXPECT_NE(New(DType::kFloat32, TensorShape({4})).buffer()->device_data(), first);
  device_->Complete(other);
  EXPECT_EQ(New(DType::kFloat32, TensorShape({4})).buffer()->device_data(), first);
  ASSERT_OK(device_->DestroyStream(other));
}

TEST_F(DeviceTensorTest, ObserversSeeTensorsOfADevice) {
  struct Log : public MemoryObserver {
    void OnMemoryEvent(const MemoryEvent& event) override { total = event.total_allocated; }
    int64_t total = -1;
  } log;
  const RefPtr<Allocator> observed = ObservedAllocator::Make(cache_, device_->device());
  const ScopedThreadObserver scope(&log);
  {
    const Tensor tensor = Tensor::Create(DType::kFloat32, TensorShape({4}), observed).value();
    EXPECT_EQ(tensor.device().ToString(), "ext_dev:3");
    EXPECT_EQ(log.total, 16);
  }
  EXPECT_EQ(log.total, 0);
}

}  // namespace
}  // namespace tensorcask
