/* Fixed work: WORK steps of a chain that no compiler shortens, then one line of output. WORK negative: for ever. */
#include <stdio.h>

#ifndef WORK
#define WORK 1000000
#endif

int main(void) {
    unsigned long x = 88172645463325252UL;
    for (long i = 0; WORK < 0 || i < WORK; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        __asm__ volatile("" : "+r"(x));
    }
    printf("%lx\n", x);
    return 0;
}
