#include "tensorcask/tensor/strided/convert.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/internal/axes.h"
#include "tensorcask/tensor/strided/internal/convert_kernels.h"
#include "tensorcask/tensor/strided/internal/copy_few.h"
#include "tensorcask/tensor/strided/internal/copy_kernels.h"
#include "tensorcask/tensor/strided/internal/copy_strided.h"
#include "tensorcask/tensor/strided/internal/few_elements.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

using internal::Axes;
using internal::Axis;
using internal::Conversion;
using internal::FewElements;

constexpr int64_t kTilesInCache = 8;      // for the cache of the second level: a tile of each side stays there
constexpr int64_t kSmallTile = 128;       // elements
constexpr int64_t kLongRun = 64;          // elements
constexpr size_t kStackBytes = 16 << 10;  // room for the tiles of small tensors, and for few elements

using Numbers = absl::InlinedVector<int64_t, 8>;

// A conversion in tiles that fit the cache. The kernels need dense elements. A side on which a tile is dense, or
// consists of long dense runs, is used in place. Otherwise a copy gathers the tile into scratch memory first, or
// scatters it afterwards.
class TiledConversion {
 public:
  // `fresh`: the destination has just been allocated.
  TiledConversion(const TensorView& from, const TensorView& to, bool fresh)
      : conversion_(Conversion::OfThisProcessor(from.dtype(), to.dtype())),
        axes_(OrderedAxes(from, to)),
        from_{from.dtype(), from.offset()},
        to_{to.dtype(), to.offset()} {
    // Large results use non-temporal stores, unless the system has just cleared the memory, which is then in the cache.
    // (Zen 5, time with non-temporal stores over time with ordinary ones, by the size of the result: float32 to
    // bfloat16, 4 MiB 1.7, 8 MiB 1.2, 16 MiB 0.9; to float64, 8 MiB 1.9, 16 MiB 1.3, 32 MiB 0.94.)
    to_.options.fresh = fresh;
    const int64_t bytes = to.num_elements() * (from_.element_size + to_.element_size);
    if (!fresh && bytes > GetCpuTuning().stream_bytes / 2) {
      to_.options.stream_bytes = 0;
      stream_ = to_.kernels;
    }
    if (axes_.empty()) axes_.push_back({1, 1, 1});
    ChooseTile();
    const auto place = [&](Steps steps, Side* side) {
      if (IsDense(steps)) return;
      if (axes_.back().*steps == 1 && extents_.back() >= kLongRun) {
        in_runs_ = true;
      } else {
        side->scratch_bytes = (tile_elements_ * side->element_size + 63) / 64 * 64;
      }
    };
    place(&Axis::from, &from_);
    place(&Axis::to, &to_);
  }

  size_t num_tiles() const { return num_tiles_; }
  // What each thread needs.
  size_t scratch_bytes() const { return static_cast<size_t>(from_.scratch_bytes + to_.scratch_bytes); }

  // Converts tile number `tile`. The bases are the addresses of position 0 of the two views.
  void Run(size_t tile, const void* from_base, void* to_base, char* scratch) const {
    Axes axes = axes_;
    int64_t from = from_.offset;
    int64_t to = to_.offset;
    int64_t count = 1;
    for (size_t i = axes.size(); i-- > 0;) {
      const auto tiles = static_cast<size_t>((axes[i].size - 1) / extents_[i] + 1);
      const int64_t start = static_cast<int64_t>(tile % tiles) * extents_[i];
      tile /= tiles;
      axes[i].size = std::min(extents_[i], axes[i].size - start);
      from += start * axes[i].from;
      to += start * axes[i].to;
      count *= axes[i].size;
    }
    // What is converted: the tile in place, or in scratch memory for the sides that need it.
    Axes converted = axes;
    int64_t source = from;
    int64_t target = to;
    if (from_.scratch_bytes > 0) {
      CopyTile(from_, WithDense(axes, &Axis::to), count, static_cast<const char*>(from_base), from, scratch, 0);
      converted = WithDense(converted, &Axis::from);
      from_base = scratch;
      source = 0;
    }
    char* target_base = static_cast<char*>(to_base);
    if (to_.scratch_bytes > 0) {
      converted = WithDense(converted, &Axis::to);
      target_base = scratch + from_.scratch_bytes;
      target = 0;
    }
    if (!in_runs_) converted = {{count, 1, 1}};
    internal::ForEachRun(converted, source, target, [&](int64_t from, int64_t to, int64_t count, int64_t, int64_t) {
      conversion_.Run(static_cast<const char*>(from_base) + from * from_.element_size,
                      target_base + to * to_.element_size, static_cast<size_t>(count),
                      to_.scratch_bytes > 0 ? nullptr : stream_.stream);
    });
    if (to_.scratch_bytes > 0) {
      CopyTile(to_, WithDense(axes, &Axis::from), count, target_base, 0, static_cast<char*>(to_base), to);
    }
  }
  // Called once after the tiles of a thread.
  void Finish() const {
    if (stream_.finish_stream != nullptr) stream_.finish_stream();
  }

 private:
  using Steps = int64_t Axis::*;

  struct Side {
    Side(DType dtype, int64_t offset)
        : element_size(static_cast<int64_t>(ElementSize(dtype))),
          offset(offset),
          kernels(internal::KernelsFor(ElementSize(dtype), GetCpuFeatures())) {}
    const int64_t element_size;
    const int64_t offset;
    const internal::CopyKernels& kernels;
    internal::CopyStridedOptions options;
    int64_t scratch_bytes = 0;  // the size of a dense tile; 0: tiles are used in place
  };

  static Axes WithDense(Axes axes, Steps steps) {
    int64_t dense = 1;
    for (size_t i = axes.size(); i-- > 0;) {
      axes[i].*steps = dense;
      dense *= axes[i].size;
    }
    return axes;
  }

  // Copies `count` elements along `axes`.
  static void CopyTile(const Side& side, const Axes& axes, int64_t count, const char* from_base, int64_t from,
                       char* to_base, int64_t to) {
    if (count <= kSmallTile) {  // less work than a plan
      const int64_t size = side.element_size;
      // Rectangles: the two inner axes at once.
      Axes others = axes;
      Axis rows = {1, 0, 0};
      if (axes.size() > 1) {
        rows = axes[axes.size() - 2];
        others.erase(others.size() - 2);
      }
      internal::ForEachRun(
          others, from, to, [&](int64_t from, int64_t to, int64_t count, int64_t from_step, int64_t to_step) {
            side.kernels.elements(from_base + from * size, from_step * size, rows.from * size, to_base + to * size,
                                  to_step * size, rows.to * size, count, rows.size, internal::Planes());
          });
      return;
    }
    Axes long_axes;
    for (const Axis& axis : axes) {
      if (axis.size != 1) long_axes.push_back(axis);
    }
    internal::CopyAlong(&long_axes, static_cast<size_t>(side.element_size), from_base, from, to_base, to, side.options);
  }

  // The order in which elements are converted: the destination's, or the source's if its elements are no smaller and
  // consecutive in their own order. Then the smaller ones are brought into order.
  static Axes OrderedAxes(const TensorView& from, const TensorView& to) {
    if (to.element_size() <= from.element_size()) {
      Axes axes = internal::LongAxes(to.layout(), from.layout());
      internal::SortAndMerge(&axes);
      for (Axis& axis : axes) std::swap(axis.from, axis.to);
      if (!axes.empty() && axes.back().from == 1) return axes;
    }
    return internal::MergedAxes(from.layout(), to.layout());
  }

  void ChooseTile() {
    // The axes on which each side's steps are smallest. One of them is the last.
    const size_t last = axes_.size() - 1;
    const auto fastest = [&](Steps steps) {
      size_t fast = last;
      for (size_t axis = 0; axis < last; ++axis) {
        const int64_t step = std::abs(axes_[axis].*steps);
        if (step != 0 && (axes_[fast].*steps == 0 || step < std::abs(axes_[fast].*steps))) fast = axis;
      }
      return fast;
    };
    const size_t fast = fastest(&Axis::from) != last ? fastest(&Axis::from) : fastest(&Axis::to);
    extents_.assign(axes_.size(), 1);
    int64_t room = GetCpuTuning().l2_bytes / kTilesInCache / std::max(from_.element_size, to_.element_size);
    const auto widen = [&](size_t axis, int64_t most) {
      const int64_t wide = std::min({axes_[axis].size, most, extents_[axis] * room});
      if (wide <= extents_[axis]) return;
      room = room * extents_[axis] / wide;
      extents_[axis] = wide;
    };
    // First long runs of the one side, then of the other, then other axes while the tile has room.
    if (fast != last) widen(fast, 256);
    for (size_t axis = axes_.size(); axis-- > 0;) widen(axis, axes_[axis].size);
    for (size_t axis = 0; axis < axes_.size(); ++axis) {
      num_tiles_ *= static_cast<size_t>((axes_[axis].size - 1) / extents_[axis] + 1);
      tile_elements_ *= extents_[axis];
    }
  }

  // True if the elements of each tile are consecutive on this side, the smaller tiles at the ends included: of the axes
  // of a dense tile, only the outermost one is cut.
  bool IsDense(Steps steps) const {
    int64_t dense = 1;
    bool is_cut = false;  // an axis inside this one
    for (size_t axis = axes_.size(); axis-- > 0;) {
      if (extents_[axis] == 1) continue;
      if (is_cut || axes_[axis].*steps != dense) return false;
      dense *= extents_[axis];
      is_cut = extents_[axis] < axes_[axis].size;
    }
    return true;
  }

  const Conversion& conversion_;
  Axes axes_;
  Side from_;
  Side to_;
  Numbers extents_;  // those of a tile
  size_t num_tiles_ = 1;
  int64_t tile_elements_ = 1;
  bool in_runs_ = false;
  internal::CopyKernels stream_ = {};  // empty: ordinary stores, which keep the results in the cache
};

// Requires: dims equal, elements on both sides, no overlap, writable memory.
absl::Status ConvertElements(const TensorView& from, TensorView* to, bool fresh, const CopyOptions& options) {
  const TiledConversion tiled(from, *to, fresh);
  // A few groups of tiles for each thread, so that no thread waits long for the last group. Each group needs scratch
  // memory, so there are not more groups than that.
  constexpr size_t kMaxGroups = 128;
  const size_t num_tiles = tiled.num_tiles();
  const size_t groups =
      options.num_threads <= 1 ? 1 : std::min({num_tiles, static_cast<size_t>(options.num_threads) * 4, kMaxGroups});
  RefPtr<TensorBuffer> memory;
  if (groups > 1 || tiled.scratch_bytes() > kStackBytes) {
    CASK_ASSIGN_OR_RETURN(memory, TensorBuffer::Allocate(groups * tiled.scratch_bytes()));
  }
  alignas(64) char stack_memory[kStackBytes];
  char* const scratch = memory ? static_cast<char*>(memory->mutable_data()) : stack_memory;
  const void* const from_base = from.buffer()->data();
  void* const to_base = to->buffer()->mutable_data();
  return ParallelFor(options.num_threads, groups, [&](size_t group) {
    char* const own_scratch = scratch + group * tiled.scratch_bytes();
    const size_t end = num_tiles / groups * (group + 1) + num_tiles % groups * (group + 1) / groups;
    const size_t begin = num_tiles / groups * group + num_tiles % groups * group / groups;
    for (size_t tile = begin; tile < end; ++tile) tiled.Run(tile, from_base, to_base, own_scratch);
    tiled.Finish();
  });
}

absl::Status CheckDTypes(DType from, DType to) {
  const auto refused = [&] { return absl::StrCat("Convert of ", DTypeName(from), " to ", DTypeName(to)); };
  if (to == DType::kInvalid) return absl::InvalidArgumentError(absl::StrCat(refused(), ": no tensor has this dtype"));
  const bool same_objects = from == to && IsObject(from);
  if (same_objects || (IsFixedSize(from) && IsFixedSize(to))) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(refused(), ": only dtypes of fixed size are converted"));
}

// True if the elements of the two views share bytes of memory, also through different buffers.
bool Overlaps(const TensorView& from, const TensorView& to) {
  const TensorView::ByteRange a = from.bounds();
  const TensorView::ByteRange b = to.bounds();
  const auto a_base = reinterpret_cast<uintptr_t>(from.buffer()->data());
  const auto b_base = reinterpret_cast<uintptr_t>(to.buffer()->data());
  return a_base + a.begin < b_base + b.end && b_base + b.begin < a_base + a.end;
}

// Few elements without tiles: those of the source are first copied to the stack. Requires: kStrided, no overlap.
ABSL_ATTRIBUTE_NOINLINE void ConvertFewStrided(const FewElements& few, const TensorView& from, const TensorView& to,
                                               char* to_first) {
  const Conversion& conversion = Conversion::OfThisProcessor(from.dtype(), to.dtype());
  const auto count = static_cast<size_t>(few.count);
  alignas(64) char dense[kStackBytes];
  const auto from_base = static_cast<const char*>(from.buffer()->data());
  if (few.count <= internal::kFewStridedElements) {
    internal::CopyFewElements(few.from_size, few.from_first, from.layout(), dense, to.strides());
  } else if (few.to_size <= few.from_size && from.layout().IsNonOverlappingAndDense()) {
    // In the source's order, so that the smaller elements are brought into order.
    const int64_t start = from.layout().bounds().begin;
    conversion.Run(from_base + start * static_cast<int64_t>(few.from_size), dense, count);
    internal::Axes axes = internal::LongAxes(from.layout(), to.layout());
    return internal::CopyAlong(&axes, few.to_size, dense, from.offset() - start, to_first, 0);
  } else {
    internal::Axes axes = internal::LongAxes(from.layout(), to.layout());
    internal::CopyAlong(&axes, few.from_size, few.from_first, 0, dense, 0);
  }
  conversion.Run(dense, to_first, count);
}

// Requires: not kNo, no overlap.
inline void ConvertFew(const FewElements& few, const TensorView& from, TensorView* to) {
  char* const to_first = few.WritableFirst(to);
  if (few.kind == FewElements::Kind::kStrided) return ConvertFewStrided(few, from, *to, to_first);
  Conversion::OfThisProcessor(from.dtype(), to->dtype()).Run(few.from_first, to_first, static_cast<size_t>(few.count));
}

// Any conversion. Separate from Convert: otherwise the compiler saves registers on every call.
ABSL_ATTRIBUTE_NOINLINE absl::Status ConvertAny(const TensorView& from, TensorView* to, const CopyOptions& options) {
  CASK_RETURN_IF_ERROR(CheckDTypes(from.dtype(), to->dtype()));
  const auto refused = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("Convert of ", from.ToString(), " to ", to->ToString(), ": ", why));
  };
  if (from.dims() != to->dims()) return refused("the dims differ");
  if (!to->IsContiguous() && to->layout().HasInternalOverlap()) {
    return refused("several indices of the destination name one element");
  }
  if (to->num_elements() == 0) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(from.buffer()->CheckReadable());
  CASK_RETURN_IF_ERROR(to->EnsureMutable());
  if (!Overlaps(from, *to)) return ConvertElements(from, to, /*fresh=*/false, options);
  CASK_ASSIGN_OR_RETURN(const TensorView aside, from.Clone());
  return ConvertElements(aside, to, /*fresh=*/false, options);
}

}  // namespace

absl::Status Convert(const TensorView& from, TensorView* to, const CopyOptions& options) {
  if (from.dtype() == to->dtype() && to->dtype() != DType::kInvalid) return Copy(from, to, options);
  if (const FewElements few(from, *to, kStackBytes); few.kind != FewElements::Kind::kNo && !few.MayOverlap(from, *to)) {
    ConvertFew(few, from, to);
    return absl::OkStatus();
  }
  return ConvertAny(from, to, options);
}

absl::StatusOr<TensorView> ConvertTo(const TensorView& from, DType dtype, MemoryFormat format,
                                     const CopyOptions& options, const RefPtr<Allocator>& allocator) {
  CASK_RETURN_IF_ERROR(CheckDTypes(from.dtype(), dtype));
  if (from.num_elements() > 0) CASK_RETURN_IF_ERROR(from.buffer()->CheckReadable());
  // The memory of a dense tensor of these elements has the right size for any memory format.
  CASK_ASSIGN_OR_RETURN(TensorView to, Tensor::Create(dtype, from.shape(), allocator));
  const bool is_row_major =
      format == MemoryFormat::kContiguous || (format == MemoryFormat::kPreserve && from.strides() == to.strides());
  if (!is_row_major) {
    CASK_ASSIGN_OR_RETURN(Layout layout, from.layout().Dense(format));
    CASK_ASSIGN_OR_RETURN(to, TensorView::Create(to.buffer(), dtype, std::move(layout)));
  }
  CASK_RETURN_IF_ERROR(to.EnsureMutable());
  if (from.dtype() == dtype) {
    CASK_RETURN_IF_ERROR(Copy(from, &to, options));
  } else if (const FewElements few(from, to, kStackBytes); few.kind != FewElements::Kind::kNo) {
    ConvertFew(few, from, &to);
  } else if (to.num_elements() > 0) {
    CASK_RETURN_IF_ERROR(ConvertElements(from, &to, /*fresh=*/true, options));
  }
  return to;
}

}  // namespace tensorcask
