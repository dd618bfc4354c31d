// The record of a comparison as a folder: index.html (self-contained), comparison.json, figures/NAME.svg and
// .png.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "report/comparison_record.h"
#include "report/page.h"

namespace openwork {

// What was found, a sentence each, from the numbers alone: printed, and first on the page.
std::vector<std::string> list_findings(const ComparisonRecord& record);

nlohmann::json to_json(const ComparisonRecord& record);  // pictures left out

Page make_comparison_page(const ComparisonRecord& record);

// Everything into `folder`, made where it is not there; returns the page's size in bytes.
size_t write_comparison(const ComparisonRecord& record, const std::filesystem::path& folder);

}  // namespace openwork
