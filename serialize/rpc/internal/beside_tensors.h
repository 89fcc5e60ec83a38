// What a server offers beside its tensors, and a push brings along: the metadata of a file, as text.
//
//   const BesideTensors beside = FromArchive(archive);                    // values become texts, as in safetensors
//   const std::string message = ToMessage(beside.entries, beside.notes);   // a serialized FileMetadata

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_BESIDE_TENSORS_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_BESIDE_TENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask::rpc {

struct BesideTensors {
  FileMetadata entries;
  std::vector<std::string> notes;  // sentences on what is not among the entries, and on aliases that become copies
  std::vector<std::string> lost;   // sentences on objects of classes, which have no text
};

// The metadata and the values of an archive, by the rules for values in metadata of text (archive/convert_archives.h).
// If the values cannot be read, a note says so.
BesideTensors FromArchive(const ArchiveReader& archive);
// What a client should know of all that: with the notes of the archive itself, and with the tensors that cannot be
// read.
std::vector<std::string> NotesOf(const ArchiveReader& archive, const BesideTensors& beside);

// The types of values among texts, by key ("value int"): the lines of the entry "tensorcask.values"
// (archive/convert_archives.h). TakeTypes removes that entry; AddTypes makes it, with the lines of keys that are there.
using ValueTypes = std::map<std::string, std::string>;
ValueTypes TakeTypes(FileMetadata* entries);
void AddTypes(const ValueTypes& types, FileMetadata* entries);

std::string ToMessage(const FileMetadata& entries, const std::vector<std::string>& notes);
// charge(bytes) is called with the memory of each entry and note before it is kept.
// Errors: DataLoss for bytes that are no FileMetadata, and for keys that do not come once and in order; those of
// `charge`.
absl::StatusOr<BesideTensors> FromMessage(absl::string_view message,
                                          absl::FunctionRef<absl::Status(uint64_t bytes)> charge);

// The metadata of a tensor of `rank` axes as the message of one without elements, and back.
// Errors: those of EncodeTensorTo; InvalidArgument for a message with elements or of another dtype; those of
// DecodeSerializedTensorWithMetadata.
absl::StatusOr<std::string> EncodeMetadataAlone(DType dtype, int rank, const TensorMetadata& metadata);
absl::StatusOr<TensorMetadata> DecodeMetadataAlone(absl::string_view message, DType dtype, int rank,
                                                   const DecodeOptions& options);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_BESIDE_TENSORS_H_
