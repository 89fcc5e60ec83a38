// The arguments of one call in a pickle.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_CALL_ARGUMENTS_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_CALL_ARGUMENTS_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/torch/internal/globals.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/torch/internal/pickle_builder.h"

namespace tensorcask::torch {

// `function` and the tuple `arguments` are of the pickle that `builder` makes.
class CallArguments {
 public:
  CallArguments(const Global& function, Ref arguments, PickleBuilder* builder)
      : function_(function), items_(builder->pickle().items(arguments)), builder_(builder) {}

  size_t size() const { return items_.size(); }
  Ref ref(size_t i) const { return items_[i]; }
  const Object& at(size_t i) const { return builder_->object(items_[i]); }
  bool Is(size_t i, Object::Kind kind) const { return i < size() && at(i).kind == kind; }
  bool IsList(size_t i) const {
    return Is(i, Object::Kind::kTuple) || Is(i, Object::Kind::kSize) || Is(i, Object::Kind::kList);
  }
  absl::Span<const Ref> list(size_t i) const { return builder_->pickle().items(items_[i]); }
  PickleBuilder& builder() const { return *builder_; }

  // The global of this use that argument `i` names; null if it is another thing.
  const Global* Named(size_t i, GlobalUse use) const {
    if (!Is(i, Object::Kind::kGlobal)) return nullptr;
    const Global& global = builder_->pickle().globals[at(i).index];
    return global.use == use ? &global : nullptr;
  }

  absl::Status Wrong(absl::string_view wanted) const {
    return absl::DataLossError(absl::StrCat(function_.name, " is called with ", size(),
                                            size() == 1 ? " argument" : " arguments", "; it takes ", wanted));
  }

 private:
  const Global& function_;
  const absl::Span<const Ref> items_;  // a tuple does not change
  PickleBuilder* const builder_;
};

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_CALL_ARGUMENTS_H_
