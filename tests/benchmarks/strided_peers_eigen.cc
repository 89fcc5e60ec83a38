#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <type_traits>

#include "Eigen/Core"
#include "tensorcask/tests/benchmarks/measure.h"
#include "tensorcask/tests/benchmarks/strided_peers.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace tensorcask::benchmarks {
namespace {

template <typename T, int kRank>
using Dense = Eigen::TensorMap<Eigen::Tensor<T, kRank, Eigen::RowMajor, int64_t>>;
template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// `assign` with the place of the result: the case's, or new memory for each fresh copy.
template <typename To, typename Assign>
PeerCopy Into(const PeerCase& peer_case, Assign assign) {
  if (!peer_case.copied.fresh) return [assign, to = static_cast<To*>(peer_case.to)] { assign(to); };
  size_t bytes = sizeof(To);
  for (const int64_t dim : peer_case.dims) bytes *= static_cast<size_t>(dim);
  return [assign, bytes] {
    const std::unique_ptr<void, void (*)(void*)> fresh(std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free);
    assign(static_cast<To*>(fresh.get()));
    Keep(fresh.get());
  };
}

template <typename From, typename To, int kRank>
PeerCopy CopyOfRank(const PeerCase& peer_case) {
  const StridedCase& copied = peer_case.copied;
  const auto* const from_data = static_cast<const From*>(peer_case.from);
  std::array<int64_t, kRank> from_dims;
  std::array<int64_t, kRank> dims;
  std::array<int, kRank> order;
  std::array<int64_t, kRank> steps;
  bool permutes = false;
  const size_t new_axes = copied.repeat > 0 ? 1 : 0;
  for (size_t i = 0; i < kRank; ++i) {
    from_dims[i] = copied.dims[i];
    order[i] = static_cast<int>(copied.order[i]);
    permutes |= copied.order[i] != static_cast<int64_t>(i);
    steps[i] = i + 1 == kRank ? copied.step : 1;
    dims[i] = peer_case.dims[i + new_axes];
  }
  const Dense<const From, kRank> from(from_data, from_dims);
  if constexpr (kRank == 2) {  // there is a faster way for matrices than shuffle
    if (permutes && copied.step == 1 && copied.repeat == 0) {
      return Into<To>(peer_case, [=](To* to) {
        const Eigen::Map<const Matrix<From>> matrix(from_data, from_dims[0], from_dims[1]);
        Eigen::Map<Matrix<To>>(to, dims[0], dims[1]) = matrix.transpose().template cast<To>();
      });
    }
  }
  const bool plain = !permutes && copied.step == 1 && copied.repeat == 0;
  if constexpr (!std::is_same_v<From, To>) {  // a cast above another operation fails an assertion of Eigen 3.4
    if (!plain) return nullptr;
    return Into<To>(peer_case, [=](To* to) { Dense<To, kRank>(to, dims) = from.template cast<To>(); });
  } else {
    if (plain) return Into<To>(peer_case, [=](To* to) { Dense<To, kRank>(to, dims) = from; });
    if (permutes + (copied.step != 1) + (copied.repeat > 0) > 1) return nullptr;
    if (permutes) return Into<To>(peer_case, [=](To* to) { Dense<To, kRank>(to, dims) = from.shuffle(order); });
    if (copied.step != 1) return Into<To>(peer_case, [=](To* to) { Dense<To, kRank>(to, dims) = from.stride(steps); });
    std::array<int64_t, kRank + 1> one_more;
    std::array<int64_t, kRank + 1> times;
    std::array<int64_t, kRank + 1> wide;
    one_more[0] = 1;
    times[0] = wide[0] = copied.repeat;
    for (size_t i = 0; i < kRank; ++i) {
      one_more[i + 1] = wide[i + 1] = from_dims[i];
      times[i + 1] = 1;
    }
    return Into<To>(peer_case,
                    [=](To* to) { Dense<To, kRank + 1>(to, wide) = from.reshape(one_more).broadcast(times); });
  }
}

template <typename From, typename To = From>
PeerCopy CopyOfType(const PeerCase& peer_case) {
  switch (peer_case.copied.dims.size()) {
    case 1:
      return CopyOfRank<From, To, 1>(peer_case);
    case 2:
      return CopyOfRank<From, To, 2>(peer_case);
    case 3:
      return CopyOfRank<From, To, 3>(peer_case);
    case 4:
      return CopyOfRank<From, To, 4>(peer_case);
    default:
      return nullptr;
  }
}

}  // namespace

PeerCopy EigenCopy(const PeerCase& peer_case) {
  if (peer_case.to_bfloat16) return CopyOfType<float, Eigen::bfloat16>(peer_case);
  switch (peer_case.element_size) {
    case 1:
      return CopyOfType<uint8_t>(peer_case);
    case 2:
      return CopyOfType<int16_t>(peer_case);
    case 4:
      return CopyOfType<float>(peer_case);
    case 8:
      return CopyOfType<double>(peer_case);
    case 16:
      return CopyOfType<std::complex<double>>(peer_case);
    default:
      return nullptr;
  }
}

}  // namespace tensorcask::benchmarks
