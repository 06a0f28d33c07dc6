/* The smallest honest spawn loop: (v)fork + execv + wait4 of one program, N times, times on stdout.
 *
 * usage: spawnloop fork|vfork N PROGRAM
 * Standard output and error of the program go to /dev/null, as premain's do under --stdout null.
 * It is what premain's own overhead is compared with; nothing of premain is in it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    int use_vfork = strcmp(argv[1], "vfork") == 0, n = atoi(argv[2]);
    char *args[] = { argv[3], NULL };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    unsigned long long *times = calloc(n, sizeof *times);
    if (null < 0 || !times)
        return 2;
    memset(times, 1, n * sizeof *times);
    for (int i = 0; i < n; i++) {
        unsigned long long t0 = now();
        pid_t pid = use_vfork ? vfork() : fork();
        if (pid == 0) {
            dup2(null, 0);
            dup2(null, 1);
            dup2(null, 2);
            execv(argv[3], args);
            _exit(127);
        }
        int status;
        struct rusage usage;
        if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || status != 0)
            return 3;
        times[i] = now() - t0;
    }
    for (int i = 0; i < n; i++)
        printf("%llu\n", times[i]);
    return 0;
}
