/* One of each kind of relocation that a plain C program has: eight pointers to constants, two variables of the
   C library (copied into a program that is not compiled as PIC), two functions of it. */
#include <stdio.h>

extern char **environ;

static const char *const table[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        fprintf(stderr, "%p", (void *)environ);
    puts(table[argc & 7]);
    return 0;
}
