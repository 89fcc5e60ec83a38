// The consumer's own header, with the path and the class name of one of Tensorcask's.
#ifndef TENSOR_SHAPE_H_
#define TENSOR_SHAPE_H_

#include <string>

class TensorShape {
 public:
  std::string Owner() const { return "consumer"; }
};

#endif  // TENSOR_SHAPE_H_
