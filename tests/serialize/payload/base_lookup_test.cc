#include "tensorcask/serialize/payload/base_lookup.h"

#include <memory>

#include "gtest/gtest.h"
#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

TensorView Columns() {
  const Tensor rows = testing::RandomTensor(DType::kFloat32, TensorShape({30, 40}), testing::Values::kNoise, 1);
  return *TensorView(rows).Transpose(0, 1);
}

TEST(BaseLookup, FindsOneTensorUnderEveryName) {
  const std::shared_ptr<const BaseLookup> lookup = MakeBaseLookup(Columns());
  for (const char* name : {"", "w", "dense/kernel"}) {
    ASSERT_OK_AND_ASSIGN(const BaseLookup::Info info, lookup->FindBase(name));
    EXPECT_EQ(info.dtype, DType::kFloat32);
    EXPECT_EQ(info.shape, TensorShape({40, 30}));
    EXPECT_FALSE(info.is_delta);
  }
  EXPECT_FALSE(lookup->base_location().has_value());
  EXPECT_TRUE(lookup->base_must_match());
}

TEST(BaseLookup, CopiesAndHashesATensorInMemoryOnce) {
  const TensorView columns = Columns();
  const std::shared_ptr<const BaseLookup> lookup = MakeBaseLookup(columns);
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const BaseTensor> first, lookup->ReadBase("a"));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const BaseTensor> second, lookup->ReadBase("b"));
  EXPECT_EQ(first, second);
  EXPECT_TRUE(first->elements().IsContiguous());
  EXPECT_FALSE(first->elements().SharesBufferWith(columns));
  EXPECT_EQ(testing::ElementBytes(first->elements()), testing::ElementBytes(columns));
  ASSERT_OK_AND_ASSIGN(const ContentHash wanted, HashElements(columns));
  ASSERT_OK_AND_ASSIGN(const ContentHash hash, first->Hash());
  EXPECT_EQ(hash, wanted);
  // The hash is kept: a change that the caller promised not to make is not seen.
  Tensor changed = Tensor::FromValues<float>({1, 2, 3});
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const BaseTensor> base, BaseTensor::Create(TensorView(changed)));
  ASSERT_OK_AND_ASSIGN(const ContentHash before, base->Hash());
  *static_cast<float*>(const_cast<void*>(base->elements().buffer()->data())) = 7;
  ASSERT_OK_AND_ASSIGN(const ContentHash after, base->Hash());
  EXPECT_EQ(before, after);
}

TEST(BaseLookup, SharesContiguousElements) {
  const Tensor tensor = Tensor::FromValues<int32_t>({1, 2, 3});
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const BaseTensor> base, BaseTensor::Create(tensor));
  EXPECT_TRUE(base->elements().SharesBufferWith(tensor));
}

}  // namespace
}  // namespace tensorcask
