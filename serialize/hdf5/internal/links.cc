#include "tensorcask/serialize/hdf5/internal/links.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/hdf5/internal/btree.h"
#include "tensorcask/serialize/hdf5/internal/btree2.h"
#include "tensorcask/serialize/hdf5/internal/cursor.h"
#include "tensorcask/serialize/hdf5/internal/fractal_heap.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::hdf5 {
namespace {

class LinkReader {
 public:
  LinkReader(int64_t max_links, File* file) : max_links_(LimitOf(max_links)), file_(file) {}

  // ---- Groups of the first kind: a symbol table, which is a B-tree, with the names in a heap
  // -------------------------

  absl::Status ReadSymbolTable(const Message& message) {
    Cursor in(message.body);
    const uint64_t tree = file_->Address(&in);
    const uint64_t heap = file_->Address(&in);
    if (!in.ok()) return CutShort("a symbol table");
    CASK_ASSIGN_OR_RETURN(const std::string names, ReadLocalHeap(heap));
    return WalkBTree(tree, BTreeKind::kGroup, static_cast<uint64_t>(file_->length_bytes()), file_,
                     [&](absl::string_view /*key*/, uint64_t node) { return ReadNode(node, names); });
  }

  // ---- Groups of the second kind: a message for each link -----------------------------------------------------------

  // Many links are in a heap, and a B-tree of their names says where.
  absl::Status ReadManyLinks(const Message& message) {
    Cursor in(message.body);
    in.Skip(1);
    const uint64_t flags = in.Uint(1);
    if ((flags & 1) != 0) in.Skip(8);
    const uint64_t address = file_->Address(&in);
    const uint64_t names = file_->Address(&in);
    if (!in.ok()) return CutShort("a link info message");
    if (address == kUndefined || names == kUndefined) return absl::OkStatus();
    CASK_ASSIGN_OR_RETURN(FractalHeap heap, FractalHeap::Open(address, file_));
    return ForEachRecord(names, RecordKind::kLinkName, file_, [&](absl::string_view record) -> absl::Status {
      constexpr size_t kHashBytes = 4;
      CASK_ASSIGN_OR_RETURN(const std::string link, heap.Get(record.substr(std::min(record.size(), kHashBytes))));
      return ReadLink(link);
    });
  }

  absl::Status ReadLink(absl::string_view body) {
    constexpr uint64_t kHard = 0;
    constexpr uint64_t kSoft = 1;
    constexpr uint64_t kExternal = 64;
    Cursor in(body);
    const uint64_t version = in.Uint(1);
    const uint64_t flags = in.Uint(1);
    if (in.ok() && version != 1) {
      return absl::UnimplementedError(absl::StrCat("has a link of version ", version, "; 1 is read"));
    }
    const uint64_t type = (flags & 0x08) != 0 ? in.Uint(1) : kHard;
    if ((flags & 0x04) != 0) in.Skip(8);  // its number by time
    if ((flags & 0x10) != 0) in.Skip(1);  // its characters
    Link link;
    link.name = std::string(in.Bytes(in.Uint(1 << (flags & 3))));
    if (type == kHard) {
      link.address = file_->Address(&in);
    } else if (type == kSoft) {
      link.refusal = SoftLink(in.Bytes(in.Uint(2)));
    } else if (type == kExternal) {
      link.refusal = "is a link to another file, which is not followed";
    } else {
      link.refusal = absl::StrCat("is a link of the type ", type, ", which is not known");
    }
    if (!in.ok()) return CutShort("a link");
    return Add(std::move(link));
  }

  absl::StatusOr<std::vector<Link>> Finish() && {
    std::sort(links_.begin(), links_.end(), [](const Link& a, const Link& b) { return a.name < b.name; });
    for (size_t i = 1; i < links_.size(); ++i) {
      if (links_[i].name == links_[i - 1].name) {
        return absl::DataLossError(absl::StrCat("has two links with the name ", Quoted(links_[i].name)));
      }
    }
    return std::move(links_);
  }

 private:
  static std::string SoftLink(absl::string_view target) {
    return absl::StrCat("is a soft link to ", Quoted(target), ", which is not followed");
  }

  absl::Status Add(Link link) {
    if (link.name.empty() || absl::StrContains(link.name, '/')) {
      return absl::DataLossError(absl::StrCat("has a link with the name ", Quoted(link.name)));
    }
    if (links_.size() >= max_links_) {
      return PastLimit(absl::StrCat("has more than ", max_links_, " links"), "max_entries",
                       static_cast<int64_t>(max_links_));
    }
    links_.push_back(std::move(link));
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadLocalHeap(uint64_t address) {
    const auto head_bytes = static_cast<uint64_t>(8 + 2 * file_->length_bytes() + file_->address_bytes());
    CASK_ASSIGN_OR_RETURN(const std::string head, file_->Read(address, head_bytes));
    Cursor in(head);
    if (in.Bytes(4) != "HEAP") {
      return absl::DataLossError(absl::StrCat("the heap of names at ", address, " has not its signature"));
    }
    in.Skip(4);
    const uint64_t size = file_->Length(&in);
    file_->Length(&in);  // the length of free space
    return file_->Read(file_->Address(&in), size);
  }

  // A leaf of the tree has the address of a node with the links.
  absl::Status ReadNode(uint64_t address, absl::string_view names) {
    constexpr uint64_t kHeadBytes = 8;
    const auto entry_bytes = static_cast<uint64_t>(2 * file_->address_bytes() + 4 + 4 + 16);
    CASK_ASSIGN_OR_RETURN(const std::string head, file_->Read(address, kHeadBytes));
    Cursor in(head);
    const bool has_signature = in.Bytes(4) == "SNOD" && in.Uint(1) == 1;
    in.Skip(1);
    const uint64_t count = in.Uint(2);
    if (!has_signature) {
      return absl::DataLossError(absl::StrCat("the symbol node at ", address, " has not its signature"));
    }
    CASK_ASSIGN_OR_RETURN(const std::string entries, file_->Read(address + kHeadBytes, count * entry_bytes));
    Cursor entry(entries);
    for (uint64_t i = 0; i < count; ++i) CASK_RETURN_IF_ERROR(ReadEntry(&entry, names));
    return absl::OkStatus();
  }

  absl::Status ReadEntry(Cursor* in, absl::string_view names) {
    constexpr uint64_t kSoftLink = 2;
    const auto text_at = [&](uint64_t offset) -> absl::StatusOr<absl::string_view> {
      if (offset > names.size()) return absl::DataLossError("a name lies outside of the heap of names");
      Cursor name(names.substr(static_cast<size_t>(offset)));
      const absl::string_view text = name.TextToNul();
      if (!name.ok()) return absl::DataLossError("a name in the heap of names has no end");
      return text;
    };
    Link link;
    const uint64_t name = file_->Address(in);
    link.address = file_->Address(in);
    const uint64_t cache_type = in->Uint(4);
    in->Skip(4);
    Cursor scratch(in->Bytes(16));
    CASK_ASSIGN_OR_RETURN(const absl::string_view text, text_at(name));
    link.name = std::string(text);
    if (cache_type == kSoftLink) {
      CASK_ASSIGN_OR_RETURN(const absl::string_view target, text_at(scratch.Uint(4)));
      link.refusal = SoftLink(target);
    }
    return Add(std::move(link));
  }

  const uint64_t max_links_;
  File* const file_;
  std::vector<Link> links_;
};

}  // namespace

bool IsGroup(const std::vector<Message>& header) {
  return Find(header, MessageType::kSymbolTable) != nullptr || Find(header, MessageType::kLinkInfo) != nullptr ||
         Find(header, MessageType::kLink) != nullptr;
}

absl::StatusOr<std::vector<Link>> ReadLinks(const std::vector<Message>& header, int64_t max_links, File* file) {
  LinkReader reader(max_links, file);
  for (const Message& message : header) {
    switch (static_cast<MessageType>(message.type)) {
      case MessageType::kSymbolTable:
        CASK_RETURN_IF_ERROR(reader.ReadSymbolTable(message));
        break;
      case MessageType::kLinkInfo:
        CASK_RETURN_IF_ERROR(reader.ReadManyLinks(message));
        break;
      case MessageType::kLink:
        CASK_RETURN_IF_ERROR(reader.ReadLink(message.body));
        break;
      default:
        break;
    }
  }
  return std::move(reader).Finish();
}

}  // namespace tensorcask::hdf5
