#include "profiler/inject/nvtx_open.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/inject/capture.h"

#define DEPTH_FIRST 32      /* initial capacity of a stack */
#define STARTED_FIRST 64    /* initial capacity of the table */
#define COLLECT_TRIES 10000 /* yields to a thread that is in a push or pop */
#define TEXT_SLOTS 256      /* slots of the text cache, a power of 2 */
#define TEXT_BYTES_MAX 1024 /* longer texts are not cached */

/* A slot of the text cache: the id of a text. */
typedef struct text_slot {
    uint64_t hash;
    uint32_t id; /* 0: empty */
    uint32_t bytes;
    char *text; /* without NUL */
} text_slot;

typedef struct thread_state {
    /* Held by the thread itself during a push or pop, and by the end of the recording; not
     * contended before that end. */
    atomic_flag lock;
    size_t depth, capacity;
    size_t lost; /* number of ranges pushed above the stack that were not kept */
    dl_nvtx_open *stack;
    text_slot texts[TEXT_SLOTS];
    struct thread_state *previous, *next; /* in the list `threads` */
} thread_state;

static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static thread_state *threads;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its destructor ends a thread's state */
static bool key_made;
static __thread thread_state *own;

static atomic_bool ended;

static void record_until(const dl_nvtx_open *open, int64_t end_ns)
{
    dl_activity activity = open->activity;
    activity.duration_ns = end_ns > activity.start_ns ? end_ns - activity.start_ns : 0;
    dl_capture_append(&activity);
}

/* Runs as its thread ends. If the recording has ended the state stays on the list: in a forked
 * child another thread may have held threads_lock at the fork. */
static void end_thread(void *data)
{
    thread_state *state = data;
    own = NULL;
    if (!dl_capture_active()) return;
    pthread_mutex_lock(&threads_lock);
    *(state->previous != NULL ? &state->previous->next : &threads) = state->next;
    if (state->next != NULL) state->next->previous = state->previous;
    pthread_mutex_unlock(&threads_lock);
    const int64_t now_ns = dl_capture_now();
    while (state->depth > 0)
        record_until(&state->stack[--state->depth], now_ns);
    for (size_t i = 0; i < TEXT_SLOTS; i++)
        free(state->texts[i].text);
    free(state->stack);
    free(state);
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, end_thread) == 0;
}

static thread_state *make_state(void)
{
    pthread_once(&key_once, make_key);
    if (!key_made || !dl_capture_active()) return NULL;
    thread_state *state = calloc(1, sizeof *state);
    if (state == NULL) return NULL;
    atomic_flag_clear(&state->lock);
    if (pthread_setspecific(key, state) != 0) {
        free(state);
        return NULL;
    }
    pthread_mutex_lock(&threads_lock);
    state->next = threads;
    if (threads != NULL) threads->previous = state;
    threads = state;
    pthread_mutex_unlock(&threads_lock);
    own = state;
    return state;
}

static thread_state *this_thread(void)
{
    return own != NULL ? own : make_state();
}

/* Takes the thread's own state. Fails if the end of the recording holds it, or in a signal handler
 * that has interrupted a push or pop. */
static bool take(thread_state *state)
{
    return state != NULL && !atomic_flag_test_and_set_explicit(&state->lock, memory_order_acquire);
}

static void give(thread_state *state)
{
    atomic_flag_clear_explicit(&state->lock, memory_order_release);
}

static bool make_room(thread_state *state)
{
    if (state->depth < state->capacity) return true;
    if (state->capacity >= DL_NVTX_DEPTH_MAX) return false;
    const size_t capacity = state->capacity > 0 ? 2 * state->capacity : DEPTH_FIRST;
    dl_nvtx_open *stack = realloc(state->stack, capacity * sizeof *stack);
    if (stack == NULL) return false;
    state->stack = stack;
    state->capacity = capacity;
    return true;
}

/* Index of the innermost range of the domain, or -1. */
static ptrdiff_t innermost(const thread_state *state, const dl_nvtx_domain *domain)
{
    ptrdiff_t i = (ptrdiff_t)state->depth - 1;
    while (i >= 0 && state->stack[i].domain != domain)
        i--;
    return i;
}

int dl_nvtx_push(const dl_nvtx_open *open)
{
    thread_state *state = this_thread();
    if (!take(state)) return NVTX_NO_PUSH_POP_TRACKING;
    int level = NVTX_NO_PUSH_POP_TRACKING;
    if (make_room(state)) {
        const ptrdiff_t outer = innermost(state, open->domain);
        level = outer < 0 ? 0 : state->stack[outer].level + 1;
        dl_nvtx_open *top = &state->stack[state->depth++];
        *top = *open;
        top->level = level;
    } else {
        state->lost++;
    }
    give(state);
    return level;
}

bool dl_nvtx_pop(const dl_nvtx_domain *domain, dl_nvtx_open *open)
{
    thread_state *state = own; /* a thread that never pushed has nothing to pop */
    if (!take(state)) return false;
    ptrdiff_t found = -1;
    if (state->lost > 0) {
        state->lost--;
    } else {
        found = innermost(state, domain);
    }
    if (found >= 0) {
        *open = state->stack[found];
        state->depth--;
        memmove(&state->stack[found], &state->stack[found + 1],
                (state->depth - (size_t)found) * sizeof *state->stack);
    }
    give(state);
    return found >= 0;
}

/* The table of started ranges: slots with a free list through next_free. */
typedef struct started_slot {
    dl_nvtx_open open;
    uint32_t turn; /* counts its uses, so that an old id cannot end a new range */
    uint32_t next_free;
    bool used;
} started_slot;

#define NO_SLOT UINT32_MAX
static pthread_mutex_t started_lock = PTHREAD_MUTEX_INITIALIZER;
static started_slot *started;
static uint32_t started_count, first_free = NO_SLOT;

/* Doubles the table and chains the new slots. */
static bool grow_started(void)
{
    const uint32_t count = started_count > 0 ? 2 * started_count : STARTED_FIRST;
    if (count > DL_NVTX_STARTED_MAX) return false;
    started_slot *slots = realloc(started, count * sizeof *slots);
    if (slots == NULL) return false;
    for (uint32_t i = started_count; i < count; i++)
        slots[i] = (started_slot){.next_free = i + 1 < count ? i + 1 : NO_SLOT};
    first_free = started_count;
    started = slots;
    started_count = count;
    return true;
}

nvtxRangeId_t dl_nvtx_start(const dl_nvtx_open *open)
{
    nvtxRangeId_t id = 0;
    pthread_mutex_lock(&started_lock);
    if (!atomic_load(&ended) && (first_free != NO_SLOT || grow_started())) {
        const uint32_t index = first_free;
        started_slot *slot = &started[index];
        first_free = slot->next_free;
        slot->open = *open;
        slot->used = true;
        id = (nvtxRangeId_t)++slot->turn << 32 | (index + 1);
    }
    pthread_mutex_unlock(&started_lock);
    return id;
}

bool dl_nvtx_end(nvtxRangeId_t id, dl_nvtx_open *open)
{
    const uint32_t index = (uint32_t)id - 1;
    pthread_mutex_lock(&started_lock);
    started_slot *slot = index < started_count ? &started[index] : NULL;
    const bool found = slot != NULL && slot->used && slot->turn == (uint32_t)(id >> 32);
    if (found) {
        *open = slot->open;
        slot->used = false;
        slot->next_free = first_free;
        first_free = index;
    }
    pthread_mutex_unlock(&started_lock);
    return found;
}

/* Records all started ranges as ending at now_ns. */
static void end_started(int64_t now_ns)
{
    pthread_mutex_lock(&started_lock);
    started_slot *slots = started;
    const uint32_t count = started_count;
    started = NULL;
    started_count = 0;
    first_free = NO_SLOT;
    pthread_mutex_unlock(&started_lock);
    for (uint32_t i = 0; i < count; i++)
        if (slots[i].used) record_until(&slots[i].open, now_ns);
    free(slots);
}

/* Ranges taken from the stacks. */
typedef struct collected {
    dl_nvtx_open *open;
    size_t count;
} collected;

/* Moves the thread's open ranges to *all; its lock stays taken, so that it keeps no further ranges.
 * Gives up on a thread that does not leave its push or pop: it was interrupted by the handler of a
 * signal that ends the program. */
static void collect(thread_state *state, collected *all)
{
    for (int i = 0; !take(state); i++) {
        if (i == COLLECT_TRIES) return;
        sched_yield();
    }
    dl_nvtx_open *grown =
        state->depth > 0 ? realloc(all->open, (all->count + state->depth) * sizeof *grown) : NULL;
    if (grown == NULL) return;
    all->open = grown;
    memcpy(all->open + all->count, state->stack, state->depth * sizeof *grown);
    all->count += state->depth;
    state->depth = 0;
}

void dl_nvtx_open_end(int64_t now_ns)
{
    if (atomic_exchange(&ended, true)) return;
    collected all = {0};
    pthread_mutex_lock(&threads_lock);
    for (thread_state *state = threads; state != NULL; state = state->next)
        collect(state, &all);
    pthread_mutex_unlock(&threads_lock);
    while (all.count > 0) /* innermost first, as with pops */
        record_until(&all.open[--all.count], now_ns);
    free(all.open);
    end_started(now_ns);
}

static uint64_t hash_text(const char *text, size_t bytes)
{
    const uint64_t mix = 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio, Knuth's multiplicative hash */
    uint64_t hash = bytes * mix;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t part = 0;
        memcpy(&part, text + i, bytes - i < 8 ? bytes - i : 8);
        hash = (hash ^ part) * mix;
        hash ^= hash >> 29;
    }
    return hash;
}

uint32_t dl_nvtx_text_id(const char *text)
{
    if (text == NULL) return 0;
    const size_t bytes = strlen(text);
    thread_state *state = bytes <= TEXT_BYTES_MAX ? this_thread() : NULL;
    if (state == NULL) return dl_capture_intern(text);
    const uint64_t hash = hash_text(text, bytes);
    text_slot *slot = &state->texts[hash >> 32 & (TEXT_SLOTS - 1)];
    if (slot->id != 0 && slot->hash == hash && slot->bytes == bytes &&
        memcmp(slot->text, text, bytes) == 0)
        return slot->id;
    const uint32_t id = dl_capture_intern(text);
    char *copy = realloc(slot->text, bytes > 0 ? bytes : 1);
    if (copy == NULL) return id;
    memcpy(copy, text, bytes);
    *slot = (text_slot){hash, id, (uint32_t)bytes, copy};
    return id;
}
