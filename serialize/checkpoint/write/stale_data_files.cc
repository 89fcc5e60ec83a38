#include "tensorcask/serialize/checkpoint/write/stale_data_files.h"

#include <optional>

#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/io/internal/retry.h"

namespace tensorcask::checkpoint {

std::vector<std::string> StaleDataFiles(const std::string& prefix, int num_shards, FileSystem* files) {
  const std::string folder = FolderOf(prefix);
  std::vector<std::string> names;
  const IoResult listed = internal::RetryInterrupted([&] { return files->List(folder, &names); });
  if (listed < 0) return {};
  const std::string base = prefix.substr(prefix.rfind('/') + 1);  // npos + 1 is 0
  std::vector<std::string> stale;
  for (const std::string& name : names) {
    const std::optional<DataName> data = ParseDataName(name);
    if (data.has_value() && data->prefix == base && data->num_shards != num_shards) {
      stale.push_back(DataPath(prefix, data->shard, data->num_shards));
    }
  }
  return stale;
}

}  // namespace tensorcask::checkpoint
