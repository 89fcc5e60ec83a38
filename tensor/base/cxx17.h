// Ends the compilation with one sentence where the compiler was not asked for C++17, instead of a thousand errors.

#ifndef TENSORCASK_TENSOR_BASE_CXX17_H_
#define TENSORCASK_TENSOR_BASE_CXX17_H_

#if __cplusplus < 201703L
#error "Tensorcask needs C++17 or newer: compile with -std=c++17 (in a .bazelrc: build --cxxopt=-std=c++17)"
#include <tensorcask_needs_cxx17>  // no such file: here compilers stop
#endif

#endif  // TENSORCASK_TENSOR_BASE_CXX17_H_
