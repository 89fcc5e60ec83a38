// The grids of the types iq1_*, iq2_* and iq3_*: a code of a block is the number of a row, which has the values of 8 or
// 4 elements.
//
// A row of kIq2* and kIq1S has 8 elements of two bits, one of kIq3* has 4 elements of three; the first element has the
// lowest bits. The bits choose a value: 8, 25 or 43 for iq2; -1, 0 or 1 for iq1; 1, 3, 5, 7, 9, 11, 13 or 15 for iq3_s;
// 4, 12, 20, 28, 36, 44, 52 or 62 for iq3_xxs.

#ifndef TENSORCASK_SERIALIZE_GGUF_INTERNAL_GRID_ROWS_H_
#define TENSORCASK_SERIALIZE_GGUF_INTERNAL_GRID_ROWS_H_

#include <cstdint>

namespace tensorcask::gguf {

extern const uint16_t kIq2XxsRows[256];
extern const uint16_t kIq2XsRows[512];
extern const uint16_t kIq2SRows[1024];
extern const uint16_t kIq3XxsRows[256];
extern const uint16_t kIq3SRows[512];
extern const uint16_t kIq1SRows[2048];  // for iq1_m, too

}  // namespace tensorcask::gguf

#endif  // TENSORCASK_SERIALIZE_GGUF_INTERNAL_GRID_ROWS_H_
