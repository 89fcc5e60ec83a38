// How NpyWriter and NpzWriter store the elements of an array.
//
//   NpyWriterOptions options;
//   options.format.order = NpyOrder::kColumnMajor;      // as np.asfortranarray
//   options.format.strings = NpyStrings::kUnicode;      // "U5"
//   CASK_RETURN_IF_ERROR(WriteNpy("/data/weights.npy", weights, options));

#ifndef TENSORCASK_SERIALIZE_NPY_ARRAY_FORMAT_H_
#define TENSORCASK_SERIALIZE_NPY_ARRAY_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>

#include "absl/strings/string_view.h"

namespace tensorcask {

// The most axes that NumPy reads.
inline constexpr int kMaxNpyRank = 64;

// What follows the name of an array in the name of its member: "w.npy" in an npz file has the array "w".
inline constexpr absl::string_view kNpzSuffix = ".npy";

enum class NpyOrder {
  kRowMajor,     // the last axis varies fastest (C order)
  kColumnMajor,  // the first axis varies fastest (Fortran order)
  kPreserve,     // column-major for a view that is column-major in memory, row-major for all others
};

enum class NpyStrings {
  kBytes,    // "S5": any bytes
  kUnicode,  // "U5": 4 bytes a code point; the strings must be UTF-8
};

struct NpyFormat {
  NpyOrder order = NpyOrder::kRowMajor;
  bool big_endian = false;
  // With kBytes, a tensor whose kNpyDescrAttribute says "U" is stored as kUnicode, if its strings are UTF-8.
  // Strings are padded with NUL bytes to the longest one. A string that ends in a NUL byte is refused, since readers
  // cannot tell it from padding.
  NpyStrings strings = NpyStrings::kBytes;
  // bfloat16 is stored as ml_dtypes does ("<V2": NumPy gives opaque elements of two bytes, `array.view(bfloat16)` gives
  // numbers). false: the other dtypes that NumPy lacks (float8, int4, quantised, ...) are refused, since the file would
  // not say which dtype it holds. true: they are stored as opaque elements, "<V1", "<V4", which a reader with
  // NpyReaderOptions::dtype_of_opaque_elements decodes.
  bool store_opaquely = false;
  // The elements begin at a multiple of this many bytes of the file, a power of two from 64 to 16384.
  uint32_t alignment = 64;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_NPY_ARRAY_FORMAT_H_
