/* Writes a line; exits with 1 where it was given an argument. The table makes relocations. */
#include <stdio.h>

static const char *words[] = {"none", "one", "two", "three"};

int main(int argc, char **argv) {
    (void)argv;
    puts(words[argc & 3]);
    return argc > 1;
}
