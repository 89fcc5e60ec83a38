// Record files (TFRecord) of TensorProto messages as an archive format. The name of a tensor is in its metadata.
//
//   const RecordsArchiveFormat records;
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenArchive("tensors.tfrecord", {&records}));   // archive.h
//   CASK_ASSIGN_OR_RETURN(auto piped, ReadRecordStream(MakeDescriptorStream(STDIN_FILENO, "stdin"), {}));
//
// Opening reads the file once, one record at a time. Of records of 4 MiB and more it reads only the fields around the
// elements, without a check of their checksum: that is checked when the elements are read, in blocks or as a whole.
// Until then, damage of the name, dtype or shape of such a record is listed as a tensor of another name, dtype or
// shape. A record is held in memory as a whole if its elements are not row-major content (strings, values in typed
// fields, strides, payloads).

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_RECORDS_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_RECORDS_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/io/byte_stream.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

class RecordsArchiveFormat final : public ArchiveFormat {
 public:
  absl::string_view name() const override { return "records"; }
  std::vector<absl::string_view> extensions() const override { return {".tfrecord", ".tfrecords", ".records"}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType /*dtype*/) const override { return true; }
  bool Recognizes(const ArchiveProbe& probe) const override;
  // Errors: also DataLoss if two records have the same name, and for a file without records: it may be cut short.
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                        const ArchiveWriterOptions& options) const override;
};

// Reads all tensors of a stream of records into memory: for a pipe, which can be read only once. All records together
// have at most `max_bytes` bytes; one past that is refused before its bytes are read.
// Errors: those of RecordsArchiveFormat::Open; ResourceExhausted past options.limits.max_file_decoded_bytes and
// `max_bytes`.
absl::StatusOr<std::unique_ptr<ArchiveReader>> ReadRecordStream(std::unique_ptr<ByteStream> stream,
                                                                const ArchiveReaderOptions& options,
                                                                uint64_t max_bytes = UINT64_MAX);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_RECORDS_FORMAT_H_
