/* A library whose constructor takes 3 ms of processor time, as -shared; with -DMAIN a program that needs it. */
#ifdef MAIN
int slow(void);
int main(void) { return slow(); }
#else
#include <time.h>

static volatile long spent;

__attribute__((constructor)) static void construct(void) {
    struct timespec from, now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    do {
        spent++;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < 3000000L);
}

int slow(void) { return 0; }
#endif
