#include "tensorcask/serialize/onnx/internal/model_walk.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/onnx/internal/graph_names.h"
#include "tensorcask/serialize/protowire/wire_cursor.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::onnx {
namespace {

using Field = WireCursor::Field;

enum class Message : uint8_t {
  kModel,
  kTraining,
  kFunction,
  kGraph,
  kNode,
  kAttribute,
  kSequence,
  kMap,
  kTensor,
  kSparse,
};

// A field that leads to tensors.
struct Way {
  Message from;
  uint32_t field;
  Message to;
};

constexpr Way kWays[] = {
    {Message::kModel, 7, Message::kGraph},         {Message::kModel, 20, Message::kTraining},
    {Message::kModel, 25, Message::kFunction},     {Message::kTraining, 1, Message::kGraph},
    {Message::kTraining, 2, Message::kGraph},      {Message::kFunction, 7, Message::kNode},
    {Message::kFunction, 11, Message::kAttribute}, {Message::kGraph, 1, Message::kNode},
    {Message::kGraph, 5, Message::kTensor},        {Message::kGraph, 15, Message::kSparse},
    {Message::kNode, 5, Message::kAttribute},      {Message::kAttribute, 5, Message::kTensor},
    {Message::kAttribute, 6, Message::kGraph},     {Message::kAttribute, 10, Message::kTensor},
    {Message::kAttribute, 11, Message::kGraph},    {Message::kAttribute, 22, Message::kSparse},
    {Message::kAttribute, 23, Message::kSparse},   {Message::kSequence, 3, Message::kTensor},
    {Message::kSequence, 4, Message::kSparse},     {Message::kSequence, 5, Message::kSequence},
    {Message::kSequence, 6, Message::kMap},        {Message::kSequence, 7, Message::kSequence},
};

// A field whose text names what its message holds.
constexpr uint32_t kFunctionName = 1;
constexpr uint32_t kAttributeName = 1;
constexpr uint32_t kNodeOutput = 2;
constexpr uint32_t kNodeName = 3;
constexpr uint32_t kNodeType = 4;
constexpr uint32_t kTrainingInitialization = 1;
constexpr uint32_t kAttributeTensor = 5;
constexpr uint32_t kAttributeGraphs = 11;

// A field of ModelProto that becomes file metadata, under this key.
struct MetadataField {
  uint32_t field;
  WireType type;
  const char* key;
};

constexpr MetadataField kMetadataFields[] = {
    {1, WireType::kVarint, "onnx.ir_version"},      {2, WireType::kBytes, "onnx.producer_name"},
    {3, WireType::kBytes, "onnx.producer_version"}, {4, WireType::kBytes, "onnx.domain"},
    {5, WireType::kVarint, "onnx.model_version"},   {6, WireType::kBytes, "onnx.doc_string"},
};
constexpr uint32_t kOpsetImport = 8;
constexpr uint32_t kModelProps = 14;
constexpr const char* kOpsetKey = "onnx.opset_import";
constexpr absl::string_view kSparseKeys = "onnx.sparse.";  // where keys begin that have the shapes of sparse tensors

constexpr uint64_t kMaxTextBytes = uint64_t{16} << 20;  // for a value of the metadata
constexpr size_t kMaxNotes = 100;
constexpr int kMainGraph = 0;

// A message that the walk has entered.
struct Frame {
  Message message = Message::kModel;
  uint64_t end = 0;
  int graph = kMainGraph;                   // whose tensors are in it
  bool is_of_graph = true;                  // FoundTensor::is_of_graph
  uint32_t number = 0;                      // the number of the message among those of its kind in the one around it
  uint32_t counts[3] = {0, 0, 0};           // how many messages it has so far, by SlotOf
  Field name;                               // for a node, an attribute or a function; size 0: none so far
  Field output;                             // for a node: the first one
  Field type;                               // for a node
  std::unique_ptr<TensorMessage> constant;  // the tensor of a node's attribute, with WalkOptions::constants
  Field attribute;                          // which has it
  bool has_tensor = false;                  // for an attribute
  std::string path;                         // for a sequence: "0.2.", in front of the numbers of its tensors
  Field field;                              // that has the message; size 0 and position 0: the file
  size_t tensors_before = 0;                // in the list
};

// Which of Frame::counts numbers a message that `field` of the message around it holds.
size_t SlotOf(Message message, uint32_t field) {
  if (message == Message::kTraining) return 2;
  const bool is_second = message == Message::kAttribute || message == Message::kFunction ||
                         (message == Message::kGraph && field == kAttributeGraphs);
  return is_second ? 1 : 0;
}

class Walk {
 public:
  Walk(const ByteSource& file, const WalkOptions& options)
      : cursor_(&file), file_bytes_(file.size_bytes()), options_(options), budget_(options.limits) {}

  absl::StatusOr<FoundTensors> Run(MessageKind kind) {
    found_.kind = kind;
    if (kind == MessageKind::kTensor) {
      CASK_ASSIGN_OR_RETURN(TensorMessage tensor, ParseTensor(&cursor_, 0, file_bytes_, options_.limits));
      CASK_RETURN_IF_ERROR(Add(std::nullopt, "", std::move(tensor), kMainGraph));
      NoteTexts();
      found_.by_name = {0};
      return std::move(found_);
    }
    Frame root;
    root.message = kind == MessageKind::kModel ? Message::kModel : Message::kSequence;
    root.end = file_bytes_;
    stack_.push_back(std::move(root));
    names_.AddMain();
    while (!stack_.empty()) CASK_RETURN_IF_ERROR(Step());
    if (kind == MessageKind::kModel && !has_graph_)
      return absl::InvalidArgumentError("is not a model: it has no graph");
    CASK_RETURN_IF_ERROR(ResolveNames());
    NoteTexts();
    if (!opsets_.empty()) found_.metadata.emplace(kOpsetKey, opsets_);
    for (const auto& [key, value] : props_) {
      if (found_.metadata.emplace(key, value).second) continue;
      AddNote(absl::StrCat("the entry ", Quoted(key), " of metadata_props is left out: a field has this name"));
    }
    return std::move(found_);
  }

 private:
  absl::Status Step() {
    if (cursor_.position() == stack_.back().end) return Leave();
    Field field;
    CASK_RETURN_IF_ERROR(cursor_.ReadField(stack_.back().end, &field));
    const Message in = stack_.back().message;
    for (const Way& way : kWays) {
      if (way.from == in && way.field == field.number) return Enter(way.to, field);
    }
    Note(field);
    if (in == Message::kModel) CASK_RETURN_IF_ERROR(ReadMetadata(field));
    cursor_.Seek(field.end());
    return absl::OkStatus();
  }

  // Remembers where the names of the current message are.
  void Note(const Field& field) {
    if (field.type != WireType::kBytes) return;
    Frame& frame = stack_.back();
    if (frame.message == Message::kNode) {
      if (field.number == kNodeName) frame.name = field;
      if (field.number == kNodeType) frame.type = field;
      if (field.number == kNodeOutput && frame.output.size == 0) frame.output = field;
    } else if (field.number == (frame.message == Message::kFunction ? kFunctionName : kAttributeName)) {
      frame.name = field;
    }
  }

  absl::Status Leave() {
    Frame& frame = stack_.back();
    if (frame.constant != nullptr) {
      const uint64_t end = frame.end;
      CASK_ASSIGN_OR_RETURN(const std::string type, ReadText(&cursor_, frame.type, options_.limits));
      if (type == "Constant") {
        CASK_ASSIGN_OR_RETURN(std::string name, ReadText(&cursor_, frame.output, options_.limits));
        const Field attribute = frame.attribute;
        CASK_RETURN_IF_ERROR(Add(std::move(name), "", std::move(*frame.constant), frame.graph));
        NoteEnclosing(attribute, found_.tensors.size() - 1);
      } else if (frame.constant->is_beside) {
        CASK_RETURN_IF_ERROR(AddOtherSideFile(frame.constant->begin, frame.constant->end));
      }
      cursor_.Seek(end);
    }
    if (stack_.size() > 1) NoteEnclosing(frame.field, frame.tensors_before);
    stack_.pop_back();
    return absl::OkStatus();
  }

  // Notes a message that has ended, if it has tensors.
  void NoteEnclosing(const Field& field, size_t tensors_before) {
    if (!options_.enclosing || found_.tensors.size() == tensors_before) return;
    found_.enclosing.push_back({field.number, field.position, field.begin, field.end()});
  }

  absl::Status Enter(Message to, const Field& field) {
    if (field.type != WireType::kBytes) {
      return absl::InvalidArgumentError(absl::StrCat("field ", field.number, " at byte ", field.position,
                                                     " has wire type ", static_cast<int>(field.type),
                                                     "; wanted a message"));
    }
    if (stack_.size() >= LimitOf(options_.limits.max_depth)) {
      return PastLimit(absl::StrCat("messages at byte ", field.position, " nest deeper"), "max_depth",
                       options_.limits.max_depth);
    }
    if (to == Message::kMap) {
      return absl::UnimplementedError(
          absl::StrCat("a map at byte ", field.position, ": sequences of maps are not read by this version"));
    }
    if (to == Message::kTensor || to == Message::kSparse) return EnterTensor(to, field);
    Frame frame;
    frame.message = to;
    frame.field = field;
    frame.tensors_before = found_.tensors.size();
    frame.end = field.end();
    frame.graph = stack_.back().graph;
    frame.is_of_graph = stack_.back().is_of_graph && to != Message::kTraining && to != Message::kFunction;
    frame.number = stack_.back().counts[SlotOf(to, field.number)]++;
    if (to == Message::kSequence) frame.path = absl::StrCat(stack_.back().path, frame.number, ".");
    if (to == Message::kGraph || to == Message::kFunction) {
      CASK_RETURN_IF_ERROR(NameGraph(field, &frame));
    }
    stack_.push_back(std::move(frame));
    cursor_.Seek(field.begin);
    return absl::OkStatus();
  }

  absl::Status EnterTensor(Message to, const Field& field) {
    Frame& frame = stack_.back();
    if (frame.message == Message::kAttribute) {
      const bool is_of_node = stack_.size() > 1 && stack_[stack_.size() - 2].message == Message::kNode;
      if (options_.constants && is_of_node && field.number == kAttributeTensor) {
        if (frame.has_tensor) {
          return absl::InvalidArgumentError(
              absl::StrCat("the attribute at byte ", frame.field.position, " has two tensors"));
        }
        frame.has_tensor = true;
        CASK_ASSIGN_OR_RETURN(TensorMessage tensor, Parse(field));
        Frame& node = stack_[stack_.size() - 2];
        node.constant = std::make_unique<TensorMessage>(std::move(tensor));
        node.attribute = frame.field;
      } else if (to == Message::kTensor) {
        CASK_RETURN_IF_ERROR(AddOtherSideFile(field.begin, field.end()));
      } else {
        CASK_RETURN_IF_ERROR(AddOtherSideFilesOfSparse(field));
      }
    } else {
      const std::string position =
          frame.message == Message::kSequence ? absl::StrCat(frame.path, frame.counts[0]++) : "";
      if (to == Message::kSparse) {
        CASK_RETURN_IF_ERROR(AddSparse(field, position));
      } else {
        CASK_ASSIGN_OR_RETURN(TensorMessage tensor, Parse(field));
        std::optional<std::string> name;
        if (!position.empty()) name = position;
        CASK_RETURN_IF_ERROR(Add(std::move(name), "", std::move(tensor), frame.graph));
      }
    }
    cursor_.Seek(field.end());
    return absl::OkStatus();
  }

  // Adds the side file of the TensorProto in these bytes, if it has one.
  absl::Status AddOtherSideFile(uint64_t begin, uint64_t end) {
    if (!options_.other_side_files) return absl::OkStatus();
    absl::StatusOr<std::optional<std::string>> location = ReadLocation(&cursor_, begin, end);
    if (absl::IsInvalidArgument(location.status())) location = std::string();  // a broken message may mean any file
    if (!location.ok()) return location.status();
    if (!location->has_value()) return absl::OkStatus();
    CASK_RETURN_IF_ERROR(budget_.Charge(sizeof(std::string) + (*location)->size()));
    found_.other_side_files.push_back(**std::move(location));
    return absl::OkStatus();
  }

  absl::Status AddOtherSideFilesOfSparse(const Field& sparse) {
    for (uint64_t at = sparse.begin; options_.other_side_files && at < sparse.end();) {
      Field part;
      cursor_.Seek(at);
      CASK_RETURN_IF_ERROR(cursor_.ReadField(sparse.end(), &part));
      at = part.end();
      if ((part.number != 1 && part.number != 2) || part.type != WireType::kBytes) continue;
      CASK_RETURN_IF_ERROR(AddOtherSideFile(part.begin, part.end()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TensorMessage> Parse(const Field& field) {
    CASK_ASSIGN_OR_RETURN(TensorMessage tensor, ParseTensor(&cursor_, field.begin, field.end(), options_.limits));
    tensor.field = field.number;
    tensor.position = field.position;
    return tensor;
  }

  // Gives `frame`, a graph or function that begins, a number and a label.
  absl::Status NameGraph(const Field& field, Frame* frame) {
    const Frame& around = stack_.back();
    std::string label;
    if (frame->message == Message::kFunction) {
      label = absl::StrCat("function ", frame->number);
    } else if (around.message == Message::kModel) {
      frame->graph = kMainGraph;  // protobuf joins messages of one field
      has_graph_ = true;
      return absl::OkStatus();
    } else if (around.message == Message::kTraining) {
      label = absl::StrCat("training ", around.number,
                           field.number == kTrainingInitialization ? ".initialization" : ".algorithm");
    } else {
      const Frame& owner = stack_[stack_.size() - 2];  // a node, or a function with an attribute of its own
      CASK_ASSIGN_OR_RETURN(const std::string node, ReadText(&cursor_, owner.name, options_.limits));
      CASK_ASSIGN_OR_RETURN(const std::string attribute, ReadText(&cursor_, around.name, options_.limits));
      label = absl::StrCat(node.empty() ? absl::StrCat("node ", owner.number) : node, ".",
                           attribute.empty() ? absl::StrCat("attribute ", around.number) : attribute,
                           field.number == kAttributeGraphs ? absl::StrCat("[", frame->number, "]") : "");
    }
    CASK_RETURN_IF_ERROR(budget_.Charge(GraphNames::MemoryOf(label)));
    frame->graph = names_.Add(around.graph, std::move(label));
    return absl::OkStatus();
  }

  // `own_name`: if it is not the name in the message.
  absl::Status Add(std::optional<std::string> own_name, std::string part_of, TensorMessage&& message, int graph) {
    if (found_.tensors.size() >= LimitOf(options_.limits.max_entries)) {
      return PastLimit("has more tensors", "max_entries", options_.limits.max_entries);
    }
    const uint64_t message_bytes = message.end - message.begin;
    const bool is_inside = message.data != TensorMessage::Data::kExternal;
    budget_.AddIndex(message_bytes - (is_inside ? std::min(message.stored_bytes, message_bytes) : 0));
    constexpr uint64_t kEntryBytes = 256;  // in the lists of the reader
    CASK_RETURN_IF_ERROR(budget_.Charge(sizeof(FoundTensor) + kEntryBytes +
                                        (own_name.has_value() ? own_name->size() : 0) + 2 * message.name.size()));
    FoundTensor& tensor =
        found_.tensors.emplace_back(FoundTensor{std::move(message), std::move(part_of), std::move(own_name)});
    if (!stack_.empty()) tensor.is_of_graph = stack_.back().is_of_graph;
    const TensorMessage& added = tensor.message;
    if (added.is_beside && (added.type == nullptr || !added.external->ok())) {
      const uint64_t position = cursor_.position();
      CASK_RETURN_IF_ERROR(AddOtherSideFile(added.begin, added.end));
      cursor_.Seek(position);
    }
    if (tensor.message.has_unused_bits) {
      AddNote(absl::StrCat("tensor ", Quoted(tensor.name()),
                           ": the last byte of its raw_data has bits behind the last element"));
    }
    graphs_.push_back(graph);
    return absl::OkStatus();
  }

  // Adds the values and the indices of a SparseTensorProto.
  absl::Status AddSparse(const Field& sparse, const std::string& position) {
    std::unique_ptr<TensorMessage> parts[2];
    DimVector dims;
    cursor_.Seek(sparse.begin);
    while (cursor_.position() < sparse.end()) {
      Field field;
      CASK_RETURN_IF_ERROR(cursor_.ReadField(sparse.end(), &field));
      if (field.number == 3 && (field.type == WireType::kVarint || field.type == WireType::kBytes)) {
        CASK_RETURN_IF_ERROR(ReadDims(&cursor_, field, &dims));
      }
      if ((field.number == 1 || field.number == 2) && field.type == WireType::kBytes) {
        std::unique_ptr<TensorMessage>& part = parts[field.number - 1];
        if (part != nullptr) return BadSparse(sparse, "has two tensors of values or of indices");
        CASK_ASSIGN_OR_RETURN(TensorMessage tensor, Parse(field));
        part = std::make_unique<TensorMessage>(std::move(tensor));
      }
      cursor_.Seek(field.end());
    }
    if (parts[0] == nullptr || parts[1] == nullptr) return BadSparse(sparse, "lacks its values or its indices");
    const absl::StatusOr<TensorShape> shape = TensorShape::Create(dims);
    if (!shape.ok()) return BadSparse(sparse, absl::StrCat("has bad dims: ", shape.status().message()));
    const TensorShape& values = parts[0]->shape;
    const TensorShape& indices = parts[1]->shape;
    const bool is_linear = indices.rank() == 1;
    const bool fits = values.rank() == 1 && parts[1]->data_type == FindType(7)->number &&
                      (is_linear || (indices.rank() == 2 && indices.dim(1) == shape->rank())) &&
                      indices.dim(0) == values.dim(0);
    if (!fits) {
      return BadSparse(sparse, absl::StrCat("of shape ", shape->ToString(), " has values ", values.ToString(),
                                            " and indices ", OnnxName(*parts[1]), " ", indices.ToString(),
                                            "; wanted [N], and INT64 [N] or [N,", shape->rank(), "]"));
    }
    const std::string name = position.empty() ? parts[0]->name : position;
    AddNote(absl::StrCat("sparse tensor ", Quoted(name), " of shape ", shape->ToString(),
                         " is listed as its values and its indices"));
    found_.metadata.emplace(absl::StrCat(kSparseKeys, name), shape->ToString());
    const int graph = stack_.back().graph;
    CASK_RETURN_IF_ERROR(Add(absl::StrCat(name, ".values"), name, std::move(*parts[0]), graph));
    found_.sparse.push_back({found_.tensors.size(), *shape});
    CASK_RETURN_IF_ERROR(Add(absl::StrCat(name, ".indices"), name, std::move(*parts[1]), graph));
    NoteEnclosing(sparse, found_.tensors.size() - 2);
    return absl::OkStatus();
  }

  static std::string OnnxName(const TensorMessage& tensor) {
    return tensor.type != nullptr ? tensor.type->name : absl::StrCat("type ", tensor.data_type);
  }

  static absl::Status BadSparse(const Field& field, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("the sparse tensor at byte ", field.position, " ", what));
  }

  absl::Status ReadMetadata(const Field& field) {
    for (const MetadataField& row : kMetadataFields) {
      if (row.field != field.number || row.type != field.type) continue;
      // The last value counts, as everywhere in protobuf, and the default is none.
      found_.metadata.erase(row.key);
      std::optional<std::string> text = absl::StrCat(static_cast<int64_t>(field.value));
      if (field.type == WireType::kBytes) {
        CASK_ASSIGN_OR_RETURN(text, ReadLongText(row.key, field));
      }
      if (!text.has_value() || text->empty()) return absl::OkStatus();
      return AddMetadata(row.key, *std::move(text), &found_.metadata);
    }
    const bool is_entry = field.number == kOpsetImport || field.number == kModelProps;
    if (!is_entry || field.type != WireType::kBytes) return absl::OkStatus();
    std::string key;
    std::optional<std::string> value = "";
    int64_t version = 0;
    for (cursor_.Seek(field.begin); cursor_.position() < field.end();) {
      Field part;
      CASK_RETURN_IF_ERROR(cursor_.ReadField(field.end(), &part));
      if (part.number == 1 && part.type == WireType::kBytes) {
        CASK_ASSIGN_OR_RETURN(key, ReadText(&cursor_, part, options_.limits));
      } else if (part.number == 2 && part.type == WireType::kBytes) {
        CASK_ASSIGN_OR_RETURN(value, ReadLongText(key, part));
      } else if (part.number == 2 && part.type == WireType::kVarint) {
        version = static_cast<int64_t>(part.value);
      }
      cursor_.Seek(part.end());
    }
    if (field.number == kModelProps) {
      return value.has_value() ? AddMetadata(std::move(key), *std::move(value), &props_) : absl::OkStatus();
    }
    const std::string opset = absl::StrCat(opsets_.empty() ? "" : ", ", key.empty() ? "ai.onnx" : key, " ", version);
    CASK_RETURN_IF_ERROR(ChargeText(opset.size()));
    opsets_ += opset;
    return absl::OkStatus();
  }

  // None, with a note, if it is too long.
  absl::StatusOr<std::optional<std::string>> ReadLongText(absl::string_view key, const Field& field) {
    if (field.size > kMaxTextBytes) {
      AddNote(absl::StrCat("the metadata ", Quoted(key), " has ", field.size, " bytes and is left out"));
      return std::nullopt;
    }
    CASK_RETURN_IF_ERROR(ChargeText(field.size));
    std::string text(static_cast<size_t>(field.size), '\0');
    CASK_RETURN_IF_ERROR(cursor_.ReadBytes(absl::MakeSpan(&text[0], text.size())));
    return text;
  }

  absl::Status ChargeText(uint64_t bytes) {
    budget_.AddIndex(bytes);
    constexpr uint64_t kNodeBytes = 128;  // what a node of a map takes
    return budget_.Charge(bytes + kNodeBytes);
  }

  absl::Status AddMetadata(std::string key, std::string value, std::map<std::string, std::string>* metadata) {
    if (!internal::IsUtf8(key) || !internal::IsUtf8(value)) {
      AddNote(absl::StrCat("the metadata ", Quoted(key), " is not UTF-8 and is left out"));
      return absl::OkStatus();
    }
    CASK_RETURN_IF_ERROR(ChargeText(key.size()));
    const std::string quoted = Quoted(key);
    if (!metadata->emplace(std::move(key), std::move(value)).second) {
      AddNote(absl::StrCat("the metadata ", quoted, " is given twice; the first value is kept"));
    }
    return absl::OkStatus();
  }

  void AddNote(std::string note) {
    if (found_.notes.size() < kMaxNotes) found_.notes.push_back(std::move(note));
  }

  void NoteTexts() {
    const auto has_texts = [](const FoundTensor& tensor) { return tensor.message.has_texts; };
    const auto count = std::count_if(found_.tensors.begin(), found_.tensors.end(), has_texts);
    if (count == 0) return;
    AddNote(absl::StrCat(count, count == 1 ? " tensor has" : " tensors have",
                         " a doc_string or metadata_props of its own, which only a model made of this one keeps"));
  }

  absl::Status ResolveNames() {
    std::vector<absl::string_view> names;
    names.reserve(found_.tensors.size());
    for (const FoundTensor& tensor : found_.tensors) names.push_back(tensor.name());
    CASK_ASSIGN_OR_RETURN(GraphNames::Listed listed, names_.Resolve(graphs_, std::move(names), &budget_));
    for (auto& [number, name] : listed.renamed) found_.tensors[number].own_name = std::move(name);
    found_.by_name = std::move(listed.order);
    return absl::OkStatus();
  }

  WireCursor cursor_;
  const uint64_t file_bytes_;
  const WalkOptions& options_;
  ListingBudget budget_;
  std::vector<Frame> stack_;
  GraphNames names_;
  std::vector<int> graphs_;  // those of the tensors
  bool has_graph_ = false;
  std::string opsets_;
  std::map<std::string, std::string> props_;  // those of metadata_props
  FoundTensors found_;
};

// Bits: 1 << number of the field.
struct Shape {
  uint32_t varints;
  uint32_t bytes;
};

constexpr uint32_t Bits(std::initializer_list<int> numbers) {
  uint32_t bits = 0;
  for (const int number : numbers) bits |= uint32_t{1} << number;
  return bits;
}

constexpr Shape kModelShape = {Bits({1, 5}), Bits({2, 3, 4, 6, 7, 8, 14, 20, 25, 26})};
constexpr Shape kTensorShape = {Bits({1, 2, 5, 7, 11, 14}), Bits({1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16})};
constexpr Shape kSequenceShape = {Bits({2}), Bits({1, 3, 4, 5, 6, 7})};

}  // namespace

bool IsFieldKey(absl::string_view key) {
  const auto is_key = [&](const MetadataField& row) { return row.key == key; };
  return std::any_of(std::begin(kMetadataFields), std::end(kMetadataFields), is_key) || key == kOpsetKey ||
         absl::StartsWith(key, kSparseKeys);
}

MessageKind LookAtMessage(const ByteSource& file) {
  constexpr int kMostFields = 1000;
  WireCursor cursor(&file);
  const Shape* const shapes[] = {&kModelShape, &kTensorShape, &kSequenceShape};
  bool fits[] = {true, true, true};
  uint32_t seen = 0;
  for (int fields = 0; fields < kMostFields && cursor.position() < file.size_bytes(); ++fields) {
    Field field;
    if (!cursor.ReadField(file.size_bytes(), &field).ok()) return MessageKind::kUnknown;
    const uint32_t bit = field.number < 32 ? uint32_t{1} << field.number : 0;
    seen |= bit;
    for (size_t i = 0; i < 3; ++i) {
      const uint32_t known = field.type == WireType::kVarint  ? shapes[i]->varints
                             : field.type == WireType::kBytes ? shapes[i]->bytes
                             : i == 1                         ? Bits({4, 10})  // values one by one
                                                              : 0;
      fits[i] = fits[i] && (known & bit) != 0;
    }
    if (!fits[0] && !fits[1] && !fits[2]) return MessageKind::kUnknown;
    cursor.Seek(field.end());
  }
  const auto has = [&](std::initializer_list<int> numbers) { return (seen & Bits(numbers)) == Bits(numbers); };
  if (fits[0] && has({1, 7, 8})) return MessageKind::kModel;
  if (!has({2})) return MessageKind::kUnknown;
  // A tensor with field 3, a segment, is refused, so this is a sequence.
  if (fits[2] && has({3})) return MessageKind::kSequence;
  return fits[1] ? MessageKind::kTensor : MessageKind::kUnknown;
}

absl::StatusOr<FoundTensors> FindTensors(const ByteSource& file, MessageKind kind, const WalkOptions& options) {
  absl::StatusOr<FoundTensors> found = Walk(file, options).Run(kind);
  if (kind != MessageKind::kTensor || !absl::IsInvalidArgument(found.status())) return found;
  // A sequence of sequences has the fields of a tensor whose values do not fit its dims.
  absl::StatusOr<FoundTensors> sequence = Walk(file, options).Run(MessageKind::kSequence);
  return sequence.ok() && !sequence->tensors.empty() ? std::move(sequence) : std::move(found);
}

}  // namespace tensorcask::onnx
