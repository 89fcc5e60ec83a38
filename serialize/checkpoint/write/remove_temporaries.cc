#include "tensorcask/serialize/checkpoint/write/remove_temporaries.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/io/stale_temporaries.h"

namespace tensorcask::checkpoint {

void RemoveTemporariesOf(const std::string& prefix, bool always, FileSystem* files) {
  if (!always && !IsThere(FirstTemporaryPath(IndexPath(prefix)), files)) return;
  const std::string base = prefix.substr(prefix.rfind('/') + 1);  // npos + 1 is 0
  const std::string index = IndexPath(base);
  const std::string data = absl::StrCat(base, ".data-");
  const auto is_of_prefix = [&](absl::string_view name) {
    if (name == index) return true;
    if (MayBeCut(name)) {
      return absl::StartsWith(index, name) || absl::StartsWith(data, name) || absl::StartsWith(name, data);
    }
    const std::optional<DataName> parsed = ParseDataName(name);
    return parsed.has_value() && parsed->prefix == base;
  };
  RemoveStaleTemporaries(FolderOf(prefix), is_of_prefix, files).IgnoreError();
}

}  // namespace tensorcask::checkpoint
