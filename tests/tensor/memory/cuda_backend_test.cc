// CudaBackend with a driver library that the test brings (fake_cuda.cc), and on a real GPU where there is one.

#include "tensorcask/tensor/memory/cuda_backend.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/caching_options.h"
#include "tensorcask/tensor/memory/copy_across.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_module.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

std::string Fake() { return testing::TestModule("tests/tensor/memory/libfake_cuda.so"); }
std::string FakeWithoutStreams() { return testing::TestModule("tests/tensor/memory/libfake_cuda_without_streams.so"); }

// The calls of every backend: of the fake one and of a real one.
void ExerciseBackend(const RefPtr<CudaBackend>& gpu) {
  ASSERT_OK_AND_ASSIGN(const DeviceMemoryInfo info, gpu->MemoryInfo());
  EXPECT_GT(info.total_bytes, 0U);
  EXPECT_LE(info.free_bytes, info.total_bytes);
  ASSERT_OK_AND_ASSIGN(void* const a, gpu->Allocate(1 << 20));
  ASSERT_OK_AND_ASSIGN(void* const b, gpu->Allocate(1 << 20));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % Allocator::kAlignment, 0U);
  ASSERT_OK_AND_ASSIGN(void* const pinned, gpu->AllocateHost(1 << 20));
  ASSERT_OK_AND_ASSIGN(const StreamId stream, gpu->CreateStream());
  ASSERT_OK_AND_ASSIGN(const StreamId other, gpu->CreateStream());

  std::vector<char> bytes(1 << 20);
  std::iota(bytes.begin(), bytes.end(), 0);
  std::memcpy(pinned, bytes.data(), bytes.size());
  ASSERT_OK(gpu->Copy(CopyKind::kHostToDevice, a, pinned, bytes.size(), stream));
  ASSERT_OK(gpu->Fill(a, 7, 3, stream));
  ASSERT_OK_AND_ASSIGN(const EventId event, gpu->RecordEvent(stream));
  ASSERT_OK(gpu->WaitForEvent(other, event));
  ASSERT_OK(gpu->Copy(CopyKind::kDeviceToDevice, b, a, bytes.size(), other));
  std::vector<char> back(bytes.size());
  ASSERT_OK(gpu->Copy(CopyKind::kDeviceToHost, back.data(), b, back.size(), other));
  ASSERT_OK(gpu->Synchronize(other));
  EXPECT_EQ(std::string(back.data(), 5), std::string("\7\7\7\3\4", 5));
  EXPECT_EQ(std::memcmp(back.data() + 3, bytes.data() + 3, bytes.size() - 3), 0);
  ASSERT_OK(gpu->SynchronizeEvent(event));
  EXPECT_TRUE(gpu->QueryEvent(event).value());
  gpu->DestroyEvent(event);
  EXPECT_THAT(gpu->QueryEvent(event), StatusIs(Code::kInvalidArgument, HasSubstr("event")));
  EXPECT_OK(gpu->Copy(CopyKind::kHostToDevice, nullptr, nullptr, 0, kDefaultStream));

  ASSERT_OK(gpu->DestroyStream(stream));
  ASSERT_OK(gpu->DestroyStream(other));
  EXPECT_THAT(gpu->Synchronize(stream), StatusIs(Code::kInvalidArgument, HasSubstr("stream")));
  EXPECT_THAT(gpu->DestroyStream(kDefaultStream), StatusIs(Code::kInvalidArgument, HasSubstr("stream 0")));
  ASSERT_OK(gpu->FreeHost(pinned, 1 << 20));
  ASSERT_OK(gpu->Free(a, 1 << 20));
  ASSERT_OK(gpu->Free(b, 1 << 20));
}

// Memory that is mapped to reserved addresses piece by piece.
void ExerciseVirtualMemory(const RefPtr<CudaBackend>& gpu) {
  const size_t step = gpu->MappingGranularity();
  ASSERT_OK_AND_ASSIGN(void* const start, gpu->ReserveAddresses(4 * step));
  char* const second = static_cast<char*>(start) + step;
  ASSERT_OK(gpu->Map(second, step));
  ASSERT_OK(gpu->Map(start, step));
  // A copy across the border of two mappings.
  ASSERT_OK(gpu->Fill(second - 3, 7, 6, kDefaultStream));
  char back[4] = {};
  ASSERT_OK(gpu->Copy(CopyKind::kDeviceToHost, back, second - 2, sizeof(back), kDefaultStream));
  ASSERT_OK(gpu->Synchronize(kDefaultStream));
  EXPECT_EQ(std::string(back, sizeof(back)), "\7\7\7\7");
  ASSERT_OK(gpu->Unmap(start, step));
  ASSERT_OK(gpu->Map(start, step));
  ASSERT_OK(gpu->Unmap(start, step));
  ASSERT_OK(gpu->Unmap(second, step));
  ASSERT_OK(gpu->FreeAddresses(start, 4 * step));
}

// Tensors through the caching allocator.
void ExerciseTensors(const RefPtr<CudaBackend>& gpu, const CachingOptions& options = {}) {
  const RefPtr<CachingAllocator> cache = CachingAllocator::Make(gpu, options);
  for (const int64_t rows : {1, 300, 4000}) {
    Tensor host = Tensor::Create(DType::kInt32, TensorShape({rows, 700})).value();
    std::iota(host.mutable_data<int32_t>(), host.mutable_data<int32_t>() + host.num_elements(), 0);
    ASSERT_OK_AND_ASSIGN(const TensorView there, To(TensorView(host).Transpose(0, 1).value(), cache));
    EXPECT_EQ(there.device(), gpu->device());
    ASSERT_OK_AND_ASSIGN(const TensorView back, To(there, CpuAllocator::Default()));
    EXPECT_TRUE(Equal(back, TensorView(host).Transpose(0, 1).value()));
  }
  ASSERT_OK_AND_ASSIGN(const DeviceMemoryInfo info, gpu->MemoryInfo());
  EXPECT_THAT(cache->TryAllocate(info.total_bytes * 2),
              StatusIs(Code::kResourceExhausted, HasSubstr(std::to_string(info.total_bytes))));
}

CachingOptions Expandable() {
  CachingOptions options;
  options.expandable_segments = true;
  return options;
}

class FakeCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const handle = dlopen(Fake().c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr) << dlerror();
    set_ = reinterpret_cast<void (*)(const char*, int)>(dlsym(handle, "FakeCudaSet"));
    live_ = reinterpret_cast<int (*)()>(dlsym(handle, "FakeCudaLive"));
  }
  void TearDown() override {
    if (live_ != nullptr) {
      EXPECT_EQ(live_(), 0);
    }
  }

  // While it lives, a call fails or another value is reported.
  class Setting {
   public:
    Setting(const FakeCudaTest& test, const char* name, int value, int later = 0)
        : test_(test), name_(name), later_(later) {
      test_.set_(name, value);
    }
    ~Setting() { test_.set_(name_, later_); }

   private:
    const FakeCudaTest& test_;
    const char* const name_;
    const int later_;
  };

  static absl::StatusOr<RefPtr<CudaBackend>> Create(int device = 0) { return CudaBackend::Create({device, Fake()}); }

  void (*set_)(const char*, int) = nullptr;
  int (*live_)() = nullptr;
};

TEST(CudaBackendTest, WithoutADriverItSaysWhatIsMissing) {
  EXPECT_THAT(CudaBackend::Create({0, "libno_such_driver.so.1"}),
              StatusIs(Code::kUnimplemented, AllOf(HasSubstr("libno_such_driver.so.1"), HasSubstr("driver"))));
  EXPECT_THAT(CudaBackend::Create({-1, Fake()}), StatusIs(Code::kInvalidArgument, HasSubstr("device -1")));
}

TEST_F(FakeCudaTest, AMissingFunctionIsNamed) {
  EXPECT_THAT(CudaBackend::Create({0, FakeWithoutStreams()}),
              StatusIs(Code::kUnimplemented, HasSubstr("has no function cuStreamCreate")));
}

TEST_F(FakeCudaTest, AnOldDriverIsUnimplemented) {
  const Setting old(*this, "version", 10020, 12020);
  EXPECT_THAT(Create(), StatusIs(Code::kUnimplemented, AllOf(HasSubstr("10.2"), HasSubstr("11.0 or later"))));
}

TEST_F(FakeCudaTest, AMissingDeviceIsUnimplemented) {
  EXPECT_THAT(Create(2), StatusIs(Code::kUnimplemented, AllOf(HasSubstr("cuda:2"), HasSubstr("finds 2 devices"))));
  const Setting none(*this, "cuInit", 100);
  EXPECT_THAT(Create(), StatusIs(Code::kUnimplemented, HasSubstr("finds 0 devices")));
}

TEST_F(FakeCudaTest, FailuresOfTheStart) {
  for (const char* const call : {"cuInit", "cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuDeviceGetAttribute",
                                 "cuMemGetAllocationGranularity"}) {
    const Setting failing(*this, call, 999);
    EXPECT_THAT(Create(), StatusIs(Code::kInternal, AllOf(HasSubstr(call), HasSubstr("(999)"))));
  }
}

TEST_F(FakeCudaTest, DoesWhatABackendDoes) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<CudaBackend> gpu, Create(1));
  EXPECT_EQ(gpu->name(), "cuda:1");
  EXPECT_EQ(gpu->device().ToString(), "cuda:1");
  ExerciseBackend(gpu);
  ExerciseTensors(gpu);
}

TEST_F(FakeCudaTest, MapsMemoryToReservedAddresses) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<CudaBackend> gpu, Create(1));
  EXPECT_EQ(gpu->MappingGranularity(), size_t{2} << 20);
  ExerciseVirtualMemory(gpu);
  ExerciseTensors(gpu, Expandable());
}

TEST_F(FakeCudaTest, DevicesWithoutVirtualMemory) {
  const Setting none(*this, "virtual memory", 0, 1);
  ASSERT_OK_AND_ASSIGN(const RefPtr<CudaBackend> gpu, Create());
  EXPECT_EQ(gpu->MappingGranularity(), 0U);
  EXPECT_THAT(gpu->ReserveAddresses(8), StatusIs(Code::kUnimplemented, HasSubstr("cuda:0")));
  ExerciseTensors(gpu, Expandable());
}

TEST_F(FakeCudaTest, QuestionsAboutVirtualMemoryThatAreNotSupported) {
  for (const char* const call : {"cuDeviceGetAttribute", "cuMemGetAllocationGranularity"}) {
    const Setting unsupported(*this, call, 801);
    ASSERT_OK_AND_ASSIGN(const RefPtr<CudaBackend> gpu, Create());
    EXPECT_EQ(gpu->MappingGranularity(), 0U);
  }
}

TEST_F(FakeCudaTest, MappedMemoryStaysMappedIfItsHandleCannotBeReleased) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<CudaBackend> gpu, Create());
  const size_t step = gpu->MappingGranularity();
  ASSERT_OK_AND_ASSIGN(void* const start, gpu->ReserveAddresses(step));
  {
    const Setting failing(*this, "cuMemRelease", 700);
    EXPECT_OK(gpu->Map(start, step));
  }
  EXPECT_OK(gpu->Unmap(start, step));
  EXPECT_OK(gpu->FreeAddresses(start, step));
}

TEST_F(FakeCudaTest, AFailedMappingLeavesNothing) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<CudaBackend> gpu, Create());
  const size_t step = gpu->MappingGranularity();
  ASSERT_OK_AND_ASSIGN(void* const start, gpu->ReserveAddresses(step));
  const int live = live_();
  for (const char* const call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    const Setting failing(*this, call, 700);
    EXPECT_THAT(gpu->Map(start, step), StatusIs(Code::kInternal, HasSubstr("2097152 bytes")));
    EXPECT_EQ(live_(), live) << call;
  }
  {
    const Setting full(*this, "cuMemCreate", 2);
    EXPECT_THAT(gpu->Map(start, step), StatusIs(Code::kResourceExhausted, HasSubstr("cuMemCreate")));
  }
  ASSERT_OK(gpu->Map(start, step));
  {
    const Setting lost(*this, "cuCtxSynchronize", 700);
    EXPECT_THAT(gpu->Unmap(start, step), StatusIs(Code::kInternal, HasSubstr("cuMemUnmap")));
  }
  ASSERT_OK(gpu->Unmap(start, step));
  {
    const Setting failing(*this, "cuMemAddressFree", 700);
    EXPECT_THAT(gpu->FreeAddresses(start, step), StatusIs(Code::kInternal, HasSubstr("cuMemAddressFree")));
  }
  ASSERT_OK(gpu->FreeAddresses(start, step));
  const Setting failing(*this, "cuMemAddressReserve", 2);
  EXPECT_THAT(gpu->ReserveAddresses(step), StatusIs(Code::kResourceExhausted, HasSubstr("cuMemAddressReserve")));
}

TEST_F(FakeCudaTest, NoBytesAreNoCallAndOneIsOne) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<CudaBackend> gpu, Create());
  ASSERT_OK_AND_ASSIGN(void* const block, gpu->Allocate(512));
  char byte = 3;
  for (const char* const call : {"copy", "fill"}) {
    const Setting failing(*this, call, 700);
    EXPECT_OK(gpu->Copy(CopyKind::kHostToDevice, block, &byte, 0, kDefaultStream));
    EXPECT_OK(gpu->Fill(block, 1, 0, kDefaultStream));
  }
  ASSERT_OK(gpu->Fill(block, 7, 1, kDefaultStream));
  ASSERT_OK(gpu->Copy(CopyKind::kDeviceToHost, &byte, block, 1, kDefaultStream));
  EXPECT_EQ(byte, 7);
  ASSERT_OK(gpu->Free(block, 512));
}

TEST_F(FakeCudaTest, StreamsOfOtherLibraries) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<CudaBackend> gpu, Create());
  int handle = 0;
  const StreamId stream = gpu->AdoptStream(&handle);
  EXPECT_EQ(gpu->StreamHandle(stream).value(), &handle);
  EXPECT_EQ(gpu->StreamHandle(kDefaultStream).value(), nullptr);
  EXPECT_OK(gpu->Synchronize(stream));
  EXPECT_OK(gpu->DestroyStream(stream));  // does not destroy it
  EXPECT_THAT(gpu->Synchronize(stream), StatusIs(Code::kInvalidArgument, HasSubstr("stream")));
  gpu->AdoptStream(&handle);  // nor does the end of the backend
}

TEST_F(FakeCudaTest, WhatIsLeftIsDestroyed) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<CudaBackend> gpu, Create());
  ASSERT_OK_AND_ASSIGN(const StreamId stream, gpu->CreateStream());
  ASSERT_OK(gpu->RecordEvent(stream));
}

TEST_F(FakeCudaTest, ErrorsHaveTheNamesOfTheDriver) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<CudaBackend> gpu, Create());
  EXPECT_THAT(gpu->Allocate(size_t{1} << 30),
              StatusIs(Code::kResourceExhausted, AllOf(HasSubstr("cuda:0: cuMemAlloc of 1073741824 bytes"),
                                                       HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (2)"))));
  EXPECT_THAT(gpu->Free(&set_, 8), StatusIs(Code::kInvalidArgument, HasSubstr("cuMemFree")));
  {
    const Setting lost(*this, "cuCtxSynchronize", 700);
    EXPECT_THAT(gpu->Free(&set_, 8), StatusIs(Code::kInternal, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (700)")));
  }
  {
    const Setting unsupported(*this, "cuMemHostAlloc", 801);
    EXPECT_THAT(gpu->AllocateHost(8), StatusIs(Code::kUnimplemented, HasSubstr("cuMemHostAlloc of 8 bytes")));
  }
  const Setting no_context(*this, "cuCtxPushCurrent", 201);
  EXPECT_THAT(gpu->MemoryInfo(), StatusIs(Code::kInternal, HasSubstr("cuCtxPushCurrent")));
}

TEST_F(FakeCudaTest, EveryCallReportsItsFailure) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<CudaBackend> gpu, Create());
  ASSERT_OK_AND_ASSIGN(void* const block, gpu->Allocate(512));
  ASSERT_OK_AND_ASSIGN(const StreamId stream, gpu->CreateStream());
  ASSERT_OK_AND_ASSIGN(const EventId event, gpu->RecordEvent(stream));
  char host[8] = {};
  const auto fails = [&](const char* call, const absl::Status& status) {
    EXPECT_THAT(status, StatusIs(Code::kInternal, AllOf(HasSubstr("cuda:0"), HasSubstr("(700)")))) << call;
  };
  {
    const Setting failing(*this, "copy", 700);
    for (const CopyKind kind : {CopyKind::kHostToDevice, CopyKind::kDeviceToHost, CopyKind::kDeviceToDevice})
      fails("copy", gpu->Copy(kind, host, host, 8, stream));
  }
  {
    const Setting failing(*this, "fill", 700);
    fails("fill", gpu->Fill(block, 0, 8, stream));
  }
  {
    const Setting failing(*this, "cuStreamCreate", 700);
    fails("create", gpu->CreateStream().status());
  }
  {
    const Setting failing(*this, "cuStreamSynchronize", 700);
    fails("synchronize", gpu->Synchronize(stream));
    fails("destroy", gpu->DestroyStream(stream));
  }
  {
    const Setting failing(*this, "cuStreamWaitEvent", 700);
    fails("wait", gpu->WaitForEvent(stream, event));
  }
  {
    const Setting failing(*this, "cuEventCreate", 700);
    fails("event", gpu->RecordEvent(stream).status());
  }
  {
    const Setting failing(*this, "cuEventRecord", 700);
    fails("record", gpu->RecordEvent(stream).status());
  }
  {
    const Setting failing(*this, "cuEventQuery", 700);
    fails("query", gpu->QueryEvent(event).status());
  }
  {
    const Setting pending(*this, "cuEventQuery", 600);
    EXPECT_FALSE(gpu->QueryEvent(event).value());
  }
  {
    const Setting failing(*this, "cuEventSynchronize", 700);
    fails("event", gpu->SynchronizeEvent(event));
  }
  gpu->DestroyEvent(event);
  gpu->DestroyEvent(event);
  EXPECT_THAT(gpu->WaitForEvent(stream, event), StatusIs(Code::kInvalidArgument, HasSubstr("event")));
  EXPECT_THAT(gpu->WaitForEvent(99, event), StatusIs(Code::kInvalidArgument, HasSubstr("stream 99")));
  EXPECT_THAT(gpu->SynchronizeEvent(event), StatusIs(Code::kInvalidArgument, HasSubstr("event")));
  ASSERT_OK(gpu->Free(block, 512));
}

TEST(CudaBackendTest, OnARealDevice) {
  const absl::StatusOr<RefPtr<CudaBackend>> gpu = CudaBackend::Create({});
  if (absl::IsUnimplemented(gpu.status())) GTEST_SKIP() << gpu.status().message();
  ASSERT_OK(gpu.status());
  ExerciseBackend(*gpu);
  ExerciseTensors(*gpu);
  if ((*gpu)->MappingGranularity() == 0) return;
  ExerciseVirtualMemory(*gpu);
  ExerciseTensors(*gpu, Expandable());
}

}  // namespace
}  // namespace tensorcask
