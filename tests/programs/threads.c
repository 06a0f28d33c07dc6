/* Four threads besides the first, all alive at once. */
#include <pthread.h>
#include <stdio.h>

static pthread_barrier_t all;

static void *work(void *p) {
    pthread_barrier_wait(&all);
    return p;
}

int main(void) {
    pthread_t t[4];
    pthread_barrier_init(&all, 0, 5);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], 0, work, 0);
    pthread_barrier_wait(&all);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], 0);
    puts("done");
    return 0;
}
