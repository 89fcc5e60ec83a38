// The object header of a group or dataset: the messages that describe it, of versions 1 and 2.
//
//   CASK_ASSIGN_OR_RETURN(const std::vector<Message> header, ReadObjectHeader(address, &file));
//   if (const Message* space = Find(header, MessageType::kDataspace)) ...

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_OBJECT_HEADER_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_OBJECT_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/hdf5/internal/file.h"

namespace tensorcask::hdf5 {

enum class MessageType {
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kOldFillValue = 0x04,
  kFillValue = 0x05,
  kLink = 0x06,
  kExternalFiles = 0x07,
  kLayout = 0x08,
  kFilters = 0x0b,
  kAttribute = 0x0c,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kAttributeInfo = 0x15,
};

struct Message {
  int type = 0;            // a MessageType, or another one
  bool is_shared = false;  // the body says where the message is
  uint64_t position = 0;   // where the body is, in the source
  std::string body;
};

// All messages but empty ones and continuations, in the order of the file. Errors, which name the address: DataLoss if
// a rule is broken; Unimplemented for another version, or a message that a reader must know.
absl::StatusOr<std::vector<Message>> ReadObjectHeader(uint64_t address, File* file);

// The first message of the type; null if there is none.
const Message* Find(const std::vector<Message>& header, MessageType type);

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_OBJECT_HEADER_H_
