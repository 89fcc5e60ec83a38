// ForwardingFileSystem (serialize/io/forwarding_file_system.h) by the name that tests use.

#ifndef TENSORCASK_TESTS_SUPPORT_FORWARDING_FILE_SYSTEM_H_
#define TENSORCASK_TESTS_SUPPORT_FORWARDING_FILE_SYSTEM_H_

#include "tensorcask/serialize/io/forwarding_file_system.h"

namespace tensorcask::testing {
using tensorcask::ForwardingFileSystem;
}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_FORWARDING_FILE_SYSTEM_H_
