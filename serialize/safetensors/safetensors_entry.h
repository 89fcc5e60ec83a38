// What a safetensors file says about one tensor.
//
//   for (const SafetensorsEntry& entry : reader.entries()) {   // safetensors_reader.h
//     if (!entry.read_status.ok()) std::cerr << entry.name << ": " << entry.read_status << "\n";
//   }

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_SAFETENSORS_ENTRY_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_SAFETENSORS_ENTRY_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kInvalid;
  TensorShape shape;
  int shard = 0;                     // the number of the file that holds the elements, from 0
  uint64_t offset = 0;               // the first byte in that file
  uint64_t stored_bytes = 0;         // the size in the file, where elements below 8 bits are packed
  std::optional<uint32_t> checksum;  // CRC-32C of the stored bytes, if the file has one and its header is unchanged
  // Not empty: `name` is another name of the tensor `alias_of`, whose dtype, shape and bytes it has. Programs that save
  // tied tensors keep one of the names and list the others in the metadata; the reader restores them.
  std::string alias_of;
  // Not OK: the tensor is only listed, and every Read fails for this reason. Unimplemented: its dtype is unknown or it
  // has too many axes (`dtype` is kInvalid, the elements are where `offset` says). DataLoss: the file of the model that
  // has it is missing or damaged, so only its name is known.
  absl::Status read_status;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_SAFETENSORS_ENTRY_H_
