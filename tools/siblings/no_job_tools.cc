// Of a program that has no MPI.

#include "tensorcask/tools/siblings/job_tools.h"

namespace tensorcask::tools {

const JobTools* LinkedJobTools() { return nullptr; }

}  // namespace tensorcask::tools
