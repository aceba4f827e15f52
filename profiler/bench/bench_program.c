#include "profiler/bench/bench_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/units.h"
#include "profiler/bench/bench_internal.h"
#include "profiler/inject/settings.h"

#define LINE_BYTES 4096
#define POLL_MS 200

typedef struct line {
    int64_t at_ns, step;
    bool anew; /* the step number restarted, or this is the first line: no step ends here */
} line;

typedef struct copy {
    pid_t pid;
    int output; /* -1: closed */
    char text[LINE_BYTES], last[160];
    size_t used;
    line *lines;            /* [count] lines that ended steps */
    size_t count, repeated; /* lines; later lines that repeat the last number */
    int status;             /* from waitpid, valid once ended */
    bool ended;
    bool port_is_taken; /* the program reported that its port is in use */
} copy;

/* In the child: sets DLPROF_COPY to its number and, if MASTER_PORT is set, adds the number to
 * it. */
static void set_number(int number)
{
    char text[24];
    int64_t port = 0;
    const char *given = getenv("MASTER_PORT");
    snprintf(text, sizeof text, "%d", number);
    setenv(DL_COPY_VARIABLE, text, 1);
    if (given == NULL || dl_parse_int(given, 1, 65535, &port, NULL) != DL_OK) return;
    snprintf(text, sizeof text, "%lld", (long long)port + number);
    setenv("MASTER_PORT", text, 1);
}

/* In the child: runs the program with its output in the pipe; SIGTERM ends it when its parent
 * dies. */
static void become(char *const *argv, int output, int number)
{
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    setenv("PYTHONUNBUFFERED", "1", 1);
    set_number(number);
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static dl_status start(copy *c, char *const *argv, int number, dl_error *err)
{
    int ends[2];
    *c = (copy){.output = -1, .pid = -1, .ended = true};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return dl_error_set(err, DL_ERR_IO, "cannot make a pipe: %s", strerror(errno));
    c->pid = fork();
    if (c->pid == 0) become(argv, ends[1], number);
    close(ends[1]);
    if (c->pid < 0) {
        close(ends[0]);
        return dl_error_set(err, DL_ERR_IO, "cannot start %s: %s", argv[0], strerror(errno));
    }
    setpgid(c->pid, c->pid);
    c->output = ends[0];
    c->ended = false;
    return DL_OK;
}

/* Handles one complete line. If the step number decreases, for example at a new epoch, the number
 * of steps since the previous line is unknown. If it repeats, for example when a progress bar is
 * redrawn, the step ended at its first appearance. */
static void take_line(copy *c, const char *text, const regex_t *expression, int64_t now_ns)
{
    regmatch_t groups[2];
    if (text[0] != '\0') snprintf(c->last, sizeof c->last, "%.150s", text);
    c->port_is_taken = c->port_is_taken || strcasestr(text, "address already in use") != NULL ||
                       strstr(text, "EADDRINUSE") != NULL;
    if (regexec(expression, text, 2, groups, 0) != 0) return;
    const int64_t before = c->count > 0 ? c->lines[c->count - 1].step : 0;
    int64_t step = before + 1;
    if (expression->re_nsub > 0 && groups[1].rm_so >= 0)
        step = strtoll(text + groups[1].rm_so, NULL, 10);
    if (c->count > 0 && step == before) {
        c->repeated++;
        return;
    }
    c->repeated = 0;
    const bool anew = c->count == 0 || step < before;
    DL_APPEND(c->lines, c->count, "lines") = (line){now_ns, step, anew};
}

/* Reads the available output; progress bars end lines with '\r'. */
static void read_output(copy *c, const regex_t *expression)
{
    const ssize_t got = read(c->output, c->text + c->used, sizeof c->text - 1 - c->used);
    const int64_t now_ns = dl_clock_ns();
    if (got <= 0) {
        if (got < 0 && errno == EINTR) return;
        close(c->output);
        c->output = -1;
        return;
    }
    c->used += (size_t)got;
    c->text[c->used] = '\0';
    char *at = c->text;
    for (char *end; (end = strpbrk(at, "\r\n")) != NULL; at = end + 1) {
        *end = '\0';
        take_line(c, at, expression, now_ns);
    }
    c->used -= (size_t)(at - c->text);
    memmove(c->text, at, c->used);
    if (c->used == sizeof c->text - 1) c->used = 0; /* a longer line cannot be a step */
}

/* Time when the last copy printed its line warmup + 1; INT64_MAX before that. */
static int64_t common_start_ns(const copy *copies, int count, int warmup)
{
    int64_t start_ns = INT64_MIN;
    for (int i = 0; i < count; i++) {
        if (copies[i].count <= (size_t)warmup) return INT64_MAX;
        const int64_t at_ns = copies[i].lines[warmup].at_ns;
        if (at_ns > start_ns) start_ns = at_ns;
    }
    return start_ns;
}

/* Index of the first line at or after start_ns, or c->count. */
static size_t first_since(const copy *c, int64_t start_ns)
{
    size_t first = c->count;
    while (first > 0 && c->lines[first - 1].at_ns >= start_ns)
        first--;
    return first;
}

/* Number of pairs of successive lines from start_ns on between which steps ended. */
static size_t intervals_since(const copy *c, int64_t start_ns)
{
    size_t count = 0;
    for (size_t l = first_since(c, start_ns) + 1; l < c->count; l++)
        count += !c->lines[l].anew;
    return count;
}

/* Whether each copy has printed config->count lines since all were active. */
static bool have_all(const copy *copies, int count, const dl_program_config *config)
{
    const int64_t start_ns = common_start_ns(copies, count, config->warmup);
    for (int i = 0; i < count && start_ns != INT64_MAX; i++) {
        if (intervals_since(&copies[i], start_ns) < (size_t)config->count) return false;
    }
    return start_ns != INT64_MAX;
}

/* Kills all children of this process that the kernel lists; some may have left the process group of
 * their copy by starting a session. Does nothing if the kernel has no such list. */
static void kill_children(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *in = fopen(path, "r");
    if (in == NULL) return;
    for (int pid; fscanf(in, "%d", &pid) == 1;)
        kill(pid, SIGKILL);
    fclose(in);
}

/* Kills and reaps processes left behind by copies that have ended, so that their processor time
 * counts as that of this process's children. When such a process dies, this process becomes the
 * parent of its children. */
static void reap_orphans(void)
{
    const int64_t until_ns = dl_clock_ns() + DL_PROGRAM_PATIENCE_S * INT64_C(1000000000);
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) >= 0 && dl_clock_ns() < until_ns;) {
        if (pid > 0) continue;
        kill_children();
        usleep(5000);
    }
}

static void stop_all(copy *copies, int count)
{
    const int64_t until_ns = dl_clock_ns() + DL_PROGRAM_PATIENCE_S * INT64_C(1000000000);
    for (int i = 0; i < count; i++) {
        if (!copies[i].ended) kill(-copies[i].pid, SIGTERM);
    }
    for (int i = 0; i < count; i++) {
        copy *c = &copies[i];
        while (!c->ended && waitpid(c->pid, &c->status, WNOHANG) != c->pid) {
            if (dl_clock_ns() > until_ns) kill(-c->pid, SIGKILL);
            usleep(5000);
        }
        if (c->pid > 0) kill(-c->pid, SIGKILL); /* processes that the copy has started */
        c->ended = true;
        if (c->output >= 0) close(c->output);
        c->output = -1;
    }
    reap_orphans();
}

/* Whether a copy has ended, after reading its last output. A copy may close its output and
 * continue. */
static bool has_ended(copy *copies, int count)
{
    bool any = false;
    for (int i = 0; i < count; i++) {
        copy *c = &copies[i];
        if (!c->ended && c->output < 0) c->ended = waitpid(c->pid, &c->status, WNOHANG) == c->pid;
        any = any || c->ended;
    }
    return any;
}

static dl_status ended_early(const copy *copies, int count, const dl_program_config *config,
                             dl_error *err)
{
    const copy *c = &copies[0];
    for (int i = 0; i < count; i++) {
        if (copies[i].ended) c = &copies[i];
    }
    const bool exited = c->ended && WIFEXITED(c->status);
    return dl_error_set(
        err, DL_ERR_DATA,
        "%s %s %d after %zu lines of steps, before all of %d copies had printed %d and %d "
        "more%s%s%s%s",
        config->argv[0], exited ? "exited with" : "ended by signal",
        exited ? WEXITSTATUS(c->status) : WTERMSIG(c->status), c->count, count, config->warmup + 1,
        config->count, c->last[0] != '\0' ? "; it printed: " : "", c->last,
        exited && WEXITSTATUS(c->status) == 0 && c->count > 0
            ? ": it must train for longer, or print such lines more often (--lines: fewer of them)"
            : "",
        c->port_is_taken ? ". Copies need ports of their own: MASTER_PORT differs in each if it is "
                           "set before dlprof starts, or add DLPROF_COPY (0, 1, ...) to the port "
                           "that the program uses"
                         : "");
}

/* Reports that no copy printed a new step for limit_s. */
static dl_status was_silent(const copy *copies, int count, const dl_program_config *config,
                            dl_error *err)
{
    for (int i = 0; i < count; i++) {
        if (copies[i].repeated == 0) continue;
        return dl_error_set(err, DL_ERR_DATA,
                            "the number in %zu lines of %s stayed %lld for %g s; the last line is "
                            "%s: see --step-line",
                            copies[i].repeated + 1, config->argv[0],
                            (long long)copies[i].lines[copies[i].count - 1].step, config->limit_s,
                            copies[i].last);
    }
    return dl_error_set(err, DL_ERR_DATA,
                        "no line matched for %g s in the output of %s%s%s: see --step-line",
                        config->limit_s, config->argv[0],
                        copies[0].last[0] != '\0' ? ", whose last line is " : "", copies[0].last);
}

/* Waits until all copies have printed their lines or the bench is stopped; fails if a copy ends
 * before, or if none prints a new step for limit_s. */
static dl_status watch(copy *copies, int count, const dl_program_config *config, dl_error *err)
{
    int64_t heard_ns = dl_clock_ns();
    size_t heard = 0;
    while (!atomic_load(config->stop) && !have_all(copies, count, config)) {
        struct pollfd waits[DL_TRAIN_WORKERS_MAX];
        size_t all = 0;
        for (int i = 0; i < count; i++)
            waits[i] = (struct pollfd){.fd = copies[i].output, .events = POLLIN};
        (void)poll(waits, (nfds_t)count, POLL_MS);
        for (int i = 0; i < count; i++) {
            if (copies[i].output >= 0 && waits[i].revents != 0)
                read_output(&copies[i], config->lines);
            all += copies[i].count;
        }
        if (all > heard) heard_ns = dl_clock_ns();
        heard = all;
        if (has_ended(copies, count)) {
            return have_all(copies, count, config) ? DL_OK
                                                   : ended_early(copies, count, config, err);
        }
        if (dl_ns_to_s((double)(dl_clock_ns() - heard_ns)) > config->limit_s)
            return was_silent(copies, count, config, err);
    }
    return DL_OK;
}

/* Adds the steps between lines that were printed while all copies were active. */
static void add_samples(dl_bench *bench, const copy *copies, int count,
                        const dl_program_config *config)
{
    const int64_t start_ns = common_start_ns(copies, count, config->warmup);
    const int cores = config->cores;
    int64_t end_ns = INT64_MAX;
    for (int i = 0; i < count; i++) {
        const int64_t last_ns = copies[i].lines[copies[i].count - 1].at_ns;
        if (last_ns < end_ns) end_ns = last_ns;
    }
    for (int i = 0; i < count; i++) {
        const copy *c = &copies[i];
        for (size_t l = first_since(c, start_ns) + 1; l < c->count; l++) {
            const line *from = &c->lines[l - 1], *to = &c->lines[l];
            if (to->at_ns > end_ns) break;
            if (to->anew) continue;
            dl_bench_add(
                bench, DL_BENCH_STEP,
                (dl_record){.worker = (uint32_t)i,
                            .step = (uint32_t)to->step,
                            .samples = (uint32_t)config->batch,
                            .vectors = (uint32_t)count,
                            .threads = (uint32_t)(count < cores ? count : cores),
                            .start_ns = from->at_ns,
                            .duration_ns = (to->at_ns - from->at_ns) / (to->step - from->step)});
        }
    }
}

static dl_status run(dl_bench *bench, const dl_program_config *config, int count, int *runs,
                     dl_error *err)
{
    DL_AUTOFREE copy *copies = dl_calloc((size_t)count, sizeof *copies, "copies");
    dl_status status = DL_OK;
    int started = 0;
    for (; started < count && status == DL_OK; started++)
        status = start(&copies[started], config->argv, started, err);
    if (status == DL_OK) status = watch(copies, count, config, err);
    stop_all(copies, started);
    const bool measured = status == DL_OK && have_all(copies, count, config);
    if (measured && *runs == 0) status = config->begin(bench, config->trace, err);
    if (measured && status == DL_OK) {
        add_samples(bench, copies, count, config);
        (*runs)++;
    }
    for (int i = 0; i < count; i++)
        free(copies[i].lines);
    return status;
}

dl_status dl_bench_program(dl_bench *bench, const dl_program_config *config, int *runs,
                           dl_error *err)
{
    dl_bench_order order;
    dl_status status = DL_OK;
    *runs = 0;
    dl_progress progress;
    dl_progress_init(&progress, "bench: copies side by side");
    dl_bench_order_init(&order, (uint32_t)config->copies_max, config->seed, DL_BENCH_STEP);
    const int all = config->rounds * config->copies_max;
    prctl(PR_SET_CHILD_SUBREAPER,
          1); /* makes this process the parent of orphans, for reap_orphans */
    for (int round = 0; round < config->rounds && status == DL_OK; round++) {
        const uint32_t *copies = dl_bench_order_next(&order);
        for (int i = 0; i < config->copies_max && status == DL_OK; i++) {
            if (atomic_load(config->stop)) break;
            status = run(bench, config, (int)copies[i] + 1, runs, err);
            dl_progress_update(&progress, (double)(round * config->copies_max + i + 1) / all);
        }
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    dl_bench_order_free(&order);
    dl_progress_end(&progress);
    return status;
}
