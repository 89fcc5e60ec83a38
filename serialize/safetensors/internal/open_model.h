// Opens the files of a model and checks that they fit together (FORMAT.md sections 5 and 6).

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_OPEN_MODEL_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_OPEN_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/safetensors/internal/json_header.h"
#include "tensorcask/serialize/safetensors/safetensors_entry.h"

namespace tensorcask::safetensors {

inline constexpr absl::string_view kIndexEnding = ".index.json";

struct OpenOptions {
  ReadOptions read;
  ParseOptions parse;
  uint64_t max_header_bytes = 0;
  bool restore_aliases = true;
};

struct Shard {
  std::string path;
  std::shared_ptr<const ByteSource> file;  // null: none of its tensors can be read, as `status` says
  absl::Status status;                     // DataLoss: the file is missing, damaged or no file
  absl::Status unlisted;                   // DataLoss: it has tensors that the index does not list there
};

struct Model {
  std::string path;
  bool is_index = false;  // `path` is that of an index, which names the files
  std::vector<Shard> shards;
  std::vector<SafetensorsEntry> entries;  // as SafetensorsReader::entries
  std::map<std::string, std::string> metadata;
  std::vector<std::string> notes;
  uint64_t header_bytes = 0;  // the size of the index and of all headers that could be read

  // The number of the entry with this name; nullopt if there is none.
  std::optional<size_t> Find(absl::string_view name) const {
    const auto found = by_name.find(name);
    return found != by_name.end() ? std::optional<size_t>(*found) : std::nullopt;
  }

  // Finds numbers of entries by their names, which it does not hold again.
  struct NameHash {
    using is_transparent = void;
    const std::vector<SafetensorsEntry>* entries;
    size_t operator()(absl::string_view name) const { return absl::HashOf(name); }
    size_t operator()(uint32_t number) const { return absl::HashOf(absl::string_view((*entries)[number].name)); }
  };
  struct NameEqual {
    using is_transparent = void;
    const std::vector<SafetensorsEntry>* entries;
    bool operator()(uint32_t a, uint32_t b) const { return (*entries)[a].name == (*entries)[b].name; }
    bool operator()(uint32_t number, absl::string_view name) const { return (*entries)[number].name == name; }
  };
  absl::flat_hash_set<uint32_t, NameHash, NameEqual> by_name{0, NameHash{&entries}, NameEqual{&entries}};

  Model() = default;
  Model(const Model&) = delete;  // by_name refers to its entries
  Model& operator=(const Model&) = delete;
};

// The header of one file. Errors do not name the file: as SafetensorsReader::Open.
absl::StatusOr<Header> ReadHeader(const ByteSource& file, const OpenOptions& options);

// Errors name the file: as SafetensorsReader::Open.
absl::StatusOr<std::unique_ptr<Model>> OpenModel(const std::string& path, const OpenOptions& options);
absl::StatusOr<std::unique_ptr<Model>> OpenOneFile(std::shared_ptr<const ByteSource> file, const OpenOptions& options);

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_OPEN_MODEL_H_
