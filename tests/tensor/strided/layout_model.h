// A tensor's geometry without strides: a list of places, one for each index in row-major order.
//
//   Model model = Model::Of(layout);
//   Model turned = model.Rearranged({3, 2}, [](const Numbers& index, Numbers* from) { *from = {index[1], index[0]}; });
//   EXPECT_EQ(Model::Of(*layout.Transpose(0, 1)), turned);

#ifndef TENSORCASK_TESTS_TENSOR_STRIDED_LAYOUT_MODEL_H_
#define TENSORCASK_TESTS_TENSOR_STRIDED_LAYOUT_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::testing {

using Numbers = std::vector<int64_t>;

inline int64_t Product(const Numbers& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<int64_t>());
}

// Steps `index` to the next one of `dims`, row-major; false after the last.
inline bool Next(const Numbers& dims, Numbers* index) {
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (++(*index)[axis] < dims[axis]) return true;
    (*index)[axis] = 0;
  }
  return false;
}

// The number of `index` among those of `dims`.
inline size_t Position(const Numbers& dims, const Numbers& index) {
  int64_t position = 0;
  for (size_t axis = 0; axis < dims.size(); ++axis) position = position * dims[axis] + index[axis];
  return static_cast<size_t>(position);
}

struct Model {
  Numbers dims;
  Numbers places;  // positions of the elements, row-major

  static Model Of(const Layout& layout) {
    Model model;
    model.dims.assign(layout.dims().begin(), layout.dims().end());
    if (Product(model.dims) == 0) return model;
    Numbers index(model.dims.size(), 0);
    do {
      int64_t place = layout.offset();
      for (size_t axis = 0; axis < index.size(); ++axis) place += index[axis] * layout.strides()[axis];
      model.places.push_back(place);
    } while (Next(model.dims, &index));
    return model;
  }

  // Other dims; source(index, &from) fills in the index here of the element at `index` there.
  template <typename Source>
  Model Rearranged(const Numbers& new_dims, Source&& source) const {
    Model result = {new_dims, {}};
    if (Product(new_dims) == 0) return result;
    Numbers index(new_dims.size(), 0);
    Numbers from(dims.size());
    do {
      source(index, &from);
      result.places.push_back(places[Position(dims, from)]);
    } while (Next(new_dims, &index));
    return result;
  }

  bool operator==(const Model& other) const { return dims == other.dims && places == other.places; }

  // True if some strides give these places.
  bool IsStrided() const {
    if (places.empty()) return true;
    Numbers strides(dims.size(), 0);
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      if (dims[axis] == 1) continue;
      Numbers second(dims.size(), 0);
      second[axis] = 1;
      strides[axis] = places[Position(dims, second)] - places[0];
    }
    Numbers index(dims.size(), 0);
    size_t i = 0;
    do {
      int64_t place = places[0];
      for (size_t axis = 0; axis < dims.size(); ++axis) place += index[axis] * strides[axis];
      if (places[i++] != place) return false;
    } while (Next(dims, &index));
    return true;
  }
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_TENSOR_STRIDED_LAYOUT_MODEL_H_
