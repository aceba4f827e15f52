/* The real libcupti in several versions, without a GPU. Each library below DL_CUPTI_LIBRARIES
 * (unpacked wheels of nvidia-cuda-cupti) is loaded in a separate process, which checks that the
 * required functions exist and that records are long enough for the fields read; and a program into
 * which the recorder is injected must continue and log why nothing is recorded. Prints a table.
 * Skipped without that folder. */
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profiler/inject/cupti_api.h"
#include "tests/check.h"
#include "tests/doubles/cupti_records.h"

#define LIBRARIES_MAX 32
#define GOES_ON 3 /* exit code of the program below */
#define WORDS "test_cupti_libraries.out"

static char *paths[LIBRARIES_MAX];
static size_t path_count;

static void find_libraries(const char *folder)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        DL_AUTOFREE char *path = dl_format("%s/%s", folder, name);
        if (name[0] != '.' && entries[i]->d_type == DT_DIR) find_libraries(path);
        if (strncmp(name, "libcupti.so.", 12) == 0 && path_count < LIBRARIES_MAX)
            paths[path_count++] = dl_strdup(path);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
}

#define UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)NULL)->field))

/* Records, and the last field that is read, from which version on. */
static const struct {
    const char *name;
    CUpti_ActivityKind kind;
    uint32_t version;
    size_t bytes;
} read_fields[] = {
    {"kernel", CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0, UP_TO(CUpti_ActivityKernel8, graphId)},
    {"memcpy", CUPTI_ACTIVITY_KIND_MEMCPY, 0, UP_TO(CUpti_ActivityMemcpy5, graphId)},
    {"memcpy2", CUPTI_ACTIVITY_KIND_MEMCPY2, 0, UP_TO(CUpti_ActivityMemcpyPtoP4, graphId)},
    {"memset", CUPTI_ACTIVITY_KIND_MEMSET, 0, UP_TO(CUpti_ActivityMemset4, graphId)},
    {"graph", CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 0, UP_TO(CUpti_ActivityGraphTrace, streamId)},
    {"runtime", CUPTI_ACTIVITY_KIND_RUNTIME, 0, UP_TO(CUpti_ActivityAPI, correlationId)},
    {"driver", CUPTI_ACTIVITY_KIND_DRIVER, 0, UP_TO(CUpti_ActivityAPI, correlationId)},
    {"sync", CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 0,
     UP_TO(CUpti_ActivitySynchronization2, cudaEventId)},
    {"sync", CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, DL_CUPTI_12_8,
     UP_TO(CUpti_ActivitySynchronization2, cudaEventSyncId)},
    {"event", CUPTI_ACTIVITY_KIND_CUDA_EVENT, 0, UP_TO(CUpti_ActivityCudaEvent2, eventId)},
    {"event", CUPTI_ACTIVITY_KIND_CUDA_EVENT, DL_CUPTI_12_8,
     UP_TO(CUpti_ActivityCudaEvent2, cudaEventSyncId)},
    {"overhead", CUPTI_ACTIVITY_KIND_OVERHEAD, 0, UP_TO(CUpti_ActivityOverhead3, end)},
    {"overhead", CUPTI_ACTIVITY_KIND_OVERHEAD, DL_CUPTI_13_0,
     UP_TO(CUpti_ActivityOverhead3, overheadData)},
    {"device", CUPTI_ACTIVITY_KIND_DEVICE, 0, UP_TO(CUpti_ActivityDevice4, uuid)},
    {"device", CUPTI_ACTIVITY_KIND_DEVICE, 0, UP_TO(CUpti_ActivityDevice4, name)},
    {"context", CUPTI_ACTIVITY_KIND_CONTEXT, 0, UP_TO(CUpti_ActivityContext, deviceId)},
};

/* Prints the sizes; returns the first kind whose records are too short for the fields read, or
 * NULL. */
static const char *check_sizes(const dl_cupti_api *api)
{
    for (size_t i = 0; i < sizeof read_fields / sizeof read_fields[0]; i++) {
        if (api->version < read_fields[i].version) continue;
        const size_t bytes = cupti_record_bytes(api->ActivityGetNextRecord, read_fields[i].kind);
        if (i == 0 || strcmp(read_fields[i].name, read_fields[i - 1].name) != 0)
            printf(" %s %zu", read_fields[i].name, bytes);
        if (bytes < read_fields[i].bytes) return read_fields[i].name;
    }
    return NULL;
}

static void CUPTIAPI ignore(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                            const void *data)
{
    (void)user, (void)domain, (void)id, (void)data;
}

/* In a separate process: checks the library without a driver. Returns 0 if all is as expected. */
static int step_through(const char *path)
{
    dl_cupti_api api;
    dl_error err = {0};
    if (dl_cupti_api_load(&api, path, 0, &err) != DL_OK) {
        /* From 13.3 on, the library reports not even its version without a driver. */
        printf("not loaded: %s\n", err.text);
        return strstr(err.text, "does not report its version (error 999)") == NULL;
    }
    printf("version %u", (unsigned)api.version);
#define MISSING(name) \
    if (api.name == NULL) printf(", no " #name);
    DL_CUPTI_OPTIONAL(MISSING)
#undef MISSING
    printf("; record bytes:");
    const char *too_short = check_sizes(&api);
    if (too_short != NULL) printf(" (too short: %s)", too_short);
    CUpti_SubscriberHandle subscriber;
    const CUptiResult result = api.Subscribe(&subscriber, ignore, NULL);
    printf("; Subscribe: %d %s\n", (int)result, dl_cupti_result_name(&api, result));
    /* CUDA 12's CUPTI reports that there is no driver, CUDA 13's an unknown error. */
    const CUptiResult expected =
        api.version >= DL_CUPTI_13_0 ? CUPTI_ERROR_UNKNOWN : CUPTI_ERROR_NOT_INITIALIZED;
    return too_short != NULL || result != expected;
}

/* In a separate process: the recorder is injected, and the program must continue. */
static int run_injected(void)
{
    void *library = dlopen(INJECT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    int (*initialize)(void) = NULL;
    void *found = library != NULL ? dlsym(library, "InitializeInjection") : NULL;
    memcpy(&initialize, &found, sizeof found);
    if (initialize == NULL) return 1;
    (void)initialize();
    printf("on and on\n");
    return GOES_ON;
}

/* Runs this program with a word and a library; returns its exit code, with its output in
 * `words`. */
static int run_self(const char *word, const char *path, const char *folder, char words[4096])
{
    const pid_t child = fork();
    if (child == 0) {
        if (freopen(WORDS, "w", stdout) == NULL) _exit(99);
        setenv("DLPROF_CUPTI", path, 1);
        setenv("DLPROF_OUTPUT", folder, 1);
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* libcupti 12.9 itself leaks a byte */
        execl("/proc/self/exe", "test_cupti_libraries", word, path, (char *)NULL);
        _exit(98);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    FILE *in = fopen(WORDS, "r");
    assert_non_null(in);
    words[fread(words, 1, 4095, in)] = '\0';
    fclose(in);
    remove(WORDS);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void each_library_is_as_expected(void **state DL_UNUSED)
{
    char words[4096];
    for (size_t i = 0; i < path_count; i++) {
        const int code = run_self("step", paths[i], ".", words);
        fprintf(stderr, "%s\n  %s", paths[i], words);
        if (code != 0) fail_msg("%s: %d", paths[i], code);
    }
}

static void empty_folder(const char *folder, char *logs, size_t bytes)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, NULL, alphasort);
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        DL_AUTOFREE char *path = dl_format("%s/%s", folder, entries[i]->d_name);
        FILE *in = strstr(path, ".log") != NULL ? fopen(path, "r") : NULL;
        if (in != NULL) used += fread(logs + used, 1, bytes - 1 - used, in), fclose(in);
        if (entries[i]->d_name[0] != '.') unlink(path);
        free(entries[i]);
    }
    logs[used] = '\0';
    if (count >= 0) free(entries);
    rmdir(folder);
}

static void an_injected_program_goes_on(void **state DL_UNUSED)
{
    for (size_t i = 0; i < path_count; i++) {
        char folder[] = "test_cupti_libraries.XXXXXX", full[PATH_MAX], words[4096], logs[4096];
        assert_non_null(mkdtemp(folder));
        assert_non_null(realpath(folder, full));
        const int code = run_self("inject", paths[i], full, words);
        empty_folder(folder, logs, sizeof logs);
        fprintf(stderr, "%s\n  %s", paths[i], logs);
        assert_int_equal(code, GOES_ON);
        assert_string_equal(words, "on and on\n");
        assert_contains(logs, ": CUDA is not recorded");
    }
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "step") == 0) return step_through(argv[2]);
    if (argc > 2 && strcmp(argv[1], "inject") == 0) return run_injected();
    const char *folder = getenv("DL_CUPTI_LIBRARIES");
    if (folder != NULL) find_libraries(folder);
    if (path_count == 0) {
        fprintf(stderr, "skipped: no libcupti.so.* below DL_CUPTI_LIBRARIES\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_library_is_as_expected),
        cmocka_unit_test(an_injected_program_goes_on),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    while (path_count > 0)
        free(paths[--path_count]);
    return failed;
}
