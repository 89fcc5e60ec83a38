// Loads many tensors into memory, or saves many tensors from memory, in one call; memory of the host or of devices.
//
//   // SelectEntries: convert_archives.h
//   const std::vector<const ArchiveEntry*> wanted = SelectEntries(archive->entries(), {"*kernel"}, {});
//   CASK_ASSIGN_OR_RETURN(const std::vector<Tensor> kernels, LoadTensors(*archive, wanted));
//
//   std::vector<TensorToSave> tensors;
//   tensors.push_back({"w", view, {}});
//   CASK_ASSIGN_OR_RETURN(const uint64_t bytes, SaveTensors("model.safetensors", safetensors, tensors, {}));

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_SAVE_LOAD_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_SAVE_LOAD_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

struct LoadOptions {
  bool map = false;     // ArchiveReader::Map instead of Read
  int num_threads = 1;  // each takes one tensor at a time
  // Called after each tensor with the total of bytes so far; false ends with Cancelled. Never on two threads at once.
  std::function<bool(uint64_t bytes)> progress;
};

// The tensors of `entries`, in their order: all of them, or an error.
// Errors: that of the first entry that cannot be read; Cancelled. Requires: the entries are those of `archive`.
absl::StatusOr<std::vector<Tensor>> LoadTensors(const ArchiveReader& archive,
                                                absl::Span<const ArchiveEntry* const> entries,
                                                const LoadOptions& options = {});

struct TensorToLoad {
  std::string name;
  TensorView out;  // has the stored dtype and shape; any strides, on the host or a device
};

// Reads each tensor into its memory (ArchiveReader::ReadInto). After an error the memory of all of them may have been
// written to. Errors: those of LoadTensors; errors of the devices. options.map has no meaning here.
absl::Status LoadTensorsInto(const ArchiveReader& archive, absl::Span<const TensorToLoad> tensors,
                             const LoadOptions& options = {});

struct TensorToSave {
  std::string name;
  TensorView elements;  // have any strides, on the host or a device; stored row-major
  TensorMetadata metadata;
};

struct SaveOptions {
  uint64_t block_bytes = uint64_t{8} << 20;
  // Called after each tensor and each block with the total of bytes so far; false ends with Cancelled.
  std::function<bool(uint64_t bytes)> progress;
};

// Errors: InvalidArgument if `options` has a level above kStored, a base or file metadata that the format cannot hold.
// (ArchiveFormat::Create would ignore it.)
absl::Status CheckWriterOptions(const ArchiveFormat& format, const ArchiveWriterOptions& options);

// Writes the tensors in their order, as a file that appears whole or not at all. Large tensors are written in blocks if
// the format allows that. Returns the size of the files in bytes.
// Errors, and no file appears: those of CheckWriterOptions; InvalidArgument, naming the tensor, for a dtype or metadata
// that the format cannot hold, and unless there is exactly one tensor for a format of one tensor; AlreadyExists if the
// file exists (unless overwriting) or two tensors have one name; Cancelled; those of the format.
absl::StatusOr<uint64_t> SaveTensors(const std::string& path, const ArchiveFormat& format,
                                     absl::Span<const TensorToSave> tensors, const ArchiveWriterOptions& write,
                                     const SaveOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_SAVE_LOAD_H_
