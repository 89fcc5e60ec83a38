// Of `tensorcask`, which has no gRPC.

#include "tensorcask/tools/siblings/remote_tools.h"

namespace tensorcask::tools {

const RemoteTools* LinkedRemoteTools() { return nullptr; }

}  // namespace tensorcask::tools
