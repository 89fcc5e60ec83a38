// Reads GGUF files, the models of llama.cpp and others: tensors of plain numbers, tensors in blocks as float32, and the
// metadata. FORMAT.md says which part of the format is read.
//
//   CASK_ASSIGN_OR_RETURN(const GgufReader reader, GgufReader::Open("llama-7b-q4_k.gguf"));
//   for (const GgufEntry& entry : reader.entries()) ...        // "blk.0.attn_q.weight", q4_k, [4096,4096]
//   CASK_ASSIGN_OR_RETURN(Tensor w, reader.Read("blk.0.attn_q.weight"));   // float32 [4096,4096]
//   CASK_ASSIGN_OR_RETURN(Value name, FindValue(reader.values(), "[\"general.name\"]"));   // value_path.h
//
// A model that is split into files NAME-00001-of-00003.gguf is opened by any of them, and must be whole. Files are of
// version 2 or 3, in either byte order. Open reads the header: its time and memory are proportional to it. Const
// methods are thread-safe.

#ifndef TENSORCASK_SERIALIZE_GGUF_GGUF_READER_H_
#define TENSORCASK_SERIALIZE_GGUF_GGUF_READER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

namespace gguf {
class ReaderImpl;
}  // namespace gguf

struct GgufReaderOptions {
  ReadOptions read;  // with kParallel, a large tensor in blocks is decoded on several threads
  DecodeLimits limits;
  RefPtr<Allocator> allocator = CpuAllocator::Default();  // must give memory of the host
  // Tensors in blocks are not decoded: they are uint8, and their last size is the number of bytes of a row.
  bool blocks_as_bytes = false;
  // The budget for the memory of the values and of the list of tensors. Several readers may share one; null: this
  // reader gets its own.
  std::shared_ptr<ListingBudget> listing;
};

struct GgufEntry {
  std::string name;
  absl::string_view type;         // the type in the file: "f32", "q4_k"
  bool is_block = false;          // the type has blocks, which are read as float32 unless blocks_as_bytes is set
  DType dtype = DType::kInvalid;  // that of the elements in memory
  TensorShape shape;              // outermost first
  int shard = 0;                  // the number of the file that has the elements, from 0
  uint64_t offset = 0;            // the first byte in that file
  uint64_t stored_bytes = 0;
  // Unimplemented: the tensor is only listed (blocks of some types in a big-endian file).
  absl::Status read_status;
};

class GgufReader {
 public:
  // Errors: NotFound, also for a part of a split model; DataLoss if the file is not GGUF or breaks a rule, or if the
  // parts do not fit together; Unimplemented for a newer version or an unknown type of elements; FailedPrecondition for
  // a part whose name does not tell where the others are; ResourceExhausted past a limit.
  static absl::StatusOr<GgufReader> Open(const std::string& path, const GgufReaderOptions& options = {});
  // Opens one file from a byte source: a file that is already open, or bytes in memory (MakeMemorySource). Errors:
  // those of Open.
  static absl::StatusOr<GgufReader> OpenSource(std::shared_ptr<const ByteSource> source,
                                               const GgufReaderOptions& options = {});
  // The same model as GgufReaderOptions::blocks_as_bytes gives it. Nothing is opened or parsed again.
  GgufReader BlocksAsBytes() const;
  // True if a file that begins with these bytes (at least 8) may be GGUF.
  static bool LooksLikeGguf(absl::string_view first_bytes);

  GgufReader(GgufReader&&) noexcept;
  GgufReader& operator=(GgufReader&&) noexcept;
  ~GgufReader();

  const std::string& path() const;  // as it was opened
  int num_shards() const;           // files; 1 unless the model is split
  const std::string& ShardPath(int shard) const;
  std::shared_ptr<const ByteSource> ShardSource(int shard) const;  // for a plan of reads (serialize/io/read_plan.h)
  uint32_t version() const;                                        // the version of the format: 2 or 3
  bool big_endian() const;
  uint64_t header_bytes() const;  // the size of the headers of all files

  const std::vector<GgufEntry>& entries() const;  // sorted by name
  // The entry of the tensor `name`; null if no tensor has this name. Valid as long as this reader.
  const GgufEntry* FindEntry(absl::string_view name) const;

  // The metadata: a map of text keys, in the order of the file. Numbers have the width of the file. An array of more
  // than 64 elements is a FileArray, which ReadArray reads. Valid as long as this reader.
  Value values() const { return value_tree().root(); }
  const ValueTree& value_tree() const;
  // The elements of such an array, as a list, 64 bytes of memory each. Requires: `array` is one of values(). Errors:
  // ResourceExhausted past max_memory_beyond_input + 16 x the array; from errno.
  absl::StatusOr<ValueTree> ReadArray(const FileArray& array) const;
  // The bytes of the same elements, little-endian: a bool is a byte, a text its length (8 bytes) and its bytes.
  // GgufWriter::SetArray takes them. Errors: from errno.
  absl::StatusOr<std::string> ReadArrayBytes(const FileArray& array) const;

  // Sentences about unusual but harmless things: padding that is absent or not zero, bytes after the data, names that
  // ggml has no room for.
  const std::vector<std::string>& notes() const;

  // The tensor, row-major, in a new buffer.
  // Errors, which name file and tensor: NotFound; DataLoss; GgufEntry::read_status; ResourceExhausted past
  // max_file_decoded_bytes or if memory cannot be allocated; from errno.
  absl::StatusOr<Tensor> Read(absl::string_view name) const;
  // Reads into *out, which must have that dtype and shape (else InvalidArgument). It may have any strides, on the host
  // or a device.
  absl::Status ReadInto(absl::string_view name, TensorView* out) const;
  // A part of a tensor. Reads only the bytes, or the blocks, that hold it.
  // Errors: also OutOfRange if the slice is outside the tensor; InvalidArgument if it has another rank.
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const;
  // The tensor in read-only memory that is mapped from the file; a copy for blocks, and where elements are not aligned
  // or big-endian. The file must not change while it is mapped (ReadStrategy::kMap).
  absl::StatusOr<Tensor> Map(absl::string_view name) const;

  // Reads all bytes of a tensor, and the padding after it. A GGUF file has no checksums, so this finds only what
  // cannot be read. *zero_padding: whether the padding is zero, as it should be.
  absl::Status Verify(absl::string_view name, bool* zero_padding) const;

 private:
  explicit GgufReader(std::unique_ptr<const gguf::ReaderImpl> impl);

  std::unique_ptr<const gguf::ReaderImpl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_GGUF_GGUF_READER_H_
