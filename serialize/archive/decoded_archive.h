// An archive whose tensors are in memory: those of a message, which is decoded as a whole, or those of a pipe.
//
//   KeptTensors kept;
//   kept.Add({DescribeTensor("w", decoded), decoded});   // a DecodedTensor
//   kept.SortByName();
//   std::unique_ptr<ArchiveReader> archive =
//       MakeDecodedArchive("records", "stdin", std::move(kept), /*has_names=*/true);

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_DECODED_ARCHIVE_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_DECODED_ARCHIVE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

// A tensor that is kept among many. One that has nothing but row-major elements takes 40 bytes besides its buffer.
class KeptTensor {
 public:
  explicit KeptTensor(DecodedTensor tensor);
  DecodedTensor Get() const;
  static uint64_t MemoryOf(const DecodedTensor& tensor);  // the bytes of the KeptTensor, without those of the buffer

 private:
  Tensor plain_;
  std::unique_ptr<const DecodedTensor> other_;  // null: plain_ is all of it
};

// Entries, and their tensors in the same order.
struct KeptTensors {
  std::vector<ArchiveEntry> entries;
  std::vector<KeptTensor> tensors;

  void Add(NamedRecord record);
  void SortByName();  // those of one name stay in their order
};

// `path` is for error messages. A tensor whose metadata_status is an error is listed and read; Metadata returns that
// error. `has_names` as in ArchiveReader. Requires: the names differ.
std::unique_ptr<ArchiveReader> MakeDecodedArchive(absl::string_view format, std::string path, KeptTensors tensors,
                                                  bool has_names);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_DECODED_ARCHIVE_H_
