// Controls of a live page: they run the simulator, dlsim as WebAssembly, again with changed settings.
// All output is inserted as text.
"use strict";
(() => {
const { element, make, digits, percent, seconds, gigabytes, valueText, valueOfKey } = dlscale;
const data = JSON.parse(element("live-data").textContent);
const root = element("live");
const isStudy = data.scenario !== undefined;

document.head.append(make("style", {}, `
#live form { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: 0.6rem 1.2rem; margin: 0.8rem 0; }
#live fieldset { border: 0; padding: 0; margin: 0; min-width: 0; display: contents; }
#live label { display: block; font-size: 0.9rem; color: var(--soft); }
#live input, #live select, #live button { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid var(--line); border-radius: 4px; padding: 0.25rem 0.4rem; }
#live input[type=range] { padding: 0; flex: 1; min-width: 0; }
#live .pair { display: flex; gap: 0.5rem; align-items: center; }
#live .pair input[type=number] { width: 6.5rem; }
#live .wide { width: 100%; }
#live .answer { font-size: 1.15rem; min-height: 3.4em; }
#live .answer strong { font-size: 1.5rem; }
#live .problem { color: var(--bad); white-space: pre-wrap; }
#live .command .scroll { flex: 1; margin: 0; min-width: 0; }
#live [hidden] { display: none; }
#live td { white-space: nowrap; }
#live .command { display: flex; gap: 0.5rem; align-items: flex-start; margin: 0.6rem 0; }
#live .command code { flex: 1; background: var(--tint); border-radius: 4px; padding: 0.35rem 0.5rem; overflow-wrap: anywhere; font-size: 0.85rem; }
#live .command code span { display: inline-block; max-width: 100%; }
`));

// --- the simulator, in a web worker, so that the page stays responsive while it runs ---

const workerText = `
let factory, compiled;
// Bytes of a text in base 85: five digits, most significant first, for each four bytes, big-endian. A text
// whose length is no multiple of five is completed by the highest digit, and its bytes are cut accordingly.
function decode85(text) {
    const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%.()*+-;,=>?@^_:{|}~";
    const value = new Uint8Array(128), words = new DataView(new ArrayBuffer(4 * Math.ceil(text.length / 5)));
    for (let i = 0; i < digits.length; i++) value[digits.charCodeAt(i)] = i;
    for (let at = 0, i = 0; i < text.length; at += 4) {
        let word = 0;
        for (const end = i + 5; i < end; i++) word = word * 85 + (i < text.length ? value[text.charCodeAt(i)] : 84);
        words.setUint32(at, word);
    }
    return new Uint8Array(words.buffer, 0, Math.floor(text.length * 4 / 5));
}
// The contents of a file of the format .lzma that states its size (lzma-specification.txt of the LZMA SDK):
// parameters (1 byte), size of the dictionary (4), size of the contents (8), data of a range coder.
function unlzma(packed) {
    const lc = packed[0] % 9, lp = (packed[0] / 9 | 0) % 5, pb = packed[0] / 45 | 0;
    const out = new Uint8Array(new DataView(packed.buffer).getUint32(5, true));
    const odds = count => new Uint16Array(count).fill(1024); // of a zero, in 1/2048
    const lengths = () => ({ choice: odds(2), low: odds(128), middle: odds(128), high: odds(256) });
    const literal = odds(0x300 << lc + lp), isMatch = odds(192), isRepeat = odds(12), isOther = odds(12);
    const isThird = odds(12), isFourth = odds(12), isLong = odds(192), matched = lengths(), repeated = lengths();
    const slots = odds(256), middles = odds(115), lowest = odds(16);
    const history = [0, 0, 0, 0]; // the last four distances, less one
    let range = 0xffffffff, code = new DataView(packed.buffer).getUint32(14), at = 18, n = 0, state = 0;
    function refill() {
        if (range >= 0x1000000) return;
        range *= 256;
        code = code * 256 + packed[at++];
    }
    function bit(odds, i) {
        const bound = (range >>> 11) * odds[i], isOne = code >= bound;
        if (isOne) { range -= bound; code -= bound; odds[i] -= odds[i] >> 5; }
        else { range = bound; odds[i] += 2048 - odds[i] >> 5; }
        refill();
        return isOne ? 1 : 0;
    }
    function bits(count) { // of even odds
        let value = 0;
        for (; count > 0; count--) {
            range >>>= 1;
            value = value * 2 + (code >= range);
            if (code >= range) code -= range;
            refill();
        }
        return value;
    }
    function tree(odds, first, count) { // highest bit first
        let node = 1;
        for (let i = 0; i < count; i++) node = node << 1 | bit(odds, first + node);
        return node - (1 << count);
    }
    function reverseTree(odds, first, count) {
        let node = 1, value = 0;
        for (let i = 0; i < count; i++) { const b = bit(odds, first + node); node = node << 1 | b; value |= b << i; }
        return value;
    }
    function length(of, position) {
        if (!bit(of.choice, 0)) return 2 + tree(of.low, position << 3, 3);
        return bit(of.choice, 1) ? 18 + tree(of.high, 0, 8) : 10 + tree(of.middle, position << 3, 3);
    }
    function distance(length) {
        const slot = tree(slots, Math.min(length - 2, 3) << 6, 6), count = (slot >> 1) - 1;
        if (slot < 4) return slot;
        const high = (2 | slot & 1) * 2 ** count;
        return slot < 14 ? high + reverseTree(middles, high - slot, count)
            : high + bits(count - 4) * 16 + reverseTree(lowest, 0, 4);
    }
    function literalByte() {
        const first = 0x300 * (((n & (1 << lp) - 1) << lc) + (n > 0 ? out[n - 1] >> 8 - lc : 0));
        let symbol = 1;
        if (state >= 7) // after a match: beside the byte that the match would have continued with
            for (let other = out[n - history[0] - 1], same = true; same && symbol < 256; other <<= 1) {
                const expected = other >> 7 & 1, b = bit(literal, first + (1 + expected << 8) + symbol);
                symbol = symbol << 1 | b;
                same = b === expected;
            }
        while (symbol < 256) symbol = symbol << 1 | bit(literal, first + symbol);
        return symbol;
    }
    while (n < out.length) {
        const position = n & (1 << pb) - 1;
        let count = 1;
        if (!bit(isMatch, (state << 4) + position)) {
            const byte = literalByte();
            out[n++] = byte;
            state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
            continue;
        }
        if (!bit(isRepeat, state)) {
            count = length(matched, position);
            history.unshift(distance(count));
            history.pop();
            state = state < 7 ? 7 : 10;
        } else {
            const which = !bit(isOther, state) ? 0 : !bit(isThird, state) ? 1 : 2 + bit(isFourth, state);
            history.unshift(...history.splice(which, 1));
            const isByte = which === 0 && !bit(isLong, (state << 4) + position);
            if (!isByte) count = length(repeated, position);
            state = (state < 7 ? 8 : 11) + (isByte && state < 7);
        }
        for (const end = n + count; n < end; n++) out[n] = out[n - history[0] - 1];
    }
    return out;
}
const unpack = text => unlzma(decode85(text));
async function run(args, files, folder, read) {
    const out = [], error = [];
    const core = await factory({
        instantiateWasm(imports, use) { WebAssembly.instantiate(compiled, imports).then(use); return {}; },
        print: line => out.push(line), printErr: line => error.push(line),
        quit(status, thrown) { throw thrown; },
        preRun: [m => {
            m.ENV.DLSCALE_SHARE = "/share";
            m.FS.mkdirTree(folder);
            m.FS.chdir(folder);
            for (const [name, text] of Object.entries(files)) {
                const path = name.startsWith("/") ? name : folder + "/" + name;
                m.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
                m.FS.writeFile(path, text);
            }
        }],
    });
    let status;
    try {
        status = core.callMain(args);
    } catch (thrown) {
        if (thrown.name !== "ExitStatus") throw thrown;
        status = thrown.status;
    }
    const text = read && core.FS.analyzePath(folder + "/" + read).exists ? core.FS.readFile(folder + "/" + read, { encoding: "utf8" }) : undefined;
    return { status, out: out.join("\\n"), error: error.join("\\n"), text };
}
onmessage = async ({ data }) => {
    try {
        if (data.glue) {
            const glue = new TextDecoder().decode(unpack(data.glue));
            factory = new Function(glue + "; return dlsim_core;")();
            compiled = await WebAssembly.compile(unpack(data.core));
            postMessage({ number: data.number });
        } else {
            postMessage({ number: data.number, ...await run(data.args, data.files, data.folder, data.read) });
        }
    } catch (thrown) {
        postMessage({ number: data.number, failed: String(thrown && thrown.stack || thrown) });
    }
};`;
const workerUrl = URL.createObjectURL(new Blob([workerText], { type: "text/javascript" }));
const stopped = new Error("Stopped.");
// Returns a worker that runs the simulator: run(message) waits until it can, and end() ends all that it does, whose
// callers get the error `stopped`.
function startWorker() {
    const worker = new Worker(workerUrl), waiting = new Map();
    let messages = 0;
    const ask = message => new Promise((resolve, reject) => {
        waiting.set(++messages, { resolve, reject });
        worker.postMessage({ ...message, number: messages });
    });
    const rejectAll = error => {
        const all = [...waiting.values()];
        waiting.clear();
        all.forEach(({ reject }) => reject(error));
    };
    worker.onmessage = ({ data: answer }) => {
        const { resolve, reject } = waiting.get(answer.number);
        waiting.delete(answer.number);
        answer.failed ? reject(new Error(answer.failed)) : resolve(answer);
    };
    worker.onerror = event => rejectAll(new Error(event.message));
    const ready = ask({ glue: element("live-glue").textContent, core: element("live-core").textContent });
    ready.catch(() => {}); // run() reports it
    return {
        async run(message) {
            await ready;
            return ask({ ...message, folder });
        },
        end() {
            worker.onmessage = worker.onerror = null;
            worker.terminate();
            rejectAll(stopped);
        },
    };
}

let main, busy = 0; // the worker of the controls, and the number of its simulations
function stopMain() {
    main.end();
    main = startWorker();
}

// Runs the simulator for the controls, and shows the button Stop meanwhile.
async function simulate(message) {
    busy++;
    stopButton.hidden = false;
    try {
        return await main.run({ ...message, files });
    } finally {
        stopButton.hidden = --busy === 0;
    }
}

// A deep folder, so that the scenario's relative file names, including those with "..", resolve as before.
const folder = "/a/b/c/d/e/f/g/h";
const scenarioName = !isStudy || data.scenario.startsWith("(") ? "scenario.ini" : data.scenario;
const files = isStudy ? { ...data.files, [scenarioName]: data.text } : {};
const always = ["--threads", "1", "--long", "--journal", "off", "--quiet"];
const commandOf = args => ({ args: [...(isStudy ? [scenarioName] : []), ...args, ...always, "--json", "-"], files });
const withoutName = message => message.replace(/^dlsim: (\(command line\): )?/, "");
// The results, and `unfit`: what the program says if no point fits into memory.
function rowsOf(answer) {
    if (answer.status !== 0 && answer.status !== 3) throw new Error(answer.error || answer.out || "exit " + answer.status);
    return { ...JSON.parse(answer.out), unfit: answer.status === 3 ? withoutName(answer.error) : "" };
}

// --- controls ---

const controls = {}; // by name: {value(), set(value), box}
const listed = {};   // inputs' datalists
function add(name, label, input, ...beside) {
    input.id = "live-" + name;
    const box = make("div", {}, make("label", { for: input.id }, label), beside.length > 0 ? make("div", { class: "pair" }, ...beside, input) : input);
    controls[name] = { box, input, value: () => input.value.trim(), set: value => { input.value = value; input.dispatchEvent(new Event("sync")); } };
    return box;
}

// Adds a number input with a slider in powers of two.
function number(name, label, most, start) {
    const input = make("input", { type: "number", min: 1, step: 1, value: start, on: { input: edited } });
    const range = make("input", { type: "range", min: 0, max: Math.log2(most), step: 1, value: Math.log2(start), "aria-label": label + ", in powers of two",
        on: { input() { input.value = 2 ** range.value; edited(); } } });
    const follow = () => { if (input.value > 0) range.value = Math.log2(input.value); };
    input.addEventListener("input", follow);
    input.addEventListener("sync", follow);
    return add(name, label, input, range);
}

function choice(name, label, values) {
    return add(name, label, make("select", { class: "wide", on: { change: edited } }, ...values.map(value =>
        make("option", { value: Array.isArray(value) ? value[0] : value }, Array.isArray(value) ? value[1] : value))));
}

function text(name, label, placeholder, words) {
    const input = make("input", { type: "text", class: "wide", placeholder, autocomplete: "off", spellcheck: "false", on: { change: edited } });
    if (words) {
        listed[name] = make("datalist", { id: "live-list-" + name });
        input.setAttribute("list", "live-list-" + name);
    }
    const box = add(name, label, input);
    if (words) box.append(listed[name]);
    return box;
}

const onGpus = !isStudy || data.gpus;
const perWorker = !isStudy || data.batch_per_worker, setsBatch = !isStudy || !data.generators, setsWorkers = !isStudy || !data.placement;
// The text of a study without a file, for use with the command.
function fromFile() {
    if (!isStudy || !data.scenario.startsWith("(")) return [];
    const scenario = make("pre", {}, data.text);
    const box = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "scenario.ini" }, scenario);
    return [make("details", {}, make("summary", {}, "scenario.ini of this command"),
        make("div", { class: "command" }, box, copier("Copy", scenario)))];
}

const form = make("fieldset", { disabled: true },
    ...(isStudy ? [] : [
        choice("workload", "Network", [["", "own numbers"]]),
        number("samples_per_s", "Samples a second of one GPU", 65536, 512),
        text("parameters", "Parameters", "25.6M")]),
    ...(onGpus ? [text("machine", isStudy ? "Machine, in place of the scenario's" : "Machine, or GPUs", isStudy ? "as it is" : "8xh100", true)] : []),
    ...(setsWorkers ? [number("workers", "Workers", 1024, 8)] : []),
    ...(setsBatch ? [number("batch", perWorker ? "Batch of each worker" : "Batch of all workers", 65536, 32)] : []),
    choice("mode", "How they exchange", data.modes.map(mode => mode.name)),
    number("interval", "Steps between two averages", 4096, 16),
    text("bound", "Bound on staleness", "none"),
    text("k", "Gradients of an update", "2"),
    ...(onGpus ? [text("layout", "GPUs of a worker", isStudy ? "as it is; pp=2,fsdp=4" : "one; pp=2,fsdp=4"), text("port", "Rate of a node's network port", "as it is; 10Gb/s"),
        text("sites", "Sites with equal parts of the nodes", "as it is; 2"), text("site_rate", "Rate between sites", "as it is; 1Gb/s"),
        text("site_latency", "Latency between sites, one way", "as it is; 20ms"),
        text("price", "Price of a node, USD an hour", "as it is")] : []));
const stopButton = make("button", { type: "button", id: "live-stop", on: { click() { again = false; stopMain(); } } }, "Stop");
stopButton.hidden = true;
const status = make("p", { role: "status", "aria-live": "polite" }, "The simulator starts ...");
const answer = make("p", { class: "answer" });
const checked = make("p", { class: "sources", id: "live-checked" });
const chart = make("div", { class: "figures" }), line = make("div", { class: "figures" }), table = make("div");
const command = make("code", { id: "live-command" });
// Shows a command, whose lines break between its words only, not behind "--".
function showCommand(words) {
    command.replaceChildren(...words.flatMap((word, i) => [i > 0 ? " " : "", make("span", {}, quoted(word))]));
}
// Returns a button that copies the text of element `source`, or selects it if the browser forbids copying.
function copier(label, source) {
    const button = make("button", { type: "button", on: { async click() {
        try {
            await navigator.clipboard.writeText(source.textContent);
            button.textContent = "Copied";
        } catch {
            getSelection().selectAllChildren(source);
            button.textContent = "Selected: press Ctrl-C";
        }
        setTimeout(() => { button.textContent = label; }, 2000);
    } } }, label);
    return button;
}
const notes = make("ul", { class: "remarks" });
const rests = make("details", {}, make("summary", {}, "What this rests on"), notes);
rests.hidden = true;
root.append(make("form", { on: { submit: event => event.preventDefault() } }, form), answer, status, stopButton, checked,
    make("div", { class: "command" }, command, copier("Copy", command)), ...fromFile(), chart,
    make("p", {}, make("button", { type: "button", id: "live-line", on: { click: () => showLine().catch(error => say(withoutName(error.message), error !== stopped)) } }, "Draw the time line of a step")), line, table, rests);

const ofModes = ["interval", "bound", "k"];
const machineKeys = { port: "machine.port_bytes_per_s", sites: "network.sites", site_rate: "machine.site_bytes_per_s", site_latency: "network.site_latency_ns",
    price: "machine.price_usd_per_hour" };
const valueOf = name => controls[name] ? controls[name].value() : "";
const modeTakes = (mode, name) => data.modes.find(of => of.name === mode)[name];
const takes = name => modeTakes(valueOf("mode"), name);
const hideOthers = () => ofModes.forEach(name => { controls[name].box.hidden = !takes(name); });
const batchOf = point => perWorker ? point.batch / point.workers : point.batch;

// Returns dlsim's arguments for this list of workers and the values of the controls, value(name), "" if there is none.
function settings(workers, value = valueOf) {
    const optional = (name, option) => value(name) !== "" ? [option(value(name))].flat() : [];
    const takes = name => modeTakes(value("mode"), name);
    return [
        ...(isStudy ? [] : value("workload") ? ["--workload", value("workload")]
            : ["--samples-per-s", value("samples_per_s"), ...optional("parameters", text => ["--parameters", text])]),
        ...optional("machine", text => ["--machine", text]),
        ...(setsWorkers ? ["--workers", workers.join(",")] : []),
        ...(setsBatch ? [perWorker ? "--batch-per-worker" : "--batch", String(value("batch"))] : []),
        "--mode", value("mode"),
        ...(takes("interval") ? ["--interval", String(value("interval"))] : []),
        ...["bound", "k"].filter(takes).flatMap(name => optional(name, text => ["--set", `sync.${name}=${text}`])),
        ...optional("layout", text => ["--layout", text]),
        ...Object.entries(machineKeys).flatMap(([name, key]) => optional(name, text => ["--set", key + "=" + text])),
    ];
}

const quoted = word => /^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
// Returns 1, 2, 4, ... below the number of workers, and that number; for modes with k gradients per update without those
// of the former that are < k.
function workerCounts() {
    if (!setsWorkers) return data.points.map(point => point.workers);
    const most = Math.max(1, Math.floor(Number(controls.workers.value()) || 1)), counts = [];
    const least = takes("k") ? Number(controls.k.value()) || 1 : 1;
    for (let n = 1; n < most; n *= 2) if (n >= least) counts.push(n);
    return [...counts, most];
}

// --- output ---

const fractions = { compute_frac: "compute", dispatch_frac: "launches", communication_frac: "communication",
    averaging_frac: "averaging", waiting_frac: "waiting", input_frac: "input" };
const nameOf = row => row.sync + (row.interval ? " every " + row.interval : "");

// `swept`: names of the scenario's swept keys that differ among the rows.
function showAnswer(row, swept) {
    const part = Object.entries(fractions).filter(([key]) => row[key] >= 0.01)
        .map(([key, name]) => name + " " + percent(row[key])).join(", ");
    const staleness = row.staleness_mean > 0 ? ` Gradients are ${digits(row.staleness_mean)} updates old on average.` : "";
    const interval = row.throughput_low_per_s ? ` (95 %: ${digits(row.throughput_low_per_s)} to ${digits(row.throughput_high_per_s)})` : "";
    answer.replaceChildren(make("strong", {}, digits(row.throughput_per_s) + " samples/s"),
        `${interval}${row.speedup ? `, speedup ${digits(row.speedup)}` : ""}, with ${row.workers} worker${row.workers === 1 ? "" : "s"}, ${[nameOf(row), ...swept.map(key => valueOfKey(key, row[key]))].join(", ")}. ` +
        `A step takes ${seconds(row.step_mean_s)}: ${part}.${staleness}` +
        (row.memory_bytes > 0 ? ` Memory of a GPU: ${gigabytes(row.memory_bytes)}.` : "") +
        (row.usd_per_hour > 0 ? ` ${digits(row.usd_per_hour)} USD an hour, ${digits(row.usd_per_hour / row.throughput_per_s / 3600 * 1e6)} for a million samples.` : ""));
}

const columns = [
    ["workers", row => row.workers], ["exchange", nameOf, true], ["batch", row => row.batch], ["step", row => seconds(row.step_mean_s)],
    ["samples/s", row => digits(row.throughput_per_s)],
    ["95 %", row => row.throughput_low_per_s ? digits(row.throughput_low_per_s) + " to " + digits(row.throughput_high_per_s) : ""],
    ["speedup", row => digits(row.speedup)], ["compute", row => percent(row.compute_frac)],
    ["communication", row => percent(row.communication_frac)], ["staleness", row => row.staleness_mean > 0 ? digits(row.staleness_mean) : ""],
    ["USD/h", row => row.usd_per_hour > 0 ? digits(row.usd_per_hour) : ""]];

function showTable(rows, best, swept) {
    const shown = [...columns.slice(0, 2), ...swept.map(key => [key, row => valueText(key, row[key]), true]), ...columns.slice(2)].filter(([, cell]) => rows.some(row => cell(row) !== ""));
    const body = rows.map(row => make("tr", row === best ? { class: "best" } : {}, ...shown.map(([, cell, isText]) =>
        make("td", isText ? {} : { class: "number" }, String(cell(row))))));
    table.replaceChildren(make("div", { class: "scroll table", role: "region", tabindex: 0, "aria-label": "Points" }, make("table", {},
        make("caption", {}, "Simulated in this page"),
        make("thead", {}, make("tr", {}, ...shown.map(([heading, , isText]) => make("th", isText ? { scope: "col" } : { scope: "col", class: "number" }, heading)))),
        make("tbody", {}, ...body))));
}

// Names of swept keys in which the rows differ.
const differing = (names, rows) => names.filter(key => key !== "interval" && rows.some(row => row[key] !== rows[0][key]));

// `histogram`: of the staleness of all points' workers.
function show(results, chosen, histogram) {
    const rows = results.rows.filter(row => row.throughput_per_s > 0);
    const best = chosen || rows.reduce((a, b) => a && a.throughput_per_s >= b.throughput_per_s ? a : b, null);
    const swept = differing((results.swept || []).map(key => key.column), rows);
    if (best) showAnswer(best, swept);
    else answer.replaceChildren(results.unfit ? results.unfit[0].toUpperCase() + results.unfit.slice(1) + "." : "No point fits.");
    line.replaceChildren();
    showTable(rows.slice(0, 200), best, swept);
    const keys = ["workers", "sync", "batch", "interval", ...swept];
    dlscale.draw(chart, rows, best ? histogram.filter(row => keys.every(key => String(row[key] ?? "") === String(best[key] ?? ""))) : [], results.assumed);
    rests.hidden = false;
    notes.replaceChildren(...results.notes.map(note => make("li", {}, note)),
        ...(results.assumed || []).map(a => make("li", {}, `assumed [${a.section}] ${a.key} = ${a.value}${a.low !== undefined && a.low !== a.high ? ` (${digits(a.low)} to ${digits(a.high)})` : ""}: ${a.source}`)));
}

function say(message, isProblem) {
    status.textContent = message;
    status.className = isProblem ? "problem" : "";
}

// --- running ---

const PATIENCE_MS = 500; // a shorter simulation ends sooner than a new worker starts
let running = false, again = false, timer = 0, replacing = 0;
function edited() {
    clearTimeout(timer);
    timer = setTimeout(update, 120);
}

async function update() {
    hideOthers();
    if (!isStudy) {
        const own = controls.workload.value() === "";
        controls.samples_per_s.box.hidden = controls.parameters.box.hidden = !own;
    }
    const counts = workerCounts();
    showCommand(["dlsim", ...(isStudy && !data.scenario.startsWith("(") ? [data.scenario] : isStudy ? ["scenario.ini"] : []), ...settings(counts)]);
    if (running) {
        if (!again) replacing = setTimeout(stopMain, PATIENCE_MS);
        again = true;
        return;
    }
    running = true;
    const start = performance.now(), passed = () => (performance.now() - start) / 1000;
    const ticking = setInterval(() => say(`Simulating for ${Math.round(passed())} s ...`), 1000);
    say("Simulating ...");
    try {
        const made = "histogram.csv", run = commandOf([...settings(counts), "--histogram", made]);
        const done = await simulate({ ...run, read: made }).finally(() => clearInterval(ticking)), results = rowsOf(done);
        const most = results.rows.filter(row => row.workers === counts.at(-1) && row.throughput_per_s > 0);
        show(results, most.reduce((a, b) => a && a.throughput_per_s >= b.throughput_per_s ? a : b, null), dlscale.parseCsv(done.text || ""));
        say(`Simulated in ${seconds(passed())}.`);
    } catch (error) {
        if (error === stopped) {
            if (!form.disabled) say("Stopped: the answer is that of earlier settings.");
        } else {
            for (const box of [answer, chart, line, table, notes]) box.replaceChildren(); // those are of other settings
            rests.hidden = true;
            say(withoutName(error.message), true);
        }
    }
    clearTimeout(replacing);
    running = false;
    if (again) {
        again = false;
        update();
    }
}

// Simulates the largest number of workers once more and shows the time line of its fastest point.
async function showLine() {
    const counts = workerCounts(), chosen = settings([counts.at(-1)]), made = "timeline.json";
    say("Simulating ...");
    const { rows, swept = [] } = rowsOf(await simulate(commandOf(chosen)));
    const fastest = rows.reduce((a, b, i) => b.throughput_per_s > (rows[a].throughput_per_s || 0) ? i : a, 0), keys = differing(swept.map(key => key.column), rows);
    const answer = await simulate({ args: [...(isStudy ? [scenarioName] : []), ...chosen, ...always, "--point", String(fastest + 1), "--timeline", made], read: made });
    if (answer.status !== 0) throw new Error(answer.error || answer.out);
    dlscale.timeline(line, JSON.parse(answer.text), `${rows[fastest].workers} workers, ${[nameOf(rows[fastest]), ...keys.map(key => valueOfKey(key, rows[fastest][key]))].join(", ")}: the first steps`);
    say("");
}

// --- the page's own results ---

// Shows the answer of row `number` of the results.
function showOwn(number) {
    const own = element("figures-data"); // absent if the results are too long for the page
    if (!own) return;
    const rows = dlscale.parseCsv(JSON.parse(own.textContent).results);
    if (rows[number].throughput_per_s > 0) showAnswer(rows[number], differing(data.swept, rows));
    else answer.replaceChildren("No point of the results fits.");
}

// All points are simulated again if these are at most EACH_MOST with EVENTS_MOST events in all, about a second in a
// browser; else the cheapest ones, FEW_MOST or less, at least one.
const EACH_MOST = 200, FEW_MOST = 8, EVENTS_MOST = 1e6;
function cheapPoints() {
    const ran = data.points.filter(point => point.throughput_per_s > 0).sort((a, b) => a.events - b.events);
    let events = 0;
    const cheap = ran.filter((point, i) => (events += point.events) <= EVENTS_MOST || i === 0);
    return cheap.length === ran.length && data.points.length <= EACH_MOST ? null : cheap.slice(0, FEW_MOST);
}

const isSame = (here, there) => !(here > 0) && !(there > 0) || Math.abs(here - there) <= 1e-9 * there;
const differs = (point, here) => `point ${data.points.indexOf(point) + 1} is ${here} samples/s here, ${digits(point.throughput_per_s)} in the results`;

// Compares throughputs of the page's simulator with those of the program that wrote the page, in `worker`. Describes the
// first difference; "" if there is none.
async function differenceOfAll(worker) {
    const { rows } = rowsOf(await worker.run(commandOf([])));
    if (rows.length !== data.points.length) return `${rows.length} points here, ${data.points.length} in the results`;
    const other = rows.findIndex((row, i) => !isSame(row.throughput_per_s, data.points[i].throughput_per_s));
    return other < 0 ? "" : differs(data.points[other], digits(rows[other].throughput_per_s));
}
async function differenceOf(worker, points) {
    for (const [i, point] of points.entries()) {
        checked.textContent = `Comparing ${points.length} of the ${data.points.length} points of the results with the simulator in this page: ${i} done.`;
        const value = name => ({ batch: batchOf(point), mode: point.sync })[name] ?? (ofModes.includes(name) ? point[name] : undefined) ?? "";
        const { rows } = rowsOf(await worker.run(commandOf(settings([point.workers], value))));
        if (!rows.some(row => isSame(row.throughput_per_s, point.throughput_per_s))) return differs(point, rows.map(row => digits(row.throughput_per_s)).join(", "));
    }
    return "";
}

// Compares in a worker of its own, so that the controls can be used meanwhile; a difference disables them.
async function compare() {
    const worker = startWorker(), points = cheapPoints(), count = data.points.length;
    checked.textContent = "Comparing the results with the simulator in this page ...";
    const why = await (points ? differenceOf(worker, points) : differenceOfAll(worker)).catch(error => error.message);
    worker.end();
    if (why === "") {
        checked.textContent = `Checked: the simulator in this page gives the same throughput for ${points ? `${points.length} of the ${count} points of the results, those that take the least time`
            : count === 1 ? "the point of the results" : `all ${count} points of the results`}.`;
        return;
    }
    checked.textContent = "";
    form.disabled = true;
    again = false;
    main.end();
    say(`The simulator in this page is of another version (${data.core}) than the results (${data.version}), so the controls are off: ${why}.`, true);
}

async function begin() {
    main = startWorker();
    await (document.readyState === "loading" ? new Promise(done => document.addEventListener("DOMContentLoaded", done)) : null);
    const words = async option => (await main.run({ args: ["--complete", option, ""], files: {} })).out.split("\n").filter(Boolean);
    if (listed.machine) listed.machine.append(...(await words("machine")).map(value => make("option", { value })));
    if (!isStudy) {
        const networks = await words("workload");
        controls.workload.input.append(...networks.map(value => make("option", { value }, value)));
        controls.workload.set("resnet50");
        controls.machine.set("8xh100");
        controls.parameters.set("25.6M");
        controls.mode.set("allreduce");
        form.disabled = false;
        return update();
    }
    const best = data.points.reduce((a, b) => !b.throughput_per_s || a && a.throughput_per_s >= b.throughput_per_s ? a : b, null) || data.points[0];
    if (setsWorkers) controls.workers.set(best.workers);
    if (setsBatch) controls.batch.set(batchOf(best));
    controls.mode.set(best.sync);
    controls.interval.set(best.interval || 16);
    for (const name of ["bound", "k"]) if (best[name] !== undefined) controls[name].set(best[name]);
    hideOthers();
    showOwn(data.points.indexOf(best));
    showCommand(["dlsim", scenarioName]);
    say("");
    form.disabled = false;
    return compare();
}
begin().catch(error => say("The simulator does not run in this browser: " + error.message, true));
})();
