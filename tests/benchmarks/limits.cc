#include "tensorcask/tests/benchmarks/limits.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/simd.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask::benchmarks {
namespace {

constexpr int64_t kLine = 64;  // bytes

// Moves `lines` lines, and prefetches what lies `ahead` bytes after those of the source.
using MoveLines = void (*)(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t lines,
                           int64_t ahead);

void Prefetch(const char* from, int64_t ahead) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(from) + static_cast<uintptr_t>(ahead)),
                     0, 2);
}

#if defined(__x86_64__)
void MoveBy16(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t lines, int64_t ahead) {
  for (; lines > 0; --lines, from += from_step, to += to_step) {
    Prefetch(from, ahead);
    for (int i = 0; i < kLine; i += 16) {
      const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), part);
    }
  }
}

__attribute__((target("avx512f"))) void MoveBy64(const char* from, int64_t from_step, char* to, int64_t to_step,
                                                 int64_t lines, int64_t ahead) {
  for (; lines > 0; --lines, from += from_step, to += to_step) {
    Prefetch(from, ahead);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
  }
}

MoveLines Mover() { return GetCpuFeatures().avx512 ? MoveBy64 : MoveBy16; }
#else
void MoveByCopies(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t lines, int64_t ahead) {
  for (; lines > 0; --lines, from += from_step, to += to_step) {
    Prefetch(from, ahead);
    std::memcpy(to, from, kLine);
  }
}

MoveLines Mover() { return MoveByCopies; }
#endif

// Half of the bytes of two lines.
void MoveLinePair(const char* from, char* to) {
#if defined(__x86_64__)
  const auto* const pair = reinterpret_cast<const __m128i*>(from);
  for (int i = 0; i < 4; ++i) {
    const __m128i low = _mm_unpacklo_epi64(_mm_loadu_si128(pair + 2 * i), _mm_loadu_si128(pair + 2 * i + 1));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, low);
  }
#else
  for (int i = 0; i < 8; ++i) std::memcpy(to + 8 * i, from + 16 * i, 8);
#endif
}

void Finish() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// An axis: its size, and its steps in bytes.
struct Axis {
  int64_t size;
  int64_t from;
  int64_t to;
};

// A transpose of lines: `across` is the axis whose elements are neighbours in the source, `along` the one whose
// elements are neighbours in the destination, both counted in lines. A tile of kLine bytes each way has as many lines
// as elements in a line.
struct Transpose {
  std::vector<Axis> others;
  Axis across;  // lines of the source; `to`: as many rows of the destination
  Axis along;
  int64_t lines_of_tile;
  int64_t from_row;  // from one line of a tile to the next
  int64_t to_row;

  // Tiles in strips: `fast_tiles` of `fast` are moved for each step of `slow`.
  void MovePlane(const char* from, char* to, const Axis& fast, const Axis& slow, int64_t fast_tiles,
                 int64_t ahead) const {
    const MoveLines move = Mover();
    for (int64_t start = 0; start < fast.size; start += fast_tiles) {
      const int64_t end = std::min(fast.size, start + fast_tiles);
      for (int64_t s = 0; s < slow.size; ++s) {
        for (int64_t f = start; f < end; ++f) {
          move(from + s * slow.from + f * fast.from, from_row, to + s * slow.to + f * fast.to, to_row, lines_of_tile,
               ahead);
        }
      }
    }
  }
  void Move(const char* from, char* to, const Axis& fast, const Axis& slow, int64_t fast_tiles, int64_t ahead,
            size_t other = 0) const {
    if (other == others.size()) return MovePlane(from, to, fast, slow, fast_tiles, ahead);
    for (int64_t i = 0; i < others[other].size; ++i) {
      Move(from + i * others[other].from, to + i * others[other].to, fast, slow, fast_tiles, ahead, other + 1);
    }
  }
};

const char* FirstByte(const TensorView& view) {
  return static_cast<const char*>(view.buffer()->data()) + view.offset() * static_cast<int64_t>(view.element_size());
}

Transpose TransposeOf(const TensorView& view) {
  const auto element = static_cast<int64_t>(view.element_size());
  std::vector<Axis> axes(static_cast<size_t>(view.rank()));
  int64_t dense = element;
  for (size_t i = axes.size(); i-- > 0;) {
    const int axis = static_cast<int>(i);
    axes[i] = {view.dim(axis), view.stride(axis) * element, dense};
    dense *= view.dim(axis);
  }
  Transpose result;
  result.along = axes.back();
  axes.pop_back();
  const auto across = std::find_if(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.from == element; });
  CASK_CHECK(across != axes.end(), "LimitLoops: no axis of the source is dense");
  result.across = *across;
  axes.erase(across);
  result.others = std::move(axes);
  result.lines_of_tile = kLine / element;
  result.from_row = result.along.from;
  result.to_row = result.across.to;
  for (Axis* const axis : {&result.across, &result.along}) {
    CASK_CHECK(axis->size % result.lines_of_tile == 0, "LimitLoops: an axis is not whole cache lines");
    *axis = {axis->size / result.lines_of_tile, axis->from * result.lines_of_tile, axis->to * result.lines_of_tile};
  }
  return result;
}

// Every second element of one long row, which is cut into 1, 2 or 4 that are read at the same time.
std::vector<LimitLoop> RowLoops(const TensorView& from) {
  const auto element = static_cast<int64_t>(from.element_size());
  const int64_t lines = from.num_elements() * element / kLine;
  CASK_CHECK(lines % 4 == 0, "LimitLoops: rows of another kind");
  std::vector<LimitLoop> loops;
  for (const int64_t streams : {1, 2, 4}) {
    loops.push_back({absl::StrCat("in ", streams, " streams"), [first = FirstByte(from), lines, streams](void* memory) {
                       char* const to = static_cast<char*>(memory);
                       for (int64_t i = 0; i < lines / streams; ++i) {
                         for (int64_t line = i; line < lines; line += lines / streams) {
                           MoveLinePair(first + line * 2 * kLine, to + line * kLine);
                         }
                       }
                       Finish();
                     }});
  }
  return loops;
}

}  // namespace

std::vector<LimitLoop> LimitLoops(const TensorView& from) {
  if (from.stride(-1) == 2) return RowLoops(from);
  const Transpose transpose = TransposeOf(from);
  const auto loop = [&](const char* name, bool along_is_fast, int64_t fast_tiles, int64_t ahead) {
    return LimitLoop{name, [=, first = FirstByte(from)](void* to) {
                       const Axis& fast = along_is_fast ? transpose.along : transpose.across;
                       const Axis& slow = along_is_fast ? transpose.across : transpose.along;
                       transpose.Move(first, static_cast<char*>(to), fast, slow, fast_tiles, ahead);
                       Finish();
                     }};
  };
  constexpr int64_t kAhead = 2 * kLine;  // in the same rows of the source
  return {loop("along rows of the source", false, INT64_MAX / 2, kAhead),
          loop("in strips of the source", false, 64, kAhead),
          loop("in blocks of the destination", true, 4, 4 * transpose.along.from),
          loop("by two lines of the destination", true, 2, kAhead),
          loop("by eight lines of the destination", true, 8, kAhead)};
}

void WriteInPieces(const std::vector<absl::string_view>& texts, const std::vector<std::string>& paths,
                   size_t piece_bytes) {
  const auto write_file = [&](size_t file) {
    size_t total = 0;
    for (size_t i = file; i < texts.size(); i += paths.size()) total += texts[i].size();
    const int descriptor = open(paths[file].c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    CASK_CHECK(descriptor >= 0, "WriteInPieces: a file cannot be made");
    // Where a file system reserves no space, the library does not get it either.
    if (fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(total)) != 0) errno = 0;
    for (size_t i = file; i < texts.size(); i += paths.size()) {
      uint32_t sum = 0;
      for (size_t done = 0; done < texts[i].size(); done += piece_bytes) {
        const absl::string_view piece = texts[i].substr(done, piece_bytes);
        CASK_CHECK(write(descriptor, piece.data(), piece.size()) == static_cast<ssize_t>(piece.size()),
                   "WriteInPieces: a piece was not written");
        sum = ExtendCrc32c(sum, piece);
      }
      Keep(sum);
    }
    close(descriptor);
  };
  if (paths.size() == 1) return write_file(0);
  std::vector<std::thread> threads;
  for (size_t file = 0; file < paths.size(); ++file) threads.emplace_back(write_file, file);
  for (std::thread& thread : threads) thread.join();
}

void ReadInPieces(const std::string& path, uint64_t offset, const std::vector<absl::Span<char>>& into,
                  size_t piece_bytes, ExtendSum extend, int num_threads) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CASK_CHECK(descriptor >= 0, "ReadInPieces: the file cannot be opened");
  const auto threads = static_cast<size_t>(num_threads);
  const auto read_spans = [&](size_t thread) {
    uint64_t at = offset;
    for (size_t i = 0; i < into.size(); at += into[i++].size()) {
      if (i % threads != thread) continue;
      uint32_t sum = 0;
      for (size_t done = 0; done < into[i].size(); done += piece_bytes) {
        const absl::Span<char> piece = into[i].subspan(done, piece_bytes);
        CASK_CHECK(pread(descriptor, piece.data(), piece.size(), static_cast<off_t>(at + done)) ==
                       static_cast<ssize_t>(piece.size()),
                   "ReadInPieces: a piece was not read");
        if (extend != nullptr) sum = extend(sum, {piece.data(), piece.size()});
      }
      Keep(sum);
    }
  };
  std::vector<std::thread> others;
  for (size_t thread = 1; thread < threads; ++thread) others.emplace_back(read_spans, thread);
  read_spans(0);
  for (std::thread& other : others) other.join();
  close(descriptor);
}

void MapAndSum(const std::string& path, size_t populated_bytes, ExtendSum extend) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CASK_CHECK(descriptor >= 0, "MapAndSum: the file cannot be opened");
  const auto bytes = static_cast<size_t>(lseek(descriptor, 0, SEEK_END));
  void* const memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  CASK_CHECK(memory != MAP_FAILED, "MapAndSum: the file cannot be mapped");
  close(descriptor);
  const absl::string_view text(static_cast<const char*>(memory), bytes);
  uint32_t sum = 0;
  const size_t piece_bytes = populated_bytes > 0 ? populated_bytes : bytes;
  for (size_t done = 0; done < bytes; done += piece_bytes) {
    const absl::string_view piece = text.substr(done, piece_bytes);
#if defined(MADV_POPULATE_READ)
    if (populated_bytes > 0) {
      static_cast<void>(madvise(const_cast<char*>(piece.data()), piece.size(), MADV_POPULATE_READ));  // a hint
    }
#endif
    sum = extend(sum, piece);
  }
  Keep(sum);
  munmap(memory, bytes);
}

}  // namespace tensorcask::benchmarks
