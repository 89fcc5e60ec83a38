// Files that hold one message with one tensor: what the binary and the text form share, and how the binary form is
// written and read in blocks.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_MESSAGE_FILE_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_MESSAGE_FILE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"

namespace tensorcask {

// The traits of these formats: one tensor, of any dtype, with metadata.
ArchiveTraits MessageTraits();

// Reads the file, at most `max_bytes`, and decodes it: file and tensor are in memory. The tensor gets the name of the
// file (NameFromPath).
absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenMessageFile(
    absl::string_view format, const std::string& path, uint64_t max_bytes, const ArchiveReaderOptions& options,
    absl::FunctionRef<absl::StatusOr<DecodedTensor>(absl::string_view, const DecodeOptions&)> decode);

// The same for a file that is open.
absl::StatusOr<std::unique_ptr<ArchiveReader>> ReadMessageFile(
    absl::string_view format, const ByteSource& file, uint64_t max_bytes, const ArchiveReaderOptions& options,
    absl::FunctionRef<absl::StatusOr<DecodedTensor>(absl::string_view, const DecodeOptions&)> decode);

// Writes the message of the tensor that is added, as `encode` makes it, to the file at `path`.
using MessageEncoder = std::function<absl::Status(const DecodedTensor&, const EncodeOptions&, ByteSink*)>;
absl::StatusOr<std::unique_ptr<ArchiveWriter>> CreateMessageFile(const std::string& path,
                                                                 const ArchiveWriterOptions& options,
                                                                 MessageEncoder encode);
// A file with one serialized TensorProto. Row-major tensors of elements of a fixed size are written in slices, unless
// options.level is above kStored.
absl::StatusOr<std::unique_ptr<ArchiveWriter>> CreateTensorProtoFile(const std::string& path,
                                                                     const ArchiveWriterOptions& options);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_MESSAGE_FILE_H_
