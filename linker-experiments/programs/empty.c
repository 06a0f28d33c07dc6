/* The smallest C program: all it costs is what comes before main, and what comes after. */
int main(void) { return 0; }
