#include "tensorcask/serialize/payload/content_hash.h"

#include <xxhash.h>

#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;

std::string OneShot(absl::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return absl::BytesToHexString({reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest)});
}

TEST(ContentHash, IsTheHashThatTheSpecificationGives) {
  // XXH3's 128 bits, seed 0: of no bytes, and of the text "a".
  ASSERT_OK_AND_ASSIGN(const ContentHash none, HashElements(Tensor()));
  EXPECT_EQ(none.ToString(), "99aa06d3014798d86001c324468d497f");
  ASSERT_OK_AND_ASSIGN(const ContentHash a, HashElements(Tensor::FromValues<uint8_t>({'a'})));
  EXPECT_EQ(a.ToString(), "a96faf705af16834e6c632b61e964e1f");
}

TEST(ContentHash, IsOfTheElementsWhereverTheyLie) {
  std::mt19937 random(3);
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const Tensor tensor =
        testing::RandomTensor(DType::kFloat32, TensorShape({40, 50, 60}), testing::Values::kNoise, seed);
    const TensorView view = testing::RandomView(tensor, &random);
    ASSERT_OK_AND_ASSIGN(const ContentHash strided, HashElements(view));
    EXPECT_EQ(strided.ToString(), OneShot(testing::ElementBytes(view)));
    ASSERT_OK_AND_ASSIGN(const Tensor dense, view.ToTensor());
    ASSERT_OK_AND_ASSIGN(const ContentHash contiguous, HashElements(dense));
    EXPECT_EQ(contiguous, strided);
  }
}

TEST(ContentHash, OfStringsIsOfLengthsAndCharacters) {
  const Tensor strings = Tensor::FromValues<std::string>({std::string("a\0b", 3), "", "cd"});
  ASSERT_OK_AND_ASSIGN(const ContentHash hash, HashElements(strings));
  std::string bytes(24, '\0');
  bytes[0] = 3;
  bytes[16] = 2;
  EXPECT_EQ(hash.ToString(), OneShot(bytes + std::string("a\0bcd", 5)));
  ASSERT_OK_AND_ASSIGN(const ContentHash other, HashElements(Tensor::FromValues<std::string>({"a", "bc"})));
  ASSERT_OK_AND_ASSIGN(const ContentHash same_text, HashElements(Tensor::FromValues<std::string>({"ab", "c"})));
  EXPECT_NE(other, same_text);
}

TEST(ContentHash, InProcessIsAnother) {
  const Tensor tensor = testing::RandomTensor(DType::kInt8, TensorShape({1000}), testing::Values::kNoise, 1);
  ASSERT_OK_AND_ASSIGN(const ContentHash hash, HashElementsInProcess(tensor));
  EXPECT_EQ(hash, *HashElementsInProcess(*tensor.Clone()));
  EXPECT_NE(hash, *HashElementsInProcess(
                      testing::RandomTensor(DType::kInt8, TensorShape({1000}), testing::Values::kNoise, 2)));
  EXPECT_NE(hash, *HashElements(tensor));
}

TEST(ContentHash, RefusesWhatHasNoBytes) {
  EXPECT_THAT(HashElements(*Tensor::Create(DType::kResource, TensorShape({2}))),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("resource")));
  const TensorView none = *TensorView::Create(TensorBuffer::MakeWithoutData(400, "left at home"), DType::kFloat32,
                                              Layout::RowMajor(TensorShape({100})));
  EXPECT_THAT(HashElements(none), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("left at home")));
}

}  // namespace
}  // namespace tensorcask
