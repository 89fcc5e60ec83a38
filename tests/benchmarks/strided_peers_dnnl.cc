#include <cstddef>
#include <cstdlib>
#include <memory>

#include <dnnl.hpp>
#include "tensorcask/tests/benchmarks/strided_peers.h"

namespace tensorcask::benchmarks {

PeerCopy DnnlCopy(const PeerCase& peer_case) {
  using dnnl::memory;
  memory::data_type type = memory::data_type::undef;
  if (peer_case.element_size == 1) type = memory::data_type::u8;
  if (peer_case.element_size == 2) type = memory::data_type::bf16;
  if (peer_case.element_size == 4) type = memory::data_type::f32;
  if (type == memory::data_type::undef || peer_case.copied.repeat > 0) return nullptr;
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  static dnnl::stream stream(engine);
  const memory::dims dims(peer_case.dims.begin(), peer_case.dims.end());
  memory::dims dense(dims.size());
  int64_t step = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    dense[axis] = step;
    step *= dims[axis];
  }
  const memory::desc from_desc(dims, type, memory::dims(peer_case.strides.begin(), peer_case.strides.end()), true);
  const memory::desc to_desc(dims, peer_case.to_bfloat16 ? memory::data_type::bf16 : type, dense, true);
  if (!from_desc || !to_desc) return nullptr;
  const dnnl::reorder::primitive_desc primitive_desc(engine, from_desc, engine, to_desc, dnnl::primitive_attr(), true);
  if (!primitive_desc) return nullptr;
  const dnnl::reorder reorder(primitive_desc);
  memory from(from_desc, engine, const_cast<void*>(peer_case.from));
  memory to(to_desc, engine, peer_case.to);
  if (peer_case.copied.fresh) {
    return [reorder, from, to_desc]() mutable {
      const std::unique_ptr<void, void (*)(void*)> fresh(std::aligned_alloc(64, (to_desc.get_size() + 63) / 64 * 64),
                                                         std::free);
      memory to(to_desc, engine, fresh.get());
      reorder.execute(stream, from, to);
      stream.wait();
    };
  }
  return [reorder, from, to]() mutable {
    reorder.execute(stream, from, to);
    stream.wait();
  };
}

}  // namespace tensorcask::benchmarks
