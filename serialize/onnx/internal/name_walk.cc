#include "tensorcask/serialize/onnx/internal/name_walk.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/onnx/internal/onnx_tensor_message.h"
#include "tensorcask/serialize/protowire/wire_cursor.h"
#include "tensorcask/serialize/protowire/wire_writer.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::onnx {
namespace {

using WireField = WireCursor::Field;

enum class Part : uint8_t {
  kModel,
  kMetadata,
  kTraining,
  kBinding,
  kGraph,
  kNode,
  kAttribute,
  kDevices,
  kSharding,
  kTensor,
  kSparse,
  kInput,
  kOutput,
  kValueInfo,
  kAnnotation,
  kScale,  // an entry of the annotation: the names of the tensors with scale and zero point
};

// A field that holds another message.
struct Step {
  Part from;
  uint32_t field;
  Part to;
};

constexpr Step kSteps[] = {
    {Part::kModel, 7, Part::kGraph},       {Part::kModel, 14, Part::kMetadata}, {Part::kModel, 20, Part::kTraining},
    {Part::kTraining, 1, Part::kGraph},    {Part::kTraining, 2, Part::kGraph},  {Part::kTraining, 3, Part::kBinding},
    {Part::kTraining, 4, Part::kBinding},  {Part::kGraph, 1, Part::kNode},      {Part::kGraph, 5, Part::kTensor},
    {Part::kGraph, 11, Part::kInput},      {Part::kGraph, 12, Part::kOutput},   {Part::kGraph, 13, Part::kValueInfo},
    {Part::kGraph, 14, Part::kAnnotation}, {Part::kGraph, 15, Part::kSparse},   {Part::kSparse, 1, Part::kTensor},
    {Part::kAnnotation, 2, Part::kScale},  {Part::kNode, 5, Part::kAttribute},  {Part::kNode, 10, Part::kDevices},
    {Part::kDevices, 2, Part::kSharding},  {Part::kAttribute, 6, Part::kGraph}, {Part::kAttribute, 11, Part::kGraph},
};

// Fields of TrainingInfoProto and of the entries of its bindings.
constexpr uint32_t kInitialization = 1;
constexpr uint32_t kInitializationBinding = 3;
constexpr uint32_t kBindingKey = 1;

// A field that is the name of a value.
struct NameField {
  Part in;
  uint32_t field;
  NameUse::Kind kind;
};

constexpr NameField kNameFields[] = {
    {Part::kNode, 1, NameUse::Kind::kNodeInput},     {Part::kNode, 2, NameUse::Kind::kNodeOutput},
    {Part::kTensor, 8, NameUse::Kind::kInitializer}, {Part::kInput, 1, NameUse::Kind::kGraphInput},
    {Part::kOutput, 1, NameUse::Kind::kGraphOutput}, {Part::kValueInfo, 1, NameUse::Kind::kValueInfo},
    {Part::kAnnotation, 1, NameUse::Kind::kOther},   {Part::kScale, 2, NameUse::Kind::kOther},
    {Part::kSharding, 1, NameUse::Kind::kOther},     {Part::kBinding, 1, NameUse::Kind::kOther},
    {Part::kBinding, 2, NameUse::Kind::kOther},
};

std::string HeadOf(uint32_t field, uint64_t size) {
  std::string head;
  AppendVarint(internal::WireTag(field, WireType::kBytes), &head);
  AppendVarint(size, &head);
  return head;
}

class NameWalk {
 public:
  NameWalk(const ByteSource& file, const DecodeLimits& limits, const NameVisitor& visitor)
      : cursor_(&file), file_bytes_(file.size_bytes()), limits_(limits), visitor_(visitor), budget_(limits) {}

  absl::StatusOr<NameEdits> Run() {
    Open root;
    root.part = Part::kModel;
    root.field.size = file_bytes_;
    stack_.push_back(root);
    edits_.parents.push_back(-1);  // the main graph
    while (true) {
      if (cursor_.position() < stack_.back().field.end()) {
        CASK_RETURN_IF_ERROR(Next());
      } else if (stack_.size() > 1) {
        CASK_RETURN_IF_ERROR(Leave());
      } else {
        break;
      }
    }
    edits_.size_bytes = file_bytes_ + static_cast<uint64_t>(stack_[0].growth);
    std::sort(edits_.splices.begin(), edits_.splices.end(),
              [](const Splice& a, const Splice& b) { return a.begin < b.begin; });
    return std::move(edits_);
  }

 private:
  // A message that the walk is in.
  struct Open {
    Part part = Part::kModel;
    WireField field;
    int scope = kMainScope;
    int first_scope = kMainScope;  // kTraining: that of the initialization; the next one is that of the algorithm
    bool is_edited = false;
    int64_t growth = 0;  // how much its content grows
  };

  absl::Status Next() {
    WireField field;
    CASK_RETURN_IF_ERROR(cursor_.ReadField(stack_.back().field.end(), &field));
    const Part in = stack_.back().part;
    for (const Step& step : kSteps) {
      if (step.from == in && step.field == field.number) return Enter(step.to, field);
    }
    for (const NameField& row : kNameFields) {
      if (row.in == in && row.field == field.number && field.type == WireType::kBytes) return Visit(row.kind, field);
    }
    cursor_.Seek(field.end());
    return absl::OkStatus();
  }

  absl::Status Enter(Part to, const WireField& field) {
    if (field.type != WireType::kBytes) {
      return absl::InvalidArgumentError(absl::StrCat("field ", field.number, " at byte ", field.position,
                                                     " has wire type ", static_cast<int>(field.type),
                                                     "; wanted a message"));
    }
    if (stack_.size() >= LimitOf(limits_.max_depth)) {
      return PastLimit(absl::StrCat("messages at byte ", field.position, " nest deeper"), "max_depth",
                       limits_.max_depth);
    }
    if (to == Part::kMetadata) return VisitMetadata(field);
    const bool is_initializer = to == Part::kTensor && stack_.back().part == Part::kGraph;
    if (is_initializer && visitor_.is_removed(field.begin)) {
      cursor_.Seek(field.end());
      return Replace(field.position, field.end(), "");
    }
    Open open;
    open.part = to;
    open.field = field;
    open.scope = stack_.back().scope;
    const Open& around = stack_.back();
    if (around.part == Part::kTraining) {
      const bool is_of_initialization = field.number == kInitialization || field.number == kInitializationBinding;
      open.scope = around.first_scope + (is_of_initialization ? 0 : 1);
      open.first_scope = around.first_scope;
    } else if (to == Part::kTraining) {  // a binding may come before its graph
      CASK_ASSIGN_OR_RETURN(open.first_scope, AddScope());
      CASK_RETURN_IF_ERROR(AddScope().status());
    } else if (to == Part::kGraph && around.part != Part::kModel) {  // protobuf joins the graphs of a model
      CASK_ASSIGN_OR_RETURN(open.scope, AddScope());
    }
    stack_.push_back(open);
    cursor_.Seek(field.begin);
    return absl::OkStatus();
  }

  // A scope within that of the message that the walk is in.
  absl::StatusOr<int> AddScope() {
    CASK_RETURN_IF_ERROR(budget_.Charge(sizeof(int)));
    edits_.parents.push_back(stack_.back().scope);
    return static_cast<int>(edits_.parents.size()) - 1;
  }

  // Replaces the length of a message whose content has another size.
  absl::Status Leave() {
    const Open open = stack_.back();
    stack_.pop_back();
    if (!open.is_edited) return absl::OkStatus();
    stack_.back().growth += open.growth;
    const auto size = static_cast<uint64_t>(static_cast<int64_t>(open.field.size) + open.growth);
    return Replace(open.field.position, open.field.begin, HeadOf(open.field.number, size));
  }

  absl::Status Visit(NameUse::Kind kind, const WireField& field) {
    const Open& open = stack_.back();
    NameUse use;
    use.kind = kind;
    // A binding says which initializer, of the algorithm or of the model, gets which output of its graph.
    use.scope = open.part == Part::kBinding && field.number == kBindingKey ? open.first_scope + 1 : open.scope;
    use.position = field.position;
    use.message = open.field.begin;
    CASK_ASSIGN_OR_RETURN(const std::string name, ReadText(&cursor_, field, limits_));
    CASK_ASSIGN_OR_RETURN(const std::optional<std::string> replacement, visitor_.name(use, name));
    cursor_.Seek(field.end());
    if (!replacement.has_value()) return absl::OkStatus();
    return Replace(field.position, field.end(), absl::StrCat(HeadOf(field.number, replacement->size()), *replacement));
  }

  absl::Status VisitMetadata(const WireField& field) {
    std::string key;
    cursor_.Seek(field.begin);
    while (cursor_.position() < field.end()) {
      WireField part;
      CASK_RETURN_IF_ERROR(cursor_.ReadField(field.end(), &part));
      if (part.number == 1 && part.type == WireType::kBytes) {
        CASK_ASSIGN_OR_RETURN(key, ReadText(&cursor_, part, limits_));
      }
      cursor_.Seek(part.end());
    }
    CASK_ASSIGN_OR_RETURN(const std::optional<std::string> replacement, visitor_.metadata(key));
    if (!replacement.has_value()) return absl::OkStatus();
    if (replacement->empty()) return Replace(field.position, field.end(), "");
    return Replace(field.position, field.end(), absl::StrCat(HeadOf(field.number, replacement->size()), *replacement));
  }

  // Replaces bytes [begin, end) of the message that the walk is in.
  absl::Status Replace(uint64_t begin, uint64_t end, std::string text) {
    budget_.AddIndex(end - begin);
    CASK_RETURN_IF_ERROR(budget_.Charge(sizeof(Splice) + text.size()));
    Open& open = stack_.back();
    open.is_edited = true;
    open.growth += static_cast<int64_t>(text.size()) - static_cast<int64_t>(end - begin);
    edits_.splices.push_back({begin, end, std::move(text)});
    return absl::OkStatus();
  }

  WireCursor cursor_;
  const uint64_t file_bytes_;
  const DecodeLimits& limits_;
  const NameVisitor& visitor_;
  ListingBudget budget_;
  std::vector<Open> stack_;
  NameEdits edits_;
};

}  // namespace

absl::StatusOr<NameEdits> WalkNames(const ByteSource& file, const DecodeLimits& limits, const NameVisitor& visitor) {
  return NameWalk(file, limits, visitor).Run();
}

}  // namespace tensorcask::onnx
