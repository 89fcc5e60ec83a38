#include "tensorcask/serialize/exchange/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tests/serialize/exchange/shared_memory_testing.h"
#include "tensorcask/tests/support/emulator.h"
#include "tensorcask/tests/support/status_matchers.h"

// While it is true, the system has no memory for files.
static bool no_memory_for_files = false;

// Comes before that of the C library, which only the library calls here.
extern "C" int madvise(void* start, size_t bytes, int advice) noexcept {
  constexpr int kPopulateWrite = 23;
  if (no_memory_for_files && advice == kPopulateWrite) {
    errno = ENOMEM;
    return -1;
  }
  return static_cast<int>(syscall(SYS_madvise, start, bytes, advice));
}

namespace tensorcask {
namespace {

using ::tensorcask::testing::kSize;
using ::tensorcask::testing::kWanted;
using ::tensorcask::testing::SharedMemory;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

RefPtr<SharedMemoryAllocator> Shared(SharedMemoryAllocator::Options options = {}) {
  return *SharedMemoryAllocator::Create(options);
}

void Fill(TensorBuffer* buffer, char value) { std::memset(buffer->mutable_data(), value, buffer->size_bytes()); }

RefPtr<TensorBuffer> Filled(size_t size_bytes, char value, const RefPtr<Allocator>& allocator) {
  RefPtr<TensorBuffer> buffer = *TensorBuffer::Allocate(size_bytes, allocator);
  Fill(buffer.get(), value);
  return buffer;
}

// The mappings of this process whose line in /proc/self/maps has `text`.
int CountMappings(const std::string& text) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(text) != std::string::npos ? 1 : 0;
  return count;
}

// As a receiver gets it.
ScopedDescriptor Handed(const TensorBuffer& buffer) {
  return ScopedDescriptor(fcntl(buffer.file_range()->descriptor, F_DUPFD_CLOEXEC, 0));
}

absl::StatusOr<RefPtr<TensorBuffer>> Receive(const TensorBuffer& sent) {
  return MapSharedMemory(Handed(sent), sent.file_range()->offset_bytes, sent.size_bytes());
}

// ---- The allocator --------------------------------------------------------------------------------------------------

TEST_F(SharedMemory, LargeBlocksAreSealedFilesOfTheirOwn) {
  const RefPtr<SharedMemoryAllocator> allocator = Shared();
  EXPECT_EQ(allocator->name(), "shared_memory");
  for (const size_t bytes : {size_t{1}, size_t{65535}, size_t{65536}, size_t{65537}, size_t{5} << 20}) {
    SCOPED_TRACE(bytes);
    void* const block = allocator->Allocate(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % Allocator::kAlignment, 0u);
    std::memset(block, 0x5a, bytes);
    const int file = allocator->DescriptorOf(block);
    if (bytes < 65536) {
      EXPECT_EQ(file, -1);
      EXPECT_EQ(allocator->total_bytes(), 0u);
    } else {
      struct stat about;
      ASSERT_EQ(fstat(file, &about), 0);
      EXPECT_GE(static_cast<size_t>(about.st_size), bytes);
      EXPECT_GE(about.st_blocks * 512, about.st_size) << "all its pages are there";
      EXPECT_EQ(allocator->total_bytes(), static_cast<size_t>(about.st_size));
      EXPECT_EQ(fcntl(file, F_GET_SEALS) & (kWanted | F_SEAL_SEAL | F_SEAL_WRITE), kWanted);
      EXPECT_EQ(fcntl(file, F_GETFD), FD_CLOEXEC);
      char read_back = 0;
      EXPECT_EQ(pread(file, &read_back, 1, static_cast<off_t>(bytes) - 1), 1);
      EXPECT_EQ(read_back, 0x5a);
    }
    allocator->Deallocate(block, bytes);
    EXPECT_EQ(allocator->total_bytes(), 0u);
    EXPECT_EQ(allocator->DescriptorOf(block), -1);
  }
}

TEST_F(SharedMemory, NobodyWhoGetsTheDescriptorCanHarmTheOwner) {
  const RefPtr<TensorBuffer> buffer = Filled(kSize, 'a', Shared());
  const ScopedDescriptor received = Handed(*buffer);
  EXPECT_EQ(ftruncate(received.get(), 0), -1);
  EXPECT_EQ(ftruncate(received.get(), 2 * kSize), -1);
  EXPECT_EQ(pwrite(received.get(), "b", 1, 0), -1);
  EXPECT_EQ(mmap(nullptr, kSize, PROT_WRITE, MAP_SHARED, received.get(), 0), MAP_FAILED);
  EXPECT_EQ(fallocate(received.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kSize), -1);
  EXPECT_EQ(fallocate(received.get(), FALLOC_FL_KEEP_SIZE, 0, 2 * kSize), -1);
  EXPECT_EQ(fcntl(received.get(), F_ADD_SEALS, F_SEAL_WRITE), -1) << "while the owner may write";
  void* const mapping = mmap(nullptr, kSize, PROT_READ, MAP_SHARED, received.get(), 0);
  ASSERT_NE(mapping, MAP_FAILED);
  EXPECT_EQ(mprotect(mapping, kSize, PROT_READ | PROT_WRITE), -1);
  munmap(mapping, kSize);
  EXPECT_EQ(buffer->bytes(), std::string(kSize, 'a'));
  static_cast<char*>(buffer->mutable_data())[0] = 'c';
  EXPECT_EQ(buffer->bytes()[0], 'c');
}

TEST_F(SharedMemory, NullWhenSomethingIsShort) {
  const RefPtr<SharedMemoryAllocator> allocator =
      Shared({/*min_shared_bytes=*/4096, /*max_total_bytes=*/size_t{3} * 65536});
  EXPECT_EQ(allocator->Allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(allocator->Allocate(PTRDIFF_MAX), nullptr);
  EXPECT_EQ(allocator->Allocate(size_t{1} << 50), nullptr);
  void* const first = allocator->Allocate(size_t{2} * 65536);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(allocator->Allocate(65537), nullptr) << "past max_total_bytes";
  void* const second = allocator->Allocate(65536);
  EXPECT_NE(second, nullptr);
  allocator->Deallocate(first, size_t{2} * 65536);
  allocator->Deallocate(second, 65536);

  struct rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const struct rlimit none = {3, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  void* const without_descriptor = allocator->Allocate(65536);
  const absl::Status status = TensorBuffer::Allocate(65536, allocator).status();
  const absl::Status create = SharedMemoryAllocator::Create({}).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(without_descriptor, nullptr);
  EXPECT_THAT(status, StatusIs(Code::kResourceExhausted, HasSubstr("65536 bytes from allocator \"shared_memory\"")));
  EXPECT_THAT(create, StatusIs(Code::kResourceExhausted, HasSubstr("making a sealed memory file")));
  EXPECT_EQ(allocator->total_bytes(), 0u);
}

TEST_F(SharedMemory, MemoryThatTheSystemLacksLeavesNoMapping) {
  if (testing::IsEmulated()) GTEST_SKIP() << "under an emulator, the system is asked for pages in another way";
  const RefPtr<SharedMemoryAllocator> allocator = Shared();
  const int before = CountMappings("memfd:tensorcask");
  no_memory_for_files = true;
  void* const block = allocator->Allocate(65536);
  no_memory_for_files = false;
  EXPECT_EQ(block, nullptr);
  EXPECT_EQ(CountMappings("memfd:tensorcask"), before);
  EXPECT_EQ(allocator->total_bytes(), 0u);
}

TEST_F(SharedMemory, DefaultLimitIsHalfOfTheMachine) {
  const RefPtr<SharedMemoryAllocator> allocator = Shared();
  const auto all = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(allocator->Allocate(all / 2 + 4096), nullptr);
}

TEST_F(SharedMemory, ThreadsAllocateAtOnce) {
  const RefPtr<SharedMemoryAllocator> allocator = Shared();
  std::vector<std::thread> threads;
  for (char t = 0; t < 4; ++t) {
    threads.emplace_back([&allocator, t] {
      for (int i = 0; i < 50; ++i) {
        const RefPtr<TensorBuffer> buffer = Filled(65536 << (i % 3), t, allocator);
        ASSERT_EQ(buffer->bytes(), std::string(buffer->size_bytes(), t));
        ASSERT_TRUE(buffer->file_range());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator->total_bytes(), 0u);
}

// ---- Handing over ---------------------------------------------------------------------------------------------------

TEST_F(SharedMemory, ReceiverSeesTheSameMemory) {
  const RefPtr<TensorBuffer> sent = Filled(kSize, 'a', Shared());
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> received, Receive(*sent));
  EXPECT_EQ(received->kind(), TensorBuffer::Kind::kMapped);
  EXPECT_NE(received->data(), sent->data());
  EXPECT_FALSE(received->IsWritableInPlace());
  static_cast<char*>(sent->mutable_data())[17] = 'b';  // not frozen yet
  EXPECT_EQ(received->bytes(), sent->bytes());
  EXPECT_FALSE(IsSealedAgainstWriting(*received));
}

TEST_F(SharedMemory, AnyPartArrivesAsARootOfItsOwn) {
  const RefPtr<TensorBuffer> root = Filled(kSize, 0, Shared());
  for (size_t i = 0; i < kSize; ++i) static_cast<char*>(root->mutable_data())[i] = static_cast<char>(i * 7 + i / 4096);
  for (const auto& [offset, size] : std::vector<std::pair<size_t, size_t>>{
           {0, kSize}, {0, 1}, {1, 4096}, {4095, 2}, {4096, 8192}, {65536 + 64, 100000}, {kSize - 1, 1}}) {
    SCOPED_TRACE(offset);
    const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(root, offset, size);
    ASSERT_EQ(part->file_range()->offset_bytes, offset);
    ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> received, Receive(*part));
    EXPECT_TRUE(received->is_root());
    EXPECT_EQ(received->bytes(), part->bytes());
    EXPECT_TRUE(received->IsAlignedTo(offset % 4096 == 0 ? 4096 : 1));
    // And on to a third.
    EXPECT_EQ(received->file_range()->offset_bytes, offset);
    ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> again, Receive(*received));
    EXPECT_EQ(again->bytes(), part->bytes());
  }
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> rest, MapSharedMemory(Handed(*root), 5000, kAllBytes));
  EXPECT_EQ(rest->bytes(), root->bytes().substr(5000));
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> nothing, MapSharedMemory(Handed(*root), kSize, kAllBytes));
  EXPECT_EQ(nothing->size_bytes(), 0u);
}

TEST_F(SharedMemory, LazyClonesOfPartsKnowTheirPlace) {
  const RefPtr<TensorBuffer> root = Filled(kSize, 'a', Shared());
  static_cast<char*>(root->mutable_data())[70000] = 'x';
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> clone, root->LazyClone(65536, 8192));
  EXPECT_EQ(clone->file_range()->offset_bytes, 65536u);
  const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(clone, 70000 - 65536, 2);
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> received, Receive(*part));
  EXPECT_EQ(received->bytes(), "xa");
}

TEST_F(SharedMemory, MemoryOutlivesItsSender) {
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> received, Receive(*Filled(kSize, 'a', Shared())));
  EXPECT_EQ(received->bytes(), std::string(kSize, 'a'));
}

TEST_F(SharedMemory, ReceiverThatWritesGetsACopy) {
  const RefPtr<TensorBuffer> sent = Filled(kSize, 'a', Shared());
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> received, Receive(*sent));
  Fill(received.get(), 'b');
  EXPECT_EQ(received->bytes(), std::string(kSize, 'b'));
  EXPECT_EQ(sent->bytes(), std::string(kSize, 'a'));
  EXPECT_FALSE(received->file_range()) << "its private memory is plain";
}

TEST_F(SharedMemory, OnlyMemoryWithAFileHasARange) {
  const RefPtr<Allocator> shared = Shared();
  EXPECT_FALSE((*TensorBuffer::Allocate(kSize))->file_range());
  EXPECT_FALSE((*TensorBuffer::Allocate(100, shared))->file_range());
  EXPECT_FALSE((*TensorBuffer::Allocate(0, shared))->file_range());
  EXPECT_FALSE(TensorBuffer::MakeScalar(1.0)->file_range());
  EXPECT_FALSE(TensorBuffer::MakeWithoutData(kSize, "elsewhere")->file_range());
  EXPECT_FALSE((*TensorBuffer::AllocateElements<std::string>(10000, shared))->file_range()) << "pointers stay at home";
  EXPECT_FALSE(IsSealedAgainstWriting(**TensorBuffer::Allocate(kSize)));
  EXPECT_DEATH((*TensorBuffer::Allocate(kSize))->FreezeMemory(), "another process can map");
}

// ---- Frozen memory --------------------------------------------------------------------------------------------------

TEST_F(SharedMemory, WritesAfterTheHandOverGoElsewhere) {
  const RefPtr<TensorBuffer> sent = Filled(kSize, 'a', Shared());
  ASSERT_TRUE(sent->IsExclusive());
  sent->FreezeMemory();
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> received, Receive(*sent));
  EXPECT_FALSE(sent->IsWritableInPlace());
  EXPECT_FALSE(sent->IsExclusive());
  const void* const before = sent->data();
  const RefPtr<TensorBuffer> part = TensorBuffer::MakeSubBuffer(sent, 100, 200);
  Fill(part.get(), 'b');
  EXPECT_NE(sent->data(), before);
  EXPECT_EQ(sent->bytes(), std::string(100, 'a') + std::string(200, 'b') + std::string(kSize - 300, 'a'));
  EXPECT_EQ(received->bytes(), std::string(kSize, 'a'));
  // The copy is as any new memory from the same allocator: writable where it is, and fit to be sent.
  EXPECT_TRUE(sent->IsWritableInPlace());
  ASSERT_TRUE(sent->file_range());
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> next, Receive(*sent));
  EXPECT_EQ(next->bytes(), sent->bytes());
}

TEST_F(SharedMemory, TheLastOnFrozenMemoryCopiesAsWell) {
  RefPtr<TensorBuffer> sent = Filled(kSize, 'a', Shared());
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> made_before, sent->LazyClone());
  sent->FreezeMemory();
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> made_after, sent->LazyClone());
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> received, Receive(*sent));
  sent = nullptr;
  Fill(made_before.get(), 'b');
  EXPECT_FALSE(made_after->IsWritableInPlace()) << "the last one here, but not everywhere";
  Fill(made_after.get(), 'c');
  EXPECT_EQ(received->bytes(), std::string(kSize, 'a'));
  EXPECT_EQ(made_before->bytes(), std::string(kSize, 'b'));
  EXPECT_EQ(made_after->bytes(), std::string(kSize, 'c'));
}

TEST_F(SharedMemory, FrozenByACloneIsFrozenForAll) {
  const RefPtr<TensorBuffer> first = Filled(kSize, 'a', Shared());
  ASSERT_OK_AND_ASSIGN(RefPtr<TensorBuffer> clone, first->LazyClone());
  clone->FreezeMemory();
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> received, Receive(*clone));
  clone = nullptr;
  Fill(first.get(), 'b');
  EXPECT_EQ(received->bytes(), std::string(kSize, 'a'));
}

TEST_F(SharedMemory, FailureToCopyLeavesFrozenMemoryAlone) {
  const RefPtr<SharedMemoryAllocator> allocator = Shared({65536, kSize});
  const RefPtr<TensorBuffer> sent = Filled(kSize, 'a', allocator);
  sent->FreezeMemory();
  EXPECT_THAT(sent->EnsureMutable(), StatusIs(Code::kResourceExhausted, HasSubstr("shared_memory")));
  EXPECT_EQ(sent->bytes(), std::string(kSize, 'a'));
}

TEST_F(SharedMemory, ExternalMemoryWithAPlaceCanBeFrozen) {
  const RefPtr<TensorBuffer> owner = Filled(kSize, 'a', Shared());
  TensorBuffer::External memory;
  memory.data = owner->mutable_data();
  memory.size_bytes = kSize;
  memory.file_range = *owner->file_range();
  const RefPtr<TensorBuffer> wrapped = TensorBuffer::WrapExternal(std::move(memory));
  static_cast<char*>(wrapped->mutable_data())[0] = 'b';
  EXPECT_EQ(owner->bytes()[0], 'b');
  wrapped->FreezeMemory();
  static_cast<char*>(wrapped->mutable_data())[0] = 'c';
  EXPECT_EQ(owner->bytes()[0], 'b');
}

// For ThreadSanitizer: roots on one block, of which one is frozen while others are written and cloned.
TEST_F(SharedMemory, RootsOnOneBlockDoNotDisturbEachOther) {
  for (int round = 0; round < 50; ++round) {
    RefPtr<TensorBuffer> sent = Filled(65536, 'a', Shared());
    ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> received, Receive(*sent));
    std::vector<std::thread> threads;
    for (const char value : {'b', 'c'}) {
      RefPtr<TensorBuffer> clone = *sent->LazyClone();
      threads.emplace_back([clone = std::move(clone), value] {
        static_cast<char*>(clone->mutable_data())[0] = value;
        EXPECT_EQ(clone->bytes()[0], value);
      });
    }
    threads.emplace_back([&sent] { EXPECT_EQ((*sent->LazyClone())->bytes()[0], 'a'); });
    threads.emplace_back([&sent] {
      sent->FreezeMemory();
      EXPECT_TRUE(sent->file_range());
      EXPECT_FALSE(sent->IsWritableInPlace());
    });
    for (std::thread& thread : threads) thread.join();
    static_cast<char*>(sent->mutable_data())[0] = 'd';
    EXPECT_EQ(received->bytes(), std::string(65536, 'a'));
  }
}

// ---- Sealing against writing ----------------------------------------------------------------------------------------

TEST_F(SharedMemory, SealedMemoryIsTheSameForEverybodyForGood) {
  const RefPtr<SharedMemoryAllocator> allocator = Shared();
  const RefPtr<TensorBuffer> sent = Filled(kSize, 'a', allocator);
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> clone, sent->LazyClone(4096, 4096));
  const void* const before = sent->data();
  EXPECT_FALSE(IsSealedAgainstWriting(*sent));
  EXPECT_OK(allocator->SealAgainstWriting(*TensorBuffer::MakeSubBuffer(clone, 10, 10)));
  EXPECT_TRUE(IsSealedAgainstWriting(*sent));
  EXPECT_OK(allocator->SealAgainstWriting(*sent)) << "again";
  EXPECT_EQ(sent->data(), before);
  EXPECT_EQ(sent->bytes(), std::string(kSize, 'a'));
  EXPECT_EQ(clone->bytes(), std::string(4096, 'a'));
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> received, Receive(*sent));
  EXPECT_TRUE(IsSealedAgainstWriting(*received));
  EXPECT_EQ(received->bytes(), std::string(kSize, 'a'));
  EXPECT_EQ(pwrite(sent->file_range()->descriptor, "b", 1, 0), -1);
  Fill(sent.get(), 'b');
  EXPECT_EQ(sent->bytes(), std::string(kSize, 'b'));
  EXPECT_FALSE(IsSealedAgainstWriting(*sent));
  EXPECT_EQ(clone->bytes(), std::string(4096, 'a'));
  EXPECT_EQ(received->bytes(), std::string(kSize, 'a'));
}

TEST_F(SharedMemory, OnlyItsOwnAllocatorSealsMemory) {
  const RefPtr<SharedMemoryAllocator> allocator = Shared();
  const RefPtr<SharedMemoryAllocator> other = Shared();
  const RefPtr<TensorBuffer> sent = Filled(kSize, 'a', other);
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> received, Receive(*sent));
  EXPECT_THAT(allocator->SealAgainstWriting(*sent), StatusIs(Code::kFailedPrecondition, HasSubstr("another")));
  EXPECT_THAT(allocator->SealAgainstWriting(*received), StatusIs(Code::kFailedPrecondition, HasSubstr("received")));
  EXPECT_THAT(allocator->SealAgainstWriting(**TensorBuffer::Allocate(kSize)),
              StatusIs(Code::kFailedPrecondition, HasSubstr("not shared")));
}

TEST_F(SharedMemory, SealingWithoutAFreeDescriptorSaysSo) {
  const RefPtr<SharedMemoryAllocator> allocator = Shared();
  const RefPtr<TensorBuffer> sent = Filled(kSize, 'a', allocator);
  struct rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const struct rlimit none = {3, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = allocator->SealAgainstWriting(*sent);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_THAT(status, StatusIs(Code::kResourceExhausted, HasSubstr("opening the memory file for reading")));
  EXPECT_OK(allocator->SealAgainstWriting(*sent));
}

TEST_F(SharedMemory, CannotBeSealedWhileAChildHasItWritable) {
  const RefPtr<SharedMemoryAllocator> allocator = Shared();
  const RefPtr<TensorBuffer> sent = Filled(kSize, 'a', allocator);
  int done[2];
  ASSERT_EQ(pipe2(done, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(done[1]);
    char byte;
    static_cast<void>(!read(done[0], &byte, 1));
    _exit(0);
  }
  EXPECT_THAT(allocator->SealAgainstWriting(*sent), StatusIs(Code::kFailedPrecondition, HasSubstr("can write here")));
  EXPECT_EQ(sent->bytes(), std::string(kSize, 'a'));
  close(done[0]);
  close(done[1]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_OK(allocator->SealAgainstWriting(*sent));
  EXPECT_EQ(sent->bytes(), std::string(kSize, 'a'));
}

}  // namespace
}  // namespace tensorcask
