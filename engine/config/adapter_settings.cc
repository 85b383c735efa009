#include "engine/config/adapter_settings.h"

#include <string>
#include <utility>
#include <vector>

#include "engine/config/trainer_flags.h"
#include "engine/weights/model_files.h"
#include "io/file_system.h"

namespace spillway {
namespace {

class AdapterSettings : SettingPicker {
 public:
  explicit AdapterSettings(const SettingSources& sources) : SettingPicker(sources) {}

  void Resolve() {
    AdapterChoice& adapter = config_.adapter;
    adapter.directory = String("adapter");
    adapter.config_file = String("peft-config");
    FindFiles(adapter);
    const std::string other = FirstOfLora();
    if (flags_.adapter && flags_.peft_config) {
      Invalid("--adapter has a config of its own: leave --peft-config out");
    }
    if (!flags_.lora_r) {
      if (other.empty()) return;
      Invalid(flags_.adapter || flags_.peft_config
                  ? absl::StrCat(other, " is what ", flags_.adapter ? "--adapter" : "--peft-config",
                                 " says: leave it out, or change its adapter_config.json")
                  : absl::StrCat(other, " needs --lora-r: the rank of the adapters"));
      return;
    }
    if (flags_.adapter || flags_.peft_config) {
      Invalid(absl::StrCat("--lora-r is what ", flags_.adapter ? "--adapter" : "--peft-config",
                           " says: leave it out"));
    }
    adapter.lora = Lora();
  }

 private:
  // --peft-config may name the folder of the file; --adapter may not name the run of the adapter.
  void FindFiles(AdapterChoice& adapter) {
    if (IsDirectory(adapter.config_file)) {
      adapter.config_file = absl::StrCat(adapter.config_file, "/", kAdapterConfigName);
    }
    const std::string inside = absl::StrCat(adapter.directory, "/adapter");
    if (adapter.directory.empty() ||
        Exists(absl::StrCat(adapter.directory, "/", kAdapterConfigName)) ||
        !Exists(absl::StrCat(inside, "/", kAdapterConfigName))) {
      return;
    }
    Invalid(absl::StrCat("--adapter ", adapter.directory, " has no ", kAdapterConfigName,
                         ": the adapter is in ", inside, "; give --adapter ", inside));
  }

  // Of the flags that say more of adapters the first that is given; "" without one.
  std::string FirstOfLora() const {
    const std::vector<std::pair<const char*, const Text*>> flags = {
        {"--lora-alpha", &flags_.lora_alpha},
        {"--lora-dropout", &flags_.lora_dropout},
        {"--lora-targets", &flags_.lora_targets},
        {"--use-rslora", &flags_.use_rslora},
        {"--lora-bias", &flags_.lora_bias},
        {"--modules-to-save", &flags_.modules_to_save},
        {"--layers-to-transform", &flags_.layers_to_transform}};
    for (const auto& [name, flag] : flags) {
      if (*flag) return name;
    }
    return "";
  }

  LoraConfig Lora() {
    LoraConfig lora;
    lora.r = Integer("lora-r");
    lora.alpha = Number("lora-alpha");
    lora.dropout = Number("lora-dropout");
    lora.targets = Names("lora-targets");
    lora.rank_stabilized = Switch("use-rslora");
    lora.bias = Choice<LoraConfig::Bias>(
        "lora-bias",
        {LoraConfig::Bias::kNone, LoraConfig::Bias::kAll, LoraConfig::Bias::kLoraOnly});
    lora.modules_to_save = Names("modules-to-save");
    for (const std::string& layer : Names("layers-to-transform")) {
      const auto number = IntegerFlag("--layers-to-transform", layer, 0, 1 << 20);
      Fail(number.status());
      lora.layers.push_back(number.value_or(0));
    }
    return lora;
  }
};

}  // namespace

void ResolveAdapterSettings(const SettingSources& sources) { AdapterSettings(sources).Resolve(); }

}  // namespace spillway
