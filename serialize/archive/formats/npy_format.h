// NumPy's files as archive formats: npy (one array, or the fields of one) and npz (arrays by name).
//
//   const NpyArchiveFormat npy;
//   const NpzArchiveFormat npz;
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenArchive("model.npz", {&npy, &npz}));   // archive.h
//
// The array of an npy file is named after the file. Dtypes that NumPy lacks (float8, int4, ...) are stored only if
// ArchiveWriterOptions::store_opaquely is set, and read only with NpyFormatOptions::dtype_of_opaque_elements.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_NPY_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_NPY_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/serialize/values/file_edits.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask {

struct NpyFormatOptions {
  // The dtype of elements that a file calls opaque (NpyReaderOptions::dtype_of_opaque_elements).
  DType dtype_of_opaque_elements = DType::kInvalid;
};

// What npy and npz have in common. Not a format by itself.
class NumpyArchiveFormat : public ArchiveFormat {
 public:
  bool HoldsDType(DType dtype) const override;
  bool StoresAsRawBytes(DType dtype) const override;
  bool HoldsMetadata(const TensorMetadata& metadata) const override;
  absl::Status CheckEntry(const ArchiveEntry& entry) const override;
  absl::Status CheckStrings(const TensorView& strings) const override;

 protected:
  explicit NumpyArchiveFormat(const NpyFormatOptions& options) : options_(options) {}

  const NpyFormatOptions options_;
};

class NpyArchiveFormat final : public NumpyArchiveFormat {
 public:
  explicit NpyArchiveFormat(const NpyFormatOptions& options = {}) : NumpyArchiveFormat(options) {}

  absl::string_view name() const override { return "npy"; }
  std::vector<absl::string_view> extensions() const override { return {".npy"}; }
  ArchiveTraits traits() const override;
  bool Recognizes(const ArchiveProbe& probe) const override;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                        const ArchiveWriterOptions& options) const override;
};

// With ArchiveWriterOptions::level above kStored, the members are deflated.
class NpzArchiveFormat final : public NumpyArchiveFormat {
 public:
  explicit NpzArchiveFormat(const NpyFormatOptions& options = {}) : NumpyArchiveFormat(options) {}

  absl::string_view name() const override { return "npz"; }
  std::vector<absl::string_view> extensions() const override { return {".npz"}; }
  ArchiveTraits traits() const override;
  absl::Status CheckEntry(const ArchiveEntry& entry) const override;
  bool Recognizes(const ArchiveProbe& probe) const override;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
  // Lists the members without the directory.
  absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenDamaged(const std::string& path,
                                                             const ArchiveReaderOptions& options) const override;
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                        const ArchiveWriterOptions& options) const override;
  absl::StatusOr<FileEditResult> Edit(const std::string& path, const FileEdits& edits,
                                      const FileEditOptions& options) const override;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_NPY_FORMAT_H_
