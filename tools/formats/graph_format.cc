#include "tensorcask/tools/formats/graph_format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/message/message_form.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/serialize/wire/message/wire_fields.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::tools {
namespace {

using Field = WireReader::Field;

bool IsMessage(const Field& field, uint32_t number) { return field.number == number && field.type == WireType::kBytes; }

// ---- Recognition ----------------------------------------------------------------------------------------------------

// Bytes of a file, [begin, end).
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// A varint at range->begin, which moves behind it.
bool ReadVarint(const ByteSource& file, Range* range, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && range->begin < range->end; shift += 7) {
    char byte;
    if (!file.ReadAt(range->begin++, absl::MakeSpan(&byte, 1)).ok()) return false;
    *value |= uint64_t{static_cast<unsigned char>(byte) & 0x7fU} << shift;
    if ((static_cast<unsigned char>(byte) & 0x80) == 0) return true;
  }
  return false;
}

// The first field `number`, a message or text, among the first fields of the message in `range`.
bool FindMessage(const ByteSource& file, Range range, uint64_t number, Range* found) {
  constexpr int kMaxFields = 256;  // a SavedModel has a field for each signature
  for (int i = 0; i < kMaxFields; ++i) {
    uint64_t tag;
    uint64_t value;
    if (!ReadVarint(file, &range, &tag) || !ReadVarint(file, &range, &value)) return false;
    const auto type = static_cast<WireType>(tag & 7);
    if (type == WireType::kVarint) continue;
    if (type != WireType::kBytes || value > range.end - range.begin) return false;
    *found = {range.begin, range.begin + value};
    if (tag >> 3 == number) return true;
    range.begin += value;
  }
  return false;
}

// True if a node with a name and an operation is among the first fields.
bool IsGraph(const ByteSource& file, const Range& graph) {
  constexpr uint64_t kMaxOperationBytes = 200;
  Range node;
  Range name;
  Range operation;
  if (!FindMessage(file, graph, 1, &node) || !FindMessage(file, node, 1, &name) || name.begin == name.end) return false;
  if (!FindMessage(file, node, 2, &operation)) return false;
  std::string text(std::min(operation.end - operation.begin, kMaxOperationBytes), '\0');
  if (text.empty() || !file.ReadAt(operation.begin, absl::MakeSpan(&text[0], text.size())).ok()) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '>' || c == '/';
  });
}

bool IsSavedModel(const ByteSource& file, const Range& whole) {
  Range meta_graph;
  Range graph;
  return FindMessage(file, whole, 2, &meta_graph) && FindMessage(file, meta_graph, 2, &graph) && IsGraph(file, graph);
}

// ---- Reading --------------------------------------------------------------------------------------------------------

struct Constant {
  ArchiveEntry entry;
  absl::string_view message;  // the TensorProto
  absl::Status status;        // why it cannot be read, if the description of the tensor shows that
};

// Calls fn(content) for each field `number` that is a message or text.
template <typename Fn>
absl::Status ForEachMessage(absl::string_view message, uint32_t number, Fn&& fn) {
  WireReader reader(message);
  for (Field field; reader.Next(&field);) {
    if (IsMessage(field, number)) CASK_RETURN_IF_ERROR(fn(field.bytes));
  }
  return reader.status();
}

// The last field `number`, as protobuf has it; "" without one.
absl::StatusOr<absl::string_view> LastMessage(absl::string_view message, uint32_t number) {
  absl::string_view found;
  CASK_RETURN_IF_ERROR(ForEachMessage(message, number, [&](absl::string_view content) {
    found = content;
    return absl::OkStatus();
  }));
  return found;
}

// The dtype and shape of a TensorProto, read as the decoder reads them. The elements are not decoded.
absl::Status Describe(absl::string_view message, int max_depth, ArchiveEntry* entry) {
  internal::WireTensorFields fields;
  CASK_RETURN_IF_ERROR(fields.Read(message, max_depth));
  CASK_ASSIGN_OR_RETURN(const internal::FormAndDType form, internal::FindForm(fields));
  if (form.form != internal::MessageForm::kPlain) {
    return absl::UnimplementedError("is stored in a form that graphs do not have");
  }
  entry->dtype = form.dtype;
  CASK_ASSIGN_OR_RETURN(entry->shape, internal::ShapeFromFields(fields.shape, /*lenient=*/false));
  return absl::OkStatus();
}

class GraphReader final : public ArchiveReader {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                             const ArchiveReaderOptions& options) {
    CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> file,
                          ReadWholeFile(path, static_cast<uint64_t>(options.limits.max_message_bytes), options.read));
    std::unique_ptr<GraphReader> reader(new GraphReader(path, std::move(file), options));
    const std::shared_ptr<ListingBudget> listing =
        options.listing != nullptr ? options.listing : std::make_shared<ListingBudget>(options.limits);
    listing->AddIndex(reader->file_->size_bytes());
    const absl::Status parsed = reader->Parse(listing.get());
    if (!parsed.ok()) return AsDataLoss(parsed, path);
    return std::unique_ptr<ArchiveReader>(std::move(reader));
  }

  absl::string_view format() const override { return GraphArchiveFormat::kName; }
  const std::string& path() const override { return path_; }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
    const Constant& constant = constants_[entry - entries_.data()];
    CASK_RETURN_IF_ERROR(constant.status);
    DecodeOptions decode;
    decode.limits = options_.limits;
    absl::StatusOr<Tensor> tensor = DecodeSerializedTensor(constant.message, decode);
    if (!tensor.ok()) return AsDataLoss(tensor.status(), absl::StrCat(path_, ": constant ", Quoted(name)));
    if (tensor->dtype() != entry->dtype || tensor->shape() != entry->shape) {
      return absl::DataLossError(absl::StrCat(path_, ": constant ", Quoted(name), ": is ", DTypeName(tensor->dtype()),
                                              " ", tensor->shape().ToString(), ", listed as ", DTypeName(entry->dtype),
                                              " ", entry->shape.ToString()));
    }
    return tensor;
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_ASSIGN_OR_RETURN(const Tensor tensor, Read(name));
    CASK_ASSIGN_OR_RETURN(const TensorView part, TensorView(tensor).Slice(slice));
    return part.ToTensor();
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
    CASK_RETURN_IF_ERROR(constants_[entry - entries_.data()].status);
    return TensorMetadata();
  }

 private:
  GraphReader(std::string path, RefPtr<TensorBuffer> file, ArchiveReaderOptions options)
      : path_(std::move(path)), file_(std::move(file)), options_(std::move(options)) {}

  absl::Status Parse(ListingBudget* quota) {
    const absl::string_view file = file_->bytes();
    const auto source = MakeMemorySource(path_, file);
    const Range whole = {0, file.size()};
    if (!IsSavedModel(*source, whole) && !IsGraph(*source, whole)) {
      return absl::DataLossError("is neither a GraphDef nor a SavedModel with nodes");
    }
    if (IsSavedModel(*source, whole)) {
      CASK_RETURN_IF_ERROR(ForEachMessage(file, 2, [&](absl::string_view meta_graph) {
        return ForEachMessage(meta_graph, 2, [&](absl::string_view graph) { return ParseGraph(graph, quota); });
      }));
    } else {
      CASK_RETURN_IF_ERROR(ParseGraph(file, quota));
    }
    std::sort(constants_.begin(), constants_.end(),
              [](const Constant& a, const Constant& b) { return a.entry.name < b.entry.name; });
    for (Constant& constant : constants_) entries_.push_back(std::move(constant.entry));
    return absl::OkStatus();
  }

  absl::Status ParseGraph(absl::string_view graph, ListingBudget* quota) {
    CASK_RETURN_IF_ERROR(ForEachMessage(graph, 1, [&](absl::string_view node) { return ParseNode("", node, quota); }));
    return ForEachMessage(graph, 2, [&](absl::string_view library) {
      return ForEachMessage(library, 1, [&](absl::string_view function) -> absl::Status {
        CASK_ASSIGN_OR_RETURN(const absl::string_view signature, LastMessage(function, 1));
        CASK_ASSIGN_OR_RETURN(const absl::string_view name, LastMessage(signature, 1));
        return ForEachMessage(function, 3, [&](absl::string_view node) { return ParseNode(name, node, quota); });
      });
    });
  }

  absl::Status ParseNode(absl::string_view function, absl::string_view node, ListingBudget* quota) {
    CASK_ASSIGN_OR_RETURN(const absl::string_view operation, LastMessage(node, 2));
    if (operation != "Const") return absl::OkStatus();
    CASK_ASSIGN_OR_RETURN(const absl::string_view name, LastMessage(node, 1));
    absl::string_view value;
    CASK_RETURN_IF_ERROR(ForEachMessage(node, 5, [&](absl::string_view attribute) -> absl::Status {
      CASK_ASSIGN_OR_RETURN(const absl::string_view key, LastMessage(attribute, 1));
      if (key != "value") return absl::OkStatus();
      CASK_ASSIGN_OR_RETURN(value, LastMessage(attribute, 2));
      return absl::OkStatus();
    }));
    Constant constant;
    CASK_ASSIGN_OR_RETURN(constant.message, LastMessage(value, 8));
    constant.status = constant.message.empty() ? absl::DataLossError("has no value")
                                               : Describe(constant.message, options_.limits.max_depth, &constant.entry);
    // Two copies of the name and a number behind it; an error has the path, and the name with up to 4 bytes for each.
    const uint64_t name_bytes = function.size() + name.size();
    const uint64_t error_bytes = constant.status.ok() ? 0 : path_.size() + 4 * name_bytes;
    CASK_RETURN_IF_ERROR(quota->Charge(kEntryBytes + 3 * name_bytes + error_bytes));
    constant.entry.name = UniqueName(absl::StrCat(function, function.empty() ? "" : "/", name));
    constant.status = AsDataLoss(constant.status, absl::StrCat(path_, ": constant ", Quoted(constant.entry.name)));
    constant.entry.encoding = constant.status.ok() ? "plain" : "not readable";
    constant.entry.has_metadata = !constant.status.ok();  // Metadata returns the error
    constant.entry.stored_bytes = constant.message.size();
    if (!constant.message.empty()) constant.entry.offset = constant.message.data() - file_->bytes().data();
    constants_.push_back(std::move(constant));
    if (constants_.size() <= static_cast<uint64_t>(options_.limits.max_entries)) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("has more constants than max_entries = ", options_.limits.max_entries));
  }

  // `base`, or if there is one of this name, the first of base#2, base#3 and so on that is free. A number is tried once
  // for each base, so that the work for all names is linear.
  std::string UniqueName(std::string base) {
    int64_t& number = names_[base];
    if (++number == 1) return base;
    while (true) {
      std::string name = absl::StrCat(base, "#", number);
      if (names_.emplace(name, 1).second) return name;
      ++number;
    }
  }

  // Of a constant in all lists, with the memory that its parts allocate.
  static constexpr uint64_t kEntryBytes = sizeof(Constant) + sizeof(ArchiveEntry) + 200;

  const std::string path_;
  const RefPtr<TensorBuffer> file_;
  const ArchiveReaderOptions options_;
  std::vector<ArchiveEntry> entries_;
  std::vector<Constant> constants_;       // of entries_; their own entry is empty
  std::map<std::string, int64_t> names_;  // all names; with the last number that was tried behind each
};

}  // namespace

ArchiveTraits GraphArchiveFormat::traits() const {
  ArchiveTraits traits;
  traits.strings = true;
  traits.is_written = false;
  return traits;
}

bool GraphArchiveFormat::Recognizes(const ArchiveProbe& probe) const {
  if (probe.file == nullptr) return false;
  const Range whole = {0, probe.file->size_bytes()};
  return IsSavedModel(*probe.file, whole) || IsGraph(*probe.file, whole);
}

std::vector<std::string> GraphArchiveFormat::FindIn(const std::string& folder, absl::Span<const std::string> names,
                                                    FileSystem* /*file_system*/) const {
  const auto has = [&](absl::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  const bool has_checkpoint =
      std::any_of(names.begin(), names.end(), [](const std::string& name) { return absl::EndsWith(name, ".index"); });
  if (!has("saved_model.pb") || has("variables") || has_checkpoint) return {};
  return {absl::StrCat(folder, "/saved_model.pb")};
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> GraphArchiveFormat::Open(const std::string& path,
                                                                        const ArchiveReaderOptions& options) const {
  return GraphReader::Open(path, options);
}

}  // namespace tensorcask::tools
