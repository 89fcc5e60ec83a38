#include "tensorcask/tests/benchmarks/payload_codecs.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/payload/payload_encoder.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tests/benchmarks/bars.h"

namespace tensorcask::benchmarks {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

class Ours final : public PayloadCodec {
 public:
  Ours(PayloadLevel level, int threads)
      : PayloadCodec(absl::StrCat("tensorcask ", std::string(PayloadLevelName(level)), Threads(threads))),
        threads_(threads) {
    options_.payload.level = level;
    options_.num_threads = threads;
  }
  static std::string Threads(int threads) { return threads == 1 ? "" : absl::StrCat(" x", threads); }

  absl::string_view Encode(const Tensor& tensor) override {
    coded_.clear();
    StringSink sink(&coded_);
    is_plain_ = !Require(EncodePayload(tensor, options_, &sink)).has_value();
    if (is_plain_) coded_.assign(tensor.bytes().data(), tensor.bytes().size());  // as messages and checkpoints do
    return coded_;
  }
  void Decode(Tensor* tensor) override {
    if (is_plain_) {
      coded_.copy(tensor->mutable_bytes().data(), coded_.size());
      return;
    }
    PayloadReadOptions options;
    options.num_threads = threads_;
    TensorView view(*tensor);
    Require(Require(PayloadReader::Open(coded_, options)).ReadInto(&view));
  }

 private:
  PayloadWriteOptions options_;
  const int threads_;
  bool is_plain_ = false;  // it would not have become smaller
  std::string coded_;
};

class Memcpy final : public PayloadCodec {
 public:
  Memcpy() : PayloadCodec("memcpy") {}
  absl::string_view Encode(const Tensor& tensor) override {
    copy_.resize(tensor.bytes().size());
    std::memcpy(&copy_[0], tensor.bytes().data(), copy_.size());
    return copy_;
  }
  void Decode(Tensor* tensor) override { std::memcpy(tensor->mutable_bytes().data(), copy_.data(), copy_.size()); }

 private:
  std::string copy_;
};

class Zstd final : public PayloadCodec {
 public:
  Zstd(int level, int threads)
      : PayloadCodec(absl::StrCat("zstd -", level, Ours::Threads(threads))), level_(level), threads_(threads) {
    for (int i = 0; i < threads; ++i) {
      writers_.push_back(ZSTD_createCCtx());
      readers_.push_back(ZSTD_createDCtx());
    }
  }
  ~Zstd() override {
    for (ZSTD_CCtx* context : writers_) ZSTD_freeCCtx(context);
    for (ZSTD_DCtx* context : readers_) ZSTD_freeDCtx(context);
  }

  absl::string_view Encode(const Tensor& tensor) override {
    const absl::string_view bytes = tensor.bytes();
    const size_t bound = ZSTD_compressBound(kChunkBytes);
    sizes_.resize((bytes.size() + kChunkBytes - 1) / kChunkBytes);
    coded_.resize(bound * sizes_.size());
    ForEachChunk([&](size_t thread, size_t chunk) {
      const absl::string_view piece = bytes.substr(chunk * kChunkBytes, kChunkBytes);
      sizes_[chunk] =
          ZSTD_compressCCtx(writers_[thread], &coded_[chunk * bound], bound, piece.data(), piece.size(), level_);
    });
    size_t end = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      std::memmove(&coded_[end], &coded_[i * bound], sizes_[i]);
      end += sizes_[i];
    }
    return absl::string_view(coded_).substr(0, end);
  }
  void Decode(Tensor* tensor) override {
    const absl::Span<char> out = tensor->mutable_bytes();
    std::vector<size_t> starts(sizes_.size());
    for (size_t i = 1; i < sizes_.size(); ++i) starts[i] = starts[i - 1] + sizes_[i - 1];
    ForEachChunk([&](size_t thread, size_t chunk) {
      const absl::Span<char> piece = out.subspan(chunk * kChunkBytes, kChunkBytes);
      ZSTD_decompressDCtx(readers_[thread], piece.data(), piece.size(), &coded_[starts[chunk]], sizes_[chunk]);
    });
  }

 private:
  template <typename Fn>
  void ForEachChunk(Fn&& fn) {
    const absl::Status status = ParallelFor(threads_, writers_.size(), [&](size_t thread) {
      for (size_t chunk = thread; chunk < sizes_.size(); chunk += writers_.size()) fn(thread, chunk);
    });
    CASK_CHECK(status.ok(), "nothing here throws");
  }

  const int level_;
  const int threads_;
  std::vector<ZSTD_CCtx*> writers_;
  std::vector<ZSTD_DCtx*> readers_;
  std::vector<size_t> sizes_;
  std::string coded_;
};

}  // namespace

std::unique_ptr<PayloadCodec> OurCodec(PayloadLevel level, int threads) {
  return std::make_unique<Ours>(level, threads);
}
std::unique_ptr<PayloadCodec> MemcpyCodec() { return std::make_unique<Memcpy>(); }
std::unique_ptr<PayloadCodec> ZstdCodec(int level, int threads) { return std::make_unique<Zstd>(level, threads); }

}  // namespace tensorcask::benchmarks
