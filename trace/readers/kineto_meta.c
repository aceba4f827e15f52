#include <inttypes.h>
#include <string.h>

#include "trace/readers/json_events.h"
#include "trace/readers/kineto_state.h"

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

/* Properties that cannot be read are those of a cut file: what was read of them counts. */
static void visit(dl_json_text value, void (*member)(void *, dl_json_text, dl_json_text),
                  void *context)
{
    bool whole = dl_json_visit(value, member, context);
    (void)whole;
}

static void add_device(void *context, dl_json_text key, dl_json_text value)
{
    char name[40];
    device d = {.kineto = context, .id = -1};
    (void)key;
    visit(value, device_member, &d);
    if (d.id < 0 || d.name == 0) return;
    snprintf(name, sizeof name, "device.%" PRId64 ".name", d.id);
    dl_trace_builder_meta(&d.kineto->builder, name, "%s", d.kineto->builder.trace.strings[d.name]);
}

static void distributed_member(void *context, dl_json_text key, dl_json_text value)
{
    dl_kineto *kineto = context;
    if (is_key(key, "rank")) dl_json_int(value, &kineto->rank);
    if (is_key(key, "world_size")) dl_json_int(value, &kineto->ranks);
    if (is_key(key, "nccl_version") || is_key(key, "backend")) {
        dl_trace_builder_meta(&kineto->builder,
                              is_key(key, "backend") ? "distributed_backend" : "nccl_version", "%s",
                              text_of(kineto, value));
    }
}

void dl_kineto_member(void *context, dl_json_text key, dl_json_text value)
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
}
