// What an ONNX file says about one tensor.
//
//   for (const OnnxEntry& entry : reader.entries()) {   // onnx_reader.h
//     std::cout << entry.name << " " << DTypeName(entry.dtype) << " " << entry.shape << "\n";
//   }

#ifndef TENSORCASK_SERIALIZE_ONNX_ENTRY_H_
#define TENSORCASK_SERIALIZE_ONNX_ENTRY_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

struct OnnxEntry {
  // How the file stores the elements.
  enum class Form : uint8_t {
    kPlain,   // as in memory
    kPacked,  // below 8 bits, packed
    kValues,  // as numbers or strings of protobuf, one by one
  };

  std::string name;  // unique in the file: onnx_reader.h
  DType dtype = DType::kInvalid;
  TensorShape shape;
  int64_t data_type = 0;  // ONNX's number (dtypes.h)
  Form form = Form::kPlain;
  std::string side_file;      // the path of the file that has the elements; "": the file that was opened
  int side_file_number = 0;   // its position in OnnxReader::side_files, from 1; 0: the file that was opened
  uint64_t offset = 0;        // the first byte of the elements in that file; for kValues: of the tensor's message
  uint64_t stored_bytes = 0;  // the size in that file
  std::string part_of;        // "w" for the parts "w.values" and "w.indices" of a sparse tensor
  // Not OK: the tensor is only listed, and every Read fails for this reason. Unimplemented: a data type that is not
  // known (`dtype` is kInvalid), or strings in a side file. DataLoss: what the file says about its side file is
  // refused.
  absl::Status read_status;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ONNX_ENTRY_H_
