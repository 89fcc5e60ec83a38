// Reads safetensors files, and models that are split into several of them (model.safetensors.index.json).
//
//   CASK_ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::Open("/models/model.safetensors"));
//   CASK_ASSIGN_OR_RETURN(Tensor w, reader.Read("dense/kernel"));
//   CASK_ASSIGN_OR_RETURN(Tensor rows, reader.ReadSlice("embedding", *TensorSlice::Parse("1000,10:-")));
//   CASK_ASSIGN_OR_RETURN(Tensor mapped, reader.Map("lm_head.weight"));   // no copy
//
// Open reads the whole header, which lists all tensors, and checks every rule of the format (FORMAT.md section 5): a
// file with a hole, an overlap, a duplicate name or a byte too many is DataLoss. What concerns one tensor (a dtype that
// this version does not know) or one file of a model (it is missing or damaged) hides only those tensors: they are
// listed, and SafetensorsEntry::read_status says why they cannot be read. A tensor of a file that the index of the
// model does not list there is read like the others, and noted. Tensors are read when a caller asks for them. Where the
// file has checksums of its tensors (FORMAT.md section 4; this library's writer stores them, other programs ignore
// them) the reader verifies the checksum of a tensor the first time it reads or maps the tensor. An error names file,
// tensor and offset; no file can crash the reader or make it allocate more than the file justifies.
//
// Memory of an open reader: about 200 bytes and the name for each tensor, 130 bytes and the texts for each entry of the
// metadata. In practice that is 2 to 3 times the bytes of the headers. DecodeLimits::max_memory_beyond_input (64 MiB)
// limits the memory beyond the bytes of the headers, for all files of a model together.
//
// All methods are const and thread-safe.

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_SAFETENSORS_READER_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_SAFETENSORS_READER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/safetensors/safetensors_entry.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

namespace safetensors {
class ReaderImpl;
}

struct SafetensorsReaderOptions {
  ReadOptions read;    // file system, strategy, threads
  bool verify = true;  // checksums, where the file has them
  DecodeLimits limits;
  // The specification's limit. A larger header is refused before any memory is allocated for it.
  uint64_t max_header_bytes = 100'000'000;
  RefPtr<Allocator> allocator = CpuAllocator::Default();  // must give memory of the host
  // False: the names that the metadata lists as aliases do not become entries; metadata() still lists them.
  bool restore_aliases = true;
  // Accepts deviations from the format that occur in existing files and whose meaning is clear: bytes after the data,
  // bytes between tensors, whitespace before the header, NUL bytes after it, metadata that is not text, bool elements
  // other than 0 and 1 (read as true). notes() lists the deviations. Duplicates, overlaps and wrong sizes are always
  // refused.
  bool lenient = false;
};

// One thing found wrong by SafetensorsReader::VerifyAll.
struct SafetensorsDamage {
  // "": a file of the model is missing or damaged, with all its tensors, or has tensors that the index does not list
  // there.
  std::string tensor;
  std::string file;
  uint64_t offset = 0;
  absl::Status status;  // a sentence with all of the above
};

// What SafetensorsReader::VerifyAll found besides damage.
struct SafetensorsCounts {
  int64_t verified = 0;          // tensors whose checksum is right
  int64_t without_checksum = 0;  // tensors that have none; their bytes were read, and bools checked
  int64_t not_checked = 0;       // tensors of an unknown kind (read_status is Unimplemented)
  int64_t lost = 0;              // tensors of files that are missing or damaged
};

class SafetensorsReader {
 public:
  // `path` is a safetensors file, or the index of a model in several files, which its content shows. If there is no
  // file `path` but an index `path`.index.json, Open reads that.
  // Errors: NotFound; DataLoss if the file is not safetensors or breaks a rule; InvalidArgument for a path that
  // CheckPath (serialize/io/file_system.h) refuses; ResourceExhausted past a limit.
  static absl::StatusOr<SafetensorsReader> Open(const std::string& path, const SafetensorsReaderOptions& options = {});
  // Opens one file from a byte source: a file that is already open, or bytes in memory (MakeMemorySource). Errors:
  // those of Open.
  static absl::StatusOr<SafetensorsReader> OpenSource(std::shared_ptr<const ByteSource> source,
                                                      const SafetensorsReaderOptions& options = {});
  // True if a file that begins with these bytes (at least 9, or the whole file if it is shorter) may be safetensors: a
  // plausible header length, then a JSON object that is empty or begins with a key and an object. For programs that
  // tell formats apart by content; Open gives the verdict.
  static bool LooksLikeSafetensors(absl::string_view first_bytes, uint64_t file_bytes);

  SafetensorsReader(SafetensorsReader&&) noexcept;
  SafetensorsReader& operator=(SafetensorsReader&&) noexcept;
  ~SafetensorsReader();

  const std::string& path() const;                // the file, or the index, that was opened
  int num_shards() const;                         // 1 unless an index was opened
  const std::string& ShardPath(int shard) const;  // Requires: 0 <= shard < num_shards()
  // The open file, for a plan of reads (serialize/io/read_plan.h); null if it cannot be read. Requires: as for
  // ShardPath.
  std::shared_ptr<const ByteSource> ShardSource(int shard) const;

  // All tensors in the order in which their bytes lie in the files, shard by shard; aliases at the end, sorted by name.
  const std::vector<SafetensorsEntry>& entries() const;
  // The entry of the tensor `name`; null if no tensor has this name. Valid as long as this reader.
  const SafetensorsEntry* FindEntry(absl::string_view name) const;
  // A copy of that entry. Errors: NotFound, naming tensor and file.
  absl::StatusOr<SafetensorsEntry> Find(absl::string_view name) const;

  // The metadata of the file (`__metadata__`) without the checksums and without restored aliases. For a model in
  // several files: the metadata of the index and of all files. If they disagree on a key, the value of the index
  // counts, then that of the first file.
  const std::map<std::string, std::string>& metadata() const;

  uint64_t header_bytes() const;  // the size of the index and of all headers that could be read
  // Sentences about unusual but harmless things, at most 100: deviations that `lenient` accepted; checksums that are
  // not verified, because another program rewrote the file and kept its metadata; a wrong total_size in an index;
  // tensors that it does not list; unknown fields.
  const std::vector<std::string>& notes() const;

  // The tensor, row-major, in a new buffer.
  // Errors, which name file and tensor: NotFound; DataLoss; SafetensorsEntry::read_status; ResourceExhausted past
  // max_file_decoded_bytes or if memory cannot be allocated; from errno.
  absl::StatusOr<Tensor> Read(absl::string_view name) const;

  // Reads into *out, which must have the stored dtype and shape (else InvalidArgument, naming both) and may have any
  // strides. On error the elements of *out are unspecified.
  absl::Status ReadInto(absl::string_view name, Tensor* out) const;
  absl::Status ReadInto(absl::string_view name, TensorView* out) const;

  // A part of a tensor. Reads only the bytes that hold the part, and does not verify them, since a checksum covers the
  // whole stored tensor. With `verify_whole` it first reads and verifies the whole tensor, unless Read has done so.
  // Errors: those of Read; OutOfRange if the slice is outside the tensor; InvalidArgument if it has another rank.
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice, bool verify_whole = false) const;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out,
                             bool verify_whole = false) const;

  // The tensors of these names in this order, read on `num_threads` threads in the order of the files. Returns all of
  // them or an error. Equal names, and aliases, share a buffer.
  // Errors: those of Read, for the first name that fails; ResourceExhausted if they need more than
  // max_file_decoded_bytes together, before anything is read.
  absl::StatusOr<std::vector<Tensor>> ReadMany(absl::Span<const std::string> names, int num_threads = 1) const;

  // All tensors for which `wanted` returns true (null: all tensors), by name. Otherwise the same as ReadMany.
  absl::StatusOr<std::map<std::string, Tensor>> ReadAll(
      int num_threads = 1, const std::function<bool(const SafetensorsEntry&)>& wanted = nullptr) const;

  // The tensor in read-only memory that is mapped from the file; the tensor keeps the mapping alive. Map copies instead
  // if the offset in the file is not a multiple of the element's alignment, and for elements below 8 bits. The file
  // must not change while it is mapped (see ReadStrategy::kMap). Writing to the tensor copies it first. Errors: those
  // of Read.
  absl::StatusOr<Tensor> Map(absl::string_view name) const;

  // The elements of one tensor from front to back, in bounded memory, verified at the end
  // (serialize/io/element_stream.h). Errors: those of Read; Unimplemented for elements below 8 bits.
  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(absl::string_view name) const;

  // Reads all bytes of all tensors, whatever the options say, and calls report(damage) for each tensor whose checksum
  // is wrong, or whose bools are neither 0 nor 1, in the order of entries(), after one for each file of the model that
  // is missing or damaged, or has tensors that the index does not list. (Open has checked the structure.)
  // Errors: only what prevents it from checking (permissions, for example, or no memory).
  absl::StatusOr<SafetensorsCounts> VerifyAll(absl::FunctionRef<void(const SafetensorsDamage&)> report) const;

 private:
  explicit SafetensorsReader(std::unique_ptr<const safetensors::ReaderImpl> impl);

  std::unique_ptr<const safetensors::ReaderImpl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_SAFETENSORS_READER_H_
