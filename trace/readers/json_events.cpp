/* Processing of JSON with simdjson.
 *
 * simdjson requires closed, valid and padded JSON text, but traces may be truncated, contain
 * control characters and arrive in windows. A text is therefore stored in a padded_text, and its
 * open brackets are closed artificially. */
#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <simdjson.h>
#include <vector>

extern "C" {
#include "trace/readers/json_events.h"
}

namespace dl_json
{

namespace ondemand = simdjson::ondemand;

/* Room after a text for closing characters. */
constexpr size_t CLOSING_BYTES = 8;
constexpr size_t PADDING_BYTES = CLOSING_BYTES + simdjson::SIMDJSON_PADDING;

inline bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Removes trailing blanks, since a token of simdjson extends up to the next token. */
inline dl_json_text trimmed(const char *at, size_t bytes)
{
    while (bytes > 0 && is_blank(at[bytes - 1]))
        bytes--;
    return {at, bytes};
}

/* A text with room after it for closing characters and simdjson's padding. */
struct padded_text {
    std::vector<char> bytes;
    size_t used = 0;

    explicit padded_text(size_t room) : bytes(room + PADDING_BYTES, ' ') {}
    padded_text(const char *from, const char *to) : bytes(from, to), used(bytes.size())
    {
        bytes.resize(used + PADDING_BYTES, ' ');
    }
    size_t room() const { return bytes.size() - PADDING_BYTES; }
    char *begin() { return bytes.data(); }
};

/* Gets the raw text of a value and moves past the value. */
inline simdjson::error_code raw_value(ondemand::value value, dl_json_text *raw)
{
    ondemand::json_type type;
    if (auto error = value.type().get(type)) return error;
    std::string_view text;
    if (type == ondemand::json_type::array || type == ondemand::json_type::object) {
        ondemand::array array;
        ondemand::object object;
        simdjson::error_code error;
        if (type == ondemand::json_type::array) {
            error = value.get_array().get(array);
            if (error == simdjson::SUCCESS) error = array.raw_json().get(text);
        } else {
            error = value.get_object().get(object);
            if (error == simdjson::SUCCESS) error = object.raw_json().get(text);
        }
        if (error) return error;
    } else {
        text = value.raw_json_token();
    }
    *raw = trimmed(text.data(), text.size());
    return simdjson::SUCCESS;
}

/* Gets a key's raw text, without quotes. The text ends at the first quote, so a key with an escaped
 * quote is truncated. */
inline dl_json_text raw_key(ondemand::raw_json_string key)
{
    const char *end = key.raw();
    while (*end != '"')
        end++;
    return {key.raw(), static_cast<size_t>(end - key.raw())};
}

/* Returns the position just after the processed part, or the end of the text. */
inline const char *position(ondemand::document &document, const padded_text &text)
{
    const char *at = nullptr;
    if (document.current_location().get(at) != simdjson::SUCCESS)
        return text.bytes.data() + text.used;
    return at;
}

using visitor = void (*)(void *, dl_json_text, dl_json_text);

/* Returns the end of the bracket that opens at at[0], or NULL if it does not close before `end`.
 * With `key`, stops at the first such key at depth 1: sets *key_begin to the key's start, and
 * returns the position after its colon. */
const char *scan(const char *at, const char *end, const char *key, const char **key_begin);

/* Replaces control characters by blanks, and invalid UTF-8 by question marks. Returns the number of
 * replacements, excluding tabs and line breaks, which JSON allows between values. */
static size_t replace_forbidden(char *text, size_t bytes)
{
    size_t changed = 0;
    for (size_t i = 0; i < bytes;) {
        auto c = static_cast<uint8_t>(text[i]);
        if (c < 0x20) {
            changed += !is_blank(text[i]);
            text[i++] = ' ';
            continue;
        }
        size_t length = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
        if (length == 1 || (i + length <= bytes && simdjson::validate_utf8(text + i, length))) {
            i += length;
        } else {
            text[i++] = '?';
            changed++;
        }
    }
    return changed;
}

/* Prepares `text` for processing: closes an open string, then appends `close`. Replaces bytes that
 * simdjson rejects, and counts them in *replaced. */
static simdjson::error_code start(ondemand::parser &parser, padded_text &text, char close,
                                  uint64_t *replaced, ondemand::document &document)
{
    size_t end = text.used;
    bool cleaned = false;
    for (size_t quotes = 0;; end = text.used + quotes) {
        char *at = text.begin();
        memset(at + text.used, '"', quotes);
        at[end] = close;
        memset(at + end + 1, ' ', text.bytes.size() - end - 1);
        auto error = parser.iterate(at, end + 1, text.bytes.size()).get(document);
        if (error == simdjson::UNCLOSED_STRING && quotes < 2) {
            quotes++;
        } else if ((error == simdjson::UTF8_ERROR || error == simdjson::UNESCAPED_CHARS) &&
                   !cleaned) {
            *replaced += replace_forbidden(at, text.used);
            cleaned = true;
        } else {
            return error;
        }
    }
}

/* Visits the complete members of the object in `text`. Returns false if the object is truncated or
 * malformed; earlier members are visited before. */
static bool visit_members(ondemand::parser &parser, padded_text &text, uint64_t *replaced,
                          visitor visit, void *context)
{
    ondemand::document document;
    ondemand::object object;
    bool closed = text.used > 0 && text.begin()[text.used - 1] == '}';
    if (start(parser, text, closed ? ' ' : '}', replaced, document)) return false;
    if (document.get_object().get(object)) return false;
    for (auto field : object) {
        ondemand::raw_json_string key;
        dl_json_text value = {};
        ondemand::value walked;
        if (field.key().get(key) || field.value().get(walked)) return false;
        if (raw_value(walked, &value)) return false;
        const char *at = value.at + value.bytes, *end = text.begin() + text.used;
        while (at < end && is_blank(*at))
            at++;
        if (at >= end || (*at != ',' && *at != '}')) return false;
        visit(context, raw_key(key), value);
    }
    return true;
}

static bool visit_elements(ondemand::parser &parser, padded_text &text, visitor visit,
                           void *context)
{
    ondemand::document document;
    ondemand::array array;
    uint64_t replaced = 0;
    if (start(parser, text, ' ', &replaced, document)) return false;
    if (document.get_array().get(array)) return false;
    for (auto element : array) {
        ondemand::value walked;
        dl_json_text value = {};
        if (element.get(walked) || raw_value(walked, &value)) return false;
        visit(context, {}, value);
    }
    return true;
}

const char *scan(const char *at, const char *end, const char *key, const char **key_begin)
{
    size_t depth = 0, key_bytes = key != nullptr ? strlen(key) : 0;
    for (; at < end; at++) {
        if (*at == '"') {
            const char *from = at++;
            while (at < end && *at != '"')
                at += *at == '\\' ? 2 : 1;
            if (at >= end) return nullptr;
            if (key == nullptr || depth != 1) continue;
            if (static_cast<size_t>(at - from - 1) != key_bytes ||
                memcmp(from + 1, key, key_bytes) != 0)
                continue;
            const char *next = at + 1;
            while (next < end && is_blank(*next))
                next++;
            if (next >= end) return nullptr;
            if (*next != ':') continue;
            *key_begin = from;
            return next + 1;
        }
        if (*at == '{' || *at == '[') depth++;
        if ((*at == '}' || *at == ']') && --depth == 0) return at + 1;
    }
    return nullptr;
}

} // namespace dl_json

bool dl_json_visit(dl_json_text value, dl_json::visitor visit, void *context)
{
    if (value.at == nullptr || value.bytes == 0) return false;
    dl_json::padded_text text(value.at, value.at + value.bytes);
    simdjson::ondemand::parser parser;
    uint64_t replaced = 0;
    if (value.at[0] == '{') return dl_json::visit_members(parser, text, &replaced, visit, context);
    return value.at[0] == '[' && dl_json::visit_elements(parser, text, visit, context);
}

namespace
{

using namespace dl_json;

constexpr size_t WINDOW_BYTES = 1U << 20;
/* Size of the first window, enough for a small file. */
constexpr size_t FIRST_WINDOW_BYTES = 1U << 14;
/* Room in front of a window for the bracket that makes its events an array. */
constexpr size_t FRONT_BYTES = 1;
constexpr size_t TABLE_SLOTS = 256;
constexpr size_t KEYS_MAX = 64;
constexpr char ARGS[] = "args";

/* Hash table of keys by length and three of their letters. */
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
        const size_t mark_bytes = strlen(DL_JSON_BYTE_ORDER_MARK);
        if (text.used - at >= mark_bytes &&
            memcmp(text.begin() + at, DL_JSON_BYTE_ORDER_MARK, mark_bytes) == 0)
            at += mark_bytes;
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
    size_t at = FRONT_BYTES; /* position in text up to which it is processed */
    bool ended = false;      /* the source has ended */
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

    /* Moves the unprocessed text to the front and refills the window. */
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

    /* Extends the window; returns false if there is no more text or no room for it. */
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
            if (at == text.used) return DL_OK; /* truncated between two events */
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

    /* Delivers the window's complete events and moves past them; returns false if there are
     * none. */
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
            if (element.get_object().get(object) || walk(object, top, values)) break;
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

    /* Takes the values of the object's `keys`, and those of the object ARGS among them. */
    simdjson::error_code walk(ondemand::object &object, const key_table &keys, dl_json_text *values)
    {
        for (auto field : object) {
            ondemand::raw_json_string key;
            if (auto error = field.key().get(key)) return error;
            dl_json_text name = raw_key(key);
            int index = keys.find(name.at, name.bytes);
            if (index < 0) continue;
            ondemand::value value;
            if (auto error = field.value().get(value)) return error;
            if (index != args_index) {
                if (auto error = raw_value(value, &values[index])) return error;
                continue;
            }
            ondemand::object inner;
            if (value.get_object().get(inner)) continue;
            if (auto error = walk(inner, args, values)) return error;
        }
        return simdjson::SUCCESS;
    }

    /* Reads the text after the events. */
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
