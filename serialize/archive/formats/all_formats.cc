#include "tensorcask/serialize/archive/formats/all_formats.h"

namespace tensorcask {

AllFormats::AllFormats()
    : list_({&checkpoint_, &tensorproto_, &records_, &safetensors_, &npy_, &npz_, &gguf_, &torch_, &onnx_}) {}

}  // namespace tensorcask
