#include "tensorcask/serialize/payload/base_lookup.h"

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

class OneTensor final : public BaseLookup {
 public:
  explicit OneTensor(TensorView tensor) : tensor_(std::move(tensor)) {}

  absl::StatusOr<Info> FindBase(absl::string_view /*name*/) const override {
    return Info{tensor_.dtype(), tensor_.shape(), /*is_delta=*/false};
  }

  absl::StatusOr<std::shared_ptr<const BaseTensor>> ReadBase(absl::string_view /*name*/) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (base_ == nullptr) {
      CASK_ASSIGN_OR_RETURN(base_, BaseTensor::Create(tensor_));
    }
    return base_;
  }

  std::string base_description() const override { return "a tensor in memory"; }
  bool base_must_match() const override { return true; }

 private:
  const TensorView tensor_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const BaseTensor> base_;  // null until it is first read
};

}  // namespace

absl::StatusOr<std::shared_ptr<const BaseTensor>> BaseTensor::Create(const TensorView& view) {
  CASK_ASSIGN_OR_RETURN(TensorView contiguous, view.Contiguous());
  return std::shared_ptr<const BaseTensor>(new BaseTensor(std::move(contiguous)));
}

absl::StatusOr<ContentHash> BaseTensor::Hash() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!hash_.has_value()) {
    CASK_ASSIGN_OR_RETURN(hash_, HashElements(elements_));
  }
  return *hash_;
}

std::shared_ptr<const BaseLookup> MakeBaseLookup(TensorView tensor) {
  return std::make_shared<const OneTensor>(std::move(tensor));
}

absl::StatusOr<std::shared_ptr<const BaseTensor>> FindUsableBase(const BaseLookup& lookup, absl::string_view name,
                                                                 const TensorView& tensor) {
  const bool must_match = lookup.base_must_match();
  const absl::StatusOr<BaseLookup::Info> info = lookup.FindBase(name);
  if (!info.ok()) return must_match ? info.status() : absl::StatusOr<std::shared_ptr<const BaseTensor>>(nullptr);
  if (info->is_delta) return nullptr;
  if (info->dtype != tensor.dtype() || info->shape.num_elements() != tensor.num_elements()) {
    if (!must_match) return nullptr;
    return absl::InvalidArgumentError(absl::StrCat("the base is ", DTypeName(info->dtype), " ", info->shape.ToString(),
                                                   "; a delta of ", tensor.ToString(),
                                                   " needs a base of the same dtype and number of elements"));
  }
  absl::StatusOr<std::shared_ptr<const BaseTensor>> base = lookup.ReadBase(name);
  if (!base.ok() && !must_match) return nullptr;
  return base;
}

}  // namespace tensorcask
