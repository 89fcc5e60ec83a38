// The order of the names of tensors.
//
//   NameOrder({"b", "a", "c"})   // 1 0 2: names[1] is the first
//
// Names of one model begin alike ("model.layers.17.mlp"), so comparing them from the front reads the same bytes again
// and again. Here each byte is read about once: time is proportional to the bytes of the names, but for log n steps on
// numbers of 8 bytes.

#ifndef TENSORCASK_SERIALIZE_STORED_NAME_ORDER_H_
#define TENSORCASK_SERIALIZE_STORED_NAME_ORDER_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorcask::stored {

// The numbers of `names`, sorted by the names as unsigned bytes; equal names keep their order. Requires: fewer than
// 2^32 names.
std::vector<uint32_t> NameOrder(absl::Span<const absl::string_view> names);

// The same for named[i].name.
template <typename Named>
std::vector<uint32_t> OrderByName(const std::vector<Named>& named) {
  std::vector<absl::string_view> names;
  names.reserve(named.size());
  for (const Named& one : named) names.push_back(one.name);
  return NameOrder(names);
}

// The one of this name; null if there is none. Requires: they are sorted by name.
template <typename Named>
const Named* FindByName(const std::vector<Named>& named, absl::string_view name) {
  const auto found = std::lower_bound(named.begin(), named.end(), name,
                                      [](const Named& one, absl::string_view key) { return one.name < key; });
  return found != named.end() && found->name == name ? &*found : nullptr;
}

}  // namespace tensorcask::stored

#endif  // TENSORCASK_SERIALIZE_STORED_NAME_ORDER_H_
