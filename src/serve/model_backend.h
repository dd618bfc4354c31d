// Models as what answers.
#pragma once
#include "serve/backend.h"
#include "serve/served_models.h"

namespace openwork::serve {

class ModelBackend : public Backend {
 public:
  explicit ModelBackend(std::vector<TracedModel> models) : models_(std::move(models)) {}

  nlohmann::json describe() const override;
  std::vector<std::string> names() const override;
  void check(const Request& request) const override;
  void begin() override;
  Answer answer(const Request& request, Work& work) override;

 private:
  const ServedModels models_;
};

}  // namespace openwork::serve
