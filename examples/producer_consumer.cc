// Two processes pass batches through shared memory: the elements are written once and never copied.
// docs/guide/exchange.md shows this file.

#include <iostream>
#include <string>

#include "absl/time/time.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

constexpr absl::Duration kTimeout = absl::Seconds(20);

absl::Status Produce(const std::string& socket) {
  CASK_ASSIGN_OR_RETURN(cask::Channel consumer, cask::Channel::Connect(socket, kTimeout));
  CASK_ASSIGN_OR_RETURN(const cask::RefPtr<cask::SharedMemoryAllocator> shared,
                        cask::SharedMemoryAllocator::Create({}));
  for (int i = 0; i < 4; ++i) {
    CASK_ASSIGN_OR_RETURN(cask::Tensor batch,
                          cask::Tensor::Create(cask::DType::kFloat32, cask::TensorShape({1024, 256}), shared));
    for (float& value : batch.mutable_flat<float>()) value = static_cast<float>(i);
    // Freezes `batch`: a later write would copy it first.
    CASK_RETURN_IF_ERROR(consumer.SendTensor(batch, {}, kTimeout));
  }
  return consumer.Close(kTimeout);
}

absl::Status Consume(const std::string& socket) {
  CASK_ASSIGN_OR_RETURN(cask::ChannelListener listener, cask::ChannelListener::Listen(socket));
  CASK_ASSIGN_OR_RETURN(cask::Channel producer, listener.Accept(kTimeout));
  while (true) {
    const absl::StatusOr<cask::DecodedTensor> batch = producer.ReceiveTensor(kTimeout);
    if (absl::IsOutOfRange(batch.status())) return absl::OkStatus();  // the producer has closed
    CASK_RETURN_IF_ERROR(batch.status());
    CASK_ASSIGN_OR_RETURN(const cask::Tensor values, batch->view.ToTensor());  // already row-major: not copied
    double sum = 0;
    for (const float value : values.flat<float>()) sum += value;
    const bool shared = values.buffer()->root()->kind() == cask::TensorBuffer::Kind::kMapped;
    std::cout << (shared ? "shared" : "copied") << " float32 " << values.shape().ToString() << " mean "
              << sum / static_cast<double>(values.num_elements()) << '\n';
  }
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: producer_consumer SOCKET producer|consumer\n";
    return 2;
  }
  const absl::Status status = argv[2] == std::string("producer") ? Produce(argv[1]) : Consume(argv[1]);
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
