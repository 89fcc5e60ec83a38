// The files of torch.save inside the files of a distributed checkpoint.
//
//   CASK_ASSIGN_OR_RETURN(DcpItems items, DcpItems::Of("/run/.metadata", options));
//   CASK_RETURN_IF_ERROR(items.Check(item));                    // the file is there, and long enough
//   CASK_ASSIGN_OR_RETURN(const auto reader, items.Open(item, &quota)); // its one tensor, or a value
//   const DcpBoxes boxes(&items, options);
//   CASK_RETURN_IF_ERROR(boxes.ReadInto(tensor, slice, &out));   // reads the boxes that the slice meets
//
// A checkpoint has as many files as a job has ranks, or more. Those that were read last are open.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_DCP_ITEMS_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_DCP_ITEMS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/contained_folder.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/torch/internal/dcp_metadata.h"
#include "tensorcask/serialize/torch/torch_reader.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::torch {

class DcpItems {
 public:
  // Errors: those of ContainedFolder::Of.
  static absl::StatusOr<DcpItems> Of(const std::string& metadata_path, const TorchReaderOptions& options);

  // Looks at the file of the item, once for all items. Not thread-safe. Errors: DataLoss, naming the file, if it is
  // missing or shorter than the item, or its name leaves the folder or has steps to spare ("./x"); Unimplemented for a
  // transform that is not known.
  absl::Status Check(const DcpItem& item);
  // Says of each item that Check passed whether it shares bytes with another one, in the order of `items`. Two links to
  // one file are two files, as in a store that keeps equal files once.
  std::vector<absl::Status> CheckApart(const std::vector<const DcpItem*>& items) const;

  // Reads the item. One that is compressed is decoded to memory, which is charged to `quota`. Requires: Check was OK.
  // Errors, naming the file and the item: those of TorchReader::OpenSource; DataLoss for a zstd frame that is damaged;
  // ResourceExhausted past a limit.
  absl::StatusOr<std::unique_ptr<const TorchReader>> Open(const DcpItem& item, DecodeQuota* quota) const;
  // The first damage of a file that Open returned. Errors: those of TorchReader::VerifyAll.
  static absl::Status Verify(const TorchReader& file);
  static bool IsCompressed(const DcpItem& item) { return !item.transforms.empty(); }

  const ContainedFolder& folder() const { return files_->folder(); }
  std::string PathOf(const DcpItem& item) const { return folder().PathOf(item.file); }
  std::vector<std::string> files() const;  // that are there, sorted

 private:
  struct File {
    std::shared_ptr<const ByteSource> source;
    absl::Status status;
  };

  DcpItems(ContainedFolder folder, const TorchReaderOptions& options);

  absl::Status Look(const std::string& name, File* file);

  std::shared_ptr<const ContainedFiles> files_;
  TorchReaderOptions options_;
  std::map<std::string, File> looked_at_;  // by name
};

// All of `source`, which is one frame of zstd or several. Memory grows with the bytes that are decoded, which are
// charged to `quota`. Errors, after which nothing is charged: DataLoss if a frame is damaged or cut short;
// ResourceExhausted past max_expansion times the stored bytes or past the quota; those of the source.
absl::StatusOr<RefPtr<TensorBuffer>> DecodeZstd(const ByteSource& source, const DecodeLimits& limits,
                                                DecodeQuota* quota);

// The boxes that a tensor consists of. Each is a file of torch.save with one tensor; errors name the file, and not the
// tensor. Safe from several threads. Requires of each tensor: its status is OK, as is that of DcpItems::Check of its
// items.
class DcpBoxes {
 public:
  // `items` must outlive the object.
  DcpBoxes(const DcpItems* items, const TorchReaderOptions& options) : items_(items), options_(options) {}

  static uint64_t BytesOf(const DcpTensor& tensor, size_t box);  // of its elements

  // The file of the box, of which a few stay open. A file that is compressed is decoded: within the limit for what goes
  // beyond its size and the `wanted` bytes. Errors: those of DcpItems::Open; DataLoss if the file has anything but one
  // tensor of the dtype and the sizes of the box; that of TorchEntry::read_status.
  absl::StatusOr<std::shared_ptr<const TorchReader>> Open(const DcpTensor& tensor, size_t box, uint64_t wanted) const;

  // Requires: `out` has the dtype of the tensor and the shape of the slice. Errors: those of Open and of reading.
  absl::Status ReadInto(const DcpTensor& tensor, const TensorSlice& slice, TensorView* out) const;
  // Errors: those of Open; DataLoss for a checksum that is wrong.
  absl::Status Verify(const DcpTensor& tensor, size_t box) const;

  // Adds to an error which tensor it is about.
  using AddPlace = std::function<absl::Status(const absl::Status&)>;
  // The elements, one box after the other. `tensor` and the object must outlive the stream. Requires:
  // stored::AreRows(tensor.shape, tensor.boxes).
  std::unique_ptr<ElementStream> OpenRows(const DcpTensor& tensor, AddPlace add_place) const;

 private:
  class RowStream;

  const DcpItems* const items_;
  const TorchReaderOptions options_;
  mutable std::mutex mutex_;
  mutable absl::flat_hash_map<const DcpItem*, std::shared_ptr<const TorchReader>> open_;
};

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_DCP_ITEMS_H_
