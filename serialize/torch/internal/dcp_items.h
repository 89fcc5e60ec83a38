// The files of torch.save inside the files of a distributed checkpoint.
//
//   CASK_ASSIGN_OR_RETURN(DcpItems items, DcpItems::Of("/run/.metadata", options));
//   CASK_RETURN_IF_ERROR(items.Check(item));                    // the file is there, and long enough
//   CASK_ASSIGN_OR_RETURN(const auto reader, items.Open(item, &quota)); // its one tensor, or a value
//
// A checkpoint has as many files as a job has ranks, or more. Those that were read last are open.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_DCP_ITEMS_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_DCP_ITEMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/contained_folder.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/torch/internal/dcp_metadata.h"
#include "tensorcask/serialize/torch/torch_reader.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask::torch {

class OpenFiles;

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
  static bool IsCompressed(const DcpItem& item) { return !item.transforms.empty(); }

  const ContainedFolder& folder() const { return *folder_; }
  std::string PathOf(const DcpItem& item) const { return folder_->PathOf(item.file); }
  std::vector<std::string> files() const;  // that are there, sorted

 private:
  struct File {
    std::shared_ptr<const ByteSource> source;
    absl::Status status;
  };

  DcpItems(ContainedFolder folder, const TorchReaderOptions& options);

  absl::Status Look(const std::string& name, File* file);

  std::shared_ptr<const ContainedFolder> folder_;
  std::shared_ptr<OpenFiles> open_;
  TorchReaderOptions options_;
  std::map<std::string, File> files_;  // by name
};

// All of `source`, which is one frame of zstd or several. Memory grows with the bytes that are decoded, which are
// charged to `quota`. Errors, after which nothing is charged: DataLoss if a frame is damaged or cut short;
// ResourceExhausted past max_expansion times the stored bytes or past the quota; those of the source.
absl::StatusOr<RefPtr<TensorBuffer>> DecodeZstd(const ByteSource& source, const DecodeLimits& limits,
                                                DecodeQuota* quota);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_DCP_ITEMS_H_
