#include "common/jobs.h"

#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "common/units.h"

#define PORTION_S 0.05 /* duration of a batch of jobs per thread, in s */
/* Maximum number of ranges in a message, so that it is short enough to be sent without waiting for
 * its receiver. */
#define RANGES_MAX 128
#define RESULTS_EVERY_NS (50 * DL_NS_PER_S / 1000)
#define RESULTS_BYTES ((size_t)1 << 20)
#define NAP_MAX_NS 1000000

/* Tags of messages to rank 0. */
enum { TAG_RESULTS = 1, TAG_FAILED };
/* Tags of messages from rank 0. */
enum { TAG_JOBS = 11, TAG_LIMIT, TAG_END };

typedef struct range {
    int64_t first, end;
} range;

/* Head of TAG_RESULTS, followed by number, size and bytes of each job's result. */
typedef struct results_head {
    int64_t asks; /* 1: requests more jobs; -1: these were the last results; 0: neither */
    double busy_s;
    int64_t jobs;
} results_head;

typedef struct failure {
    int64_t job; /* -1: not about a job */
    dl_status status;
    dl_error error;
} failure;

typedef struct pool {
    const dl_jobs *jobs;
    locale_t locale; /* locale of the caller's thread, used by all threads */
    bool leads;      /* this is rank 0 or the only process */
    pthread_mutex_t mutex;
    pthread_cond_t more; /* ranks other than 0: signals new jobs to waiting threads */
    int64_t limit;       /* first job that failed; this and later ones are not started; `count`: no
                          * failure; -1: no job is started */
    dl_status status;    /* status of the job at `limit` */
    dl_error error;
    int running; /* number of threads running a job */
    /* Members for rank 0: */
    bool *done; /* [count] finished jobs */
    int64_t next, done_count;
    bool recording;
    double busy_s; /* total run time of the busy_jobs jobs done on other ranks */
    int64_t busy_jobs;
    /* Members for the other ranks: */
    range *queue;
    size_t queued, taken;
    bool no_more;
    dl_bytes outbox;
    results_head head;
} pool;

/* --- end of a job --------------------------------------------------------------------------- */

static void note_failure(pool *p, int64_t job, dl_status status, const dl_error *error)
{
    if (p->status != DL_OK && job >= p->limit) return;
    p->status = status;
    p->limit = job;
    p->error = *error;
}

static void record(pool *p, int64_t job)
{
    dl_bytes result = {0};
    p->jobs->encode(p->jobs->user, job, &result);
    dl_journal_add(p->jobs->journal, p->jobs->journal_first + job, result.data, result.count);
    free(result.data);
}

/* Adds a finished job to the journal, unless the run is still short; the first time, adds all jobs
 * finished so far. Flushes the journal if a flush is due. */
static void keep_journal(pool *p, int64_t job)
{
    if (p->recording) {
        record(p, job);
    } else if (dl_journal_is_kept(p->jobs->journal)) {
        p->recording = true;
        for (int64_t j = 0; j < p->jobs->count; j++)
            if (p->done[j]) record(p, j);
    }
    if (!dl_journal_due(p->jobs->journal)) return;
    dl_error error = {0};
    const dl_status status = dl_journal_flush(p->jobs->journal, &error);
    if (status != DL_OK) note_failure(p, -1, status, &error);
}

static void note_done(pool *p, int64_t job)
{
    if (p->done[job]) return;
    p->done[job] = true;
    p->done_count++;
    if (p->jobs->journal != NULL) keep_journal(p, job);
    if (p->jobs->progress != NULL) {
        p->jobs->progress(p->jobs->progress_user, p->done_count, p->jobs->count);
    }
}

/* --- threads -------------------------------------------------------------------------------- */

/* Takes rank 0's next range of at most `most` jobs; returns false if there is none. */
static bool take_range(pool *p, int64_t most, range *taken)
{
    const int64_t end = p->status == DL_OK ? p->jobs->count : 0;
    while (p->next < end && p->done[p->next])
        p->next++;
    if (p->next >= end) return false;
    *taken = (range){.first = p->next, .end = p->next};
    while (taken->end < end && !p->done[taken->end] && taken->end - taken->first < most)
        taken->end++;
    p->next = taken->end;
    return true;
}

/* Ranks other than 0: takes the first job below `limit` from this rank's queue; -1: none. */
static int64_t take_queued(pool *p)
{
    while (p->taken < p->queued) {
        range *r = &p->queue[p->taken];
        if (r->first < r->end && r->first < p->limit) return r->first++;
        p->taken++;
    }
    p->taken = p->queued = 0;
    return -1;
}

/* Takes the next job, waiting for it if needed; -1: there are no more jobs. */
static int64_t take(pool *p)
{
    int64_t job = -1;
    range one;
    pthread_mutex_lock(&p->mutex);
    if (p->leads) {
        if (take_range(p, 1, &one)) job = one.first;
    } else {
        for (job = take_queued(p); job < 0 && !p->no_more; job = take_queued(p))
            pthread_cond_wait(&p->more, &p->mutex);
    }
    p->running += job >= 0;
    pthread_mutex_unlock(&p->mutex);
    return job;
}

static void finish(pool *p, int64_t job, dl_status status, const dl_error *error, double busy_s)
{
    dl_bytes result = {0};
    if (!p->leads && status == DL_OK) p->jobs->encode(p->jobs->user, job, &result);
    pthread_mutex_lock(&p->mutex);
    p->running--;
    if (status != DL_OK) {
        note_failure(p, job, status, error);
    } else if (p->leads) {
        note_done(p, job);
    } else {
        const uint64_t bytes = result.count;
        dl_bytes_add(&p->outbox, &job, sizeof job);
        dl_bytes_add(&p->outbox, &bytes, sizeof bytes);
        dl_bytes_add(&p->outbox, result.data, result.count);
        p->head.jobs++;
        p->head.busy_s += busy_s;
    }
    pthread_mutex_unlock(&p->mutex);
    free(result.data);
}

static void *work(void *argument)
{
    pool *p = argument;
    uselocale(p->locale);
    for (int64_t job = take(p); job >= 0; job = take(p)) {
        dl_error error = {0};
        const int64_t start_ns = p->leads ? 0 : dl_clock_ns();
        const dl_status status = p->jobs->run(p->jobs->user, job, &error);
        finish(p, job, status, &error,
               p->leads ? 0 : dl_ns_to_s((double)(dl_clock_ns() - start_ns)));
    }
    return NULL;
}

/* --- messages ------------------------------------------------------------------------------- */

typedef struct message {
    int from, tag;
    unsigned char *data;
    size_t bytes;
} message;

/* Receives a message if one has arrived; otherwise m->data is NULL. */
static dl_status poll_message(const pool *p, message *m, dl_error *err)
{
    const dl_cluster_calls *calls = p->jobs->cluster->calls;
    bool found = false;
    *m = (message){0};
    dl_status status = calls->probe(&found, &m->from, &m->tag, &m->bytes, err);
    if (status != DL_OK || !found) return status;
    m->data = dl_calloc(m->bytes + 1, 1, "message");
    return calls->receive(m->from, m->tag, m->data, m->bytes, err);
}

/* Yields the core after no message arrived, for longer after each successive call. */
static void rest(int *idle)
{
    if (++*idle < 100) {
        sched_yield();
        return;
    }
    const long nap_ns = 10000L * (*idle - 99);
    const struct timespec nap = {.tv_nsec = nap_ns < NAP_MAX_NS ? nap_ns : NAP_MAX_NS};
    nanosleep(&nap, NULL);
}

/* --- rank 0 --------------------------------------------------------------------------------- */

typedef struct lead {
    pool *p;
    int *threads;             /* [ranks] number of threads of each rank */
    int all_threads, working; /* all_threads: sum of `threads`; working: number of other ranks that
                               * have not finished */
    int64_t limit_sent;
} lead;

/* Number of jobs in a batch for each thread of a rank. */
static int64_t portion(const lead *l)
{
    const pool *p = l->p;
    const double left = (double)(p->jobs->count - p->next) / (2.0 * l->all_threads);
    const double by_time =
        p->busy_jobs > 0 ? PORTION_S * (double)p->busy_jobs / (p->busy_s + 1e-9) : 1;
    const double jobs = by_time < left ? by_time : left;
    return jobs > 1 ? (int64_t)jobs : 1;
}

static dl_status send_jobs(lead *l, int to, dl_error *err)
{
    range ranges[RANGES_MAX];
    size_t count = 0;
    pthread_mutex_lock(&l->p->mutex);
    int64_t wanted = portion(l) * l->threads[to];
    while (wanted > 0 && count < RANGES_MAX && take_range(l->p, wanted, &ranges[count])) {
        wanted -= ranges[count].end - ranges[count].first;
        count++;
    }
    pthread_mutex_unlock(&l->p->mutex);
    return l->p->jobs->cluster->calls->send(to, TAG_JOBS, ranges, count * sizeof *ranges, err);
}

static dl_status bad_message(const lead *l, const message *m, dl_error *err)
{
    return dl_error_set(err, DL_ERR_SYSTEM, "rank %d on %s has sent what is no result", m->from,
                        l->p->jobs->cluster->hosts[m->from]);
}

static dl_status take_results(lead *l, const message *m, dl_error *err)
{
    pool *p = l->p;
    const dl_jobs *jobs = p->jobs;
    dl_bytes_left left = {m->data, m->bytes};
    results_head head;
    if (!dl_bytes_take(&left, &head, sizeof head)) return bad_message(l, m, err);
    while (left.count > 0) {
        int64_t job;
        uint64_t bytes;
        if (!dl_bytes_take(&left, &job, sizeof job) ||
            !dl_bytes_take(&left, &bytes, sizeof bytes) || bytes > left.count || job < 0 ||
            job >= jobs->count || !jobs->decode(jobs->user, job, left.at, bytes)) {
            return bad_message(l, m, err);
        }
        dl_bytes_take(&left, NULL, bytes);
        pthread_mutex_lock(&p->mutex);
        note_done(p, job);
        pthread_mutex_unlock(&p->mutex);
    }
    p->busy_s += head.busy_s;
    p->busy_jobs += head.jobs;
    if (head.asks < 0) l->working--;
    return head.asks > 0 ? send_jobs(l, m->from, err) : DL_OK;
}

static dl_status take_failure(lead *l, const message *m, dl_error *err)
{
    failure failed;
    dl_bytes_left left = {m->data, m->bytes};
    if (!dl_bytes_take(&left, &failed, sizeof failed)) return bad_message(l, m, err);
    if (failed.job < 0) { /* error of the rank, not of a job */
        dl_error own = failed.error;
        snprintf(failed.error.text, sizeof failed.error.text, "rank %d on %s: %.400s", m->from,
                 l->p->jobs->cluster->hosts[m->from], own.text);
    }
    pthread_mutex_lock(&l->p->mutex);
    note_failure(l->p, failed.job, failed.status, &failed.error);
    pthread_mutex_unlock(&l->p->mutex);
    return DL_OK;
}

static dl_status send_limit(lead *l, dl_error *err)
{
    pthread_mutex_lock(&l->p->mutex);
    const int64_t limit = l->p->limit;
    pthread_mutex_unlock(&l->p->mutex);
    dl_status status = DL_OK;
    for (int r = 1; r < l->p->jobs->cluster->size && limit != l->limit_sent && status == DL_OK; r++)
        status = l->p->jobs->cluster->calls->send(r, TAG_LIMIT, &limit, sizeof limit, err);
    l->limit_sent = limit;
    return status;
}

/* Answers the other ranks until all have finished, while rank 0's own threads compute. */
static dl_status lead_ranks(lead *l, dl_error *err)
{
    const dl_cluster *cluster = l->p->jobs->cluster;
    dl_status status = DL_OK;
    int idle = 0;
    l->working = cluster->size - 1;
    l->limit_sent = l->p->limit;
    for (int r = 1; r < cluster->size && status == DL_OK; r++)
        status = send_jobs(l, r, err);
    while (l->working > 0 && status == DL_OK) {
        message m;
        status = poll_message(l->p, &m, err);
        if (status == DL_OK && m.data == NULL) rest(&idle);
        if (m.data != NULL) idle = 0;
        if (status == DL_OK && m.data != NULL) {
            status = m.tag == TAG_RESULTS ? take_results(l, &m, err) : take_failure(l, &m, err);
        }
        free(m.data);
        if (status == DL_OK) status = send_limit(l, err);
    }
    return status;
}

/* --- another rank --------------------------------------------------------------------------- */

typedef struct follower {
    pool *p;
    bool asked, last_sent, failure_sent, ended;
    int64_t sent_ns;
} follower;

static dl_status send_results(follower *f, int64_t asks, dl_error *err)
{
    pool *p = f->p;
    dl_bytes text = {0};
    pthread_mutex_lock(&p->mutex);
    p->head.asks = asks;
    dl_bytes_add(&text, &p->head, sizeof p->head);
    dl_bytes_add(&text, p->outbox.data, p->outbox.count);
    p->outbox.count = 0;
    p->head = (results_head){0};
    pthread_mutex_unlock(&p->mutex);
    const dl_status status =
        p->jobs->cluster->calls->send(0, TAG_RESULTS, text.data, text.count, err);
    f->sent_ns = dl_clock_ns();
    free(text.data);
    return status;
}

/* Sends results, a failure or a request for jobs to rank 0, if there are any; sets *said to whether
 * it sent something. */
static dl_status speak(follower *f, bool *said, dl_error *err)
{
    pool *p = f->p;
    int64_t left = 0;
    pthread_mutex_lock(&p->mutex);
    for (size_t i = p->taken; i < p->queued; i++)
        left += p->queue[i].end < p->limit     ? p->queue[i].end - p->queue[i].first
                : p->queue[i].first < p->limit ? p->limit - p->queue[i].first
                                               : 0;
    const bool failed = p->status != DL_OK && !f->failure_sent && p->running == 0 && left == 0;
    const bool last = p->no_more && !f->last_sent && p->running == 0 && left == 0;
    const bool asks = !p->no_more && !f->asked && left < p->jobs->threads;
    const bool full = p->outbox.count > RESULTS_BYTES ||
                      (p->outbox.count > 0 && dl_clock_ns() - f->sent_ns > RESULTS_EVERY_NS);
    const failure report = {.job = p->limit, .status = p->status, .error = p->error};
    pthread_mutex_unlock(&p->mutex);
    *said = failed || last || asks || full;
    if (failed) {
        f->failure_sent = true;
        return p->jobs->cluster->calls->send(0, TAG_FAILED, &report, sizeof report, err);
    }
    if (last) f->last_sent = true;
    if (asks) f->asked = true;
    return *said ? send_results(f, last ? -1 : asks ? 1 : 0, err) : DL_OK;
}

static void take_jobs(follower *f, const message *m)
{
    pool *p = f->p;
    dl_bytes_left left = {m->data, m->bytes};
    range r;
    pthread_mutex_lock(&p->mutex);
    f->asked = false;
    p->no_more = m->bytes == 0;
    while (dl_bytes_take(&left, &r, sizeof r))
        DL_APPEND(p->queue, p->queued, "jobs") = r;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->mutex);
}

static void take_order(follower *f, const message *m)
{
    dl_bytes_left left = {m->data, m->bytes};
    int64_t limit;
    failure end;
    if (m->tag == TAG_JOBS) take_jobs(f, m);
    if (m->tag == TAG_LIMIT && dl_bytes_take(&left, &limit, sizeof limit)) {
        pthread_mutex_lock(&f->p->mutex);
        if (limit < f->p->limit) f->p->limit = limit;
        pthread_mutex_unlock(&f->p->mutex);
    }
    if (m->tag == TAG_END && dl_bytes_take(&left, &end, sizeof end)) {
        f->ended = true;
        f->p->status = end.status;
        f->p->error = end.error;
    }
}

static dl_status follow(follower *f, dl_error *err)
{
    dl_status status = DL_OK;
    int idle = 0;
    while (!f->ended && status == DL_OK) {
        message m;
        bool said = false;
        status = poll_message(f->p, &m, err);
        const bool heard = m.data != NULL;
        if (status == DL_OK && heard) take_order(f, &m);
        free(m.data);
        if (status == DL_OK && !f->ended) status = speak(f, &said, err);
        idle = heard || said ? 0 : idle;
        if (!heard && !said) rest(&idle);
    }
    return status;
}

/* --- all ranks ------------------------------------------------------------------------------ */

/* Sends rank 0's status to all other ranks, which ends their part. */
static dl_status send_end(const lead *l, dl_error *err)
{
    const dl_cluster *cluster = l->p->jobs->cluster;
    const failure end = {.status = l->p->status, .error = l->p->error};
    dl_status status = DL_OK;
    for (int r = 1; r < cluster->size && status == DL_OK; r++)
        status = cluster->calls->send(r, TAG_END, &end, sizeof end, err);
    return status;
}

/* Starts up to `wanted` threads in addition to the calling one; returns the number started. Notes a
 * refused start as a failure. */
static int start_threads(pool *p, pthread_t *handles, int wanted)
{
    for (int t = 0; t < wanted; t++) {
        const int refused = pthread_create(&handles[t], NULL, work, p);
        if (refused == 0) continue;
        dl_error error = {0};
        dl_error_set(&error, DL_ERR_SYSTEM, "cannot start thread %d: %s", t + 1, strerror(refused));
        pthread_mutex_lock(&p->mutex);
        note_failure(p, -1, DL_ERR_SYSTEM, &error);
        pthread_mutex_unlock(&p->mutex);
        return t;
    }
    return wanted;
}

/* Makes this rank's threads stop waiting for jobs; notes `status` as a failure unless it is
 * DL_OK. */
static void stop(pool *p, dl_status status, const dl_error *error)
{
    pthread_mutex_lock(&p->mutex);
    if (status != DL_OK) note_failure(p, -1, status, error);
    p->no_more = true;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->mutex);
}

static void join(const pthread_t *handles, int count)
{
    for (int t = 0; t < count; t++)
        pthread_join(handles[t], NULL);
}

static void run_alone(pool *p)
{
    const int threads = p->jobs->threads < p->jobs->count ? p->jobs->threads : (int)p->jobs->count;
    DL_AUTOFREE pthread_t *handles = dl_calloc((size_t)threads + 1, sizeof *handles, "threads");
    const int started = start_threads(p, handles, threads - 1);
    work(p);
    join(handles, started);
}

static void run_with_ranks(pool *p)
{
    dl_cluster *cluster = p->jobs->cluster;
    lead l = {.p = p};
    dl_error error = {0};
    l.threads = dl_calloc((size_t)cluster->size, sizeof *l.threads, "threads of ranks");
    dl_status status =
        cluster->calls->all_gather(&p->jobs->threads, l.threads, sizeof(int), &error);
    for (int r = 0; r < cluster->size; r++)
        l.all_threads += l.threads[r];
    DL_AUTOFREE pthread_t *handles =
        dl_calloc((size_t)p->jobs->threads, sizeof *handles, "threads");
    const int started = start_threads(p, handles, p->jobs->threads);
    if (p->leads && status == DL_OK) status = lead_ranks(&l, &error);
    if (!p->leads && status == DL_OK) {
        follower f = {.p = p, .asked = true, .sent_ns = dl_clock_ns()};
        status = follow(&f, &error);
    }
    stop(p, status, &error);
    join(handles, started);
    if (p->leads && status == DL_OK) {
        status = send_end(&l, &error);
        stop(p, status, &error);
    }
    if (status != DL_OK) cluster->failed = true; /* ranks can no longer be reached */
    free(l.threads);
}

/* Marks the jobs in the journal as done. */
static void take_records(pool *p)
{
    const dl_jobs *jobs = p->jobs;
    const void *data;
    size_t bytes;
    if (!p->leads || jobs->journal == NULL) return;
    for (int64_t job = 0; job < jobs->count; job++) {
        p->done[job] = dl_journal_find(jobs->journal, jobs->journal_first + job, &data, &bytes) &&
                       jobs->decode(jobs->user, job, data, bytes);
        p->done_count += p->done[job];
    }
    p->recording = dl_journal_is_kept(jobs->journal);
}

static void init_pool(pool *p, const dl_jobs *jobs)
{
    *p = (pool){.jobs = jobs,
                .locale = uselocale((locale_t)0),
                .leads = jobs->cluster == NULL || jobs->cluster->rank == 0,
                .limit = jobs->count};
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->more, NULL);
    p->done = dl_calloc((size_t)jobs->count, sizeof *p->done, "jobs");
}

static void free_pool(pool *p)
{
    pthread_mutex_destroy(&p->mutex);
    pthread_cond_destroy(&p->more);
    free(p->done);
    free(p->queue);
    free(p->outbox.data);
}

dl_status dl_jobs_run(const dl_jobs *jobs, dl_error *err)
{
    pool p;
    init_pool(&p, jobs);
    take_records(&p);
    if (jobs->progress != NULL && p.leads) {
        jobs->progress(jobs->progress_user, p.done_count, jobs->count);
    }
    if (jobs->cluster != NULL && jobs->cluster->failed) {
        dl_error error = {0};
        dl_error_set(&error, DL_ERR_SYSTEM, "the ranks have failed");
        note_failure(&p, -1, DL_ERR_SYSTEM, &error);
    } else if (jobs->cluster != NULL && jobs->cluster->size > 1) {
        run_with_ranks(&p);
    } else {
        run_alone(&p);
    }
    const dl_status status = p.status;
    if (status != DL_OK && err != NULL) *err = p.error;
    free_pool(&p);
    return status;
}
