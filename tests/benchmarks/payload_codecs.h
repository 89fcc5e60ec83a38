// Compressors for a tensor's bytes, ours and those of others, behind one interface.

#ifndef TENSORCASK_TESTS_BENCHMARKS_PAYLOAD_CODECS_H_
#define TENSORCASK_TESTS_BENCHMARKS_PAYLOAD_CODECS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::benchmarks {

// Chunks of 1 MiB, each on its own, in all of them. Contexts and memory are kept from call to call.
class PayloadCodec {
 public:
  virtual ~PayloadCodec() = default;

  const std::string& name() const { return name_; }
  // The bytes, valid until the next call. Ends the process if it does not work.
  virtual absl::string_view Encode(const Tensor& tensor) = 0;
  // Decodes what Encode gave last into *tensor, which has the same dtype and shape.
  virtual void Decode(Tensor* tensor) = 0;

 protected:
  explicit PayloadCodec(std::string name) : name_(std::move(name)) {}

 private:
  const std::string name_;
};

std::unique_ptr<PayloadCodec> OurCodec(PayloadLevel level, int threads);
std::unique_ptr<PayloadCodec> MemcpyCodec();
std::unique_ptr<PayloadCodec> ZstdCodec(int level, int threads);

// In payload_peers.cc, which needs their libraries. Blosc: shuffle + zstd, or bitshuffle + lz4.
std::unique_ptr<PayloadCodec> BloscCodec(const char* compressor, bool bitshuffle, int level, int threads);
std::unique_ptr<PayloadCodec> Hdf5Codec();  // shuffle + gzip level 6, a file in memory

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_PAYLOAD_CODECS_H_
