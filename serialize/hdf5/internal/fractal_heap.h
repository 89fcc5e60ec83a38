// A fractal heap: where an object keeps its links or its attributes if it has many, or large ones.
//
//   CASK_ASSIGN_OR_RETURN(FractalHeap heap, FractalHeap::Open(address, &file));
//   CASK_ASSIGN_OR_RETURN(const std::string message, heap.Get(id));   // an id of a record of a B-tree
//
// The heap is a range of numbers, cut into blocks of growing size. Blocks of blocks say where each is in the file.

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_FRACTAL_HEAP_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_FRACTAL_HEAP_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/hdf5/internal/cursor.h"
#include "tensorcask/serialize/hdf5/internal/file.h"

namespace tensorcask::hdf5 {

class FractalHeap {
 public:
  // Reads the header. Requires: `file` outlives this. Errors: DataLoss if it breaks a rule; Unimplemented for a heap
  // with filters.
  static absl::StatusOr<FractalHeap> Open(uint64_t address, File* file);

  // The bytes of an object. Each block is read once, and kept. Errors: DataLoss if the id leads to no object, or a
  // block breaks a rule; Unimplemented for a form of objects that no library writes for links and attributes.
  absl::StatusOr<std::string> Get(absl::string_view id);

 private:
  explicit FractalHeap(uint64_t address, File* file) : address_(address), file_(file) {}

  absl::Status ParseHeader(Cursor* in);
  absl::StatusOr<std::string> GetManaged(Cursor* in);
  absl::StatusOr<std::string> GetHuge(Cursor* in);
  uint64_t RowBytes(uint64_t row) const;  // the size of a block in it
  // A block, of `size` bytes, with its signature and its checksum. Returns a view of blocks_.
  absl::StatusOr<absl::string_view> Block(uint64_t address, uint64_t size, absl::string_view signature, uint64_t start);

  uint64_t address_;
  File* file_;
  bool has_checksums_ = false;  // true if direct blocks have checksums
  uint64_t huge_tree_ = kUndefined;
  uint64_t width_ = 0;  // blocks of a row
  uint64_t first_bytes_ = 0;
  uint64_t most_direct_bytes_ = 0;
  int offset_bytes_ = 0;  // the width of an offset in the heap
  int length_bytes_ = 0;
  uint64_t root_ = kUndefined;
  uint64_t root_rows_ = 0;  // 0: the root is a direct block
  absl::flat_hash_map<uint64_t, std::string> blocks_;
  bool has_huge_ = false;                                              // huge_ is filled
  absl::flat_hash_map<uint64_t, std::pair<uint64_t, uint64_t>> huge_;  // address and size, by number
};

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_FRACTAL_HEAP_H_
