// The version of the library, for programs that must tell releases apart (SemVer; CHANGELOG.md).
//
//   std::cout << CASK_VERSION_STRING;   // 0.1.0

#ifndef TENSORCASK_TENSOR_VERSION_H_
#define TENSORCASK_TENSOR_VERSION_H_

#define CASK_VERSION_MAJOR 0
#define CASK_VERSION_MINOR 1
#define CASK_VERSION_PATCH 0
#define CASK_VERSION_STRING "0.1.0"

#endif  // TENSORCASK_TENSOR_VERSION_H_
