#include "tensorcask/serialize/wire/slice_codec.h"

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/wire/message/proto_fields.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

void EncodeSlice(const TensorSlice& slice, TensorSliceProto* out) {
  out->Clear();
  for (int axis = 0; axis < slice.rank(); ++axis) {
    TensorSliceProto::Extent* extent = out->add_extent();
    if (slice.IsFullAt(axis)) continue;
    extent->set_start(slice.extent(axis).start);
    extent->set_length(slice.extent(axis).length);
  }
}

absl::StatusOr<TensorSlice> DecodeSlice(const TensorSliceProto& proto) {
  CASK_RETURN_IF_ERROR(internal::CheckUnknown(proto, internal::kSliceRules, "the slice"));
  if (proto.extent_size() > TensorShape::kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("the slice has ", proto.extent_size(),
                                                   " extents; a tensor has at most ", TensorShape::kMaxRank, " axes"));
  }
  absl::InlinedVector<TensorSlice::Extent, 4> extents;
  for (int axis = 0; axis < proto.extent_size(); ++axis) {
    const TensorSliceProto::Extent& extent = proto.extent(axis);
    CASK_RETURN_IF_ERROR(internal::CheckUnknown(extent, internal::kExtentRules, absl::StrCat("extent ", axis)));
    const bool has_length = extent.has_length_case() == TensorSliceProto::Extent::kLength;
    extents.push_back({extent.start(), has_length ? extent.length() : TensorSlice::kFullLength});
  }
  return TensorSlice::Create(extents);
}

}  // namespace tensorcask
