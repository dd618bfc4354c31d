// Exists so that the tests' precompiled header has a target to be compiled in.
