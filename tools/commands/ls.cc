// tensorcask ls PATH [GLOB...]: one line per tensor. Reads the elements only for --checksum.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/chosen_names.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/object_graph.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tools/element_crc32.h"
#include "tensorcask/tools/formats.h"
#include "tensorcask/tools/ls_values.h"
#include "tensorcask/tools/name_groups.h"
#include "tensorcask/tools/output/json_text.h"
#include "tensorcask/tools/output/table.h"
#include "tensorcask/tools/read_progress.h"
#include "tensorcask/tools/subcommand.h"
#include "tensorcask/tools/tool_files.h"

namespace tensorcask::tools {
namespace {

using Json = nlohmann::ordered_json;

struct LsFlags {
  std::string path;
  std::vector<std::string> globs;
  InputOptions input;
  bool json = false;
  bool checksum = false;
  bool by_size = false;
  bool tree = false;
  bool values = false;
  uint64_t depth = 0;  // of groups; 0: tensors
};

// In one line and in ASCII: a name could control a terminal by characters that JSON allows. Bytes that are not UTF-8
// become U+FFFD instead of an exception.
std::string Line(const Json& json) {
  return json.dump(/*indent=*/-1, /*indent_char=*/' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

// The size of a tensor as it is listed. Encoded strings of a message count 8 bytes for each length, plain ones what
// TensorFlow stores: a varint for each length, and a checksum. The same strings should have the same size in both, so
// the varints of encoded strings are estimated from the mean length.
uint64_t ListedBytes(const ArchiveEntry& info) {
  constexpr uint64_t kLengthBytes = 8;
  constexpr uint64_t kChecksumBytes = 4;
  const uint64_t bytes = ElementBytes(info);
  const auto count = static_cast<uint64_t>(info.shape.num_elements());
  const bool has_lengths = info.dtype == DType::kString && absl::StartsWith(info.encoding, "encoded");
  if (!has_lengths || count == 0 || bytes / kLengthBytes < count) return bytes;
  const uint64_t characters = bytes - kLengthBytes * count;
  uint64_t varint_bytes = 1;
  for (uint64_t mean = characters / count; mean >= 0x80; mean >>= 7) ++varint_bytes;
  return characters + varint_bytes * count + kChecksumBytes;
}

// What is not in the index.
struct Details {
  TensorMetadata metadata;
  std::string crc32;    // with --checksum
  absl::Status status;  // why one of them is missing
};

Details ReadDetails(const ArchiveReader& input, const ArchiveEntry& info, const LsFlags& flags) {
  Details details;
  const bool is_known =
      info.read_status.ok() || info.dtype != DType::kInvalid || absl::IsUnimplemented(info.read_status);
  if (!is_known) details.status = input.CheckReadable(info);  // its dtype and shape are asked for
  if (flags.checksum) {
    const absl::StatusOr<Tensor> tensor = input.Read(info.name);
    if (tensor.ok()) details.crc32 = absl::StrFormat("%08x", ElementCrc32(*tensor));
    details.status.Update(tensor.status());
  }
  if (flags.json && info.has_metadata) {
    absl::StatusOr<TensorMetadata> metadata = input.Metadata(info.name);
    if (metadata.ok()) details.metadata = *std::move(metadata);
    details.status.Update(metadata.status());
  }
  return details;
}

// "float32", "q4_k".
std::string TypeOf(const ArchiveEntry& info) {
  return info.is_quantized ? info.encoding : std::string(DTypeName(info.dtype));
}

// "61.3 %".
std::string Ratio(uint64_t stored_bytes, uint64_t bytes) {
  return absl::StrFormat("%.1f %%", 100.0 * static_cast<double>(stored_bytes) / static_cast<double>(bytes));
}

// "plain", "sliced in 3", "extension-only, strides [1,4]", "encoded high delta, 9.8 %".
std::string FormOf(const ArchiveEntry& info) {
  if (info.decoded_bytes.value_or(0) > 0) {
    return absl::StrCat(info.encoding, ", ", Ratio(info.stored_bytes, *info.decoded_bytes));
  }
  if (info.pieces > 0) {
    return absl::StrCat(info.encoding, " in ", info.pieces,
                        absl::IsFailedPrecondition(info.read_status) ? ", incomplete" : "");
  }
  if (!info.strides.empty()) return absl::StrCat(info.encoding, ", strides [", absl::StrJoin(info.strides, ","), "]");
  return info.encoding;
}

std::string HowStored(const ArchiveEntry& info) {
  if (info.alias_of.empty()) return FormOf(info);
  return absl::StrCat(FormOf(info), ", the same as ", Printable(info.alias_of));
}

// The objects that TensorFlow saved, as lines.
absl::StatusOr<ExitCode> DrawTree(const LsFlags& flags, const ArchiveReader& input, Console& console) {
  if (input.format() != "checkpoint") {
    return absl::InvalidArgumentError(absl::StrCat(flags.path, ": files of the format ", input.format(),
                                                   " have no objects; only checkpoints of TensorFlow have them"));
  }
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, OpenCheckpoint(input.path(), flags.input.base));
  const absl::StatusOr<ObjectGraph> graph = ReadObjectGraph(reader);
  if (absl::IsNotFound(graph.status())) {
    return absl::NotFoundError(absl::StrCat(flags.path, ": has no objects: its tensors were saved by name"));
  }
  CASK_RETURN_IF_ERROR(graph.status());
  console.out << graph->ToString([&](absl::string_view key) {
    const absl::StatusOr<const ArchiveEntry*> entry = input.Find(key);
    return entry.ok() ? absl::StrCat(DTypeName((*entry)->dtype), " ", (*entry)->shape.ToString()) : std::string();
  });
  return kDone;
}

// ---- Columns --------------------------------------------------------------------------------------------------------

struct Listed {
  const ArchiveEntry& info;
  const Details& details;
};

// What is said of each tensor.
struct Column {
  const char* title;                   // in --help; the key in JSON
  std::string (*cell)(const Listed&);  // null: only in JSON
  void (*json)(const Listed&, const std::string& key, Json* tensor);
  bool is_number = false;  // cells are aligned to the right
};

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

const Column kColumns[] = {
    {"name", [](const Listed& l) { return Printable(l.info.name); },
     [](const Listed& l, const std::string& key, Json* tensor) { SetJsonText(key, l.info.name, tensor); }},
    {"dtype", [](const Listed& l) { return std::string(DTypeName(l.info.dtype)); },
     [](const Listed& l, const std::string& key, Json* tensor) {
       (*tensor)[key] = std::string(DTypeName(l.info.dtype));
     }},
    {"shape", [](const Listed& l) { return l.info.shape.ToString(); },
     [](const Listed& l, const std::string& key, Json* tensor) {
       (*tensor)[key] = Json::array();
       for (const int64_t dim : l.info.shape.dims()) (*tensor)[key].push_back(dim);
     }},
    {"bytes", [](const Listed& l) { return absl::StrCat(ListedBytes(l.info)); },
     [](const Listed& l, const std::string& key, Json* tensor) { (*tensor)[key] = ListedBytes(l.info); },
     /*is_number=*/true},
    {"stored_bytes", nullptr,
     [](const Listed& l, const std::string& key, Json* tensor) { (*tensor)[key] = l.info.stored_bytes; }},
    {"encoding", [](const Listed& l) { return HowStored(l.info); },
     [](const Listed& l, const std::string& key, Json* tensor) { (*tensor)[key] = JsonText(l.info.encoding); }},
    {"device", nullptr,
     [](const Listed& l, const std::string& key, Json* tensor) {
       const Device& device = l.details.metadata.device;
       (*tensor)[key] = device == Device() ? Json(nullptr) : Json(device.ToString());
     }},
    {"shard", nullptr,
     [](const Listed& l, const std::string& key, Json* tensor) { (*tensor)[key] = OrNull(l.info.shard); }},
    {"offset", nullptr,
     [](const Listed& l, const std::string& key, Json* tensor) { (*tensor)[key] = OrNull(l.info.offset); }},
    {"storage_id", nullptr,
     [](const Listed& l, const std::string& key, Json* tensor) { (*tensor)[key] = OrNull(l.info.storage_id); }},
    {"strides", nullptr,
     [](const Listed& l, const std::string& key, Json* tensor) {
       (*tensor)[key] = l.info.strides.empty() ? Json(nullptr) : Json(l.info.strides);
     }},
    {"attributes", nullptr,
     [](const Listed& l, const std::string& key, Json* tensor) {
       SetJsonTexts(key, l.details.metadata.attributes, tensor);
     }},
    {"crc32", [](const Listed& l) { return l.details.crc32; },
     [](const Listed& l, const std::string& key, Json* tensor) {
       if (!l.details.crc32.empty()) (*tensor)[key] = l.details.crc32;
     }},
    {"alias_of", nullptr,
     [](const Listed& l, const std::string& key, Json* tensor) {
       if (!l.info.alias_of.empty()) SetJsonText(key, l.info.alias_of, tensor);
     }},
    {"error", nullptr,
     [](const Listed& l, const std::string& key, Json* tensor) {
       const absl::Status& error = l.details.status.ok() ? l.info.read_status : l.details.status;
       if (!error.ok()) (*tensor)[key] = JsonText(InToolWords(error.message()));
     }},
};

Json ToJson(const Listed& listed) {
  Json tensor;
  for (const Column& column : kColumns) column.json(listed, column.title, &tensor);
  return tensor;
}

TableRow RowOf(const Listed& listed) {
  TableRow row;
  for (const Column& column : kColumns) {
    if (column.cell != nullptr) row.push_back(column.cell(listed));
  }
  return row;
}

std::set<size_t> NumberColumns() {
  std::set<size_t> numbers;
  size_t cell = 0;
  for (const Column& column : kColumns) {
    if (column.is_number) numbers.insert(cell);
    cell += column.cell != nullptr ? 1 : 0;
  }
  return numbers;
}

// The titles of the cells, for --help.
std::string Titles() {
  std::vector<const char*> titles;
  for (const Column& column : kColumns) {
    if (column.cell != nullptr) titles.push_back(column.title);
  }
  return absl::StrJoin(titles, ", ");
}

// What is printed below the list.
class Totals {
 public:
  // `by_type`: also those of each type, as GGUF has types of blocks. `overview`: has measured the names; Print then
  // prints its groups.
  explicit Totals(bool by_type, std::optional<Overview> overview = std::nullopt)
      : by_type_(by_type), overview_(std::move(overview)) {}

  void Add(const ArchiveEntry& info) {
    ++tensors_;
    if (overview_.has_value()) overview_->Add(info.name, TypeOf(info), ListedBytes(info));
    if (by_type_) AddToType(info);
    bytes_ = CheckedAdd(bytes_, ListedBytes(info)).value_or(UINT64_MAX);
    if (!info.alias_of.empty()) {
      ++other_names_;
      repeated_bytes_ = CheckedAdd(repeated_bytes_, ListedBytes(info)).value_or(UINT64_MAX);
    }
    has_encoded_ = has_encoded_ || info.decoded_bytes.has_value();
    // Deflated tensors have no offset, and share no bytes.
    if (!info.decoded_bytes || !info.offset || encoded_.emplace(info.shard, info.offset).second) {
      stored_bytes_ = CheckedAdd(stored_bytes_, info.stored_bytes).value_or(UINT64_MAX);
    }
  }
  Json ToJson() const {
    Json totals = {{"tensors", tensors_}, {"bytes", bytes_}, {"stored_bytes", stored_bytes_}};
    for (const auto& [name, type] : types_) {
      totals["types"][name] = {
          {"tensors", type.tensors}, {"numbers", type.numbers}, {"stored_bytes", type.stored_bytes}};
    }
    return totals;
  }
  void Print(std::ostream& out) const {
    out << "total: " << tensors_ << (tensors_ == 1 ? " tensor, " : " tensors, ") << bytes_
        << (bytes_ == 1 ? " byte (" : " bytes (") << HumanBytes(bytes_) << ")";
    if (has_encoded_ && bytes_ > 0) {
      out << ", stored in " << stored_bytes_ << " (" << Ratio(stored_bytes_, bytes_) << ")";
    }
    if (other_names_ > 0) {
      out << ", " << repeated_bytes_ << " of them of " << other_names_
          << (other_names_ == 1 ? " tensor that is the same as another" : " tensors that are the same as another");
    }
    out << '\n';
    for (const auto& [name, type] : types_) {
      out << "  " << name << ": " << type.tensors << (type.tensors == 1 ? " tensor, " : " tensors, ") << type.numbers
          << " numbers in " << HumanBytes(type.stored_bytes);
      if (type.numbers > 0) out << absl::StrFormat(", %.4g bits each", type.bits());
      out << '\n';
    }
    if (!overview_.has_value()) return;
    for (const auto& [start, group] : overview_->groups()) {
      out << "  " << Printable(group.pattern()) << ": " << TensorCount(group.tensors()) << ", "
          << HumanBytes(group.bytes()) << '\n';
    }
  }

 private:
  struct OfType {
    size_t tensors = 0;
    uint64_t numbers = 0;
    uint64_t stored_bytes = 0;

    double bits() const { return 8.0 * static_cast<double>(stored_bytes) / static_cast<double>(numbers); }
  };

  void AddToType(const ArchiveEntry& info) {
    const bool is_plain = info.encoding == "plain";
    if (!is_plain && !info.decoded_bytes) return;  // the bytes of blocks, of which the numbers are not known
    OfType& type = types_[is_plain ? std::string(DTypeName(info.dtype)) : info.encoding];
    ++type.tensors;
    type.numbers += static_cast<uint64_t>(info.shape.num_elements());
    type.stored_bytes += info.stored_bytes;
  }

  const bool by_type_;
  std::optional<Overview> overview_;
  std::map<std::string, OfType> types_;
  size_t tensors_ = 0;
  uint64_t bytes_ = 0;
  uint64_t stored_bytes_ = 0;
  size_t other_names_ = 0;  // of tensors that are listed
  uint64_t repeated_bytes_ = 0;
  bool has_encoded_ = false;
  std::set<std::pair<std::optional<int>, std::optional<uint64_t>>>
      encoded_;  // seen so far: equal tensors may share one
};

// The tensors to list, in their order. Unless they are sorted by size, they are not in memory together.
class Listing {
 public:
  Listing(const ArchiveReader& input, const LsFlags& flags)
      : input_(input), flags_(flags), globs_(archive::NamesFirst(flags.globs, input.entries())) {
    if (!flags.by_size) return;
    for (const ArchiveEntry& info : input.entries()) {
      if (IsWanted(info)) sorted_.push_back(&info);
    }
    std::stable_sort(sorted_.begin(), sorted_.end(),
                     [](const ArchiveEntry* a, const ArchiveEntry* b) { return ListedBytes(*a) > ListedBytes(*b); });
  }

  absl::Status ForEach(absl::FunctionRef<absl::Status(const ArchiveEntry&)> fn) const {
    if (flags_.by_size) {
      for (const ArchiveEntry* const info : sorted_) CASK_RETURN_IF_ERROR(fn(*info));
      return absl::OkStatus();
    }
    return input_.ForEachEntry([&](const ArchiveEntry& info) { return IsWanted(info) ? fn(info) : absl::OkStatus(); });
  }

 private:
  bool IsWanted(const ArchiveEntry& info) const { return globs_.empty() || MatchesAny(globs_, info.name); }

  const ArchiveReader& input_;
  const LsFlags& flags_;
  const std::vector<std::string> globs_;
  std::vector<const ArchiveEntry*> sorted_;  // by size
};

// Measures the table, and adds up the bytes that --checksum will read.
absl::StatusOr<uint64_t> Measure(const Listing& listing, const LsFlags& flags, Table* table, Overview* overview) {
  Details any;
  any.crc32.assign(flags.checksum ? 8 : 0, '0');
  uint64_t bytes = 0;
  CASK_RETURN_IF_ERROR(listing.ForEach([&](const ArchiveEntry& info) {
    bytes = CheckedAdd(bytes, info.stored_bytes).value_or(UINT64_MAX);
    overview->Measure(info.name);
    if (!flags.json) table->Measure(RowOf({info, any}));
    return absl::OkStatus();
  }));
  return bytes;
}

// A document that is written piece by piece: one of a million tensors would take a gigabyte of memory.
class Document {
 public:
  // `key`: of what is listed.
  Document(const LsFlags& flags, const ArchiveReader& input, const char* key, std::ostream& out) : out_(out) {
    Json head;
    SetJsonText("path", flags.path, &head);
    head["format"] = std::string(input.format());
    const FileMetadata& metadata = input.file_metadata();
    const bool is_text = std::all_of(metadata.begin(), metadata.end(), [](const auto& entry) {
      return JsonText(entry.first) == entry.first && JsonText(entry.second) == entry.second;
    });
    if (!is_text) SetJsonTexts("metadata", metadata, &head);
    out_ << "{\n";
    for (const auto& [key, value] : head.items()) out_ << "  \"" << key << "\": " << Line(value) << ",\n";
    if (is_text) AddMetadata(metadata);
    out_ << "  \"" << key << "\": [";
  }
  void Add(const Json& listed) {
    out_ << separator_ << Line(listed);
    separator_ = ",\n    ";
    is_empty_ = false;
  }
  // `error` says why tensors are missing, "" if none is.
  void End(const Totals& totals, const std::string& error) {
    out_ << (is_empty_ ? "" : "\n  ") << "],\n  \"totals\": " << Line(totals.ToJson());
    if (!error.empty()) out_ << ",\n  \"error\": " << Line(JsonText(error));
    out_ << "\n}\n";
  }

 private:
  void AddMetadata(const FileMetadata& metadata) {
    out_ << "  \"metadata\": {";
    const char* separator = "";
    for (const auto& [key, value] : metadata) {
      out_ << separator << Line(key) << ':' << Line(value);
      separator = ",";
    }
    out_ << "},\n";
  }

  std::ostream& out_;
  const char* separator_ = "\n    ";
  bool is_empty_ = true;
};

// Prints the tensors. kFound: one of them could not be read.
absl::StatusOr<ExitCode> PrintTensors(const ArchiveReader& input, const LsFlags& flags, const Table& table,
                                      const Listing& listing, Overview overview, ReadProgress& progress,
                                      Console& console) {
  std::optional<Document> document;
  if (flags.json) document.emplace(flags, input, "tensors", console.out);
  ExitCode code = kDone;
  DamageNote note;
  Totals totals(/*by_type=*/input.format() == "gguf", std::move(overview));
  const absl::Status listed = listing.ForEach([&](const ArchiveEntry& info) {
    if (Interrupted()) return absl::CancelledError("interrupted");
    const Details details = ReadDetails(input, info, flags);
    totals.Add(info);
    const auto print = [&] {
      if (!details.status.ok()) {
        code = kFound;
        note.Add(details.status);
        console.err << "tensorcask ls: " << EscapeControls(details.status.message()) << '\n';
      }
      if (flags.json) {
        document->Add(ToJson({info, details}));
      } else {
        table.Print(RowOf({info, details}), console.out);
      }
    };
    if (flags.checksum) {
      progress.Print(print);
    } else {
      print();
    }
    return absl::OkStatus();
  });
  if (flags.json) {
    document->End(totals, InToolWords(listed.message()));
  } else if (listed.ok()) {
    totals.Print(console.out);
    if (flags.globs.empty()) console.out << ValuesInALine(input);
  }
  CASK_RETURN_IF_ERROR(listed);
  if (flags.checksum) progress.Print([&] { note.Print("ls", console); });
  return code;
}

// Calls fn for each group of the tensors. `listing` is in the order of names, in which groups come one after the other.
absl::Status ForEachGroup(const Listing& listing, size_t depth, absl::FunctionRef<void(const NameGroup&)> fn) {
  std::string start;
  NameGroup group;
  CASK_RETURN_IF_ERROR(listing.ForEach([&](const ArchiveEntry& info) {
    const absl::string_view next = FirstParts(info.name, depth);
    if (group.tensors() > 0 && next != start) {
      fn(group);
      group = NameGroup();
    }
    if (group.tensors() == 0) start = std::string(next);
    group.Add(info.name, TypeOf(info), ListedBytes(info));
    return absl::OkStatus();
  }));
  if (group.tensors() > 0) fn(group);
  return absl::OkStatus();
}

TableRow RowOf(const NameGroup& group) {
  return {Printable(group.pattern()), TensorCount(group.tensors()), absl::StrJoin(group.types(), ","),
          absl::StrCat(group.bytes())};
}

Json ToJson(const NameGroup& group) {
  Json json;
  SetJsonText("pattern", group.pattern(), &json);
  json["tensors"] = group.tensors();
  json["types"] = group.types();
  json["bytes"] = group.bytes();
  return json;
}

// Prints groups of tensors instead of tensors.
absl::StatusOr<ExitCode> PrintGroups(const ArchiveReader& input, const LsFlags& flags, Console& console) {
  LsFlags by_name = flags;
  by_name.by_size = false;
  const Listing listing(input, by_name);
  Totals totals(/*by_type=*/false);
  std::vector<NameGroup> sorted;  // by size
  Table table({3}, OutputWidth());
  CASK_RETURN_IF_ERROR(ForEachGroup(listing, flags.depth, [&](const NameGroup& group) {
    if (!flags.json) table.Measure(RowOf(group));
    if (flags.by_size) sorted.push_back(group);
  }));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const NameGroup& a, const NameGroup& b) { return a.bytes() > b.bytes(); });
  CASK_RETURN_IF_ERROR(listing.ForEach([&](const ArchiveEntry& info) {
    totals.Add(info);
    return absl::OkStatus();
  }));
  std::optional<Document> document;
  if (flags.json) document.emplace(flags, input, "groups", console.out);
  const auto print = [&](const NameGroup& group) {
    if (flags.json) {
      document->Add(ToJson(group));
    } else {
      table.Print(RowOf(group), console.out);
    }
  };
  if (flags.by_size) {
    for (const NameGroup& group : sorted) print(group);
  } else {
    CASK_RETURN_IF_ERROR(ForEachGroup(listing, flags.depth, print));
  }
  if (flags.json) {
    document->End(totals, "");
  } else {
    totals.Print(console.out);
    if (flags.globs.empty()) console.out << ValuesInALine(input);
  }
  return kDone;
}

// The archives in a folder of a store, by their names: nothing is opened.
absl::StatusOr<ExitCode> ListArchives(const LsFlags& flags, Console& console) {
  if (!flags.globs.empty() || flags.checksum || flags.depth > 0 || flags.tree || flags.values) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.path,
                     ": is a folder, whose files are listed; GLOB, --checksum, --depth, --tree and --values are for a "
                     "file"));
  }
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> found, FindArchives(flags.path, Formats(), ToolFiles()));
  Json document = {{"path", JsonText(flags.path)}, {"archives", Json::array()}};
  std::vector<TableRow> rows;
  for (const std::string& path : found) {
    const absl::StatusOr<const ArchiveFormat*> format = FormatForName(path, Formats());
    const std::string name(format.ok() ? (*format)->name() : "");
    document["archives"].push_back(
        Json{{"path", JsonText(path)}, {"format", name.empty() ? Json(nullptr) : Json(name)}});
    rows.push_back({Printable(path), name});
  }
  if (flags.json) {
    console.out << Line(document) << '\n';
    return kDone;
  }
  PrintTable(std::move(rows), {}, OutputWidth(), console.out);
  console.out << "total: " << found.size() << (found.size() == 1 ? " archive\n" : " archives\n");
  return kDone;
}

// Reads the list twice, so that no line waits in memory for the width of the columns.
absl::StatusOr<ExitCode> List(const LsFlags& flags, Console& console) {
  const bool is_bucket = SchemeOf(flags.path) == "s3" && FolderOf(flags.path) == flags.path;
  if (is_bucket || (IsOfStore(flags.path) && absl::EndsWith(flags.path, "/"))) return ListArchives(flags, console);
  Console quiet = console;
  quiet.progress = console.progress && flags.checksum;
  ReadProgress progress(quiet, "reading");
  InputOptions options = flags.input;
  const auto may_be_name = [](const std::string& glob) { return glob.find_first_of("[\\") != std::string::npos; };
  options.of_formats.checkpoint.keep_entries =
      flags.by_size || flags.tree || flags.values || std::any_of(flags.globs.begin(), flags.globs.end(), may_be_name);
  options.files = &progress;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> opened = OpenInput(flags.path, options);
  if (absl::IsNotFound(opened.status()) && IsOfStore(flags.path)) {
    // A folder whose slash was left out.
    LsFlags folder = flags;
    folder.path += "/";
    const absl::StatusOr<std::vector<std::string>> found = FindArchives(folder.path, Formats(), ToolFiles());
    if (found.ok() && !found->empty()) return ListArchives(folder, console);
  }
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> input, std::move(opened));
  progress.Print([&] { NoteOverlooked("ls", *input, console); });
  if (flags.tree) return DrawTree(flags, *input, console);
  if (flags.values) return PrintValues(*input, flags.path, flags.globs, flags.json, console);
  CASK_RETURN_IF_ERROR(CheckMatched(flags.globs, {input.get()}));
  if (flags.depth > 0) return PrintGroups(*input, flags, console);
  CatchInterrupts();
  Table table(NumberColumns(), OutputWidth());
  const Listing listing(*input, flags);
  Overview overview;
  CASK_ASSIGN_OR_RETURN(const uint64_t bytes, Measure(listing, flags, &table, &overview));
  progress.SetTotal(bytes);
  const absl::StatusOr<ExitCode> code =
      PrintTensors(*input, flags, table, listing, std::move(overview), progress, console);
  return Interrupted() ? InterruptedExitCode() : code;
}

}  // namespace

Action DeclareLs(CLI::App& app) {
  auto flags = std::make_shared<LsFlags>();
  app.add_option("PATH", flags->path, "A checkpoint's prefix or .index, or another file")->required();
  CLI::Option* const globs = app.add_option("GLOB", flags->globs, "Only tensors with names that match: dense/*");
  CLI::Option* const json = app.add_flag("--json", flags->json, "One JSON document");
  CLI::Option* const checksum =
      app.add_flag("--checksum", flags->checksum, "Read the elements and add their CRC-32 (of zlib)");
  CLI::Option* const tree =
      app.add_flag("--tree", flags->tree,
                   "Instead list the objects that TensorFlow saved, and the tensors with their values")
          ->excludes(json)
          ->excludes(checksum)
          ->excludes(globs);
  CLI::Option* const values =
      app.add_flag(
             "--values", flags->values,
             "Instead list what the file keeps beside its tensors; GLOB then means names of values, which are printed "
             "whole")
          ->excludes(checksum)
          ->excludes(tree);
  AddNumberOption(app, "--depth", "N", 1, 1000, &flags->depth,
                  "Instead list groups of tensors whose names begin with the same N parts: the number of tensors, "
                  "their dtypes and bytes");
  app.get_option("--depth")->excludes(checksum)->excludes(tree)->excludes(values);
  app.add_option_function<std::string>(
         "--sort", [flags](const std::string& key) { flags->by_size = key == "size"; }, "name (default) or size")
      ->check(CLI::IsMember({"name", "size"}))
      ->type_name("KEY");
  AddInputOptions(app, &flags->input);
  app.footer(absl::StrCat(
      "Columns: ", Titles(),
      " (with --checksum). The encoding of a compressed tensor has the stored size "
      "in percent of the bytes. A tensor that cannot be read is listed, too, as `not readable`. Exit 1 if it is "
      "damaged "
      "or missing.\n\n"
      "Below a long list, a line for each of a few groups of names shows what is in the file, and a last line the "
      "first values that it keeps beside its tensors. A part of a name ends with '.' or '/'. The name of a group is a "
      "pattern: `--exclude 'optimizer.*'` takes it.\n\n"
      "--values lists one value in a line, with its type, in the order of the file. Long text is shortened, and of "
      "long lists only the number of elements is printed, unless a GLOB chooses the value; lists of maps are entered. "
      "A GLOB that is the name of a map or list chooses it as one value. With --json, nested values stay nested.\n\n"
      "Without --checksum and --tree, only the index of a checkpoint is read, and records of 4 MiB and more are "
      "listed without a check of their checksums: `tensorcask verify` finds damage of their names and shapes. "
      "--checksum is zlib's CRC-32 of the elements in memory; for each string it covers the length as 8 bytes, "
      "little-endian, and the bytes.\n\n"
      "Of a folder in an object store, which ends in a slash, the files and checkpoints are listed with their formats, "
      "by their names.\n\n"
      "Examples:\n"
      "  tensorcask ls --sort size model.ckpt 'dense/*'\n"
      "  tensorcask ls --depth 1 model.ckpt\n"
      "  tensorcask ls --tree model.ckpt\n"
      "  tensorcask ls --values model.safetensors\n"
      "  tensorcask ls s3://bucket/run/"));
  return [flags](Console& console) { return List(*flags, console); };
}

}  // namespace tensorcask::tools
