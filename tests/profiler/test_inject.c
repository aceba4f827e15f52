/* The injected library from outside: it is loaded into a program that calls the doubles of the
 * driver and of CUPTI and ends in many ways. The program must behave as without the library; then
 * its traces are read. Skipped without libcupti, whose functions read the buffers. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/file.h"
#include "profiler/inject/cupti_api.h"
#include "tests/check.h"
#include "trace/activity/activity.h"
#include "trace/dlt/dlt.h"

#define TRACES_MAX 8
#define PATH_BYTES 512

/* Results of a run. */
static struct {
    char folder[PATH_BYTES];
    int status;      /* from waitpid */
    char *out, *err; /* the target's standard output and standard error */
    char *logs;      /* the recorder's logs, concatenated */
    dl_trace traces[TRACES_MAX];
    size_t trace_count;
    double seconds;
} run;

static void read_text(const char *path, char **text)
{
    size_t bytes;
    dl_error err = {0};
    assert_int_equal(dl_file_read(path, text, &bytes, &err), DL_OK);
}

static int begin(void **state DL_UNUSED)
{
    memset(&run, 0, sizeof run);
    strcpy(run.folder, "test_inject.XXXXXX");
    return mkdtemp(run.folder) != NULL ? 0 : 1;
}

/* Calls `visit` for each file of the run's folder. */
static void each_file(void (*visit)(const char *path))
{
    struct dirent **entries;
    const int count = scandir(run.folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[2 * PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", run.folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') visit(path);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
}

static void delete_file(const char *path)
{
    unlink(path);
}

static int end(void **state DL_UNUSED)
{
    each_file(delete_file);
    rmdir(run.folder);
    for (size_t i = 0; i < run.trace_count; i++)
        dl_trace_free(&run.traces[i]);
    free(run.out);
    free(run.err);
    free(run.logs);
    return 0;
}

static int ends_with(const char *text, const char *ending)
{
    const size_t length = strlen(text), tail = strlen(ending);
    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

static void collect_file(const char *path)
{
    dl_error err = {0};
    if (ends_with(path, ".dlt")) {
        assert_in_range(run.trace_count, 0, TRACES_MAX - 1);
        dl_trace *trace = &run.traces[run.trace_count++];
        if (dl_trace_read(trace, path, &err) != DL_OK) fail_msg("%s: %s", path, err.text);
    } else if (ends_with(path, ".log")) {
        char *text;
        read_text(path, &text);
        char *all = dl_format("%s%s", run.logs != NULL ? run.logs : "", text);
        free(run.logs);
        free(text);
        run.logs = all;
    }
}

static int go_on[2] = {-1, -1}; /* pipe: the target's input; at its end the target continues */

/* Sets the "NAME=value" texts, up to a NULL, in the environment. */
static void in_child(const char *const *arguments, const char *const *environment)
{
    for (; *environment != NULL; environment++)
        putenv((char *)*environment);
    const int out = open("out.txt", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    const int err = open("err.txt", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    if (chdir("..") != 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) _exit(99);
    if (go_on[0] >= 0 && dup2(go_on[0], STDIN_FILENO) < 0) _exit(96);
    execv(arguments[0], (char **)arguments);
    _exit(98);
}

static const char *program; /* replaces inject_target */

static pid_t start(const char *mode, const char *count, const char *rate,
                   const char *const *environment)
{
    const char *arguments[] = {program != NULL ? program : INJECT_TARGET, mode, count, rate, NULL};
    const pid_t child = fork();
    if (child != 0) return child;
    setenv("CUDA_INJECTION64_PATH", INJECT_LIBRARY, 1);
    setenv("DLPROF_CUPTI", INJECT_CUPTI, 1);
    char *path = realpath(run.folder, NULL);
    setenv("DLPROF_OUTPUT", path, 1);
    setenv("DLPROF_END_WAIT", "600", 1); /* even if the machine is very busy */
    if (chdir(run.folder) != 0) _exit(97);
    in_child(arguments, environment);
    return -1;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static const char *awaited; /* part of a recorder's log; NULL: the end of its trace */
static bool has_come;

static void look_for_awaited(const char *path)
{
    if (awaited == NULL && ends_with(path, ".dlt")) {
        DL_SCOPED(dl_trace) trace = {0};
        has_come = has_come || (dl_trace_read(&trace, path, NULL) == DL_OK && trace.complete);
    } else if (awaited != NULL && ends_with(path, ".log")) {
        char *text;
        read_text(path, &text);
        has_come = has_come || strstr(text, awaited) != NULL;
        free(text);
    }
}

/* Lets the target continue once the awaited event has come. A target that ends before that is
 * judged by its test. */
static void let_go_on(pid_t child)
{
    siginfo_t ended = {0};
    close(go_on[0]);
    for (has_come = false; !has_come && ended.si_pid == 0; usleep(10000)) {
        each_file(look_for_awaited);
        assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    }
    close(go_on[1]);
    go_on[0] = go_on[1] = -1;
}

/* Runs the target and reads its results. */
static void target(const char *mode, const char *count, const char *const *environment)
{
    const double before_s = now_s();
    const pid_t child = start(mode, count, NULL, environment);
    if (go_on[0] >= 0) let_go_on(child);
    assert_int_equal(waitpid(child, &run.status, 0), child);
    run.seconds = now_s() - before_s;
    char path[2 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/out.txt", run.folder);
    read_text(path, &run.out);
    snprintf(path, sizeof path, "%s/err.txt", run.folder);
    read_text(path, &run.err);
    each_file(collect_file);
}

/* Runs mode `later`, which continues when the awaited event of the recorder has come. */
static void target_after(const char *event, const char *count, const char *const *environment)
{
    awaited = event;
    assert_int_equal(pipe2(go_on, O_CLOEXEC), 0);
    target("later", count, environment);
}

/* Like target, with the program tests/gpu/truth.c. */
static void truth(const char *ending, const char *const *environment)
{
    program = INJECT_TRUTH;
    target(ending, "30", environment);
    program = NULL;
    assert_string_equal(run.err, "");
    assert_contains(run.out, "\"truth_spin\"");
}

static const char *const plain[] = {NULL};

/* The leak search fails where threads still run at the end or are missing after a fork; and where a
 * buffer is never given back, it does not see that the buffer points to a device's name. */
#define NO_LEAK_SEARCH "ASAN_OPTIONS=detect_leaks=0"
static const char *const no_leak_search[] = {NO_LEAK_SEARCH, NULL};

/* The target has its own output and exit code, and prints nothing of the recorder. */
static void assert_untouched(int exit_code, const char *out)
{
    assert_string_equal(run.err, "");
    assert_true(WIFEXITED(run.status));
    assert_int_equal(WEXITSTATUS(run.status), exit_code);
    assert_string_equal(run.out, out);
}

static size_t count_kind(const dl_trace *trace, dl_activity_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->activity_count; i++)
        count += trace->activities[i].kind == kind;
    return count;
}

static void assert_meta(const dl_trace *trace, const char *key, const char *value)
{
    const char *found = dl_trace_meta(trace, key);
    if (found == NULL) fail_msg("no meta key %s", key);
    assert_string_equal(found, value);
}

/* Kernels with correlations 1..count are recorded, each once. */
static void assert_kernels(const dl_trace *trace, size_t count)
{
    DL_AUTOFREE char *found = dl_calloc(count + 1, 1, "kernels of a test");
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *activity = &trace->activities[i];
        if (activity->kind != DL_ACTIVITY_KERNEL || activity->correlation > count) continue;
        if (found[activity->correlation]++) fail_msg("kernel %u twice", activity->correlation);
    }
    for (size_t i = 1; i <= count; i++)
        if (!found[i])
            fail_msg("kernel %zu of %zu is lost of a trace that is%s complete", i, count,
                     trace->complete ? "" : " not");
}

static void everything_is_there_at_exit(void **state DL_UNUSED)
{
    target("exit", "100", plain);
    assert_untouched(3, "launched 100\n");
    assert_null(run.logs);
    assert_int_equal(run.trace_count, 1);
    const dl_trace *trace = &run.traces[0];
    assert_true(trace->complete);
    assert_kernels(trace, 100);
    assert_int_equal(count_kind(trace, DL_ACTIVITY_CALL), 100);
    /* At the start, at the end, and every 10 s. */
    assert_in_range(count_kind(trace, DL_ACTIVITY_CLOCK), 2, 2 + (size_t)(run.seconds / 10));
    assert_meta(trace, "kind", "run");
    assert_meta(trace, "clock", "realtime");
    assert_meta(trace, "preset", "default");
    assert_meta(trace, "device.0.name", "Double of a GPU");
    assert_meta(trace, "device.0.pci", "0000:01:00.0");
    assert_contains(dl_trace_meta(trace, "command"), "inject_target exit 100");
    assert_non_null(dl_trace_meta(trace, "cupti_version"));
    assert_non_null(dl_trace_meta(trace, "driver_version"));
    assert_null(dl_trace_meta(trace, "dropped_records"));
    assert_null(dl_trace_meta(trace, "lost_timestamps"));
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *activity = &trace->activities[i];
        if (activity->kind != DL_ACTIVITY_CALL) continue;
        assert_string_equal(trace->strings[activity->name], "cudaLaunchKernel");
        assert_true(activity->thread > 0);
    }
}

static void ranks_come_from_the_launcher(void **state DL_UNUSED)
{
    target("exit", "1",
           (const char *[]){"RANK=3", "WORLD_SIZE=8", "LOCAL_RANK=1", "SLURM_PROCID=0", NULL});
    assert_meta(&run.traces[0], "rank", "3");
    assert_meta(&run.traces[0], "world_size", "8");
    assert_meta(&run.traces[0], "local_rank", "1");
}

static void slurm_is_asked_last(void **state DL_UNUSED)
{
    target("exit", "1", (const char *[]){"RANK=x", "SLURM_PROCID=2", "SLURM_NTASKS=4", NULL});
    assert_meta(&run.traces[0], "rank", "2");
    assert_meta(&run.traces[0], "world_size", "4");
    assert_null(dl_trace_meta(&run.traces[0], "local_rank"));
}

/* No exit handler of the program runs. */
static void _exit_keeps_what_was_flushed(void **state DL_UNUSED)
{
    target("_exit", "1000", plain);
    assert_untouched(4, "launched 1000\n");
    assert_false(run.traces[0].complete);
    assert_kernels(&run.traces[0], 1000);
}

static void sigkill_keeps_what_was_flushed(void **state DL_UNUSED)
{
    target("kill", "500", plain);
    assert_true(WIFSIGNALED(run.status));
    assert_int_equal(WTERMSIG(run.status), SIGKILL);
    assert_string_equal(run.out, "launched 4000\n");
    assert_false(run.traces[0].complete);
    assert_kernels(&run.traces[0], 4000);
}

static void threads_share_the_trace(void **state DL_UNUSED)
{
    target("threads", "3000", plain);
    assert_untouched(3, "launched 24000\n");
    assert_kernels(&run.traces[0], 24000);
}

static void an_end_among_running_threads(void **state DL_UNUSED)
{
    target("busy", "1000", no_leak_search);
    assert_untouched(3, "launched 1000\n");
    assert_true(run.traces[0].complete);
    assert_kernels(&run.traces[0], 1000);
}

/* The child inherits the parent's state and descriptors, and runs the parent's exit handlers. */
static void a_forked_child_leaves_the_trace_alone(void **state DL_UNUSED)
{
    target("fork", "50", no_leak_search);
    assert_untouched(3, "launched 50\nchild 5\n");
    assert_null(run.logs);
    assert_int_equal(run.trace_count, 1);
    assert_true(run.traces[0].complete);
    assert_kernels(&run.traces[0], 100);
    assert_int_equal(count_kind(&run.traces[0], DL_ACTIVITY_KERNEL), 100);
}

static void an_exec_in_a_child_has_its_own_trace(void **state DL_UNUSED)
{
    target("exec", "50", plain);
    assert_untouched(3, "launched 50\nlaunched 5\nchild 3\n");
    assert_int_equal(run.trace_count, 2);
    const size_t first = count_kind(&run.traces[0], DL_ACTIVITY_KERNEL);
    const size_t second = count_kind(&run.traces[1], DL_ACTIVITY_KERNEL);
    assert_int_equal(first + second, 105);
    assert_true(first == 5 || second == 5);
}

static void no_cuda_no_trace(void **state DL_UNUSED)
{
    target("none", "0", plain);
    assert_untouched(3, "");
    assert_int_equal(run.trace_count, 0);
    assert_null(run.logs);
}

static void presets_choose_what_is_recorded(void **state DL_UNUSED)
{
    target("exit", "20", (const char *[]){"DLPROF_PRESET=light", NULL});
    assert_int_equal(count_kind(&run.traces[0], DL_ACTIVITY_KERNEL), 20);
    assert_int_equal(count_kind(&run.traces[0], DL_ACTIVITY_CALL), 0);
    assert_meta(&run.traces[0], "preset", "light");
}

static void another_tool_has_cupti(void **state DL_UNUSED)
{
    target("exit", "10", (const char *[]){"DOUBLE_CUPTI=taken", NULL});
    assert_untouched(3, "launched 10\n");
    assert_contains(run.logs, "another tool has CUPTI already (Some Profiler)");
    assert_int_equal(count_kind(&run.traces[0], DL_ACTIVITY_KERNEL), 0);
}

static void no_kind_can_be_enabled(void **state DL_UNUSED)
{
    target("exit", "10", (const char *[]){"DOUBLE_CUPTI=no-kinds", NULL});
    assert_untouched(3, "launched 10\n");
    assert_contains(run.logs, "kernel (CUPTI_ERROR_UNKNOWN)");
}

static void one_kind_cannot_be_enabled(void **state DL_UNUSED)
{
    target("exit", "10", (const char *[]){"DOUBLE_CUPTI=no-memset", NULL});
    assert_untouched(3, "launched 10\n");
    assert_contains(dl_trace_meta(&run.traces[0], "refused_kinds"), "memset (CUPTI_ERROR_");
    assert_kernels(&run.traces[0], 10);
}

/* Until CUDA 12.9 CUPTI owns a device's name: freeing it would crash. */
static void an_older_cupti_keeps_its_texts(void **state DL_UNUSED)
{
    target("exit", "20", (const char *[]){"DOUBLE_CUPTI=cupti12", NULL});
    assert_untouched(3, "launched 20\n");
    assert_kernels(&run.traces[0], 20);
    assert_meta(&run.traces[0], "device.0.name", "Double of a GPU");
}

/* CUDA 11.8's CUPTI owns it too. It must get as many buffers as it requests, and records either all
 * calls of the driver, of which those that launch are kept, or none. */
static void the_oldest_cupti_is_served(void **state DL_UNUSED)
{
    target("exit", "1000",
           (const char *[]){"DLPROF_CUPTI=" INJECT_OLD_CUPTI, "DOUBLE_CUPTI=hold", NULL});
    assert_untouched(3, "launched 1000\n");
    const dl_trace *trace = &run.traces[0];
    assert_kernels(trace, 1000);
    assert_meta(trace, "device.0.name", "Double of a GPU");
    assert_meta(trace, "cupti_version", "18");
    assert_null(dl_trace_meta(trace, "dropped_records"));
    size_t by_runtime = 0, by_driver = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        if (trace->activities[i].kind != DL_ACTIVITY_CALL) continue;
        const char *name = trace->strings[trace->activities[i].name];
        by_runtime += strcmp(name, "cudaLaunchKernel") == 0;
        by_driver += strcmp(name, "cuLaunchKernel") == 0;
        if (strcmp(name, "cuCtxGetCurrent") == 0) fail_msg("a call that launches nothing is kept");
    }
    assert_int_equal(by_runtime, 1000);
    assert_int_equal(by_driver, 1000);
}

/* Counts the activities of a kind launched by calls of that name; -1 if an activity was launched by
 * no call. */
static int count_launched_by(const dl_trace *trace, dl_activity_kind kind, const char *call)
{
    DL_SCOPED(dl_launches) launches = {0};
    dl_launches_init(&launches, trace->activities, trace->activity_count);
    int count = 0;
    for (size_t i = 0; i < trace->activity_count && count >= 0; i++) {
        if (trace->activities[i].kind != kind) continue;
        const dl_activity *by = dl_launches_find(&launches, trace->activities[i].correlation);
        if (by == NULL)
            count = -1;
        else
            count += strcmp(trace->strings[by->name], call) == 0;
    }
    return count;
}

/* truth.c makes 50 launches by the driver after one by the runtime, and 100 launches of a graph of
 * 10 nodes. */
static void launches_by_driver_and_graph_are_tied(void **state DL_UNUSED)
{
    truth("exit", plain);
    const dl_trace *trace = &run.traces[0];
    assert_int_equal(count_launched_by(trace, DL_ACTIVITY_KERNEL, "cuLaunchKernel"), 50);
    assert_int_equal(count_launched_by(trace, DL_ACTIVITY_KERNEL, "cudaGraphLaunch"), 1000);
    assert_int_equal(count_kind(trace, DL_ACTIVITY_GRAPH), 0);
    assert_int_equal(count_kind(trace, DL_ACTIVITY_MEMCPY), 100);
    assert_int_equal(count_kind(trace, DL_ACTIVITY_MEMSET), 10);
    size_t nodes = 0;
    for (size_t i = 0; i < trace->activity_count; i++)
        nodes += trace->activities[i].object == ((uint64_t)1 << 32 | 3); /* the fourth node of graph
                                                                          * 1 */
    assert_int_equal(nodes, 100);
}

static void graphs_are_recorded_as_wholes(void **state DL_UNUSED)
{
    truth("exit", (const char *[]){"DLPROF_GRAPHS=graph", NULL});
    const dl_trace *trace = &run.traces[0];
    assert_int_equal(count_launched_by(trace, DL_ACTIVITY_GRAPH, "cudaGraphLaunch"), 100);
    assert_int_equal(count_launched_by(trace, DL_ACTIVITY_KERNEL, "cudaGraphLaunch"), 0);
}

/* The devices have equal names, but different numbers. */
static void two_devices_share_a_name(void **state DL_UNUSED)
{
    truth("exit", (const char *[]){"DOUBLE_GPUS=2", NULL});
    const dl_trace *trace = &run.traces[0];
    assert_meta(trace, "device.0.name", "Double of a GPU");
    assert_meta(trace, "device.1.name", "Double of a GPU");
    assert_meta(trace, "device.1.pci", "0000:02:00.0");
    assert_string_not_equal(dl_trace_meta(trace, "device.0.uuid"),
                            dl_trace_meta(trace, "device.1.uuid"));
    size_t there = 0, between = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *activity = &trace->activities[i];
        there += activity->kind == DL_ACTIVITY_KERNEL && activity->device == 1;
        if (activity->kind != DL_ACTIVITY_MEMCPY || activity->copy != DL_COPY_PEER) continue;
        assert_int_equal(activity->device, 0);
        assert_int_equal(activity->peer, 1);
        assert_int_equal(activity->bytes, (1 << 20) - 2048 * between++);
    }
    assert_int_equal(there, 30);
    assert_int_equal(between, 20);
}

/* The clocks of a host and its GPU differ by microseconds: no record is lost because of that. */
static void kernels_may_start_before_their_launch(void **state DL_UNUSED)
{
    target("exit", "100", (const char *[]){"DOUBLE_CUPTI=early", NULL});
    const dl_trace *trace = &run.traces[0];
    assert_kernels(trace, 100);
    assert_int_equal(count_launched_by(trace, DL_ACTIVITY_KERNEL, "cudaLaunchKernel"), 100);
    assert_null(dl_trace_meta(trace, "lost_timestamps"));
}

/* Before 12.6 all calls of the driver are recorded or none. The default keeps its launches only,
 * not the recorder's wait for the device at the end. */
static void an_older_cupti_records_the_whole_driver(void **state DL_UNUSED)
{
    target("exit", "20", (const char *[]){"DOUBLE_CUPTI=whole-driver", NULL});
    assert_int_equal(count_kind(&run.traces[0], DL_ACTIVITY_CALL), 20);
}

static void no_libcupti(void **state DL_UNUSED)
{
    target("exit", "10", (const char *[]){"DLPROF_CUPTI=/nonexistent/libcupti.so", NULL});
    assert_untouched(3, "launched 10\n");
    assert_contains(run.logs, "cannot load /nonexistent/libcupti.so");
}

static void dropped_records_are_counted(void **state DL_UNUSED)
{
    target("exit", "10", (const char *[]){"DOUBLE_CUPTI=drops", NULL});
    assert_meta(&run.traces[0], "dropped_records", "7");
}

static void lost_times_are_counted(void **state DL_UNUSED)
{
    target("exit", "100", (const char *[]){"DOUBLE_CUPTI=lost-times", NULL});
    assert_meta(&run.traces[0], "lost_timestamps", "10");
    assert_int_equal(count_kind(&run.traces[0], DL_ACTIVITY_KERNEL), 90);
}

/* All kernels and calls are recorded, or counted as dropped. */
static void assert_all_accounted(size_t records)
{
    const dl_trace *trace = &run.traces[0];
    const char *dropped = dl_trace_meta(trace, "dropped_records");
    const size_t recorded =
        count_kind(trace, DL_ACTIVITY_KERNEL) + count_kind(trace, DL_ACTIVITY_CALL);
    assert_int_equal(recorded + (dropped != NULL ? strtoul(dropped, NULL, 10) : 0), records);
}

/* CUPTI needs more buffers than the pool has: the remaining records are dropped and counted. A CUPTI
 * before 12.9 is never refused a buffer. */
static void refused_buffers_drop_records(void **state DL_UNUSED)
{
    if (CUPTI_API_VERSION < DL_CUPTI_12_9) skip();
    target("exit", "1000", (const char *[]){"DOUBLE_CUPTI=small,hold", NULL});
    assert_untouched(3, "launched 1000\n");
    assert_non_null(dl_trace_meta(&run.traces[0], "dropped_records"));
    assert_true(count_kind(&run.traces[0], DL_ACTIVITY_KERNEL) > 200);
    assert_all_accounted(2001); /* including the recorder's own wait for the device at the end */
}

/* Records come as fast as possible: some may be refused. */
static void small_buffers_go_round(void **state DL_UNUSED)
{
    target("threads", "1000", (const char *[]){"DOUBLE_CUPTI=small", NULL});
    assert_untouched(3, "launched 8000\n");
    assert_all_accounted(16000);
}

/* Another clock is set at the 50th launch. Earlier records stay; none with foreign times is
 * kept. */
static void another_clock_ends_the_reading(void **state DL_UNUSED)
{
    target_after("another profiler", "50", (const char *[]){"DOUBLE_CUPTI=ticks", NULL});
    assert_untouched(3, "launched 50\n");
    assert_meta(&run.traces[0], "takeover", "clock");
    assert_kernels(&run.traces[0], 50);
    assert_int_equal(count_kind(&run.traces[0], DL_ACTIVITY_KERNEL), 50);
    assert_contains(run.logs, "another profiler has set CUPTI's clock");
}

/* The target closes all descriptors, as daemons do: the recorder must not write to the target's new
 * files. */
static void a_closed_descriptor_is_opened_again(void **state DL_UNUSED)
{
    unlink("files.txt");
    target("closes", "50", plain);
    assert_untouched(3, "launched 50\n");
    assert_kernels(&run.traces[0], 100);
    assert_true(run.traces[0].complete);
    assert_contains(run.logs, "closed the trace's descriptor 1 times");
    char *text;
    read_text("files.txt", &text);
    assert_string_equal(text, "");
    free(text);
    unlink("files.txt");
}

static void a_fatal_error_is_logged(void **state DL_UNUSED)
{
    target_after("gives up", "20", (const char *[]){"DOUBLE_CUPTI=fatal", NO_LEAK_SEARCH, NULL});
    assert_untouched(3, "launched 20\n");
    assert_contains(run.logs, "CUPTI_ERROR_HARDWARE: the double gives up");
    assert_true(run.traces[0].complete);
}

/* The double hangs for an hour, longer than a test may take. */
static void a_hanging_flush_delays_the_end_by_seconds_only(void **state DL_UNUSED)
{
    target("exit", "20",
           (const char *[]){"DOUBLE_CUPTI=hangs", "DLPROF_END_WAIT=5", NO_LEAK_SEARCH, NULL});
    assert_untouched(3, "launched 20\n");
    assert_contains(run.logs, "last records took over 5 s");
    assert_string_equal(dl_trace_meta(&run.traces[0], "stopped"),
                        "CUPTI's last records came too late");
    assert_kernels(&run.traces[0], 20);
    assert_true(run.traces[0].complete);
}

static void an_output_folder_that_is_not_there(void **state DL_UNUSED)
{
    target("exit", "10", (const char *[]){"DLPROF_OUTPUT=/nonexistent/folder", NULL});
    assert_int_equal(WEXITSTATUS(run.status), 3);
    assert_string_equal(run.out, "launched 10\n");
    assert_contains(run.err, "dlprof: /nonexistent/folder/");
    assert_ptr_equal(strchr(run.err, '\n'), run.err + strlen(run.err) - 1); /* a single line */
    assert_int_equal(run.trace_count, 0);
}

static void a_wrong_setting_is_named(void **state DL_UNUSED)
{
    target("exit", "10", (const char *[]){"DLPROF_PRESET=heavy", NULL});
    assert_int_equal(WEXITSTATUS(run.status), 3);
    assert_string_equal(run.out, "launched 10\n");
    assert_contains(run.err, "DLPROF_PRESET");
}

static void a_full_disk_keeps_what_was_written(void **state DL_UNUSED)
{
    target("threads", "5000", (const char *[]){"DOUBLE_DISK=200000", NULL});
    assert_true(WIFEXITED(run.status));
    assert_int_equal(WEXITSTATUS(run.status), 3);
    assert_string_equal(run.out, "launched 40000\n");
    assert_contains(run.err, "No space left on device");
    assert_false(run.traces[0].complete);
    assert_true(count_kind(&run.traces[0], DL_ACTIVITY_KERNEL) > 1000);
}

static void a_limit_on_size_ends_the_recording(void **state DL_UNUSED)
{
    target("threads", "5000", (const char *[]){"DLPROF_LIMIT=200kB", NULL});
    assert_untouched(3, "launched 40000\n");
    const dl_trace *trace = &run.traces[0];
    assert_meta(trace, "stopped", "limit on size");
    assert_true(count_kind(trace, DL_ACTIVITY_KERNEL) > 1000);
    struct stat file;
    assert_int_equal(stat(trace->path, &file), 0);
    assert_in_range(file.st_size, 100000, 220000);
}

static void a_limit_on_time_ends_the_recording(void **state DL_UNUSED)
{
    target_after(NULL, "50", (const char *[]){"DLPROF_DURATION=0.4", NULL});
    assert_untouched(3, "launched 50\n");
    const dl_trace *trace = &run.traces[0];
    assert_meta(trace, "stopped", "limit on time");
    assert_true(trace->complete);
    /* Only work launched before the limit is recorded. */
    for (size_t i = 0; i < trace->activity_count; i++)
        assert_in_range(trace->activities[i].correlation, 0, 50);
}

static size_t raw_bytes;

static void measure_raw(const char *path)
{
    struct stat file;
    if (ends_with(path, ".raw") && stat(path, &file) == 0) raw_bytes = (size_t)file.st_size;
}

static void raw_buffers_lie_beside(void **state DL_UNUSED)
{
    target("exit", "100", (const char *[]){"DLPROF_DUMP_RAW=1", NULL});
    raw_bytes = 0;
    each_file(measure_raw);
    assert_true(raw_bytes > 100 * (140 + 40)); /* a kernel and a call each */
}

/* 4 processes of 8 threads each make 20,000 launches per second in total, for 2 s; half of the
 * processes are killed. */
static void load_loses_nothing(void **state DL_UNUSED)
{
    enum { PROCESSES = 4, COUNT = 1250, THREADS = 8 };
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        children[i] = start(i % 2 == 0 ? "threads" : "kill", "1250", "625", plain);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(waitpid(children[i], &run.status, 0), children[i]);
    each_file(collect_file);
    assert_int_equal(run.trace_count, PROCESSES);
    size_t complete = 0;
    for (int i = 0; i < PROCESSES; i++) {
        assert_kernels(&run.traces[i], COUNT * THREADS);
        assert_null(dl_trace_meta(&run.traces[i], "dropped_records"));
        complete += run.traces[i].complete;
    }
    assert_int_equal(complete, PROCESSES / 2);
}

#define RUNS(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    if (access(INJECT_REAL_CUPTI, R_OK) != 0) {
        fprintf(stderr, "skipped: no %s\n", INJECT_REAL_CUPTI);
        return 77;
    }
    setenv("DOUBLE_REAL_CUPTI", INJECT_REAL_CUPTI, 1);
    const struct CMUnitTest tests[] = {
        RUNS(everything_is_there_at_exit),
        RUNS(ranks_come_from_the_launcher),
        RUNS(slurm_is_asked_last),
        RUNS(_exit_keeps_what_was_flushed),
        RUNS(sigkill_keeps_what_was_flushed),
        RUNS(threads_share_the_trace),
        RUNS(an_end_among_running_threads),
        RUNS(a_forked_child_leaves_the_trace_alone),
        RUNS(an_exec_in_a_child_has_its_own_trace),
        RUNS(no_cuda_no_trace),
        RUNS(presets_choose_what_is_recorded),
        RUNS(another_tool_has_cupti),
        RUNS(no_kind_can_be_enabled),
        RUNS(one_kind_cannot_be_enabled),
        RUNS(an_older_cupti_keeps_its_texts),
        RUNS(an_older_cupti_records_the_whole_driver),
        RUNS(the_oldest_cupti_is_served),
        RUNS(launches_by_driver_and_graph_are_tied),
        RUNS(graphs_are_recorded_as_wholes),
        RUNS(two_devices_share_a_name),
        RUNS(kernels_may_start_before_their_launch),
        RUNS(no_libcupti),
        RUNS(dropped_records_are_counted),
        RUNS(lost_times_are_counted),
        RUNS(refused_buffers_drop_records),
        RUNS(small_buffers_go_round),
        RUNS(another_clock_ends_the_reading),
        RUNS(a_closed_descriptor_is_opened_again),
        RUNS(a_fatal_error_is_logged),
        RUNS(a_hanging_flush_delays_the_end_by_seconds_only),
        RUNS(an_output_folder_that_is_not_there),
        RUNS(a_wrong_setting_is_named),
        RUNS(a_full_disk_keeps_what_was_written),
        RUNS(a_limit_on_size_ends_the_recording),
        RUNS(a_limit_on_time_ends_the_recording),
        RUNS(raw_buffers_lie_beside),
        RUNS(load_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
