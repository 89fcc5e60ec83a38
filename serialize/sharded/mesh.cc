#include "tensorcask/serialize/sharded/mesh.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

bool IsAxisName(absl::string_view name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

// A part of an axis: [begin, end).
struct Part {
  int64_t begin;
  int64_t end;
};

// Piece `i` of `n` of `part`.
Part Divide(const Part& part, int n, int i) {
  const int64_t size = part.end - part.begin;
  const int64_t step = size / n + (size % n != 0 ? 1 : 0);
  const int64_t begin = i <= size / std::max<int64_t>(step, 1) ? step * i : size;
  return {part.begin + begin, part.begin + begin + std::min(step, size - begin)};
}

}  // namespace

Mesh::Mesh(std::vector<Axis> axes) : axes_(std::move(axes)) {
  for (const Axis& axis : axes_) num_ranks_ *= axis.size;
}

Mesh::Mesh(std::initializer_list<Axis> axes) {
  absl::StatusOr<Mesh> mesh = Create(absl::MakeConstSpan(axes.begin(), axes.size()));
  CASK_CHECK(mesh.ok(), "Mesh: these axes make no mesh");
  *this = *std::move(mesh);
}

absl::StatusOr<Mesh> Mesh::Create(absl::Span<const Axis> axes) {
  if (axes.empty()) return absl::InvalidArgumentError("a mesh has one axis or more; none is given");
  int64_t ranks = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    if (!IsAxisName(axis.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("axis ", i, " of the mesh is called ", Quoted(axis.name), "; wanted letters, digits and '_'"));
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name == axis.name) {
        return absl::InvalidArgumentError(absl::StrCat("the mesh has two axes called ", Quoted(axis.name)));
      }
    }
    if (axis.size < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("axis ", Quoted(axis.name), " of the mesh has size ", axis.size, "; wanted 1 or more"));
    }
    ranks *= axis.size;
    if (ranks > std::numeric_limits<int>::max()) {
      return absl::InvalidArgumentError(absl::StrCat("a mesh with axis ", Quoted(axis.name), " has too many ranks"));
    }
  }
  return Mesh(std::vector<Axis>(axes.begin(), axes.end()));
}

absl::StatusOr<Mesh> Mesh::Parse(absl::string_view text) {
  std::vector<Axis> axes;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> axis = absl::StrSplit(part, absl::MaxSplits('=', 1));
    int size = 0;
    if (!absl::SimpleAtoi(axis.second, &size)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(part), " in mesh ", Quoted(text), ": wanted NAME=SIZE, as in data=2,model=4"));
    }
    axes.push_back({std::string(axis.first), size});
  }
  return Create(axes);
}

std::string Mesh::ToString() const {
  return absl::StrJoin(axes_, ",",
                       [](std::string* out, const Axis& axis) { absl::StrAppend(out, axis.name, "=", axis.size); });
}

std::optional<int> Mesh::Find(absl::string_view name) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return static_cast<int>(i);
  }
  return std::nullopt;
}

int Mesh::Coordinate(int rank, int axis) const {
  int inner = 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < axes_.size(); ++i) inner *= axes_[i].size;
  return rank / inner % axes_[static_cast<size_t>(axis)].size;
}

absl::StatusOr<PartitionSpec> ParsePartitionSpec(absl::string_view text) {
  PartitionSpec spec;
  if (text.empty()) return spec;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (part.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("spec ", Quoted(text), " has an empty element; wanted '-' for an axis that is whole"));
    }
    spec.emplace_back(part == "-" ? "" : std::string(part));
  }
  return spec;
}

absl::StatusOr<HeldPiece> PieceOf(const TensorShape& shape, const Mesh& mesh, const PartitionSpec& spec, int rank,
                                  Division division) {
  if (rank < 0 || rank >= mesh.num_ranks()) {
    return absl::OutOfRangeError(absl::StrCat("rank ", rank, " of mesh ", mesh.ToString(), ", which has ",
                                              mesh.num_ranks(), mesh.num_ranks() == 1 ? " rank" : " ranks"));
  }
  std::vector<bool> used(mesh.axes().size(), false);
  std::vector<TensorSlice::Extent> extents(static_cast<size_t>(shape.rank()));
  HeldPiece held;
  bool is_empty = false;
  for (size_t axis = 0; axis < spec.size(); ++axis) {
    if (spec[axis].empty()) continue;
    if (axis >= static_cast<size_t>(shape.rank())) {
      return absl::InvalidArgumentError(absl::StrCat("the spec divides axis ", axis, "; the tensor has ", shape.rank(),
                                                     shape.rank() == 1 ? " axis" : " axes"));
    }
    const int64_t size = shape.dim(static_cast<int>(axis));
    Part part = {0, size};
    bool is_first = true;
    for (const absl::string_view name : absl::StrSplit(spec[axis], '+')) {
      const std::optional<int> found = mesh.Find(name);
      if (!found.has_value()) {
        return absl::InvalidArgumentError(
            absl::StrCat("axis ", axis, " is divided over ", Quoted(name), "; the mesh is ", mesh.ToString()));
      }
      const auto mesh_axis = static_cast<size_t>(*found);
      if (used[mesh_axis]) {
        return absl::InvalidArgumentError(absl::StrCat("two divisions are over ", Quoted(name)));
      }
      used[mesh_axis] = true;
      const int n = mesh.axes()[mesh_axis].size;
      if (division == Division::kExact && (part.end - part.begin) % n != 0) {
        return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " has ", part.end - part.begin,
                                                       " elements, which ", n, " ranks of ", Quoted(name),
                                                       " do not divide"));
      }
      const int coordinate = mesh.Coordinate(rank, *found);
      is_first = is_first && coordinate == 0;
      part = Divide(part, n, coordinate);
    }
    if (size == 0) {
      is_empty = is_empty || !is_first;
    } else if (part.begin == part.end) {
      is_empty = true;
    } else if (part.end - part.begin != size) {
      extents[axis] = {part.begin, part.end - part.begin};
    }
  }
  if (!is_empty) {
    CASK_ASSIGN_OR_RETURN(held.slice, TensorSlice::Create(extents));
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i] && mesh.Coordinate(rank, static_cast<int>(i)) != 0) held.is_replica = true;
    }
  }
  return held;
}

}  // namespace tensorcask
