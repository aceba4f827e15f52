/* A program to be recorded: inject_target MODE COUNT [RATE]. Each thread launches COUNT kernels,
 * RATE per second (0 = as fast as possible). With and without a recorder it prints "launched N".
 *
 *   exit     one thread, returns 3
 *   threads  8 threads, returns 3
 *   _exit    one thread, two flushes, _exit(4)
 *   kill     8 threads, then others for two flushes, SIGKILL
 *   fork     with a child that launches too, ends by exit(5) and is waited for
 *   exec     with a child that execs this program in mode exit
 *   wait     waits for the device after each launch, returns 3
 *   later    waits for the end of its input and launches as many again, returns 3
 *   busy     returns while 8 threads are launching
 *   closes   closes all descriptors above the standard ones, opens files.txt in their place, then
 *            launches as many again, returns 3
 *   none     calls nothing, returns 3
 *
 * DOUBLE_DISK is a number of bytes that may be written to files; then the disk is full. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/doubles/driver_double.h"

#define THREADS 8

static const char *const kernels[] = {"_Z4gemmPf", "_Z4reluPf", "_Z7softmaxPf", "_Z4adamPf"};
static int count, rate;
static atomic_bool stop;

/* Replaces the C library's function, also for the injected library. */
ssize_t write(int fd, const void *data, size_t bytes)
{
    static atomic_size_t written;
    const char *disk = getenv("DOUBLE_DISK");
    if (disk != NULL && fd > STDERR_FILENO &&
        atomic_fetch_add(&written, bytes) + bytes > strtoul(disk, NULL, 10)) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_write, fd, data, bytes);
}

static void rest(long ns)
{
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (nanosleep(&left, &left) != 0) {}
}

static void launch_some(int first, int number)
{
    for (int i = first; i < first + number; i++)
        driver_double_launch(kernels[i % 4]);
}

/* Launches in bursts of 10 ms, since sleeping is too inexact for single launches. */
static void *launch_all(void *unused)
{
    (void)unused;
    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    const int burst = rate > 0 ? rate / 100 : count;
    for (int done = 0; done < count; done += burst) {
        launch_some(done, burst < count - done ? burst : count - done);
        due.tv_nsec += 10000000;
        if (due.tv_nsec >= 1000000000) due.tv_sec++, due.tv_nsec -= 1000000000;
        if (rate > 0) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    }
    return NULL;
}

static void *launch_until_stopped(void *unused)
{
    (void)unused;
    for (int i = 0; !atomic_load(&stop); i++) {
        driver_double_launch(kernels[i % 4]);
        rest(1000000);
    }
    return NULL;
}

static void start_threads(pthread_t threads[THREADS], void *(*function)(void *))
{
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, function, NULL) != 0) abort();
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    start_threads(threads, launch_all);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void say(int launched)
{
    printf("launched %d\n", launched);
    fflush(stdout);
}

static void run_child(const char *self, const char *mode)
{
    const pid_t child = fork();
    if (child == 0 && strcmp(mode, "exec") == 0) {
        execl(self, self, "exit", "5", (char *)NULL);
        abort();
    }
    if (child == 0) {
        launch_all(NULL);
        exit(5);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
}

static void take_descriptors(void)
{
    closefrom(STDERR_FILENO + 1);
    for (int i = 0; i < 16; i++)
        if (open("files.txt", O_WRONLY | O_CREAT | O_APPEND, 0666) < 0) abort();
}

int main(int argc, char **argv)
{
    const char *mode = argv[1];
    count = argc > 2 ? atoi(argv[2]) : 0;
    rate = argc > 3 ? atoi(argv[3]) : 0;
    if (strcmp(mode, "none") == 0) return 3;
    cuInit(0);
    driver_double_create_context(0);
    pthread_t threads[THREADS];
    if (strcmp(mode, "threads") == 0 || strcmp(mode, "kill") == 0) {
        run_threads();
        say(THREADS * count);
    } else {
        launch_all(NULL);
        say(count);
    }
    if (strcmp(mode, "kill") == 0) {
        start_threads(threads, launch_until_stopped);
        driver_double_await_flushes(2);
        raise(SIGKILL);
    }
    if (strcmp(mode, "busy") == 0) start_threads(threads, launch_until_stopped);
    if (strcmp(mode, "_exit") == 0) {
        driver_double_await_flushes(2);
        _exit(4);
    }
    if (strcmp(mode, "later") == 0) {
        while (getchar() != EOF) {}
        launch_all(NULL);
    }
    if (strcmp(mode, "closes") == 0) {
        take_descriptors();
        launch_all(NULL);
    }
    for (int i = 0; i < count && strcmp(mode, "wait") == 0; i++)
        driver_double_wait();
    if (strcmp(mode, "fork") == 0 || strcmp(mode, "exec") == 0) {
        run_child(argv[0], mode);
        launch_all(NULL);
    }
    return 3;
}
