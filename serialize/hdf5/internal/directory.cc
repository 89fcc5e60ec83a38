#include "tensorcask/serialize/hdf5/internal/directory.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/hdf5/internal/attributes.h"
#include "tensorcask/serialize/hdf5/internal/datatype.h"
#include "tensorcask/serialize/hdf5/internal/file.h"
#include "tensorcask/serialize/hdf5/internal/links.h"
#include "tensorcask/serialize/hdf5/internal/object_header.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::hdf5 {
namespace {

constexpr size_t kMaxNotes = 100;

class Walker {
 public:
  Walker(File file, DType opaque, const DecodeLimits& limits, ListingBudget* listing)
      : file_(std::move(file)), opaque_(opaque), limits_(limits), listing_(listing), attributes_(listing, &file_) {}

  absl::StatusOr<Directory> Walk() && {
    CASK_ASSIGN_OR_RETURN(std::vector<Message> root, ReadObjectHeader(file_.root(), &file_));
    if (!IsGroup(root)) return absl::DataLossError("its root is no group");
    groups_.emplace(file_.root(), "");
    CASK_RETURN_IF_ERROR(AddGroup("", root));
    while (!objects_.empty()) {
      const Object object = std::move(objects_.back());
      objects_.pop_back();
      const absl::Status status = AddObject(object);
      if (!status.ok() && !IsAboutContent(status)) return status;
      if (!status.ok()) AddUnreadable(object.name, object.address, status);
    }
    std::sort(directory_.datasets.begin(), directory_.datasets.end(),
              [](const Dataset& a, const Dataset& b) { return a.name < b.name; });
    CheckApart();
    directory_.values.AddMap(values_);
    if (notes_left_out_ > 0) directory_.notes.push_back(absl::StrCat("and ", notes_left_out_, " more notes"));
    return std::move(directory_);
  }

 private:
  struct Object {
    std::string name;
    uint64_t address;
  };

  void AddNote(std::string note) {
    if (directory_.notes.size() < kMaxNotes) {
      directory_.notes.push_back(std::move(note));
    } else {
      ++notes_left_out_;
    }
  }

  void AddUnreadable(const std::string& name, uint64_t address, absl::Status status) {
    Dataset dataset;
    dataset.name = name;
    dataset.address = address;
    dataset.status = std::move(status);
    directory_.datasets.push_back(std::move(dataset));
  }

  absl::Status AddGroup(const std::string& name, const std::vector<Message>& header) {
    CASK_RETURN_IF_ERROR(AddAttributes(name, header).status());
    const auto listed = static_cast<int64_t>(objects_.size() + directory_.datasets.size());
    CASK_ASSIGN_OR_RETURN(const std::vector<Link> links,
                          ReadLinks(header, std::max<int64_t>(0, limits_.max_entries - listed), &file_));
    // In reverse, since the last object is the next one.
    for (auto at = links.rbegin(); at != links.rend(); ++at) {
      const Link& link = *at;
      std::string path = name.empty() ? link.name : absl::StrCat(name, "/", link.name);
      if (path.size() > LimitOf(limits_.max_name_bytes)) {
        return PastLimit(absl::StrCat("has a path of ", path.size(), " bytes"), "max_name_bytes",
                         limits_.max_name_bytes);
      }
      CASK_RETURN_IF_ERROR(listing_->Charge(sizeof(Object) + sizeof(Dataset) + path.size()));
      if (link.refusal.empty()) {
        objects_.push_back({std::move(path), link.address});
      } else {
        AddUnreadable(path, link.address, absl::UnimplementedError(link.refusal));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddObject(const Object& object) {
    const auto group = groups_.find(object.address);
    if (group != groups_.end()) {
      AddNote(absl::StrCat(Quoted(object.name), " is another name of the group ", Quoted("/" + group->second),
                           ", whose tensors are listed under that"));
      return absl::OkStatus();
    }
    CASK_ASSIGN_OR_RETURN(const std::vector<Message> header, ReadObjectHeader(object.address, &file_));
    if (IsGroup(header)) {
      groups_.emplace(object.address, object.name);
      return AddGroup(object.name, header);
    }
    if (Find(header, MessageType::kDataspace) == nullptr) {
      AddNote(absl::StrCat(Quoted(object.name), " is a named type, and is not read"));
      return absl::OkStatus();
    }
    return AddDataset(object, header);
  }

  // True if an attribute "dtype" says "bfloat16", as those of Keras do.
  absl::StatusOr<bool> AddAttributes(const std::string& name, const std::vector<Message>& header) {
    bool is_bfloat16 = false;
    CASK_ASSIGN_OR_RETURN(const std::vector<Attribute> attributes, attributes_.Read(header, &directory_.values));
    std::vector<std::pair<ValueTree::Id, ValueTree::Id>> entries;
    for (const Attribute& attribute : attributes) {
      if (!attribute.status.ok()) {
        AddNote(absl::StrCat("the attribute ", Quoted(attribute.name), " of ", Quoted("/" + name),
                             " is left out: ", attribute.status.message()));
        continue;
      }
      const Value value = directory_.values.value(attribute.value);
      is_bfloat16 =
          is_bfloat16 || (attribute.name == "dtype" && value.kind() == ValueKind::kText && value.text() == "bfloat16");
      entries.emplace_back(directory_.values.AddText(attribute.name), attribute.value);
    }
    if (name.empty()) {
      values_.insert(values_.end(), entries.begin(), entries.end());
    } else if (!entries.empty()) {
      const ValueTree::Id key = directory_.values.AddText("/" + name);
      values_.emplace_back(key, directory_.values.AddMap(entries));
    }
    return is_bfloat16;
  }

  absl::Status AddDataset(const Object& object, const std::vector<Message>& header) {
    CASK_ASSIGN_OR_RETURN(const bool is_bfloat16, AddAttributes(object.name, header));
    Dataset dataset;
    dataset.name = object.name;
    dataset.address = object.address;
    dataset.status = Describe(header, is_bfloat16 ? DType::kBFloat16 : opaque_, &dataset);
    if (!dataset.status.ok() && !IsAboutContent(dataset.status)) return dataset.status;
    if (dataset.status.ok()) dataset.status = DecodeQuota::ForUnbacked(limits_).Charge(dataset.storage.missing_bytes);
    directory_.datasets.push_back(std::move(dataset));
    return absl::OkStatus();
  }

  absl::Status Describe(const std::vector<Message>& header, DType opaque, Dataset* dataset) {
    const Message* const space_message = Find(header, MessageType::kDataspace);
    const Message* const type_message = Find(header, MessageType::kDatatype);
    if (type_message == nullptr) return absl::DataLossError("has no datatype");
    if (space_message->is_shared || type_message->is_shared) {
      return absl::UnimplementedError("has a type that objects share, which is not read");
    }
    CASK_ASSIGN_OR_RETURN(const Dataspace space, ParseDataspace(space_message->body, file_));
    if (space.is_null) return absl::UnimplementedError("has no elements and no shape");
    absl::StatusOr<TensorShape> shape = TensorShape::Create(space.dims);
    if (!shape.ok()) return absl::DataLossError(shape.status().message());
    dataset->shape = *std::move(shape);
    Cursor in(type_message->body);
    CASK_ASSIGN_OR_RETURN(const Datatype type, ParseDatatype(&in));
    switch (type.kind) {
      case Datatype::Kind::kNumber:
        dataset->dtype = type.dtype;
        break;
      case Datatype::Kind::kOpaque:
        if (opaque != DType::kInvalid && ElementSize(opaque) == type.size) {
          dataset->dtype = opaque;
          break;
        }
        return absl::UnimplementedError(absl::StrCat("its elements are opaque, ", type.size,
                                                     type.size == 1 ? " byte each" : " bytes each",
                                                     ": the file does not say what they are"));
      case Datatype::Kind::kText:
      case Datatype::Kind::kLongText:
        return absl::UnimplementedError("its elements are texts, which are not read");
      case Datatype::Kind::kOther:
        return absl::UnimplementedError(absl::StrCat("its elements are ", type.what, ", which is not read"));
    }
    dataset->big_endian = type.big_endian;
    if (!CheckedMul<int64_t>(dataset->shape.num_elements(), static_cast<int64_t>(type.size))) {
      return absl::DataLossError("has more than 2^63 bytes");
    }
    CASK_ASSIGN_OR_RETURN(dataset->storage, ReadStorage(header, dataset->shape, type.size, listing_, &file_));
    return absl::OkStatus();
  }

  // Two datasets never have the same bytes. A file that says so could be unpacked to any size.
  void CheckApart() {
    struct Piece {
      uint64_t begin, end;
      size_t dataset;
    };
    std::vector<Piece> pieces;
    for (size_t i = 0; i < directory_.datasets.size(); ++i) {
      const Dataset& dataset = directory_.datasets[i];
      if (!dataset.status.ok()) continue;
      const Storage& storage = dataset.storage;
      if (storage.form == Storage::Form::kPlain && storage.stored_bytes > 0) {
        pieces.push_back({storage.position, storage.position + storage.stored_bytes, i});
      }
      for (const Chunk& chunk : storage.chunks) {
        pieces.push_back({chunk.position, chunk.position + chunk.stored_bytes, i});
      }
    }
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    size_t last = 0;  // among those before, the one that ends last
    for (size_t i = 1; i < pieces.size(); ++i) {
      Dataset& before = directory_.datasets[pieces[last].dataset];
      Dataset& dataset = directory_.datasets[pieces[i].dataset];
      const bool is_alias = before.address == dataset.address && &before != &dataset;
      if (pieces[i].begin < pieces[last].end && !is_alias) {
        const absl::Status shared =
            absl::DataLossError(absl::StrCat("has the bytes at ", pieces[i].begin, ", which ", Quoted(before.name),
                                             " and ", Quoted(dataset.name), " have"));
        if (before.status.ok()) before.status = shared;
        if (dataset.status.ok()) dataset.status = shared;
      }
      if (pieces[i].end > pieces[last].end) last = i;
    }
  }

  File file_;
  const DType opaque_;
  const DecodeLimits& limits_;
  ListingBudget* const listing_;
  AttributeReader attributes_;
  std::vector<Object> objects_;                        // that are left
  absl::flat_hash_map<uint64_t, std::string> groups_;  // that were read, by address
  std::vector<std::pair<ValueTree::Id, ValueTree::Id>> values_;
  size_t notes_left_out_ = 0;
  Directory directory_;
};

}  // namespace

absl::StatusOr<Directory> ReadDirectory(std::shared_ptr<const ByteSource> source, DType opaque,
                                        const DecodeLimits& limits, ListingBudget* listing) {
  CASK_ASSIGN_OR_RETURN(File file, File::Open(std::move(source), listing));
  return Walker(std::move(file), opaque, limits, listing).Walk();
}

}  // namespace tensorcask::hdf5
