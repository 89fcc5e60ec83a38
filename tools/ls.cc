// tensorcask ls PATH [GLOB...]: one line per tensor. Reads the elements only for --checksum.

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tools/element_crc32.h"
#include "tensorcask/tools/json_text.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string path;
  std::vector<std::string> globs;
  InputOptions input;
  bool json = false;
  bool checksum = false;
  bool by_size = false;
  bool tree = false;
};

// In one line and in ASCII: a name could control a terminal by characters that JSON allows. Bytes that are not UTF-8
// become U+FFFD instead of an exception.
std::string Line(const Json& json) {
  return json.dump(/*indent=*/-1, /*indent_char=*/' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

Json ToJson(const TensorInfo& info, const TensorMetadata& metadata, const std::string& crc32) {
  Json tensor = JsonName(info.name);
  tensor["dtype"] = std::string(DTypeName(info.dtype));
  tensor["shape"] = Json::array();
  for (const int64_t dim : info.shape.dims()) tensor["shape"].push_back(dim);
  tensor["bytes"] = ElementBytes(info);
  tensor["stored_bytes"] = info.stored_bytes;
  tensor["encoding"] = JsonText(info.encoding);
  tensor["device"] = metadata.device == Device() ? Json(nullptr) : Json(metadata.device.ToString());
  tensor["shard"] = info.shard ? Json(*info.shard) : Json(nullptr);
  tensor["offset"] = info.offset ? Json(*info.offset) : Json(nullptr);
  tensor["strides"] = info.strides.empty() ? Json(nullptr) : Json(info.strides);
  tensor["attributes"] = Json::object();
  for (const auto& [key, value] : metadata.attributes) tensor["attributes"][JsonText(key)] = JsonText(value);
  if (!crc32.empty()) tensor["crc32"] = crc32;
  return tensor;
}

// "61.3 %".
std::string Ratio(uint64_t stored_bytes, uint64_t bytes) {
  return absl::StrFormat("%.1f %%", 100.0 * static_cast<double>(stored_bytes) / static_cast<double>(bytes));
}

// "plain", "sliced in 3", "guarded, strides [1,4]", "encoded high delta, 9.8 %".
std::string HowStored(const TensorInfo& info) {
  if (info.decoded_bytes.value_or(0) > 0) {
    return absl::StrCat(info.encoding, ", ", Ratio(info.stored_bytes, *info.decoded_bytes));
  }
  if (info.pieces > 0) return absl::StrCat(info.encoding, " in ", info.pieces);
  if (!info.strides.empty()) return absl::StrCat(info.encoding, ", strides [", absl::StrJoin(info.strides, ","), "]");
  return info.encoding;
}

using Columns = std::array<std::string, 6>;  // name, dtype, shape, bytes, encoding, crc32
constexpr size_t kNumberColumn = 3;          // aligned to the right
constexpr size_t kMaxWidth = 80;             // one long name does not widen the column of all others

void PrintAligned(const std::vector<Columns>& rows, std::ostream& out) {
  std::array<size_t, std::tuple_size_v<Columns>> widths{};
  for (const Columns& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], std::min(row[i].size(), kMaxWidth));
  }
  for (const Columns& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - std::min(widths[i], row[i].size()), ' ');
      absl::StrAppend(&line, i == 0 ? "" : "  ", i == kNumberColumn ? padding : "", row[i],
                      i == kNumberColumn ? "" : padding);
    }
    out << absl::StripTrailingAsciiWhitespace(line) << '\n';
  }
}

absl::StatusOr<ExitCode> List(const Flags& flags, Console& console) {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Input> input, OpenInput(flags.path, flags.input));
  if (flags.tree) {
    CASK_ASSIGN_OR_RETURN(const std::string drawing, input->DrawObjects());
    console.out << drawing;
    return kDone;
  }
  std::vector<const TensorInfo*> chosen;
  for (const TensorInfo& info : input->tensors()) {
    if (flags.globs.empty() || MatchesAny(info.name, flags.globs)) chosen.push_back(&info);
  }
  if (flags.by_size) {
    std::stable_sort(chosen.begin(), chosen.end(),
                     [](const TensorInfo* a, const TensorInfo* b) { return ElementBytes(*a) > ElementBytes(*b); });
  }

  std::vector<Columns> rows;
  if (flags.json) {  // written piece by piece: a document of a million tensors would take a gigabyte of memory
    console.out << "{\n  \"path\": " << Line(JsonText(flags.path))
                << ",\n  \"format\": " << Line(std::string(input->format())) << ",\n  \"tensors\": [";
  }
  const char* separator = "\n    ";
  uint64_t bytes = 0;
  uint64_t stored_bytes = 0;
  std::set<std::pair<std::optional<int>, std::optional<uint64_t>>> encoded;  // seen so far: equal tensors may share one
  for (const TensorInfo* info : chosen) {
    std::string crc32;
    if (flags.checksum) {
      CASK_ASSIGN_OR_RETURN(const Tensor tensor, input->Read(info->name));
      crc32 = absl::StrFormat("%08x", ElementCrc32(tensor));
    }
    bytes = CheckedAdd(bytes, ElementBytes(*info)).value_or(UINT64_MAX);
    if (!info->decoded_bytes || encoded.emplace(info->shard, info->offset).second) {
      stored_bytes = CheckedAdd(stored_bytes, info->stored_bytes).value_or(UINT64_MAX);
    }
    if (flags.json) {
      TensorMetadata metadata;
      if (info->has_metadata) {
        CASK_ASSIGN_OR_RETURN(metadata, input->Metadata(info->name));
      }
      console.out << separator << Line(ToJson(*info, metadata, crc32));
      separator = ",\n    ";
    } else {
      rows.push_back({Printable(info->name), std::string(DTypeName(info->dtype)), info->shape.ToString(),
                      absl::StrCat(ElementBytes(*info)), HowStored(*info), crc32});
    }
  }

  if (flags.json) {
    const Json totals = {{"tensors", chosen.size()}, {"bytes", bytes}, {"stored_bytes", stored_bytes}};
    console.out << (chosen.empty() ? "" : "\n  ") << "],\n  \"totals\": " << Line(totals) << "\n}\n";
  } else {
    PrintAligned(rows, console.out);
    console.out << "total: " << chosen.size() << (chosen.size() == 1 ? " tensor, " : " tensors, ") << bytes
                << " bytes (" << HumanBytes(bytes) << ")";
    if (!encoded.empty() && bytes > 0) {
      console.out << ", stored in " << stored_bytes << " (" << Ratio(stored_bytes, bytes) << ")";
    }
    console.out << '\n';
  }
  return kDone;
}

}  // namespace

Action DeclareLs(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("PATH", flags->path, "A checkpoint's prefix or .index, or another file")->required();
  CLI::Option* const globs = app.add_option("GLOB", flags->globs, "Only tensors with names that match: dense/*");
  CLI::Option* const json = app.add_flag("--json", flags->json, "One JSON document");
  CLI::Option* const checksum =
      app.add_flag("--checksum", flags->checksum, "Read the elements and add their CRC-32 (of zlib)");
  app.add_flag("--tree", flags->tree,
               "Instead list the objects that TensorFlow saved, and the tensors with their values")
      ->excludes(json)
      ->excludes(checksum)
      ->excludes(globs);
  app.add_option_function<std::string>(
         "--sort", [flags](const std::string& key) { flags->by_size = key == "size"; }, "name (default) or size")
      ->check(CLI::IsMember({"name", "size"}))
      ->type_name("KEY");
  AddInputOptions(app, &flags->input);
  app.footer(
      "Columns: name, dtype, shape, bytes, encoding (if compressed: with the stored size in percent of the bytes).\n"
      "Without --checksum and --tree only the index of a checkpoint is read. The checksum is zlib's CRC-32 of the "
      "elements in memory; for strings it covers, for each, its length as 8 bytes, little-endian, and its bytes.\n\n"
      "Examples:\n"
      "  tensorcask ls --sort size model.ckpt 'dense/*'\n"
      "  tensorcask ls --tree model.ckpt");
  return [flags](Console& console) { return List(*flags, console); };
}

}  // namespace tensorcask::tools
