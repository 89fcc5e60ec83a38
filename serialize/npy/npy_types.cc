#include "tensorcask/serialize/npy/npy_types.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tensorcask {

absl::string_view NpyEntry::field() const { return absl::string_view(name).substr(std::min(field_at, name.size())); }

std::string NpyEntry::member() const {
  absl::string_view key = name;
  if (field_at != std::string::npos) key = key.substr(0, field_at == 0 ? 0 : field_at - 1);  // "key.field"
  return absl::StrCat(key, member_ending);
}

}  // namespace tensorcask
