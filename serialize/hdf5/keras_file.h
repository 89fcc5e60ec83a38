// Opens a model that Keras 3 saved, NAME.keras: a zip archive of model.weights.h5, config.json and metadata.json.
//
//   CASK_ASSIGN_OR_RETURN(KerasFile model, OpenKerasFile("model.keras"));
//   CASK_ASSIGN_OR_RETURN(Tensor kernel, model.weights.Read("layers/dense/vars/0"));
//   model.texts["config.json"]                              // what the layers are; nothing of it is run or imported

#ifndef TENSORCASK_SERIALIZE_HDF5_KERAS_FILE_H_
#define TENSORCASK_SERIALIZE_HDF5_KERAS_FILE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/hdf5/hdf5_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/zip/zip_member.h"

namespace tensorcask {

struct KerasFile {
  Hdf5Reader weights;
  std::map<std::string, std::string> texts;  // the .json files of the archive, by their names
  std::vector<std::string> notes;            // sentences about what else the archive has
  // The archive, and its member with the weights, which has a checksum.
  std::shared_ptr<const ByteSource> archive;
  ZipMember member;
};

// True if a file that begins with these bytes may be such a model.
bool LooksLikeKerasFile(absl::string_view first_bytes);

// Texts are compared with their checksums, weights are not, unless they are deflated: VerifyWeights does that.
// Errors, naming the file: those of ReadZipDirectory (serialize/zip/zip_directory.h) and Hdf5Reader::Open; DataLoss if
// there are no weights, or if a member does not match its checksum; ResourceExhausted past a limit.
absl::StatusOr<KerasFile> OpenKerasFile(const std::string& path, const Hdf5ReaderOptions& options = {});

// Reads all weights and compares their checksum. Errors: DataLoss, naming file and member; those of the source.
absl::Status VerifyWeights(const KerasFile& model);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_HDF5_KERAS_FILE_H_
