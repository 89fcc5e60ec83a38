#include "tensorcask/serialize/safetensors/internal/file_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/safetensors/internal/dtype_table.h"
#include "tensorcask/serialize/safetensors/internal/json_header.h"
#include "tensorcask/serialize/safetensors/safetensors_dtypes.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/json_string.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::safetensors {
namespace {

void AppendTensor(const PlannedTensor& tensor, uint64_t begin, std::string* out) {
  internal::AppendJsonString(tensor.name, internal::JsonEscapes::kShort, out);
  absl::StrAppend(out, R"(:{"dtype":")", SafetensorsDTypeName(tensor.dtype), R"(","shape":[)",
                  absl::StrJoin(tensor.shape.dims(), ","), R"(],"data_offsets":[)", begin, ",",
                  begin + tensor.stored_bytes, "]}");
}

using Metadata = std::map<std::string, std::string>;

// The aliases of the tensors of each file.
std::vector<Metadata> AliasesOfFiles(const PlanOptions& options, size_t num_files,
                                     absl::Span<const PlannedTensor> tensors) {
  std::vector<Metadata> aliases(num_files);
  if (options.aliases.empty()) return aliases;
  std::map<absl::string_view, size_t> files;  // by the names of the tensors
  for (const PlannedTensor& tensor : tensors) files[tensor.name] = tensor.file;
  for (const auto& [name, target] : options.aliases) {
    const auto file = files.find(target);
    if (file != files.end()) aliases[file->second][name] = target;
  }
  return aliases;
}

// Calls fn(key, value) for the entries of both maps in the order of their keys. If both have a key, `b` counts.
template <typename Fn>
void ForEachOfBoth(const Metadata& a, const Metadata& b, Fn fn) {
  auto next_a = a.begin();
  auto next_b = b.begin();
  while (next_a != a.end() || next_b != b.end()) {
    const bool takes_b = next_b != b.end() && (next_a == a.end() || next_b->first <= next_a->first);
    if (takes_b && next_a != a.end() && next_a->first == next_b->first) ++next_a;
    const auto& [key, value] = takes_b ? *next_b++ : *next_a++;
    fn(key, value);
  }
}

// About the size of the header, so that it is in memory once: more than that without escapes and long numbers.
size_t HeaderBytes(const PlanOptions& options, const FilePlan& plan, absl::Span<const PlannedTensor> tensors) {
  constexpr size_t kTensorBytes = 100;
  constexpr size_t kMetadataBytes = 8;
  constexpr size_t kDimBytes = 3;
  size_t bytes = options.alignment;
  if (options.metadata != nullptr) {
    for (const auto& [key, value] : *options.metadata) bytes += key.size() + value.size() + kMetadataBytes;
  }
  for (const size_t number : plan.tensors) {
    bytes += tensors[number].name.size() + kTensorBytes + kDimBytes * static_cast<size_t>(tensors[number].shape.rank());
  }
  return bytes;
}

// Sets the offsets of the file's tensors, its header and its size.
absl::Status WriteHeader(const PlanOptions& options, const Metadata& aliases, FilePlan* plan,
                         std::vector<PlannedTensor>* tensors) {
  std::string& header = plan->header;
  header.reserve(HeaderBytes(options, *plan, *tensors));
  header.assign(kPrefixBytes, '\0');
  const Metadata none;
  const Metadata& metadata = options.metadata != nullptr ? *options.metadata : none;
  const bool has_entries = !metadata.empty() || !aliases.empty();
  absl::string_view separator = "{";
  if (options.checksums) {
    absl::StrAppend(&header, kChecksumStart, std::string((2 + plan->tensors.size()) * kHexBytes, '0'), "\"");
    separator = ",";
  } else if (has_entries) {
    absl::StrAppend(&header, R"({"__metadata__":)");
  }
  ForEachOfBoth(metadata, aliases, [&](const std::string& key, const std::string& value) {
    absl::StrAppend(&header, separator);
    internal::AppendJsonString(key, internal::JsonEscapes::kShort, &header);
    header.push_back(':');
    internal::AppendJsonString(value, internal::JsonEscapes::kShort, &header);
    separator = ",";
  });
  const bool has_metadata = options.checksums || has_entries;
  if (has_metadata) header.push_back('}');
  uint64_t end = 0;
  for (const size_t number : plan->tensors) {
    absl::StrAppend(&header, separator);
    AppendTensor((*tensors)[number], end, &header);
    end += (*tensors)[number].stored_bytes;
    separator = ",";
  }
  absl::StrAppend(&header, has_metadata || !plan->tensors.empty() ? "}" : "{}");
  if (options.checksums) header.append(kMinChecksumPadding, ' ');
  header.resize((header.size() + options.alignment - 1) / options.alignment * options.alignment, ' ');
  const uint64_t text_bytes = header.size() - kPrefixBytes;
  if (text_bytes > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the header of ", plan->tensors.size(), " tensors has ", text_bytes,
                                                   " bytes; the format allows ", kMaxHeaderBytes));
  }
  ResizeHeader(header.size(), options.checksums, plan);
  uint64_t offset = header.size();
  for (const size_t number : plan->tensors) {
    (*tensors)[number].offset = offset;
    offset += (*tensors)[number].stored_bytes;
  }
  plan->size_bytes = offset;
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckName(absl::string_view name) {
  if (!internal::IsUtf8(name)) return absl::InvalidArgumentError(absl::StrCat("name ", Quoted(name), " is not UTF-8"));
  if (name.size() > static_cast<size_t>(DecodeLimits().max_name_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("name ", Quoted(name), " is longer than ", DecodeLimits().max_name_bytes, " bytes"));
  }
  if (name == kMetadataName || name == kChecksumKey || name == kAliasesKey) {
    return absl::InvalidArgumentError(absl::StrCat("name ", Quoted(name), " is reserved"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FilePlan>> PlanFiles(const PlanOptions& options, std::vector<PlannedTensor>* tensors) {
  std::vector<size_t> order(tensors->size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto by_name = [&](size_t a, size_t b) { return (*tensors)[a].name < (*tensors)[b].name; };
  if (options.by_alignment) std::sort(order.begin(), order.end(), by_name);
  std::vector<FilePlan> plans(1);
  uint64_t bytes = 0;  // the size of all tensors: so none of the sums below overflows
  uint64_t bytes_here = 0;
  for (const size_t number : order) {
    const uint64_t stored = (*tensors)[number].stored_bytes;
    const std::optional<uint64_t> sum = CheckedAdd(bytes, stored);
    if (!sum.has_value() || *sum > (uint64_t{1} << 62)) {
      return absl::InvalidArgumentError("the tensors have more bytes than a file can hold");
    }
    bytes = *sum;
    if (options.max_shard_bytes > 0 && bytes_here + stored > options.max_shard_bytes && !plans.back().tensors.empty()) {
      plans.emplace_back();
      bytes_here = 0;
    }
    plans.back().tensors.push_back(number);
    bytes_here += stored;
  }
  for (size_t file = 0; file < plans.size(); ++file) {
    std::vector<size_t>& here = plans[file].tensors;
    if (options.by_alignment) {
      std::stable_sort(here.begin(), here.end(), [&](size_t a, size_t b) {
        return DTypeRank((*tensors)[a].dtype) < DTypeRank((*tensors)[b].dtype);
      });
    }
    for (const size_t number : here) (*tensors)[number].file = file;
  }
  const std::vector<Metadata> aliases = AliasesOfFiles(options, plans.size(), *tensors);
  for (size_t file = 0; file < plans.size(); ++file) {
    CASK_RETURN_IF_ERROR(WriteHeader(options, aliases[file], &plans[file], tensors));
  }
  return plans;
}

void ResizeHeader(uint64_t size_bytes, bool has_checksums, FilePlan* plan) {
  std::string& header = plan->header;
  CASK_CHECK(size_bytes >= header.size(), "ResizeHeader to less than the header has");
  plan->size_bytes += size_bytes - header.size();
  header.resize(static_cast<size_t>(size_bytes), ' ');
  const uint64_t text_bytes = size_bytes - kPrefixBytes;
  StoreLittleEndian<uint64_t>(text_bytes, &header[0]);
  if (has_checksums) {
    header.replace(kPrefixBytes + kChecksumStart.size(), kHexBytes, HexOf(static_cast<uint32_t>(text_bytes)));
  }
}

absl::string_view SetChecksums(absl::Span<const uint32_t> checksums, FilePlan* plan) {
  std::string& header = plan->header;
  size_t at = static_cast<size_t>(ChecksumOffset()) + kHexBytes;
  for (const uint32_t checksum : checksums) {
    header.replace(at, kHexBytes, HexOf(checksum));
    at += kHexBytes;
  }
  const uint32_t own = HeaderChecksum(absl::string_view(header).substr(kPrefixBytes));
  header.replace(static_cast<size_t>(ChecksumOffset()), kHexBytes, HexOf(own));
  return absl::string_view(header).substr(0, at).substr(static_cast<size_t>(ChecksumOffset()));
}

uint64_t ChecksumOffset() { return kPrefixBytes + kChecksumStart.size() + kHexBytes; }

std::string ShardName(absl::string_view path, size_t number, size_t count) {
  return absl::StrFormat("%s-%05d-of-%05d.safetensors", std::string(absl::StripSuffix(path, ".safetensors")), number,
                         count);
}

bool IsShardSuffix(absl::string_view suffix) {
  const auto consume_digits = [&](size_t at_least, size_t at_most) {
    size_t count = 0;
    while (count < suffix.size() && absl::ascii_isdigit(static_cast<unsigned char>(suffix[count]))) ++count;
    suffix.remove_prefix(count);
    return count >= at_least && count <= at_most;
  };
  constexpr size_t kDigits = 5;
  constexpr size_t kMaxRevisionDigits = 10;
  if (!absl::ConsumePrefix(&suffix, "-") || !consume_digits(kDigits, kDigits)) return false;
  if (!absl::ConsumePrefix(&suffix, "-of-") || !consume_digits(kDigits, kDigits)) return false;
  if (absl::ConsumePrefix(&suffix, "-r") && !consume_digits(1, kMaxRevisionDigits)) return false;
  return suffix == ".safetensors";
}

std::string IndexText(absl::Span<const PlannedTensor> tensors, absl::Span<const std::string> files) {
  std::map<absl::string_view, size_t> by_name;
  uint64_t bytes = 0;
  for (const PlannedTensor& tensor : tensors) {
    by_name[tensor.name] = tensor.file;
    bytes += tensor.stored_bytes;
  }
  std::string text = absl::StrCat("{\n  \"metadata\": {\n    \"total_size\": ", bytes, "\n  },\n  \"weight_map\": {");
  absl::string_view separator = "\n    ";
  for (const auto& [name, file] : by_name) {
    absl::StrAppend(&text, separator);
    internal::AppendJsonString(name, internal::JsonEscapes::kShort, &text);
    text += ": ";
    internal::AppendJsonString(files[file], internal::JsonEscapes::kShort, &text);
    separator = ",\n    ";
  }
  return absl::StrCat(text, "\n  }\n}\n");
}

}  // namespace tensorcask::safetensors
