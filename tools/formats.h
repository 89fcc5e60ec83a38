// The formats that the tool reads and writes, behind two small interfaces.
//
//   CASK_ASSIGN_OR_RETURN(std::unique_ptr<Input> input, OpenInput("model.ckpt", {}));
//   for (const TensorInfo& info : input->tensors()) ...
//
// "unix:SOCKET" names the tensors of a `tensorcask serve`. Checkpoints and record files are recognized by their
// content. A bare protobuf message cannot be recognized: the user names its format.

#ifndef TENSORCASK_TOOLS_FORMATS_H_
#define TENSORCASK_TOOLS_FORMATS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/reader.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::tools {

inline constexpr char kCheckpoint[] = "checkpoint";
inline constexpr char kTensorProto[] = "tensorproto";
inline constexpr char kTensorProtoText[] = "tensorproto-text";
inline constexpr char kRecords[] = "records";
inline constexpr char kServed[] = "served";  // recognized by the path, never named by the user
inline constexpr const char* kFormats[] = {kCheckpoint, kTensorProto, kTensorProtoText, kRecords};

// Errors: InvalidArgument, listing all formats, unless `format` is one of them or empty.
absl::Status CheckFormat(absl::string_view format);

struct TensorInfo {
  std::string name;
  DType dtype = DType::kInvalid;
  TensorShape shape;
  std::string encoding;                   // "plain", "sliced", "encoded high delta", ...
  int pieces = 0;                         // of a sliced one
  std::vector<int64_t> strides;           // elements; empty: row-major
  bool has_metadata = false;              // Input::Metadata returns it
  uint64_t stored_bytes = 0;              // in the file
  std::optional<uint64_t> decoded_bytes;  // of an encoded one
  std::optional<int> shard;               // if known
  std::optional<uint64_t> offset;
};

// The bytes of the elements in memory. For strings: as stored, or as decoded with 8 bytes for each length.
uint64_t ElementBytes(const TensorInfo& info);

// The description of a tensor outside a checkpoint. Leaves stored_bytes at 0.
TensorInfo DescribeTensor(std::string name, const DecodedTensor& tensor);

class Input {
 public:
  virtual ~Input() = default;
  virtual absl::string_view format() const = 0;
  virtual const std::vector<TensorInfo>& tensors() const = 0;             // by name
  virtual absl::StatusOr<Tensor> Read(absl::string_view name) const = 0;  // row-major
  // Reads only the bytes of the slice if the format allows it.
  virtual absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const = 0;
  virtual absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const = 0;  // and with its strides
  // The same without the metadata that cannot be read. By default that is all metadata, and the strides.
  virtual absl::StatusOr<DecodedTensor> ReadWithReadableMetadata(absl::string_view name) const;
  virtual absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const = 0;
  // The objects that TensorFlow saved, as lines. Errors: InvalidArgument for a format without objects; NotFound.
  virtual absl::StatusOr<std::string> DrawObjects() const = 0;
  virtual int num_shards() const { return 1; }
  // Errors: DataLoss, naming the first missing file.
  virtual absl::Status CheckFiles() const { return absl::OkStatus(); }
};

struct InputOptions {
  std::string format;  // one of kFormats; "": recognize it
  std::string base;    // the path of the base checkpoint of deltas; "": none
  // Otherwise a tensor whose metadata cannot be read is listed, and Input::Read gives its elements.
  bool refuse_unreadable_metadata = false;
};

// Errors: InvalidArgument as CheckFormat; NotFound; DataLoss; for a checkpoint also those of its base.
absl::StatusOr<std::unique_ptr<Input>> OpenInput(const std::string& path, const InputOptions& options);
absl::StatusOr<CheckpointReader> OpenCheckpoint(const std::string& path, const std::string& base);
// Returns null for "".
absl::StatusOr<std::shared_ptr<const BaseLookup>> OpenBase(const std::string& path);

struct OutputOptions {
  int num_shards = 1;
  uint64_t alignment = 64;
  bool overwrite = false;
  PayloadLevel level = PayloadLevel::kStored;
  int num_threads = 1;  // of a checkpoint; the bytes do not depend on it
  std::string base;     // the path of the checkpoint that encoded tensors become deltas of; "": none
};

class Output {
 public:
  virtual ~Output() = default;
  // Adds the tensor with its metadata and strides.
  virtual absl::Status Add(const TensorInfo& info, const DecodedTensor& tensor) = 0;
  virtual absl::Status Finish() = 0;  // makes the file appear at its path
};

// The output format for the name of a file: .pb, .pbtxt and .textproto are messages, .tfrecord and .records are record
// files, any other name is the prefix of a checkpoint.
absl::string_view FormatForName(absl::string_view path);
// False for messages, which hold one tensor.
bool HoldsManyTensors(absl::string_view format);

// Errors: Misuse (console.h) for a base and a level in a format that has no deltas; those of the format.
absl::StatusOr<std::unique_ptr<Output>> CreateOutput(const std::string& path, absl::string_view format,
                                                     const OutputOptions& options);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_FORMATS_H_
