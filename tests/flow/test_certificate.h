// A certificate for 127.0.0.1 signed by itself, made anew for each test.
#pragma once
#include <filesystem>

namespace openwork {

struct TestCertificate {
  std::filesystem::path certificate, key;  // PEM files
};

TestCertificate make_test_certificate(const std::filesystem::path& folder);

}  // namespace openwork
