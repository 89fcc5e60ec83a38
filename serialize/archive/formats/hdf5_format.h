// HDF5 files, as Keras writes them, and models of Keras 3 (.keras) as an archive format. They are read, not written.
//
//   const Hdf5ArchiveFormat hdf5;
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenArchive("model.keras", {&hdf5}));   // archive.h

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_HDF5_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_HDF5_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/formats/npy_format.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

class Hdf5ArchiveFormat final : public ArchiveFormat {
 public:
  // The options of NumPy's files: h5py stores NumPy's dtypes.
  explicit Hdf5ArchiveFormat(const NpyFormatOptions& options = {}) : options_(options) {}

  absl::string_view name() const override { return "hdf5"; }
  std::vector<absl::string_view> extensions() const override { return {".h5", ".hdf5", ".keras"}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType dtype) const override { return dtype != DType::kInvalid; }
  bool Recognizes(const ArchiveProbe& probe) const override;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;

 private:
  const NpyFormatOptions options_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_HDF5_FORMAT_H_
