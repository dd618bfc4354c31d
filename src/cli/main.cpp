// The program: everything is in the table of verbs (cli/program.cpp).
#include "cli/verbs.h"

int main(int argc, char** argv) { return openwork::run_program(argc, argv); }
