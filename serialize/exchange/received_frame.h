// What came with one frame (FORMAT.md section 2). Internal to this room.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_RECEIVED_FRAME_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_RECEIVED_FRAME_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/exchange/frame.h"
#include "tensorcask/serialize/exchange/scoped_descriptor.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask::exchange {

struct ReceivedFrame {
  FrameHead head;
  absl::string_view body;         // there until the next frame is received
  absl::string_view inline_data;  // begins at a multiple of kInlineAlignment
  RefPtr<TensorBuffer> memory;    // of the inline data; may be null if there are none
  std::vector<ScopedDescriptor> descriptors;
};

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_RECEIVED_FRAME_H_
