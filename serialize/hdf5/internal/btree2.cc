#include "tensorcask/serialize/hdf5/internal/btree2.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/hdf5/internal/cursor.h"
#include "tensorcask/serialize/hdf5/internal/metadata_checksum.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::hdf5 {
namespace {

constexpr uint64_t kPrefixBytes = 4 + 1 + 1;  // signature, version, type

// Bytes that hold any number up to `most`.
uint64_t BytesFor(uint64_t most) {
  uint64_t bytes = 1;
  for (; most > 0xff; most >>= 8) ++bytes;
  return bytes;
}

class Tree {
 public:
  Tree(RecordKind kind, File* file, absl::FunctionRef<absl::Status(absl::string_view record)> fn)
      : kind_(kind), file_(file), fn_(fn) {}

  absl::Status Walk(uint64_t header) {
    const auto size = static_cast<uint64_t>(22 + file_->address_bytes() + file_->length_bytes());
    CASK_ASSIGN_OR_RETURN(const std::string bytes, Read(header, size, "BTHD"));
    Cursor in(bytes);
    in.Skip(kPrefixBytes);
    node_bytes_ = in.Uint(4);
    record_bytes_ = in.Uint(2);
    const uint64_t depth = in.Uint(2);
    in.Skip(2);  // when nodes are split and joined
    Node root;
    root.address = file_->Address(&in);
    root.num_records = in.Uint(2);
    root.level = depth;
    constexpr uint64_t kMostLevels = 32;
    if (record_bytes_ == 0 || depth >= kMostLevels || node_bytes_ < kPrefixBytes + kChecksumBytes + record_bytes_) {
      return absl::DataLossError(absl::StrCat("a B-tree of ", depth, " levels has nodes of ", node_bytes_,
                                              " bytes and records of ", record_bytes_));
    }
    SetSizes(depth);
    if (root.address == kUndefined) return absl::OkStatus();
    std::vector<Node> nodes = {root};  // that are left; the next one last
    while (!nodes.empty()) {
      const Node node = nodes.back();
      nodes.pop_back();
      CASK_RETURN_IF_ERROR(WalkNode(node, &nodes));
    }
    return absl::OkStatus();
  }

 private:
  struct Node {
    uint64_t address = kUndefined;
    uint64_t num_records = 0;
    uint64_t level = 0;  // 0: a leaf
  };

  // Numbers of records have as many bytes as the largest possible one of the level needs.
  void SetSizes(uint64_t depth) {
    const uint64_t node = node_bytes_ - kPrefixBytes - kChecksumBytes;
    uint64_t most = node / record_bytes_;  // records in a node, and in all below it
    count_bytes_ = BytesFor(most);
    total_bytes_ = {0};
    uint64_t total = most;
    for (uint64_t level = 1; level <= depth; ++level) {
      const uint64_t pointer = static_cast<uint64_t>(file_->address_bytes()) + count_bytes_ + total_bytes_.back();
      most = node < pointer ? 0 : (node - pointer) / (record_bytes_ + pointer);
      // Past 2^63 it does not matter: no file has as many.
      total = total > (uint64_t{1} << 32) ? uint64_t{1} << 63 : (most + 1) * total + most;
      total_bytes_.push_back(BytesFor(total));
    }
  }

  absl::StatusOr<std::string> Read(uint64_t address, uint64_t size, absl::string_view signature) const {
    CASK_ASSIGN_OR_RETURN(std::string bytes, file_->Read(address, size));
    Cursor in(bytes);
    const bool is_it = in.Bytes(4) == signature && in.Uint(1) == 0 && in.Uint(1) == static_cast<uint64_t>(kind_);
    if (!is_it) {
      return absl::DataLossError(absl::StrCat("the part at ", address, " of a B-tree is no ", signature, " of type ",
                                              static_cast<int>(kind_)));
    }
    CASK_RETURN_IF_ERROR(CheckMetadataChecksum(bytes));
    return bytes;
  }

  absl::Status WalkNode(const Node& node, std::vector<Node>* nodes) {
    if (!seen_.insert(node.address).second) {
      return absl::DataLossError(absl::StrCat("the node at ", node.address, " of a B-tree is there twice"));
    }
    const uint64_t total_bytes = node.level == 0 ? 0 : total_bytes_[static_cast<size_t>(node.level) - 1];
    const uint64_t pointer = static_cast<uint64_t>(file_->address_bytes()) + count_bytes_ + total_bytes;
    const uint64_t size = kPrefixBytes + node.num_records * record_bytes_ +
                          (node.level == 0 ? 0 : (node.num_records + 1) * pointer) + kChecksumBytes;
    if (size > node_bytes_) {
      return absl::DataLossError(absl::StrCat("the node at ", node.address, " of a B-tree has ", node.num_records,
                                              " records, more than its ", node_bytes_, " bytes hold"));
    }
    CASK_ASSIGN_OR_RETURN(const std::string bytes, Read(node.address, size, node.level == 0 ? "BTLF" : "BTIN"));
    Cursor in(bytes);
    in.Skip(kPrefixBytes);
    for (uint64_t i = 0; i < node.num_records; ++i) CASK_RETURN_IF_ERROR(fn_(in.Bytes(record_bytes_)));
    for (uint64_t i = 0; node.level > 0 && i <= node.num_records; ++i) {
      Node child;
      child.address = file_->Address(&in);
      child.num_records = in.Uint(static_cast<int>(count_bytes_));
      in.Skip(total_bytes);
      child.level = node.level - 1;
      nodes->push_back(child);
    }
    return absl::OkStatus();
  }

  const RecordKind kind_;
  File* const file_;
  const absl::FunctionRef<absl::Status(absl::string_view record)> fn_;
  uint64_t node_bytes_ = 0;
  uint64_t record_bytes_ = 0;
  uint64_t count_bytes_ = 0;           // the width of the number of records of a child
  std::vector<uint64_t> total_bytes_;  // the width of that of a child and of all below it, by the level of the child
  absl::flat_hash_set<uint64_t> seen_;
};

}  // namespace

absl::Status ForEachRecord(uint64_t header, RecordKind kind, File* file,
                           absl::FunctionRef<absl::Status(absl::string_view record)> fn) {
  return Tree(kind, file, fn).Walk(header);
}

}  // namespace tensorcask::hdf5
