// weight_places.json: no name in it leads out of an export's directory. What is none counts as
// nothing.
#include "engine/weights/export_layout.h"
#include "engine/weights/safetensors_index.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(weight_places, 1000) {
  static const ScratchDirectory directory;
  directory.Write(kExportLayoutName, input);
  const ExportLayout layout = ReadExportLayout(directory.path(), FileSystem::Real());
  const auto check = [](const std::string& file) {
    SPILLWAY_CHECK(file.empty() || (IsWeightsFile(file) && file.find('/') == std::string::npos));
  };
  for (const auto& [parameter, places] : layout.places) {
    SPILLWAY_CHECK(!places.empty());
    for (const TensorPlace& place : places) check(place.file);
  }
  for (const ExportTensor& zeros : layout.zeros) check(zeros.file);
  if (layout.FirstDType()) SPILLWAY_CHECK(!layout.places.empty());
  return !layout.places.empty() || !layout.zeros.empty();
}

}  // namespace spillway
