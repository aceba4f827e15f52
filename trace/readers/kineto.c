#include "trace/readers/kineto_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "trace/readers/json_events.h"
#include "trace/readers/reader.h"
#include "trace/readers/readers_internal.h"

/* A device of the list "deviceProperties". */
typedef struct device {
    dl_kineto *kineto;
    int64_t id;
    uint32_t name;
} device;

static bool is_key(dl_json_text key, const char *name)
{
    return key.bytes == strlen(name) && memcmp(key.at, name, key.bytes) == 0;
}

static const char *text_of(dl_kineto *kineto, dl_json_text value)
{
    return kineto->builder.trace.strings[dl_kineto_text(kineto, value)];
}

static void device_member(void *context, dl_json_text key, dl_json_text value)
{
    device *d = context;
    if (is_key(key, "id")) dl_json_int(value, &d->id);
    if (is_key(key, "name")) d->name = dl_kineto_text(d->kineto, value);
}

/* Visits properties; ignores failures, since a truncated file may hold a valid beginning. */
static void visit(dl_json_text value, void (*member)(void *, dl_json_text, dl_json_text),
                  void *context)
{
    bool whole = dl_json_visit(value, member, context);
    (void)whole;
}

static void add_device(void *context, dl_json_text key DL_UNUSED, dl_json_text value)
{
    char name[40];
    device d = {.kineto = context, .id = -1};
    visit(value, device_member, &d);
    if (d.id < 0 || d.name == 0) return;
    snprintf(name, sizeof name, "device.%" PRId64 ".name", d.id);
    dl_trace_builder_meta(&d.kineto->builder, name, "%s", d.kineto->builder.trace.strings[d.name]);
}

/* Takes a member of a process group's configuration. Its ranks are a list, which is empty if the
 * group has all ranks. */
static void group_member(void *context, dl_json_text key, dl_json_text value)
{
    dl_kineto *kineto = context;
    dl_kineto_group *group = &kineto->groups[kineto->group_count - 1];
    if (is_key(key, "pg_name")) group->name = dl_kineto_text(kineto, value);
    if (is_key(key, "pg_desc")) group->description = dl_kineto_text(kineto, value);
    if (is_key(key, "pg_size") || is_key(key, "group_size"))
        group->ranks = (uint32_t)dl_json_count(value);
    if (is_key(key, "ranks") && value.bytes > 2 && value.at[0] == '[')
        group->members = dl_trace_builder_intern(&kineto->builder, value.at, value.bytes);
}

static void add_group(void *context, dl_json_text key DL_UNUSED, dl_json_text value)
{
    dl_kineto *kineto = context;
    DL_APPEND(kineto->groups, kineto->group_count, "process groups") = (dl_kineto_group){0};
    visit(value, group_member, kineto);
}

static void distributed_member(void *context, dl_json_text key, dl_json_text value)
{
    dl_kineto *kineto = context;
    if (is_key(key, "rank")) dl_json_int(value, &kineto->rank);
    if (is_key(key, "world_size")) dl_json_int(value, &kineto->ranks);
    if (is_key(key, "pg_config")) visit(value, add_group, kineto);
    if (is_key(key, "nccl_version") || is_key(key, "backend")) {
        dl_trace_builder_meta(&kineto->builder,
                              is_key(key, "backend") ? "distributed_backend" : "nccl_version", "%s",
                              text_of(kineto, value));
    }
}

static void add_positive(dl_kineto *kineto, const char *key, dl_json_text value)
{
    int64_t number;
    if (!dl_json_int(value, &number) || number <= 0) return;
    dl_trace_builder_meta(&kineto->builder, key, "%" PRId64, number);
}

/* Members that are positive numbers, and their names in the trace. */
static const char *const numbers[][2] = {
    {"dlprof_step_ns", "unprofiled_step_ns"},
    {"dlprof_children_ns", "children_step_ns"},
    {"dlprof_loaders", "loaders"},
    {"dlprof_take_ns", "take_ns"},
    {"dlprof_take_processor_ns", "take_processor_ns"},
    {"dlprof_faults", "step_faults"},
    {"dlprof_kernel_ns", "step_kernel_ns"},
    {"dlprof_threads", "operator_threads"},
    {"record_shapes", "record_shapes"},
    {"dlprof_parameter_bytes", DL_META_PARAMETER_BYTES},
};

/* Processes a member of the outer object. */
static void kineto_member(void *context, dl_json_text key, dl_json_text value)
{
    dl_kineto *kineto = context;
    if (is_key(key, "baseTimeNanoseconds")) {
        dl_json_int(value, &kineto->base_ns);
    } else if (is_key(key, "deviceProperties")) {
        visit(value, add_device, kineto);
    } else if (is_key(key, "distributedInfo")) {
        visit(value, distributed_member, kineto);
    } else if (is_key(key, "host_name")) {
        dl_trace_builder_meta(&kineto->builder, "host", "%s", text_of(kineto, value));
    } else if (is_key(key, "traceName")) {
        dl_trace_builder_meta(&kineto->builder, "trace_name", "%s", text_of(kineto, value));
    }
    for (size_t i = 0; i < DL_LENGTH(numbers); i++)
        if (is_key(key, numbers[i][0])) add_positive(kineto, numbers[i][1], value);
}

static const char *const event_keys[KEY_END] = {
    [KEY_PH] = "ph",
    [KEY_CAT] = "cat",
    [KEY_NAME] = "name",
    [KEY_PID] = "pid",
    [KEY_TID] = "tid",
    [KEY_TS] = "ts",
    [KEY_DUR] = "dur",
    [KEY_EXTERNAL_ID] = "args/External id",
    [KEY_EXTERNAL_ID_LOWER] = "args/external id",
    [KEY_CORRELATION] = "args/correlation",
    [KEY_DEVICE] = "args/device",
    [KEY_STREAM] = "args/stream",
    [KEY_BYTES] = "args/bytes",
    [KEY_SIZE] = "args/size",
    [KEY_GRID] = "args/grid",
    [KEY_BLOCK] = "args/block",
    [KEY_SHARED] = "args/shared memory",
    [KEY_REGISTERS] = "args/registers per thread",
    [KEY_GRAPH] = "args/graph id",
    [KEY_GRAPH_NODE] = "args/graph node id",
    [KEY_WAIT_STREAM] = "args/wait_on_stream",
    [KEY_WAIT_RECORD] = "args/wait_on_cuda_event_record_corr_id",
    [KEY_WAIT_EVENT] = "args/wait_on_cuda_event_id",
    [KEY_COLLECTIVE] = "args/Collective name",
    [KEY_TYPE] = "args/dtype",
    [KEY_IN_ELEMENTS] = "args/In msg nelems",
    [KEY_OUT_ELEMENTS] = "args/Out msg nelems",
    [KEY_GROUP] = "args/Process Group Name",
    [KEY_GROUP_TEXT] = "args/Process Group Description",
    [KEY_GROUP_SIZE] = "args/Group size",
    [KEY_GROUP_RANKS] = "args/Process Group Ranks",
    [KEY_RANK] = "args/Rank",
    [KEY_FROM_RANK] = "args/Src Rank",
    [KEY_TO_RANK] = "args/Dst Rank",
    [KEY_INPUT_DIMS] = "args/Input Dims",
    [KEY_INPUT_DIMS_LOWER] = "args/Input dims",
    [KEY_SEQUENCE] = "args/Sequence number",
    [KEY_INPUT_TYPE] = "args/Input type",
    [KEY_META_NAME] = "args/name",
};

typedef enum event_category {
    OTHER,
    KERNEL,
    MEMCPY,
    MEMSET,
    CALL,
    SYNC,
    RANGE,
    OVERHEAD,
    PYTHON,
    IGNORED
} event_category;

static event_category find_category(dl_json_text cat)
{
    static const struct {
        const char *name;
        event_category category;
    } names[] = {
        {"cpu_op", RANGE},          {"kernel", KERNEL},
        {"cuda_runtime", CALL},     {"python_function", PYTHON},
        {"gpu_memcpy", MEMCPY},     {"gpu_memset", MEMSET},
        {"user_annotation", RANGE}, {"cuda_driver", CALL},
        {"cuda_sync", SYNC},        {"gpu_user_annotation", IGNORED},
        {"overhead", OVERHEAD},     {"Trace", IGNORED},
        {"Operator", RANGE},        {"Kernel", KERNEL},
        {"Runtime", CALL},          {"Memcpy", MEMCPY},
        {"Memset", MEMSET},         {"hip_runtime", CALL},
        {"hip_driver", CALL},       {"gpu_op", KERNEL},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (dl_json_is(cat, names[i].name)) return names[i].category;
    }
    return OTHER;
}

/* Low 32 bits of a whole number; 0 if it is missing or negative (-1 means none). */
static uint32_t number(dl_json_text value)
{
    return (uint32_t)dl_json_count(value);
}

/* Appends "[512, 1, 1]" as "512x1x1". */
static char *write_dims(char *at, const char *end, dl_json_text dims)
{
    for (size_t i = 0; i < dims.bytes && at < end; i++) {
        char c = dims.at[i];
        if (c >= '0' && c <= '9') *at++ = c;
        if (c == ',') *at++ = 'x';
    }
    return at;
}

static char *write_text(char *at, const char *end, const char *text)
{
    while (*text != '\0' && at < end)
        *at++ = *text++;
    return at;
}

/* Returns the id of "grid 64x1x1 block 256x1x1 shared 0 regs 32", the form of activity.h; 0 without
 * a grid or a block. */
static uint32_t launch_shape(dl_kineto *kineto, const dl_json_text *values)
{
    char text[160], *at = text, *end = text + sizeof text;
    const dl_json_text none = {"0", 1};
    if (values[KEY_GRID].at == NULL || values[KEY_BLOCK].at == NULL) return 0;
    at = write_dims(write_text(at, end, "grid "), end, values[KEY_GRID]);
    at = write_dims(write_text(at, end, " block "), end, values[KEY_BLOCK]);
    at = write_dims(write_text(at, end, " shared "), end,
                    values[KEY_SHARED].at != NULL ? values[KEY_SHARED] : none);
    at = write_dims(write_text(at, end, " regs "), end,
                    values[KEY_REGISTERS].at != NULL ? values[KEY_REGISTERS] : none);
    return dl_trace_builder_intern(&kineto->builder, text, (size_t)(at - text));
}

/* Gets the direction and the host's kind of memory from "Memcpy HtoD (Pinned -> Device)". */
static void tell_copy(const char *name, dl_activity *copy)
{
    static const struct {
        const char *text;
        dl_copy_direction direction;
    } directions[] = {{"HtoD", DL_COPY_H2D},
                      {"DtoH", DL_COPY_D2H},
                      {"DtoD", DL_COPY_D2D},
                      {"PtoP", DL_COPY_PEER},
                      {"HtoH", DL_COPY_H2H}};
    static const struct {
        const char *text;
        dl_host_memory memory;
    } memories[] = {{"Pageable", DL_MEMORY_PAGEABLE},
                    {"Pinned", DL_MEMORY_PINNED},
                    {"Managed", DL_MEMORY_MANAGED}};
    for (size_t i = 0; i < sizeof directions / sizeof directions[0]; i++) {
        if (strstr(name, directions[i].text) != NULL) copy->copy = (uint8_t)directions[i].direction;
    }
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++) {
        if (strstr(name, memories[i].text) != NULL) copy->memory = (uint8_t)memories[i].memory;
    }
}

static void add_device_work(dl_kineto *kineto, const dl_json_text *values, event_category category,
                            dl_activity *work)
{
    work->device = number(values[values[KEY_DEVICE].at != NULL ? KEY_DEVICE : KEY_PID]);
    work->stream = number(values[values[KEY_STREAM].at != NULL ? KEY_STREAM : KEY_TID]);
    work->correlation = number(values[KEY_CORRELATION]);
    work->object =
        (uint64_t)number(values[KEY_GRAPH]) << 32 | (uint64_t)number(values[KEY_GRAPH_NODE]);
    if (category == KERNEL) {
        work->kind = DL_ACTIVITY_KERNEL;
        work->name = dl_kineto_text(kineto, values[KEY_NAME]);
        work->detail = launch_shape(kineto, values);
        if (values[KEY_COLLECTIVE].at != NULL) dl_kineto_keep_parameters(kineto, values, work);
    } else {
        work->kind = category == MEMCPY ? DL_ACTIVITY_MEMCPY : DL_ACTIVITY_MEMSET;
        work->bytes = dl_json_count(values[KEY_BYTES]);
        if (category == MEMCPY) {
            uint32_t name = dl_kineto_text(kineto, values[KEY_NAME]);
            tell_copy(kineto->builder.trace.strings[name], work);
        }
    }
}

static void add_call(dl_kineto *kineto, const dl_json_text *values, dl_activity *call)
{
    uint64_t bytes = dl_json_count(values[KEY_SIZE]);
    call->kind = DL_ACTIVITY_CALL;
    call->name = dl_kineto_text(kineto, values[KEY_NAME]);
    call->correlation = number(values[KEY_CORRELATION]);
    if (call->object == call->correlation) call->object = 0;
    if (bytes == 0 || call->correlation == 0) return;
    DL_APPEND(kineto->copies, kineto->copy_count, "copies") =
        (dl_kineto_copy){call->correlation, bytes};
}

static void add_wait(dl_kineto *kineto, const dl_json_text *values, const dl_activity *sync)
{
    int64_t stream = -1, record = -1;
    if (!dl_json_int(values[KEY_WAIT_RECORD], &record) || record <= 0) return;
    if (!dl_json_int(values[KEY_WAIT_STREAM], &stream) || stream < 0) return;
    DL_APPEND(kineto->waits, kineto->wait_count, "waits") = (dl_kineto_wait){
        .object = sync->object,
        .record = (uint32_t)record,
        .stream = (uint32_t)stream,
        .device = sync->device,
    };
}

static void add_sync(dl_kineto *kineto, const dl_json_text *values, dl_activity *sync)
{
    static const struct {
        const char *kineto, *name;
    } names[] = {{"Event Sync", "event"},
                 {"Stream Sync", "stream"},
                 {"Context Sync", "context"},
                 {"Stream Wait Event", "stream wait"}};
    const char *name = "unknown";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (dl_json_is(values[KEY_NAME], names[i].kineto)) name = names[i].name;
    }
    sync->kind = DL_ACTIVITY_SYNC;
    sync->name = dl_trace_builder_name(&kineto->builder, name);
    sync->device = number(values[values[KEY_DEVICE].at != NULL ? KEY_DEVICE : KEY_PID]);
    sync->stream = number(values[values[KEY_STREAM].at != NULL ? KEY_STREAM : KEY_TID]);
    sync->correlation = number(values[KEY_CORRELATION]);
    sync->object =
        (uint64_t)number(values[KEY_WAIT_EVENT]) << 32 | (uint64_t)number(values[KEY_WAIT_RECORD]);
    sync->thread = 0;
    add_wait(kineto, values, sync);
}

static void add_range(dl_kineto *kineto, const dl_json_text *values, dl_activity *range)
{
    range->kind = DL_ACTIVITY_RANGE;
    range->name = dl_kineto_text(kineto, values[KEY_NAME]);
    range->detail = dl_kineto_text(kineto, values[KEY_CAT]);
    if (values[KEY_COLLECTIVE].at != NULL) {
        dl_kineto_keep_parameters(kineto, values, range);
    } else {
        dl_kineto_keep_range(kineto, values, range);
    }
}

/* Returns whether there is a non-zero digit after the decimal point. */
static bool has_fraction(dl_json_text value)
{
    const char *point = memchr(value.at, '.', value.bytes);
    if (point == NULL) return false;
    for (const char *at = point + 1; at < value.at + value.bytes; at++) {
        if (*at >= '1' && *at <= '9') return true;
    }
    return false;
}

static void note_pid(dl_kineto *kineto, dl_json_text value)
{
    int64_t pid = -1;
    if (!dl_json_int(value, &pid) || pid < 0) return;
    if (kineto->pid < 0) kineto->pid = pid;
    kineto->several_pids |= kineto->pid != pid;
}

/* Counts an ignored event for the note. */
static void leave_out(dl_kineto *kineto, const dl_json_text *values)
{
    if (kineto->other_events++ > 0) return;
    const uint32_t id = dl_kineto_text(kineto, values[KEY_CAT]);
    kineto->other_category = dl_strdup(kineto->builder.trace.strings[id]);
}

/* Adds an event with start and duration. */
static void add_complete(dl_kineto *kineto, const dl_json_text *values)
{
    event_category category = find_category(values[KEY_CAT]);
    dl_activity activity = {0};
    if (category == IGNORED) return;
    if (category == PYTHON) {
        kineto->python_functions++;
        return;
    }
    if (category == OTHER) {
        leave_out(kineto, values);
        return;
    }
    if (!dl_json_us_to_ns(values[KEY_TS], &activity.start_ns) ||
        (values[KEY_DUR].at != NULL && !dl_json_us_to_ns(values[KEY_DUR], &activity.duration_ns))) {
        kineto->builder.invalid++;
        return;
    }
    if (!kineto->has_fraction) kineto->has_fraction = has_fraction(values[KEY_TS]);
    if (category == KERNEL || category == MEMCPY || category == MEMSET) {
        add_device_work(kineto, values, category, &activity);
        dl_trace_builder_append(&kineto->builder, &activity);
        return;
    }
    activity.thread = number(values[KEY_TID]);
    activity.object = number(
        values[values[KEY_EXTERNAL_ID].at != NULL ? KEY_EXTERNAL_ID : KEY_EXTERNAL_ID_LOWER]);
    if (category == SYNC) {
        add_sync(kineto, values, &activity);
    } else if (category == OVERHEAD) {
        activity.kind = DL_ACTIVITY_OVERHEAD;
        activity.name = dl_kineto_text(kineto, values[KEY_NAME]);
        activity.object = 0;
    } else if (category == CALL) {
        note_pid(kineto, values[KEY_PID]);
        add_call(kineto, values, &activity);
    } else {
        note_pid(kineto, values[KEY_PID]);
        add_range(kineto, values, &activity);
    }
    dl_trace_builder_append(&kineto->builder, &activity);
}

/* Stores the names of processes and threads. Devices appear as processes too (GPU 3 as pid 3, also
 * named "python3"); dl_kineto_finish uses the name of the first host event's pid. */
static void add_meta(dl_kineto *kineto, const dl_json_text *values)
{
    char key[40];
    int64_t id = 0;
    bool thread = dl_json_is(values[KEY_NAME], "thread_name");
    if (!thread && !dl_json_is(values[KEY_NAME], "process_name")) return;
    if (!dl_json_int(values[thread ? KEY_TID : KEY_PID], &id) || id <= 0) return;
    uint32_t name = dl_kineto_text(kineto, values[KEY_META_NAME]);
    const char *text = kineto->builder.trace.strings[name];
    /* "thread 123 (python3)" is not a user-given name; "stream 7 " belongs to a device. */
    if (thread && (strncmp(text, "thread ", 7) == 0 || strncmp(text, "stream ", 7) == 0)) return;
    snprintf(key, sizeof key, thread ? "thread.%" PRId64 : "process.%" PRId64, id);
    dl_trace_builder_meta(&kineto->builder, key, "%s", text);
}

static void kineto_event(void *context, const dl_json_text *values)
{
    dl_kineto *kineto = context;
    if (dl_json_is(values[KEY_PH], "X")) {
        add_complete(kineto, values);
    } else if (dl_json_is(values[KEY_PH], "M")) {
        add_meta(kineto, values);
    } else if (dl_json_is(values[KEY_PH], "B")) {
        leave_out(kineto, values);
    }
}

/* Earliest plausible absolute time: 10^18 ns are 2001-09-09. */
#define YEAR_2001_NS INT64_C(1000000000000000000)

/* Recognises JSON: an array of objects or an object, possibly after a byte order mark and blanks. */
static bool recognises(const char *begin, size_t bytes)
{
    const size_t mark_bytes = strlen(DL_JSON_BYTE_ORDER_MARK);
    size_t i = bytes > mark_bytes && memcmp(begin, DL_JSON_BYTE_ORDER_MARK, mark_bytes) == 0
                   ? mark_bytes
                   : 0;
    while (i < bytes && isspace((unsigned char)begin[i]))
        i++;
    if (i == bytes || (begin[i] != '{' && begin[i] != '[')) return false;
    const bool in_list = begin[i++] == '[';
    while (i < bytes && isspace((unsigned char)begin[i]))
        i++;
    return i == bytes || strchr(in_list ? "{]" : "\"}", begin[i]) != NULL;
}

static void kineto_free(dl_kineto *kineto)
{
    dl_trace_builder_free(&kineto->builder);
    free(kineto->scratch);
    free(kineto->collective_of);
    free(kineto->collective_known);
    free(kineto->calls);
    free(kineto->groups);
    free(kineto->waits);
    free(kineto->copies);
    free(kineto->other_category);
    dl_kineto_free_samples(kineto);
}

/* Returns whether times are absolute, so that no base is missing. */
static bool is_absolute(const dl_trace *trace)
{
    return trace->activity_count > 0 && trace->activities[0].start_ns > YEAR_2001_NS;
}

static void note_text(dl_kineto *kineto, const dl_json_events_result *result)
{
    dl_trace *trace = &kineto->builder.trace;
    trace->complete = result->complete;
    trace->bytes_ignored = result->ignored;
    if (!result->complete) {
        dl_read_note(kineto->item,
                     "the text ends early, at byte %" PRIu64 ": all %" PRIu64
                     " whole events before it are read",
                     result->bytes, result->events);
        if (kineto->base_ns == 0 && !is_absolute(trace)) {
            dl_read_note(kineto->item,
                         "the time base of the events came after them and is missing");
        }
    }
    if (result->replaced > 0) {
        dl_read_note(kineto->item, "%" PRIu64 " bytes that JSON forbids are replaced",
                     result->replaced);
    }
}

dl_status dl_kineto_read_text(dl_read_trace *item, const char *name, dl_json_source *read,
                              void *source, dl_error *err)
{
    DL_AUTO(kineto_free) dl_kineto kineto = {.item = item, .rank = -1, .ranks = -1, .pid = -1};
    dl_json_events_result result = {0};
    const dl_json_events_spec spec = {
        .keys = event_keys,
        .key_count = KEY_END,
        .event = kineto_event,
        .member = kineto_member,
        .context = &kineto,
    };
    dl_trace_builder_init(&kineto.builder, name);
    dl_status status = dl_json_events_read(&spec, read, source, &result, err);
    if (status == DL_OK) {
        note_text(&kineto, &result);
        dl_kineto_finish(&kineto);
        dl_trace_builder_finish(&kineto.builder, &item->trace);
    } else {
        const dl_error cause = *err;
        dl_error_set_at(err, status, name, 0, "%s", cause.text);
    }
    return status;
}

static dl_status read_file(dl_read_traces *traces, const char *path, dl_error *err)
{
    dl_text_source *source = NULL;
    dl_error closing = {0};
    bool cut = false;
    dl_status status = dl_text_source_open(&source, path, err);
    if (status != DL_OK) return status;
    dl_read_trace *item = dl_read_add(traces);
    status = dl_kineto_read_text(item, path, dl_text_source_read, source, err);
    dl_status closed = dl_text_source_close(source, &cut, &closing);
    if (closed != DL_OK) {
        /* The file's error is the cause of the text's error. */
        *err = closing;
        return closed;
    }
    if (status == DL_OK && cut) dl_read_note(item, "the packed file is truncated");
    return status;
}

const dl_trace_reader dl_kineto_reader = {"kineto", "Chrome-trace JSON of PyTorch's profiler",
                                          recognises, read_file};
