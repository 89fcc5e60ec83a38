#include "tensorcask/serialize/archive/internal/metadata_keys.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/serialize/archive/similar_names.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask::archive {

absl::Status NoSuchMetadata(absl::string_view where, absl::string_view key,
                            const std::vector<absl::string_view>& keys) {
  const std::string hint = DidYouMean(key, keys);
  const std::string known = keys.empty() ? "; it has none" : absl::StrCat(" (keys: ", ListedKeys(keys), ")");
  return absl::NotFoundError(absl::StrCat(where, ": there is no metadata ", Quoted(key), hint, known));
}

absl::Status SetAndUnset(absl::string_view key) {
  return absl::InvalidArgumentError(absl::StrCat("metadata ", Quoted(key), " is to be both set and unset"));
}

std::string ListedKeys(const std::vector<absl::string_view>& keys) {
  constexpr size_t kMaxListed = 8;
  const auto quote = [](std::string* out, absl::string_view key) { absl::StrAppend(out, Quoted(key)); };
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(std::min(keys.size(), kMaxListed));
  return absl::StrCat(absl::StrJoin(keys.begin(), end, ", ", quote), keys.size() > kMaxListed ? ", ..." : "");
}

}  // namespace tensorcask::archive
