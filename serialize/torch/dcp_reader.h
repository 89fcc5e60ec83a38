// Reads distributed checkpoints of PyTorch (torch.distributed.checkpoint): a folder with the files __0_0.distcp,
// __1_0.distcp, ... that the ranks of a job wrote, and .metadata, which says where each part (box) of each tensor is.
//
//   CASK_ASSIGN_OR_RETURN(DcpReader reader, DcpReader::Open("/runs/7/step-1000"));   // the folder, or its .metadata
//   CASK_ASSIGN_OR_RETURN(Tensor w, reader.Read("model.w"));                          // all ranks' parts in one
//   CASK_ASSIGN_OR_RETURN(Tensor rows, reader.ReadSlice("model.w", *TensorSlice::Parse("1000,10:-")));
//   CASK_ASSIGN_OR_RETURN(ValueTree values, reader.Values());                         // optimizer.param_groups[0].lr
//
// .metadata is a pickle, which is a program. It is read as data, as files of torch.save are (torch_reader.h), with a
// table of names of its own. Each part is a whole file of torch.save inside a .distcp file; FORMAT.md section 8.
//
// Open reads .metadata and the values that are not tensors. It proves that the boxes of each tensor have each element
// once, that they lie in files of the folder, and that no two have the same bytes. A tensor for which this is not so is
// listed, and read_status says what is wrong; the others can be read. Whether the part in a file has the dtype and
// sizes that .metadata gives it is known when it is read.
//
// A value or box that is compressed is decoded as a whole. All values together, and a box beside what is read of it,
// may take max_memory_beyond_input more than their size in the files. Few files are open at a time.
//
// A checksum is compared where the whole of a box is read. The values have no checksum if the files have none.
//
// All methods are const and thread-safe.

#ifndef TENSORCASK_SERIALIZE_TORCH_DCP_READER_H_
#define TENSORCASK_SERIALIZE_TORCH_DCP_READER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/torch/torch_reader.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

namespace torch {
class DcpReaderImpl;
}

// The name of the file that makes a folder a distributed checkpoint.
inline constexpr absl::string_view kDcpMetadataFile = ".metadata";

struct DcpEntry {
  std::string name;
  DType dtype = DType::kInvalid;  // kInvalid: this library has no such dtype, or it is not known
  TensorShape shape;
  int boxes = 0;                 // the number of boxes that hold its elements
  uint64_t stored_bytes = 0;     // the size of its boxes in the files
  bool reads_in_blocks = false;  // OpenStream or ReadSlice read one part at a time
  bool has_metadata = false;     // Metadata returns it
  bool is_value = false;         // a value that is not a tensor and cannot be read, as read_status says
  absl::Status read_status;      // not OK: it is only listed, for this reason
};

class DcpReader {
 public:
  // `path`: the folder, or its .metadata. Links are not followed below the folder.
  // Errors, naming the file: NotFound if there is nothing at `path`; DataLoss for a folder without .metadata, and if
  // that breaks a rule; Unimplemented for a class that is not known; ResourceExhausted past a limit.
  static absl::StatusOr<DcpReader> Open(const std::string& path, const TorchReaderOptions& options = {});

  DcpReader(DcpReader&&) noexcept;
  DcpReader& operator=(DcpReader&&) noexcept;
  ~DcpReader();

  const std::string& path() const;  // that of .metadata
  // All tensors, sorted by name. Tensors in a value that is not a tensor have its name in front of theirs.
  const std::vector<DcpEntry>& entries() const;
  // The tensors and the other values, nested as they were saved if the file says how, else by name. The tensors are
  // numbers in entries(). Each call makes the tree. Values that cannot be read are not in it, but in entries().
  // Errors: ResourceExhausted past a limit.
  absl::StatusOr<ValueTree> Values() const;
  const std::vector<std::string>& notes() const;
  std::vector<std::string> files() const;  // .metadata first

  // The methods of these names do what those of TorchReader do. ReadSlice reads the boxes that the slice meets.
  absl::StatusOr<Tensor> Read(absl::string_view name) const;
  absl::Status ReadInto(absl::string_view name, TensorView* out) const;
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const;
  // Mapped memory if one box has the whole tensor, is not compressed and can be mapped; else a copy.
  absl::StatusOr<Tensor> Map(absl::string_view name) const;
  // The elements of one tensor from front to back, in bounded memory. Null for a tensor whose boxes are not whole rows:
  // ReadSlice reads its parts; the checksums of its boxes are compared now. The reader must outlive the stream.
  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(absl::string_view name) const;

  // The metadata of a tensor, as that of TorchReader. Errors: also Unimplemented if its boxes are quantized
  // differently.
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const;

  // Reads all boxes and values, and calls report(damage) for each tensor and each value that is damaged: once, for the
  // first of its boxes. Tensors whose read_status is Unimplemented are left out. Errors: only what prevents it from
  // checking.
  absl::Status VerifyAll(absl::FunctionRef<void(const TorchDamage&)> report) const;

 private:
  explicit DcpReader(std::unique_ptr<const torch::DcpReaderImpl> impl);

  std::unique_ptr<const torch::DcpReaderImpl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_TORCH_DCP_READER_H_
