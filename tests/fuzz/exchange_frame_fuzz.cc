// What a channel receives: the input is all that a peer sends, and arrives without a descriptor or with a memory file.
// Whatever comes, each message that is taken can be walked, and sent on; and however it is cut into pieces on its way,
// the same messages come out, and the same end.
//
// Is to reach what input can reach of these files:
//   serialize/exchange/internal/frame*
//   serialize/exchange/message_codec*

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tensorcask::testing {
namespace {

using exchange::kFrameHeaderBytes;

constexpr size_t kMaxInputBytes = 64 << 10;  // fits the buffer of a socket
constexpr size_t kFileBytes = 4096;

int MemoryFile() {
  static const int file = [] {
    const int made = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    FUZZ_CHECK(fallocate(made, 0, 0, kFileBytes) == 0, "fallocate");
    FUZZ_CHECK(fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0, "seals");
    return made;
  }();
  return file;
}

// Sends `stream`, each frame that begins where one should with as many descriptors as it says it has. `random`, unless
// it is 0, cuts it into pieces. Stops where the receiver has had enough.
void Play(absl::string_view stream, uint64_t random, UnixSocket* socket) {
  while (!stream.empty()) {
    size_t size = stream.size();
    std::vector<int> descriptors;
    if (stream.size() >= kFrameHeaderBytes) {
      const absl::StatusOr<exchange::FrameHeader> header =
          exchange::DecodeFrameHeader(stream.substr(0, kFrameHeaderBytes));
      if (header.ok()) {
        descriptors.assign(header->num_descriptors, MemoryFile());
        const size_t rest = stream.size() - kFrameHeaderBytes;
        if (header->body_bytes <= rest && header->inline_bytes <= rest - header->body_bytes) {
          size = kFrameHeaderBytes + header->body_bytes + header->inline_bytes;
        }
      }
    }
    for (absl::string_view frame = stream.substr(0, size); !frame.empty();) {
      size_t piece = frame.size();
      if (random != 0) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        // Short ones often, so that headers are cut; but few enough.
        piece = std::min<size_t>(piece, 1 + (random >> 33) % ((random >> 60) < 8 ? 50 : 5000));
        if (random >> 62 == 0) std::this_thread::yield();
      }
      if (!socket->SendAll({frame.substr(0, piece)}, descriptors, absl::Seconds(10)).ok()) return;
      descriptors.clear();
      frame.remove_prefix(piece);
    }
    stream.remove_prefix(size);
  }
}

// Gives each frame its place in the sequence, lengths that fit and correct checksums.
void Mend(char* bytes, size_t size) {
  for (uint64_t sequence = 0; size >= kFrameHeaderBytes; ++sequence) {
    const uint64_t rest = size - kFrameHeaderBytes;
    auto body = LoadLittleEndian<uint64_t>(bytes + 16);
    if (body > rest) body %= rest + 1;
    auto data = LoadLittleEndian<uint64_t>(bytes + 24);
    if (data > rest - body) data %= rest - body + 1;
    StoreLittleEndian(sequence, bytes + 8);
    StoreLittleEndian(body, bytes + 16);
    StoreLittleEndian(data, bytes + 24);
    bytes[7] = 0;
    StoreLittleEndian(MaskCrc32c(Crc32c({bytes + kFrameHeaderBytes, body})), bytes + 36);
    StoreLittleEndian(MaskCrc32c(Crc32c({bytes, 40})), bytes + 40);
    bytes += kFrameHeaderBytes + body + data;
    size -= kFrameHeaderBytes + body + data;
  }
}

const ChannelOptions& Options() {
  static const auto* const options = [] {
    auto* made = new ChannelOptions();
    made->decode.limits.max_message_bytes = 1 << 20;
    made->decode.limits.max_memory_beyond_input = 1 << 20;
    made->checksum = true;
    return made;
  }();
  return *options;
}

void SendOn(const Message& message) {
  auto pair = UnixSocket::Pair();
  FUZZ_CHECK(pair.ok(), "no sockets");
  Channel sender = Channel::FromSocket(std::move(pair->first), Options());
  Channel receiver = Channel::FromSocket(std::move(pair->second), Options());
  // A tensor may be more than the buffer takes, or the message more than a limit when it is encoded otherwise.
  if (!sender.Send(message, absl::ZeroDuration()).ok()) return;
  const absl::StatusOr<Message> same = receiver.Receive(absl::ZeroDuration());
  if (!same.ok()) return;
  FUZZ_CHECK(same->topic == message.topic && same->tensors.size() == message.tensors.size(), "another message");
  for (size_t i = 0; i < same->tensors.size(); ++i) {
    FUZZ_CHECK(same->tensors[i].metadata == message.tensors[i].metadata, "other metadata");
    FUZZ_CHECK(same->tensors[i].view.dims() == message.tensors[i].view.dims(), "another shape");
  }
}

// All that comes out of a channel into which `stream` is played, as text; `random` as for Play, from another thread.
std::string Receive(absl::string_view stream, uint64_t random) {
  auto pair = UnixSocket::Pair();
  FUZZ_CHECK(pair.ok(), "no sockets");
  Channel channel = Channel::FromSocket(std::move(pair->first), Options());
  const auto play = [stream, random, peer = &pair->second] {
    Play(stream, random, peer);
    peer->Shutdown();
  };
  std::thread player;
  if (random != 0) player = std::thread(play);
  if (random == 0) play();
  std::string events;
  while (true) {
    const absl::StatusOr<Message> message = channel.Receive(absl::Seconds(10));
    if (!message.ok()) {
      FUZZ_CHECK(!absl::IsDeadlineExceeded(message.status()), "it waits for what was there");
      absl::StrAppend(&events, absl::StatusCodeToString(message.status().code()));
      break;
    }
    absl::StrAppend(&events, message->topic, " ", message->request, " ", message->status.ToString(), " ");
    for (const DecodedTensor& tensor : message->tensors) {
      const std::string text = SummarizeValue(tensor.view);
      FUZZ_CHECK(!text.empty(), "a tensor without text");
      absl::StrAppend(&events, tensor.metadata.name, " ", tensor.view.ToString(), " ", text, "\n");
    }
    if (random == 0) SendOn(*message);
  }
  if (player.joinable()) player.join();
  return events;
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > tensorcask::testing::kMaxInputBytes) return 0;
  const absl::string_view stream(reinterpret_cast<const char*>(data), size);
  const std::string events = tensorcask::testing::Receive(stream, 0);
  const uint64_t random = 1 + tensorcask::Crc32c(stream);
  FUZZ_CHECK(tensorcask::testing::Receive(stream, random) == events, "other pieces, another outcome");
  tensorcask::exchange::DecodeBody(stream).IgnoreError();
  tensorcask::exchange::DecodeHello(stream).IgnoreError();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 != 0) tensorcask::testing::Mend(reinterpret_cast<char*>(data), size);
  return size;
}
