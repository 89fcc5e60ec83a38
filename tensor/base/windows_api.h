// <windows.h> without its macros `min` and `max`, and without the parts that few sources need. Empty on other systems.

#ifndef TENSORCASK_TENSOR_BASE_WINDOWS_API_H_
#define TENSORCASK_TENSOR_BASE_WINDOWS_API_H_

#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#endif

#endif  // TENSORCASK_TENSOR_BASE_WINDOWS_API_H_
