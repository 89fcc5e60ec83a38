#include "tensorcask/serialize/checkpoint/unlisted_data.h"

#include <algorithm>
#include <optional>

#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/tensor/base/check.h"

namespace tensorcask::checkpoint {

std::vector<std::string> DataWithoutIndex(absl::Span<const std::string> names) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (!ParseDataName(name).has_value()) continue;
    if (!std::binary_search(names.begin(), names.end(), IndexPathOfData(name))) found.push_back(name);
  }
  return found;
}

std::string IndexPathOfData(absl::string_view path) {
  const std::optional<DataName> data = ParseDataName(path);
  CASK_CHECK(data.has_value(), "IndexPathOfData: the path of a data file");
  return IndexPath(std::string(data->prefix));
}

}  // namespace tensorcask::checkpoint
