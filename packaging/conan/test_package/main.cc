// Opens a file without tensors with all formats of the library.

#include <iostream>

#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/io/byte_source.h"

int main() {
  const tensorcask::AllFormats formats;
  const auto archive = tensorcask::OpenArchive(tensorcask::MakeMemorySource("none", "no tensors"), formats.list());
  std::cout << archive.status() << '\n';
  return absl::IsDataLoss(archive.status()) ? 0 : 1;
}
