#include "common/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* The allowed cores, taken once: threads that pin themselves later must not shrink the set, and a
 * test or a batch system that narrows the mask before the start must be heeded. */
static struct {
    pthread_once_t once;
    int *cores; /* [count], system numbers, ascending */
    int count;
} allowed = {.once = PTHREAD_ONCE_INIT};

/* The process's affinity mask for up to *cpus cores, grown until the kernel is content (it refuses
 * masks smaller than its own); NULL if it never is. Release with CPU_FREE. */
static cpu_set_t *read_affinity(int *cpus)
{
    for (*cpus = CPU_SETSIZE; *cpus <= 1 << 20; *cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)*cpus);
        if (set == NULL) return NULL;
        if (sched_getaffinity(0, CPU_ALLOC_SIZE((size_t)*cpus), set) == 0) return set;
        CPU_FREE(set);
        if (errno != EINVAL) return NULL;
    }
    return NULL;
}

static void find_allowed(void)
{
    int cpus;
    cpu_set_t *set = read_affinity(&cpus);
    if (set != NULL) {
        size_t set_bytes = CPU_ALLOC_SIZE((size_t)cpus);
        allowed.cores = dl_calloc((size_t)CPU_COUNT_S(set_bytes, set), sizeof(int), "cores");
        for (int cpu = 0; cpu < cpus; cpu++) {
            if (CPU_ISSET_S((size_t)cpu, set_bytes, set)) allowed.cores[allowed.count++] = cpu;
        }
        CPU_FREE(set);
    }
    if (allowed.count == 0) { /* a system without affinity: at least the core we run on */
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
    cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
    if (set == NULL) return dl_error_set(err, DL_ERR_SYSTEM, "no memory for a set of cores");
    size_t set_bytes = CPU_ALLOC_SIZE((size_t)cpu + 1);
    CPU_ZERO_S(set_bytes, set);
    CPU_SET_S((size_t)cpu, set_bytes, set);
    int failed = pthread_setaffinity_np(pthread_self(), set_bytes, set);
    CPU_FREE(set);
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
