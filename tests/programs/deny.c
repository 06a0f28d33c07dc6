/* deny CALL,... PROGRAM ARG...: runs PROGRAM under a seccomp filter that answers EPERM to the named system calls. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    int number;
} calls[] = {
    {"ptrace", SYS_ptrace},
    {"perf_event_open", SYS_perf_event_open},
    {"memfd_create", SYS_memfd_create},
};

int main(int argc, char **argv) {
    struct sock_filter filter[16];
    int n = 0;
    if (argc < 3)
        return 2;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (char *name = strtok(argv[1], ","); name; name = strtok(NULL, ",")) {
        size_t i = 0;
        while (i < sizeof calls / sizeof *calls && strcmp(calls[i].name, name))
            i++;
        if (i == sizeof calls / sizeof *calls || n > 12)
            return 2;
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)n, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("deny");
        return 3;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
