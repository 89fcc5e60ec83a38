// The parts of one received frame (FORMAT.md section 2). Internal to this room.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_RECEIVED_FRAME_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_RECEIVED_FRAME_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask::exchange {

struct ReceivedFrame {
  FrameHeader header;
  absl::string_view body;         // valid until the next frame is received
  absl::string_view inline_data;  // begins at a multiple of kInlineAlignment
  RefPtr<TensorBuffer> memory;    // holds the inline data; may be null without inline data
  std::vector<ScopedDescriptor> descriptors;
};

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_RECEIVED_FRAME_H_
