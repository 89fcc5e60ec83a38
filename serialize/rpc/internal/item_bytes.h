// The bytes of one item of a Pull, piece by piece: what the server sends.

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_ITEM_BYTES_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_ITEM_BYTES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/rpc/tensor_source.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::rpc {

struct ItemRequest {
  std::string name;
  std::optional<TensorSlice> slice;
  bool as_message = false;
  bool metadata_alone = false;
  bool file_metadata = false;  // no tensor
  uint64_t offset = 0;

  // Its pieces say how many bytes it has.
  bool is_message() const { return as_message || metadata_alone || file_metadata; }
};

class ItemBytes {
 public:
  // At most kPieceBytes, whole elements if they are those of elements. They stay as they are while `held` exists.
  struct Piece {
    absl::string_view bytes;
    std::shared_ptr<const void> held;
  };

  virtual ~ItemBytes() = default;
  // The next piece; no bytes at the end. One caller at a time. Errors: those of the archive.
  virtual absl::StatusOr<Piece> Next() = 0;
  virtual uint64_t total_bytes() const = 0;
};

// Memory besides that of the tensors is charged to `memory`, which outlives the result.
// Errors, which are for the client: NotFound for an unknown name; InvalidArgument for elements without a fixed size
// that are not wanted as a message, and for an offset inside an element; OutOfRange for a slice outside the tensor and
// an offset past the end; ResourceExhausted past `memory`; those of the archive.
absl::StatusOr<std::unique_ptr<ItemBytes>> OpenItem(const TensorSnapshot& snapshot, const ItemRequest& item,
                                                    DecodeQuota* memory);

// The bytes of a message that is there.
std::unique_ptr<ItemBytes> MessageItem(std::string message);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_ITEM_BYTES_H_
