#include "tensorcask/tests/benchmarks/units.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace tensorcask::benchmarks {
namespace {

constexpr size_t kPageBytes = 4096;

void RequireStep(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::exit(1);
}

}  // namespace

void Allocations(int times) {
  for (int i = 0; i < times; ++i) {
    void* const block = std::malloc(64);
    Keep(block);
    std::free(block);
  }
}

void CountPairs(int times) {
  static std::atomic<int> counter{0};
  for (int i = 0; i < times; ++i) {
    counter.fetch_add(1, std::memory_order_relaxed);
    counter.fetch_sub(1, std::memory_order_acq_rel);
  }
}

SmallFile::SmallFile(std::string path) : path_(std::move(path)) {
  handle_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  RequireStep(handle_ >= 0, path_.c_str());
  const std::array<char, kPageBytes> page = {};
  RequireStep(write(handle_, page.data(), page.size()) == static_cast<ssize_t>(page.size()), "write");
}

SmallFile::~SmallFile() {
  close(handle_);
  unlink(path_.c_str());
}

void SmallFile::Reads(int times) const {
  std::array<char, kPageBytes> page;
  for (int i = 0; i < times; ++i) {
    RequireStep(pread(handle_, page.data(), page.size(), 0) == static_cast<ssize_t>(page.size()), "pread");
    Keep(page.data());
  }
}

void SmallFile::Appends(int times) {
  for (int i = 0; i < times; ++i) RequireStep(write(handle_, "4 b", 4) == 4, "write");
}

void SmallFile::OpensAndMaps(int times) const {
  for (int i = 0; i < times; ++i) {
    const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    RequireStep(file >= 0, "open");
    void* const page = mmap(nullptr, kPageBytes, PROT_READ, MAP_PRIVATE, file, 0);
    RequireStep(page != MAP_FAILED, "mmap");
    Keep(*static_cast<const volatile char*>(page));
    munmap(page, kPageBytes);
    close(file);
  }
}

}  // namespace tensorcask::benchmarks
