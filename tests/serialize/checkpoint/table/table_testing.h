// Reading tables that are in memory.

#ifndef TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_TABLE_TABLE_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_TABLE_TABLE_TESTING_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"

namespace tensorcask::testing {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// Opens `file`, which must outlive the reader.
inline absl::StatusOr<std::unique_ptr<checkpoint::TableReader>> OpenTable(absl::string_view file,
                                                                          const DecodeLimits& limits = {}) {
  return checkpoint::TableReader::Open(MakeMemorySource("t.index", file), limits);
}

// All keys and values.
inline absl::StatusOr<Pairs> ReadAll(absl::string_view file, const DecodeLimits& limits = {}) {
  absl::StatusOr<std::unique_ptr<checkpoint::TableReader>> table = OpenTable(file, limits);
  if (!table.ok()) return table.status();
  Pairs pairs;
  const absl::Status status = (*table)->ForEach([&](absl::string_view key, absl::string_view value) {
    pairs.emplace_back(key, value);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return pairs;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_TABLE_TABLE_TESTING_H_
