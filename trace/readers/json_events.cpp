#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "trace/readers/json_walk.hpp"

extern "C" {
#include "trace/readers/json_events.h"
}

namespace
{

using namespace dl_json;

constexpr size_t WINDOW_BYTES = 1U << 20;
/* All that a small file needs. */
constexpr size_t FIRST_WINDOW_BYTES = 1U << 14;
/* In front of a window, for the bracket that makes its events an array. */
constexpr size_t FRONT_BYTES = 1;
constexpr size_t TABLE_SLOTS = 256;
constexpr size_t KEYS_MAX = 64;
constexpr char ARGS[] = "args";

/* Keys by length and three of their letters. */
class key_table
{
  public:
    void add(const char *key, int index)
    {
        size_t bytes = strlen(key), slot = slot_of(key, bytes);
        while (slots[slot].key != nullptr)
            slot = (slot + 1) % TABLE_SLOTS;
        slots[slot] = {key, bytes, index};
    }
    int find(const char *key, size_t bytes) const
    {
        for (size_t slot = slot_of(key, bytes); slots[slot].key != nullptr;
             slot = (slot + 1) % TABLE_SLOTS) {
            const entry &e = slots[slot];
            if (e.bytes == bytes && memcmp(e.key, key, bytes) == 0) return e.index;
        }
        return -1;
    }

  private:
    struct entry {
        const char *key;
        size_t bytes;
        int index;
    };
    static size_t slot_of(const char *key, size_t bytes)
    {
        if (bytes == 0) return 0;
        auto letter = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(key[i])); };
        return (bytes * 37 + letter(0) * 7 + letter(bytes - 1) * 3 + letter(bytes / 2)) %
               TABLE_SLOTS;
    }
    entry slots[TABLE_SLOTS] = {};
};

class events_reader
{
  public:
    events_reader(const dl_json_events_spec &wanted, dl_json_source *source, void *source_context,
                  dl_json_events_result &counts)
        : spec(wanted), read(source), context(source_context), result(counts),
          text(FIRST_WINDOW_BYTES)
    {
        text.used = at;
        size_t prefix = strlen(ARGS);
        for (size_t i = 0; i < spec.key_count; i++) {
            bool of_args = strncmp(spec.keys[i], ARGS, prefix) == 0 && spec.keys[i][prefix] == '/';
            if (of_args) args.add(spec.keys[i] + prefix + 1, static_cast<int>(i));
            if (!of_args) top.add(spec.keys[i], static_cast<int>(i));
        }
        args_index = static_cast<int>(spec.key_count);
        top.add(ARGS, args_index);
    }

    dl_status read_all(dl_error *err)
    {
        fill();
        skip_blanks();
        if (at < text.used && peek() == '{') {
            is_object = true;
            if (dl_status status = read_header(err)) return status;
        } else if (at < text.used && peek() == '[') {
            at++;
        } else {
            return fail(err, "is no JSON array or object");
        }
        return read_events(err);
    }

  private:
    const dl_json_events_spec &spec;
    dl_json_source *read;
    void *context;
    dl_json_events_result &result;
    padded_text text;
    size_t at = FRONT_BYTES; /* of text: what comes before has been dealt with */
    bool ended = false;      /* the source */
    bool is_object = false;
    key_table top, args;
    int args_index;
    ondemand::parser parser;

    char peek() { return text.begin()[at]; }

    uint64_t offset() const { return result.bytes - (text.used - at); }

    dl_status fail(dl_error *err, const char *what) const
    {
        return dl_error_set(err, DL_ERR_FORMAT, "byte %" PRIu64 ": %s", offset(), what);
    }

    /* Moves the rest to the front and fills the window up. */
    void fill()
    {
        memmove(text.begin() + FRONT_BYTES, text.begin() + at, text.used - at);
        text.used -= at - FRONT_BYTES;
        at = FRONT_BYTES;
        while (!ended && text.used < text.room()) {
            size_t got = read(context, text.begin() + text.used, text.room() - text.used);
            ended = got == 0;
            text.used += got;
            result.bytes += got;
            if (text.used == text.room() && text.room() < WINDOW_BYTES)
                text.bytes.resize(WINDOW_BYTES + PADDING_BYTES, ' ');
        }
    }

    /* Makes more of the text visible; false if there is no more or no room for it. */
    bool fill_more()
    {
        size_t before = text.used - at;
        if (ended) return false;
        if (at == FRONT_BYTES && text.used == text.room()) {
            if (text.room() >= DL_JSON_EVENT_BYTES_MAX) return false;
            text.bytes.resize(2 * text.room() + PADDING_BYTES, ' ');
        }
        fill();
        return text.used > before;
    }

    void skip_blanks()
    {
        do {
            while (at < text.used && is_blank(peek()))
                at++;
        } while (at == text.used && fill_more());
    }

    dl_status read_header(dl_error *err)
    {
        const char *key = nullptr, *next = nullptr;
        while ((next = scan(text.begin() + at, text.begin() + text.used, "traceEvents", &key)) ==
                   nullptr &&
               fill_more()) {}
        if (key == nullptr) return fail(err, "is no Chrome trace: there are no traceEvents");
        padded_text header(text.begin() + at, key);
        while (header.used > 1 && header.begin()[header.used - 1] != ',')
            header.used--;
        if (header.used > 1) header.begin()[header.used - 1] = '}';
        at = static_cast<size_t>(next - text.begin());
        if (header.used > 1) {
            visit_members(parser, header, &result.replaced, spec.member, spec.context);
        }
        skip_blanks();
        if (at == text.used || peek() != '[') return fail(err, "traceEvents is no array");
        at++;
        return DL_OK;
    }

    dl_status read_events(dl_error *err)
    {
        for (;;) {
            skip_blanks();
            if (at < text.used && peek() == ',') {
                at++;
                skip_blanks();
            }
            if (at == text.used) return DL_OK; /* cut between two events */
            if (peek() == ']') {
                at++;
                return read_footer();
            }
            if (at > FRONT_BYTES) fill();
            const char *problem = nullptr;
            bool moved = walk_window(&problem);
            if (problem != nullptr) return fail(err, problem);
            if (moved || fill_more()) continue;
            if (peek() != '{' ||
                scan(text.begin() + at, text.begin() + text.used, nullptr, nullptr) != nullptr)
                return fail(err, "malformed event");
            if (!ended) return fail(err, "an event is longer than 8 MiB, or malformed");
            result.ignored = text.used - at;
            return DL_OK;
        }
    }

    /* Delivers the whole events of the window and moves on after them; false if there are none. */
    bool walk_window(const char **problem)
    {
        ondemand::document document;
        ondemand::array array;
        bool moved = false;
        text.begin()[0] = '[';
        const char *data_end = text.begin() + text.used;
        if (start(parser, text, ']', &result.replaced, document) || document.get_array().get(array))
            return false;
        for (auto element : array) {
            dl_json_text values[KEYS_MAX + 1];
            memset(values, 0, (spec.key_count + 1) * sizeof values[0]);
            ondemand::object object;
            if (element.get_object().get(object) || walk_event(object, values)) break;
            const char *next = position(document, text);
            if (next < data_end && *next != ',' && *next != ']') {
                *problem = "malformed event, or no comma after it";
                break;
            }
            spec.event(spec.context, values);
            result.events++;
            moved = true;
            at = std::min(static_cast<size_t>(next - text.begin()), text.used);
            if (next >= data_end || *next == ']') break;
        }
        return moved;
    }

    simdjson::error_code walk_event(ondemand::object &object, dl_json_text *values)
    {
        for (auto field : object) {
            ondemand::raw_json_string key;
            if (auto error = field.key().get(key)) return error;
            dl_json_text name = raw_key(key);
            int index = top.find(name.at, name.bytes);
            if (index < 0) continue;
            ondemand::value value;
            if (auto error = field.value().get(value)) return error;
            if (index != args_index) {
                if (auto error = raw_value(value, &values[index])) return error;
                continue;
            }
            ondemand::object inner;
            if (value.get_object().get(inner)) continue;
            if (auto error = walk_args(inner, values)) return error;
        }
        return simdjson::SUCCESS;
    }

    simdjson::error_code walk_args(ondemand::object &object, dl_json_text *values)
    {
        for (auto field : object) {
            ondemand::raw_json_string key;
            if (auto error = field.key().get(key)) return error;
            dl_json_text name = raw_key(key);
            int index = args.find(name.at, name.bytes);
            if (index < 0) continue;
            ondemand::value value;
            if (auto error = field.value().get(value)) return error;
            if (auto error = raw_value(value, &values[index])) return error;
        }
        return simdjson::SUCCESS;
    }

    /* Behind the events. */
    dl_status read_footer()
    {
        skip_blanks();
        if (!is_object) {
            result.complete = true;
            return ignore_rest();
        }
        while (fill_more()) {}
        if (at == text.used) return DL_OK;
        if (peek() == '}') {
            result.complete = true;
            at++;
            return ignore_rest();
        }
        if (peek() != ',') return ignore_rest();
        text.begin()[at] = '{';
        const char *end = scan(text.begin() + at, text.begin() + text.used, nullptr, nullptr);
        result.complete = end != nullptr;
        size_t stop = end != nullptr ? static_cast<size_t>(end - text.begin()) : text.used;
        padded_text footer(text.begin() + at, text.begin() + stop);
        visit_members(parser, footer, &result.replaced, spec.member, spec.context);
        at = stop;
        return ignore_rest();
    }

    dl_status ignore_rest()
    {
        skip_blanks();
        result.ignored = text.used - at;
        for (at = text.used; fill_more(); at = text.used)
            result.ignored += text.used - at;
        return DL_OK;
    }
};

} // namespace

dl_status dl_json_events_read(const dl_json_events_spec *spec, dl_json_source *read, void *source,
                              dl_json_events_result *result, dl_error *err)
{
    DL_ASSERT(spec->key_count <= KEYS_MAX, "%zu keys", spec->key_count);
    *result = {};
    events_reader reader(*spec, read, source, *result);
    return reader.read_all(err);
}
