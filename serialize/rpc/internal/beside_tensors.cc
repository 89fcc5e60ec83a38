#include "tensorcask/serialize/rpc/internal/beside_tensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/protowire/wire_writer.h"
#include "tensorcask/serialize/rpc/remote_format.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::rpc {
namespace {

// A conversion to this format, which is never run, finds the texts of the values.
class TextBesideTensors final : public RemoteFormat {
 public:
  TextBesideTensors() : RemoteFormat(/*tls=*/false) {}

  absl::string_view name() const override { return "gRPC"; }
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& /*options*/) const override {
    return absl::UnimplementedError(absl::StrCat(path, ": nothing is opened"));
  }
};

// The numbers of the fields of FileMetadata and MetadataEntry in proto/exchange_service.proto. This file needs no
// classes of protobuf, which the Python module links with gRPC alone.
enum FileMetadataField : uint32_t { kEntries = 1, kNotes = 2 };
enum MetadataEntryField : uint32_t { kKey = 1, kValue = 2 };

void AppendBytes(uint32_t field, absl::string_view bytes, std::string* message) {
  char head[32];
  const char* const end = WriteVarint(bytes.size(), internal::WriteTag(field, WireType::kBytes, head));
  message->append(head, static_cast<size_t>(end - head));
  message->append(bytes.data(), bytes.size());
}

constexpr char kTypesKey[] = "tensorcask.values";
constexpr uint64_t kEntryMemory = 160;  // what a node of a map takes, without long texts

absl::Status NoFileMetadata(const absl::Status& why) {
  return absl::DataLossError(absl::StrCat("the metadata of the file is not a FileMetadata: ", why.message()));
}

// One MetadataEntry.
absl::Status AddEntry(absl::string_view message, FileMetadata* entries) {
  std::string key;
  std::string value;
  WireReader reader(message);
  for (WireReader::Field field; reader.Next(&field);) {
    if (field.type != WireType::kBytes) continue;
    if (field.number == kKey) key = std::string(field.bytes);
    if (field.number == kValue) value = std::string(field.bytes);
  }
  if (!reader.status().ok()) return NoFileMetadata(reader.status());
  if (!entries->empty() && key <= entries->rbegin()->first) {
    return absl::DataLossError(absl::StrCat("the metadata ", Quoted(key), " comes after ",
                                            Quoted(entries->rbegin()->first), "; keys must come once and in order"));
  }
  entries->emplace_hint(entries->end(), std::move(key), std::move(value));
  return absl::OkStatus();
}

// A rank of 0 has no axis without elements.
TensorShape WithoutElements(int rank) {
  TensorShape shape;
  for (int axis = 0; axis < std::max(rank, 1); ++axis) {
    if (!shape.AddDim(0).ok()) break;
  }
  return shape;
}

}  // namespace

BesideTensors FromArchive(const ArchiveReader& archive) {
  BesideTensors beside;
  ConvertOptions options;
  options.allow_loss = true;
  absl::StatusOr<ConversionPlan> plan = PlanConversion({&archive}, TextBesideTensors(), options);
  if (!plan.ok()) {
    beside.entries = archive.file_metadata();
    beside.notes.push_back(absl::StrCat("the values beside the tensors stay behind: ", plan.status().message()));
    return beside;
  }
  beside.entries = std::move(plan->file_metadata);
  beside.notes = std::move(plan->notes);
  for (ConvertLoss& loss : plan->losses) {
    if (loss.kind == ConvertLoss::Kind::kUntied) beside.notes.push_back(std::move(loss.message));
    if (loss.kind == ConvertLoss::Kind::kValue) beside.lost.push_back(std::move(loss.message));
  }
  return beside;
}

std::vector<std::string> NotesOf(const ArchiveReader& archive, const BesideTensors& beside) {
  std::vector<std::string> notes;
  for (const std::string& note : archive.notes()) notes.push_back(absl::StrCat(archive.path(), ": ", note));
  notes.insert(notes.end(), beside.notes.begin(), beside.notes.end());
  notes.insert(notes.end(), beside.lost.begin(), beside.lost.end());
  for (const std::string& sentence : UnreadableTensors(archive)) {
    notes.push_back(absl::StrCat("not served: ", sentence));
  }
  return notes;
}

ValueTypes TakeTypes(FileMetadata* entries) {
  ValueTypes types;
  const auto table = entries->find(kTypesKey);
  if (table == entries->end()) return types;
  for (const absl::string_view line : absl::StrSplit(table->second, '\n')) {
    const size_t type = line.find(' ');
    const size_t name = type == absl::string_view::npos ? type : line.find(' ', type + 1);
    std::string key;
    if (name == absl::string_view::npos || !absl::CUnescape(line.substr(name + 1), &key)) continue;
    types.emplace(std::move(key), line.substr(0, name));
  }
  entries->erase(table);
  return types;
}

void AddTypes(const ValueTypes& types, FileMetadata* entries) {
  std::string lines;
  for (const auto& [key, type] : types) {
    if (entries->count(key) == 0) continue;
    absl::StrAppend(&lines, lines.empty() ? "" : "\n", type, " ", absl::Utf8SafeCEscape(key));
  }
  if (!lines.empty()) (*entries)[kTypesKey] = std::move(lines);
}

std::string ToMessage(const FileMetadata& entries, const std::vector<std::string>& notes) {
  std::string message;
  std::string one;
  for (const auto& [key, value] : entries) {
    one.clear();
    AppendBytes(kKey, key, &one);
    AppendBytes(kValue, value, &one);
    AppendBytes(kEntries, one, &message);
  }
  for (const std::string& note : notes) AppendBytes(kNotes, note, &message);
  return message;
}

absl::StatusOr<BesideTensors> FromMessage(absl::string_view message,
                                          absl::FunctionRef<absl::Status(uint64_t bytes)> charge) {
  BesideTensors beside;
  WireReader reader(message);
  for (WireReader::Field field; reader.Next(&field);) {
    if (field.type != WireType::kBytes) continue;
    if (field.number == kEntries) {
      CASK_RETURN_IF_ERROR(charge(kEntryMemory + field.bytes.size()));
      CASK_RETURN_IF_ERROR(AddEntry(field.bytes, &beside.entries));
    } else if (field.number == kNotes) {
      CASK_RETURN_IF_ERROR(charge(kEntryMemory + field.bytes.size()));
      beside.notes.emplace_back(field.bytes);
    }
  }
  if (!reader.status().ok()) return NoFileMetadata(reader.status());
  return beside;
}

absl::StatusOr<std::string> EncodeMetadataAlone(DType dtype, int rank, const TensorMetadata& metadata) {
  CASK_ASSIGN_OR_RETURN(const Tensor none, Tensor::Create(dtype, WithoutElements(rank)));
  CASK_ASSIGN_OR_RETURN(const uint64_t size, EncodedSize(none, metadata, EncodeOptions()));
  std::string message(size, '\0');
  CASK_RETURN_IF_ERROR(EncodeTensorTo(none, metadata, EncodeOptions(), absl::MakeSpan(&message[0], size)));
  return message;
}

absl::StatusOr<TensorMetadata> DecodeMetadataAlone(absl::string_view message, DType dtype, int rank,
                                                   const DecodeOptions& options) {
  CASK_ASSIGN_OR_RETURN(DecodedTensor none, DecodeSerializedTensorWithMetadata(message, options));
  const TensorShape wanted = WithoutElements(rank);
  if (none.view.dtype() != dtype || none.view.shape() != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("its metadata comes with ", DTypeName(none.view.dtype()), " ",
                                                   none.view.shape().ToString(), "; wanted ", DTypeName(dtype), " ",
                                                   wanted.ToString()));
  }
  return std::move(none.metadata);
}

}  // namespace tensorcask::rpc
