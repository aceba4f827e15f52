#include "tests/doubles/fake_device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "kernels/exchange.h"

#define OPENED_MAX 64
#define DEVICES_MAX 16
#define MEMBERS_MAX 16
#define LOOK_NS 2000000L /* between checks whether another rank is lost */
#define REDUCTIONS_MAX 4 /* per member, between group(true) and group(false) */

/* Bit 62 makes an address invalid for every process on x86-64 or Arm. */
#define FAR ((uintptr_t)1 << 62)

typedef struct call call;

/* A queued operation. */
struct call {
    void (*run)(dl_device *device, const call *call);
    union {
        dl_gemm gemm;
        dl_softmax softmax;
        dl_update update;
        dl_quantise_plan plan;
        const void *vectors[MEMBERS_MAX];
    } as;
    void *also;
    void *to;
    const void *from;
    size_t bytes;
    int rows, columns;
};

/* Members of a reduction. */
typedef struct group {
    int count, users;
    char id[DL_DEVICE_ID_BYTES];        /* for members in several ranks; else "" */
    dl_device_ranks ranks[MEMBERS_MAX]; /* by member; all zero without ranks */
    int own[MEMBERS_MAX];               /* by member: number of members in its rank */
    dl_device *members[MEMBERS_MAX];
    void *values[MEMBERS_MAX];
    struct {
        void *values;
        size_t count;
    } gathered[MEMBERS_MAX][REDUCTIONS_MAX]; /* reductions since group(true) */
    int reductions[MEMBERS_MAX];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int arrived;
    unsigned round;
    bool failed[MEMBERS_MAX]; /* by the rank's first member: a member of the rank has failed, and no
                               * other one there waits for it */
} group;

struct dl_device {
    int number, member;
    call *calls;
    size_t count, capacity;
    double now_ns;
    double *marks;
    size_t mark_count;
    group *group;
    int behind; /* operations launched since it is held */
    bool failed, held, was_held, computes;
    bool endless; /* a reduction waits for a failed member, until `wait` ends it */
};

/* Groups of ranks, which are threads of one process here; the members of a group find it by its
 * id. */
#define GROUPS_MAX 4
static group *groups[GROUPS_MAX];
static int groups_named;
static pthread_mutex_t groups_mutex = /* also guards `opened` */
    PTHREAD_MUTEX_INITIALIZER;

static int device_count = 1;
static atomic_long until_failure = -1;
static atomic_int alive;
static char opened[OPENED_MAX + 1];
static bool shares;
static size_t device_bytes = (size_t)1 << 20;
static atomic_int computing[DEVICES_MAX]; /* slots of each device that have computed */
static _Thread_local dl_device *used;
static _Thread_local int holds; /* slots that the thread holds */
static _Thread_local bool grouping;
static _Thread_local group *gathering; /* group whose members have reduced since group(true) */

static bool reaches = true;

void fake_device_reach(bool reach)
{
    reaches = reach;
}

static atomic_bool refuses_ids;

void fake_device_refuse_ids(bool refuse)
{
    atomic_store(&refuses_ids, refuse);
}

static fake_listener listener;

void fake_device_listen(fake_listener listens)
{
    listener = listens;
}

void fake_device_set(int devices, long operations_until_failure)
{
    device_count = devices;
    atomic_store(&until_failure, operations_until_failure);
    opened[0] = '\0';
}

void fake_device_share(size_t memory_bytes)
{
    shares = true;
    device_bytes = memory_bytes;
}

int fake_device_leaks(void)
{
    return atomic_load(&alive);
}

const char *fake_device_opened(void)
{
    return opened;
}

/* This library has a second copy of the backend and of OpenBLAS, separate from the program's. */
static const dl_backend *real(void)
{
    const dl_backend *backend = dl_backend_cpu(DL_DOUBLE);
    dl_error error = {0};
    const dl_status status = backend->start(&error);
    DL_ASSERT(status == DL_OK, "%s", error.text);
    return backend;
}

/* Returns the real address for an address of the device. */
static void *near_by(const void *far)
{
    const uintptr_t address = (uintptr_t)far;
    DL_ASSERT((address & FAR) != 0, "%p is no address of the device", far);
    return (void *)(address & ~FAR);
}

static void run_upload(dl_device *device, const call *c);
static void run_download(dl_device *device, const call *c);
static void run_mark(dl_device *device, const call *c);
static void run_device_copy(dl_device *device, const call *c);

#define KERNELS_MAX 64

/* Loads a kernel at its first launch, as CUDA does, which may have to wait for the device then. */
static void load(const dl_device *device, const char *kernel)
{
    static const char *loaded[KERNELS_MAX];
    pthread_mutex_lock(&groups_mutex);
    int at = 0;
    while (at < KERNELS_MAX && loaded[at] != NULL && loaded[at] != kernel)
        at++;
    DL_ASSERT(at < KERNELS_MAX, "%d kernels", at);
    DL_ASSERT(loaded[at] != NULL || !device->held, "%s is loaded behind a held-up device", kernel);
    loaded[at] = kernel;
    pthread_mutex_unlock(&groups_mutex);
}

/* Queues an operation; `operation` is the name of the backend's or device's function. */
static void issue_named(const char *operation, call made)
{
    dl_device *device = used;
    const bool up = made.run == run_upload, copies = up || made.run == run_download;
    if (made.run != run_mark && made.run != run_device_copy && !copies) load(device, operation);
    if (device->held && made.run != run_mark) device->behind++;
    DL_ASSERT(device->behind <= DL_DEVICE_HELD_MAX, "%d launches are held up", device->behind);
    if (listener != NULL && made.run != run_mark)
        listener(device->number, operation, copies ? made.bytes : 0, up);
    if (device->count == device->capacity) {
        device->capacity = 2 * device->capacity + 16;
        device->calls = dl_realloc(device->calls, device->capacity, sizeof *device->calls, "calls");
    }
    device->calls[device->count++] = made;
}
#define issue(...) issue_named(__func__, __VA_ARGS__)

static bool *rank_failed(const dl_device *device)
{
    return &device->group->failed[device->group->ranks[device->member].first];
}

/* Other ranks are not notified: they notice the loss of this one. */
static void fail(dl_device *device)
{
    group *g = device->group;
    device->failed = true;
    if (g == NULL) return;
    pthread_mutex_lock(&g->mutex);
    *rank_failed(device) = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
}

static double operation_ns(const dl_device *device)
{
    const int slots = shares && device->computes ? atomic_load(&computing[device->number]) : 1;
    return FAKE_OPERATION_NS * (slots + 1) / 2.0;
}

/* Runs all queued operations. */
static void flush(dl_device *device)
{
    for (size_t i = 0; i < device->count; i++) {
        if (atomic_load(&until_failure) >= 0 && atomic_fetch_sub(&until_failure, 1) <= 0) {
            fail(device);
        }
        if (device->failed) break;
        device->calls[i].run(device, &device->calls[i]);
        device->now_ns += operation_ns(device);
    }
    device->count = 0;
}

static dl_status start(dl_error *err DL_UNUSED)
{
    DL_ASSERT(used != NULL, "%s", "no device");
    return DL_OK;
}

static void *allocate_host(size_t bytes, const char *purpose)
{
    atomic_fetch_add(&alive, 1);
    return dl_alloc_aligned(bytes, purpose);
}

static void release_host(void *memory)
{
    if (memory != NULL) atomic_fetch_sub(&alive, 1);
    free(memory);
}

static void *allocate(size_t bytes, const char *purpose)
{
    return bytes == 0 ? NULL : (void *)((uintptr_t)allocate_host(bytes, purpose) | FAR);
}

/* Waits for the device's work, as CUDA does. */
static void release(void *memory)
{
    DL_ASSERT(used == NULL || !used->endless, "fake device %d reduces for ever", used->number);
    if (memory != NULL) release_host(near_by(memory));
}

static void run_upload(dl_device *device DL_UNUSED, const call *c)
{
    memcpy(near_by(c->to), c->from, c->bytes);
}

static void upload(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) issue((call){.run = run_upload, .to = to, .from = from, .bytes = bytes});
}

static void run_download(dl_device *device DL_UNUSED, const call *c)
{
    memcpy(c->to, near_by(c->from), c->bytes);
}

static void download(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) issue((call){.run = run_download, .to = to, .from = from, .bytes = bytes});
}

static dl_status wait_done(dl_error *err)
{
    DL_ASSERT(!used->held, "fake device %d is held up for ever", used->number);
    flush(used);
    used->failed |= used->endless;
    used->endless = false;
    if (!used->failed) return DL_OK;
    return dl_error_set(err, DL_ERR_SYSTEM, "fake device %d broke", used->number);
}

static void run_gemm(dl_device *device DL_UNUSED, const call *c)
{
    dl_gemm near = c->as.gemm;
    near.a = near_by(near.a);
    near.b = near_by(near.b);
    near.c = near_by(near.c);
    real()->gemm(&near);
}

static void gemm(const dl_gemm *gemm)
{
    if (!used->computes) atomic_fetch_add(&computing[used->number], 1);
    used->computes = true;
    issue((call){.run = run_gemm, .as.gemm = *gemm});
}

static void run_repeat_row(dl_device *device DL_UNUSED, const call *c)
{
    real()->repeat_row(near_by(c->to), near_by(c->from), c->rows, c->columns);
}

static void repeat_row(void *matrix, const void *row, int rows, int columns)
{
    issue(
        (call){.run = run_repeat_row, .to = matrix, .from = row, .rows = rows, .columns = columns});
}

static void run_sum_rows(dl_device *device DL_UNUSED, const call *c)
{
    real()->sum_rows(near_by(c->to), near_by(c->from), c->rows, c->columns);
}

static void sum_rows(void *sums, const void *matrix, int rows, int columns)
{
    issue(
        (call){.run = run_sum_rows, .to = sums, .from = matrix, .rows = rows, .columns = columns});
}

static void run_add(dl_device *device DL_UNUSED, const call *c)
{
    real()->add(near_by(c->to), near_by(c->from), c->bytes);
}

static void add(void *to, const void *from, size_t count)
{
    issue((call){.run = run_add, .to = to, .from = from, .bytes = count});
}

static void run_relu(dl_device *device DL_UNUSED, const call *c)
{
    real()->relu(near_by(c->to), c->bytes);
}

static void relu(void *values, size_t count)
{
    issue((call){.run = run_relu, .to = values, .bytes = count});
}

static void run_relu_backward(dl_device *device DL_UNUSED, const call *c)
{
    real()->relu_backward(near_by(c->to), near_by(c->from), c->bytes);
}

static void relu_backward(void *gradients, const void *values, size_t count)
{
    issue((call){.run = run_relu_backward, .to = gradients, .from = values, .bytes = count});
}

static dl_softmax near_softmax(const call *c)
{
    dl_softmax near = c->as.softmax;
    near.scores = near.scores != NULL ? near_by(near.scores) : NULL;
    near.labels = near_by(near.labels);
    near.probabilities = near_by(near.probabilities);
    near.losses = near_by(near.losses);
    near.correct = near_by(near.correct);
    return near;
}

static void run_softmax(dl_device *device DL_UNUSED, const call *c)
{
    const dl_softmax near = near_softmax(c);
    real()->softmax(&near);
}

static void softmax(const dl_softmax *softmax)
{
    issue((call){.run = run_softmax, .as.softmax = *softmax});
}

static void run_softmax_backward(dl_device *device DL_UNUSED, const call *c)
{
    const dl_softmax near = near_softmax(c);
    real()->softmax_backward(&near, near_by(c->to));
}

static void softmax_backward(const dl_softmax *softmax, void *gradients)
{
    issue((call){.run = run_softmax_backward, .as.softmax = *softmax, .to = gradients});
}

static void run_sgd(dl_device *device DL_UNUSED, const call *c)
{
    dl_update near = c->as.update;
    near.parameters = near_by(near.parameters);
    near.gradients = near_by(near.gradients);
    near.first = near.first != NULL ? near_by(near.first) : NULL;
    real()->sgd(&near);
}

static void sgd(const dl_update *update)
{
    issue((call){.run = run_sgd, .as.update = *update});
}

static dl_status count_devices(int *count, dl_error *err)
{
    if (device_count == 0) return dl_error_set(err, DL_ERR_UNSUPPORTED, "no fake device");
    *count = device_count;
    return DL_OK;
}

static dl_status describe(int number, dl_device_info *info, dl_error *err DL_UNUSED)
{
    *info = (dl_device_info){.name = "fake", .memory_bytes = device_bytes};
    info->bus_id[0] = (char)('0' + number);
    return DL_OK;
}

static dl_status open_device(dl_device **device, int number,
                             const dl_device_settings *settings DL_UNUSED, dl_error *err DL_UNUSED)
{
    pthread_mutex_lock(&groups_mutex);
    DL_ASSERT(number < device_count && number < DEVICES_MAX, "device %d", number);
    if (strlen(opened) < OPENED_MAX) { /* a benchmark opens more devices than tests check */
        opened[strlen(opened) + 1] = '\0';
        opened[strlen(opened)] = (char)('0' + number);
    }
    pthread_mutex_unlock(&groups_mutex);
    dl_device *made = dl_calloc(1, sizeof *made, "fake device");
    made->number = number;
    atomic_fetch_add(&alive, 1);
    *device = made;
    return DL_OK;
}

static void leave_group(group *g)
{
    pthread_mutex_lock(&groups_mutex);
    const bool last = --g->users == 0;
    pthread_mutex_unlock(&groups_mutex);
    if (!last) return;
    for (int i = 0; i < GROUPS_MAX; i++)
        if (groups[i] == g) groups[i] = NULL;
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->mutex);
    free(g);
}

static void close_device(dl_device *device)
{
    if (device == NULL) return;
    atomic_fetch_sub(&alive, 1);
    if (device->computes) atomic_fetch_sub(&computing[device->number], 1);
    if (device->group != NULL) leave_group(device->group);
    free(device->calls);
    free(device->marks);
    free(device);
}

static void use(dl_device *device)
{
    used = device;
}

static size_t used_bytes(void)
{
    return used->failed ? 0 : FAKE_USED_BYTES;
}

static void run_mark(dl_device *device, const call *c)
{
    device->now_ns -= operation_ns(device);
    device->marks[c->bytes] = device->now_ns;
}

static void mark(size_t index)
{
    if (index >= used->mark_count) {
        used->mark_count = 2 * index + 1;
        used->marks = dl_realloc(used->marks, used->mark_count, sizeof *used->marks, "marks");
    }
    issue((call){.run = run_mark, .bytes = index});
}

static double between_ns(size_t from, size_t to)
{
    DL_ASSERT(used->count == 0, "%zu operations to do", used->count);
    /* A mark takes no time: run_mark subtracts what flush will add. */
    return used->marks[to] - used->marks[from];
}

static group *make_group(int count)
{
    DL_ASSERT(count <= MEMBERS_MAX, "%d members", count);
    group *made = dl_calloc(1, sizeof *made, "group");
    made->count = made->users = count;
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->changed, NULL);
    return made;
}

static dl_status make_id(char id[DL_DEVICE_ID_BYTES], dl_error *err)
{
    if (refuses_ids) return dl_error_set(err, DL_ERR_SYSTEM, "no fake id");
    pthread_mutex_lock(&groups_mutex);
    snprintf(id, DL_DEVICE_ID_BYTES, "fake group %d", groups_named++);
    pthread_mutex_unlock(&groups_mutex);
    return DL_OK;
}

/* Returns the group of that id, making it for the first caller. */
static group *find_group(const dl_device_ranks *ranks)
{
    int free_place = -1;
    for (int i = 0; i < GROUPS_MAX; i++) {
        if (groups[i] != NULL && strcmp(groups[i]->id, ranks->id) == 0) return groups[i];
        if (groups[i] == NULL) free_place = i;
    }
    DL_ASSERT(free_place >= 0, "more than %d groups", GROUPS_MAX);
    group *made = make_group(ranks->count);
    memcpy(made->id, ranks->id, sizeof made->id);
    return groups[free_place] = made;
}

static dl_status join_ranks(dl_device *const *devices, int count, const dl_device_ranks *ranks)
{
    pthread_mutex_lock(&groups_mutex);
    group *g = find_group(ranks);
    for (int i = 0; i < count; i++) {
        const int member = ranks->first + i;
        DL_ASSERT(member < g->count && g->members[member] == NULL, "member %d", member);
        g->members[member] = devices[i];
        g->ranks[member] = *ranks;
        g->own[member] = count;
        devices[i]->group = g;
        devices[i]->member = member;
    }
    pthread_mutex_unlock(&groups_mutex);
    return DL_OK;
}

static dl_status join(dl_device *const *devices, int count, const dl_device_ranks *ranks,
                      dl_error *err)
{
    if (ranks != NULL) return join_ranks(devices, count, ranks);
    for (int i = 1; i < count; i++) {
        if (devices[i]->number != devices[i - 1]->number) continue;
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "members share fake device %d",
                            devices[i]->number);
    }
    group *made = make_group(count);
    for (int i = 0; i < count; i++) {
        made->members[i] = devices[i];
        made->own[i] = count;
        devices[i]->group = made;
        devices[i]->member = i;
    }
    return DL_OK;
}

/* Averages slice `member` of all members' values. */
static void reduce_slice(const group *g, int member, size_t count)
{
    const size_t first = count * (size_t)member / (size_t)g->count;
    const size_t end = count * (size_t)(member + 1) / (size_t)g->count;
    DL_AUTOFREE double *mean = dl_calloc(count, sizeof *mean, "mean");
    dl_exchange_average(mean, (const void *const *)g->values, g->count, first, end - first,
                        DL_DOUBLE);
    for (int i = 0; i < g->count; i++) {
        memcpy((double *)g->values[i] + first, mean + first, (end - first) * sizeof *mean);
    }
}

/* Waits for other members; one in another rank may be lost without notifying this group. */
static void wait_for_members(dl_device *device)
{
    group *g = device->group;
    const dl_device_ranks *ranks = &g->ranks[device->member];
    if (ranks->lost == NULL) {
        pthread_cond_wait(&g->changed, &g->mutex);
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&g->changed, &g->mutex, &until);
    if (ranks->lost(ranks->user)) *rank_failed(device) = true;
}

/* Waits for all members, `members` of which are in this thread; false if one has failed, and this
 * one with it. */
static bool meet(dl_device *device, int members)
{
    group *g = device->group;
    const bool *failed = rank_failed(device);
    pthread_mutex_lock(&g->mutex);
    const unsigned round = g->round;
    if (!*failed) g->arrived += members;
    if (!*failed && g->arrived == g->count) {
        g->arrived = 0;
        g->round++;
        pthread_cond_broadcast(&g->changed);
    }
    while (!*failed && g->round == round)
        wait_for_members(device);
    device->failed |= *failed;
    pthread_mutex_unlock(&g->mutex);
    return !device->failed;
}

/* Reduces with every member in a separate thread. */
static void run_reduce(dl_device *device, const call *c)
{
    group *g = device->group;
    g->values[device->member] = near_by(c->to);
    if (meet(device, 1)) reduce_slice(g, device->member, c->bytes);
    (void)meet(device, 1);
}

static void all_reduce(void *values, size_t count)
{
    group *g = used->group;
    if (!grouping) {
        issue((call){.run = run_reduce, .to = values, .bytes = count});
        return;
    }
    const int r = g->reductions[used->member]++;
    DL_ASSERT(r < REDUCTIONS_MAX, "%d reductions", r);
    g->gathered[used->member][r].values = near_by(values);
    g->gathered[used->member][r].count = count;
    gathering = g;
}

/* Reduces with all members of the rank in one thread: at the end of the group all reductions run
 * together, after all earlier operations of each member. */
static void reduce_gathered(group *g, dl_device *device)
{
    const int first = g->ranks[device->member].first, own = g->own[device->member];
    const int reductions = g->reductions[first];
    for (int m = first; m < first + own; m++) {
        flush(g->members[m]);
        g->members[m]->now_ns += FAKE_OPERATION_NS;
    }
    for (int r = 0; r < reductions; r++) {
        for (int m = first; m < first + own; m++)
            g->values[m] = g->gathered[m][r].values;
        const bool met = meet(device, own);
        for (int m = first; m < first + own; m++) {
            g->members[m]->endless = !met;
            if (met) reduce_slice(g, m, g->gathered[m][r].count);
        }
        (void)meet(device, own);
    }
    memset(g->reductions + first, 0, (size_t)own * sizeof *g->reductions);
}

static void begin_or_end_group(bool begin)
{
    grouping = begin;
    if (begin || gathering == NULL) return;
    reduce_gathered(gathering, used);
    gathering = NULL;
}

/* The first hold of a slot allocates memory of the host. */
static void hold(void)
{
    DL_ASSERT(used->was_held || holds == 0, "allocation while %d slots are held", holds);
    holds += !used->held;
    used->held = used->was_held = true;
    used->behind = 0;
}

static void let_go(void)
{
    holds -= used->held;
    used->held = false;
    used->behind = 0;
}

static void run_nothing(dl_device *device DL_UNUSED, const call *c DL_UNUSED) {}

static void launch(void)
{
    issue((call){.run = run_nothing});
}

static void run_device_copy(dl_device *device DL_UNUSED, const call *c)
{
    memcpy(near_by(c->to), near_by(c->from), c->bytes);
}

static bool reach(const dl_device *other)
{
    return reaches || other->number == used->number;
}

static void copy(const dl_device *target, void *to, const dl_device *source, const void *from,
                 size_t bytes)
{
    DL_ASSERT(target == used || source == used, "neither is the used one: %p", to);
    DL_ASSERT(!used->held || (reach(target) && reach(source)),
              "the host waits for fake device %d, which is held up", used->number);
    issue((call){.run = run_device_copy, .to = to, .from = from, .bytes = bytes});
}

/* The loss scale is 1. */
static void unscale(void *gradients, size_t count)
{
    DL_ASSERT(count > 0, "%p", near_by(gradients));
    issue((call){.run = run_nothing});
}

static void run_average(dl_device *device DL_UNUSED, const call *c)
{
    const void *near[MEMBERS_MAX];
    for (int v = 0; v < c->rows; v++)
        near[v] = near_by(c->as.vectors[v]);
    dl_exchange_average(near_by(c->to), near, c->rows, 0, c->bytes, DL_DOUBLE);
}

static void average(void *result, const void *const *vectors, int n, size_t count)
{
    call made = {.run = run_average, .to = result, .rows = n, .bytes = count};
    DL_ASSERT(n <= MEMBERS_MAX, "%d vectors", n);
    memcpy(made.as.vectors, vectors, (size_t)n * sizeof *vectors);
    issue(made);
}

/* Returns the plan with the blocks in the device's memory. */
static dl_quantise_plan near_plan(const call *c)
{
    dl_quantise_plan plan = c->as.plan;
    plan.blocks = near_by(plan.blocks);
    return plan;
}

static void run_encode(dl_device *device DL_UNUSED, const call *c)
{
    const dl_quantise_plan plan = near_plan(c);
    dl_quantise_encode(&plan, near_by(c->from), c->also != NULL ? near_by(c->also) : NULL,
                       near_by(c->to), DL_DOUBLE);
}

static void encode(const dl_quantise_plan *plan, const void *blocks, const void *values,
                   void *residual, void *message)
{
    call made = {
        .run = run_encode, .as.plan = *plan, .from = values, .to = message, .also = residual};
    made.as.plan.blocks = (dl_quantise_block *)(uintptr_t)blocks;
    issue(made);
}

static void run_decode(dl_device *device DL_UNUSED, const call *c)
{
    const dl_quantise_plan plan = near_plan(c);
    dl_quantise_decode(&plan, near_by(c->from), near_by(c->to), DL_DOUBLE);
}

static void decode(const dl_quantise_plan *plan, const void *blocks, const void *message,
                   void *values)
{
    call made = {.run = run_decode, .as.plan = *plan, .from = message, .to = values};
    made.as.plan.blocks = (dl_quantise_block *)(uintptr_t)blocks;
    issue(made);
}

static const dl_backend fake_backend = {
    .name = "fake",
    .precision = DL_DOUBLE,
    .start = start,
    .allocate = allocate,
    .release = release,
    .allocate_host = allocate_host,
    .release_host = release_host,
    .upload = upload,
    .download = download,
    .wait = wait_done,
    .gemm = gemm,
    .repeat_row = repeat_row,
    .sum_rows = sum_rows,
    .add = add,
    .relu = relu,
    .relu_backward = relu_backward,
    .softmax = softmax,
    .softmax_backward = softmax_backward,
    .sgd = sgd,
};

const dl_device_type fake_device = {
    .name = "fake",
    .backend = &fake_backend,
    .count = count_devices,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .use = use,
    .used_bytes = used_bytes,
    .mark = mark,
    .between_ns = between_ns,
    .join = join,
    .make_id = make_id,
    .all_reduce = all_reduce,
    .group = begin_or_end_group,
    .hold = hold,
    .let_go = let_go,
    .launch = launch,
    .reach = reach,
    .copy = copy,
    .unscale = unscale,
    .average = average,
    .encode = encode,
    .decode = decode,
};
