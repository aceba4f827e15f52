#include "trace/activity/activity_tracks.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"

/* An activity with what it is sorted by. `line` is its stream or thread. */
typedef struct slot {
    uint64_t line;
    int64_t start_ns, end_ns;
    uint32_t activity;
    uint8_t is_stream, is_firm, is_instant, makes_way;
} slot;

typedef struct layout {
    dl_activity_tracks *tracks;
    slot *slots;
    size_t *stack; /* slots that are open at a moment, each within the one before */
    size_t placed, track_capacity;
} layout;

static bool has_track(const dl_activity *activity)
{
    return activity->kind != DL_ACTIVITY_EVENT && activity->kind != DL_ACTIVITY_COMM &&
           activity->kind != DL_ACTIVITY_CLOCK;
}

static slot slot_of(const dl_activity *activity, uint32_t index, const dl_launches *launches)
{
    slot s = {.line = activity->thread,
              .start_ns = activity->start_ns,
              .end_ns = activity->start_ns + activity->duration_ns,
              .activity = index};
    s.is_stream = dl_activity_is_device_work(activity);
    s.is_firm = s.is_stream || activity->kind == DL_ACTIVITY_CALL;
    s.is_instant = activity->kind == DL_ACTIVITY_MARK;
    if (s.is_stream) s.line = (uint64_t)activity->device << 32 | activity->stream;
    if (activity->kind == DL_ACTIVITY_SYNC) {
        const dl_activity *call = dl_launches_find(launches, activity->correlation);
        if (call != NULL) s.line = call->thread;
    }
    return s;
}

static int by_track_and_time(const void *a, const void *b)
{
    const slot *x = a, *y = b;
    if (x->is_stream != y->is_stream) return x->is_stream - y->is_stream;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    if (x->end_ns != y->end_ns) return x->end_ns > y->end_ns ? -1 : 1;
    /* A call and what says more of it may have the same times: the call is outside. */
    if (x->is_firm != y->is_firm) return y->is_firm - x->is_firm;
    return x->activity < y->activity ? -1 : 1;
}

/* Opens slots[i] on the stack, or has it make way, or has those make way that it crosses. */
static size_t open_slot(slot *slots, size_t i, size_t *stack, size_t depth)
{
    slot *opened = &slots[i];
    while (depth > 0 && slots[stack[depth - 1]].end_ns <= opened->start_ns)
        depth--;
    /* The ends fall towards the top, so those that it crosses lie at the top together. */
    size_t held = depth;
    for (; held > 0 && slots[stack[held - 1]].end_ns < opened->end_ns; held--) {
        if (!opened->is_firm || slots[stack[held - 1]].is_firm) {
            opened->makes_way = 1;
            return depth;
        }
    }
    for (size_t d = held; d < depth; d++)
        slots[stack[d]].makes_way = 1;
    stack[held] = i;
    return held + 1;
}

static dl_track *add_track(layout *to, const slot *s, uint32_t lane)
{
    dl_activity_tracks *tracks = to->tracks;
    if (tracks->count == to->track_capacity) {
        to->track_capacity = 2 * to->track_capacity + 16;
        tracks->tracks =
            dl_realloc(tracks->tracks, to->track_capacity, sizeof *tracks->tracks, "tracks");
    }
    dl_track *track = &tracks->tracks[tracks->count++];
    *track = (dl_track){.is_stream = s->is_stream, .lane = lane, .first = to->placed};
    if (s->is_stream) {
        track->device = (uint32_t)(s->line >> 32);
        track->stream = (uint32_t)s->line;
    } else {
        track->thread = (uint32_t)s->line;
    }
    return track;
}

/* One lane of slots[count], which are of one line and sorted: what makes way stays at the front of
 * slots, still sorted; returns its number. */
static size_t place_lane(layout *to, slot *slots, size_t count, uint32_t lane)
{
    size_t depth = 0, left = 0;
    for (size_t i = 0; i < count; i++) {
        slots[i].makes_way = 0;
        if (!slots[i].is_instant) depth = open_slot(slots, i, to->stack, depth);
    }
    dl_track *track = add_track(to, &slots[0], lane);
    for (size_t i = 0; i < count; i++) {
        if (slots[i].makes_way) {
            slots[left++] = slots[i];
            continue;
        }
        to->tracks->order[to->placed++] = slots[i].activity;
        to->tracks->track_of[slots[i].activity] = (uint32_t)(to->tracks->count - 1);
    }
    track->count = to->placed - track->first;
    return left;
}

static void place_line(layout *to, slot *slots, size_t count)
{
    for (uint32_t lane = 0; count > 0; lane++)
        count = place_lane(to, slots, count, lane);
}

void dl_activity_tracks_init(dl_activity_tracks *tracks, const dl_activity *activities,
                             size_t count, const dl_launches *launches)
{
    DL_ASSERT(count < UINT32_MAX, "%zu activities", count);
    layout to = {.tracks = tracks};
    tracks->track_of = dl_calloc(count, sizeof *tracks->track_of, "tracks");
    tracks->order = dl_calloc(count, sizeof *tracks->order, "tracks");
    to.slots = dl_calloc(count, sizeof *to.slots, "tracks");
    to.stack = dl_calloc(count, sizeof *to.stack, "tracks");
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        tracks->track_of[i] = DL_NO_TRACK;
        if (!has_track(&activities[i])) continue;
        to.slots[used++] = slot_of(&activities[i], (uint32_t)i, launches);
    }
    qsort(to.slots, used, sizeof *to.slots, by_track_and_time);
    for (size_t first = 0, end; first < used; first = end) {
        for (end = first + 1; end < used && to.slots[end].line == to.slots[first].line &&
                              to.slots[end].is_stream == to.slots[first].is_stream;)
            end++;
        place_line(&to, to.slots + first, end - first);
    }
    free(to.slots);
    free(to.stack);
}

void dl_activity_tracks_free(dl_activity_tracks *tracks)
{
    free(tracks->tracks);
    free(tracks->order);
    free(tracks->track_of);
    *tracks = (dl_activity_tracks){0};
}
