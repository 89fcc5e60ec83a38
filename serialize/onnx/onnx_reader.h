// Reads the tensors of ONNX files: models (.onnx) with their side files, and files (.pb) of one tensor or one sequence.
//
//   CASK_ASSIGN_OR_RETURN(OnnxReader reader, OnnxReader::Open("/models/model.onnx"));
//   for (const OnnxEntry& entry : reader.entries()) ...
//   CASK_ASSIGN_OR_RETURN(Tensor w, reader.Read("encoder.layer.0.weight"));
//   CASK_ASSIGN_OR_RETURN(Tensor mapped, reader.Map("lm_head.weight"));   // no copy
//
// The tensors of a model are its initializers: those of the graph, of graphs in nodes, of functions and of training
// information. Open reads the structure of the whole file, not the elements, however large the file is (protobuf's
// classes hold at most 2 GiB). It needs no protobuf library, runs no node, and opens no side file: a side file is
// opened when a tensor in it is first read. A side file that is missing, or that the rules of FORMAT.md section 5
// refuse, hides its own tensors alone.
//
// A tensor has the name of its initializer. A name that several graphs of a model have gets the path of its graph,
// except in the main graph: "if_1.then_branch/b". The tensors of a sequence are named by their position: "0", "1" and
// "2.0". A sparse tensor "w" is listed as its parts "w.values" and "w.indices".
//
// An error names file and tensor. No file can crash the reader, make it open a file outside of the folder of the model,
// or make it allocate more than the file justifies. All methods are const and thread-safe.

#ifndef TENSORCASK_SERIALIZE_ONNX_ONNX_READER_H_
#define TENSORCASK_SERIALIZE_ONNX_ONNX_READER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/onnx/entry.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

namespace onnx {
class ReaderImpl;
}

struct OnnxReaderOptions {
  ReadOptions read;  // file system, strategy, threads
  DecodeLimits limits;
  RefPtr<Allocator> allocator = CpuAllocator::Default();  // must give memory of the host
  // True: lists the tensors of Constant nodes, too, by the names of their outputs.
  bool constants = false;
  // False: a side file that is a link is refused even if it leads to a file in the folder of the model, or in the
  // folder of the file that the model's path leads to (FORMAT.md section 5).
  bool follow_links = true;
  bool lenient = false;  // accepts bool elements other than 0 and 1, as true
};

// One thing found wrong by OnnxReader::VerifyAll.
struct OnnxDamage {
  std::string tensor;
  bool is_of_file = false;  // a side file cannot be opened, so all its tensors are lost; `tensor` is ""
  std::string file;
  uint64_t offset = 0;
  absl::Status status;  // a sentence with all of the above
};

// What OnnxReader::VerifyAll found besides damage.
struct OnnxCounts {
  int64_t verified = 0;          // tensors in side files whose checksum is right
  int64_t without_checksum = 0;  // all others whose bytes were read: ONNX has no checksum of a tensor
  int64_t not_checked = 0;       // tensors of an unknown kind (read_status is Unimplemented)
  int64_t past_limit = 0;        // tensors that are larger than DecodeLimits allow
  int64_t lost = 0;              // tensors of side files that cannot be opened
};

class OnnxReader {
 public:
  enum class Kind {
    kModel,     // ModelProto
    kTensor,    // TensorProto
    kSequence,  // SequenceProto or OptionalProto
  };

  // Errors: NotFound; DataLoss if the file is not of ONNX or breaks a rule (FORMAT.md section 6); InvalidArgument for a
  // path that CheckPath (serialize/io/file_system.h) refuses; Unimplemented for a sequence of maps; ResourceExhausted
  // past a limit.
  static absl::StatusOr<OnnxReader> Open(const std::string& path, const OnnxReaderOptions& options = {});
  // Opens a byte source: a file that is already open, or bytes in memory (MakeMemorySource). Tensors in side files are
  // then only listed.
  static absl::StatusOr<OnnxReader> OpenSource(std::shared_ptr<const ByteSource> source,
                                               const OnnxReaderOptions& options = {});
  // True if the fields of the file are those of an ONNX model or, with `also_tensors`, of a tensor or sequence. Reads a
  // few KiB for each of the first fields. For programs that tell formats apart by content.
  static bool LooksLikeOnnx(const ByteSource& file, bool also_tensors);

  // True for a key of metadata() that is not one of metadata_props: a field of the model, or a sparse tensor.
  static bool IsFieldKey(absl::string_view key);

  OnnxReader(OnnxReader&&) noexcept;
  OnnxReader& operator=(OnnxReader&&) noexcept;
  ~OnnxReader();

  const std::string& path() const;
  Kind kind() const;
  const std::vector<OnnxEntry>& entries() const;             // in the order of the file
  const OnnxEntry* FindEntry(absl::string_view name) const;  // null if no tensor has this name
  const std::vector<std::string>& side_files() const;        // the paths of the side files that tensors name
  // The file that has the bytes of a tensor, for a plan of reads (serialize/io/read_plan.h); null if it cannot be
  // opened.
  // Requires: `entry` is one of entries().
  std::shared_ptr<const ByteSource> SourceOf(const OnnxEntry& entry) const;
  // metadata_props of a model, and its fields: "onnx.producer_name", "onnx.opset_import", ...; "onnx.sparse.NAME" is
  // the shape of a sparse tensor.
  const std::map<std::string, std::string>& metadata() const;
  // Sentences about unusual but harmless things, at most 100, and one for each side file with several names.
  std::vector<std::string> notes() const;

  // The tensor, row-major, in a new buffer. Errors, which name file and tensor: NotFound, also for a side file;
  // DataLoss; OnnxEntry::read_status; ResourceExhausted past max_file_decoded_bytes or if memory cannot be allocated;
  // PermissionDenied for a link that is not followed; from errno.
  absl::StatusOr<Tensor> Read(absl::string_view name) const;
  // Reads into *out, which must have the stored dtype and shape (else InvalidArgument, naming both) and may have any
  // strides.
  absl::Status ReadInto(absl::string_view name, TensorView* out) const;
  // A part of a tensor. Reads only the bytes that hold the part, but all of a tensor of Form::kValues. Errors: those of
  // Read; OutOfRange if the slice is outside the tensor; InvalidArgument if it has another rank.
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const;
  // The tensor in read-only memory that is mapped from its file, or a copy where that is not possible: elements that
  // are not plain, or not aligned. The file must not change while it is mapped.
  absl::StatusOr<Tensor> Map(absl::string_view name) const;
  // The elements of one tensor from front to back, in bounded memory. Errors: those of Read; Unimplemented unless the
  // tensor is of Form::kPlain.
  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(absl::string_view name) const;

  // Reads all tensors, compares the checksums of side files, checks the indices of sparse tensors, and calls
  // report(damage) for each thing that is wrong. Errors: only what prevents it from checking.
  absl::StatusOr<OnnxCounts> VerifyAll(absl::FunctionRef<void(const OnnxDamage&)> report) const;

 private:
  explicit OnnxReader(std::unique_ptr<const onnx::ReaderImpl> impl);

  std::unique_ptr<const onnx::ReaderImpl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ONNX_ONNX_READER_H_
