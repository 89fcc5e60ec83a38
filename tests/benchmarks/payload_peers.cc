#include <blosc.h>
#include <hdf5/serial/hdf5.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tests/benchmarks/payload_codecs.h"

namespace tensorcask::benchmarks {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

class Blosc final : public PayloadCodec {
 public:
  Blosc(const char* compressor, bool bitshuffle, int level, int threads)
      : PayloadCodec(absl::StrCat("blosc ", compressor, " ", level, bitshuffle ? " bitshuffle" : " shuffle",
                                  threads == 1 ? "" : absl::StrCat(" x", threads))),
        compressor_(compressor),
        filter_(bitshuffle ? BLOSC_BITSHUFFLE : BLOSC_SHUFFLE),
        level_(level),
        threads_(threads) {}

  absl::string_view Encode(const Tensor& tensor) override {
    const absl::string_view bytes = tensor.bytes();
    const size_t size = ElementSize(tensor.dtype());
    coded_.resize(2 * bytes.size() + kChunkBytes);
    sizes_.clear();
    size_t end = 0;
    for (size_t at = 0; at < bytes.size(); at += kChunkBytes) {
      const absl::string_view piece = bytes.substr(at, kChunkBytes);
      const int coded = blosc_compress_ctx(level_, filter_, size, piece.size(), piece.data(), &coded_[end],
                                           coded_.size() - end, compressor_, 0, threads_);
      if (coded <= 0) std::abort();
      sizes_.push_back(static_cast<size_t>(coded));
      end += static_cast<size_t>(coded);
    }
    return absl::string_view(coded_).substr(0, end);
  }
  void Decode(Tensor* tensor) override {
    const absl::Span<char> out = tensor->mutable_bytes();
    size_t start = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const absl::Span<char> piece = out.subspan(i * kChunkBytes, kChunkBytes);
      if (blosc_decompress_ctx(&coded_[start], piece.data(), piece.size(), threads_) < 0) std::abort();
      start += sizes_[i];
    }
  }

 private:
  const char* const compressor_;
  const int filter_;
  const int level_;
  const int threads_;
  std::string coded_;
  std::vector<size_t> sizes_;
};

class Hdf5 final : public PayloadCodec {
 public:
  Hdf5() : PayloadCodec("hdf5 shuffle gzip 6") {}
  ~Hdf5() override { Close(); }

  absl::string_view Encode(const Tensor& tensor) override {
    Close();
    const size_t size = ElementSize(tensor.dtype());
    const hsize_t count = static_cast<hsize_t>(tensor.num_elements());
    const hsize_t chunk = std::min<hsize_t>(count, kChunkBytes / size);
    type_ = H5Tcopy(H5T_NATIVE_UINT64);
    H5Tset_size(type_, size);
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(access, kChunkBytes, /*backing_store=*/false);
    file_ = H5Fcreate("tensor.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access);
    const hid_t space = H5Screate_simple(1, &count, nullptr);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(creation, 1, &chunk);
    H5Pset_shuffle(creation);
    H5Pset_deflate(creation, 6);
    const hid_t no_cache = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_chunk_cache(no_cache, 0, 0, 0);
    data_ = H5Dcreate2(file_, "t", type_, space, H5P_DEFAULT, creation, no_cache);
    if (H5Dwrite(data_, type_, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bytes().data()) < 0) std::abort();
    for (const hid_t list : {access, creation, no_cache}) H5Pclose(list);
    H5Sclose(space);
    size_.assign(H5Dget_storage_size(data_), '\0');  // only its size is asked for
    return size_;
  }
  void Decode(Tensor* tensor) override {
    if (H5Dread(data_, type_, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor->mutable_bytes().data()) < 0) std::abort();
  }

 private:
  void Close() {
    if (data_ < 0) return;
    H5Dclose(data_);
    H5Tclose(type_);
    H5Fclose(file_);
    data_ = -1;
  }

  hid_t file_ = -1;
  hid_t type_ = -1;
  hid_t data_ = -1;
  std::string size_;
};

}  // namespace

std::unique_ptr<PayloadCodec> BloscCodec(const char* compressor, bool bitshuffle, int level, int threads) {
  return std::make_unique<Blosc>(compressor, bitshuffle, level, threads);
}
std::unique_ptr<PayloadCodec> Hdf5Codec() { return std::make_unique<Hdf5>(); }

}  // namespace tensorcask::benchmarks
