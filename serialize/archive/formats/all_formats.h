// All formats of this library, for programs that take any file: the command line, Python. Links all of them.
//
//   const AllFormats formats;
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenArchive(path, formats.list()));

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ALL_FORMATS_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ALL_FORMATS_H_

#include <vector>

#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/formats/checkpoint_format.h"
#include "tensorcask/serialize/archive/formats/gguf_format.h"
#include "tensorcask/serialize/archive/formats/npy_format.h"
#include "tensorcask/serialize/archive/formats/onnx_format.h"
#include "tensorcask/serialize/archive/formats/records_format.h"
#include "tensorcask/serialize/archive/formats/safetensors_format.h"
#include "tensorcask/serialize/archive/formats/tensorproto_format.h"
#include "tensorcask/serialize/archive/formats/torch_format.h"

namespace tensorcask {

class AllFormats {
 public:
  AllFormats();
  AllFormats(const AllFormats&) = delete;  // the list points to the members
  AllFormats& operator=(const AllFormats&) = delete;

  ArchiveFormats list() const { return list_; }

 private:
  const CheckpointArchiveFormat checkpoint_;
  const TensorProtoArchiveFormat tensorproto_;
  const RecordsArchiveFormat records_;
  const SafetensorsArchiveFormat safetensors_;
  const NpyArchiveFormat npy_;
  const NpzArchiveFormat npz_;
  const GgufArchiveFormat gguf_;
  const TorchArchiveFormat torch_;
  const OnnxArchiveFormat onnx_;
  std::vector<const ArchiveFormat*> list_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ALL_FORMATS_H_
