#include "tensorcask/serialize/onnx/onnx_writer.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/contained_folder.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/onnx/internal/external_data.h"
#include "tensorcask/serialize/onnx/internal/model_layout.h"
#include "tensorcask/serialize/onnx/internal/model_walk.h"
#include "tensorcask/serialize/onnx/internal/new_message.h"
#include "tensorcask/serialize/onnx/internal/type_table.h"
#include "tensorcask/serialize/onnx/onnx_reader.h"
#include "tensorcask/serialize/protowire/wire_cursor.h"
#include "tensorcask/serialize/stored/packed_elements.h"
#include "tensorcask/serialize/stored/writer_state.h"
#include "tensorcask/serialize/stored/written_parts.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"
#include "tensorcask/tensor/strided/compare.h"

namespace tensorcask {
namespace onnx {
namespace {

constexpr size_t kWrittenPieceBytes = size_t{512} << 10;
constexpr uint64_t kSideAlignment = 4096;
constexpr size_t kMostListed = 32;  // tensors in one error
constexpr size_t kMostNoted = 5;    // tensors in one note
constexpr absl::string_view kSideFileEnd = ".data";

const TypeRow* RowOf(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

std::string NameInFolder(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == absl::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace
}  // namespace onnx

class OnnxWriter::Impl {
 public:
  Impl(const std::string& path, const OnnxWriterOptions& options)
      : path_(path),
        options_(options),
        publish_({options.file_system, options.sync, options.overwrite, /*only_switch=*/true}),
        state_(path) {}

  // Makes it a writer of models.
  absl::Status OpenBase(const std::string& base) {
    ReadOptions read;
    read.file_system = options_.file_system;
    OnnxReaderOptions open;
    open.read = read;
    open.limits = options_.limits;
    open.constants = options_.constants;
    CASK_ASSIGN_OR_RETURN(OnnxReader reader, OnnxReader::Open(base, open));
    if (reader.kind() != OnnxReader::Kind::kModel) {
      return absl::InvalidArgumentError(
          absl::StrCat(base, ": is not an ONNX model; a new model needs one as its base"));
    }
    reader_.emplace(std::move(reader));
    CASK_ASSIGN_OR_RETURN(base_, OpenFileSource(base, read));
    onnx::WalkOptions walk;
    walk.limits = options_.limits;
    walk.enclosing = true;
    walk.other_side_files = true;
    walk.constants = options_.constants;
    CASK_ASSIGN_OR_RETURN(found_, onnx::FindTensors(*base_, onnx::MessageKind::kModel, walk));
    if (!options_.use_side_file) return absl::OkStatus();
    const std::string name =
        options_.side_file.empty() ? absl::StrCat(onnx::NameInFolder(path_), onnx::kSideFileEnd) : options_.side_file;
    CASK_ASSIGN_OR_ANNOTATE(side_name_, onnx::ParseLocation(name), "the name of the side file");
    if (side_name_ != onnx::NameInFolder(path_)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(path_, ": is the model, so it cannot be the name of a side file"));
  }

  absl::Status Declare(absl::string_view name, DType dtype, const TensorShape& shape) {
    CASK_RETURN_IF_ERROR(state_.status());
    if (started_) return About(name, absl::FailedPreconditionError("Declare comes before Start and the first Add"));
    const onnx::TypeRow* const type = onnx::RowOf(dtype);
    if (type == nullptr) {
      return About(name, absl::InvalidArgumentError(absl::StrCat("ONNX has no type for ", DTypeName(dtype))));
    }
    if (!numbers_.emplace(name, planned_.size()).second) {
      return About(name, absl::AlreadyExistsError("was declared before"));
    }
    if (!reader_ && !internal::IsUtf8(name)) {
      return About(name, absl::InvalidArgumentError("its name is not UTF-8, which names of ONNX are"));
    }
    Planned tensor;
    tensor.name = std::string(name);
    tensor.type = type;
    tensor.shape = shape;
    planned_.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  absl::Status AddMetadata(absl::string_view key, absl::string_view value) {
    CASK_RETURN_IF_ERROR(state_.status());
    const absl::Status added = [&]() -> absl::Status {
      if (started_) return absl::FailedPreconditionError("metadata comes before Start and the first Add");
      if (!reader_) return absl::InvalidArgumentError("a file with a TensorProto holds no metadata");
      const auto old = reader_->metadata().find(std::string(key));
      if (old != reader_->metadata().end()) {
        if (old->second == value) return absl::OkStatus();
        return absl::InvalidArgumentError(absl::StrCat("the base has the value ", Quoted(old->second),
                                                       ", which stays; it cannot be ", Quoted(value)));
      }
      if (onnx::IsFieldKey(key)) {
        return absl::InvalidArgumentError("is not an entry of metadata_props, and the base lacks it");
      }
      if (!internal::IsUtf8(key) || !internal::IsUtf8(value)) return absl::InvalidArgumentError("is not UTF-8");
      onnx::AppendMetadata(key, value, &metadata_);
      return absl::OkStatus();
    }();
    return added.ok() ? added : Annotate(added, absl::StrCat(path_, ": metadata ", Quoted(key)));
  }

  absl::StatusOr<ReplacedFiles> Start() {
    CASK_RETURN_IF_ERROR(EnsureStarted());
    ReplacedFiles replaced;
    if (options_.overwrite) {
      CASK_ASSIGN_OR_RETURN(replaced, ReplacedFileAt(path_, options_.file_system));
    }
    if (!reader_) return replaced;
    CASK_RETURN_IF_ERROR(CheckSourcesStay(replaced, {FilesOfBase()}, options_.file_system));
    replaced.notes = NotesOfOldTensors();
    if (options_.overwrite && reader_->path() == path_) {
      for (const std::string& file : reader_->side_files()) {
        replaced.notes.push_back(absl::StrCat(file, " stays, with elements of the old model"));
      }
    }
    return replaced;
  }

  absl::Status Add(absl::string_view name, const TensorView& tensor) {
    return AddSlice(name, TensorSlice::Full(tensor.rank()), tensor);
  }

  absl::Status AddSlice(absl::string_view name, const TensorSlice& slice, const TensorView& part) {
    CASK_RETURN_IF_ERROR(EnsureStarted());
    const auto number = numbers_.find(name);
    if (number == numbers_.end()) return About(name, absl::NotFoundError("was not declared"));
    Planned& tensor = planned_[number->second];
    CASK_RETURN_IF_ERROR(About(name, CheckPart(tensor, slice, part)));
    return state_.Keep(Annotated(name, Write(part, &tensor)));
  }

  absl::Status Finish() {
    CASK_RETURN_IF_ERROR(EnsureStarted());
    const auto write = [&]() -> absl::Status {
      for (Planned& tensor : planned_) {
        if (tensor.is_of_base) {
          CASK_ASSIGN_OR_RETURN(const Tensor elements, reader_->Read(tensor.name));
          CASK_RETURN_IF_ERROR(Write(elements, &tensor));
        }
        if (!tensor.is_whole) return About(tensor.name, stored::Incomplete(tensor.written > 0));
      }
      return publish_.Commit();
    };
    CASK_RETURN_IF_ERROR(state_.Finish(write()));
    if (side_ != nullptr) files_.push_back(side_path_);
    files_.push_back(path_);
    return absl::OkStatus();
  }

  const std::vector<std::string>& files() const { return files_; }

 private:
  // A tensor that gets new elements, or of which the elements move.
  struct Planned {
    std::string name;
    const onnx::TypeRow* type = nullptr;
    TensorShape shape;
    size_t number = 0;         // in found_.tensors
    bool is_of_base = false;   // not declared; the elements come from a side file of the base
    FileSink* sink = nullptr;  // null: strings, which stay
    uint64_t offset = 0;       // the position of the elements in the file of `sink`
    uint64_t stored_bytes = 0;
    uint64_t written = 0;
    bool is_whole = false;
  };

  absl::Status About(absl::string_view name, const absl::Status& status) const { return state_.About(name, status); }
  absl::Status Annotated(absl::string_view name, const absl::Status& status) const {
    return status.ok() || absl::StrContains(status.message(), path_) ? status : About(name, status);
  }

  absl::Status EnsureStarted() {
    CASK_RETURN_IF_ERROR(state_.status());
    if (started_) return absl::OkStatus();
    started_ = true;
    return state_.Keep(reader_ ? StartModel() : StartTensor());
  }

  absl::Status StartTensor() {
    if (planned_.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          path_, ": a file with a TensorProto holds exactly one tensor, ", planned_.size(),
          " are to be written; a model takes several, which is made of another one (a base, --replace-in)"));
    }
    Planned& tensor = planned_[0];
    if (tensor.type->bits == 0) {
      return About(tensor.name, absl::InvalidArgumentError("strings are not written to ONNX files"));
    }
    found_.tensors.emplace_back();
    onnx::TensorContent content = ContentOf(tensor);
    content.name = &tensor.name;
    std::vector<onnx::NewMessage> messages = {onnx::MakeMessage(content, "", "")};
    return WriteModel(onnx::LayOutModel(found_, 0, messages), {0});
  }

  absl::Status StartModel() {
    CASK_RETURN_IF_ERROR(FindInBase());
    CASK_RETURN_IF_ERROR(CheckOtherSideFiles());
    AddSideFilesOfBase();
    std::vector<size_t> in_order;  // positions in planned_, without those of strings
    for (size_t i = 0; i < planned_.size(); ++i) {
      if (planned_[i].type->bits > 0) in_order.push_back(i);
    }
    std::sort(in_order.begin(), in_order.end(),
              [&](size_t a, size_t b) { return planned_[a].number < planned_[b].number; });
    CASK_RETURN_IF_ERROR(PlanSideFile(in_order));
    std::vector<onnx::NewMessage> messages;
    for (const size_t i : in_order) {
      CASK_ASSIGN_OR_RETURN(onnx::NewMessage message, MessageOf(planned_[i]));
      messages.push_back(std::move(message));
    }
    onnx::ModelLayout layout = onnx::LayOutModel(found_, base_->size_bytes(), messages);
    if (!metadata_.empty()) {
      onnx::ModelPiece piece;
      piece.offset = layout.size_bytes;
      piece.text = metadata_;
      layout.size_bytes += metadata_.size();
      layout.pieces.push_back(std::move(piece));
    }
    return WriteModel(layout, in_order);
  }

  // Errors: InvalidArgument, naming all tensors that do not fit.
  absl::Status FindInBase() {
    absl::flat_hash_map<absl::string_view, size_t> numbers;
    for (size_t i = 0; i < found_.tensors.size(); ++i) numbers.emplace(found_.tensors[i].name(), i);
    std::vector<std::string> odd;
    for (Planned& tensor : planned_) {
      const auto found = numbers.find(tensor.name);
      if (found == numbers.end()) {
        odd.push_back(absl::StrCat(
            Quoted(tensor.name), options_.constants ? " is not an initializer or constant" : " is not an initializer"));
        continue;
      }
      tensor.number = found->second;
      const onnx::TensorMessage& message = found_.tensors[tensor.number].message;
      if (message.type != tensor.type || message.shape != tensor.shape) {
        odd.push_back(absl::StrCat(Quoted(tensor.name), " is ", DTypeName(tensor.type->dtype), " ",
                                   tensor.shape.ToString(), ", there it is ",
                                   message.type != nullptr ? DTypeName(message.type->dtype) : "of an unknown type", " ",
                                   message.shape.ToString()));
      }
    }
    if (odd.empty()) return absl::OkStatus();
    const size_t num_odd = odd.size();
    odd.resize(std::min(num_odd, onnx::kMostListed));
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", num_odd, num_odd == 1 ? " tensor does" : " tensors do",
                                                   " not fit the model ", base_->name(), ": ", absl::StrJoin(odd, "; "),
                                                   num_odd > odd.size() ? "; ..." : ""));
  }

  // A model needs its tensors: those that were not declared are written as the base has them.
  std::vector<std::string> NotesOfOldTensors() const {
    std::vector<bool> is_planned(found_.tensors.size());
    for (const Planned& tensor : planned_) is_planned[tensor.number] = true;
    std::vector<std::string> names;
    size_t count = 0;
    for (size_t i = 0; i < found_.tensors.size(); ++i) {
      if (is_planned[i] || ++count > onnx::kMostNoted) continue;
      names.push_back(Quoted(found_.tensors[i].name()));
    }
    if (count == 0) return {};
    return {absl::StrCat(path_, ": ", count, " of ", found_.tensors.size(), " tensors ", count == 1 ? "is" : "are",
                         " as in ", base_->name(), ": ", absl::StrJoin(names, ", "),
                         count > names.size() ? ", ..." : "")};
  }

  // What the list of tensors does not give stays where it is, and its location is relative to the folder of the model.
  absl::Status CheckOtherSideFiles() const {
    if (found_.other_side_files.empty() || FolderOf(path_) == FolderOf(base_->name())) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": the model ", base_->name(), " has elements of an attribute, or of a tensor that cannot be read, in ",
        "the side file ", Quoted(found_.other_side_files[0]), ", which is not moved: the result belongs in the same ",
        "folder", options_.constants ? "" : "; with --constants, elements of Constant nodes are moved"));
  }

  void AddSideFilesOfBase() {
    std::vector<bool> is_planned(found_.tensors.size());
    for (const Planned& tensor : planned_) is_planned[tensor.number] = true;
    for (size_t i = 0; i < found_.tensors.size(); ++i) {
      const onnx::TensorMessage& message = found_.tensors[i].message;
      const bool is_beside = message.data == onnx::TensorMessage::Data::kExternal && message.external->ok();
      if (is_planned[i] || !is_beside || message.type == nullptr || message.type->bits == 0) continue;
      Planned tensor;
      tensor.name = found_.tensors[i].name();
      tensor.type = message.type;
      tensor.shape = message.shape;
      tensor.number = i;
      tensor.is_of_base = true;
      planned_.push_back(std::move(tensor));
    }
  }

  absl::Status PlanSideFile(const std::vector<size_t>& in_order) {
    uint64_t end = 0;
    for (const size_t i : in_order) {
      Planned& tensor = planned_[i];
      tensor.stored_bytes = onnx::StoredBytes(*tensor.type, tensor.shape);
      const onnx::FoundTensor& found = found_.tensors[tensor.number];
      // The package onnx reads side files of nothing else.
      const bool stays_inside = !found.part_of.empty() || !found.is_of_graph;
      if (!options_.use_side_file || stays_inside ||
          tensor.stored_bytes < std::max<uint64_t>(options_.least_side_bytes, 1)) {
        continue;
      }
      if (side_ == nullptr) CASK_RETURN_IF_ERROR(AddSideFile());
      tensor.sink = side_;
      tensor.offset = (end + onnx::kSideAlignment - 1) / onnx::kSideAlignment * onnx::kSideAlignment;
      end = tensor.offset + tensor.stored_bytes;
    }
    if (side_ != nullptr) side_->ReserveHint(end);
    return absl::OkStatus();
  }

  // A name that the old model does not use, so that a crash leaves that model as it is.
  absl::Status AddSideFile() {
    const std::string folder = FolderOf(path_);
    const auto path_of = [&](const std::string& name) {
      return path_.find('/') == std::string::npos ? name : absl::StrCat(folder == "/" ? "" : folder, "/", name);
    };
    const auto is_of_others = [&](const std::string& name) {
      const auto means = [&](const std::string& location) {
        return onnx::ParseLocation(location).value_or(location) == name;
      };
      return std::any_of(found_.other_side_files.begin(), found_.other_side_files.end(), means);
    };
    for (int number = 1; options_.overwrite && options_.side_file.empty(); ++number) {
      if (!IsThere(path_of(side_name_), options_.file_system) && !is_of_others(side_name_)) break;
      side_name_ = absl::StrCat(onnx::NameInFolder(path_), "-r", number, onnx::kSideFileEnd);
    }
    side_path_ = path_of(side_name_);
    if (is_of_others(side_name_)) {
      return absl::AlreadyExistsError(absl::StrCat(side_path_, ": elements of the model ", base_->name(),
                                                   " that are not moved are in this side file"));
    }
    CASK_RETURN_IF_ERROR(CheckSideFolder());
    ReplacedFiles replaced;
    replaced.path = side_path_;
    CASK_RETURN_IF_ERROR(CheckSourcesStay(replaced, {FilesOfBase()}, options_.file_system));
    CASK_ASSIGN_OR_RETURN(side_, publish_.Add(side_path_));
    return absl::OkStatus();
  }

  // Readers follow no link to a folder on the way to a side file.
  absl::Status CheckSideFolder() const {
    if (!absl::StrContains(side_name_, '/')) return absl::OkStatus();
    ReadOptions read;
    read.file_system = options_.file_system;
    CASK_ASSIGN_OR_RETURN(const ContainedFolder folder,
                          ContainedFolder::Of(path_, ContainedFolder::Links::kRefused, read));
    const absl::Status opened = folder.Open(side_name_).status();
    return absl::IsPermissionDenied(opened) ? opened : absl::OkStatus();
  }

  // The model, then its side files.
  std::vector<std::string> FilesOfBase() const {
    std::vector<std::string> files = {reader_->path()};
    files.insert(files.end(), reader_->side_files().begin(), reader_->side_files().end());
    return files;
  }

  onnx::TensorContent ContentOf(const Planned& tensor) const {
    onnx::TensorContent content;
    content.type = tensor.type;
    content.shape = &tensor.shape;
    content.stored_bytes = onnx::StoredBytes(*tensor.type, tensor.shape);
    if (tensor.sink != nullptr) {
      content.side_file = side_name_;
      content.side_offset = tensor.offset;
    }
    return content;
  }

  // The new message, with all fields of the old one that say nothing about the elements.
  absl::StatusOr<onnx::NewMessage> MessageOf(const Planned& tensor) const {
    const onnx::TensorMessage& old = found_.tensors[tensor.number].message;
    std::string first;
    std::string last;
    WireCursor cursor(base_.get());
    cursor.Seek(old.begin);
    while (cursor.position() < old.end) {
      WireCursor::Field field;
      CASK_RETURN_IF_ERROR(cursor.ReadField(old.end, &field));
      if (!onnx::IsOfElements(field.number)) {
        std::string* const kept = field.number < onnx::kRawData ? &first : &last;
        const size_t begin = kept->size();
        kept->resize(begin + static_cast<size_t>(field.end() - field.position));
        CASK_RETURN_IF_ERROR(base_->ReadAt(field.position, absl::MakeSpan(&(*kept)[begin], kept->size() - begin)));
      }
      cursor.Seek(field.end());
    }
    onnx::NewMessage message = onnx::MakeMessage(ContentOf(tensor), first, last);
    message.tensor = tensor.number;
    return message;
  }

  // All but the elements. `planned` has the numbers of the messages in planned_.
  absl::Status WriteModel(const onnx::ModelLayout& layout, const std::vector<size_t>& planned) {
    if (layout.size_bytes > onnx::kMostModelBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": the file would have ", layout.size_bytes, " bytes; programs of ONNX read less than ",
                       onnx::kMostModelBytes + 1, ". A side file (--external) takes the elements"));
    }
    CASK_ASSIGN_OR_RETURN(FileSink* const model, publish_.Add(path_));
    model->ReserveHint(layout.size_bytes);
    for (const onnx::ModelPiece& piece : layout.pieces) {
      if (piece.elements != onnx::ModelPiece::kNoElements) {
        Planned& tensor = planned_[planned[piece.elements]];
        tensor.sink = model;
        tensor.offset = piece.offset;
        tensor.stored_bytes = onnx::StoredBytes(*tensor.type, tensor.shape);
      } else if (piece.copy_bytes > 0) {
        CASK_RETURN_IF_ERROR(Copy(piece, model));
      } else {
        CASK_RETURN_IF_ERROR(Put(piece.offset, piece.text, model));
      }
    }
    return absl::OkStatus();
  }

  static absl::Status Put(uint64_t offset, absl::string_view bytes, FileSink* sink) {
    return offset == sink->position() ? sink->Append(bytes) : sink->WriteAt(offset, bytes);
  }

  absl::Status Copy(const onnx::ModelPiece& piece, FileSink* sink) const {
    if (piece.offset == sink->position()) return sink->AppendFrom(*base_, piece.copy_from, piece.copy_bytes);
    PieceBuffer block(piece.copy_bytes, onnx::kWrittenPieceBytes);
    for (uint64_t done = 0; done < piece.copy_bytes;) {
      const auto size = static_cast<size_t>(std::min<uint64_t>(block.size(), piece.copy_bytes - done));
      CASK_RETURN_IF_ERROR(base_->ReadAt(piece.copy_from + done, absl::MakeSpan(block.data(), size)));
      CASK_RETURN_IF_ERROR(sink->WriteAt(piece.offset + done, absl::string_view(block.data(), size)));
      done += size;
    }
    return absl::OkStatus();
  }

  absl::Status CheckPart(const Planned& tensor, const TensorSlice& slice, const TensorView& part) const {
    if (tensor.is_whole) return absl::AlreadyExistsError("was added before");
    CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice.Apply(tensor.shape));
    CASK_RETURN_IF_ERROR(stored::CheckIsDeclared(part, tensor.type->dtype, shape));
    if (part.num_elements() > 0 && tensor.type->bits < 8 && shape != tensor.shape) {
      return absl::UnimplementedError("strings and elements below 8 bits are stored only as a whole");
    }
    return stored::CheckFollows(part, slice, tensor.shape, tensor.written);
  }

  absl::Status Write(const TensorView& part, Planned* tensor) {
    if (tensor->type->bits == 0) {
      CASK_ASSIGN_OR_RETURN(const Tensor old, reader_->Read(tensor->name));
      if (!Equal(old, part)) return absl::UnimplementedError("strings of a model are not replaced by others");
      tensor->is_whole = true;
      return absl::OkStatus();
    }
    const bool is_packed = tensor->type->bits < 8;
    stored::ElementPacker packer(is_packed ? tensor->type->bits : 1);
    std::string packed;
    const auto write = [&](absl::string_view bytes) -> absl::Status {
      if (is_packed) {
        packed.clear();
        packer.Pack(bytes, &packed);
        bytes = packed;
      }
      CASK_RETURN_IF_ERROR(Put(tensor->offset + tensor->written, bytes, tensor->sink));
      tensor->written += bytes.size();
      return absl::OkStatus();
    };
    CASK_RETURN_IF_ERROR(stored::ForEachPieceOnce(part, onnx::kWrittenPieceBytes, write));
    // Bits after the last element are 0.
    while (is_packed && tensor->written < tensor->stored_bytes) CASK_RETURN_IF_ERROR(write(absl::string_view("\0", 1)));
    tensor->is_whole = tensor->written == tensor->stored_bytes;
    return absl::OkStatus();
  }

  const std::string path_;
  const OnnxWriterOptions options_;
  Publication publish_;
  stored::WriterState state_;
  bool started_ = false;
  std::optional<OnnxReader> reader_;                  // reads the base; nullopt: a tensor is written
  std::shared_ptr<const ByteSource> base_;            // the same file
  onnx::FoundTensors found_;                          // likewise
  std::vector<Planned> planned_;                      // the declared ones come first
  absl::flat_hash_map<std::string, size_t> numbers_;  // name -> position in planned_
  std::string metadata_;                              // fields of the model to add at its end
  FileSink* side_ = nullptr;                          // null: no side file
  std::string side_name_;
  std::string side_path_;
  std::vector<std::string> files_;
};

OnnxWriter::OnnxWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OnnxWriter::OnnxWriter(OnnxWriter&&) noexcept = default;
OnnxWriter& OnnxWriter::operator=(OnnxWriter&&) noexcept = default;
OnnxWriter::~OnnxWriter() = default;

absl::StatusOr<OnnxWriter> OnnxWriter::CreateTensor(const std::string& path, const OnnxWriterOptions& options) {
  CASK_RETURN_IF_ERROR(CheckPath(path));
  if (!options.overwrite) CASK_RETURN_IF_ERROR(CheckNewFile(path, options.file_system));
  return OnnxWriter(std::make_unique<Impl>(path, options));
}

absl::StatusOr<OnnxWriter> OnnxWriter::CreateModel(const std::string& path, const std::string& base,
                                                   const OnnxWriterOptions& options) {
  CASK_ASSIGN_OR_RETURN(OnnxWriter writer, CreateTensor(path, options));
  CASK_RETURN_IF_ERROR(writer.impl_->OpenBase(base));
  return writer;
}

bool OnnxWriter::HoldsDType(DType dtype) { return onnx::RowOf(dtype) != nullptr; }
bool OnnxWriter::WritesSlices(DType dtype) { return HoldsDType(dtype) && onnx::RowOf(dtype)->bits >= 8; }

absl::Status OnnxWriter::Declare(absl::string_view name, DType dtype, const TensorShape& shape) {
  return impl_->Declare(name, dtype, shape);
}
absl::Status OnnxWriter::AddMetadata(absl::string_view key, absl::string_view value) {
  return impl_->AddMetadata(key, value);
}
absl::StatusOr<ReplacedFiles> OnnxWriter::Start() { return impl_->Start(); }
absl::Status OnnxWriter::Add(absl::string_view name, const TensorView& tensor) { return impl_->Add(name, tensor); }
absl::Status OnnxWriter::AddSlice(absl::string_view name, const TensorSlice& slice, const TensorView& part) {
  return impl_->AddSlice(name, slice, part);
}
absl::Status OnnxWriter::Finish() { return impl_->Finish(); }
const std::vector<std::string>& OnnxWriter::files() const { return impl_->files(); }

}  // namespace tensorcask
