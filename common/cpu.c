#include "common/cpu.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/system.h"

/* Allowed cores, read once, so that later pinning of threads does not shrink the set; respects a
 * mask set by a test or a batch system before the start. */
static struct {
    pthread_once_t once;
    int *cores; /* [count], system numbers, ascending */
    int count;
} allowed = {.once = PTHREAD_ONCE_INIT};

static void find_allowed(void)
{
    allowed.count = dl_system_cores(&allowed.cores);
    if (allowed.count == 0) { /* a system without affinity masks: count one core */
        free(allowed.cores);
        allowed.cores = dl_calloc(1, sizeof(int), "cores");
        allowed.count = 1;
    }
}

int dl_cpu_count(void)
{
    pthread_once(&allowed.once, find_allowed);
    return allowed.count;
}

dl_status dl_cpu_pin(int index, dl_error *err)
{
    int count = dl_cpu_count();
    int cpu = allowed.cores[(index % count + count) % count];
    const int failed = dl_system_pin(cpu);
    if (failed == 0) return DL_OK;
    return dl_error_set(err, DL_ERR_SYSTEM, "cannot pin to core %d: %s", cpu, strerror(failed));
}

const char *dl_cpu_name(char *text, size_t bytes)
{
    snprintf(text, bytes, "unknown CPU");
    FILE *in = fopen("/proc/cpuinfo", "r");
    if (in == NULL) return text;
    char line[512];
    while (fgets(line, sizeof line, in) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", strlen("model name")) != 0 || colon == NULL) continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(text, bytes, "%s", colon + 1 + strspn(colon + 1, " \t"));
        break;
    }
    fclose(in);
    return text;
}

void dl_cpu_flush_subnormals(void)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() |
                           0x8040); /* flush to zero, denormals are zero */
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | UINT64_C(1) << 24));
#endif
}

static double seconds_of(const struct timeval *time)
{
    return (double)time->tv_sec + 1e-6 * (double)time->tv_usec;
}

dl_cpu_usage dl_cpu_usage_now(void)
{
    dl_cpu_usage usage = {0};
    struct rusage own;
    if (getrusage(RUSAGE_SELF, &own) == 0)
        usage.own_s = seconds_of(&own.ru_utime) + seconds_of(&own.ru_stime);
    FILE *in = fopen("/proc/stat", "r");
    if (in == NULL) return usage;
    /* user nice system idle iowait irq softirq steal */
    double ticks[8] = {0};
    const int read = fscanf(in, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &ticks[0], &ticks[1],
                            &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]);
    fclose(in);
    if (read < 4) return (dl_cpu_usage){0};
    const double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    usage.busy_s = tick_s * (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]);
    usage.steal_s = tick_s * ticks[7];
    usage.total_s = usage.busy_s + usage.steal_s + tick_s * (ticks[3] + ticks[4]);
    return usage;
}

dl_cpu_disturbance dl_cpu_disturbed(const dl_cpu_usage *from, const dl_cpu_usage *to)
{
    const double total_s = to->total_s - from->total_s;
    if (!(total_s > 0)) return (dl_cpu_disturbance){(double)NAN, (double)NAN};
    const double others_s = to->busy_s - from->busy_s - (to->own_s - from->own_s);
    return (dl_cpu_disturbance){.others_frac = fmin(1, fmax(0, others_s / total_s)),
                                .steal_frac = (to->steal_s - from->steal_s) / total_s};
}
