/* Dies of SIGILL or SIGTRAP in main. */
int main(void) {
    __builtin_trap();
}
