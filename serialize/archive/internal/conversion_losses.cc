#include "tensorcask/serialize/archive/internal/conversion_losses.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::archive {
namespace {

bool KeepsMetadata(const ArchiveFormat& target, const ConversionItem& item) {
  if (target.traits().metadata) return true;
  // The scale is that of the integers.
  if (IsQuantized(item.from->dtype) && item.dtype != item.from->dtype) return false;
  const absl::StatusOr<TensorMetadata> metadata = item.source->Metadata(item.from->name);
  return metadata.ok() && target.HoldsMetadata(*metadata);
}

// The name in the metadata that the target cannot hold beside that of the tensor; else "".
std::string SecondName(const ArchiveFormat& target, const ConversionItem& item) {
  if (!target.traits().one_name || !item.keep_metadata) return "";
  const absl::StatusOr<TensorMetadata> metadata = item.source->Metadata(item.from->name);
  return metadata.ok() && metadata->name != item.name() ? metadata->name : "";
}

// The rules of the target besides those for dtypes.
absl::Status CheckTensor(const ArchiveFormat& target, const ConversionItem& item) {
  CASK_RETURN_IF_ERROR(target.CheckEntry(item.to()));
  if (item.dtype != DType::kString || !target.traits().padded_strings) return absl::OkStatus();
  const absl::StatusOr<Tensor> strings = item.source->Read(item.from->name);
  return strings.ok() ? target.CheckStrings(*strings) : absl::OkStatus();  // RunConversion reports damage
}

}  // namespace

bool IsHeld(const ArchiveFormat& target, const ConversionItem& item) {
  if (item.keep_encoding) return true;
  return item.dtype == DType::kString ? target.traits().strings : target.HoldsDType(item.dtype);
}

std::vector<ConvertLoss> TensorLosses(const ArchiveFormat& target, ConversionItem* item) {
  using Kind = ConvertLoss::Kind;
  const ArchiveTraits traits = target.traits();
  std::vector<ConvertLoss> losses;
  const std::string tensor = absl::StrCat(item->source->path(), ": tensor ", Quoted(item->from->name));
  if (const absl::Status status = item->source->CheckReadable(*item->from); !status.ok()) {
    losses.push_back({Kind::kNotReadable, item->from->name, std::string(status.message())});
    return losses;
  }
  if (!IsHeld(target, *item) && !target.StoresAsRawBytes(item->dtype)) {
    losses.push_back({Kind::kDType, item->from->name,
                      absl::StrCat(tensor, " is ", DTypeName(item->dtype), ", which ", target.name_with_article(),
                                   " file cannot hold")});
    return losses;
  }
  item->keep_metadata = item->from->has_metadata && KeepsMetadata(target, *item);
  if (absl::Status held = CheckTensor(target, *item); !held.ok()) {
    losses.push_back(TensorNotHeld(target, *item, held));
    return losses;
  }
  if (IsComplex(item->from->dtype) && !IsComplex(item->dtype)) {
    losses.push_back({Kind::kImaginary, item->from->name,
                      absl::StrCat(tensor, " is ", DTypeName(item->from->dtype), "; as ", DTypeName(item->dtype),
                                   " it has no imaginary parts")});
  }
  if (!IsHeld(target, *item)) {
    losses.push_back({Kind::kDTypeName, item->from->name,
                      absl::StrCat(tensor, " is ", DTypeName(item->dtype), "; ", target.name_with_article(),
                                   " file can hold its elements, but not the name of this dtype")});
  }
  if (item->has_strides() && !traits.strides) {
    losses.push_back({Kind::kStrides, item->from->name,
                      absl::StrCat(tensor, " has the strides [", absl::StrJoin(item->from->strides, ","), "]; ",
                                   target.name_with_article(), " file holds only row-major tensors")});
    item->keep_strides = false;
  }
  if (item->from->has_metadata && !item->keep_metadata) {
    losses.push_back({Kind::kMetadata, item->from->name,
                      absl::StrCat(tensor, " has metadata, which ", target.name_with_article(), " file cannot hold")});
  }
  if (const std::string name = SecondName(target, *item); !name.empty()) {
    losses.push_back({Kind::kMetadata, item->from->name,
                      absl::StrCat(tensor, " has another name in its metadata, ", Quoted(name), "; ",
                                   target.name_with_article(), " file holds one name")});
    item->drop_name = true;
  }
  return losses;
}

ConvertLoss TensorNotHeld(const ArchiveFormat& target, const ConversionItem& item, const absl::Status& reason) {
  return {ConvertLoss::Kind::kTensor, item.from->name,
          absl::StrCat(item.source->path(), ": tensor ", Quoted(item.from->name), ": ", reason.message(), "; ",
                       target.name_with_article(), " file cannot hold that")};
}

std::optional<ConvertLoss> ValuesMayChange(const ConversionItem& item) {
  const DType from = item.from->dtype;
  const DType to = item.dtype;
  if (from == to || !MayChangeValues(from, to) || IsComplex(from)) return std::nullopt;
  return ConvertLoss{ConvertLoss::Kind::kAcrossKinds, item.from->name,
                     absl::StrCat(item.source->path(), ": tensor ", Quoted(item.from->name), " is ", DTypeName(from),
                                  " and becomes ", DTypeName(to), ": its values may change")};
}

ConvertLoss Untied(const ArchiveFormat& target, const ConversionItem& item, const ConversionItem& other) {
  const std::string why = target.traits().aliases
                              ? absl::StrCat("one is ", DTypeName(item.dtype), ", the other ", DTypeName(other.dtype))
                              : absl::StrCat(target.name_with_article(), " file has no second names");
  return {ConvertLoss::Kind::kUntied, item.from->name,
          absl::StrCat(item.source->path(), ": tensor ", Quoted(item.from->name), " shares the elements of ",
                       Quoted(other.from->name), " and becomes a copy: ", why)};
}

bool IsWholeTensor(const std::vector<ConvertLoss>& losses) {
  using Kind = ConvertLoss::Kind;
  return !losses.empty() &&
         (losses[0].kind == Kind::kNotReadable || losses[0].kind == Kind::kDType || losses[0].kind == Kind::kTensor);
}

absl::Status RefuseLosses(const std::vector<ConvertLoss>& losses) {
  return RefuseLosses(losses, IsWholeTensor(losses) ? "leaves the tensor out" : "converts without that");
}

absl::Status RefuseLosses(const std::vector<ConvertLoss>& losses, absl::string_view hint) {
  return absl::InvalidArgumentError(
      absl::StrCat(absl::StrJoin(losses, "; ",
                                 [](std::string* out, const ConvertLoss& loss) { absl::StrAppend(out, loss.message); }),
                   kAllowLossHint, hint));
}

}  // namespace tensorcask::archive
