// Managed tensors that are refused, in both forms: the error says why, and the deleter is called exactly once.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/interop/dlpack_abi.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/interop/dlpack_producer.h"

namespace tensorcask {
namespace {

using Code = absl::StatusCode;
using ::tensorcask::dlpack::DLTensor;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();

struct RejectCase {
  const char* name;
  void (*spoil)(DLTensor& tensor, std::vector<int64_t>& dims, std::vector<int64_t>& strides);
  Code code;
  const char* says;
};

// Statements that spoil a good tensor, as a function.
#define SPOIL(...)                                                                  \
  [](DLTensor& tensor, std::vector<int64_t>& dims, std::vector<int64_t>& strides) { \
    static_cast<void>(tensor), static_cast<void>(dims), static_cast<void>(strides); \
    __VA_ARGS__;                                                                    \
  }

const RejectCase kRejects[] = {
    {"NegativeRank", SPOIL(tensor.ndim = -1), Code::kInvalidArgument, "rank -1; 0 to 254"},
    {"HugeRank", SPOIL(tensor.ndim = 0x7fffffff), Code::kInvalidArgument, "rank 2147483647"},
    {"RankPastOurs", SPOIL(tensor.ndim = 255), Code::kInvalidArgument, "rank 255"},
    {"NullShape", SPOIL(tensor.shape = nullptr), Code::kInvalidArgument, "rank 2 and a null shape"},
    {"NullData", SPOIL(tensor.data = nullptr), Code::kInvalidArgument, "6 elements and null data"},
    {"NullDataWithOffset", SPOIL(tensor.data = nullptr; tensor.byte_offset = 64), Code::kInvalidArgument, "null data"},
    {"NegativeDim", SPOIL(dims[1] = -3), Code::kInvalidArgument, "-3"},
    {"SmallestDim", SPOIL(dims[0] = kSmallest), Code::kInvalidArgument, "-9223372036854775808"},
    {"ProductOverflows", SPOIL(dims = {int64_t{1} << 32, int64_t{1} << 32}), Code::kInvalidArgument, "4294967296"},
    {"ProductOverflowsBesideZero", SPOIL(dims = {0, int64_t{1} << 62, 8}; strides = {1, 1, 1}; tensor.ndim = 3),
     Code::kInvalidArgument, "4611686018427387904"},
    {"BytesOverflow", SPOIL(dims = {kLargest / 2, 1}; strides = {1, 1}), Code::kInvalidArgument,
     "leaves the address space"},
    {"BytesOverflowWithoutStrides", SPOIL(dims = {kLargest / 2, 1}; tensor.strides = nullptr), Code::kInvalidArgument,
     "leaves the address space"},
    {"StrideOverflows", SPOIL(strides[0] = kLargest), Code::kInvalidArgument, "exceed 2^63-1"},
    {"StrideSumOverflows", SPOIL(strides = {kLargest - 1, kLargest / 2}), Code::kInvalidArgument, "exceed 2^63-1"},
    {"StepsBackOverflow", SPOIL(strides[1] = kSmallest), Code::kInvalidArgument, "axis 1 positions are below -2^63"},
    {"StepsBackSumOverflows", SPOIL(strides = {kSmallest, -1}), Code::kInvalidArgument, "below -2^63"},
    {"StepsBackAndForthOverflow", SPOIL(strides = {-kLargest, kLargest / 2}), Code::kInvalidArgument, "2^63-1"},
    {"StepsBackBelowZero", SPOIL(strides = {-(kLargest / 8), 1}), Code::kInvalidArgument, "address space"},
    {"StepsBackToZero", SPOIL(tensor.data = reinterpret_cast<void*>(16); strides = {-4, 1}), Code::kInvalidArgument,
     "address space"},
    {"StepsPastTheEnd", SPOIL(strides = {kLargest / 4, 1}), Code::kInvalidArgument, "address space"},
    {"ElementsPastTheEnd", SPOIL(tensor.data = reinterpret_cast<void*>(~uintptr_t{0} - 7)), Code::kInvalidArgument,
     "address space"},
    {"ByteOffsetOverflows", SPOIL(tensor.byte_offset = ~uint64_t{0}), Code::kInvalidArgument,
     "18446744073709551615 bytes from its data, leaves the address space"},
    {"ZeroLanes", SPOIL(tensor.dtype.lanes = 0), Code::kInvalidArgument, "0 lanes"},
    {"FourLanes", SPOIL(tensor.dtype.lanes = 4), Code::kUnimplemented, "code 2, 32 bits, 4 lanes"},
    {"UnknownCode", SPOIL(tensor.dtype = {200, 8, 1}), Code::kUnimplemented, "unknown dtype of code 200, 8 bits"},
    {"NextCode", SPOIL(tensor.dtype = {18, 8, 1}), Code::kUnimplemented, "code 18, 8 bits"},
    {"OpaqueHandle", SPOIL(tensor.dtype = {3, 64, 1}), Code::kUnimplemented, "code 3, 64 bits"},
    {"ZeroBits", SPOIL(tensor.dtype = {0, 0, 1}), Code::kUnimplemented, "code 0, 0 bits"},
    {"OneBitBool", SPOIL(tensor.dtype = {6, 1, 1}), Code::kUnimplemented, "code 6, 1 bits"},
    {"WideBool", SPOIL(tensor.dtype = {6, 32, 1}), Code::kUnimplemented, "code 6, 32 bits"},
    {"LongDouble", SPOIL(tensor.dtype = {2, 128, 1}), Code::kUnimplemented, "code 2, 128 bits"},
    {"EightBitFloatWithoutKind", SPOIL(tensor.dtype = {2, 8, 1}), Code::kUnimplemented, "code 2, 8 bits"},
    {"OddInteger", SPOIL(tensor.dtype = {0, 24, 1}), Code::kUnimplemented, "code 0, 24 bits"},
    {"ComplexOfHalves", SPOIL(tensor.dtype = {5, 32, 1}), Code::kUnimplemented, "code 5, 32 bits"},
    {"PackedInt4", SPOIL(tensor.dtype = {0, 4, 1}), Code::kUnimplemented, "packed elements are not supported: int4"},
    {"PackedFloat4", SPOIL(tensor.dtype = {17, 4, 1}), Code::kUnimplemented, "packed"},
    {"Cuda", SPOIL(tensor.device = {2, 1}), Code::kUnimplemented, "device 1 of type 2 (cuda)"},
    {"UnknownDevice", SPOIL(tensor.device = {99, 0}), Code::kUnimplemented, "device 0 of type 99 (unknown)"},
    {"NegativeDevice", SPOIL(tensor.device = {-1, 0}), Code::kUnimplemented, "device 0 of type -1 (unknown)"},
    {"WrappingDevice", SPOIL(tensor.device = {257, 0}), Code::kUnimplemented, "device 0 of type 257 (unknown)"},
    {"NoDevice", SPOIL(tensor.device = {0, 0}), Code::kUnimplemented, "device 0 of type 0 (unknown)"},
};

class DLPackImportRejects : public ::testing::TestWithParam<RejectCase> {
 protected:
  template <typename P>
  void Check() {
    P producer;
    GetParam().spoil(producer.managed.dl_tensor, producer.dims, producer.strides);
    if (producer.managed.dl_tensor.shape != nullptr) producer.managed.dl_tensor.shape = producer.dims.data();
    if (producer.managed.dl_tensor.strides != nullptr) producer.managed.dl_tensor.strides = producer.strides.data();
    EXPECT_THAT(Import(&producer.managed), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
    EXPECT_EQ(producer.deletes, 1);
  }
};

TEST_P(DLPackImportRejects, WithCodeAndMessageAndOneCallOfTheDeleter) {
  Check<Versioned>();
  Check<Legacy>();
}

INSTANTIATE_TEST_SUITE_P(Hostile, DLPackImportRejects, ::testing::ValuesIn(kRejects),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensorcask
