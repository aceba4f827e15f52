// Figures of a page, drawn from its results (rows as objects, as in the CSV and JSON files): lines over workers,
// interval, network rate, bound on staleness or batch, with measured points; parts of a step, memory, staleness, cost
// against time, errors of measured rows, and a zoomable time line. Names from files are inserted as text, never as HTML.
"use strict";
const dlscale = (() => {
const element = id => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (name === "on") for (const [event, run] of Object.entries(value)) made.addEventListener(event, run);
        else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children);
    return made;
}

function makeSvg(tag, attributes = {}, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
}

document.head.append(make("style", {}, `
figure svg, figure canvas { display: block; width: 100%; height: auto; margin: 0 auto; touch-action: pan-y; }
figure svg { max-width: 34rem; }
figure svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
figure svg .soft { fill: var(--soft); }
figure svg .axis { stroke: var(--line); }
figure { position: relative; }
.figures figure.wide { column-span: all; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(19rem, 100%), 1fr)); gap: 0.6rem; padding: 0.4rem; }
.tip { position: absolute; z-index: 2; pointer-events: none; max-width: 20rem; padding: 0.3rem 0.5rem; font-size: 0.8rem; line-height: 1.35; white-space: pre-line; background: var(--paper); color: var(--ink); border: 1px solid var(--soft); border-radius: 4px; }
.zoom { display: flex; flex-wrap: wrap; gap: 0.4rem; padding: 0.4rem 0.7rem; align-items: center; font-size: 0.85rem; color: var(--soft); }
.zoom button { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid var(--line); border-radius: 4px; padding: 0.1rem 0.6rem; }
`));

// --- number formats ---

const digits = number => Number.isFinite(number) ? String(Number(number.toPrecision(4))) : "-";
const percent = part => digits(Number((100 * part).toFixed(1))) + " %";
function seconds(s) {
    if (!Number.isFinite(s)) return "-";
    if (s === 0) return "0 s";
    for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["us", 1e-6]]) if (Math.abs(s) >= size) return digits(s / size) + " " + unit;
    return digits(s * 1e9) + " ns";
}
const gigabytes = bytes => digits(bytes / 1e9) + " GB";
function short(number) {
    for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) if (Math.abs(number) >= size) return digits(number / size) + unit;
    return digits(number);
}

// --- rows ---

// Parses CSV text into row objects; numeric cells become numbers, empty cells are omitted.
function parseCsv(text) {
    const body = text.replace(/^(#[^\n]*\n)+/, "").replaceAll("\r", "").trimEnd(), lines = [[]];
    for (const [, , quoted, plain, end] of body.matchAll(/(^|(?<=[,\n]))(?:"((?:[^"]|"")*)"|([^,\n]*))(,|\n|$)/g)) {
        lines.at(-1).push(quoted !== undefined ? quoted.replaceAll('""', '"') : plain);
        if (end === "\n") lines.push([]);
        if (end === "") break;
    }
    const names = lines.shift() || [];
    return lines.map(line => Object.fromEntries(names.flatMap((name, i) =>
        line[i] === undefined || line[i] === "" ? [] : [[name, line[i].trim() !== "" && Number.isFinite(Number(line[i])) ? Number(line[i]) : line[i]]])));
}

// Assumptions in the comments of a result file, as in dlsim --json.
function parseAssumed(text) {
    return [...text.matchAll(/^# assumed: \[(.*?)\] (\S+?)=(\S+)([^;\n]*)/gm)].map(([, section, key, value, rest]) => ({ section, key, value,
        ...Object.fromEntries([...rest.matchAll(/(at_\w+_frac)=(\S+)/g)].map(([, name, number]) => [name, Number(number)])) }));
}

const isNumber = value => typeof value === "number" && Number.isFinite(value);
const distinct = (rows, key) => new Set(rows.map(row => row[key])).size;
const best = rows => rows.reduce((a, b) => a && a.throughput_per_s >= b.throughput_per_s ? a : b, null);

// Settings whose values are always told apart: rows of different machines or models have different baselines.
const places = ["machine", "model"];

// Returns settings that suffice to tell rows with equal x apart, and the places that differ; each combination of their
// values is one line. null: some of these rows differ in no setting.
function keysOfLines(rows, keys, x) {
    const apart = keys.filter(key => key !== x && places.includes(key) && distinct(rows, key) > 1), of = (row, names) => JSON.stringify(names.map(name => row[name]));
    for (;;) {
        const seen = new Map(), mixed = [];
        for (const row of rows) {
            const id = of(row, [x, ...apart]);
            if (seen.has(id)) mixed.push([seen.get(id), row]);
            else seen.set(id, row);
        }
        if (mixed.length === 0) return apart;
        const next = keys.find(key => key !== x && !apart.includes(key) && mixed.some(([a, b]) => a[key] !== b[key]));
        if (next === undefined) return null; // rows that differ in no setting: no lines
        apart.push(next);
    }
}

const nameOfKey = key => key.replace(/_bytes_per_s$/, " rate").replaceAll("_", " ");
// Swept values are numbers or texts; the latter may be numbers, too.
function valueText(key, value) {
    const number = value === "" || value === undefined || value === null ? NaN : Number(value);
    return !Number.isFinite(number) ? String(value ?? "") : /bytes_per_s$/.test(key) ? short(8 * number) + "bit/s" : digits(number);
}
const valueOfKey = (key, value) => value === undefined || value === null ? "" : key === "workers" ? `${value} worker${value === 1 ? "" : "s"}`
    : key === "batch_per_worker" ? `batch ${digits(value)} each` : key === "machine" || typeof value === "string" && /^[a-z]/i.test(value) && !/^(yes|no|none)$/.test(value) ? value
    : `${nameOfKey(key)} ${valueText(key, value)}`;
function labelOf(row, keys) {
    return keys.map(key => valueOfKey(key, row[key])).filter(Boolean).join(", ");
}

// Returns the settings that distinguish the rows, workers first, without those that follow from the others.
function tellingKeys(rows, keys) {
    const apart = keysOfLines(rows, keys, "workers") || [];
    const varies = key => linesOf(rows, apart, "workers").lines.some(line => distinct(line.rows, key) > 1);
    return [...(apart.length === 0 || varies("workers") ? ["workers"] : []), ...keys.filter(key => key !== "workers" && (apart.includes(key) ||
        distinct(rows, key) > 1 && apart.length > 0 && !varies(key)))];
}

// Returns {apart, lines}: the settings of keysOfLines, and the lines as {label, named, rows}, in the order of the rows;
// null if rows with equal x differ in no setting.
function linesOf(rows, keys, x) {
    const apart = keysOfLines(rows, keys, x);
    if (apart === null) return null;
    const groups = new Map();
    for (const row of rows) {
        const id = JSON.stringify(apart.map(key => row[key]));
        if (!groups.has(id)) groups.set(id, []);
        groups.get(id).push(row);
    }
    return { apart, lines: [...groups.values()].map(group => {
        const named = keys.filter(key => key !== x && (apart.includes(key) || distinct(rows, key) > 1 && distinct(group, key) === 1));
        return { label: labelOf(group[0], named), named, rows: [...group].sort((a, b) => a[x] - b[x]) };
    }) };
}

// Splits more than LINES_MOST lines into panels, by the setting whose largest panel exceeds that number least, then by
// the one that gives the fewest panels. Keeps lines of each panel, first the fastest one of each mode, then the fastest
// others, and the PANELS_MOST panels with the fastest lines; `left`: number of the other lines. A panel's title has the
// settings that its lines share. Panels of more than BANDS_MOST lines show no intervals.
const LINES_MOST = 7, PANELS_MOST = 6, BANDS_MOST = 4;
const top = line => best(line.rows).throughput_per_s || 0;
function chosenLines(lines) {
    const sorted = [...lines].sort((a, b) => top(b) - top(a));
    const first = sorted.filter((line, i) => sorted.findIndex(other => other.rows[0].sync === line.rows[0].sync) === i);
    return [...first, ...sorted.filter(line => !first.includes(line))].slice(0, LINES_MOST).sort((a, b) => top(b) - top(a));
}
function panelsOf({ apart, lines }) {
    if (lines.length <= LINES_MOST) return { panels: [{ title: "", lines }], left: 0 };
    const split = key => {
        const panels = new Map();
        for (const line of lines) {
            const value = line.rows[0][key] ?? "";
            if (!panels.has(value)) panels.set(value, { key, value, lines: [] });
            panels.get(value).lines.push(line);
        }
        return [...panels.values()];
    };
    const most = panels => Math.max(...panels.map(panel => panel.lines.length));
    const titled = ({ key, value, lines: all }) => {
        const kept = chosenLines(all), row = kept[0].rows[0], isShared = name => name !== key && kept.every(line => line.named.includes(name) && line.rows[0][name] === row[name]);
        const shared = kept.length > 1 ? kept[0].named.filter(isShared) : [];
        return { title: [valueOfKey(key, value) || "no " + nameOfKey(key), labelOf(row, shared)].filter(Boolean).join(", "),
            lines: kept.map(line => ({ ...line, label: labelOf(line.rows[0], line.named.filter(name => name !== key && !shared.includes(name))) })) };
    };
    const panels = apart.map(split).sort((a, b) => Math.max(0, most(a) - LINES_MOST) - Math.max(0, most(b) - LINES_MOST) || a.length - b.length)[0].map(titled);
    const chosen = panels.sort((a, b) => top(b.lines[0]) - top(a.lines[0])).slice(0, PANELS_MOST);
    return { panels: chosen, left: lines.length - chosen.reduce((sum, panel) => sum + panel.lines.length, 0) };
}

// --- drawing ---

const palette = ["#2f7fc1", "#d2691e", "#3a9a5c", "#b0559a", "#8f7d1a", "#6a66c4", "#c04848"];
const partColours = { compute: "#3f7fb5", launches: "#93a4b8", backward: "#2c5f8e", communication: "#d0743c", averaging: "#9169b5", waiting: "#b7bdc4", input: "#6f9f4f",
    working: "#3f7fb5", copying: "#d0743c", draining: "#93a4b8", validating: "#9169b5" };
const width = 480, height = 300;
const CHAR_PX = 7.4; // width of a character of wide words in the figures' font, 12 px, as in 4x8xa100@100gbe

function figureOf(svgs, caption) {
    return svgs.length === 1 ? make("figure", {}, ...svgs, make("figcaption", {}, caption))
        : make("figure", { class: "wide" }, make("div", { class: "panels" }, ...svgs), make("figcaption", {}, caption));
}

// Shows text(event) beside the pointer while it is over `target`; "" hides it.
function hover(target, text) {
    const tip = make("div", { class: "tip", hidden: true });
    const hide = () => { tip.hidden = true; };
    target.addEventListener("pointermove", event => {
        const words = text(event), figure = target.closest("figure");
        if (!words || !figure) return hide();
        if (tip.parentNode !== figure) figure.append(tip);
        tip.textContent = words;
        tip.hidden = false;
        const box = figure.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
        tip.style.left = Math.max(4, Math.min(x + 14, box.width - tip.offsetWidth - 4)) + "px";
        tip.style.top = Math.max(4, y - tip.offsetHeight - 10) + "px";
    });
    target.addEventListener("pointerleave", hide);
}

// Returns {near, x, y}: the spot nearest to the pointer, null if none is within 30 units of the drawing; and the pointer's
// position.
function nearest(svg, event, spots) {
    const area = svg.getBoundingClientRect(), scale = width / area.width, x = (event.clientX - area.left) * scale, y = (event.clientY - area.top) * scale;
    const far = spot => (spot.x - x) ** 2 + (spot.y - y) ** 2;
    const near = spots.reduce((a, b) => a && far(a) <= far(b) ? a : b, null);
    return { near: near && far(near) < 900 ? near : null, x, y };
}

// Returns the text of a row for the tooltip.
function wordsOf(row, keys) {
    const lines = [labelOf(row, keys.filter(key => row[key] !== undefined))];
    const add = (name, value) => { if (value !== undefined) lines.push(`${name}: ${value}`); };
    if (row.error) return lines[0] + "\n" + row.error;
    add("samples/s", isNumber(row.throughput_per_s) ? digits(row.throughput_per_s) + (isNumber(row.throughput_low_per_s)
        ? ` (95 %: ${digits(row.throughput_low_per_s)} to ${digits(row.throughput_high_per_s)})` : "") : undefined);
    add("measured", isNumber(row.measured_per_s) ? digits(row.measured_per_s) + (isNumber(row.error_frac) ? `, error ${percent(row.error_frac)}` : "") : undefined);
    add("step", isNumber(row.step_mean_s) ? seconds(row.step_mean_s) : undefined);
    add("speedup", isNumber(row.speedup) ? digits(row.speedup) : undefined);
    add("staleness", row.staleness_mean > 0 ? digits(row.staleness_mean) + " updates" : undefined);
    add("memory of a GPU", row.memory_bytes > 0 ? gigabytes(row.memory_bytes) : undefined);
    add("USD an hour", row.usd_per_hour > 0 ? digits(row.usd_per_hour) : undefined);
    add("costs", row.origin);
    if (row.extrapolated) lines.push("outside of what the costs were measured at");
    return [...lines, ...assumptions].join("\n");
}

// The assumptions that change the throughput most, for the tooltip.
let assumptions = [];
function takeAssumptions(assumed) {
    const effects = a => [a.at_low_frac, a.at_high_frac, a.at_other_frac].filter(isNumber), most = a => Math.max(0, ...effects(a).map(Math.abs));
    assumptions = assumed.filter(a => most(a) >= 0.01).sort((a, b) => most(b) - most(a)).slice(0, 3)
        .map(a => `assumed [${a.section}] ${a.key} = ${isNumber(Number(a.value)) ? short(Number(a.value)) : a.value}: samples/s ${effects(a).map(frac => (frac > 0 ? "+" : "") + percent(frac)).join(" to ")}`);
}

// Returns positions and ticks of an axis from `low` to `high`; logarithmic if `doubles` is set. `values`: the ticks, if
// not at round numbers.
function axis(low, high, from, to, doubles, values) {
    const at = doubles ? v => from + (to - from) * Math.log(v / low) / Math.log(high / low || 2) : v => from + (to - from) * (v - low) / (high - low || 1);
    if (values) return { at, marks: values };
    const marks = [];
    if (doubles) {
        const factors = high / low > 300 ? [1] : high / low > 12 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 6, 8];
        for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) factors.forEach(f => marks.push(f * 10 ** e));
    } else {
        const raw = (high - low) / 5, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find(f => f * power >= raw) * power;
        for (let i = Math.ceil(low / step); i * step <= high * 1.0001; i++) marks.push(i * step);
    }
    return { at, marks: marks.filter(v => v >= low * 0.9999 && v <= high * 1.0001) };
}

const pathOf = (points, close) => points.map(([x, y], i) => (i ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1)).join("") + (close ? "Z" : "");
const cut = (text, most) => text.length > most ? text.slice(0, most - 1) + "\u2026" : text;

function frame(svg, x, y, box, xLabel, yLabel, xText, yText) {
    for (const v of y.marks) {
        svg.append(makeSvg("line", { class: "axis", x1: box.left, x2: box.right, y1: y.at(v), y2: y.at(v) }),
            makeSvg("text", { x: box.left - 6, y: y.at(v) + 4, "text-anchor": "end" }, yText(v)));
    }
    let free = -Infinity;
    for (const v of x.marks) {
        const text = xText(v), half = 3.6 * text.length + 4;
        if (x.at(v) - half < free) continue;
        free = x.at(v) + half;
        svg.append(makeSvg("text", { x: x.at(v), y: box.bottom + 16, "text-anchor": "middle" }, text));
    }
    svg.append(makeSvg("text", { class: "soft", x: (box.left + box.right) / 2, y: box.bottom + 32, "text-anchor": "middle" }, xLabel),
        makeSvg("text", { class: "soft", x: 4, y: 13 }, yLabel));
}

// Draws labels at the right ends of lines without overlap, long ones in several rows if these have space.
const END_CHARS = 24, END_ROW = 13;
function rowsOfLabel(label) {
    const rows = [""];
    for (const word of label.split(/(?<=,) */)) {
        const longer = (rows.at(-1) + " " + word).trim();
        if (longer.length <= END_CHARS || rows.at(-1) === "") rows[rows.length - 1] = longer;
        else rows.push(word);
    }
    return rows.map(row => cut(row, END_CHARS));
}
function endLabels(svg, ends, box) {
    let sorted = [...ends].sort((a, b) => a.y - b.y).map(end => ({ ...end, rows: rowsOfLabel(end.label) }));
    const tall = end => END_ROW * end.rows.length + 1;
    if (sorted.reduce((sum, end) => sum + tall(end), 0) > box.bottom - box.top + END_ROW) sorted = sorted.map(end => ({ ...end, rows: [cut(end.label, END_CHARS)] }));
    for (let i = 1; i < sorted.length; i++) sorted[i].y = Math.max(sorted[i].y, sorted[i - 1].y + tall(sorted[i - 1]));
    let free = box.bottom + END_ROW;
    for (const end of sorted.reverse()) {
        end.y = Math.min(end.y, free - tall(end));
        free = end.y;
        svg.append(...end.rows.map((row, i) => makeSvg("text", { x: box.right + 8, y: end.y + END_ROW * i + 4, style: "fill:" + end.colour }, row)));
    }
}

// Draws a measured point: filled; hollow if costs were fitted to it or made from its trace; a cross if it contradicts
// others.
function measuredMark(x, y, use, colour) {
    if (use === "contradiction") return makeSvg("path", { d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8`, stroke: colour, "stroke-width": 2 });
    const isHollow = use === "fitted" || use === "traced";
    return makeSvg("circle", { cx: x, cy: y, r: 4, fill: isHollow ? "var(--paper)" : colour, stroke: isHollow ? colour : "var(--paper)", "stroke-width": isHollow ? 1.8 : 1 });
}

// Draws one panel of lines. spec: {x, y, low, high, measured, measuredRange, reference, doubles, xLabel, yLabel, xText,
// yText}
function linePanel(spec, { title, lines }, keys) {
    const rows = lines.flatMap(line => line.rows), xs = [...new Set(rows.map(row => row[spec.x]))].sort((a, b) => a - b);
    const values = rows.flatMap(row => [spec.y(row), spec.high(row), spec.measured(row)]).filter(v => v > 0);
    const lows = rows.flatMap(row => [spec.y(row), spec.low(row), spec.measured(row)]).filter(v => v > 0);
    const named = lines.length > 1 || title !== "";
    const box = { left: 52, right: width - (named ? Math.min(174, 18 + CHAR_PX * Math.max(...lines.map(line => line.label.length))) : 20), top: 24, bottom: height - 40 };
    const doubles = spec.doubles && Math.max(...values) > 3 * Math.min(...lows), margin = 0.02 * (box.right - box.left);
    const x = axis(xs[0], xs.at(-1), box.left + margin, box.right - margin, xs.at(-1) > 3 * xs[0] && xs[0] > 0, xs.length <= 12 ? xs : undefined);
    const y = axis(doubles ? Math.min(...lows) / 1.1 : 0, Math.max(...values) * (doubles ? 1.1 : 1.04), box.bottom, box.top, doubles);
    const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": [title, ...lines.map(line =>
        `${line.label || spec.yLabel}: ` + line.rows.filter(row => spec.y(row) > 0).slice(0, 12).map(row => `${spec.yText(spec.y(row))} at ${spec.xText(row[spec.x])}`).join(", "))].filter(Boolean).join("; ") });
    frame(svg, x, y, box, spec.xLabel, title ? `${title}: ${spec.yLabel}` : spec.yLabel, spec.xText, spec.yText);
    if (spec.reference) {
        const shown = xs.map(v => [v, spec.reference(v)]).filter(([, v]) => v <= Math.max(...values) * 1.1 && (!doubles || v >= Math.min(...lows) / 1.1));
        svg.append(makeSvg("path", { fill: "none", stroke: "var(--soft)", "stroke-width": 0.8, "stroke-dasharray": "2 3", d: pathOf(shown.map(([a, b]) => [x.at(a), y.at(b)])) || "M0 0" }));
    }
    const spots = [], ends = [], marks = [];
    lines.forEach((line, i) => {
        const colour = palette[i % palette.length], drawn = line.rows.filter(row => spec.y(row) > 0);
        const banded = drawn.filter(row => spec.low(row) > 0 && spec.high(row) > 0);
        if (banded.length > 1 && lines.length <= BANDS_MOST) svg.append(makeSvg("path", { fill: colour, "fill-opacity": 0.15, d: pathOf([...banded.map(row => [x.at(row[spec.x]), y.at(spec.high(row))]),
            ...[...banded].reverse().map(row => [x.at(row[spec.x]), y.at(spec.low(row))])], true) }));
        for (let k = 1; k < drawn.length; k++) {
            svg.append(makeSvg("path", { fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": drawn[k].extrapolated ? "5 4" : undefined,
                d: pathOf([drawn[k - 1], drawn[k]].map(row => [x.at(row[spec.x]), y.at(spec.y(row))])) }));
        }
        for (const row of line.rows) {
            if (spec.y(row) > 0) {
                const spot = { x: x.at(row[spec.x]), y: y.at(spec.y(row)), row };
                spots.push(spot);
                marks.push(makeSvg("circle", { cx: spot.x, cy: spot.y, r: drawn.length > 40 ? 1.5 : 2.5, fill: row.extrapolated ? "var(--paper)" : colour, stroke: colour }));
            }
            if (spec.measured(row) > 0) {
                const spot = { x: x.at(row[spec.x]), y: y.at(spec.measured(row)), row };
                spots.push(spot);
                const range = spec.measuredRange(row);
                if (range) marks.push(makeSvg("path", { stroke: "var(--ink)", "stroke-width": 1, d: pathOf([[spot.x, y.at(range[0])], [spot.x, y.at(range[1])]]) }));
                marks.push(measuredMark(spot.x, spot.y, row.measured_use, lines.length > 1 ? colour : "var(--ink)"));
            }
        }
        if (drawn.length > 0 && line.label && named) ends.push({ label: line.label, y: y.at(spec.y(drawn.at(-1))), colour });
    });
    svg.append(...marks);
    endLabels(svg, ends, box);
    hover(svg, event => {
        const { near } = nearest(svg, event, spots);
        return near ? wordsOf(near.row, keys) : "";
    });
    return svg;
}

const single = row => row.throughput_per_s / row.speedup; // the baseline of the row's speedup
const lineFigures = [
    { x: "workers", xLabel: "workers", yLabel: "speedup over one without exchange", doubles: true, reference: v => v,
        y: row => row.speedup, low: row => row.speedup_low, high: row => row.speedup_high, scale: row => 1 / single(row),
        when: rows => rows.some(row => row.speedup >= 0.01),
        caption: "Predicted lines", referenceCaption: "; the dotted one is proportional" },
    { x: "interval", xLabel: "mini-batches between two averages", yLabel: "samples/s",
        y: row => row.throughput_per_s, low: row => row.throughput_low_per_s, high: row => row.throughput_high_per_s, scale: () => 1,
        caption: "Averaging less often" },
    ...["port_bytes_per_s", "site_bytes_per_s"].map(x => ({ x, xLabel: "rate of the network", yLabel: "time in which the workers compute", xText: v => short(8 * v) + "b/s", yText: percent,
        y: row => row.compute_frac, low: () => undefined, high: () => undefined, scale: () => undefined, caption: "A faster network" })),
    ...["staleness_bound", "bound"].map(x => ({ x, xLabel: "bound on staleness, updates", yLabel: "samples/s",
        y: row => row.throughput_per_s, low: row => row.throughput_low_per_s, high: row => row.throughput_high_per_s, scale: () => 1,
        caption: "A larger bound on staleness" })),
    ...["batch", "batch_per_worker"].map(x => ({ x, xLabel: x === "batch" ? "batch of all workers" : "batch of each worker", yLabel: "samples/s",
        y: row => row.throughput_per_s, low: row => row.throughput_low_per_s, high: row => row.throughput_high_per_s, scale: () => 1,
        caption: "A larger batch" })),
];

function lineFigure(figure, all, keys) {
    const rows = all.filter(row => isNumber(row[figure.x]) && (row.throughput_per_s > 0 || isNumber(row.measured_per_s)));
    if (distinct(rows, figure.x) < 2 || figure.when && !figure.when(rows, keys)) return null;
    // With several GPUs per worker the baseline is one GPU, or a smaller layout, and not one worker.
    const reference = rows.some(row => row.gpus_used > row.workers) ? undefined : figure.reference;
    const spec = { xText: digits, yText: short, ...figure, reference, measured: row => isNumber(row.measured_per_s) ? row.measured_per_s * figure.scale(row) : undefined,
        measuredRange: row => isNumber(row.measured_low_per_s) && isNumber(row.measured_high_per_s) && figure.scale(row)
            ? [row.measured_low_per_s * figure.scale(row), row.measured_high_per_s * figure.scale(row)] : null };
    const found = linesOf(rows, keys, figure.x);
    if (found === null || found.lines.every(line => distinct(line.rows, figure.x) < 2)) return null;
    const { panels, left } = panelsOf(found);
    const drawn = panels.filter(panel => panel.lines.some(line => line.rows.some(row => spec.y(row) > 0)));
    if (drawn.length === 0) return null;
    const measured = rows.some(row => spec.measured(row) > 0), rowsWith = use => rows.some(row => row.measured_use === use);
    const isBanded = drawn.some(({ lines }) => lines.length <= BANDS_MOST && lines.some(line => line.rows.filter(row => spec.y(row) > 0 && spec.low(row) > 0 && spec.high(row) > 0).length > 1));
    const caption = figure.caption + (isBanded ? ", with 95 % intervals" : "") + (reference ? figure.referenceCaption : "") + (measured ? `. Measured points on top${rowsWith("fitted") || rowsWith("traced") ? ", hollow where costs were fitted to them" : ""}${rowsWith("contradiction") ? ", crosses where they contradict others" : ""}` : "") +
        (rows.some(row => row.extrapolated) ? ". Dashed and hollow: outside of what the costs were measured at" : "") +
        (left > 0 ? `. ${left} more lines are in the table` : "") + ".";
    return figureOf(drawn.map(panel => linePanel(spec, panel, keys)), caption);
}

// Maximum number of bars in a figure.
const BARS_MOST = 24;
// If there are too many rows, selects the fastest for each number of workers, or the fastest overall; `said` says so.
function barRows(all) {
    if (all.length <= BARS_MOST) return { rows: all, said: "" };
    const sorted = [...all].sort((a, b) => b.throughput_per_s - a.throughput_per_s), counts = distinct(all, "workers");
    if (counts === 1 || counts > BARS_MOST) return { rows: sorted.slice(0, BARS_MOST), said: ` The ${BARS_MOST} fastest of ${all.length} points.` };
    const first = new Map();
    for (const row of sorted) if (!first.has(row.workers)) first.set(row.workers, row);
    return { rows: [...first.values()].sort((a, b) => a.workers - b.workers), said: ` Of ${all.length} points the fastest with each number of workers.` };
}

function barLabels(rows, keys) {
    const labels = rows.map(row => cut(labelOf(row, keys), 36));
    return { labels, left: Math.min(280, 14 + CHAR_PX * Math.max(...labels.map(label => label.length))) };
}

// Draws one horizontal bar per row with parts [{name, value(row), text(row), colour}], as fractions or amounts; `most`
// of the rows shown is the full width, end(row) the text after a bar, mark(row) the position of a red line.
function barFigure(all, keys, { parts, end, most, caption, mark }) {
    const { rows, said } = barRows(all);
    if (rows.length === 0) return null;
    const varied = tellingKeys(rows, keys), { labels, left: side } = barLabels(rows, varied), box = { left: side, right: width - 70, top: 24 };
    const shown = parts.filter(part => rows.some(row => part.value(row) > 0.001 * most(rows))), names = [];
    let left = 4;
    for (const part of shown) {
        const wide = 26 + 6.6 * part.name.length;
        if (left + wide > width) [left, box.top] = [4, box.top + 16];
        names.push(makeSvg("rect", { x: left, y: box.top - 19, width: 10, height: 10, fill: part.colour }), makeSvg("text", { x: left + 14, y: box.top - 10 }, part.name));
        left += wide;
    }
    const scale = (box.right - box.left) / most(rows), row_px = 20, tall = box.top + row_px * rows.length + 8;
    const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": rows.slice(0, 12).map((row, i) =>
        `${labels[i]}: ` + shown.filter(part => part.value(row) > 0).map(part => `${part.name} ${part.text(row)}`).join(", ")).join("; ") });
    svg.append(...names);
    rows.forEach((row, i) => {
        const y = box.top + i * row_px;
        let x = box.left;
        svg.append(makeSvg("text", { x: box.left - 6, y: y + 13, "text-anchor": "end" }, labels[i]));
        for (const part of shown) {
            const long = Math.min(box.right - x, Math.max(0, part.value(row) || 0) * scale);
            svg.append(makeSvg("rect", { x, y: y + 2, width: long.toFixed(2), height: row_px - 5, fill: part.colour }));
            x += long;
        }
        if (mark && mark(row) > 0) svg.append(makeSvg("path", { stroke: "var(--bad)", "stroke-width": 1.5, d: `M${box.left + mark(row) * scale} ${y}v${row_px - 1}` }));
        svg.append(makeSvg("text", { class: "soft", x: Math.min(x, box.right) + 6, y: y + 13 }, end(row)));
    });
    hover(svg, event => {
        const i = Math.floor((nearest(svg, event, []).y - box.top) / row_px);
        return rows[i] ? wordsOf(rows[i], varied) + "\n" + shown.filter(part => part.value(rows[i]) > 0).map(part => `${part.name}: ${part.text(rows[i])}`).join("\n") : "";
    });
    return figureOf([svg], caption + said);
}

function partFigure(all, keys) {
    const rows = all.filter(row => row.throughput_per_s > 0), generate = rows.some(row => isNumber(row.trainer_busy_frac));
    const names = generate ? ["working", "copying", "draining", "waiting", "validating"] : ["compute", "launches", "communication", "averaging", "waiting", "input"];
    const key = name => generate ? `trainer_${name}_frac` : (name === "launches" ? "dispatch" : name) + "_frac";
    return barFigure(rows, keys, { most: () => 1, end: row => seconds(row.step_mean_s),
        parts: names.map(name => ({ name, colour: partColours[name], value: row => row[key(name)], text: row => percent(row[key(name)]) })),
        caption: generate ? "The trainer's time, and the time of an update." : "Where a step's time goes, averaged over the workers, and its mean time." });
}

// Memory of the fullest GPU by kind, in the order of the column; the last kind is the allocator's cache.
const MEMORIES_MOST = 12, memoryColours = { parameters: "#2c5f8e", gradients: "#3f7fb5", optimizer: "#86b2d9", gathered: "#9169b5", activations: "#d0743c", working: "#e5aa7a", logits: "#c9a227",
    workspace: "#93a4b8", others: "#6f9f4f", reserve: "var(--line)" };
function memoryFigure(all, keys) {
    const bytes = row => String(row.memory_by_kind_bytes).split(/[;,]/).map(Number), faster = (a, b) => (b.throughput_per_s || 0) - (a.throughput_per_s || 0);
    const known = all.filter(row => row.memory_by_kind_bytes !== undefined), different = new Map();
    for (const row of [...known].sort(faster)) if (!different.has(String(row.memory_by_kind_bytes))) different.set(String(row.memory_by_kind_bytes), row);
    const rows = [...different.values()].slice(0, MEMORIES_MOST);
    if (!rows.some(row => row.memory_frac > 0.1)) return null; // nothing is scarce
    const has = row => row.memory_frac > 0 ? row.memory_bytes / row.memory_frac : 0, end = row => Math.max(row.memory_bytes + bytes(row).at(-1), has(row));
    return barFigure(rows, keys, { most: shown => Math.min(Math.max(...shown.map(end)), 2 * Math.max(...shown.map(has))), end: row => gigabytes(row.memory_bytes), mark: has,
        parts: Object.entries(memoryColours).map(([name, colour], i) => ({ name, colour, value: row => bytes(row)[i], text: row => gigabytes(bytes(row)[i]) })),
        caption: "Memory of the fullest GPU by kind: what the point needs and, pale, what the allocator may keep besides. The red line is what the GPU has; bars end at twice that." +
            (rows.length < known.length ? ` ${rows.length} of ${known.length} points: the fastest ones that need different amounts.` : "") });
}

// Staleness of applied gradients: a thick bar from the median to the 90th percentile, a thin line to the maximum.
function stalenessFigure(all, keys) {
    const rows = all.filter(row => row.staleness_mean > 0);
    if (rows.length === 0) return null;
    const { rows: shown, said } = barRows(rows);
    return stalenessBars(shown, tellingKeys(shown, keys), "Staleness of applied gradients", said);
}

// The same of each worker of a point, from its rows of the histogram; of many workers the stalest.
function workersFigure(histogram) {
    const workers = [...new Set(histogram.map(row => row.worker))].filter(isNumber).map(worker => {
        const counts = histogram.filter(row => row.worker === worker && row.count > 0), total = counts.reduce((sum, row) => sum + row.count, 0);
        const quantile = p => {
            let seen = 0;
            return counts.find(row => (seen += row.count) >= p * total).staleness;
        };
        return counts.length > 0 && { worker, staleness_mean: counts.reduce((sum, row) => sum + row.count * row.staleness, 0) / total,
            staleness_p50: quantile(0.5), staleness_p90: quantile(0.9), staleness_p99: quantile(0.99), staleness_max: counts.at(-1).staleness };
    }).filter(Boolean);
    const stalest = [...workers].sort((a, b) => b.staleness_mean - a.staleness_mean).slice(0, BARS_MOST), point = histogram[0];
    if (!stalest.some(row => row.staleness_mean > 0)) return null;
    const results = Object.keys(point).indexOf("worker"), of = labelOf(point, Object.keys(point).slice(0, results).filter(key => key !== "cores"));
    return stalenessBars(workers.filter(row => stalest.includes(row)), ["worker"], `Staleness by worker (${of})`,
        workers.length > stalest.length ? ` The ${stalest.length} stalest of ${workers.length} workers.` : "");
}

function stalenessBars(shown, varied, of, said) {
    const byWorker = row => String(row.staleness_mean_by_worker ?? "").split(";").map(Number).filter(v => v > 0);
    const { labels, left } = barLabels(shown, varied), box = { left, right: width - 56, top: 24 };
    const most = Math.max(...shown.flatMap(row => [row.staleness_max, row.staleness_p99, row.staleness_mean, ...byWorker(row), row.measured_staleness_mean].filter(isNumber)));
    const x = axis(0, most, box.left, box.right, false), row_px = 20, tall = box.top + row_px * shown.length + 40;
    const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": shown.slice(0, 8).map((row, i) =>
        `${labels[i]}: mean ${digits(row.staleness_mean)}, 90 % ${digits(row.staleness_p90)}, largest ${digits(row.staleness_max)} updates`).join("; ") });
    frame(svg, x, { marks: [] }, { ...box, bottom: box.top + row_px * shown.length }, "updates", "", digits, digits);
    shown.forEach((row, i) => {
        const y = box.top + i * row_px + 9, colour = palette[0];
        svg.append(makeSvg("text", { x: box.left - 8, y: y + 4, "text-anchor": "end" }, labels[i]),
            makeSvg("path", { stroke: colour, "stroke-opacity": 0.35, "stroke-width": 2, d: pathOf([[x.at(row.staleness_p50 ?? row.staleness_mean), y], [x.at(row.staleness_max ?? row.staleness_mean), y]]) }),
            makeSvg("path", { stroke: colour, "stroke-width": 7, d: pathOf([[x.at(row.staleness_p50 ?? row.staleness_mean) - 0.5, y], [x.at(row.staleness_p90 ?? row.staleness_mean) + 0.5, y]]) }),
            ...byWorker(row).map(v => makeSvg("circle", { cx: x.at(v), cy: y, r: 2, fill: "var(--ink)" })),
            makeSvg("path", { d: `M${x.at(row.staleness_mean)} ${y - 7}v14`, stroke: "var(--ink)", "stroke-width": 2 }),
            makeSvg("text", { class: "soft", x: x.at(row.staleness_max ?? row.staleness_mean) + 6, y: y + 4 }, digits(row.staleness_mean)));
        if (isNumber(row.measured_staleness_mean)) svg.append(measuredMark(x.at(row.measured_staleness_mean), y, row.measured_use, palette[1]));
    });
    hover(svg, event => {
        const row = shown[Math.floor((nearest(svg, event, []).y - box.top) / row_px)];
        return row ? `${labelOf(row, varied)}\nmean ${digits(row.staleness_mean)}, median ${digits(row.staleness_p50)}, 90 % ${digits(row.staleness_p90)}, 99 % ${digits(row.staleness_p99)}, largest ${digits(row.staleness_max)}` +
            (isNumber(row.measured_staleness_mean) ? `\nmeasured mean ${digits(row.measured_staleness_mean)}` : "") : "";
    });
    return figureOf([svg], of + ": bars from the median to 90 %, thin lines to the largest, strokes at the mean" +
        (shown.some(row => byWorker(row).length > 0) ? ", dots at the mean of each worker" : "") + "." + said);
}

// Price against time, of reaching the target if any row has one, else of a million samples; the points of the Pareto
// front are joined. Up to NAMED_MOST points are all named, of more only those of the front.
const NAMED_MOST = 8;
function priceFigure(all, keys) {
    const toTarget = all.some(row => row.usd_to_target > 0);
    const price = row => toTarget ? row.usd_to_target : row.usd_per_hour / row.throughput_per_s / 3600 * 1e6, time = row => toTarget ? row.target_s / 3600 : 1e6 / row.throughput_per_s / 3600;
    const rows = all.filter(row => price(row) > 0 && time(row) > 0);
    if (rows.length < 2) return null;
    const box = { left: 56, right: width - 20, top: 24, bottom: height - 40 }, xs = rows.map(time), ys = rows.map(price);
    const wide = (values, most) => Math.max(...values) > most * Math.min(...values);
    const ranged = (values, from, to) => wide(values, 5) ? axis(Math.min(...values) / 1.1, Math.max(...values) * 1.1, from, to, true) : axis(0, 1.05 * Math.max(...values), from, to, false);
    const x = ranged(xs, box.left, box.right), y = ranged(ys, box.bottom, box.top);
    const varied = tellingKeys(rows, keys), front = [];
    for (const row of [...rows].sort((a, b) => time(a) - time(b) || price(a) - price(b))) if (front.length === 0 || price(row) < price(front.at(-1))) front.push(row);
    const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Best front: " + front.slice(0, 8).map(row => `${labelOf(row, varied)}: ${digits(time(row))} h, ${digits(price(row))} USD`).join("; ") });
    frame(svg, x, y, box, toTarget ? "hours to the target" : "hours for a million samples", toTarget ? "USD to the target" : "USD for a million samples", digits, short);
    for (const row of rows) svg.append(makeSvg("circle", { cx: x.at(time(row)), cy: y.at(price(row)), r: 3, fill: front.includes(row) ? palette[0] : "var(--soft)", "fill-opacity": front.includes(row) ? 1 : 0.45 }));
    svg.append(makeSvg("path", { fill: "none", stroke: palette[0], "stroke-width": 1.6, d: pathOf(front.map(row => [x.at(time(row)), y.at(price(row))])) }));
    const taken = [];
    for (const row of rows.length <= NAMED_MOST ? [...front, ...rows.filter(row => !front.includes(row))] : front) {
        const isRight = x.at(time(row)) > (box.left + box.right) / 2, at = x.at(time(row)) + (isRight ? -8 : 8), label = cut(labelOf(row, varied), Math.floor((isRight ? at - box.left : width - at) / CHAR_PX));
        const place = { y: y.at(price(row)) + (isRight ? -6 : 4), from: isRight ? at - CHAR_PX * label.length : at, to: isRight ? at : at + CHAR_PX * label.length };
        if (taken.some(other => Math.abs(other.y - place.y) < 13 && other.from < place.to && place.from < other.to)) continue;
        taken.push(place);
        svg.append(makeSvg("text", { x: at, y: place.y, "text-anchor": isRight ? "end" : "start" }, label));
    }
    const spots = rows.map(row => ({ row, x: x.at(time(row)), y: y.at(price(row)) }));
    hover(svg, event => {
        const { near } = nearest(svg, event, spots);
        return near ? `${wordsOf(near.row, varied)}\n${digits(time(near.row))} h, ${digits(price(near.row))} USD` : "";
    });
    return figureOf([svg], "Price against time. The line joins the points that no other beats in both.");
}

// Errors of measured rows, one line per group, or over the number of workers.
const markOf = (row, x, y) => measuredMark(x, y, row.use, row.use === "contradiction" ? "var(--bad)" : palette[0]);
function errorFigure(all, overWorkers) {
    const rows = all.filter(row => isNumber(row.error_frac) && (!overWorkers || row.workers > 0)), groups = [...new Set(rows.map(row => row.group))];
    if (rows.length === 0 || overWorkers && distinct(rows, "workers") < 2) return null;
    const most = 1.05 * Math.max(0.11, ...rows.map(row => Math.abs(row.error_frac))), row_px = 24, tall = overWorkers ? height : 40 + row_px * groups.length + 36;
    const box = { left: overWorkers ? 52 : Math.min(200, 14 + 6.6 * Math.max(...groups.map(group => String(group).length))), right: width - 20, top: 24, bottom: tall - 40 };
    const counts = [...new Set(rows.map(row => row.workers))].sort((a, b) => a - b), svg = makeSvg("svg", { viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": `Errors of ${rows.length} measured rows` });
    const error = overWorkers ? axis(-most, most, box.bottom, box.top, false) : axis(-most, most, box.left, box.right, false);
    const other = overWorkers ? axis(counts[0], counts.at(-1), box.left + 8, box.right - 8, true, counts.length <= 12 ? counts : undefined) : { at: i => box.top + row_px * (i + 0.5), marks: [] };
    for (const part of [0.1, 0.05]) {
        const [a, b] = [error.at(-part), error.at(part)];
        svg.append(makeSvg("rect", overWorkers ? { x: box.left, width: box.right - box.left, y: b, height: a - b, fill: palette[2], "fill-opacity": 0.12 }
            : { y: box.top, height: box.bottom - box.top, x: a, width: b - a, fill: palette[2], "fill-opacity": 0.12 }));
    }
    if (overWorkers) frame(svg, other, error, box, "workers", "error", digits, percent);
    else frame(svg, error, { marks: [] }, box, "error: predicted over measured throughput, minus 1", "", percent, digits);
    if (!overWorkers) groups.forEach((group, i) => svg.append(makeSvg("text", { x: box.left - 8, y: other.at(i) + 4, "text-anchor": "end" }, cut(String(group), 28))));
    const spots = rows.map(row => overWorkers ? { row, x: other.at(row.workers), y: error.at(row.error_frac) } : { row, x: error.at(row.error_frac), y: other.at(groups.indexOf(row.group)) });
    svg.append(...spots.map(({ row, x, y }) => markOf(row, x, y)));
    hover(svg, event => {
        const { near } = nearest(svg, event, spots);
        return near ? `${near.row.group}/${near.row.scenario}: ${near.row.workers} workers, batch ${near.row.batch}, ${near.row.sync}${near.row.options ? ", " + near.row.options : ""}\nerror ${percent(near.row.error_frac)}, ${near.row.use}` : "";
    });
    return figureOf([svg], (overWorkers ? "The same errors over the number of workers: does it get worse where nothing was fitted?" : "Error of each measured row, a line of each group; bands of 5 and 10 %. Hollow: costs were fitted to it; crosses contradict others."));
}

// Replaces batch by batch_per_worker if the latter has fewer different values.
function withBatchPerWorker(rows) {
    const each = rows.map(row => ({ batch_per_worker: row.batch / row.workers }));
    if (!(distinct(each, "batch_per_worker") < distinct(rows, "batch"))) return rows;
    return rows.map(row => Object.fromEntries(Object.entries(row).map(([key, value]) => key === "batch" ? ["batch_per_worker", value / row.workers] : [key, value])));
}

// Draws all figures for which the rows have data into `box`. The setting columns precede the results. `histogram`: of the
// staleness of one point's workers.
function draw(box, all, histogram = [], assumed = []) {
    takeAssumptions(assumed);
    const rows = withBatchPerWorker(all), keys = [...new Set(rows.flatMap(row => {
        const names = Object.keys(row), results = names.findIndex(name => name === "step_mean_s" || name === "origin"); // origin: rows that do not fit have no step_mean_s
        return results < 0 ? [] : names.slice(0, results);
    }))];
    const drawn = [...lineFigures.map(figure => lineFigure(figure, rows, keys)), partFigure(rows, keys), stalenessFigure(rows, keys), histogram.length > 0 && workersFigure(histogram), priceFigure(rows, keys), memoryFigure(rows, keys)];
    box.replaceChildren(...drawn.filter(Boolean));
}

// --- the time line ---

const colourOfSlice = name => partColours[/push|pull|reduce|gather|copy|send|scatter|copying/.test(name) ? "communication" : /wait|barrier|lock|drain/.test(name) ? "waiting"
    : /average|server|validating/.test(name) ? "averaging" : /dispatch|launch/.test(name) ? "launches" : /input/.test(name) ? "input" : /backward/.test(name) ? "backward" : "compute"] || "#6a9fc9";

// Lanes of a Chrome trace: [{name, slices: [{name, start, end, depth, args}] by start, depth}], times in seconds.
function lanesOf(trace) {
    const lanes = new Map(), processes = new Map();
    const lane = event => {
        const id = event.pid * 1e6 + event.tid;
        if (!lanes.has(id)) lanes.set(id, { id, pid: event.pid, name: "", slices: [], depth: 1 });
        return lanes.get(id);
    };
    for (const event of trace.traceEvents) {
        if (event.ph === "M" && event.name === "process_name") processes.set(event.pid, event.args.name);
        else if (event.ph === "M" && event.name !== "memory") lane(event).name = event.args.name;
        else if (event.ph === "X") lane(event).slices.push({ name: event.name, start: Math.round(event.ts * 1e3) / 1e9, end: Math.round((event.ts + event.dur) * 1e3) / 1e9, args: event.args || {} });
    }
    const found = [...lanes.values()].filter(l => l.slices.length > 0).sort((a, b) => a.id - b.id);
    for (const l of found) {
        const open = [];
        l.slices.sort((a, b) => a.start - b.start || b.end - a.end || (b.name === "step") - (a.name === "step"));
        for (const slice of l.slices) {
            while (open.length > 0 && open.at(-1) <= slice.start) open.pop();
            slice.depth = open.push(slice.end) - 1;
            l.depth = Math.max(l.depth, open.length);
        }
        if (!l.name) l.name = processes.get(l.pid) || "";
    }
    return found;
}

// Draws the memory of a GPU over a step, by kind: constant kinds at the bottom, varying kinds on top. `of`: kB of each
// kind at the moments of the step, one number if constant (dlsim --timeline, metadata `memory`).
const memoryKinds = ["parameters", "gradients", "optimizer", "workspace", "others", "gathered", "activations", "working", "logits"];
function courseFigure(of) {
    const count = of.forward.length, kinds = memoryKinds.filter(name => of[name]), value = (name, i) => 1e3 * (of[name].length > 1 ? of[name][i] : of[name][0]);
    const sums = [new Array(count).fill(0)];
    for (const name of kinds) sums.push(sums.at(-1).map((sum, i) => sum + value(name, i)));
    const totals = sums.at(-1), peak = totals.indexOf(Math.max(...totals)), has = 1e3 * of.has_kb;
    const box = { left: 52, right: width - 96, top: 24, bottom: height - 40 }, most = 1.05 * Math.max(totals[peak], has);
    const y = axis(0, most, box.bottom, box.top, false), x = i => box.left + (box.right - box.left) * i / count;
    const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Memory at the peak, ${of.when}: ` + kinds.map(name => `${name} ${gigabytes(value(name, peak))}`).join(", ") + (has ? `, of ${gigabytes(has)}` : "") });
    frame(svg, { at: v => v, marks: [] }, y, box, "passes of a step, in their order: f forward, b backward", "GB", digits, v => digits(v / 1e9));
    const colours = kinds.map(name => memoryColours[name]), edge = (sum, i) => [[x(i), y.at(sum[i])], [x(i + 1), y.at(sum[i])]];
    kinds.forEach((name, k) => svg.append(makeSvg("path", { fill: colours[k], "fill-opacity": 0.75,
        d: pathOf([...totals.flatMap((_, i) => edge(sums[k + 1], i)), ...totals.flatMap((_, i) => edge(sums[k], i)).reverse()], true) })));
    endLabels(svg, kinds.map((name, k) => ({ y: y.at((sums[k][count - 1] + sums[k + 1][count - 1]) / 2), label: name, colour: colours[k] })).filter((end, k) => Math.max(...sums[k + 1].map((sum, i) => sum - sums[k][i])) > 0.01 * most), box);
    let from = 0;
    for (let i = 1; i <= count; i++) if (i === count || of.forward[i] !== of.forward[from]) {
        if (x(i) - x(from) > 7) svg.append(makeSvg("text", { class: "soft", x: (x(from) + x(i)) / 2, y: box.bottom + 14, "text-anchor": "middle" }, of.forward[from] ? "f" : "b"));
        from = i;
    }
    if (has) svg.append(makeSvg("path", { class: "capacity", stroke: "var(--ink)", "stroke-width": 1.6, "stroke-dasharray": "5 3", d: pathOf([[box.left, y.at(has)], [box.right, y.at(has)]]) }),
        makeSvg("text", { x: box.right + 8, y: y.at(has) + 4 }, "a GPU has"));
    svg.append(makeSvg("path", { class: "peak", stroke: "var(--ink)", d: pathOf([[x(peak + 0.5), y.at(totals[peak])], [x(peak + 0.5), y.at(totals[peak]) - 9]]) }));
    hover(svg, event => {
        const i = Math.floor((nearest(svg, event, []).x - box.left) / (box.right - box.left) * count);
        return i < 0 || i >= count ? "" : `${of.forward[i] ? "forward" : "backward"}: ${gigabytes(totals[i])}` + kinds.map(name => `\n${name}: ${gigabytes(value(name, i))}`).reverse().join("");
    });
    return figureOf([svg], `Memory of a GPU over a step, by kind${of.stage > 0 ? `, on the fullest stage, ${of.stage}` : ""}: ${gigabytes(1e3 * of.needs_kb)} at most${of.when ? ", " + of.when : ""}${has ? `, of ${gigabytes(has)}` : ""}. The allocator may keep up to 30 % more.`);
}

// Of more than LANES_EACH lanes, equal ones are drawn once: workers that wait for one another often do the same.
const LANES_EACH = 8, LANES_MOST = 48, ROW_PX = 17, NAME_PX = 120;
function differentLanes(all) {
    const near = 1e-5 * Math.max(...all.flatMap(lane => lane.slices.map(slice => slice.end))), different = [];
    const isEqual = (a, b) => a.name === b.name && Math.abs(a.start - b.start) <= near && Math.abs(a.end - b.end) <= near;
    for (const lane of all) {
        const same = different.find(({ slices }) => slices.length === lane.slices.length && slices.every((slice, i) => isEqual(slice, lane.slices[i])));
        if (same) same.count++;
        else different.push({ ...lane, count: 1 });
    }
    return different.map(lane => ({ ...lane, name: lane.count > 1 ? `${lane.name} (${lane.count} equal)` : lane.name }));
}
function timeline(box, trace, caption) {
    const each = lanesOf(trace), all = each.length > LANES_EACH ? differentLanes(each) : each, lanes = all.slice(0, LANES_MOST);
    if (lanes.length === 0) return box.replaceChildren();
    const whole = { start: Math.min(...lanes.map(l => l.slices[0].start)), end: Math.max(...lanes.flatMap(l => l.slices.map(s => s.end))) };
    // Initially shows the last three of the first six steps.
    const steps = (lanes.find(l => l.slices.some(s => s.name === "step")) || { slices: [] }).slices.filter(s => s.name === "step").slice(0, 6).slice(-3);
    const excerpt = steps.length > 0 ? { start: steps[0].start, end: steps.at(-1).end } : whole;
    let view = { ...whole }, top = 4;
    for (const l of lanes) {
        l.top = top;
        top += l.depth * ROW_PX + 4;
    }
    const tall = top + 20, canvas = make("canvas", { tabindex: 0, role: "img", height: tall,
        "aria-label": `Time line of ${lanes.length} lanes, ${seconds(whole.end - whole.start)}; keys + and - zoom, arrows move, 0 shows all` });
    const said = make("span", { role: "status" });
    const named = trace.traceEvents.find(event => event.name === "process_name" && event.pid === 1);
    const notes = named ? (named.args.name.match(/ \((first \d+ of \d+ \w+|part of the first step)\)/g) || []).join("") : "";
    const wide = () => (canvas.clientWidth || 960) - NAME_PX;
    const at = s => NAME_PX + (s - view.start) / (view.end - view.start) * wide();
    function redraw() {
        const context = canvas.getContext && canvas.getContext("2d"), ratio = globalThis.devicePixelRatio || 1;
        if (!context || !canvas.clientWidth) return;
        const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--ink"), soft = style.getPropertyValue("--soft"), line = style.getPropertyValue("--line");
        canvas.width = canvas.clientWidth * ratio;
        canvas.height = tall * ratio;
        canvas.style.height = tall + "px";
        context.scale(ratio, ratio);
        context.font = "11px system-ui, sans-serif";
        context.textBaseline = "middle";
        for (const l of lanes) {
            context.fillStyle = ink;
            context.fillText(cut(l.name, 20), 2, l.top + ROW_PX / 2, NAME_PX - 6);
            context.save();
            context.beginPath();
            context.rect(NAME_PX, 0, wide(), tall);
            context.clip();
            for (const s of l.slices) {
                if (s.end < view.start || s.start > view.end) continue;
                const x = at(s.start), long = Math.max(0.5, at(s.end) - x), y = l.top + s.depth * ROW_PX;
                context.fillStyle = s.name === "step" ? line : colourOfSlice(s.name);
                context.fillRect(x, y, long - (long > 3 ? 0.5 : 0), ROW_PX - 2);
                if (long > 6.5 * s.name.length) {
                    context.fillStyle = s.name === "step" ? ink : "#fff";
                    context.fillText(s.name, Math.max(x, NAME_PX) + 3, y + ROW_PX / 2 - 1);
                }
            }
            context.restore();
        }
        const { marks } = axis(view.start - whole.start, view.end - whole.start, 0, 1, false);
        context.fillStyle = soft;
        for (const v of marks) context.fillText(seconds(v), at(v + whole.start) + 2, tall - 8);
    }
    function look(start, end) {
        const span = Math.min(whole.end - whole.start, Math.max((whole.end - whole.start) / 1e5, end - start));
        const from = Math.max(whole.start, Math.min(whole.end - span, start));
        view = { start: from, end: from + span };
        said.textContent = `${seconds(view.start - whole.start)} to ${seconds(view.end - whole.start)}`;
        redraw();
    }
    const zoom = (factor, centre = (view.start + view.end) / 2) => look(centre - (centre - view.start) * factor, centre + (view.end - centre) * factor);
    const move = part => look(view.start + part * (view.end - view.start), view.end + part * (view.end - view.start));
    const timeAt = event => view.start + (event.clientX - canvas.getBoundingClientRect().left - NAME_PX) / wide() * (view.end - view.start);
    const keys = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25), 0: () => look(whole.start, whole.end) };
    canvas.addEventListener("keydown", event => {
        if (event.ctrlKey || event.metaKey || !keys[event.key]) return;
        keys[event.key]();
        event.preventDefault();
    });
    canvas.addEventListener("wheel", event => {
        if (!event.ctrlKey && !event.shiftKey) return; // without a modifier key the page scrolls
        event.preventDefault();
        zoom((event.deltaY || event.deltaX) > 0 ? 1.3 : 1 / 1.3, timeAt(event));
    }, { passive: false });
    let held = null;
    canvas.addEventListener("pointerdown", event => { held = { x: event.clientX, ...view }; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", event => {
        if (!held) return;
        const shift = (held.x - event.clientX) / wide() * (held.end - held.start);
        look(held.start + shift, held.end + shift);
    });
    canvas.addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("dblclick", event => zoom(0.4, timeAt(event)));
    hover(canvas, event => {
        const y = event.clientY - canvas.getBoundingClientRect().top, t = timeAt(event);
        const l = lanes.find(l => y >= l.top && y < l.top + l.depth * ROW_PX), depth = l && Math.floor((y - l.top) / ROW_PX);
        const s = l && l.slices.find(s => s.depth === depth && s.start <= t && t < s.end);
        return s ? `${l.name}: ${s.name}\n${seconds(s.end - s.start)}, from ${seconds(s.start - whole.start)}` +
            Object.entries(s.args).map(([key, value]) => `\n${key}: ${key === "bytes" ? short(value) + "B" : typeof value === "number" ? digits(value) : value}`).join("") : "";
    });
    const button = (text, label, run) => make("button", { type: "button", "aria-label": label, on: { click: run } }, text);
    box.replaceChildren(make("figure", { class: "wide" }, make("div", { class: "zoom" }, button("+", "Zoom in", keys["+"]), button("\u2212", "Zoom out", keys["-"]),
        button("\u2190", "Earlier", keys.ArrowLeft), button("\u2192", "Later", keys.ArrowRight), button("All", "All of the time", keys[0]), said), canvas,
        make("figcaption", {}, caption + notes + (all.length < each.length ? "; equal lanes are drawn once" : "") + (all.length > lanes.length ? `; the first ${lanes.length} of ${all.length} lanes` : ""))),
        ...trace.traceEvents.filter(event => event.name === "memory" && event.ph === "M").map(event => courseFigure(event.args)));
    look(excerpt.start, excerpt.end);
    if (globalThis.ResizeObserver) new ResizeObserver(redraw).observe(canvas);
}

// Draws the page's own results from two data elements, and adds the link to save them.
function show() {
    const data = JSON.parse(element("figures-data").textContent), trace = element("timeline-data"), link = element("results-link");
    if (data.rows) element("figures").replaceChildren(...[false, true].map(overWorkers => errorFigure(parseCsv(data.rows), overWorkers)).filter(Boolean));
    else draw(element("figures"), parseCsv(data.results), parseCsv(data.staleness || ""), parseAssumed(data.results));
    if (trace) timeline(element("timeline"), JSON.parse(trace.textContent), data.timeline_of);
    if (link) link.href = URL.createObjectURL(new Blob([data.results], { type: "text/csv" }));
}
return { element, make, digits, percent, seconds, gigabytes, valueText, valueOfKey, parseCsv, draw, timeline, show };
})();
