// A TensorShapeProto and a TensorSliceProto in the same bytes: what is taken comes back.
//
// Is to reach what input can reach of these files:
//   serialize/wire/shape_codec*
//   serialize/wire/slice_codec*

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/proto/tensor_shape.pb.h"
#include "tensorcask/proto/tensor_slice.pb.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/shape_codec.h"
#include "tensorcask/serialize/wire/slice_codec.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::testing {
namespace {

void CheckShape(const TensorShapeProto& proto, bool lenient) {
  DecodeOptions options;
  options.lenient = lenient;
  const absl::StatusOr<TensorShape> shape = DecodeShape(proto, options);
  if (!shape.ok()) return;
  int64_t product = 1;
  for (const int64_t dim : shape->dims()) {
    FUZZ_CHECK(dim >= 0, shape->ToString());
    product *= dim;
  }
  FUZZ_CHECK(product == shape->num_elements(), shape->ToString());
  TensorShapeProto again;
  EncodeShape(*shape, &again);
  const absl::StatusOr<TensorShape> same = DecodeShape(again);
  FUZZ_CHECK(same.ok() && *same == *shape, shape->ToString());
}

void CheckSlice(const TensorSliceProto& proto) {
  const absl::StatusOr<TensorSlice> slice = DecodeSlice(proto);
  if (!slice.ok()) return;
  TensorSliceProto again;
  EncodeSlice(*slice, &again);
  const absl::StatusOr<TensorSlice> same = DecodeSlice(again);
  FUZZ_CHECK(same.ok() && *same == *slice, slice->ToString());
  const absl::StatusOr<TensorSlice> parsed = TensorSlice::Parse(slice->ToString());
  FUZZ_CHECK(parsed.ok() && *parsed == *slice, slice->ToString());
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::TensorShapeProto shape;
  if (shape.ParseFromArray(data, static_cast<int>(size))) {
    tensorcask::testing::CheckShape(shape, /*lenient=*/false);
    tensorcask::testing::CheckShape(shape, /*lenient=*/true);
  }
  tensorcask::TensorSliceProto slice;
  if (slice.ParseFromArray(data, static_cast<int>(size))) tensorcask::testing::CheckSlice(slice);
  return 0;
}
