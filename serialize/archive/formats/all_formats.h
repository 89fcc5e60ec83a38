// All formats of this library, for programs that take any file: the command line, Python. Links all of them.
//
//   const AllFormats formats;
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenArchive(path, formats.list()));
//
// With options of single formats:
//
//   FormatOptions options;
//   options.onnx.constants = true;
//   const AllFormats with_constants(options);
//
// This is the one list of formats and of their options. A program takes from it what its flags or arguments are, and
// what its help says.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ALL_FORMATS_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ALL_FORMATS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/formats/checkpoint_format.h"
#include "tensorcask/serialize/archive/formats/dcp_format.h"
#include "tensorcask/serialize/archive/formats/gguf_format.h"
#include "tensorcask/serialize/archive/formats/hdf5_format.h"
#include "tensorcask/serialize/archive/formats/npy_format.h"
#include "tensorcask/serialize/archive/formats/onnx_format.h"
#include "tensorcask/serialize/archive/formats/records_format.h"
#include "tensorcask/serialize/archive/formats/safetensors_format.h"
#include "tensorcask/serialize/archive/formats/tensorproto_format.h"
#include "tensorcask/serialize/archive/formats/torch_format.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

// What the constructors of the formats take.
struct FormatOptions {
  CheckpointFormatOptions checkpoint;
  SafetensorsFormatOptions safetensors;
  NpyFormatOptions npy;  // npy, npz and hdf5
  GgufFormatOptions gguf;
  TorchFormatOptions torch;  // torch and dcp
  OnnxFormatOptions onnx;
};

class AllFormats {
 public:
  // `others` are formats of the program itself. The list has them after those of the library.
  explicit AllFormats(const FormatOptions& options = {}, std::vector<std::unique_ptr<const ArchiveFormat>> others = {});
  AllFormats(const AllFormats&) = delete;  // the list points to the members
  AllFormats& operator=(const AllFormats&) = delete;

  ArchiveFormats list() const { return list_; }

 private:
  const FormatOptions options_;
  const CheckpointArchiveFormat checkpoint_{options_.checkpoint};
  const TensorProtoArchiveFormat tensorproto_;
  const RecordsArchiveFormat records_;
  const SafetensorsArchiveFormat safetensors_{options_.safetensors};
  const NpyArchiveFormat npy_{options_.npy};
  const NpzArchiveFormat npz_{options_.npy};
  const GgufArchiveFormat gguf_{options_.gguf};
  const TorchArchiveFormat torch_{options_.torch};
  const DcpArchiveFormat dcp_{options_.torch};
  const OnnxArchiveFormat onnx_{options_.onnx};
  const Hdf5ArchiveFormat hdf5_{options_.npy};
  std::vector<const ArchiveFormat*> list_ = {&checkpoint_, &tensorproto_, &records_, &safetensors_, &npy_, &npz_,
                                             &gguf_,       &torch_,       &dcp_,     &onnx_,        &hdf5_};
  const std::vector<std::unique_ptr<const ArchiveFormat>> others_;
};

// An option of FormatOptions that users can give.
struct FormatOption {
  template <typename T>
  using Field = T* (*)(FormatOptions*);
  enum class Use { kReading, kWriting };

  absl::string_view name;  // the tool's, without the dashes: "shard-size"; that of a flag says what changes: "no-links"
  absl::string_view keyword;               // Python's; "" if Python needs none
  std::vector<absl::string_view> formats;  // ArchiveFormat::name of those that have it
  Use use;
  absl::string_view what;  // for help texts
  // Where the value is. A bool: the flag of the tool is the other value than that of a new FormatOptions. A uint64_t:
  // bytes. A string: a path. An optional string: a flag of the tool that may have a name after it, --external=NAME.
  std::variant<Field<bool>, Field<DType>, Field<uint64_t>, Field<std::string>, Field<std::optional<std::string>>> field;
};

// All options, in the order of help texts.
absl::Span<const FormatOption> FormatOptionList();

// The reading options of the first and the writing options of the second. A program that copies gives them to the
// format of the copy, because the names of tensors depend on how they were read.
FormatOptions ForCopies(FormatOptions reading, FormatOptions writing);

// A sentence about an option that belongs to other formats; `called` is how the user wrote it: "--shard-size is for
// safetensors files, not for an npz file". "": the option is one of this format.
std::string NotForFormat(const FormatOption& option, absl::string_view called, const ArchiveFormat& format);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ALL_FORMATS_H_
