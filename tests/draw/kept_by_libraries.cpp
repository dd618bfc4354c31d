// Memory that the font libraries keep until the process ends, by design: told to the leak checker of sanitizer
// builds, which looks for this function by its name. Elsewhere nobody calls it.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libfontconfig.so\nleak:libpango\nleak:libglib\n";
}
