// Descriptors from strangers: which of them are mapped, and what their claims are compared with.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"
#include "tensorcask/tests/serialize/exchange/shared_memory_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::CountOpenDescriptors;
using ::tensorcask::testing::CountOpenDescriptorsOnceSettled;
using ::tensorcask::testing::kSize;
using ::tensorcask::testing::kWanted;
using ::tensorcask::testing::SharedMemory;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// A memory file with these seals, all of it filled.
ScopedDescriptor MemoryFile(int seals, off_t size = kSize, bool fill = true) {
  ScopedDescriptor file(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(file.get(), size), 0);
  if (fill) {
    EXPECT_EQ(fallocate(file.get(), 0, 0, size), 0);
  }
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

ScopedDescriptor OpenFile(const char* path, int flags = O_RDWR) {
  return ScopedDescriptor(open(path, flags | O_CLOEXEC, 0600));
}

ScopedDescriptor OneOf(int (*make)(int*)) {
  int ends[2];
  EXPECT_EQ(make(ends), 0);
  close(ends[1]);
  return ScopedDescriptor(ends[0]);
}

struct RejectCase {
  const char* name;
  ScopedDescriptor (*make)();
  const char* says;
};
class MapSharedMemoryRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(MapSharedMemoryRejects, WithCodeAndMessage) {
  const int before = CountOpenDescriptors();
  EXPECT_THAT(MapSharedMemory(GetParam().make(), 0, 4096),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  EXPECT_EQ(CountOpenDescriptorsOnceSettled(before), before) << "the descriptor is left open";
}

const RejectCase kNotMemoryFiles[] = {
    {"Pipe", [] { return OneOf([](int* ends) { return pipe2(ends, O_CLOEXEC); }); }, "not a file in memory"},
    {"Socket", [] { return OneOf([](int* ends) { return socketpair(AF_UNIX, SOCK_STREAM, 0, ends); }); },
     "not a file in memory"},
    {"Folder", [] { return OpenFile("/", O_RDONLY | O_DIRECTORY); }, "not a file in memory"},
    {"DevZero", [] { return OpenFile("/dev/zero"); }, "not a file in memory"},
    {"Epoll", [] { return ScopedDescriptor(epoll_create1(EPOLL_CLOEXEC)); }, "not a file in memory"},
    {"Executable", [] { return OpenFile("/proc/self/exe", O_RDONLY); }, "not a file in memory"},
    {"PathOnly", [] { return OpenFile("/tmp", O_PATH); }, "not a file in memory"},
    {"RegularFile",
     [] {
       const TempFolder folder;
       return OpenFile(folder.Write("data", std::string(8192, 'a')).c_str());
     },
     "memory"},  // on a disk it has no seals; in /tmp in memory it cannot get the right ones
    {"NotOpen", [] { return ScopedDescriptor(); }, "not a file in memory"},
    {"FileInSharedMemory", [] { return OpenFile("/dev/shm", O_TMPFILE | O_RDWR); }, "memory"}};
const RejectCase kBadMemoryFiles[] = {
    {"Unsealed", [] { return MemoryFile(0); }, "not sealed against shrinking"},
    {"SealsForbidden", [] { return MemoryFile(F_SEAL_SEAL); }, "not sealed against shrinking"},
    {"MayShrink", [] { return MemoryFile(kWanted & ~F_SEAL_SHRINK); }, "not sealed against shrinking"},
    {"MayGrow", [] { return MemoryFile(kWanted & ~F_SEAL_GROW); }, "not sealed against growing"},
    {"MayBeHollowedOut", [] { return MemoryFile(F_SEAL_SHRINK | F_SEAL_GROW); }, "not sealed against future writing"},
    {"Hole", [] { return MemoryFile(kWanted, kSize, /*fill=*/false); }, "only 0 of its 1048576 bytes have memory"},
    {"EightExbibytes", [] { return MemoryFile(kWanted, INT64_MAX, /*fill=*/false); },
     "only 0 of its 9223372036854775807"},
    {"HoleHiddenBehindTheEnd",
     [] {
       ScopedDescriptor file = MemoryFile(0, kSize, /*fill=*/false);
       EXPECT_EQ(fallocate(file.get(), FALLOC_FL_KEEP_SIZE, kSize, 2 * kSize), 0);
       struct stat about;
       EXPECT_EQ(fstat(file.get(), &about), 0);
       EXPECT_GT(about.st_blocks * 512, about.st_size);
       EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, kWanted), 0);
       return file;
     },
     "only 0 of its 1048576 bytes have memory"},
    {"ReadOnly",
     [] {
       const ScopedDescriptor file = MemoryFile(kWanted);
       return OpenFile(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY);
     },
     "not open for writing"}};
INSTANTIATE_TEST_SUITE_P(NotMemoryFiles, MapSharedMemoryRejects, ::testing::ValuesIn(kNotMemoryFiles),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(BadMemoryFiles, MapSharedMemoryRejects, ::testing::ValuesIn(kBadMemoryFiles),
                         [](const auto& info) { return std::string(info.param.name); });

// Needs no huge pages: none are taken before the file is touched. Some systems have no such files.
TEST_F(SharedMemory, RejectsFilesOfHugePages) {
  ScopedDescriptor file(memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!file.is_open()) GTEST_SKIP() << "no hugetlbfs here";
  ASSERT_EQ(ftruncate(file.get(), 2 << 20), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, kWanted), 0);
  EXPECT_THAT(MapSharedMemory(std::move(file), 0, 4096), StatusIs(Code::kInvalidArgument, HasSubstr("huge pages")));
}

TEST_F(SharedMemory, AcceptsOtherPeoplesSealedFiles) {
  EXPECT_OK(MapSharedMemory(MemoryFile(kWanted), 0, kSize));
  EXPECT_OK(MapSharedMemory(MemoryFile(kWanted | F_SEAL_SEAL), 0, kSize));
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> sealed,
                       MapSharedMemory(MemoryFile(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0, kSize));
  EXPECT_TRUE(IsSealedAgainstWriting(*sealed));
  EXPECT_OK(MapSharedMemory(MemoryFile(kWanted, 1), 0, 1));
  EXPECT_OK(MapSharedMemory(MemoryFile(kWanted, 0, /*fill=*/false), 0, 0));
}

TEST_F(SharedMemory, ClaimsAreComparedWithTheFile) {
  for (const auto& [offset, size] : std::vector<std::pair<uint64_t, uint64_t>>{{0, kSize + 1},
                                                                               {1, kSize},
                                                                               {kSize + 1, 0},
                                                                               {kSize + 1, kAllBytes},
                                                                               {UINT64_MAX, 2},
                                                                               {2, UINT64_MAX - 1},
                                                                               {uint64_t{1} << 63, 1}}) {
    SCOPED_TRACE(offset);
    EXPECT_THAT(MapSharedMemory(MemoryFile(kWanted), offset, size),
                StatusIs(Code::kInvalidArgument, HasSubstr("exceed its 1048576 bytes")));
  }
  DecodeLimits limits;
  limits.max_message_bytes = kSize - 1;
  EXPECT_THAT(MapSharedMemory(MemoryFile(kWanted), 0, kSize, limits),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_message_bytes is 1048575")));
  EXPECT_OK(MapSharedMemory(MemoryFile(kWanted), 1, kSize - 1, limits)) << "what is mapped counts, not the file";
}

// What would end the reader with SIGBUS, tried by a sender that still has its own descriptor, while it is read.
TEST_F(SharedMemory, NoTruncationUnderAMapping) {
  ScopedDescriptor mine = MemoryFile(kWanted);
  ScopedDescriptor theirs(fcntl(mine.get(), F_DUPFD_CLOEXEC, 0));
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> received, MapSharedMemory(std::move(theirs), 0, kSize));
  std::thread sender([&mine] {
    for (int i = 0; i < 10000; ++i) {
      EXPECT_EQ(ftruncate(mine.get(), 0), -1);
      EXPECT_EQ(fallocate(mine.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kSize), -1);
    }
  });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(received->bytes(), std::string(kSize, '\0'));
  sender.join();
}

}  // namespace
}  // namespace tensorcask
