#include "sim/event_queue.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/status.h"

#define LINE_BYTES 64
#define CAPACITY_MOST (1 << 28)
#define NEAR_MOST 64
/* When the near keys reach the end of the array, they move to its start. */
#define NEAR_ROOM (2 * NEAR_MOST)
#define FEW (NEAR_MOST / 2)         /* largest bucket that becomes near as a whole */
#define STALE_LEAST (2 * NEAR_MOST) /* fewer cancelled events are not worth clearing */
#define DIGIT_BITS 6
#define DIGITS (1 << DIGIT_BITS)
#define LEVELS 11 /* for 63 bits */
#define CHUNK_KEYS 15

_Static_assert(FEW >= CHUNK_KEYS, "of more than a few, some are left without the first chunk");

typedef struct chunk {
    _Alignas(LINE_BYTES) dl_event_key keys[CHUNK_KEYS];
    int next; /* next chunk of the bucket or of the free list; -1 = none */
} chunk;

/* Keys in order of arrival, in a list of chunks, all of which are full except the last. */
typedef struct bucket {
    int first, last, count; /* no chunks if count is 0 */
} bucket;

struct dl_event_far {
    bucket buckets[LEVELS][DIGITS];
    uint64_t digits[LEVELS]; /* per level, bit mask of nonempty buckets */
    unsigned levels;         /* bit mask of levels with nonempty buckets */
    chunk *chunks;           /* [room] chunks, of which the first `used` have been used */
    void *block;             /* allocation that holds `chunks` */
    int room, used, free;
};

/* Allocates room for chunks. Pages take no memory until a key is written to them. */
static void make_chunks(struct dl_event_far *far, int room)
{
    const size_t bytes = ((size_t)room + 1) * sizeof(chunk);
    far->block = dl_calloc(bytes, 1, "event chunks");
    dl_ask_for_huge_pages(far->block, bytes);
    far->chunks = (chunk *)(((uintptr_t)far->block + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES);
    far->room = room;
}

static struct dl_event_far *make_far(int capacity)
{
    const int buckets = LEVELS * DIGITS, partly_filled = capacity < buckets ? capacity : buckets;
    struct dl_event_far *far = dl_calloc(1, sizeof *far, "event buckets");
    far->free = -1;
    make_chunks(far, capacity / CHUNK_KEYS + partly_filled);
    return far;
}

void dl_event_queue_init(dl_event_queue *queue, int capacity)
{
    DL_ASSERT(capacity >= 1 && capacity <= CAPACITY_MOST, "capacity %d", capacity);
    *queue = (dl_event_queue){
        .capacity = capacity,
        .near = dl_calloc(NEAR_ROOM, sizeof *queue->near, "near events"),
        .near_until_ns = INT64_MAX,
        .pool = dl_calloc((size_t)capacity, sizeof *queue->pool, "events"),
        .room = capacity,
        .free = -1,
    };
    dl_ask_for_huge_pages(queue->pool, (size_t)capacity * sizeof *queue->pool);
}

void dl_event_queue_make_room(dl_event_queue *queue, int more)
{
    DL_ASSERT(more >= 0 && more <= CAPACITY_MOST - queue->capacity, "%d more than %d", more,
              queue->capacity);
    queue->capacity += more;
}

void dl_event_queue_free(dl_event_queue *queue)
{
    if (queue->far != NULL) free(queue->far->block);
    free(queue->far);
    free(queue->near);
    free(queue->pool);
    *queue = (dl_event_queue){0};
}

/* Takes an entry of the pool for a new event; returns its id. */
static int take_id(dl_event_queue *queue)
{
    const int id = queue->free;
    if (id >= 0) {
        queue->free = queue->pool[id].index;
        return id;
    }
    if (queue->used == queue->room) {
        queue->room *= 2;
        queue->pool = dl_realloc(queue->pool, (size_t)queue->room, sizeof *queue->pool, "events");
    }
    return queue->used++;
}

/* Frees the pool entry of an event whose key has been removed. */
static void free_id(dl_event_queue *queue, int id)
{
    queue->pool[id].handler = NULL;
    queue->pool[id].index = queue->free;
    queue->free = id;
    queue->count--;
}

static void free_stale(dl_event_queue *queue, int id)
{
    free_id(queue, id);
    queue->stale--;
}

static void grow_chunks(struct dl_event_far *far)
{
    void *block = far->block;
    const chunk *chunks = far->chunks;
    make_chunks(far, 2 * far->room);
    memcpy(far->chunks, chunks, (size_t)far->used * sizeof *chunks);
    free(block);
}

static int take_chunk(struct dl_event_far *far)
{
    const int place = far->free;
    if (place >= 0) {
        far->free = far->chunks[place].next;
        return place;
    }
    if (far->used == far->room) grow_chunks(far);
    return far->used++;
}

/* Removes a bucket's first chunk and returns its number of keys. The keys stay readable until the
 * next take_chunk. */
static int drop_chunk(struct dl_event_far *far, bucket *of)
{
    const int place = of->first, count = of->count < CHUNK_KEYS ? of->count : CHUNK_KEYS;
    of->first = far->chunks[place].next;
    of->count -= count;
    far->chunks[place].next = far->free;
    far->free = place;
    return count;
}

static int level_of(int64_t difference_ns)
{
    return (63 - __builtin_clzll((uint64_t)difference_ns | 1)) / DIGIT_BITS;
}

static void put_far(struct dl_event_far *far, int level, dl_event_key key)
{
    const int digit = (int)(key.time_ns >> level * DIGIT_BITS) & (DIGITS - 1);
    bucket *to = &far->buckets[level][digit];
    const int place = to->count++ % CHUNK_KEYS;
    if (place == 0) {
        const int taken = take_chunk(far);
        if (to->count == 1) {
            to->first = taken;
            far->digits[level] |= UINT64_C(1) << digit;
            far->levels |= 1U << level;
        } else {
            far->chunks[to->last].next = taken;
        }
        to->last = taken;
    }
    far->chunks[to->last].keys[place] = key;
}

/* Marks a bucket as empty. */
static void clear_digit(struct dl_event_far *far, int level, int digit)
{
    far->digits[level] &= ~(UINT64_C(1) << digit);
    if (far->digits[level] == 0) far->levels &= ~(1U << level);
}

/* --- near and far ---------------------------------------------------------------------------- */

static void put_near(dl_event_queue *queue, dl_event_key key)
{
    dl_event_key *near = queue->near;
    const int middle = (queue->near_first + queue->near_end) / 2;
    /* If the keys before the new one are the fewer and there is space before them, they move;
     * otherwise the keys after it move. */
    if (queue->near_first > 0 && middle < queue->near_end && key.time_ns < near[middle].time_ns) {
        int place = --queue->near_first;
        for (; near[place + 1].time_ns <= key.time_ns; place++)
            near[place] = near[place + 1];
        near[place] = key;
        return;
    }
    int place = queue->near_end++;
    for (; place > queue->near_first && near[place - 1].time_ns > key.time_ns; place--)
        near[place] = near[place - 1];
    near[place] = key;
}

/* Makes all near keys far. */
static void spread_near(dl_event_queue *queue)
{
    if (queue->far == NULL) queue->far = make_far(queue->capacity);
    for (int i = queue->near_first; i < queue->near_end; i++) {
        const dl_event_key key = queue->near[i];
        put_far(queue->far, level_of(key.time_ns ^ queue->now_ns), key);
    }
    queue->near_first = queue->near_end = 0;
    queue->near_until_ns = queue->now_ns - 1;
}

static void push(dl_event_queue *queue, dl_event_key key)
{
    DL_ASSERT(key.time_ns >= queue->now_ns, "event at %lld ns, after one at %lld ns",
              (long long)key.time_ns, (long long)queue->now_ns);
    queue->count++;
    if (key.time_ns > queue->near_until_ns) {
        put_far(queue->far, level_of(key.time_ns ^ queue->now_ns), key);
        return;
    }
    if (queue->near_end == NEAR_ROOM) {
        queue->near_end -= queue->near_first;
        memmove(queue->near, queue->near + queue->near_first,
                (size_t)queue->near_end * sizeof *queue->near);
        queue->near_first = 0;
    }
    put_near(queue, key);
    if (queue->near_end - queue->near_first > NEAR_MOST) spread_near(queue);
}

/* Moves a bucket's keys, in order, to buckets of level `to` <= level; drops the keys of cancelled
 * events and frees their pool entries. */
static void spread(dl_event_queue *queue, int level, int digit, int to)
{
    struct dl_event_far *far = queue->far;
    bucket left = far->buckets[level][digit];
    far->buckets[level][digit].count = 0;
    clear_digit(far, level, digit);
    while (left.count > 0) {
        const chunk at_hand = far->chunks[left.first];
        const int count = drop_chunk(far, &left);
        if (left.count > 0) __builtin_prefetch(&far->chunks[left.first]);
        for (int i = 0; i < count; i++) {
            const dl_event_key key = at_hand.keys[i];
            if (queue->stale == 0 || queue->pool[key.place].is_pending) {
                put_far(far, to, key);
            } else {
                free_stale(queue, key.place);
            }
        }
    }
}

/* The highest level at which times in the bucket differ; 0 if all are equal. */
static int level_within(const struct dl_event_far *far, const bucket *of)
{
    const int64_t some_ns = far->chunks[of->first].keys[0].time_ns;
    int64_t difference_ns = 0;
    for (int left = of->count, c = of->first; left > 0; left -= CHUNK_KEYS, c = far->chunks[c].next)
        for (int i = 0; i < CHUNK_KEYS && i < left; i++)
            difference_ns |= far->chunks[c].keys[i].time_ns ^ some_ns;
    return level_of(difference_ns);
}

/* Makes the earliest bucket near, or spreads a large one over a lower level. All keys in a bucket
 * of level 0 have the same time: if there are many, only the first chunk becomes near, and new keys
 * of that time are appended to the bucket's remaining keys. Nothing may be scheduled until `now`
 * has reached the fetched time, as the choice of the bucket depends on `now`. */
static void fetch(dl_event_queue *queue)
{
    struct dl_event_far *far = queue->far;
    const int level = __builtin_ctz(far->levels), digit = __builtin_ctzll(far->digits[level]);
    bucket *from = &far->buckets[level][digit];
    const int64_t some_ns = far->chunks[from->first].keys[0].time_ns;
    const bool few = from->count <= FEW;
    if (!few && level > 0) {
        spread(queue, level, digit, level_within(far, from));
        return;
    }
    queue->near_first = queue->near_end = 0;
    do {
        const chunk *at_hand = &far->chunks[from->first];
        const int count = drop_chunk(far, from);
        for (int i = 0; i < count; i++) {
            put_near(queue, at_hand->keys[i]);
            __builtin_prefetch(&queue->pool[at_hand->keys[i].place]);
        }
    } while (few && from->count > 0);
    if (few) {
        clear_digit(far, level, digit);
        queue->near_until_ns =
            far->levels == 0 ? INT64_MAX : some_ns | ((INT64_C(1) << level * DIGIT_BITS) - 1);
    } else {
        queue->near_until_ns = some_ns - 1;
    }
}

/* --- events ---------------------------------------------------------------------------------- */

int dl_event_queue_push(dl_event_queue *queue, int64_t time_ns, dl_event_fn handler, void *user,
                        int index, int about)
{
    DL_ASSERT(queue->count - queue->stale < queue->capacity, "%d events pending",
              queue->count - queue->stale);
    const int id = take_id(queue);
    queue->pool[id] = (dl_event_call){handler, user, index, about, true};
    push(queue, (dl_event_key){time_ns, id});
    return id;
}

/* Removes the first near key and moves its event to *event; false if the event was cancelled. */
static bool take_near(dl_event_queue *queue, dl_event *event)
{
    const dl_event_key key = queue->near[queue->near_first++];
    const int id = key.place;
    const dl_event_call call = queue->pool[id];
    if (!call.is_pending) {
        free_stale(queue, id);
        return false;
    }
    free_id(queue, id);
    queue->now_ns = key.time_ns;
    const int after_next = queue->near_first + 1;
    *event = (dl_event){key.time_ns, call.handler, call.user, call.index, -1};
    if (after_next < queue->near_end)
        event->ahead = queue->pool[queue->near[after_next].place].about;
    return true;
}

bool dl_event_queue_pop(dl_event_queue *queue, dl_event *event)
{
    while (queue->count > 0) {
        if (queue->near_first == queue->near_end) {
            fetch(queue);
        } else if (take_near(queue, event)) {
            return true;
        }
    }
    return false;
}

/* Far events whose time is now are in one bucket of level 0. */
bool dl_event_queue_is_due(const dl_event_queue *queue)
{
    if (queue->near_first < queue->near_end)
        return queue->near[queue->near_first].time_ns == queue->now_ns;
    return queue->far != NULL && queue->far->digits[0] >> (queue->now_ns & (DIGITS - 1)) & 1;
}

bool dl_event_queue_pop_due(dl_event_queue *queue, dl_event *event)
{
    while (dl_event_queue_is_due(queue)) {
        if (queue->near_first == queue->near_end) {
            fetch(queue);
        } else if (take_near(queue, event)) {
            return true;
        }
    }
    return false;
}

static void remove_near(dl_event_queue *queue, int id)
{
    dl_event_key *near = queue->near;
    int place = queue->near_first;
    while (near[place].place != id)
        place++;
    queue->near_end--;
    for (; place < queue->near_end; place++)
        near[place] = near[place + 1];
}

/* Frees cancelled far events. */
static void clear_far(dl_event_queue *queue)
{
    const struct dl_event_far *far = queue->far;
    for (int level = 0; level < LEVELS; level++)
        for (uint64_t left = far->digits[level]; left != 0; left &= left - 1)
            spread(queue, level, __builtin_ctzll(left), level);
}

void dl_event_queue_cancel(dl_event_queue *queue, int id)
{
    DL_ASSERT(id >= 0 && id < queue->used && queue->pool[id].handler != NULL &&
                  queue->pool[id].is_pending,
              "event %d is not pending", id);
    const bool all_near = queue->count == queue->near_end - queue->near_first;
    queue->pool[id].is_pending = false;
    queue->stale++;
    if (all_near) {
        remove_near(queue, id);
        free_stale(queue, id);
    } else if (queue->stale > STALE_LEAST && queue->stale > queue->count / 2) {
        clear_far(queue);
    }
}
