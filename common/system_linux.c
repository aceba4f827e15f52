#include "common/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "common/alloc.h"

const clockid_t dl_system_thread_clock = CLOCK_THREAD_CPUTIME_ID;

/* Returns the process's affinity mask, with room for *cpus cores. Doubles the room until the kernel
 * accepts the mask (it rejects masks smaller than its own); NULL if it never does. Release with
 * CPU_FREE. */
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

int dl_system_cores(int **cores)
{
    int cpus, count = 0;
    cpu_set_t *set = read_affinity(&cpus);
    *cores = NULL;
    if (set == NULL) return 0;
    const size_t set_bytes = CPU_ALLOC_SIZE((size_t)cpus);
    *cores = dl_calloc((size_t)CPU_COUNT_S(set_bytes, set), sizeof **cores, "cores");
    for (int cpu = 0; cpu < cpus; cpu++) {
        if (CPU_ISSET_S((size_t)cpu, set_bytes, set)) (*cores)[count++] = cpu;
    }
    CPU_FREE(set);
    return count;
}

int dl_system_pin(int core)
{
    cpu_set_t *set = CPU_ALLOC((size_t)core + 1);
    if (set == NULL) return ENOMEM;
    const size_t set_bytes = CPU_ALLOC_SIZE((size_t)core + 1);
    CPU_ZERO_S(set_bytes, set);
    CPU_SET_S((size_t)core, set_bytes, set);
    const int failed = pthread_setaffinity_np(pthread_self(), set_bytes, set);
    CPU_FREE(set);
    return failed;
}

/* Without /proc, uses the name with which the program was started. */
char *dl_system_program(void)
{
    char self[PATH_MAX];
    const ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
    if (bytes > 0) return dl_strndup(self, (size_t)bytes);
    /* The kernel stores it in the auxiliary vector, in the process's memory. */
    const char *started = (const char *)getauxval(AT_EXECFN);
    if (started != NULL) return realpath(started, NULL);
    errno = ENOENT;
    return NULL;
}

char *dl_system_library(const void *here)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1(here, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL) return NULL;
    if (map->l_name == NULL || map->l_name[0] == '\0') return NULL; /* the program itself */
    return realpath(map->l_name, NULL);
}

int dl_system_exchange(const char *first, const char *second)
{
    return renameat2(AT_FDCWD, first, AT_FDCWD, second, RENAME_EXCHANGE) == 0 ? 0 : errno;
}

int dl_system_set_streams(FILE *out, FILE *err)
{
    stdout = out;
    stderr = err;
    return 0;
}
