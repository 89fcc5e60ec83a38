// What the target of a conversion cannot hold of a tensor, as sentences: for the plan, or for the error that refuses.
//
//   std::vector<ConvertLoss> losses = TensorLosses(target, &item);
//   if (!losses.empty() && !options.allow_loss) return RefuseLosses(losses);

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_CONVERSION_LOSSES_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_CONVERSION_LOSSES_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/convert_archives.h"

namespace tensorcask::archive {

// In front of what ConvertOptions::allow_loss would do, at the end of an error.
inline constexpr char kAllowLossHint[] = "; ConvertOptions::allow_loss ";

// Whether the target stores the elements with their dtype, or in their encoding.
bool IsHeld(const ArchiveFormat& target, const ConversionItem& item);

// What the target cannot hold of one tensor. A tensor that is lost as a whole has one loss (IsWholeTensor). Sets
// keep_metadata, keep_strides and drop_name of *item. Reads strings if the target cannot hold all of them.
std::vector<ConvertLoss> TensorLosses(const ArchiveFormat& target, ConversionItem* item);

// The tensor that the target does not hold, for this reason.
ConvertLoss TensorNotHeld(const ArchiveFormat& target, const ConversionItem& item, const absl::Status& reason);
// The elements become numbers of another kind or range; nullopt: they do not.
std::optional<ConvertLoss> ValuesMayChange(const ConversionItem& item);
// The alias `item` of `other` becomes a copy.
ConvertLoss Untied(const ArchiveFormat& target, const ConversionItem& item, const ConversionItem& other);

// True if nothing of a tensor with these losses is left.
bool IsWholeTensor(const std::vector<ConvertLoss>& losses);

// InvalidArgument with all losses, and what allow_loss would do, which the second function is told.
absl::Status RefuseLosses(const std::vector<ConvertLoss>& losses);
absl::Status RefuseLosses(const std::vector<ConvertLoss>& losses, absl::string_view hint);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_CONVERSION_LOSSES_H_
