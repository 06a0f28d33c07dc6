/* Touches as many pages as its argument says: one page fault each. */
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 0, size = 4096;
    if (n <= 0) return 0;
    char *p = mmap(0, n * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 1;
    madvise(p, n * size, MADV_NOHUGEPAGE);
    for (long i = 0; i < n; i++) p[i * size] = 1;
    return 0;
}
